//! D10: what the scheduler, or a kubelet, refuses by a rule of its own. No fence lifts it.

use super::super::facts::{ATTACH, MOUNT};
use super::super::finding::{Finding, Id, Object, named, steps};
use super::super::index::Index;
use super::super::stuck::Stuck;
use super::workloads::{recreate, rolling};
use crate::foreign_text::{Sign, mentions};
use fencing_cluster::slim::SlimPod;
use kube::ResourceExt;
use std::collections::BTreeMap;

/// The kubelet's own, of a pod that it has refused (upstream's `kubelet/volumemanager`, v1.36).
const LIMIT_REASON: &str = "VolumeAttachmentLimitExceeded";
/// Everything that is refused.
pub(super) fn refused(index: &Index<'_>, stuck: &[Stuck<'_>]) -> Vec<Finding> {
    let one_pod = stuck.iter().filter_map(|it| for_one(index, it));
    let pods = index.facts.pods.items.iter().filter(|it| !it.is_deleting());
    let limits = pods.filter_map(|it| limited(index, it).or_else(|| without_driver(index, it)));
    one_pod.chain(limits).collect()
}

/// A claim for one pod, whose pod is well. Where its node has died it is that (D1, D2).
fn for_one(index: &Index<'_>, stuck: &Stuck<'_>) -> Option<Finding> {
    let user = *stuck.users.first()?;
    let node = index.node(stuck.holder.as_deref()?)?;
    if !stuck.is_unscheduled || node.is_down() {
        return None;
    }
    let (pod, user_name) = (stuck.pod, user.full_name());
    let namespace = user.namespace().unwrap_or_default();
    let owner = index.owner(user);
    let stop = match owner.is_scaled() {
        true => format!("scale {owner} --replicas=0"),
        false => format!("delete {owner}"),
    };
    let rolling = rolling(index, pod, user).map(recreate);
    let mut fix = rolling.unwrap_or_default();
    fix.extend(steps(&format!(
        "# who uses it
        kubectl -n {namespace} get pod {} -o wide
        # if that one is not wanted any more: stop what makes it
        kubectl -n {namespace} {stop}",
        user.name_any()
    )));
    let event = stuck.event.unwrap_or_default();
    Some(Finding {
        id: Id::D10,
        title: format!("pod {} wants a claim that one pod may use, and {user_name} does", pod.full_name()),
        objects: vec![Object::pod(pod), Object::pod(user), Object::volume(&stuck.volume)],
        cause: "the access mode ReadWriteOncePod lets one pod in the whole cluster use the claim; the scheduler keeps all others waiting".to_owned(),
        seen: vec![
            format!("pod {}: {event}", pod.full_name()),
            format!("node {} of pod {user_name} is Ready, so there is nothing to fence", node.name_any()),
        ],
        fix,
    })
}

/// The nodes have as many volumes as their drivers take.
fn limited(index: &Index<'_>, pod: &SlimPod) -> Option<Finding> {
    let is_waiting = pod.status.phase == "Pending" && pod.spec.node_name.is_none();
    let by_scheduler = || index.refusal(pod, |it| Sign::VolumeLimit.is_in(it));
    let words = match pod.status.reason == LIMIT_REASON {
        true => "its kubelet has rejected it: the node has as many volumes as its driver allows",
        false if is_waiting => by_scheduler()?,
        false => return None,
    };
    let mut seen = vec![format!("pod {}: {words}", pod.full_name())];
    seen.extend(full(index));
    Some(Finding {
        id: Id::D10,
        title: format!("pod {} finds no node that takes one more volume", pod.full_name()),
        objects: vec![Object::pod(pod)],
        cause: "a node takes as many volumes of a driver as its CSINode allows (allocatable.count); the scheduler counts those of its pods and its VolumeAttachments".to_owned(),
        seen,
        fix: steps(
            "# how many each node takes
            kubectl get csinodes -o custom-columns='NODE:.metadata.name,DRIVERS:.spec.drivers[*].name,LIMITS:.spec.drivers[*].allocatable.count'
            # what is attached where; add nodes, or have pods use fewer volumes
            kubectl get volumeattachments -o custom-columns=NODE:.spec.nodeName,DRIVER:.spec.attacher,VOLUME:.spec.source.persistentVolumeName --sort-by=.spec.nodeName",
        ),
    })
}

/// Nodes that have as many VolumeAttachments as they take.
fn full(index: &Index<'_>) -> Option<String> {
    let mut counts: BTreeMap<(&str, &str), i32> = BTreeMap::new();
    for attachment in &index.facts.attachments.items {
        let key = (
            attachment.spec.node_name.as_str(),
            attachment.spec.attacher.as_str(),
        );
        *counts.entry(key).or_default() += 1;
    }
    let mut full = Vec::new();
    for node in &index.facts.csi_nodes.items {
        let name = node.name_any();
        for driver in &node.spec.drivers {
            let limit = driver.allocatable.as_ref().and_then(|it| it.count);
            let count = counts.get(&(name.as_str(), driver.name.as_str())).copied();
            if let (Some(limit), Some(count)) = (limit, count)
                && count >= limit
            {
                full.push(format!("{name} ({count} of {limit}, {})", driver.name));
            }
        }
    }
    (!full.is_empty()).then(|| format!("full: {}", named(&full)))
}

/// The driver is missing where the pod is to run.
fn without_driver(index: &Index<'_>, pod: &SlimPod) -> Option<Finding> {
    if pod.status.phase != "Pending" {
        return None;
    }
    let says = |words: &str| Sign::NoDriver.is_in(words);
    let (words, place) = match &pod.spec.node_name {
        Some(node) => {
            let mut of_node = [ATTACH, MOUNT].into_iter();
            let words = of_node.find_map(|it| index.event(pod, it, says));
            (words, node.as_str())
        }
        None => (index.refusal(pod, says), "NODE"),
    };
    let words = words?;
    let mut csi_nodes = index.facts.csi_nodes.items.iter();
    let csi_node = csi_nodes.find(|it| it.name_any() == place);
    let drivers = csi_node.map(|it| {
        let drivers = it.spec.drivers.iter();
        drivers.map(|it| it.name.clone()).collect::<Vec<String>>()
    });
    // It has registered since.
    if drivers.iter().flatten().any(|it| mentions(words, it)) {
        return None;
    }
    let mut objects = vec![Object::pod(pod)];
    objects.extend(pod.spec.node_name.as_deref().map(Object::node));
    let mut seen = vec![format!("pod {}: {words}", pod.full_name())];
    seen.extend(drivers.map(|it| match it.is_empty() {
        true => format!("node {place} has no CSI driver"),
        false => format!("node {place} has these CSI drivers: {}", named(&it)),
    }));
    Some(Finding {
        id: Id::D10,
        title: format!("the CSI driver that pod {} needs is not on its node", pod.full_name()),
        objects,
        cause: "a driver is on a node when its node plugin (mostly a DaemonSet) runs there; its kubelet then names it in the CSINode".to_owned(),
        seen,
        fix: steps(&format!(
            "# which drivers the nodes have
            kubectl get csinodes -o custom-columns='NODE:.metadata.name,DRIVERS:.spec.drivers[*].name'
            # whether the driver's node plugin runs there; if not, see its DaemonSet's nodeSelector and tolerations
            kubectl get pods -A -o wide --field-selector spec.nodeName={place}"
        )),
    })
}
