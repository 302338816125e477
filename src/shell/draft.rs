//! New NodeFences: the record of an incident before anything has been done about it.
//!
//! The name is made from the outage itself, so that two operators, or one that has crashed, open one record and not two.

use super::resolve::devices_of;
use fencing_api::device::FenceDevice;
use fencing_api::fence::{NodeFence, NodeFenceSpec, Reporter, Trigger, TriggerType};
use fencing_api::policy::{
    ApprovalMode, FenceMode, NodeFencingPolicy, PowerOnPolicy, Procedure, UnhealthyCondition,
};
use fencing_api::remediation::RemediationReference;
use fencing_cluster::client::MANAGER;
use fencing_core::observed::NodeView;
use fencing_core::outage::{asked_fence_name, fence_name};
use fencing_core::taint;
use fencing_core::window::Effective;
use jiff::Timestamp;
use kube::ResourceExt;

/// When the node is to be claimed.
#[derive(Debug, Clone)]
pub struct Due {
    /// The policy's waits end.
    pub time: Timestamp,
    /// So much of them is left, and is skipped as long as the machine is off; none: nothing is skipped.
    pub early_seconds: Option<u32>,
    /// The remediation for which the rest of the condition's duration is skipped.
    pub remediation: Option<RemediationReference>,
}

/// The record of a new incident: the policy's settings as they hold now, frozen, and when its wait is over. These are the FenceDevices of the node.
pub fn new_fence(
    node: &NodeView,
    policy: &NodeFencingPolicy,
    effective: &Effective,
    (condition, due): (&UnhealthyCondition, Due),
    devices: &[FenceDevice],
) -> NodeFence {
    let name = match &due.remediation {
        Some(by) => asked_fence_name(node, policy, effective, condition, &by.uid),
        None => fence_name(node, policy, effective, condition),
    };
    let since = node
        .condition(&condition.type_)
        .and_then(|now| now.transition.parse().ok());
    let is_own = condition.type_ == "Ready" && node.reported_early;
    let trigger = Trigger {
        type_: TriggerType::NodeCondition,
        condition_type: Some(condition.type_.clone()),
        condition_status: Some(condition.status),
        unhealthy_since_time: since,
        due_time: Some(due.time),
        early_seconds: due.early_seconds,
        reported_by: is_own.then_some(Reporter::Operator),
        remediation: due.remediation,
        requested_by: None,
        reason: effective.window.is_some().then(|| effective.message()),
    };
    let spec = NodeFenceSpec {
        node_name: node.name.clone(),
        node_uid: Some(node.uid.clone()),
        boot_id: Some(node.boot_id.clone()),
        policy_name: Some(policy.name_any()),
        policy_generation: policy.metadata.generation,
        trigger,
        procedure: timed(
            procedure(policy, effective.mode, effective.approval),
            node,
            devices,
        ),
        desired_state: Default::default(),
        approval: None,
        manual_confirmation: None,
    };
    NodeFence::new(&name, spec)
}

/// What the policy does about a node in this mode. Nothing is turned on where a window keeps the operator from turning it off: the API server takes
/// no such record.
fn procedure(policy: &NodeFencingPolicy, mode: FenceMode, approval: ApprovalMode) -> Procedure {
    let mut procedure = policy.spec.procedure.clone();
    procedure.fence.mode = mode;
    procedure.fence.approval.mode = approval;
    if mode != FenceMode::PowerOff {
        procedure.power_on.policy = PowerOnPolicy::Never;
    }
    procedure
}

/// The same with the time of each level, as long as its devices need: how late a command of this record may land is told by the record alone (S23).
fn timed(mut procedure: Procedure, node: &NodeView, devices: &[FenceDevice]) -> Procedure {
    for level in &mut procedure.fence.levels {
        let own = devices_of(level, node, devices);
        level.timeout_seconds = Some(level.seconds(own));
    }
    procedure
}

/// A record for a taint of ours whose own record is lost. It never leads to a taint: its mode only observes. The boot that was fenced is told by the
/// mark of a deletion, and by nothing where `out-of-service` stands.
pub fn adopting_fence(node: &NodeView, name: &str) -> NodeFence {
    let trigger = Trigger {
        type_: TriggerType::External,
        condition_type: None,
        condition_status: None,
        unhealthy_since_time: None,
        due_time: None,
        early_seconds: None,
        reported_by: None,
        remediation: None,
        requested_by: Some(MANAGER.to_owned()),
        reason: Some(format!(
            "{} of this operator was found without its NodeFence",
            taint::display_name(taint::mark_key_of_claim(node))
        )),
    };
    let fenced = taint::detaching_of_claim(node).and_then(|(_, mark)| mark.value.clone());
    let fenced = fenced.filter(|boot| !boot.is_empty());
    let spec = NodeFenceSpec {
        node_name: node.name.clone(),
        node_uid: Some(node.uid.clone()),
        boot_id: fenced,
        policy_name: None,
        policy_generation: None,
        trigger,
        procedure: Default::default(),
        desired_state: Default::default(),
        approval: None,
        manual_confirmation: None,
    };
    NodeFence::new(name, spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_core::fixtures;
    use fencing_core::observed::{CLAIM, DETACHING, TaintView};
    use serde_json::json;

    /// L1: what was left of the wait goes into the record, whose claim goes by it.
    #[test]
    fn the_record_says_how_early_it_was_opened() {
        let policy = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy",
            "metadata": {"name": "prod"}, "spec": {"nodeSelector": {}},
        });
        let policy: NodeFencingPolicy = serde_json::from_value(policy).expect("a policy");
        let effective = Effective::without_windows(&policy);
        let trigger = |early_seconds: Option<u32>| {
            let due = Due {
                time: Timestamp::UNIX_EPOCH,
                early_seconds,
                remediation: None,
            };
            let cause = (&policy.spec.unhealthy_conditions[0], due);
            let fence = new_fence(&fixtures::node(), &policy, &effective, cause, &[]);
            (
                fence.spec.trigger.due_time,
                fence.spec.trigger.early_seconds,
            )
        };
        for early in [None, Some(43)] {
            assert_eq!(trigger(early), (Some(Timestamp::UNIX_EPOCH), early));
        }
    }

    /// S22: who adopts the mark of a deletion knows by it which boot was fenced.
    #[test]
    fn an_adopted_mark_tells_which_boot_was_fenced() {
        let node = |mark: TaintView| NodeView {
            taints: vec![
                fixtures::dated(fixtures::taint(CLAIM, "fence-n1", "NoExecute")),
                mark,
            ],
            boot_id: "boot-2".to_owned(),
            ..fixtures::node()
        };
        let mark = fixtures::dated(fixtures::taint(DETACHING, "boot-1", "NoExecute"));
        for (mark, boot, found) in [
            (mark, Some("boot-1"), DETACHING),
            (fixtures::out_of_service(), None, "out-of-service"),
        ] {
            let fence = adopting_fence(&node(mark), "fence");
            assert_eq!(fence.spec.boot_id.as_deref(), boot);
            let reason = fence.spec.trigger.reason.expect("a reason");
            assert!(reason.starts_with(found), "{reason}");
        }
    }

    /// The device of a fleet with this driver, and this label.
    fn device(driver: &str, settings: serde_json::Value) -> FenceDevice {
        let spec = json!({"nodeSelector": {}, driver: settings});
        let mut device = FenceDevice::new(driver, serde_json::from_value(spec).expect("a spec"));
        device.metadata.labels = Some([("tier".to_owned(), driver.to_owned())].into());
        device
    }

    #[test]
    fn a_level_without_a_time_has_that_of_its_slowest_driver_and_the_record_says_so() {
        let level = |name: &str, tier: Option<&str>| {
            let selector = tier.map(|it| json!({"matchLabels": {"tier": it}}));
            json!({"name": name, "deviceSelector": selector})
        };
        let mut own = level("own", Some("aws"));
        own["timeoutSeconds"] = json!(90);
        let levels = [
            level("ec2", Some("aws")),
            level("bmc", Some("ipmi")),
            level("none", Some("gcp")),
            level("all", None),
            own,
        ];
        let spec = json!({"nodeSelector": {}, "fence": {"mode": "PowerOff", "levels": levels}});
        let policy = NodeFencingPolicy::new("p", serde_json::from_value(spec).expect("a spec"));
        let devices = [
            device("ipmi", json!({"address": "10.0.0.1"})),
            device("aws", json!({"region": "eu-central-1"})),
        ];
        // Of a record that a human has made without a time the longest of any driver counts.
        let unfrozen = &policy.spec.procedure.fence;
        let late = u64::from(unfrozen.verification.late_effect_seconds);
        assert_eq!(unfrozen.landing_seconds(), 600 + late);
        let frozen = timed(policy.spec.procedure, &fixtures::node(), &devices);
        let times = frozen.fence.levels.iter().map(|it| it.timeout_seconds);
        let times: Vec<u32> = times.flatten().collect();
        assert_eq!(times, [600, 120, 120, 600, 90]);
        assert_eq!(frozen.fence.landing_seconds(), 600 + late);
    }

    #[test]
    fn what_a_window_does_not_let_us_turn_off_is_not_turned_on() {
        let spec = json!({"nodeSelector": {}, "fence": {"mode": "PowerOff"}, "powerOn": {"policy": "AfterRecovery"}});
        let policy = NodeFencingPolicy::new("p", serde_json::from_value(spec).expect("a spec"));
        for (mode, expected) in [
            (FenceMode::PowerOff, PowerOnPolicy::AfterRecovery),
            (FenceMode::ConfirmOnly, PowerOnPolicy::Never),
            (FenceMode::Observe, PowerOnPolicy::Never),
        ] {
            let frozen = procedure(&policy, mode, ApprovalMode::Automatic);
            assert_eq!(frozen.power_on.policy, expected, "{mode:?}");
        }
    }
}
