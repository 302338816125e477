//! What stays on a node that is well: a pod that does not end and keeps its volume (D11), an attachment that no pod uses (D16).

use super::super::attachers::attaches_nothing;
use super::super::finding::{Finding, Id, Object, Step, named, steps};
use super::super::index::Index;
use super::super::stuck::{OVERDUE, Stuck, waits};
use super::steps::{logs, mounts, power};
use crate::table::duration;
use fencing_cluster::slim::{SlimAttachment, SlimPod, WideNode};
use jiff::SignedDuration;
use kube::ResourceExt;

/// A job that has just ended leaves its volume attached for less than this.
const UNUSED: SignedDuration = SignedDuration::from_hours(1);

/// D11: pods with claims that should have ended, where the kubelet answers or the node is out of service without a NodeFence.
pub(super) fn terminating(index: &Index<'_>) -> Vec<Finding> {
    let pods = index.facts.pods.items.iter();
    let late = pods.filter_map(|pod| {
        let node = index.node(pod.spec.node_name.as_deref()?)?;
        let due = pod.metadata.deletion_timestamp.as_ref()?;
        let late = index.facts.now.duration_since(due.0);
        let is_of_its = !node.is_down() || node.is_marked();
        let is_fenced = index.fence(&node.name_any()).is_some();
        // Pod GC ends the pods of a node that is out of service, and their finalizers keep them all the same.
        let stays = !pod.is_finished() || !pod.finalizers().is_empty();
        let keeps = stays && !pod.claims().is_empty() && late >= OVERDUE;
        (keeps && is_of_its && !is_fenced).then(|| terminating_of(index, pod, node, late))
    });
    late.collect()
}

fn terminating_of(
    index: &Index<'_>,
    pod: &SlimPod,
    node: &WideNode,
    late: SignedDuration,
) -> Finding {
    let host = node.name_any();
    let volumes = index.volumes(pod).into_iter();
    let volumes: Vec<String> = volumes.map(ToOwned::to_owned).collect();
    let (finalizers, is_finished) = (pod.finalizers(), pod.is_finished());
    let (late, full_name) = (duration(late), pod.full_name());
    let grace = pod.metadata.deletion_grace_period_seconds;
    let mut objects = vec![Object::pod(pod), Object::node(&host)];
    objects.extend(volumes.iter().map(|it| Object::volume(it)));
    let kept = match is_finished {
        true => "its containers have ended; its volume",
        false => "it keeps",
    };
    let mut seen = vec![
        index.told(node),
        format!(
            "pod {full_name} has been Terminating for {late} beyond its grace period of {}s",
            grace.unwrap_or_default()
        ),
        format!("{kept}: {}", named(&volumes)),
    ];
    if !finalizers.is_empty() {
        seen.push(format!("its finalizers: {}", named(finalizers)));
    }
    seen.push(match node.is_marked() {
        true => {
            "no NodeFence is open for the node, so no device has confirmed that its machine is off"
                .to_owned()
        }
        false => format!("node {host} is Ready, so there is nothing to fence"),
    });
    let cause = match (finalizers.is_empty(), !node.is_down()) {
        (false, _) if is_finished => {
            "the API server keeps a pod until its finalizers are removed. A StatefulSet makes the next pod of that name only then"
        }
        (false, _) => {
            "the API server keeps a pod until its finalizers are removed, and a pod that is kept keeps its volume attached"
        }
        (true, true) => {
            "a pod ends when its kubelet reports its containers stopped (a busy mount or a dead file server prevents that). Forced deletion leaves the mount"
        }
        (true, false) => {
            "pod GC deletes it within 20s under out-of-service; kube-controller-manager does not"
        }
    };
    let keeps = match (finalizers.is_empty(), is_finished) {
        (true, _) => " and keeps its volume".to_owned(),
        (false, true) => format!(": finalizer {} keeps it", named(finalizers)),
        (false, false) => format!(": finalizer {} keeps it and its volume", named(finalizers)),
    };
    Finding {
        id: Id::D11,
        title: format!("pod {full_name} has been Terminating for {late} on node {host}{keeps}"),
        objects,
        cause: cause.to_owned(),
        seen,
        fix: ending(index, pod, node, volumes.first().map_or("", String::as_str)),
    }
}

/// How such a pod comes to its end.
fn ending(index: &Index<'_>, pod: &SlimPod, node: &WideNode, volume: &str) -> Vec<Step> {
    let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    let host = node.name_any();
    let mut fix = steps(&format!(
        "# its containers and Events
        kubectl -n {namespace} describe pod {name}"
    ));
    if !pod.finalizers().is_empty() {
        fix.extend(steps(&format!(
            "# which controller sets the finalizer: have it finish. Remove the finalizer only if that controller is gone for good
            kubectl -n {namespace} edit pod {name}"
        )));
    }
    fix.extend(match node.is_marked() {
        true => power(index, &host),
        false => mounts(&host, volume),
    });
    fix
}

/// D16: attached to a node that is Ready, where no pod uses it: for longer than a detach takes while another pod waits, or for hours.
pub(super) fn unused(index: &Index<'_>, stuck: &[Stuck<'_>]) -> Vec<Finding> {
    let facts = index.facts;
    if !facts.pods.is_complete() || !facts.claims.is_complete() {
        return Vec::new();
    }
    let attachments = facts.attachments.items.iter();
    let unused = attachments.filter_map(|attachment| {
        let spec = &attachment.spec;
        let node = index.node(&spec.node_name)?;
        let volume = attachment.volume()?;
        let is_attached = attachment.status.attached && !attachment.is_deleting();
        if !is_attached || !node.is_well() || attaches_nothing(index, &spec.attacher) {
            return None;
        }
        let claim = index.claim_of(volume);
        let users = claim.map(|(namespace, claim)| index.users(&namespace, &claim));
        let users = users.unwrap_or_default();
        let of_volume = stuck.iter().filter(|it| it.volume == volume);
        let mut waiting = of_volume.clone();
        let waiter = waiting.find(|it| {
            let is_holder = it.holder.as_deref() == Some(&spec.node_name);
            is_holder && waits(it.pod, facts.now) >= OVERDUE
        });
        let age = facts.now.duration_since(attachment.creation_timestamp()?.0);
        let is_late = waiter.is_some() || (users.is_empty() && age >= UNUSED);
        let is_used = users.iter().any(|it| it.is_on(&spec.node_name));
        // Whose kubelet has it mounted while a pod waits is D6.
        let unique = index.unique_name(volume);
        let is_mounted = unique.is_some_and(|it| node.has_in_use(&it));
        let is_d6 = is_mounted && of_volume.count() > 0;
        (!is_used && is_late && !is_d6)
            .then(|| unused_of(index, attachment, volume, is_mounted, waiter, age))
    });
    unused.collect()
}

fn unused_of(
    index: &Index<'_>,
    attachment: &SlimAttachment,
    volume: &str,
    is_mounted: bool,
    waiter: Option<&Stuck<'_>>,
    age: SignedDuration,
) -> Finding {
    let (name, node) = (attachment.name_any(), &attachment.spec.node_name);
    let mut objects: Vec<Object> = Object::attachment(attachment).collect();
    objects.insert(1, Object::node(node));
    let age = duration(age);
    let mut seen = vec![
        format!("VolumeAttachment {name} is {age} old, attached, and not being deleted"),
        format!("no pod on node {node} uses volume {volume}"),
    ];
    if let Some(stuck) = waiter {
        objects.push(Object::pod(stuck.pod));
        let lasts = duration(waits(stuck.pod, index.facts.now));
        seen.push(format!(
            "pod {} waits for it for {lasts}",
            stuck.pod.full_name()
        ));
    }
    let first = match is_mounted {
        true => {
            seen.push(
                "it is in the node's status.volumesInUse: the kubelet has it mounted".to_owned(),
            );
            mounts(node, volume)
        }
        false => steps(
            "# attach/detach runs in kube-controller-manager: whether its Lease is renewed
            kubectl get lease -n kube-system kube-controller-manager -o yaml",
        ),
    };
    let last = steps(&format!(
        "# who made it: attach/detach deletes only what it has made; a detach takes less than a minute, so check again first
        kubectl get volumeattachment {name} -o yaml --show-managed-fields"
    ));
    Finding {
        id: Id::D16,
        title: format!("volume {volume} is attached to node {node}, where no pod uses it"),
        objects,
        cause: format!(
            "attach/detach detaches a volume once its last pod has ended and it is unmounted. Node {node} is Ready: there is nothing to fence"
        ),
        seen,
        fix: [first, logs(index, &attachment.spec.attacher), last].concat(),
    }
}
