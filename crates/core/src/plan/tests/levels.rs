//! Which level has its turn, and how long it waits.

use super::super::tries::{current_level, fail, new_attempt, turn_to_confirmed_level};
use super::*;
use crate::device::DeviceAnswer;
use crate::device::DeviceReadings;
use crate::device::Level;
use crate::memory::{LateCommands, LevelTries};
use crate::plan::round::Round;
use crate::reading::PowerState;

/// A second level, of a human's word.
fn with_word() -> Settings {
    let mut s = settings();
    let mut by_hand = level();
    by_hand.name = "hand".to_owned();
    by_hand.devices[0].name = "manualConfirmation".to_owned();
    by_hand.devices[0].manual = true;
    s.levels.push(by_hand);
    s.confirmation = confirmation();
    s
}

/// S21: it has its turn once, at once, and not while something else is under way or when it was refuted.
#[test]
fn a_word_is_heeded_when_nothing_is_under_way() {
    let is_heeded = |change: fn(&mut Memory)| {
        let mut memory = Memory::default();
        change(&mut memory);
        let (s, o, t) = (with_word(), drained(), moment(seconds(1)));
        let round = &mut Round::of(&s, &mut memory, &o, &t);
        turn_to_confirmed_level(round, &Read::NotRead, seconds(1));
        memory.tries.level == 1
    };
    assert!(is_heeded(|_| {}));
    assert!(!is_heeded(|memory| memory.commands.begin(false)));
    assert!(!is_heeded(
        |memory| memory.under_claim.readings = Some(off_readings())
    ));
    assert!(!is_heeded(|memory| memory.confirmation.tried = Some(0)));
    assert!(!is_heeded(
        |memory| memory.confirmation.refused = Some("it reads On".to_owned())
    ));
}

/// S21: whoever is asked for a word is told which device would refute it, before the claim and under it.
#[test]
fn whoever_is_asked_for_a_word_is_told_which_device_reads_on() {
    let s = Settings {
        confirmation: None,
        ..with_word()
    };
    let mut on = off_readings().remove(0).readings.remove(0);
    (on.state, on.raw) = (PowerState::On, "On".to_owned());
    let by_hand = s.levels[1].devices[0].clone();
    let bmc = crate::fixtures::bmc();
    let mut looked = Memory {
        read_at: seconds(1),
        tries: LevelTries {
            level: 1,
            ..LevelTries::default()
        },
        ..Memory::default()
    };
    looked.under_claim.answers = vec![
        DeviceAnswer {
            device: bmc.clone(),
            reading: Ok(on.clone()),
        },
        DeviceAnswer {
            device: by_hand.clone(),
            reading: Err("nobody has confirmed it".to_owned()),
        },
    ];
    let mut read = Memory {
        claim: Some(own_claim(CLAIM_VALUE)),
        tries: LevelTries {
            level: 1,
            ..LevelTries::default()
        },
        ..Memory::default()
    };
    read.under_claim.quiesce.since = Some(seconds(1));
    read.under_claim.lease_before = Some(lease());
    read.under_claim.readings = Some(vec![DeviceReadings::of(&by_hand, Vec::new())]);
    read.under_claim.others = vec![DeviceReadings::of(&bmc, vec![on])];
    for (mut memory, node) in [(looked, node()), (read, claimed(CLAIM_VALUE))] {
        let observed = Observed {
            node: Read::Present(node),
            lease: Read::Present(lease()),
            ..drained()
        };
        let message = step(&s, &mut memory, &observed, &moment(seconds(2))).message;
        let told = "rejected while FenceDevice bmc reads On";
        assert!(message.contains(told), "{message}");
    }
}

/// S21: nobody knows how the Lease was before the word, where it was not read beside it: it is read first, and then the power.
#[test]
fn beside_a_word_the_power_is_read_after_the_lease() {
    for (lease, reads) in [(Read::Present(lease()), true), (Read::NotRead, false)] {
        let mut memory = Memory {
            claim: Some(own_claim(CLAIM_VALUE)),
            ..Memory::default()
        };
        memory.under_claim.quiesce.since = Some(seconds(1));
        memory.under_claim.lease_before = Some(crate::fixtures::lease());
        let observed = Observed {
            node: Read::Present(claimed(CLAIM_VALUE)),
            lease,
            ..drained()
        };
        let s = with_word();
        let decision = step(&s, &mut memory, &observed, &moment(seconds(2)));
        assert_eq!(memory.tries.level, 1, "{decision:?}");
        let is_read = matches!(decision.effect, Effect::Device { .. });
        assert_eq!(is_read, reads, "{decision:?}");
    }
}

#[test]
fn a_level_without_a_device_is_passed_over() {
    let mut s = settings();
    let empty = Level {
        devices: Vec::new(),
        ..level()
    };
    s.levels.insert(0, empty.clone());
    s.levels.push(empty);
    for from in 0..3 {
        let mut memory = Memory {
            tries: LevelTries {
                level: from,
                ..LevelTries::default()
            },
            ..Memory::default()
        };
        let (o, t) = (drained(), moment(seconds(1)));
        let current = current_level(&mut Round::of(&s, &mut memory, &o, &t));
        let current = current.expect("a level");
        assert_eq!(
            (current.devices.len(), memory.tries.level),
            (1, 1),
            "from {from}"
        );
    }
}

/// The pause doubles from one round over all levels to the next, and is never longer than 15 s.
#[test]
fn all_levels_are_tried_again_ever_more_slowly() {
    let mut s = settings();
    s.levels[0].retry_period = seconds(5);
    let mut memory = Memory::default();
    let pauses: Vec<u64> = (0..5)
        .map(|_| {
            let (o, t) = (drained(), moment(seconds(100)));
            let round = &mut Round::of(&s, &mut memory, &o, &t);
            fail(round, "no answer".to_owned(), seconds(100));
            let at = memory.tries.retry_at.expect("a time");
            (at - seconds(100)).as_secs()
        })
        .collect();
    assert_eq!(pauses, [5, 10, 15, 15, 15]);
}

/// S23: an earlier off lands no more from the end of its window on.
#[test]
fn a_command_is_contested_as_long_as_an_earlier_one_may_land() {
    let contested = |now: Duration, by_another: bool| {
        let until = Some(seconds(100));
        let mut memory = Memory {
            late: LateCommands {
                own_off_until: until.filter(|_| !by_another),
                others_off_until: until.filter(|_| by_another),
                ..LateCommands::default()
            },
            ..Memory::default()
        };
        let (s, o, t) = (settings(), drained(), moment(now));
        new_attempt(&mut Round::of(&s, &mut memory, &o, &t), &level()).contested
    };
    for by_another in [false, true] {
        assert!(contested(
            seconds(100) - Duration::from_nanos(1),
            by_another
        ));
        assert!(!contested(seconds(100), by_another));
    }
}
