//! `recovery.strategy: None`: what the process before this one has proven.

use super::*;
use crate::device::{Device, Level};
use crate::fixtures::{bmc, level};
use crate::memory::LateCommands;
use crate::plan::completion::late_off;
use crate::plan::prove::late_on;
use crate::plan::round::Round;
use crate::plan::tries::order_max;
use crate::proof_source::ProofSource;
use crate::settings::ForeignCommands;
use fencing_api::settings::{FenceMode, RecoveryStrategy};

pub(super) const THEN: &str = "2026-01-01T00:00:00Z";
pub(super) const LATER: &str = "2026-01-01T00:00:10Z";

pub(super) fn reported(mut node: NodeView, at: &str) -> NodeView {
    for condition in &mut node.conditions {
        at.clone_into(&mut condition.heartbeat);
    }
    node
}

/// The first decision of a process that finds this record.
fn found(strategy: RecoveryStrategy, record: Record, node: NodeView) -> Decision {
    let s = Settings {
        record,
        ..crate::fixtures::asking(settings(), |it| it.recovery.strategy = strategy)
    };
    decided(&s, &mut Memory::default(), node, seconds(100))
}

/// S11: people were told that the machine is down, and may have turned it on. Only what was proven without a sign of life since counts.
#[test]
fn what_a_former_process_has_proven_for_others_is_not_turned_off_again() {
    let proven = || Record {
        evidence: true,
        reported: THEN.parse().ok(),
        ..Record::default()
    };
    let none = RecoveryStrategy::None;
    for (why, strategy, record, at, ends) in [
        ("proven", none, proven(), THEN, true),
        ("its kubelet has reported", none, proven(), LATER, false),
        ("it never reported", none, proven(), "", false),
        (
            "nobody wrote down when it had reported",
            none,
            Record {
                reported: None,
                ..proven()
            },
            "",
            false,
        ),
        (
            "something lived beside the off",
            none,
            Record {
                contradictions: vec!["the Lease was renewed".to_owned()],
                ..proven()
            },
            THEN,
            false,
        ),
        (
            "the word was refuted",
            none,
            Record {
                confirmation_refused: Some("the BMC reads On".to_owned()),
                ..proven()
            },
            THEN,
            false,
        ),
        (
            "a word was refuted that proved nothing, by the On before the off",
            none,
            Record {
                confirmation_refused: Some("the BMC reads On".to_owned()),
                proven_by: [("default".to_owned(), vec!["bmc".to_owned()])].into(),
                ..proven()
            },
            THEN,
            true,
        ),
        (
            "the taint is still to come",
            RecoveryStrategy::OutOfServiceTaint,
            proven(),
            THEN,
            false,
        ),
        ("nothing is proven", none, Record::default(), THEN, false),
    ] {
        for node in [node(), claimed("fence-n1")] {
            let decision = found(strategy, record.clone(), reported(node, at));
            let is_end = decision.message.contains("requires nothing more");
            assert_eq!(is_end, ends, "{why}: {decision:?}");
        }
    }
}

/// S23: what may still land is waited for, and nothing else is done meanwhile.
#[test]
fn an_off_of_the_former_process_that_may_land_is_waited_for() {
    for node in [node(), claimed("fence-n1")] {
        let record = Record {
            evidence: true,
            reported: THEN.parse().ok(),
            unresolved: true,
            ..Record::default()
        };
        let decision = found(RecoveryStrategy::None, record, reported(node, THEN));
        assert_eq!(
            (decision.effect, decision.stage),
            (Effect::Wait, Stage::Tainting)
        );
        assert!(decision.wake.is_some_and(|at| at > seconds(160)));
        assert_eq!(decision.deadline, decision.wake);
    }
}

/// S23: so is one of another NodeFence, which is gone from its list in the next round.
#[test]
fn an_off_of_another_nodefence_that_was_seen_at_the_beginning_is_waited_for() {
    let evidence = |evidence: bool| Record {
        evidence,
        reported: THEN.parse().ok(),
        foreign_commands: ForeignCommands {
            off: true,
            window: seconds(90),
            ..ForeignCommands::default()
        },
        ..Record::default()
    };
    for (strategy, record, node) in [
        (RecoveryStrategy::None, evidence(true), node()),
        (
            RecoveryStrategy::OutOfServiceTaint,
            evidence(false),
            claimed("fence-n1"),
        ),
    ] {
        let s = Settings {
            record,
            ..crate::fixtures::asking(settings(), |it| it.recovery.strategy = strategy)
        };
        let mut m = Memory::default();
        decided(&s, &mut m, reported(node, THEN), seconds(100));
        assert_eq!(m.late.others_off_until, Some(seconds(190)), "{strategy:?}");
    }
}

/// S23: what the lost record of an adopted taint has sent may land as late as the slowest policy says, or as long as a try takes.
#[test]
fn what_a_lost_record_has_sent_is_waited_for() {
    let until = |window: u64| {
        let record = Record {
            foreign_commands: ForeignCommands {
                window: seconds(window),
                ..ForeignCommands::default()
            },
            ..Record::default()
        };
        let s = Settings {
            adopted: true,
            record,
            ..settings()
        };
        let mut m = Memory::default();
        decided(&s, &mut m, node(), seconds(100));
        m.late.may_land_until().expect("a wait")
    };
    assert!(until(0) > seconds(100) + settings().late_effect());
    assert_eq!(until(690), seconds(790));
}

/// S22: who has proven it down is told by the level that the record names.
#[test]
fn a_successor_knows_whether_a_device_or_a_human_has_proven_it() {
    let manual = Level {
        name: "word".to_owned(),
        devices: vec![Device {
            manual: true,
            ..bmc()
        }],
        ..level()
    };
    let proven = |of: &str| {
        let s = Settings {
            levels: vec![level(), manual.clone()],
            record: Record {
                proven_by: [(of.to_owned(), vec!["bmc".to_owned()])].into(),
                ..Record::default()
            },
            ..settings()
        };
        let mut m = Memory::default();
        decided(&s, &mut m, node(), seconds(100));
        m.proven.by
    };
    assert_eq!(proven("word"), Some(ProofSource::Confirmation));
    let devices = ProofSource::Devices(vec!["bmc".to_owned()]);
    assert_eq!(proven(&level().name), Some(devices));
}

/// S23: the watch may not have told yet what another NodeFence has sent. The list under the claim has it, and its time counts from then on.
#[test]
fn the_power_is_read_when_what_others_have_sent_was_listed() {
    for (strategy, by_watch, on, waits, until) in [
        (RecoveryStrategy::None, true, false, true, None),
        (RecoveryStrategy::None, true, true, true, Some(seconds(90))),
        (RecoveryStrategy::None, false, false, false, None),
        (
            RecoveryStrategy::None,
            false,
            true,
            false,
            Some(seconds(100) + order_max(&level()) + settings().late_effect()),
        ),
        (
            settings().procedure.recovery.strategy,
            true,
            true,
            false,
            Some(seconds(90)),
        ),
    ] {
        let foreign_commands = ForeignCommands {
            by_watch,
            on,
            ..ForeignCommands::default()
        };
        let s = Settings {
            record: Record {
                foreign_commands,
                ..Record::default()
            },
            ..crate::fixtures::asking(settings(), |it| {
                it.fence.mode = FenceMode::ConfirmOnly;
                it.recovery.strategy = strategy;
            })
        };
        // It was known when the claim was decided on, if at all: that was before the claim had landed.
        let mut memory = Memory {
            record_read: true,
            is_due: true,
            claim: Some(own_claim("fence-n1")),
            late: LateCommands {
                known: foreign_commands,
                on_until: on.then_some(seconds(90)),
                ..LateCommands::default()
            },
            ..Memory::default()
        };
        memory.under_claim.quiesce.since = Some(seconds(10));
        let decision = decided(&s, &mut memory, claimed("fence-n1"), seconds(100));
        let is_waiting = decision.message.contains("could not be listed");
        assert_eq!(is_waiting, waits, "{by_watch} {on}: {}", decision.message);
        assert_eq!(memory.late.on_until, until);
    }
}

/// S23: woken at the very moment when nothing can land any more, it waits no longer; until then the stage's time does not run.
#[test]
fn a_late_command_is_waited_for_until_that_moment() {
    let until = seconds(10);
    let off = Memory {
        late: LateCommands {
            own_off_until: Some(until),
            ..LateCommands::default()
        },
        ..Memory::default()
    };
    let on = Memory {
        late: LateCommands {
            on_until: Some(until),
            ..LateCommands::default()
        },
        ..Memory::default()
    };
    let waits = |now: Duration| {
        let s = crate::fixtures::asking(settings(), |it| {
            it.recovery.strategy = RecoveryStrategy::None
        });
        let (mut off, mut on) = (off.clone(), on.clone());
        let (o, t) = (drained(), moment(now));
        [
            late_off(&Round::of(&s, &mut off, &o, &t)),
            late_on(
                &mut Round::of(&s, &mut on, &o, &t),
                &node(),
                CLAIM_VALUE,
                &s.levels[0],
            ),
        ]
    };
    for decision in waits(until - Duration::from_nanos(1)) {
        assert_eq!(decision.expect("a wait").deadline, Some(until));
    }
    assert_eq!(waits(until), [None, None]);
}
