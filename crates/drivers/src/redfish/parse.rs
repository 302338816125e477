//! What a Redfish service's JSON means, and nothing that it does not say.
//!
//! Pure, and total over any bytes. A name that stands twice in an object is an error, because two readers could each see
//! another of the two values; so is anything of the wrong shape in a place that matters. The power state alone is never an
//! error: whatever is not exactly `Off` is some other state.

mod account;
mod beside;
mod links;
mod reset;

pub use account::{ACCOUNT_SERVICE, link, may_not_reset, role_of};
pub use links::{local_path, with_paths};

pub use beside::{Restart, machine_reads_on, restart};
pub use reset::{Allowable, NO_RESET, Reset, action_info};

use crate::error::printable;
use fencing_core::reading::{Identity, PowerState, usable_uuid};
use jiff::Timestamp;
use serde_json::Value;

/// The reset type that cuts the power. But for it and [`ON`] none is ever sent.
pub const FORCE_OFF: &str = "ForceOff";
/// The reset type that turns on a machine that is off, and does nothing to one that is on.
pub const ON: &str = "On";
/// Everything of a service lies below it.
pub const ROOT: &str = "/redfish/v1/";
/// Longest word of a device that is kept, in characters.
const WORD_CHARACTERS_MAX: usize = 63;

/// A ComputerSystem, as far as fencing needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    /// Meaning of `PowerState`.
    pub state: PowerState,
    /// `PowerState` word for word.
    pub raw: String,
    /// `UUID` and `SerialNumber`.
    pub identity: Identity,
    /// `Manufacturer`.
    pub vendor: Option<String>,
    /// `Model`.
    pub model: Option<String>,
    /// `BiosVersion`.
    pub firmware: Option<String>,
    /// `PowerRestorePolicy`.
    pub power_restore_policy: Option<String>,
    /// Path of the Manager that manages it (`Links.ManagedBy`), the first.
    pub manager: Option<String>,
    /// Path of its chassis (`Links.Chassis`), the first.
    pub chassis: Option<String>,
    /// What it says itself, in `BootProgress` or in `Status`, of whether its machine runs: the word for it, or none.
    pub runs: Option<Option<&'static str>>,
    /// The action `#ComputerSystem.Reset`, or why there is none that can be used.
    pub reset: Result<Reset, String>,
}

impl System {
    /// The same, each text that is shown of it replaced by what `of` makes of it. A UUID is compared, so it stays as it is; a serial number
    /// that would be another then is left away, because what is left of it tells what is missing.
    #[must_use]
    pub fn with_texts(self, of: impl Fn(&str) -> String) -> Self {
        let word = |word: Option<String>| word.map(|word| of(&word));
        let Identity {
            system_uuid,
            serial_number,
        } = self.identity;
        let uuid_of = |uuid: String| match usable_uuid(&uuid) {
            Some(_) => uuid,
            None => of(&uuid),
        };
        Self {
            raw: of(&self.raw),
            identity: Identity {
                system_uuid: system_uuid.map(uuid_of),
                serial_number: serial_number.filter(|serial| of(serial) == *serial),
            },
            vendor: word(self.vendor),
            model: word(self.model),
            firmware: word(self.firmware),
            power_restore_policy: word(self.power_restore_policy),
            ..self
        }
    }
}

/// A JSON document in which no object has a name twice.
///
/// # Errors
/// What is wrong with it.
pub fn json(bytes: &[u8]) -> Result<Value, String> {
    crate::json::document(bytes, "a Redfish service")
}

/// Reads a ComputerSystem.
///
/// # Errors
/// Something else than a ComputerSystem.
pub fn system(document: &Value) -> Result<System, String> {
    let kind = document
        .get("@odata.type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    // A few services leave it away: then the action tells what it is, and nothing else does.
    let is_reset = || kind.is_empty() && document.pointer(reset::ACTION).is_some();
    if !names_system(kind) && !is_reset() {
        return Err(format!(
            "a ComputerSystem was asked for and `@odata.type` is \"{}\"",
            printable(kind, WORD_CHARACTERS_MAX)
        ));
    }
    let (state, raw) = power(document.get("PowerState"));
    Ok(System {
        state,
        raw,
        identity: Identity {
            system_uuid: word(document, "UUID"),
            serial_number: word(document, "SerialNumber"),
        },
        vendor: word(document, "Manufacturer"),
        model: word(document, "Model"),
        firmware: word(document, "BiosVersion"),
        power_restore_policy: word(document, "PowerRestorePolicy"),
        manager: links::linked(document, "ManagedBy"),
        chassis: links::linked(document, "Chassis"),
        runs: beside::runs(document),
        reset: reset::reset(document),
    })
}

/// The type of a ComputerSystem, whatever a maker has put before it (`#Cisco_ComputerSystem` of Cisco IMC 3.0) or has left away after it.
fn names_system(kind: &str) -> bool {
    let name = kind.strip_prefix('#').unwrap_or_default();
    let name = name.split('.').next().unwrap_or_default();
    name == "ComputerSystem" || name.ends_with("_ComputerSystem")
}

/// Only the exact word counts: nothing else makes an Off of another state.
fn power(value: Option<&Value>) -> (PowerState, String) {
    match value {
        Some(Value::String(word)) => {
            let state = match word.as_str() {
                "Off" => PowerState::Off,
                "On" => PowerState::On,
                "PoweringOff" | "PoweringOn" => PowerState::Transitional,
                _ => PowerState::Unknown,
            };
            (state, printable(word, WORD_CHARACTERS_MAX))
        }
        Some(other) => (
            PowerState::Unknown,
            printable(&other.to_string(), WORD_CHARACTERS_MAX),
        ),
        None => (PowerState::Unknown, "no PowerState".to_owned()),
    }
}

/// The paths of the members of a collection that fits into one page.
///
/// # Errors
/// It is no collection, has further pages, or a member outside the service.
pub fn members(document: &Value) -> Result<Vec<String>, String> {
    let members = document
        .get("Members")
        .and_then(Value::as_array)
        .ok_or("the collection of systems has no `Members`")?;
    if document.get("Members@odata.nextLink").is_some() {
        return Err("the collection of systems has more than one page".to_owned());
    }
    let path = |member: &Value| match member.get("@odata.id").and_then(Value::as_str) {
        Some(path) => local_path(path),
        None => Err("a member of the collection of systems has no `@odata.id`".to_owned()),
    };
    members.iter().map(path).collect()
}

/// `DateTime` of a Manager (DSP0268).
pub fn date_time(document: &Value) -> Option<Timestamp> {
    timestamp(document, "DateTime")
}

fn timestamp(document: &Value, name: &str) -> Option<Timestamp> {
    let text = document.get(name)?.as_str()?;
    text.parse()
        .ok()
        .filter(|_| text.len() <= WORD_CHARACTERS_MAX)
}

/// A text field that says something.
pub(super) fn word(document: &Value, name: &str) -> Option<String> {
    let text = document.get(name)?.as_str()?.trim();
    (!text.is_empty()).then(|| printable(text, WORD_CHARACTERS_MAX))
}

#[cfg(test)]
mod tests;
