//! Does a value fit a schema, as the API server and Helm judge it? Types, required and unknown fields, bounds and words; of a
//! CustomResourceDefinition the CEL rules as well.

use fencing_api::crd;
use kube_cel::{ErrorKind, Validator};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Fields with a rule that cannot be judged here: a regular expression that Go reads and Rust does not, and `type()`.
const NOT_JUDGED: [&str; 2] = ["spec.redfish.address", "spec.budget.minHealthy"];

/// The schemas by kind.
static SCHEMAS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let schema = |definition: &Value| {
        let path = "/spec/versions/0/schema/openAPIV3Schema";
        definition.pointer(path).expect("a schema").clone()
    };
    let all = crd::all().into_iter().map(|(_, it)| {
        let kind = it["spec"]["names"]["kind"].as_str().expect("a kind");
        (kind.to_owned(), schema(&it))
    });
    all.collect()
});

/// The schema of a kind of ours, whole.
pub fn of_kind(kind: &str) -> Option<&'static Value> {
    SCHEMAS.get(kind)
}

/// What the API server would have against this object.
pub fn complaints(kind: &str, object: &Value) -> Vec<String> {
    let Some(schema) = of_kind(kind) else {
        return vec![format!("there is no kind {kind}")];
    };
    let mut found = Vec::new();
    let mut own = object.clone();
    for given in ["apiVersion", "kind", "metadata"] {
        own.as_object_mut().and_then(|fields| fields.remove(given));
    }
    fit(schema, &own, kind, &mut found);
    if found.is_empty()
        && let Err(errors) = Validator::new().validate(schema, object, None)
    {
        let is_judged = |field: &str, error: &ErrorKind| {
            *error == ErrorKind::ValidationFailure || !NOT_JUDGED.contains(&field)
        };
        let errors = errors
            .iter()
            .filter(|it| is_judged(&it.field_path, &it.kind));
        found.extend(errors.map(|error| format!("{kind}: {error}")));
    }
    found
}

/// Adds to `found` where the value does not fit.
pub fn fit(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let mut complain = |words: &str| found.push(format!("{path}: {words}, was {value}"));
    let is_free = schema["x-kubernetes-int-or-string"] == true;
    let kind = schema["type"].as_str().unwrap_or_default();
    let is_of_type = match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64(),
        _ => is_free || schema["type"].is_null(),
    };
    if !is_of_type {
        return complain(&format!("must be of type {kind}"));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        complain(&format!("must be one of {words:?}"));
    }
    let limits = [
        ("minimum", value.as_i64(), false),
        ("maximum", value.as_i64(), true),
        ("minLength", length(value), false),
        ("maxLength", length(value), true),
        (
            "maxItems",
            value.as_array().and_then(|it| i64::try_from(it.len()).ok()),
            true,
        ),
    ];
    for (name, size, is_upper) in limits {
        if let (Some(limit), Some(size)) = (schema[name].as_i64(), size)
            && (size > limit) == is_upper
            && size != limit
        {
            complain(&format!("{name} is {limit}"));
        }
    }
    for field in schema["required"].as_array().into_iter().flatten() {
        let name = field.as_str().unwrap_or_default();
        if value.get(name).is_none() {
            complain(&format!("`{name}` is missing"));
        }
    }
    inside(schema, value, path, found);
}

fn length(value: &Value) -> Option<i64> {
    let count = value.as_str()?.chars().count();
    i64::try_from(count).ok()
}

fn inside(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        fit(&schema["items"], item, &format!("{path}[{at}]"), found);
    }
    // An object without fields may have any.
    let is_open = schema["properties"].is_null() && !schema["additionalProperties"].is_object();
    for (name, field) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Object(_)) => {
                fit(&schema["additionalProperties"], field, &path, found);
            }
            (Value::Null, Value::Bool(true)) => {}
            (Value::Null, _) if is_open => {}
            (Value::Null, _) => found.push(format!("{path} does not exist")),
            (known, _) => fit(known, field, &path, found),
        }
    }
}

#[test]
fn what_does_not_fit_is_found() {
    let device = |spec: &str| {
        let spec: Value = serde_saphyr::from_str(spec).expect("YAML");
        let object = serde_json::json!({"apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "a"}, "spec": spec});
        complaints("FenceDevice", &object).join("; ")
    };
    let whole = "{nodeName: a, ipmi: {address: 10.0.0.1}, credentialsRef: {name: b}}";
    assert_eq!(device(whole), "");
    for (spec, complaint) in [
        (whole.replace("address", "adress"), "adress does not exist"),
        (whole.replace("10.0.0.1", "1"), "must be of type string"),
        (whole.replace("name: b", ""), "`name` is missing"),
        (
            whole.replace("10.0.0.1", "10.0.0.1, port: 70000"),
            "maximum is 65535",
        ),
        (
            whole.replace("{name: b}}", "{name: b}, identityCheck: Never}"),
            "must be one of",
        ),
        (
            whole.replace(", credentialsRef: {name: b}", ""),
            "`credentialsRef` must be set",
        ),
        (
            whole.replace("ipmi", "manual: {}, ipmi"),
            "exactly one driver",
        ),
    ] {
        assert!(
            device(&spec).contains(complaint),
            "{spec}: {}",
            device(&spec)
        );
    }
}
