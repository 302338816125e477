//! What devices say while a command is prepared.

use super::*;
use crate::core::attempt::OffResult;
use crate::core::proof::Require;

/// S4: a device that read Off before its own command was turned off by nobody of ours, unless another one's came first: which is still to be sent while
/// that device is read for it.
#[test]
fn an_off_that_is_read_before_its_command_is_no_doing_of_ours() {
    let pdu = || Device {
        name: "pdu".to_owned(),
        ..bmc()
    };
    let sight = |device: &Device, state, asked| Sight {
        device: device.clone(),
        reading: Ok(says(device, state, asked).readings.remove(0)),
    };
    let failed = OffResult::NotSent("no".to_owned());
    let (accepted, already) = (OffResult::Accepted, OffResult::AlreadyOff);
    for (why, own, other, on_at, has_commanded, is_against) in [
        (
            "its command came first",
            &accepted,
            &accepted,
            11,
            false,
            false,
        ),
        ("it was read later", &accepted, &accepted, 13, false, true),
        ("it turns nothing off", &accepted, &failed, 11, false, true),
        ("it was off already", &already, &accepted, 11, false, true),
        (
            "an earlier try may have",
            &already,
            &failed,
            13,
            true,
            false,
        ),
    ] {
        let mut memory = memory();
        memory.begin(true);
        memory.has_commanded = has_commanded;
        let results = [
            ("pdu".to_owned(), own.clone()),
            ("bmc".to_owned(), other.clone()),
        ];
        let sights = vec![
            sight(&bmc(), PowerState::On, on_at),
            sight(&pdu(), PowerState::Off, 12),
        ];
        let results = results.into();
        let reply = Reply::Device(1, DeviceReply::Commanded { sights, results });
        learn(&settings(), &mut memory, Asked::Device, reply, NOW);
        let against = memory.said.contradiction(&["pdu"], 1, Require::All);
        assert_eq!(against.is_some(), is_against, "{why}");
    }
}
