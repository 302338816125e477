//! When the next round is, and the last one.

use super::*;

fn seconds(after_release: u64) -> Option<Duration> {
    Some(Duration::from_secs(RELEASED_AT + after_release))
}

/// What waits is looked at again when its time is up, and once more when nobody came; `wanted` has 60 s of a pause and then 300.
#[test]
fn a_wait_ends_with_the_time_for_the_node_and_then_with_the_incident() {
    let mut process = Process::of(wanted());
    process.hold(Some("Node worker-1 is cordoned"));
    let held = process.at(355);
    assert_eq!((held.deadline, held.wake), (seconds(360), seconds(360)));
    // The same for one that is called for before.
    process.has_sent(1);
    process.memory.power_on.failure = Some("the device refuses".to_owned());
    let end = 360 + CALLED_FOR.as_secs();
    for (now, wake) in [(355, 360), (360, 370), (end - 5, end)] {
        let held = process.at(now);
        assert!(held.escalation.is_some(), "{held:?}");
        assert_eq!((held.deadline, held.wake), (seconds(360), seconds(wake)));
    }
}

#[test]
fn each_wait_for_the_machine_has_its_pause() {
    let mut process = Process::of(wanted());
    assert!(is_look(&process.at(60)));
    assert_eq!(process.at(60).wake, seconds(90), "the look is under way");
    let off = process.reads(PowerState::Transitional, 62);
    assert_eq!((off.effect, off.wake), (Effect::Wait, seconds(72)));
    assert!(is_look(&process.at(72)));
    let on = process.reads(PowerState::On, 73);
    assert_eq!((on.effect, on.wake), (Effect::Close, None));
    // Turned on by us: its node has to boot.
    let mut process = Process::of(wanted());
    process.has_sent(1);
    process.at(60);
    let on = process.reads(PowerState::On, 63);
    assert_eq!((on.effect, on.wake), (Effect::Wait, seconds(93)));
}

/// Whoever is called has it from then on.
#[test]
fn no_command_is_written_down_when_the_time_is_up() {
    for (now, is_intended) in [(359, true), (360, false)] {
        let mut process = Process::of(wanted());
        assert!(is_look(&process.at(60)));
        let decision = process.reads(PowerState::Off, now);
        let intended = matches!(decision.effect, Effect::RecordOn(_));
        assert_eq!(intended, is_intended, "at {now}: {decision:?}");
    }
}
