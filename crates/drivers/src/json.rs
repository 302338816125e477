//! JSON of a device or a service, within a limit of memory and with no name twice in one object.
//!
//! Two readers of one object with a name twice could each see another of its values, so there is no such object here.

mod forms;

use crate::error::printable;
pub(crate) use forms::{Any, Few, Object, Objects, Text, Whole};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::fmt;

/// Memory that a document may take beside its body, in bytes: of a few bytes of JSON come hundreds, and a whole answer has a mebibyte (S19).
/// The longest ones that BMCs are known to send take a tenth of it.
pub(crate) const MEMORY_BYTES_MAX: usize = 400 << 10;
/// Upper bounds of what `serde_json` takes, twice that where a list or a node of a map has grown. An object's first entry makes a node with
/// room for eleven.
const LIST_BYTES: usize = 4 * ITEM_BYTES;
const ITEM_BYTES: usize = 2 * size_of::<Value>();
const OBJECT_BYTES: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 32;
const ENTRY_BYTES: usize = 2 * (size_of::<String>() + size_of::<Value>());

/// A JSON document in which no object has a name twice. `whose`: who should have written it, for the message.
///
/// # Errors
/// What is wrong with it.
pub fn document(bytes: &[u8], whose: &str) -> Result<Value, String> {
    if bytes.is_empty() {
        return Err("its body is empty".to_owned());
    }
    let room = Cell::new(MEMORY_BYTES_MAX);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = Strict { room: &room }.deserialize(&mut reader);
    match read.and_then(|value| reader.end().map(|()| value)) {
        Ok(value) => Ok(value),
        Err(error) => Err(format!(
            "its body is not the JSON of {whose} ({})",
            printable(&error.to_string(), 120)
        )),
    }
}

/// Deepest nesting that is read, as `serde_json` has it for what it keeps.
const DEPTH_MAX: usize = 127;

/// What this form keeps of a document, which may be longer than one that is read whole.
///
/// # Errors
/// It has another form, or nests too deep: what is skipped, too.
pub(crate) fn kept<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => depth += 1,
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Err(serde_json::Error::custom("it nests too deep"));
        }
    }
    serde_json::from_slice(bytes)
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
