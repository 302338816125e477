//! A power command: who was commanded, and what became of it (S11, S23).
//!
//! It is written down before it goes out. What a device answers is not yet what happened: a command that was accepted may land late, and
//! so may one that was never answered. Only a reading of Off from that machine, taken after it, settles an off, and a reading of On an on.

use fencing_api::fence_status::AttemptResult;
use std::collections::BTreeMap;
use std::time::Duration;

/// Outcome of an off command, per device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OffResult {
    /// The device took it; whether the machine went off is for the readings to say.
    Accepted,
    /// The device took it and has read Off since: nothing of it is still to come.
    Landed,
    /// The device says the machine already is off; as above.
    AlreadyOff,
    /// The device refused, or something forbade it before the command went out: nothing was commanded.
    NotSent(String),
    /// The device gave no answer before the command went out: nothing was commanded, and what it reads nobody knows.
    Silent(String),
    /// The command went out and no answer came: it may land late.
    Unknown(String),
    /// The device took it, and at the end of the time for that the machine was not off: it may land late.
    Late(String),
}

impl OffResult {
    /// Has the device taken the command, or may have, so that an off after it may be its effect?
    pub fn may_turn_off(&self) -> bool {
        self.is_sent() && *self != Self::AlreadyOff
    }

    /// Was a command sent, or may one have been?
    pub fn is_sent(&self) -> bool {
        !matches!(self, Self::NotSent(_) | Self::Silent(_))
    }

    /// What the answer counts as in metrics and log. The record waits for the effect ([`Self::recorded`]).
    pub fn outcome(&self) -> AttemptResult {
        match self {
            Self::Accepted | Self::Landed | Self::AlreadyOff => AttemptResult::Succeeded,
            Self::NotSent(_) | Self::Silent(_) => AttemptResult::Refused,
            Self::Unknown(_) | Self::Late(_) => AttemptResult::TimedOut,
        }
    }

    /// What the record says of it: nothing of a command that was accepted, before its effect was seen or was not seen in time.
    pub fn recorded(&self) -> Option<AttemptResult> {
        (*self != Self::Accepted).then(|| self.outcome())
    }

    /// What happened, for people.
    pub fn message(&self) -> &str {
        match self {
            Self::Accepted => "the device accepted the command",
            Self::Landed => "the device accepted the command, and has read Off since",
            Self::AlreadyOff => "the device reports that the machine is already off",
            Self::NotSent(reason)
            | Self::Silent(reason)
            | Self::Unknown(reason)
            | Self::Late(reason) => reason,
        }
    }

    /// May it still land, and nobody waits to see it any more (S23)?
    pub fn is_unresolved(&self) -> bool {
        matches!(self, Self::Unknown(_) | Self::Late(_))
    }

    /// The device took the command, whatever became of it.
    pub fn is_accepted(&self) -> bool {
        matches!(self, Self::Accepted | Self::Landed | Self::Late(_))
    }

    /// Nothing of it is still to come: neither an answer nor an effect.
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Landed | Self::AlreadyOff) || !self.is_sent()
    }
}

/// An off command that has been written down before it is sent (S11).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// `<nonce>-<number>`.
    pub id: String,
    /// Level name.
    pub level: String,
    /// FenceDevice names.
    pub devices: Vec<String>,
    /// Each of them that read On before, as it was when this was decided on (`Device::version`), by its name.
    pub versions: BTreeMap<String, String>,
    /// How long it may take.
    pub limit: Duration,
    /// The intent is in the NodeFence.
    pub recorded: bool,
    /// Another command might still land when this one was decided on: which of them turns the machine off nobody can tell, however
    /// late it is looked at.
    pub contested: bool,
    /// Per device; empty until the commands have ended.
    pub results: BTreeMap<String, OffResult>,
}

/// Outcome of an on command, per device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OnResult {
    /// The device took it; whether the machine went on is for the looks to say.
    Accepted,
    /// The device says that the machine already is on; as above.
    AlreadyOn,
    /// The device took it, or may have, and has read On since.
    ReadsOn,
    /// The device refused, or something forbade it, before the command went out: nothing was commanded.
    NotSent(String),
    /// The command went out and no answer came.
    Unknown(String),
    /// It went out, and the device still read Off a while later.
    Late(String),
}

impl OnResult {
    /// Was a command sent, or may one have been?
    pub fn is_sent(&self) -> bool {
        !matches!(self, Self::NotSent(_))
    }

    /// What the answer counts as in metrics and log. The record waits for the effect.
    pub fn outcome(&self) -> AttemptResult {
        match self {
            Self::Accepted | Self::AlreadyOn | Self::ReadsOn => AttemptResult::Succeeded,
            Self::NotSent(_) => AttemptResult::Refused,
            Self::Unknown(_) | Self::Late(_) => AttemptResult::TimedOut,
        }
    }

    /// What happened, for people.
    pub fn message(&self) -> &str {
        match self {
            Self::Accepted => "the device accepted the command",
            Self::AlreadyOn => "the device reports that the machine is already on",
            Self::ReadsOn => "the device has read On since",
            Self::NotSent(reason) | Self::Unknown(reason) | Self::Late(reason) => reason,
        }
    }

    /// What the record says of it: nothing before the device has read On, or has not in time.
    pub fn recorded(&self) -> Option<AttemptResult> {
        (!matches!(self, Self::Accepted | Self::AlreadyOn)).then(|| self.outcome())
    }

    /// Nothing of it is still to come.
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::ReadsOn | Self::NotSent(_))
    }
}

/// An on command that has been written down before it is sent (S11).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OnAttempt {
    /// `<nonce>-<number>`.
    pub id: String,
    /// Level name.
    pub level: String,
    /// FenceDevice names.
    pub devices: Vec<String>,
    /// How long it may take.
    pub limit: Duration,
    /// The intent is in the NodeFence.
    pub recorded: bool,
    /// Per device; empty until the commands have ended.
    pub results: BTreeMap<String, OnResult>,
}
