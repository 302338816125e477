//! What may be typed about an incident that is open, for a person and for a script: each is a bare command.

use crate::fences;
use fencing_api::fence::NodeFence;
use fencing_core::escalation::Escalation;
use kube::ResourceExt;

/// The plugin's words for what the operator's own say of fields of the NodeFence. `denied`: somebody has denied another fence of its node, and is asked
/// before another off goes out: no command for one more fence in mode PowerOff is among them, and `approve` refuses it.
pub fn commands(fence: &NodeFence, denied: bool) -> Vec<String> {
    let mut commands = Vec::new();
    if fence.is_ended() {
        return commands;
    }
    let (name, node) = (fence.name_any(), &fence.spec.node_name);
    if fences::is_awaited(fence) {
        commands.push(format!("kubectl fence approve {node} --reason WHY"));
        commands.push(format!("kubectl fence deny {node} --reason WHY"));
    }
    let escalated = fences::escalated(fence).map_or("", |(_, words)| words);
    let says = |field: &str| {
        [fences::message(fence), escalated]
            .iter()
            .any(|it| it.contains(field))
    };
    let is_refuted = fence
        .status
        .as_ref()
        .is_some_and(|it| it.confirmation_refused.is_some());
    let is_unsaid = fence.spec.manual_confirmation.is_none() && !is_refuted;
    let is_unsaid = is_unsaid && fences::reads_on(fence).is_none();
    if says("`spec.manualConfirmation`") && is_unsaid {
        commands.push(format!("kubectl fence confirm {node} --reason WHY"));
    }
    // Whose word was refuted first sees that the machine has no power, which no command does.
    if says("delete this NodeFence") && !is_refuted {
        commands.push(format!("kubectl delete nodefence {name}"));
    }
    if says("`spec.desiredState: Released`") {
        commands.push(fences::stop(fence));
    }
    // The policy begins no other for this outage. Whom a device has deceived corrects that first, which no command does; and whose word was refuted sees
    // which machine the device is wired to, before another command goes out by it.
    let is = |reason: &str, it: Escalation| reason == it.as_str();
    let again = match fences::escalated(fence).filter(|_| !is_refuted) {
        None => None,
        Some((reason, _)) if is(reason, Escalation::FenceContradiction) => None,
        Some((reason, _)) if is(reason, Escalation::StillOn) => Some(format!(
            "kubectl fence now {node} --mode PowerOff --reason WHY"
        )),
        Some(_) => Some(format!("{} --reason WHY", fences::anew(fence))),
    };
    let goes_past = |it: &String| denied && it.contains("--mode PowerOff");
    let again = again.filter(|it| says("create another") && !goes_past(it));
    commands.extend(again);
    commands
}

#[cfg(test)]
mod tests;
