//! What the answers of a webhook mean. Pure, and total over any JSON.

use super::super::words::{Said, Word};
use super::{API_VERSION, RESPONSE};
use crate::error::printable;
use fencing_core::reading::{Identity, PowerState};
use serde_json::Value;
use std::time::Duration;

/// `power`. What a service cannot tell is `Unknown`, as any other word.
const POWER: [Word; 3] = [
    ("On", PowerState::On),
    ("Off", PowerState::Off),
    ("Transitional", PowerState::Transitional),
];
/// Oldest report of an Off, in seconds.
pub(super) const AGE_SECONDS_MAX: f64 = 5.0;

/// What a service made of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It took it.
    Accepted,
    /// The machine is in that state already.
    Already,
}

/// Is it an answer of this version of the contract?
pub(super) fn is_response(answer: &Value) -> bool {
    word(answer, "apiVersion") == Some(API_VERSION) && word(answer, "kind") == Some(RESPONSE)
}

/// Is it the answer to the request with this ID?
///
/// # Errors
/// What it is instead.
pub(super) fn check(answer: &Value, request_id: &str) -> Result<(), String> {
    let expected = [
        ("apiVersion", API_VERSION),
        ("kind", RESPONSE),
        ("requestID", request_id),
    ];
    for (name, expected) in expected {
        match word(answer, name) {
            Some(found) if found == expected => {}
            Some(found) => {
                let found = printable(found, 63);
                return Err(format!(
                    "its `{name}` is \"{found}\", and \"{expected}\" is required"
                ));
            }
            None => return Err(format!("it has no `{name}`, \"{expected}\" is required")),
        }
    }
    Ok(())
}

/// The power, and how old the report of it is.
pub(super) fn said(answer: &Value) -> Said {
    let age = age(answer);
    let seconds = age.map_or(f64::INFINITY, |age| age.as_secs_f64());
    let is_named = identity(answer) != Identity::default();
    Said::of(&POWER, "power", word(answer, "power"))
        .only_if(age.is_some(), "no ageSeconds")
        .only_if(
            seconds <= AGE_SECONDS_MAX || age.is_none(),
            format!("a report that is {seconds:.0} s old"),
        )
        .only_if(is_named, "no machine named")
        .of_age(age.unwrap_or_default())
}

/// How old the report is, as the service has measured it.
pub(super) fn age(answer: &Value) -> Option<Duration> {
    let seconds = answer.get("ageSeconds").and_then(Value::as_f64)?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Which machine it is: its system UUID, and what the service itself calls it.
pub(super) fn identity(answer: &Value) -> Identity {
    let machine = answer.get("machine").unwrap_or(&Value::Null);
    let of = |name| word(machine, name).filter(|text| !text.trim().is_empty());
    Identity {
        system_uuid: of("systemUUID").map(str::to_owned),
        serial_number: of("machineID").map(str::to_owned),
    }
}

/// What turns the machine on again by itself.
pub(super) fn restarter(answer: &Value) -> Option<String> {
    let restarter = word(answer, "restarter").filter(|text| !text.trim().is_empty());
    restarter.map(str::to_owned)
}

/// What became of the command with this ID.
///
/// # Errors
/// It does not say.
pub(super) fn outcome(answer: &Value, request_id: &str) -> Result<Outcome, String> {
    check(answer, request_id)?;
    match word(answer, "outcome") {
        Some("Accepted") => Ok(Outcome::Accepted),
        Some("Already") => Ok(Outcome::Already),
        Some(other) => Err(format!(
            "its `outcome` is \"{}\", and Accepted or Already is required",
            printable(other, 63)
        )),
        None => Err("it has no `outcome`".to_owned()),
    }
}

fn word<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}
