//! What a process may not begin anew that finds nothing of the incident on the Node.

use super::super::protocol;
use super::*;
use crate::device::DeviceAnswer;
use crate::fixtures::{self, DATE, bmc, drained, node, off_readings, out_of_service, settings};
use crate::memory::{ClaimScoped, LevelTries, Writes};
use crate::observed::Read;
use crate::plan::Moment;
use crate::plan::Observed;
use crate::plan::is_bare;
use crate::plan::round::Round;
use crate::reading::{PowerState, Reading};
use crate::settings::Record;

/// The first decision of a new process.
fn decided(settings: &Settings) -> Decision {
    let observed = Observed {
        node: Read::Present(node()),
        ..drained()
    };
    crate::plan::step(settings, &mut Memory::default(), &observed, &moment())
}

fn moment() -> Moment {
    Moment {
        now: Duration::from_secs(100),
        nonce: "n1".to_owned(),
        date: DATE.to_owned(),
    }
}

#[test]
fn a_new_incident_asks_its_device() {
    assert_eq!(decided(&settings()).stage, Stage::Checking);
}

/// S8: the process before this one has set it, and somebody has taken it away since.
#[test]
fn a_taint_that_the_record_tells_of_is_not_set_again() {
    let record = Record {
        evidence: true,
        tainted: true,
        ..Record::default()
    };
    let decision = decided(&Settings {
        record,
        ..settings()
    });
    assert_eq!(
        (decision.effect, decision.stage),
        (Effect::Close, Stage::Aborted)
    );
}

/// S8: there is nothing left that it could release.
#[test]
fn an_adopted_taint_that_is_gone_is_not_followed_by_a_fence() {
    let decision = decided(&Settings {
        adopted: true,
        ..settings()
    });
    assert_eq!(
        (decision.effect, decision.stage),
        (Effect::Close, Stage::Aborted)
    );
}

/// The write may have failed, or the answer to the removal be lost: the next claim begins from nothing, and is not taken back in its turn.
#[test]
fn a_claim_that_is_not_there_is_forgotten_whether_it_was_written_or_given_back() {
    let unseen = OwnClaim {
        seen: false,
        ..fixtures::own_claim("fence-n0")
    };
    for (claim, dropping) in [(Some(unseen), false), (None, true)] {
        let mut memory = Memory {
            claim,
            under_claim: ClaimScoped {
                dropping,
                ..ClaimScoped::default()
            },
            ..Memory::default()
        };
        let observed = Observed {
            node: Read::Present(node()),
            ..drained()
        };
        crate::plan::step(&settings(), &mut memory, &observed, &moment());
        assert_eq!((memory.claim, memory.under_claim.dropping), (None, false));
    }
}

/// S13: a place in the budget is for what is on a Node, and a taint that may be ours is.
#[test]
fn nothing_is_on_a_node_whose_taints_are_somebody_else_s() {
    let claimed_by = |fence: &str| fixtures::claimed(&format!("{fence}-n1"));
    let tainted = NodeView {
        taints: vec![out_of_service()],
        ..node()
    };
    let unproven = Memory::default;
    let proven = || Memory {
        under_claim: ClaimScoped {
            evidence: true,
            ..ClaimScoped::default()
        },
        ..Memory::default()
    };
    let table = [
        (node(), unproven(), true),
        (node(), proven(), true),
        (claimed_by("another"), unproven(), true),
        (claimed_by(&settings().fence), unproven(), false),
        (tainted.clone(), unproven(), true),
        (tainted, proven(), false),
    ];
    for (node, memory, expected) in table {
        let is_bare = is_bare(&settings(), &memory, &node);
        assert_eq!(
            is_bare, expected,
            "{:?} {}",
            node.taints, memory.under_claim.evidence
        );
    }
}

fn second(second: u64) -> Duration {
    Duration::from_secs(second)
}

#[test]
fn whoever_is_asked_for_approval_has_until_the_deadline_that_is_shown() {
    let decision = decided(&Settings {
        approval: Approval::Awaited,
        ..settings()
    });
    assert_eq!(decision.stage, Stage::AwaitingApproval);
    assert_eq!(decision.deadline, Some(second(100 + 3600)));
}

/// L1: what is waited for is not the level's time. In mode ConfirmOnly, when nothing else is in the way, each look is one more try.
#[test]
fn a_level_that_has_failed_before_uses_its_time_up_only_by_its_own_tries() {
    let since = |mode: FenceMode, not_before: Duration, is_held: bool| {
        let s = Settings {
            not_before,
            ..fixtures::asking(settings(), |it| it.fence.mode = mode)
        };
        let mut m = Memory {
            tries: LevelTries {
                failures: 1,
                since: Some(second(90)),
                ..LevelTries::default()
            },
            ..Memory::default()
        };
        let hold = is_held.then(|| Hold {
            reason: HeldBy::MinHealthy,
            message: "too many".to_owned(),
        });
        let observed = Observed { hold, ..drained() };
        let moment = Moment {
            now: second(100),
            nonce: "n1".to_owned(),
            date: DATE.to_owned(),
        };
        let round = &mut Round::of(&s, &mut m, &observed, &moment);
        not_due(round, &node(), &s.levels[0]);
        m.tries.since
    };
    let (over, now) = (Duration::ZERO, second(100) + CLAIM_AHEAD);
    assert_eq!(since(FenceMode::ConfirmOnly, over, false), Some(second(90)));
    assert_eq!(since(FenceMode::ConfirmOnly, now, false), Some(second(90)));
    assert_eq!(since(FenceMode::ConfirmOnly, second(200), false), None);
    assert_eq!(since(FenceMode::ConfirmOnly, over, true), None);
    assert_eq!(since(FenceMode::PowerOff, over, false), None);
}

/// S2: a claim that was refused leaves its list behind.
#[test]
fn a_claim_without_a_list_knows_none_of_a_former_try() {
    let mut m = Memory::default();
    let (s, observed, moment) = (settings(), drained(), moment());
    let mut listed = |before| {
        m.under_claim.quiesce.listed_before = before;
        let mut round = Round::of(&s, &mut m, &observed, &moment);
        claim(&mut round, &node(), &fixtures::level());
        m.under_claim.quiesce.listed.clone()
    };
    assert!(listed(Some(vec![fixtures::pod("db-0")])).is_some());
    assert_eq!(listed(None), None);
}

/// S23: what another NodeFence has sent was waited for before the claim, and may have been sent once more until it.
#[test]
fn an_off_of_another_node_fence_may_land_after_the_claim() {
    let mut s = settings();
    s.record.foreign_commands.off = true;
    let mut m = Memory::default();
    m.late.known.off = true;
    let (observed, moment) = (drained(), moment());
    claim(
        &mut Round::of(&s, &mut m, &observed, &moment),
        &node(),
        &fixtures::level(),
    );
    assert!(m.late.pending_off_until(moment.now).is_some());
}

/// At that moment a try is one like any other: brought forward to now, it would be made again and again without a pause.
#[test]
fn a_try_is_brought_forward_to_the_end_of_the_wait_and_not_beyond_it() {
    let s = Settings {
        not_before: second(100),
        ..settings()
    };
    assert_eq!(next_try(&s, second(104), second(99)), second(100));
    assert_eq!(next_try(&s, second(104), second(100)), second(104));
}

#[test]
fn a_look_that_ended_five_seconds_ago_is_acted_upon_and_an_older_one_repeated() {
    let claims = |now: Duration| {
        let reading = off_readings()[0].readings[0].clone();
        let mut m = Memory {
            read_at: second(95),
            under_claim: ClaimScoped {
                answers: vec![DeviceAnswer {
                    device: bmc(),
                    reading: Ok(reading),
                }],
                ..ClaimScoped::default()
            },
            ..Memory::default()
        };
        let moment = Moment {
            now,
            nonce: "n1".to_owned(),
            date: DATE.to_owned(),
        };
        let (s, o) = (settings(), drained());
        let decision = protocol::unclaimed(&mut Round::of(&s, &mut m, &o, &moment), &node());
        matches!(decision.effect, Effect::Claim(_))
    };
    assert!(claims(second(100)));
    assert!(!claims(second(100) + Duration::from_nanos(1)));
}

/// L1, L5: an Off that was read a while ago claims nothing early, and a machine that stays on is asked ever less often.
#[test]
fn an_early_incident_goes_by_fresh_answers_and_asks_ever_less_often() {
    let s = Settings {
        not_before: second(700),
        claims_off_early: true,
        ..settings()
    };
    let waits = |read_at: u64, since: u64| {
        let mut m = Memory {
            read_at: second(read_at),
            stage: Some((Stage::Checking, second(since))),
            under_claim: ClaimScoped {
                answers: vec![DeviceAnswer {
                    device: bmc(),
                    reading: Ok(off_readings()[0].readings[0].clone()),
                }],
                ..ClaimScoped::default()
            },
            ..Memory::default()
        };
        let (observed, moment) = (drained(), Moment::at(second(600)));
        let mut round = Round::of(&s, &mut m, &observed, &moment);
        let is_asked = unread(&mut round, &node(), &s.levels[0]).is_some();
        (
            is_asked,
            not_due(&mut round, &node(), &s.levels[0]).is_some(),
        )
    };
    // Fresh: claimed. Older, after a minute and after ten.
    assert_eq!(waits(595, 540), (false, false));
    assert_eq!(waits(594, 540), (true, true));
    assert_eq!(waits(551, 0), (false, true));
    assert_eq!(waits(549, 0), (true, true));
}

/// An end that could not be written is tried again, and the human has not got the whole time once more.
#[test]
fn a_wait_for_approval_that_is_over_does_not_begin_anew() {
    let s = Settings {
        approval: Approval::Awaited,
        ..fixtures::asking(settings(), |it| {
            it.fence.approval.on_timeout = ApprovalTimeout::Abort
        })
    };
    let observed = Observed {
        node: Read::Present(node()),
        ..drained()
    };
    let decided = |memory: &mut Memory, now: Duration| {
        let moment = Moment {
            now,
            nonce: "n1".to_owned(),
            date: DATE.to_owned(),
        };
        crate::plan::step(&s, memory, &observed, &moment)
    };
    let (mut memory, over) = (Memory::default(), second(100) + s.approval_timeout());
    let waits = decided(&mut memory, second(100));
    assert_eq!(waits.stage, Stage::AwaitingApproval);
    assert_eq!(decided(&mut memory, over).effect, Effect::Close);
    memory.writes.retry_at = Some(over + second(2));
    let pauses = decided(&mut memory, over + second(1));
    assert_eq!(
        (pauses.effect, pauses.stage),
        (Effect::Wait, Stage::Checking)
    );
    assert_eq!(decided(&mut memory, over + second(2)).effect, Effect::Close);
}

/// The claim was denied before, and now something else is in the way: that is what a human has to know.
#[test]
fn an_older_refusal_does_not_hide_what_is_in_the_way_now() {
    let failed = |reading: Result<Reading, String>| {
        let answer = DeviceAnswer {
            device: bmc(),
            reading,
        };
        let mut m = Memory {
            read_at: second(100),
            under_claim: ClaimScoped {
                answers: vec![answer],
                ..ClaimScoped::default()
            },
            writes: Writes {
                denied: Some("denied request: no".to_owned()),
                ..Writes::default()
            },
            ..Memory::default()
        };
        let s = fixtures::asking(settings(), |it| it.fence.mode = FenceMode::ConfirmOnly);
        let observed = Observed {
            node: Read::Present(node()),
            ..drained()
        };
        crate::plan::step(&s, &mut m, &observed, &moment());
        (m.writes.denied, m.tries.last_failure)
    };
    let on = Reading {
        state: PowerState::On,
        ..off_readings().remove(0).readings.remove(0)
    };
    for (reading, message) in [
        (Err("no answer".to_owned()), "no answer"),
        (Ok(on), "reads On"),
    ] {
        let (denied, failure) = failed(reading);
        assert_eq!(denied, None);
        assert!(failure.is_some_and(|it| it.contains(message)), "{message}");
    }
    // A human is asked by now.
    let asked = Settings {
        approval: Approval::Awaited,
        ..settings()
    };
    let mut m = Memory {
        writes: Writes {
            denied: Some("denied request: no".to_owned()),
            ..Writes::default()
        },
        ..Memory::default()
    };
    let observed = Observed {
        node: Read::Present(node()),
        ..drained()
    };
    crate::plan::step(&asked, &mut m, &observed, &moment());
    assert_eq!(m.writes.denied, None);
}

/// L5: an outage in which hundreds of machines read On does not grow by being looked at.
#[test]
fn a_machine_that_stays_on_is_looked_at_ever_less_often() {
    let period = |waited: u64| {
        let memory = Memory {
            stage: Some((Stage::Checking, Duration::from_secs(100))),
            ..Memory::default()
        };
        reread_period(&memory, Duration::from_secs(100 + waited)).as_secs()
    };
    let waits = [0, 60, 120, 720, 86_400].map(period);
    assert_eq!(waits, [5, 5, 10, 60, 60]);
}
