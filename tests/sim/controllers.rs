//! The controller-manager, the CSI driver and the owners of the workload, with the periods and habits of the real ones.

use crate::libc::elapsed;
use crate::objects::{
    NODE_LEASES, OUT_OF_SERVICE, POWERED_OFF, Role, UNREACHABLE, WORK, attachment, condition,
    is_leaving, now, pod, ready, reason, taint, taints, text, tolerates, volume,
};
use crate::plan::Plan;
use crate::world::World;
use serde_json::{Value, json};
use simapi::kinds::{ATTACHMENT, LEASE, NODE, POD};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// A node is Unknown when its Lease has not moved for so long.
const GRACE: Duration = Duration::from_secs(40);
/// Rounds that are left out when nothing has changed.
const IDLE_MAX: u32 = 4;
/// Who writes.
const MANAGER: &str = "controller-manager";

/// What the workload is to be.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Pods with a volume each.
    pub databases: u64,
    /// Pods without.
    pub webs: u64,
}

/// Starts all of them.
pub fn start(world: &World, plan: &Plan, tasks: &mut JoinSet<()>) {
    let (workload, waits) = (plan.workload.clone(), plan.deletes_node);
    tasks.spawn(lifecycle(world.clone()));
    tasks.spawn(every(world.clone(), (700, 1500), eviction));
    tasks.spawn(every(world.clone(), (19_000, 21_000), pod_gc));
    let attacher = move |world: &World| attach_detach(world, waits);
    tasks.spawn(every(world.clone(), (400, 1600), attacher));
    tasks.spawn(every(world.clone(), (500, 2000), csi));
    if plan.deletes_node {
        tasks.spawn(every(world.clone(), (2000, 8000), lease_gc));
    }
    let owners = move |world: &World| keep_up(world, &workload);
    tasks.spawn(every(world.clone(), (800, 2500), owners));
}

/// Works again and again, but seldom while nothing has changed.
async fn every(world: World, (least, most): (u64, u64), mut work: impl FnMut(&World) + Send) {
    let (mut seen, mut idle) = (0, 0);
    loop {
        sleep(world.dice.millis(least, most)).await;
        let version = world.api.moves();
        idle = if version == seen { idle + 1 } else { 0 };
        seen = version;
        if idle % IDLE_MAX == 0 && !world.switches().api_away {
            work(&world);
        }
    }
}

/// Marks nodes whose Leases stand still, by what it has itself seen of them.
async fn lifecycle(world: World) {
    // By the uid of the Node: one that is created anew is looked at anew.
    let mut seen: BTreeMap<String, (String, Duration)> = BTreeMap::new();
    loop {
        sleep(world.dice.millis(4500, 5500)).await;
        if world.switches().api_away {
            continue;
        }
        if world.switches().managers_down {
            // Another one begins with what it then sees.
            seen.clear();
            continue;
        }
        for node in world.api.all(&NODE) {
            let name = text(&node, "/metadata/name");
            let lease = world.api.get(&LEASE, NODE_LEASES, name);
            let renewed = lease.map_or(String::new(), |lease| {
                text(&lease, "/spec/renewTime").to_owned()
            });
            let entry = seen
                .entry(text(&node, "/metadata/uid").to_owned())
                .or_insert_with(|| (renewed.clone(), elapsed()));
            if entry.0 != renewed {
                *entry = (renewed, elapsed());
            }
            let is_dead = elapsed() >= entry.1 + GRACE;
            mark(&world, &node, name, is_dead);
        }
    }
}

fn mark(world: &World, node: &Value, name: &str, is_dead: bool) {
    let lost = is_dead && ready(node) != "Unknown";
    let tainted = taint(node, UNREACHABLE).is_some();
    // What somebody else has made Unknown it taints with its next pass.
    let is_told = ready(node) == "Unknown" && reason(node) == POWERED_OFF;
    let back = !is_dead && ready(node) == "True" && tainted;
    if lost || ((is_dead || is_told) && !tainted) {
        let time = now();
        let _ = world.api.change(MANAGER, &NODE, ("", name), |node| {
            if lost {
                node["status"]["conditions"] = json!([condition("Unknown")]);
            }
            let mut all = taints(node).to_vec();
            all.retain(|taint| taint["key"] != UNREACHABLE);
            all.extend(
                ["NoSchedule", "NoExecute"]
                    .map(|effect| json!({"key": UNREACHABLE, "effect": effect, "timeAdded": time})),
            );
            node["spec"]["taints"] = json!(all);
        });
        world.log.tell(name, "is Unknown");
    } else if back {
        let _ = world.api.change(MANAGER, &NODE, ("", name), |node| {
            let mut all = taints(node).to_vec();
            all.retain(|taint| taint["key"] != UNREACHABLE);
            match all.is_empty() {
                true => drop(
                    node["spec"]
                        .as_object_mut()
                        .and_then(|spec| spec.remove("taints")),
                ),
                false => node["spec"]["taints"] = json!(all),
            }
        });
    }
}

/// Deletes what does not tolerate a NoExecute taint of its node, with the grace that it asks for.
fn eviction(world: &World) {
    if world.switches().managers_down {
        return;
    }
    let nodes = world.api.all(&NODE);
    for pod in world.api.all(&POD) {
        if is_leaving(&pod) {
            continue;
        }
        let node = text(&pod, "/spec/nodeName");
        let Some(node) = nodes.iter().find(|it| text(it, "/metadata/name") == node) else {
            continue;
        };
        let mut hostile = taints(node)
            .iter()
            .filter(|taint| taint["effect"] == "NoExecute");
        if hostile.any(|taint| !tolerates(&pod, taint)) {
            remove(world, &pod, &Value::Null);
        }
    }
}

fn remove(world: &World, pod: &Value, options: &Value) {
    let place = (
        text(pod, "/metadata/namespace"),
        text(pod, "/metadata/name"),
    );
    let _ = world.api.delete(MANAGER, &POD, place, options);
}

/// Forces out what hangs on nodes that are out of service, and what is bound to nodes that do not exist.
fn pod_gc(world: &World) {
    let off = {
        let switches = world.switches();
        switches.managers_down || switches.no_pod_gc
    };
    if off {
        return;
    }
    for pod in world.api.all(&POD) {
        let node = world.api.get(&NODE, "", text(&pod, "/spec/nodeName"));
        let is_stuck = node.as_ref().is_none_or(|node| {
            is_leaving(&pod) && ready(node) != "True" && taint(node, OUT_OF_SERVICE).is_some()
        });
        if is_stuck {
            let options =
                json!({"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}});
            remove(world, &pod, &options);
        }
    }
}

/// Deletes the Leases of kubelets whose Node is gone, as the Node owns them.
fn lease_gc(world: &World) {
    if world.switches().managers_down {
        return;
    }
    for lease in world.api.all(&LEASE) {
        let place = (NODE_LEASES, text(&lease, "/metadata/name"));
        let is_left = text(&lease, "/metadata/namespace") == NODE_LEASES
            && world.api.get(&NODE, "", place.1).is_none();
        if is_left {
            let _ = world.api.delete(MANAGER, &LEASE, place, &Value::Null);
        }
    }
}

/// Attaches what pods need, and detaches what no pod of the node needs any more: at once where the node is out of service, else when its
/// kubelet has unmounted it, and where it `waits` for kubelets as the real one does, when the Node says so too.
fn attach_detach(world: &World, waits: bool) {
    let off = {
        let switches = world.switches();
        switches.managers_down || switches.no_attach_detach
    };
    if off {
        return;
    }
    let pods = world.api.all(&POD);
    let attachments = world.api.all(&ATTACHMENT);
    for attachment in &attachments {
        let at = text(attachment, "/spec/nodeName");
        let of = text(attachment, "/spec/source/persistentVolumeName");
        let wanted = pods
            .iter()
            .any(|pod| text(pod, "/spec/nodeName") == at && volume(pod).as_deref() == Some(of));
        if wanted || is_leaving(attachment) {
            continue;
        }
        // Only out-of-service takes a volume from under a container: whatever else is wrong with attach/detach is not looked for here.
        let node = world.api.get(&NODE, "", at);
        let is_free = || {
            world.of_node(at).is_none_or(|(_, machine)| {
                let mut all = machine.alive();
                !all.any(|it| it.volume.as_deref() == Some(of))
            })
        };
        let is_out = |node: &Arc<Value>| taint(node, OUT_OF_SERVICE).is_some();
        let is_said = !waits || node.as_ref().is_none_or(|node| !is_in_use(node, of));
        if node.as_ref().is_some_and(is_out) || is_said && is_free() {
            let place = ("", text(attachment, "/metadata/name"));
            let _ = world.api.delete(MANAGER, &ATTACHMENT, place, &Value::Null);
        }
    }
    for pod in &pods {
        attach(world, pod, &attachments);
    }
    tell_attached(world);
}

/// Does the kubelet say that it uses the volume? What the one of a dead boot has said stands until another one speaks.
fn is_in_use(node: &Value, volume: &str) -> bool {
    let used = node["status"]["volumesInUse"].as_array();
    used.into_iter().flatten().any(|it| it == volume)
}

fn attach(world: &World, pod: &Value, attachments: &[Arc<Value>]) {
    let (Some(volume), node) = (volume(pod), text(pod, "/spec/nodeName")) else {
        return;
    };
    let taken = attachments
        .iter()
        .any(|it| text(it, "/spec/source/persistentVolumeName") == volume);
    let wants = !is_leaving(pod) && !taken && world.api.get(&NODE, "", node).is_some();
    if wants {
        let _ = world
            .api
            .add(MANAGER, &ATTACHMENT, attachment(&volume, node));
    }
}

/// `volumesAttached` of the Nodes.
fn tell_attached(world: &World) {
    let attachments = world.api.all(&ATTACHMENT);
    for node in world.api.all(&NODE) {
        let name = text(&node, "/metadata/name");
        let attached: Vec<Value> = attachments
            .iter()
            .filter(|it| text(it, "/spec/nodeName") == name && it["status"]["attached"] == true)
            .map(|it| json!({"name": text(it, "/spec/source/persistentVolumeName"), "devicePath": ""}))
            .collect();
        let told = node["status"]["volumesAttached"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        if told != attached {
            let _ = world.api.change(MANAGER, &NODE, ("", name), |node| {
                node["status"]["volumesAttached"] = json!(attached);
            });
        }
    }
}

/// The CSI driver and its attacher: one volume at a time, and not always at once.
fn csi(world: &World) {
    if world.switches().csi_stuck {
        return;
    }
    for attachment in world.api.all(&ATTACHMENT) {
        let name = text(&attachment, "/metadata/name");
        if is_leaving(&attachment) && world.dice.chance(70) {
            judge_detach(world, &attachment);
            let _ = world
                .api
                .change("csi", &ATTACHMENT, ("", name), |attachment| {
                    attachment["metadata"]["finalizers"] = json!([]);
                });
        } else if attachment["status"]["attached"] != true && !is_leaving(&attachment) {
            let _ = world
                .api
                .change("csi", &ATTACHMENT, ("", name), |attachment| {
                    attachment["status"]["attached"] = json!(true);
                });
        }
    }
}

/// No volume is taken from under a container that can still write to it; unless etcd was put back to a state in which it was detached.
pub fn judge_detach(world: &World, attachment: &Value) {
    let node = text(attachment, "/spec/nodeName");
    let of = text(attachment, "/spec/source/persistentVolumeName");
    let writer = world.of_node(node).and_then(|(_, machine)| {
        let mut all = machine.alive();
        let writer = all.find(|it| it.volume.as_deref() == Some(of) && !it.is_forgotten);
        writer.map(|it| it.pod.clone())
    });
    world.log.tell("csi", format!("detaches {of} from {node}"));
    if let Some(pod) = writer {
        world.violation(format!(
            "S1: {of} is detached from {node} while {pod} writes to it there"
        ));
    }
}

/// The owners of the workload, and the scheduler: what is missing is made anew on a node that will have it.
fn keep_up(world: &World, workload: &Workload) {
    let nodes = world.api.all(&NODE);
    let free: Vec<&str> = nodes
        .iter()
        .filter(|node| {
            let mut all = taints(node).iter();
            ready(node) == "True"
                && node["spec"]["unschedulable"] != true
                && !all.any(|it| it["effect"] != "PreferNoSchedule")
        })
        .map(|node| text(node, "/metadata/name"))
        .collect();
    let mut wanted: Vec<(String, Role)> = Vec::new();
    wanted.extend((0..workload.databases).map(|at| (format!("db-{at}"), Role::Database)));
    wanted.extend((0..workload.webs).map(|at| (format!("web-{at}"), Role::Web)));
    for (name, role) in wanted {
        if !free.is_empty() && world.api.get(&POD, WORK, &name).is_none() {
            let node = *world.dice.pick(&free);
            let _ = world.api.add("scheduler", &POD, pod(&name, node, role));
        }
    }
    for node in &nodes {
        let node = text(node, "/metadata/name");
        for (name, role) in [("agent", Role::Agent), ("static", Role::Static)] {
            let name = format!("{name}-{node}");
            if world.api.get(&POD, WORK, &name).is_none() {
                let _ = world.api.add("scheduler", &POD, pod(&name, node, role));
            }
        }
    }
}
