use super::*;
use proptest::prelude::*;
use serde_json::json;

fn outlets(settings: serde_json::Value) -> Result<Outlets, (&'static str, String)> {
    let mut whole = json!({"address": "pdu", "model": "Generic", "outlets": [3, 7]});
    json_patch::merge(&mut whole, &settings);
    Outlets::new(&serde_json::from_value(whole).unwrap())
}

fn raritan() -> serde_json::Value {
    json!({"generic": {
        "controlOID": "1.3.6.1.4.1.13742.6.4.1.2.1.2.1.${outlet}", "controlOffValue": 0,
        "statusOID": ".1.3.6.1.4.1.13742.6.4.1.2.1.3.1.${outlet}", "statusOffValue": 8, "statusOnValue": 7,
    }})
}

/// The answer to the question, with these values.
fn answer(outlets: &Outlets, values: &[Value]) -> Vec<Binding> {
    let question = outlets.question();
    assert_eq!(question.len(), values.len());
    let answered = question.into_iter().zip(values);
    answered
        .map(|(Binding { name, .. }, value)| Binding {
            name,
            value: value.clone(),
        })
        .collect()
}

fn judged(outlets: &Outlets, values: &[Value]) -> (PowerState, String) {
    outlets.judge(&answer(outlets, values))
}

#[test]
fn the_tables_of_apc_are_those_of_its_mib() {
    for (model, state, pending, control, off) in [
        (
            "APCRackPDU2",
            "26.9.2.3.1.5.3",
            "26.9.2.3.1.6.3",
            "26.9.2.4.1.5.3",
            1,
        ),
        (
            "APCRackPDU",
            "12.3.5.1.1.4.3",
            "12.3.5.1.1.5.3",
            "12.3.3.1.1.4.3",
            2,
        ),
        (
            "APCMasterSwitch",
            "4.4.2.1.3.3",
            "4.4.2.1.2.3",
            "4.4.2.1.3.3",
            2,
        ),
    ] {
        let outlets = outlets(json!({"model": model, "outlets": [3]})).unwrap();
        let name = |binding: &Binding| binding.name.to_string();
        let asked: Vec<_> = outlets.question().iter().map(name).collect();
        let apc = |rest: &str| format!("1.3.6.1.4.1.318.1.1.{rest}");
        assert_eq!(asked, [apc(state), apc(pending)], "{model}");
        let command = outlets.off(&outlets.list()[0]);
        assert_eq!(
            (name(&command[0]), &command[0].value),
            (apc(control), &Value::Integer(2))
        );
        let on = outlets.on(&outlets.list()[0]).expect("a command");
        let on: Vec<_> = on.iter().map(|it| (name(it), &it.value)).collect();
        assert_eq!(on, [(apc(control), &Value::Integer(1))], "{model}");
        let is_off = |state| {
            judged(&outlets, &[Value::Integer(state), Value::Integer(2)]).0 == PowerState::Off
        };
        assert_eq!(
            (is_off(off), is_off(3 - off), is_off(0)),
            (true, false, false),
            "{model}"
        );
    }
}

/// RFC 3621: a port is off if it is disabled and not enabled; whatever else it does, it may have power, or get it.
#[test]
fn a_port_of_poe_is_off_by_both_of_its_columns() {
    let port = json!({"model": "PoE", "outlets": [12]});
    let ports = outlets(port.clone()).expect("a table");
    let name = |binding: &Binding| binding.name.to_string();
    let asked: Vec<_> = ports.question().iter().map(name).collect();
    let column = |column: u32, row: &str| format!("1.3.6.1.2.1.105.1.1.1.{column}.{row}");
    assert_eq!(asked, [column(6, "1.12"), column(3, "1.12")]);
    let [off] = &ports.off(&ports.list()[0])[..] else {
        panic!("one binding");
    };
    assert_eq!(
        (name(off), &off.value),
        (column(3, "1.12"), &Value::Integer(2))
    );
    let [on] = &ports.on(&ports.list()[0]).expect("a command")[..] else {
        panic!("one binding");
    };
    assert_eq!(
        (name(on), &on.value),
        (column(3, "1.12"), &Value::Integer(1))
    );
    let (is_true, is_false) = (1, 2);
    let (disabled, delivering) = (1, 3);
    let of = |status, enabled| {
        let values = [Value::Integer(status), Value::Integer(enabled)];
        judged(&ports, &values)
    };
    assert_eq!(of(disabled, is_false), (PowerState::Off, "12: off".into()));
    let enabled = (PowerState::Transitional, "12: off, enabled".into());
    assert_eq!(of(disabled, is_true), enabled);
    for is_enabled in [is_true, is_false] {
        assert_eq!(of(delivering, is_enabled).0, PowerState::On);
        // searching, fault, test, otherFault, and what the RFC does not know.
        for status in [2, 4, 5, 6, 0, 7, -1] {
            assert_eq!(of(status, is_enabled).0, PowerState::Unknown, "{status}");
        }
    }
    assert_eq!(of(disabled, 3).0, PowerState::Unknown);
    assert_eq!(ports.names(), ["port 12/group 1"]);
    let mut stacked = port;
    json_patch::merge(&mut stacked, &json!({"group": 3}));
    let stacked = outlets(stacked).expect("a table");
    assert_eq!(stacked.names(), ["port 12/group 3"]);
    assert_eq!(name(&stacked.question()[0]), column(6, "3.12"));
}

#[test]
fn a_generic_table_puts_the_outlet_into_its_objects() {
    let outlets = outlets(raritan()).unwrap();
    let asked: Vec<_> = outlets
        .question()
        .iter()
        .map(|binding| binding.name.to_string())
        .collect();
    let object = "1.3.6.1.4.1.13742.6.4.1.2.1.3.1";
    assert_eq!(asked, [format!("{object}.3"), format!("{object}.7")]);
    assert_eq!(
        judged(&outlets, &[Value::Integer(8), Value::Integer(8)]).0,
        PowerState::Off
    );
}

/// Each outlet has to show by itself that it can read on. One that a pending command brings back does not read off.
#[test]
fn outlets_that_read_off_beside_another_are_named() {
    let outlets = outlets(json!({"model": "APCRackPDU"})).unwrap();
    let (on, off, pending, none_pending) = (1, 2, 1, 2);
    let none: [&str; 0] = [];
    for (values, expected) in [
        ([on, off, none_pending, none_pending], &["outlet 7"][..]),
        ([off, 4, none_pending, none_pending], &["outlet 3"]),
        ([on, off, none_pending, pending], &none),
        ([on, on, none_pending, none_pending], &none),
        ([off, off, none_pending, none_pending], &none),
    ] {
        let answer = answer(&outlets, &values.map(Value::Integer));
        assert_eq!(outlets.off_parts(&answer), expected, "{values:?}");
    }
}

/// S5: linked units have outlets of the same number, which one table tells apart; unit 0 and unit 1 are one.
#[test]
fn outlets_of_linked_units_have_names_of_their_own() {
    let of_unit = |unit: u32| {
        let column =
            |column: u32| format!("1.3.6.1.4.1.13742.6.4.1.2.1.{column}.{unit}.${{outlet}}");
        let table = json!({"generic": {"controlOID": column(2), "statusOID": column(3)}});
        let mut whole = raritan();
        json_patch::merge(&mut whole, &table);
        outlets(whole).expect("a table").names()
    };
    assert_eq!(of_unit(1), ["outlet 3/unit 1", "outlet 7/unit 1"]);
    assert_eq!(of_unit(0), of_unit(1));
    assert_eq!(of_unit(2), ["outlet 3/unit 2", "outlet 7/unit 2"]);
    let apc = outlets(json!({"model": "APCRackPDU2", "outlets": [3]})).expect("a table");
    assert_eq!(apc.names(), ["outlet 3"]);
}

/// Where nobody has said how an outlet is switched on, it is not guessed.
#[test]
fn an_outlet_is_switched_on_by_what_the_settings_say() {
    let on = |value: serde_json::Value| {
        let mut whole = raritan();
        json_patch::merge(&mut whole, &json!({"generic": {"controlOnValue": value}}));
        let outlets = outlets(whole).expect("a table");
        outlets.on(&outlets.list()[0])
    };
    assert_eq!(on(json!(null)), None);
    let [command] = &on(json!(1)).expect("a command")[..] else {
        panic!("one binding");
    };
    assert_eq!(
        command.name.to_string(),
        "1.3.6.1.4.1.13742.6.4.1.2.1.2.1.3"
    );
    assert_eq!(command.value, Value::Integer(1));
}

/// Some PDUs have a column for off and another one for on, each with a number of its own.
#[test]
fn an_outlet_is_switched_on_in_its_own_column_where_there_is_one() {
    let mut whole = raritan();
    let column = "1.3.6.1.4.1.13742.6.4.1.2.1.9.2.${outlet}";
    let two = json!({"generic": {"controlOnOID": column, "controlOnValue": 0}});
    json_patch::merge(&mut whole, &two);
    let outlets = outlets(whole).expect("a table");
    let outlet = &outlets.list()[0];
    let [on] = &outlets.on(outlet).expect("a command")[..] else {
        panic!("one binding");
    };
    assert_eq!(on.name.to_string(), column.replace("${outlet}", "3"));
    assert_eq!(on.value, Value::Integer(0));
    let object = "1.3.6.1.4.1.13742.6.4.1.2.1.2.1.3";
    assert_eq!(outlets.off(outlet)[0].name.to_string(), object);
    // What is switched counts (S5).
    assert!(outlets.names().contains(&"outlet 3/unit 2".to_owned()));
}

/// S5: what is read counts, too.
#[test]
fn an_outlet_is_known_by_the_unit_that_is_read() {
    let mut whole = raritan();
    let control = "1.3.6.1.4.1.99999.2.${outlet}";
    json_patch::merge(&mut whole, &json!({"generic": {"controlOID": control}}));
    let names = outlets(whole).expect("a table").names();
    assert!(names.contains(&"outlet 3/unit 1".to_owned()), "{names:?}");
}

#[test]
fn settings_that_make_no_table_name_the_field() {
    for (settings, field) in [
        (json!({"outlets": []}), "pdu.outlets"),
        (json!({}), "pdu.generic"),
        (
            json!({"generic": {"controlOID": "1.3.6", "statusOID": "1.3.6.${outlet}"}}),
            "pdu.generic.controlOID",
        ),
        (
            json!({"generic": {"controlOID": "1.3.${outlet}", "statusOID": "1.x.${outlet}"}}),
            "pdu.generic.statusOID",
        ),
        (json!({"generic": {"statusOffValue": 7}}), "pdu.generic"),
    ] {
        let mut whole = raritan();
        json_patch::merge(&mut whole, &settings);
        if settings == json!({}) {
            whole = json!({});
        }
        assert_eq!(
            outlets(whole).map_err(|(field, _)| field),
            Err(field),
            "{settings}"
        );
    }
}

/// Each number that the MIBs name, and the first that they do not.
#[test]
fn each_number_of_the_mibs_means_what_they_say() {
    use PowerState::{Off, On, Transitional, Unknown};
    let (none, waiting, unknown) = (2, 1, 3);
    for (model, meanings) in [
        ("APCRackPDU2", [Unknown, Off, On, Unknown, Unknown]),
        ("APCRackPDU", [Unknown, On, Off, Unknown, Unknown]),
        // Its 4 is `outletUnknown`.
        ("APCMasterSwitch", [Unknown, On, Off, Unknown, Unknown]),
    ] {
        let outlets = outlets(json!({"model": model, "outlets": [3]})).unwrap();
        for (number, meaning) in (0..).zip(meanings) {
            let read = |pending| {
                let values = [Value::Integer(number), Value::Integer(pending)];
                judged(&outlets, &values).0
            };
            assert_eq!(read(none), meaning, "{model} {number}");
            let with = |otherwise| if meaning == Off { otherwise } else { meaning };
            assert_eq!(read(waiting), with(Transitional), "{model} {number}");
            assert_eq!(read(unknown), with(Unknown), "{model} {number}");
        }
    }
    let outlets = outlets(raritan()).unwrap();
    for number in -1..=30 {
        let meaning = match number {
            7 => On,
            8 => Off,
            _ => Unknown,
        };
        let values = [Value::Integer(number), Value::Integer(number)];
        assert_eq!(judged(&outlets, &values).0, meaning, "{number}");
    }
}

/// What outlets 3 and 7 of a rack PDU mean in these states, with these commands waiting.
fn rack_pdu(states: [Value; 2], pending: [i32; 2]) -> (PowerState, String) {
    let outlets = outlets(json!({"model": "APCRackPDU2"})).unwrap();
    let values = [&states[..], &pending.map(Value::Integer)].concat();
    judged(&outlets, &values)
}

fn text(text: &str) -> Value {
    Value::Octets(text.as_bytes().to_vec())
}

#[test]
fn what_each_answer_means() {
    use PowerState::{Off, On, Unknown};
    let (off, on) = (Value::Integer(1), Value::Integer(2));
    for (first, second, state, raw) in [
        (&off, off.clone(), Off, "3: off, 7: off"),
        (&on, on.clone(), On, "3: on, 7: on"),
        // One supply still has power.
        (&off, on.clone(), On, "7: on, 3: off"),
        (&on, text(""), On, "3: on, 7: \"\""),
        // Nothing that the table does not call off is off.
        (&off, Value::Integer(3), Unknown, "7: 3, 3: off"),
        (&off, text(""), Unknown, "7: \"\", 3: off"),
        (&off, text("1"), Unknown, "7: \"1\", 3: off"),
        (&off, Value::Null, Unknown, "7: null, 3: off"),
        (
            &off,
            Value::NoSuchObject,
            Unknown,
            "7: noSuchObject, 3: off",
        ),
        (&off, Value::Other(0x42), Unknown, "7: type 0x42, 3: off"),
    ] {
        let found = rack_pdu([first.clone(), second], [2, 2]);
        assert_eq!(found, (state, raw.to_owned()));
    }
}

/// An outlet that is rebooting, or is to be switched on in a while, reads off.
#[test]
fn an_outlet_with_a_waiting_command_is_not_off() {
    use PowerState::{On, Transitional, Unknown};
    let (off, on) = (Value::Integer(1), Value::Integer(2));
    for (first, pending, state, raw) in [
        (&off, [2, 1], Transitional, "7: off, pending, 3: off"),
        (&off, [3, 1], Unknown, "3: off, pending 3, 7: off, pending"),
        (&on, [2, 1], On, "3: on, 7: off, pending"),
    ] {
        let found = rack_pdu([first.clone(), off.clone()], pending);
        assert_eq!(found, (state, raw.to_owned()));
    }
}

#[test]
fn an_answer_that_leaves_an_outlet_out_or_names_it_twice_is_not_off() {
    let outlets = outlets(raritan()).unwrap();
    let mut answer = answer(&outlets, &[Value::Integer(8), Value::Integer(8)]);
    let twice = answer[1].clone();
    answer.push(twice);
    assert_eq!(outlets.judge(&answer).0, PowerState::Unknown);
    answer.truncate(1);
    assert_eq!(outlets.judge(&answer).0, PowerState::Unknown);
    assert_eq!(outlets.judge(&[]).0, PowerState::Unknown);
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..4_i32).prop_map(Value::Integer),
        any::<i32>().prop_map(Value::Integer),
        ".{0,80}".prop_map(|text| Value::Octets(text.into_bytes())),
        Just(Value::Null),
        Just(Value::NoSuchInstance),
        any::<u8>().prop_map(Value::Other),
    ]
}

proptest! {
    #[test]
    fn off_is_off_at_every_outlet_and_nothing_else(values in prop::collection::vec(value(), 4)) {
        let outlets = outlets(json!({"model": "APCRackPDU"})).unwrap();
        let (state, raw) = judged(&outlets, &values);
        let all_off = values.iter().all(|value| *value == Value::Integer(2));
        prop_assert_eq!(state == PowerState::Off, all_off);
        let one_on = values[..2].contains(&Value::Integer(1));
        prop_assert_eq!(state == PowerState::On, one_on);
        prop_assert!(raw.chars().count() <= 64 && !raw.contains(char::is_control));
    }
}

#[test]
fn outlets_that_the_agent_does_not_have_are_named() {
    let outlets = outlets(raritan()).unwrap();
    let on = Value::Integer(7);
    let missing = |values: &[Value]| outlets.missing(&answer(&outlets, values));
    assert_eq!(missing(&[on.clone(), on.clone()]), [0; 0]);
    assert_eq!(missing(&[on.clone(), Value::NoSuchInstance]), [7]);
    assert_eq!(missing(&[Value::NoSuchObject, on]), [3]);
}
