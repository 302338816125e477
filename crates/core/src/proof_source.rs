//! What a proof rested on, for the messages when it was wrong.

use crate::device::Level;

/// What confirmed the machine off.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ProofSource {
    /// A human, by `spec.manualConfirmation`.
    Confirmation,
    /// These FenceDevices, in order.
    Devices(Vec<String>),
    /// These, which keep the node from its volumes and do not know its power.
    Storage(Vec<String>),
}

impl ProofSource {
    /// These devices, by these levels, or a manual confirmation.
    pub fn of(devices: &[String], by_confirmation: bool, levels: &[Level]) -> Self {
        let known = || levels.iter().flat_map(|level| &level.devices);
        let is_storage = |name: &String| known().any(|it| it.name == *name && it.covers.is_some());
        match by_confirmation {
            true => Self::Confirmation,
            false if !devices.is_empty() && devices.iter().all(is_storage) => {
                Self::Storage(devices.to_vec())
            }
            false => Self::Devices(devices.to_vec()),
        }
    }

    /// What it reported, as a sentence.
    pub fn message(&self) -> String {
        match self {
            Self::Confirmation => {
                "it was manually confirmed off (`spec.manualConfirmation`)".to_owned()
            }
            Self::Devices(devices) => format!("FenceDevice {} reported Off", devices.join(", ")),
            Self::Storage(devices) => format!(
                "FenceDevice {} fenced it from its volumes",
                devices.join(", ")
            ),
        }
    }

    /// What people have to do if it was not so.
    pub fn way_out(&self) -> &'static str {
        match self {
            Self::Confirmation => "find out which machine was checked before you confirm again",
            Self::Devices(_) => "correct address, `systemID` or outlets of the FenceDevice",
            Self::Storage(_) => "its volumes are in use elsewhere",
        }
    }
}

/// Who said that the machine was off, and what people have to do if it was not so. Of an adopted mark nobody knows: its record is gone.
pub fn reported_off(proof_source: Option<&ProofSource>) -> (String, &'static str) {
    match proof_source {
        Some(proof_source) => (proof_source.message(), proof_source.way_out()),
        None => (
            "its device reported Off".to_owned(),
            "correct address, `systemID` or outlets of its FenceDevice",
        ),
    }
}
