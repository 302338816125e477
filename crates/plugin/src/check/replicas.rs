//! The operator's replicas: two of them, on different nodes and machines that do not fail together, and one that leads.

use super::super::cluster::{Cluster, Error, seen};
use super::super::leader::{Leader, is_silent};
use super::super::replica::{OPERATOR, is_ready};
use super::super::table::age;
use super::super::version;
use super::{Category, Check, Finding};
use fencing_api::device::FenceDevice;
use fencing_api::names;
use fencing_cluster::slim::SlimNode;
use fencing_core::observed::NodeView;
use fencing_core::select::serves;
use fencing_drivers::kind;
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

/// Drivers of which one address stands for what fails as a whole: a chassis, the host of virtual machines, a PDU.
const WHOLE: [&str; 4] = ["redfish", "ipmi", "libvirt", "pdu"];

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
        Ok(pods) => {
            let (devices, _) = cluster.readable::<FenceDevice>().await?;
            let mut nodes = Vec::new();
            for name in nodes_of(&pods) {
                let node = cluster.find(&cluster.api::<SlimNode>(), &name).await;
                nodes.extend(seen(node)?.ok().flatten().map(|it| it.view()));
            }
            replicas(&pods, &nodes, &devices, namespace)
        }
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

/// The names of the nodes that have a pod which is ready.
fn nodes_of(pods: &[Pod]) -> BTreeSet<String> {
    let ready = pods.iter().filter(|it| is_ready(it));
    ready
        .filter_map(|it| it.spec.as_ref()?.node_name.clone())
        .collect()
}

/// `views` are the nodes of the pods, as far as they can be read.
fn replicas(pods: &[Pod], views: &[NodeView], devices: &[FenceDevice], namespace: &str) -> Finding {
    let ready: Vec<&Pod> = pods.iter().filter(|it| is_ready(it)).collect();
    let nodes = nodes_of(pods);
    let is_read = views.len() == nodes.len();
    let shared = is_read.then(|| shared(views, devices)).flatten();
    let way_out = format!("see kubectl -n {namespace} get pods -l {OPERATOR} -o wide");
    match (ready.len(), nodes.len(), shared) {
        (0, ..) => REPLICAS.fails(format!("no pod of the operator is ready in namespace {namespace}, so nothing is fenced; {way_out}, or name another namespace with --operator-namespace")),
        (1, ..) => REPLICAS.warns(format!("one pod of the operator is ready, {}, so its own node cannot be fenced; run two replicas (replicas in the chart), {way_out}", ready.first().map(|it| it.name_any()).unwrap_or_default())),
        (many, 1, _) => REPLICAS.warns(format!("all {many} pods of the operator are on one node, {}, which cannot be fenced; {way_out}", nodes.first().map(String::as_str).unwrap_or_default())),
        (many, on, Some((driver, address))) => REPLICAS.warns(format!("{many} pods of the operator are on {on} nodes with one {driver} device at {address}, so they may fail together; spread them by affinity")),
        (many, on, None) => REPLICAS.well(format!("{many} pods of the operator are ready, on {on} nodes")),
    }
}

/// A device that serves all of these nodes: driver and address.
fn shared(nodes: &[NodeView], devices: &[FenceDevice]) -> Option<(&'static str, String)> {
    let of_node = |node: &NodeView| -> BTreeSet<(&'static str, String)> {
        let own = devices.iter().filter(|it| serves(it, node));
        let whole = own.filter(|it| WHOLE.contains(&it.spec.driver_name()));
        let address = |it: &FenceDevice| kind(&it.spec)?.expand(&node.name).ok();
        whole
            .filter_map(|it| Some((it.spec.driver_name(), address(it)?.to_string())))
            .collect()
    };
    let common = nodes.iter().map(of_node).reduce(|all, own| &all & &own);
    common?.into_iter().next()
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
    use fencing_core::fixtures::ready_node;
    use serde_json::json;

    #[test]
    fn replicas_whose_nodes_are_on_one_hypervisor_are_warned_of() {
        let pod = |node: &str| -> Pod {
            let ready = json!([{"type": "Ready", "status": "True"}]);
            let pod = json!({"metadata": {"name": node}, "spec": {"nodeName": node, "containers": []}, "status": {"conditions": ready}});
            serde_json::from_value(pod).expect("a pod")
        };
        let device = |node: &str, driver: serde_json::Value| {
            let mut spec = driver;
            if spec["nodeSelector"].is_null() {
                spec["nodeName"] = node.into();
            }
            FenceDevice::new(node, serde_json::from_value(spec).expect("a spec"))
        };
        let bmc = |host: &str| json!({"redfish": {"address": format!("https://{host}")}});
        let found = |devices: &[FenceDevice]| {
            let mut nodes = ["w1", "w2"].map(ready_node);
            for node in &mut nodes {
                let host = ("example.com/hypervisor".to_owned(), "hv-1".to_owned());
                node.labels.extend([host]);
            }
            let pods = ["w1", "w2"].map(pod);
            let finding = replicas(&pods, &nodes, devices, "fencing");
            (finding.status, finding.message)
        };
        let apart = [device("w1", bmc("a")), device("w2", bmc("b"))];
        assert_eq!(found(&apart).0, Mark::Ok);
        let (status, message) = found(&[device("w1", bmc("a")), device("w2", bmc("a"))]);
        assert_eq!(status, Mark::Warning);
        assert!(message.contains("one redfish device at a:443"), "{message}");
        // One daemon of libvirt is one host, and one device for all nodes on it.
        let of_host = |host: &str| {
            let labels = json!({"matchLabels": {"example.com/hypervisor": host}});
            let uri = format!("qemu+tls://{host}.example.com/system");
            device(
                host,
                json!({"nodeSelector": labels, "libvirt": {"uri": uri}}),
            )
        };
        let (status, message) = found(&[of_host("hv-1"), of_host("hv-2")]);
        assert_eq!(status, Mark::Warning);
        assert!(message.contains("one libvirt device at hv-1"), "{message}");
        assert_eq!(found(&[of_host("hv-2")]).0, Mark::Ok);
        // One API stands for many hosts.
        let cloud = || json!({"webhook": {"url": "https://fence.example.com/v1"}});
        let fleet = [device("w1", cloud()), device("w2", cloud())];
        assert_eq!(found(&fleet).0, Mark::Ok);
    }

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
