//! What a cluster with BareMetalHosts answers, as short documents of our own, and what is made of it.

mod calls;
mod who;

use super::facts::HELD;
use super::*;
use fencing_core::fixtures::cases;
use fencing_core::reading::PowerState;
use proptest::prelude::*;
use serde_json::{Value, json};

const UID: &str = "0a1b2c3d-0000-4000-8000-000000000001";

fn node() -> NodeFacts {
    NodeFacts {
        provider_id: "metal3://racks/host-1/machine-1".to_owned(),
        ..NodeFacts::named("worker-1")
    }
}

fn metal3(namespace: Option<&str>, name: Option<&str>) -> Metal3 {
    Metal3 {
        name: name.map(str::to_owned),
        namespace: namespace.map(str::to_owned),
    }
}

fn held(after: &str) -> Value {
    json!(format!("{{\"mode\":\"hard\",\"after\":\"{after}\"}}"))
}

/// A host that is held off by us.
fn off() -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "host-1", "namespace": "racks", "uid": UID, "annotations": {HELD: held("100")}},
        "spec": {"online": true, "consumerRef": {"kind": "Metal3Machine", "name": "machine-1", "namespace": "racks"}},
        "status": {
            "poweredOn": false, "operationalStatus": "OK", "errorMessage": "", "errorCount": 0,
            "provisioning": {"state": "provisioned", "ID": "x"},
            "hardware": {"systemVendor": {"manufacturer": "Dell Inc.", "productName": "R650", "serialNumber": "S1"}},
            "conditions": [{"type": "Manageable", "status": "True"}],
        },
    })
}

/// One that runs.
fn running() -> Value {
    let host = with(off(), "/metadata/annotations", None);
    with(host, "/status/poweredOn", Some(json!(true)))
}

/// The event that baremetal-operator writes once Ironic has taken a power-off.
fn event(version: &str) -> Value {
    json!({
        "metadata": {"name": "PowerOff-x7k2p", "resourceVersion": version},
        "involvedObject": {"kind": "BareMetalHost", "name": "host-1", "namespace": "racks", "uid": UID},
        "reason": "PowerOff", "message": "Host powered off", "type": "Normal",
    })
}

fn with(mut document: Value, at: &str, value: Option<Value>) -> Value {
    let (parent, name) = at.rsplit_once('/').expect("a path");
    let name = name.replace("~1", "/");
    let parent = document.pointer_mut(parent).and_then(Value::as_object_mut);
    let fields = parent.expect("an object");
    match value {
        Some(value) => drop(fields.insert(name, value)),
        None => drop(fields.remove(&name)),
    }
    document
}

fn host(document: &Value) -> Host {
    serde_json::from_value(document.clone()).expect("a host")
}

fn said(document: &Value, events: &[Value]) -> Said {
    let events: Vec<Event> = serde_json::from_value(events.into()).expect("events");
    host(document).said(&events)
}

#[test]
fn off_needs_a_hard_power_off_after_our_annotation() {
    assert!(said(&off(), &[event("101")]).is_off());
    const NONE: &str = "no hard power-off since the annotation";
    for events in [
        vec![],
        // Before the annotation, or at that moment.
        vec![event("99")],
        vec![event("100")],
        vec![event("")],
        // A soft one, which the guest may take its time for.
        vec![with(
            event("101"),
            "/message",
            Some(json!("Host soft powered off")),
        )],
        vec![with(event("101"), "/reason", Some(json!("PowerOn")))],
        vec![with(
            event("101"),
            "/involvedObject/uid",
            Some(json!("another")),
        )],
    ] {
        assert_eq!(said(&off(), &events).faults, [NONE], "{events:?}");
    }
    assert!(said(&off(), &[event("99"), event("101")]).is_off());
}

#[test]
fn off_needs_our_annotation_as_we_write_it() {
    const AT: &str = "/metadata/annotations/reboot.metal3.io~1node-fencing-operator";
    let fault = |value: Option<Value>| said(&with(off(), AT, value), &[event("101")]).faults;
    assert!(fault(Some(held("100"))).is_empty());
    for value in [
        None,
        Some(json!("")),
        Some(json!("{\"mode\":\"hard\"}")),
        Some(json!("{\"mode\":\"soft\",\"after\":\"100\"}")),
        Some(held("")),
        Some(held("0100")),
        Some(held("+100")),
        Some(held("99999999999999999999")),
    ] {
        let faults = fault(value.clone());
        assert_eq!(
            faults.first().map(String::as_str),
            Some("no annotation of this operator"),
            "{value:?}"
        );
    }
    // That of somebody else holds it off, and proves nothing to us.
    let other = with(
        off(),
        "/metadata/annotations",
        Some(json!({"reboot.metal3.io/other": "{\"mode\":\"hard\",\"after\":\"1\"}"})),
    );
    assert!(!said(&other, &[event("101")]).is_off());
}

#[test]
fn whatever_else_is_wrong_with_the_host_speaks_against_an_off() {
    for (at, value, fault) in [
        ("/status/operationalStatus", json!("error"), "status error"),
        (
            "/status/operationalStatus",
            json!("detached"),
            "status detached",
        ),
        (
            "/status/operationalStatus",
            json!("servicing"),
            "status servicing",
        ),
        ("/status/operationalStatus", Value::Null, "status missing"),
        (
            "/status/errorType",
            json!("power management error"),
            "power management error",
        ),
        (
            "/status/provisioning/state",
            json!("deprovisioning"),
            "state deprovisioning",
        ),
        (
            "/status/provisioning/state",
            json!("available"),
            "state available",
        ),
        ("/status/provisioning", Value::Null, "state missing"),
        (
            "/status/conditions",
            json!([{"type": "Manageable", "status": "False"}]),
            "BMC not manageable",
        ),
        ("/spec/disablePowerOff", json!(true), "disablePowerOff"),
        (
            "/metadata/annotations/baremetalhost.metal3.io~1detached",
            json!(""),
            "detached",
        ),
        (
            "/metadata/annotations/baremetalhost.metal3.io~1paused",
            json!(""),
            "paused",
        ),
        (
            "/metadata/deletionTimestamp",
            json!("2026-11-29T00:00:00Z"),
            "being deleted",
        ),
    ] {
        let said = said(&with(off(), at, Some(value)), &[event("101")]);
        assert_eq!(said.faults, [fault], "{at}");
    }
    let external = with(
        off(),
        "/status/provisioning/state",
        Some(json!("externally provisioned")),
    );
    assert!(said(&external, &[event("101")]).is_off());
    for unknown in [
        with(off(), "/status/poweredOn", None),
        with(off(), "/status", None),
    ] {
        assert_eq!(said(&unknown, &[event("101")]).state, PowerState::Unknown);
    }
}

/// Left standing it would turn the host off again whenever it is turned on.
#[test]
fn a_host_that_runs_under_an_order_to_be_off_is_not_simply_on() {
    let of = |document: &Value| {
        let said = said(document, &[event("101")]);
        (said.state, said.raw, said.faults)
    };
    let none = Vec::<String>::new();
    let on = (PowerState::On, "poweredOn true".to_owned(), none.clone());
    assert_eq!(of(&running()), on);
    let held = with(off(), "/status/poweredOn", Some(json!(true)));
    let other = json!({HELD: "{\"mode\":\"soft\"}"});
    let raw = "poweredOn true, held off".to_owned();
    let between = (PowerState::Transitional, raw, none);
    for annotations in [json!({HELD: self::held("100")}), other] {
        let document = with(held.clone(), "/metadata/annotations", Some(annotations));
        assert_eq!(of(&document), between);
    }
    // Those of others are their own.
    let others = json!({"reboot.metal3.io/maintenance": ""});
    assert_eq!(of(&with(held, "/metadata/annotations", Some(others))), on);
}

#[test]
fn a_plan_says_what_a_command_writes() {
    let plan = host(&running()).plan("120");
    assert_eq!(
        plan.patch(false),
        json!({"metadata": {"uid": UID, "annotations": {HELD: "{\"after\":\"120\",\"mode\":\"hard\"}"}}})
    );
    assert_eq!(
        plan.patch(true),
        json!({"metadata": {"uid": UID, "annotations": {HELD: null}}})
    );
    assert!(plan.no_on().is_some(), "nothing is to be taken away");
    // What is under way is not begun anew.
    let again = host(&off()).plan("120");
    assert_eq!(
        again.patch(false)["metadata"]["annotations"][HELD],
        held("100")
    );
    assert_eq!(again.no_on(), None);
    let offline = with(off(), "/spec/online", Some(json!(false)));
    assert!(
        host(&offline)
            .plan("120")
            .no_on()
            .is_some_and(|it| it.contains("spec.online"))
    );
    assert_eq!(plan.refused, None);
    for (at, value, words) in [
        ("/spec/disablePowerOff", json!(true), "disablePowerOff"),
        (
            "/metadata/annotations",
            json!({"baremetalhost.metal3.io/detached": ""}),
            "detached",
        ),
        (
            "/metadata/annotations",
            json!({"baremetalhost.metal3.io/paused": ""}),
            "paused",
        ),
        (
            "/status/provisioning/state",
            json!("inspecting"),
            "inspecting",
        ),
    ] {
        let refused = host(&with(running(), at, Some(value))).plan("120").refused;
        assert!(refused.is_some_and(|it| it.contains(words)), "{at}");
    }
}

#[test]
fn what_turns_it_on_again_is_told() {
    assert_eq!(
        host(&running()).restarter().as_deref(),
        Some("spec.online of the BareMetalHost")
    );
    assert_eq!(
        host(&with(running(), "/spec/online", Some(json!(false)))).restarter(),
        None
    );
    assert_eq!(host(&off()).restarter(), None);
    assert_eq!(host(&running()).model().as_deref(), Some("Dell Inc. R650"));
}

/// Values that a field may have at a version that is not known here.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u64..6).prop_map(Value::from),
        "[a-z ]{0,12}|OK|provisioned|.{0,8}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({"state": "provisioned", "mode": "hard"})),
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_other_value_of_a_field_is_off(
        at in prop::sample::select(&["/status/poweredOn", "/status/operationalStatus", "/status/provisioning/state"][..]), value in any_value(),
    ) {
        let is_same = off().pointer(at) == Some(&value) || at.ends_with("state") && value == json!("externally provisioned");
        let other: Option<Host> = serde_json::from_value(with(off(), at, Some(value))).ok();
        let events: Vec<Event> = serde_json::from_value(json!([event("101")])).expect("events");
        prop_assert_eq!(other.is_some_and(|host| host.said(&events).is_off()), is_same);
    }

    #[test]
    fn no_text_in_our_annotation_panics(text in ".{0,40}|\\{\"mode\":\"hard\",\"after\":\"[0-9]{0,21}\"\\}") {
        let annotations = json!({HELD: text});
        let host = host(&with(off(), "/metadata/annotations", Some(annotations)));
        let _ = (host.said(&[]), host.plan("1"));
    }

    #[test]
    fn no_json_panics(one in any_value(), at in prop::sample::select(&["/status", "/spec", "/metadata", "/status/hardware", "/spec/consumerRef"][..])) {
        let host: Option<Host> = serde_json::from_value(with(off(), at, Some(one))).ok();
        let id = metal3(None, None).machine(&node()).expect("an id");
        let _ = host.map(|it| (it.said(&[]), it.plan("1"), it.check(&id), it.model(), it.restarter()));
    }
}
