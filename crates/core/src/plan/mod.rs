//! From what was seen to the one next step, and the words that explain it.
//!
//! [`step`] is called again after every effect, with everything read anew, or beside the write that the effect was. It derives
//! where the incident stands from the Node itself (which of our taints it carries), so that a crash, a lost reply or a rival changes
//! nothing: whoever looks next decides from the same facts. At most one irreversible step comes out of a round.

mod abort;
mod claimed;
mod completion;
mod contradiction;
mod deadline;
mod delete_node;
mod detaching;
mod foreign;
mod hydrate;
mod level;
mod needs;
mod node_absent;
mod off_now;
mod outcome;
mod pace;
mod phase;
mod power_off;
mod power_on;
mod precheck;
pub mod protocol;
mod prove;
mod proven;
mod report;
mod round;
mod span;
mod storage;
mod superseded;
mod tainted;
mod tries;
mod unclaimed;
mod watch;

pub use {
    claimed::rival_until,
    completion::is_bare,
    deadline::waits_for_a_pod,
    needs::{Needs, evicts_next, foresee, needs},
    off_now::confirmation_is_over,
    round::Moment,
    superseded::{cleared, may_be_superseded, turning_on},
};

use super::decision::{Decision, held, wait};
use super::escalation::Escalation;
use super::hold::HeldBy;
use super::manual_confirmation::valid_confirmation;
use super::memory::Memory;
use super::observed::{NodeView, Observed, Read, Ready};
use super::proof_source::ProofSource;
use super::quiesce::{counted, none_stays_with_its_volume};
use super::release::booted_anew;
use super::settings::Settings;
use super::stage::Stage;
use super::taint;
use deadline::overdue;
use pace::{READ_PACE, poll_again};
use phase::{NodePhase, holds, is_known, node_phase};
use round::Round;
use std::borrow::Cow;
use std::time::Duration;

/// Writes that fail in a row before a human is called.
const WRITE_FAILURES_MAX: u32 = 8;

/// Decides the next step of an incident. Total and deterministic.
pub fn step(
    settings: &Settings,
    memory: &mut Memory,
    observed: &Observed,
    moment: &Moment,
) -> Decision {
    let observed = for_strategy(settings, observed);
    let observed = observed.as_ref();
    let mut round = Round {
        settings,
        memory,
        observed,
        moment,
    };
    let mut decision = decide(&mut round);
    report::name_off_left_behind(&round, &mut decision);
    report::note_stage(&mut round, &decision);
    report::set_deadline(&round, &mut decision);
    overdue(settings, observed, &mut decision, moment.now);
    // A node that comes back within the policy's wait needs no attention.
    if moment.now < settings.not_before && decision.stage == Stage::Checking {
        decision.escalation = None;
    }
    report::call_for_confirmation(&round, &mut decision);
    report::call_for_denied_write(&round, &mut decision);
    decision
}

/// What was observed, as it is to a fence with these settings.
fn for_strategy<'a>(settings: &Settings, observed: &'a Observed) -> Cow<'a, Observed> {
    let mut seen = Cow::Borrowed(observed);
    let fenced = settings.boot_id.as_deref();
    let deletes = settings.deletes_node();
    let is_back = |it: &NodeView| booted_anew(it, fenced) && it.ready() == Ready::True;
    let is_marked = |it: &NodeView| taint::detaching_of_claim(it).is_some();
    // Of a machine that is back nothing is taken any more, and whoever has adopted a mark takes nothing at all. What runs there may stay, whatever it
    // tolerates, but its VolumeAttachment may not: a deletion of it may be on its way, of this process or of another one.
    let deletes_no_more = |it: &NodeView| if deletes { is_back(it) } else { is_marked(it) };
    if observed.node.present().is_some_and(deletes_no_more) {
        seen.to_mut().tolerated_volumes.clear();
        return seen;
    }
    if !deletes {
        return seen;
    }
    let owned = seen.to_mut();
    for pods in [&mut owned.pods, &mut owned.starting] {
        if let Read::Present(pods) = pods {
            none_stays_with_its_volume(pods);
        }
    }
    seen
}

/// The record keeps it: a process that begins when the date of the word has come would take it for one of now (S21). A word that has proven is not
/// judged again by the clock of whoever takes that over.
fn refuse_future_confirmation(r: &mut Round<'_>, now: Duration) {
    let is_ahead = r
        .settings
        .confirmation
        .as_ref()
        .is_some_and(|it| it.is_ahead);
    let has_proven = r.memory.proven.by == Some(ProofSource::Confirmation);
    let is_over = has_proven || r.memory.confirmation.refused.is_some();
    if is_ahead && r.settings.node_uid.is_some() && !is_over {
        r.memory.confirmation.refused = valid_confirmation(r.settings, now).err();
    }
}

fn decide(r: &mut Round<'_>) -> Decision {
    hydrate::hydrate(r.settings, r.memory, r.moment.now);
    refuse_future_confirmation(r, r.moment.now);
    if let Some(node) = r.observed.node.present() {
        abort::reconsider(r, node);
    }
    if let Some(frozen) = &r.observed.frozen {
        return held(
            HeldBy::ClusterWentBack,
            format!("nothing is changed: {frozen}"),
        )
        .escalated(Escalation::Held(HeldBy::ClusterWentBack), frozen.clone());
    }
    let node = match &r.observed.node {
        Read::Present(node) => node,
        Read::Absent => return node_absent::absent(r),
        Read::Failed(reason) => return unreadable(r, reason, r.moment.now),
        Read::NotRead => return unreadable(r, "it was not read", r.moment.now),
    };
    abort::note_doubt(r, node);
    if r.settings
        .node_uid
        .as_ref()
        .is_some_and(|uid| *uid != node.uid)
    {
        return node_absent::created_anew(r, node);
    }
    if let Some(decision) = after_a_failed_write(r, r.moment.now) {
        return decision;
    }
    if r.memory.claim.is_some() || power_on::is_begun(r) {
        hydrate::note_foreign_commands(r.settings, r.memory, r.moment.now);
    }
    match node_phase(r.settings, node) {
        NodePhase::Unclaimed => protocol::unclaimed(r, node),
        NodePhase::Claimed(claim) => protocol::claimed(r, node, claim),
        NodePhase::Tainted(claim) if is_known(r.memory, claim) => tainted::step(r, node, claim),
        // Under its own claim nobody else can have set it, and this process has not: another controller did, in the second of the claim.
        NodePhase::Tainted(claim) if holds(r.memory, claim) => {
            foreign::yield_to_foreign_taint(r.memory, node, claim)
        }
        NodePhase::Tainted(claim) => match &r.observed.evidence {
            // The process before us has set it, or another one since this one last looked. What an older claim has proven is no proof of it.
            Read::Present(proven) if *proven || r.settings.adopted => tainted::step(r, node, claim),
            Read::Present(_) => foreign::unproven(node, claim, r.moment),
            unread => {
                let message = format!(
                    "the NodeFence is required: it has the commands sent before `{}` was set{}",
                    taint::display_name(taint::mark_key_of_claim(node)),
                    unread.why()
                );
                poll_again(r, Stage::Detaching, message, READ_PACE)
            }
        },
        NodePhase::ForeignTaintBesideClaim(claim) => {
            foreign::yield_to_foreign_taint(r.memory, node, claim)
        }
        NodePhase::ForeignTaint => foreign::step(r, node),
    }
}

/// The last write has failed: its reason, until it is time to decide again.
fn after_a_failed_write(r: &Round<'_>, now: Duration) -> Option<Decision> {
    let at = r.memory.writes.retry_at.filter(|at| now < *at)?;
    let message = format!(
        "{} for Node {} failed ({}), trying again",
        counted(r.memory.writes.failures, "write"),
        r.settings.node,
        r.memory.writes.failure
    );
    let decision = wait(going_on(r.memory), message.clone()).until(at);
    Some(match r.memory.writes.failures < WRITE_FAILURES_MAX {
        true => abort::still_accused(r.memory, decision),
        false => {
            let message = format!(
                "{message}; see why the API server refuses it (etcd, an admission webhook, the network)"
            );
            decision.escalated(Escalation::WriteFailed, message)
        }
    })
}

/// The stage that goes on while nothing new is known. An end that could not be written is none yet: whoever only waits must not write it.
fn going_on(memory: &Memory) -> Stage {
    match memory.stage {
        Some((stage, _)) if !stage.is_ended() => stage,
        _ if memory.taint.seen => Stage::AwaitingRelease,
        _ => Stage::Checking,
    }
}

fn unreadable(r: &Round<'_>, reason: &str, now: Duration) -> Decision {
    let stage = going_on(r.memory);
    let message = format!("Node {} cannot be read: {reason}", r.settings.node);
    wait(stage, message).until(now + Duration::from_secs(1))
}

#[cfg(test)]
mod tests;
