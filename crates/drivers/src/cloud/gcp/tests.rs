//! What Compute Engine answers, as short documents of our own, and what is made of it.

mod calls;
mod lists;
mod login;

use super::*;
use fencing_core::fixtures::cases;
use fencing_core::reading::PowerState;
use proptest::prelude::*;
use serde_json::{Value, json};

const NUMBER: &str = "4711000000000000001";
const ADDRESS: &str = "10.0.0.17";
const REQUEST: &str = "0a1b2c3d-4e5f-4071-8203-a4b5c6d7e8f9";

fn node() -> NodeFacts {
    NodeFacts {
        provider_id: "gce://prod-4711/europe-west3-a/worker-1".to_owned(),
        addresses: vec!["10.9.9.9".to_owned(), ADDRESS.to_owned()],
        ..NodeFacts::named("worker-1")
    }
}

fn settings(endpoint: &str) -> GcpDriver {
    let settings = json!({"project": "prod-4711", "endpoint": endpoint});
    serde_json::from_value(settings).expect("settings")
}

fn gcp() -> Gcp {
    settings("https://compute.googleapis.com").provider()
}

/// An instance that is off.
fn off() -> Value {
    json!({
        "id": NUMBER,
        "name": "worker-1",
        "status": "TERMINATED",
        "machineType": "https://www.googleapis.com/compute/v1/projects/prod-4711/zones/europe-west3-a/machineTypes/e2-standard-4",
        "networkInterfaces": [
            {"networkIP": "10.1.0.4"},
            {"networkIP": ADDRESS, "ipv6Address": "fd20:1:2:3::17"},
        ],
        "disks": [{"type": "PERSISTENT"}],
        "scheduling": {"automaticRestart": true, "provisioningModel": "STANDARD"},
        "metadata": {"items": [{"key": "created-by"}]},
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

fn instance(document: &Value) -> Option<Instance> {
    serde_json::from_value(document.clone()).ok()
}

fn reads_off(document: &Value) -> bool {
    instance(document).is_some_and(|it| it.said().is_off())
}

/// Is the instance that of the Node?
fn is_nodes(document: &Value, node: &NodeFacts) -> Result<(), String> {
    let id = gcp().machine(node).expect("an id");
    instance(document).expect("an instance").check(&id)
}

fn operation(kind: &str, status: &str) -> Value {
    json!({
        "name": "operation-1-a", "operationType": kind, "status": status, "targetId": NUMBER, "clientOperationId": REQUEST,
        "selfLink": "https://evil.example.com/operation", "progress": 0,
    })
}

#[test]
fn only_terminated_is_off() {
    assert!(reads_off(&off()));
    let state = |word: &str| {
        let document = with(off(), "/status", Some(word.into()));
        instance(&document).expect("an instance").said().state
    };
    assert_eq!(state("RUNNING"), PowerState::On);
    for between in [
        "PENDING",
        "PROVISIONING",
        "STAGING",
        "PENDING_STOP",
        "STOPPING",
        "SUSPENDING",
        "DEPROVISIONING",
    ] {
        assert_eq!(state(between), PowerState::Transitional, "{between}");
    }
    for unknown in [
        "SUSPENDED",
        "REPAIRING",
        "STOPPED",
        "UNDEFINED_STATUS",
        "terminated",
        "",
    ] {
        assert_eq!(state(unknown), PowerState::Unknown, "{unknown}");
    }
}

#[test]
fn an_instance_of_another_name_or_address_is_another_machine() {
    assert_eq!(is_nodes(&off(), &node()), Ok(()));
    for (address, is_its) in [
        ("10.1.0.4", true),
        ("fd20:1:2:3::17", true),
        ("10.0.0.18", false),
        ("worker-1", false),
    ] {
        let addresses = vec![address.to_owned()];
        let node = NodeFacts {
            addresses,
            ..node()
        };
        assert_eq!(is_nodes(&off(), &node).is_ok(), is_its, "{address}");
    }
    let says = |result: Result<(), String>| result.expect_err("another machine");
    for interfaces in [
        None,
        Some(json!([])),
        Some(json!([{}])),
        // Its pods' addresses, and one that it gives back when it stops.
        Some(
            json!([{"aliasIpRanges": [{"ipCidrRange": "10.0.0.17/32"}], "accessConfigs": [{"natIP": ADDRESS}]}]),
        ),
    ] {
        let elsewhere = with(off(), "/networkInterfaces", interfaces);
        assert!(says(is_nodes(&elsewhere, &node())).contains("no private address"));
    }
    let renamed = with(off(), "/name", Some(json!("worker-2")));
    assert!(says(is_nodes(&renamed, &node())).contains("the name \"worker-2\""));
    for id in [
        "",
        "0",
        "04711",
        "worker-1",
        "4711/stop",
        "18446744073709551616",
    ] {
        let odd = with(off(), "/id", Some(json!(id)));
        assert!(says(is_nodes(&odd, &node())).contains("no number"), "{id}");
    }
}

#[test]
fn the_machine_follows_from_the_provider_id_and_the_nodes_name() {
    let id = |name: &str, provider_id: &str| {
        let provider_id = provider_id.to_owned();
        let node = NodeFacts {
            provider_id,
            ..NodeFacts::named(name)
        };
        gcp().machine(&node).map(|id| id.id)
    };
    let own = "gce://prod-4711/europe-west3-a/worker-1";
    for name in ["worker-1", "worker-1.europe-west3-a.c.prod-4711.internal"] {
        let found = id(name, own).expect("an id");
        assert_eq!(found, "prod-4711/europe-west3-a/worker-1");
    }
    for name in ["worker-10", "worker", "other", ""] {
        let refused = id(name, own).expect_err("another's").to_string();
        assert!(
            refused.contains("not called like this instance"),
            "{refused}"
        );
    }
    let other = id("worker-1", "gce://prod-4712/europe-west3-a/worker-1");
    let other = other.expect_err("another project").to_string();
    assert!(other.contains("`gcp.project` is another one"), "{other}");
    for provider_id in [
        "gce://prod-4711/europe-west3-a/",
        "gce://prod-4711/europe-west3-a",
        "gce:///europe-west3-a/worker-1",
        "gce://prod-4711/europe-west3-a/worker-1/stop",
        "gce://prod-4711/europe-west3-a/worker-1?x",
        "gce://prod-4711/../worker-1",
        "gce://prod-4711/europe-west3-a/4711",
        "gce://prod-4711/Europe/worker-1",
        "prod-4711/europe-west3-a/worker-1",
        "aws:///europe-west3-a/i-0a1b2c3d4e5f60718",
        "",
    ] {
        assert!(id("worker-1", provider_id).is_err(), "{provider_id}");
    }
}

#[test]
fn an_operation_is_followed_if_it_is_that_of_our_request() {
    let read = |value: &Value| serde_json::from_value::<ZoneOperation>(value.clone()).ok();
    let of = |value: &Value| {
        read(value)?
            .of("stop", NUMBER, REQUEST)
            .ok()
            .map(str::to_owned)
    };
    let stop = operation("stop", "RUNNING");
    assert_eq!(of(&stop).as_deref(), Some("operation-1-a"));
    let unsaid = with(stop.clone(), "/clientOperationId", None);
    assert!(of(&unsaid).is_some());
    for (at, value) in [
        ("/operationType", json!("start")),
        ("/operationType", json!("suspend")),
        ("/targetId", json!("4711000000000000002")),
        (
            "/clientOperationId",
            json!("0a1b2c3d-4e5f-4071-8203-a4b5c6d7e8fa"),
        ),
        ("/name", json!("../../instances/db")),
        ("/name", json!("")),
    ] {
        assert_eq!(of(&with(stop.clone(), at, Some(value))), None, "{at}");
    }
    let follow = |value: &Value| read(value).expect("an operation").follow("operation-1-a");
    assert_eq!(follow(&operation("stop", "PENDING")), Follow::Running);
    assert_eq!(follow(&operation("stop", "RUNNING")), Follow::Running);
    let done = operation("stop", "DONE");
    assert_eq!(follow(&done), Follow::Done);
    let failed = json!({"errors": [{"code": "INTERNAL_ERROR", "message": "so it is"}]});
    let failed = with(done.clone(), "/error", Some(failed));
    match follow(&failed) {
        Follow::Failed(words) => assert!(words.contains("INTERNAL_ERROR: so it is"), "{words}"),
        other => panic!("{other:?}"),
    }
    for (at, value) in [
        ("/error", json!({})),
        ("/httpErrorMessage", json!("BAD REQUEST")),
        ("/status", json!("Done")),
        ("/status", json!("")),
        ("/name", json!("operation-2-b")),
    ] {
        let odd = follow(&with(done.clone(), at, Some(value)));
        assert!(matches!(odd, Follow::Failed(_)), "{at}");
    }
}

#[test]
fn people_see_what_makes_another_and_how_long_a_stop_may_take() {
    let of = |document: Value| instance(&document).expect("an instance");
    let restarter = |keys: Value, restarts: bool| {
        let document = with(off(), "/metadata/items", Some(keys));
        let document = with(
            document,
            "/scheduling/automaticRestart",
            Some(restarts.into()),
        );
        of(document).restarter().unwrap_or_default()
    };
    let key = |name: &str| json!([{"key": "startup-script"}, {"key": name}]);
    assert_eq!(
        restarter(key("created-by"), true),
        "a managed instance group"
    );
    let both = json!([{"key": "created-by"}, {"key": "kube-env"}]);
    assert!(restarter(both, false).contains("GKE"));
    assert!(restarter(key("kube-env"), true).contains("automaticRestart"));
    assert_eq!(restarter(key("kube-env"), false), "");

    let model = |at: &str, value: Option<Value>| of(with(off(), at, value)).model();
    let usual = model("/metadata", None);
    assert_eq!(
        usual,
        "e2-standard-4, STANDARD, its guest may delay a stop by 120 s"
    );
    assert!(model("/scheduling/provisioningModel", Some(json!("SPOT"))).contains("30 s"));
    let skips = model("/scheduling/skipGuestOsShutdown", Some(json!(true)));
    assert!(skips.ends_with("stops without its guest"), "{skips}");
    let bare = json!({"id": NUMBER, "name": "worker-1", "status": "RUNNING"});
    assert_eq!(of(bare).model(), "its guest may delay a stop by 120 s");
}

#[test]
fn a_request_has_a_uuid_of_its_own() {
    let (one, other) = (request_id(), request_id());
    assert_ne!(one, other);
    for id in [one, other] {
        assert_eq!(id.len(), 36);
        assert_eq!(id.as_bytes()[14], b'4', "{id}");
        assert!(b"89ab".contains(&id.as_bytes()[19]), "{id}");
        assert!(id.split('-').map(str::len).eq([8, 4, 4, 4, 12]), "{id}");
    }
}

/// Values that a field may have at a version that is not known here.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u64..6).prop_map(Value::from),
        "[A-Z_]{0,12}|TERMINATED|DONE|stop|.{0,8}".prop_map(Value::from),
        Just(json!([])),
        Just(
            json!({"key": "created-by", "type": "SCRATCH", "networkIP": "10.0.0.17", "errors": []})
        ),
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_other_value_of_the_status_is_off(value in any_value()) {
        let is_same = off()["status"] == value;
        prop_assert!(!reads_off(&with(off(), "/status", None)));
        prop_assert_eq!(reads_off(&with(off(), "/status", Some(value))), is_same);
    }

    #[test]
    fn no_other_state_of_an_operation_is_its_end(status in "[A-Z]{0,8}|DONE|.{0,8}", name in "operation-1-a|.{0,8}") {
        let now = with(operation("stop", &status), "/name", Some(name.clone().into()));
        let now: ZoneOperation = serde_json::from_value(now).expect("an operation");
        let is_done = status == "DONE" && name == "operation-1-a";
        prop_assert_eq!(now.follow("operation-1-a") == Follow::Done, is_done);
    }

    #[test]
    fn no_json_panics(one in any_value(), other in any_value()) {
        let _ = instance(&one);
        for at in ["/networkInterfaces", "/disks", "/scheduling", "/metadata", "/machineType", "/id"] {
            for value in [one.clone(), json!([one, other])] {
                if let Some(odd) = instance(&with(off(), at, Some(value))) {
                    let id = gcp().machine(&node()).expect("an id");
                    let _ = (odd.check(&id), odd.restarter(), odd.model(), odd.local_ssds());
                }
            }
        }
        let odd = with(with(operation("stop", "DONE"), "/error", Some(one)), "/targetId", Some(other));
        if let Ok(odd) = serde_json::from_value::<ZoneOperation>(odd) {
            let _ = (odd.of("stop", NUMBER, REQUEST).is_ok(), odd.follow("operation-1-a"));
        }
    }
}
