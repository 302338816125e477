//! Clouds and hypervisors of our own over HTTPS, each with one machine, and what may be wrong with them.
//!
//! A provider's page says how it is asked and what it answers ([`Page`]); everything else is here once: who is let in, what a command does to the
//! machine, and the faults. A service that a driver's author writes proves how we read the documents, and no more: the peers that others wrote judge
//! that.

pub mod aws;
pub mod azure;
mod faults;
pub mod gcp;
pub mod hetzner;
pub mod http_outlet;
pub mod kube;
pub mod kubevirt;
pub mod libvirt;
pub mod metal3;
pub mod nutanix;
pub mod openstack;
pub mod proxmox;
pub mod vsphere;
pub mod webhook;
pub mod xapi;

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use futures::future::BoxFuture;
use http::{Response, request::Parts};
use rustls::ServerConfig;

pub use self::faults::{Access, Beside, CloudFaults, Shown, Taken, Which};
use crate::{
    actuator::{Action, Actuator},
    bmc::{Answer, BmcCa, Certificate, certificates, replace},
    eventually::eventually,
    https::{Body, Call, Cut, Leaf, Line, Server, Site},
    power::Power,
};

/// System UUID of the machine of this number, where there are many.
pub fn uuid_of(number: usize) -> String {
    format!("4c4c4544-0042-3510-8054-{number:012x}")
}

/// What a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// A token for a credential.
    Login,
    /// The power.
    State,
    /// The machine off, or on.
    Switch(bool),
    /// Anything else that the page knows.
    Other,
}

/// What a page answers by.
pub struct View<'a> {
    /// Method, path and headers.
    pub head: &'a Parts,
    /// The body.
    pub body: &'a str,
    /// Where the service is: `https://127.82.0.1:34567`.
    pub url: &'a str,
    /// The machine's name.
    pub name: &'a str,
    /// Its system UUID.
    pub uuid: &'a str,
    /// Is it running, as this service has it?
    pub is_on: bool,
    /// What stands beside an Off.
    pub beside: Beside,
    /// What becomes of a command.
    pub taken: Taken,
    /// May the account switch it?
    pub may_switch: bool,
}

/// How one provider is asked, and answers.
pub trait Page: Send + Sync + 'static {
    /// The state in its document while the machine runs, and while it does not.
    const STATE: [&'static str; 2];

    /// What a request wants; none: there is no such path.
    fn wants(&self, call: &Call) -> Option<Wants>;

    /// Does the request have what opens the service?
    fn lets_in(&self, wants: Wants, call: &Call) -> bool;

    /// The answer.
    fn answer(&self, wants: Wants, view: &View<'_>) -> Answer;

    /// An error of its own, with this status and these words.
    fn error(&self, status: u16, words: &str) -> Answer;

    /// The answer to whoever is not let in.
    fn refused(&self, _: Wants) -> Answer {
        self.error(401, "authentication failed")
    }
}

/// A running provider with one machine. It ends when dropped.
pub struct Cloud<P> {
    server: Server,
    service: Arc<Service<P>>,
    ca_pem: String,
}

impl<P: Page> Cloud<P> {
    /// Starts it at this address, on a free port.
    pub fn start(address: IpAddr, power: Arc<dyn Power>, page: P, ca: &BmcCa) -> Result<Self> {
        let service = Arc::new(Service {
            page,
            power,
            certificates: certificates(address, ca)?,
            url: Mutex::default(),
            faults: Mutex::default(),
            commands: Mutex::default(),
            actuator: Arc::default(),
            turn: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
        });
        let server = Server::start(address, None, service.clone())?;
        *lock(&service.url) = format!("https://{}", server.address());
        Ok(Self {
            server,
            service,
            ca_pem: ca.pem(),
        })
    }

    /// `https://ADDRESS:PORT`.
    pub fn url(&self) -> String {
        lock(&self.service.url).clone()
    }

    /// The authority that signed its certificate, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// SHA-256 of its certificate (DER), 64 lower-case hex digits.
    pub fn fingerprint(&self) -> String {
        let own = self.service.certificates.get(&Certificate::Own);
        own.map_or_else(String::new, |own| own.fingerprint().to_owned())
    }

    /// Changes what is wrong with it. Holds for every request that arrives from now on.
    pub fn faults(&self, change: impl FnOnce(&mut CloudFaults)) {
        change(&mut lock(&self.service.faults));
    }

    /// Changes the state of the line to it.
    pub fn set_line(&self, line: Line) -> Result<()> {
        self.server.set_line(line)
    }

    /// The requests that have arrived.
    pub fn requests(&self) -> u64 {
        self.service.requests.load(Ordering::Relaxed)
    }

    /// Waits until so many requests have arrived since the start, and not more.
    pub async fn until_requests(&self, wanted: u64) -> Result<()> {
        eventually("so many requests", Duration::from_secs(10), async || {
            let requests = self.requests();
            ensure!(requests == wanted, "{requests} of {wanted}");
            Ok(())
        })
        .await
    }

    /// The power commands that have arrived and were let in: on, or off.
    pub fn commands(&self) -> Vec<bool> {
        lock(&self.service.commands).clone()
    }
}

struct Service<P> {
    page: P,
    power: Arc<dyn Power>,
    certificates: HashMap<Certificate, Leaf>,
    url: Mutex<String>,
    faults: Mutex<CloudFaults>,
    commands: Mutex<Vec<bool>>,
    actuator: Arc<Actuator>,
    turn: AtomicUsize,
    requests: AtomicU64,
}

impl<P: Page> Site for Service<P> {
    fn tls(&self) -> Option<Arc<ServerConfig>> {
        let which = lock(&self.faults).certificate;
        self.certificates.get(&which).map(Leaf::config)
    }

    fn answer(self: Arc<Self>, call: Call) -> BoxFuture<'static, Result<Response<Body>, Cut>> {
        Box::pin(async move { self.respond(&call).await })
    }
}

impl<P: Page> Service<P> {
    async fn respond(&self, call: &Call) -> Result<Response<Body>, Cut> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let faults = lock(&self.faults).clone();
        tokio::time::sleep(faults.latency).await;
        let Some(wants) = self.page.wants(call) else {
            return Ok(self.page.error(404, "no such path").into_response());
        };
        let answer = self.route(call, wants, &faults).await;
        let nonsense = faults.replies.iter().find(|(to, _)| to.is(wants));
        match nonsense {
            Some((_, what)) => replace(what, answer),
            None => Ok(answer.into_response()),
        }
    }

    async fn route(&self, call: &Call, wants: Wants, faults: &CloudFaults) -> Answer {
        let is_welcome = faults.access != Access::Refused && self.page.lets_in(wants, call);
        if !is_welcome {
            return self.page.refused(wants);
        }
        let taken = match wants {
            Wants::Switch(on) => self.switch(on, faults).await,
            _ => Taken::Done,
        };
        if taken == Taken::Denied {
            return self.page.error(403, "permission check failed");
        }
        let shown = self.shown(&faults.shown, wants);
        let url = lock(&self.url).clone();
        let mut answer = self.page.answer(
            wants,
            &View {
                head: &call.head,
                body: std::str::from_utf8(&call.body).unwrap_or_default(),
                url: &url,
                name: self.power.name(),
                uuid: faults.uuid.as_deref().unwrap_or(self.power.system_uuid()),
                is_on: shown,
                beside: faults.beside,
                taken,
                may_switch: faults.access != Access::ReadOnly,
            },
        );
        if let (Wants::State, Shown::Twice(on)) = (wants, &faults.shown) {
            let [once, again] = [shown, *on].map(|on| P::STATE[usize::from(!on)]);
            answer.text = answer.text.replace(once, &format!("{once},{again}"));
        }
        answer
    }

    /// What becomes of a command, and does it.
    async fn switch(&self, on: bool, faults: &CloudFaults) -> Taken {
        if faults.access == Access::ReadOnly {
            return Taken::Denied;
        }
        let is_so = faults.shown == Shown::Truth && self.power.is_on() == on;
        let taken = match faults.taken {
            Taken::Done if is_so => Taken::Already,
            taken => taken,
        };
        lock(&self.commands).push(on);
        if taken == Taken::Done {
            let action = if on { Action::On } else { Action::Off };
            let (machine, effect) = (Arc::clone(&self.power), faults.effect);
            self.actuator.act(machine, action, effect, None).await;
        }
        taken
    }

    fn shown(&self, shown: &Shown, wants: Wants) -> bool {
        match shown {
            Shown::Truth | Shown::Twice(_) => self.power.is_on(),
            Shown::Says(on) => *on,
            Shown::Cycle(all) => {
                let turns = usize::from(wants == Wants::State);
                let turn = self.turn.fetch_add(turns, Ordering::Relaxed);
                all.get(turn % all.len().max(1))
                    .copied()
                    .unwrap_or_default()
            }
        }
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().expect("no panic while a cloud is changed")
}
