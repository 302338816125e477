//! D9: only the storage knows of an attachment.

use super::super::backends::of_volume;
use super::super::facts::{ATTACH, MOUNT};
use super::super::finding::{Finding, Id, Object, named, step};
use super::super::index::Index;
use super::super::stuck::{MULTI_ATTACH, Stuck};
use super::steps::storage;
use fencing_cluster::slim::SlimPod;
use kube::ResourceExt;
use std::collections::BTreeSet;

/// How drivers say that a volume is attached elsewhere, in lower case, besides those of the backend matrix, whose sources have most of them; of
/// "is attached to", that is digitalocean/csi-digitalocean, `driver/controller.go`. No two say it alike.
const IN_USE: [&str; 7] = [
    "already attached",
    "is attached to",
    "currently attached",
    "already published",
    "still being used",
    "resource_in_use",
    "volumeinuse",
];

/// D9: the storage says that the volume is attached elsewhere, and there is no VolumeAttachment of it elsewhere.
pub(super) fn orphaned(index: &Index<'_>, stuck: &[Stuck<'_>]) -> Vec<Finding> {
    if !index.facts.attachments.is_complete() {
        return Vec::new();
    }
    let pods = index.facts.pods.items.iter();
    let pods = pods.filter(|it| it.status.phase == "Pending" && !it.is_deleting());
    let said = pods.filter_map(|pod| {
        let words = in_use(index, pod)?;
        let volume = words.split('"').nth(1)?;
        Some((pod, volume, words))
    });
    // Attach/detach believes it attached, and nothing in the cluster says where.
    let believed = stuck
        .iter()
        .filter(|it| it.holder.is_none() && it.users.is_empty());
    let believed = believed.filter_map(|it| Some((it.pod, it.volume.as_str(), it.event?)));
    let is_orphan = |(pod, volume, _): &(&SlimPod, &str, &str)| {
        let own = pod.spec.node_name.as_deref();
        let mut attachments = index.attachments(volume).iter();
        index.volume(volume).is_some()
            && attachments.all(|it| Some(it.spec.node_name.as_str()) == own)
    };
    let mut told = BTreeSet::new();
    let all = said.chain(believed).filter(is_orphan);
    let all = all.filter(|(pod, volume, _)| told.insert((pod.full_name(), *volume)));
    all.map(|(pod, volume, words)| orphaned_of(index, pod, volume, words))
        .collect()
}

/// What a driver has said of a volume that is attached elsewhere. What it has said of an attach is over when that has come about.
fn in_use<'a>(index: &Index<'a>, pod: &SlimPod) -> Option<&'a str> {
    let says = |words: &str| {
        let lower = words.to_lowercase();
        let volume = words.split('"').nth(1).unwrap_or_default();
        let row = index.volume(volume).and_then(of_volume);
        let is_known = IN_USE.iter().any(|it| lower.contains(it));
        let is_in_use = is_known || row.is_some_and(|it| it.says_in_use(words));
        !words.contains(MULTI_ATTACH) && is_in_use
    };
    let is_over = |words: &&str| {
        let volume = words.split('"').nth(1).unwrap_or_default();
        let mut attachments = index.attachments(volume).iter();
        attachments.any(|it| {
            let is_attached = it.status.attached;
            is_attached && Some(&it.spec.node_name) == pod.spec.node_name.as_ref()
        })
    };
    let attach = index.event(pod, ATTACH, says);
    let attach = attach.filter(|it| !is_over(it));
    attach.or_else(|| index.event(pod, MOUNT, says))
}

fn orphaned_of(index: &Index<'_>, pod: &SlimPod, volume: &str, words: &str) -> Finding {
    let object = index.volume(volume);
    let row = object.and_then(of_volume);
    let driver = index.driver(volume).unwrap_or("its storage");
    let mut fix = storage(index, volume);
    if fix.len() == 1 {
        fix.push(step(
            format!("the vendor's command for {driver} is not known here: ask the storage who has the volume, and end that only if that machine is off; then look again"),
            format!("kubectl -n {} describe pod {}", pod.namespace().unwrap_or_default(), pod.name_any()),
        ));
    }
    Finding {
        id: Id::D9,
        title: format!("{driver} says that volume {volume} is attached elsewhere, and the cluster knows nothing of it"),
        objects: vec![Object::of_cluster("pv", volume), Object::pod(pod)],
        cause: "the storage has an attachment for which there is no VolumeAttachment: one was deleted by force, a node still has the device open, or the machine is of another cluster. Kubernetes cannot end what it does not know".to_owned(),
        seen: vec![
            format!("pod {}: {words}", pod.full_name()),
            format!("no VolumeAttachment of {volume} is on another node"),
            format!("backend: {}", named(&[row.map_or("no advice is known for this CSI driver", |it| it.name.as_str()).to_owned()])),
        ],
        fix,
    }
}
