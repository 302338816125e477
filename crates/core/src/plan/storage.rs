//! A storage that keeps the node from its volumes, where no device says that the machine is off (`StorageFenced`).
//!
//! Such a machine may run. So the taint needs more than from a machine without power: every volume that would be taken from it is one of a storage
//! that shuts it out, and nothing else is done by the proof. And less ends it: only another boot has forgotten the old mounts.

use super::level::Failure;
use super::pace::{READ_PACE, poll_again};
use super::round::Round;
use super::tries::try_again;
use crate::decision::Decision;
use crate::device::{Level, Storage};
use crate::escalation::Escalation;
use crate::memory::Memory;
use crate::observed::{AttachmentView, NodeView, PodView, Read};
use crate::proof::Proof;
use crate::quiesce::shorten;
use crate::settings::Settings;
use crate::stage::Stage;
use fencing_api::settings::RecoveryStrategy;

/// What another level has to be for.
const NEEDS_POWER: &str = "add a level that turns the machine off";

/// Is what has been read for a proof that of a storage alone?
pub(super) fn is_judged(memory: &Memory) -> bool {
    let readings = memory.under_claim.readings.as_deref().unwrap_or_default();
    readings.iter().any(|device| device.covers.is_some())
}

/// The pods whose volumes would be mounted elsewhere. Those that stay are not replaced.
pub(super) fn leaving(memory: &Memory) -> impl Iterator<Item = &PodView> {
    let listed = memory.under_claim.pods.iter().flatten();
    listed.filter(|pod| {
        let is_replaced = !pod.mirror && !pod.tolerates_out_of_service && !pod.finished;
        is_replaced && pod.attachable
    })
}

/// Why a level without any device that knows the power cannot see the fence through, by what the caches know before anything is done.
pub(super) fn hopeless(r: &Round<'_>, level: &Level) -> Option<Failure> {
    let covered = level.storage()?;
    let message = unfit(r.settings).or_else(|| {
        foreign_volume(&r.observed.attachments_cached, |it| {
            let is_covered = covered.iter().any(|of| of.driver == it.attacher);
            (!is_covered).then(String::new)
        })
    })?;
    Some(Failure {
        reason: Escalation::DeviceFailed,
        message: format!("level {}: {message}", level.name),
    })
}

/// S1: the proof of a storage covers every volume of the node, by lists that were read just now; that of a machine without power all there is.
pub(super) fn uncovered(r: &mut Round<'_>, _: &NodeView, proof: &Proof) -> Option<Decision> {
    let covered = proof.covers()?;
    if let Some(message) = unfit(r.settings) {
        return Some(try_again(r, message));
    }
    let seen = r.observed;
    let (attachments, volumes) = match (&seen.attachments, &seen.volumes) {
        (Read::Present(attachments), Read::Present(volumes)) => (attachments, volumes),
        (attachments, volumes) => {
            let why = format!("{}{}", attachments.why(), volumes.why());
            let message = format!(
                "fenced from its storage; a complete list of the node's volumes is required{why}"
            );
            return Some(poll_again(r, Stage::Tainting, message, READ_PACE));
        }
    };
    let elsewhere = |it: &AttachmentView| {
        let cluster = volumes.clusters.get(&it.volume).cloned();
        let storage = cluster.clone().map(|cluster| Storage {
            driver: it.attacher.clone(),
            cluster,
        });
        let is_covered = storage.is_some_and(|it| covered.contains(&it));
        (!is_covered).then(|| cluster.unwrap_or_else(|| "unknown".to_owned()))
    };
    let message = foreign_volume(attachments, elsewhere)
        .or_else(|| unattached_volume(r.memory, attachments, &volumes.claims))?;
    Some(try_again(r, message))
}

/// What others would do by the proof asks for a machine that is off.
fn unfit(settings: &Settings) -> Option<String> {
    let strategy = settings.procedure.recovery.strategy;
    (strategy != RecoveryStrategy::OutOfServiceTaint).then(|| {
        format!(
            "`recovery.strategy: {strategy:?}` requires a machine that is off, and a storage fence leaves it running; {NEEDS_POWER}"
        )
    })
}

/// The attached volumes that are elsewhere, and of which `clusterID`.
fn foreign_volume(
    attachments: &[AttachmentView],
    elsewhere: impl Fn(&AttachmentView) -> Option<String>,
) -> Option<String> {
    let named = |it: &AttachmentView| {
        let cluster = match elsewhere(it)?.as_str() {
            "" => String::new(),
            id => format!(", clusterID {id}"),
        };
        Some(format!(
            "{} of {}{cluster} ({})",
            it.volume, it.attacher, it.name
        ))
    };
    let names: Vec<String> = attachments.iter().filter_map(named).collect();
    (!names.is_empty()).then(|| {
        let names = shorten(&names);
        format!("the storage fence does not cover volume {names}; {NEEDS_POWER}")
    })
}

/// The volumes of pods that no VolumeAttachment shows: a share that is mounted without one, or a claim whose volume is not known.
fn unattached_volume(
    memory: &Memory,
    attachments: &[AttachmentView],
    claims: &[(String, String)],
) -> Option<String> {
    let is_attached = |claim: &str| {
        let mut known = claims.iter().filter(|(name, _)| name == claim);
        known.any(|(_, volume)| {
            !volume.is_empty() && attachments.iter().any(|it| it.volume == *volume)
        })
    };
    let is_seen = |pod: &PodView| {
        let mut claims = pod.claims.iter();
        !pod.inline
            && !pod.claims.is_empty()
            && claims.all(|it| is_attached(&format!("{}/{it}", pod.namespace)))
    };
    let left = leaving(memory).filter(|pod| !is_seen(pod));
    let names: Vec<String> = left.map(PodView::full_name).collect();
    (!names.is_empty()).then(|| {
        let names = shorten(&names);
        format!("the storage fence may not cover a volume of pod {names}, which has no VolumeAttachment; {NEEDS_POWER}")
    })
}

#[cfg(test)]
mod tests;
