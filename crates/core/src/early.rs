//! May a Node be reported as not Ready before Kubernetes has noticed (`earlyDetection`)? Only if its devices say that the machine is off, and nothing
//! says that it runs (S24).
//!
//! Kubernetes sets `Ready` to `Unknown` when it has not heard of a kubelet for the grace period, 50 s. Here a Lease that is silent for three tenths
//! of its own duration, 12 of 40 s, is a *suspicion* ([`renewals`]): the devices are asked, and nothing is written. If what they say passes
//! [`judge`], the operator sets the condition itself ([`mark`]), and everything else goes on as after Kubernetes' own: claim, proof, taint. A
//! kubelet that lives takes it back with its next report.
//!
//! The brakes are asked first: a suspicion of many nodes at once is one of the network or of the API server, and not of machines.

pub mod mark;
pub mod renewals;

use super::observed::{LeaseView, NodeView, Ready};
use super::verification::Require;
use fencing_api::policy::{EarlyDetection, NodeFencingPolicy};
use renewals::Renewal;
use std::time::Duration;

/// From the first reading of Off to the second, at least: a BMC that restarts reads Off for a moment.
pub const APART: Duration = Duration::from_millis(500);
/// A reading of Off is used for so long: the rest of the look at the device, and what is asked of the API server and the kubelet after it.
pub const READING_LIFE: Duration = Duration::from_secs(5);
/// Devices of nodes with early detection are probed this often.
pub const PROBE_PERIOD: Duration = Duration::from_secs(30);
/// How long before the first Off the device may have read On last: two probes, with their jitter and their own time. One that is stuck, or is
/// another machine's, has not.
pub const LATELY: Duration = Duration::from_secs(75);

/// Labels of Nodes that run the control plane, or a part of it; the second is that of older clusters, the third RKE2's.
const CONTROL_PLANE: [&str; 3] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node-role.kubernetes.io/etcd",
];

/// What the devices of one level have read since the Lease fell silent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelSaid {
    /// How many of them have to read Off.
    pub require: Require,
    /// Each of them; at least one.
    pub devices: Vec<DeviceSaid>,
}

/// What one device has read since then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSaid {
    /// FenceDevice name.
    pub device: String,
    /// It was asked, whatever it has answered.
    pub was_asked: bool,
    /// It reads On.
    pub reads_on: bool,
    /// Its readings of Off of the machine that is pinned, if it has shown in this boot that it can read On (S25).
    pub off: Option<Off>,
}

/// Readings of Off without another one between them, by when they were asked for (since boot).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Off {
    /// The first.
    pub first: Duration,
    /// The last.
    pub last: Duration,
    /// When it was asked for the last On before them; none: this process has read none.
    pub on_before: Option<Duration>,
}

/// What is known of a node whose kubelet is suspected to be dead.
#[derive(Debug)]
pub struct Suspect<'a> {
    /// The Node, by quorum.
    pub node: &'a NodeView,
    /// The kubelet's Lease, by a quorum read after the last Off.
    pub lease: &'a LeaseView,
    /// Its last renewal that was seen.
    pub renewal: &'a Renewal,
    /// The levels of its policy, in their order.
    pub levels: &'a [LevelSaid],
    /// The kubelet's port is silent: a machine that refuses a connection runs.
    pub port_is_silent: bool,
}

/// What else decides, of the operator and its policy.
#[derive(Debug, Clone, Copy)]
pub struct Brakes<'a> {
    /// The node that the operator runs on.
    pub own_node: Option<&'a str>,
    /// How many nodes of its policy are silent, or were reported and are not back.
    pub suspects: usize,
    /// How many nodes may be fenced at the same time.
    pub limit: u32,
    /// Another kubelet has renewed its Lease since ([`renewals::Renewals::others_since`]): the API server takes renewals, and the watch tells of them.
    pub others_renew: bool,
    /// The operator has reported this boot of the Node before, or has had an incident of it, whatever became of that.
    pub had_its_turn: bool,
}

/// Why a Node is not reported, in words for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// It is not Ready: Kubernetes has noticed.
    #[error("Node {0} is not Ready already")]
    NotReady(String),
    /// It has no boot ID, or its kubelet never reported.
    #[error("the kubelet of Node {0} has never reported")]
    NeverReported(String),
    /// The operator itself runs there.
    #[error("the operator runs on Node {0}")]
    OwnNode(String),
    /// It runs the control plane.
    #[error("Node {0} runs the control plane, whose nodes are never reported early")]
    ControlPlane(String),
    /// More nodes are suspected than may be fenced.
    #[error(
        "{suspects} kubelets are silent at once, and {limit} nodes may be fenced: the network or the API server is suspected"
    )]
    TooMany {
        /// How many.
        suspects: usize,
        /// How many may.
        limit: u32,
    },
    /// No other Lease was renewed.
    #[error(
        "no other kubelet has renewed its Lease since that of Node {0}: the API server is suspected"
    )]
    NoneRenews(String),
    /// One report for each boot.
    #[error("Node {0} was reported or fenced in this boot before")]
    HadItsTurn(String),
    /// The Lease is not silent.
    #[error("the kubelet of Node {0} has renewed its Lease")]
    Renewed(String),
    /// The port is not silent.
    #[error(
        "the kubelet's port of Node {0} answers, or refuses the connection, or cannot be tried"
    )]
    PortNotSilent(String),
    /// A device of some level may yet say On.
    #[error("FenceDevice {1} has not been asked yet about Node {0}")]
    NotAsked(String, String),
    /// A device of some level speaks against all others (S4).
    #[error("FenceDevice {1} reads On of Node {0}")]
    ReadsOn(String, String),
    /// No level says that the machine is off.
    #[error("no level of devices reads Off twice of Node {0} and has read On just before")]
    NotOff(String),
}

/// Does the policy want its nodes to be reported early?
pub fn wants_reports(policy: &NodeFencingPolicy) -> bool {
    policy.spec.early_detection == EarlyDetection::Enabled
}

/// May the devices of this node be asked because its Lease is silent? What costs nothing to know is asked first.
///
/// # Errors
/// [`Obstacle`].
pub fn may_ask(node: &NodeView, brakes: &Brakes<'_>) -> Result<(), Obstacle> {
    let name = || node.name.clone();
    if node.ready() == Ready::Missing || node.boot_id.is_empty() || node.last_report().is_empty() {
        return Err(Obstacle::NeverReported(name()));
    }
    if node.ready() != Ready::True {
        return Err(Obstacle::NotReady(name()));
    }
    if brakes.own_node == Some(node.name.as_str()) {
        return Err(Obstacle::OwnNode(name()));
    }
    if is_control_plane(node) {
        return Err(Obstacle::ControlPlane(name()));
    }
    if brakes.had_its_turn {
        return Err(Obstacle::HadItsTurn(name()));
    }
    if !brakes.others_renew {
        return Err(Obstacle::NoneRenews(name()));
    }
    let limit = usize::try_from(brakes.limit).unwrap_or(usize::MAX);
    if brakes.suspects > limit {
        return Err(Obstacle::TooMany {
            suspects: brakes.suspects,
            limit: brakes.limit,
        });
    }
    Ok(())
}

/// Does the Node run the control plane? It is never reported.
pub fn is_control_plane(node: &NodeView) -> bool {
    CONTROL_PLANE.iter().any(|it| node.labels.contains_key(*it))
}

/// May the Node be reported at `now` (time since boot)? Consumed by [`mark::unknown`].
#[derive(Debug)]
pub struct Verdict {
    /// Not to be used after this moment (time since boot).
    valid_until: Duration,
}

impl Verdict {
    /// Not to be used after this moment (time since boot).
    pub fn valid_until(&self) -> Duration {
        self.valid_until
    }
}

/// Judges what was found.
///
/// # Errors
/// The first [`Obstacle`].
pub fn judge(
    suspect: &Suspect<'_>,
    brakes: &Brakes<'_>,
    now: Duration,
) -> Result<Verdict, Obstacle> {
    let node = suspect.node;
    may_ask(node, brakes)?;
    if suspect.lease.renew_time != suspect.renewal.time || !suspect.renewal.is_silent(now) {
        return Err(Obstacle::Renewed(node.name.clone()));
    }
    if !suspect.port_is_silent {
        return Err(Obstacle::PortNotSilent(node.name.clone()));
    }
    if let Some(device) = device_that(suspect.levels, |it| it.reads_on) {
        return Err(Obstacle::ReadsOn(node.name.clone(), device));
    }
    if let Some(device) = device_that(suspect.levels, |it| !it.was_asked) {
        return Err(Obstacle::NotAsked(node.name.clone(), device));
    }
    let mut levels = suspect.levels.iter();
    let last = levels.find_map(|level| level.reads_off(suspect.renewal.seen));
    let valid_until = last.map(|last| last + READING_LIFE);
    let valid_until = valid_until.filter(|until| now <= *until);
    valid_until.map_or_else(
        || Err(Obstacle::NotOff(node.name.clone())),
        |valid_until| Ok(Verdict { valid_until }),
    )
}

fn device_that(levels: &[LevelSaid], is_it: fn(&DeviceSaid) -> bool) -> Option<String> {
    let mut devices = levels.iter().flat_map(|level| &level.devices);
    Some(devices.find(|device| is_it(device))?.device.clone())
}

impl LevelSaid {
    /// Has one of its devices read Off twice?
    pub fn is_worth_a_question(&self) -> bool {
        let is_twice = |off: Off| off.last.saturating_sub(off.first) >= APART;
        self.devices.iter().any(|it| it.off.is_some_and(is_twice))
    }

    /// When its oldest last Off was asked for, if its devices say that the machine is off.
    fn reads_off(&self, silent_since: Duration) -> Option<Duration> {
        let counts = |device: &DeviceSaid| device.off.filter(|off| off.counts(silent_since));
        let mut offs = self.devices.iter().map(counts);
        match self.require {
            Require::Any => offs.flatten().map(|off| off.last).max(),
            Require::All if self.devices.is_empty() => None,
            Require::All => offs.try_fold(Duration::MAX, |oldest, off| Some(oldest.min(off?.last))),
        }
    }
}

impl Off {
    /// Twice, after the last renewal, of a device that has just read On.
    fn counts(&self, silent_since: Duration) -> bool {
        let is_lately = |on: Duration| on < self.first && self.first - on <= LATELY;
        self.first > silent_since
            && self.last.saturating_sub(self.first) >= APART
            && self.on_before.is_some_and(is_lately)
    }
}

#[cfg(test)]
mod tests;
