//! Reading objects that the lab has no types for, or only large ones.

use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::audit::Request;

/// Resource and subresource of a request, as `nodefences` or `pods`.
pub fn resource(request: &Request) -> String {
    request.object_ref.resource.clone()
}

/// The stage of a NodeFence: the reason of its condition `Succeeded`.
pub fn stage(fence: &DynamicObject) -> &str {
    condition(fence, "Succeeded")
        .and_then(|condition| condition["reason"].as_str())
        .unwrap_or_default()
}

/// A condition of one of our objects.
pub fn condition<'a>(object: &'a DynamicObject, kind: &str) -> Option<&'a Value> {
    object.data["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Keys of a Node's taints.
pub fn taints(node: &Node) -> Vec<String> {
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.clone())
        .unwrap_or_default();
    taints.into_iter().map(|taint| taint.key).collect()
}

/// Does the Node carry a taint with this key?
pub fn has_taint(node: &Node, key: &str) -> bool {
    taints(node).iter().any(|taint| taint == key)
}
