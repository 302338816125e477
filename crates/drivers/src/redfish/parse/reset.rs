//! How a system is reset: which path takes the command, and which reset types.

use super::local_path;
use crate::error::printable;
use serde_json::Value;

/// How the words begin of a system that cannot be reset at all: baseboards and the like, which are no machines.
pub const NO_RESET: &str = "the system has no action #ComputerSystem.Reset";
/// Longest list of actions that is shown, in characters.
const ACTIONS_CHARACTERS_MAX: usize = 120;

/// Where the action stands in a system.
pub(super) const ACTION: &str = "/Actions/#ComputerSystem.Reset";

/// How to reset a system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reset {
    /// Path that takes the command.
    pub target: String,
    /// The reset types it takes.
    pub allowable: Allowable,
}

/// Where the reset types stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowable {
    /// With the action itself.
    Listed(Vec<String>),
    /// In a resource of its own, at this path (`@Redfish.ActionInfo`).
    ActionInfo(String),
}

pub(super) fn reset(document: &Value) -> Result<Reset, String> {
    let action = document.pointer(ACTION).ok_or_else(|| no_reset(document))?;
    let target = action
        .get("target")
        // As Cisco IMC 3.0 spells it.
        .or_else(|| action.get("Target"))
        .and_then(Value::as_str)
        .ok_or("the action #ComputerSystem.Reset has no `target`")?;
    let target = local_path(target)?;
    let allowable = match (
        // The second one is its name of before 2016, which services of that time kept.
        action
            .get("ResetType@Redfish.AllowableValues")
            .or_else(|| action.get("ResetType@DMTF.AllowableValues")),
        action.get("@Redfish.ActionInfo"),
    ) {
        (Some(listed), _) => Allowable::Listed(words(listed)?),
        (None, Some(Value::String(path))) => Allowable::ActionInfo(local_path(path)?),
        _ => {
            return Err(
                "the action #ComputerSystem.Reset does not list the reset types it accepts"
                    .to_owned(),
            );
        }
    };
    Ok(Reset { target, allowable })
}

/// The reset types that an ActionInfo resource lists.
///
/// # Errors
/// It lists none.
pub fn action_info(document: &Value) -> Result<Vec<String>, String> {
    let parameters = document.get("Parameters").and_then(Value::as_array);
    let is_reset_type =
        |parameter: &&Value| parameter.get("Name").and_then(Value::as_str) == Some("ResetType");
    let values = parameters
        .and_then(|all| all.iter().find(is_reset_type))
        .and_then(|one| one.get("AllowableValues"));
    words(values.ok_or(
        "the ActionInfo of #ComputerSystem.Reset does not list the reset types it accepts",
    )?)
}

/// There is no such action; early firmware has one by another name, which is not sent: nobody has said what it does.
fn no_reset(document: &Value) -> String {
    let actions = document.get("Actions").and_then(Value::as_object);
    let names = actions.into_iter().flatten().map(|(name, _)| name.as_str());
    let names: Vec<&str> = names.filter(|name| name.ends_with(".Reset")).collect();
    match names.is_empty() {
        true => NO_RESET.to_owned(),
        false => format!(
            "{NO_RESET} but {}: its firmware (Cisco IMC 3.0, for one) does not follow the schema; update it, or use the driver `ipmi`",
            printable(&names.join(", "), ACTIONS_CHARACTERS_MAX)
        ),
    }
}

fn words(value: &Value) -> Result<Vec<String>, String> {
    let words = value.as_array().map(|all| {
        all.iter()
            .map(|one| one.as_str().map(str::to_owned))
            .collect()
    });
    words
        .flatten()
        .ok_or_else(|| "the list of reset types is not a list of words".to_owned())
}
