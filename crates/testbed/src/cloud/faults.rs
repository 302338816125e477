//! The ways in which a provider, or what it says of a machine, is wrong.

use std::time::Duration;

use super::Wants;
use crate::{
    actuator::Effect,
    bmc::{Certificate, Nonsense},
};

/// What is wrong. `CloudFaults::default()` is a provider without faults; they combine.
#[derive(Debug, Clone, Default)]
pub struct CloudFaults {
    /// Time that passes before every request is looked at.
    pub latency: Duration,
    /// Which certificate new connections are shown.
    pub certificate: Certificate,
    /// Who is let in.
    pub access: Access,
    /// What the machine's state says.
    pub shown: Shown,
    /// What stands beside an Off.
    pub beside: Beside,
    /// System UUID in place of the machine's own.
    pub uuid: Option<String>,
    /// What an accepted command does to the machine.
    pub effect: Effect,
    /// What becomes of a command.
    pub taken: Taken,
    /// What some requests are answered with. The first that matches counts.
    pub replies: Vec<(Which, Nonsense)>,
}

/// Who is let in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// Whoever has the credential.
    #[default]
    Welcome,
    /// The same, for reading only.
    ReadOnly,
    /// The credential opens nothing.
    Refused,
}

/// What the state says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Shown {
    /// What is so.
    #[default]
    Truth,
    /// This, always: on or off.
    Says(bool),
    /// One after the other, again and again, one a request.
    Cycle(Vec<bool>),
    /// The state is there twice: what is so, then this.
    Twice(bool),
}

/// What stands beside an Off. Each provider has its own words for it, or no such thing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Beside {
    /// Nothing.
    #[default]
    Nothing,
    /// Memory is kept: suspended, hibernated.
    Memory,
    /// The report is old: the host does not answer.
    OldReport,
    /// The provider is at work on the machine, here or elsewhere.
    AtWork,
    /// The one that reports is cut off from its peers.
    CutOff,
}

/// What becomes of a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Taken {
    /// It is done.
    #[default]
    Done,
    /// The machine is in that state already.
    Already,
    /// The machine takes none now.
    Refused,
    /// The account may not.
    Denied,
}

/// Which requests a fault is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All but the login.
    Any,
    /// Those for the power.
    State,
}

impl Which {
    pub(super) fn is(self, wants: Wants) -> bool {
        match self {
            Self::Any => wants != Wants::Login,
            Self::State => wants == Wants::State,
        }
    }
}
