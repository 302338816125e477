//! What a status is made of: what was read once, and goes on by watches where it is followed.

use super::{Incident, Operator, ReadyNode, Status, StrandedNode, incident, of, operator, policy};
use crate::cluster::{Cluster, seen, wall};
use crate::control::lacks;
use crate::name::{Kind, Name};
use crate::unfenced::{World, unfenced};
use crate::{Error, fences};
use fencing_api::device::FenceDevice;
use fencing_api::fence::NodeFence;
use fencing_api::names;
use fencing_api::policy::NodeFencingPolicy;
use fencing_cluster::slim::SlimNode;
use fencing_core::observed::Ready;
use fencing_core::select::{Conflict, governing};
use fencing_core::stranded::stranded;
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
    /// The devices; none: they may not be read, or are not followed.
    pub devices: Option<Vec<FenceDevice>>,
    /// How far the API server's clock is ahead of this machine's.
    pub ahead: SignedDuration,
}

impl Sight {
    /// What time it is, by the API server's clock.
    pub fn now(&self) -> Timestamp {
        wall(self.ahead)
    }

    /// Of all, or of this node, policy or NodeFence, at this moment.
    pub fn status(&self, name: Option<&Name>, now: Timestamp) -> Status {
        let open = self.fences.iter().rev().filter(|it| !it.is_ended());
        let world = World {
            policies: &self.policies,
            fences: &self.fences,
            now,
        };
        let policies = self.policies.iter();
        let status = Status {
            stranded: self.stranded(),
            operator: self.operator.clone(),
            policies: policies.map(|it| policy(it, &self.fences, now)).collect(),
            incidents: open.map(|it| self.incident(it)).collect(),
            unfenced: unfenced(&self.nodes, &world),
            unfenced_unknown: self.nodes_unknown.clone(),
            ready: None,
            without_positive_control: self.devices.as_ref().map(|devices| {
                let nodes = self.nodes.iter().map(SlimNode::view);
                lacks(&self.policies, devices, nodes)
            }),
        };
        let Some(name) = name else {
            return status;
        };
        // A NodeFence is of a node.
        let of_fence = fences::meant(&self.fences, name).map(|it| it.spec.node_name.as_str());
        let node = self.named(name).or_else(|| self.node(of_fence?));
        let node = node.map(SlimNode::view);
        let governs = node.map_or(Ok(None), |it| governing(&self.policies, &it));
        let ready = self.ready(name, &governs);
        let policies = match governs {
            Ok(policy) => policy.into_iter().map(ResourceExt::name_any).collect(),
            Err(conflict) => conflict.policies,
        };
        Status {
            ready,
            ..of(status, name, &policies)
        }
    }

    /// By the operator's own rules.
    fn stranded(&self) -> Vec<StrandedNode> {
        let nodes = self.nodes.iter().map(SlimNode::view);
        let found = nodes.filter_map(|node| Some((stranded(&node, &self.fences)?, node.name)));
        let shown = found.map(|(reason, node)| StrandedNode {
            node,
            reason: reason.as_str().to_owned(),
            message: reason.message(),
        });
        shown.collect()
    }

    /// What is known of this one.
    pub fn incident(&self, fence: &NodeFence) -> Incident {
        let denied = fences::denied_beside(fence, &self.fences);
        incident(fence, denied.map(|it| it.words))
    }

    /// The Node of this name, if there is nothing to do about it.
    fn ready(
        &self,
        name: &Name,
        governs: &Result<Option<&NodeFencingPolicy>, Conflict>,
    ) -> Option<ReadyNode> {
        let node = self.named(name).map(SlimNode::view)?;
        let is_open = |it: &NodeFence| it.spec.node_name == node.name && !it.is_ended();
        let is_stranded = stranded(&node, &self.fences).is_some();
        if node.ready() != Ready::True || is_stranded || self.fences.iter().any(is_open) {
            return None;
        }
        let policy = governs.as_ref().ok().copied().flatten();
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
            conflict: governs.as_ref().err().map(Conflict::to_string),
            node: node.name,
        })
    }

    /// The Node that was asked about.
    fn named(&self, name: &Name) -> Option<&SlimNode> {
        self.node(&name.name)
            .filter(|_| name.is(Kind::Node, &name.name))
    }

    fn node(&self, name: &str) -> Option<&SlimNode> {
        let mut nodes = self.nodes.iter();
        nodes.find(|it| it.metadata.name.as_deref() == Some(name))
    }

    fn knows(&self, name: &Name) -> bool {
        let mut policies = self.policies.iter();
        self.named(name).is_some()
            || policies.any(|it| name.is(Kind::Policy, &it.name_any()))
            || fences::meant(&self.fences, name).is_some()
    }
}

/// Reads it all.
///
/// # Errors
/// Nothing is called by that name; [`Error`].
pub(super) async fn look(cluster: &Cluster, name: Option<&Name>) -> Result<Sight, Error> {
    let policies = cluster.ours::<NodeFencingPolicy>().await?;
    let fences = fences::fences(cluster).await?;
    let operator = leader(cluster).await?;
    let nodes = cluster.api::<SlimNode>();
    let listed = cluster.list(&nodes, &ListParams::default()).await;
    let (nodes, nodes_unknown) = match (seen(listed)?, name) {
        (Ok(nodes), _) => (nodes, None),
        (Err(unknown), Some(name)) => (node(cluster, &name.name).await?, Some(unknown)),
        (Err(unknown), None) => (Vec::new(), Some(unknown)),
    };
    let devices = seen(cluster.readable::<FenceDevice>().await)?;
    let sight = Sight {
        policies,
        fences,
        operator,
        nodes,
        nodes_unknown,
        devices: devices.ok().map(|(read, _)| read),
        ahead: cluster.ahead().await,
    };
    match name.filter(|it| !sight.knows(it)) {
        None => Ok(sight),
        Some(name) => {
            let kind = match name.of {
                Some(Kind::Node) => "Node",
                Some(Kind::NodeFence) => "NodeFence",
                Some(Kind::Policy) => "policy",
                None => "policy, NodeFence or Node",
            };
            Err(Error::No(format!(
                "there is no {kind} `{name}`; `kubectl fence status` shows all"
            )))
        }
    }
}

/// Who leads.
pub(super) async fn leader(cluster: &Cluster) -> Result<Operator, Error> {
    let lease = cluster.find(&cluster.own::<Lease>(), names::LEASE).await;
    Ok(operator(seen(lease)?, &cluster.namespace))
}

/// The Node of this name, if it is one that may be read.
pub(super) async fn node(cluster: &Cluster, name: &str) -> Result<Vec<SlimNode>, Error> {
    let node = cluster.find(&cluster.api::<SlimNode>(), name).await;
    Ok(seen(node)?.ok().flatten().into_iter().collect())
}
