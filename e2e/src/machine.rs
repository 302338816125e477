//! What every machine of the lab has, whichever kind of node runs on it.
//!
//! A machine has power, a boot ID, a system UUID and a BMC, which talks to it through [`Power`] only. A node (real or simulated) runs on it
//! behind [`Machine`], and breaks in the ways that nodes break.

use std::time::Duration;

use fencing_testbed::power::Power;

/// How a node misbehaves while its machine has power. Each can be combined with the others. A power cycle cures the kubelet
/// and the mounts, as it does in real life; a partition is the network's and stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ailment {
    /// No contact with the API server; containers go on running and writing.
    pub partitioned: bool,
    /// The kubelet does nothing any more (no Lease, no status, no pod work); containers go on running and writing.
    pub kubelet_hung: bool,
    /// Unmounting never succeeds: volumes stay in `volumesInUse`, pods stay Terminating.
    pub unmount_hung: bool,
}

/// What happens at power-on, in the orders that were seen on real nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Boot {
    /// Bound pods start before the kubelet reports Ready (the network plugin comes late).
    pub pods_before_ready: bool,
    /// The node is Ready only once a pod of this DaemonSet (namespace/name), which does not tolerate our taints, runs on it.
    pub ready_needs_daemonset: Option<String>,
    /// The Lease moves, but the node's status is never updated.
    pub status_refused: bool,
    /// Extra time until the kubelet starts.
    pub delay: Duration,
}

/// A machine with a node on it.
pub trait Machine: Power {
    /// `real` or `simulated`, for what the lab prints.
    fn kind(&self) -> &'static str;
    /// The boot ID of the current boot, or of the last one if the machine is off.
    fn boot_id(&self) -> String;
    /// Sets the ways in which the node is broken, replacing those before.
    fn ail(&self, ailment: Ailment);
    /// Cuts its power as when the mains fail: nothing leaves it any more, not even that its connections end, and who asks gets no answer.
    /// ([`Power::set_power`] has the kernel close the connections of a real machine, which itself lives on.) A simulated node has no port: to it both
    /// are the same. Idempotent. Returns when it is dark.
    fn go_dark(&self);
    /// Takes its power, and keeps its memory: nothing in it runs, nothing of it answers, and all of it goes on in the same boot at the next
    /// power-on (R8). Idempotent. Returns when nothing runs any more.
    fn suspend(&self);
    /// Sets what the next power-on looks like. The one after that is an ordinary one again.
    fn next_boot(&self, boot: Boot);
}
