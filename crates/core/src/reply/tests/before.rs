//! What devices say while a command is prepared.

use super::*;
use crate::verification::Require;

/// Is an Off of `pdu` at 12 s, read before its command, contradicted by the On of `bmc`: read at `on_at` for its own one, or at 11 s before that?
fn contradicts(
    own: &OffResult,
    other: &OffResult,
    on_at: Option<u64>,
    has_commanded: bool,
) -> bool {
    let pdu = Device {
        name: "pdu".to_owned(),
        ..bmc()
    };
    let answer = |device: &Device, state, asked| DeviceAnswer {
        device: device.clone(),
        reading: Ok(says(device, state, asked).readings.remove(0)),
    };
    let mut memory = memory();
    memory.commands.begin(true);
    memory.commands.has_commanded = has_commanded;
    let on = on_at.map(|at| answer(&bmc(), PowerState::On, at));
    if on.is_none() {
        memory
            .trust
            .power_history
            .note(&says(&bmc(), PowerState::On, 11), false);
    }
    let off = answer(&pdu, PowerState::Off, 12);
    let answers = on.into_iter().chain([off]).collect();
    let results = [
        ("pdu".to_owned(), own.clone()),
        ("bmc".to_owned(), other.clone()),
    ];
    let results = results.into();
    let reply = Reply::Device(1, DeviceReply::Commanded { answers, results });
    learn(&settings(), &mut memory, Asked::Device, reply, NOW);
    let against = memory
        .trust
        .power_history
        .contradiction(&["pdu"], 1, Require::All);
    against.is_some()
}

/// S4: a device that read Off before its own command was turned off by nobody of ours, unless another one's came first: which is still to be sent while
/// that device is read for it.
#[test]
fn an_off_that_is_read_before_its_command_is_no_doing_of_ours() {
    let failed = OffResult::NotSent("no".to_owned());
    let (accepted, already) = (OffResult::Accepted, OffResult::AlreadyOff);
    for (own, other, on_at, has_commanded, is_against) in [
        // Its command may have come first, unless the device says that it was off already.
        (&accepted, &accepted, Some(11), false, false),
        (&already, &accepted, Some(11), false, true),
        // It was read later, or as late.
        (&accepted, &accepted, Some(13), false, true),
        (&accepted, &accepted, Some(12), false, true),
        // It turns nothing off.
        (&accepted, &failed, Some(11), false, true),
        // Nobody knows when it came.
        (&accepted, &accepted, None, false, false),
        (&already, &accepted, None, false, true),
        // An earlier try may have.
        (&already, &failed, Some(13), true, false),
    ] {
        let found = contradicts(own, other, on_at, has_commanded);
        assert_eq!(found, is_against, "{own:?} {other:?} {on_at:?}");
    }
}
