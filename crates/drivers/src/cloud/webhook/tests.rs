//! What a webhook answers, and what is made of it.

mod calls;

use super::super::words::Said;
use super::*;
use fencing_core::fixtures::cases;
use fencing_core::reading::PowerState;
use proptest::prelude::*;
use serde_json::json;
use std::time::Duration;

const UUID: &str = "6f1d8a52-90cf-4a5b-8d63-0b3d5b1f7e21";

/// The answer to the request with this ID: a machine that is off.
fn off(id: &str) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "FenceResponse", "requestID": id,
        "power": "Off", "ageSeconds": 0.5, "machine": {"systemUUID": UUID, "machineID": "vm-104"},
    })
}

/// The same with another value there; none: without it.
fn with(field: &str, value: Option<Value>) -> Value {
    let mut answer = off("1");
    let fields = answer.as_object_mut().expect("an object");
    match value {
        Some(value) => drop(fields.insert(field.to_owned(), value)),
        None => drop(fields.remove(field)),
    }
    answer
}

fn said(field: &str, value: Option<Value>) -> Said {
    facts::said(&with(field, value))
}

#[test]
fn a_machine_is_off_by_one_word_alone() {
    let good = facts::said(&off("1"));
    assert!(good.is_off());
    assert_eq!(good.age, Duration::from_millis(500));
    for word in [
        "off",
        "OFF",
        "Off ",
        "PoweringOff",
        "Suspended",
        "Paused",
        "Unknown",
        "",
        "false",
        "0",
    ] {
        let said = said("power", Some(json!(word)));
        assert_eq!(said.state, PowerState::Unknown, "{word}");
    }
    for value in [
        None,
        Some(Value::Null),
        Some(json!(false)),
        Some(json!(["Off"])),
    ] {
        assert_eq!(said("power", value).state, PowerState::Unknown);
    }
    assert_eq!(said("power", Some(json!("On"))).state, PowerState::On);
    let between = said("power", Some(json!("Transitional")));
    assert_eq!(between.state, PowerState::Transitional);
}

#[test]
fn an_old_report_is_no_off() {
    assert!(said("ageSeconds", Some(json!(5))).is_off());
    let old = said("ageSeconds", Some(json!(61)));
    assert_eq!(old.faults, ["a report that is 61 s old"]);
    assert!(!said("ageSeconds", Some(json!(5.1))).is_off());
    for value in [None, Some(Value::Null), Some(json!("0.5")), Some(json!(-1))] {
        assert_eq!(said("ageSeconds", value).faults, ["no ageSeconds"]);
    }
}

#[test]
fn an_off_of_no_machine_is_none() {
    for machine in [
        None,
        Some(Value::Null),
        Some(json!({})),
        Some(json!({"systemUUID": null, "machineID": ""})),
        Some(json!({"systemUUID": 7})),
        Some(json!("6f1d8a52")),
    ] {
        assert_eq!(said("machine", machine).faults, ["no machine named"]);
    }
    for machine in [json!({"systemUUID": UUID}), json!({"machineID": "vm-104"})] {
        assert!(said("machine", Some(machine)).is_off());
    }
    let identity = facts::identity(&off("1"));
    assert!(identity.is_system(UUID));
    assert_eq!(identity.serial_number.as_deref(), Some("vm-104"));
}

#[test]
fn an_answer_belongs_to_its_request_and_its_version() {
    assert_eq!(facts::check(&off("1"), "1"), Ok(()));
    assert!(facts::check(&off("1"), "2").is_err());
    for (field, value) in [
        ("apiVersion", json!("webhook.nodefencing.io/v2")),
        ("apiVersion", Value::Null),
        ("kind", json!("FenceRequest")),
        ("requestID", json!(1)),
    ] {
        let answer = with(field, Some(value.clone()));
        assert!(facts::check(&answer, "1").is_err(), "{field}: {value}");
    }
    assert!(facts::check(&with("requestID", None), "1").is_err());
}

#[test]
fn a_command_is_taken_by_two_words() {
    let of = |value| facts::outcome(&with("outcome", value), "1");
    assert_eq!(of(Some(json!("Accepted"))), Ok(Outcome::Accepted));
    assert_eq!(of(Some(json!("Already"))), Ok(Outcome::Already));
    for value in [
        None,
        Some(json!("accepted")),
        Some(json!("Done")),
        Some(json!(true)),
    ] {
        assert!(of(value).is_err());
    }
    let answer = with("outcome", Some(json!("Accepted")));
    assert!(facts::outcome(&answer, "2").is_err());
}

#[test]
fn what_turns_it_on_again_is_named() {
    assert_eq!(facts::restarter(&off("1")), None);
    let of = |value| facts::restarter(&with("restarter", Some(value)));
    assert_eq!(of(json!("a watchdog")).as_deref(), Some("a watchdog"));
    assert_eq!(of(json!(" ")), None);
    assert_eq!(of(json!(true)), None);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "On|Off|Accepted|.{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z]{1,9}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn an_off_has_its_word_its_machine_and_a_fresh_report(
        power in any_json(),
        age in any_json(),
        machine in any_json(),
    ) {
        let answer = json!({"power": power, "ageSeconds": age, "machine": machine});
        let said = facts::said(&answer);
        if said.is_off() {
            prop_assert_eq!(power.as_str(), Some("Off"));
            prop_assert!(age.as_f64().is_some_and(|age| (0.0..=5.0).contains(&age)));
            prop_assert!(machine.is_object());
        }
        prop_assert!(facts::check(&answer, "1").is_err());
    }
}
