//! What is said to whoever means the open incident of a node that has none: how the node stands, and how its last incident has ended.

use crate::cluster::{Cluster, Error, seen};
use crate::fences;
use crate::name::{Kind, Name};
use crate::unfenced::{World, of};
use fencing_api::fence::NodeFence;
use fencing_api::policy::NodeFencingPolicy;
use fencing_cluster::slim::SlimNode;
use fencing_core::observed::Ready;
use jiff::Timestamp;
use kube::ResourceExt;

/// In one sentence; `fences` are the newest first.
///
/// # Errors
/// [`Error`].
pub(super) async fn none_open(
    cluster: &Cluster,
    fences: &[NodeFence],
    name: &Name,
) -> Result<String, Error> {
    let node = seen(cluster.find(&cluster.api::<SlimNode>(), &name.name).await)?;
    let policies = match &node {
        Ok(Some(_)) => seen(cluster.ours::<NodeFencingPolicy>().await)?,
        _ => Ok(Vec::new()),
    };
    Ok(told(
        name,
        node.as_ref().map(Option::as_ref),
        policies.as_deref(),
        fences,
        cluster.now().await,
    ))
}

fn told(
    name: &Name,
    node: Result<Option<&SlimNode>, &String>,
    policies: Result<&[NodeFencingPolicy], &String>,
    fences: &[NodeFence],
    now: Timestamp,
) -> String {
    let ended = fences.iter().find(|it| it.spec.node_name == name.name);
    let last = ended.map(|it| {
        format!(
            "; its last one, NodeFence {}, has ended {}: {}",
            it.name_any(),
            fences::stage(it),
            fences::message(it)
        )
    });
    let stands = match (node, policies) {
        (Ok(None), _) if last.is_none() => {
            let none = match name.of {
                Some(Kind::Node) => format!("there is no Node `{name}`"),
                _ => format!("there is no NodeFence `{name}`, and no Node of that name"),
            };
            return format!("{none}; `kubectl fence status` shows the open incidents");
        }
        (Ok(None), _) => "there is no such Node".to_owned(),
        (Err(unknown), _) => format!("its Node could not be read: {unknown}"),
        (Ok(Some(node)), policies) => match (node.view().ready(), policies) {
            (Ready::True, _) => "it is Ready".to_owned(),
            (Ready::Missing, _) => "its kubelet never reported".to_owned(),
            (_, Err(unknown)) => format!("it is NotReady, and policies are not known: {unknown}"),
            (_, Ok(policies)) => {
                let world = World {
                    policies,
                    fences,
                    now,
                };
                let unfenced = of(node, &world);
                unfenced.map_or_else(|| "it is NotReady".to_owned(), |it| it.words(now))
            }
        },
    };
    let is_named = |it: &NodeFence| stands.contains(&format!("NodeFence {} ", it.name_any()));
    let last = ended
        .filter(|it| !is_named(it))
        .and(last)
        .unwrap_or_default();
    format!("no incident of Node {name} is open: {stands}{last}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_means_a_node_without_an_incident_is_told_how_it_stands_and_how_the_last_ended() {
        let node = |ready: &str| -> SlimNode {
            let node = json!({
                "metadata": {"name": "node-1"},
                "status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2027-01-02T18:00:00Z"}]},
            });
            serde_json::from_value(node).expect("a Node")
        };
        let last = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-1-5c0ffee5"},
            "spec": {"nodeName": "node-1", "trigger": {"type": "Manual"}},
            "status": {"conditions": [{
                "type": "Succeeded", "status": "False", "reason": "Aborted", "message": "denied by ann",
                "lastTransitionTime": "2027-01-02T17:00:00Z",
            }]},
        });
        let last: NodeFence = serde_json::from_value(last).expect("a NodeFence");
        let now = "2027-01-02T18:00:09Z".parse().expect("a time");
        let ready = node("True");
        assert_eq!(
            told(&"node-1".into(), Ok(Some(&ready)), Ok(&[]), &[last], now),
            "no incident of Node node-1 is open: it is Ready; its last one, NodeFence node-1-5c0ffee5, has ended Aborted: denied by ann"
        );
        let down = told(
            &"node-1".into(),
            Ok(Some(&node("Unknown"))),
            Ok(&[]),
            &[],
            now,
        );
        assert!(
            down.starts_with(
                "no incident of Node node-1 is open: Ready=Unknown for 9s; not fenced: "
            ),
            "{down}"
        );
        let nobody = told(&"nobody".into(), Ok(None), Ok(&[]), &[], now);
        assert!(
            nobody.starts_with("there is no NodeFence `nobody`, and no Node"),
            "{nobody}"
        );
        let (name, of) = ("nobody".to_owned(), Some(Kind::Node));
        let nobody = told(&Name { name, of }, Ok(None), Ok(&[]), &[], now);
        assert!(
            nobody.starts_with("there is no Node `nobody`; "),
            "{nobody}"
        );
    }
}
