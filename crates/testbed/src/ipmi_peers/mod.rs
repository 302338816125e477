//! IPMI BMCs that none of us wrote, wired to a machine of the lab.
//!
//! The BMC of [`crate::ipmi`] only shows that the operator agrees with our reading of the specification. These show whether
//! others read it so, too. Their sessions and manners are their own; one thing is replaced, what they take for the power.

mod ipmi_sim;
mod pyghmi;
#[cfg(test)]
mod tests;

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use tempfile::TempDir;
use uuid::Uuid;

use crate::{
    bmc::Credentials,
    eventually::eventually,
    ipmi,
    moment::Moment,
    ports::Port,
    power::Power,
    power_socket::PowerSocket,
    process::{Guard, Process, Spec},
};

/// How long it may take until an emulator answers. It is up in a second; a laden machine takes longer.
const START: Duration = Duration::from_secs(60);

/// Whose BMC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brand {
    /// OpenIPMI's `ipmi_sim`: suite 3, accepts suite 0, knows privileges, says why it refuses.
    IpmiSim,
    /// pyghmi's, which fakebmc and virtualbmc are made of: suite 3 whatever is asked for, no privileges, and silence in
    /// place of refusals.
    Pyghmi,
}

/// A running BMC. It ends when dropped, and with the guard.
pub struct IpmiPeer {
    place: Place,
    power: Arc<dyn Power>,
    process: Process,
    socket: PowerSocket,
    _scratch: TempDir,
}

/// What stays when another machine is put behind the cable.
#[derive(Clone)]
struct Place {
    brand: Brand,
    address: SocketAddr,
    _port: Arc<Option<Port>>,
    credentials: Credentials,
    guard: Arc<Guard>,
    logs: PathBuf,
}

/// What a BMC is started with.
struct Order<'a> {
    address: SocketAddr,
    guid: Uuid,
    credentials: &'a Credentials,
    /// The machine's plug.
    socket: &'a Path,
    /// A directory of its own.
    scratch: &'a Path,
    log: &'a Path,
}

impl IpmiPeer {
    /// Starts the BMC of a machine at this address: on UDP port 623, or on any free one if that is taken or not allowed.
    /// Fetches the program first, if that has not been done. Its log goes into `logs`.
    pub async fn start(
        brand: Brand,
        address: IpAddr,
        power: Arc<dyn Power>,
        credentials: Credentials,
        guard: &Arc<Guard>,
        logs: &Path,
    ) -> Result<Self> {
        // The port is given back until the program takes it; only a stranger to the lab could come in between.
        let (address, port) = ipmi::free_address(address)?;
        let place = Place {
            brand,
            address,
            _port: Arc::new(port),
            credentials,
            guard: guard.clone(),
            logs: logs.to_owned(),
        };
        place.run(power).await
    }

    /// Ends it, and starts the BMC of another machine at the same address.
    pub async fn replace(&self, power: Arc<dyn Power>) -> Result<Self> {
        self.process.kill()?;
        // A program that was just being started, by it or by the lab, has its socket for a moment more.
        eventually("the port is free", START, async || {
            ipmi::can_bind(self.address())
        })
        .await?;
        self.place.clone().run(power).await
    }

    async fn wait_until_it_answers(&self) -> Result<()> {
        let end = Instant::now() + START;
        while !ipmi::speaks(self.address(), Duration::from_millis(50)).await? {
            self.process.check()?;
            ensure!(
                Instant::now() < end,
                "{} does not answer; the end of its log:\n{}",
                self.process.name(),
                self.process.tail(15)
            );
        }
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.place.address
    }

    /// The machine behind it.
    pub fn power(&self) -> &Arc<dyn Power> {
        &self.power
    }

    /// Who may use it.
    pub fn credentials(&self) -> &Credentials {
        &self.place.credentials
    }

    /// What it did to the machine: when, and whether on or off.
    pub fn switched(&self) -> Vec<(Moment, bool)> {
        self.socket.switched()
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

impl Place {
    async fn run(self, power: Arc<dyn Power>) -> Result<IpmiPeer> {
        let scratch = tempfile::Builder::new()
            .prefix("nodefencing-ipmi-")
            .tempdir()?;
        self.guard.remove_at_end(scratch.path())?;
        let socket = PowerSocket::open(scratch.path(), power.clone())?;
        let log = format!("{}-{}.log", self.brand.name(), power.name());
        let order = Order {
            address: self.address,
            guid: Uuid::parse_str(power.system_uuid())?,
            credentials: &self.credentials,
            socket: socket.path(),
            scratch: scratch.path(),
            log: &self.logs.join(log),
        };
        let spec = match self.brand {
            Brand::IpmiSim => ipmi_sim::spec(&order).await?,
            Brand::Pyghmi => pyghmi::spec(&order).await?,
        };
        let process = spec.spawn(&self.guard)?;
        let peer = IpmiPeer {
            place: self,
            power,
            process,
            socket,
            _scratch: scratch,
        };
        peer.wait_until_it_answers().await?;
        Ok(peer)
    }
}

impl Brand {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::IpmiSim => "ipmi_sim",
            Self::Pyghmi => "pyghmi",
        }
    }

    fn spec(self, program: impl AsRef<std::ffi::OsStr>, log: &Path) -> Spec {
        Spec::new(self.name(), program, log)
    }
}
