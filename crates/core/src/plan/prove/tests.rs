//! What may follow from a proof dies with it.

use super::*;
use crate::answer::Reply;
use crate::decision::Effect;
use crate::delay::{Now, Since};
use crate::fixtures::{
    DATE, attempt, claimed, drained, lease, off_readings, out_of_service, own_claim, pod, settings,
};
use crate::identity_rule::IdentityRule;
use crate::manual_confirmation::CONFIRMATION_LIFE;
use crate::memory::{ClaimScoped, ConfirmationTurn, ProvenOff};
use crate::observed::{LeaseView, PodView, Read};
use crate::plan::Moment;
use crate::plan::Observed;
use crate::plan::proven::to_evict;
use crate::plan::round::Round;
use crate::quiesce::Quiesce;
use crate::record;
use crate::reply::{Asked, learn};
use crate::settings::{ManualConfirmation, Settings};
use fencing_api::fence_status::NodeFenceStatus;
use std::collections::BTreeSet;

const CLAIM_VALUE: &str = "fence-n1";

fn confirm_only() -> Settings {
    crate::fixtures::asking(settings(), |it| it.fence.mode = FenceMode::ConfirmOnly)
}

/// Claimed, quiesced at 10 s, read Off until 13 s, the evidence stored, and one pod of the node still there.
fn read_off() -> Memory {
    Memory {
        claim: Some(own_claim(CLAIM_VALUE)),
        under_claim: ClaimScoped {
            quiesce: Quiesce {
                since: Some(Duration::from_secs(10)),
                listed: Some(BTreeSet::from(["uid-db-0".to_owned()])),
                ..Quiesce::default()
            },
            lease_before: Some(lease()),
            readings: Some(off_readings()),
            pods: Some(vec![pod("db-0")]),
            evidence: true,
            evidence_is_new: true,
            proven_by: vec!["bmc".to_owned()],
            ..ClaimScoped::default()
        },
        ..Memory::default()
    }
}

fn decided(settings: &Settings, mut memory: Memory, node: NodeView, seconds: u64) -> Effect {
    next(settings, &mut memory, node, seconds)
}

fn next(settings: &Settings, memory: &mut Memory, node: NodeView, seconds: u64) -> Effect {
    let observed = Observed {
        node: Read::Present(node),
        lease: Read::Present(lease()),
        ..drained()
    };
    let moment = Moment {
        now: Duration::from_secs(seconds),
        nonce: "n2".to_owned(),
        date: DATE.to_owned(),
    };
    crate::plan::step(settings, memory, &observed, &moment).effect
}

fn decided_at(settings: &Settings, seconds: u64) -> Effect {
    decided(settings, read_off(), claimed(CLAIM_VALUE), seconds)
}

/// An off command that its device has carried out.
fn landed() -> Attempt {
    Attempt {
        results: [("bmc".to_owned(), OffResult::Landed)].into(),
        ..attempt()
    }
}

/// S22: what was written since the claim is no life of a machine that our command has turned off; of one that read Off before it, it is.
#[test]
fn life_counts_anew_after_an_off_that_had_something_to_turn_off() {
    let kept = |is_ours: bool| {
        let mut memory = read_off();
        (memory.under_claim.readings, memory.under_claim.evidence) = (None, false);
        memory.under_claim.written = Some("default/db-0".to_owned());
        memory.commands.attempt = Some(landed());
        let history = &mut memory.trust.power_history;
        history.note(&off_readings()[0], is_ours);
        next(&settings(), &mut memory, claimed(CLAIM_VALUE), 14);
        memory.under_claim.written.is_some()
    };
    assert!(!kept(true));
    assert!(kept(false));
}

/// S22: who goes by the condition is told of life beside a proof, under whatever claim and by whichever process it was stored, until it is proven
/// anew.
#[test]
fn life_after_the_evidence_makes_it_doubtful() {
    for mode in [FenceMode::ConfirmOnly, FenceMode::PowerOff] {
        let mut memory = read_off();
        let moved = LeaseView {
            renew_time: "later".to_owned(),
        };
        memory.under_claim.lease_before = Some(moved);
        memory.commands.attempt = Some(landed());
        memory.under_claim.evidence = false;
        let settings = crate::fixtures::asking(confirm_only(), |it| it.fence.mode = mode);
        next(&settings, &mut memory, claimed(CLAIM_VALUE), 14);
        assert_eq!(memory.trust.contradictions.len(), 1, "{memory:?}");
        assert_eq!(
            memory.proven.doubted,
            memory.trust.contradictions.last().cloned()
        );
    }
    let mut memory = Memory {
        proven: ProvenOff {
            doubted: Some("life".to_owned()),
            ..read_off().proven
        },
        ..read_off()
    };
    // The same readings are not believed once more.
    let node = claimed(CLAIM_VALUE);
    let again = next(&confirm_only(), &mut memory, node, 14);
    assert_eq!((again, &memory.under_claim.readings), (Effect::Wait, &None));
    assert!(memory.proven.doubted.is_some());
    let (at, done) = (Duration::ZERO, Reply::Done);
    learn(&settings(), &mut memory, Asked::StoreEvidence, done, at);
    assert_eq!(memory.proven.doubted, None);
    assert!(memory.proven.published);
}

/// S13: by this the outage is known again when node-lifecycle has dated its condition anew.
#[test]
fn the_evidence_names_the_kubelet_s_last_report() {
    let memory = Memory {
        under_claim: ClaimScoped {
            evidence_is_new: false,
            ..read_off().under_claim
        },
        ..read_off()
    };
    let mut node = claimed(CLAIM_VALUE);
    node.conditions[0].heartbeat = "2026-01-01T00:05:00Z".to_owned();
    match decided(&confirm_only(), memory, node, 14) {
        Effect::StoreEvidence(evidence) => {
            assert_eq!(evidence.last_report, "2026-01-01T00:05:00Z");
            let mut status = NodeFenceStatus::default();
            let now = Duration::from_secs(14);
            record::evidence(
                &mut status,
                &evidence,
                &Memory::default(),
                now,
                jiff::Timestamp::UNIX_EPOCH,
            );
            let stored = status.evidence.and_then(|it| it.ready_heartbeat_time);
            assert_eq!(stored, "2026-01-01T00:05:00Z".parse().ok());
        }
        other => panic!("{other:?}"),
    }
}

/// S17: the machine may have run since what is stored was read, by the same devices or by others. What was stored before may have put the node
/// out of service already, by a write that has not been answered: it stays known, and that taint is seen through (S8, S14).
#[test]
fn what_the_taint_rests_on_is_what_is_stored() {
    let mut memory = Memory {
        under_claim: ClaimScoped {
            evidence_is_new: false,
            proven_by: vec!["pdu".to_owned()],
            ..read_off().under_claim
        },
        ..read_off()
    };
    let effect = next(&confirm_only(), &mut memory, claimed(CLAIM_VALUE), 14);
    match effect {
        Effect::StoreEvidence(evidence) => assert_eq!(evidence.readings, off_readings()),
        other => panic!("{other:?}"),
    }
    assert!(memory.under_claim.evidence && memory.under_claim.judged_down);
    assert_eq!(
        (
            memory.under_claim.proven_by.as_slice(),
            memory.under_claim.proving.as_slice()
        ),
        (&["pdu".to_owned()][..], &["bmc".to_owned()][..])
    );
    let mut tainted = claimed(CLAIM_VALUE);
    tainted.taints.push(out_of_service());
    let effect = next(&confirm_only(), &mut memory, tainted, 14);
    assert!(memory.taint.seen, "{effect:?}");
}

#[test]
fn pods_may_be_deleted_until_the_proof_dies() {
    for seconds in [14, 28] {
        match decided_at(&confirm_only(), seconds) {
            Effect::Evict(eviction) => {
                assert_eq!(eviction.valid_until, Duration::from_secs(28));
                assert_eq!(eviction.pods.len(), 1);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(decided_at(&confirm_only(), 29), Effect::Wait);
}

/// S5: the machine behind the device was pinned, or its pin corrected, while the readings were taken.
#[test]
fn readings_that_were_taken_for_another_identity_are_taken_anew() {
    let mut settings = confirm_only();
    settings.levels[0].devices[0].identity = IdentityRule::NotPinned;
    let effect = decided_at(&settings, 14);
    assert!(matches!(effect, Effect::Device { .. }), "{effect:?}");
}

/// S2: what one pod says is no word on the others, whatever is remembered of an earlier try.
#[test]
fn pods_that_were_read_one_by_one_are_no_list() {
    let startable = PodView {
        deleting: false,
        ..pod("db-0")
    };
    let mut memory = Memory {
        claim: Some(own_claim(CLAIM_VALUE)),
        under_claim: ClaimScoped {
            lease_before: Some(lease()),
            quiesce: Quiesce {
                starting: vec![startable],
                ..Quiesce::default()
            },
            ..ClaimScoped::default()
        },
        ..Memory::default()
    };
    let mut quiesced = |listed: Option<BTreeSet<String>>| {
        memory.under_claim.quiesce.listed = listed;
        let observed = Observed {
            node: Read::Present(claimed(CLAIM_VALUE)),
            pods: Read::NotRead,
            starting: Read::Present(Vec::new()),
            ..drained()
        };
        let moment = Moment {
            now: Duration::from_secs(10),
            nonce: "n2".to_owned(),
            date: DATE.to_owned(),
        };
        crate::plan::step(&confirm_only(), &mut memory, &observed, &moment);
        memory.under_claim.quiesce.since.is_some()
    };
    assert!(!quiesced(None));
    assert!(quiesced(Some(BTreeSet::new())));
}

/// Settings whose only device is a manual confirmation, given at the beginning of time.
fn by_hand() -> Settings {
    let mut by_hand = settings();
    by_hand.levels[0].devices[0].manual = true;
    by_hand.levels[0].devices[0].identity = IdentityRule::Skip;
    by_hand.confirmation = Some(ManualConfirmation {
        user: "alice".to_owned(),
        node_uid: "uid-1".to_owned(),
        given: Since::at(
            jiff::Timestamp::UNIX_EPOCH,
            Now {
                boot: Duration::ZERO,
                wall: jiff::Timestamp::UNIX_EPOCH,
            },
        ),
        is_ahead: false,
    });
    by_hand
}

/// S21: whoever gave the word answers for a quarter of an hour. What it proves dies with it, though the reading is younger than a proof
/// may be; and a word that has expired proves nothing, however long it was read before.
#[test]
fn what_a_human_s_word_proves_dies_with_the_word() {
    let expires = CONFIRMATION_LIFE;
    let by_hand = by_hand();
    let decided = |now: Duration| {
        let mut readings = off_readings();
        readings[0].identity = IdentityRule::Skip;
        for (reading, before) in readings[0].readings.iter_mut().zip([60, 5]) {
            reading.asked = expires - Duration::from_secs(before);
            reading.answered = reading.asked;
        }
        let mut memory = Memory {
            claim: Some(own_claim(CLAIM_VALUE)),
            under_claim: ClaimScoped {
                quiesce: Quiesce {
                    since: Some(Duration::from_secs(10)),
                    listed: Some(BTreeSet::new()),
                    ..Quiesce::default()
                },
                lease_before: Some(lease()),
                readings: Some(readings),
                pods: Some(Vec::new()),
                evidence: true,
                evidence_is_new: true,
                proven_by: vec!["bmc".to_owned()],
                ..ClaimScoped::default()
            },
            confirmation: ConfirmationTurn {
                tried: Some(0),
                ..ConfirmationTurn::default()
            },
            ..Memory::default()
        };
        let observed = Observed {
            node: Read::Present(claimed(CLAIM_VALUE)),
            lease: Read::Present(lease()),
            ..drained()
        };
        let moment = Moment {
            now,
            nonce: "n2".to_owned(),
            date: DATE.to_owned(),
        };
        crate::plan::step(&by_hand, &mut memory, &observed, &moment)
    };
    // One that was refuted counts for nothing, whoever comes to judge it.
    for (refuted, counts) in [(None, true), (Some("it reads On".to_owned()), false)] {
        let (mut memory, o, t) = (Memory::default(), drained(), Moment::at(Duration::ZERO));
        memory.confirmation.refused = refuted;
        let round = &Round::of(&by_hand, &mut memory, &o, &t);
        let until = confirmed_until(round, &by_hand.levels[0], Duration::ZERO);
        assert_eq!(until.is_ok(), counts);
    }
    let second = Duration::from_secs(1);
    match decided(expires - second).effect {
        Effect::Taint(patch) => assert_eq!(patch.valid_until, Some(expires)),
        other => panic!("{other:?}"),
    }
    let late = decided(expires);
    assert_eq!(late.effect, Effect::Wait);
    assert!(
        late.message.contains("after 15 minutes"),
        "{}",
        late.message
    );
}

/// S2: the API server refuses its deletion, and one refusal would keep the taint from the node for ever.
#[test]
fn a_pod_that_looks_alive_is_left_to_pod_gc() {
    let alive = PodView {
        looks_alive: true,
        ..pod("db-1")
    };
    let memory = Memory {
        under_claim: ClaimScoped {
            pods: Some(vec![pod("db-0"), alive]),
            ..ClaimScoped::default()
        },
        ..Memory::default()
    };
    let names = to_evict(&settings(), &memory)
        .into_iter()
        .map(|pod| pod.name);
    assert_eq!(names.collect::<Vec<_>>(), ["db-0"]);
}
