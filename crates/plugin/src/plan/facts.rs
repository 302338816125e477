//! What the plan is made from: a bounded number of lists, read once, with the user's own rights.
//!
//! Whoever plans may read nodes and pods; without those there is no plan. Whatever else they may not read is said to be not known, and what
//! hangs on it too. Of the other nodes' pods only what they ask for is kept.

use super::place::Machine;
use super::quantity::{Amounts, Asked, amounts};
use super::verdict::Replicas;
use super::volumes::Storage;
use crate::cluster::{Cluster, Error, seen};
use crate::fences;
use crate::replica::{MANAGER, OPERATOR, flag, is_ready};
use fencing_api::device::FenceDevice;
use fencing_api::fence::NodeFence;
use fencing_api::names;
use fencing_api::policy::NodeFencingPolicy;
use fencing_cluster::preflight;
use fencing_cluster::slim::{SlimDeployment, WideNode};
use fencing_core::observed::NodeView;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::api::{ListParams, ObjectMeta};
use kube::{Resource, ResourceExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// The operator's flag.
const CAP: &str = "--max-concurrent-fences";

/// Everything that was read.
pub struct Facts {
    /// The Node.
    pub node: NodeView,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// All Nodes.
    pub nodes: Vec<NodeView>,
    /// What is left of each of them; none: not known.
    pub machines: Option<Vec<Machine>>,
    /// The node's pods.
    pub pods: Vec<Pod>,
    /// All policies.
    pub policies: Vec<NodeFencingPolicy>,
    /// All devices.
    pub devices: Vec<FenceDevice>,
    /// All NodeFences.
    pub fences: Vec<NodeFence>,
    /// Storage.
    pub storage: Storage,
    /// PodDisruptionBudgets.
    pub budgets: Vec<PodDisruptionBudget>,
    /// Deployments that make the new pod first.
    pub rolling: BTreeSet<(String, String)>,
    /// Pods of kube-controller-manager; none: not known.
    pub managers: Option<Vec<Pod>>,
    /// Kubernetes' version.
    pub version: Option<String>,
    /// The operator's replicas; none: not known.
    pub replicas: Option<Replicas>,
    /// How long another replica waits before it leads, in seconds.
    pub lease_seconds: Option<f64>,
    /// `--max-concurrent-fences`.
    pub cap: Option<u32>,
    /// What could not be read, and why, each in words.
    pub unknown: Vec<String>,
}

/// A pod of another node, with what it asks for.
#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = Pod)]
#[serde(default)]
struct AskingPod {
    metadata: ObjectMeta,
    spec: AskingPodSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AskingPodSpec {
    #[serde(rename = "nodeName")]
    node: String,
    #[serde(flatten)]
    asked: Asked,
}

/// Reads it all.
///
/// # Errors
/// [`Error`], where there can be no plan without it.
pub async fn read(cluster: &Cluster, name: &str) -> Result<Facts, Error> {
    let (all, own) = (
        ListParams::default(),
        ListParams::default().fields(&format!("spec.nodeName={name}")),
    );
    let (node_api, pod_api) = (cluster.api::<WideNode>(), cluster.api::<Pod>());
    let nodes = cluster.list(&node_api, &all).await?;
    let Some(node) = nodes.iter().find(|it| it.name_any() == name) else {
        return Err(Error::Absent {
            kind: "Node".to_owned(),
            name: name.to_owned(),
            way_out: "`kubectl get nodes` lists the existing ones".to_owned(),
        });
    };
    let (policies, devices, fences, pods) = tokio::try_join!(
        cluster.readable::<NodeFencingPolicy>(),
        cluster.readable::<FenceDevice>(),
        cluster.readable::<NodeFence>(),
        cluster.list(&pod_api, &own),
    )?;
    let mut gaps = Gaps::default();
    let (policies, devices) = (gaps.of(policies), gaps.of(devices));
    let fences = fences::newest_first(gaps.of(fences));
    let (machines, claims, volumes, drivers, budgets, rolling) = tokio::try_join!(
        machines(cluster, &nodes, name),
        listed(cluster),
        listed(cluster),
        listed(cluster),
        listed::<PodDisruptionBudget>(cluster),
        listed::<SlimDeployment>(cluster),
    )?;
    let (managers, operator) = operator(cluster, name).await?;
    let version = cluster.preflight(preflight::version(&cluster.clients));
    let version = version.await;
    let rolling = gaps
        .note("the strategies of Deployments", rolling)
        .unwrap_or_default();
    let (replicas, lease_seconds, cap) = gaps
        .note("the operator's replicas", operator)
        .unwrap_or_default();
    Ok(Facts {
        node: node.view(),
        created: node.creation_timestamp().map(|it| it.0),
        nodes: nodes.iter().map(WideNode::view).collect(),
        machines: gaps.note("the room on other nodes", machines),
        pods,
        policies,
        devices,
        fences,
        storage: storage(
            gaps.note("PersistentVolumeClaims", claims),
            gaps.note("PersistentVolumes", volumes),
            gaps.note("which CSI drivers attach nothing", drivers),
        ),
        budgets: gaps
            .note("PodDisruptionBudgets", budgets)
            .unwrap_or_default(),
        rolling: rolling
            .iter()
            .filter(|it| it.strategy() != "Recreate")
            .map(key)
            .collect(),
        managers: managers.ok(),
        version: version.ok(),
        replicas,
        lease_seconds,
        cap,
        unknown: gaps.0,
    })
}

/// What could not be read.
#[derive(Default)]
struct Gaps(Vec<String>);

impl Gaps {
    fn note<T>(&mut self, what: &str, read: Result<T, String>) -> Option<T> {
        read.map_err(|words| self.0.push(format!("{what}: {words}")))
            .ok()
    }

    /// What could be read of our own kinds; what could not is noted.
    fn of<T>(&mut self, (read, left_out): (Vec<T>, Vec<String>)) -> Vec<T> {
        self.0.extend(left_out);
        read
    }
}

fn key<K: Resource>(object: &K) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// All of a kind, or why they cannot be listed.
async fn listed<K>(cluster: &Cluster) -> Result<Result<Vec<K>, String>, Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    seen(
        cluster
            .list(&cluster.api::<K>(), &ListParams::default())
            .await,
    )
}

/// What is left of each other node: pods that have ended take no room.
async fn machines(
    cluster: &Cluster,
    nodes: &[WideNode],
    dead: &str,
) -> Result<Result<Vec<Machine>, String>, Error> {
    let running = format!(
        "spec.nodeName!={dead},spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
    );
    let running = ListParams::default().fields(&running);
    let pods = seen(cluster.list(&cluster.api::<AskingPod>(), &running).await)?;
    Ok(pods.map(|pods| {
        let mut asked: BTreeMap<String, Amounts> = BTreeMap::new();
        for pod in pods {
            super::quantity::add(
                asked.entry(pod.spec.node).or_default(),
                &pod.spec.asked.amounts(),
            );
        }
        let machine = |node: &WideNode| {
            let mut free = amounts(&node.status.allocatable);
            for (name, amount) in asked.get(&node.name_any()).into_iter().flatten() {
                *free.entry(name.clone()).or_default() -= amount;
            }
            Machine {
                view: node.view(),
                free,
            }
        };
        nodes.iter().map(machine).collect()
    }))
}

fn storage(
    claims: Option<Vec<PersistentVolumeClaim>>,
    volumes: Option<Vec<PersistentVolume>>,
    drivers: Option<Vec<CSIDriver>>,
) -> Storage {
    let attaches_nothing = |it: &CSIDriver| it.spec.attach_required == Some(false);
    let drivers = drivers.into_iter().flatten().filter(attaches_nothing);
    Storage {
        claims: claims.map(|all| all.into_iter().map(|it| (key(&it), it)).collect()),
        volumes: volumes.map(|all| all.into_iter().map(|it| (it.name_any(), it)).collect()),
        unattached: drivers.map(|it| it.name_any()).collect(),
    }
}

/// The operator's replicas, the term of their Lease, and how many fences they let run at once.
type Operator = (Option<Replicas>, Option<f64>, Option<u32>);

/// The pods that the node's death may take away with it: kube-controller-manager's, for its flags, and the operator's.
async fn operator(
    cluster: &Cluster,
    node: &str,
) -> Result<(Result<Vec<Pod>, String>, Result<Operator, String>), Error> {
    let (manager_api, own_api, lease_api) = (
        cluster.api::<Pod>(),
        cluster.own::<Pod>(),
        cluster.own::<Lease>(),
    );
    let (managers, own) = (
        ListParams::default().labels(MANAGER),
        ListParams::default().labels(OPERATOR),
    );
    let (managers, pods, lease) = tokio::join!(
        cluster.list(&manager_api, &managers),
        cluster.list(&own_api, &own),
        cluster.find(&lease_api, names::LEASE),
    );
    let (managers, pods, lease) = (seen(managers)?, seen(pods)?, seen(lease)?);
    let operator = pods.and_then(|pods| {
        let lease = lease?.and_then(|it| it.spec);
        let holder = lease
            .as_ref()
            .and_then(|it| it.holder_identity.clone())
            .unwrap_or_default();
        let term = lease
            .and_then(|it| it.lease_duration_seconds)
            .map(f64::from);
        // Nobody may see them where they are not: in a cluster whose operator has another namespace.
        let replicas = (!pods.is_empty()).then(|| replicas(&pods, &holder, node));
        let cap = flag(&pods, CAP).and_then(|it| it.parse().ok());
        // 0 is no limit.
        Ok((replicas, term, cap.filter(|it| *it > 0)))
    });
    Ok((managers, operator))
}

fn replicas(pods: &[Pod], holder: &str, node: &str) -> Replicas {
    let is_here = |pod: &&Pod| {
        pod.spec
            .as_ref()
            .is_some_and(|it| it.node_name.as_deref() == Some(node))
    };
    // A replica calls itself by its pod and a number of its own.
    let leads = |pod: &Pod| holder.starts_with(&format!("{}_", pod.name_any()));
    Replicas {
        leader_is_here: pods.iter().filter(is_here).any(leads),
        elsewhere: pods
            .iter()
            .filter(|it| !is_here(it))
            .filter(|it| is_ready(it))
            .count(),
    }
}

#[cfg(test)]
mod tests;
