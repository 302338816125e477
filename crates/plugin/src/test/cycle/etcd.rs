//! Would etcd be left without a majority if this node's machine went off? Then the API server answers nobody, and the machine is not turned on again.
//!
//! The members are the static pods of kubeadm (label `component=etcd` in `kube-system`, its cmd/kubeadm/app/phases/etcd/local.go). Of an etcd outside
//! of the cluster, or as a service of the machine, Kubernetes knows nothing, and so does this.

use crate::Error;
use crate::cluster::Cluster;
use crate::output::complain;
use crate::replica::is_ready;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

/// Where the members are.
const NAMESPACE: &str = "kube-system";
/// How they are labelled.
const LABEL: &str = "component=etcd";

/// Refuses a node without which etcd has no majority.
///
/// # Errors
/// What it is that is missing, with the way out; those of [`Cluster::list`].
pub(super) async fn refuse_majority(cluster: &Cluster, node: &str) -> Result<(), Error> {
    let api: Api<Pod> = Api::namespaced(cluster.clients.reads.clone(), NAMESPACE);
    let of_etcd = ListParams::default().labels(LABEL);
    let members = cluster.list(&api, &of_etcd).await?;
    keeps_majority(&members, node).map_err(Error::No)?;
    if members.iter().any(|it| is_on(it, node)) {
        complain(&format!(
            "Node {node} hosts one of {} etcd members that have pods; compare with etcdctl member list",
            members.len()
        ));
    }
    Ok(())
}

/// Are the members that are Ready a majority of all without those of this node? A node without one takes nothing away.
fn keeps_majority(members: &[Pod], node: &str) -> Result<(), String> {
    let (own, others): (Vec<&Pod>, Vec<&Pod>) = members.iter().partition(|it| is_on(it, node));
    let Some(member) = own.first() else {
        return Ok(());
    };
    let ready = others.into_iter().filter(|it| is_ready(it)).count();
    let (all, majority) = (members.len(), members.len() / 2 + 1);
    match ready >= majority {
        true => Ok(()),
        false => Err(format!(
            "without etcd member {} of Node {node}, {ready} of {all} would be Ready, {majority} required; see kubectl -n {NAMESPACE} get pods -l {LABEL} -o wide",
            member.name_any()
        )),
    }
}

fn is_on(pod: &Pod, node: &str) -> bool {
    let spec = pod.spec.as_ref();
    spec.and_then(|it| it.node_name.as_deref()) == Some(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Members on cp-1, cp-2 and so on, Ready or not.
    fn members<const N: usize>(ready: [bool; N]) -> Vec<Pod> {
        let pods = ready.iter().enumerate().map(|(at, ready)| {
            let node = format!("cp-{}", at + 1);
            let status = if *ready { "True" } else { "False" };
            let pod = json!({
                "metadata": {"name": format!("etcd-{node}"), "namespace": NAMESPACE},
                "spec": {"nodeName": node, "containers": []},
                "status": {"conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": status}]},
            });
            serde_json::from_value(pod).expect("a pod")
        });
        pods.collect()
    }

    #[test]
    fn a_member_goes_only_where_the_others_that_are_ready_are_a_majority_of_all() {
        for (members, is_kept) in [
            (members([true]), false),
            (members([true, true]), false),
            (members([true, true, true]), true),
            // It does not count itself, Ready or not.
            (members([false, true, true]), true),
            (members([true, true, false]), false),
            (members([true, true, true, true]), true),
            (members([true, true, true, false, false]), false),
            (members([true, true, true, true, false]), true),
        ] {
            assert_eq!(
                keeps_majority(&members, "cp-1").is_ok(),
                is_kept,
                "{members:?}"
            );
        }
    }

    #[test]
    fn a_node_without_a_member_takes_nothing_away() {
        assert_eq!(keeps_majority(&[], "worker-1"), Ok(()));
        assert_eq!(
            keeps_majority(&members([true, false, false]), "worker-1"),
            Ok(())
        );
    }

    #[test]
    fn the_refusal_names_the_member_the_numbers_and_the_way_out() {
        let refused = keeps_majority(&members([true, true, false]), "cp-1").expect_err("refused");
        for words in [
            "Node cp-1",
            "member etcd-cp-1",
            "1 of 3",
            "2 required",
            "kubectl -n kube-system get pods -l component=etcd",
        ] {
            assert!(refused.contains(words), "{refused}");
        }
    }
}
