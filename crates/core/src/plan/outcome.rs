//! What an incident has come to, in messages.

use super::round::Round;
use crate::memory::Memory;
use crate::proof_source::ProofSource;

/// A word is no proof, though it stands for one.
pub(super) fn is_by_confirmation(m: &Memory) -> bool {
    m.proven.by == Some(ProofSource::Confirmation)
}

/// What was known of the machine.
pub(super) fn was_down(m: &Memory) -> &'static str {
    match m.proven.by {
        Some(ProofSource::Confirmation) => "machine manually confirmed off",
        Some(ProofSource::Storage(_)) => "node fenced from its volumes",
        Some(ProofSource::Devices(_)) | None => "machine confirmed off",
    }
}

/// The end of an incident that only proves.
pub(super) fn confirmed(m: &Memory) -> String {
    let what = match is_by_confirmation(m) {
        true => "machine manually confirmed off",
        false => "machine confirmed off",
    };
    format!("{what}; `recovery.strategy: None` requires nothing more")
}

/// What an incident that has done all that it was for has come to. Whoever has adopted a taint does not know which it was once it is gone.
pub(super) fn released(r: &Round<'_>) -> String {
    let mark = match r.settings.adopted {
        true => "adopted".to_owned(),
        false => format!("`{}`", r.settings.mark()),
    };
    let free = format!("pods deleted, volumes detached, {mark} taint removed");
    // By which proof it was set nobody knows.
    match r.settings.adopted {
        true => free,
        false => format!("{}, {free}", was_down(r.memory)),
    }
}
