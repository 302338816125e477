//! What happens to the cluster, its machines and its people: each happens, lasts, and is undone.

use super::Fault;
use crate::objects::{CLAIM, ELECTION, NAMESPACE, OUT_OF_SERVICE, SECRET, taints};
use crate::stage::Stage;
use serde_json::{Value, json};
use simapi::kinds::{LEASE, NODE, POLICY, SECRET as SECRETS};
use std::time::Duration;
use tokio::time::sleep;

pub(super) async fn watch_loss(stage: &Stage, time: Duration) {
    match stage.world.dice.between(0, 2) {
        0 => stage.world.api.end_watches(),
        1 => {
            stage.world.api.compact();
            stage.world.api.end_watches();
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

pub(super) fn forge_lease(stage: &Stage) {
    let (api, dice) = (&stage.world.api, &stage.world.dice);
    let place = (NAMESPACE, ELECTION);
    let forged = match dice.between(0, 4) {
        0 => {
            let _ = api.delete("human", &LEASE, place, &Value::Null);
            return;
        }
        1 => json!({"holderIdentity": "somebody", "renewTime": "2099-01-01T00:00:00.000000Z"}),
        2 => json!({"holderIdentity": "somebody", "leaseDurationSeconds": 2_000_000_000}),
        3 => {
            json!({"holderIdentity": stage.operator().pod(), "renewTime": "2020-01-01T00:00:00.000000Z"})
        }
        _ => json!({"holderIdentity": "", "leaseTransitions": -1}),
    };
    let _ = api.change("human", &LEASE, place, |lease| {
        for (field, value) in forged.as_object().into_iter().flatten() {
            lease["spec"][field] = value.clone();
        }
    });
}

pub(super) async fn revoke(stage: &Stage, time: Duration) {
    let rights = [
        ("patch", "nodes"),
        ("patch", "nodefences/status"),
        ("list", "pods"),
        ("delete", "pods"),
        ("get", "nodes"),
        ("list", "volumeattachments"),
        ("create", "nodefences"),
        ("watch", "nodes"),
    ];
    let (verb, resource) = *stage.world.dice.pick(&rights);
    stage
        .world
        .log
        .tell("FAULT", format!("nobody may {verb} {resource}"));
    stage.world.api.deny(verb, resource);
    sleep(time).await;
    stage.world.api.allow_everything();
}

pub(super) async fn cut(stage: &Stage, machines: &[String], time: Duration) {
    for name in machines {
        stage.world.with(name, |machine| machine.cut = true);
    }
    sleep(time).await;
    for name in machines {
        stage.world.with(name, |machine| machine.cut = false);
    }
}

pub(super) async fn freeze(stage: &Stage, machine: &str, time: Duration) {
    stage.world.with(machine, |machine| machine.hung = true);
    sleep(time * 2).await;
    stage.world.with(machine, |machine| machine.hung = false);
}

pub(super) async fn site_power(stage: &Stage, time: Duration) {
    let mains = stage.world.dice.chance(50);
    for name in stage.world.names() {
        stage.world.with(&name, |machine| machine.mains = mains);
        stage.world.power_off(&name, "the site's power fails");
    }
    sleep(time).await;
    for name in stage.world.names() {
        stage.world.with(&name, |machine| machine.mains = true);
        stage.world.power_on(&name, "the site's power is back");
    }
}

pub(super) async fn edit_policy(stage: &Stage, time: Duration) {
    let api = &stage.world.api;
    if stage.world.dice.chance(50) {
        let _ = api.delete("human", &POLICY, ("", "all"), &Value::Null);
    } else {
        let _ = api.change("human", &POLICY, ("", "all"), |policy| {
            policy["spec"]["fence"]["mode"] = json!("Observe");
            policy["spec"]["pauseRequests"] = json!([{"name": "human"}]);
        });
    }
    sleep(time).await;
    stage.put_policy();
}

pub(super) async fn lose_secret(stage: &Stage, time: Duration) {
    let (api, place) = (&stage.world.api, (NAMESPACE, SECRET));
    if stage.world.dice.chance(50) {
        let _ = api.delete("human", &SECRETS, place, &Value::Null);
    } else {
        let _ = api.change("human", &SECRETS, place, |secret| {
            secret["data"]["password"] = json!("d3Jvbmc=");
        });
    }
    sleep(time).await;
    stage.put_secret();
}

pub(super) async fn taint_by_hand(stage: &Stage, machine: &str, time: Duration) {
    let adds = stage.world.dice.chance(50);
    let key = *stage.world.dice.pick(&[OUT_OF_SERVICE, CLAIM]);
    // A human who puts a node out of service has made sure that it is down.
    let is_down = !stage.world.machine(machine).on;
    let _ = stage
        .world
        .api
        .change("human", &NODE, ("", machine), |node| {
            let mut all = taints(node).to_vec();
            let there = all.iter().any(|taint| taint["key"] == key);
            if adds && !there && key == OUT_OF_SERVICE && is_down {
                all.push(json!({"key": key, "value": "nodeshutdown", "effect": "NoExecute"}));
            } else if !adds {
                all.retain(|taint| taint["key"] != key);
            }
            node["spec"]["taints"] = json!(all);
        });
    sleep(time).await;
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
    sleep(time * 2).await;
    set(false);
}

pub(super) async fn storm(stage: &Stage, machine: &str, time: Duration) {
    for number in 0..time.as_millis() / 100 {
        let _ = stage
            .world
            .api
            .change("human", &NODE, ("", machine), |node| {
                node["metadata"]["annotations"]["storm"] = json!(number.to_string());
            });
        sleep(Duration::from_millis(100)).await;
    }
}

pub(super) async fn terminate(stage: &Stage) {
    let operator = stage.operator();
    let is_leader = stage.leader().as_deref() == Some(operator.pod().as_str());
    let Some(work) = operator.terminate() else {
        return;
    };
    let end = tokio::time::timeout(Duration::from_secs(5), work).await;
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
