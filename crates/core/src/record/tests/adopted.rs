//! What a record of two processes keeps of the other one's.

use super::*;
use crate::record::{hand_on, is_news};
use fencing_api::conditions::{NODE_CONFIRMED_DOWN, find};

fn at(second: i64) -> Option<Timestamp> {
    Some(Timestamp::from_second(second).expect("a second"))
}

fn confirmed(is_refuted: bool) -> NodeFenceStatus {
    let mut status = NodeFenceStatus::default();
    super::super::confirmed::proven(&mut status, false, Timestamp::UNIX_EPOCH);
    if is_refuted {
        super::super::confirmed::refuted(&mut status, Timestamp::UNIX_EPOCH);
    }
    status
}

fn is_confirmed(status: &NodeFenceStatus) -> Option<&str> {
    let told = find(&status.conditions, NODE_CONFIRMED_DOWN);
    told.map(|it| it.reason.as_str())
}

/// S10: who is first binds it.
#[test]
fn a_record_is_bound_once() {
    let bound = |node: &str, boot: &str| NodeFenceStatus {
        node_uid: Some(node.to_owned()),
        boot_id: Some(boot.to_owned()),
        ..NodeFenceStatus::default()
    };
    let theirs = || bound("uid-1", "boot-1");
    for (own, live) in [
        (NodeFenceStatus::default(), theirs()),
        (bound("uid-2", "boot-2"), theirs()),
        (theirs(), NodeFenceStatus::default()),
    ] {
        let mut status = own;
        adopt(&mut status, live, None);
        assert_eq!(status, theirs());
    }
}

/// S11: what was done to the Node was done, whoever knows of it. That everything had detached is not: a volume may have come back since.
#[test]
fn what_was_done_to_the_node_stays_in_the_record() {
    let done = |applied, removed| NodeFenceStatus {
        taint_applied_time: applied,
        taint_removed_time: removed,
        ..NodeFenceStatus::default()
    };
    let nothing = || done(None, None);
    for (own, live, both) in [
        (nothing(), done(at(1), at(3)), done(at(1), at(3))),
        (done(at(1), at(3)), nothing(), done(at(1), at(3))),
        (done(at(9), None), done(at(1), None), done(at(1), None)),
    ] {
        let mut status = own;
        let live = NodeFenceStatus {
            detached_time: at(2),
            ..live
        };
        adopt(&mut status, live, None);
        assert_eq!(status, both);
    }
    assert!(is_news(&done(at(1), None), &nothing()));
    assert!(is_news(&done(at(1), at(3)), &done(at(1), None)));
    for known in [nothing(), done(at(9), None), done(at(9), at(9))] {
        assert!(!is_news(&nothing(), &known));
        assert!(!is_news(&known, &known));
    }
}

/// S21: so is a word that was refused.
#[test]
fn a_finding_of_another_process_is_news() {
    let refused = NodeFenceStatus {
        confirmation_refused: Some("no".to_owned()),
        ..NodeFenceStatus::default()
    };
    assert!(is_news(&refused, &NodeFenceStatus::default()));
    assert!(!is_news(&NodeFenceStatus::default(), &refused));
}

/// S22: a proof that was false stays false, and one that is true for the other process tells this one nothing.
#[test]
fn a_proof_that_was_refuted_stays_refuted() {
    let unknown = NodeFenceStatus::default;
    for (own, live, told, is_new) in [
        (confirmed(false), confirmed(true), Some("Refuted"), true),
        (confirmed(true), confirmed(false), Some("Refuted"), false),
        (confirmed(false), confirmed(false), Some("Proven"), false),
        (unknown(), confirmed(true), Some("Refuted"), true),
        (unknown(), confirmed(false), None, false),
    ] {
        assert_eq!(is_news(&live, &own), is_new, "{told:?}");
        let mut status = own;
        adopt(&mut status, live, None);
        assert_eq!(is_confirmed(&status), told);
        let conditions = status.conditions.iter();
        assert!(
            conditions
                .filter(|it| it.type_ == NODE_CONFIRMED_DOWN)
                .count()
                <= 1
        );
    }
}

/// A status with evidence of this claim, proven in this second; `heard` is what an older schema drops.
fn with_evidence(
    claim: &str,
    second: i64,
    heard: bool,
    status: NodeFenceStatus,
) -> NodeFenceStatus {
    let evidence = serde_json::json!({
        "claim": claim, "nodeUID": "uid-1", "nodeBootID": "boot-1", "quiescedTime": "2026-01-01T00:00:00Z",
        "provenTime": at(second), "readings": [], "readyHeartbeatTime": heard.then(|| at(0)),
    });
    NodeFenceStatus {
        evidence: Some(serde_json::from_value(evidence).expect("evidence")),
        ..status
    }
}

/// S22: whoever goes on with the proof that this process has refuted has to know; of another one's proof it knows nothing.
#[test]
fn a_proof_that_was_refuted_is_handed_on_with_its_evidence() {
    for (claim, second, heard, told) in [
        ("fence-n1", 1, true, "Refuted"),
        ("fence-n1", 1, false, "Refuted"),
        ("fence-n1", 2, true, "Proven"),
        ("fence-n2", 1, true, "Proven"),
    ] {
        let mut theirs = with_evidence(claim, second, heard, confirmed(false));
        hand_on(
            &mut theirs,
            &with_evidence("fence-n1", 1, true, confirmed(true)),
            at(9).expect("a moment"),
        );
        let refuted = confirmed(told == "Refuted");
        assert_eq!(theirs, with_evidence(claim, second, heard, refuted));
    }
}

/// S22: a sign of life beside a proof is kept by whoever knows of that proof, and says nothing of a newer one. It makes no refutation weaker.
#[test]
fn what_speaks_against_a_proof_is_taken_over_with_its_evidence() {
    let doubted = |second| {
        let mut status = confirmed(false);
        super::super::confirmed::doubted(&mut status, "life", Timestamp::UNIX_EPOCH);
        with_evidence("fence-n1", second, true, status)
    };
    for (own, told) in [
        (
            with_evidence("fence-n1", 1, true, confirmed(false)),
            "Contradicted",
        ),
        (
            with_evidence("fence-n1", 2, true, confirmed(false)),
            "Proven",
        ),
        (
            with_evidence("fence-n1", 1, true, confirmed(true)),
            "Refuted",
        ),
    ] {
        let mut status = own.clone();
        adopt(&mut status, doubted(1), None);
        assert_eq!(is_confirmed(&status), Some(told));
        assert_eq!(is_news(&doubted(1), &own), told == "Contradicted");
    }
}

/// S22: what this process has seen it has seen beside no proof, or beside another one: whether before the proof that stands there nobody knows.
#[test]
fn a_sign_of_life_beside_no_proof_is_handed_on_as_a_doubt() {
    let seen = |sign: &str| NodeFenceStatus {
        contradictions: vec![sign.to_owned()],
        ..NodeFenceStatus::default()
    };
    let now = at(9).expect("a moment");
    let handed = |of: &NodeFenceStatus, theirs: NodeFenceStatus| {
        let mut theirs = with_evidence("fence-n2", 1, true, theirs);
        hand_on(&mut theirs, of, now);
        is_confirmed(&theirs).map(str::to_owned)
    };
    let own = seen("the Lease was renewed");
    assert_eq!(
        handed(&own, confirmed(false)).as_deref(),
        Some("Contradicted")
    );
    assert_eq!(handed(&own, confirmed(true)).as_deref(), Some("Refuted"));
    let refused = NodeFenceStatus {
        confirmation_refused: Some("the BMC reads On".to_owned()),
        ..NodeFenceStatus::default()
    };
    assert_eq!(
        handed(&refused, confirmed(false)).as_deref(),
        Some("Contradicted")
    );
    // It knew.
    let mut knew = confirmed(false);
    knew.contradictions.clone_from(&own.contradictions);
    assert_eq!(handed(&own, knew).as_deref(), Some("Proven"));
    let nothing = NodeFenceStatus::default();
    assert_eq!(
        handed(&nothing, confirmed(false)).as_deref(),
        Some("Proven")
    );
}

/// S22: what is told of a proof goes with its evidence, and of no other.
#[test]
fn what_is_told_of_a_proof_is_taken_over_with_its_evidence() {
    let bare = || with_evidence("fence-n1", 1, true, NodeFenceStatus::default());
    for (second, told) in [(1, Some("Proven")), (2, None)] {
        let mut status = bare();
        adopt(
            &mut status,
            with_evidence("fence-n1", second, true, confirmed(false)),
            None,
        );
        assert_eq!(is_confirmed(&status), told);
    }
    let mut status = NodeFenceStatus::default();
    adopt(&mut status, confirmed(false), None);
    assert_eq!(is_confirmed(&status), None, "of no evidence");
}
