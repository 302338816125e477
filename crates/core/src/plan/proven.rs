//! The readings have proven the machine off for a few seconds: no pod came since, the evidence is stored, stuck pods go, and the taint is set.
//!
//! A round does one of these; the next one judges again, so that whatever is done rests on a Node and a Lease read just before.

use super::abort::abort;
use super::completion::late_off;
use super::outcome::confirmed;
use super::pace::{READ_PACE, poll_again};
use super::round::Round;
use super::tries::in_trouble;
use crate::decision::{Decision, Effect, Eviction, Evidence, act, wait};
use crate::device::Level;
use crate::escalation::Escalation;
use crate::memory::Memory;
use crate::observed::{NodeView, PodView};
use crate::proof::Proof;
use crate::proof_source::ProofSource;
use crate::quiesce::{counted, name_some, newcomers, stuck};
use crate::reading::{PowerState, Reading};
use crate::settings::Settings;
use crate::stage::Stage;
use crate::taint;
use fencing_api::settings::PodDeletion;

/// Times that the quiesce may begin anew before a human is called.
const REQUIESCES_MAX: u32 = 5;

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
            "{message} ({} times); find out what binds pods to Node {} in spite of its taints, or delays their list",
            r.memory.under_claim.quiesce.begun_anew, r.settings.node
        ));
        r.memory.tries.alarm = Some(Escalation::QuiesceStuck);
    }
    let decision = wait(Stage::Quiescing, message).until(r.moment.now);
    in_trouble(r.memory, decision)
}

/// What has to be done first if a pod has come since the node was quiesced, or may have.
pub(super) fn not_quiet(r: &mut Round<'_>, _: &NodeView, _: &Proof) -> Option<Decision> {
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

/// The tries have led to a proof: what they reported is over.
pub(super) fn tries_end(r: &mut Round<'_>, _: &NodeView, _: &Proof) -> Option<Decision> {
    r.memory.tries.failures = 0;
    r.memory.tries.since = None;
    r.memory.tries.rounds = 0;
    r.memory.tries.last_failure = None;
    r.memory.tries.by_level.clear();
    r.memory.tries.alarm = None;
    None
}

/// Others would go by the proof while an off may still take effect.
pub(super) fn pending_off(r: &mut Round<'_>, _: &NodeView, _: &Proof) -> Option<Decision> {
    late_off(r)
}

/// The kubelet has reported since the readings were stored: they are read again, and not believed once more.
pub(super) fn doubted(r: &mut Round<'_>, _: &NodeView, _: &Proof) -> Option<Decision> {
    if !r.memory.under_claim.evidence_is_new || r.memory.proven.doubted.is_none() {
        return None;
    }
    r.memory.under_claim.readings = None;
    let message =
        "the kubelet has reported since the machine was confirmed off, reading the power again";
    Some(wait(Stage::Verifying, message.to_owned()).until(r.moment.now))
}

/// Stored under this claim may be an older proof, since which the machine may have run. It stays what is known until the new one is
/// stored: the taint of the older one may be on its way.
pub(super) fn not_stored(r: &mut Round<'_>, node: &NodeView, proof: &Proof) -> Option<Decision> {
    let is_stored = r.memory.under_claim.evidence_is_new;
    (!is_stored).then(|| store(r, node, proof))
}

/// The policy wants the proof alone.
pub(super) fn only_proven(r: &mut Round<'_>, node: &NodeView, proof: &Proof) -> Option<Decision> {
    if !r.settings.only_proves() {
        return None;
    }
    let message = confirmed(r.memory);
    let end = abort(r.memory, node, proof.claim(), Stage::ConfirmedDown, message);
    Some(end)
}

/// Stuck pods are left, and the policy has them deleted.
pub(super) fn stuck_pods(r: &mut Round<'_>, _: &NodeView, proof: &Proof) -> Option<Decision> {
    let pods = to_evict(r.settings, r.memory);
    if pods.is_empty() {
        return None;
    }
    let message = format!(
        "deleting {}: {}",
        counted(pods.len(), "stuck pod"),
        name_some(pods.iter())
    );
    let eviction = Eviction {
        pods,
        valid_until: proof.valid_until(),
    };
    Some(act(Effect::Evict(eviction), Stage::Tainting, message))
}

pub(super) fn taint_node(r: &Round<'_>, node: &NodeView, proof: Proof) -> Decision {
    let (patch, message) = match r.settings.deletes_node() {
        true => (
            taint::detaching(node, proof),
            format!(
                "setting taint `nodefencing.io/detaching` on Node {}: its volumes are detached, and then it is deleted",
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
fn store(r: &mut Round<'_>, node: &NodeView, proof: &Proof) -> Decision {
    let lease = r.observed.lease.present();
    let lease_renew_time = lease.map_or_else(String::new, |it| it.renew_time.clone());
    r.memory.under_claim.proving = read_off(r.memory);
    let level = r.settings.levels.get(r.memory.tries.level);
    let by_confirmation = level.is_some_and(Level::is_manual);
    r.memory.proven.by = Some(ProofSource::of(
        &r.memory.under_claim.proving,
        by_confirmation,
        &r.settings.levels,
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
    let what = match proof.covers() {
        Some(_) => "fenced from its volumes",
        None => "confirmed off",
    };
    let message = format!("Node {} is {what}: storing the evidence", node.name);
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
