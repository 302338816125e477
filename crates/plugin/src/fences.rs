//! What the NodeFences say of the nodes: which incident a name means, which are open, how one stands.

mod change;
mod commands;
mod denial;
mod meant;
mod none_open;
mod warnings;

use super::cluster::{Cluster, Error as ClusterError};
use super::table;
pub use change::{again, change};
pub use commands::commands;
pub use denial::{denied, denied_beside};
use fencing_api::conditions::{ESCALATED, HELD, NODE_CONFIRMED_DOWN, SUCCEEDED, find};
use fencing_api::fence::{ApprovalDecision, DesiredState, NodeFence};
use fencing_api::fence_status::PowerReading;
use fencing_api::settings::{ApprovalMode, FenceMode};
use fencing_cluster::slim::SlimNode;
use fencing_core::hold::HeldBy;
use fencing_core::observed::NodeView;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
pub use meant::{absent, meant, open, open_among, open_of_node};
pub use warnings::{Warning, WarningKind, beside, told, warned, warnings};

/// All NodeFences, the newest first.
///
/// # Errors
/// [`ClusterError`].
pub async fn fences(cluster: &Cluster) -> Result<Vec<NodeFence>, ClusterError> {
    cluster.ours().await.map(newest_first)
}

/// The same of those that were read already.
pub fn newest_first(mut fences: Vec<NodeFence>) -> Vec<NodeFence> {
    fences.sort_by_key(|fence| (std::cmp::Reverse(created(fence)), fence.name_any()));
    fences
}

/// The Node of this name.
///
/// # Errors
/// There is none; [`ClusterError`].
pub async fn node(cluster: &Cluster, name: &str) -> Result<NodeView, ClusterError> {
    let node = cluster.find(&cluster.api::<SlimNode>(), name).await?;
    let node = node.ok_or_else(|| ClusterError::Absent {
        kind: "Node".to_owned(),
        name: name.to_owned(),
        way_out: "`kubectl get nodes` lists the existing ones".to_owned(),
    })?;
    Ok(node.view())
}

/// When it was made.
pub fn created(fence: &NodeFence) -> Option<Timestamp> {
    fence.metadata.creation_timestamp.as_ref().map(|it| it.0)
}

/// When its outage began, as far as its record says; none of a condition: when it was made.
pub fn began(fence: &NodeFence) -> Option<Timestamp> {
    let since = fence.spec.trigger.unhealthy_since_time;
    since.or_else(|| created(fence))
}

/// The stage, as kubectl's column has it; nothing yet: the operator has not seen it.
pub fn stage(fence: &NodeFence) -> &str {
    succeeded(fence).map_or("Pending", |it| it.reason.as_str())
}

/// `TYPE/name`, as kubectl takes it, of a NodeFence.
pub fn full_name(fence: &str) -> String {
    format!("nodefence.nodefencing.io/{fence}")
}

/// What is happening, in the operator's words.
pub fn message(fence: &NodeFence) -> &str {
    succeeded(fence).map_or(
        "the operator has not started it yet; see `kubectl fence check` if that lasts",
        |it| it.message.as_str(),
    )
}

fn succeeded(
    fence: &NodeFence,
) -> Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    find(&fence.status.as_ref()?.conditions, SUCCEEDED)
}

/// Why a human is called, if one is.
pub fn escalated(fence: &NodeFence) -> Option<(&str, &str)> {
    let conditions = &fence.status.as_ref()?.conditions;
    let found = find(conditions, ESCALATED).filter(|it| it.status == "True")?;
    Some((&found.reason, &found.message))
}

/// What holds it, if something does.
pub fn held(fence: &NodeFence) -> Option<&str> {
    let conditions = &fence.status.as_ref()?.conditions;
    let found = find(conditions, HELD).filter(|it| it.status == "True")?;
    Some(&found.reason)
}

/// Does the proof stand by now that its machine is down?
pub fn is_proven(fence: &NodeFence) -> bool {
    confirmed_down(fence).is_some_and(|it| it.status == "True")
}

/// Does an approval let it go on? The policy has asked for one, or a brake holds it that an approval lifts. What somebody has let go of no approval
/// brings back.
pub fn is_awaited(fence: &NodeFence) -> bool {
    if fence.is_ended() || fence.spec.desired_state == DesiredState::Released {
        return false;
    }
    is_asked_first(fence) || lifted(fence).is_some()
}

/// Is the answer still to come that its policy asks for? It waits for a human before any brake, and one that observes waits for nobody.
pub fn is_asked_first(fence: &NodeFence) -> bool {
    let settings = &fence.spec.procedure.fence;
    let is_asked = settings.approval.mode == ApprovalMode::Manual;
    is_asked && settings.mode != FenceMode::Observe && fence.spec.approval.is_none()
}

/// What holds it that an approval lifts, if an approval lets it go on. A policy that asks for one is no brake.
pub fn brake(fence: &NodeFence) -> Option<&str> {
    lifted(fence).filter(|_| is_awaited(fence))
}

fn lifted(fence: &NodeFence) -> Option<&str> {
    // A newer operator may have brakes that this plugin does not know: then it judges.
    let lifts = |reason: &&str| HeldBy::named(reason).is_none_or(HeldBy::is_lifted_by_approval);
    held(fence).filter(lifts)
}

/// Is it of this Node as it has booted last, as far as it says?
pub fn is_of_boot(fence: &NodeFence, node: &NodeView) -> bool {
    let is = |it: Option<&String>, own: &String| it.is_none_or(|it| it == own);
    fence.spec.node_name == node.name && is(uid(fence), &node.uid) && is(boot(fence), &node.boot_id)
}

/// UID of the Node that it is of, as [`boot`].
fn uid(fence: &NodeFence) -> Option<&String> {
    let bound = fence.status.as_ref().and_then(|it| it.node_uid.as_ref());
    fence.spec.node_uid.as_ref().or(bound)
}

/// The boot that it is of. A human's names none; the operator binds it to the one that it finds.
fn boot(fence: &NodeFence) -> Option<&String> {
    let bound = fence.status.as_ref().and_then(|it| it.boot_id.as_ref());
    fence.spec.boot_id.as_ref().or(bound)
}

/// Has somebody said no to it?
pub fn is_denied(fence: &NodeFence) -> bool {
    let answer = fence.spec.approval.as_ref();
    answer.is_some_and(|it| it.decision == ApprovalDecision::Denied)
}

/// The command that stops it: under the taint it is released, and cancelled otherwise.
pub fn stop(fence: &NodeFence) -> String {
    let verb = match fence.is_out_of_service() {
        true => "release",
        false => "cancel",
    };
    format!("kubectl fence {verb} {} --reason WHY", fence.name_any())
}

/// The same; none: somebody has stopped it already.
pub fn let_go(fence: &NodeFence) -> Option<String> {
    let is_held = fence.spec.desired_state == DesiredState::Fenced;
    is_held.then(|| stop(fence))
}

/// How somebody has its node fenced anew, but for the reason: no further than this one goes, whatever its policy does; one that observes acts on nothing.
pub fn anew(fence: &NodeFence) -> String {
    let node = &fence.spec.node_name;
    let mode = match fence.spec.procedure.fence.mode {
        FenceMode::Observe => FenceMode::ConfirmOnly,
        mode => mode,
    };
    format!("kubectl fence now {node} --mode {mode:?}")
}

/// What that does.
pub fn once_more(fence: &NodeFence) -> &'static str {
    match fence.spec.procedure.fence.mode {
        FenceMode::PowerOff => "power its machine off and fence it",
        FenceMode::ConfirmOnly | FenceMode::Observe => "fence it once its machine is off",
    }
}

/// What a yes does. Whoever gives it may not have the policy at hand.
pub fn what_a_yes_does(mode: FenceMode) -> &'static str {
    match mode {
        FenceMode::PowerOff => "mode PowerOff: an approval powers the machine off",
        FenceMode::ConfirmOnly => {
            "mode ConfirmOnly: an approval powers nothing off; it continues once the machine is confirmed off"
        }
        FenceMode::Observe => "mode Observe: an approval changes nothing",
    }
}

/// What the incident has read last of a device that speaks against a word that the machine has no power.
pub fn reads_on(fence: &NodeFence) -> Option<&PowerReading> {
    let mut readings = fence.status.iter().flat_map(|it| &it.power_readings);
    readings.find(|it| it.speaks_against_a_word())
}

/// Why the proof does not stand, if there was one and it does not.
pub fn doubt(fence: &NodeFence) -> Option<String> {
    let told = confirmed_down(fence).filter(|it| it.status != "True")?;
    Some(format!(
        "NodeConfirmedDown is {}: {}: {}",
        told.status, told.reason, told.message
    ))
}

/// The same behind what else is said of the incident; empty: nothing speaks against its proof.
pub fn in_doubt(fence: &NodeFence) -> String {
    let doubt = doubt(fence).map(|it| format!("; do not rely on its proof: {it}"));
    doubt.unwrap_or_default()
}

fn confirmed_down(fence: &NodeFence) -> Option<&Condition> {
    find(&fence.status.as_ref()?.conditions, NODE_CONFIRMED_DOWN)
}

/// Since when the stage lasts.
pub fn lasts(fence: &NodeFence, now: Timestamp) -> String {
    let since = fence.status.as_ref().and_then(|it| it.stage_start_time);
    let since = since.or_else(|| created(fence));
    since.map_or_else(String::new, |since| table::age(since, now))
}

/// How long the stage may still take, or for how long it is late.
pub fn deadline(fence: &NodeFence, now: Timestamp) -> String {
    let at = fence.status.as_ref().and_then(|it| it.stage_deadline_time);
    match at {
        None => "<none>".to_owned(),
        Some(at) if at >= now => format!("in {}", table::duration(at.duration_since(now))),
        Some(at) => format!("{} ago", table::duration(now.duration_since(at))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An operator of the next minor version may write more than this plugin knows.
    #[test]
    fn what_a_newer_operator_has_added_is_passed_over() {
        let fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "worker-1-5c0ffee5"},
            "spec": {
                "nodeName": "worker-1", "trigger": {"type": "Manual", "of": "tomorrow"}, "fence": {"mode": "PowerOff", "newer": {}},
                "recovery": {"newer": 1}, "release": {}, "powerOn": {}, "newer": true,
            },
            "status": {
                "newer": [1], "conditions": [{
                    "type": "Succeeded", "status": "Unknown", "reason": "Teleporting", "message": "on its way",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        });
        let fence: NodeFence = serde_json::from_value(fence).expect("a NodeFence");
        assert_eq!(
            (stage(&fence), message(&fence)),
            ("Teleporting", "on its way")
        );
        assert_eq!(
            meant(&[fence], &"worker-1".into()).map(kube::ResourceExt::name_any),
            Some("worker-1-5c0ffee5".to_owned())
        );
    }

    #[test]
    fn the_next_fence_goes_no_further_and_nobody_is_handed_the_way_past_a_denial() {
        let of = |mode: &str, approval: serde_json::Value| {
            let fence = json!({
                "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "w-1-5c0ffee5"},
                "spec": {"nodeName": "w-1", "trigger": {"type": "Manual"}, "fence": {"mode": mode}, "approval": approval},
            });
            anew(&serde_json::from_value(fence).expect("a NodeFence"))
        };
        let none = serde_json::Value::Null;
        let denied = json!({"decision": "Denied", "user": "ann", "reason": "we work on it", "time": "2027-01-02T18:00:00Z"});
        for (mode, approval, flags) in [
            ("Observe", &none, "ConfirmOnly"),
            ("ConfirmOnly", &none, "ConfirmOnly"),
            ("PowerOff", &none, "PowerOff"),
            ("ConfirmOnly", &denied, "ConfirmOnly"),
            ("PowerOff", &denied, "PowerOff"),
        ] {
            let command = format!("kubectl fence now w-1 --mode {flags}");
            assert_eq!(of(mode, approval.clone()), command);
        }
    }
}
