//! `make bench-headroom`: what it costs the leader to judge for one node of 5,000 whether its pods would find room elsewhere. It does so once a
//! second.
//!
//! What is measured is the CPU time of this process for what the operator does with the answers of an API server: decoding a Node, its pods, their
//! claims and volumes, and judging them. The requests themselves are not in it. What is printed is a block of Markdown.

#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark measures how long things take"
)]

use anyhow::Result;
use fencing_cluster::slim::WideNode;
use fencing_core::observed::NodeView;
use fencing_plugin::plan::headroom::{Held, Nodes, Rooms};
use fencing_testbed::bench::table::spread;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::ObjectList;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::time::Duration;

const NODES: usize = 5000;
const PODS: usize = 30;
/// Of these so many have a volume.
const VOLUMES: usize = 6;
/// Nodes that are judged by one picture of the others (`src/shell/headroom.rs`).
const PICTURE: usize = 60;
/// Pictures, with other nodes each.
const PICTURES: usize = 10;
/// Bytes of metadata that nobody reads: managedFields and annotations of usual pods.
const METADATA_BYTES: usize = 2000;
/// CPUs of a node.
const CPUS: usize = 32;

/// The answers of an API server for one node.
struct Answers {
    node: String,
    pods: String,
    claims: Vec<String>,
    volumes: Vec<String>,
}

fn answers(number: usize, millis_each: usize) -> Answers {
    let name = format!("node-{number}");
    let zone = ["a", "b", "c"][number % 3];
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone});
    let images: Vec<Value> = (0..50)
        .map(|it| json!({"names": [format!("registry.example.com/image@sha256:{it:064}")], "sizeBytes": 100_000_000}))
        .collect();
    let node = json!({
        "metadata": {"name": name, "uid": format!("uid-{number}"), "resourceVersion": "7", "labels": labels},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"bootID": "boot", "systemUUID": format!("{number:032}")},
            "allocatable": {"cpu": CPUS.to_string(), "memory": "256Gi", "pods": "110", "ephemeral-storage": "900Gi"},
            "images": images,
        },
    });
    let here = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]});
    let reach = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}});
    let claim = |it: usize| format!("data-{number}-{it}");
    let pods: Vec<Value> = (0..PODS)
        .map(|it| pod(&name, it, &claim(it), millis_each))
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": pods});
    let claims = (0..VOLUMES).map(|it| json!({"metadata": {"name": claim(it), "namespace": "shop"}, "spec": {"volumeName": claim(it)}}));
    let volumes = (0..VOLUMES).map(|it| {
        json!({
            "metadata": {"name": claim(it)},
            "spec": {"accessModes": ["ReadWriteOnce"], "csi": {"driver": "csi.example.com", "volumeHandle": claim(it)}, "nodeAffinity": reach},
        })
    });
    Answers {
        node: node.to_string(),
        pods: list.to_string(),
        claims: claims.map(|it| it.to_string()).collect(),
        volumes: volumes.map(|it| it.to_string()).collect(),
    }
}

fn pod(node: &str, number: usize, claim: &str, millis: usize) -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true});
    let tolerations = ["not-ready", "unreachable"].map(|it| json!({"key": format!("node.kubernetes.io/{it}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
    let volumes = match number < VOLUMES {
        true => json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]),
        false => json!([{"name": "tmp", "emptyDir": {}}]),
    };
    json!({
        "metadata": {
            "name": format!("web-{number}"), "namespace": "shop", "uid": "uid", "labels": {"app": "web", "pod-template-hash": "5d"},
            "ownerReferences": [owner], "annotations": {"padding": "x".repeat(METADATA_BYTES)},
        },
        "spec": {
            "nodeName": node, "tolerations": tolerations, "volumes": volumes,
            "containers": [{
                "name": "web", "image": "registry.example.com/web:1", "env": [{"name": "A", "value": "b"}],
                "resources": {"requests": {"cpu": format!("{millis}m"), "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// CPU time of this process.
fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

fn all<T: serde::de::DeserializeOwned>(texts: &[String]) -> Result<Vec<T>> {
    let read = texts.iter().map(|text| serde_json::from_str(text));
    Ok(read.collect::<Result<_, _>>()?)
}

/// What the nodes took that were judged by one picture of the others: of a node the CPU time, that of judging alone, and the time until the next.
struct Cost {
    recoverable: usize,
    cpu: f64,
    judging: f64,
    pace: f64,
}

/// Judges these nodes, as the operator does.
fn judge(rooms: &mut Rooms, views: &[NodeView], answers: &[(String, Answers)]) -> Result<Cost> {
    let (mut recoverable, mut judging, mut pace) = (0, 0.0, 0.0);
    let begun = cpu();
    let mut nodes = Nodes::new(views.to_vec(), rooms);
    for (name, answers) in answers {
        let node: WideNode = serde_json::from_str(&answers.node)?;
        let pods: ObjectList<Pod> = serde_json::from_str(&answers.pods)?;
        rooms.note(&node, &pods.items);
        let held = Held {
            claims: all::<PersistentVolumeClaim>(&answers.claims)?,
            volumes: all::<PersistentVolume>(&answers.volumes)?,
        };
        let before = cpu();
        recoverable += usize::from(nodes.recover(name, &pods.items, held));
        let took = cpu().saturating_sub(before).as_secs_f64();
        judging += took;
        // It rests a hundred times as long as a judgement took, and a second at least.
        pace += (100.0 * took).max(1.0);
    }
    let of_one = |all: f64| all / answers.len() as f64;
    Ok(Cost {
        recoverable,
        cpu: of_one(cpu().saturating_sub(begun).as_secs_f64()),
        judging: of_one(judging),
        pace: of_one(pace),
    })
}

/// Judges nodes of a cluster whose pods ask for so many thousandths of a CPU each, and prints what one took.
fn measure(what: &str, millis_each: usize) -> Result<()> {
    let (mut rooms, mut views) = (Rooms::default(), Vec::<NodeView>::new());
    // One at a time: the answers of all of them are half a gigabyte.
    for number in 0..NODES {
        let answers = answers(number, millis_each);
        let node: WideNode = serde_json::from_str(&answers.node)?;
        let pods: ObjectList<Pod> = serde_json::from_str(&answers.pods)?;
        rooms.note(&node, &pods.items);
        views.push(node.view());
    }
    let mut costs = Vec::new();
    for picture in 0..PICTURES {
        let first = picture * PICTURE;
        let answers: Vec<_> = (first..first + PICTURE)
            .map(|it| (format!("node-{it}"), answers(it, millis_each)))
            .collect();
        costs.push(judge(&mut rooms, &views, &answers)?);
    }
    let recoverable: usize = costs.iter().map(|it| it.recoverable).sum();
    let column = |of: &dyn Fn(&Cost) -> f64, digits| spread("", digits, costs.iter().map(of));
    println!(
        "| {what} | {recoverable} of {} | {} | {} | {} | {} |",
        PICTURES * PICTURE,
        column(&|it| 1000.0 * it.cpu, 1),
        column(&|it| 1000.0 * it.judging, 1),
        column(&|it| it.pace, 1),
        column(&|it| 100.0 * it.cpu / it.pace, 2),
    );
    Ok(())
}

fn main() -> Result<()> {
    println!(
        "{NODES} nodes with {PODS} pods each, {VOLUMES} of them with a volume of their zone.\n\
         Of {PICTURES} times {PICTURE} nodes the median (minimum to maximum).\n\n\
         | cluster | recoverable | CPU a node (ms) | of that judging (ms) | one node in (s) | % of a core |\n|---|---|---|---|---|---|"
    );
    let fill = |percent: usize| CPUS * 10 * percent / PODS;
    measure("half full", fill(50))?;
    measure("full to 99 %: no node finds room", fill(99))
}
