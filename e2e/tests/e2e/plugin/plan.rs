//! `kubectl fence plan` held against what then happens: one machine that carries a pod of each kind that the plan tells apart, its plan, and its death
//! on a real control plane. What became of each pod has to be what was predicted; when it did is printed beside it ([`times`]).

mod times;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup};
use e2e::workload::{is_ready, node_of};
use fencing_testbed::eventually::eventually;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::scene::{
    deployment, kubectl, make, of_array, on, pod, spec, volume, wait_pod, workload,
};
use super::session::{Session, typed};

const DEAD: &str = "node-1";
const ZONE: &str = "topology.kubernetes.io/zone";
/// Exit code where not everything recovers.
const NOT_ALL: i32 = 2;

/// Each pod of the dead node: its app, and what has to be predicted of it.
const EXPECTED: [(&str, &str, &str); 14] = [
    ("stateful-once", "Recovers", "Free"),
    ("rolling-once", "Recovers", "Free"),
    ("many", "Recovers", "Free"),
    ("empty-dir", "Recovers", "Free"),
    ("budgeted", "Recovers", "Free"),
    ("finalized-replica", "Recovers", "Free"),
    ("host-path", "WithoutData", "HostPath"),
    ("local", "Waits", "LocalVolume"),
    ("zonal", "Waits", "VolumeOutOfReach"),
    ("large", "Waits", "NoRoom"),
    ("finalized", "Hangs", "Finalizer"),
    ("tolerant", "Stays", "ToleratesOutOfService"),
    ("bare", "Gone", "NoController"),
    ("agent", "OfTheNode", "DaemonSet"),
];
/// The static pod, of which the kubelet shows a mirror in another namespace.
const STATIC: &str = "keeper";

fn labels(number: usize) -> BTreeMap<String, String> {
    let zone = if number == 1 { "a" } else { "b" };
    BTreeMap::from([(ZONE.to_owned(), zone.to_owned())])
}

/// A volume that is reached from nodes with this label only.
fn bound_to(mut source: Value, key: &str, value: &str) -> Value {
    let is_one = json!({"key": key, "operator": "In", "values": [value]});
    let terms = json!([{"matchExpressions": [is_one]}]);
    source["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    source
}

/// Their volumes.
fn volumes() -> Vec<Value> {
    let nfs = json!({"nfs": {"server": "192.0.2.1", "path": "/export"}});
    let local = json!({"local": {"path": "/mnt/disk"}});
    let all = [
        volume("stateful-once", "ReadWriteOnce", of_array("stateful-once")),
        volume("rolling-once", "ReadWriteOnce", of_array("rolling-once")),
        volume("many", "ReadWriteMany", nfs),
        volume(
            "local",
            "ReadWriteOnce",
            bound_to(local, "kubernetes.io/hostname", DEAD),
        ),
        volume(
            "zonal",
            "ReadWriteOnce",
            bound_to(of_array("zonal"), ZONE, "a"),
        ),
    ];
    all.into_iter().flatten().collect()
}

/// Volumes of a pod that are no claims, the first container has them mounted.
fn with_volume(source: Value) -> Value {
    let mut volume = source;
    volume["name"] = json!("disk");
    let mount = json!({"name": "disk", "mountPath": "/disk"});
    let container = json!({"name": "main", "image": "lab", "volumeMounts": [mount]});
    spec(
        None,
        json!({"volumes": [volume], "containers": [container]}),
    )
}

fn asking(cpu: &str) -> Value {
    let container =
        json!({"name": "main", "image": "lab", "resources": {"requests": {"cpu": cpu}}});
    json!({"containers": [container]})
}

/// A workload whose pods have a finalizer of somebody else's.
fn finalized(kind: &str, name: &str) -> Value {
    let mut object = stateless(kind, name);
    object["spec"]["template"]["metadata"]["finalizers"] = json!(["lab.example/archive"]);
    object
}

fn stateless(kind: &str, name: &str) -> Value {
    workload(kind, name, &spec(None, json!({})), json!({}))
}

/// One workload of each kind.
fn workloads() -> Vec<Value> {
    let claimed = |name: &str| deployment(name, &spec(Some(name), json!({})));
    // Cordoned nodes take it, too, so it says by itself where it begins.
    let mut everything = on(&[DEAD]);
    everything["tolerations"] = json!([{"operator": "Exists"}]);
    let budget = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "budgeted"}}});
    vec![
        workload(
            "StatefulSet",
            "stateful-once",
            &spec(Some("stateful-once"), json!({})),
            json!({}),
        ),
        claimed("rolling-once"),
        claimed("many"),
        claimed("local"),
        claimed("zonal"),
        deployment("empty-dir", &with_volume(json!({"emptyDir": {}}))),
        deployment(
            "host-path",
            &with_volume(json!({"hostPath": {"path": "/srv"}})),
        ),
        deployment("large", &spec(None, asking("4"))),
        deployment("tolerant", &spec(None, everything)),
        stateless("Deployment", "budgeted"),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "budgeted"}, "spec": budget}),
        finalized("StatefulSet", "finalized"),
        finalized("Deployment", "finalized-replica"),
        pod("bare", &spec(None, json!({}))),
        stateless("DaemonSet", "agent"),
    ]
}

/// All of them run on the node that is to die, and the others have no room for a large one.
async fn prepare(lab: &Lab) -> Result<()> {
    let mut ballast = Vec::new();
    for node in ["node-2", "node-3"] {
        let mut more = on(&[node]);
        more["containers"] = asking("5")["containers"].clone();
        ballast.push(deployment(&format!("ballast-{node}"), &spec(None, more)));
    }
    make(lab, &ballast).await?;
    for node in ["node-2", "node-3"] {
        wait_pod(lab, &format!("ballast-{node}"), is_ready).await?;
        lab.schedulable(node, false).await?;
    }
    make(lab, &volumes()).await?;
    make(lab, &workloads()).await?;
    for (app, ..) in EXPECTED {
        let is_there = |pod: &Pod| is_ready(pod) && node_of(pod) == DEAD;
        wait_pod(lab, app, is_there).await?;
    }
    for node in ["node-2", "node-3"] {
        lab.schedulable(node, true).await?;
    }
    // The controller looks at the pods before it allows none to go.
    eventually("the budget allows no disruption", LIMIT, async || {
        let allowed = kubectl(
            lab,
            "get pdb budgeted -n work -o jsonpath={.status.disruptionsAllowed}",
        )
        .await?;
        let healthy = kubectl(
            lab,
            "get pdb budgeted -n work -o jsonpath={.status.currentHealthy}",
        )
        .await?;
        ensure!(
            (allowed.as_str(), healthy.as_str()) == ("0", "1"),
            "{allowed} of {healthy}"
        );
        Ok(())
    })
    .await
}

fn app(pod: &Pod) -> String {
    pod.labels().get("app").cloned().unwrap_or_default()
}

/// The pods of all namespaces.
async fn pods(lab: &Lab) -> Result<Vec<Pod>> {
    let all: Api<Pod> = Api::all(lab.control_plane.admin());
    Ok(all.list(&ListParams::default()).await?.items)
}

/// Those of the node, by their app.
fn of_node(pods: &[Pod]) -> BTreeMap<String, Pod> {
    let here = pods.iter().filter(|it| node_of(it) == DEAD);
    here.map(|it| (app(it), it.clone())).collect()
}

/// What has become of a pod, in the plan's words. `known` are the pods that there were before.
fn outcome(old: &Pod, known: &[Pod], now: &[Pod]) -> &'static str {
    let is_deleting = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    let itself = now.iter().find(|it| it.uid() == old.uid());
    let is_new = |pod: &&Pod| known.iter().all(|it| it.uid() != pod.uid());
    let others = now
        .iter()
        .filter(|it| app(it) == app(old) && !is_deleting(it));
    let others: Vec<&Pod> = others.filter(is_new).collect();
    let elsewhere = |pod: &&Pod| ![DEAD, ""].contains(&node_of(pod));
    let runs = others.iter().any(|it| is_ready(it) && elsewhere(it));
    let mut owners = old.owner_references().iter();
    let is_of_node = owners.any(|it| ["Node", "DaemonSet"].contains(&it.kind.as_str()));
    let volumes = old.spec.iter().flat_map(|it| it.volumes.iter().flatten());
    let has_host_path = volumes.into_iter().any(|it| it.host_path.is_some());
    match itself {
        _ if is_of_node && !others.iter().any(elsewhere) => "OfTheNode",
        _ if runs && has_host_path => "WithoutData",
        _ if runs => "Recovers",
        Some(pod) if is_deleting(pod) && others.is_empty() => "Hangs",
        Some(pod) if !is_deleting(pod) => "Stays",
        _ if others.iter().any(|it| node_of(it).is_empty()) => "Waits",
        _ if others.is_empty() => "Gone",
        _ => "something else",
    }
}

/// The lab's own, which the plan cannot read from a pod.
fn grace(lab: &Lab) -> String {
    let options = lab.control_plane.options();
    format!("{}s", options.node_monitor_grace.as_secs())
}

/// The plan, as programs read it: all that recovers and all that does not is predicted as it has to be.
async fn planned(lab: &Lab, before: &BTreeMap<String, Pod>) -> Result<Vec<Value>> {
    let line = format!("plan {DEAD} --grace {} -o json", grace(lab));
    let (code, said, complained) = typed(lab, &line).await?;
    let plan: Value = serde_json::from_str(&said).context(complained)?;
    ensure!(
        code == NOT_ALL && plan["verdict"]["obstacles"] == json!([]),
        "{code}: {plan:#}"
    );
    let pods = plan["pods"].as_array().cloned().unwrap_or_default();
    let expected = EXPECTED
        .into_iter()
        .chain([(STATIC, "OfTheNode", "StaticPod")]);
    for (app, outcome, reason) in expected {
        let name = before.get(app).map(ResourceExt::name_any);
        let name = name.with_context(|| format!("{app} is not on the node"))?;
        let told = pods.iter().find(|it| it["name"] == name.as_str());
        let told = told.with_context(|| format!("nothing is told of {name}"))?;
        ensure!(
            told["outcome"] == outcome && told["reason"] == reason,
            "{app}: {told:#}"
        );
    }
    ensure!(pods.len() == EXPECTED.len() + 1, "{pods:#?}");
    Ok(pods)
}

/// What a person is told at the prompt.
async fn told(lab: &Lab, before: &BTreeMap<String, Pod>, golden: &str) -> Result<()> {
    let mut session = Session::new(lab, DEAD, "What if this node lost power now?");
    for (name, ..) in EXPECTED {
        session.shows(&before[name].name_any(), name);
        // A ReplicaSet's name ends with a hash, which is another one in another version of Kubernetes.
        let owners = before[name].owner_references().iter();
        for owner in owners.filter(|it| it.kind == "ReplicaSet") {
            session.shows(&owner.name, name);
        }
    }
    let grace = grace(lab);
    let (code, _) = session
        .exits(&format!("plan {{node}} --grace {grace}"))
        .await?;
    ensure!(code == NOT_ALL, "exit code {code}");
    session.hold(golden)
}

/// Each pod became what it was to be.
fn became(before: &BTreeMap<String, Pod>, known: &[Pod], now: &[Pod]) -> Result<()> {
    for (name, predicted, _) in EXPECTED.into_iter().chain([(STATIC, "OfTheNode", "")]) {
        let is = outcome(&before[name], known, now);
        let of_app = || now.iter().filter(|it| app(it) == name);
        ensure!(
            is == predicted,
            "{name} was to be {predicted}, and is {is}: {:#?}",
            of_app().collect::<Vec<_>>()
        );
    }
    Ok(())
}

/// Predicts, cuts the power, and returns when each pod that recovers was to run again, and when it did. With `golden`, what is told at the prompt
/// has to be what stands there.
async fn held(name: &str, golden: Option<&str>) -> Result<Vec<times::Time>> {
    let lab = Lab::start(Setup {
        labels,
        static_pods: vec![STATIC.to_owned()],
        ..Setup::new(name, 3)
    });
    let lab = &lab.await?;
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    lab.policy("ConfirmOnly", json!({})).await?;
    prepare(lab).await?;
    let known = pods(lab).await?;
    let before = of_node(&known);
    let plan = planned(lab, &before).await?;
    if let Some(golden) = golden {
        told(lab, &before, golden).await?;
    }

    let begun = Instant::now();
    lab.rig_of(DEAD)?.machine.set_power(false);
    let recovering = EXPECTED
        .iter()
        .filter(|it| ["Recovers", "WithoutData"].contains(&it.1));
    let recovering: Vec<String> = recovering.map(|it| it.0.to_owned()).collect();
    let took = times::measured(lab, begun, &before, &recovering).await?;
    lab.wait_stage(DEAD, "Recovered").await?;
    became(&before, &known, &pods(lab).await?)?;
    operator.check()?;
    lab.verdict().await?;
    times::beside(&plan, &took, &before)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_plan_predicts_of_each_pod_is_what_becomes_of_it() -> Result<()> {
    let times = held("plan", Some("plan")).await?;
    print!("{}", times::table(&[times]));
    Ok(())
}
