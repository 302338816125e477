//! The few commands that fencing needs, and what their answers mean.

use super::lan::Request;
use super::rakp::{Algorithms, Privilege};
use super::{Malformed, Reader};
use std::fmt;

/// Network function: the chassis.
const CHASSIS: u8 = 0x00;
/// Network function: the BMC itself.
const APPLICATION: u8 = 0x06;
/// Network function: logs and inventories.
const STORAGE: u8 = 0x0a;
/// What a clock shows that was never set counts from the BMC's start, up to here (§37.1).
const SEL_TIME_SET_MIN: u32 = 0x2000_0000;
/// No time at all (§37.1).
const SEL_TIME_NONE: u32 = 0xffff_ffff;
/// The channel that the command arrives on.
const THIS_CHANNEL: u8 = 0x0e;
/// Bit of the channel: tell what IPMI 2.0 has added.
const EXTENDED: u8 = 0x80;
/// Bit of the list index: list by cipher suite, not by algorithm.
const BY_SUITE: u8 = 0x80;
/// Bytes of cipher suite records in one answer; fewer end the list.
pub const SUITE_BYTES_PER_ANSWER: usize = 16;
/// The list of cipher suites has so many answers at most (six bits of index).
pub const SUITE_ANSWERS_MAX: u8 = 0x40;

/// Get Chassis Status (§28.2).
#[must_use]
pub fn get_chassis_status() -> Request {
    request(CHASSIS, 0x01, Vec::new())
}

/// Get ACPI Power State (§20.7).
#[must_use]
pub fn get_acpi_power_state() -> Request {
    request(APPLICATION, 0x07, Vec::new())
}

/// The sleeping state of a Get ACPI Power State (table 20-6), in which memory is kept, or written to be read again; `Some(None)` of a machine
/// that works or is softly (also 06h, S4 or S5) or mechanically off. None: the BMC does not know.
#[must_use]
pub fn sleeping_state(data: &[u8]) -> Option<Option<&'static str>> {
    let sleeps = match data.first()? & 0x7f {
        0x01 => Some("sleeping (ACPI S1)"),
        0x02 => Some("sleeping (ACPI S2)"),
        0x03 => Some("sleeping (ACPI S3)"),
        0x04 => Some("hibernating (ACPI S4)"),
        0x08 => Some("sleeping (ACPI S1 to S3)"),
        0x09 => Some("sleeping (ACPI S1 to S4)"),
        0x00 | 0x05..=0x07 | 0x0a | 0x21 => None,
        _ => return None,
    };
    Some(sleeps)
}

/// Chassis Control, power down (§28.3): hard and at once. The soft shutdown (0x05) asks an operating system that may be dead,
/// and cycle (0x02) and reset (0x03) end with a machine that runs; there is no encoder for them.
#[must_use]
pub fn power_down() -> Request {
    request(CHASSIS, 0x02, vec![0x00])
}

/// Chassis Control, power up (§28.3). It does nothing to a machine that is on.
#[must_use]
pub fn power_up() -> Request {
    request(CHASSIS, 0x02, vec![0x01])
}

/// Set Session Privilege Level (§22.18). A session begins as User.
#[must_use]
pub fn set_session_privilege(privilege: Privilege) -> Request {
    request(APPLICATION, 0x3b, vec![privilege.number()])
}

/// Close Session (§22.19), by the BMC's number for it.
#[must_use]
pub fn close_session(bmc_id: u32) -> Request {
    request(APPLICATION, 0x3c, bmc_id.to_le_bytes().to_vec())
}

/// Get Channel Authentication Capabilities (§22.13), outside of a session.
#[must_use]
pub fn get_authentication_capabilities(privilege: Privilege) -> Request {
    request(
        APPLICATION,
        0x38,
        vec![THIS_CHANNEL | EXTENDED, privilege.number()],
    )
}

/// Get Channel Cipher Suites (§22.15), outside of a session: the records from `index` times [`SUITE_BYTES_PER_ANSWER`] on.
#[must_use]
pub fn get_cipher_suites(index: u8) -> Request {
    request(
        APPLICATION,
        0x54,
        vec![THIS_CHANNEL, 0x00, BY_SUITE | index],
    )
}

/// Get SEL Time (§31.10): the clock by which the BMC dates its event log.
#[must_use]
pub fn get_sel_time() -> Request {
    request(STORAGE, 0x48, Vec::new())
}

/// Get SEL Time, in seconds since 1970; none: the clock was never set.
///
/// # Errors
/// It has fewer bytes than it must have.
pub fn sel_time(data: &[u8]) -> Result<Option<u32>, Malformed> {
    let mut reader = Reader(data);
    let seconds = reader
        .array()
        .map_err(|_| Malformed("its SEL time has fewer than four bytes"))?;
    let seconds = u32::from_le_bytes(seconds);
    Ok((SEL_TIME_SET_MIN < seconds && seconds < SEL_TIME_NONE).then_some(seconds))
}

fn request(function: u8, command: u8, data: Vec<u8>) -> Request {
    Request {
        function,
        command,
        data,
    }
}

/// Get Chassis Status, the byte about the power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChassisStatus(pub u8);

impl ChassisStatus {
    /// # Errors
    /// It has fewer bytes than it must have.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(data);
        let [power, _, _] = reader
            .array()
            .map_err(|_| Malformed("its chassis status has fewer than three bytes"))?;
        Ok(Self(power))
    }

    /// Is the power on?
    #[must_use]
    pub fn is_on(self) -> bool {
        self.0 & 0x01 != 0
    }

    /// What forbids to believe that the power is off: the power was to be changed and was not, a fault of the main power, an
    /// interlock.
    #[must_use]
    pub fn faults(self) -> Vec<&'static str> {
        let named = [
            (0x10, "power control fault"),
            (0x08, "power fault"),
            (0x04, "interlock"),
        ];
        named
            .into_iter()
            .filter_map(|(bit, name)| (self.0 & bit != 0).then_some(name))
            .collect()
    }

    /// What the machine does when power returns, in Redfish's words; none when the BMC does not know.
    #[must_use]
    pub fn power_restore_policy(self) -> Option<&'static str> {
        match self.0 >> 5 & 0x03 {
            0 => Some("AlwaysOff"),
            1 => Some("LastState"),
            2 => Some("AlwaysOn"),
            _ => None,
        }
    }
}

/// Get Channel Authentication Capabilities, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthenticationCapabilities {
    /// Sessions of IPMI 2.0 can be opened.
    pub ipmi_2_0: bool,
    /// The BMC has a key of its own (K_g), without which no session can be opened.
    pub bmc_key_set: bool,
}

impl AuthenticationCapabilities {
    /// # Errors
    /// It has fewer bytes than it must have.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(data);
        let [_, types, status, extended, _, _, _, _] = reader
            .array()
            .map_err(|_| Malformed("its authentication capabilities are cut"))?;
        Ok(Self {
            ipmi_2_0: types & 0x80 != 0 && extended & 0x02 != 0,
            bmc_key_set: status & 0x20 != 0,
        })
    }
}

/// Get Channel Cipher Suites: the piece of the list that one answer carries, without the channel before it.
///
/// # Errors
/// There is no channel, or more than an answer can hold.
pub fn cipher_suite_bytes(data: &[u8]) -> Result<&[u8], Malformed> {
    match data.split_first() {
        Some((_, piece)) if piece.len() <= SUITE_BYTES_PER_ANSWER => Ok(piece),
        _ => Err(Malformed("its list of cipher suites is cut")),
    }
}

/// The standard cipher suites of a list (table 22-18), with their algorithms; those of makers are left out.
///
/// # Errors
/// It is not a list of cipher suite records.
pub fn cipher_suites(list: &[u8]) -> Result<Vec<(u8, Algorithms)>, Malformed> {
    let mut suites = Vec::new();
    let mut reader = Reader(list);
    while !reader.0.is_empty() {
        let (start, id) = (reader.byte()?, reader.byte()?);
        match start {
            0xc0 => {}
            0xc1 => drop(reader.array::<3>()?),
            _ => return Err(Malformed("its list of cipher suites has no records")),
        }
        let mut algorithms = Algorithms {
            authentication: 0,
            integrity: 0,
            confidentiality: 0,
        };
        // The two highest bits of a record's start are both set, and never those of an algorithm.
        while let Some((algorithm, rest)) = reader.0.split_first().filter(|(one, _)| **one < 0xc0) {
            let number = algorithm & 0x3f;
            match algorithm >> 6 {
                0 => algorithms.authentication = number,
                1 => algorithms.integrity = number,
                _ => algorithms.confidentiality = number,
            }
            reader.0 = rest;
        }
        if start == 0xc0 {
            suites.push((id, algorithms));
        }
    }
    Ok(suites)
}

/// What became of a command (table 5-2, and those of single commands).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion(pub u8);

impl Completion {
    /// Done.
    pub const DONE: Self = Self(0x00);
    /// Set Session Privilege Level: the user does not have it.
    pub const LEVEL_NOT_AVAILABLE: Self = Self(0x80);
    /// Set Session Privilege Level: over the limit of the channel or the user.
    pub const LEVEL_TOO_HIGH: Self = Self(0x81);
    /// Node busy.
    pub const BUSY: Self = Self(0xc0);
    /// Insufficient privilege.
    pub const NO_PRIVILEGE: Self = Self(0xd4);
    /// Not supported in the present state: how a machine that is off answers a power down.
    pub const NOT_IN_THIS_STATE: Self = Self(0xd5);

    /// Was the command carried out, or not, or is that unknown? These codes leave it open: the BMC ran out of time, lost the
    /// answer, has the same command under way, or gives no reason.
    #[must_use]
    pub fn leaves_open(self) -> bool {
        matches!(self.0, 0xc3 | 0xce | 0xcf | 0xff)
    }

    /// May the command be sent again a little later?
    #[must_use]
    pub fn is_busy(self) -> bool {
        // Out of space, and a BMC that is still starting, pass as "busy" does; none of them has carried anything out.
        matches!(self.0, 0xc0 | 0xc4 | 0xd2)
    }

    /// What the specification calls it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self.0 {
            0x00 => "command completed normally",
            0x80..=0xbe => "a code of this command alone",
            0xc0 => "node busy",
            0xc1 => "invalid command",
            0xc2 => "command invalid for this LUN",
            0xc3 => "timeout while processing the command",
            0xc4 => "out of space",
            0xc5 => "reservation cancelled or invalid",
            0xc6 => "request data truncated",
            0xc7 => "request data length invalid",
            0xc8 => "request data field length limit exceeded",
            0xc9 => "parameter out of range",
            0xca => "cannot return number of requested data bytes",
            0xcb => "requested sensor, data or record not present",
            0xcc => "invalid data field in request",
            0xcd => "command illegal for this sensor or record type",
            0xce => "command response could not be provided",
            0xcf => "cannot execute a duplicated request",
            0xd0 => "SDR repository in update mode",
            0xd1 => "device in firmware update mode",
            0xd2 => "BMC initialization in progress",
            0xd3 => "destination unavailable",
            0xd4 => "insufficient privilege level",
            0xd5 => "command not supported in present state",
            0xd6 => "sub-function disabled or unavailable",
            0xff => "unspecified error",
            0x01..=0x7e => "a code of the maker's own",
            _ => "a code that the specification does not have",
        }
    }
}

/// `0xc0, node busy`.
impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#04x}, {}", self.0, self.words())
    }
}
