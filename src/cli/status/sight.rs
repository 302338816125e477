//! What a status is made of: what was read once, and goes on by watches where it is followed.

use super::{Operator, ReadyNode, Status, incident, of, operator, policy};
use crate::api::fence::NodeFence;
use crate::api::policy::NodeFencingPolicy;
use crate::cli::cluster::{Cluster, seen, wall};
use crate::cli::unfenced::{World, unfenced};
use crate::cli::{Error, fences};
use crate::core::observed::Ready;
use crate::core::select::governing;
use crate::shell::lease;
use crate::shell::slim::SlimNode;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use kube::api::ListParams;

/// What was read.
pub(super) struct Sight {
    /// The policies.
    pub policies: Vec<NodeFencingPolicy>,
    /// The newest first.
    pub fences: Vec<NodeFence>,
    /// Who leads.
    pub operator: Operator,
    /// All Nodes, or of those that may not be listed the one that was asked about.
    pub nodes: Vec<SlimNode>,
    /// Why they are not known.
    pub nodes_unknown: Option<String>,
    /// How far the API server's clock is ahead of this machine's.
    pub ahead: SignedDuration,
}

impl Sight {
    /// What time it is, by the API server's clock.
    pub fn now(&self) -> Timestamp {
        wall(self.ahead)
    }

    /// Of all, or of this node, policy or NodeFence, at this moment.
    pub fn status(&self, name: Option<&str>, now: Timestamp) -> Status {
        let open = self.fences.iter().rev().filter(|it| !it.is_ended());
        let world = World {
            policies: &self.policies,
            fences: &self.fences,
            now,
        };
        let policies = self.policies.iter();
        let status = Status {
            operator: self.operator.clone(),
            policies: policies.map(|it| policy(it, &self.fences, now)).collect(),
            incidents: open.map(incident).collect(),
            unfenced: unfenced(&self.nodes, &world),
            unfenced_unknown: self.nodes_unknown.clone(),
            ready: None,
        };
        let Some(name) = name else {
            return status;
        };
        // A NodeFence is of a node. Of several that select it none governs.
        let of_fence =
            fences::meant(&self.fences, &name.into()).map(|it| it.spec.node_name.as_str());
        let node = self.node(name).or_else(|| self.node(of_fence?));
        let node = node.map(SlimNode::view);
        let governs = node.and_then(|it| governing(&self.policies, &it).ok());
        let governs = governs.flatten();
        let ready = self.ready(name, governs);
        let governs = governs.map(ResourceExt::name_any);
        Status {
            ready,
            ..of(status, name, governs.as_deref())
        }
    }

    /// The Node of this name, if there is nothing to do about it; `policy` governs it.
    fn ready(&self, name: &str, policy: Option<&NodeFencingPolicy>) -> Option<ReadyNode> {
        let node = self.node(name).map(SlimNode::view)?;
        let is_open = |it: &NodeFence| it.spec.node_name == name && !it.is_ended();
        if node.ready() != Ready::True || self.fences.iter().any(is_open) {
            return None;
        }
        let status = policy.and_then(|it| it.status.as_ref());
        let is_unprotected = status.and_then(|it| {
            let (named, nodes) = (&it.unprotected_nodes, it.nodes.as_ref()?);
            let are_all = usize::try_from(nodes.unprotected).is_ok_and(|all| all <= named.len());
            let is_named = named.contains(&node.name);
            (is_named || are_all).then_some(is_named)
        });
        Some(ReadyNode {
            is_unprotected,
            policy: policy.map(ResourceExt::name_any),
            node: node.name,
        })
    }

    fn node(&self, name: &str) -> Option<&SlimNode> {
        let mut nodes = self.nodes.iter();
        nodes.find(|it| it.metadata.name.as_deref() == Some(name))
    }

    fn knows(&self, name: &str) -> bool {
        self.node(name).is_some()
            || self.policies.iter().any(|it| it.name_any() == name)
            || fences::meant(&self.fences, &name.into()).is_some()
    }
}

/// Reads it all.
///
/// # Errors
/// Nothing is called by that name; [`Error`].
pub(super) async fn look(cluster: &Cluster, name: Option<&str>) -> Result<Sight, Error> {
    let policies = cluster.ours::<NodeFencingPolicy>().await?;
    let fences = fences::fences(cluster).await?;
    let operator = leader(cluster).await?;
    let nodes = cluster.api::<SlimNode>();
    let listed = cluster.list(&nodes, &ListParams::default()).await;
    let (nodes, nodes_unknown) = match (seen(listed)?, name) {
        (Ok(nodes), _) => (nodes, None),
        (Err(unknown), Some(name)) => (node(cluster, name).await?, Some(unknown)),
        (Err(unknown), None) => (Vec::new(), Some(unknown)),
    };
    let sight = Sight {
        policies,
        fences,
        operator,
        nodes,
        nodes_unknown,
        ahead: cluster.ahead().await,
    };
    match name.filter(|it| !sight.knows(it)) {
        None => Ok(sight),
        Some(name) => Err(Error::No(format!(
            "there is no policy, NodeFence or Node `{name}`; `kubectl fence status` shows all"
        ))),
    }
}

/// Who leads.
pub(super) async fn leader(cluster: &Cluster) -> Result<Operator, Error> {
    let lease = cluster.find(&cluster.own::<Lease>(), lease::NAME).await;
    Ok(operator(seen(lease)?, &cluster.namespace))
}

/// The Node of this name, if it is one that may be read.
pub(super) async fn node(cluster: &Cluster, name: &str) -> Result<Vec<SlimNode>, Error> {
    let node = cluster.find(&cluster.api::<SlimNode>(), name).await;
    Ok(seen(node)?.ok().flatten().into_iter().collect())
}
