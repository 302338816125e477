//! Is the machine of an incident turned on after its release, and what has come in between since?

use super::{Live, approval, stop};
use fencing_api::fence::{DesiredState, NodeFence, TriggerType};
use fencing_api::fence_status::NodeFenceStatus;
use fencing_api::policy::{NodeFencingPolicy, PowerOnPolicy};
use fencing_core::exclusions::power_on_exclusion;
use fencing_core::observed::NodeView;
use fencing_core::power_on::{PowerOn, taken_by};
use fencing_core::settings::Settings;
use fencing_core::window::Begun;
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
    if spec.procedure.power_on.policy == PowerOnPolicy::Never {
        return None;
    }
    let is_human = spec.trigger.type_ == TriggerType::Manual;
    let narrowed = || {
        let asked = policy.map(|policy| policy.spec.procedure.power_on.policy);
        let name = spec.policy_name.as_deref().unwrap_or_default();
        (asked == Some(PowerOnPolicy::Never))
            .then(|| format!("`powerOn.policy` of NodeFencingPolicy {name} is Never now"))
    };
    let live = policy.map(|policy| Live::at(policy, wall_now));
    // A window that closes after the off does not leave the machine off: what was commanded is seen through.
    let stopped = || match is_human {
        true => None,
        false => stop(fence, node, live.as_ref(), Some(Begun::Commanded)).or_else(narrowed),
    };
    let policy = policy.filter(|_| !is_human);
    let kept_off = node.and_then(|node| power_on_exclusion(policy, node, wall_now));
    Some(PowerOn {
        delay: Duration::from_secs(spec.procedure.power_on.delay_seconds.into()),
        timeout: Duration::from_secs(spec.procedure.power_on.timeout_seconds.into()),
        stop: no(fence).or_else(stopped),
        hold: kept_off.map(|kept_off| kept_off.message),
    })
}

/// A human's no.
fn no(fence: &NodeFence) -> Option<String> {
    match approval(fence) {
        _ if fence.spec.desired_state == DesiredState::Released => {
            Some("released by `spec.desiredState: Released`".to_owned())
        }
        approval => approval.denial(),
    }
}

/// Why an off command that has not left yet is not wanted any more: a human's no, or the policy is gone, narrowed or no longer selects the node.
/// A window that closes stops no command that was written down.
pub fn no_off(
    fence: &NodeFence,
    node: &NodeView,
    policy: Option<&NodeFencingPolicy>,
    wall_now: Timestamp,
) -> Option<String> {
    let live = policy.map(|policy| Live::at(policy, wall_now));
    let is_policy_s = fence.spec.trigger.type_ == TriggerType::NodeCondition;
    let stopped = || stop(fence, Some(node), live.as_ref(), Some(Begun::Commanded));
    no(fence).or_else(|| is_policy_s.then(stopped).flatten())
}

/// The same by what other NodeFences have done to the node since: whoever was admitted has it, however soon they ended. `fences` are those of
/// the node, asked for when it matters.
pub fn by_others(
    settings: Settings,
    status: &NodeFenceStatus,
    fences: impl FnOnce() -> Vec<NodeFence>,
) -> Settings {
    let wanted = settings.power_on.as_ref();
    let may_come = wanted.is_some_and(|it| it.stop.is_none()) && held_since(status).is_some();
    let taken = may_come.then(|| taken_since(&settings, status, &fences()));
    let taken = taken.flatten();
    let power_on = settings.power_on.map(|wanted| PowerOn {
        stop: wanted.stop.or(taken),
        ..wanted
    });
    Settings {
        power_on,
        ..settings
    }
}

/// Another NodeFence has taken the node since this one, whose record it is, has released it.
pub fn taken_since(
    settings: &Settings,
    status: &NodeFenceStatus,
    fences: &[NodeFence],
) -> Option<String> {
    let since = held_since(status).unwrap_or(Timestamp::MIN);
    let name = |fence: &NodeFence| fence.metadata.name.clone().unwrap_or_default();
    let mut others = fences.iter().filter(|other| {
        let uid = uid_of(other).or(settings.node_uid.as_deref());
        other.spec.node_name == settings.node
            && uid == settings.node_uid.as_deref()
            && name(other) != settings.fence
    });
    let other = others.find(|other| has_begun(other, since))?;
    Some(taken_by(&name(other)))
}

/// No other NodeFence has begun with the node between its taint and its release, for its claim stood there: whoever is dated later than the
/// taint came after the release, also by a clock that is somewhat behind.
fn held_since(status: &NodeFenceStatus) -> Option<Timestamp> {
    status.taint_applied_time.or(status.taint_removed_time)
}

/// A human's NodeFence has no UID of its own before it is bound.
fn uid_of(fence: &NodeFence) -> Option<&str> {
    let bound = || fence.status.as_ref()?.node_uid.as_deref();
    fence.spec.node_uid.as_deref().or_else(bound)
}

/// It was admitted, or has asked something of a device, or claims the node now.
fn has_begun(fence: &NodeFence, since: Timestamp) -> bool {
    fence.status.as_ref().is_some_and(|status| {
        let asked = status.attempts.iter().map(|attempt| attempt.start_time);
        let mut begun = status.approved_time.into_iter().chain(asked);
        let claims = status.claim.is_some() && !fence.is_ended();
        claims || begun.any(|at| at >= since)
    })
}
