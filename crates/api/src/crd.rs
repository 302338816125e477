//! From the types to the CustomResourceDefinitions in `crds/`.
//!
//! The derive gives nearly everything. What is left is done here: Kubernetes has no unsigned format, an optional field must
//! not become nullable (an explicit `null` would then be stored and break the "absent means default" rule), and rules on the
//! root of an object cannot stand at a struct that the derive generates.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::conditions;
use super::device::FenceDevice;
use super::fence::{FENCE_NAME_CHARS_MAX, NodeFence};
use super::policy::NodeFencingPolicy;
use super::remediation::{NodeFenceRemediation, NodeFenceRemediationTemplate};

/// Where a definition has the schema of its objects.
const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";

/// A CEL rule on the value it stands at; `message` is what the user reads when it does not hold.
pub(super) fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

/// A CEL rule whose violation is reported at a field of the value it stands at.
pub(super) fn rule_at(rule: &str, message: &str, field_path: &str) -> Value {
    json!({"rule": rule, "message": message, "fieldPath": field_path})
}

/// The rule that a field keeps what it was created with. It stands at the parent, because a rule at the field itself does not
/// run when an optional field is added or removed.
pub(super) fn frozen(field: &str) -> Value {
    rule_at(
        &format!(
            "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
        ),
        &format!("`{field}` is immutable: create another object instead"),
        &format!(".{field}"),
    )
}

/// Schema of a point in time.
pub(super) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// The CustomResourceDefinitions as they are installed, each with the name of its file in `crds/`.
#[must_use]
pub fn all() -> Vec<(&'static str, Value)> {
    vec![
        (
            "nodefencingpolicies.yaml",
            unassessed(finished(&NodeFencingPolicy::crd(), vec![])),
        ),
        (
            "fencedevices.yaml",
            unassessed(finished(&FenceDevice::crd(), vec![])),
        ),
        (
            "nodefences.yaml",
            naming_its_mode(finished(
                &NodeFence::crd(),
                vec![rule(
                    &format!("size(self.metadata.name) <= {FENCE_NAME_CHARS_MAX}"),
                    &format!(
                        "name must be {FENCE_NAME_CHARS_MAX} characters or fewer: with a hyphen and 8 more it is a taint's value, of 63 at most"
                    ),
                )],
            )),
        ),
        (
            "nodefenceremediations.yaml",
            finished(&NodeFenceRemediation::crd(), vec![]),
        ),
        (
            "nodefenceremediationtemplates.yaml",
            finished(&NodeFenceRemediationTemplate::crd(), vec![]),
        ),
    ]
}

/// The schema of a FenceDevice.
#[must_use]
pub fn of_fence_device() -> Value {
    let definition = finished(&FenceDevice::crd(), vec![]);
    schema(&definition).cloned().unwrap_or_default()
}

/// The schema of a definition's objects.
#[must_use]
pub fn schema(definition: &Value) -> Option<&Value> {
    definition.pointer(SCHEMA)
}

/// The definition with what the derive cannot say.
fn finished(crd: &CustomResourceDefinition, root_rules: Vec<Value>) -> Value {
    let mut definition = json!(crd);
    // Helm leaves it where it is when the chart goes. The derive would put this on each object, too.
    let kept =
        json!({"annotations": {"helm.sh/resource-policy": "keep"}, "name": crd.metadata.name});
    if let Some(metadata) = definition.pointer_mut("/metadata") {
        *metadata = kept;
    }
    if let Some(schema) = definition.pointer_mut(SCHEMA) {
        tidy(schema, false);
        if let (false, Some(root)) = (root_rules.is_empty(), schema.as_object_mut()) {
            root.insert(
                "x-kubernetes-validations".to_owned(),
                Value::Array(root_rules),
            );
        }
    }
    definition
}

/// With the status that an object has until the operator writes one. A NodeFence has none: whether one has a condition `Succeeded` tells the
/// operator whether an earlier process has begun with it.
fn unassessed(mut definition: Value) -> Value {
    let status = definition.pointer_mut(&format!("{SCHEMA}/properties/status"));
    if let Some(status) = status.and_then(Value::as_object_mut) {
        let preset = json!({"conditions": conditions::unassessed()});
        status.insert("default".to_owned(), preset);
    }
    definition
}

/// A NodeFence has to name its mode: the default, Observe, would look like a fence and do nothing.
fn naming_its_mode(mut definition: Value) -> Value {
    let spec = format!("{SCHEMA}/properties/spec");
    let fence = format!("{spec}/properties/fence");
    for (parent, field) in [(spec, "fence"), (fence, "mode")] {
        let schema = definition
            .pointer_mut(&parent)
            .and_then(Value::as_object_mut);
        let Some(schema) = schema else { continue };
        let required = schema.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            required.push(json!(field));
        }
        if let Some(Value::Object(field)) = schema
            .get_mut("properties")
            .and_then(|it| it.get_mut(field))
        {
            field.remove("default");
        }
    }
    definition
}

/// Makes a schema, and every schema in it, say what Kubernetes understands.
///
/// What `is_in_list` has no default: Argo CD and `kubectl apply` compare a list with the manifest as a whole, so an item that the API server
/// completes differs for ever. Serde fills it in when the operator reads the item.
fn tidy(schema: &mut Value, is_in_list: bool) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    if is_in_list {
        fields.remove("default");
    }
    fields.remove("nullable");
    fields.remove("title");
    if let Some(format) = fields.get_mut("format") {
        match format.as_str() {
            Some("uint8" | "uint16" | "uint32") => *format = json!("int32"),
            Some("uint64") => *format = json!("int64"),
            _ => {}
        }
    }
    for bound in ["minimum", "maximum"] {
        // Kubernetes' type has floats here; every bound of ours is an integer.
        if let Some(integer) = fields.get(bound).and_then(Value::as_f64) {
            #[allow(clippy::cast_possible_truncation, reason = "bounds are far below 2^53")]
            fields.insert(bound.to_owned(), json!(integer as i64));
        }
    }
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        for property in properties.values_mut() {
            tidy(property, is_in_list);
        }
    }
    if let Some(values) = fields.get_mut("additionalProperties") {
        tidy(values, is_in_list);
    }
    if let Some(items) = fields.get_mut("items") {
        tidy(items, true);
    }
}
