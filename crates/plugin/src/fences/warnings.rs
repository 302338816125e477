//! What a person has to know before they go by an incident.

use super::{confirmed_down, doubt, escalated};
use crate::table;
use fencing_api::fence::NodeFence;
use schemars::JsonSchema;
use serde::Serialize;

/// What a person has to know before they go by an incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    /// What it is about.
    pub kind: WarningKind,
    /// What the record says.
    pub words: String,
    /// The same alone, as its condition or field has it: an incident may say it more than once.
    #[serde(skip)]
    pub fact: String,
}

/// What a warning is about. A name never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum WarningKind {
    /// A human is called.
    Escalated,
    /// The proof that the machine is down does not stand, or not now.
    ProofInDoubt,
    /// A human's word that the machine is down counts for nothing.
    ConfirmationRefused,
    /// Devices have said what cannot be true.
    Contradiction,
    /// A device said On when others had read Off.
    ContradictingDevice,
}

impl WarningKind {
    /// What stands before the words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Escalated => "Action required",
            Self::ProofInDoubt => "Proof in doubt",
            Self::ConfirmationRefused => "Confirmation rejected",
            Self::Contradiction => "Contradiction",
            Self::ContradictingDevice => "Read On while others read Off",
        }
    }
}

/// All of them, the most urgent first. Whatever shows an incident shows these.
pub fn warnings(fence: &NodeFence) -> Vec<Warning> {
    let status = fence.status.iter();
    let refused = status.clone().flat_map(|it| &it.confirmation_refused);
    let contradictions = status.clone().flat_map(|it| &it.contradictions);
    let devices = status.flat_map(|it| &it.contradicting_devices);
    let of = |kind: WarningKind, words: String, fact: &str| Warning {
        kind,
        words,
        fact: fact.to_owned(),
    };
    let calls = escalated(fence).map(|(reason, fact)| {
        let words = format!("{reason}: {fact}");
        of(WarningKind::Escalated, words, fact)
    });
    let doubt = doubt(fence).zip(confirmed_down(fence));
    let doubt = doubt.map(|(words, it)| of(WarningKind::ProofInDoubt, words, &it.message));
    let refused = refused.map(|it| of(WarningKind::ConfirmationRefused, it.clone(), it));
    let contradictions = contradictions.map(|it| of(WarningKind::Contradiction, it.clone(), it));
    let devices = devices.map(|it| {
        let words = format!("FenceDevice {it}");
        of(WarningKind::ContradictingDevice, words, it)
    });
    let first = calls.into_iter().chain(doubt).chain(refused);
    first.chain(contradictions).chain(devices).collect()
}

/// The words of an incident, unless one of its warnings says them.
pub fn beside<'a>(message: &'a str, warnings: &[Warning]) -> Option<&'a str> {
    let is_said = warnings.iter().any(|it| it.fact == message);
    (!is_said).then_some(message)
}

/// Those that a person reads: what calls for people says what it calls for, and that is not said once more.
pub fn told(warnings: &[Warning]) -> impl Iterator<Item = &Warning> {
    let calls = warnings.iter().find(|it| it.kind == WarningKind::Escalated);
    let is_said = move |it: &Warning| {
        // A device is a name alone, which may stand in any words, and a doubt is never what calls.
        let is_whole = matches!(
            it.kind,
            WarningKind::ConfirmationRefused | WarningKind::Contradiction
        );
        is_whole && calls.is_some_and(|call| call.fact == it.fact)
    };
    warnings.iter().filter(move |it| !is_said(it))
}

/// The same in lines for a terminal.
pub fn warned(warnings: &[Warning]) -> String {
    let line = |it: &Warning| {
        let title = it.kind.title().to_uppercase();
        table::wrapped(&format!("{title} {}", it.words), 2)
    };
    told(warnings).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_calls_for_people_is_not_said_twice() {
        let of = |kind: WarningKind, words: &str| Warning {
            kind,
            words: words.to_owned(),
            fact: words.trim_start_matches("ConfirmationRefused: ").to_owned(),
        };
        let calls = of(
            WarningKind::Escalated,
            "ConfirmationRefused: bmc reads On; look",
        );
        let refused = of(WarningKind::ConfirmationRefused, "bmc reads On; look");
        let other = of(WarningKind::Contradiction, "off, and it renewed its Lease");
        let device = of(WarningKind::ContradictingDevice, "look");
        let all = [
            calls.clone(),
            refused.clone(),
            other.clone(),
            device.clone(),
        ];
        assert_eq!(told(&all).collect::<Vec<_>>(), [&calls, &other, &device]);
        let quiet = [refused.clone(), other.clone()];
        assert_eq!(told(&quiet).collect::<Vec<_>>(), [&refused, &other]);
    }
}
