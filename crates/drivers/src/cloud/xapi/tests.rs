//! What XAPI answers, as short documents of our own, and what is made of it.

mod calls;

use super::*;
use crate::NodeFacts;
use fencing_core::fixtures::cases;
use fencing_core::reading::PowerState;
use proptest::prelude::*;
use serde_json::Value;

const UUID: &str = "4c4c4544-0042-3510-8054-b4c04f4e4e31";
const POOL: &str = "3679fe1a-d058-4055-b800-d30e1bd2af48";
const REFERENCE: &str = "OpaqueRef:6ef08bce-0bf0-30ff-804f-5f0ee4bbdd13";
const NOTHING: &str = "OpaqueRef:NULL";

fn node() -> NodeFacts {
    NodeFacts {
        provider_id: format!("xenorchestra://{POOL}/{UUID}"),
        ..NodeFacts::named("worker-1")
    }
}

/// A VM that is halted.
fn halted() -> Value {
    json!({
        "uuid": UUID, "name_label": "worker-1", "power_state": "Halted", "resident_on": NOTHING,
        "scheduled_to_be_resident_on": NOTHING, "current_operations": {}, "is_a_template": false,
        "is_a_snapshot": false, "is_control_domain": false, "ha_restart_priority": "",
        "other_config": {"mac_seed": "1"}, "metrics": "OpaqueRef:metrics", "VBDs": ["OpaqueRef:1"],
    })
}

fn with(mut document: Value, name: &str, value: Option<Value>) -> Value {
    let fields = document.as_object_mut().expect("an object");
    match value {
        Some(value) => drop(fields.insert(name.to_owned(), value)),
        None => drop(fields.remove(name)),
    }
    document
}

fn vm(document: &Value) -> Option<Vm> {
    serde_json::from_value(document.clone()).ok()
}

fn reads_off(document: &Value) -> bool {
    vm(document).is_some_and(|vm| vm.said().is_off())
}

/// A name and a second of the minute.
fn messages(all: &[(&str, u32)]) -> Value {
    let message = |(number, (name, second)): (usize, &(&str, u32))| {
        let timestamp = format!("20261129T12:00:{second:02}Z");
        let record = json!({
            "uuid": UUID, "name": name, "priority": 5, "cls": "VM", "obj_uuid": UUID,
            "timestamp": timestamp, "body": "",
        });
        (format!("OpaqueRef:{number}"), record)
    };
    all.iter().enumerate().map(message).collect()
}

fn against(all: &[(&str, u32)]) -> Option<String> {
    let all = serde_json::from_value(messages(all)).expect("messages");
    facts::against_off(&all)
}

#[test]
fn halted_is_off_of_a_vm_that_is_nowhere_and_with_which_nothing_is_done() {
    assert!(reads_off(&halted()));
    let faults = |name: &str, value: Value| {
        let vm = vm(&with(halted(), name, Some(value)));
        vm.expect("a VM").said().faults
    };
    for (name, value, fault) in [
        ("resident_on", json!("OpaqueRef:host"), "resident on a host"),
        ("resident_on", json!(""), "resident on a host"),
        (
            "scheduled_to_be_resident_on",
            json!("OpaqueRef:host"),
            "starts on a host",
        ),
        (
            "current_operations",
            json!({"OpaqueRef:task": "start"}),
            "operation start",
        ),
        (
            "is_a_template",
            json!(true),
            "a template, a snapshot or a control domain",
        ),
        (
            "is_a_snapshot",
            json!(true),
            "a template, a snapshot or a control domain",
        ),
        (
            "is_control_domain",
            json!(true),
            "a template, a snapshot or a control domain",
        ),
    ] {
        assert_eq!(faults(name, value), [fault], "{name}");
    }
    let state = |word: &str| {
        let vm = vm(&with(halted(), "power_state", Some(word.into())));
        vm.expect("a VM").said().state
    };
    assert_eq!(state("Running"), PowerState::On);
    for unknown in ["Suspended", "Paused", "halted", "HALTED", "unknown", ""] {
        assert_eq!(state(unknown), PowerState::Unknown, "{unknown}");
    }
}

#[test]
fn off_needs_a_shutdown_by_a_host_that_is_the_last_thing_done_to_the_power() {
    const STOP: &str = "VM_SHUTDOWN";
    assert_eq!(against(&[(STOP, 9)]), None);
    assert_eq!(against(&[("VM_STARTED", 1), (STOP, 9)]), None);
    // Alarms and snapshots leave the power as it is.
    let beside = ["ALARM", "VM_CLONED", "VM_SNAPSHOTTED"].map(|it| (it, 10));
    assert_eq!(against(&[&[(STOP, 9)], &beside[..]].concat()), None);
    let none = Some("no shutdown by a host since its start");
    assert_eq!(against(&[]).as_deref(), none);
    assert_eq!(against(&beside).as_deref(), none);
    for (all, fault) in [
        // Halted by `power_state_reset`.
        (vec![("VM_STARTED", 1)], "message VM_STARTED"),
        (vec![(STOP, 1), ("VM_STARTED", 2)], "message VM_STARTED"),
        // In one second the order is not known.
        (vec![(STOP, 1), ("VM_STARTED", 1)], "message VM_STARTED"),
        (vec![("VM_RESUMED", 2), (STOP, 1)], "message VM_RESUMED"),
        (vec![(STOP, 1), ("NOT_HEARD_OF", 2)], "message NOT_HEARD_OF"),
    ] {
        assert_eq!(against(&all).as_deref(), Some(fault), "{all:?}");
    }
    for time in ["", "now", "2026", "20261129T12:00", "20261332T12:00:00Z"] {
        let mut odd = messages(&[(STOP, 9)]);
        odd["OpaqueRef:0"]["timestamp"] = json!(time);
        let odd = serde_json::from_value(odd).expect("messages");
        let fault = facts::against_off(&odd);
        assert_eq!(fault.as_deref(), Some("a message without a time"), "{time}");
    }
}

#[test]
fn the_machine_follows_from_the_provider_id_or_the_system_uuid() {
    let id = |provider_id: &str| {
        let node = NodeFacts {
            provider_id: provider_id.to_owned(),
            system_uuid: POOL.to_uppercase(),
            ..NodeFacts::named("worker-1")
        };
        Xapi.machine(&node).map(|id| id.id).ok()
    };
    let own = format!("xenorchestra://{POOL}/{UUID}");
    assert_eq!(id(&own).as_deref(), Some(UUID));
    assert_eq!(id("").as_deref(), Some(POOL));
    for other in [
        format!("xenorchestra://{UUID}"),
        format!("xenorchestra://{POOL}/{UUID}/x"),
        "xenorchestra://".to_owned(),
        format!("xenorchestra://{POOL}/\" or true"),
        format!("nutanix://{UUID}"),
    ] {
        assert_eq!(id(&other), None, "{other}");
    }
}

#[test]
fn a_task_says_how_a_command_ended() {
    let to = |wanted: &str, status: &str, error: &[&str]| {
        let task = json!({"status": status, "error_info": error, "progress": 1.0});
        let task: Task = serde_json::from_value(task).expect("a task");
        task.follow(wanted)
    };
    let of = |status: &str, error: &[&str]| to("halted", status, error);
    for running in ["pending", "cancelling"] {
        assert_eq!(of(running, &[]), Follow::Running, "{running}");
    }
    assert_eq!(of("success", &[]), Follow::Done);
    for failed in ["failure", "cancelled", "Success", ""] {
        assert!(matches!(of(failed, &[]), Follow::Failed(_)), "{failed}");
    }
    for (wanted, actual, is_so) in [
        ("halted", "halted", true),
        ("running", "running", true),
        // A VM that runs was not turned off, whatever else was wrong.
        ("halted", "running", false),
        ("running", "halted", false),
        ("halted", "suspended", false),
        ("running", "paused", false),
    ] {
        let info = ["VM_BAD_POWER_STATE", REFERENCE, "running;paused", actual];
        let ended = to(wanted, "failure", &info);
        let is_already = matches!(ended, Follow::Already(_));
        let has_failed = matches!(ended, Follow::Failed(_));
        assert_eq!(
            (is_already, has_failed),
            (is_so, !is_so),
            "{wanted}, {actual}"
        );
    }
    // Its host has not heard of it.
    for code in [
        "HOST_OFFLINE",
        "OPERATION_BLOCKED",
        "OTHER_OPERATION_IN_PROGRESS",
    ] {
        let refused = of("failure", &[code, "OpaqueRef:host"]);
        assert!(matches!(refused, Follow::Refused(_)), "{code}");
    }
    let lost = of("failure", &["CANNOT_CONTACT_HOST", "OpaqueRef:host"]);
    assert!(matches!(lost, Follow::Failed(_)));
}

#[test]
fn a_master_is_an_address_alone_at_the_port_that_was_asked() {
    let asked = Address::parse("https://10.0.0.2:8443").expect("an address");
    let of = |named: &str| facts::master(&asked, named).ok().map(|it| it.to_string());
    assert_eq!(of("10.0.0.1").as_deref(), Some("10.0.0.1:8443"));
    assert_eq!(of("2001:db8::1").as_deref(), Some("[2001:db8::1]:8443"));
    assert_eq!(
        of("xcp-1.example.com").as_deref(),
        Some("xcp-1.example.com:8443")
    );
    for other in [
        "",
        "10.0.0.1/x",
        "a@b",
        "10.0.0.1:1",
        "a b",
        "10.0.0.1?x",
        "0x0a000001",
    ] {
        assert_eq!(of(other), None, "{other}");
    }
}

#[test]
fn what_starts_a_vm_by_itself_is_named() {
    let of = |priority: &str, config: Value| {
        let vm = with(halted(), "ha_restart_priority", Some(json!(priority)));
        let vm = vm_of(&with(vm, "other_config", Some(config)));
        vm.restarter().unwrap_or_default()
    };
    assert_eq!(of("", json!({})), "");
    assert_eq!(of("", json!({"auto_poweron": "false"})), "");
    for odd in [json!({}), json!(true), json!(null), json!(["true", "x"])] {
        assert_eq!(of("", json!({"auto_poweron": odd, "x": {}})), "", "{odd}");
    }
    assert!(of("", json!({"auto_poweron": "true"})).starts_with("auto_poweron"));
    assert!(of("restart", json!({})).starts_with("HA of the pool (restart)"));
}

fn vm_of(document: &Value) -> Vm {
    vm(document).expect("a VM")
}

/// Values that a field may have at a version that is not known here.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u64..6).prop_map(Value::from),
        "[A-Za-z_]{0,12}|Halted|OpaqueRef:NULL|.{0,8}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({"Halted": true, "x": "start"})),
    ]
}

const FIELDS: [&str; 7] = [
    "power_state",
    "resident_on",
    "scheduled_to_be_resident_on",
    "is_a_template",
    "is_a_snapshot",
    "is_control_domain",
    "current_operations",
];

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_other_value_of_a_field_is_off(name in prop::sample::select(&FIELDS[..]), value in any_value()) {
        let is_same = halted()[name] == value;
        prop_assert!(!reads_off(&with(halted(), name, None)), "without {}", name);
        prop_assert_eq!(reads_off(&with(halted(), name, Some(value))), is_same);
    }

    #[test]
    fn no_other_message_is_a_shutdown(name in "VM_[A-Z]{4,9}|VM_SHUTDOWN|.{0,8}") {
        prop_assert_eq!(against(&[(&name, 1)]).is_none(), name == "VM_SHUTDOWN");
    }

    #[test]
    fn no_json_panics(one in any_value(), other in any_value()) {
        let odd = json!({"x": {"name": one, "timestamp": other}, "status": one, "error_info": [other]});
        let _ = serde_json::from_value::<Messages>(odd.clone()).map(|it| facts::against_off(&it));
        let _ = serde_json::from_value::<Task>(odd).map(|it| it.follow("halted"));
        let _ = facts::master(&Address::parse("https://a").expect("an address"), one.as_str().unwrap_or(""));
    }
}
