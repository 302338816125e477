//! What a plug answers, and what is made of it.

mod calls;

use super::super::words::Said;
use super::*;
use fencing_core::fixtures::cases;
use proptest::prelude::*;
use serde_json::json;

/// The settings of a plug with a meter, a timer and a name, changed like this.
fn settings(changes: Value) -> HttpOutletDriver {
    let mut all = json!({
        "url": "http://plug-1", "outlet": "0", "tls": {"verification": "None"},
        "powerOff": {"method": "GET", "path": "/rpc/Switch.Set?id=${outlet}&on=false"},
        "powerOn": {"method": "GET", "path": "/rpc/Switch.Set?id=${outlet}&on=true"},
        "status": {
            "path": "/rpc/Shelly.GetStatus", "pointer": "/switch:${outlet}/output", "offValue": "false", "onValue": "true",
            "unless": ["/switch:${outlet}/timer_started_at"],
        },
        "watts": {"pointer": "/switch:${outlet}/apower"},
        "deviceID": {"pointer": "/sys/mac", "value": "A8032ABE54DC"},
    });
    merge(&mut all, changes);
    serde_json::from_value(all).expect("settings")
}

/// Fields of objects, one by one; null takes one away.
fn merge(all: &mut Value, changes: Value) {
    match (all, changes) {
        (Value::Object(all), Value::Object(changes)) => {
            for (name, change) in changes {
                match change.is_null() {
                    true => drop(all.remove(&name)),
                    false => merge(all.entry(name).or_insert(Value::Null), change),
                }
            }
        }
        (all, change) => *all = change,
    }
}

/// Its answer while it is off, changed like this.
fn off(changes: Value) -> Value {
    let mut all = json!({
        "switch:0": {"id": 0, "source": "HTTP_in", "output": false, "apower": 0.0, "voltage": 230.1},
        "sys": {"mac": "A8032ABE54DC", "uptime": 4711},
    });
    merge(&mut all, changes);
    all
}

fn said(answer: &Value) -> Said {
    Table::new(&settings(json!({}))).said(answer, answer)
}

#[test]
fn an_outlet_is_off_by_one_value_alone() {
    assert!(said(&off(json!({}))).is_off());
    let of = |value: Value| said(&off(json!({"switch:0": {"output": value}})));
    assert_eq!(of(json!(true)).state, PowerState::On);
    for value in [
        json!("False"),
        json!("off"),
        json!(""),
        json!(0),
        json!([false]),
        json!({"off": false}),
    ] {
        assert_eq!(of(value.clone()).state, PowerState::Unknown, "{value}");
    }
    let none = of(Value::Null);
    assert_eq!(
        (none.state, none.raw.as_str()),
        (PowerState::Unknown, "no value at /switch:0/output")
    );
    // Of another outlet nothing is said.
    let other = json!({"switch:1": {"output": false, "apower": 0.0}});
    assert_eq!(said(&other).state, PowerState::Unknown);
    assert_eq!(said(&Value::Null).state, PowerState::Unknown);
}

#[test]
fn strings_and_numbers_are_values_too() {
    let of = |off: &str, on: &str, answer: Value| {
        let status = json!({"status": {"pointer": "/${outlet}", "offValue": off, "onValue": on}, "watts": null});
        let answer = json!({"0": answer});
        Table::new(&settings(status)).said(&answer, &answer).state
    };
    assert_eq!(of("OFF", "ON", json!("OFF")), PowerState::Off);
    assert_eq!(of("OFF", "ON", json!("ON")), PowerState::On);
    assert_eq!(of("OFF", "ON", json!("unavailable")), PowerState::Unknown);
    assert_eq!(of("0", "1", json!(0)), PowerState::Off);
    assert_eq!(of("0", "1", json!(0.0)), PowerState::Unknown);
    assert_eq!(of("8", "2", json!(7)), PowerState::Unknown);
}

#[test]
fn an_off_beside_measured_power_is_none() {
    let of = |watts: Value| said(&off(json!({"switch:0": {"apower": watts}})));
    for watts in [
        json!(0),
        json!(1.0),
        json!(-0.4),
        json!("0.3"),
        json!(" 0 "),
    ] {
        assert!(of(watts.clone()).is_off(), "{watts}");
    }
    assert_eq!(of(json!(1.1)).faults, ["1.1 W"]);
    assert_eq!(of(json!(-35)).faults, ["-35 W"]);
    for watts in [json!("NaN"), json!("inf"), json!("-inf")] {
        assert!(!of(watts.clone()).is_off(), "{watts}");
    }
    for watts in [
        Value::Null,
        json!("unavailable"),
        json!(true),
        json!([0]),
        json!(""),
    ] {
        let found = of(watts.clone()).faults;
        assert_eq!(found, ["no watts at /switch:0/apower"], "{watts}");
    }
    // Another limit.
    let table = Table::new(&settings(json!({"watts": {"maxMilliwatts": 2500}})));
    let answer = off(json!({"switch:0": {"apower": 2.5}}));
    assert!(table.said(&answer, &answer).is_off());
    // Without a meter there is no such condition.
    let table = Table::new(&settings(json!({"watts": null})));
    let answer = off(json!({"switch:0": {"apower": 35}}));
    assert!(table.said(&answer, &answer).is_off());
}

#[test]
fn an_off_that_a_timer_ends_is_none() {
    let of = |timer: Value| {
        let mut answer = off(json!({}));
        answer["switch:0"]["timer_started_at"] = timer;
        said(&answer)
    };
    assert!(of(Value::Null).is_off());
    assert!(of(json!(false)).is_off());
    for timer in [
        json!(1_764_420_000.12),
        json!(0),
        json!(true),
        json!(""),
        json!([]),
    ] {
        let found = of(timer.clone()).faults;
        assert_eq!(found, ["/switch:0/timer_started_at is there"], "{timer}");
    }
}

#[test]
fn another_plug_is_told_by_its_name() {
    let table = Table::new(&settings(json!({})));
    assert_eq!(table.check(&off(json!({}))), Ok(()));
    let other = table.check(&off(json!({"sys": {"mac": "A8032ABE54DD"}})));
    let words = "its /sys/mac is \"A8032ABE54DD\", and \"A8032ABE54DC\" is required";
    assert_eq!(other, Err(words.to_owned()));
    for answer in [off(json!({"sys": null})), Value::Null, json!([])] {
        let words = "it has no /sys/mac, \"A8032ABE54DC\" is required";
        assert_eq!(table.check(&answer), Err(words.to_owned()));
    }
    let unnamed = Table::new(&settings(json!({"deviceID": null})));
    assert_eq!(unnamed.check(&Value::Null), Ok(()));
}

#[test]
fn settings_that_could_be_another_outlets_name_the_field() {
    for (changes, field) in [
        (json!({"powerOff": {"path": "/off"}}), "httpOutlet.powerOff"),
        (
            json!({"powerOff": {"path": "/off", "body": "{}"}}),
            "httpOutlet.powerOff",
        ),
        (json!({"powerOn": {"path": "/on"}}), "httpOutlet.powerOn"),
        (
            json!({"status": {"pointer": "/output"}}),
            "httpOutlet.status",
        ),
        (json!({"status": {"offValue": "true"}}), "httpOutlet.status"),
    ] {
        match HttpOutlet::new(&settings(changes.clone())) {
            Err(DeviceError::Settings { field: found, .. }) => assert_eq!(found, field),
            other => panic!("{changes}: {other:?}"),
        }
    }
    let body = json!({"powerOff": {"path": "/off", "body": "{\"id\": \"${outlet}\"}"}});
    assert!(HttpOutlet::new(&settings(body)).is_ok());
}

/// S5: two devices that switch one outlet are noticed, whatever their Nodes.
#[test]
fn an_outlet_is_a_target_by_address_and_name() {
    let of = |outlet: &str, node: &str| {
        let settings = settings(json!({"outlet": outlet}));
        settings.targets(&NodeFacts::named(node))
    };
    assert_eq!(of("0", "worker-1"), ["plug-1:80/outlet 0"]);
    assert_eq!(of("0", "worker-1"), of("0", "worker-2"));
    assert_ne!(of("0", "worker-1"), of("1", "worker-1"));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9.]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let name = prop_oneof![
            Just("switch:0".to_owned()),
            Just("output".to_owned()),
            Just("apower".to_owned()),
            Just("timer_started_at".to_owned()),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(cases())]

    /// Whatever is read, an Off has false at its place, hardly any watts, and no timer.
    #[test]
    fn no_json_is_off_but_by_the_settings(answer in any_json()) {
        if said(&answer).is_off() {
            prop_assert_eq!(answer.pointer("/switch:0/output"), Some(&json!(false)));
            let timer = answer.pointer("/switch:0/timer_started_at");
            prop_assert!(timer.is_none_or(|it| it.is_null() || *it == json!(false)));
            prop_assert!(answer.pointer("/switch:0/apower").is_some());
        }
    }
}
