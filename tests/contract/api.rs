//! The types of the API, their schema and the examples agree with each other, without an API server.
//!
//! What the real API server says to the same files is tested in `e2e/tests/e2e/api.rs`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use fencing_api::crd;
use fencing_api::device::{FenceDevice, FenceDeviceSpec, FenceDeviceStatus, Reads};
use fencing_api::drivers::KINDS;
use fencing_api::fence::{NodeFence, NodeFenceSpec, NodeFenceStatus};
use fencing_api::policy::{NodeFencingPolicy, NodeFencingPolicySpec, NodeFencingPolicyStatus};
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

const EXAMPLES: &str = include_str!("../data/api/examples.yaml");
const STATUSES: &str = include_str!("../data/api/statuses.yaml");
const VERDICTS: &str = include_str!("../data/api/verdicts.yaml");

/// A row of `verdicts.yaml`.
#[derive(Deserialize)]
struct Verdict {
    name: String,
    policy: Option<Value>,
    device: Option<Value>,
    fence: Option<Value>,
    then: Option<Value>,
    expect: String,
}

/// The schemas of `spec` by kind.
static SPEC_SCHEMAS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let schema = |definition: &Value| {
        let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
        definition.pointer(path).expect("a spec").clone()
    };
    crd::all()
        .iter()
        .map(|(_, definition)| {
            let kind = definition["spec"]["names"]["kind"].as_str();
            (kind.expect("a kind").to_owned(), schema(definition))
        })
        .collect()
});

/// What the API server does with defaults: a missing field gets its default, then the same inside.
fn default(schema: &Value, value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        let none = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&none);
        for (name, property) in properties {
            if let Some(default) = property.get("default") {
                fields
                    .entry(name.clone())
                    .or_insert_with(|| default.clone());
            }
        }
        for (name, field) in fields {
            default(properties.get(name).unwrap_or(&Value::Null), field);
        }
    }
    for item in value.as_array_mut().into_iter().flatten() {
        default(&schema["items"], item);
    }
}

/// Reads a spec, or a status, as the operator does, and writes it again.
pub fn through<T: DeserializeOwned + Serialize>(spec: &Value) -> Value {
    let read: T = serde_json::from_value(spec.clone()).unwrap_or_else(|e| panic!("{e}: {spec}"));
    serde_json::to_value(read).expect("an API type is plain data")
}

/// The same without its lists, in whose items the schema has no defaults.
fn without_lists(value: &Value) -> Value {
    let Some(fields) = value.as_object() else {
        return value.clone();
    };
    let kept = fields.iter().filter(|(_, field)| !field.is_array());
    let kept = kept.map(|(name, field)| (name.clone(), without_lists(field)));
    Value::Object(kept.collect())
}

/// Rust's defaults are the schema's: an object read without the API server's defaulting equals one that went through it. In the items of lists
/// the defaults are Rust's alone.
fn assert_same_defaults(kind: &str, spec: &Value) {
    let mut defaulted = spec.clone();
    default(&SPEC_SCHEMAS[kind], &mut defaulted);
    let read = |spec: &Value| match kind {
        "NodeFencingPolicy" => through::<NodeFencingPolicySpec>(spec),
        "FenceDevice" => through::<FenceDeviceSpec>(spec),
        "NodeFence" => through::<NodeFenceSpec>(spec),
        _ => panic!("kind {kind}"),
    };
    assert_eq!(read(spec), read(&defaulted), "{kind} {spec}");
    let (read, defaulted) = (without_lists(&read(spec)), without_lists(&defaulted));
    assert_eq!(read, defaulted, "{kind} {spec}");
}

fn examples() -> Vec<Value> {
    serde_saphyr::from_multiple(EXAMPLES).expect("examples.yaml is YAML")
}

#[test]
fn examples_round_trip_and_get_the_same_defaults_as_in_the_schema() {
    for example in examples() {
        if example["metadata"]["annotations"]["check/expect"] == "fail" {
            continue;
        }
        let kind = example["kind"].as_str().expect("a kind");
        assert_same_defaults(kind, &example["spec"]);
        let again = match kind {
            "NodeFencingPolicy" => through::<NodeFencingPolicy>(&example),
            "FenceDevice" => through::<FenceDevice>(&example),
            _ => through::<NodeFence>(&example),
        };
        for field in ["apiVersion", "kind", "metadata"] {
            assert_eq!(again[field], example[field]);
        }
        assert_eq!(again.get("status"), example.get("status"));
    }
}

#[test]
fn statuses_round_trip() {
    let statuses: BTreeMap<String, Value> =
        serde_saphyr::from_str(STATUSES).expect("statuses.yaml is YAML");
    for (kind, status) in statuses {
        let again = match kind.as_str() {
            "NodeFencingPolicy" => through::<NodeFencingPolicyStatus>(&status),
            "FenceDevice" => through::<FenceDeviceStatus>(&status),
            _ => through::<NodeFenceStatus>(&status),
        };
        assert_eq!(again, status, "{kind}");
        let path = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
        let all = crd::all();
        let definition = all
            .iter()
            .find(|(_, definition)| definition["spec"]["names"]["kind"] == kind);
        let fields = definition
            .and_then(|(_, definition)| definition.pointer(path))
            .expect("a status");
        for field in fields.as_object().expect("fields").keys() {
            assert!(
                status.get(field).is_some(),
                "{kind}: statuses.yaml lacks {field}"
            );
        }
    }
}

#[test]
fn whatever_the_api_server_takes_can_be_read_and_gets_the_same_defaults() {
    let verdicts: Vec<Verdict> = serde_saphyr::from_str(VERDICTS).expect("verdicts.yaml is YAML");
    assert!(verdicts.len() > 100);
    for verdict in verdicts.into_iter().filter(|row| row.expect == "allow") {
        let (kind, mut spec) = match (verdict.policy, verdict.device, verdict.fence) {
            (Some(spec), None, None) => ("NodeFencingPolicy", spec),
            (None, Some(spec), None) => ("FenceDevice", spec),
            (None, None, Some(spec)) => ("NodeFence", spec),
            _ => panic!("{}: one of policy, device, fence", verdict.name),
        };
        json_patch::merge(&mut spec, &verdict.then.unwrap_or_else(|| json!({})));
        assert_same_defaults(kind, &spec);
    }
}

#[test]
fn every_struct_fills_in_its_own_defaults() {
    let policy = |more: Value| {
        let mut spec = json!({"nodeSelector": {}});
        json_patch::merge(&mut spec, &more);
        assert_same_defaults("NodeFencingPolicy", &spec);
    };
    for field in [
        "fence",
        "recovery",
        "release",
        "powerOn",
        "budget",
        "exclusions",
        "history",
    ] {
        policy(json!({field: {}}));
    }
    policy(
        json!({"fence": {"mode": "PowerOff", "levels": [{"name": "bmc"}], "approval": {}, "verification": {}}}),
    );
    policy(
        json!({"windows": [{"name": "n", "days": ["Mon"], "start": "01:00", "end": "02:00", "mode": "Observe"}]}),
    );
    for driver in [
        json!({"redfish": {"address": "https://a", "tls": {"caRef": {"name": "a"}}}}),
        json!({"pdu": {"address": "a", "model": "APCRackPDU2", "outlets": [1], "snmp": {}}}),
        json!({"httpOutlet": {
            "url": "https://a", "outlet": "0", "powerOff": {"path": "/${outlet}"}, "watts": {"pointer": "/w"},
            "status": {"path": "/", "pointer": "/${outlet}", "offValue": "0", "onValue": "1"},
        }}),
        json!({"probe": {}}),
    ] {
        assert_same_defaults("FenceDevice", &driver);
    }
    let trigger =
        json!({"nodeName": "w", "trigger": {"type": "External"}, "fence": {"mode": "Observe"}});
    assert_same_defaults("NodeFence", &trigger);
}

/// The least that this schema asks for.
fn least(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten();
            let fields = required.filter_map(Value::as_str);
            fields
                .map(|name| (name.to_owned(), least(&schema["properties"][name])))
                .collect::<Map<_, _>>()
                .into()
        }
        Some("array") => json!([least(&schema["items"])]),
        Some("string") => schema["enum"].get(0).cloned().unwrap_or(json!("a")),
        Some("integer") => schema["minimum"].clone(),
        other => panic!("{other:?}"),
    }
}

/// Each driver's name is the name of its field, and the operator makes those that this version has.
#[test]
fn every_driver_has_its_row() {
    let fields = SPEC_SCHEMAS["FenceDevice"]["properties"].as_object();
    let drivers = fields.expect("fields").iter().filter(|(name, field)| {
        let what = field["description"].as_str().unwrap_or_default();
        what.starts_with(&format!("Driver `{name}`: "))
    });
    let drivers: BTreeMap<&String, &Value> = drivers.collect();
    assert_eq!(drivers.len(), KINDS.len());
    for kind in KINDS {
        let name = kind.name.to_owned();
        let driver = json!({&name: least(drivers[&name])});
        assert_same_defaults("FenceDevice", &driver);
        let spec: FenceDeviceSpec = serde_json::from_value(driver).expect("a valid driver");
        assert_eq!((spec.driver_name(), spec.reads()), (kind.name, kind.reads));
        let is_made = !matches!(kind.reads, Reads::Human | Reads::Nothing);
        assert_eq!(fencing_drivers::kind(&spec).is_some(), is_made, "{name}");
    }
    let none: FenceDeviceSpec = serde_json::from_value(json!({})).expect("readable");
    assert_eq!(none.driver_name(), "none");
}

/// kubectl shows a date as the time since then, and one that lies ahead as `<invalid>`.
#[test]
fn a_moment_that_may_lie_ahead_is_no_date_of_a_table() {
    let mut dates = vec![];
    for (_, definition) in crd::all() {
        let columns = definition.pointer("/spec/versions/0/additionalPrinterColumns");
        let columns = columns.and_then(Value::as_array).expect("columns");
        let of_type = columns.iter().filter(|column| column["type"] == "date");
        dates.extend(of_type.map(|column| column["jsonPath"].as_str().map(str::to_owned)));
    }
    dates.sort();
    dates.dedup();
    let past = [
        ".metadata.creationTimestamp",
        ".status.lastIncidentTime",
        ".status.lastSuccessTime",
    ];
    assert_eq!(dates, past.map(|path| Some(path.to_owned())));
}

/// Argo CD and `kubectl apply` compare a list with the manifest as a whole: what the API server fills into an item is a difference for ever.
#[test]
fn no_item_of_a_list_has_a_default() {
    fn defaults(path: &str, schema: &Value, is_in_list: bool, found: &mut Vec<String>) {
        if is_in_list && schema.get("default").is_some() {
            found.push(path.to_owned());
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            defaults(&format!("{path}.{name}"), property, is_in_list, found);
        }
        if let Some(values) = schema.get("additionalProperties") {
            defaults(&format!("{path}[*]"), values, is_in_list, found);
        }
        if let Some(items) = schema.get("items") {
            defaults(&format!("{path}[]"), items, true, found);
        }
    }
    let mut found = vec![];
    for (name, definition) in crd::all() {
        let schema = crd::schema(&definition).expect("a schema");
        defaults(name, schema, false, &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
}

/// An item that an older version stored, with what the schema filled in then, is read like one that lacks it.
#[test]
fn items_of_lists_are_completed_when_they_are_read() {
    let read = |level: &Value, window: &Value| {
        through::<NodeFencingPolicySpec>(&json!({
            "nodeSelector": {}, "fence": {"mode": "PowerOff", "levels": [level]}, "windows": [window],
        }))
    };
    let level = json!({"name": "bmc"});
    let window =
        json!({"name": "n", "days": ["Mon"], "start": "01:00", "end": "02:00", "mode": "Observe"});
    let (mut old_level, mut old_window) = (level.clone(), window.clone());
    json_patch::merge(
        &mut old_level,
        &json!({"require": "All", "attempts": 3, "retryPeriodSeconds": 5}),
    );
    json_patch::merge(&mut old_window, &json!({"timeZone": "Etc/UTC"}));
    let old = read(&old_level, &old_window);
    assert_eq!(read(&level, &window), old);
    assert_eq!(old["fence"]["levels"], json!([old_level]));
    assert_eq!(old["windows"], json!([old_window]));
}

/// The API server charges a rule's cost by the largest value that the schema admits, and S19 wants a limit on everything.
#[test]
fn everything_in_the_schema_has_a_bound() {
    fn check(path: &str, schema: &Value) {
        match schema["type"].as_str() {
            Some("object") => {
                for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    check(&format!("{path}.{name}"), property);
                }
                if let Some(values) = schema.get("additionalProperties") {
                    assert!(schema["maxProperties"].is_u64(), "{path}: no maxProperties");
                    check(&format!("{path}[*]"), values);
                }
            }
            Some("array") => {
                assert!(schema["maxItems"].is_u64(), "{path}: no maxItems");
                let list_type = &schema["x-kubernetes-list-type"];
                assert!(list_type.is_string(), "{path}: no list type");
                check(&format!("{path}[]"), &schema["items"]);
            }
            Some("string") => {
                let bounded = schema["maxLength"].is_u64() || schema["enum"].is_array();
                assert!(
                    bounded || schema["format"] == "date-time",
                    "{path}: no maxLength"
                );
            }
            Some("integer") => {
                let bounded = schema["minimum"].is_i64() && schema["maximum"].is_i64();
                assert!(
                    bounded || schema["format"] == "int64",
                    "{path}: no minimum or maximum"
                );
            }
            other => {
                assert_eq!(
                    schema["x-kubernetes-int-or-string"], true,
                    "{path}: type {other:?}"
                );
            }
        }
        assert!(schema.get("nullable").is_none(), "{path}: nullable");
        assert!(
            schema["description"].is_string() || path.ends_with("[]") || path.ends_with("[*]"),
            "{path}: no description"
        );
    }
    for (name, definition) in crd::all() {
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        check(name, schema);
    }
}

/// `helm.sh/resource-policy` is about the definition, and not about each object.
#[test]
fn objects_have_no_annotation_of_their_definition() {
    let trigger = json!({"type": "Manual", "requestedBy": "admin", "reason": "smoke"});
    let spec = json!({"nodeName": "w", "trigger": trigger});
    let spec: NodeFenceSpec = serde_json::from_value(spec).expect("a spec");
    assert_eq!(NodeFence::new("f", spec).metadata.annotations, None);
    for (file, definition) in crd::all() {
        let kept = &definition["metadata"]["annotations"]["helm.sh/resource-policy"];
        assert_eq!(kept, "keep", "{file}");
    }
}
