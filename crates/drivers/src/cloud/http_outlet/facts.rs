//! What the answers of a smart plug mean, by the pointers and values of its settings. Pure, and total over any JSON.
//!
//! Off is one value at one place. Any other value, none, and a list or an object there are not off; nor is an Off beside which the plug
//! measures power, or names a timer that switches on again.

use super::super::words::Said;
use crate::error::printable;
use fencing_api::device::{HttpOutletDriver, OutletDeviceId, OutletStatus};
use fencing_core::reading::PowerState;
use serde_json::Value;
use std::time::Duration;

/// Longest value that is kept, in characters.
const VALUE_CHARACTERS_MAX: usize = 63;
/// Stands for the outlet in the settings.
const PLACEHOLDER: &str = "${outlet}";

/// The most watts, and where they are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Watts {
    /// Path of another answer than that with the state.
    pub path: Option<String>,
    pointer: String,
    max: f64,
}

/// How the answers of a plug are read, for one outlet.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    status: OutletStatus,
    device: Option<OutletDeviceId>,
    pub watts: Option<Watts>,
}

impl Table {
    /// By these settings.
    pub(super) fn new(settings: &HttpOutletDriver) -> Self {
        let fill = |text: &String| filled(text, &settings.outlet);
        let status = &settings.status;
        Self {
            status: OutletStatus {
                path: fill(&status.path),
                pointer: fill(&status.pointer),
                unless: status.unless.iter().map(fill).collect(),
                ..status.clone()
            },
            device: settings.device_id.as_ref().map(|it| OutletDeviceId {
                pointer: fill(&it.pointer),
                value: fill(&it.value),
            }),
            watts: settings.watts.as_ref().map(|it| Watts {
                path: it.path.as_ref().map(fill),
                pointer: fill(&it.pointer),
                max: f64::from(it.max_milliwatts) / 1000.0,
            }),
        }
    }

    /// The path of the state.
    pub(super) fn path(&self) -> &str {
        &self.status.path
    }

    /// Is it the plug of the settings that answers?
    ///
    /// # Errors
    /// What it calls itself.
    pub(super) fn check(&self, status: &Value) -> Result<(), String> {
        let Some(device) = &self.device else {
            return Ok(());
        };
        let shown = |text: &str| printable(text, VALUE_CHARACTERS_MAX);
        match text_at(status, &device.pointer) {
            Some(found) if found == device.value => Ok(()),
            Some(found) => Err(format!(
                "its {} is \"{}\", and \"{}\" is required",
                shown(&device.pointer),
                shown(&found),
                shown(&device.value)
            )),
            None => Err(format!(
                "it has no {}, \"{}\" is required",
                shown(&device.pointer),
                shown(&device.value)
            )),
        }
    }

    /// The state, and what speaks against an Off. `watts`: the answer with them, where the settings have them.
    pub(super) fn said(&self, status: &Value, watts: &Value) -> Said {
        let OutletStatus {
            pointer,
            off_value,
            on_value,
            unless,
            ..
        } = &self.status;
        let text = text_at(status, pointer);
        let state = match &text {
            Some(text) if text == off_value => PowerState::Off,
            Some(text) if text == on_value => PowerState::On,
            _ => PowerState::Unknown,
        };
        let said = Said {
            state,
            raw: match text {
                Some(text) => printable(&text, VALUE_CHARACTERS_MAX),
                None => printable(&format!("no value at {pointer}"), VALUE_CHARACTERS_MAX),
            },
            faults: Vec::new(),
            may_resume: false,
            age: Duration::ZERO,
        };
        let said = unless.iter().fold(said, |said, pointer| {
            said.only_if(is_absent(status, pointer), format!("{pointer} is there"))
        });
        match &self.watts {
            Some(limit) => limit.allow(said, watts),
            None => said,
        }
    }
}

impl Watts {
    /// Why this meter would be no witness, by what it reads while the outlet is on and its machine runs; none: it would be one.
    pub(super) fn problem(&self, answer: &Value) -> Option<String> {
        match number_at(answer, &self.pointer) {
            Some(watts) if watts.abs() > self.max => None,
            Some(watts) => Some(format!(
                "it measures {watts} W while the outlet is on, more than {} W is required; check which outlet feeds the machine, and which the meter measures",
                self.max
            )),
            None => Some(format!("there are no watts at {}", self.pointer)),
        }
    }

    /// An Off is one if hardly anything is measured.
    fn allow(&self, said: Said, answer: &Value) -> Said {
        match number_at(answer, &self.pointer) {
            // Never true of what is no number.
            Some(watts) => said.only_if(watts.abs() <= self.max, format!("{watts} W")),
            None => said.only_if(false, format!("no watts at {}", self.pointer)),
        }
    }
}

/// A text of the settings with the outlet in it.
pub(super) fn filled(text: &str, outlet: &str) -> String {
    text.replace(PLACEHOLDER, outlet)
}

/// Does this text of the settings say which outlet?
pub(super) fn names_outlet(text: &str) -> bool {
    text.contains(PLACEHOLDER)
}

/// A string, a number, true or false, as text.
fn text_at(answer: &Value, pointer: &str) -> Option<String> {
    match answer.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A number, or a string with one.
fn number_at(answer: &Value, pointer: &str) -> Option<f64> {
    match answer.pointer(pointer)? {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Is nothing there, or null, or false?
fn is_absent(answer: &Value, pointer: &str) -> bool {
    matches!(
        answer.pointer(pointer),
        None | Some(Value::Null | Value::Bool(false))
    )
}
