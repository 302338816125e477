//! Drivers whose volumes nothing detaches: their CSIDriver says that they attach nothing (D13), or those who would detach are on dead nodes (D14).

use super::super::attachers::{attaches_nothing, of, told};
use super::super::finding::{Finding, Id, Object, Step, named, steps};
use super::super::index::Index;
use super::steps::storage;
use fencing_cluster::slim::{SlimAttachment, WideNode};
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};

fn by_driver<'a>(index: &Index<'a>) -> BTreeMap<&'a str, Vec<&'a SlimAttachment>> {
    let mut drivers: BTreeMap<&str, Vec<&SlimAttachment>> = BTreeMap::new();
    for attachment in &index.facts.attachments.items {
        let of_driver = drivers.entry(&attachment.spec.attacher).or_default();
        of_driver.push(attachment);
    }
    drivers
}

/// D13: attached once, by a driver that attaches nothing any more; one finding for each driver, however many volumes it had.
pub(super) fn unattaching(index: &Index<'_>) -> Vec<Finding> {
    let drivers = by_driver(index).into_iter();
    let unattaching = drivers.filter(|(driver, _)| attaches_nothing(index, driver));
    unattaching
        .filter_map(|(driver, of)| unattaching_of(index, driver, &of))
        .collect()
}

fn unattaching_of(
    index: &Index<'_>,
    driver: &str,
    attachments: &[&SlimAttachment],
) -> Option<Finding> {
    let first = attachments.first()?;
    let name = first.name_any();
    let nodes: BTreeSet<&String> = attachments.iter().map(|it| &it.spec.node_name).collect();
    let nodes: Vec<String> = nodes.into_iter().cloned().collect();
    let names: Vec<String> = attachments.iter().map(|it| it.name_any()).collect();
    let objects = attachments.iter().flat_map(|it| Object::attachment(it));
    let at_storage = first.volume().map(|it| storage(index, it));
    let fix = [
        steps(&format!(
            "# the CSIDriver; attachRequired cannot be changed, so it was made again
            kubectl get csidriver {driver} -o yaml"
        )),
        at_storage.unwrap_or_default(),
        steps(&format!(
            "# for each: only if the storage has nothing attached to that machine, delete the VolumeAttachment
            kubectl delete volumeattachment {name} --wait=false
            # then its finalizer, which no attacher of this driver removes any more
            kubectl patch volumeattachment {name} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'"
        )),
    ];
    let names = named(&names);
    Some(Finding {
        id: Id::D13,
        title: format!("VolumeAttachment {names} is of driver {driver}, which attaches nothing"),
        objects: objects.chain(nodes.iter().map(|it| Object::node(it))).collect(),
        cause: "with attachRequired false attach/detach ignores the driver, so it never deletes the VolumeAttachment. A fence of its node waits for it in Detaching".to_owned(),
        seen: vec![
            format!("CSIDriver {driver} has attachRequired false"),
            format!("VolumeAttachment {names} names node {}", named(&nodes)),
        ],
        fix: fix.concat(),
    })
}

/// D14: every pod that attaches and detaches for a driver is on a node that is not Ready, or waits for one beside those.
pub(super) fn unserved(index: &Index<'_>) -> Vec<Finding> {
    let drivers = by_driver(index).into_iter();
    drivers
        .filter_map(|(driver, attachments)| unserved_of(index, driver, &attachments))
        .collect()
}

fn unserved_of(
    index: &Index<'_>,
    driver: &str,
    attachments: &[&SlimAttachment],
) -> Option<Finding> {
    let is_down = |node: &str| index.node(node).is_some_and(WideNode::is_down);
    let serving = of(index, driver);
    // One without a node does not run either: it was made where the old one is on its way out.
    let hosts = serving.pods.iter();
    let hosts: BTreeSet<&str> = hosts
        .filter_map(|it| it.spec.node_name.as_deref())
        .collect();
    let is_known = serving.is_sure && index.facts.pods.is_complete();
    if hosts.is_empty() || !hosts.iter().all(|it| is_down(it)) || !is_known {
        return None;
    }
    let waits = |it: &&&SlimAttachment| {
        !it.status.attached || it.is_deleting() || is_down(&it.spec.node_name)
    };
    let waiting: Vec<_> = attachments.iter().filter(waits).collect();
    if waiting.is_empty() {
        return None;
    }
    let mut objects: Vec<Object> = serving.pods.iter().map(|it| Object::pod(it)).collect();
    objects.extend(hosts.iter().map(|it| Object::node(it)));
    objects.extend(waiting.iter().flat_map(|it| Object::attachment(it)));
    let first = serving.pods.iter().take(3);
    let mut seen: Vec<String> = first.map(|it| told(index, it)).collect();
    seen.push(format!(
        "VolumeAttachments that it has to attach or detach: {}",
        waiting.len()
    ));
    let status = match index.facts.is_installed() {
        true => "fence status",
        false => "describe node",
    };
    let hosts = hosts.iter().flat_map(|host| {
        steps(&format!(
            "# whether that node is fenced, and why not: the pod moves when the node is out of service, or back
            kubectl {status} {host}"
        ))
    });
    let pods = serving.pods.iter().take(2).flat_map(|it| {
        let (namespace, owner) = (it.namespace().unwrap_or_default(), index.owner(it));
        steps(&format!(
            "# for the next time: two replicas of its controller on two nodes, with --leader-election
            kubectl -n {namespace} get {owner} -o yaml"
        ))
    });
    let fix: Vec<Step> = hosts.chain(pods).collect();
    Some(Finding {
        id: Id::D14,
        title: format!("no running pod attaches or detaches for {driver}: each is on a node that is not Ready, or has none"),
        objects,
        cause: "the controller of a CSI driver attaches and detaches for all nodes. While its own node is down, no volume of the driver moves".to_owned(),
        seen,
        fix,
    })
}
