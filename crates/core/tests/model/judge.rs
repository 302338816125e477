//! What must hold in every state, and at every write: the invariants of docs/protocol.md that this little cluster can show.
//!
//! S1 is judged in each state. The others are judged when a write arrives (S22: when it is sent), because they are about what may be
//! written when. What they need to know of the past is in the state's `ghost`, which no decision reads. Down is what the device says: of
//! one that lies only S22 can be held against the operator (R2).

use crate::state::{Container, Ghost, Node, Object, PODS, Pod, State, Taint, Volume};
use crate::talk::{Kind, Request};
use crate::world::World;

/// An invariant that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Broken {
    /// Two writers.
    S1,
    /// A taint or a forced deletion without a proof.
    S2,
    /// A taint of ours is added to a Ready node.
    S6,
    /// Something else of the Node is changed.
    S7,
    /// A write of a superseded claim is done.
    S9,
    /// What was meant for one Node is done to another of its name.
    S10,
    /// An off without a claim or an intent, or an on with a claim, or with an off that may land.
    S11,
    /// `out-of-service` goes before it may, or without its claim.
    S14,
    /// `out-of-service` without evidence for its claim.
    S17,
    /// `out-of-service` beside a sign of life.
    S22,
    /// A release while an off may still land.
    S23,
    /// No end can be reached any more.
    L3,
}

impl Broken {
    /// What it means, for people.
    pub fn message(self) -> &'static str {
        match self {
            Self::S1 => {
                "the volume is attached to the other node, and a container of the old pod still writes to it"
            }
            Self::S2 => {
                "no proof covers it: the machine was not off since this claim made the node quiet, or it has shown life"
            }
            Self::S6 => "a taint of ours is added to a node that is Ready",
            Self::S7 => "a taint of somebody else is gone",
            Self::S9 => "a write that was decided under another claim is done",
            Self::S10 => "what was meant for one Node is done to another one of its name",
            Self::S11 => {
                "an off command leaves without a claim that stands, or without being written down; or an on under one, or while an off may land"
            }
            Self::S14 => {
                "`out-of-service` goes before its time, or without the right quarantine, or is left without its claim"
            }
            Self::S17 => "`out-of-service` is set, and the evidence under its claim is not stored",
            Self::S22 => {
                "`out-of-service` is sent, and the kubelet has renewed its Lease, or written of a pod, since the power was read"
            }
            Self::S23 => "the node is released while an off command may still land",
            Self::L3 => "from here no end of the incident can be reached",
        }
    }
}

/// A patch of the Node that was accepted.
pub struct Landing<'a> {
    /// What was asked for.
    pub request: &'a Request,
    /// The state that it met.
    pub before: &'a State,
    /// The state with the Node that it has left.
    pub after: &'a State,
}

impl Landing<'_> {
    /// The invariant that this write breaks.
    pub fn broken(&self) -> Option<Broken> {
        let (old, new) = (&self.before.node, &self.after.node);
        let request = self.request;
        let foreign = |node: &Node| node.taints().filter(|it| *it == Taint::FOREIGN).count();
        let adds = |is: fn(&Node) -> bool| is(new) && !is(old);
        let is_ours = |node: &Node| node.claim().is_some();
        let is_deleted = request.kind == Kind::DeleteNode;
        let is_added = adds(is_ours) || adds(Node::is_marked) || is_deleted;
        let kept = old.claim().unwrap_or_default() == request.claim;
        let checks = [
            (Broken::S10, old.uid == request.uid),
            (Broken::S9, kept),
            (Broken::S7, foreign(old) == foreign(new) || is_deleted),
            (Broken::S6, !(is_added && old.ready)),
        ];
        let first = checks.into_iter().find(|(_, holds)| !holds);
        first.map(|(broken, _)| broken).or(match request.kind {
            Kind::Taint => self.taint(),
            Kind::Release | Kind::DeleteNode => self.release(),
            Kind::Claim | Kind::DropClaim | Kind::Evict | Kind::Detach => {
                (new.is_marked() && !is_ours(new)).then_some(Broken::S14)
            }
        })
    }

    fn taint(&self) -> Option<Broken> {
        let before = self.before;
        let is_proven = before.ghost.dark && before.node.boot == before.ghost.claimed_boot;
        match (is_proven, before.record.evidence == self.request.claim) {
            (false, _) => Some(Broken::S2),
            (true, false) => Some(Broken::S17),
            (true, true) => None,
        }
    }

    fn release(&self) -> Option<Broken> {
        let before = self.before;
        // A machine that has not booted anew is kept free of pods until it has. Of one that has, the boot that was fenced is over: its
        // quarantine would be lifted by the next look at the Node.
        let (fenced, boot) = (before.ghost.claimed_boot, before.node.boot);
        let wanted = match boot == fenced {
            true => Some(fenced),
            false => before.node.quarantined(),
        };
        let is_quarantined = self.after.node.quarantined() == wanted;
        // A Node that is deleted has no taint that could stay.
        let is_deleted = self.request.kind == Kind::DeleteNode;
        if !before.ghost.released_well || !(is_quarantined || is_deleted) {
            return Some(Broken::S14);
        }
        let may_land = before.commands.iter().any(|command| command.is_there);
        may_land.then_some(Broken::S23)
    }
}

/// A request leaves. Between what its round has read and its arrival a sign of life can come that nobody is told of, so this one is judged
/// here.
pub fn sent(s: &State, x: usize, kind: Kind) -> Option<Broken> {
    let is_alive = s.ghost.renewed[x] || s.ghost.wrote[x];
    (kind == Kind::Taint && is_alive).then_some(Broken::S22)
}

/// A pod was deleted by force: nothing of it may run or start.
pub fn evicted(s: &State, pod: &Pod) -> Option<Broken> {
    let is_alive = pod.container != Container::None;
    (is_alive && !s.deceived).then_some(Broken::S2)
}

/// Two writers? Not if a lie of the device has led there: nobody could see it (R2).
pub fn two_writers(world: &World, s: &State) -> bool {
    let shares = |index: usize| index == 0 || world.second_shares_volume();
    let mut pods = (0..PODS)
        .filter(|index| shares(*index))
        .map(|index| &s.pods[index]);
    let is_copied = s.node.is_copied_out_of_service();
    // What is suspended writes nothing before it resumes.
    s.on && s.volume == Volume::ForeignCommands
        && !is_copied
        && !s.deceived
        && pods.any(|pod| pod.container == Container::Running)
}

/// Where the operator detaches: was a volume taken from under what runs, or is being started, on the node? Of whatever boot, and though no
/// other node has it yet.
pub fn is_torn(world: &World, before: &State, s: &State) -> bool {
    let shares = |index: usize| index == 0 || world.second_shares_volume();
    let writes = |(index, pod): (usize, &Pod)| shares(index) && pod.container != Container::None;
    let is_taken = before.leaving && before.volume == Volume::Here && s.volume == Volume::Nowhere;
    is_taken && s.pods.iter().enumerate().any(writes)
}

/// What the invariants need to know of the past, after this step.
pub fn note(world: &World, before: &State, s: &mut State) {
    let claim = s.node.claim();
    let is_new = claim != before.node.claim() || s.node.uid != before.node.uid;
    if is_new || claim.is_none() {
        s.ghost = Ghost {
            claimed_boot: claim.map_or(0, |_| s.node.boot),
            dark: false,
            ..s.ghost
        };
    }
    let may_start = |(index, pod): (usize, &Pod)| {
        pod.object == Object::Bound && !(index == 1 && world.tolerates())
    };
    let is_quiet = !s.pods.iter().enumerate().any(may_start);
    s.ghost.dark |= claim.is_some() && is_quiet && s.reads_off();
    // Once is enough: who comes after the release was decided comes to a machine that is off or has booted anew.
    let has_detached = !world.hinders(s) && s.volume != Volume::Here;
    let is_down = s.reads_off() || s.node.boot != 1;
    s.ghost.released_well |= has_detached && is_down;
    s.ghost.released_well &= s.node.is_marked();
}

/// Has the incident ended well? A claim that an operator wrote after the end stays until the node is Ready, or until the next incident
/// takes it over (`src/shell/detect.rs`).
pub fn has_ended(s: &State) -> bool {
    let is_left = s.node.claim().is_some() && s.node.ready;
    let is_out = s.node.is_marked() && !s.node.is_copied_out_of_service();
    s.record.ended && !is_out && !is_left
}
