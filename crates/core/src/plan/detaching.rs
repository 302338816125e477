//! `recovery.strategy: DeleteNode`: under our claim the operator itself takes the volumes from the machine, and deletes the Node last.
//!
//! The Node is the lock, so it goes when nothing is left to be locked. While it stands, with our claim on it, a machine that comes back finds
//! no pod that it may start, however late the deletion of a VolumeAttachment arrives; without it the kubelet makes a Node of its own, pods are
//! bound to that, and the same deletion would take the volume from under them (docs/protocol.md, "Without the taint"). Beside that it is the
//! way of `out-of-service` ([`tainted`](super::tainted)): the same watch over the power, the same gate at the end.

use super::delete_node::finalizers;
use super::level::names;
use super::off_now::{READ_ONCE_MORE, off_now};
use super::pace::{DETACH_PACE, WATCH_PERIOD, poll_again};
use super::round::Round;
use super::tries::order;
use crate::decision::{Decision, DeviceOrder, Effect, Eviction, act, wait};
use crate::device::{DeviceAnswer, Level};
use crate::memory::Memory;
use crate::observed::{AttachmentView, NodeView, PodView, Ready};
use crate::quiesce::{counted, name_some, shorten, stuck};
use crate::release::{ATTACHMENT, Hindrance, booted_anew};
use crate::stage::Stage;
use crate::taint::{self, Detachment};
use crate::verification::PROOF_LIFE;
use std::collections::BTreeSet;
use std::time::Duration;

/// Notes since when no pod with a volume is left, or only such as are being deleted: readings of before do not count.
pub(super) fn note_pods_gone(m: &mut Memory, hindrance: Option<&Hindrance>, now: Duration) {
    match hindrance {
        Some(Hindrance::Pods(left)) if stuck(left).count() == left.len() => {
            let left: BTreeSet<String> = left.iter().map(|pod| pod.uid.clone()).collect();
            let is_known = m.taint.pods_gone_at.is_some() && left.is_subset(&m.taint.terminating);
            m.taint.pods_gone_at = m.taint.pods_gone_at.filter(|_| is_known).or(Some(now));
            m.taint.terminating = left;
        }
        Some(Hindrance::Pods(_)) => {
            m.taint.pods_gone_at = None;
            m.taint.terminating.clear();
        }
        Some(Hindrance::NotRead(_) | Hindrance::LastList) => {}
        _ => {
            m.taint.pods_gone_at = m.taint.pods_gone_at.or(Some(now));
            m.taint.terminating.clear();
        }
    }
}

/// The machine has booted anew and is dark again before attach/detach has taken the volumes from it: nothing starts there in any boot, so they
/// are taken like those of the first one. Of a machine that runs they leave by themselves, and its power is not read.
pub(super) fn read_power(
    r: &mut Round<'_>,
    node: &NodeView,
    level: &Level,
    hindrance: Option<&Hindrance>,
) -> Option<Decision> {
    let is_begun = match hindrance {
        Some(Hindrance::Attachments(known)) => known.iter().all(|it| it.deleting),
        Some(Hindrance::Pods(left)) => to_evict(r.memory, left).is_empty(),
        _ => return None,
    };
    if is_begun || r.memory.commands.busy.is_some() || node.ready() == Ready::True {
        return None;
    }
    let asked = |answer: &DeviceAnswer| answer.reading.as_ref().ok().map(|reading| reading.asked);
    let due = match r.memory.under_claim.answers.iter().filter_map(asked).min() {
        None if r.memory.under_claim.answers.is_empty() => r.moment.now,
        None => r.memory.read_at + WATCH_PERIOD,
        Some(last)
            if r.memory
                .taint
                .pods_gone_at
                .is_some_and(|since| last < since) =>
        {
            r.moment.now
        }
        Some(_) => r.memory.read_at + WATCH_PERIOD / 2,
    };
    if r.moment.now < due {
        return None;
    }
    let message = format!("reading the power from {}", names(level));
    let read = order(r.memory, level, DeviceOrder::ReadPower, r.moment.now);
    Some(act(read, Stage::Detaching, message))
}

/// The one next step while something hinders: delete those VolumeAttachments that nobody has deleted yet, by what a quorum LIST says of them
/// and while the power was read just now; or wait.
pub(super) fn detach(
    r: &mut Round<'_>,
    node: &NodeView,
    level: Option<&Level>,
    hindrance: &Hindrance,
) -> Decision {
    r.memory.taint.last_check = false;
    let lists = std::mem::take(&mut r.memory.taint.lists_attachments);
    let is_left = |attachment: &&AttachmentView| !attachment.deleting;
    let is_begun = match hindrance {
        Hindrance::Attachments(known) => !known.iter().any(|it| is_left(&it)),
        _ => true,
    };
    let is_back = booted_anew(node, r.settings.boot_id.as_deref()) && node.ready() == Ready::True;
    if let Hindrance::Pods(left) = hindrance
        && !is_back
        && let Some(decision) = evict(r, node, level, left)
    {
        return decision;
    }
    if is_begun || is_back {
        return poll_again(r, Stage::Detaching, hindrance.message(), DETACH_PACE);
    }
    if let Some(why) = finalizers::is_no_lock(node) {
        let message = format!("{}; {why}", hindrance.message());
        return wait(Stage::Detaching, message).until(r.moment.now + WATCH_PERIOD);
    }
    let valid_until = match may_go(r, node, level) {
        Ok(until) => until,
        Err(why) => {
            let message = format!("{}; {why}", hindrance.message());
            return wait(Stage::Detaching, message).until(r.moment.now + Duration::from_secs(1));
        }
    };
    let attachments = match r.observed.attachments.present() {
        Some(all) => all.iter().filter(is_left).cloned().collect(),
        None if lists => {
            // Asked for until it has come: it says the same all the time.
            r.memory.taint.lists_attachments = true;
            let message = format!("{}{}", hindrance.message(), r.observed.attachments.why());
            return poll_again(r, Stage::Detaching, message, DETACH_PACE);
        }
        None => {
            r.memory.taint.lists_attachments = true;
            return wait(Stage::Detaching, hindrance.message()).until(r.moment.now);
        }
    };
    let left = Hindrance::Attachments(attachments);
    match left {
        Hindrance::Attachments(attachments) if !attachments.is_empty() => {
            let names: Vec<String> = attachments.iter().map(|it| it.name.clone()).collect();
            let message = format!(
                "no pod with a volume is left and the machine reads Off: deleting {}: {}",
                counted(attachments.len(), ATTACHMENT),
                shorten(&names)
            );
            let detachment = Detachment {
                attachments,
                valid_until,
            };
            act(Effect::Detach(detachment), Stage::Detaching, message)
        }
        // The cache has not heard of it yet.
        _ => poll_again(r, Stage::Detaching, hindrance.message(), DETACH_PACE),
    }
}

/// Those that only a forced deletion takes from the node. One with finalizers stays after it, and is waited for.
fn to_evict(m: &Memory, left: &[PodView]) -> Vec<PodView> {
    let is_terminating = |pod: &&PodView| m.taint.terminating.contains(&pod.uid) && !pod.finalizers;
    left.iter().filter(is_terminating).cloned().collect()
}

/// Pods were bound to the node after its last list before the mark, by a scheduler that was late, and are being deleted. Pod GC acts on
/// `out-of-service` only, and no kubelet finishes them. They met the claim, so that nothing of them can run; and Off is read after they were seen to be
/// deleted, as before the mark.
fn evict(
    r: &Round<'_>,
    node: &NodeView,
    level: Option<&Level>,
    left: &[PodView],
) -> Option<Decision> {
    let pods = to_evict(r.memory, left);
    if pods.is_empty() {
        return None;
    }
    let names = name_some(pods.iter());
    Some(match may_go(r, node, level) {
        Ok(valid_until) => {
            let message = format!(
                "the machine reads Off: deleting {}: {names}",
                counted(pods.len(), "stuck pod")
            );
            let eviction = Eviction { pods, valid_until };
            act(Effect::Evict(eviction), Stage::Detaching, message)
        }
        Err(why) => {
            let message = format!("{}: {names}; {why}", counted(pods.len(), "stuck pod"));
            wait(Stage::Detaching, message).until(r.moment.now + Duration::from_secs(1))
        }
    })
}

/// Nothing is attached any more: the Node goes, exactly as it was read.
pub(super) fn delete(
    r: &mut Round<'_>,
    node: &NodeView,
    claim: &str,
    level: Option<&Level>,
) -> Decision {
    let valid_until = match may_go(r, node, level) {
        Ok(until) => until,
        Err(why) => {
            let message = format!("all volumes detached; {why}");
            return wait(Stage::AwaitingRelease, message)
                .until(r.moment.now + Duration::from_secs(1));
        }
    };
    let Some(deletion) = taint::delete_node(node, claim, valid_until) else {
        return wait(Stage::AwaitingRelease, "the claim was lost".to_owned()).until(r.moment.now);
    };
    r.memory.taint.releasing = true;
    let message = format!(
        "all volumes detached and the machine reads Off: deleting Node {}",
        node.name
    );
    act(
        Effect::DeleteNode(deletion),
        Stage::AwaitingRelease,
        message,
    )
}

/// Until when something may be taken from the machine: its Node says that it is down, and its devices read Off since no pod is left.
fn may_go(r: &Round<'_>, node: &NodeView, level: Option<&Level>) -> Result<Duration, String> {
    if !matches!(node.ready(), Ready::False | Ready::Unknown) {
        return Err(format!(
            "Node {} is neither NotReady nor Unknown",
            node.name
        ));
    }
    off_now(r.settings, r.memory, level, r.moment)?;
    let asked = r.memory.under_claim.answers.iter().filter_map(|answer| {
        let reading = answer.reading.as_ref().ok()?;
        Some(reading.asked)
    });
    let until = asked.min().unwrap_or_default() + PROOF_LIFE;
    match until > r.moment.now {
        true => Ok(until),
        false => Err(READ_ONCE_MORE.to_owned()),
    }
}

#[cfg(test)]
mod tests;
