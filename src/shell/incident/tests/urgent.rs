//! What is written at once, and not with the next write that is due.

use super::rivals::{confirmed, evidence_under};
use super::two_processes::patch;
use super::*;
use fencing_core::decision::Effect;

/// S8: a successor that does not know of the taint would set it again after somebody has taken it away.
#[tokio::test]
async fn that_the_taint_is_set_is_written_at_once() {
    let cluster = cluster(fake::tainted()).await;
    cluster.put(PATCH_FENCE, 200, fence_object("8", json!({})));
    cluster.put(PATCH_NODE, 200, fake::tainted());
    let context = cluster.context();
    let incident = Incidents::default().begin(fence("7"));
    let mut incident = incident.lock().await;
    let fence = fence("7");
    let mut round = Round {
        context: &context,
        fence: &fence,
        incident: &mut incident,
    };
    assert_eq!(round.taint(patch()).await, Reply::Done);
    let written = sent(&cluster, PATCH_FENCE);
    let date = written
        .first()
        .map(|it| it["status"]["taintAppliedTime"].is_string());
    assert_eq!((written.len(), date), (1, Some(true)), "{written:?}");
}

/// S8: the taint's own write may have had no answer, or be another process's. Words alone are not worth a write at once.
#[tokio::test]
async fn that_the_taint_stands_is_written_before_anything_is_done_under_it() {
    let cluster = cluster(fake::tainted()).await;
    let context = cluster.context();
    let incident = Incidents::default().begin(fence("7"));
    let mut incident = incident.lock().await;
    let fence = fence("7");
    incident.status.taint_applied_time = Some("2026-01-01T00:00:05Z".parse().expect("a date"));
    let round = Round {
        context: &context,
        fence: &fence,
        incident: &mut incident,
    };
    assert!(round.is_urgent(&Effect::Close) && !round.is_urgent(&Effect::Wait));
    round.incident.stored.status = round.incident.status.clone();
    assert!(!round.is_urgent(&Effect::Close));
}

/// S22: others free volumes by the proof. Words alone are not worth a write at once.
#[tokio::test]
async fn what_speaks_against_a_proof_is_written_at_once() {
    let told = |claim: &str, is: &str, reason: &str| json!({"evidence": evidence_under(claim), "conditions": confirmed(is, reason)});
    let proven = || told("fence-n1", "True", "Proven");
    let doubted = || told("fence-n1", "Unknown", "Contradicted");
    let refuted = || told("fence-n1", "False", "Refuted");
    let mut found = proven();
    found["contradictions"] = json!(["the Lease was renewed"]);
    let cluster = cluster(fake::node()).await;
    let context = cluster.context();
    for (stored, known, is_urgent) in [
        (proven(), found, true),
        (proven(), doubted(), true),
        (proven(), refuted(), true),
        (doubted(), refuted(), true),
        (doubted(), proven(), false),
        (refuted(), doubted(), false),
        (proven(), told("fence-n1", "True", "Words"), false),
        (proven(), told("fence-n2", "Unknown", "Contradicted"), false),
    ] {
        let fence = decoded(fence_object("7", known.clone()));
        let incident = Incidents::default().begin(fence.clone());
        let mut incident = incident.lock().await;
        let stored = decoded(fence_object("7", stored));
        incident.stored.status = stored.status.expect("a status");
        let round = Round {
            context: &context,
            fence: &fence,
            incident: &mut incident,
        };
        assert_eq!(round.is_urgent(&Effect::Wait), is_urgent, "{known}");
    }
}
