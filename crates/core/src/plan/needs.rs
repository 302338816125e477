//! What a round has to read for its step: as little as the step asks for, and what can be foreseen side by side with the Node.

use super::delete_node::sticky_pods;
use super::phase::{NodePhase, holds, node_phase};
use super::proven;
use super::storage;
use crate::memory::Memory;
use crate::observed::{NodeView, PodView};
use crate::settings::Settings;

/// Pods that are read one by one; more of them are listed. A quorum GET takes the API server 2 ms, a consistent LIST up to 100 ms, until
/// its cache has caught up (`k8s.io/apiserver/pkg/storage/cacher`, `progressRequestPeriod`, v1.36).
pub(super) const ONE_BY_ONE_MAX: usize = 16;

/// What a round has to read besides the Node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// The kubelet's Lease.
    pub lease: bool,
    /// The node's pods.
    pub pods: bool,
    /// These of its pods, one by one.
    pub starting: Vec<PodView>,
    /// All VolumeAttachments, by quorum LIST.
    pub attachments: bool,
    /// Beside them, one by one, the PersistentVolumes that are attached, and those of these pods' claims.
    pub volumes_of: Option<Vec<PodView>>,
    /// Whether something answers at the kubelet's port.
    pub kubelet: bool,
    /// The other NodeFences, by quorum LIST: what they have sent.
    pub foreign_commands: bool,
    /// The NodeFence, after the Node: is the `out-of-service` there ours, and what was sent by whoever set it?
    pub record: bool,
}

/// What the next [`step`] will need besides the Node, as far as it is known before the Node is read: what the API server has
/// shown to be on the Node is taken to be there still. Read side by side with the Node it costs no time.
pub fn foresee(memory: &Memory) -> Needs {
    if memory.power_on.begun.is_some() {
        return Needs::default();
    }
    let claimed = memory.claim.as_ref().is_some_and(|claim| claim.seen);
    match (memory.taint.seen, claimed) {
        // What was sent to take the taint away has landed as a rule. Where it has not, what the next try takes is read before an answer of a device
        // is taken, which may not be old by then.
        (true, _) if memory.taint.releasing && memory.writes.failures == 0 => Needs::default(),
        (true, _) => under_taint(memory),
        (false, true) => {
            let needs = under_claim(memory);
            Needs {
                // What a device has answered by now is judged beside the Lease.
                lease: needs.lease || memory.commands.busy.is_some(),
                ..needs
            }
        }
        (false, false) => Needs::default(),
    }
}

/// Are pods deleted by force next, once the evidence is stored? Their deletion may rest on what is read beside the evidence: they are on
/// their way out, and quiet pods do not start whatever becomes of their node. A taint never rests on a Node that was read before its
/// evidence was stored.
pub fn evicts_next(settings: &Settings, memory: &Memory) -> bool {
    !proven::to_evict(settings, memory).is_empty()
}

/// What to read for the next [`step`], given the Node; `None`: it does not exist, or cannot be read.
pub fn needs(settings: &Settings, memory: &Memory, node: Option<&NodeView>) -> Needs {
    match node.map(|node| node_phase(settings, node)) {
        Some(NodePhase::Claimed(_)) => Needs {
            // Not before the first look under the claim, which may not be late.
            foreign_commands: settings.only_proves()
                && memory.claim.as_ref().is_some_and(|claim| claim.seen)
                && !memory.under_claim.others_listed,
            ..under_claim(memory)
        },
        Some(NodePhase::Tainted(claim)) => Needs {
            // Before the last word, what another process that sees to it has sent meanwhile.
            record: !holds(memory, claim) || memory.taint.last_check,
            ..under_taint(memory)
        },
        Some(NodePhase::Unclaimed) => Needs {
            pods: sticky_pods::is_listed(memory),
            ..Needs::default()
        },
        Some(NodePhase::ForeignTaintBesideClaim(_) | NodePhase::ForeignTaint) => Needs::default(),
        // A deleted Node leaves pods and VolumeAttachments behind.
        None if memory.taint.seen || settings.record.evidence => under_taint(memory),
        None => Needs::default(),
    }
}

fn under_claim(memory: &Memory) -> Needs {
    let commanded = memory
        .commands
        .attempt
        .as_ref()
        .is_some_and(|attempt| !attempt.results.is_empty())
        || memory.trust.is_contradicted();
    let attempt = memory.commands.attempt.as_ref();
    let commanding = attempt.is_some_and(|it| it.recorded && it.results.is_empty());
    let judging = memory.under_claim.readings.is_some();
    let by_storage = judging && storage::is_judged(memory);
    let quiesced = memory.under_claim.quiesce.since.is_some();
    let many = memory.under_claim.quiesce.starting.len() > ONE_BY_ONE_MAX;
    let starting = match quiesced || many {
        true => Vec::new(),
        false => memory.under_claim.quiesce.starting.clone(),
    };
    Needs {
        lease: judging || memory.under_claim.lease_before.is_none() || commanded || commanding,
        pods: !quiesced && (memory.under_claim.quiesce.listed.is_none() || many)
            || (judging && (memory.under_claim.pods.is_none() || memory.under_claim.relist)),
        starting,
        attachments: by_storage,
        volumes_of: by_storage.then(|| storage::leaving(memory).cloned().collect()),
        kubelet: judging
            && commanded
            && memory.under_claim.kubelet_answered.is_none()
            && !memory.under_claim.judged_down,
        ..Needs::default()
    }
}

fn under_taint(memory: &Memory) -> Needs {
    Needs {
        pods: true,
        attachments: memory.taint.last_check || memory.taint.lists_attachments,
        ..Needs::default()
    }
}
