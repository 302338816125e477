//! A Redfish service of our own over HTTPS, one a machine, with faults on demand.
//!
//! Each BMC has an address of 127.0.0.0/8, a certificate of the lab's authority, and a machine's [`Power`] to switch.
//! It answers as DSP0266 wants it, keeps a log of what it was asked, and breaks in every way that [`BmcFaults`] names.
//! It needs nothing else of the lab: the operator's driver tests run it over a [`Plug`].
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use std::sync::Arc;
//! use fencing_testbed::bmc::{Bmc, BmcCa, Credentials, Plug, Reading};
//!
//! let ca = BmcCa::new("BMCs of a test")?;
//! let plug = Arc::new(Plug::new("node-1", "4c4c4544-0042-3510-8054-b4c04f4e4e31"));
//! let bmc = Bmc::start("127.77.0.1".parse()?, plug.clone(), Credentials::default(), &ca)?;
//! bmc.faults(|faults| faults.power_state = Reading::Says("Off".into()));
//! # Ok(()) }
//! ```

mod account;
mod answer;
mod faults;
mod log;
mod model;
mod nonsense;
mod plug;
mod request;
mod reset;
mod service;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Result;

pub use self::answer::Answer;
pub(crate) use self::nonsense::replace;
use self::service::{Service, Stage};
pub use self::{
    faults::{Accepted, Advertise, BmcFaults, Certificate, Nonsense, Reading, Reply, Which},
    log::{Auth, Entry, PowerCommand, SentHeaders},
    plug::Plug,
};
pub use crate::{
    actuator::Effect,
    https::{Hold, Line},
    pki::Authority as BmcCa,
};
use crate::{
    exchange::Recorder,
    https::{Leaf, Server, hold},
    power::Power,
};

/// Who may use a BMC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name.
    pub username: String,
    /// The password.
    pub password: String,
}

impl Default for Credentials {
    fn default() -> Self {
        Self {
            username: "fence".to_owned(),
            password: "s3cret-Bmc".to_owned(),
        }
    }
}

/// What a service at this address can show in place of the right certificate, and that one.
pub(crate) fn certificates(address: IpAddr, ca: &BmcCa) -> Result<HashMap<Certificate, Leaf>> {
    let other = IpAddr::V4(Ipv4Addr::new(127, 255, 255, 254));
    let stranger = BmcCa::new("nobody's authority")?;
    let certificates = [
        (Certificate::Own, ca.serving(&[address], &[])?),
        (Certificate::Swapped, ca.serving(&[address], &[])?),
        (Certificate::Expired, ca.serving_expired(address)?),
        (Certificate::Untrusted, stranger.serving(&[address], &[])?),
        (Certificate::OtherAddress, ca.serving(&[other], &[])?),
    ];
    let certificates = certificates
        .into_iter()
        .map(|(which, identity)| Ok((which, Leaf::new(&identity)?)));
    certificates.collect()
}

/// A running BMC. It ends when dropped.
pub struct Bmc {
    server: Server,
    service: Arc<Service>,
    ca_pem: String,
}

impl Bmc {
    /// Starts the BMC of a machine at this address: on port 443, or on any free one if that is taken or not allowed.
    pub fn start(
        address: IpAddr,
        power: Arc<dyn Power>,
        credentials: Credentials,
        ca: &BmcCa,
    ) -> Result<Self> {
        let certificates = certificates(address, ca)?;
        let service = Arc::new(Service::new(power, credentials, certificates));
        let server = Server::start(address, Some(443), service.clone())?;
        Ok(Self {
            server,
            service,
            ca_pem: ca.pem(),
        })
    }

    /// `https://address`, with the port unless it is 443.
    pub fn url(&self) -> String {
        match self.address() {
            address if address.port() == 443 => format!("https://{}", address.ip()),
            address => format!("https://{address}"),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The path of its machine's ComputerSystem.
    pub fn system_path(&self) -> String {
        model::system_path(model::OWN_SYSTEM)
    }

    /// Who may use it.
    pub fn credentials(&self) -> &Credentials {
        &self.service.credentials
    }

    /// The authority that signed its certificate, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// SHA-256 of its own certificate (DER), 64 lower-case hex digits.
    pub fn fingerprint(&self) -> String {
        self.fingerprint_of(Certificate::Own)
            .expect("it has a certificate of its own")
    }

    /// The same of one of its other certificates; none for plain HTTP.
    pub fn fingerprint_of(&self, certificate: Certificate) -> Option<String> {
        Some(
            self.service
                .certificates
                .get(&certificate)?
                .fingerprint()
                .to_owned(),
        )
    }

    /// `SerialNumber` of its machine.
    pub fn serial_number(&self) -> String {
        model::serial_number(self.service.power.system_uuid())
    }

    /// The machine behind it.
    pub fn power(&self) -> &Arc<dyn Power> {
        &self.service.power
    }

    /// Changes what is wrong with it. Holds for every request that arrives from now on.
    pub fn faults(&self, change: impl FnOnce(&mut BmcFaults)) {
        change(
            &mut self
                .service
                .faults
                .lock()
                .expect("no panic while faults are changed"),
        );
    }

    /// Takes every fault away, and puts the line up.
    pub fn heal(&self) -> Result<()> {
        self.faults(|faults| *faults = BmcFaults::default());
        self.set_line(Line::Up)
    }

    /// Changes the state of the line to it. `Line::Dark` is a loss of the BMC's own power: what it had accepted and not
    /// yet done is never done. (The machine's power is another matter: switch that off too for a rack without power.)
    pub fn set_line(&self, line: Line) -> Result<()> {
        self.service.actuator.set_dark(line == Line::Dark);
        self.server.set_line(line)
    }

    /// The BMC restarts: open connections are cut, the port is closed for this time.
    pub async fn reboot(&self, takes: Duration) -> Result<()> {
        self.set_line(Line::Refused)?;
        tokio::time::sleep(takes).await;
        self.set_line(Line::Up)
    }

    /// Holds the next such request as it arrives, before it has any effect.
    pub fn hold_next(&self, which: Which) -> Hold {
        self.hold_at(which, Stage::Arrival)
    }

    /// Holds the answer to the next such request, after its effect.
    pub fn hold_answer(&self, which: Which) -> Hold {
        self.hold_at(which, Stage::Answer)
    }

    fn hold_at(&self, which: Which, stage: Stage) -> Hold {
        let (hold, gate) = hold();
        self.service
            .holds
            .lock()
            .expect("no panic while holds are changed")
            .push((which, stage, gate));
        hold
    }

    /// Every request that it has received, in order.
    pub fn log(&self) -> Vec<Entry> {
        self.service.log.entries()
    }

    /// What it told of its machine's power and what it was commanded, up to whenever this is asked, also after its end.
    pub fn recorder(&self) -> Recorder {
        let service = self.service.clone();
        Box::new(move || log::exchanges(service.log.entries()))
    }

    /// Every reset that it has received, in order, refused ones included.
    pub fn power_commands(&self) -> Vec<PowerCommand> {
        log::power_commands(self.log())
    }

    /// Waits for a request, past or future, that fulfils the condition; an error when there is none `within` this time.
    pub async fn wait_for(
        &self,
        within: Duration,
        is_it: impl FnMut(&Entry) -> bool,
    ) -> Result<Entry> {
        self.service.log.wait_for(within, is_it).await
    }
}
