//! What an IPMI BMC was asked, in order and with times, and which sessions there were: the oracle for what the operator
//! really sent.

use std::net::SocketAddr;

use super::{
    account::Privilege,
    faults::Which,
    login,
    message::{CHASSIS, Request},
};
use crate::{
    exchange::{Exchange, What},
    moment::Moment,
};

/// Chassis Control.
pub(super) const CHASSIS_CONTROL: u8 = 0x02;
/// Get Chassis Status.
pub(super) const CHASSIS_STATUS: u8 = 0x01;

/// One datagram that arrived.
#[derive(Debug, Clone)]
pub struct Entry {
    /// When it arrived.
    pub at: Moment,
    /// Where it came from.
    pub from: SocketAddr,
    /// The BMC's number of the session that it belongs to, if it does: see [`Session::id`].
    pub session: Option<u32>,
    /// What it was.
    pub asked: Asked,
    /// How it was answered; `None` if it was not answered (yet).
    pub outcome: Option<Outcome>,
    /// When it was answered.
    pub answered: Option<Moment>,
    /// Whether it was told that the machine is on, if it asked for the Chassis Status and was told it unspoilt.
    pub told_on: Option<bool>,
    /// Was it a power command that the BMC accepted? (Whether it then took effect is the machine's to say.)
    pub accepted: bool,
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// ASF presence ping.
    Ping,
    /// RMCP+ Open Session, with the algorithms for authentication, integrity and confidentiality.
    Open([Option<u8>; 3]),
    /// RAKP message 1.
    Rakp1 {
        /// The user's name.
        user: String,
        /// The role that was asked for: bits 3:0 are the privilege, bit 4 is set if only the name is looked up.
        role: u8,
    },
    /// RAKP message 3.
    Rakp3 {
        /// Its status; not 0 if the client gives up.
        status: u8,
    },
    /// A request.
    Command {
        /// Network function.
        net_fn: u8,
        /// Command.
        command: u8,
        /// Its data.
        data: Vec<u8>,
    },
    /// What the BMC cannot read or does not believe, and why. It is never answered.
    Dropped(String),
}

/// How it was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The presence pong.
    Pong,
    /// A response of the login, with its status.
    Status(u8),
    /// A response, with its completion code.
    Code(u8),
    /// Something that is not a response.
    Nonsense,
}

impl Entry {
    /// The control byte, if it is Chassis Control: 0 is power down, 1 is power up.
    pub fn power_command(&self) -> Option<u8> {
        match &self.asked {
            Asked::Command {
                net_fn: CHASSIS,
                command: CHASSIS_CONTROL,
                data,
            } => data.first().map(|byte| byte & 0x0F),
            _ => None,
        }
    }

    /// Is it one of these?
    pub(super) fn is(&self, which: Which) -> bool {
        match which {
            Which::Any => true,
            Which::Ping => self.asked == Asked::Ping,
            Which::Open => matches!(self.asked, Asked::Open(_)),
            Which::Rakp1 => matches!(self.asked, Asked::Rakp1 { .. }),
            Which::Rakp3 => matches!(self.asked, Asked::Rakp3 { .. }),
            Which::PowerOff => self.power_command() == Some(0),
            Which::PowerOn => self.power_command() == Some(1),
            Which::Command(function, number) => {
                matches!(&self.asked, Asked::Command { net_fn, command, .. }
                    if (*net_fn, *command) == (function, number))
            }
        }
    }
}

impl From<&Request> for Asked {
    fn from(request: &Request) -> Self {
        Self::Command {
            net_fn: request.net_fn,
            command: request.command,
            data: request.data.clone(),
        }
    }
}

impl From<&login::Asked> for Asked {
    fn from(asked: &login::Asked) -> Self {
        match asked {
            login::Asked::Open(open) => Self::Open(open.algorithms),
            login::Asked::Rakp1(rakp) => Self::Rakp1 {
                user: String::from_utf8_lossy(&rakp.user).into_owned(),
                role: rakp.role,
            },
            login::Asked::Rakp3(rakp) => Self::Rakp3 {
                status: rakp.status,
            },
        }
    }
}

/// A power command that was received, accepted or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PowerCommand {
    /// When it arrived.
    pub at: Moment,
    /// 0 power down, 1 power up, 2 power cycle, 3 hard reset, 4 diagnostic interrupt, 5 soft shutdown.
    pub control: u8,
    /// Was it accepted?
    pub accepted: bool,
    /// What it was answered with; `None` if it was not answered (yet).
    pub code: Option<u8>,
}

/// The power commands among the requests.
pub(super) fn power_commands(entries: Vec<Entry>) -> Vec<PowerCommand> {
    let command = |entry: Entry| {
        entry.power_command().map(|control| PowerCommand {
            at: entry.at,
            control,
            accepted: entry.accepted,
            code: match entry.outcome {
                Some(Outcome::Code(code)) => Some(code),
                _ => None,
            },
        })
    };
    entries.into_iter().filter_map(command).collect()
}

/// What the judge of a run wants of the requests: readings that were told, and commands.
pub(super) fn exchanges(entries: Vec<Entry>) -> Vec<Exchange> {
    let exchange = |entry: Entry| {
        let what = match (entry.power_command(), entry.told_on) {
            (Some(control), _) => What::Command {
                is_hard_off: control == 0,
                is_on: control == 1,
                name: format!("Chassis Control {control}"),
            },
            (None, Some(on)) => What::Reading {
                told: if on { "On" } else { "Off" }.to_owned(),
            },
            (None, None) => return None,
        };
        Some(Exchange {
            asked: entry.at,
            answered: entry.answered,
            what,
        })
    };
    entries.into_iter().filter_map(exchange).collect()
}

/// A session, from its opening to its end.
#[derive(Debug, Clone)]
pub struct Session {
    /// The BMC's number of it.
    pub id: u32,
    /// Whom it was opened for.
    pub from: SocketAddr,
    /// Number of its cipher suite.
    pub suite: u8,
    /// The user who asked to log in.
    pub user: Option<String>,
    /// When it was opened.
    pub opened: Moment,
    /// When the user was let in.
    pub active: Option<Moment>,
    /// The privilege level that it has at last.
    pub privilege: Privilege,
    /// When and how it ended.
    pub ended: Option<(Moment, End)>,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By Close Session.
    Closed,
    /// By a RAKP message 3 with this status: the client did not like RAKP message 2.
    GivenUp(u8),
    /// By a RAKP message 2 or 4 with this status: the BMC did not let the user in.
    Refused(u8),
    /// Nothing came for too long.
    TimedOut,
    /// The BMC lost its memory.
    Forgotten,
}
