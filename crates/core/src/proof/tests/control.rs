//! Only a device that can read On of the machine proves that it is off.

use super::*;
use crate::control::Control;

/// S25. What it has read On of in the incident counts only before a command of ours, and only if it is the same device.
#[test]
fn an_off_counts_only_from_a_device_that_has_read_on_of_the_machine() {
    let on = |version: &str| DeviceReadings {
        version: version.to_owned(),
        control: Control::Missing,
        readings: vec![Reading {
            state: PowerState::On,
            ..off(5.0)
        }],
        ..device("bmc")
    };
    for (control, commanded, before, counts) in [
        (Control::Shown, false, None, true),
        (Control::ShownLately, false, None, true),
        (Control::Missing, false, None, false),
        (Control::Missing, true, None, false),
        (Control::OffWhileRunning, true, None, false),
        (Control::Missing, false, Some("uid/1"), false),
        (Control::Missing, true, Some("uid/1"), true),
        (Control::Missing, true, Some("uid/0"), false),
    ] {
        let outcome = judged(|good| {
            good.commanded = commanded;
            good.before = before.map(on).into_iter().collect();
            good.devices[0].control = control;
        });
        let message = format!("{control:?} {commanded} {before:?}");
        match counts {
            true => assert!(outcome.is_ok(), "{message}: {outcome:?}"),
            false => assert_eq!(outcome, Err(control.missing("bmc")), "{message}"),
        }
    }
}
