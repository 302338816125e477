//! `kubectl fence approve`, `deny`, `cancel` and `release`: what people decide about an open incident, once, in their own name.
//!
//! `cancel` and `release` write the same field, `spec.desiredState: Released`: before the taint that ends the incident, and under it the gate removes the
//! taint. Each is refused where, by the record, it would do what the other says: between the taint and the write of its record `cancel` is let through.

use super::cluster::{Asker, Cluster};
use super::dry_run::DryRun;
use super::output::complain;
use super::trail::{RELEASE, reason};
use super::{Done, Error, fences};
use fencing_api::fence::{ApprovalDecision, DesiredState, NodeFence, TriggerType};
use fencing_api::settings::{FenceMode, PowerOnPolicy, RecoveryStrategy};
use fencing_core::hold::HeldBy;
use kube::ResourceExt;
use serde_json::{Value, json};

/// Below the help of `approve` and `deny`.
pub const EXAMPLES: &str = "\
Examples:
      kubectl fence approve worker-3 --reason \"no power in rack 7\"
      kubectl fence deny worker-3-5c0ffee5 --reason \"in repair\"

The answer is final. An incident that waits for none accepts no approval; a \
denial stops a fence until the node is out of service. Both need the verb \
`approve` (ClusterRole node-fencing-approver), and are recorded with your name. \
To stop a fence without that verb: kubectl fence cancel.";

/// Below the help of `cancel`.
pub const CANCEL_EXAMPLES: &str = "\
Examples:
      kubectl fence cancel worker-3 --reason \"wrong mode\"

An incident is cancelled before its out-of-service taint is set, and while the \
machine is powered on after the release. A power-off that was sent cannot be \
recalled. Under the taint: kubectl fence release.";

/// Below the help of `release`.
pub const RELEASE_EXAMPLES: &str = "\
Examples:
      kubectl fence release worker-3 --reason \"repaired\"

The taint is removed once pods and volumes are gone and the machine reads Off or \
has rebooted. Before the taint: kubectl fence cancel.";

/// What every answer takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The NodeFence, or the node of an open one
    #[arg(value_parser = super::name::incident)]
    name: super::name::Name,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,

    #[command(flatten)]
    dry_run: DryRun,
}

/// A yes, in particular.
#[derive(Debug, clap::Args)]
pub struct Yes {
    /// What every answer takes.
    #[command(flatten)]
    pub args: Args,

    /// Approve although another fence of the node was denied in this boot (needed in
    /// mode PowerOff)
    #[arg(long)]
    pub override_denial: bool,
}

/// To end it, in particular.
#[derive(Debug, clap::Args)]
pub struct Cancel {
    /// What every answer takes.
    #[command(flatten)]
    pub args: Args,

    /// Cancel although an earlier power-off may still take effect
    #[arg(long)]
    pub ignore_pending_off: bool,
}

/// What is decided. To stop is safe, so only the first two take a verb of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Let it go on.
    Approve,
    /// End it, and begin no other for this outage.
    Deny,
    /// End it before the taint.
    Cancel,
    /// Have the gate remove the taint.
    Release,
}

/// Gives it; `is_forced`: past a denial that stands, or an earlier power-off that may still take effect.
///
/// # Errors
/// [`Error`].
pub async fn give(cluster: &Cluster, answer: Answer, is_forced: bool, args: Args) -> Done {
    let all = fences::fences(cluster).await?;
    let fence = fences::open_among(cluster, &all, &args.name).await?;
    answer.refuse(&fence, is_forced)?;
    let denied = fences::denied_beside(&fence, &all);
    if let Some(denied) = denied.filter(|_| answer == Answer::Approve && !is_forced) {
        complain(&past_denial(&fence, &denied.words).map_err(Error::No)?);
    }
    let asker = cluster.asker().await?;
    // Whoever may patch a NodeFence may let go of it: this is the least of the roles that may.
    let write = args.dry_run.write("node-fencing-approver");
    let decide = |fence: &NodeFence| {
        answer.refuse(fence, is_forced)?;
        Ok(answer.patch(&asker, &args.reason))
    };
    let fence = fences::change(cluster, &fence, &write, decide).await?;
    let follow = args.dry_run.follow(&fence.spec.node_name);
    let follow = follow.filter(|_| answer == Answer::Approve);
    let notes = follow.into_iter().chain(answer.note(&fence));
    args.dry_run.told(&fence, answer.verbed(), notes)
}

impl Answer {
    fn verbed(self) -> &'static str {
        match self {
            Self::Approve => "approved",
            Self::Deny => "denied",
            Self::Cancel => "cancelled",
            Self::Release => "released",
        }
    }

    fn patch(self, asker: &Asker, reason: &str) -> Value {
        let decision = match self {
            Self::Approve => ApprovalDecision::Approved,
            Self::Deny => ApprovalDecision::Denied,
            Self::Cancel | Self::Release => {
                return json!({
                    "metadata": {"annotations": RELEASE.of(asker, reason)},
                    "spec": {"desiredState": DesiredState::Released},
                });
            }
        };
        json!({"spec": {"approval": {
            "decision": decision, "user": asker.name, "reason": reason, "time": asker.at,
        }}})
    }

    /// One was given, or it would change nothing.
    fn refuse(self, fence: &NodeFence, is_forced: bool) -> Result<(), Error> {
        let words = match self {
            Self::Approve => answered(fence).or_else(|| approved_in_vain(fence)),
            Self::Deny => answered(fence).or_else(|| denied_in_vain(fence)),
            Self::Cancel => cancelled_in_vain(fence, is_forced),
            Self::Release => released_in_vain(fence),
        };
        words.map_or(Ok(()), |words| Err(Error::No(words)))
    }

    /// What it does, or does not stop any more.
    fn note(self, fence: &NodeFence) -> Option<String> {
        match self {
            Self::Approve => {
                Some(fences::what_a_yes_does(fence.spec.procedure.fence.mode).to_owned())
            }
            Self::Deny => not_stopped(fence),
            Self::Cancel | Self::Release => not_let_go(fence),
        }
    }
}

/// What whoever says yes beside another's no is told first: who has given it may have their hands in the machine.
///
/// # Errors
/// Why nobody does unasked.
fn past_denial(fence: &NodeFence, denied: &str) -> Result<String, String> {
    let name = fence.name_any();
    match fence.spec.procedure.fence.mode {
        FenceMode::PowerOff => Err(format!(
            "{denied}; NodeFence {name} powers the machine off: ask that person first, then add --override-denial"
        )),
        mode => Ok(format!(
            "{denied}; mode {mode:?} of NodeFence {name} powers nothing off, but tell that person"
        )),
    }
}

/// What was answered before, which is said once.
fn answered(fence: &NodeFence) -> Option<String> {
    let name = fence.name_any();
    let given = fence.spec.approval.as_ref()?;
    let stops = match given.decision {
        ApprovalDecision::Approved if fence.is_out_of_service() => format!(
            "; Node {} is out of service, and the incident continues to its release",
            fence.spec.node_name
        ),
        ApprovalDecision::Approved => fences::let_go(fence).map_or_else(
            || "; it was cancelled since".to_owned(),
            |it| format!("; to stop it: {it}"),
        ),
        ApprovalDecision::Denied => String::new(),
    };
    Some(format!(
        "NodeFence {name} is already {:?} by {} at {}: {}{stops}",
        given.decision, given.user, given.time, given.reason
    ))
}

/// Why an approval would be spent for nothing.
fn approved_in_vain(fence: &NodeFence) -> Option<String> {
    if fence.spec.desired_state == DesiredState::Released {
        return Some(format!(
            "NodeFence {} is cancelled, and accepts no approval; to fence the node: {} --reason WHY",
            fence.name_any(),
            fences::anew(fence)
        ));
    }
    if fences::is_awaited(fence) {
        return None;
    }
    let (name, node) = (fence.name_any(), &fence.spec.node_name);
    let (stage, message) = (fences::stage(fence), fences::message(fence));
    let held = fences::held(fence).and_then(HeldBy::named);
    let way_out = match held {
        _ if fence.spec.procedure.fence.mode == FenceMode::Observe => format!(
            "mode Observe never acts; to fence the node: {} --reason WHY (--mode PowerOff powers its machine off)",
            fences::anew(fence)
        ),
        Some(HeldBy::OtherNodeFence) | None => format!(
            "approve it once it asks for that, or is held by a budget (kubectl fence status {node} --watch)"
        ),
        Some(hold) if hold.comes_first() => format!(
            "no approval lifts that; to fence the node: {}, then {} --reason WHY",
            fences::stop(fence),
            fences::anew(fence)
        ),
        Some(_) => format!(
            "no approval lifts that; fix what the message names, or: {}",
            fences::stop(fence)
        ),
    };
    Some(format!(
        "NodeFence {name} waits for no approval, it is {stage}: {message}; {way_out}"
    ))
}

/// Why a denial would change nothing: it stops a fence until the node is out of service, and after that only that its machine is turned on.
fn denied_in_vain(fence: &NodeFence) -> Option<String> {
    let is_marked = fence.is_out_of_service();
    let turns_on = fence.spec.procedure.power_on.policy != PowerOnPolicy::Never;
    (is_marked && !turns_on).then(|| {
        let name = fence.name_any();
        let let_go = fences::let_go(fence);
        let let_go = let_go.map(|it| format!("; to have the taint removed: {it}"));
        let let_go = let_go.unwrap_or_default();
        format!(
            "Node {} is out of service, and a denial of NodeFence {name} stops nothing{let_go}",
            fence.spec.node_name
        )
    })
}

/// Somebody has ended it already, the taint is set, or a machine may go down in the hands of whoever ends it.
fn cancelled_in_vain(fence: &NodeFence, is_forced: bool) -> Option<String> {
    let name = fence.name_any();
    if fence.spec.desired_state == DesiredState::Released {
        return Some(done_already(fence));
    }
    if fence.is_out_of_service() {
        return Some(format!(
            "Node {} is out of service, and NodeFence {name} can no longer be cancelled; to have its taint removed: {}",
            fence.spec.node_name,
            fences::stop(fence)
        ));
    }
    (may_go_down(fence) && !is_forced).then(|| {
        format!(
            "an earlier power-off of NodeFence {name} may still take effect (`status.attempts`); wait until kubectl fence explain {name} shows its result, or add --ignore-pending-off"
        )
    })
}

/// Somebody has released it already, or there is no taint to be removed.
fn released_in_vain(fence: &NodeFence) -> Option<String> {
    if fence.spec.desired_state == DesiredState::Released {
        return Some(done_already(fence));
    }
    let may_stand = may_be_tainted(fence) && !may_go_down(fence);
    (!may_stand).then(|| {
        format!(
            "NodeFence {} has no out-of-service taint on Node {}; to end the incident: {}",
            fence.name_any(),
            fence.spec.node_name,
            fences::stop(fence)
        )
    })
}

/// Which command has done it follows from the taint: both write one field.
fn done_already(fence: &NodeFence) -> String {
    let verbed = match fence.is_out_of_service() {
        true => "released",
        false => "cancelled",
    };
    format!(
        "NodeFence {} is already {verbed}, it is {}: {}",
        fence.name_any(),
        fences::stage(fence),
        fences::message(fence)
    )
}

/// What a denial does not stop any more.
fn not_stopped(fence: &NodeFence) -> Option<String> {
    let (name, node) = (fence.name_any(), &fence.spec.node_name);
    if may_go_down(fence) {
        return Some(format!(
            "an earlier power-off of NodeFence {name} may still take effect on Node {node} (`status.attempts`), and cannot be recalled"
        ));
    }
    let status = fence.status.as_ref()?;
    let is_marked = status.taint_applied_time.is_some() && status.taint_removed_time.is_none();
    is_marked.then(|| {
        format!("Node {node} is out of service: NodeFence {name} continues to its release, and its machine is not powered on")
    })
}

/// What whoever lets go of it after the taint has not let go of.
fn not_let_go(fence: &NodeFence) -> Option<String> {
    let node = &fence.spec.node_name;
    // Of a mark without a record no device is asked.
    let until = match fence.spec.trigger.type_ {
        TriggerType::External => "has rebooted or is confirmed off by hand",
        TriggerType::NodeCondition | TriggerType::Manual => "reads Off or has rebooted",
    };
    let is_known = fence.is_out_of_service();
    may_be_tainted(fence).then(|| {
        let stays = match is_known {
            true => format!("Node {node} stays out of service"),
            false => format!("Node {node} may be out of service already, and stays so"),
        };
        format!(
            "{stays} until its pods are gone, its volumes detached, and its machine {until}; see kubectl fence status {node}"
        )
    })
}

/// Does the taint stand, or may it, because it is recorded only once it is set? The evidence is stored before.
fn may_be_tainted(fence: &NodeFence) -> bool {
    let status = fence.status.as_ref();
    let is_proven =
        status.is_some_and(|it| it.evidence.is_some() && it.taint_removed_time.is_none());
    let sets_none = fence.spec.procedure.recovery.strategy == RecoveryStrategy::None;
    fence.is_out_of_service() || (is_proven && !sets_none && !fence.is_ended())
}

/// Before the taint, and a command is out of which nobody knows what became.
fn may_go_down(fence: &NodeFence) -> bool {
    let status = fence.status.as_ref();
    let is_tainted = status.is_some_and(|it| it.taint_applied_time.is_some());
    !is_tainted && fence.commands_that_may_land().next().is_some()
}

#[cfg(test)]
mod tests;
