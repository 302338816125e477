//! Devices of a fleet: many nodes in one status.

use super::*;
use fencing_api::device::IdentityCheck;

fn of_fleet() -> FenceDevice {
    device(json!({"nodeSelector": {}, "redfish": {"address": "https://${node.name}-bmc"}}))
}

#[test]
fn a_fleet_counts_and_names_those_that_are_not_ready() {
    let good = found(node("w1", OURS, "True"), answer(OURS));
    let silent = found(node("w2", OTHER, "True"), Err(silence()));
    let rows = [row("w1", Some(&good)), row("w2", Some(&silent))];
    let status = render(&of_fleet(), &rows, |_, _| true, wall(100));
    assert_eq!(shown(&status, READY), "False/Timeout");
    assert!(
        message(&status, READY).starts_with("1 of 2 nodes: w2: "),
        "{}",
        message(&status, READY)
    );
    assert_eq!(shown(&status, CREDENTIALS_VALID), "Unknown/Timeout");
    assert_eq!(status.nodes, Some(DeviceNodes { total: 2, ready: 1 }));
    assert_eq!(status.not_ready_nodes, ["w2"]);
    assert_eq!(status.systems.len(), 1);
    assert_eq!((status.power_state, status.system), (None, None));
}

/// Whoever asks for a probe of a fleet is answered when each node was looked at, but those that nobody looks at in their incident.
#[test]
fn a_fleet_was_probed_when_the_last_of_its_nodes_was() {
    let at = |name, second| Finding {
        at: wall(second),
        ..found(node(name, OURS, "True"), Err(silence()))
    };
    let (early, late) = (at("w1", 10), at("w2", 90));
    let probed = |fenced| {
        let one = Row {
            fenced,
            ..row("w1", Some(&early))
        };
        let rows = [one, row("w2", Some(&late))];
        render(&of_fleet(), &rows, |_, _| true, wall(100)).last_probe_time
    };
    assert_eq!(probed(false), Some(wall(10)));
    assert_eq!(probed(true), Some(wall(90)));
}

#[test]
fn a_fleet_that_selects_nothing_says_so() {
    let status = render(&of_fleet(), &[], |_, _| true, wall(100));
    assert_eq!(shown(&status, READY), "Unknown/NoNodes");
}

#[test]
fn a_fleet_waits_for_its_first_round_but_pins_at_once() {
    let one = found(node("w1", OURS, "True"), answer(OURS));
    let two = found(node("w2", OTHER, "True"), answer(OTHER));
    let mut device = of_fleet();
    let all = [row("w1", Some(&one)), row("w2", Some(&two))];
    device.status = Some(render(&device, &all, |_, _| true, wall(100)));
    // Another process has taken over, and has looked at w2 and a new w3 only.
    let three = found(node("w3", OURS, "True"), answer(OURS));
    let some = [
        row("w1", None),
        row("w2", Some(&two)),
        row("w3", Some(&three)),
    ];
    let status = render(&device, &some, |_, _| true, wall(200));
    assert_eq!(status.systems.len(), 3);
    assert_eq!(status.nodes, Some(DeviceNodes { total: 2, ready: 2 }));
}

/// What a fleet of one node too many says; without identities where they are not checked.
fn of_a_node_too_many(device: &FenceDevice) -> FenceDeviceStatus {
    let uuid = |index: usize| format!("00000000-0000-4000-8000-{index:012x}");
    let name = |index: usize| format!("w{index:04}");
    let findings: Vec<(String, Finding)> = (1..=PINS_MAX + 1)
        .map(|index| {
            let node = node(&name(index), &uuid(index), "True");
            (name(index), found(node, answer(&uuid(index))))
        })
        .collect();
    let rows: Vec<Row<'_>> = findings
        .iter()
        .map(|(name, finding)| row(name, Some(finding)))
        .collect();
    let status = render(device, &rows, |_, _| true, wall(100));
    assert_eq!(status.not_ready_nodes, [name(PINS_MAX + 1)]);
    assert_eq!(shown(&status, READY), "False/TooManyNodes");
    status
}

#[test]
fn a_fleet_holds_a_thousand_identities_and_says_which_found_no_room() {
    assert_eq!(of_a_node_too_many(&of_fleet()).systems.len(), PINS_MAX);
}

#[test]
fn a_fleet_whose_identities_are_not_checked_says_which_node_has_no_room_for_its_on() {
    let mut device = of_fleet();
    device.spec.identity_check = IdentityCheck::Skip;
    let status = of_a_node_too_many(&device);
    assert_eq!(
        (status.systems.len(), status.positive_controls.len()),
        (0, PINS_MAX)
    );
}

/// HOLES D3: who owns a node chooses its labels, and by them the Secret that is sent to its BMC.
#[test]
fn a_fleet_that_its_nodes_choose_by_a_label_is_warned_of() {
    let one = found(node("w1", OURS, "True"), answer(OURS));
    let of = |labels: Value, finding: &Finding| {
        let device = device(json!({
            "nodeSelector": {"matchLabels": labels}, "redfish": {"address": "https://${node.name}-bmc"},
        }));
        render(&device, &[row("w1", Some(finding))], |_, _| true, wall(100))
    };
    let protected = of(json!({"node-restriction.kubernetes.io/vendor": "a"}), &one);
    assert_eq!(shown(&protected, READY), "True/Probed");
    let own = of(json!({"vendor": "a"}), &one);
    assert_eq!(shown(&own, READY), "True/UnprotectedLabel");
    let words = message(&own, READY);
    assert!(words.starts_with("1 of 1 nodes; warning: "), "{words}");
    assert!(words.contains("label `vendor`"), "{words}");
    // What stands in the way comes first.
    let silent = found(node("w1", OURS, "True"), Err(silence()));
    let own = of(json!({"vendor": "a"}), &silent);
    assert_eq!(shown(&own, READY), "False/Timeout");
}

#[test]
fn what_turns_a_machine_on_again_stands_there_until_it_does_no_more() {
    let by = |restarter: Option<&str>| {
        answer(OURS).map(|probe| Probe {
            restarter: restarter.map(str::to_owned),
            ..probe
        })
    };
    let shown = |status: &FenceDeviceStatus| {
        let rows = status.restarters.iter();
        rows.map(|it| format!("{}: {}", it.node_name, it.by))
            .collect::<Vec<_>>()
    };
    let mut device = of_fleet();
    let mut after = |outcome| {
        let finding = found(node("w1", OURS, "True"), outcome);
        let other = found(node("w2", OTHER, "True"), answer(OTHER));
        let rows = [row("w1", Some(&finding)), row("w2", Some(&other))];
        let status = render(&device, &rows, |_, _| true, wall(100));
        device.status = Some(status.clone());
        shown(&status)
    };
    assert_eq!(after(by(Some("Proxmox HA"))), ["w1: Proxmox HA"]);
    assert_eq!(
        after(Err(silence())),
        ["w1: Proxmox HA"],
        "silence says nothing of it"
    );
    assert!(after(by(None)).is_empty());
}

#[test]
fn pins_of_nodes_that_are_gone_go() {
    let mut device = of_w1();
    device.status = Some(after(
        &device,
        &found(node("w1", OURS, "True"), answer(OURS)),
    ));
    let status = render(&device, &[], |_, _| false, wall(200));
    assert!(status.systems.is_empty());
    assert_eq!(shown(&status, READY), "Unknown/NodeNotFound");
    assert_eq!(status.nodes, Some(DeviceNodes { total: 0, ready: 0 }));
}
