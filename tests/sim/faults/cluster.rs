//! What happens to the cluster and its machines: each happens, lasts, and is undone.

use super::Fault;
use super::steps::ON_WHILE_DETACHING;
use crate::objects::{is_leaving, text};
use crate::stage::Stage;
use serde_json::{Value, json};
use simapi::kinds::{ATTACHMENT, NODE};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

pub(super) async fn watch_loss(stage: &Stage, time: Duration) {
    match stage.world.dice.between(0, 2) {
        0 => {
            stage.world.api.end_watches();
            stage.world.hit(Fault::WatchLoss);
        }
        1 => {
            stage.world.api.compact();
            stage.world.api.end_watches();
            stage.world.hit(Fault::WatchLoss);
        }
        _ => {
            let Some(network) = stage.network() else {
                return;
            };
            network.faults().watches_dead = true;
            sleep(time).await;
            network.faults().watches_dead = false;
        }
    }
}

pub(super) fn miss(stage: &Stage) {
    if let Some(network) = stage.network() {
        let events = stage.world.dice.between(1, 8);
        network.faults().missed = u32::try_from(events).unwrap_or(1);
    }
}

pub(super) async fn revoke(stage: &Stage, time: Duration) {
    let mut rights = vec![
        ("patch", "nodes"),
        ("patch", "nodefences/status"),
        ("list", "pods"),
        ("delete", "pods"),
        ("get", "nodes"),
        ("list", "volumeattachments"),
        ("create", "nodefences"),
        ("watch", "nodes"),
    ];
    if stage.plan.deletes_node {
        rights.extend([("delete", "nodes"), ("delete", "volumeattachments")]);
    }
    let (verb, resource) = *stage.world.dice.pick(&rights);
    stage
        .world
        .log
        .tell("FAULT", format!("nobody may {verb} {resource}"));
    stage.world.api.deny(verb, resource);
    sleep(time).await;
    stage.world.api.allow_everything();
}

pub(super) async fn cut(stage: &Stage, fault: Fault, machines: &[String], time: Duration) {
    for name in machines {
        let runs = stage.world.with(name, |machine| {
            machine.cut = true;
            machine.on
        });
        stage.world.hit_if(runs, fault);
    }
    sleep(time).await;
    for name in machines {
        stage.world.with(name, |machine| machine.cut = false);
    }
}

pub(super) async fn freeze(stage: &Stage, machine: &str, time: Duration) {
    let runs = stage.world.with(machine, |machine| {
        machine.hung = true;
        machine.on
    });
    stage.world.hit_if(runs, Fault::Freeze);
    sleep(time * 2).await;
    stage.world.with(machine, |machine| machine.hung = false);
}

pub(super) async fn site_power(stage: &Stage, time: Duration) {
    let mains = stage.world.dice.chance(50);
    for name in stage.world.names() {
        let was_on = stage.world.with(&name, |machine| {
            machine.mains = mains;
            machine.on
        });
        stage.world.hit_if(was_on, Fault::SitePower);
        stage.world.fails(&name, "the site's power fails");
    }
    sleep(time).await;
    for name in stage.world.names() {
        stage.world.with(&name, |machine| machine.mains = true);
        stage.world.power_on(&name, "the site's power is back");
    }
}

pub(super) async fn managers_down(stage: &Stage, time: Duration) {
    let which = stage.world.dice.between(0, 3);
    let set = |on: bool| {
        let mut switches = stage.world.switches();
        match which {
            0 => switches.managers_down = on,
            1 => switches.no_pod_gc = on,
            2 => switches.no_attach_detach = on,
            _ => switches.csi_stuck = on,
        }
    };
    set(true);
    stage.world.hit(Fault::ManagersDown);
    sleep(time * 2).await;
    set(false);
}

pub(super) async fn storm(stage: &Stage, machine: &str, time: Duration) {
    let node = stage.world.machine(machine).node;
    for number in 0..time.as_millis() / 100 {
        let written = stage.world.api.change("human", &NODE, ("", &node), |node| {
            node["metadata"]["annotations"]["storm"] = json!(number.to_string());
        });
        stage.world.hit_if(written == Ok(true), Fault::Storm);
        sleep(Duration::from_millis(100)).await;
    }
}

pub(super) async fn terminate(stage: &Stage) {
    let operator = stage.operator();
    let is_leader = stage.leader().as_deref() == Some(operator.pod().as_str());
    let Some(work) = operator.terminate() else {
        return;
    };
    stage.world.hit(Fault::Terminate);
    let end = tokio::time::timeout(Duration::from_secs(5), work).await;
    stage.world.judged("L8");
    if end.is_err() {
        stage
            .world
            .violation("L8: it has not ended 5 s after the signal".to_owned());
    }
    let keeps = stage.leader().as_deref() == Some(operator.pod().as_str());
    if is_leader && keeps && stage.plan.only(&[Fault::Terminate, Fault::Storm]) {
        stage
            .world
            .violation("L8: it has ended and keeps the Lease".to_owned());
    }
    sleep(Duration::from_secs(2)).await;
    operator.revive();
}

pub(super) async fn behind(stage: &Stage, time: Duration) {
    let Some(network) = stage.network() else {
        return;
    };
    // Some of what is about to happen happens before the clients come to this server.
    let behind = stage.world.api.left_behind();
    network.faults().behind = Some(behind.clone());
    sleep(stage.world.dice.seconds(0, 10)).await;
    stage.world.api.end_watches();
    sleep(time).await;
    network.faults().behind = None;
    behind.end_watches();
}

/// Somebody turns a machine on as soon as its volumes begin to detach.
pub(super) async fn on_while_detaching(stage: &Stage) {
    let leaves = |attachment: &&Arc<Value>| is_leaving(attachment);
    // As long as the trouble lasts, at most.
    for _ in 0..12_000 {
        sleep(Duration::from_millis(20)).await;
        let attachments = stage.world.api.all(&ATTACHMENT);
        let Some(attachment) = attachments.iter().find(leaves) else {
            continue;
        };
        let node = text(attachment, "/spec/nodeName");
        if let Some((machine, _)) = stage.world.of_node(node).filter(|(_, it)| !it.on) {
            stage.world.count(ON_WHILE_DETACHING);
            stage.world.power_on(&machine, "by hand, meanwhile");
            return;
        }
    }
}
