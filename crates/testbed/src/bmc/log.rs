//! What a BMC was asked, in order and with times: the oracle for what the operator really sent.

use crate::{
    exchange::{Exchange, What},
    moment::Moment,
};

/// Whether a request carried credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// No `Authorization` header.
    None,
    /// The right user and password.
    Right,
    /// Anything else.
    Wrong,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Entry {
    /// When it arrived.
    pub at: Moment,
    /// Its method.
    pub method: String,
    /// Its path with the query.
    pub path: String,
    /// Did it carry credentials?
    pub auth: Auth,
    /// Number of its connection.
    pub connection: u64,
    /// `ResetType`, if it was a reset.
    pub reset_type: Option<String>,
    /// `OData-Version`, `Accept` and `If-Match` as sent.
    pub headers: SentHeaders,
    /// The status it was answered with; `None` if it was not answered (yet).
    pub status: Option<u16>,
    /// When it was answered.
    pub answered: Option<Moment>,
    /// The `PowerState` of its machine that it was told, if it asked for it and was told it unspoilt.
    pub told: Option<String>,
    /// Was it a reset that the BMC accepted? (Whether it then took effect is the machine's to say.)
    pub accepted: bool,
}

/// The headers that decide how picky BMCs answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentHeaders {
    /// `OData-Version`
    pub odata_version: Option<String>,
    /// `Accept`
    pub accept: Option<String>,
    /// `If-Match`
    pub if_match: Option<String>,
}

/// A reset that was received, accepted or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PowerCommand {
    /// When it arrived.
    pub at: Moment,
    /// `ForceOff`, `On`, ...
    pub reset_type: String,
    /// The path it was sent to, which names the system.
    pub path: String,
    /// Was it accepted?
    pub accepted: bool,
    /// What it was answered with; `None` if it was not answered (yet).
    pub status: Option<u16>,
}

/// The resets among the requests.
pub(super) fn power_commands(entries: Vec<Entry>) -> Vec<PowerCommand> {
    let command = |entry: Entry| {
        entry.reset_type.map(|reset_type| PowerCommand {
            at: entry.at,
            reset_type,
            path: entry.path,
            accepted: entry.accepted,
            status: entry.status,
        })
    };
    entries.into_iter().filter_map(command).collect()
}

/// What the judge of a run wants of the requests: readings that were told, and commands.
pub(super) fn exchanges(entries: Vec<Entry>) -> Vec<Exchange> {
    let exchange = |entry: Entry| {
        let what = match (entry.reset_type, entry.told) {
            (Some(name), _) => What::Command {
                is_hard_off: name == "ForceOff",
                is_on: name == "On",
                name,
            },
            (None, Some(told)) => What::Reading { told },
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
