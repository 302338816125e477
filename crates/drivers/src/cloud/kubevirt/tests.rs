//! What an infrastructure cluster answers, as short documents of our own, and what is made of it.

mod calls;

use super::*;
use fencing_core::fixtures::cases;
use proptest::prelude::*;
use serde_json::{Value, json};

const UUID: &str = "4c4c4544-0042-3510-8054-b4c04f4e4e01";

fn node() -> NodeFacts {
    NodeFacts {
        provider_id: "kubevirt://worker-1".to_owned(),
        ..NodeFacts::named("worker-1")
    }
}

fn kubevirt() -> Kubevirt {
    Kubevirt {
        namespace: "tenant".to_owned(),
    }
}

/// A virtual machine that is stopped.
fn vm() -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": {"name": "worker-1", "namespace": "tenant", "uid": "vm-1", "resourceVersion": "7"},
        "spec": {"runStrategy": "Halted", "template": {"spec": {"domain": {"firmware": {"uuid": UUID}}}}},
        "status": {"printableStatus": "Stopped"},
    })
}

/// One that runs, and its run.
fn running() -> Value {
    let vm = with(vm(), "/status/printableStatus", Some(json!("Running")));
    with(vm, "/spec/runStrategy", Some(json!("Always")))
}

fn vmi() -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": "worker-1", "uid": "run-1"},
        "spec": {"domain": {"firmware": {"uuid": UUID}}},
        "status": {"phase": "Running", "nodeName": "infra-1"},
    })
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "uid": "pod-1"}})
}

fn infra_node(ready: &str) -> Value {
    json!({
        "kind": "Node", "apiVersion": "v1", "metadata": {"name": "infra-1", "uid": "node-1"}, "spec": {},
        "status": {"nodeInfo": {"systemUUID": UUID}, "conditions": [{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": ready}]},
    })
}

fn with(mut document: Value, at: &str, value: Option<Value>) -> Value {
    let (parent, name) = at.rsplit_once('/').expect("a path");
    let parent = document.pointer_mut(parent).and_then(Value::as_object_mut);
    let fields = parent.expect("an object");
    match value {
        Some(value) => drop(fields.insert(name.to_owned(), value)),
        None => drop(fields.remove(name)),
    }
    document
}

fn of<T: Object>(document: &Value) -> T {
    serde_json::from_value(document.clone()).expect("an object")
}

fn said(vm: &Value, vmi: Option<&Value>) -> Said {
    let instance = vmi.map(of::<Vmi>);
    of::<Vm>(vm).said(instance.as_ref())
}

#[test]
fn only_stopped_without_an_instance_may_be_off() {
    assert!(said(&vm(), None).is_off());
    for phase in ["Succeeded", "Failed", "Unknown", "Running"] {
        let instance = with(vmi(), "/status/phase", Some(json!(phase)));
        let said = said(&vm(), Some(&instance));
        assert_eq!(said.faults, [format!("instance {phase}")]);
    }
    let state = |word: Value| said(&with(vm(), "/status/printableStatus", Some(word)), None).state;
    for word in ["Running", "Migrating"] {
        assert_eq!(state(json!(word)), PowerState::On, "{word}");
    }
    for word in ["Starting", "Stopping", "Provisioning"] {
        assert_eq!(state(json!(word)), PowerState::Transitional, "{word}");
    }
    for word in [
        "Paused",
        "Terminating",
        "CrashLoopBackOff",
        "Unknown",
        "stopped",
        "",
    ] {
        assert_eq!(state(json!(word)), PowerState::Unknown, "{word}");
    }
    let deleted = with(
        vm(),
        "/metadata/deletionTimestamp",
        Some(json!("2026-11-29T00:00:00Z")),
    );
    assert_eq!(
        said(&deleted, None).faults,
        ["virtual machine being deleted"]
    );
    assert!(!said(&with(vm(), "/status", None), None).is_off());
}

#[test]
fn a_pod_may_run_it_by_its_owner_its_annotation_or_its_name() {
    let may_run = |pod: &Value| of::<Pod>(pod).may_run("worker-1");
    let owned = |kind: &str, name: &str| {
        let owner = json!([{"kind": kind, "name": name, "uid": "x"}]);
        with(pod("p"), "/metadata/ownerReferences", Some(owner))
    };
    assert!(may_run(&owned("VirtualMachineInstance", "worker-1")));
    assert!(!may_run(&owned("VirtualMachineInstance", "worker-10")));
    assert!(!may_run(&owned("ReplicaSet", "worker-1")));
    let domain = json!({"kubevirt.io/domain": "worker-1"});
    assert!(may_run(&with(
        pod("p"),
        "/metadata/annotations",
        Some(domain)
    )));
    assert!(may_run(&pod("virt-launcher-worker-1-abcde")));
    for other in [
        "virt-launcher-worker-10-abcde",
        "virt-launcher-worker-1-2-abcde",
        "worker-1",
        "virt-launcher-worker-1-",
    ] {
        assert!(!may_run(&pod(other)), "{other}");
    }
}

#[test]
fn a_node_is_accounted_for_while_it_is_ready_or_was_proven_off() {
    let is = |node: &Value| of::<InfraNode>(node).is_accounted_for();
    assert!(is(&infra_node("True")));
    for status in ["False", "Unknown", "true", ""] {
        assert!(!is(&infra_node(status)), "{status}");
    }
    assert!(!is(&with(infra_node("True"), "/status", None)));
    let tainted = |key: &str| {
        let taints = json!([{"key": key, "effect": "NoExecute"}]);
        with(infra_node("Unknown"), "/spec/taints", Some(taints))
    };
    assert!(is(&tainted("node.kubernetes.io/out-of-service")));
    assert!(!is(&tainted("node.kubernetes.io/unreachable")));
}

#[test]
fn while_it_moves_it_is_in_two_places() {
    let places = |vmi: &Value| facts::joined(of::<Vmi>(vmi).places());
    assert_eq!(places(&vmi()), "infra-1");
    assert_eq!(places(&with(vmi(), "/status/nodeName", None)), "");
    for no_name in ["", "../x", "a,b"] {
        let vmi = with(vmi(), "/status/nodeName", Some(json!(no_name)));
        assert_eq!(places(&vmi), "", "{no_name}");
    }
    let moves = |completed: bool| {
        let migration =
            json!({"sourceNode": "infra-1", "targetNode": "infra-2", "completed": completed});
        with(vmi(), "/status/migrationState", Some(migration))
    };
    assert_eq!(places(&moves(false)), "infra-1,infra-2");
    assert_eq!(places(&moves(true)), "infra-1");
}

#[test]
fn a_pod_without_a_node_may_come_to_any() {
    let on = |spec: Value| with(pod("p"), "/spec", Some(spec));
    let may_be = |pod: &Value| of::<Pod>(pod).may_be_on("infra-1");
    assert!(may_be(&on(json!({"nodeName": "infra-1"}))));
    assert!(!may_be(&on(json!({"nodeName": "infra-2"}))));
    for pod in [pod("p"), on(json!({})), on(json!({"nodeName": ""}))] {
        assert!(may_be(&pod), "{pod}");
    }
}

#[test]
fn the_machine_is_named_by_the_uuid_of_its_firmware() {
    let uuid = |vm: &Value, vmi: Option<&Value>| {
        let instance = vmi.map(of::<Vmi>);
        of::<Vm>(vm).identity(instance.as_ref()).system_uuid
    };
    assert_eq!(uuid(&vm(), None).as_deref(), Some(UUID));
    // What is written into the virtual machine counts from its next start on.
    let other = with(vmi(), "/spec/domain/firmware/uuid", Some(json!("another")));
    assert_eq!(uuid(&vm(), Some(&other)).as_deref(), Some("another"));
    // What Python's uuid.uuid5 makes of the same.
    let without = with(vm(), "/spec/template/spec/domain", None);
    let made = uuid(&without, None).expect("a UUID");
    assert_eq!(made, "80248f33-3a66-52d5-9e26-a4a2f8ea81d9");
    assert_eq!(
        of::<Vm>(&vm()).identity(None).serial_number.as_deref(),
        Some("vm-1")
    );
}

#[test]
fn what_starts_it_again_is_told() {
    let of_spec = |name: &str, value: Value| {
        let spec = with(
            with(vm(), "/spec/runStrategy", None),
            &format!("/spec/{name}"),
            Some(value),
        );
        of::<Vm>(&spec).restarter()
    };
    for strategy in ["Always", "RerunOnFailure", "Once"] {
        assert_eq!(
            of_spec("runStrategy", json!(strategy)),
            Some(format!("runStrategy {strategy}"))
        );
    }
    assert_eq!(
        of_spec("running", json!(true)).as_deref(),
        Some("runStrategy Always")
    );
    for strategy in ["Halted", "Manual"] {
        assert_eq!(of_spec("runStrategy", json!(strategy)), None);
    }
    assert_eq!(of_spec("running", json!(false)), None);
}

#[test]
fn the_machine_follows_from_the_provider_id_alone() {
    let id = |provider_id: &str| {
        let provider_id = provider_id.to_owned();
        let node = NodeFacts {
            provider_id,
            ..node()
        };
        kubevirt().machine(&node).map(|id| id.id).ok()
    };
    assert_eq!(
        id("kubevirt://worker-1").as_deref(),
        Some("tenant/worker-1")
    );
    for other in [
        "kubevirt://",
        "kubevirt://../x",
        "kubevirt://a/b",
        "kubevirt://A",
        "kubevirt://a?b",
        "worker-1",
        "",
    ] {
        assert_eq!(id(other), None, "{other}");
    }
}

/// Values that a field may have at a version that is not known here.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u64..6).prop_map(Value::from),
        "[A-Za-z]{0,12}|Stopped|.{0,8}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({"printableStatus": "Stopped"})),
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_other_word_is_off(word in any_value()) {
        let other = with(vm(), "/status/printableStatus", Some(word.clone()));
        let vm: Option<Vm> = serde_json::from_value(other).ok();
        let is_off = vm.is_some_and(|vm| vm.said(None).is_off());
        prop_assert_eq!(is_off, word == json!("Stopped"));
    }

    #[test]
    fn no_json_panics(one in any_value(), at in prop::sample::select(&["/status", "/spec", "/metadata"][..])) {
        for document in [vm(), vmi(), infra_node("True"), pod("p")] {
            let odd = if document.pointer(at).is_some() { with(document, at, Some(one.clone())) } else { document };
            let vm: Option<Vm> = serde_json::from_value(odd.clone()).ok();
            let vmi: Option<Vmi> = serde_json::from_value(odd.clone()).ok();
            let node: Option<InfraNode> = serde_json::from_value(odd.clone()).ok();
            let pod: Option<Pod> = serde_json::from_value(odd).ok();
            let _ = (vm.map(|it| (it.said(vmi.as_ref()), it.identity(None), it.restarter())), vmi.as_ref().map(|it| it.places().len()));
            let _ = (node.map(|it| it.is_accounted_for()), pod.map(|it| (it.may_run("p"), it.may_be_on("p"))));
        }
    }
}
