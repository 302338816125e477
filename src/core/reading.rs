//! What a fence device said about a machine's power, at one moment.
//!
//! A reading is evidence, never proof: only [`crate::core`]'s proof rule weighs several of them. Everything that is not
//! exactly "off" stays something else here, because a guess in this place would let two nodes write one volume.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub use crate::api::device::PowerState;

/// Who the device says it is: compared with the value that was pinned while the node was Ready (DESIGN S5).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// SMBIOS system UUID as the device prints it; byte order differs between vendors, see [`Identity::is_system`].
    pub system_uuid: Option<String>,
    /// Serial number of the system, for the record.
    pub serial_number: Option<String>,
}

impl Identity {
    /// Is this the system with UUID `expected`? Compared as 16 bytes, in the order of RFC 4122 and in SMBIOS order (the first
    /// three fields little-endian): both are found, and firmware updates change one into the other (go-hal issue 57). An
    /// unusable UUID on either side is nobody's.
    pub fn is_system(&self, expected: &str) -> bool {
        let (Some(found), Some(expected)) = (
            self.system_uuid.as_deref().and_then(usable_uuid),
            usable_uuid(expected),
        ) else {
            return false;
        };
        found == expected || smbios_order(found) == expected
    }
}

/// The 16 bytes of a UUID in text form, with or without hyphens and braces; none when it is malformed, or one of the values
/// that vendors leave in unconfigured boards: all zeros, all ones.
pub fn usable_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text
        .trim()
        .trim_matches(['{', '}'])
        .chars()
        .filter(|character| *character != '-')
        .collect();
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let value = u128::from_str_radix(&digits, 16).ok()?;
    (value != 0 && value != u128::MAX).then(|| value.to_be_bytes())
}

/// The same UUID with its first three fields in the other byte order (SMBIOS 7.2.1).
fn smbios_order([a, b, c, d, e, f, g, h, rest @ ..]: [u8; 16]) -> [u8; 16] {
    let [i, j, k, l, m, n, o, p] = rest;
    [d, c, b, a, f, e, h, g, i, j, k, l, m, n, o, p]
}

/// One answer of a fence device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reading {
    /// What the answer means.
    pub state: PowerState,
    /// What the device said, word for word (at most 64 characters), for the record.
    pub raw: String,
    /// Who answered.
    pub identity: Identity,
    /// Names of fault or interlock indications that forbid to believe an off (empty: none).
    pub faults: Vec<String>,
    /// When the question was sent: time since boot of this host on a clock that counts suspend. The state is no newer
    /// than the answer and no older than this.
    pub asked: Duration,
    /// When the answer had arrived, same clock.
    pub answered: Duration,
    /// Wall clock of the answer, for the record only.
    pub wall: Timestamp,
}
