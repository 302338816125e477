use super::deadline::time_limit;
use super::pace::QUICK_POLLS;
use super::report::why_confirmation_refused;
use super::*;
use crate::decision::Effect;
use crate::delay::{Now, Since};
use crate::escalation::Escalation;
use crate::fixtures::{
    DATE, attempt, claimed, drained, lease, level, node, off_readings, own_claim, pod, settings,
};
use crate::memory::{ClaimScoped, Commands, ConfirmationTurn, UnderTaint, Writes};
use crate::plan::pace::DETACH_PACE;
use crate::plan::pace::poll;
use crate::plan::round::Round;
use crate::quiesce::Quiesce;
use crate::settings::ManualConfirmation;
use crate::settings::Record;
use std::collections::BTreeMap;

mod claims;
mod confirmed;
mod levels;
mod needs;
mod reports;

const CLAIM_VALUE: &str = "fence-n1";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn moment(now: Duration) -> Moment {
    Moment {
        now,
        nonce: "f0000002".to_owned(),
        date: DATE.to_owned(),
    }
}

fn decided(settings: &Settings, memory: &mut Memory, node: NodeView, now: Duration) -> Decision {
    let observed = Observed {
        node: Read::Present(node),
        lease: Read::Present(lease()),
        ..drained()
    };
    step(settings, memory, &observed, &moment(now))
}

/// A word that was given at second 0.
fn confirmation() -> Option<ManualConfirmation> {
    let now = Now {
        boot: Duration::ZERO,
        wall: jiff::Timestamp::UNIX_EPOCH,
    };
    Some(ManualConfirmation {
        user: "alice".to_owned(),
        node_uid: "uid-1".to_owned(),
        given: Since::at(now.wall, now),
        is_ahead: false,
    })
}

/// L1: a stage that works with devices has the time of the level that takes longest, and a human is called when it is over.
#[test]
fn a_stage_that_takes_as_long_as_it_may_calls_a_human() {
    for (stage, reason) in [
        (Stage::Checking, Escalation::FenceStuck),
        (Stage::Quiescing, Escalation::QuiesceStuck),
        (Stage::Detaching, Escalation::DetachStuck),
        (Stage::AwaitingRelease, Escalation::ReleaseStuck),
    ] {
        let limit = time_limit(&settings(), stage).expect("a limit");
        let called = |now: Duration| {
            let mut decision = Decision {
                deadline: Some(limit),
                ..wait(stage, "it waits".to_owned())
            };
            overdue(&settings(), &drained(), &mut decision, now);
            decision.escalation.map(|(reason, _)| reason)
        };
        assert_eq!(called(limit - Duration::from_nanos(1)), None);
        assert_eq!(called(limit), Some(reason));
    }
    let asks = decided(&settings(), &mut Memory::default(), node(), seconds(100));
    assert_eq!(asks.deadline, Some(seconds(100) + level().timeout));
}

/// It is woken at that very moment: if it waited on then, it would be woken for nothing again and again.
#[test]
fn a_write_that_failed_is_tried_again_at_the_moment_for_it() {
    let at = seconds(100);
    let says = |now: Duration| {
        let mut memory = Memory {
            writes: Writes {
                failures: 1,
                failure: "500".to_owned(),
                retry_at: Some(at),
                ..Writes::default()
            },
            ..Memory::default()
        };
        decided(&settings(), &mut memory, node(), now).message
    };
    assert!(says(at - Duration::from_nanos(1)).contains("failed (500)"));
    assert!(!says(at).contains("failed (500)"));
}

/// The end is tried again, and until it is written nobody reads that the incident is at its beginning.
#[test]
fn an_end_after_the_taint_that_could_not_be_written_leaves_the_release_as_the_stage() {
    let mut memory = Memory {
        taint: UnderTaint {
            seen: true,
            releasing: true,
            ..UnderTaint::default()
        },
        ..Memory::default()
    };
    let ends = decided(&settings(), &mut memory, node(), seconds(100));
    assert_eq!(ends.stage, Stage::Recovered);
    memory.writes.retry_at = Some(seconds(102));
    let pauses = decided(&settings(), &mut memory, node(), seconds(101));
    assert_eq!(
        (pauses.effect, pauses.stage),
        (Effect::Wait, Stage::AwaitingRelease)
    );
}

#[test]
fn writes_that_fail_on_and_on_call_a_human() {
    let called = |write_failures: u32| {
        let mut memory = Memory {
            writes: Writes {
                failures: write_failures,
                retry_at: Some(seconds(101)),
                ..Writes::default()
            },
            ..Memory::default()
        };
        let decision = decided(&settings(), &mut memory, node(), seconds(100));
        decision.escalation.map(|(reason, _)| reason)
    };
    assert_eq!(called(WRITE_FAILURES_MAX - 1), None);
    assert_eq!(called(WRITE_FAILURES_MAX), Some(Escalation::WriteFailed));
}

/// S21: after a proof, by whatever process, nobody has to be told that the word counts for nothing.
#[test]
fn a_word_is_refused_aloud_until_there_is_a_proof() {
    let said = |evidence, tainted, recorded| {
        let s = Settings {
            confirmation: confirmation(),
            record: Record {
                evidence: recorded,
                ..Record::default()
            },
            ..settings()
        };
        let mut memory = Memory {
            under_claim: ClaimScoped {
                evidence,
                ..ClaimScoped::default()
            },
            confirmation: ConfirmationTurn {
                refused: Some("the BMC reads On".to_owned()),
                ..ConfirmationTurn::default()
            },
            taint: UnderTaint {
                seen: tainted,
                ..UnderTaint::default()
            },
            ..Memory::default()
        };
        let (o, t) = (drained(), moment(seconds(1)));
        why_confirmation_refused(&Round::of(&s, &mut memory, &o, &t), seconds(1)).is_some()
    };
    assert!(said(false, false, false));
    assert!(!said(true, false, false));
    assert!(!said(false, true, false));
    assert!(!said(false, false, true));
}

#[test]
fn what_nobody_announces_is_looked_at_quickly_first_and_then_ever_more_slowly() {
    let mut memory = Memory::default();
    let mut pause = || poll(&mut memory, seconds(7), READ_PACE) - seconds(7);
    for _ in 0..QUICK_POLLS {
        assert_eq!(pause(), Duration::from_millis(2));
    }
    for millis in [4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000] {
        assert_eq!(pause(), Duration::from_millis(millis));
    }
}

/// Under the mark: four rounds a second at most, where it was one as soon as the last had ended.
#[test]
fn a_detach_that_takes_long_is_not_looked_at_without_a_pause() {
    let mut memory = Memory::default();
    let mut at = seconds(7);
    let mut rounds = 0;
    while at < seconds(67) {
        at = poll(&mut memory, at, DETACH_PACE);
        rounds += 1;
    }
    assert!(rounds < 60, "{rounds} rounds in a minute");
}

/// S21: a process that begins when the date has come finds the refusal in the record. A NodeFence that is bound to no Node yet is not judged by that.
#[test]
fn a_word_of_the_future_is_refused_for_good() {
    let refused_of = |node_uid: Option<&str>, is_ahead, proven_by: Option<bool>| {
        let mut s = Settings {
            node_uid: node_uid.map(str::to_owned),
            confirmation: confirmation().map(|confirmation| ManualConfirmation {
                is_ahead,
                ..confirmation
            }),
            record: Record {
                evidence: proven_by.is_some(),
                ..Record::default()
            },
            ..settings()
        };
        if let Some(by_confirmation) = proven_by {
            s.levels[0].devices[0].manual = by_confirmation;
            let of_level = (s.levels[0].name.clone(), vec!["bmc".to_owned()]);
            s.record.proven_by = BTreeMap::from([of_level]);
        }
        s.adopted = proven_by.is_none() && node_uid == Some("uid-1");
        let mut memory = Memory::default();
        decided(&s, &mut memory, node(), seconds(1));
        memory.confirmation.refused
    };
    let refused = |node_uid, is_ahead| refused_of(node_uid, is_ahead, None);
    assert_eq!(refused(Some("uid-1"), false), None);
    // Whoever takes over what the word has proven already may have a clock that is behind.
    assert_eq!(refused_of(Some("uid-1"), true, Some(true)), None);
    // What devices have proven, or a mark that is adopted, says nothing for it.
    assert!(refused_of(Some("uid-1"), true, Some(false)).is_some());
    assert_eq!(refused(None, true), None);
    let message = refused(Some("uid-1"), true).expect("refused");
    assert!(message.contains("its time is in the future"), "{message}");

    let come = Settings {
        confirmation: confirmation(),
        record: Record {
            confirmation_refused: Some(message.clone()),
            ..Record::default()
        },
        ..settings()
    };
    let mut next = Memory::default();
    decided(&come, &mut next, node(), seconds(1));
    let (o, t) = (drained(), moment(seconds(1)));
    let round = &Round::of(&come, &mut next, &o, &t);
    assert_eq!(why_confirmation_refused(round, seconds(1)), Some(message));
}

/// L5: past its deadline a quiesce keeps no place in the budget; S13: once an off may have gone out it does.
#[test]
fn only_who_has_commanded_nothing_waits_for_a_pod_without_a_place() {
    let stuck = |stage, reason| {
        let waits = wait(stage, "it waits".to_owned());
        waits.escalated(reason, "it is late".to_owned())
    };
    let memory = Memory::default();
    let late = stuck(Stage::Quiescing, Escalation::QuiesceStuck);
    assert!(waits_for_a_pod(&settings(), &memory, &late));
    let other = stuck(Stage::Quiescing, Escalation::DeviceFailed);
    assert!(!waits_for_a_pod(&settings(), &memory, &other));
    let in_time = wait(Stage::Quiescing, "it waits".to_owned());
    assert!(!waits_for_a_pod(&settings(), &memory, &in_time));
    let commanded = Memory {
        commands: Commands {
            attempt: Some(attempt()),
            ..Commands::default()
        },
        ..Memory::default()
    };
    assert!(!waits_for_a_pod(&settings(), &commanded, &late));
    let mut of_before = settings();
    of_before.record.attempts = 1;
    assert!(!waits_for_a_pod(&of_before, &memory, &late));
}

/// S25: what a probe finds while the power is read counts at once.
#[test]
fn readings_of_a_device_that_has_lost_its_positive_control_are_dropped() {
    use crate::control::Control::{Missing, OffWhileRunning, Shown, ShownLately};
    for (read, now, kept) in [
        (Shown, Shown, true),
        (ShownLately, Shown, true),
        (Missing, Missing, true),
        (Missing, Shown, true),
        (Shown, OffWhileRunning, false),
        (ShownLately, Missing, false),
    ] {
        let (mut level, mut readings) = (level(), off_readings());
        level.devices[0].control = now;
        readings[0].control = read;
        let mut memory = Memory::default();
        memory.under_claim.readings = Some(readings);
        super::tries::forget_other_devices(&mut memory, &level, Duration::ZERO);
        assert_eq!(
            memory.under_claim.readings.is_some(),
            kept,
            "{read:?} {now:?}"
        );
    }
}
