//! One state of the model: everything that can differ between two moments of the little cluster.
//!
//! A state is small and plain, so that millions of them can be compared. What the core remembers, and the requests that it has
//! sent, are numbers here: [`crate::brain`] knows which memory and which patch each of them stands for.

use crate::budget::Budget;

/// How many requests may be on their way after their sender has stopped waiting for them.
pub const WIRE: usize = 3;
/// How many off commands may be on their way to the device.
pub const COMMANDS: usize = 2;
/// How many different off commands the record may name.
pub const ENTRIES: usize = 3;
/// How many pods the node has.
pub const PODS: usize = 2;
/// How many taints a Node carries at most.
pub const TAINTS: usize = 4;

/// A taint of the Node, as a number below 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Taint(pub u8);

impl Taint {
    /// `node.kubernetes.io/out-of-service`.
    pub const OUT_OF_SERVICE: Self = Self(1);
    /// One that somebody else has set, and that only keeps new pods away.
    pub const FOREIGN: Self = Self(2);

    /// `nodefencing.io/detaching`, for the first boot.
    pub const DETACHING: Self = Self(3);

    /// The claim with this nonce.
    pub const fn claim(nonce: u8) -> Self {
        Self(16 + nonce)
    }

    /// The quarantine of this boot.
    pub const fn quarantine(boot: u8) -> Self {
        Self(32 + boot)
    }

    /// The nonce, if it is a claim.
    pub fn nonce(self) -> Option<u8> {
        (16..32).contains(&self.0).then(|| self.0 - 16)
    }

    /// The boot, if it is a quarantine.
    pub fn quarantined(self) -> Option<u8> {
        (32..48).contains(&self.0).then(|| self.0 - 32)
    }
}

/// The Node object. The incident is about uid 1 and boot 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Node {
    /// 0: there is none.
    pub uid: u8,
    /// The boot that the kubelet has reported.
    pub boot: u8,
    /// Ready is True; otherwise it is Unknown.
    pub ready: bool,
    /// In their stored order.
    pub taints: [Taint; TAINTS],
}

impl Node {
    /// The taints that there are.
    pub fn taints(&self) -> impl Iterator<Item = Taint> {
        self.taints.into_iter().filter(|taint| taint.0 != 0)
    }

    /// Does it carry this taint?
    pub fn has(&self, taint: Taint) -> bool {
        self.taints.contains(&taint)
    }

    /// The nonce of the claim on it.
    pub fn claim(&self) -> Option<u8> {
        self.taints().find_map(Taint::nonce)
    }

    /// The boot whose quarantine it carries.
    pub fn quarantined(&self) -> Option<u8> {
        self.taints().find_map(Taint::quarantined)
    }

    /// Does it carry `out-of-service`?
    pub fn out_of_service(&self) -> bool {
        self.has(Taint::OUT_OF_SERVICE)
    }

    /// Does it carry what the operator sets when the machine is proven down?
    pub fn is_marked(&self) -> bool {
        self.out_of_service() || self.has(Taint::DETACHING)
    }

    /// Has somebody restored another Node from a copy of this one, `out-of-service` included? We set it on none but the first (S10), and
    /// what people set is theirs (R5).
    pub fn is_copied_out_of_service(&self) -> bool {
        self.uid != 1 && self.out_of_service()
    }

    /// Adds a taint behind the others.
    pub fn add(&mut self, taint: Taint) {
        if let Some(free) = self.taints.iter_mut().find(|it| it.0 == 0) {
            *free = taint;
        }
    }

    /// Takes a taint away; those behind it move up.
    pub fn remove(&mut self, taint: Taint) {
        let left: Vec<Taint> = self.taints().filter(|it| *it != taint).collect();
        self.taints = [Taint::default(); TAINTS];
        self.taints[..left.len()].copy_from_slice(&left);
    }

    /// The Node but for its claim, or nothing of it.
    pub fn as_read(self, is_wanted: bool) -> Self {
        match is_wanted {
            true => self.without_claim(),
            false => Self::default(),
        }
    }

    /// The Node but for its claim.
    pub fn without_claim(mut self) -> Self {
        if let Some(claim) = self.claim() {
            self.remove(Taint::claim(claim));
        }
        self
    }

    /// How many bits [`Node::bits`] needs.
    pub const BITS: u32 = 31;

    /// All of it as one number.
    pub fn bits(&self) -> u64 {
        let taints = self
            .taints
            .iter()
            .fold(0, |bits, it| bits << 6 | u64::from(it.0));
        taints << 7 | u64::from(self.uid) << 5 | u64::from(self.boot) << 1 | u64::from(self.ready)
    }
}

/// Where a pod's object stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Object {
    /// There is none.
    #[default]
    Gone,
    /// Bound to the node.
    Bound,
    /// Bound to the node, with a deletionTimestamp.
    Deleting,
    /// A replacement that is bound to the other node.
    ForeignCommands,
}

/// What the node's kubelet makes of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Container {
    /// Nothing runs.
    #[default]
    None,
    /// The kubelet has begun to start it: nothing calls this back.
    Starting,
    /// It runs, and writes.
    Running,
}

/// A pod of the node, and its replacements under the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Pod {
    /// Its object.
    pub object: Object,
    /// Its container on the node.
    pub container: Container,
    /// Which of the pods of this name it is: its uid.
    pub generation: u8,
    /// Its kubelet has written of it what only a kubelet writes.
    pub written: bool,
}

impl Pod {
    /// Is it bound to the node?
    pub fn is_on_node(&self) -> bool {
        matches!(self.object, Object::Bound | Object::Deleting)
    }

    /// What a list of the node's pods shows of it, in 5 bits; 0: nothing.
    pub fn listed(&self) -> u8 {
        let pod = u8::from(self.written) << 4 | self.generation << 2;
        match self.object {
            Object::Bound => pod | 1,
            Object::Deleting => pod | 3,
            Object::Gone | Object::ForeignCommands => 0,
        }
    }
}

/// Where the volume of the first pod is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Volume {
    /// To the node.
    #[default]
    Here,
    /// Nowhere.
    Nowhere,
    /// To the other node.
    ForeignCommands,
}

/// The status of the NodeFence, as far as somebody reads it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Record {
    /// The incident is over.
    pub ended: bool,
    /// Nonce of the claim that `evidence` is for; 0: there is none.
    pub evidence: u8,
    /// `taintAppliedTime` is there.
    pub tainted: bool,
    /// How many `contradictions` there are.
    pub contradictions: u8,
    /// Nonce of `claim`; 0: none.
    pub claim: u8,
    /// Off commands that were written down, see [`Entry`].
    pub entries: [Entry; ENTRIES],
}

/// An off command in the record. One that is closed and of nobody's interest any more is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Entry {
    /// There is one.
    pub is_there: bool,
    /// It has no `completionTime`.
    pub open: bool,
    /// Which operators have read of it.
    pub known: [bool; 2],
    /// Whose current attempt it is.
    pub own: [bool; 2],
    /// Who knows that nothing of it is to come, and will write that with whatever is written next.
    pub settled: [bool; 2],
}

/// What a device does for an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Job {
    /// Nothing.
    #[default]
    None,
    /// One look. Was it asked for after everything had detached?
    Look {
        /// Since `drained`.
        since_drained: bool,
    },
    /// Readings for a proof.
    Confirm {
        /// The readings have to span 40 s and not just the policy's window.
        long: bool,
        /// How far they are.
        progress: Confirm,
        /// What the list of pods showed.
        pods: [u8; PODS],
    },
    /// An off command is prepared; the claim is read again before it leaves.
    OffPrepared,
    /// It has left, and no answer has come.
    OffSent,
    /// An on command is prepared; the Node is read again before it leaves.
    OnPrepared,
}

impl Job {
    /// Is a list of the pods still to come that a proof will be compared with? Readings of 40 s have many lists, of which the model has one: what is
    /// written between them is not judged.
    pub fn is_to_list(self) -> bool {
        matches!(self, Self::Confirm { long: false, progress, .. } if progress != Confirm::Listed)
    }
}

/// How far the readings are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Confirm {
    /// Not off yet.
    #[default]
    Begun,
    /// Off was read once.
    OffOnce,
    /// And then the pods were listed.
    Listed,
}

/// An off command on its way to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Command {
    /// There is one.
    pub is_there: bool,
    /// Who waits for its answer.
    pub awaited: [bool; 2],
    /// Whose wait for late commands covers it: it has landed, or never will, when that is over.
    pub covered: [bool; 2],
    /// Its device has said that it has taken it.
    pub accepted: bool,
    /// It has taken effect; only its answer is to come.
    pub landed: bool,
}

/// One process of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Operator {
    /// It has read the NodeFence.
    pub begun: bool,
    /// It knows that the incident is over.
    pub finished: bool,
    /// What the core remembers.
    pub memory: u32,
    /// What the record said when it was read: an index of the brain's settings.
    pub facts: u8,
    /// The record as this process knows it is the one that is stored.
    pub current: bool,
    /// A write of the record was refused for its version.
    pub behind: bool,
    /// `claim` in the record as this process knows it.
    pub known_claim: u8,
    /// The claim that `evidence` is for, in the record as this process knows it and writes it; 0: there is none.
    pub evidence: u8,
    /// The request whose answer it waits for; 0: none.
    pub sent: u16,
    /// What was read beside the last write; 0: nothing.
    pub ahead: u16,
    /// Its work with the device.
    pub job: Job,
}

/// What happened before, as far as an invariant asks for it. No decision reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ghost {
    /// Since the claim that stands was set, there was a moment at which no pod could start and the machine was off.
    pub dark: bool,
    /// The boot that the Node showed when its claim was set.
    pub claimed_boot: u8,
    /// Since everything has detached the machine was off, or the Node has shown another boot.
    pub released_well: bool,
    /// Whose readings the kubelet has renewed its Lease beside: since this operator began to read the power.
    pub renewed: [bool; 2],
    /// Beside whose readings the kubelet has written of a pod: since this operator began to read the power, and before it has listed the pods.
    pub wrote: [bool; 2],
}

/// One state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct State {
    /// The machine has power.
    pub on: bool,
    /// How often it has booted.
    pub boot: u8,
    /// It has none, and keeps its memory: it can go on in the same boot.
    pub suspended: bool,
    /// Its device reads Off although it is on.
    pub lies: bool,
    /// Its device has done so before.
    pub deceived: bool,
    /// The Node object.
    pub node: Node,
    /// Its pods.
    pub pods: [Pod; PODS],
    /// Where the volume is.
    pub volume: Volume,
    /// Which VolumeAttachment of the node it is, where the operator deletes them.
    pub attachment: u8,
    /// It has a deletionTimestamp, and goes at any moment.
    pub leaving: bool,
    /// The NodeFence.
    pub record: Record,
    /// Both processes.
    pub operators: [Operator; 2],
    /// Requests that nobody waits for, highest number first.
    pub wire: [u16; WIRE],
    /// Off commands on their way.
    pub commands: [Command; COMMANDS],
    /// What is left to happen.
    pub budget: Budget,
    /// For the invariants.
    pub ghost: Ghost,
}
