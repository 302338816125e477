//! Attachments that do not end: the storage refuses or nothing answers (D3), the kubelet does not let go (D6), or the node is no more (D7).

use super::super::attachers;
use super::super::backends::of_provisioner;
use super::super::finding::{Finding, Id, Object, steps};
use super::super::index::Index;
use super::super::stuck::{OVERDUE, PATIENCE, Stuck};
use super::nodes::{contradicted, proven};
use super::steps::{mounts, power, refusing};
use crate::fences;
use crate::table::duration;
use fencing_api::fence::NodeFence;
use fencing_cluster::slim::{SlimAttachment, WideNode};
use fencing_core::observed::Ready;
use jiff::SignedDuration;
use kube::ResourceExt;
use std::collections::BTreeMap;

/// For how long it has been deleted; none: it is not.
fn goes_for(index: &Index<'_>, attachment: &SlimAttachment) -> Option<SignedDuration> {
    let since = attachment.metadata.deletion_timestamp.as_ref()?;
    Some(index.facts.now.duration_since(since.0))
}

/// D3: volumes that do not detach from a node that is out of service, or from one that is Ready, one finding for each node and driver.
pub(super) fn undetached(index: &Index<'_>) -> Vec<Finding> {
    let mut groups: BTreeMap<(&str, &str), Vec<&SlimAttachment>> = BTreeMap::new();
    for attachment in &index.facts.attachments.items {
        let spec = &attachment.spec;
        let node = index.node(&spec.node_name);
        let is_marked = node.is_some_and(WideNode::is_marked);
        // A node that is silent is D1 or D2.
        let is_meant = is_marked || node.is_some_and(|it| !it.is_down());
        let patience = match attachment.refusal() {
            Some(_) if is_marked => SignedDuration::ZERO,
            Some(_) => PATIENCE,
            None => OVERDUE,
        };
        let is_late = goes_for(index, attachment).is_some_and(|it| it >= patience);
        if is_meant && is_late && !attachers::attaches_nothing(index, &spec.attacher) {
            let group = groups.entry((&spec.node_name, &spec.attacher)).or_default();
            group.push(attachment);
        }
    }
    let groups = groups.into_iter();
    groups
        .map(|((node, driver), of)| undetached_of(index, node, driver, &of))
        .collect()
}

/// What is known of it: the driver's words, or that there are none.
fn told(index: &Index<'_>, attachment: &SlimAttachment) -> String {
    let (name, driver) = (attachment.name_any(), &attachment.spec.attacher);
    let age = duration(goes_for(index, attachment).unwrap_or_default());
    let error = match attachment.refusal() {
        Some(words) => format!("and {driver} reports: {words}"),
        None => format!("without an error of {driver}"),
    };
    format!("VolumeAttachment {name} is being deleted for {age}, {error}")
}

/// The pods that wait for these volumes.
fn waiting(index: &Index<'_>, attachments: &[&SlimAttachment]) -> Vec<Object> {
    let volumes = attachments.iter().filter_map(|it| it.volume());
    let claims = volumes.filter_map(|it| index.claim_of(it));
    let users = claims.flat_map(|(namespace, claim)| index.users(&namespace, &claim));
    let pods = users.filter(|it| it.is_pending());
    pods.map(|it| Object::pod(it)).collect()
}

fn undetached_of(
    index: &Index<'_>,
    node: &str,
    driver: &str,
    attachments: &[&SlimAttachment],
) -> Finding {
    let is_refused = attachments.iter().any(|it| it.refusal().is_some());
    let is_marked = index.node(node).is_some_and(WideNode::is_marked);
    let mut objects = vec![Object::node(node)];
    objects.extend(attachments.iter().flat_map(|it| Object::attachment(it)));
    if !is_marked {
        objects.extend(waiting(index, attachments));
    }
    let mut seen: Vec<String> = attachments.iter().map(|it| told(index, it)).collect();
    seen.truncate(3);
    let serving = attachers::of(index, driver);
    seen.push(match (serving.pods.is_empty(), serving.is_sure) {
        (true, _) if !is_refused => format!("no pod with a csi-attacher for {driver} was found"),
        (true, _) => format!(
            "no pod with a csi-attacher for {driver} was found, but one returned the error: it runs outside of the cluster, or is gone since"
        ),
        (false, true) => "these attach and detach for it:".to_owned(),
        (false, false) => {
            format!("one of these attaches and detaches for {driver}; which one is unknown:")
        }
    });
    let attachers = serving.pods.iter().take(3);
    seen.extend(attachers.map(|it| attachers::told(index, it)));
    let row = of_provisioner(driver);
    seen.extend(row.and_then(|it| Some(format!("{} {}", it.name, it.force_detach.as_ref()?))));
    let first = attachments.first();
    let name = first.map(|it| it.name_any()).unwrap_or_default();
    let mut fix = refusing(index, driver, &name, first.and_then(|it| it.volume()));
    let proof = index.node(node).and_then(|it| index.proof(it));
    let against = proof.map(contradicted).unwrap_or_default();
    if is_marked && (proof.is_none() || !against.is_empty()) {
        fix.splice(0..0, power(index, node));
    }
    seen.extend(against);
    let down = match proof {
        Some(proof) => proven(proof),
        None if is_marked => unproven(index, node),
        None => format!("node {node} is Ready, so there is nothing to fence"),
    };
    let whose = match (proof.is_some(), is_marked) {
        (true, _) => format!("the fenced node {node}"),
        (false, true) => format!("node {node}, which is tainted out-of-service,"),
        (false, false) => format!("node {node}, which is Ready,"),
    };
    let ends = match is_refused {
        true => "refuses",
        false => "does not answer",
    };
    Finding {
        id: Id::D3,
        title: format!("volumes of {whose} do not detach: {driver} {ends}"),
        objects,
        cause: format!(
            "{down}. Kubernetes wants the volumes detached, but the CSI controller or the storage behind it does not detach them"
        ),
        seen,
        fix,
    }
}

/// Marked, and by no proof that stands. A kubelet that speaks speaks for a machine that runs.
fn unproven(index: &Index<'_>, node: &str) -> String {
    let ready = index.node(node).map(|it| it.view().ready());
    let speaks = match ready {
        Some(Ready::True) => " and it is Ready, so its machine runs",
        Some(Ready::False) => " and its kubelet reports, so its machine runs",
        _ => "",
    };
    format!(
        "node {node} is tainted out-of-service{speaks}, and no valid proof confirms its machine off"
    )
}

/// D6: no pod uses the volume on a node that is Ready, and its kubelet has it mounted.
pub(super) fn unmounting(index: &Index<'_>, stuck: &[Stuck<'_>]) -> Vec<Finding> {
    let of_stuck = |stuck: &Stuck<'_>| {
        let node = index.node(stuck.holder.as_deref()?)?;
        let unique = index.unique_name(&stuck.volume)?;
        let is_free = stuck.users.is_empty() && index.facts.pods.is_complete();
        (is_free && node.is_well() && node.has_in_use(&unique))
            .then(|| unmounting_of(index, stuck, node))
    };
    stuck.iter().filter_map(of_stuck).collect()
}

fn unmounting_of(index: &Index<'_>, stuck: &Stuck<'_>, node: &WideNode) -> Finding {
    let (name, volume, pod) = (node.name_any(), &stuck.volume, stuck.pod);
    let mut seen = vec![
        index.told(node),
        format!("no pod there uses volume {volume}, but it is in the node's status.volumesInUse"),
    ];
    seen.extend(stuck.said());
    Finding {
        id: Id::D6,
        title: format!("the kubelet of node {name} does not release volume {volume}"),
        objects: vec![Object::node(&name), Object::volume(volume), Object::pod(pod)],
        cause: "attach/detach waits until the kubelet has unmounted the volume (six minutes if not Ready). Its log shows what keeps the mount busy".to_owned(),
        seen,
        fix: mounts(&name, volume),
    }
}

/// D7: attached to a node that is no more.
pub(super) fn stale(index: &Index<'_>) -> Vec<Finding> {
    if !index.facts.nodes.is_complete() {
        return Vec::new();
    }
    let attachments = index.facts.attachments.items.iter();
    let stale = attachments.filter(|it| index.node(&it.spec.node_name).is_none());
    stale.map(|it| stale_of(index, it)).collect()
}

fn stale_of(index: &Index<'_>, attachment: &SlimAttachment) -> Finding {
    let (name, spec) = (attachment.name_any(), &attachment.spec);
    let (node, driver, volume) = (&spec.node_name, &spec.attacher, attachment.volume());
    let mut objects: Vec<Object> = Object::attachment(attachment).collect();
    objects.insert(1, Object::node(node));
    let claim = volume.and_then(|it| index.claim_of(it));
    objects.extend(claim.map(|(namespace, claim)| Object::of("pvc", &namespace, &claim)));
    let mut seen = vec![format!(
        "Node {node} of the VolumeAttachment does not exist"
    )];
    seen.extend(
        attachment
            .refusal()
            .map(|it| format!("{driver} reports: {it}")),
    );
    // The last incident of nodes of this name that has ended, whoever they were.
    let fences = index.facts.fences.items.iter();
    let ended = fences.filter(|it| it.spec.node_name == *node && it.is_ended());
    let last = ended.max_by_key(|it| fences::created(it));
    seen.extend(last.map(|it| {
        format!(
            "{} of the Node that had this name {}",
            named(it),
            has_ended(it)
        )
    }));
    let unknown = index.facts.fences.unknown.as_ref();
    seen.extend(unknown.map(|it| format!("whether an incident of it is open is not known: {it}")));
    let fix = match (attachment.is_deleting(), index.fence(node)) {
        // It goes on without the Node, and sees to the attachments.
        (false, Some(fence)) => steps(&format!(
            "# its incident is open: follow it, and leave the attachment to it
            kubectl fence status {}",
            fence.name_any()
        )),
        (true, _) => refusing(index, driver, &name, volume),
        (false, None) => steps(&format!(
            "# whether there is such a Node by now, which would have a VolumeAttachment of the same name
            kubectl get node {node} --ignore-not-found
            # if there is none, first see for yourself that the machine is off: nothing here can know it; then
            kubectl delete volumeattachment {name} --wait=false
            # whether it has gone; if it stays, its driver does not detach
            kubectl get volumeattachment {name} --ignore-not-found"
        )),
    };
    Finding {
        id: Id::D7,
        title: format!("VolumeAttachment {name} is of node {node}, which does not exist"),
        objects,
        cause: "the Node was deleted before its volumes had detached, so nothing deletes the attachment. Its machine may still run and write".to_owned(),
        seen,
        fix,
    }
}

fn named(fence: &NodeFence) -> String {
    format!("NodeFence {}", fence.name_any())
}

/// How an incident has ended.
pub(super) fn has_ended(fence: &NodeFence) -> String {
    let (stage, message) = (fences::stage(fence), fences::message(fence));
    format!("has ended {stage}: {message}{}", fences::in_doubt(fence))
}
