//! Attachments that do not end: the storage refuses (D3), the kubelet does not let go (D6), the node is no more (D7), or only the storage knows of
//! it (D9).

use super::super::attachers;
use super::super::backends::{of_provisioner, of_volume};
use super::super::facts::{ATTACH, MOUNT};
use super::super::finding::{Finding, Id, Object, Step, named, step};
use super::super::index::Index;
use super::super::slim::{Machine, Workload};
use super::super::stuck::{MULTI_ATTACH, Stuck};
use super::nodes::{contradicted, proven};
use crate::api::fence::NodeFence;
use crate::cli::fences;
use crate::core::observed::Ready;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};

/// How drivers say that a volume is attached elsewhere, in lower case. No two say it alike.
const IN_USE: [&str; 9] = [
    "already attached",
    "is attached to",
    "currently attached",
    "already published",
    "already exported",
    "still being used",
    "in use by another",
    "resource_in_use",
    "volumeinuse",
];

fn refused(attachment: &VolumeAttachment) -> Option<&str> {
    let status = attachment.status.as_ref()?;
    status.detach_error.as_ref()?.message.as_deref()
}

/// D3: a fenced node's volumes that do not detach, one finding for each node and driver.
pub(super) fn undetached(index: &Index<'_>) -> Vec<Finding> {
    let mut groups: BTreeMap<(&str, &str), Vec<&VolumeAttachment>> = BTreeMap::new();
    for attachment in &index.facts.attachments.items {
        let spec = &attachment.spec;
        let is_fenced = index.node(&spec.node_name).is_some_and(Machine::is_marked);
        let is_going = attachment.metadata.deletion_timestamp.is_some();
        if is_fenced && is_going && refused(attachment).is_some() {
            let group = groups.entry((&spec.node_name, &spec.attacher)).or_default();
            group.push(attachment);
        }
    }
    let groups = groups.into_iter();
    groups
        .map(|((node, driver), of)| undetached_of(index, node, driver, &of))
        .collect()
}

fn undetached_of(
    index: &Index<'_>,
    node: &str,
    driver: &str,
    attachments: &[&VolumeAttachment],
) -> Finding {
    let mut objects = vec![Object::of_cluster("node", node)];
    let mut seen = Vec::new();
    for attachment in attachments {
        let name = attachment.name_any();
        objects.push(Object::of_cluster("volumeattachment", &name));
        let volume = attachment.spec.source.persistent_volume_name.as_ref();
        objects.extend(volume.map(|it| Object::of_cluster("pv", it)));
        let words = refused(attachment).unwrap_or_default();
        seen.push(format!(
            "VolumeAttachment {name} is to go, and {driver} says: {words}"
        ));
    }
    seen.truncate(3);
    let serving = attachers::of(index, driver);
    seen.push(match (serving.pods.is_empty(), serving.is_sure) {
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
    let first = attachments.first().map(|it| it.name_any());
    let mut fix = refusing(index, driver, &first.unwrap_or_default());
    let proof = index.node(node).and_then(|it| index.proof(it));
    let against = proof.map(contradicted).unwrap_or_default();
    if proof.is_none() || !against.is_empty() {
        fix.insert(0, power(index, node));
    }
    seen.extend(against);
    let down = proof.map_or_else(|| unproven(index, node), proven);
    Finding {
        id: Id::D3,
        title: match proof {
            Some(_) => {
                format!("volumes of the fenced node {node} do not detach: {driver} refuses")
            }
            None => format!(
                "volumes of node {node}, which is marked as out of service, do not detach: {driver} refuses"
            ),
        },
        objects,
        cause: format!(
            "{down}. Kubernetes wants the volumes detached; the CSI controller, or the storage behind it, does not do it"
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
        Some(Ready::False) => " and its kubelet speaks, so its machine runs",
        _ => "",
    };
    format!(
        "node {node} is marked as out of service{speaks}, and no proof that stands says that its machine is down"
    )
}

/// What comes before anybody takes a volume from a machine that nobody has proven down.
pub(super) fn power(index: &Index<'_>, node: &str) -> Step {
    let command = match index.facts.is_installed() {
        true => format!("kubectl fence test {node}"),
        // Nobody reads its power then.
        false => format!("kubectl describe node {node}"),
    };
    step(
        "first see for yourself that the machine is off, and keep it off: whoever takes its volumes while it runs has two nodes write to one",
        command,
    )
}

/// The way out where a driver does not detach.
fn refusing(index: &Index<'_>, driver: &str, attachment: &str) -> Vec<Step> {
    let serving = attachers::of(index, driver);
    let mut fix: Vec<Step> = serving.pods.iter().take(2).map(|it| log(it)).collect();
    fix.push(step(
        "the error, as it is now; the attacher tries again after 1 s to 5 min. Never strip its finalizer: that leaves the volume attached at the storage",
        format!("kubectl get volumeattachment {attachment} -o yaml"),
    ));
    fix
}

fn log(pod: &Workload) -> Step {
    let container = attachers::container(pod).unwrap_or("csi-attacher");
    let namespace = pod.namespace().unwrap_or_default();
    step(
        "what the attacher says",
        format!(
            "kubectl -n {namespace} logs {} -c {container} --tail=50",
            pod.name_any()
        ),
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

fn unmounting_of(index: &Index<'_>, stuck: &Stuck<'_>, node: &Machine) -> Finding {
    let (name, volume, pod) = (node.name_any(), &stuck.volume, stuck.pod);
    let mut seen = vec![
        node.told(index.facts.now),
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
        fix: vec![
            step(
                "what the kubelet says of the volume (where NodeLogQuery is enabled; else journalctl -u kubelet on the node)",
                format!("kubectl get --raw '/api/v1/nodes/{name}/proxy/logs/?query=kubelet&pattern={volume}'"),
            ),
            step(
                "which mounts of it are left, and what keeps them busy",
                format!("kubectl debug node/{name} -it --image=busybox -- chroot /host sh -c 'grep {volume} /proc/mounts; fuser -vm $(grep {volume} /proc/mounts | cut -d\" \" -f2)'"),
            ),
            step(
                "if nothing helps: move its pods away, then restart the machine",
                format!("kubectl drain {name} --ignore-daemonsets --delete-emptydir-data"),
            ),
        ],
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

fn stale_of(index: &Index<'_>, attachment: &VolumeAttachment) -> Finding {
    let (name, node) = (attachment.name_any(), &attachment.spec.node_name);
    let volume = attachment.spec.source.persistent_volume_name.as_ref();
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
    seen.extend(refused(attachment).map(|it| format!("{driver} says: {it}")));
    let is_going = attachment.metadata.deletion_timestamp.is_some();
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
        (true, _) => refusing(index, driver, &name),
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
    let is_orphan = |(pod, volume, _): &(&Workload, &str, &str)| {
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
fn in_use<'a>(index: &Index<'a>, pod: &Workload) -> Option<&'a str> {
    let says = |words: &str| {
        let lower = words.to_lowercase();
        !words.contains(MULTI_ATTACH) && IN_USE.iter().any(|it| lower.contains(it))
    };
    let is_over = |words: &&str| {
        let volume = words.split('"').nth(1).unwrap_or_default();
        let mut attachments = index.attachments(volume).iter();
        attachments.any(|it| {
            let is_attached = it.status.as_ref().is_some_and(|it| it.attached);
            is_attached && Some(&it.spec.node_name) == pod.spec.node_name.as_ref()
        })
    };
    let attach = index.event(pod, ATTACH, says);
    let attach = attach.filter(|it| !is_over(it));
    attach.or_else(|| index.event(pod, MOUNT, says))
}

fn orphaned_of(index: &Index<'_>, pod: &Workload, volume: &str, words: &str) -> Finding {
    let object = index.volume(volume);
    let row = object.and_then(of_volume);
    let csi = object.and_then(|it| it.spec.as_ref()?.csi.as_ref());
    let handle = csi.map_or("HANDLE", |it| it.volume_handle.as_str());
    let driver = index.driver(volume).unwrap_or("its storage");
    let commands = row.map(|it| it.orphan_commands(handle)).unwrap_or_default();
    let mut fix = vec![step(
        "what the storage calls the volume",
        format!("kubectl get pv {volume} -o jsonpath='{{.spec.csi}}'"),
    )];
    fix.extend(commands.into_iter().map(|it| {
        step(
            "at the storage: who has it; end that only if the machine that has it is off",
            it,
        )
    }));
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
        cause: "the storage has an attachment for which there is no VolumeAttachment: one was deleted by force, or the machine is of another cluster. Kubernetes cannot end what it does not know".to_owned(),
        seen: vec![
            format!("pod {}: {words}", pod.full_name()),
            format!("no VolumeAttachment of {volume} is on another node"),
            format!("backend: {}", named(&[row.map_or("no advice is known for this CSI driver", |it| it.name.as_str()).to_owned()])),
        ],
        fix,
    }
}
