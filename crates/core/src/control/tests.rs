//! What a device read of a running machine, and for which boot that counts.

use super::*;
use crate::fixtures::{node, off_readings};
use fencing_api::device::{FenceDeviceStatus, PinnedSystem};
use jiff::Timestamp;
use serde_json::json;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn ready() -> NodeView {
    let mut node = node();
    node.conditions[0].status = "True".to_owned();
    node
}

fn row(power_state: PowerState) -> PositiveControl {
    let node = node();
    PositiveControl {
        node_name: node.name,
        node_uid: node.uid,
        boot_id: node.boot_id,
        power_state,
        since_time: Timestamp::UNIX_EPOCH,
    }
}

/// Its second version, with this row in the status of that version.
fn device(row: PositiveControl) -> FenceDevice {
    let spec = json!({"nodeName": "worker-1", "redfish": {"address": "https://10.0.0.1"}});
    let mut device = FenceDevice::new("bmc", serde_json::from_value(spec).expect("a spec"));
    device.metadata.generation = Some(2);
    let status = device.status.get_or_insert_default();
    status.observed_generation = Some(2);
    status.positive_controls = vec![row];
    device
}

fn reading(state: PowerState) -> Reading {
    Reading {
        state,
        ..off_readings()[0].readings[0].clone()
    }
}

#[test]
fn only_an_on_of_this_node_in_this_boot_and_by_these_settings_counts() {
    let of = |change: fn(&mut FenceDevice)| {
        let mut device = device(row(PowerState::On));
        change(&mut device);
        of(&device, &node(), "boot-1", NOW)
    };
    fn kept(device: &mut FenceDevice) -> &mut PositiveControl {
        let status = device.status.as_mut().expect("a status");
        &mut status.positive_controls[0]
    }
    assert_eq!(of(|_| {}), Control::Shown);
    assert_eq!(
        of(|it| kept(it).power_state = PowerState::Off),
        Control::OffWhileRunning
    );
    let others: [fn(&mut FenceDevice); 5] = [
        |it| it.status = None,
        |it| it.metadata.generation = Some(3),
        |it| kept(it).node_name = "worker-2".to_owned(),
        |it| kept(it).node_uid = "uid-2".to_owned(),
        |it| kept(it).boot_id = "boot-0".to_owned(),
    ];
    for change in others {
        assert_eq!(of(change), Control::Missing);
    }
    // Nor does an Off of another boot accuse it in this one.
    let accused = device(row(PowerState::Off));
    assert_eq!(
        super::of(&accused, &node(), "boot-2", NOW),
        Control::Missing
    );
}

/// The last probe before the silence came at most 300 s before it by default, and 120 s pass until it is judged. What has no time, or one that is
/// still to come, is not lately.
#[test]
fn an_on_is_of_lately_for_one_probe_period() {
    let second = |at| Timestamp::from_second(at).expect("a time");
    let at = |on: Option<i64>, power_state| {
        let mut device = device(row(power_state));
        let status = device.status.as_mut().expect("a status");
        status.last_on_time = on.map(second);
        of(&device, &node(), "boot-1", second(1000))
    };
    for (on, control) in [
        (Some(1000), Control::ShownLately),
        (Some(580), Control::ShownLately),
        (Some(579), Control::Shown),
        (Some(1001), Control::Shown),
        (None, Control::Shown),
    ] {
        assert_eq!(at(on, PowerState::On), control, "{on:?}");
    }
    let accused = at(Some(1000), PowerState::Off);
    assert_eq!(accused, Control::OffWhileRunning);
}

/// A human is not asked to say On first.
#[test]
fn a_manual_device_needs_none() {
    let spec = json!({"nodeName": "worker-1", "manual": {}});
    let device = FenceDevice::new("hand", serde_json::from_value(spec).expect("a spec"));
    assert_eq!(of(&device, &node(), "boot-1", NOW), Control::Shown);
}

#[test]
fn a_probe_teaches_only_beside_a_ready_node() {
    let on = reading(PowerState::On);
    assert_eq!(learn(&ready(), &on, false), Some(PowerState::On));
    assert_eq!(learn(&node(), &on, false), None);
    let mut bootless = ready();
    bootless.boot_id.clear();
    assert_eq!(learn(&bootless, &on, false), None);
    for state in [PowerState::Transitional, PowerState::Unknown] {
        assert_eq!(learn(&ready(), &reading(state), true), None, "{state:?}");
    }
}

/// A machine that has just died leaves its Node Ready: its Off accuses nobody before the kubelet has shown that it lives.
#[test]
fn an_off_accuses_the_device_only_when_the_kubelet_renewed_its_lease() {
    let off = reading(PowerState::Off);
    assert_eq!(learn(&ready(), &off, false), None);
    assert_eq!(learn(&ready(), &off, true), Some(PowerState::Off));
    assert_eq!(learn(&node(), &off, true), None);
    // Each outlet needs its own On: one that is off beside another feeds nothing, or another machine.
    let partly = Reading {
        off_parts: vec!["outlet 2".to_owned()],
        ..reading(PowerState::On)
    };
    assert_eq!(learn(&ready(), &partly, false), None);
    assert_eq!(learn(&ready(), &partly, true), Some(PowerState::Off));
    let faulty = Reading {
        faults: vec!["interlock".to_owned()],
        ..off
    };
    // A BMC that has just restarted beside a machine that runs.
    assert_eq!(learn(&ready(), &faulty, true), Some(PowerState::Off));
}

/// S16: whoever registers a Node chooses its name, and with it the host of a fleet's address.
#[test]
fn the_password_of_a_fleet_is_used_for_no_node_before_it_was_ready() {
    let spec = json!({
        "nodeSelector": {}, "redfish": {"address": "https://${node.name}.bmc"}, "credentialsRef": {"name": "bmc"},
    });
    let fleet = FenceDevice::new("bmc", serde_json::from_value(spec).expect("a spec"));
    let silent = node();
    assert!(!may_log_in(&fleet, Some(&silent)));
    assert!(!may_log_in(&fleet, None));
    assert!(may_log_in(&fleet, Some(&ready())));
    let with = |change: &dyn Fn(&mut FenceDeviceStatus)| {
        let mut fleet = fleet.clone();
        change(fleet.status.get_or_insert_default());
        may_log_in(&fleet, Some(&silent))
    };
    // By other settings, and in another boot: it was Ready then.
    assert!(with(
        &|status| status.positive_controls = vec![row(PowerState::Off)]
    ));
    assert!(with(&|status| {
        status.systems = vec![PinnedSystem {
            node_name: silent.name.clone(),
            node_uid: silent.uid.clone(),
            uuid: silent.system_uuid.clone(),
            serial_number: None,
        }];
    }));
    let mut another = row(PowerState::On);
    another.node_uid = "uid-2".to_owned();
    assert!(!with(
        &|status| status.positive_controls = vec![another.clone()]
    ));
    // A human has written down which node it is, or there is no password.
    assert!(may_log_in(&device(row(PowerState::On)), None));
    let mut human = fleet.clone();
    human.spec.credentials_ref = None;
    assert!(may_log_in(&human, Some(&silent)));
}
