//! Which incident a name means. Whoever acts on a node by its name acts on no other one.

use super::none_open::none_open;
use super::{fences, message, stage};
use crate::Error;
use crate::cluster::{Cluster, seen};
use crate::name::{Kind, Name};
use fencing_api::fence::NodeFence;
use fencing_cluster::slim::SlimNode;
use kube::ResourceExt;

/// The open NodeFence of the node: one that may act on it goes before one that only observes.
pub fn open_of_node<'a>(fences: &'a [NodeFence], node: &str) -> Option<&'a NodeFence> {
    let open = || {
        let of_node = fences.iter().filter(|it| it.spec.node_name == node);
        of_node.filter(|it| !it.is_ended())
    };
    open().find(|it| it.may_act()).or_else(|| open().next())
}

/// The NodeFence that a user means: the open one of the node of this name, or its newest, or the one of this name.
pub fn meant<'a>(fences: &'a [NodeFence], name: &Name) -> Option<&'a NodeFence> {
    let is_of_node = |it: &&NodeFence| it.spec.node_name == name.name;
    let of_node = || fences.iter().filter(is_of_node);
    let of_node = open_of_node(fences, &name.name).or_else(|| of_node().next());
    let named = fences.iter().find(|it| it.name_any() == name.name);
    match name.of {
        Some(Kind::Node) => of_node,
        Some(Kind::NodeFence) => named,
        Some(Kind::Policy) => None,
        None => of_node.or(named),
    }
}

/// The open incident that a user means.
///
/// # Errors
/// There is none: how the node stands, and how its last incident has ended. Or there are two that the name could mean.
pub async fn open(cluster: &Cluster, name: &Name) -> Result<NodeFence, Error> {
    open_among(cluster, &fences(cluster).await?, name).await
}

/// The same of these, the newest first.
///
/// # Errors
/// As [`open`].
pub async fn open_among(
    cluster: &Cluster,
    fences: &[NodeFence],
    name: &Name,
) -> Result<NodeFence, Error> {
    let Some(fence) = open_of(fences, name)? else {
        let elsewhere = elsewhere(fences, name, |it| !it.is_ended());
        return Err(Error::No(match name.of {
            Some(Kind::NodeFence) => format!(
                "there is no NodeFence `{name}`{elsewhere}; `kubectl fence status` shows the open incidents"
            ),
            _ => none_open(cluster, fences, name).await? + &elsewhere,
        }));
    };
    if name.of.is_none() && fence.spec.node_name != name.name {
        let nodes = cluster.api::<SlimNode>();
        if let Ok(Some(_)) = seen(cluster.find(&nodes, &name.name).await)? {
            return Err(ambiguous(fence));
        }
    }
    Ok(fence.clone())
}

/// Which of those `is_meant` bears that name of another kind than the one that was typed.
fn elsewhere(fences: &[NodeFence], name: &Name, is_meant: impl Fn(&NodeFence) -> bool) -> String {
    let of = match name.of {
        Some(Kind::Node) => Kind::NodeFence,
        Some(Kind::NodeFence) => Kind::Node,
        _ => return String::new(),
    };
    let other = Name {
        of: Some(of),
        ..name.clone()
    };
    let Some(fence) = meant(fences, &other).filter(|it| is_meant(it)) else {
        return String::new();
    };
    let (fence, node) = (fence.name_any(), &fence.spec.node_name);
    match of {
        Kind::Node => format!("; of Node {node} there is NodeFence {fence}: use node/{node}"),
        _ => format!("; NodeFence {fence} is of Node {node}: use nodefence/{fence}"),
    }
}

fn ambiguous(fence: &NodeFence) -> Error {
    let name = fence.name_any();
    Error::No(format!(
        "`{name}` is the name of an open NodeFence (of Node {}) and of a Node; use nodefence/{name} or node/{name}",
        fence.spec.node_name
    ))
}

/// None: no NodeFence has that name, and none of a Node of that name is open.
fn open_of<'a>(fences: &'a [NodeFence], name: &Name) -> Result<Option<&'a NodeFence>, Error> {
    let named = fences.iter().find(|it| it.name_any() == name.name);
    let Some(fence) = meant(fences, name) else {
        return Ok(None);
    };
    if let Some(other) = named.filter(|_| name.of.is_none())
        && !other.is_ended()
        && other.name_any() != fence.name_any()
    {
        return Err(ambiguous(other));
    }
    match fence.is_ended() {
        false => Ok(Some(fence)),
        true if fence.name_any() != name.name => Ok(None),
        true => Err(Error::No(format!(
            "NodeFence {} of Node {} has ended {}: {}; an ended incident never changes",
            fence.name_any(),
            fence.spec.node_name,
            stage(fence),
            message(fence)
        ))),
    }
}

/// There is no incident that this name could mean.
pub fn absent(fences: &[NodeFence], name: &Name) -> Error {
    let none = match name.of {
        Some(Kind::Node) => format!("there is no incident of Node `{name}`"),
        Some(Kind::NodeFence) => format!("there is no NodeFence `{name}`"),
        _ => format!("there is no NodeFence `{name}`, and no incident of a Node of that name"),
    };
    let elsewhere = elsewhere(fences, name, |_| true);
    Error::No(format!(
        "{none}{elsewhere}; `kubectl fence history` lists the existing ones"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Whoever acts on a node by its name acts on no other one, whatever NodeFences are called.
    #[test]
    fn a_name_is_that_of_the_node_with_an_open_incident_and_never_of_two() {
        let fence = |name: &str, node: &str, stage: &str, is: &str| -> NodeFence {
            let succeeded = json!({"type": "Succeeded", "status": is, "reason": stage, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let fence = json!({
                "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": name},
                "spec": {"nodeName": node, "trigger": {"type": "Manual"}}, "status": {"conditions": [succeeded]},
            });
            serde_json::from_value(fence).expect("a NodeFence")
        };
        let open = fence("worker-3-1", "worker-3", "Verifying", "Unknown");
        let ended = fence("worker-3", "worker-9", "Recovered", "True");
        let other = fence("worker-3", "worker-9", "Verifying", "Unknown");
        let name = |fences: &[NodeFence]| {
            let found = open_of(fences, &"worker-3".into());
            found
                .map(|it| it.map(kube::ResourceExt::name_any))
                .map_err(|it| it.to_string())
        };
        let found = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(name(&[ended, open.clone()]), found("worker-3-1"));
        assert_eq!(name(std::slice::from_ref(&other)), found("worker-3"));
        // Whoever names the node means no incident that has ended; whoever names the incident is told that it has.
        let last = fence("worker-3-0", "worker-3", "Aborted", "False");
        assert_eq!(name(std::slice::from_ref(&last)), Ok(None));
        let ended = open_of(&[last], &"worker-3-0".into()).expect_err("it has ended");
        assert!(ended.to_string().contains("has ended Aborted"), "{ended}");
        let both = [other, open];
        let refused = name(&both).expect_err("two");
        assert!(
            refused.ends_with("use nodefence/worker-3 or node/worker-3"),
            "{refused}"
        );
        // Who says what it is acts on nothing else.
        for (of, found) in [(Kind::Node, "worker-3-1"), (Kind::NodeFence, "worker-3")] {
            let (name, of) = ("worker-3".to_owned(), Some(of));
            let meant = meant(&both, &Name { name, of }).map(kube::ResourceExt::name_any);
            assert_eq!(meant.as_deref(), Some(found));
        }
        let (name, of) = ("worker-9".to_owned(), Some(Kind::NodeFence));
        assert_eq!(meant(&both, &Name { name, of }), None);
    }

    /// Whose record is told is that of the node, whatever another node's NodeFence is called.
    #[test]
    fn a_node_that_has_an_incident_goes_before_a_nodefence_of_its_name() {
        let fence = |name: &str, node: &str| -> NodeFence {
            let succeeded = json!({"type": "Succeeded", "status": "True", "reason": "Recovered", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let fence = json!({
                "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": name},
                "spec": {"nodeName": node, "trigger": {"type": "Manual"}}, "status": {"conditions": [succeeded]},
            });
            serde_json::from_value(fence).expect("a NodeFence")
        };
        let both = [
            fence("node-2", "node-1"),
            fence("node-2-5c0ffee5", "node-2"),
        ];
        let found = meant(&both, &"node-2".into()).map(kube::ResourceExt::name_any);
        assert_eq!(found.as_deref(), Some("node-2-5c0ffee5"));
        let found = meant(&both[..1], &"node-2".into()).map(kube::ResourceExt::name_any);
        assert_eq!(found.as_deref(), Some("node-2"));
    }

    #[test]
    fn who_has_typed_the_wrong_kind_is_told_the_right_one() {
        let fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "w-3-5c0ffee5"},
            "spec": {"nodeName": "w-3", "trigger": {"type": "Manual"}},
        });
        let fences = [serde_json::from_value(fence).expect("a NodeFence")];
        let told = |name: &str, of: Kind| {
            let (name, of) = (name.to_owned(), Some(of));
            absent(&fences, &Name { name, of }).to_string()
        };
        for (name, of, words) in [
            (
                "w-3",
                Kind::NodeFence,
                "no NodeFence `w-3`; of Node w-3 there is NodeFence w-3-5c0ffee5: use node/w-3",
            ),
            (
                "w-3-5c0ffee5",
                Kind::Node,
                "NodeFence w-3-5c0ffee5 is of Node w-3: use nodefence/w-3-5c0ffee5",
            ),
        ] {
            let told = told(name, of);
            assert!(told.contains(words), "{told}");
        }
        assert!(!told("w-4", Kind::Node).contains("say"));
    }
}
