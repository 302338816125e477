//! Simulated nodes: hundreds of kubelets with their machines in one process, that do what real ones were seen to do.
//!
//! A [`Fleet`] is the nodes of one lab. To the API server each of them is a node like any other: it registers, renews its
//! Lease, posts status, waits for its volumes to be attached, runs its pods, terminates them gracefully. To a BMC each is
//! a machine with a plug. Where the order of things matters for fencing it is the order that real kubelets showed: the
//! Lease moves before anything else, bound pods start after power-on without waiting for Ready, a start in flight is not
//! aborted by a deletion, and a pod whose deletion began before the boot is never started.
//!
//! A boot is one async task, and the power cut is its abortion: whatever the kubelet knew, mounted or was about to send
//! is gone. Containers write from [`crate::volume`]'s thread and are silent when [`set_power`](fencing_testbed::power::Power::set_power) returns.

mod kubelet;
mod machine;
mod objects;
mod pod;
mod static_pods;
mod uplink;
mod view;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use kube::Client;
use tokio::task::JoinSet;

use crate::control_plane::ControlPlane;
use crate::machine::Machine;
use crate::toolchain::kubernetes_version;
use crate::volume::Volumes;
use fencing_testbed::pki::User;
use machine::SimulatedMachine;
use view::View;

/// How fast simulated nodes are, and which CSI driver they carry. The defaults are what real nodes showed.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    /// Name of the CSI driver whose node plugin runs on every node.
    pub csi_driver: String,
    /// What `status.nodeInfo.kubeletVersion` says.
    pub kubelet_version: String,
    /// How often a node renews its Lease. The lab's controller-manager gives up on a node after 4 s without.
    pub lease_period: Duration,
    /// `leaseDurationSeconds` of the Leases.
    pub lease_duration_seconds: i32,
    /// How often a node looks whether its status has changed; none: it posts a change at once.
    pub status_look: Option<Duration>,
    /// How often a node posts an unchanged status.
    pub status_period: Duration,
    /// From power-on until the kubelet first renews the Lease: its first sign of life.
    pub power_on_to_lease: Duration,
    /// From power-on until the kubelet registers, posts Ready and sees its pods.
    pub power_on_to_status: Duration,
    /// From power-on until the volumes of the pods that are already bound are mounted. A deletion that arrives earlier
    /// keeps the pod from starting; from here on the start is in flight, and nothing but power loss aborts it.
    pub power_on_to_mounts: Duration,
    /// From power-on until the containers of the pods that are already bound run.
    pub power_on_to_containers: Duration,
    /// From power-on until Ready, where the network plugin comes late ([`crate::machine::Boot::pods_before_ready`]).
    pub power_on_to_late_ready: Duration,
    /// From mounted volumes until the container of a pod that was bound later runs.
    pub container_start: Duration,
    /// From SIGTERM until a container exits (at most the pod's grace period). A pod with the annotation
    /// [`IGNORES_SIGTERM`] uses up its grace period instead.
    pub container_stop: Duration,
}

impl Default for FleetOptions {
    fn default() -> Self {
        Self {
            csi_driver: crate::csi::DRIVER.to_owned(),
            kubelet_version: kubernetes_version().to_owned(),
            lease_period: Duration::from_secs(1),
            lease_duration_seconds: 8,
            status_look: None,
            status_period: Duration::from_secs(10),
            power_on_to_lease: Duration::from_millis(150),
            power_on_to_status: Duration::from_millis(250),
            power_on_to_mounts: Duration::from_millis(1300),
            power_on_to_containers: Duration::from_millis(1550),
            power_on_to_late_ready: Duration::from_secs(8),
            container_start: Duration::from_millis(300),
            container_stop: Duration::from_millis(200),
        }
    }
}

/// Annotation of a pod whose container ignores SIGTERM and writes until it is killed at the end of its grace period.
pub const IGNORES_SIGTERM: &str = "lab.nodefencing.io/ignores-sigterm";

/// A machine to be simulated.
#[derive(Clone, Default)]
pub struct MachineSpec {
    /// Name of the machine and of its Node.
    pub name: String,
    /// SMBIOS system UUID, in RFC 4122 text form.
    pub system_uuid: String,
    /// Labels of the Node, besides those that every kubelet sets.
    pub labels: BTreeMap<String, String>,
    /// Failure domain: label `topology.kubernetes.io/zone`.
    pub zone: Option<String>,
    /// The Node's InternalIP; one of 127.77.0.0/16 if not given.
    pub address: Option<IpAddr>,
    /// Credentials of `system:node:NAME`, so that the node authorizer and NodeRestriction apply; the fleet's if not given.
    pub client: Option<Client>,
    /// Names of static pods: the kubelet shows a mirror pod in namespace `default` for each.
    pub static_pods: Vec<String>,
}

impl MachineSpec {
    /// A machine called `name`, with a random system UUID and nothing out of the ordinary.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            system_uuid: uuid::Uuid::new_v4().to_string(),
            ..Self::default()
        }
    }

    /// The same machine with credentials of `system:node:NAME`, so that the node authorizer and NodeRestriction hold for
    /// it as they do for a real one.
    pub async fn with_credentials(self, plane: &ControlPlane) -> Result<Self> {
        let config = plane.client_config(&User::node(&self.name)).await?;
        Ok(Self {
            client: Some(Client::try_from(config)?),
            ..self
        })
    }
}

/// The simulated nodes of one lab. Dropping it cuts the power of all of them.
pub struct Fleet {
    client: Client,
    volumes: Arc<Volumes>,
    options: Arc<FleetOptions>,
    view: Arc<View>,
    machines: Mutex<Vec<Arc<SimulatedMachine>>>,
    next_address: AtomicU16,
    _watches: JoinSet<()>,
}

impl Fleet {
    /// No machines yet, but the watches for them. `client` must be allowed to watch all pods, nodes and
    /// VolumeAttachments. Call it inside a tokio runtime: the nodes will live on that one.
    pub fn new(client: Client, volumes: Arc<Volumes>, options: FleetOptions) -> Self {
        let mut watches = JoinSet::new();
        let view = View::start(&client, &mut watches);
        let (machines, next_address) = (Mutex::default(), AtomicU16::new(1));
        Self {
            client,
            volumes,
            options: Arc::new(options),
            view,
            machines,
            next_address,
            _watches: watches,
        }
    }

    /// Adds a machine, without power. Call it inside a tokio runtime: the node will live on that one.
    pub fn add(&self, mut spec: MachineSpec) -> Arc<dyn Machine> {
        let [high, low] = self
            .next_address
            .fetch_add(1, Ordering::Relaxed)
            .to_be_bytes();
        spec.address
            .get_or_insert(Ipv4Addr::new(127, 77, high, low).into());
        spec.client.get_or_insert_with(|| self.client.clone());
        let sight = self.view.of(&spec.name);
        let machine = SimulatedMachine::new(
            spec,
            Arc::clone(&self.options),
            Arc::clone(&self.volumes),
            sight,
        );
        let machine = Arc::new(machine);
        self.machines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::clone(&machine));
        machine
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for machine in self
            .machines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            machine.cut();
        }
    }
}
