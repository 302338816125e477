//! The ways in which a BMC is broken, or merely different from the next vendor's.
//!
//! `BmcFaults::default()` is a BMC without faults. Every field is one behaviour seen in the field or named in the list
//! of faults; they combine. Whatever concerns the line (refused, black hole, dark) is [`crate::https::Line`] instead.

use std::time::Duration;

use serde_json::Value;

use crate::actuator::Effect;

/// What is wrong with a BMC, or particular to it. Changed at any time with `Bmc::faults`.
#[derive(Debug, Clone, Default)]
pub struct BmcFaults {
    /// Time that passes before every request is looked at.
    pub latency: Duration,
    /// Which certificate new connections are shown.
    pub certificate: Certificate,
    /// Answers the second and each later request on a connection with a reset, as HPE's do.
    pub reset_reused_connection: bool,
    /// Answers 406 to requests without `OData-Version: 4.0` or without an `Accept` header.
    pub strict_headers: bool,
    /// After this many wrong passwords even the right one is answered with 401.
    pub lock_account_after: Option<u32>,
    /// The account may read but not reset: 403.
    pub read_only_account: bool,
    /// There is no AccountService.
    pub no_account_service: bool,

    /// `UUID` in place of the machine's own. `Value::Null` for null.
    pub uuid: Option<Value>,
    /// What `PowerState` says.
    pub power_state: Reading,
    /// `PowerState` is read from the machine no more often than this: readings are stale.
    pub power_state_cached_for: Duration,
    /// `PowerRestorePolicy`; `AlwaysOff` if not set.
    pub power_restore_policy: Option<String>,
    /// Other systems listed before the machine's own, each with a UUID and a power state of its own.
    pub decoys_before: usize,
    /// Other systems listed after it.
    pub decoys_after: usize,
    /// The collection of systems is empty.
    pub no_systems: bool,

    /// How the resource tells which reset types there are.
    pub advertise: Advertise,
    /// The reset types there are; all if not set.
    pub reset_types: Option<Vec<String>>,
    /// How a reset that is accepted is answered.
    pub accepted: Accepted,
    /// What an accepted reset does to the machine.
    pub effect: Effect,
    /// Status for a power-off when the machine is off already (400 and 409 are seen); accepted if not set.
    pub already_off_status: Option<u16>,
    /// The BMC switches the machine on again this long after a power-off has taken effect.
    pub restores_after: Option<Duration>,
    /// Answers 412 to an action with `If-Match`, as some iDRACs do.
    pub refuses_if_match: bool,
    /// After an accepted reset, this many reads are answered with 200 and an empty body.
    pub empty_reads_after_reset: u32,

    /// What the Manager's clock shows, in RFC 3339; it has none if not set.
    pub manager_time: Option<String>,
    /// The collection's link to the machine, in place of the right one.
    pub member_link: Option<String>,
    /// The reset action's target, in place of the right one.
    pub action_target: Option<String>,
    /// Every page of the collection names a next page.
    pub endless_next_link: bool,

    /// What some requests are answered with, whatever they asked. The first that matches counts.
    pub replies: Vec<Reply>,
}

/// The certificate of a BMC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Certificate {
    /// Its own.
    #[default]
    Own,
    /// Another one of the same authority, with another key: what a replaced BMC shows.
    Swapped,
    /// Its own name, but expired.
    Expired,
    /// Signed by an authority that nobody trusts.
    Untrusted,
    /// Signed by the authority, for another address.
    OtherAddress,
    /// None: plain HTTP on the port.
    Plaintext,
}

/// What `PowerState` says.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Reading {
    /// What is so.
    #[default]
    Truth,
    /// This, always: `"Off"` while the machine runs, null, `"PoweringOff"`, `"Paused"`, a number.
    Says(Value),
    /// One after the other, again and again, one a read.
    Cycle(Vec<Value>),
    /// The property is missing.
    Absent,
    /// The property is there twice: first what is so, then this.
    Twice(Value),
}

/// How a ComputerSystem tells which reset types there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Advertise {
    /// `ResetType@Redfish.AllowableValues`
    #[default]
    AllowableValues,
    /// `@Redfish.ActionInfo`
    ActionInfo,
    /// Not at all.
    Nothing,
    /// The action itself is missing.
    NoAction,
}

/// How a reset that is accepted is answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Accepted {
    /// 204 without a body.
    #[default]
    NoContent,
    /// 200 with a message.
    Message,
    /// 202 with a Task that ends well after this time; the reset takes effect at its end.
    Task(Duration),
    /// 202 with a Task that ends in an exception after this time; the reset has no effect.
    FailingTask(Duration),
}

/// Which requests a fault or a hold is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Which {
    /// All, the service root included.
    #[default]
    Any,
    /// Reads of a ComputerSystem.
    SystemRead,
    /// Each GET.
    Read,
    /// Each reset action.
    Reset,
    /// Resets to On and ForceOn.
    PowerOn,
    /// Resets to ForceOff.
    ForceOff,
    /// Requests whose path ends so.
    PathEndsWith(String),
}

/// An answer that has nothing to do with the request.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Which requests get it.
    pub to: Which,
    /// What they get.
    pub what: Nonsense,
    /// How many still get it; all if not set.
    pub times: Option<u32>,
    /// Does the request take effect all the same?
    pub after_effect: bool,
}

impl Reply {
    /// Answers these requests so, without looking at them.
    pub fn new(to: Which, what: Nonsense) -> Self {
        Self {
            to,
            what,
            times: None,
            after_effect: false,
        }
    }

    /// Only the next so many.
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// The request takes effect, only its answer is replaced.
    pub fn after_effect(mut self) -> Self {
        self.after_effect = true;
        self
    }
}

/// What a broken BMC answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nonsense {
    /// This status with a Redfish error, and `Retry-After` (seconds) if given.
    Status(u16, Option<u64>),
    /// A redirect with this status to this address.
    Redirect(u16, String),
    /// 200 and something that is almost JSON.
    BadJson,
    /// 200 and a login page.
    Html,
    /// 200 and no body.
    Empty,
    /// The right answer, cut off after half of its announced length.
    Truncated,
    /// The right answer with so many bytes of padding in front of its last brace, length announced.
    Padded(u64),
    /// Chunks of white space for ever, as fast as they are taken.
    EndlessChunks,
    /// The right answer, a byte at a time with this pause in between.
    Drip(Duration),
    /// The right answer with so many nested arrays in `Oem`, or elements in one of XML.
    Deep(usize),
    /// The right answer, gzip-encoded though nobody asked.
    Gzip,
    /// Bytes that are not UTF-8.
    NotText,
    /// Something that is JSON, but not an object.
    NotAnObject,
    /// The connection is closed without an answer.
    Close,
    /// The connection is reset without an answer.
    Reset,
}
