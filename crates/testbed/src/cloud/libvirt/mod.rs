//! A daemon of libvirt of our own with one domain, for the faults: it reads and writes packets by the protocol's description, apart from the driver.
//!
//! It asks for no certificate of its client; the real libvirtd, of [`crate::libvirtd`], does.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context, Result, ensure};
use futures::future::BoxFuture;
use http::Response;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

mod packets;

use self::packets::{Said, numbers, packed, spoil, text};
use super::{Access, Beside, CloudFaults, Shown, Taken, Wants, Which};
use crate::{
    actuator::{Action, Actuator},
    bmc::{BmcCa, Certificate, certificates},
    https::{Body, Call, Cut, Leaf, Line, Server, Site, Wire},
    power::Power,
};

/// The host that it says it is.
pub const HOST: &str = "hv-1";
/// The hypervisor that a client has to ask for.
pub const HYPERVISOR: &str = "test:///default";
/// Errors (`virErrorNumber`).
const NO_SUPPORT: i32 = 3;
const INTERNAL: i32 = 1;
const NO_DOMAIN: i32 = 42;
const INVALID: i32 = 55;
const UNSUPPORTED: i32 = 84;
const DENIED: i32 = 88;

/// What is wrong with it, beside what may be wrong with every provider.
#[derive(Debug, Clone, Default)]
pub struct LibvirtFaults {
    /// What every provider may have.
    pub cloud: CloudFaults,
    /// State and reason, in place of those of its machine.
    pub state: Option<(i32, i32)>,
    /// A file has its memory.
    pub is_saved: bool,
    /// It is gone once it ends.
    pub is_transient: bool,
    /// It begins with its host.
    pub starts: bool,
    /// It is on another host.
    pub is_elsewhere: bool,
    /// Kinds of a login that it asks for; none: the usual, that it asks for none.
    pub logins: Vec<i32>,
    /// The name of its host is another one.
    pub host: Option<String>,
    /// A command is carried out, and not answered.
    pub is_silent: bool,
    /// An event comes before each answer.
    pub has_events: bool,
    /// Answers have the number of the call before.
    pub is_behind: bool,
}

/// A running daemon. It ends when dropped.
pub struct Libvirt {
    server: Server,
    service: Arc<Service>,
}

struct Service {
    power: Arc<dyn Power>,
    certificates: HashMap<Certificate, Leaf>,
    faults: Mutex<LibvirtFaults>,
    commands: Mutex<Vec<bool>>,
    procedures: Mutex<Vec<i32>>,
    actuator: Arc<Actuator>,
    turn: AtomicUsize,
}

impl Libvirt {
    /// Starts it at this address, on a free port.
    pub fn start(address: IpAddr, power: Arc<dyn Power>, ca: &BmcCa) -> Result<Self> {
        let service = Arc::new(Service {
            power,
            certificates: certificates(address, ca)?,
            faults: Mutex::default(),
            commands: Mutex::default(),
            procedures: Mutex::default(),
            actuator: Arc::default(),
            turn: AtomicUsize::new(0),
        });
        let server = Server::start(address, None, service.clone())?;
        Ok(Self { server, service })
    }

    /// `test+tls://ADDRESS:PORT/default`.
    pub fn uri(&self) -> String {
        format!("test+tls://{}/default", self.server.address())
    }

    /// SHA-256 of its certificate (DER), 64 lower-case hex digits.
    pub fn fingerprint(&self) -> String {
        let own = self.service.certificates.get(&Certificate::Own);
        own.map_or_else(String::new, |own| own.fingerprint().to_owned())
    }

    /// Changes what is wrong with it. Holds for every call that arrives from now on.
    pub fn faults(&self, change: impl FnOnce(&mut LibvirtFaults)) {
        change(&mut lock(&self.service.faults));
    }

    /// Changes the state of the line to it.
    pub fn set_line(&self, line: Line) -> Result<()> {
        self.server.set_line(line)
    }

    /// The power commands that have arrived and were allowed: on, or off.
    pub fn commands(&self) -> Vec<bool> {
        lock(&self.service.commands).clone()
    }

    /// The numbers of the procedures that were called.
    pub fn procedures(&self) -> Vec<i32> {
        lock(&self.service.procedures).clone()
    }
}

impl Site for Service {
    fn tls(&self) -> Option<Arc<ServerConfig>> {
        let which = lock(&self.faults).cloud.certificate;
        self.certificates.get(&which).map(Leaf::config)
    }

    fn is_http(&self) -> bool {
        false
    }

    fn speak(self: Arc<Self>, stream: Wire) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // A client that goes away is no failure of the daemon.
            let _ = self.talk(stream).await;
        })
    }

    fn answer(self: Arc<Self>, _: Call) -> BoxFuture<'static, Result<Response<Body>, Cut>> {
        Box::pin(async { Err(Cut::Close) })
    }
}

/// What was said on a connection.
#[derive(Default)]
struct Begun {
    listed: bool,
    opened: bool,
}

impl Service {
    async fn talk(&self, mut stream: Wire) -> Result<()> {
        if lock(&self.faults).cloud.access == Access::Refused {
            return Ok(());
        }
        stream.write_all(&[1]).await?;
        stream.flush().await?;
        let mut begun = Begun::default();
        loop {
            let length = usize::try_from(stream.read_u32().await?)?;
            ensure!((28..65536).contains(&length), "a length of {length}");
            let mut packet = vec![0; length - 4];
            stream.read_exact(&mut packet).await?;
            let (head, arguments) = packet.split_at(24);
            let head: Vec<u32> = head
                .chunks(4)
                .map(|unit| u32::from_be_bytes(unit.try_into().expect("four bytes")))
                .collect();
            ensure!(head[..2] == [0x2000_8086, 1] && head[3] == 0 && head[5] == 0);
            let faults = lock(&self.faults).clone();
            tokio::time::sleep(faults.cloud.latency).await;
            let procedure = i32::try_from(head[2])?;
            lock(&self.procedures).push(procedure);
            let said = self.said(procedure, arguments, &faults, &mut begun).await?;
            if faults.is_silent && matches!(procedure, 9 | 12) {
                continue;
            }
            let serial = head[4] - u32::from(faults.is_behind);
            if faults.has_events {
                stream.write_all(&packed(107, 2, 0, Ok(vec![0; 8]))).await?;
            }
            let wants = match procedure {
                212 => Wants::State,
                1 | 66 => Wants::Login,
                _ => Wants::Other,
            };
            let mut replies = faults.cloud.replies.iter();
            let nonsense = replies.find(|(to, _)| is(*to, wants));
            let answer = packed(procedure, 1, serial, said);
            match nonsense {
                Some((_, what)) => spoil(&mut stream, what, answer, serial).await?,
                None => stream.write_all(&answer).await?,
            }
            stream.flush().await?;
        }
    }

    async fn said(
        &self,
        procedure: i32,
        arguments: &[u8],
        faults: &LibvirtFaults,
        begun: &mut Begun,
    ) -> Result<Said> {
        if !begun.opened && !matches!(procedure, 1 | 66) {
            return Ok(Err(INTERNAL));
        }
        Ok(match procedure {
            66 => {
                begun.listed = true;
                let logins = match faults.logins.as_slice() {
                    [] => vec![0],
                    logins => logins.to_vec(),
                };
                let count = i32::try_from(logins.len())?;
                Ok(numbers(&[&[count], logins.as_slice()].concat()))
            }
            1 => {
                let name = [numbers(&[1]), text(HYPERVISOR), numbers(&[0])].concat();
                ensure!(begun.listed, "it is to ask for the logins first");
                begun.opened = arguments == name;
                if begun.opened { Ok(Vec::new()) } else { Err(5) }
            }
            59 => Ok(text(faults.host.as_deref().unwrap_or(HOST))),
            24 => match faults.is_elsewhere || arguments != bytes_of(self.power.system_uuid())? {
                true => Err(NO_DOMAIN),
                false => Ok(self.domain(faults)?),
            },
            273 => self.list(arguments, faults)?,
            15 | 151 | 183 | 212 | 9 | 12 => {
                let domain = self.domain(&LibvirtFaults::default())?;
                // The number of a running domain is nothing that a call needs.
                let flags = arguments.get(domain.len()..).context("no domain")?;
                ensure!(
                    arguments[..domain.len() - 4] == domain[..domain.len() - 4],
                    "another domain"
                );
                ensure!(
                    flags
                        == if matches!(procedure, 183 | 212) {
                            vec![0; 4]
                        } else {
                            vec![]
                        }
                );
                self.about(procedure, faults).await
            }
            _ => Err(NO_SUPPORT),
        })
    }

    /// What is asked of the domain, or done to it.
    async fn about(&self, procedure: i32, faults: &LibvirtFaults) -> Said {
        let flag = |is: bool| Ok(numbers(&[i32::from(is)]));
        match procedure {
            15 => flag(faults.starts),
            151 => flag(!faults.is_transient),
            183 => flag(faults.is_saved || faults.cloud.beside == Beside::Memory),
            212 => {
                let (state, reason) = self.state(faults, true);
                let twice = match faults.cloud.shown {
                    Shown::Twice(on) => numbers(&[if on { 1 } else { 5 }, 1]),
                    _ => Vec::new(),
                };
                Ok([numbers(&[state, reason]), twice].concat())
            }
            _ => self.switch(procedure == 9, &faults.cloud).await,
        }
    }

    fn state(&self, faults: &LibvirtFaults, counts: bool) -> (i32, i32) {
        let is_on = match &faults.cloud.shown {
            Shown::Truth | Shown::Twice(_) => self.power.is_on(),
            Shown::Says(on) => *on,
            Shown::Cycle(all) => {
                let turn = self.turn.fetch_add(usize::from(counts), Ordering::Relaxed);
                all[turn % all.len()]
            }
        };
        let otherwise = match (is_on, faults.cloud.beside) {
            (true, _) => (1, 1),
            (false, Beside::Nothing) => (5, 2),
            (false, Beside::Memory) => (5, 5),
            (false, Beside::AtWork) => (5, 4),
            (false, Beside::OldReport | Beside::CutOff) => (5, 0),
        };
        faults.state.unwrap_or(otherwise)
    }

    async fn switch(&self, on: bool, faults: &CloudFaults) -> Said {
        if faults.access == Access::ReadOnly {
            return Err(DENIED);
        }
        let is_so = faults.shown == Shown::Truth && self.power.is_on() == on;
        lock(&self.commands).push(on);
        match faults.taken {
            Taken::Done if !is_so => {
                let action = if on { Action::On } else { Action::Off };
                let machine = Arc::clone(&self.power);
                self.actuator
                    .act(machine, action, faults.effect, None)
                    .await;
                Ok(Vec::new())
            }
            Taken::Done | Taken::Already => Err(INVALID),
            Taken::Refused => Err(UNSUPPORTED),
            Taken::Denied => Err(DENIED),
        }
    }

    /// The domain, if it runs and the flags ask for no more.
    fn list(&self, arguments: &[u8], faults: &LibvirtFaults) -> Result<Said> {
        let flags = match arguments {
            [0, 0, 0, 1, flags @ ..] => u32::from_be_bytes(flags.try_into()?),
            _ => return Ok(Err(8)),
        };
        ensure!(flags & !(16 | 1024) == 0 && flags & 16 == 16);
        let is_listed = self.state(faults, false).0 == 1 && (flags & 1024 == 0 || faults.starts);
        let count = numbers(&[i32::from(is_listed)]);
        let domain = match is_listed {
            true => self.domain(faults)?,
            false => Vec::new(),
        };
        Ok(Ok([count.clone(), domain, count].concat()))
    }

    fn domain(&self, faults: &LibvirtFaults) -> Result<Vec<u8>> {
        let uuid = faults.cloud.uuid.as_deref();
        let uuid = bytes_of(uuid.unwrap_or(self.power.system_uuid()))?;
        Ok([text(self.power.name()), uuid, numbers(&[7])].concat())
    }
}

/// The 16 bytes of a UUID.
fn bytes_of(uuid: &str) -> Result<Vec<u8>> {
    let digits = uuid.replace('-', "");
    Ok(u128::from_str_radix(&digits, 16)?.to_be_bytes().to_vec())
}

fn is(to: Which, wants: Wants) -> bool {
    match to {
        Which::Any => wants != Wants::Login,
        Which::State => wants == Wants::State,
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().expect("no panic while a daemon is changed")
}
