//! What Keystone and Nova answer, as short documents of our own, and what is made of it.

mod calls;

use super::*;
use fencing_core::fixtures::cases;
use fencing_core::reading::PowerState;
use proptest::prelude::*;

const ID: &str = "3a0f1c7e-64b2-4f0d-9a55-7d2f3b8c9e10";
const REQUEST: &str = "req-0d1e2f30-aaaa-4bbb-8ccc-1234567890ab";

/// An instance that is off, as a member of its project is shown it.
fn stopped() -> Value {
    json!({"server": {
        "id": ID,
        "name": "worker-1",
        "status": "SHUTOFF",
        "OS-EXT-STS:vm_state": "stopped",
        "OS-EXT-STS:power_state": 4,
        "OS-EXT-STS:task_state": null,
        "flavor": {"original_name": "m1.small"},
    }})
}

fn with(mut document: Value, name: &str, value: Option<Value>) -> Value {
    let server = document.get_mut("server").and_then(Value::as_object_mut);
    let server = server.expect("a server");
    match value {
        Some(value) => drop(server.insert(name.to_owned(), value)),
        None => drop(server.remove(name)),
    }
    document
}

fn actions(all: &[(&str, &str)]) -> Value {
    let action = |(word, time): &(&str, &str)| json!({"action": word, "request_id": REQUEST, "start_time": time});
    json!({"instanceActions": all.iter().map(action).collect::<Vec<_>>()})
}

fn action(word: &str, events: Value) -> Value {
    json!({"instanceAction": {"action": word, "request_id": REQUEST, "events": events}})
}

fn event(result: Value) -> Value {
    json!([{"event": "compute_stop_instance", "result": result}])
}

fn reads_off(document: &Value) -> bool {
    facts::server(document, ID).is_ok_and(|server| server.said.is_off())
}

#[test]
fn an_instance_is_off_by_three_fields_and_its_status() {
    assert!(reads_off(&stopped()));
    for (name, value, fault) in [
        (
            "OS-EXT-STS:task_state",
            json!("powering-off"),
            "task powering-off",
        ),
        ("OS-EXT-STS:power_state", json!(1), "power state 1"),
        ("OS-EXT-STS:power_state", json!("4"), "power state 4"),
        ("status", json!("SHELVED"), "status SHELVED"),
    ] {
        let server = facts::server(&with(stopped(), name, Some(value)), ID).expect("a server");
        assert_eq!(server.said.faults, [fault]);
    }
    let state = |word: &str| {
        let document = with(stopped(), "OS-EXT-STS:vm_state", Some(word.into()));
        facts::server(&document, ID).map(|server| server.said.state)
    };
    assert_eq!(state("active"), Ok(PowerState::On));
    for kept in [
        "paused",
        "suspended",
        "shelved",
        "shelved_offloaded",
        "error",
        "resized",
        "soft-delete",
    ] {
        assert_eq!(state(kept), Ok(PowerState::Unknown), "{kept}");
    }
}

#[test]
fn a_server_of_another_id_is_no_answer() {
    let other = facts::server(&stopped(), REQUEST).expect_err("of another instance");
    assert!(other.contains(ID), "{other}");
}

#[test]
fn only_the_last_action_is_looked_at_and_only_a_stop() {
    let (early, late) = ("2026-11-29T01:00:00.000000", "2026-11-29T02:00:00.000000");
    let of = |all: &[(&str, &str)]| facts::last_stop(&actions(all));
    assert_eq!(
        of(&[("stop", late), ("start", early)]).as_deref(),
        Some(REQUEST)
    );
    assert_eq!(
        of(&[("start", early), ("stop", late)]).as_deref(),
        Some(REQUEST)
    );
    for all in [
        &[("start", late), ("stop", early)][..],
        &[("stop", late), ("start", late)],
        &[("stop", late), ("start", "yesterday")],
        &[],
    ] {
        assert_eq!(of(all), None, "{all:?}");
    }
    let foreign = actions(&[("stop", late)])
        .to_string()
        .replace(REQUEST, "../../x");
    let foreign = serde_json::from_str(&foreign).expect("JSON");
    assert_eq!(facts::last_stop(&foreign), None);
}

#[test]
fn a_stop_is_done_when_its_host_says_success() {
    let of = |word, events| facts::stop(&action(word, events));
    assert_eq!(of("stop", event(json!("Success"))), Stop::Done);
    assert_eq!(of("stop", event(json!("Error"))), Stop::Failed);
    assert_eq!(of("stop", event(Value::Null)), Stop::Pending);
    assert_eq!(of("stop", json!([])), Stop::Pending);
    assert_eq!(of("start", event(json!("Success"))), Stop::None);
    let twice = json!([
        {"event": "compute_stop_instance", "result": "Success"},
        {"event": "compute_stop_instance", "result": "Error"},
    ]);
    assert_eq!(of("stop", twice), Stop::Failed);
    // As a host reports a stop that waited for it.
    let again = |result: Value| json!([{"event": "compute_stop_instance", "result": null}, {"event": "compute_stop_instance", "result": result}]);
    assert_eq!(of("stop", again(json!("Success"))), Stop::Done);
    assert_eq!(of("stop", again(json!("Error"))), Stop::Failed);
    assert_eq!(of("stop", again(json!(1))), Stop::Failed);
    assert_eq!(of("stop", again(Value::Null)), Stop::Pending);
    let other = json!([{"event": "compute_start_instance", "result": "Success"}]);
    assert_eq!(of("stop", other), Stop::Pending);
    assert_eq!(facts::follow(&action("stop", json!([]))), Follow::Running);
    assert!(matches!(
        facts::follow(&action("reboot", json!([]))),
        Follow::Failed(_)
    ));
}

#[test]
fn the_machine_follows_from_the_node_alone() {
    let provider = Openstack {
        path: String::new(),
        region: Some("north".to_owned()),
    };
    let id = |provider_id: &str| {
        let node = NodeFacts {
            provider_id: provider_id.to_owned(),
            system_uuid: ID.to_uppercase(),
            ..NodeFacts::named("worker-1")
        };
        let id = provider.machine(&node).ok()?;
        Some((id.id, id.region))
    };
    let found = |region: Option<&str>| Some((ID.to_owned(), region.map(str::to_owned)));
    assert_eq!(id(&format!("openstack:///{ID}")), found(None));
    assert_eq!(id(&format!("openstack://north/{ID}")), found(Some("north")));
    assert_eq!(id(ID), found(None));
    assert_eq!(id(""), found(None));
    for other in [
        format!("openstack://south/{ID}"),
        format!("proxmox://{ID}"),
        format!("openstack:///{ID}/action"),
        "openstack:///../flavors".to_owned(),
        "openstack:///00000000-0000-0000-0000-000000000000".to_owned(),
    ] {
        assert_eq!(id(&other), None, "{other}");
    }
}

#[test]
fn the_catalog_names_one_public_endpoint_of_the_region() {
    let endpoint = |region: &str, interface: &str, url: &str| json!({"region_id": region, "interface": interface, "url": url});
    let document = json!({"token": {
        "issued_at": "2026-11-29T01:00:00.000000Z",
        "expires_at": "2026-11-29T02:00:00.000000Z",
        "catalog": [
            {"type": "compute", "endpoints": [
                endpoint("north", "public", "https://nova.north:8774/v2.1"),
                endpoint("north", "admin", "https://inside:8774/v2.1"),
                endpoint("south", "public", "https://nova.south/compute/v2.1/"),
            ]},
            {"type": "image", "endpoints": [endpoint("north", "public", "https://glance")]},
        ],
    }});
    assert_eq!(facts::lasts(&document).map(|it| it.as_secs()), Some(3600));
    let all = facts::endpoints(&document);
    let of = |region| facts::endpoint(&all, region).ok();
    assert_eq!(of(Some("north")), Some("https://nova.north:8774/v2.1"));
    assert_eq!(of(None), None, "two regions");
    assert_eq!(of(Some("west")), None);
    assert_eq!(split("https://a:1/b/c"), ("https://a:1", "/b/c"));
    assert_eq!(split("https://a:1"), ("https://a:1", ""));
    assert_eq!(split("nonsense"), ("nonsense", ""));
}

/// Values that a field may have at a version that is not known here.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u64..6).prop_map(Value::from),
        "[a-zA-Z_-]{0,10}|stopped|SHUTOFF|.{0,8}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({"stopped": 4})),
    ]
}

const NEEDED: [&str; 5] = [
    "id",
    "status",
    "OS-EXT-STS:vm_state",
    "OS-EXT-STS:power_state",
    "OS-EXT-STS:task_state",
];

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_other_value_of_a_field_is_off(name in prop::sample::select(&NEEDED[..]), value in any_value()) {
        let own = stopped()["server"][name].clone();
        let is_same = value == own;
        prop_assert!(!reads_off(&with(stopped(), name, None)), "without {}", name);
        prop_assert_eq!(reads_off(&with(stopped(), name, Some(value))), is_same);
    }

    #[test]
    fn no_json_panics(one in any_value(), other in any_value()) {
        let server = json!({"server": one, "instanceActions": [other], "instanceAction": {"action": "stop", "events": [other]}, "token": one});
        let _ = (facts::server(&server, ID), facts::last_stop(&server), facts::stop(&server));
        let _ = (facts::follow(&server), facts::lasts(&server), facts::endpoints(&server));
    }
}
