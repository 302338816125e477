//! An SNMP agent that does whatever the test wants with each datagram: a raw UDP socket in the test itself, with a reader and a
//! writer of BER that share nothing with the operator's.

use crate::device::local_rules;
use fencing_api::pdu::PduDriver;
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::pdu::{Pdu, PduSettings, secret_keys};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

/// Longer than anything takes on the busiest machine.
pub const ENDLESS: Duration = Duration::from_secs(60);
/// The community, which must show up nowhere.
pub const COMMUNITY: &str = "correct horse battery staple";

/// A question of version 2c as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// SET, and not GET.
    pub is_set: bool,
    /// Its object identifiers, as whole elements.
    pub names: Vec<Vec<u8>>,
    /// The whole datagram.
    pub datagram: Vec<u8>,
    /// How many datagrams came before it.
    pub earlier: usize,
    /// Who asks.
    pub from: SocketAddr,
    request_id: Vec<u8>,
}

/// What comes back: datagrams, each after a pause.
pub type Answers = Vec<(Duration, Vec<u8>)>;

/// INTEGER, for numbers that fit into one octet.
pub fn int(number: u8) -> Vec<u8> {
    vec![2, 1, number]
}

/// An element.
pub fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let length = u16::try_from(contents.len()).unwrap().to_be_bytes();
    [&[tag, 0x82], &length[..], contents].concat()
}

impl Question {
    /// Tag and contents of the first element, and the rest.
    pub fn split(bytes: &[u8]) -> (u8, &[u8], &[u8]) {
        let (head, length) = match bytes[1] {
            0x81 => (3, usize::from(bytes[2])),
            0x82 => (4, usize::from(bytes[2]) << 8 | usize::from(bytes[3])),
            short => (2, usize::from(short)),
        };
        let (element, rest) = bytes[head..].split_at(length);
        (bytes[0], element, rest)
    }

    fn read(datagram: &[u8], earlier: usize, from: SocketAddr) -> Self {
        let (_, message, _) = Self::split(datagram);
        let (_, _version, rest) = Self::split(message);
        let (_, community, rest) = Self::split(rest);
        assert_eq!(community, COMMUNITY.as_bytes());
        let (tag, unit, _) = Self::split(rest);
        let (_, request_id, rest) = Self::split(unit);
        let (_, _, rest) = Self::split(rest);
        let (_, _, rest) = Self::split(rest);
        let (_, mut list, _) = Self::split(rest);
        let mut names = Vec::new();
        while !list.is_empty() {
            let (_, binding, rest) = Self::split(list);
            let (_, name, _) = Self::split(binding);
            names.push(element(6, name));
            list = rest;
        }
        Self {
            is_set: tag == 0xa3,
            names,
            datagram: datagram.to_vec(),
            earlier,
            from,
            request_id: request_id.to_vec(),
        }
    }

    /// Which outlet a command is for: the last number of its object.
    pub fn outlet(&self) -> u8 {
        *self.names[0].last().unwrap()
    }

    /// A whole answer with these values, or with this error.
    pub fn answer(&self, values: &[Vec<u8>], error_status: u8) -> Vec<u8> {
        let pairs = self.names.iter().zip(values);
        let bindings: Vec<u8> = pairs
            .flat_map(|(name, value)| element(0x30, &[&name[..], value].concat()))
            .collect();
        let fields = [
            element(2, &self.request_id),
            int(error_status),
            int(0),
            element(0x30, &bindings),
        ];
        let parts = [
            int(1),
            element(4, COMMUNITY.as_bytes()),
            element(0xa2, &fields.concat()),
        ];
        element(0x30, &parts.concat())
    }

    /// The answer to a question about outlets of an APC rack PDU of the second generation in these states, and the success of any
    /// command. No command is waiting.
    pub fn states(&self, states: &[u8]) -> Vec<u8> {
        let numbers = if self.is_set { &[2][..] } else { states };
        let mut values: Vec<Vec<u8>> = numbers.iter().map(|state| int(*state)).collect();
        values.resize(self.names.len(), int(2));
        self.answer(&values, 0)
    }

    /// The same question with another number.
    pub fn renumbered(&self) -> Self {
        let mut other = self.clone();
        *other.request_id.last_mut().unwrap() ^= 1;
        other
    }
}

/// Outlet states of an APC rack PDU of the second generation.
pub const OFF: u8 = 1;
pub const ON: u8 = 2;

/// At once.
pub fn now(datagram: Vec<u8>) -> Answers {
    vec![(Duration::ZERO, datagram)]
}

/// The running agent; it ends with the test.
pub struct Agent {
    pub address: SocketAddr,
    questions: Arc<Mutex<Vec<Question>>>,
    _tasks: JoinSet<()>,
}

/// An address that no other test has.
pub fn own_address() -> Ipv4Addr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    [127, 84, high, low].into()
}

impl Agent {
    pub async fn start(script: impl Fn(&Question) -> Answers + Send + Sync + 'static) -> Self {
        Self::at_port(0, script).await
    }

    /// At this port of an address of its own.
    pub async fn at_port(
        port: u16,
        script: impl Fn(&Question) -> Answers + Send + Sync + 'static,
    ) -> Self {
        let socket = Arc::new(UdpSocket::bind((own_address(), port)).await.unwrap());
        let address = socket.local_addr().unwrap();
        let questions = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&questions);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut answering = JoinSet::new();
            let mut buffer = vec![0; 65_536];
            loop {
                // An asker that has gone away is reported here, and is no concern of ours.
                let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
                    continue;
                };
                let question = {
                    let mut seen = seen.lock().unwrap();
                    let question = Question::read(&buffer[..length], seen.len(), from);
                    seen.push(question.clone());
                    question
                };
                let (answers, socket) = (script(&question), Arc::clone(&socket));
                answering.spawn(async move {
                    for (pause, datagram) in answers {
                        tokio::time::sleep(pause).await;
                        let _ = socket.send_to(&datagram, from).await;
                    }
                });
            }
        });
        Self {
            address,
            questions,
            _tasks: tasks,
        }
    }

    /// Everything that arrived, in order.
    pub fn questions(&self) -> Vec<Question> {
        self.questions.lock().unwrap().clone()
    }

    /// Of each command that arrived, whether it is `immediateOff (2)`.
    pub fn hard_offs(&self) -> Vec<bool> {
        let questions = self.questions();
        let commands = questions.iter().filter(|question| question.is_set);
        commands
            .map(|command| command.datagram.ends_with(&int(2)))
            .collect()
    }

    /// Of each command that arrived, whether it is `immediateOn (1)`.
    pub fn ons(&self) -> Vec<bool> {
        let questions = self.questions();
        let commands = questions.iter().filter(|question| question.is_set);
        commands
            .map(|command| command.datagram.ends_with(&int(1)))
            .collect()
    }

    /// The outlets of the commands that arrived.
    pub fn commands(&self) -> Vec<u8> {
        let questions = self.questions();
        let commands = questions.iter().filter(|question| question.is_set);
        commands.map(Question::outlet).collect()
    }

    /// Settings for its outlets 3 and 7.
    pub fn settings(&self) -> PduSettings {
        settings(self.address, json!({}), &[("community", COMMUNITY)])
    }

    /// The driver for its outlets 3 and 7.
    pub fn driver(&self) -> Pdu {
        Pdu::new(self.settings()).unwrap()
    }
}

/// Settings for outlets 3 and 7 of a rack PDU, changed like this, with these entries of the Secret.
pub fn settings(address: SocketAddr, changes: Value, secret: &[(&str, &str)]) -> PduSettings {
    settings_with(address, changes, secret, &BTreeMap::new())
}

/// The same, with annotations of the Secret.
pub fn settings_with(
    address: SocketAddr,
    changes: Value,
    secret: &[(&str, &str)],
    annotations: &BTreeMap<String, String>,
) -> PduSettings {
    let mut driver = json!({
        "address": address.ip(), "port": address.port(), "model": "APCRackPDU2", "outlets": [3, 7], "snmp": {"version": "V2c"},
    });
    json_patch::merge(&mut driver, &changes);
    let driver: PduDriver = serde_json::from_value(driver).unwrap();
    let data: BTreeMap<String, Vec<u8>> = secret
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
        .collect();
    let keys = secret_keys(&driver.snmp);
    let credentials = Credentials::with_keys("pdu", keys, &data, annotations).unwrap();
    PduSettings {
        driver,
        credentials: Arc::new(credentials),
        rules: local_rules(),
        call_timeout: ENDLESS,
        command_timeout: ENDLESS,
        clock: Clock::SYSTEM,
    }
}
