//! The operator's replicas: two of them, on different nodes, and one that leads.

use super::super::cluster::{Cluster, Error, seen};
use super::super::leader::{Leader, is_silent};
use super::super::replica::{OPERATOR, is_ready};
use super::super::table::age;
use super::super::version;
use super::{Category, Check, Finding};
use fencing_api::names;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use std::collections::BTreeSet;

const HERE: Category = Category("operator");
const LEADER: Check = HERE.check("leader", "docs/runbooks/NodeFencingNoLeader.md#diagnosis");
const REPLICAS: Check = HERE.check(
    "replicas",
    "docs/runbooks/NodeFencingReplicasLow.md#diagnosis",
);
const VERSION: Check = HERE.check(
    "version",
    "docs/how-to/plugin.md#which-version-goes-with-which-operator",
);

pub(super) async fn look(cluster: &Cluster) -> Result<Vec<Finding>, Error> {
    let own = ListParams::default().labels(OPERATOR);
    let pods = seen(cluster.list(&cluster.own::<Pod>(), &own).await)?;
    let lease = seen(cluster.find(&cluster.own::<Lease>(), names::LEASE).await)?;
    let namespace = &cluster.namespace;
    let deployments = seen(cluster.list(&cluster.own::<Deployment>(), &own).await)?;
    let of_versions = match deployments {
        Ok(found) => versions(&found),
        Err(words) => VERSION.unknown(words),
    };
    let of_pods = match pods {
        Ok(pods) => replicas(&pods, namespace),
        Err(words) => REPLICAS.unknown(words),
    };
    let of_lease = match lease {
        Ok(lease) => leader(lease.as_ref(), namespace, cluster.now().await),
        Err(words) => LEADER.unknown(words),
    };
    Ok(vec![of_pods, of_lease, of_versions])
}

/// Do plugin and operator go together?
fn versions(deployments: &[Deployment]) -> Finding {
    let own = env!("CARGO_PKG_VERSION");
    let is = |goes: Option<bool>| {
        let mut shown = deployments.iter().map(version::of);
        shown.find(|it| it.and_then(|it| version::go_together(own, it)) == goes)
    };
    if let Some(Some(other)) = is(Some(false)) {
        return VERSION.warns(format!("this plugin is {own} and the operator {other}, more than one minor version apart; install the plugin of the operator's version"));
    }
    match (is(Some(true)), is(None)) {
        (None, None) => VERSION.unknown("there is no Deployment of the operator to compare with".to_owned()),
        (_, Some(other)) => VERSION.unknown(format!(
            "the operator's build shows no version ({}), so this plugin ({own}) cannot be compared; use the plugin that was built with it",
            other.map_or_else(|| "no version".to_owned(), |it| format!("the version `{it}`"))
        )),
        (Some(_), None) => VERSION.well(format!("this plugin, {own}, matches the operator")),
    }
}

fn replicas(pods: &[Pod], namespace: &str) -> Finding {
    let ready: Vec<&Pod> = pods.iter().filter(|it| is_ready(it)).collect();
    let node = |pod: &&Pod| pod.spec.as_ref()?.node_name.clone();
    let nodes: BTreeSet<String> = ready.iter().filter_map(node).collect();
    let way_out = format!("see kubectl -n {namespace} get pods -l {OPERATOR} -o wide");
    match (ready.len(), nodes.len()) {
        (0, _) => REPLICAS.fails(format!("no pod of the operator is ready in namespace {namespace}, so nothing is fenced; {way_out}, or name another namespace with --operator-namespace")),
        (1, _) => REPLICAS.warns(format!("one pod of the operator is ready, {}, so its own node cannot be fenced; run two replicas (replicas in the chart), {way_out}", ready.first().map(|it| it.name_any()).unwrap_or_default())),
        (many, 1) => REPLICAS.warns(format!("all {many} pods of the operator are on one node, {}, which cannot be fenced; {way_out}", nodes.first().map(String::as_str).unwrap_or_default())),
        (many, on) => REPLICAS.well(format!("{many} pods of the operator are ready, on {on} nodes")),
    }
}

fn leader(lease: Option<&Lease>, namespace: &str, now: Timestamp) -> Finding {
    let name = names::LEASE;
    let way_out = format!("see kubectl -n {namespace} get pods and the operator's log");
    let Some(leader) = Leader::of(lease) else {
        return LEADER.fails(format!(
            "no replica has the Lease {namespace}/{name}: {way_out}"
        ));
    };
    let told = format!(
        "{} holds the Lease {namespace}/{name} and renewed it {} ago",
        leader.name,
        age(leader.renewed, now)
    );
    match is_silent(leader.silent_from, now) {
        true => LEADER.fails(format!("{told}: {way_out}")),
        false => LEADER.well(told),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mark;
    use super::*;
    use serde_json::json;

    #[test]
    fn what_shows_no_version_is_not_known_to_go_with_the_plugin() {
        let found = |shown: &[Option<&str>]| {
            let deployment = |version: &Option<&str>| {
                let labels = version.map(|it| json!({"app.kubernetes.io/version": it}));
                let deployment = json!({"metadata": {"name": "nfo", "labels": labels}});
                serde_json::from_value::<Deployment>(deployment).expect("a Deployment")
            };
            let deployments: Vec<_> = shown.iter().map(deployment).collect();
            versions(&deployments).status
        };
        let own = Some(env!("CARGO_PKG_VERSION"));
        assert_eq!(found(&[own]), Mark::Ok);
        assert_eq!(found(&[own, Some("99.0.0"), None]), Mark::Warning);
        for unknown in [vec![], vec![None], vec![own, Some("latest")]] {
            assert_eq!(found(&unknown), Mark::Unknown, "{unknown:?}");
        }
    }
}
