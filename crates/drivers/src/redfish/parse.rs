//! What a Redfish service's JSON means, and nothing that it does not say.
//!
//! Pure, and total over any bytes. A name that stands twice in an object is an error, because two readers could each see
//! another of the two values; so is anything of the wrong shape in a place that matters. The power state alone is never an
//! error: whatever is not exactly `Off` is some other state.

mod beside;
mod links;
mod reset;

pub use links::{local_path, with_paths};

pub use beside::{Restart, machine_reads_on, restart};
pub use reset::{Allowable, NO_RESET, Reset, action_info};

use crate::error::printable;
use fencing_core::reading::{Identity, PowerState, usable_uuid};
use jiff::Timestamp;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::fmt;

/// The reset type that cuts the power. But for it and [`ON`] none is ever sent.
pub const FORCE_OFF: &str = "ForceOff";
/// The reset type that turns on a machine that is off, and does nothing to one that is on.
pub const ON: &str = "On";
/// Everything of a service lies below it.
pub const ROOT: &str = "/redfish/v1/";
/// Longest word of a device that is kept, in characters.
const WORD_CHARACTERS_MAX: usize = 63;

/// Memory that a document may take beside its body, in bytes: of a few bytes of JSON come hundreds, and a whole answer has a mebibyte (S19).
/// The longest ones that BMCs are known to send take a tenth of it.
const MEMORY_BYTES_MAX: usize = 400 << 10;
/// Upper bounds of what `serde_json` takes, twice that where a list or a node of a map has grown. An object's first entry makes a node with
/// room for eleven.
const LIST_BYTES: usize = 4 * ITEM_BYTES;
const ITEM_BYTES: usize = 2 * size_of::<Value>();
const OBJECT_BYTES: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 32;
const ENTRY_BYTES: usize = 2 * (size_of::<String>() + size_of::<Value>());

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
    if bytes.is_empty() {
        return Err("its body is empty".to_owned());
    }
    let room = Cell::new(MEMORY_BYTES_MAX);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = Strict { room: &room }.deserialize(&mut reader);
    match read.and_then(|value| reader.end().map(|()| value)) {
        Ok(value) => Ok(value),
        Err(error) => Err(format!(
            "its body is not the JSON of a Redfish service ({})",
            printable(&error.to_string(), 120)
        )),
    }
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

/// Makes a [`Value`], but of no object with a name twice, and not of more than there is room for.
struct Strict<'a> {
    room: &'a Cell<usize>,
}

impl Strict<'_> {
    /// Memory is taken before it is filled.
    fn take<E: serde::de::Error>(&self, bytes: usize) -> Result<(), E> {
        let left = self.room.get().checked_sub(bytes);
        let too_much = || {
            E::custom(format_args!(
                "it takes more than {MEMORY_BYTES_MAX} bytes of memory"
            ))
        };
        self.room.set(left.ok_or_else(too_much)?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without a name twice in one object")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.take(value.len())?;
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        self.take(LIST_BYTES)?;
        while let Some(item) = items.next_element_seed(self)? {
            self.take(ITEM_BYTES)?;
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        self.take(OBJECT_BYTES)?;
        while let Some(name) = entries.next_key::<String>()? {
            self.take(name.len() + ENTRY_BYTES)?;
            if object.contains_key(&name) {
                return Err(A::Error::custom(format_args!(
                    "the name \"{}\" stands twice in one object",
                    printable(&name, 40)
                )));
            }
            let value = entries.next_value_seed(self)?;
            object.insert(name, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests;
