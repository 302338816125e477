//! A fence that is as it should be but for one thing, and which invariant that breaks; and what a restore of etcd excuses, and what not.

use super::tests::{OPERATOR, OWN, Scene, leads, simulated};
use crate::controllers::judge_detach;
use crate::kubelet::{forgotten, judge_start};
use crate::libc::elapsed;
use crate::objects::attachment;
use serde_json::json;
use simapi::kinds::{ATTACHMENT, NODE};
use std::time::Duration;
use tokio::time::sleep;

/// Another process.
pub(super) const OTHER: &str = "operator-1.1";

/// The one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slip {
    Nothing,
    ReadsOnce,
    ReadsAtOnce,
    ReadsOnBetween,
    ReadsBeforeTheClaim,
    ReadsBeforeItIsQuiet,
    ReadsByAnother,
    ReadsLongBefore,
    StartsStill,
    ClaimOfAnother,
    EvidenceOfAnother,
    IntentOfAnother,
    IntentThatHasEnded,
    RecordThatDoesNotAsk,
    LooksLongBefore,
    LooksBeforeTheClaim,
    LeaseIsOver,
    WentBack,
}

/// And what it breaks.
const SLIPS: [(Slip, &[&str]); 18] = [
    (Slip::Nothing, &[]),
    (Slip::ReadsOnce, &["S2"]),
    (Slip::ReadsAtOnce, &["S2"]),
    (Slip::ReadsOnBetween, &["S2"]),
    (Slip::ReadsBeforeTheClaim, &["S2"]),
    (Slip::ReadsBeforeItIsQuiet, &["S2"]),
    (Slip::ReadsByAnother, &["S2"]),
    (Slip::ReadsLongBefore, &["S2"]),
    (Slip::StartsStill, &["S1"]),
    (Slip::ClaimOfAnother, &["S11", "S2", "S3"]),
    (Slip::EvidenceOfAnother, &["S2"]),
    (Slip::IntentOfAnother, &["S11"]),
    (Slip::IntentThatHasEnded, &["S11"]),
    (Slip::RecordThatDoesNotAsk, &["S11"]),
    (Slip::LooksLongBefore, &["S11"]),
    (Slip::LooksBeforeTheClaim, &["S11"]),
    (Slip::LeaseIsOver, &["L4"]),
    (Slip::WentBack, &["S18"]),
];

pub(super) async fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

async fn fence(slip: Slip) -> Vec<String> {
    let scene = match slip {
        Slip::RecordThatDoesNotAsk => Scene::in_mode("ConfirmOnly"),
        _ => Scene::new(),
    };
    let it = &scene;
    leads(&it.world, OTHER);
    let uid = it.bound(slip != Slip::ReadsBeforeItIsQuiet);
    before(it, slip).await;
    let by = |of: Slip| if slip == of { OTHER } else { OPERATOR };
    it.taints(by(Slip::ClaimOfAnother), &[OWN]);
    it.intend(by(Slip::IntentOfAnother));
    if slip == Slip::IntentThatHasEnded {
        it.record(|status| status["attempts"][0]["completionTime"] = json!("2026-01-01T00:00:00Z"));
    }
    if slip != Slip::LooksBeforeTheClaim {
        it.looks();
    }
    if slip == Slip::LooksLongBefore {
        pass(2).await;
    }
    it.judge.commanded(OPERATOR, "a");
    readings(it, slip).await;
    match slip {
        Slip::ReadsLongBefore => pass(17).await,
        Slip::StartsStill => {
            it.runs(&uid);
            it.starts(&uid);
        }
        _ => {}
    }
    if slip != Slip::LeaseIsOver {
        leads(&it.world, OPERATOR);
    }
    it.evict();
    it.taints(OPERATOR, &[OWN, "oos"]);
    it.world.broken()
}

/// What happens before the claim.
async fn before(it: &Scene, slip: Slip) {
    match slip {
        Slip::EvidenceOfAnother => {
            it.record(|status| status["evidence"]["claim"] = json!("a-1-y"));
            it.record_by(OTHER, |status| status["evidence"]["claim"] = json!(OWN));
        }
        Slip::ReadsBeforeTheClaim => it.proves().await,
        Slip::LooksBeforeTheClaim => it.looks(),
        Slip::WentBack => {
            it.judge.listed(OPERATOR, 9, elapsed());
            pass(1).await;
            it.judge.listed(OPERATOR, 8, elapsed());
            pass(2).await;
        }
        _ => {}
    }
}

/// What the proof rests on.
async fn readings(it: &Scene, slip: Slip) {
    match slip {
        Slip::ReadsBeforeTheClaim => {}
        Slip::ReadsOnce => it.reads(OPERATOR, true),
        Slip::ReadsAtOnce => {
            it.reads(OPERATOR, true);
            it.reads(OPERATOR, true);
        }
        Slip::ReadsOnBetween => {
            it.proves().await;
            it.reads(OPERATOR, false);
            it.reads(OPERATOR, true);
        }
        Slip::ReadsByAnother => {
            it.reads(OTHER, true);
            pass(1).await;
            it.reads(OTHER, true);
        }
        Slip::LeaseIsOver => {
            pass(15).await;
            it.proves().await;
        }
        _ => it.proves().await,
    }
}

pub(super) fn ids(found: &[String]) -> Vec<&str> {
    let mut ids: Vec<&str> = found
        .iter()
        .filter_map(|it| Some(it.split_once(':')?.0))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[test]
fn one_thing_that_is_not_as_it_should_be_is_flagged_and_nothing_else() {
    simulated(async {
        for (slip, expected) in SLIPS {
            let found = fence(slip).await;
            assert_eq!(ids(&found), expected, "{slip:?}: {found:?}");
        }
    });
}

#[test]
fn a_claim_is_taken_away_by_nobody_who_has_not_seen_it() {
    simulated(async {
        let scene = Scene::new();
        leads(&scene.world, OTHER);
        scene.taints(OPERATOR, &[OWN]);
        scene.taints(OTHER, &[]);
        let found = scene.world.broken();
        assert_eq!(ids(&found), ["S9"], "{found:?}");
        // Of two looks on a slow way the one that was asked for last has seen less.
        let scene = Scene::new();
        leads(&scene.world, OTHER);
        let node = || scene.world.api.get(&NODE, "", "a").expect("the Node");
        let (before, asked) = (node(), elapsed());
        scene.taints(OPERATOR, &[OWN]);
        pass(1).await;
        scene.judge.looked(OTHER, &before, elapsed());
        scene.judge.looked(OTHER, &node(), asked);
        scene.taints(OTHER, &[]);
        assert_eq!(scene.world.broken(), Vec::<String>::new());
    });
}

/// S2, S3: a deletion may be on its way when the claim goes; one that is sent later is flagged.
#[test]
fn a_deletion_is_judged_by_the_claim_that_stood_when_it_was_sent() {
    simulated(async {
        for (seconds, expected) in [(0, &[][..]), (2, &["S2", "S3"])] {
            let scene = Scene::new();
            scene.bound(true);
            scene.taints(OPERATOR, &[OWN]);
            scene.proves().await;
            scene.taints("human", &[]);
            pass(seconds).await;
            scene.evict();
            let found = scene.world.broken();
            assert_eq!(ids(&found), expected, "{seconds} s: {found:?}");
        }
    });
}

/// S2: etcd forgets that the pods are being deleted. Whoever has seen it is excused for what it was about to send.
#[test]
fn a_deletion_that_was_forgotten_counts_for_what_was_about_to_be_sent() {
    simulated(async {
        for (seconds, expected) in [(0, &[][..]), (2, &["S2"])] {
            let scene = Scene::new();
            scene.bound(false);
            scene.taints(OPERATOR, &[OWN]);
            let (snapshot, past) = (scene.world.api.snapshot(), scene.judge.past());
            scene.leaves();
            scene.proves().await;
            scene.world.api.restore(snapshot);
            scene.judge.restored(past);
            pass(seconds).await;
            scene.taints(OPERATOR, &[OWN, "oos"]);
            let found = scene.world.broken();
            assert_eq!(ids(&found), expected, "{seconds} s: {found:?}");
        }
    });
}

/// S2, S10, S17: etcd forgets the evidence, and not the claim. A taint that left when the evidence was stored, and that the network has held back, may
/// come; nobody else's may, nor one whose evidence was never there.
#[test]
fn a_taint_that_comes_late_rests_on_the_evidence_that_etcd_has_forgotten() {
    simulated(async {
        let late = format!("{OPERATOR} (late)");
        let lacks = ["S10", "S17", "S2"];
        for (actor, was_stored, expected) in [
            (late.as_str(), true, &[][..]),
            (OPERATOR, true, &lacks),
            (&late, false, &lacks),
        ] {
            let scene = Scene::new();
            scene.bound(true);
            scene.taints(OPERATOR, &[OWN]);
            let mut evidence = json!(null);
            scene.record(|status| evidence = status["evidence"].take());
            let (snapshot, past) = (scene.world.api.snapshot(), scene.judge.past());
            scene.proves().await;
            if was_stored {
                scene.record(|status| status["evidence"] = evidence);
            }
            scene.world.api.restore(snapshot);
            scene.judge.restored(past);
            pass(9).await;
            scene.taints(actor, &[OWN, "oos"]);
            let found = scene.world.broken();
            assert_eq!(ids(&found), expected, "{actor}, {was_stored}: {found:?}");
        }
    });
}

/// L3: the version of a record may be by chance the one that was read before, for a moment; but no record is opened again.
#[test]
fn a_record_that_had_ended_is_ended_once_more_right_after_a_restore_and_never_opened() {
    simulated(async {
        for (seconds, opens, expected) in [
            (0, false, &[][..]),
            (0, true, &["L3"]),
            (2, false, &["L3"]),
            (2, true, &["L3"]),
        ] {
            let scene = Scene::new();
            let ends = |succeeded: &str, reason: &str| {
                scene.record(|status| {
                    status["conditions"] = json!([{
                        "type": "Succeeded", "status": succeeded, "reason": reason, "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }]);
                });
            };
            ends("True", "Recovered");
            let (snapshot, past) = (scene.world.api.snapshot(), scene.judge.past());
            scene.world.api.restore(snapshot);
            scene.judge.restored(past);
            pass(seconds).await;
            ends(if opens { "Unknown" } else { "True" }, "Aborted");
            let found = scene.world.broken();
            assert_eq!(ids(&found), expected, "{seconds} s, {opens}: {found:?}");
        }
    });
}

/// S18: an off that etcd has forgotten stands in the record again with the next write of it, and is not begun anew.
#[test]
fn an_off_that_was_forgotten_is_not_begun_anew_by_whoever_knows_it() {
    simulated(async {
        for (is_known, expected) in [(true, &[][..]), (false, &["S18"])] {
            let scene = Scene::new();
            let (snapshot, past) = (scene.world.api.snapshot(), scene.judge.past());
            if is_known {
                scene.intend(OPERATOR);
            }
            scene.world.api.restore(snapshot);
            scene.judge.restored(past);
            scene.judge.listed(OPERATOR, 9, elapsed());
            pass(1).await;
            scene.judge.listed(OPERATOR, 8, elapsed());
            pass(2).await;
            scene.intend(OPERATOR);
            let found = scene.world.broken();
            assert_eq!(ids(&found), expected, "{is_known}: {found:?}");
        }
    });
}

#[test]
fn what_a_human_had_set_is_theirs_after_a_restore_too() {
    simulated(async {
        let scene = Scene::new();
        scene.taints("human", &["oos"]);
        let (snapshot, past) = (scene.world.api.snapshot(), scene.judge.past());
        scene.taints("human", &[]);
        scene.taints(OPERATOR, &[OWN]);
        scene.proves().await;
        scene.taints(OPERATOR, &[OWN, "oos"]);
        assert_eq!(scene.world.broken(), Vec::<String>::new());
        scene.world.api.restore(snapshot);
        scene.judge.restored(past);
        scene.taints(OPERATOR, &[]);
        let found = scene.world.broken();
        assert_eq!(ids(&found), ["S8"], "{found:?}");
    });
}

/// Machine `b` has written the volume since the snapshot, or since long before.
async fn second_writer(is_old: bool) -> Vec<String> {
    let scene = Scene::new();
    let world = &scene.world;
    let held = attachment("pv-data-db-0", "a");
    world.api.add("csi", &ATTACHMENT, held).expect("attached");
    let uid = scene.bound(false);
    scene.runs(&uid);
    let snapshot = world.api.snapshot();
    let mut other = world.machine("a");
    other.node = "b".to_owned();
    let container = other.containers[&uid].clone();
    world.machines().insert("b".to_owned(), other);
    if !is_old {
        world.api.restore(snapshot);
        forgotten(world);
    }
    judge_start(world, &container);
    world.broken()
}

#[test]
fn a_second_writer_is_flagged_unless_a_restore_has_made_it_one() {
    simulated(async {
        let found = second_writer(true).await;
        assert_eq!(ids(&found), ["S1"], "{found:?}");
        assert_eq!(second_writer(false).await, Vec::<String>::new());
    });
}

#[test]
fn a_volume_is_not_detached_while_a_container_is_started_on_it() {
    simulated(async {
        let scene = Scene::new();
        let uid = scene.bound(false);
        scene.runs(&uid);
        scene.starts(&uid);
        judge_detach(&scene.world, &attachment("pv-data-db-0", "a"));
        let found = scene.world.broken();
        assert_eq!(ids(&found), ["S1"], "{found:?}");
    });
}

#[test]
fn a_claim_that_was_lost_long_before_the_off_and_a_write_after_the_end_are_flagged() {
    simulated(late());
}

async fn late() {
    let scene = Scene::new();
    scene.taints(OPERATOR, &[OWN]);
    scene.intend(OPERATOR);
    scene.looks();
    scene.taints("human", &[]);
    scene.judge.commanded(OPERATOR, "a");
    assert_eq!(scene.world.broken(), Vec::<String>::new());
    pass(2).await;
    scene.judge.commanded(OPERATOR, "a");
    scene.judge.ends(OPERATOR);
    pass(3).await;
    scene.taints(OPERATOR, &[OWN]);
    let found = scene.world.broken();
    assert_eq!(ids(&found), ["L8", "S11"], "{found:?}");
}
