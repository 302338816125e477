//! The ways in which an IPMI BMC is broken, or merely different from the next vendor's.
//!
//! `IpmiFaults::default()` is a BMC without faults on a line without losses. Every field is one behaviour seen in the
//! field or named in the list of faults; they combine.

use std::time::Duration;

use super::{
    crypto::Suite,
    message::{APP, CHASSIS, STORAGE},
};
use crate::actuator::Effect;

/// What is wrong with a BMC, or particular to it. Changed at any time with `IpmiBmc::faults`.
#[derive(Debug, Clone, Default)]
pub struct IpmiFaults {
    /// What becomes of the datagrams on their way.
    pub network: Network,

    /// The BMC has this password for every user.
    pub password: Option<String>,
    /// What an unknown user learns.
    pub unknown_user: UnknownUser,
    /// Every answer of the login has the tag 0, whatever was asked.
    pub zero_tags: bool,
    /// After this many wrong passwords even the right one is refused.
    pub lock_account_after: Option<u32>,
    /// There is no free slot for a session.
    pub session_table_full: bool,
    /// Suite 0 is offered and accepted, beside the others.
    pub offers_suite_zero: bool,
    /// The suites that are listed, in place of those that are accepted.
    pub lists_suites: Option<Vec<u8>>,
    /// Whatever suite a session is asked for, it is answered with this one.
    pub answers_suite: Option<Suite>,
    /// It says that it speaks IPMI 1.5 only.
    pub says_1_5_only: bool,

    /// The system UUID in place of the machine's own.
    pub uuid: Option<String>,
    /// How RAKP message 2 writes the UUID.
    pub guid_in_rakp: GuidForm,
    /// How the answer to Get System GUID writes it.
    pub guid_in_command: GuidForm,

    /// What the power bit says.
    pub power: PowerBit,
    /// The power is read from the machine no more often than this: readings are stale.
    pub power_cached_for: Duration,
    /// Bits that are set in the byte with the current power state: overload, interlock, fault, control fault.
    pub power_bits: u8,
    /// What the machine does when its supply comes back.
    pub restore_policy: RestorePolicy,
    /// What its clock shows, in seconds since 1970; it has none if not set.
    pub sel_time: Option<u32>,
    /// What Get ACPI Power State says of the system; it has no such command if not set.
    pub acpi_state: Option<u8>,
    /// What an accepted power command does to the machine.
    pub effect: Effect,
    /// Completion code for a power-off when the machine is off already (0xD5 is seen); accepted if not set.
    pub already_off_code: Option<u8>,
    /// The BMC switches the machine on again this long after a power-off has taken effect.
    pub restores_after: Option<Duration>,

    /// What some requests are answered with, whatever they asked. The first that matches counts.
    pub replies: Vec<Reply>,
}

/// What becomes of the datagrams on their way. Chances are those of a sequence that the seed determines.
#[derive(Debug, Clone, Default)]
pub struct Network {
    /// Begins the sequence of chances.
    pub seed: u64,
    /// From the client to the BMC.
    pub requests: Path,
    /// From the BMC to the client.
    pub answers: Path,
    /// Whom answers come from.
    pub source: Source,
    /// Chance that an answer is preceded by a copy of one that was sent before it.
    pub replayed: f64,
}

/// What becomes of the datagrams in one direction. All chances are between 0 and 1.
#[derive(Debug, Clone, Default)]
pub struct Path {
    /// Time that each takes.
    pub delay: Duration,
    /// Chance to be lost.
    pub lost: f64,
    /// Chance to arrive twice.
    pub duplicated: f64,
    /// Chance to arrive with one bit changed.
    pub corrupted: f64,
    /// Chance to take `late_by` longer, so that others overtake it.
    pub late: f64,
    /// How much longer.
    pub late_by: Duration,
}

/// Whom answers come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Source {
    /// The address and port that were asked.
    #[default]
    Own,
    /// The address, from another port.
    OtherPort,
    /// Another address of 127.0.0.0/8.
    OtherAddress,
}

/// What an unknown user learns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnknownUser {
    /// RAKP message 2 with the status `unauthorized name`.
    #[default]
    Refused,
    /// Nothing: it is not answered.
    Silence,
}

/// How a BMC writes a UUID as a GUID.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GuidForm {
    /// As SMBIOS does: the first three fields with their least significant byte first.
    #[default]
    Smbios,
    /// As RFC 4122 does: in the order of the text.
    Rfc4122,
    /// As IPMI 2.0 prescribes (section 20.8): the last byte of the text first.
    Reversed,
    /// Sixteen zeros.
    Zeros,
    /// Sixteen times 0xFF.
    Ones,
}

/// What the power bit says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PowerBit {
    /// What is so.
    #[default]
    Truth,
    /// This, always.
    Says(bool),
    /// One after the other, again and again, one a read.
    Cycle(Vec<bool>),
}

/// Power restore policy, as Get Chassis Status tells it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RestorePolicy {
    /// The machine stays off.
    #[default]
    StaysOff,
    /// It is what it was before.
    Previous,
    /// It is switched on.
    PowersUp,
    /// The BMC does not know.
    Unknown,
}

/// Which requests a fault or a hold is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Which {
    /// All.
    #[default]
    Any,
    /// ASF presence pings.
    Ping,
    /// RMCP+ Open Session.
    Open,
    /// RAKP message 1.
    Rakp1,
    /// RAKP message 3.
    Rakp3,
    /// Requests with this network function and command.
    Command(u8, u8),
    /// Chassis Control: power down.
    PowerOff,
    /// Chassis Control: power up.
    PowerOn,
}

impl Which {
    /// Get Chassis Status.
    pub const CHASSIS_STATUS: Self = Self::Command(CHASSIS, 0x01);
    /// Get ACPI Power State.
    pub const ACPI_STATE: Self = Self::Command(APP, 0x07);
    /// Get System GUID.
    pub const SYSTEM_GUID: Self = Self::Command(APP, 0x37);
    /// Get Channel Authentication Capabilities.
    pub const AUTH_CAPABILITIES: Self = Self::Command(APP, 0x38);
    /// Set Session Privilege Level.
    pub const SET_PRIVILEGE: Self = Self::Command(APP, 0x3B);
    /// Close Session.
    pub const CLOSE_SESSION: Self = Self::Command(APP, 0x3C);
    /// Get SEL Time.
    pub const SEL_TIME: Self = Self::Command(STORAGE, 0x48);
    /// Get Channel Cipher Suites.
    pub const CIPHER_SUITES: Self = Self::Command(APP, 0x54);
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
    /// Answers these requests so, without doing what they ask.
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
    /// Nothing.
    Silence,
    /// A response with this completion code and no data.
    Code(u8),
    /// A response of the login with this status (IPMI 2.0, table 13-15) and nothing after it.
    Status(u8),
    /// These bytes as a datagram.
    Raw(Vec<u8>),
    /// The right answer's datagram, cut off after so many bytes.
    Truncated(usize),
    /// The right answer's datagram, with so many zeros after it.
    Padded(usize),
    /// The right answer, well-formed, with only so many bytes of its data (of its payload, in the login).
    ShortData(usize),
    /// The right answer, well-formed, with so many more bytes of data (of payload, in the login).
    LongData(usize),
    /// The right answer to another request: its sequence number (in the login: its message tag) is another.
    OtherRequest,
    /// The right answer to another command.
    OtherCommand,
    /// The right answer with a wrong checksum inside of a packet that is whole.
    BadChecksum,
    /// The right answer with the last bit of its datagram changed: the authentication code, in a session.
    BadCode,
    /// The right answer with wrong bytes as padding inside of the encryption.
    BadPadding,
    /// The right answer for another session ID.
    OtherSession,
    /// The right answer with the sequence number of the answer before.
    OldSequence,
    /// The right answer, signed but not encrypted.
    InClear,
    /// The right answer, encrypted but not signed.
    Unsigned,
}

impl Nonsense {
    /// Is there a right answer in it?
    pub(super) fn is_made_of_the_answer(&self) -> bool {
        !matches!(
            self,
            Self::Silence | Self::Code(_) | Self::Status(_) | Self::Raw(_)
        )
    }
}
