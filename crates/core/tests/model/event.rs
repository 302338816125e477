//! What can happen, one thing at a time, and how it is told.

use crate::brain::Brain;
use crate::judge::Broken;
use crate::memory::Change;
use crate::state::{State, Volume};
use crate::talk::Kind;

/// Something that happens. Operators are 0 and 1, pods too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The machine loses its power.
    PowerLoss,
    /// Somebody powers it on.
    PowerOn,
    /// The machine is suspended: it has no power, and keeps its boot and what runs in it.
    Suspends,
    /// It goes on where it was.
    Resumes,
    /// The device begins to read Off although the machine is on.
    Lies,
    /// It reads On again.
    TellsTheTruth,
    /// Somebody deletes the Node.
    NodeDeleted,
    /// Somebody deletes the Node, and restores it from a copy.
    NodeCopied,
    /// The kubelet creates its Node.
    Registers,
    /// The kubelet reports its boot, and Ready.
    Reports,
    /// The kubelet renews its Lease, and nothing else.
    RenewsLease,
    /// The kubelet writes the status of a pod.
    WritesPod(usize),
    /// The kubelet begins to start a pod.
    Starts(usize),
    /// What it began runs.
    Runs(usize),
    /// The kubelet stops a container whose pod is being deleted, or gone.
    Stops(usize),
    /// The kubelet has seen a deletion through.
    Finishes(usize),
    /// node-lifecycle gives the kubelet up; or whoever may report its machine as off does (`earlyDetection`), right or wrong.
    NotReady,
    /// A NoExecute taint evicts a pod.
    TaintEviction(usize),
    /// Somebody deletes a pod.
    Deleted(usize),
    /// Somebody deletes by force what is being deleted on a machine that is off.
    Forced(usize),
    /// Pod GC deletes a pod by force.
    PodGc(usize),
    /// attach/detach detaches, after the unmount or by force.
    Detaches(bool),
    /// The CSI driver detaches what somebody has deleted the VolumeAttachment of.
    Leaves,
    /// attach/detach attaches.
    Attaches(Volume),
    /// The replacement is scheduled to the other node.
    Replaced,
    /// A pod is bound to the node.
    Bound(usize),
    /// Somebody adds a taint.
    ForeignTaint,
    /// The detector drops a claim that no incident looks after.
    TidiesClaim,
    /// The detector lifts the quarantine of a former boot.
    LiftsQuarantine,
    /// An operator reads, decides and begins.
    Round(usize),
    /// Its request arrives, and it hears what came of it.
    Answered(usize, u16, bool),
    /// It waits no longer for its request's answer.
    GivesUp(usize, u16),
    /// A request that nobody waits for arrives.
    Lands(u16, bool),
    /// A look at the power is answered.
    Looked(usize),
    /// Off is read once.
    OffOnce(usize),
    /// Then the pods are listed.
    Listed(usize),
    /// Off is read again: the readings are complete.
    OffAgain(usize),
    /// On is read in between.
    OnAgain(usize),
    /// The readings end with On.
    NotOffInTime(usize),
    /// The claim is read before the off command, and it leaves.
    OffLeaves(usize),
    /// It is not sent.
    OffNotSent(usize),
    /// The Node is read before the on command, and it leaves and takes effect.
    OnLeaves(usize),
    /// It is not sent.
    OnNotSent(usize),
    /// It is sent, and the device does not take it.
    Refuses(usize),
    /// The device says that it has taken it.
    Accepted(usize),
    /// The device says that the machine is off already.
    AlreadyOff(usize),
    /// No answer to it comes.
    NoAnswer(usize),
    /// An off command takes effect.
    OffLands(bool),
    /// It never will.
    OffLost,
    /// Time passes for an operator.
    Passes(usize, Change),
    /// What it has read beside a write is too old.
    ReadsAnew(usize),
    /// It dies, and another one takes its place.
    Dies(usize),
    /// It hears that the incident is over.
    HearsOfEnd(usize),
    /// It reads the NodeFence, and leaves the node to the other one for a while.
    StandsBy(usize),
    /// It writes down where it stands.
    WritesStage(usize),
}

/// Something that can happen next.
pub struct Step {
    /// What.
    pub event: Event,
    /// What is then.
    pub next: State,
    /// What it breaks.
    pub broken: Option<Broken>,
    /// The operators have changed places in it.
    pub is_swapped: bool,
}

impl Step {
    /// A step, before the ghost has seen it.
    pub fn new(event: Event, next: State, broken: Option<Broken>) -> Self {
        Self {
            event,
            next,
            broken,
            is_swapped: false,
        }
    }
}

fn name(operator: usize) -> &'static str {
    ["operator A", "operator B"][operator]
}

fn pod(pod: usize) -> &'static str {
    ["the pod", "the second pod"][pod]
}

impl Event {
    /// In words, with the state before and after it.
    pub fn message(&self, brain: &Brain, before: &State, after: &State) -> String {
        let what = |request: u16| asks(brain.request(request).kind);
        let done = |is_done: bool| if is_done { "done" } else { "refused" };
        match *self {
            Self::Round(x) => round(brain, before, after, x),
            Self::Answered(x, request, is_done) => {
                format!(
                    "{} of {} arrives and is {}",
                    what(request),
                    name(x),
                    done(is_done)
                )
            }
            Self::GivesUp(x, request) => format!(
                "{} hears nothing of its request ({}) and waits no longer: it is still on its way",
                name(x),
                what(request)
            ),
            Self::Lands(request, is_done) => {
                format!(
                    "late, and awaited by nobody: {} arrives and is {}",
                    what(request),
                    done(is_done)
                )
            }
            Self::Passes(x, change) => format!("time passes for {}: {}", name(x), passing(change)),
            Self::ReadsAnew(x) => format!(
                "what {} has read beside its write is too old by now",
                name(x)
            ),
            Self::Dies(x) => format!(
                "{} dies; another process takes its place and remembers nothing",
                name(x)
            ),
            _ => self.of_the_device(before),
        }
    }

    fn of_the_device(&self, before: &State) -> String {
        match *self {
            Self::Looked(x) => format!(
                "the device tells {} that the machine is {}",
                name(x),
                power(before)
            ),
            Self::OffOnce(x) => format!("{} reads Off for the first time", name(x)),
            Self::Listed(x) => format!("{} lists the node's pods between its readings", name(x)),
            Self::OffAgain(x) => format!("{} reads Off again: the readings are complete", name(x)),
            Self::OnAgain(x) => {
                format!("{} reads On in between, and begins to count anew", name(x))
            }
            Self::NotOffInTime(x) => format!("the readings of {} end with On", name(x)),
            Self::OffLeaves(x) | Self::OffNotSent(x) => format!(
                "{} reads the claim once more and sends {} off command",
                name(x),
                match self {
                    Self::OffLeaves(_) => "its",
                    _ => "no",
                }
            ),
            Self::Accepted(x) => format!(
                "the device tells {} that it has taken the off command",
                name(x)
            ),
            Self::AlreadyOff(x) => format!(
                "the device tells {} that the machine is off already",
                name(x)
            ),
            Self::NoAnswer(x) => {
                format!("the device does not answer the off command of {}", name(x))
            }
            Self::OnLeaves(x) | Self::OnNotSent(x) => format!(
                "{} reads power and Node once more and {}",
                name(x),
                match self {
                    Self::OnLeaves(_) => "turns the machine on",
                    _ => "sends no on command",
                }
            ),
            _ => self.of_the_record(),
        }
    }

    fn of_the_record(&self) -> String {
        match *self {
            Self::HearsOfEnd(x) => format!("{} hears that the NodeFence has ended", name(x)),
            Self::StandsBy(x) => format!("{} reads the NodeFence, and stands by", name(x)),
            Self::WritesStage(x) => {
                format!("{} writes into the NodeFence where it stands", name(x))
            }
            _ => self.of_the_cluster(),
        }
    }

    fn of_the_cluster(&self) -> String {
        let message = match *self {
            Self::PowerLoss => "the machine loses its power",
            Self::PowerOn => "somebody powers the machine on",
            Self::Suspends => "the machine is suspended: off, and its memory is kept",
            Self::Resumes => "the machine resumes, in the same boot and with its containers",
            Self::Lies => "the device lies from now on: it reads Off, and the machine is on",
            Self::TellsTheTruth => "the device reads On again",
            Self::NodeDeleted => "somebody deletes the Node",
            Self::NodeCopied => {
                "somebody deletes the Node, and restores it from a copy: another uid, the same taints"
            }
            Self::Registers => "the kubelet creates its Node anew",
            Self::Reports => "the kubelet reports its boot ID and Ready=True",
            Self::RenewsLease => "the kubelet renews its Lease, and writes nothing else",
            Self::NotReady => {
                "node-lifecycle has not heard of the kubelet, or it is reported early: Ready=Unknown"
            }
            Self::Detaches(false) => "the kubelet has unmounted the volume: it is detached",
            Self::Leaves => "the CSI driver detaches the volume whose VolumeAttachment was deleted",
            Self::Detaches(true) => {
                "under `out-of-service` the volume is detached without waiting for an unmount"
            }
            Self::Attaches(Volume::Here) => "the volume is attached to the node",
            Self::Attaches(_) => {
                "the volume is attached to the other node, and the replacement writes to it"
            }
            Self::Replaced => "a replacement of the pod is bound to the other node",
            Self::ForeignTaint => "somebody else adds a taint to the Node",
            Self::TidiesClaim => "the detector takes away a claim whose NodeFence has ended",
            Self::LiftsQuarantine => "the detector lifts the quarantine: the node has booted anew",
            Self::OffLands(true) => "the off command takes effect: the machine is off",
            Self::OffLands(false) => "the off command arrives at a machine that is off already",
            Self::OffLost => "an off command that nobody waits for comes to nothing",
            Self::Refuses(x) => {
                return format!("the device refuses the off command of {}", name(x));
            }
            Self::WritesPod(x) => return format!("the kubelet writes the status of {}", pod(x)),
            Self::Starts(x) => return format!("the kubelet begins to start {}", pod(x)),
            Self::Runs(x) => return format!("what the kubelet began comes up: {} runs", pod(x)),
            Self::Stops(x) => return format!("the kubelet stops the container of {}", pod(x)),
            Self::Finishes(x) => {
                return format!("the kubelet has seen the deletion of {} through", pod(x));
            }
            Self::TaintEviction(x) => return format!("taint eviction deletes {}", pod(x)),
            Self::Deleted(x) => return format!("somebody deletes {}", pod(x)),
            Self::Forced(x) => return format!("somebody deletes {} by force", pod(x)),
            Self::PodGc(x) => return format!("pod GC deletes {} by force", pod(x)),
            Self::Bound(x) => return format!("{} is bound to the node", pod(x)),
            _ => "",
        };
        message.to_owned()
    }
}

fn power(s: &State) -> &'static str {
    if s.reads_off() { "off" } else { "on" }
}

fn asks(kind: Kind) -> &'static str {
    match kind {
        Kind::Claim => "the claim",
        Kind::DropClaim => "the removal of the claim",
        Kind::Taint => "`out-of-service`",
        Kind::Release => "the release",
        Kind::Evict => "the forced deletion of pods",
        Kind::Detach => "the deletion of the VolumeAttachment",
        Kind::DeleteNode => "the deletion of the Node",
    }
}

fn passing(change: Change) -> &'static str {
    match change {
        Change::LateEffect => "no off command can land late any more",
        Change::Look => "its last look at the power is an old one",
        Change::PowerOnOver => "the machine has not come back in time",
        Change::Proof => "its readings are too old to prove anything",
        Change::Lease(_) | Change::RecordUnread | Change::Superseded => "",
    }
}

fn entries(s: &State) -> usize {
    s.record
        .entries
        .iter()
        .filter(|entry| entry.is_there)
        .count()
}

/// A round in words: what the operator begins, or what it has taken note of.
fn round(brain: &Brain, before: &State, after: &State, x: usize) -> String {
    let (old, new) = (&before.operators[x], &after.operators[x]);
    let what = match new.sent {
        0 if new.finished => "sees that the NodeFence has ended".to_owned(),
        0 if before.record.evidence != after.record.evidence => "stores the evidence".to_owned(),
        0 if before.record.ended != after.record.ended => "ends the NodeFence".to_owned(),
        0 if entries(before) < entries(after) => "writes an off command down".to_owned(),
        0 if old.job != new.job => match new.job {
            crate::state::Job::None => "waits no longer for its device".to_owned(),
            crate::state::Job::Look { .. } => "asks the device".to_owned(),
            crate::state::Job::Confirm { .. } => "begins to read the power for a proof".to_owned(),
            crate::state::Job::OnPrepared => "begins to turn the machine on".to_owned(),
            _ => "begins to turn the machine off".to_owned(),
        },
        0 => {
            let stage = |memory: u32| brain.meaning(memory);
            match (stage(old.memory), stage(new.memory)) {
                (was, is) if !was.drained && is.drained => {
                    "sees that all volumes detached".to_owned()
                }
                (was, is) if was.lease.is_none() && is.lease.is_some() => {
                    "notes the kubelet's Lease, and looks which pods can still start".to_owned()
                }
                (was, is) if was.claim != 0 && is.claim == 0 => {
                    "sees that its claim is not there".to_owned()
                }
                _ => "looks, and waits".to_owned(),
            }
        }
        request => format!("sends {}", asks(brain.request(request).kind)),
    };
    format!("{} {what}", name(x))
}
