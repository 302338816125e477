//! A remediation that another controller has made: which node it is about, whether it still asks for a fence, and what its caller reads in its status.
//!
//! It skips the wait of the policy that governs the node, and nothing else. Its status mirrors the NodeFence. NodeHealthCheck goes on to its next
//! remediator when `Succeeded` is False, so that says only what does not change by waiting.

use super::observed::NodeView;
use super::protection::in_force;
use super::select::governing;
use super::stage::Stage;
use fencing_api::conditions::{ConditionStatus, SUCCEEDED, find, set_condition};
use fencing_api::fence::NodeFence;
use fencing_api::names::is_dns_name;
use fencing_api::policy::{FenceMode, NodeFencingPolicy};
use fencing_api::remediation::{
    MACHINE_GROUP, MACHINE_KIND, NODE_NAME, NodeFenceRemediation, NodeFenceRemediationStatus,
    PROCESSING, TIMED_OUT,
};
use jiff::Timestamp;

/// Which node a remediation is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The Node of this name.
    Node(String),
    /// The Node of this Machine of Cluster API, in the namespace of the remediation.
    Machine {
        /// Version of the API, as the remediation's owner reference has it.
        version: String,
        /// Name of the Machine.
        name: String,
    },
}

/// Which node is it about? NodeHealthCheck names it by an annotation, or by the name of the object; Cluster API makes the Machine its owner.
pub fn target(remediation: &NodeFenceRemediation) -> Target {
    let metadata = &remediation.metadata;
    if let Some(node) = annotation(remediation, NODE_NAME) {
        return Target::Node(node.to_owned());
    }
    let machine = metadata.owner_references.iter().flatten().find_map(|it| {
        let (group, version) = it.api_version.split_once('/')?;
        // What another has written becomes a part of a path.
        let is_plain = version.bytes().all(|it| it.is_ascii_alphanumeric());
        let is_machine = group == MACHINE_GROUP && it.kind == MACHINE_KIND;
        (is_machine && is_plain && is_dns_name(&it.name)).then(|| Target::Machine {
            version: version.to_owned(),
            name: it.name.clone(),
        })
    });
    machine.unwrap_or_else(|| Target::Node(metadata.name.clone().unwrap_or_default()))
}

/// Does it still ask for a fence? Neither once it is being deleted nor once its caller has stopped it.
pub fn asks(remediation: &NodeFenceRemediation) -> bool {
    remediation.metadata.deletion_timestamp.is_none() && !is_timed_out(remediation)
}

/// Has the remediation with this UID had its fence? It is about one outage: it has none of this `name` twice, and is over with its fence unless that
/// was aborted.
pub fn is_served(fences: &[NodeFence], uid: &str, name: &str) -> bool {
    let is_its = |it: &&NodeFence| {
        let of = it.spec.trigger.remediation.as_ref();
        of.is_some_and(|of| of.uid == uid)
    };
    let is_over = |it: &NodeFence| {
        let conditions = it.status.as_ref().map(|it| it.conditions.as_slice());
        let succeeded = find(conditions.unwrap_or_default(), SUCCEEDED);
        let was_aborted = succeeded.is_some_and(|it| it.reason == Stage::Aborted.to_string());
        it.metadata.name.as_deref() == Some(name) || (it.is_ended() && !was_aborted)
    };
    fences.iter().filter(is_its).any(is_over)
}

fn is_timed_out(remediation: &NodeFenceRemediation) -> bool {
    annotation(remediation, TIMED_OUT).is_some()
}

fn annotation<'a>(remediation: &'a NodeFenceRemediation, key: &str) -> Option<&'a str> {
    let annotations = remediation.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// What the status of a remediation is made of.
pub struct Facts<'a> {
    /// Name of its Node; none: its Machine has no Node.
    pub node_name: Option<&'a str>,
    /// The Node, if it exists.
    pub node: Option<&'a NodeView>,
    /// All policies.
    pub policies: &'a [NodeFencingPolicy],
    /// The NodeFences of the node.
    pub fences: &'a [NodeFence],
    /// Wall clock.
    pub now: Timestamp,
}

/// The status that the remediation is to have.
pub fn status(remediation: &NodeFenceRemediation, facts: &Facts<'_>) -> NodeFenceRemediationStatus {
    let mut status = remediation.status.clone().unwrap_or_default();
    let fence = fence_of(remediation, &status, facts.fences);
    let answer = answer(remediation, fence, facts);
    if let Some(node) = facts.node_name {
        status.node_name = Some(node.to_owned());
    }
    if let Some(fence) = fence {
        status.fence_name.clone_from(&fence.metadata.name);
    }
    for (kind, value) in [
        (PROCESSING, answer.processing),
        (SUCCEEDED, answer.succeeded),
    ] {
        set_condition(
            &mut status.conditions,
            kind,
            value,
            &answer.reason,
            &answer.message,
            remediation.metadata.generation,
            facts.now,
        );
    }
    status
}

/// The NodeFence that serves it: the one that was opened for it, the one that has served it, or the one that handles the node now.
fn fence_of<'a>(
    remediation: &NodeFenceRemediation,
    status: &NodeFenceRemediationStatus,
    fences: &'a [NodeFence],
) -> Option<&'a NodeFence> {
    let uid = remediation.metadata.uid.as_ref();
    let is_for_it = |fence: &&NodeFence| {
        let of = fence.spec.trigger.remediation.as_ref();
        of.is_some_and(|it| Some(&it.uid) == uid)
    };
    let has_served = |fence: &&NodeFence| {
        status.fence_name.is_some() && fence.metadata.name == status.fence_name
    };
    let newest = |fence: &&NodeFence| {
        let created = fence.metadata.creation_timestamp.as_ref();
        (!fence.is_ended(), created.map(|it| it.0))
    };
    let opened = fences.iter().filter(is_for_it).max_by_key(newest);
    let known = || fences.iter().find(has_served);
    let open = || fences.iter().find(|fence| fence.may_act());
    opened.or_else(known).or_else(open)
}

struct Answer {
    processing: ConditionStatus,
    succeeded: ConditionStatus,
    reason: String,
    message: String,
}

impl Answer {
    fn new(succeeded: ConditionStatus, reason: &str, message: String) -> Self {
        Self {
            processing: match succeeded {
                ConditionStatus::Unknown => ConditionStatus::True,
                ConditionStatus::True | ConditionStatus::False => ConditionStatus::False,
            },
            succeeded,
            reason: reason.to_owned(),
            message,
        }
    }

    fn failed(reason: &str, message: String) -> Self {
        Self::new(ConditionStatus::False, reason, message)
    }

    fn waiting(message: String) -> Self {
        Self::new(ConditionStatus::Unknown, "Waiting", message)
    }
}

fn answer(
    remediation: &NodeFenceRemediation,
    fence: Option<&NodeFence>,
    facts: &Facts<'_>,
) -> Answer {
    let is_stopped = is_timed_out(remediation);
    // After an off command and under the taint it continues, whatever its caller wants.
    let is_commanded = |it: &NodeFence| it.status.as_ref().is_some_and(|it| it.is_commanded());
    let goes_on = |it: &&NodeFence| {
        !is_stopped || it.is_ended() || is_commanded(it) || it.is_out_of_service()
    };
    if let Some(fence) = fence.filter(goes_on) {
        return of_fence(fence);
    }
    if is_stopped {
        let message = format!("stopped by NodeHealthCheck (annotation `{TIMED_OUT}`)");
        return Answer::failed("TimedOut", message);
    }
    let Some(name) = facts.node_name else {
        let message =
            "the Machine has no Node in this cluster (`status.nodeRef`, `spec.providerID`)";
        let message = message.to_owned();
        return Answer::failed("NodeNotFound", message);
    };
    let Some(node) = facts.node else {
        return Answer::failed("NodeNotFound", format!("Node {name} does not exist"));
    };
    let policy = match governing(facts.policies, node) {
        Ok(Some(policy)) => policy,
        Ok(None) => {
            let message = format!(
                "no NodeFencingPolicy selects Node {name}; create one, or correct its `nodeSelector`"
            );
            return Answer::failed("NoPolicy", message);
        }
        Err(conflict) => return Answer::failed("Conflict", conflict.to_string()),
    };
    let policy_name = policy.metadata.name.as_deref().unwrap_or_default();
    // Another window may open while it waits.
    let is_for_good = policy.spec.windows.is_empty();
    if is_for_good && in_force(policy, facts.now).mode == FenceMode::Observe {
        let message = format!(
            "NodeFencingPolicy {policy_name} is in mode Observe; set `fence.mode` to ConfirmOnly or PowerOff"
        );
        return Answer::failed("Observe", message);
    }
    Answer::waiting(format!(
        "NodeFencingPolicy {policy_name} has not opened a NodeFence yet; see `kubectl fence explain {name}`"
    ))
}

/// What the NodeFence says. Pods and volumes are free before it ends, which may take until its machine is repaired.
fn of_fence(fence: &NodeFence) -> Answer {
    let name = fence.metadata.name.as_deref().unwrap_or_default();
    let conditions = fence.status.as_ref().map(|it| it.conditions.as_slice());
    let Some(succeeded) = find(conditions.unwrap_or_default(), SUCCEEDED) else {
        return Answer::waiting(format!("NodeFence {name} was opened"));
    };
    let is = |status: ConditionStatus| succeeded.status == status.as_str();
    let is_free = [Stage::AwaitingRelease, Stage::PoweringOn]
        .iter()
        .any(|stage| stage.to_string() == succeeded.reason);
    let status = match is_free || is(ConditionStatus::True) {
        true => ConditionStatus::True,
        false if is(ConditionStatus::False) => ConditionStatus::False,
        false => ConditionStatus::Unknown,
    };
    let message = format!("NodeFence {name}: {}", succeeded.message);
    Answer::new(status, &succeeded.reason, message)
}

#[cfg(test)]
mod tests;
