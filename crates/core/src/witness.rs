//! Who has said that a machine is off, for the words when it was not so.

/// Who has said that the machine is off.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Witness {
    /// A human, by `spec.manualConfirmation`.
    Word,
    /// These FenceDevices, in order.
    Devices(Vec<String>),
}

impl Witness {
    /// In words, as the subject of a sentence.
    pub fn words(&self) -> String {
        match self {
            Self::Word => "a human's word (`spec.manualConfirmation`)".to_owned(),
            Self::Devices(devices) => format!("FenceDevice {}", devices.join(", ")),
        }
    }

    /// What people have to do if it was not so.
    pub fn way_out(&self) -> &'static str {
        match self {
            Self::Word => {
                "they looked at another one; see which, and give no word for this Node again before that is known"
            }
            Self::Devices(_) => {
                "the device lies or is wired to another machine; see which, and correct the FenceDevice (address, `systemID`, outlets) before the node fails again"
            }
        }
    }
}

/// Who said that the machine was off, and what people have to do if it was not so. Of an adopted mark nobody knows: its record is gone.
pub fn said_off(witness: Option<&Witness>) -> (String, &'static str) {
    match witness {
        Some(witness) => (witness.words(), witness.way_out()),
        None => (
            "its device".to_owned(),
            "it lies or is wired to another machine; see which, and correct the FenceDevice before the node fails again",
        ),
    }
}
