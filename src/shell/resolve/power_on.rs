//! Is the machine of an incident turned on after its release, and what has come in between since?

use super::{Live, approval, stop};
use crate::api::fence::{DesiredState, NodeFence, TriggerType};
use crate::api::policy::{NodeFencingPolicy, PowerOnPolicy};
use crate::core::incident::Approval;
use crate::core::keep_off::leave_off;
use crate::core::observed::NodeView;
use crate::core::power_on::PowerOn;
use crate::core::window::Begun;
use jiff::Timestamp;
use std::time::Duration;

/// Whether the machine is turned on after the release, and what has come in between since (S15). A human's NodeFence asks no policy.
pub fn power_on(
    fence: &NodeFence,
    node: Option<&NodeView>,
    policy: Option<&NodeFencingPolicy>,
    wall_now: Timestamp,
) -> Option<PowerOn> {
    let spec = &fence.spec;
    if spec.power_on.policy == PowerOnPolicy::Never {
        return None;
    }
    let is_human = spec.trigger.type_ == TriggerType::Manual;
    let no = || match approval(fence) {
        _ if spec.desired_state == DesiredState::Released => {
            Some("released by `spec.desiredState: Released`".to_owned())
        }
        Approval::Denied(user, reason) => Some(format!("denied by {user}: {reason}")),
        _ => None,
    };
    let narrowed = || {
        let asked = policy.map(|policy| policy.spec.power_on.policy);
        let name = spec.policy_name.as_deref().unwrap_or_default();
        (asked == Some(PowerOnPolicy::Never)).then(|| {
            format!(
                "NodeFencingPolicy {name} does not ask for it any more (`powerOn.policy` is Never)"
            )
        })
    };
    let live = policy.map(|policy| Live::at(policy, wall_now));
    // A window that closes after the off does not leave the machine off: what was commanded is seen through.
    let stopped = || match is_human {
        true => None,
        false => stop(fence, node, live.as_ref(), Some(Begun::Commanded)).or_else(narrowed),
    };
    let policy = policy.filter(|_| !is_human);
    let kept_off = node.and_then(|node| leave_off(policy, node, wall_now));
    Some(PowerOn {
        delay: Duration::from_secs(spec.power_on.delay_seconds.into()),
        timeout: Duration::from_secs(spec.power_on.timeout_seconds.into()),
        stop: no().or_else(stopped),
        hold: kept_off.map(|kept_off| kept_off.words),
    })
}
