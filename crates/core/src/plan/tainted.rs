//! `out-of-service` stands under our claim: watch until everything has detached, then take both away.
//!
//! The taint is taken back only through the release gate (docs/protocol.md). Until then the power is watched (`watch`): a machine that comes
//! back while its volumes are being detached is turned off again, or keeps its taint until it has booted anew.

use super::delete_node::finalizers;
use super::detaching::{self, read_power};
use super::off_now::off_now;
use super::outcome::was_down;
use super::pace::{self, DETACH_PACE, WATCH_PERIOD, poll, poll_again};
use super::phase::holds;
use super::protocol::{RELEASE, first};
use super::round::Round;
use super::tries::current_level;
use super::watch::{regressed, watch_power};
use crate::decision::{Decision, Effect, act, close, wait};
use crate::device::Level;
use crate::escalation::Escalation;
use crate::memory::OwnClaim;
use crate::observed::NodeView;
use crate::proof_source::reported_off;
use crate::release::{
    Hindrance, attachments_left, booted_anew, hindrance, hindrance_of_deletion, never_went_down,
};
use crate::settings::Settings;
use crate::stage::Stage;
use crate::taint;
use fencing_api::settings::ReleaseMode;
use std::time::Duration;

/// Set by the process before us, or taken over by one that lives: whoever sees to the release may turn off again under it.
fn hold(r: &mut Round<'_>, node: &NodeView, claim: &str) {
    if !holds(r.memory, claim) {
        r.memory.claim = Some(OwnClaim {
            value: claim.to_owned(),
            uid: node.uid.clone(),
            boot_id: r.settings.boot_id.clone().unwrap_or_default(),
            seen: true,
        });
    }
}

/// The next step under our mark and the claim that it stands under, whichever process has set them.
pub(super) fn step(r: &mut Round<'_>, node: &NodeView, claim: &str) -> Decision {
    r.memory.taint.seen = true;
    // It has landed after all, whatever end was decided before: it is seen through.
    r.memory.ending = None;
    r.memory.under_claim.dropping = false;
    hold(r, node, claim);
    let fenced_boot = r.settings.boot_id.as_deref();
    let new_boot = booted_anew(node, fenced_boot);
    // The power of a machine that has booted anew is not read any more: the effect of what it accepted is never seen.
    if new_boot && !r.memory.commands.under_way() {
        r.memory
            .drop_attempt(r.moment.now + r.settings.late_effect());
    }
    // A Node that goes on is let go like any other.
    let is_deleted = r.settings.deletes_node() && !new_boot && !r.settings.released;
    let hindrance = match is_deleted {
        true => hindrance_of_deletion(r.observed),
        false => hindrance(Some(node), r.observed),
    };
    // Asked for until it has come, or nobody needs it any more.
    r.memory.taint.lists_attachments &= matches!(hindrance, Some(Hindrance::Attachments(_)));
    if r.settings.deletes_node() {
        detaching::note_pods_gone(r.memory, hindrance.as_ref(), r.moment.now);
    }
    match &hindrance {
        None => r.memory.taint.detached_at = r.memory.taint.detached_at.or(Some(r.moment.now)),
        // A list that could not be read takes back nothing that was seen before.
        Some(Hindrance::NotRead(_) | Hindrance::LastList) => {}
        Some(_) => r.memory.taint.detached_at = None,
    }
    let level = current_level(r);
    let watched = match &level {
        Some(level) if !new_boot => watch_power(r, node, level),
        Some(level) if r.settings.deletes_node() => read_power(r, node, level, hindrance.as_ref()),
        _ => None,
    };
    let decision = match (watched, hindrance) {
        // A look at the power changes nothing about what is waited for, which stays the explanation.
        (Some(watched), Some(hindrance)) => Decision {
            message: format!("{}; {}", hindrance.message(), watched.message),
            ..watched
        },
        (Some(watched), None) => watched,
        (None, Some(hindrance)) if r.settings.deletes_node() => {
            detaching::detach(r, node, level.as_ref(), &hindrance)
        }
        (None, Some(hindrance)) => {
            r.memory.taint.last_check = false;
            poll_again(
                r,
                Stage::Detaching,
                hindrance.message(),
                pace::of(&hindrance),
            )
        }
        (None, None) => finalizers::waited_for(r.settings, node, r.moment)
            .unwrap_or_else(|| release(r, node, claim, level.as_ref())),
    };
    if never_went_down(node, fenced_boot) {
        r.memory.proven.refuted = true;
        let (said, way_out) = reported_off(r.memory.proven.by.as_ref());
        let message = format!(
            "Node {} is Ready in boot {}, although {said}: its machine never went down; {way_out}, check the volumes' data, then reboot the node",
            node.name, node.boot_id
        );
        return decision.escalated(Escalation::FenceContradiction, message);
    }
    if let Some(message) = regressed(r).filter(|_| !new_boot) {
        return decision.escalated(Escalation::FenceRegressed, message);
    }
    // Also while the power is looked at.
    match finalizers::stuck(r.settings, node).filter(|_| r.memory.taint.detached_at.is_some()) {
        Some(message) => decision.escalated(Escalation::ReleaseStuck, message),
        None => decision,
    }
}

/// Somebody deleted the Node, and our taint with it: there is nothing left to release, but the record stays open until pods and
/// volumes are free, which pod GC and attach/detach now see to without the taint (F43).
pub(super) fn node_gone(r: &mut Round<'_>) -> Decision {
    r.memory.taint.seen = true;
    let gone = match r.settings.deletes_node() {
        true => format!("Node {} is deleted", r.settings.node),
        false => format!("Node {} was deleted under its taint", r.settings.node),
    };
    if let Some(Hindrance::Pods(_) | Hindrance::Attachments(_)) = hindrance_of_deletion(r.observed)
    {
        r.memory.taint.attached_again = true;
        r.memory.taint.detached_at = None;
    }
    if let Some(hindrance) = hindrance(None, r.observed) {
        r.memory.taint.last_check = false;
        let message = format!(
            "{gone}; {}{}",
            hindrance.message(),
            without_lock(r.settings, &hindrance)
        );
        return poll_again(r, Stage::Detaching, message, DETACH_PACE);
    }
    match last_list(r) {
        Ok(()) => {
            let message = format!(
                "{gone}; {}, pods deleted, volumes detached",
                was_down(r.memory)
            );
            close(Stage::Recovered, message)
        }
        Err((left, wake)) => {
            let message = format!(
                "{gone}; {}{}",
                left.message(),
                without_lock(r.settings, &left)
            );
            wait(Stage::Detaching, message).until(wake)
        }
    }
}

/// The last word on the VolumeAttachments, which this round has listed if the one before asked for it; or what hinders, and when to look again.
/// Asked for until it has come, it says the same all the time.
fn last_list(r: &mut Round<'_>) -> Result<(), (Hindrance, Duration)> {
    let was_asked = r.memory.taint.last_check;
    let left = attachments_left(r.observed).err();
    r.memory.taint.last_check = matches!(left, Some(Hindrance::NotRead(_) | Hindrance::LastList));
    let Some(left) = left else { return Ok(()) };
    let wake = match r.memory.taint.last_check && !was_asked {
        true => r.moment.now,
        false => poll(r.memory, r.moment.now, DETACH_PACE),
    };
    Err((left, wake))
}

/// Somebody else has deleted the Node before its volumes were free: without the claim on it nothing says that nobody uses them.
fn without_lock(s: &Settings, left: &Hindrance) -> &'static str {
    match left {
        Hindrance::Attachments(_) if s.deletes_node() => {
            "; Kubernetes detaches it some minutes later (the claim is gone)"
        }
        _ => "",
    }
}

/// The release gate's last part: everything has detached already.
fn release(r: &mut Round<'_>, node: &NodeView, claim: &str, level: Option<&Level>) -> Decision {
    if let Some(decision) = first(RELEASE, |guard| guard(r, node, level)) {
        return decision;
    }
    let new_boot = booted_anew(node, r.settings.boot_id.as_deref());
    // Whoever has put the node out of service since is at work there, and a human who has released it wants to keep it.
    if r.settings.deletes_node() && !new_boot && !r.settings.released && !node.out_of_service() {
        return detaching::delete(r, node, claim, level);
    }
    r.memory.taint.releasing = true;
    let quarantine = (!new_boot).then_some(node.boot_id.as_str());
    let message = match quarantine {
        Some(_) => format!(
            "all volumes detached and the machine reads Off: releasing Node {}, quarantined until it reboots",
            node.name
        ),
        None => format!(
            "all volumes detached and Node {} rebooted: releasing it",
            node.name
        ),
    };
    match taint::release(node, claim, quarantine) {
        Some(patch) => act(Effect::Release(patch), Stage::AwaitingRelease, message),
        None => wait(Stage::AwaitingRelease, "the claim was lost".to_owned()).until(r.moment.now),
    }
}

/// The node is Ready in the boot that was fenced.
pub(super) fn never_down(
    r: &mut Round<'_>,
    node: &NodeView,
    _: Option<&Level>,
) -> Option<Decision> {
    if !never_went_down(node, r.settings.boot_id.as_deref()) {
        return None;
    }
    let message = format!("Node {} is Ready and never went down", node.name);
    Some(wait(Stage::AwaitingRelease, message).until(r.moment.now + WATCH_PERIOD))
}

/// `release.mode`: a machine that has booted anew is released whatever it says.
pub(super) fn held_by_mode(
    r: &mut Round<'_>,
    node: &NodeView,
    _: Option<&Level>,
) -> Option<Decision> {
    if booted_anew(node, r.settings.boot_id.as_deref()) {
        return None;
    }
    let waits_for = match r.settings.procedure.release.mode {
        _ if r.settings.released => None,
        ReleaseMode::AfterDetach => None,
        ReleaseMode::AfterRecovery => Some(
            "waiting for a new boot ID (`release.mode` AfterRecovery), or for `spec.desiredState: Released`",
        ),
        ReleaseMode::Manual => {
            Some("waiting for `spec.desiredState: Released` (`release.mode` Manual)")
        }
    }?;
    let message = format!("all volumes detached; {waits_for}");
    Some(wait(Stage::AwaitingRelease, message).until(r.moment.now + WATCH_PERIOD))
}

/// A machine that has not booted anew has to read Off now.
pub(super) fn not_off(
    r: &mut Round<'_>,
    node: &NodeView,
    level: Option<&Level>,
) -> Option<Decision> {
    if booted_anew(node, r.settings.boot_id.as_deref()) {
        return None;
    }
    let message = off_now(r.settings, r.memory, level, r.moment).err()?;
    let message = format!("all volumes detached; {message}");
    Some(wait(Stage::AwaitingRelease, message).until(r.moment.now + Duration::from_secs(1)))
}

/// Everything else is settled: one complete quorum LIST of the VolumeAttachments is the last word.
pub(super) fn still_attached(
    r: &mut Round<'_>,
    _: &NodeView,
    _: Option<&Level>,
) -> Option<Decision> {
    Some(match last_list(r).err()? {
        (unread @ (Hindrance::NotRead(_) | Hindrance::LastList), wake) => {
            wait(Stage::AwaitingRelease, unread.message()).until(wake)
        }
        (left, _) => wait(Stage::Detaching, left.message()).until(r.moment.now + WATCH_PERIOD),
    })
}

/// Another process may have sent an off that this one has not heard of (S23).
pub(super) fn unheard(r: &mut Round<'_>, _: &NodeView, _: Option<&Level>) -> Option<Decision> {
    if r.observed.evidence.present().is_some() {
        return None;
    }
    // Both are read once more, then.
    r.memory.taint.last_check = true;
    let message = format!(
        "the NodeFence is required before the release{}",
        r.observed.evidence.why()
    );
    let stage = Stage::AwaitingRelease;
    Some(poll_again(r, stage, message, DETACH_PACE))
}

/// An off command that may still land keeps the taint where it is (S23).
pub(super) fn pending_off(r: &mut Round<'_>, _: &NodeView, _: Option<&Level>) -> Option<Decision> {
    let again = r.moment.now + WATCH_PERIOD;
    if r.memory.commands.under_way() {
        let message =
            "all volumes detached; the taint stays until the device has answered the off command";
        return Some(wait(Stage::AwaitingRelease, message.to_owned()).until(again));
    }
    let until = r.memory.late.pending_off_until(r.moment.now)?;
    let message = format!(
        "all volumes detached; {}: the taint stays until then",
        r.memory.late.off_message()
    );
    Some(wait(Stage::AwaitingRelease, message).until(until.min(again)))
}

#[cfg(test)]
mod tests;
