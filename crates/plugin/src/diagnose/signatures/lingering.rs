//! What stays on a node that is well: a pod that does not end and keeps its volume (D11), an attachment that no pod uses (D16).

use super::super::attachers::attaches_nothing;
use super::super::finding::{Finding, Id, Object, Step, named, step};
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
    let (host, namespace) = (node.name_any(), pod.namespace().unwrap_or_default());
    let claims = pod.claims();
    let volumes = claims
        .iter()
        .filter_map(|it| index.volume_of(&namespace, it));
    let volumes: Vec<String> = volumes.map(ToOwned::to_owned).collect();
    let finalizers = pod.metadata.finalizers.clone().unwrap_or_default();
    let (late, full_name) = (duration(late), pod.full_name());
    let grace = pod
        .metadata
        .deletion_grace_period_seconds
        .unwrap_or_default();
    let mut objects = vec![Object::pod(pod), Object::of_cluster("node", &host)];
    objects.extend(volumes.iter().map(|it| Object::of_cluster("pv", it)));
    let mut seen = vec![
        index.told(node),
        format!("pod {full_name} is Terminating for {late} beyond its grace period of {grace}s"),
    ];
    seen.push(match pod.is_finished() {
        true => format!("its containers have ended; its volume: {}", named(&volumes)),
        false => format!("it keeps: {}", named(&volumes)),
    });
    if !finalizers.is_empty() {
        seen.push(format!("its finalizers: {}", named(&finalizers)));
    }
    seen.push(match node.is_marked() {
        true => {
            "no NodeFence is open for the node, so no device has confirmed that its machine is off"
                .to_owned()
        }
        false => format!("node {host} is Ready: no node has died, and there is nothing to fence"),
    });
    let cause = match (finalizers.is_empty(), !node.is_down()) {
        (false, _) if pod.is_finished() => {
            "the API server keeps a pod until its finalizers are removed. A StatefulSet makes the next pod of that name only then"
        }
        (false, _) => {
            "the API server keeps a pod until its finalizers are removed, and a pod that is kept keeps its volume attached"
        }
        (true, true) => {
            "a pod ends when its kubelet reports its containers stopped. A busy mount or a dead file server keeps them; a deletion by force leaves the mount"
        }
        (true, false) => {
            "pod GC deletes it within 20s under out-of-service; kube-controller-manager does not"
        }
    };
    Finding {
        id: Id::D11,
        title: match finalizers.is_empty() {
            true => format!(
                "pod {full_name} is Terminating for {late} on node {host} and keeps its volume"
            ),
            false => format!(
                "pod {full_name} is Terminating for {late} on node {host}: finalizer {} keeps it{}",
                named(&finalizers),
                match pod.is_finished() {
                    true => "",
                    false => " and its volume",
                }
            ),
        },
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
    let mut fix = vec![step(
        "what its containers and events say",
        format!("kubectl -n {namespace} describe pod {name}"),
    )];
    if !pod.finalizers().is_empty() {
        fix.push(step(
            "which controller sets the finalizer: have it finish. Remove the finalizer only if that controller is gone for good",
            format!("kubectl -n {namespace} edit pod {name}"),
        ));
    }
    match node.is_marked() {
        true => fix.push(power(index, &host)),
        false => fix.extend(mounts(&host, volume)),
    }
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
        let node = index.node(&attachment.spec.node_name)?;
        let volume = attachment.volume()?;
        let is_attached = attachment.status.attached;
        let is_going = attachment.is_deleting();
        let is_well = !node.is_down() && !node.is_marked();
        if !is_attached
            || is_going
            || !is_well
            || attaches_nothing(index, &attachment.spec.attacher)
        {
            return None;
        }
        let claim = index.claim_of(volume);
        let users = claim.map(|(namespace, claim)| index.users(&namespace, &claim).to_vec());
        let users = users.unwrap_or_default();
        let here = users
            .iter()
            .any(|it| it.spec.node_name.as_ref() == Some(&attachment.spec.node_name));
        let mut waiting = stuck.iter().filter(|it| {
            it.volume == volume && it.holder.as_deref() == Some(&attachment.spec.node_name)
        });
        let waiter = waiting.find(|it| waits(it.pod, facts.now) >= OVERDUE);
        let made = attachment.creation_timestamp()?;
        let age = facts.now.duration_since(made.0);
        let is_late = waiter.is_some() || (users.is_empty() && age >= UNUSED);
        // Whose kubelet has it mounted while a pod waits is D6.
        let is_mounted = index
            .unique_name(volume)
            .is_some_and(|it| node.has_in_use(&it));
        let is_d6 = is_mounted && stuck.iter().any(|it| it.volume == volume);
        (!here && is_late && !is_d6)
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
    let (name, node, driver) = (
        attachment.name_any(),
        &attachment.spec.node_name,
        &attachment.spec.attacher,
    );
    let mut objects = vec![
        Object::of_cluster("volumeattachment", &name),
        Object::of_cluster("node", node),
        Object::of_cluster("pv", volume),
    ];
    let mut seen = vec![
        format!(
            "VolumeAttachment {name} is {} old, attached, and not being deleted",
            duration(age)
        ),
        format!("no pod on node {node} uses volume {volume}"),
    ];
    if let Some(stuck) = waiter {
        objects.push(Object::pod(stuck.pod));
        seen.push(format!(
            "pod {} waits for it for {}",
            stuck.pod.full_name(),
            duration(waits(stuck.pod, index.facts.now))
        ));
    }
    let mut fix = match is_mounted {
        true => {
            seen.push(
                "it stands in the node's status.volumesInUse: the kubelet has it mounted"
                    .to_owned(),
            );
            mounts(node, volume)
        }
        false => vec![step(
            "attach/detach runs in kube-controller-manager: whether its Lease is renewed",
            "kubectl get lease -n kube-system kube-controller-manager -o yaml",
        )],
    };
    fix.extend(logs(index, driver));
    fix.push(step(
        "who made it: attach/detach deletes only what it has made; a detach takes less than a minute, so look again first",
        format!("kubectl get volumeattachment {name} -o yaml --show-managed-fields"),
    ));
    Finding {
        id: Id::D16,
        title: format!("volume {volume} is attached to node {node}, where no pod uses it"),
        objects,
        cause: format!(
            "attach/detach detaches a volume when the last pod that uses it has ended and the kubelet has unmounted it. Node {node} is Ready: there is nothing to fence"
        ),
        seen,
        fix,
    }
}
