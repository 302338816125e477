//! The writes to a Node: six JSON Patches, each of which tests what it relies on, and its deletion, which names the version that was read.
//!
//! `spec.taints` is an atomic list, so it is never merged and never applied (S7). A JSON Patch `test` is evaluated by
//! the API server against the stored object on each of its own retries, which makes the Node the lock and the claim's
//! value the fencing token (docs/protocol.md). A test that fails is HTTP 422.

use super::observed::{
    AttachmentView, CLAIM, DETACHING, NodeView, OUT_OF_SERVICE, QUARANTINE, Ready, TaintView,
};
use super::proof::Proof;
use serde_json::{Value, json};
use std::time::Duration;

/// A JSON Patch of a Node, ready to send.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodePatch {
    /// Node name.
    pub node: String,
    /// The operations, in the order of RFC 6902.
    pub operations: Value,
    /// Not to be sent before this moment (time since boot); zero: at once.
    pub valid_from: Duration,
    /// Not to be sent after this moment (time since boot); none: it is safe at any time.
    pub valid_until: Option<Duration>,
}

/// VolumeAttachments to delete, by name and uid, while the power was read just now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Detachment {
    /// The VolumeAttachments.
    pub attachments: Vec<AttachmentView>,
    /// Not to be sent after this moment (time since boot).
    pub valid_until: Duration,
}

/// The deletion of a Node, exactly as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeDeletion {
    /// Node name.
    pub node: String,
    /// Its UID.
    pub uid: String,
    /// Its version: whatever is written to it since, by a kubelet that boots or by a process that takes the claim over, keeps it.
    pub resource_version: String,
    /// Not to be sent after this moment (time since boot).
    pub valid_until: Duration,
}

/// `<fence>-<nonce>`: the value of a claim.
pub fn claim_value(fence: &str, nonce: &str) -> String {
    format!("{fence}-{nonce}")
}

/// The NodeFence that a claim names.
pub fn claim_fence(value: &str) -> Option<&str> {
    value.rsplit_once('-').map(|(fence, _)| fence)
}

/// The `out-of-service` that whoever holds the claim has set, and its place. Ours bears the claim's `timeAdded`. A human's (kubectl writes
/// none) and another controller's (the time at which it set it) do not, though value and effect are the same.
pub fn out_of_service_of_claim(node: &NodeView) -> Option<(usize, &TaintView)> {
    let ours = out_of_service_dated(claim_date(node)?);
    let mut taints = node.taints.iter().enumerate();
    taints.find(|(_, taint)| **taint == ours)
}

/// The taint under which the operator itself detaches the node's volumes, set by whoever holds the claim, and its place.
pub fn detaching_of_claim(node: &NodeView) -> Option<(usize, &TaintView)> {
    let date = claim_date(node)?;
    let mut taints = node.taints.iter().enumerate();
    taints.find(|(_, taint)| taint.key == DETACHING && taint.time_added.as_deref() == Some(date))
}

/// The mark that was set under the claim, whichever of the two: from then on the volumes may be detached.
pub fn mark_of_claim(node: &NodeView) -> Option<(usize, &TaintView)> {
    out_of_service_of_claim(node).or_else(|| detaching_of_claim(node))
}

/// Key of the mark that is set under the claim of this Node: `out-of-service`, unless the Node is to be deleted.
pub fn mark_key_of_claim(node: &NodeView) -> &str {
    mark_of_claim(node).map_or(OUT_OF_SERVICE, |(_, taint)| taint.key.as_str())
}

/// A mark's key as it is called in sentences.
pub fn display_name(key: &str) -> &str {
    match key {
        OUT_OF_SERVICE => "out-of-service",
        key => key,
    }
}

/// When people may take a mark away by hand.
pub fn harmless_when(key: &str) -> &'static str {
    match key {
        DETACHING => "no VolumeAttachment is left and the machine is off or rebooted",
        _ => "the machine is off or rebooted",
    }
}

/// What people have to know of a mark that nobody sees to.
pub fn left_behind(node: &str) -> String {
    format!(
        "once {}, remove it (kubectl taint node {node} {DETACHING}-)",
        harmless_when(DETACHING)
    )
}

/// `timeAdded` of the claim that stands on the node.
pub fn claim_date(node: &NodeView) -> Option<&str> {
    let (_, claim) = node.taint(CLAIM)?;
    claim.time_added.as_deref()
}

fn out_of_service_dated(date: &str) -> TaintView {
    TaintView {
        key: OUT_OF_SERVICE.to_owned(),
        value: Some("nodeshutdown".to_owned()),
        effect: "NoExecute".to_owned(),
        time_added: Some(date.to_owned()),
    }
}

/// Puts our claim on the node at `date` (RFC 3339, seconds); not before `valid_from` (time since boot). Where it takes another one's
/// place the whole list is tested: an `out-of-service` that was set under that one must not come to stand under this one.
pub fn claim(node: &NodeView, value: &str, date: &str, valid_from: Duration) -> NodePatch {
    let claim = json!({"key": CLAIM, "value": value, "effect": "NoExecute", "timeAdded": date});
    let mut operations = vec![test_uid(node)];
    match node.taint(CLAIM) {
        Some((index, _)) => {
            operations.push(test_untouched(node));
            operations.push(
                json!({"op": "replace", "path": format!("/spec/taints/{index}"), "value": claim}),
            );
        }
        None => operations.extend(append(node, claim)),
    }
    NodePatch {
        valid_from,
        ..patch(node, operations, None)
    }
}

/// Sets `out-of-service` under our claim. Consumes the proof: one proof, one taint, and not after it has died.
pub fn out_of_service(node: &NodeView, proof: Proof) -> Option<NodePatch> {
    let taint = out_of_service_dated(claim_date(node)?);
    under_claim(node, proof, &taint)
}

/// Sets the taint under which the operator detaches the volumes by itself, before it deletes the Node. Consumes the proof like
/// [`out_of_service`]: from here on volumes are taken from the machine.
pub fn detaching(node: &NodeView, proof: Proof) -> Option<NodePatch> {
    let taint = TaintView {
        key: DETACHING.to_owned(),
        value: Some(node.boot_id.clone()),
        effect: "NoExecute".to_owned(),
        time_added: Some(claim_date(node)?.to_owned()),
    };
    under_claim(node, proof, &taint)
}

fn under_claim(node: &NodeView, proof: Proof, taint: &TaintView) -> Option<NodePatch> {
    let (index, claim) = own(node, proof.claim())?;
    // The kubelet of another boot may have reported by the time that this arrives.
    let boot = json!({"op": "test", "path": "/status/nodeInfo/bootID", "value": node.boot_id});
    let mut operations = vec![test_uid(node), boot, test_element(index, claim)];
    operations.extend(append(node, element(taint)));
    Some(patch(node, operations, Some(proof.valid_until())))
}

/// Deletes the Node under our claim, once everything has detached under it. A kubelet that has said a word since has made another version
/// of it, and so has whoever took the claim over.
pub fn delete_node(node: &NodeView, claim: &str, valid_until: Duration) -> Option<NodeDeletion> {
    own(node, claim)?;
    detaching_of_claim(node)?;
    let is_down = node.ready() != Ready::True && !node.resource_version.is_empty();
    is_down.then(|| NodeDeletion {
        node: node.name.clone(),
        uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        valid_until,
    })
}

/// Takes our claim away and touches nothing else. The whole list is tested: an `out-of-service` of ours whose answer was lost
/// may land before this does, and must not be left behind without its claim.
pub fn drop_claim(node: &NodeView, claim: &str) -> Option<NodePatch> {
    let (index, _) = own(node, claim)?;
    let operations = vec![test_uid(node), test_untouched(node), remove(index)];
    Some(patch(node, operations, None))
}

/// Takes the mark and our claim away in one write. With `quarantine` (the fenced boot ID) the node still has that boot ID, which is tested too,
/// and is kept free of new pods until it reports another.
pub fn release(node: &NodeView, claim: &str, quarantine: Option<&str>) -> Option<NodePatch> {
    let (claim_index, claim_element) = own(node, claim)?;
    let (mark_index, mark_element) = mark_of_claim(node)?;
    let mut operations = vec![
        test_uid(node),
        test_element(claim_index, claim_element),
        test_element(mark_index, mark_element),
    ];
    if let Some(boot_id) = quarantine {
        operations.push(json!({"op": "test", "path": "/status/nodeInfo/bootID", "value": boot_id}));
    }
    // A quarantine of an earlier boot would be lifted while the machine is still down: replaced, before indexes move.
    let quarantine = quarantine
        .map(|boot_id| json!({"key": QUARANTINE, "value": boot_id, "effect": "NoSchedule"}));
    if let (Some(element), Some((index, old))) = (&quarantine, node.taint(QUARANTINE)) {
        operations.push(test_element(index, old));
        operations.push(
            json!({"op": "replace", "path": format!("/spec/taints/{index}"), "value": element}),
        );
    }
    // The higher index first: a removal moves what stands behind it.
    operations.push(remove(claim_index.max(mark_index)));
    operations.push(remove(claim_index.min(mark_index)));
    if let (Some(element), None) = (quarantine, node.taint(QUARANTINE)) {
        operations.push(json!({"op": "add", "path": "/spec/taints/-", "value": element}));
    }
    Some(patch(node, operations, None))
}

/// Was the machine proven down in the very boot that the Node reports, and was everything taken off it since?
pub fn is_quarantined(node: &NodeView) -> bool {
    let fenced = node
        .taint(QUARANTINE)
        .and_then(|(_, it)| it.value.as_deref());
    !node.boot_id.is_empty() && fenced == Some(node.boot_id.as_str())
}

/// Takes the quarantine away from a node that has reported another boot than the one it was fenced with. The mark of [`detaching`] does not go
/// with the boot: the deletion of a VolumeAttachment may still be on its way.
pub fn lift_quarantine(node: &NodeView) -> Option<NodePatch> {
    let (index, element) = node.taint(QUARANTINE)?;
    if node.boot_id.is_empty() || element.value.as_deref() == Some(node.boot_id.as_str()) {
        return None;
    }
    let boot = json!({"op": "test", "path": "/status/nodeInfo/bootID", "value": node.boot_id});
    let operations = vec![
        test_uid(node),
        boot,
        test_element(index, element),
        remove(index),
    ];
    Some(patch(node, operations, None))
}

fn own<'a>(node: &'a NodeView, claim: &str) -> Option<(usize, &'a TaintView)> {
    node.taint(CLAIM)
        .filter(|(_, taint)| taint.value.as_deref() == Some(claim))
}

fn patch(node: &NodeView, operations: Vec<Value>, valid_until: Option<Duration>) -> NodePatch {
    NodePatch {
        node: node.name.clone(),
        operations: Value::Array(operations),
        valid_from: Duration::ZERO,
        valid_until,
    }
}

fn test_uid(node: &NodeView) -> Value {
    json!({"op": "test", "path": "/metadata/uid", "value": node.uid})
}

fn test_element(index: usize, taint: &TaintView) -> Value {
    json!({"op": "test", "path": format!("/spec/taints/{index}"), "value": element(taint)})
}

/// Nothing has come or gone since the list was read.
fn test_untouched(node: &NodeView) -> Value {
    let list: Vec<Value> = node.taints.iter().map(element).collect();
    json!({"op": "test", "path": "/spec/taints", "value": list})
}

fn remove(index: usize) -> Value {
    json!({"op": "remove", "path": format!("/spec/taints/{index}")})
}

/// `add` to the end. A Node without taints has no list to add to, and `add` of a whole list would replace one that came
/// meanwhile, so that there is none is tested first: for the API server a field that is absent equals null (S7).
fn append(node: &NodeView, element: Value) -> Vec<Value> {
    if node.taints.is_empty() {
        vec![
            json!({"op": "test", "path": "/spec/taints", "value": null}),
            json!({"op": "add", "path": "/spec/taints", "value": [element]}),
        ]
    } else {
        vec![json!({"op": "add", "path": "/spec/taints/-", "value": element})]
    }
}

/// The taint as the API server prints it.
pub fn element(taint: &TaintView) -> Value {
    let mut value = json!({"key": taint.key, "effect": taint.effect});
    if let Value::Object(fields) = &mut value {
        let optional = [("value", &taint.value), ("timeAdded", &taint.time_added)];
        for (name, content) in optional {
            if let Some(content) = content {
                fields.insert(name.to_owned(), json!(content));
            }
        }
    }
    value
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
