//! Whose a mark is that stands without a claim.

use super::*;
use crate::decision::Effect;
use crate::escalation::Escalation;
use crate::fixtures::{self, DATE, drained, node, out_of_service, settings};
use crate::memory::{ClaimScoped, UnderTaint};
use crate::observed::{OUT_OF_SERVICE, Read};
use crate::plan::Observed;
use crate::plan::round::Round;
use crate::settings::Record;
use crate::settings::Settings;

fn moment() -> Moment {
    Moment {
        now: Duration::from_secs(100),
        nonce: "n1".to_owned(),
        date: DATE.to_owned(),
    }
}

/// S13: the claim was given back and the answer to that is lost; then a human puts the node out of service. The record names no claim that
/// is gone. After a proof the taint may be ours.
#[test]
fn a_claim_that_was_given_back_is_forgotten_beside_a_taint_of_somebody_else() {
    for (dropping, evidence, is_kept) in [
        (true, false, false),
        (true, true, true),
        (false, false, true),
    ] {
        let mut memory = Memory {
            claim: Some(fixtures::own_claim("fence-n1")),
            under_claim: ClaimScoped {
                dropping,
                evidence,
                ..ClaimScoped::default()
            },
            ..Memory::default()
        };
        let tainted = NodeView {
            taints: vec![out_of_service()],
            ..node()
        };
        let (s, o, t) = (settings(), drained(), moment());
        step(&mut Round::of(&s, &mut memory, &o, &t), &tainted);
        assert_eq!(memory.claim.is_some(), is_kept, "{dropping} {evidence}");
    }
}

/// S8, L3: `out-of-service` without our claim. Who has proven anything may have set it, and calls a human; nobody else minds, and an earlier
/// refusal is not held against the admission policy.
#[test]
fn an_out_of_service_without_its_claim_calls_a_human_if_it_can_be_ours() {
    let record = |evidence: bool, tainted: bool| Settings {
        record: Record {
            evidence,
            tainted,
            ..Record::default()
        },
        ..settings()
    };
    let adopted = Settings {
        adopted: true,
        ..settings()
    };
    let proven = Memory {
        under_claim: ClaimScoped {
            evidence: true,
            ..ClaimScoped::default()
        },
        ..Memory::default()
    };
    let fresh = Memory::default;
    let table = [
        (settings(), fresh(), None),
        (settings(), proven, Some(Escalation::ClaimRemoved)),
        (record(true, false), fresh(), Some(Escalation::ClaimRemoved)),
        (record(false, true), fresh(), Some(Escalation::ClaimRemoved)),
        (adopted, fresh(), Some(Escalation::ClaimRemoved)),
    ];
    for (settings, mut memory, expected) in table {
        memory.writes.denied = Some("S8: it may not be claimed".to_owned());
        let node = NodeView {
            taints: vec![out_of_service()],
            ..node()
        };
        let observed = Observed {
            node: Read::Present(node),
            ..drained()
        };
        let decision = crate::plan::step(&settings, &mut memory, &observed, &moment());
        let reason = decision.escalation.map(|(reason, _)| reason);
        assert_eq!(reason, expected, "{}", decision.message);
        assert_eq!(decision.effect, Effect::Wait);
    }
}

/// S8: ours has gone with the release, unless what stands there can still be it.
#[test]
fn after_the_release_an_out_of_service_is_somebody_else_s_if_its_effect_is_another() {
    for (effect, stage) in [
        ("NoExecute", Stage::AwaitingRelease),
        ("NoSchedule", Stage::Recovered),
    ] {
        let mut memory = Memory {
            taint: UnderTaint {
                seen: true,
                releasing: true,
                ..UnderTaint::default()
            },
            ..Memory::default()
        };
        let tainted = NodeView {
            taints: vec![fixtures::taint(OUT_OF_SERVICE, "nodeshutdown", effect)],
            ..node()
        };
        let observed = Observed {
            node: Read::Present(tainted),
            ..drained()
        };
        let decision = crate::plan::step(&settings(), &mut memory, &observed, &moment());
        assert_eq!(decision.stage, stage, "{effect}: {}", decision.message);
    }
}
