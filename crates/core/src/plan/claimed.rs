//! Our claim stands, `out-of-service` does not: quiesce, turn off, and on to the proof.
//!
//! Every sign of life ends it: the claim is dropped and nothing else of the Node was touched. The order is the protocol,
//! and moving any of these steps before another one loses data (docs/protocol.md says how).

use super::abort::{abort, drop_claim, give_back};
use super::completion::{broken, confirmed_down, is_confirmed_down};
use super::delete_node::sticky_pods;
use super::hydrate::await_foreign_commands;
use super::level::names;
use super::pace::{READ_PACE, poll_again};
use super::phase::holds;
use super::power_off::{power_off, renewed};
use super::precheck::reads_off;
use super::round::Round;
use super::span::{self, LEASE_RENEWAL_MAX};
use super::tries::{
    busy_stage, forget_other_devices, in_trouble, lost_device, note_devices, try_again,
};
use super::unclaimed::{awaiting_approval, bind};
use crate::decision::{Decision, Effect, act, held, wait};
use crate::device::Level;
use crate::escalation::Escalation;
use crate::hold::{HeldBy, Hold};
use crate::manual_confirmation::valid_confirmation;
use crate::memory::{Memory, OwnClaim};
use crate::observed::{NodeView, Read};
use crate::quiesce::{counted, name_some};
use crate::settings::Approval;
use crate::stage::Stage;
use crate::taint;
use fencing_api::settings::FenceMode;
use std::time::Duration;

/// From the end of the policy's wait to the first look under the claim.
pub(super) const FIRST_READ_MAX: Duration = Duration::from_secs(1);

/// From a claim that has lost its date to the next one.
const UNDATED_PAUSE: Duration = Duration::from_secs(5);

/// How long another process is left alone with a claim that it has taken from this one.
const RIVAL_PAUSE: Duration = Duration::from_secs(30);

/// Nothing can be built on the claim.
pub(super) fn unfounded(r: &mut Round<'_>, node: &NodeView, claim: &str) -> Option<Decision> {
    let why = not_to_be_built_on(r)?;
    let message = format!("claim {claim} of Node {} {why}", node.name);
    Some(give_back(r.memory, node, claim, Stage::Checking, message))
}

/// The claim was decided on a moment before it was due. Later, nobody can tell whether the condition broke before or after.
pub(super) fn condition_broken(
    r: &mut Round<'_>,
    node: &NodeView,
    claim: &str,
) -> Option<Decision> {
    r.memory.is_due |= r.moment.now > r.settings.not_before + FIRST_READ_MAX;
    if let Some(message) = broken(r, node) {
        return Some(abort(r.memory, node, claim, Stage::Aborted, message));
    }
    r.memory.is_due |= !r.is_early();
    None
}

/// A removal that got no answer may still land: nothing else is built on this claim.
pub(super) fn being_removed(r: &mut Round<'_>, node: &NodeView, claim: &str) -> Option<Decision> {
    if !r.memory.under_claim.dropping {
        return None;
    }
    let again = || format!("claim {claim} is being removed");
    let message = r.memory.tries.last_failure.clone().unwrap_or_else(again);
    Some(drop_claim(r.memory, node, claim, message))
}

/// A pod can still start on the node.
pub(super) fn not_quiesced(r: &mut Round<'_>, node: &NodeView, claim: &str) -> Option<Decision> {
    let decision = quiesce(r)?;
    let decision = in_trouble(r.memory, decision);
    Some(sticky_pods::under_the_claim(r, node, claim).unwrap_or(decision))
}

/// The level's devices are at work.
pub(super) fn asking(
    r: &mut Round<'_>,
    node: &NodeView,
    _: &str,
    level: &Level,
) -> Option<Decision> {
    r.memory.commands.busy?;
    let message = waited_for(r, node, level);
    Some(in_trouble(r.memory, wait(busy_stage(r.memory), message)))
}

/// The last try failed just now.
pub(super) fn paused(r: &mut Round<'_>, _: &NodeView, _: &str, _: &Level) -> Option<Decision> {
    let (at, message) = r.memory.tries.pause(r.moment.now)?;
    Some(in_trouble(r.memory, wait(busy_stage(r.memory), message)).until(at))
}

/// Whoever was told of the proof may have turned the machine on: it is neither read again nor told off.
pub(super) fn published(
    r: &mut Round<'_>,
    node: &NodeView,
    claim: &str,
    level: &Level,
) -> Option<Decision> {
    forget_other_devices(r.memory, level, r.moment.now + r.settings.late_effect());
    let is_read = r.memory.under_claim.readings.is_some();
    (!is_read && is_confirmed_down(r, node)).then(|| confirmed_down(r, node, claim))
}

/// A device of the claim is gone.
pub(super) fn device_lost(
    r: &mut Round<'_>,
    _: &NodeView,
    _: &str,
    level: &Level,
) -> Option<Decision> {
    let message = lost_device(r.memory, level)?;
    Some(try_again(
        r,
        format!("{message}, or release this NodeFence"),
    ))
}

/// Is this level to be turned off?
fn is_turned_off(r: &Round<'_>, level: &Level) -> bool {
    r.settings.mode() == FenceMode::PowerOff
        && !level.is_manual()
        && !r.memory.trust.is_contradicted()
}

/// The kubelet may be back.
pub(super) fn kubelet_back(
    r: &mut Round<'_>,
    node: &NodeView,
    _: &str,
    level: &Level,
) -> Option<Decision> {
    is_turned_off(r, level).then(|| renewed(r, node))?
}

/// Claimed early, because its machine was off: one that has power by now is waited for like any other one.
pub(super) fn no_longer_off(
    r: &mut Round<'_>,
    node: &NodeView,
    claim: &str,
    level: &Level,
) -> Option<Decision> {
    let is_asked = !r.memory.under_claim.answers.is_empty();
    let is_sent = r.memory.commands.attempt.is_some() || !is_turned_off(r, level);
    if !r.is_early() || !is_asked || is_sent || reads_off(r, level) {
        return None;
    }
    r.memory.under_claim.answers.clear();
    let message = format!(
        "{} no longer reads Off, and the policy's wait is not over: claim of Node {} removed",
        names(level),
        node.name
    );
    Some(give_back(r.memory, node, claim, Stage::Checking, message))
}

/// The off is not sent, or not answered.
pub(super) fn turned_off(
    r: &mut Round<'_>,
    _: &NodeView,
    _: &str,
    level: &Level,
) -> Option<Decision> {
    is_turned_off(r, level).then(|| power_off(r, level))?
}

/// No level has a device for the node any more. One that is replaced is there again in a moment.
pub(super) fn unserved(m: &mut Memory, node: &NodeView, claim: &str) -> Decision {
    if let Some(message) = m.confirmation.refused.clone() {
        return abort(m, node, claim, Stage::Aborted, message);
    }
    let message = format!(
        "no FenceDevice of any level serves Node {}, claim removed; create one, or correct `fence.levels[].deviceSelector`",
        node.name
    );
    give_back(m, node, claim, Stage::Checking, message)
}

/// What is waited for while the level's devices are asked. A word that is given is not waited for, but for what may speak against it.
fn waited_for(r: &Round<'_>, node: &NodeView, level: &Level) -> String {
    if !level.is_manual() || valid_confirmation(r.settings, r.moment.now).is_err() {
        return format!("waiting for {}", names(level));
    }
    let window = span::ordered(r.settings, r.memory, node, level);
    format!(
        "manual confirmation received; checking for signs of life for {} s before it is valid",
        window.as_secs()
    )
}

/// Why the claim goes again, as the rest of a sentence about it: no process of this incident can have written it, or rights that the end takes are
/// missing, or not known to be there. What has been commanded is seen through, for a machine that is off and whose pods are still bound to it is
/// worse; the API server then says which right it is (S20).
fn not_to_be_built_on(r: &Round<'_>) -> Option<String> {
    if r.settings.mode() == FenceMode::Observe {
        return Some("is removed: mode Observe claims no Node".to_owned());
    }
    let is_commanded = r.memory.commands.attempt.is_some()
        || r.settings.record.attempts > 0
        || r.memory.under_claim.evidence;
    let lacks = r.settings.unsupported.as_ref().filter(|_| !is_commanded);
    lacks.map(|why| format!("is removed: {why}"))
}

/// The claim has landed after its place in the budget was given up, and there is none now, or late, and somebody works on the node by now: this
/// process has done nothing under it, and does nothing (S13). On the node that the operator runs on it stays where it is, for the replica that
/// goes on, and so does one that another process may be going on with.
pub(super) fn without_a_place(r: &mut Round<'_>, node: &NodeView, claim: &str) -> Option<Decision> {
    let is_ours =
        |hold: &&Hold| hold.reason != HeldBy::OwnNode && !r.observed.claim_of_other_process;
    let hold = r.observed.hold.as_ref().filter(is_ours)?;
    let late = match hold.reason.is_of_the_budget() {
        true => "outlived its budget",
        false => "took effect late",
    };
    let message = format!(
        "claim {claim} of Node {} {late}, removed; held ({}): {}",
        node.name, hold.reason, hold.message
    );
    Some(give_back(r.memory, node, claim, Stage::Held, message).held(hold.reason))
}

/// Under a claim without a date no `out-of-service` could be told from a human's: it goes, and the next one is not written at once.
pub(super) fn undated(r: &mut Round<'_>, node: &NodeView, claim: &str) -> Option<Decision> {
    if taint::claim_date(node).is_some() {
        return None;
    }
    let message = format!(
        "claim {claim} of Node {} lost its `timeAdded`, and is removed and set again; find the webhook or tool that rewrites taints of Nodes if this recurs",
        node.name
    );
    r.memory.tries.retry_at = Some(r.moment.now + UNDATED_PAUSE);
    r.memory.tries.last_failure = Some(message.clone());
    r.memory.tries.alarm = Some(Escalation::ClaimUndated);
    let decision = give_back(r.memory, node, claim, Stage::Checking, message);
    Some(in_trouble(r.memory, decision))
}

/// It is not this process's claim.
pub(super) fn of_another_process(
    r: &mut Round<'_>,
    node: &NodeView,
    claim: &str,
) -> Option<Decision> {
    (!holds(r.memory, claim)).then(|| take_over(r, node, claim))
}

/// The claim is a process's before us, or a rival's: put ours in its place and begin from nothing. One that has just taken it from
/// this process lives, and is given the time to finish: two that take it from each other would both never prove anything.
fn take_over(r: &mut Round<'_>, node: &NodeView, claim: &str) -> Decision {
    if r.memory.claim.as_ref().is_some_and(|held| held.seen) {
        r.memory.rival_until = Some(rival_until(r.moment.now, &r.moment.nonce));
        r.memory
            .forget_claim(r.moment.now + r.settings.late_effect());
    }
    if let Some(until) = r.memory.rival_until.filter(|until| r.moment.now < *until) {
        let message = format!(
            "claim {claim} of another operator process is on Node {}, which handles the incident",
            node.name
        );
        return held(HeldBy::OtherProcess, message).until(until);
    }
    if let Some(hold) = &r.observed.hold {
        let message = format!(
            "claim {claim} cannot be taken over ({}): {}",
            hold.reason, hold.message
        );
        return held(hold.reason, message);
    }
    // It was written with an approval, of which this process has not heard yet.
    if r.settings.approval == Approval::Awaited {
        let waits = awaiting_approval(r);
        // Its time is over, and the policy wants no more of it: the claim goes first.
        if let Some((stage, message)) = r.memory.ending.clone() {
            return abort(r.memory, node, claim, stage, message);
        }
        let message = format!(
            "claim {claim} of Node {} cannot be taken over before `spec.approval` is read; set it to Approved or Denied",
            node.name
        );
        return Decision { message, ..waits };
    }
    // It was written by a process that had bound it, of which this one has not heard either.
    if let Some(decision) = bind(r.settings, node) {
        return decision;
    }
    if is_confirmed_down(r, node) {
        return confirmed_down(r, node, claim);
    }
    r.memory.rival_until = None;
    // The claim that stands was due when it was written.
    r.memory.is_due |= !r.is_early();
    r.memory
        .forget_claim(r.moment.now + r.settings.late_effect());
    // With which Lease the node was claimed is not known: it may have been renewed since.
    let is_commanded = r.memory.commands.has_commanded || r.settings.record.attempts > 0;
    r.memory.under_claim.taken_over_until =
        (!is_commanded).then_some(r.moment.now + LEASE_RENEWAL_MAX);
    let value = taint::claim_value(&r.settings.fence, &r.moment.nonce);
    r.memory.claim = Some(OwnClaim {
        value: value.clone(),
        uid: node.uid.clone(),
        boot_id: node.boot_id.clone(),
        seen: false,
    });
    note_devices(r);
    await_foreign_commands(r.settings, r.memory, r.moment.now);
    let message = format!("taking over claim {claim} of Node {}", node.name);
    act(
        Effect::Claim(taint::claim(node, &value, &r.moment.date, Duration::ZERO)),
        Stage::Claiming,
        message,
    )
}

/// Until when another process that goes on with the incident is left alone with it (time since boot): not all look again at the same
/// moment.
pub fn rival_until(now: Duration, nonce: &str) -> Duration {
    let jitter = nonce.chars().next().and_then(|it| it.to_digit(16));
    now + RIVAL_PAUSE + Duration::from_secs(jitter.unwrap_or_default().into())
}

/// Until no pod can start on the node: all are listed once, beside the look at the devices or under the claim, and those that could
/// start are read until none can. One that comes meanwhile is found by the list beside the readings. Also notes the kubelet's
/// Lease, with which later ones are compared until something makes it count anew ([`ClaimScoped::lease_before`](super::super::memory::ClaimScoped)).
fn quiesce(r: &mut Round<'_>) -> Option<Decision> {
    if r.memory.under_claim.lease_before.is_none() {
        match &r.observed.lease {
            Read::Present(lease) => r.memory.under_claim.lease_before = Some(lease.clone()),
            unread => {
                let message = format!("reading the kubelet's Lease{}", unread.why());
                return Some(poll_again(r, Stage::Quiescing, message, READ_PACE));
            }
        }
    }
    let pods = [&r.observed.pods, &r.observed.starting];
    for pods in pods.into_iter().filter_map(Read::present) {
        r.memory.under_claim.note_written(pods);
    }
    if r.memory.under_claim.quiesce.since.is_some() {
        return None;
    }
    let quiesce = &mut r.memory.under_claim.quiesce;
    match (r.observed.pods.present(), r.observed.starting.present()) {
        (Some(pods), _) => quiesce.note_list(pods),
        (None, Some(pods)) if quiesce.listed.is_some() => quiesce.note_starting(pods),
        // None of those that were there before the claim can start.
        (None, None) if quiesce.listed.is_some() && quiesce.starting.is_empty() => {}
        _ => {
            let message = match &r.observed.starting {
                Read::Failed(_) => {
                    format!(
                        "the pods that could still start are required{}",
                        r.observed.starting.why()
                    )
                }
                _ => format!(
                    "a complete list of the node's pods is required{}",
                    r.observed.pods.why()
                ),
            };
            return Some(poll_again(r, Stage::Quiescing, message, READ_PACE));
        }
    }
    if !r.memory.under_claim.quiesce.starting.is_empty() {
        let message = format!(
            "{} could still start on the node: {}",
            counted(r.memory.under_claim.quiesce.starting.len(), "pod"),
            name_some(r.memory.under_claim.quiesce.starting.iter())
        );
        return Some(poll_again(r, Stage::Quiescing, message, READ_PACE));
    }
    r.memory.under_claim.quiesce.since = Some(r.moment.now);
    r.memory.under_claim.polls = 0;
    None
}
