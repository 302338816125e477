//! What Hetzner Cloud answers, as short documents of our own, and what is made of it.

mod calls;

use super::*;
use fencing_core::fixtures::cases;
use fencing_core::reading::PowerState;
use proptest::prelude::*;
use serde_json::{Value, json};

const ID: u64 = 4711;
const ADDRESS: &str = "10.0.0.17";

fn node() -> NodeFacts {
    NodeFacts {
        provider_id: format!("hcloud://{ID}"),
        addresses: vec!["10.9.9.9".to_owned(), ADDRESS.to_owned()],
        ..NodeFacts::named("worker-1")
    }
}

/// A server that is off.
fn off() -> Value {
    json!({
        "id": ID,
        "name": "worker-1",
        "status": "off",
        "locked": false,
        "rescue_enabled": false,
        "public_net": {"ipv4": {"ip": "192.0.2.7"}, "ipv6": {"ip": "2001:db8:1:2::/64"}, "floating_ips": []},
        "private_net": [{"network": 3, "ip": ADDRESS, "alias_ips": []}],
        "server_type": {"id": 22, "name": "cpx31", "prices": []},
        "location": {"name": "fsn1"},
    })
}

fn action(id: u64, command: &str, status: &str) -> Value {
    json!({
        "id": id, "command": command, "status": status, "progress": 100,
        "error": {"code": "action_failed", "message": "Action failed"},
        "resources": [{"id": 3, "type": "volume"}, {"id": ID, "type": "server"}],
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

fn server(document: &Value) -> Option<Server> {
    serde_json::from_value(document.clone()).ok()
}

fn reads_off(document: &Value) -> bool {
    server(document).is_some_and(|server| server.said().is_off())
}

fn against(actions: &[Value]) -> Option<String> {
    let actions: Vec<Action> = serde_json::from_value(actions.into()).expect("actions");
    facts::against_off(&actions)
}

/// Is the server that of the Node?
fn is_nodes(document: &Value, node: &NodeFacts) -> Result<(), String> {
    let id = HetznerCloud.machine(node).expect("an id");
    server(document).expect("a server").check(&id)
}

#[test]
fn only_off_without_a_lock_is_off() {
    assert!(reads_off(&off()));
    let locked = server(&with(off(), "/locked", Some(json!(true)))).expect("a server");
    assert_eq!(locked.said().faults, ["locked"]);
    let state = |word: &str| {
        let server = server(&with(off(), "/status", Some(word.into())));
        server.expect("a server").said().state
    };
    assert_eq!(state("running"), PowerState::On);
    for between in ["starting", "stopping"] {
        assert_eq!(state(between), PowerState::Transitional, "{between}");
    }
    for unknown in [
        "initializing",
        "migrating",
        "rebuilding",
        "deleting",
        "unknown",
        "Off",
        "",
    ] {
        assert_eq!(state(unknown), PowerState::Unknown, "{unknown}");
    }
}

#[test]
fn off_needs_a_power_off_that_is_the_last_thing_done_to_the_power() {
    let stop = |status: &str| action(7, "stop_server", status);
    assert_eq!(against(&[stop("success")]), None);
    // Storage and load balancers go on while a node is fenced.
    let detach = action(9, "detach_volume", "running");
    let target = action(8, "remove_target", "success");
    let before = action(6, "start_server", "success");
    assert_eq!(
        against(&[detach.clone(), target, stop("success"), before]),
        None
    );
    for (actions, fault) in [
        (vec![], "no power-off among its actions"),
        (vec![detach], "no power-off among its actions"),
        (vec![stop("running")], "action stop_server running"),
        (vec![stop("error")], "action stop_server error"),
        // Which ends before the guest has.
        (
            vec![action(7, "shutdown_server", "success")],
            "action shutdown_server success",
        ),
        // Whatever the order of the list.
        (
            vec![stop("success"), action(8, "start_server", "success")],
            "action start_server success",
        ),
        (
            vec![action(8, "rebuild_server", "success"), stop("success")],
            "action rebuild_server success",
        ),
        (
            vec![action(8, "not_heard_of", "success"), stop("success")],
            "action not_heard_of success",
        ),
        (
            vec![stop("success"), action(6, "migrate_server", "running")],
            "action migrate_server running",
        ),
    ] {
        assert_eq!(against(&actions).as_deref(), Some(fault));
    }
}

#[test]
fn a_server_of_another_id_name_or_address_is_another_machine() {
    assert_eq!(is_nodes(&off(), &node()), Ok(()));
    let upper = with(off(), "/name", Some(json!("Worker-1")));
    assert_eq!(is_nodes(&upper, &node()), Ok(()));
    for (address, is_its) in [
        ("192.0.2.7", true),
        ("2001:db8:1:2::1", true),
        ("192.0.2.8", false),
        ("2001:db8:1:3::1", false),
        ("worker-1", false),
    ] {
        let addresses = vec![address.to_owned()];
        let node = NodeFacts {
            addresses,
            ..node()
        };
        assert_eq!(is_nodes(&off(), &node).is_ok(), is_its, "{address}");
    }
    let nowhere = NodeFacts {
        addresses: Vec::new(),
        ..node()
    };
    let says = |result: Result<(), String>| result.expect_err("another machine");
    assert!(says(is_nodes(&off(), &nowhere)).contains("no address"));
    let renamed = with(off(), "/name", Some(json!("worker-2")));
    assert!(says(is_nodes(&renamed, &node())).contains("the name \"worker-2\""));
    let other = with(off(), "/id", Some(json!(4712)));
    assert!(says(is_nodes(&other, &node())).contains("the id 4712"));
}

#[test]
fn the_machine_follows_from_the_provider_id_alone() {
    let id = |provider_id: &str| {
        let provider_id = provider_id.to_owned();
        let node = NodeFacts {
            provider_id,
            ..node()
        };
        HetznerCloud.machine(&node).map(|id| id.id).ok()
    };
    assert_eq!(id("hcloud://4711").as_deref(), Some("4711"));
    for other in [
        "hcloud://bm-4711",
        "hrobot://4711",
        "hcloud://",
        "hcloud://0",
        "hcloud://04711",
        "hcloud://+4711",
        "hcloud://4711/",
        "hcloud://4711?x",
        "hcloud://99999999999999999999",
        "4711",
        "",
    ] {
        assert_eq!(id(other), None, "{other}");
    }
}

#[test]
fn an_action_is_followed_if_it_is_one_of_the_server() {
    let of = |value: &Value| serde_json::from_value::<Action>(value.clone()).expect("an action");
    let stop = action(13, "stop_server", "running");
    assert_eq!(of(&stop).path("4711").as_deref(), Ok("/v1/actions/13"));
    assert!(of(&stop).path("4712").is_err());
    assert!(of(&stop).path("3").is_err(), "that is a volume");
    for resources in [json!([]), json!(null), json!([{"type": "server"}])] {
        assert!(
            of(&with(stop.clone(), "/resources", Some(resources)))
                .path("4711")
                .is_err()
        );
    }
    let follow = |status: &str| of(&action(13, "stop_server", status)).follow("/v1/actions/13");
    assert_eq!(follow("running"), Follow::Running);
    assert_eq!(follow("success"), Follow::Done);
    for status in ["error", "Success", ""] {
        assert!(matches!(follow(status), Follow::Failed(_)), "{status}");
    }
    let another = of(&action(14, "stop_server", "success")).follow("/v1/actions/13");
    assert!(matches!(another, Follow::Failed(_)));
}

/// Values that a field may have at a version that is not known here.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u64..6).prop_map(Value::from),
        "[a-z_]{0,12}|off|stop_server|success|.{0,8}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({"off": true, "ip": "10.0.0.17", "type": "server", "id": 4711})),
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_other_value_of_a_field_is_off(name in prop::sample::select(&["/status", "/locked"][..]), value in any_value()) {
        let is_same = off().pointer(name) == Some(&value);
        prop_assert!(!reads_off(&with(off(), name, None)), "without {}", name);
        prop_assert_eq!(reads_off(&with(off(), name, Some(value))), is_same);
    }

    #[test]
    fn no_other_action_is_a_power_off(command in "[a-z]{3,8}_server|stop_server|.{0,8}", status in "success|error|running|.{0,8}") {
        let is_off = command == "stop_server" && status == "success";
        prop_assert_eq!(against(&[action(1, &command, &status)]).is_none(), is_off);
    }

    #[test]
    fn no_json_panics(one in any_value(), other in any_value()) {
        let _ = server(&one);
        let nets = with(with(off(), "/public_net", Some(one.clone())), "/private_net", Some(json!([one, other])));
        let _ = is_nodes(&nets, &node());
        let odd = with(with(action(1, "x", "y"), "/resources", Some(json!([one, other]))), "/error", Some(other));
        let odd: Action = serde_json::from_value(odd).expect("an action");
        let _ = (odd.path("4711"), odd.follow("/v1/actions/1"));
    }
}
