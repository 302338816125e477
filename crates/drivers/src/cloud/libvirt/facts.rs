//! What libvirt's numbers mean. Pure, and total over any of them.

use super::super::errors::{Meaning, Row, row};
use super::super::words::{Said, Word};
use fencing_core::reading::PowerState;

/// `virDomainState`. What is paused, suspended by its guest or crashed keeps its memory, and may go on.
const STATES: [&str; 8] = [
    "NOSTATE",
    "RUNNING",
    "BLOCKED",
    "PAUSED",
    "SHUTDOWN",
    "SHUTOFF",
    "CRASHED",
    "PMSUSPENDED",
];
/// Those that say something of the power. BLOCKED runs, and waits for a device; in SHUTDOWN the guest is ending.
const POWER: [Word; 4] = [
    ("RUNNING", PowerState::On),
    ("BLOCKED", PowerState::On),
    ("SHUTDOWN", PowerState::Transitional),
    ("SHUTOFF", PowerState::Off),
];
const PAUSED: i32 = 3;
/// A domain that has no process.
pub(super) const SHUTOFF: i32 = 5;
/// `virDomainShutoffReason`.
const SHUTOFF_REASONS: [&str; 9] = [
    "unknown",
    "shutdown",
    "destroyed",
    "crashed",
    "migrated",
    "saved",
    "failed",
    "from snapshot",
    "daemon",
];
/// The reasons by which it is off: its guest has ended, it was destroyed, or its process could not be started. It may run elsewhere where it was
/// migrated, and its memory is kept where it was saved, or is that of a snapshot. With `unknown` the daemon was started since, and knows no more.
const OFF_REASONS: [&str; 3] = ["shutdown", "destroyed", "failed"];
/// `virDomainPausedReason`: migrated, or being migrated (postcopy too), so that it may run at the destination.
const PAUSED_BY_MIGRATION: [i32; 3] = [2, 12, 13];
/// What an error means that stops a question (`virErrorNumber`).
pub(super) const ASKED: [Row; 9] = [
    row(3, "", "", Meaning::Refused),
    row(5, "", "", Meaning::Refused),
    row(29, "", "", Meaning::Denied),
    row(42, "", "", Meaning::Missing),
    row(45, "", "", Meaning::Login),
    row(68, "", "", Meaning::Busy),
    row(79, "", "", Meaning::Login),
    row(88, "", "", Meaning::Denied),
    row(94, "", "", Meaning::Login),
];
/// The same of a command. What is in no row may have been carried out: `OPERATION_TIMEOUT` (68) comes after the process was killed, too, where
/// something else holds the domain.
pub(super) const COMMANDED: [Row; 6] = [
    row(3, "", "", Meaning::Refused),
    row(29, "", "", Meaning::Denied),
    row(42, "", "", Meaning::Missing),
    // The domain is not running, or is running already; a reading says which.
    row(55, "", "", Meaning::Already),
    row(84, "", "", Meaning::Refused),
    row(88, "", "", Meaning::Denied),
];

fn named<'a>(names: &[&'a str], number: i32) -> Option<&'a str> {
    let place = usize::try_from(number).ok();
    place.and_then(|place| names.get(place).copied())
}

/// The power by state and reason; `is_saved`: a file has its memory.
pub(super) fn said(state: i32, reason: i32, is_saved: bool) -> Said {
    let name = named(&STATES, state);
    let mut said = Said::of(&POWER, "state", name);
    if state != SHUTOFF {
        said.raw = match name {
            Some(name) => format!("{name}, reason {reason}"),
            None => format!("state {state}, reason {reason}"),
        };
        return said;
    }
    let why = named(&SHUTOFF_REASONS, reason);
    let why = why.map_or_else(|| format!("reason {reason}"), str::to_owned);
    said.raw = format!("SHUTOFF, {why}");
    let is_off = OFF_REASONS.contains(&why.as_str());
    said.only_if(is_off, &why)
        .only_if(!is_saved, "a managed save image")
}

/// May it run, or go on, at another host? Then the end of this one is not its end.
pub(super) fn is_paused_by_migration((state, reason): (i32, i32)) -> bool {
    state == PAUSED && PAUSED_BY_MIGRATION.contains(&reason)
}

/// A UUID as text.
pub(super) fn text_of(uuid: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(uuid));
    let part = |from, to| digits.get(from..to).unwrap_or_default();
    [
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32),
    ]
    .join("-")
}
