//! What Proxmox VE answers, as short documents of our own, and what is made of it.

mod calls;
mod role;

use super::super::words::Said;
use super::*;
use crate::error::printable;
use fencing_core::fixtures::cases;
use fencing_core::reading::PowerState;
use proptest::prelude::*;
use serde_json::json;

const UUID: &str = "6f1d8a52-90cf-4a5b-8d63-0b3d5b1f7e21";
const TASK: &str = "UPID:pve2:0000A1B2:00C3D4E5:69290000:qmstop:104:fence@pve!operator:";

fn owner() -> Owner {
    Owner {
        node: "pve2".to_owned(),
        vm: 104,
    }
}

/// A VM that is off, as its node says.
fn stopped() -> Value {
    json!({"data": {"vmid": 104, "name": "worker-1", "status": "stopped", "qmpstatus": "stopped", "ha": {"managed": 0}}})
}

/// A cluster of two nodes.
fn cluster() -> Value {
    json!({"data": [
        {"type": "cluster", "name": "lab", "quorate": 1, "nodes": 2},
        {"type": "node", "name": "pve1", "online": 1, "local": 1},
        {"type": "node", "name": "pve2", "online": 1, "local": 0},
    ]})
}

fn said(status: &Value, cluster: &Value) -> Said {
    facts::said(&json!({"data": {}}), status, cluster, &owner())
}

/// The document with another value there; none: without it.
fn with(mut document: Value, at: &str, value: Option<Value>) -> Value {
    let (parent, name) = at.rsplit_once('/').expect("a path");
    match (document.pointer_mut(parent), value) {
        (Some(Value::Object(fields)), Some(value)) => drop(fields.insert(name.to_owned(), value)),
        (Some(Value::Object(fields)), None) => drop(fields.remove(name)),
        (Some(Value::Array(items)), value) => {
            let place: usize = name.parse().expect("a place");
            items.remove(place);
            items.extend(value);
        }
        _ => panic!("{at} is not there"),
    }
    document
}

#[test]
fn a_token_that_may_audit_a_vm_may_not_stop_it() {
    let may_only_read = |of_vm: Value| facts::may_only_read(&json!({"data": {"/vms/104": of_vm}}));
    assert!(may_only_read(json!({"VM.Audit": 1, "VM.Console": 1})));
    // With the right in the first, a middle and the last place, for this path alone too; and where nothing is listed nothing is known.
    for may in [
        json!({"VM.PowerMgmt": 0}),
        json!({"VM.Audit": 1, "VM.PowerMgmt": 1}),
        json!({"VM.PowerMgmt": 1, "VM.Snapshot": 1}),
        json!({}),
        json!([]),
    ] {
        assert!(!may_only_read(may.clone()), "{may}");
    }
    assert!(!facts::may_only_read(&json!(null)));
}

#[test]
fn high_availability_starts_a_vm_again() {
    assert_eq!(facts::restarter(&stopped()), None);
    let managed = with(
        stopped(),
        "/data/ha",
        Some(json!({"managed": 1, "state": "stopped"})),
    );
    assert_eq!(facts::restarter(&managed).as_deref(), Some("Proxmox HA"));
}

#[test]
fn a_stopped_vm_of_a_healthy_cluster_is_off() {
    assert!(said(&stopped(), &cluster()).is_off());
    let texts = with(stopped(), "/data/vmid", Some(json!("104")));
    assert!(said(&texts, &cluster()).is_off());
    let alone = json!({"data": [{"type": "node", "name": "pve2", "online": 1}]});
    assert!(said(&stopped(), &alone).is_off());
    for state in ["stopped", "disabled", "ignored"] {
        let ha = json!({"managed": 1, "state": state});
        assert!(said(&with(stopped(), "/data/ha", Some(ha)), &cluster()).is_off());
    }
    let running = with(stopped(), "/data/status", Some(json!("running")));
    assert_eq!(said(&running, &cluster()).state, PowerState::On);
}

#[test]
fn each_condition_has_a_name() {
    let vm = |at: &str, value: Value| (with(stopped(), at, Some(value)), cluster());
    let cluster_with = |at: &str, value: Option<Value>| (stopped(), with(cluster(), at, value));
    for ((status, cluster), fault) in [
        (vm("/data/lock", json!("suspended")), "lock suspended"),
        (vm("/data/lock", json!("migrate")), "lock migrate"),
        (vm("/data/lock", json!("")), "lock "),
        (vm("/data/qmpstatus", json!("paused")), "process paused"),
        (
            (with(stopped(), "/data/qmpstatus", None), cluster()),
            "process missing",
        ),
        (
            vm("/data/ha", json!({"managed": 1, "state": "started"})),
            "HA state started",
        ),
        (
            vm("/data/ha", json!({"managed": 1, "state": "fence"})),
            "HA state fence",
        ),
        (vm("/data/ha", json!({"managed": 1})), "HA state missing"),
        (vm("/data/ha", json!({})), "no HA state"),
        (vm("/data/ha", json!({"managed": 2})), "no HA state"),
        (
            cluster_with("/data/0/quorate", Some(json!(0))),
            "no quorum of the cluster",
        ),
        (
            cluster_with("/data/0/quorate", None),
            "no quorum of the cluster",
        ),
        (cluster_with("/data/0", None), "no quorum of the cluster"),
        (
            cluster_with("/data/2/online", Some(json!(0))),
            "node pve2 not online",
        ),
        (cluster_with("/data/2", None), "node pve2 not online"),
    ] {
        let said = said(&status, &cluster);
        assert_eq!(
            (said.state, said.faults),
            (PowerState::Off, vec![fault.to_owned()])
        );
    }
}

/// `qm unlock` takes the lock of a hibernated VM alone: its next start loads the memory of before.
#[test]
fn memory_that_is_kept_without_a_lock_is_no_off() {
    for (config, faults) in [
        (
            json!({"data": {"vmstate": "local:vm-104-state-suspend"}}),
            1,
        ),
        (json!({"data": {"lock": "suspended"}}), 1),
        (json!({"data": {"lock": "backup", "name": "worker-1"}}), 0),
    ] {
        let said = facts::said(&config, &stopped(), &cluster(), &owner());
        assert_eq!(said.faults.len(), faults, "{config}: {:?}", said.faults);
        assert_eq!(facts::keeps_memory(&config), faults == 1);
    }
}

#[test]
fn the_machine_follows_from_the_node_alone() {
    let provider = Proxmox {
        region: Some("lab".to_owned()),
    };
    let id = |provider_id: &str, system_uuid: &str| {
        let node = NodeFacts {
            provider_id: provider_id.to_owned(),
            system_uuid: system_uuid.to_owned(),
            ..NodeFacts::named("worker-1")
        };
        provider.machine(&node).map(|id| id.id).ok()
    };
    assert_eq!(id("proxmox://lab/104", "").as_deref(), Some("104"));
    let upper = format!("proxmox://{}", UUID.to_uppercase());
    assert_eq!(id(&upper, "").as_deref(), Some(UUID));
    assert_eq!(id("", UUID).as_deref(), Some(UUID));
    for other in [
        "proxmox://other/104",
        "proxmox://lab/99",
        "proxmox://lab/+104",
        "proxmox://lab/104/5",
        "proxmox://lab/",
        "proxmox://104",
        "proxmox://",
        "openstack:///6f1d8a52-90cf-4a5b-8d63-0b3d5b1f7e21",
        "104",
    ] {
        assert_eq!(id(other, UUID), None, "{other}");
    }
    assert_eq!(id("", "00000000-0000-0000-0000-000000000000"), None);
}

#[test]
fn the_list_says_only_where_to_ask() {
    let list = json!({"data": [
        {"type": "qemu", "vmid": 104, "node": "pve2", "name": "worker-1", "status": "stopped"},
        {"type": "qemu", "vmid": 105, "node": "pve1", "name": "worker-1"},
        {"type": "lxc", "vmid": 106, "node": "pve1", "name": "worker-1"},
        {"type": "qemu", "vmid": 107, "node": "../pve1", "name": "worker-1"},
    ]});
    let of = |id: &str| {
        let id = MachineId::of(&NodeFacts::named("worker-1"), id.to_owned());
        let listed = facts::list(list.to_string().as_bytes()).expect("a list");
        let found = listed.into_iter().filter(|it| it.may_be(&id));
        found.map(|it| it.owner).collect::<Vec<_>>()
    };
    assert_eq!(of("104"), [owner()]);
    assert_eq!(of("106"), [], "a container");
    assert_eq!(of("107"), [], "no name of a node");
    assert_eq!(of(UUID).len(), 2, "both are asked for their UUID");
}

#[test]
fn a_task_is_followed_on_the_same_node_only() {
    let path = |task: &str| facts::task_path(&json!({"data": task}), &owner().path()).ok();
    assert_eq!(path(TASK), Some(format!("/nodes/pve2/tasks/{TASK}/status")));
    assert_eq!(path(&TASK.replace("pve2", "pve1")), None);
    assert_eq!(path(&format!("{TASK}/../x")), None);
    assert_eq!(path(""), None);
    let task = |status: &str, end: Value| {
        facts::task(&json!({"data": {"status": status, "exitstatus": end}}))
    };
    assert_eq!(task("running", Value::Null), Follow::Running);
    assert_eq!(task("stopped", json!("OK")), Follow::Done);
    assert_eq!(task("stopped", json!("WARNINGS: 1")), Follow::Done);
    for end in [json!("VM is locked (backup)"), json!("ok"), Value::Null] {
        assert!(matches!(task("stopped", end), Follow::Failed(_)));
    }
    assert!(matches!(facts::task(&json!([])), Follow::Failed(_)));
}

const WORDS: [&str; 7] = [
    "stopped",
    "running",
    "suspended",
    "cluster",
    "node",
    "pve2",
    "started",
];
const NAMES: [&str; 11] = [
    "data",
    "status",
    "qmpstatus",
    "lock",
    "ha",
    "managed",
    "state",
    "type",
    "quorate",
    "online",
    "name",
];

/// Any JSON, with the names and words that matter among its own.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u64..3).prop_map(Value::from),
        prop::sample::select(&WORDS[..]).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        let name = prop::sample::select(&NAMES[..]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map(name, inner, 0..6).prop_map(|map| map
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

/// Every place of a document that is needed for an Off.
const NEEDED: [&str; 4] = [
    "/data/status",
    "/data/qmpstatus",
    "/data/ha",
    "/data/ha/managed",
];
const NEEDED_OF_CLUSTER: [&str; 6] = [
    "/data/0/quorate",
    "/data/0/type",
    "/data/2/online",
    "/data/2/name",
    "/data/2/type",
    "/data/2",
];

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_other_status_is_off(word in "[Ss]topp?ed ?|[a-z]{0,10}|.{0,12}") {
        let status = with(stopped(), "/data/status", Some(word.clone().into()));
        prop_assert_eq!(said(&status, &cluster()).is_off(), word == "stopped");
        prop_assert_eq!(said(&status, &cluster()).raw, printable(&word, 63));
    }

    #[test]
    fn no_lock_is_off(lock in any_json()) {
        let is_none = lock.is_null();
        let status = with(stopped(), "/data/lock", Some(lock));
        prop_assert_eq!(said(&status, &cluster()).is_off(), is_none);
    }

    #[test]
    fn nothing_missing_is_off(at in prop::sample::select(&NEEDED[..]), of_cluster in prop::sample::select(&NEEDED_OF_CLUSTER[..]), other in any_json()) {
        prop_assert!(!said(&with(stopped(), at, None), &cluster()).is_off());
        prop_assert!(!said(&stopped(), &with(cluster(), of_cluster, None)).is_off());
        prop_assert!(!said(&stopped(), &other).is_off() || other.pointer("/data").is_some());
        prop_assert!(!said(&other, &cluster()).is_off() || other.pointer("/data/status") == Some(&"stopped".into()));
    }

    #[test]
    fn no_foreign_node_is_off(node in "[a-z0-9]{1,6}|pve[12]") {
        let there = Owner { node: node.clone(), vm: 104 };
        let said = facts::said(&json!({"data": {}}), &stopped(), &cluster(), &there);
        prop_assert_eq!(said.is_off(), node == "pve1" || node == "pve2");
        let other = Owner { node, vm: 105 };
        prop_assert!(facts::check_owner(&stopped(), &other).is_err());
    }

    #[test]
    fn no_ha_state_but_three_is_off(state in "stopped|disabled|ignored|started|error|freeze|[a-z_]{0,12}") {
        let ha = json!({"managed": 1, "state": state});
        let is_off = said(&with(stopped(), "/data/ha", Some(ha)), &cluster()).is_off();
        prop_assert_eq!(is_off, ["stopped", "disabled", "ignored"].contains(&state.as_str()));
    }

    #[test]
    fn no_json_panics(one in any_json(), other in any_json()) {
        let _ = (said(&one, &other), facts::identity(&one), facts::task(&one), facts::task_path(&one, &owner().path()));
    }
}
