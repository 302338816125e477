//! A whole lab: a control plane, machines with BMCs and volumes, the operator, and what a test asks of them.
//!
//! [`Lab::start`] brings everything up but the operator; [`Lab::operator`] starts it with exactly the rights of `deploy/`.
//! A test then breaks something, waits for what must follow, and ends with [`Lab::verdict`]: no volume was written by
//! two machines, and the API server's audit log shows no write of the operator that its protocol does not know. A lab that
//! passed hands its control plane on to another: see [`pool`].

mod ask;
mod availability;
mod bmcs;
mod clouds;
mod csi_addons;
mod infra;
mod ironic;
mod kubevirt;
mod metal3;
mod objects;
mod outlets;
mod read;
mod records;
mod verdict;
mod virt_api;
mod wait;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;

pub use self::ask::escalation;
pub use self::availability::{available, available_to_test};
pub use self::csi_addons::{CLASS, Call, CsiAddons, DEVICE};
pub use self::ironic::Metal3OnIronic;
pub use self::kubevirt::Kubevirt;
pub use self::metal3::Metal3;
pub use self::objects::SECRET;
pub use self::read::{condition, has_taint, resource, stage, taints};
pub use self::records::Stalling;
use crate::control_plane::Options;
use crate::control_plane::pool::{self, Lent};
use crate::machine::Machine;
use crate::operator::{self, Operator};
use crate::proxy::Proxy;
use crate::real::{RealMachine, Room, Wire};
use crate::simulated::{Fleet, FleetOptions, MachineSpec};
use crate::times::Times;
use crate::volume::Volumes;
use crate::workload::{Workloads, wait_node_ready};
use fencing_testbed::bmc::{Bmc, BmcCa, Credentials};
use fencing_testbed::fence_agent::DebianAgents;
use fencing_testbed::power::Power;

/// Long enough for anything on a busy machine; nothing waits for it when all is well.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Which kind of node runs on the machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In this process.
    Simulated,
    /// Kubelets and containers in namespaces.
    Real,
}

/// How to set up a lab.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Name of the test.
    pub name: String,
    /// Number of machines, all on.
    pub machines: usize,
    /// What runs on them.
    pub kind: Kind,
    /// The control plane's settings.
    pub control_plane: Options,
    /// How fast simulated nodes are.
    pub fleet: FleetOptions,
    /// Labels of the nodes, by number from 1.
    pub labels: fn(usize) -> BTreeMap<String, String>,
    /// Static pods that run on each simulated machine.
    pub static_pods: Vec<String>,
    /// Whether the control plane may be one that another lab of this process has finished with, and may go to a further
    /// one: see [`pool`].
    pub shares_control_plane: bool,
}

impl Setup {
    /// Simulated machines, times for tests.
    pub fn new(name: &str, machines: usize) -> Self {
        Self {
            name: name.to_owned(),
            machines,
            kind: Kind::Simulated,
            control_plane: Options::named(name),
            fleet: FleetOptions {
                lease_period: Duration::from_secs(1),
                ..FleetOptions::default()
            },
            labels: |_| BTreeMap::new(),
            static_pods: Vec::new(),
            shares_control_plane: true,
        }
    }

    /// The same on machines of this kind.
    pub fn on(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// The same with these times, of the control plane and of the kubelets.
    pub fn at(mut self, times: Times) -> Self {
        self.control_plane = times.of_control_plane(self.control_plane);
        self.fleet = times.of_fleet(self.fleet);
        self
    }

    /// The same, with a control plane that nobody has used before or uses afterwards, and that ends with the lab.
    pub fn alone(mut self) -> Self {
        self.shares_control_plane = false;
        self
    }
}

/// A machine and its BMC.
pub struct Rig {
    /// The machine.
    pub machine: Arc<dyn Machine>,
    /// Its BMC.
    pub bmc: Bmc,
}

/// A running lab. Dropping it ends everything.
///
/// Its parts end in this order: the machines are dark before their control plane goes to somebody else.
pub struct Lab {
    /// Machines and BMCs: `node-1` is the first.
    pub rigs: Vec<Rig>,
    // After the machines: given back when they are dark.
    _room: Option<Room>,
    _fleet: Option<Fleet>,
    /// Workloads in namespace `work`.
    pub workloads: Workloads,
    /// The volumes.
    pub volumes: Arc<Volumes>,
    /// The control plane.
    pub control_plane: Lent,
    shares_control_plane: bool,
    ca: BmcCa,
    /// The logs of the devices.
    devices: records::Devices,
    /// When it kept requests from arriving.
    stalls: records::Stalls,
    /// How far it has set the operator's date ahead.
    ahead_seconds: AtomicI64,
    /// The fence agents that its operator finds; none: those of the host.
    agents: OnceLock<DebianAgents>,
}

/// Each lab of a process has BMC addresses of its own.
static LABS: AtomicU8 = AtomicU8::new(1);

impl Lab {
    /// Starts everything but the operator; all nodes are Ready, all devices exist.
    pub async fn start(setup: Setup) -> Result<Self> {
        let room = match setup.kind {
            Kind::Real => Some(Room::wait_for(setup.machines).await?),
            Kind::Simulated => None,
        };
        let control_plane = if setup.shares_control_plane {
            pool::take(setup.control_plane.clone()).await?
        } else {
            pool::start(setup.control_plane.clone()).await?
        };
        let client = control_plane.admin();
        let workloads = Workloads::create(client.clone(), "work").await?;
        let volumes = Volumes::new(control_plane.files().directory().join("volumes"))?;
        let fleet = (setup.kind == Kind::Simulated)
            .then(|| Fleet::new(client.clone(), volumes.clone(), setup.fleet.clone()));
        let ca = BmcCa::new("lab BMCs")?;
        let lab = LABS.fetch_add(1, Ordering::Relaxed);
        let mut rigs = Vec::new();
        for number in 1..=setup.machines {
            let name = format!("node-{number}");
            let labels = (setup.labels)(number);
            let machine: Arc<dyn Machine> = match &fleet {
                Some(fleet) => {
                    let spec = MachineSpec {
                        labels,
                        static_pods: setup.static_pods.clone(),
                        ..MachineSpec::new(name.clone())
                    };
                    fleet.add(spec.with_credentials(&control_plane).await?)
                }
                None => RealMachine::new(&control_plane, &volumes, &name, &labels)?,
            };
            let address = bmc_address(lab, number)?;
            let power: Arc<dyn Power> = machine.clone();
            let bmc = Bmc::start(address, power, Credentials::default(), &ca)?;
            machine.set_power(true);
            rigs.push(Rig { machine, bmc });
        }
        let this = Self {
            rigs,
            _room: room,
            _fleet: fleet,
            workloads,
            volumes,
            control_plane,
            shares_control_plane: setup.shares_control_plane,
            ca,
            devices: records::Devices::default(),
            stalls: records::Stalls::default(),
            ahead_seconds: AtomicI64::default(),
            agents: OnceLock::new(),
        };
        for rig in &this.rigs {
            wait_node_ready(client.clone(), rig.machine.name(), "True", LIMIT).await?;
        }
        this.credentials().await?;
        for rig in &this.rigs {
            this.device(rig, objects::redfish(&rig.bmc.url())).await?;
            this.devices.log(rig.machine.name(), rig.bmc.recorder());
        }
        Ok(this)
    }

    /// The same, or nothing when this kind of machine cannot be had here and the test is skipped.
    pub async fn start_if_available(setup: Setup) -> Result<Option<Self>> {
        if !available_to_test(setup.kind, &setup.name)? {
            return Ok(None);
        }
        Self::start(setup).await.map(Some)
    }

    /// The rig of this number, from 1.
    pub fn rig(&self, number: usize) -> &Rig {
        &self.rigs[number - 1]
    }

    /// The rig whose node is called so.
    pub fn rig_of(&self, node: &str) -> Result<&Rig> {
        self.rigs
            .iter()
            .find(|rig| rig.machine.name() == node)
            .with_context(|| {
                let names = self.rigs.iter().map(|rig| rig.machine.name());
                let names = names.collect::<Vec<_>>().join(", ");
                format!("no machine is called {node}; there are {names}")
            })
    }

    /// Starts the operator, with exactly the rights of `deploy/`.
    pub async fn operator(&self) -> Result<Operator> {
        self.operator_with(operator::Options::default()).await
    }

    /// Starts the operator with these options.
    pub async fn operator_with(&self, mut options: operator::Options) -> Result<Operator> {
        let agents = self.agents.get().map(|it| it.directory().to_owned());
        options.agents = options.agents.or(agents);
        Operator::start(&self.control_plane, options).await
    }

    /// Starts the operator behind a proxy.
    pub async fn operator_behind(&self, proxy: &Proxy) -> Result<Operator> {
        let server = Some(proxy.url());
        self.operator_with(operator::Options {
            server,
            ..operator::Options::default()
        })
        .await
    }

    /// A proxy in front of the API server.
    pub fn proxy(&self) -> Result<Proxy> {
        let identity = self.control_plane.serving_identity()?;
        Proxy::start(
            &self.control_plane.url(),
            &self.control_plane.ca_pem(),
            &identity,
        )
    }

    /// The same at the far end of a wire, which can be cut; fails where there are no real machines.
    pub async fn proxy_behind_a_wire(&self) -> Result<(Proxy, Wire)> {
        let plane = &self.control_plane;
        let log = plane.files().directory().join("wire.log");
        let wire = Wire::lay(plane.guard(), &log).await?;
        let identity = plane.serving_identity_at(wire.address())?;
        let socket = wire.listen()?;
        let proxy = Proxy::on(socket, None, &plane.url(), &plane.ca_pem(), &identity)?;
        Ok((proxy, wire))
    }
}

fn bmc_address(lab: u8, number: usize) -> Result<IpAddr> {
    // Several test processes run side by side: the process id keeps their addresses apart.
    let process = u8::try_from(std::process::id() % 200)?;
    Ok(Ipv4Addr::new(127, 100 + process / 2, lab, u8::try_from(number)?).into())
}

/// A Secret's value, as the API shows it.
pub fn base64(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}
