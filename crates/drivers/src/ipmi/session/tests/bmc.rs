//! A BMC that does what the specification says, and what a test adds to that.

use super::super::super::codec::command::Completion;
use super::super::super::codec::lan::Answer;
use super::super::super::codec::packet::{self, Packet, PayloadType};
use super::super::super::codec::rakp::Algorithms;
use super::super::super::crypto::{Exchange, Keys, Suite};
use super::{PASSWORD, USER};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;
use std::collections::BTreeMap;
use zeroize::Zeroizing;

pub const GUID: [u8; 16] = [0x4c; 16];
const BMC_ID: u32 = 0x0102_0304;

/// Commands by network function and number.
type Command = (u8, u8);

pub struct Bmc {
    pub suite: Suite,
    pub password: Vec<u8>,
    /// Statuses with which payloads are refused, by payload type, before all else; the last one stays.
    pub refusals: BTreeMap<u8, Vec<u8>>,
    /// What it says that it has chosen.
    pub chooses: Option<Algorithms>,
    /// It has a key of its own.
    pub bmc_key: Option<Vec<u8>>,
    /// It answers nothing of this payload type.
    pub silent_to: Option<u8>,
    /// Completion codes of commands, one after the other, before they are carried out.
    pub codes: BTreeMap<Command, Vec<u8>>,
    /// Every command that it has received, with its sequence number and that of its datagram.
    pub commands: Vec<(Command, u8, u32)>,
    /// RAKP messages 3 with a status, and which.
    pub refused_by_us: Vec<u8>,
    /// Payload types that were received.
    pub received: Vec<u8>,
    /// Sessions that are open.
    pub open: u32,
    rakp1: Vec<u8>,
    /// A new one for every RAKP message 1.
    random: [u8; 16],
    console_id: u32,
    keys: Option<Keys>,
    sent: u32,
}

impl Bmc {
    pub fn new(suite: Suite) -> Self {
        Self {
            suite,
            password: PASSWORD.to_vec(),
            refusals: BTreeMap::new(),
            chooses: None,
            bmc_key: None,
            silent_to: None,
            codes: BTreeMap::new(),
            commands: Vec::new(),
            refused_by_us: Vec::new(),
            received: Vec::new(),
            open: 0,
            rakp1: Vec::new(),
            random: [0x80; 16],
            console_id: 0,
            keys: None,
            sent: 0,
        }
    }

    fn hmac(&self, key: &[u8], data: &[u8]) -> Vec<u8> {
        match self.suite {
            Suite::Sha256 => {
                let mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
                mac.chain_update(data).finalize().into_bytes().to_vec()
            }
            Suite::Sha1 => {
                let mac = Hmac::<Sha1>::new_from_slice(key).unwrap();
                mac.chain_update(data).finalize().into_bytes().to_vec()
            }
        }
    }

    pub fn answer(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        match packet::decode(datagram).ok()? {
            Packet::Setup(payload_type, payload) => {
                let number = payload_type.number();
                // What was cut on its way.
                let least = match payload_type {
                    PayloadType::OpenSession => 32,
                    PayloadType::Rakp1 => 28,
                    _ => 8,
                };
                if payload.len() < least {
                    return None;
                }
                self.received.push(number);
                if self.silent_to == Some(number) {
                    return None;
                }
                if let Some(statuses) = self.refusals.get_mut(&number) {
                    let status = match statuses.as_slice() {
                        [_, _, ..] => statuses.remove(0),
                        [last] => *last,
                        [] => 0,
                    };
                    if status != 0 {
                        return self.refuse(payload_type, payload, status);
                    }
                }
                match payload_type {
                    PayloadType::OpenSession => self.open_session(payload),
                    PayloadType::Rakp1 => self.rakp1(payload),
                    PayloadType::Rakp3 => self.rakp3(payload),
                    _ => None,
                }
            }
            Packet::Sealed(sealed) => {
                let keys = self.keys.as_ref()?;
                let message = keys.open(&sealed).ok()?;
                self.command(&message, sealed.sequence)
            }
            Packet::Plain(_) => None,
        }
    }

    fn refuse(&self, to: PayloadType, payload: &[u8], status: u8) -> Option<Vec<u8>> {
        let (answer, console_id) = match to {
            PayloadType::OpenSession => (PayloadType::OpenSessionAnswer, payload[4..8].to_vec()),
            PayloadType::Rakp1 => (PayloadType::Rakp2, self.console_id.to_le_bytes().to_vec()),
            _ => (PayloadType::Rakp4, self.console_id.to_le_bytes().to_vec()),
        };
        let payload = [&[payload[0], status, 0, 0][..], &console_id].concat();
        packet::encode_setup(answer, &payload)
    }

    fn open_session(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        self.console_id = u32::from_le_bytes(*payload[4..].first_chunk().unwrap());
        self.keys = None;
        self.rakp1.clear();
        let Algorithms {
            authentication,
            integrity,
            confidentiality,
        } = self.chooses.unwrap_or(self.suite.algorithms());
        let mut answer = vec![payload[0], 0, 4, 0];
        answer.extend(self.console_id.to_le_bytes());
        answer.extend(BMC_ID.to_le_bytes());
        for (kind, algorithm) in [(0, authentication), (1, integrity), (2, confidentiality)] {
            answer.extend([kind, 0, 0, 8, algorithm, 0, 0, 0]);
        }
        packet::encode_setup(PayloadType::OpenSessionAnswer, &answer)
    }

    fn rakp1(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        // What was corrupted on its way.
        if payload[4..8] != BMC_ID.to_le_bytes() {
            return self.refuse(PayloadType::Rakp1, payload, 0x02);
        }
        if &payload[28..] != USER || usize::from(payload[27]) != USER.len() {
            return self.refuse(PayloadType::Rakp1, payload, 0x0d);
        }
        self.rakp1 = payload.to_vec();
        self.random[0] = self.random[0].wrapping_add(1);
        let data = [
            &self.console_id.to_le_bytes()[..],
            &BMC_ID.to_le_bytes(),
            &payload[8..24],
            &self.random,
            &GUID,
            &payload[24..25],
            &payload[27..],
        ]
        .concat();
        let mut answer = vec![payload[0], 0, 0, 0];
        answer.extend(self.console_id.to_le_bytes());
        answer.extend(self.random);
        answer.extend(GUID);
        answer.extend(self.hmac(&self.password, &data));
        packet::encode_setup(PayloadType::Rakp2, &answer)
    }

    fn rakp3(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        if payload[1] != 0 {
            self.refused_by_us.push(payload[1]);
            return None;
        }
        if payload[4..8] != BMC_ID.to_le_bytes() || self.rakp1.is_empty() {
            return self.refuse(PayloadType::Rakp3, payload, 0x02);
        }
        let random = &self.rakp1[8..24];
        let identity = [&self.rakp1[24..25], &self.rakp1[27..]].concat();
        let data = [&self.random[..], &self.console_id.to_le_bytes(), &identity].concat();
        if payload[8..] != self.hmac(&self.password, &data) {
            return self.refuse(PayloadType::Rakp3, payload, 0x0f);
        }
        let key = self.bmc_key.as_ref().unwrap_or(&self.password);
        let session_key = self.hmac(key, &[random, &self.random, &identity].concat());
        let data = [random, &BMC_ID.to_le_bytes(), &GUID].concat();
        let mut code = self.hmac(&session_key, &data);
        code.truncate(self.suite.integrity_code_bytes());
        let exchange = Exchange {
            suite: self.suite,
            console_id: self.console_id,
            bmc_id: BMC_ID,
            console_random: *random.first_chunk().unwrap(),
            bmc_random: self.random,
            guid: GUID,
            role: self.rakp1[24],
            user: USER.to_vec(),
            password: Zeroizing::new(self.password.clone()),
        };
        if self.keys.is_none() {
            self.open += 1;
            self.sent = 0;
        }
        self.keys = Some(exchange.keys());
        let mut answer = vec![payload[0], 0, 0, 0];
        answer.extend(self.console_id.to_le_bytes());
        answer.extend(code);
        packet::encode_setup(PayloadType::Rakp4, &answer)
    }

    fn command(&mut self, message: &[u8], sequence: u32) -> Option<Vec<u8>> {
        let (function, number, command) = (message[1] >> 2, message[4] >> 2, message[5]);
        let command = (function, command);
        self.commands.push((command, number, sequence));
        let mut code = 0;
        if let Some(codes) = self
            .codes
            .get_mut(&command)
            .filter(|codes| !codes.is_empty())
        {
            code = codes.remove(0);
        }
        let data: &[u8] = match command {
            (0x00, 0x01) if code == 0 => &[0x01, 0, 0],
            (0x06, 0x3b) if code == 0 => &message[6..7],
            _ => &[],
        };
        if command == (0x06, 0x3c) {
            assert_eq!(message[6..10], BMC_ID.to_le_bytes());
            self.open -= 1;
        }
        let answer = self.seal(&Answer {
            function: function | 1,
            command: command.1,
            sequence: number,
            completion: Completion(code).0,
            data,
        });
        if command == (0x06, 0x3c) {
            self.keys = None;
        }
        answer
    }

    /// A datagram of this session.
    pub fn seal(&mut self, answer: &Answer<'_>) -> Option<Vec<u8>> {
        self.sent += 1;
        let keys = self.keys.as_ref()?;
        keys.seal(self.console_id, self.sent, [9; 16], &answer.encode())
    }
}
