//! D9: only the storage knows of an attachment.

use super::super::backends::of_volume;
use super::super::facts::{ATTACH, MOUNT};
use super::super::finding::{Finding, Id, Object, steps};
use super::super::index::Index;
use super::super::stuck::Stuck;
use super::steps::storage;
use crate::foreign_text::{Sign, quoted};
use fencing_cluster::slim::SlimPod;
use kube::ResourceExt;
use std::collections::BTreeSet;

/// D9: the storage says that the volume is attached elsewhere, and there is no VolumeAttachment of it elsewhere.
pub(super) fn orphaned(index: &Index<'_>, stuck: &[Stuck<'_>]) -> Vec<Finding> {
    if !index.facts.attachments.is_complete() {
        return Vec::new();
    }
    let pods = index.facts.pods.items.iter();
    let pods = pods.filter(|it| it.is_pending());
    let said = pods.filter_map(|pod| {
        let words = in_use(index, pod)?;
        Some((pod, quoted(words)?, words))
    });
    // Attach/detach believes it attached, and nothing in the cluster says where.
    let believed = stuck
        .iter()
        .filter(|it| it.holder.is_none() && it.users.is_empty());
    let believed = believed.filter_map(|it| Some((it.pod, it.volume.as_str(), it.event?)));
    let is_orphan = |(pod, volume, _): &(&SlimPod, &str, &str)| {
        let mut attachments = index.attachments(volume).iter();
        index.volume(volume).is_some() && attachments.all(|it| pod.is_on(&it.spec.node_name))
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
        let row = || index.volume(quoted(words)?).and_then(of_volume);
        let is_in_use = Sign::InUse.is_in(words) || row().is_some_and(|it| it.says_in_use(words));
        is_in_use && !Sign::MultiAttach.is_in(words)
    };
    let is_over = |words: &str| quoted(words).is_some_and(|it| index.is_attached(it, pod));
    let attach = index.event(pod, ATTACH, says);
    let attach = attach.filter(|it| !is_over(it));
    attach.or_else(|| index.event(pod, MOUNT, says))
}

fn orphaned_of(index: &Index<'_>, pod: &SlimPod, volume: &str, words: &str) -> Finding {
    let row = index.volume(volume).and_then(of_volume);
    let driver = index.driver(volume).unwrap_or("its storage");
    let row = row.map(|it| it.name.as_str());
    let mut fix = storage(index, volume);
    if fix.len() == 1 {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        fix.extend(steps(&format!(
            "# no command of {driver} is known: ask the storage who has the volume, end that only if its machine is off, then check again
            kubectl -n {namespace} describe pod {name}"
        )));
    }
    Finding {
        id: Id::D9,
        title: format!("{driver} reports volume {volume} attached elsewhere, and the cluster has no such VolumeAttachment"),
        objects: vec![Object::volume(volume), Object::pod(pod)],
        cause: "the storage has an attachment without VolumeAttachment (deleted by force, device still open, or of another cluster). Kubernetes cannot end it".to_owned(),
        seen: vec![
            format!("pod {}: {words}", pod.full_name()),
            format!("no VolumeAttachment of {volume} is on another node"),
            format!("backend: {}", row.unwrap_or("no advice is known for this CSI driver")),
        ],
        fix,
    }
}
