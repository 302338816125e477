//! Another controller asks for the fence of a node by a NodeFenceRemediation, as NodeHealthCheck does, and withdraws that at some moment.

use super::{Fault, cluster};
use crate::objects::{WORK, is_ended, now, text};
use crate::stage::Stage;
use serde_json::{Value, json};
use simapi::kinds::{FENCE, REMEDIATION};
use std::time::Duration;
use tokio::time::sleep;

/// The NodeFence of one that was withdrawn has ended before its taint.
const WITHDRAWN: &str = "L1 withdrawn";
/// How long its NodeFence is waited for, in seconds: until its Node is Unknown, and then some.
const PATIENCE: u64 = 80;
/// Until a NodeFence has ended whose remediation is gone.
const HEEDED: Duration = Duration::from_secs(20);

/// As the summary names what comes of it.
pub(super) fn names() -> Vec<&'static str> {
    vec![WITHDRAWN]
}

/// The machine loses its power, or only its kubelet hangs: then it can be proven down by an off alone.
pub(super) async fn ask(stage: &Stage, machine: &str, time: Duration) {
    if stage.world.dice.chance(50) {
        stage.world.fails(machine, "its power fails");
        remediate(stage, machine, time).await;
    } else {
        let hangs = cluster::freeze(stage, machine, time);
        tokio::join!(remediate(stage, machine, time), hangs);
    }
}

async fn remediate(stage: &Stage, machine: &str, time: Duration) {
    let (world, dice) = (&stage.world, &stage.world.dice);
    // Mostly before the Node is Unknown, and so before the policy's wait is over.
    sleep(dice.seconds(0, 45)).await;
    let node = world.machine(machine).node;
    let wanted = json!({"metadata": {"name": node, "namespace": WORK}, "spec": {}});
    let Ok(made) = world.api.add("caller", &REMEDIATION, wanted) else {
        return;
    };
    world.log.tell("caller", format!("asks for {node}"));
    let uid = text(&made, "/metadata/uid");
    let mut fence = None;
    for _ in 0..PATIENCE {
        fence = opened_for(stage, uid);
        if fence.is_some() {
            break;
        }
        sleep(Duration::from_secs(1)).await;
    }
    world.hit_if(fence.is_some(), Fault::Remediation);
    sleep(time / *dice.pick(&[5, 10, 30, 90])).await;
    withdraw(stage, &node).await;
    sleep(HEEDED).await;
    let fence = fence.and_then(|name| world.api.get(&FENCE, "", &name));
    if fence.is_some_and(|it| is_ended(&it) && is_told_why(&it)) {
        world.count(WITHDRAWN);
    }
}

/// The NodeFence that was opened for it.
fn opened_for(stage: &Stage, uid: &str) -> Option<String> {
    let all = stage.world.api.all(&FENCE);
    let mut its = all
        .iter()
        .filter(|it| text(it, "/spec/trigger/remediation/uid") == uid);
    its.next().map(|it| text(it, "/metadata/name").to_owned())
}

/// NodeHealthCheck deletes what it has stopped only once the node is healthy.
async fn withdraw(stage: &Stage, node: &str) {
    let (world, dice) = (&stage.world, &stage.world.dice);
    let place = (WORK, node);
    if dice.chance(50) {
        let stopped = json!({"remediation.medik8s.io/nhc-timed-out": now()});
        let annotated = world.api.change("caller", &REMEDIATION, place, |it| {
            it["metadata"]["annotations"] = stopped;
        });
        world
            .log
            .tell("caller", format!("stops that of {node}: {annotated:?}"));
        sleep(dice.seconds(1, 60)).await;
    }
    let deleted = world
        .api
        .delete("caller", &REMEDIATION, place, &Value::Null);
    world
        .log
        .tell("caller", format!("deletes that of {node}: {deleted:?}"));
}

fn is_told_why(fence: &Value) -> bool {
    let conditions = fence["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| text(it, "/message").ends_with("was deleted, or has timed out"))
}
