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
