//! Fields that no FenceDevice has. `kubectl apply` refuses them; our own types would drop them without a word, and what was probed
//! would not be what is meant.

use super::BadInput;
use fencing_api::crd;
use fencing_cluster::text::listed;
use serde_json::Value;

/// Fields that are named.
const NAMED_MAX: usize = 5;
/// Whatever Kubernetes adds to an object, we do not judge.
const OF_KUBERNETES: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// Refuses a FenceDevice with a field that this version does not know.
pub fn all_known(device: &Value, name: &str) -> Result<(), BadInput> {
    let schema = crd::of_fence_device();
    let mut unknown = Vec::new();
    compare("", device, &schema, &mut unknown);
    if unknown.is_empty() {
        return Ok(());
    }
    Err(BadInput(format!(
        "FenceDevice `{name}` sets unknown fields: {}; correct their spelling and place (docs/reference/fencedevice.md, `kubectl explain fencedevice.spec --recursive`), or remove them",
        listed(&unknown, "`", NAMED_MAX)
    )))
}

/// Notes each field that the schema lacks, and nothing below it.
fn compare(path: &str, value: &Value, schema: &Value, unknown: &mut Vec<String>) {
    let known = schema.get("properties").and_then(Value::as_object);
    let values = schema.get("additionalProperties");
    let fields = value
        .as_object()
        .filter(|_| known.is_some() || values.is_some());
    for (name, value) in fields.into_iter().flatten() {
        if path.is_empty() && OF_KUBERNETES.contains(&name.as_str()) {
            continue;
        }
        let dot = if path.is_empty() { "" } else { "." };
        // A key may be anything, and the message is one line.
        let path = format!("{path}{dot}{}", name.escape_debug());
        match known.and_then(|it| it.get(name)).or(values) {
            Some(schema) => compare(&path, value, schema, unknown),
            None => unknown.push(path),
        }
    }
    if let Some((schema, values)) = schema.get("items").zip(value.as_array()) {
        for (index, value) in values.iter().enumerate() {
            compare(&format!("{path}[{index}]"), value, schema, unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(spec: &Value) -> String {
        let device = json!({"kind": "FenceDevice", "metadata": {"name": "a", "lables": {}}, "status": {"x": 1}, "spec": spec});
        match all_known(&device, "a") {
            Ok(()) => String::new(),
            Err(BadInput(words)) => words,
        }
    }

    #[test]
    fn a_field_that_no_fence_device_has_is_named_with_its_place() {
        let good = json!({"nodeSelector": {"matchLabels": {"a/b": "c"}}, "pdu": {"outlets": [1]}});
        assert_eq!(said(&good), "");
        for (spec, path) in [
            (json!({"identityChek": "Skip"}), "`spec.identityChek`;"),
            (
                json!({"ipmi": {"adress": "a", "Port": 1}}),
                "`spec.ipmi.Port`, `spec.ipmi.adress`;",
            ),
            (
                json!({"nodeSelector": {"matchExpressions": [{"key": "a"}, {"kye": "a"}]}}),
                "`spec.nodeSelector.matchExpressions[1].kye`;",
            ),
            (json!({"a\nb": 1}), "`spec.a\\nb`;"),
            (
                json!({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1}),
                "`spec.a`, `spec.b`, `spec.c`, `spec.d`, `spec.e` and 2 more;",
            ),
        ] {
            let said = said(&spec);
            let words = format!("FenceDevice `a` sets unknown fields: {path}");
            assert!(said.starts_with(&words), "{said}");
        }
    }
}
