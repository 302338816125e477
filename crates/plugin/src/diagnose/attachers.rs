//! The pods that attach and detach for a CSI driver: external-attacher, mostly a sidecar of the driver's controller.
//!
//! No object says which of them serves which driver. One that names the driver does; else those beside a pod that names it (its node plugin, by
//! the path of its socket); else it may be any, and is said to be so.

use super::index::Index;
use fencing_cluster::slim::{SlimPod, WideNode};
use kube::ResourceExt;
use std::collections::BTreeSet;

/// The attachers of a driver.
pub struct Attachers<'a> {
    /// The pods.
    pub pods: Vec<&'a SlimPod>,
    /// Is it known that they are this driver's?
    pub is_sure: bool,
}

/// Those of this driver.
pub fn of<'a>(index: &Index<'a>, driver: &str) -> Attachers<'a> {
    let pods = || index.facts.pods.items.iter();
    let all = pods().filter(|it| !it.is_finished() && container(it).is_some());
    let all: Vec<&SlimPod> = all.collect();
    let own = all.iter().copied().filter(|it| it.mentions(driver));
    let own: Vec<&SlimPod> = own.collect();
    if !own.is_empty() {
        return Attachers {
            pods: own,
            is_sure: true,
        };
    }
    let named = pods().filter(|it| it.mentions(driver));
    let namespaces: BTreeSet<String> = named.filter_map(ResourceExt::namespace).collect();
    let is_beside = |pod: &&SlimPod| pod.namespace().is_some_and(|it| namespaces.contains(&it));
    let beside: Vec<&SlimPod> = all.iter().copied().filter(is_beside).collect();
    match beside.is_empty() {
        false => Attachers {
            pods: beside,
            is_sure: true,
        },
        true => Attachers {
            is_sure: all.len() < 2,
            pods: all,
        },
    }
}

/// Does its CSIDriver say that its volumes are not attached? Then nothing detaches what was attached before.
pub fn attaches_nothing(index: &Index<'_>, driver: &str) -> bool {
    let mut drivers = index.facts.drivers.items.iter();
    let found = drivers.find(|it| it.name_any() == driver);
    found.is_some_and(|it| it.spec.attach_required == Some(false))
}

/// The attacher's container in a pod.
pub fn container(pod: &SlimPod) -> Option<&str> {
    let is_attacher = |it: &str| it.contains("csi-attacher") || it.contains("external-attacher");
    let mut containers = pod.spec.containers.iter();
    let found = containers.find(|it| is_attacher(&it.name) || is_attacher(&it.image))?;
    Some(&found.name)
}

/// How such a pod is, in words.
pub fn told(index: &Index<'_>, pod: &SlimPod) -> String {
    let node = pod.spec.node_name.as_deref();
    let machine = node.and_then(|it| index.node(it));
    let is_down = machine.is_some_and(WideNode::is_down);
    let place = match node {
        None => "waits for a node".to_owned(),
        Some(node) if is_down => format!("is on node {node}, which is not Ready itself"),
        Some(node) => format!("is on node {node}"),
    };
    let state = match (pod.is_deleting(), pod.is_ready()) {
        (true, _) => "is Terminating",
        (false, true) => "is ready",
        (false, false) => "is not ready",
    };
    format!("{} {state} and {place}", pod.full_name())
}
