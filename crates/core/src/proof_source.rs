//! What a proof rested on, for the messages when it was wrong.

/// What confirmed the machine off.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ProofSource {
    /// A human, by `spec.manualConfirmation`.
    Confirmation,
    /// These FenceDevices, in order.
    Devices(Vec<String>),
}

impl ProofSource {
    /// These devices, or a manual confirmation.
    pub fn of(devices: &[String], by_confirmation: bool) -> Self {
        match by_confirmation {
            true => Self::Confirmation,
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
        }
    }

    /// What people have to do if it was not so.
    pub fn way_out(&self) -> &'static str {
        match self {
            Self::Confirmation => "find out which machine was checked before you confirm again",
            Self::Devices(_) => "correct address, `systemID` or outlets of the FenceDevice",
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
