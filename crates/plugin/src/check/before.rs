//! Before the operator is installed (`--pre`): is the cluster new enough, may the user install it, and what will it meet there?

use super::super::cluster::{Cluster, Error, seen};
use super::answers::{early, words};
use super::others::{self, When};
use super::{Category, Check, Finding};
use fencing_cluster::preflight;
use fencing_cluster::slim::SlimNode;
use fencing_core::quiesce::counted;
use kube::api::ListParams;

const HERE: Category = Category("before installation");
const VERSION: Check = HERE.check("api-server", "docs/compatibility.md#kubernetes");
const RIGHTS: Check = HERE.check("rights-to-install", "docs/how-to/install.md#with-helm");
const NODES: Check = HERE.check("nodes", "docs/how-to/install.md#two-replicas");

/// What `deploy/` is made of, cluster-wide or in a namespace of its own: group and plural name.
const INSTALLED: [(&str, &str); 7] = [
    ("", "namespaces"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
    ),
    ("apps", "deployments"),
];

pub(super) async fn look(cluster: &Cluster) -> Result<Vec<Finding>, Error> {
    let mut findings = match cluster
        .preflight(preflight::version(&cluster.clients))
        .await
    {
        Ok(version) => {
            let server = &cluster.clients.server;
            vec![VERSION.well(format!("{server} is Kubernetes {version}"))]
        }
        Err(error) => return Ok(vec![VERSION.fails(words(cluster, error)?)]),
    };
    findings.push(rights(cluster).await?);
    findings.push(nodes(cluster).await?);
    findings.extend(others::around(cluster, When::Before).await?);
    Ok(findings)
}

async fn rights(cluster: &Cluster) -> Result<Finding, Error> {
    let mut missing = Vec::new();
    for (group, resource) in INSTALLED {
        match seen(early(cluster.may("create", group, resource).await))? {
            Ok(true) => {}
            Ok(false) => missing.push(resource),
            Err(words) => {
                return Ok(RIGHTS.unknown(format!("what you may create is not known: {words}")));
            }
        }
    }
    Ok(match missing.is_empty() {
        true => RIGHTS.well("you may create all objects of the operator"),
        false => RIGHTS.fails(format!(
            "you may not create {}; install it with an account that may (ClusterRole cluster-admin)",
            missing.join(", ")
        )),
    })
}

/// The operator's own node may be the one that fails.
async fn nodes(cluster: &Cluster) -> Result<Finding, Error> {
    let all = ListParams::default();
    let nodes = match seen(early(cluster.list(&cluster.api::<SlimNode>(), &all).await))? {
        Ok(nodes) => nodes.len(),
        Err(words) => return Ok(NODES.unknown(words)),
    };
    Ok(match nodes {
        0 | 1 => NODES.fails(format!(
            "the cluster has {}, and a failed node is fenced by an operator on another one",
            counted(nodes, "node")
        )),
        2 => NODES.warns(
            "the cluster has two nodes: when one fails, only the operator's replica on the other one can fence it",
        ),
        many => NODES.well(format!("the cluster has {many} nodes")),
    })
}
