use super::*;
use crate::observed::ConditionView;
use fencing_api::device::FenceDeviceStatus;
use serde_json::json;

const OURS: &str = "4c4c4544-0035-4a10-8052-b7c04f503433";
/// The same machine, first three fields in the other byte order.
const OURS_SMBIOS: &str = "44454C4C-3500-104A-8052-B7C04F503433";
const OTHER: &str = "11111111-2222-3333-4444-555555555555";
const ZEROS: &str = "00000000-0000-0000-0000-000000000000";

fn node(system_uuid: &str, ready: &str) -> NodeView {
    NodeView {
        name: "w1".to_owned(),
        uid: "u1".to_owned(),
        labels: BTreeMap::new(),
        annotation_keys: Vec::new(),
        unschedulable: false,
        taints: Vec::new(),
        conditions: vec![ConditionView {
            kind: "Ready".to_owned(),
            status: ready.to_owned(),
            transition: String::new(),
            heartbeat: String::new(),
        }],
        boot_id: "b1".to_owned(),
        system_uuid: system_uuid.to_owned(),
        provider_id: String::new(),
        addresses: Vec::new(),
        volumes_attached: 0,
        reported_early: false,
        resource_version: String::new(),
        finalizers: Vec::new(),
        deleting: false,
    }
}

fn device(check: &str, pin: Option<&str>) -> FenceDevice {
    let bmc = json!({"address": "127.0.0.1"});
    let spec = json!({"nodeName": "w1", "identityCheck": check, "ipmi": bmc});
    let mut device = FenceDevice::new("bmc", serde_json::from_value(spec).expect("a spec"));
    device.status = Some(FenceDeviceStatus {
        systems: pin
            .map(|uuid| PinnedSystem {
                uuid: uuid.to_owned(),
                ..pin_of(&node(OURS, "True"), &Identity::default())
            })
            .into_iter()
            .collect(),
        ..FenceDeviceStatus::default()
    });
    device
}

fn says(uuid: Option<&str>) -> Identity {
    Identity {
        system_uuid: uuid.map(str::to_owned),
        serial_number: None,
    }
}

/// One word for a verdict, so that a table fits the page.
fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Verified => "Verified",
        Verdict::Pin(_) => "Pin",
        Verdict::Unchecked(reason, _) | Verdict::Refused(reason, _) => reason,
        Verdict::NotYet(_) => "NotYet",
    }
}

#[test]
fn a_probe_means_what_the_table_says() {
    let (r, b) = ("Required", "BestEffort");
    // check, pinned, the Node's own, Ready, the device says, verdict
    let table = [
        (r, None, OURS, "True", Some(OURS), "Pin"),
        (r, None, OURS, "True", Some(OURS_SMBIOS), "Pin"),
        (b, None, OURS, "True", Some(OURS), "Pin"),
        (r, None, OURS, "Unknown", Some(OURS), "NotYet"),
        (b, None, OURS, "Unknown", Some(OURS), "Verified"),
        (r, None, OURS, "True", Some(OTHER), MISMATCH),
        (b, None, OURS, "True", Some(OTHER), MISMATCH),
        (r, None, ZEROS, "True", Some(OURS), UNUSABLE),
        (b, None, "", "True", Some(OURS), "NotComparable"),
        (r, None, OURS, "True", None, UNUSABLE),
        (b, None, OURS, "True", None, "NotNamed"),
        (r, None, ZEROS, "True", Some(ZEROS), UNUSABLE),
        (b, None, ZEROS, "True", Some(ZEROS), UNUSABLE),
        (r, Some(OURS), OURS, "True", Some(OURS_SMBIOS), "Verified"),
        (r, Some(OURS), OURS, "Unknown", Some(OURS), "Verified"),
        (r, Some(OURS), "", "True", Some(OURS), "Verified"),
        (r, Some(OURS), OURS, "True", Some(OTHER), MISMATCH),
        (r, Some(OURS), OURS, "True", None, UNUSABLE),
        (b, Some(OURS), OURS, "True", None, "NotNamed"),
        // The mainboard was replaced: Node and device agree on the new one, and the Node is Ready.
        (r, Some(OURS), OTHER, "True", Some(OTHER), "Pin"),
        (r, Some(OURS), OTHER, "Unknown", Some(OTHER), MISMATCH),
        // The node moved to another machine, and the device still controls the old one.
        (r, Some(OURS), OTHER, "True", Some(OURS), MISMATCH),
        ("Skip", Some(OURS), OURS, "True", Some(OTHER), "Skipped"),
    ];
    for row @ (check, pin, own, ready, said, expected) in table {
        let verdict = judge(&device(check, pin), &node(own, ready), &says(said));
        assert_eq!(word(&verdict), expected, "{row:?}: {verdict:?}");
    }
}

/// A provider that is asked for the UUID that the kubelet reports finds that machine, whoever's it is.
#[test]
fn a_pin_of_an_instance_never_follows_what_the_kubelet_reports() {
    let mut device = device("Required", Some(OURS));
    device.spec.drivers =
        serde_json::from_value(json!({"proxmox": {"address": "https://pve"}})).expect("a driver");
    assert_eq!(device.spec.reads(), Reads::Instance);
    let verdict = judge(&device, &node(OTHER, "True"), &says(Some(OTHER)));
    let Verdict::Refused(MISMATCH, message) = verdict else {
        panic!("{verdict:?}")
    };
    assert!(
        message.contains("create the FenceDevice again"),
        "{message}"
    );
    let first = judge(&unpinned(device), &node(OTHER, "True"), &says(Some(OTHER)));
    assert_eq!(word(&first), "Pin");
}

/// A copy of a VM has the system UUID of its original, and an id of its own.
#[test]
fn an_instance_that_its_provider_calls_otherwise_is_another_machine() {
    let named = |id: Option<&str>| Identity {
        serial_number: id.map(str::to_owned),
        ..says(Some(OURS))
    };
    let pinned = |check: &str, driver: serde_json::Value| {
        let mut device = device(check, Some(OURS));
        device.spec.drivers = serde_json::from_value(driver).expect("a driver");
        let pins = device.status.iter_mut().flat_map(|it| &mut it.systems);
        pins.for_each(|it| it.serial_number = Some("vm-a".to_owned()));
        device
    };
    let vsphere = || json!({"vsphere": {"address": "https://vcenter"}});
    let of = |device: &FenceDevice, id: Option<&str>| {
        let (node, found) = (node(OURS, "True"), named(id));
        let is_it = rule(device, &node).check("vms", &found).is_ok();
        let verdict = judge(device, &node, &found);
        assert_eq!(verdict == Verdict::Verified, is_it, "{verdict:?}");
        assert!(is_it || word(&verdict) == MISMATCH, "{verdict:?}");
        assert!(!rule(device, &node).is_another(&found), "its On counts");
        is_it
    };
    let (required, lenient) = (
        pinned("Required", vsphere()),
        pinned("BestEffort", vsphere()),
    );
    for (id, is_it, is_if_lenient) in [
        (Some("vm-a"), true, true),
        (Some("vm-b"), false, false),
        (None, false, true),
    ] {
        assert_eq!(of(&required, id), is_it, "{id:?}");
        assert_eq!(of(&lenient, id), is_if_lenient, "{id:?}");
    }
    // That of a BMC's machine is for the record alone, and a pin may have none.
    let bmc = pinned("Required", json!({"ipmi": {"address": "127.0.0.1"}}));
    assert!(of(&bmc, Some("SN2")));
    let mut before = required;
    let pins = before.status.iter_mut().flat_map(|it| &mut it.systems);
    pins.for_each(|it| it.serial_number = None);
    assert!(of(&before, Some("vm-b")));
}

fn unpinned(mut device: FenceDevice) -> FenceDevice {
    device.status = None;
    device
}

#[test]
fn a_mismatch_names_every_uuid_and_the_way_out() {
    let verdict = judge(
        &device("Required", Some(OURS)),
        &node(OURS, "True"),
        &says(Some(OTHER)),
    );
    let Verdict::Refused(_, message) = verdict else {
        panic!("{verdict:?}")
    };
    for part in [OURS, OTHER, "w1", "`systemID`"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_pin_holds_the_node_s_spelling_of_what_both_say() {
    let found = Identity {
        system_uuid: Some(OURS_SMBIOS.to_owned()),
        serial_number: Some("SN1".to_owned()),
    };
    let verdict = judge(&device("Required", None), &node(OURS, "True"), &found);
    let pin = PinnedSystem {
        node_name: "w1".to_owned(),
        node_uid: "u1".to_owned(),
        uuid: OURS.to_owned(),
        serial_number: Some("SN1".to_owned()),
    };
    assert_eq!(verdict, Verdict::Pin(pin));
}

#[test]
fn rule_follows_check_and_pin() {
    let is = |uuid: &str| IdentityRule::Is(uuid.to_owned());
    let or_silent = |uuid: &str| IdentityRule::IsOrSilent(uuid.to_owned());
    let table = [
        ("Required", Some(OURS), OURS, is(OURS)),
        ("Required", Some(OURS_SMBIOS), OURS, is(OURS_SMBIOS)),
        ("Required", Some(OURS), "", is(OURS)),
        ("Required", None, OURS, IdentityRule::NotPinned),
        ("BestEffort", Some(OURS), OURS, or_silent(OURS)),
        ("BestEffort", None, OURS, or_silent(OURS)),
        ("BestEffort", None, ZEROS, IdentityRule::Skip),
        ("Skip", Some(OURS), OTHER, IdentityRule::Skip),
    ];
    for (check, pin, own, expected) in table {
        assert_eq!(
            rule(&device(check, pin), &node(own, "Unknown")),
            expected,
            "{check} {pin:?} {own}"
        );
    }
}

#[test]
fn rule_refuses_a_node_that_moved_to_another_machine() {
    for check in ["Required", "BestEffort"] {
        let rule = rule(&device(check, Some(OURS)), &node(OTHER, "Unknown"));
        assert!(
            matches!(&rule, IdentityRule::Refused(why) if why.contains(OURS) && why.contains(OTHER)),
            "{rule:?}"
        );
    }
}

#[test]
fn a_pin_of_another_node_uid_is_none_of_ours() {
    let mut again = node(OURS, "Unknown");
    again.uid = "u2".to_owned();
    assert_eq!(
        rule(&device("Required", Some(OURS)), &again),
        IdentityRule::NotPinned
    );
}

fn wire(device: &str, node: &str, target: Option<&str>, uuid: Option<&str>) -> Wire {
    Wire {
        device: device.to_owned(),
        node: node.to_owned(),
        node_exists: true,
        targets: target.map(str::to_owned).into_iter().collect(),
        uuid: uuid.map(str::to_owned),
        unpinned: None,
    }
}

fn blocked(wires: &[Wire]) -> Vec<(String, String)> {
    duplicates(wires, &Reports::new()).into_keys().collect()
}

#[test]
fn two_nodes_on_one_target_are_both_blocked() {
    let wires = [
        wire("a", "w1", Some("10.0.0.1:443"), None),
        wire("b", "w2", Some("10.0.0.1:443"), None),
        wire("c", "w3", Some("10.0.0.3:443"), None),
    ];
    let found = duplicates(&wires, &Reports::new());
    assert_eq!(found.len(), 2);
    let message = found
        .get(&("a".to_owned(), "w1".to_owned()))
        .expect("blocked");
    assert!(
        message.contains("10.0.0.1:443")
            && message.contains("w2")
            && message.contains("FenceDevice b"),
        "{message}"
    );
}

#[test]
fn one_uuid_pinned_for_two_nodes_blocks_both_in_either_byte_order() {
    let wires = [
        wire("a", "w1", Some("bmc-1:443"), Some(OURS)),
        wire("a", "w2", Some("bmc-2:443"), Some(OURS_SMBIOS)),
        wire("a", "w3", Some("bmc-3:443"), Some(OTHER)),
    ];
    let pair = |node: &str| ("a".to_owned(), node.to_owned());
    assert_eq!(blocked(&wires), [pair("w1"), pair("w2")]);
}

/// S5: which of the two machines answers at the device nobody can say (field case A34).
#[test]
fn a_uuid_that_two_nodes_report_is_pinned_for_neither() {
    let named = |name: &str, uuid: &str| NodeView {
        name: name.to_owned(),
        system_uuid: uuid.to_owned(),
        ..node(OURS, "True")
    };
    let nodes = [
        named("w1", OURS),
        named("w2", OURS_SMBIOS),
        named("w3", OTHER),
        named("w4", "00000000-0000-0000-0000-000000000000"),
        named("w5", "00000000-0000-0000-0000-000000000000"),
    ];
    let unpinned = |device: &str, node: &str, uuid: &str| Wire {
        unpinned: Some(uuid.to_owned()),
        ..wire(device, node, None, None)
    };
    // No other Node has a device.
    let wires = [
        unpinned("a", "w1", OURS),
        unpinned("b", "w3", OTHER),
        unpinned("c", "w4", "00000000-0000-0000-0000-000000000000"),
    ];
    let found = duplicates(&wires, &reports(&nodes));
    let pair = ("a".to_owned(), "w1".to_owned());
    assert_eq!(found.keys().collect::<Vec<_>>(), [&pair]);
    let message = "is reported by Node w2 too; give each machine a UUID of its own";
    assert!(found[&pair].contains(message), "{}", found[&pair]);
    // What was pinned while one reported it stays.
    let pinned = [wire("a", "w1", None, Some(OURS))];
    assert!(duplicates(&pinned, &reports(&nodes)).is_empty());
}

/// S2: a level that needs two supplies does not take one for both, in whatever words.
#[test]
fn what_may_be_one_device_is_one_to_a_level_that_needs_both() {
    let is_one = |one: &[&str], other: &[&str]| {
        let targets = |of: &[&str]| of.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        one_and_the_same(&[("a", targets(one)), ("b", targets(other))]).is_some()
    };
    let (seven, unit_1, unit_2) = ("pdu outlet 7", "pdu outlet 7/unit 1", "pdu outlet 7/unit 2");
    let eight = "pdu outlet 8";
    for (one, other, expected) in [
        (&[seven][..], &[seven][..], true),
        (&[seven], &[unit_1], true),
        (&[unit_2], &[seven], true),
        (&[unit_1], &[unit_2], false),
        (&[seven], &["pdu outlet 70"], false),
        // One outlet, its control in one table and its state in another.
        (&[seven, unit_2], &[seven], true),
        (&[unit_1, unit_2], &[seven, eight], false),
        (&[seven, eight], &[unit_1, unit_2], false),
        (&[unit_1, eight], &[unit_1, "pdu outlet 9"], false),
        (&[], &[], false),
    ] {
        assert_eq!(is_one(one, other), expected, "{one:?} {other:?}");
    }
}

#[test]
fn two_devices_of_one_node_may_share_a_system() {
    let wires = [
        wire("a", "w1", Some("10.0.0.1:443"), Some(OURS)),
        wire("b", "w1", Some("10.0.0.1:443"), Some(OURS)),
        wire("c", "w2", None, None),
        wire("d", "w3", None, None),
    ];
    assert_eq!(blocked(&wires), []);
}

/// HOLES D2: who owns a node and its BMC names the UUID of another one, whose fencing stays as it is.
#[test]
fn a_pin_does_not_follow_its_node_to_the_machine_of_another() {
    let attacker = device("Required", Some(OURS));
    let now = node(OTHER, "True");
    let wire = |node: &str, uuid: &str| Wire {
        device: format!("{node}-bmc"),
        node: node.to_owned(),
        node_exists: true,
        targets: Vec::new(),
        uuid: Some(uuid.to_owned()),
        unpinned: None,
    };
    let wires = [wire("w1", OURS), wire("victim", OTHER)];
    let message = taken(&attacker, &now, &says(Some(OTHER)), &wires).expect("refused");
    for part in [OTHER, "victim", "victim-bmc", OURS] {
        assert!(message.contains(part), "{message}");
    }
    // The old pin stands on both sides, so nothing blocks the victim.
    assert!(matches!(rule(&attacker, &now), IdentityRule::Refused(_)));
    assert!(duplicates(&wires, &Reports::new()).is_empty());
    // A mainboard that nobody else had is followed, and what the node does not report was never a new pin.
    assert_eq!(
        taken(&attacker, &now, &says(Some(OTHER)), &wires[..1]),
        None
    );
    let before = node(OURS, "True");
    assert_eq!(taken(&attacker, &before, &says(Some(OTHER)), &wires), None);
    assert_eq!(taken(&attacker, &before, &says(Some(OURS)), &wires), None);
}
