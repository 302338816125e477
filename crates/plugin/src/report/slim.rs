//! Objects without what nobody needs who looks for a fault, and without what may hold anything.

use super::redact::LEFT_OUT;
use serde_json::{Map, Value, json};

/// Annotations with this in their key are the operator's, and shown.
const OWN: &str = "nodefencing.io/";
/// Of a Node's status, what tells of its state.
const NODE_STATUS: [&str; 5] = [
    "addresses",
    "conditions",
    "nodeInfo",
    "volumesAttached",
    "volumesInUse",
];
/// Of its spec.
const NODE_SPEC: [&str; 3] = ["taints", "unschedulable", "providerID"];
/// What may hold anything, as a whole.
const WHOLE: [&str; 3] = [
    "/spec/template/metadata/annotations",
    "/status/attachmentMetadata",
    "/spec/source/inlineVolumeSpec",
];

/// Any object. Environment variables, headers of probes and parameters of a fence agent may hold a password; what a driver keeps with a
/// VolumeAttachment may name portals and targets.
pub fn object(mut object: Value) -> Value {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            for (key, value) in annotations {
                if !key.contains(OWN) {
                    *value = LEFT_OUT.into();
                }
            }
        }
    }
    for path in WHOLE {
        if let Some(kept) = object.pointer_mut(path) {
            *kept = LEFT_OUT.into();
        }
    }
    hide(object.pointer_mut("/spec/fenceAgent/parameters"));
    for spec in ["/spec", "/spec/template/spec"] {
        for containers in ["containers", "initContainers", "ephemeralContainers"] {
            let containers = object.pointer_mut(&format!("{spec}/{containers}"));
            let containers = containers.and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                hide(container.get_mut("env"));
                for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
                    hide(container.pointer_mut(&format!("/{probe}/httpGet/httpHeaders")));
                }
            }
        }
    }
    object
}

/// A Node.
pub fn node(node: Value) -> Value {
    let node = object(node);
    let kept = |of: &str, keys: &[&str]| {
        let fields = node
            .get(of)
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        let fields = fields.filter(|(key, _)| keys.contains(&key.as_str()));
        let fields = fields.map(|(key, value)| (key.clone(), value.clone()));
        Value::Object(fields.collect::<Map<_, _>>())
    };
    json!({
        "metadata": node.get("metadata"),
        "spec": kept("spec", &NODE_SPEC),
        "status": kept("status", &NODE_STATUS),
    })
}

/// A CustomResourceDefinition: its versions.
pub fn definition(definition: &Value) -> Value {
    let versions = definition
        .pointer("/spec/versions")
        .and_then(Value::as_array);
    let versions = versions.into_iter().flatten().map(|it| {
        json!({"name": it.get("name"), "served": it.get("served"), "storage": it.get("storage")})
    });
    json!({
        "name": definition.pointer("/metadata/name"),
        "versions": versions.collect::<Vec<_>>(),
        "storedVersions": definition.pointer("/status/storedVersions"),
        "conditions": definition.pointer("/status/conditions"),
    })
}

/// The values in a list of names and values.
fn hide(list: Option<&mut Value>) {
    let items = list.and_then(Value::as_array_mut);
    let values = items
        .into_iter()
        .flatten()
        .filter_map(|it| it.get_mut("value"));
    values.for_each(|it| *it = LEFT_OUT.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_hold_anything_is_left_out() {
        let pod = json!({
            "metadata": {"name": "p", "managedFields": [], "annotations": {"a": "calvin", "nodefencing.io/probe-requested-at": "now"}},
            "spec": {"containers": [{
                "name": "c", "env": [{"name": "A", "value": "calvin"}, {"name": "B", "valueFrom": {}}],
                "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "X", "value": "calvin"}]}},
            }]},
        });
        let template = json!({
            "metadata": {"name": "d"},
            "spec": {"template": {"metadata": {"annotations": {"a": "calvin"}}, "spec": pod["spec"].clone()}},
        });
        let attached = json!({
            "metadata": {"name": "a"}, "spec": {"source": {"inlineVolumeSpec": {"iscsi": "calvin"}}},
            "status": {"attachmentMetadata": {"portal": "calvin"}},
        });
        let agent = json!({"metadata": {"name": "f"}, "spec": {"fenceAgent": {"parameters": [{"name": "p", "value": "calvin"}]}}});
        let shown = [pod, template, agent, attached].map(object);
        for object in &shown {
            assert!(!object.to_string().contains("calvin"), "{object}");
        }
        let annotations = json!({"a": LEFT_OUT, "nodefencing.io/probe-requested-at": "now"});
        assert_eq!(shown[0]["metadata"]["annotations"], annotations);
    }

    #[test]
    fn of_a_node_its_state_is_kept() {
        let full = json!({
            "metadata": {"name": "n"},
            "spec": {"podCIDR": "10.1.0.0/24", "taints": []},
            "status": {"images": [], "conditions": []},
        });
        let kept = json!({"metadata": {"name": "n"}, "spec": {"taints": []}, "status": {"conditions": []}});
        assert_eq!(node(full), kept);
    }
}
