//! When a claim is kept, taken over, or followed by the end.

use super::super::claimed::FIRST_READ_MAX;
use super::*;
use crate::delay::HeldCondition;
use crate::hold::{HeldBy, Hold};
use crate::memory::{ClaimScoped, LateCommands, OwnClaim, UnderTaint};
use crate::observed::{OUT_OF_SERVICE, PodView, QUARANTINE};
use fencing_api::settings::FenceMode;

/// The policy's wait ends at 100 s, and the node's condition is not the one that it waits for.
fn broken() -> Settings {
    Settings {
        not_before: seconds(100),
        condition: Some(HeldCondition {
            type_: "Ready".to_owned(),
            status: "False".to_owned(),
            since: None,
        }),
        ..settings()
    }
}

fn held() -> Memory {
    Memory {
        claim: Some(own_claim(CLAIM_VALUE)),
        ..Memory::default()
    }
}

/// S22: what a kubelet writes of its pods counts from the list before the claim on, if the machine read Off beside it, and every list under it is
/// compared. What one writes of a machine that was on has nothing against it.
#[test]
fn what_a_kubelet_writes_after_the_look_at_the_devices_is_a_sign_of_life() {
    let list = |written| {
        vec![PodView {
            written,
            deleting: true,
            ..pod("db-0")
        }]
    };
    let of = |mode| crate::fixtures::asking(settings(), |it| it.fence.mode = mode);
    let under = |mode, written| {
        let mut memory = Memory::default();
        memory.under_claim.quiesce.listed_before = Some(list(1));
        let (s, at) = (of(mode), moment(seconds(1)));
        let observed = drained();
        let mut round = Round {
            settings: &s,
            memory: &mut memory,
            observed: &observed,
            moment: &at,
        };
        super::super::unclaimed::claim(&mut round, &node(), &s.levels[0]);
        let observed = Observed {
            node: Read::Present(claimed(&memory.claim.as_ref().expect("a claim").value)),
            lease: Read::Present(lease()),
            pods: Read::Present(list(written)),
            ..drained()
        };
        step(&s, &mut memory, &observed, &moment(seconds(2)));
        memory.under_claim.written
    };
    assert_eq!(under(FenceMode::ConfirmOnly, 1), None);
    let found = under(FenceMode::ConfirmOnly, 2);
    assert_eq!(found.as_deref(), Some("default/db-0"));
    assert_eq!(under(FenceMode::PowerOff, 2), None);
}

/// S8: whoever takes it away later has taken it away.
#[test]
fn a_claim_that_is_given_back_at_once_was_seen() {
    let mut memory = held();
    memory.claim.as_mut().expect("a claim").seen = false;
    let mut ready = claimed(CLAIM_VALUE);
    ready.conditions[0].status = "True".to_owned();
    let decision = decided(&settings(), &mut memory, ready, seconds(1));
    assert!(matches!(decision.effect, Effect::DropClaim(_)));
    assert!(memory.claim.expect("it still stands").seen);
}

/// L1: seen for the first time a while after the wait was over, it may have broken after it as well as before.
#[test]
fn a_condition_that_is_found_broken_late_takes_no_claim_back() {
    let dropped = |now: Duration| {
        let decision = decided(&broken(), &mut held(), claimed(CLAIM_VALUE), now);
        matches!(decision.effect, Effect::DropClaim(_))
    };
    let late = seconds(100) + FIRST_READ_MAX;
    assert!(dropped(late));
    assert!(!dropped(late + Duration::from_nanos(1)));
}

/// S3: under the claim only. Of a bare node, which an incident may be held of for days, it is another outage, or none.
#[test]
fn a_condition_that_has_held_until_the_wait_was_over_may_break_after_it() {
    let mut s = broken();
    s.condition = s.condition.map(|it| HeldCondition {
        status: "Unknown".to_owned(),
        ..it
    });
    let mut memory = Memory::default();
    decided(&s, &mut memory, node(), seconds(100));
    assert!(memory.is_due);
    let ends = |s: &Settings, node: NodeView| {
        let mut memory = memory.clone();
        decided(s, &mut memory, node, seconds(101)).stage == Stage::Aborted
    };
    assert!(!ends(&broken(), claimed(CLAIM_VALUE)));
    assert!(ends(&broken(), node()));
    let mut since = s.clone();
    for (changed, is_over) in [
        ("2026-01-01T00:00:00Z", false),
        ("2026-01-01T01:00:00Z", true),
    ] {
        since.condition = s.condition.clone().map(|it| HeldCondition {
            since: "2026-01-01T00:00:00Z".parse().ok(),
            ..it
        });
        let mut node = node();
        changed.clone_into(&mut node.conditions[0].transition);
        assert_eq!(ends(&since, node), is_over, "since {changed}");
    }
    // It stays due, whatever the clock of a later round.
    decided(&s, &mut memory, node(), seconds(99));
    assert!(memory.is_due);
}

/// Whoever has taken the claim from this process is left alone for half a minute, and not all look again at once.
#[test]
fn a_rival_has_half_a_minute_and_a_bit_more_by_chance() {
    assert_eq!(
        rival_until(seconds(100), "f0000002"),
        seconds(100 + 30 + 15)
    );
    let takes_over = |now: Duration| {
        let mut memory = Memory {
            rival_until: Some(seconds(145)),
            ..Memory::default()
        };
        let decision = decided(&settings(), &mut memory, claimed("fence-n9"), now);
        matches!(decision.effect, Effect::Claim(_))
    };
    assert!(!takes_over(seconds(145) - Duration::from_nanos(1)));
    assert!(takes_over(seconds(145)));
}

/// S13: a claim without a place in the budget goes, unless another process may be going on with it.
#[test]
fn a_claim_that_another_process_goes_on_with_is_left_to_it() {
    let drops = |claim_of_other_process: bool| {
        let observed = Observed {
            node: Read::Present(claimed("fence-n9")),
            hold: Some(Hold {
                reason: HeldBy::MinHealthy,
                message: "too many nodes are down".to_owned(),
            }),
            claim_of_other_process,
            ..drained()
        };
        let decision = step(
            &settings(),
            &mut Memory::default(),
            &observed,
            &moment(seconds(100)),
        );
        assert_eq!(decision.stage, Stage::Held);
        matches!(decision.effect, Effect::DropClaim(_))
    };
    assert!(drops(false));
    assert!(!drops(true));
}

/// S8, F54: a human takes our taint away, and the process that set it is gone. Its successor knows it from the record.
#[test]
fn a_taint_that_was_taken_away_before_a_restart_is_not_set_again() {
    let ends = |record: Record| {
        let s = Settings {
            record,
            ..settings()
        };
        let decision = decided(
            &s,
            &mut Memory::default(),
            claimed("fence-n9"),
            seconds(100),
        );
        matches!(decision.effect, Effect::DropClaim(_))
    };
    assert!(!ends(Record::default()));
    assert!(ends(Record {
        tainted: true,
        ..Record::default()
    }));
}

/// S8: our taint is gone because this process has taken it away itself.
#[test]
fn a_taint_that_this_process_has_released_is_the_end_that_was_wanted() {
    let mut memory = Memory {
        taint: UnderTaint {
            seen: true,
            releasing: true,
            ..UnderTaint::default()
        },
        ..Memory::default()
    };
    let decision = decided(&settings(), &mut memory, node(), seconds(100));
    assert_eq!(
        (decision.effect, decision.stage),
        (Effect::Close, Stage::Recovered)
    );
}

/// S8: nobody has heard that it was written, but it stood there: somebody has taken it away since.
#[test]
fn a_claim_whose_answer_was_lost_counts_as_removed_if_it_was_seen() {
    let ends = |was_seen: bool| {
        let mut memory = Memory {
            claim: Some(OwnClaim {
                seen: false,
                ..own_claim(CLAIM_VALUE)
            }),
            ..Memory::default()
        };
        if was_seen {
            decided(&settings(), &mut memory, claimed(CLAIM_VALUE), seconds(100));
        }
        decided(&settings(), &mut memory, node(), seconds(101)).stage
    };
    assert_eq!(ends(true), Stage::Aborted);
    assert_eq!(ends(false), Stage::Checking);
}

/// A process that goes on under a taint sees to it by the claim that stands there, and by no other.
#[test]
fn under_a_taint_the_claim_that_stands_is_this_process_s() {
    let mut s = settings();
    s.record.evidence = true;
    let mut memory = Memory {
        claim: Some(own_claim("fence-n0")),
        ..Memory::default()
    };
    let mut tainted = claimed(CLAIM_VALUE);
    tainted.taints.push(crate::fixtures::out_of_service());
    let observed = Observed {
        node: Read::Present(tainted),
        evidence: Read::Present(true),
        ..drained()
    };
    step(&s, &mut memory, &observed, &moment(seconds(100)));
    assert_eq!(memory.claim, Some(own_claim(CLAIM_VALUE)));
}

/// S8: what another process has released is gone with the machine's next boot, or leaves its quarantine. A quarantine under which
/// nothing was set is that of an older incident.
#[test]
fn a_taint_that_another_process_has_released_is_the_same_end() {
    let heard = "2026-01-01T00:00:00Z";
    let ends = |record: Record, boot: &str, is_quarantined: bool| {
        let mut now = node();
        boot.clone_into(&mut now.boot_id);
        heard.clone_into(&mut now.conditions[0].heartbeat);
        if is_quarantined {
            let taint = crate::fixtures::taint(QUARANTINE, "boot-1", "NoSchedule");
            now.taints.push(taint);
        }
        let s = Settings {
            record,
            ..settings()
        };
        decided(&s, &mut Memory::default(), now, seconds(100)).stage
    };
    let (tainted, proven) = (
        || Record {
            tainted: true,
            ..Record::default()
        },
        || Record {
            evidence: true,
            ..Record::default()
        },
    );
    assert_eq!(ends(tainted(), "boot-2", false), Stage::Recovered);
    assert_eq!(ends(tainted(), "boot-1", false), Stage::Aborted);
    assert_eq!(ends(tainted(), "boot-1", true), Stage::Recovered);
    assert_ne!(ends(proven(), "boot-1", true), Stage::Recovered);
    let reported = |at: &str| Record {
        reported: at.parse().ok(),
        ..tainted()
    };
    assert_eq!(ends(reported(heard), "boot-1", true), Stage::Recovered);
    let before = reported("2025-12-31T00:00:00Z");
    assert_eq!(ends(before, "boot-1", true), Stage::Aborted);
    // A human has taken the taint away that this process has set or has seen to, from a Node whose quarantine is an older incident's.
    for record in [Record::default(), tainted()] {
        let mut now = node();
        let quarantine = crate::fixtures::taint(QUARANTINE, "boot-1", "NoSchedule");
        now.taints.push(quarantine);
        let mut memory = Memory {
            taint: UnderTaint {
                seen: true,
                ..held().taint
            },
            ..held()
        };
        let s = Settings {
            record,
            ..settings()
        };
        let end = decided(&s, &mut memory, now, seconds(100)).stage;
        assert_eq!(end, Stage::Aborted);
    }
}

/// S23: a node that is back is warned of an off that may still land, and from the end of its window on of nothing.
#[test]
fn a_node_that_is_back_is_warned_of_an_off_as_long_as_it_may_land() {
    let warned = |now: Duration, by_another: bool| {
        let until = Some(seconds(100));
        let mut memory = Memory {
            late: LateCommands {
                own_off_until: until.filter(|_| !by_another),
                others_off_until: until.filter(|_| by_another),
                ..held().late
            },
            ..held()
        };
        let mut back = claimed(CLAIM_VALUE);
        "True".clone_into(&mut back.conditions[0].status);
        decided(&settings(), &mut memory, back, now);
        memory.accused.is_some()
    };
    let before = seconds(100) - Duration::from_nanos(1);
    assert!(warned(before, false));
    assert!(!warned(seconds(100), false));
    // This incident has commanded nothing, so no device of it has lied.
    assert!(!warned(before, true));
}

/// S8: whatever was proven, and whoever's claim it is: an `out-of-service` that does not bear its date was set by somebody else.
#[test]
fn another_s_out_of_service_is_given_way_to_whatever_was_proven() {
    let proven = || Memory {
        under_claim: ClaimScoped {
            evidence: true,
            ..held().under_claim
        },
        taint: UnderTaint {
            seen: true,
            ..held().taint
        },
        ..held()
    };
    let all = [proven(), held(), Memory::default()]
        .map(|memory| [false, true].map(|it| (it, memory.clone())));
    for (evidence, mut memory) in all.into_iter().flatten() {
        let mut s = settings();
        s.record.evidence = evidence;
        let mut node = claimed(CLAIM_VALUE);
        let theirs = crate::fixtures::taint(OUT_OF_SERVICE, "nodeshutdown", "NoExecute");
        node.taints.push(theirs);
        let decision = decided(&s, &mut memory, node, seconds(100));
        assert!(
            matches!(decision.effect, Effect::DropClaim(_)),
            "{}",
            decision.message
        );
    }
}

/// S15: rights that are taken away, or that the next process has not asked for yet, end what has not begun. A machine that may be off by our
/// command is seen through.
#[test]
fn missing_rights_give_a_claim_back_unless_something_was_commanded_under_it() {
    let lacks = Settings {
        unsupported: Some("no right to delete nodes".to_owned()),
        ..settings()
    };
    let mut commanded = lacks.clone();
    commanded.record.attempts = 1;
    for (settings, goes) in [(settings(), false), (lacks, true), (commanded, false)] {
        let mut memory = Memory {
            claim: Some(own_claim(CLAIM_VALUE)),
            ..Memory::default()
        };
        let decision = decided(&settings, &mut memory, claimed(CLAIM_VALUE), seconds(20));
        let is_dropped = matches!(decision.effect, Effect::DropClaim(_));
        assert_eq!(is_dropped, goes, "{decision:?}");
        assert_eq!(decision.message.contains("no right to delete nodes"), goes);
    }
}
