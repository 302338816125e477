//! What a status is made of: what was read once, and goes on by watches where it is followed.

use super::{Operator, Status, incident, of, operator, policy};
use crate::api::fence::NodeFence;
use crate::api::policy::NodeFencingPolicy;
use crate::cli::cluster::{Cluster, seen};
use crate::cli::{Error, fences};
use crate::core::observed::NodeView;
use crate::core::select::governing;
use crate::shell::lease;
use crate::shell::slim::SlimNode;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;

/// What was read.
pub(super) struct Sight {
    /// The policies.
    pub policies: Vec<NodeFencingPolicy>,
    /// The newest first.
    pub fences: Vec<NodeFence>,
    /// Who leads.
    pub operator: Operator,
    /// The Node that was asked about, if it is one.
    pub node: Option<NodeView>,
}

impl Sight {
    /// Of all, or of this node, policy or NodeFence.
    pub fn status(&self, name: Option<&str>) -> Status {
        let open = self.fences.iter().rev().filter(|it| !it.is_ended());
        let status = Status {
            operator: self.operator.clone(),
            policies: self.policies.iter().map(policy).collect(),
            incidents: open.map(incident).collect(),
        };
        let Some(name) = name else {
            return status;
        };
        // Of several that select it none governs.
        let node = self.node.as_ref();
        let governs = node.and_then(|it| governing(&self.policies, it).ok());
        let governs = governs.flatten().map(ResourceExt::name_any);
        of(status, name, governs.as_deref())
    }

    fn knows(&self, name: &str) -> bool {
        self.node.is_some()
            || self.policies.iter().any(|it| it.name_any() == name)
            || fences::meant(&self.fences, name).is_some()
    }
}

/// Reads it all.
///
/// # Errors
/// Nothing is called by that name; [`Error`].
pub(super) async fn look(cluster: &Cluster, name: Option<&str>) -> Result<Sight, Error> {
    let sight = Sight {
        policies: cluster.ours::<NodeFencingPolicy>().await?,
        fences: fences::fences(cluster).await?,
        operator: leader(cluster).await?,
        node: match name {
            Some(name) => node(cluster, name).await?,
            None => None,
        },
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
pub(super) async fn node(cluster: &Cluster, name: &str) -> Result<Option<NodeView>, Error> {
    let node = cluster.find(&cluster.api::<SlimNode>(), name).await;
    Ok(seen(node)?.ok().flatten().map(|it| it.view()))
}
