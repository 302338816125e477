//! What the looks say of a command, and of somebody else's.

use super::super::devices::next_group;
use super::*;
use crate::plan::round::Round;
use crate::settings::Settings;

/// What became of a command, that had this result, when its device reads this so many seconds after it was written down.
fn result(first: OnResult, state: PowerState, seconds: u64) -> OnResult {
    let mut process = Process::of(wanted());
    process.at(60);
    process.reads(PowerState::Off, 60);
    process.hears(Asked::RecordOn, Reply::Done, 60);
    process.commanded(first, 60);
    // The second one: no third follows, which would take its place.
    process.has_sent(2);
    process.reads(state, 60 + seconds);
    let attempt = process.memory.power_on.attempt.expect("a command");
    attempt.results["bmc"].clone()
}

#[test]
fn a_command_that_was_sent_is_judged_by_what_the_device_reads() {
    use PowerState::{Off, On, Transitional};
    let accepted = || OnResult::Accepted;
    assert_eq!(result(accepted(), On, 2), OnResult::ReadsOn);
    assert_eq!(result(accepted(), Transitional, 40), accepted());
    assert_eq!(result(accepted(), Off, 29), accepted(), "it takes a moment");
    for seconds in [30, 31] {
        let late = result(accepted(), Off, seconds);
        assert!(matches!(late, OnResult::Late(_)), "{late:?}");
    }
    let unknown = OnResult::Unknown("no answer".to_owned());
    assert_eq!(result(unknown, On, 2), OnResult::ReadsOn);
}

#[test]
fn a_command_that_was_not_sent_has_done_nothing_whatever_the_device_reads() {
    let refused = || OnResult::NotSent("refused".to_owned());
    for state in [PowerState::On, PowerState::Off] {
        assert_eq!(result(refused(), state, 40), refused(), "{state:?}");
    }
}

/// An outlet with power says that somebody was there only when nothing is left to be turned on: its BMC may read off yet.
#[test]
fn somebody_else_is_seen_by_what_reads_the_machine_first() {
    let mut settings = wanted();
    let outlet = Device {
        name: "outlet".to_owned(),
        outlets: true,
        ..bmc()
    };
    settings.levels[0].devices.insert(0, outlet);
    settings.record.turned_off = ["bmc", "outlet"]
        .map(|name| (name.to_owned(), bmc().version))
        .into();
    let who = |settings: &Settings, on: &[&str]| {
        let mut m = Memory::default();
        for name in on {
            let tries = m.power_on.tries.entry((*name).to_owned());
            tries.or_default().is_on = true;
        }
        let (o, t) = (drained(), Moment::at(Duration::ZERO));
        let round = &Round::of(settings, &mut m, &o, &t);
        somebody_else(round, next_group(round).as_ref())
    };
    assert_eq!(who(&settings, &[]), None);
    assert_eq!(who(&settings, &["outlet"]), None);
    assert_eq!(who(&settings, &["outlet", "bmc"]).as_deref(), Some("bmc"));
    settings.levels[0].devices.retain(|device| device.outlets);
    assert_eq!(who(&settings, &["outlet"]).as_deref(), Some("outlet"));
    assert_eq!(who(&settings, &[]), None);
}
