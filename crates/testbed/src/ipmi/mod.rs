//! A BMC of our own over IPMI 2.0 (RMCP+ on UDP), one a machine, with faults on demand.
//!
//! Written from the specification and from nothing else, so that it and the operator's driver are two readings of it. It
//! has an address of 127.0.0.0/8, users, a table of sessions, suites 17 and 3, and a machine's [`Power`] to switch. It
//! keeps a log of what it was asked, and breaks in every way that [`IpmiFaults`] names. `ipmitool` and FreeIPMI's `ipmipower`
//! judge it in the tests.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use std::sync::Arc;
//! use fencing_testbed::{bmc::Plug, ipmi::{IpmiBmc, Nonsense, Reply, Settings, Which}};
//!
//! let plug = Arc::new(Plug::new("node-1", "4c4c4544-0042-3510-8054-b4c04f4e4e31"));
//! let bmc = IpmiBmc::start("127.77.0.1".parse()?, plug.clone(), Settings::default())?;
//! let busy = Reply::new(Which::CHASSIS_STATUS, Nonsense::Code(0xC0)).times(3);
//! bmc.faults(|faults| faults.replies.push(busy));
//! # Ok(()) }
//! ```

mod account;
mod answer;
mod command;
mod crypto;
mod faults;
mod knock;
mod log;
mod login;
mod message;
mod network;
mod service;
mod session;
#[cfg(test)]
mod tests;
mod window;
mod wire;

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Result, ensure};
use tokio::task::JoinHandle;

pub(crate) use self::knock::{can_bind, free_address, speaks};
pub use self::{
    account::{Account, Privilege},
    crypto::Suite,
    faults::{
        GuidForm, IpmiFaults, Network, Nonsense, Path, PowerBit, Reply, RestorePolicy, Source,
        UnknownUser, Which,
    },
    log::{Asked, End, Entry, Outcome, PowerCommand, Session},
};
use self::{
    network::Wire,
    service::{Service, Stage},
};
pub use crate::{
    actuator::Effect,
    https::{Hold, Line},
};
use crate::{bmc::Credentials, exchange::Recorder, https::hold, power::Power};

/// The port of RMCP.
const PORT: u16 = 623;

/// What a BMC is like when it is whole.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who may use it.
    pub accounts: Vec<Account>,
    /// The suites that it accepts, the one that it prefers first. Suite 0 is none of them: that is a fault.
    pub suites: Vec<Suite>,
    /// How many sessions there can be.
    pub sessions_max: usize,
    /// A session of which nothing is heard for this long is forgotten. IPMI wants 60 s, give or take 3.
    pub session_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            accounts: vec![Account::default()],
            suites: vec![Suite::Seventeen, Suite::Three],
            sessions_max: 4,
            session_timeout: Duration::from_secs(60),
        }
    }
}

impl Settings {
    /// The usual, with this suite alone.
    pub fn with_suite(suite: Suite) -> Self {
        Self {
            suites: vec![suite],
            ..Self::default()
        }
    }

    fn check(&self) -> Result<()> {
        ensure!(
            !self.suites.contains(&Suite::Zero),
            "suite 0 is a fault: IpmiFaults::offers_suite_zero"
        );
        for account in &self.accounts {
            let Credentials { username, password } = &account.credentials;
            ensure!(
                username.len() <= login::NAME_BYTES_MAX
                    && password.len() <= login::PASSWORD_BYTES_MAX,
                "IPMI has no room for the name or the password of {username}"
            );
        }
        Ok(())
    }
}

/// A running BMC. It ends when dropped.
pub struct IpmiBmc {
    wire: Arc<Wire>,
    service: Arc<Service>,
    task: JoinHandle<()>,
}

impl IpmiBmc {
    /// Starts the BMC of a machine at this address: on UDP port 623, or on any free one if that is taken or not allowed.
    pub fn start(address: IpAddr, power: Arc<dyn Power>, settings: Settings) -> Result<Self> {
        settings.check()?;
        uuid::Uuid::parse_str(power.system_uuid())?;
        let wire = Arc::new(Wire::new(address, PORT)?);
        let service = Arc::new(Service::new(power, settings));
        let task = tokio::spawn(wire.clone().serve(service.clone()));
        Ok(Self {
            wire,
            service,
            task,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.wire.address()
    }

    /// What it is like when it is whole.
    pub fn settings(&self) -> &Settings {
        &self.service.settings
    }

    /// Name and password of its first user.
    pub fn credentials(&self) -> &Credentials {
        let first = self.service.settings.accounts.first();
        &first.expect("a BMC has a user").credentials
    }

    /// The machine behind it.
    pub fn power(&self) -> &Arc<dyn Power> {
        &self.service.power
    }

    /// Changes what is wrong with it. Holds for every datagram that arrives from now on.
    pub fn faults(&self, change: impl FnOnce(&mut IpmiFaults)) {
        let faults = self.service.faults.lock();
        change(&mut faults.expect("no panic while faults are changed"));
    }

    /// Takes every fault away, and puts the line up. Sessions stay.
    pub fn heal(&self) -> Result<()> {
        self.faults(|faults| *faults = IpmiFaults::default());
        self.set_line(Line::Up)
    }

    /// Changes the state of the line to it. `Line::Refused` is a closed port; `Line::BlackHole` and `Line::Dark` look the
    /// same from outside, but in the dark the BMC has no power itself: it forgets its sessions, and what it had accepted and
    /// not yet done is never done.
    pub fn set_line(&self, line: Line) -> Result<()> {
        self.service.actuator.set_dark(line == Line::Dark);
        if line == Line::Dark {
            self.service.forget_sessions();
        }
        self.wire.set_line(line)
    }

    /// The BMC restarts: its port is closed for this time, and its sessions are forgotten.
    pub async fn reboot(&self, takes: Duration) -> Result<()> {
        self.set_line(Line::Refused)?;
        self.service.forget_sessions();
        tokio::time::sleep(takes).await;
        self.set_line(Line::Up)
    }

    /// Loses its sessions, and goes on.
    pub fn forget_sessions(&self) {
        self.service.forget_sessions();
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
        let holds = self.service.holds.lock();
        let mut holds = holds.expect("no panic while holds are changed");
        holds.push((which, stage, gate));
        hold
    }

    /// Every datagram that it has received, in order.
    pub fn log(&self) -> Vec<Entry> {
        self.service.log.entries()
    }

    /// What it told of its machine's power and what it was commanded, up to whenever this is asked, also after its end.
    pub fn recorder(&self) -> Recorder {
        let service = self.service.clone();
        Box::new(move || log::exchanges(service.log.entries()))
    }

    /// Every power command that it has received, in order, refused ones included.
    pub fn power_commands(&self) -> Vec<PowerCommand> {
        log::power_commands(self.log())
    }

    /// Every session that was opened, in order.
    pub fn sessions(&self) -> Vec<Session> {
        self.service.sessions_log.entries()
    }

    /// What belonged to one of them, from its opening to its end.
    pub fn log_of(&self, session: &Session) -> Vec<Entry> {
        let mut log = self.log();
        log.retain(|entry| entry.session == Some(session.id));
        log
    }

    /// Datagrams that were lost by [`Path::lost`].
    pub fn lost(&self) -> u64 {
        self.wire.lost()
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

impl Drop for IpmiBmc {
    fn drop(&mut self) {
        self.task.abort();
    }
}
