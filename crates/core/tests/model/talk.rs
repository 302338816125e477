//! What passes between an operator and the rest: what its rounds want to be done, and what it hears of it.

use crate::state::{Node, PODS};
use fencing_core::reply::Asked;
use serde_json::Value;

/// What a request asks of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Put a claim on the Node.
    Claim,
    /// Take it away.
    DropClaim,
    /// Set `out-of-service`.
    Taint,
    /// Take `out-of-service` and the claim away.
    Release,
    /// Delete pods by force.
    Evict,
    /// Delete the VolumeAttachment.
    Detach,
    /// Delete the Node.
    DeleteNode,
}

/// A request that was sent, with the situation that it was decided in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Request {
    /// What it asks for.
    pub kind: Kind,
    /// The JSON Patch; null: none.
    pub operations: Value,
    /// The pods to delete: which, and which of that name.
    pub pods: Vec<(usize, u8)>,
    /// The VolumeAttachment to delete: which one of the node.
    pub attachment: u8,
    /// The Node as it was read, without its claim, where that is the precondition (`resourceVersion`).
    pub as_read: Node,
    /// UID of the Node that it is about.
    pub uid: u8,
    /// Nonce of the claim that stood there; 0: none.
    pub claim: u8,
    /// Nonce of the claim that it sets; 0: none.
    pub sets: u8,
}

/// What a round wants to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Wait,
    /// A request to the API server.
    Send(u16),
    /// Write an off command down.
    Intent,
    /// Write the evidence down.
    Evidence,
    /// Ask the device once.
    Look,
    /// Read until it is off.
    Confirm {
        /// Over 40 s.
        long: bool,
    },
    /// Turn it off.
    Off,
    /// Write an on command down.
    OnIntent,
    /// Turn it on.
    On,
    /// End the incident.
    Close,
}

/// What came of a round.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// What is remembered from now on.
    pub memory: u32,
    /// What is to be done.
    pub act: Act,
    /// It knows of a late command that it did not know of before.
    pub awaits_more: bool,
}

/// What an operator hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Heard {
    /// Its write is done.
    Done(Write),
    /// Its write was refused: nothing was written.
    Refused(Write),
    /// No answer came.
    Unknown(Write),
    /// The device has been looked at.
    Looked {
        /// It has power.
        is_on: bool,
        /// It was asked after everything had detached.
        since_drained: bool,
        /// The node's pods, listed meanwhile.
        pods: Option<[u8; PODS]>,
    },
    /// It has read off twice, or On to the end.
    Confirmed {
        /// Off.
        is_off: bool,
        /// Over 40 s.
        long: bool,
        /// The list of pods in between.
        pods: Option<[u8; PODS]>,
    },
    /// What became of an off command.
    Commanded(Off),
    /// What became of an on command: was it sent?
    TurnedOn(bool),
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Write {
    /// By a request.
    Request(Kind),
    /// An off command, before it is sent.
    Intent,
    /// An on command, before it is sent.
    OnIntent,
    /// The evidence.
    Evidence,
}

impl Write {
    /// As the core calls it.
    pub fn asked(self) -> Asked {
        match self {
            Self::Request(Kind::Claim) => Asked::Claim,
            Self::Request(Kind::DropClaim) => Asked::DropClaim,
            Self::Request(Kind::Evict) => Asked::Evict,
            Self::Request(_) => Asked::Write,
            Self::Intent => Asked::RecordIntent,
            Self::OnIntent => Asked::RecordOn,
            Self::Evidence => Asked::StoreEvidence,
        }
    }
}

/// What a device answers to an off command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Off {
    /// It was not sent.
    NotSent,
    /// Accepted.
    Accepted,
    /// The machine is off already.
    Needless,
    /// Nothing.
    Unknown,
}
