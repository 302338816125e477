use super::*;
use crate::fixtures::{level, settings};

/// S22: what a device of another level reads is heard, except for a human's word and for what only reads outlets.
#[test]
fn witnesses_are_the_devices_of_other_levels_that_can_see_the_machine() {
    let device = |name: &str, manual: bool, outlets: bool| Device {
        name: name.to_owned(),
        manual,
        outlets,
        ..level().devices[0].clone()
    };
    let mut s = settings();
    s.levels.push(Level {
        name: "second".to_owned(),
        devices: vec![
            device("bmc", false, false),
            device("other-bmc", false, false),
            device("word", true, false),
            device("pdu", false, true),
        ],
        ..level()
    });
    let other_devices = |index: usize| -> Vec<&str> {
        let other_devices = s.other_devices(&s.levels[index]);
        other_devices.map(|device| device.name.as_str()).collect()
    };
    assert_eq!(other_devices(0), ["other-bmc"]);
    assert!(other_devices(1).is_empty());
}
