//! Commands as the record of an incident has them.

use crate::objects::text;
use serde_json::Value;
use std::collections::BTreeSet;

/// A hard off.
pub(super) const OFF: &str = "PowerOff";
/// An on.
pub(super) const ON: &str = "PowerOn";

/// A command that is written down.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Intent {
    pub(super) action: &'static str,
    attempt: String,
    pub(super) machine: String,
}

/// What of this kind is written down for any machine, by what is said of how it ended.
fn written(
    fence: &Value,
    action: &'static str,
    is_meant: impl Fn(&Value) -> bool,
) -> BTreeSet<Intent> {
    let attempts = fence["status"]["attempts"].as_array();
    let attempts = attempts.into_iter().flatten();
    let meant = attempts.filter(|attempt| attempt["action"] == action && is_meant(attempt));
    let intent = |attempt: &Value| {
        let device = text(attempt, "/device").strip_prefix("bmc-")?;
        Some(Intent {
            action,
            attempt: text(attempt, "/id").to_owned(),
            machine: device.split('.').next()?.to_owned(),
        })
    };
    meant.filter_map(intent).collect()
}

/// Those that are written down as begun.
pub(super) fn intended(fence: &Value, action: &'static str) -> BTreeSet<Intent> {
    written(fence, action, |attempt| attempt["completionTime"].is_null())
}

/// Offs that have gone out, or may have; or those that the record says were refused.
pub(super) fn turned_off(fence: &Value, has_gone: bool) -> BTreeSet<Intent> {
    written(fence, OFF, |attempt| {
        (attempt["result"] != "Refused") == has_gone
    })
}
