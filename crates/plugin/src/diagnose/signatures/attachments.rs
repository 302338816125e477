//! Attachments that do not end: the storage refuses or nothing answers (D3), the kubelet does not let go (D6), or the node is no more (D7).

use super::super::attachers;
use super::super::backends::of_provisioner;
use super::super::finding::{Finding, Id, Object, step};
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
        let is_ready = node.is_some_and(|it| !it.is_down());
        // A node that is silent is D1 or D2.
        let patience = match attachment.refusal() {
            Some(_) if is_marked => SignedDuration::ZERO,
            Some(_) => PATIENCE,
            None => OVERDUE,
        };
        let is_late = goes_for(index, attachment).is_some_and(|it| it >= patience);
        let is_its_drivers = !attachers::attaches_nothing(index, &spec.attacher);
        if (is_marked || is_ready) && is_late && is_its_drivers {
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
    match attachment.refusal() {
        Some(words) => {
            format!("VolumeAttachment {name} is to go for {age}, and {driver} says: {words}")
        }
        None => format!("VolumeAttachment {name} is to go for {age}, without an error of {driver}"),
    }
}

/// The pods that wait for these volumes.
fn waiting(index: &Index<'_>, attachments: &[&SlimAttachment]) -> Vec<Object> {
    let volumes = attachments.iter().filter_map(|it| it.volume());
    let claims = volumes.filter_map(|it| index.claim_of(it));
    let users = claims.flat_map(|(namespace, claim)| index.users(&namespace, &claim).to_vec());
    let pods = users.filter(|it| it.status.phase == "Pending" && !it.is_deleting());
    pods.map(Object::pod).collect()
}

fn undetached_of(
    index: &Index<'_>,
    node: &str,
    driver: &str,
    attachments: &[&SlimAttachment],
) -> Finding {
    let mut objects = vec![Object::of_cluster("node", node)];
    let mut seen = Vec::new();
    for attachment in attachments {
        let name = attachment.name_any();
        objects.push(Object::of_cluster("volumeattachment", &name));
        let volume = attachment.volume();
        objects.extend(volume.map(|it| Object::of_cluster("pv", it)));
        seen.push(told(index, attachment));
    }
    seen.truncate(3);
    let is_refused = attachments.iter().any(|it| it.refusal().is_some());
    let is_marked = index.node(node).is_some_and(WideNode::is_marked);
    if !is_marked {
        objects.extend(waiting(index, attachments));
    }
    let serving = attachers::of(index, driver);
    seen.push(match (serving.pods.is_empty(), serving.is_sure) {
        (true, _) if !is_refused => {
            format!("no pod with a csi-attacher for {driver} is seen")
        }
        (true, _) => format!(
            "no pod with a csi-attacher for {driver} is seen; the error is of one all the same, so it runs outside of the cluster, as with a managed control plane, or has gone since"
        ),
        (false, true) => "these attach and detach for it:".to_owned(),
        (false, false) => {
            format!("one of these attaches and detaches for {driver}, and which is not known:")
        }
    });
    seen.extend(
        serving
            .pods
            .iter()
            .take(3)
            .map(|it| attachers::told(index, it)),
    );
    let row = of_provisioner(driver);
    let row = row.and_then(|it| Some(format!("{} {}", it.name, it.force_detach.as_ref()?)));
    seen.extend(row);
    let first = attachments.first();
    let volume = first.and_then(|it| it.volume());
    let first = first.map(|it| it.name_any()).unwrap_or_default();
    let mut fix = refusing(index, driver, &first, volume);
    let proof = index.node(node).and_then(|it| index.proof(it));
    let against = proof.map(contradicted).unwrap_or_default();
    if is_marked && (proof.is_none() || !against.is_empty()) {
        fix.insert(0, power(index, node));
    }
    seen.extend(against);
    let down = match proof {
        Some(proof) => proven(proof),
        None if is_marked => unproven(index, node),
        None => format!("node {node} is Ready: no node has died, and there is nothing to fence"),
    };
    Finding {
        id: Id::D3,
        title: undetached_title(node, driver, proof.is_some(), is_marked, is_refused),
        objects,
        cause: format!(
            "{down}. Kubernetes wants the volumes detached; the CSI controller, or the storage behind it, does not do it"
        ),
        seen,
        fix,
    }
}

fn undetached_title(
    node: &str,
    driver: &str,
    is_proven: bool,
    is_marked: bool,
    is_refused: bool,
) -> String {
    let whose = match (is_proven, is_marked) {
        (true, _) => format!("the fenced node {node}"),
        (false, true) => format!("node {node}, which is marked as out of service,"),
        (false, false) => format!("node {node}, which is Ready,"),
    };
    let ends = match is_refused {
        true => "refuses",
        false => "does not answer",
    };
    format!("volumes of {whose} do not detach: {driver} {ends}")
}

/// Marked, and by no proof that stands. A kubelet that speaks speaks for a machine that runs.
fn unproven(index: &Index<'_>, node: &str) -> String {
    let ready = index.node(node).map(|it| it.view().ready());
    let speaks = match ready {
        Some(Ready::True) => " and it is Ready, so its machine runs",
        Some(Ready::False) => " and its kubelet speaks, so its machine runs",
        _ => "",
    };
    format!(
        "node {node} is marked as out of service{speaks}, and no proof that stands says that its machine is down"
    )
}

/// D6: no pod uses the volume on a node that is Ready, and its kubelet has it mounted.
pub(super) fn unmounting(index: &Index<'_>, stuck: &[Stuck<'_>]) -> Vec<Finding> {
    let of_stuck = |stuck: &Stuck<'_>| {
        let node = index.node(stuck.holder.as_deref()?)?;
        let unique = index.unique_name(&stuck.volume)?;
        let is_free = stuck.users.is_empty() && index.facts.pods.is_complete();
        let is_mounted = !node.is_down() && !node.is_marked() && node.has_in_use(&unique);
        (is_free && is_mounted).then(|| unmounting_of(index, stuck, node))
    };
    stuck.iter().filter_map(of_stuck).collect()
}

fn unmounting_of(index: &Index<'_>, stuck: &Stuck<'_>, node: &WideNode) -> Finding {
    let (name, volume, pod) = (node.name_any(), &stuck.volume, stuck.pod);
    let mut seen = vec![
        index.told(node),
        format!(
            "no pod there uses volume {volume}, and it stands in the node's status.volumesInUse"
        ),
    ];
    seen.extend(
        stuck
            .event
            .map(|it| format!("pod {}: {it}", pod.full_name())),
    );
    Finding {
        id: Id::D6,
        title: format!("the kubelet of node {name} does not let go of volume {volume}"),
        objects: vec![
            Object::of_cluster("node", &name),
            Object::of_cluster("pv", volume),
            Object::pod(pod),
        ],
        cause: "attach/detach waits until the kubelet has unmounted the volume. It takes one by force after six minutes from a node that is not Ready, and never from one that is; that something keeps the mount busy is for its kubelet's log to say".to_owned(),
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
    let (name, node) = (attachment.name_any(), &attachment.spec.node_name);
    let volume = attachment.volume();
    let mut objects = vec![
        Object::of_cluster("volumeattachment", &name),
        Object::of_cluster("node", node),
    ];
    objects.extend(volume.map(|it| Object::of_cluster("pv", it)));
    let claim = volume.and_then(|it| index.claim_of(it));
    objects.extend(claim.map(|(namespace, claim)| Object::claim(&namespace, &claim)));
    let mut seen = vec![format!(
        "there is no Node {node}, and the VolumeAttachment names it"
    )];
    let driver = &attachment.spec.attacher;
    seen.extend(
        attachment
            .refusal()
            .map(|it| format!("{driver} says: {it}")),
    );
    let is_going = attachment.is_deleting();
    let last = ended(index, node);
    seen.extend(last.map(|it| {
        format!(
            "NodeFence {} of the Node that had this name has ended {}: {}{}",
            it.name_any(),
            fences::stage(it),
            fences::message(it),
            fences::in_doubt(it)
        )
    }));
    let unknown = index.facts.fences.unknown.as_ref();
    seen.extend(unknown.map(|it| format!("whether an incident of it is open is not known: {it}")));
    let fix = match (is_going, index.fence(node)) {
        // It goes on without the Node, and sees to the attachments.
        (false, Some(fence)) => vec![step(
            "its incident is open: follow it, and leave the attachment to it",
            format!("kubectl fence status {}", fence.name_any()),
        )],
        (true, _) => refusing(index, driver, &name, volume),
        (false, None) => vec![
            step(
                "whether there is such a Node by now, which would have a VolumeAttachment of the same name",
                format!("kubectl get node {node} --ignore-not-found"),
            ),
            step(
                "if there is none, first see for yourself that the machine is off: nothing here can know it; then",
                format!("kubectl delete volumeattachment {name} --wait=false"),
            ),
            step(
                "whether it has gone; if it stays, its driver does not detach",
                format!("kubectl get volumeattachment {name} --ignore-not-found"),
            ),
        ],
    };
    Finding {
        id: Id::D7,
        title: format!("VolumeAttachment {name} is of node {node}, which is no more"),
        objects,
        cause: "the Node was deleted before its volumes had detached, so nobody sees to the attachment. Its machine may run all the same, and write".to_owned(),
        seen,
        fix,
    }
}

/// The last incident of nodes of this name that has ended, whoever they were.
fn ended<'a>(index: &Index<'a>, node: &str) -> Option<&'a NodeFence> {
    let fences = index.facts.fences.items.iter();
    let ended = fences.filter(|it| it.spec.node_name == node && it.is_ended());
    ended.max_by_key(|it| fences::created(it))
}
