//! The claim stands and no pod can start: read the power, judge the readings, and while the proof lives write the evidence,
//! delete the stuck pods and set the taint.
//!
//! A round does one of these; the next one judges anew, so that whatever is done rests on a Node and a Lease read just before (for
//! the deletion beside the evidence, for the taint beside the deletion).

use super::abort::{abort, drop_claim};
use super::completion::late_off;
use super::contradiction::{after_life, note_life};
use super::level::names;
use super::outcome::confirmed;
use super::pace::{READ_PACE, poll_again};
use super::round::Round;
use super::span;
use super::tries::{busy_stage, fail, in_trouble, order, try_again, unresolved};
use crate::attempt::{Attempt, OffResult};
use crate::decision::{Decision, DeviceOrder, Effect, Eviction, Evidence, act, wait};
use crate::device::Level;
use crate::escalation::Escalation;
use crate::memory::Memory;
use crate::not_proven::NotProven;
use crate::observed::{NodeView, PodView, Read};
use crate::proof::{Case, Proof, judge};
use crate::proof_source::ProofSource;
use crate::quiesce::{counted, name_some, newcomers, stuck};
use crate::reading::{PowerState, Reading};
use crate::settings::Settings;
use crate::stage::Stage;
use crate::{manual_confirmation, taint};
use fencing_api::settings::{FenceMode, PodDeletion};
use std::time::Duration;

/// Times that the quiesce may begin anew before a human is called.
const REQUIESCES_MAX: u32 = 5;

/// Reads the power, judges the readings, and goes on to the taint while the proof lives.
pub(super) fn prove(r: &mut Round<'_>, node: &NodeView, level: &Level) -> Decision {
    let Some(readings) = r.memory.under_claim.readings.clone() else {
        return confirm_power(r, node, level);
    };
    let (Some(held), Some(quiesced), Some(lease_before)) = (
        &r.memory.claim,
        r.memory.under_claim.quiesce.since,
        &r.memory.under_claim.lease_before,
    ) else {
        return wait(Stage::Verifying, "the claim was lost".to_owned()).until(r.moment.now);
    };
    let Some(lease_now) = r.observed.lease.present() else {
        let message = format!("the kubelet's Lease is required{}", r.observed.lease.why());
        return poll_again(r, Stage::Verifying, message, READ_PACE);
    };
    let verification = span::judged(r.settings, r.memory, node, level, &readings);
    let judged = confirmed_until(r, level, r.moment.now).and_then(|confirmed_until| {
        let case = Case {
            claim: &held.value,
            node_uid: &held.uid,
            boot_id: &held.boot_id,
            node,
            lease_before,
            lease_now,
            quiesced,
            devices: &readings,
            others: &r.memory.under_claim.others,
            require: level.require,
            power_history: &r.memory.trust.power_history,
            verification: &verification,
            commanded: r.settings.mode() == FenceMode::PowerOff
                && r.memory.commands.may_have_turned_off_something(),
            kubelet_answers: r.observed.kubelet_answers || r.memory.under_claim.kubelet_answered,
            confirmed_until,
        };
        judge(&case, r.moment.now)
    });
    r.memory.under_claim.judged_down |= judged.is_ok();
    match judged {
        Ok(proof) => use_proof(r, node, lease_now.renew_time.clone(), proof),
        // A late off is waited for before the power is read again: a device that does not answer meanwhile would be told off anew.
        Err(NotProven::Stale { .. }) => late_off(r).unwrap_or_else(|| {
            r.memory.under_claim.readings = None;
            let message = "the power-off proof expired, reading the power again";
            wait(Stage::Verifying, message.to_owned()).until(r.moment.now)
        }),
        Err(reason) if reason.is_contradiction() => {
            let message = note_life(r, level, &readings, &reason);
            after_life(r, node, level, message)
        }
        Err(reason) if r.settings.mode() == FenceMode::ConfirmOnly => {
            let message = format!("{reason}{}; claim removed", beside(r.memory, &reason));
            let claim = held.value.clone();
            fail(r, message.clone(), r.moment.now);
            let decision = drop_claim(r.memory, node, &claim, message);
            in_trouble(r.memory, decision)
        }
        Err(reason) => {
            let message = format!(
                "{reason}{}{}",
                beside(r.memory, &reason),
                unresolved(r.memory)
            );
            try_again(r, message)
        }
    }
}

/// Which device would refute the word that is missing.
fn beside(m: &Memory, reason: &NotProven) -> String {
    let mut others = m.under_claim.others.iter();
    let on = others.find_map(|it| Some((it.device.as_str(), it.against()?)));
    manual_confirmation::beside(on.filter(|_| matches!(reason, NotProven::NoConfirmation(_))))
}

/// Does the Lease count from here? After an off command that may have turned the machine off, or may still, it does so once: what moves it beside
/// later readings lives.
fn counts_anew(r: &Round<'_>, level: &Level) -> bool {
    let has_turned_off = |it: &Attempt| {
        let mut results = it.results.values();
        let is_late =
            !it.results.is_empty() && r.memory.late.pending_off_until(r.moment.now).is_some();
        is_late || results.any(OffResult::may_turn_off)
    };
    let is_off = r
        .memory
        .commands
        .attempt
        .as_ref()
        .is_some_and(has_turned_off);
    let is_due = is_off && !r.memory.under_claim.lease_after_off && !level.is_manual();
    is_due || r.memory.under_claim.lease_before.is_none()
}

/// Has the power read, again and again, when it is known how the Lease was before.
fn confirm_power(r: &mut Round<'_>, node: &NodeView, level: &Level) -> Decision {
    // The readings are compared with it: it is older than they are, always.
    if counts_anew(r, level) {
        let Read::Present(lease) = &r.observed.lease else {
            let why = r.observed.lease.why();
            let message = format!("reading the kubelet's Lease before the power{why}");
            let decision = poll_again(r, busy_stage(r.memory), message, READ_PACE);
            return in_trouble(r.memory, decision);
        };
        r.memory.under_claim.lease_before = Some(lease.clone());
        r.memory.under_claim.lease_after_off = true;
    }
    let message = format!(
        "reading the power from {} until it is confirmed off",
        names(level)
    );
    let window = span::ordered(r.settings, r.memory, node, level);
    let confirm = DeviceOrder::Confirm { window };
    let confirm = order(r.memory, level, confirm, r.moment.now);
    in_trouble(r.memory, act(confirm, Stage::Verifying, message))
}

/// Under the taint whoever turns the machine on does no harm, but those who are told that it is down (`recovery.strategy: None`) rely on that: what
/// another NodeFence has sent is waited for before the power is read.
pub(super) fn late_on(r: &Round<'_>) -> Option<Decision> {
    let until = r
        .memory
        .late
        .on_until
        .filter(|until| r.settings.only_proves() && r.moment.now < *until)?;
    let message = "an on command of another NodeFence may still take effect (its `status.attempts`), reading the power afterwards";
    // Nothing is verified yet: the time for that has not begun.
    let waits = wait(Stage::Quiescing, message.to_owned()).until(until);
    Some(Decision {
        deadline: Some(until),
        ..waits
    })
}

/// Until when the human's word counts that the level rests on; none: it rests on no word.
fn confirmed_until(
    r: &Round<'_>,
    level: &Level,
    now: Duration,
) -> Result<Option<Duration>, NotProven> {
    if !level.is_manual() {
        return Ok(None);
    }
    if let Some(message) = &r.memory.confirmation.refused {
        return Err(NotProven::NoConfirmation(message.clone()));
    }
    let confirmation = manual_confirmation::valid_confirmation(r.settings, now)
        .map_err(NotProven::NoConfirmation)?;
    Ok(Some(confirmation.valid_until))
}

/// Pods came to the node since the quiesce, or may have come and gone: they have to be on their way out before the power is read.
/// Those that are by now, too: was one of them begun to be started before, by a machine that had power for a moment, only
/// readings after its deletion tell. A node to which pods come again and again is a human's matter.
fn quiesce_again(r: &mut Round<'_>, message: String) -> Decision {
    r.memory.under_claim.quiesce.since = None;
    r.memory.under_claim.readings = None;
    r.memory.under_claim.pods = None;
    r.memory.under_claim.relist = false;
    r.memory.under_claim.evicted = false;
    r.memory.under_claim.quiesce.begun_anew += 1;
    if r.memory.under_claim.quiesce.begun_anew > REQUIESCES_MAX {
        r.memory.tries.last_failure = Some(format!(
            "{message} (for the {}th time); find out what binds pods to Node {} in spite of its taints, or delays their list",
            r.memory.under_claim.quiesce.begun_anew, r.settings.node
        ));
        r.memory.tries.alarm = Some(Escalation::QuiesceStuck);
    }
    let decision = wait(Stage::Quiescing, message).until(r.moment.now);
    in_trouble(r.memory, decision)
}

/// What has to be done first if a pod has come since the node was quiesced, or may have.
fn not_quiet(r: &mut Round<'_>) -> Option<Decision> {
    // What came since the power was read last met the claim, so a new list has nothing to say about the proof.
    if let (true, Some(pods)) = (r.memory.under_claim.relist, r.observed.pods.present()) {
        r.memory.under_claim.pods = Some(pods.clone());
        r.memory.under_claim.relist = false;
    }
    if r.memory.under_claim.relist {
        let message = format!(
            "a deletion failed; a list of the remaining pods is required{}",
            r.observed.pods.why()
        );
        return Some(poll_again(r, Stage::Tainting, message, READ_PACE));
    }
    let Some(pods) = &r.memory.under_claim.pods else {
        // What came and went since the quiesce no list shows that is made now: only readings after the list can tell.
        let Some(pods) = r.observed.pods.present() else {
            let message = format!(
                "confirmed off; a complete list of the node's pods is required{}",
                r.observed.pods.why()
            );
            return Some(poll_again(r, Stage::Tainting, message, READ_PACE));
        };
        r.memory.under_claim.quiesce.note_list(pods);
        let message = "the node's pods could not be listed before the last power reading, reading the power again";
        return Some(quiesce_again(r, message.to_owned()));
    };
    let came = name_some(newcomers(
        pods,
        r.memory.under_claim.quiesce.listed.as_ref(),
    ));
    if came.is_empty() {
        return None;
    }
    r.memory.under_claim.quiesce.forget_list();
    let message = format!(
        "pods were bound to the node, or deleted, since it was quiesced: {came}; reading the power again"
    );
    Some(quiesce_again(r, message))
}

/// The devices that read Off last, in order: where one of a level is enough, another may have said nothing.
fn read_off(m: &Memory) -> Vec<String> {
    let is_off = |reading: &Reading| reading.state == PowerState::Off;
    let readings = m.under_claim.readings.iter().flatten();
    let off = readings.filter(|device| device.readings.last().is_some_and(is_off));
    let mut names: Vec<String> = off.map(|device| device.device.clone()).collect();
    names.sort_unstable();
    names
}

/// Evidence, eviction, taint: in this order, each under the same living proof.
fn use_proof(
    r: &mut Round<'_>,
    node: &NodeView,
    lease_renew_time: String,
    proof: Proof,
) -> Decision {
    if let Some(decision) = not_quiet(r) {
        return decision;
    }
    r.memory.tries.failures = 0;
    r.memory.tries.since = None;
    r.memory.tries.rounds = 0;
    r.memory.tries.last_failure = None;
    r.memory.tries.by_level.clear();
    r.memory.tries.alarm = None;
    if let Some(decision) = late_off(r) {
        return decision;
    }
    // The kubelet has reported since they were stored: they are read again, and not believed once more.
    if r.memory.under_claim.evidence_is_new && r.memory.proven.doubted.is_some() {
        r.memory.under_claim.readings = None;
        let message =
            "the kubelet has reported since the machine was confirmed off, reading the power again";
        return wait(Stage::Verifying, message.to_owned()).until(r.moment.now);
    }
    // Stored under this claim may be an older proof, since which the machine may have run. It stays what is known until the new one is
    // stored: the taint of the older one may be on its way.
    if !r.memory.under_claim.evidence_is_new {
        return store(r, node, lease_renew_time, &proof);
    }
    if r.settings.only_proves() {
        let message = confirmed(r.memory);
        return abort(r.memory, node, proof.claim(), Stage::ConfirmedDown, message);
    }
    let pods = to_evict(r.settings, r.memory);
    if !pods.is_empty() {
        let message = format!(
            "deleting {}: {}",
            counted(pods.len(), "stuck pod"),
            name_some(pods.iter())
        );
        let eviction = Eviction {
            pods,
            valid_until: proof.valid_until(),
        };
        return act(Effect::Evict(eviction), Stage::Tainting, message);
    }
    let (patch, message) = match r.settings.deletes_node() {
        true => (
            taint::detaching(node, proof),
            format!(
                "setting taint on Node {}: its volumes are detached, and then it is deleted",
                node.name
            ),
        ),
        false => (
            taint::out_of_service(node, proof),
            format!("setting taint out-of-service on Node {}", node.name),
        ),
    };
    match patch {
        Some(patch) => act(Effect::Taint(patch), Stage::Tainting, message),
        None => wait(Stage::Tainting, "the claim was lost".to_owned()).until(r.moment.now),
    }
}

/// The evidence is written down.
fn store(r: &mut Round<'_>, node: &NodeView, lease_renew_time: String, proof: &Proof) -> Decision {
    r.memory.under_claim.proving = read_off(r.memory);
    let level = r.settings.levels.get(r.memory.tries.level);
    let by_confirmation = level.is_some_and(Level::is_manual);
    r.memory.proven.by = Some(ProofSource::of(
        &r.memory.under_claim.proving,
        by_confirmation,
    ));
    r.memory.proven.report = node.last_report().parse().ok();
    let level = level.map_or_else(String::new, |level| level.name.clone());
    let evidence = Evidence {
        claim: proof.claim().to_owned(),
        node_uid: node.uid.clone(),
        boot_id: node.boot_id.clone(),
        lease_renew_time,
        last_report: node.last_report().to_owned(),
        level,
        by_confirmation,
        readings: r.memory.under_claim.readings.clone().unwrap_or_default(),
    };
    let message = format!("Node {} is confirmed off: storing the evidence", node.name);
    act(
        Effect::StoreEvidence(Box::new(evidence)),
        Stage::Tainting,
        message,
    )
}

/// The pods that are still to be deleted by force before the taint.
pub(super) fn to_evict(s: &Settings, m: &Memory) -> Vec<PodView> {
    // Pod GC leaves a pod where it is while its Node stands, and no volume goes before its pod.
    let is_expedited =
        s.procedure.recovery.pod_deletion == PodDeletion::Expedited || s.deletes_node();
    let is_wanted = !s.only_proves() && is_expedited && !m.under_claim.evicted;
    let listed = m.under_claim.pods.as_deref().filter(|_| is_wanted);
    // What the operator may not delete goes by pod GC under `out-of-service`.
    let stuck = stuck(listed.unwrap_or_default());
    stuck.filter(|pod| !pod.looks_alive).cloned().collect()
}

#[cfg(test)]
mod tests;
