//! What people do, to the cluster and with the machines: each happens, lasts, and is undone.

use super::Fault;
use crate::objects::{
    CLAIM, ELECTION, NAMESPACE, OUT_OF_SERVICE, SECRET, is_ended, taint, taints, text,
};
use crate::stage::Stage;
use fencing_drivers::clock::Clock;
use serde_json::{Value, json};
use simapi::kinds::{FENCE, LEASE, NODE, POD, POLICY, SECRET as SECRETS};
use std::time::Duration;
use tokio::time::sleep;

/// Until a node that is cut off is noticed, and its power is read.
const UNTIL_READ: Duration = Duration::from_secs(60);

pub(super) fn forge_lease(stage: &Stage) {
    let (api, dice) = (&stage.world.api, &stage.world.dice);
    let place = (NAMESPACE, ELECTION);
    let forged = match dice.between(0, 4) {
        0 => {
            let deleted = api.delete("human", &LEASE, place, &Value::Null);
            stage.world.hit_if(deleted == Ok(true), Fault::LeaseForged);
            return;
        }
        1 => json!({"holderIdentity": "somebody", "renewTime": "2099-01-01T00:00:00.000000Z"}),
        2 => json!({"holderIdentity": "somebody", "leaseDurationSeconds": 2_000_000_000}),
        3 => {
            json!({"holderIdentity": stage.operator().pod(), "renewTime": "2020-01-01T00:00:00.000000Z"})
        }
        _ => json!({"holderIdentity": "", "leaseTransitions": -1}),
    };
    let changed = api.change("human", &LEASE, place, |lease| {
        for (field, value) in forged.as_object().into_iter().flatten() {
            lease["spec"][field] = value.clone();
        }
    });
    stage.world.hit_if(changed == Ok(true), Fault::LeaseForged);
}

pub(super) async fn edit_policy(stage: &Stage, time: Duration) {
    let api = &stage.world.api;
    let done = if stage.world.dice.chance(50) {
        api.delete("human", &POLICY, ("", "all"), &Value::Null)
    } else {
        api.change("human", &POLICY, ("", "all"), |policy| {
            let mut pause = json!({"name": "human"});
            // Without another throw of the dice, so that the seeds stay what they were.
            if time.as_secs().is_multiple_of(2) {
                pause["expireTime"] = json!((Clock::SYSTEM.wall() + time / 2).to_string());
            } else {
                policy["spec"]["fence"]["mode"] = json!("Observe");
            }
            policy["spec"]["pauseRequests"] = json!([pause]);
        })
    };
    stage.world.hit_if(done == Ok(true), Fault::PolicyEdit);
    sleep(time).await;
    stage.put_policy();
}

pub(super) async fn lose_secret(stage: &Stage, time: Duration) {
    let (api, place) = (&stage.world.api, (NAMESPACE, SECRET));
    let done = if stage.world.dice.chance(50) {
        api.delete("human", &SECRETS, place, &Value::Null)
    } else {
        api.change("human", &SECRETS, place, |secret| {
            secret["data"]["password"] = json!("d3Jvbmc=");
        })
    };
    stage.world.hit_if(done == Ok(true), Fault::SecretGone);
    sleep(time).await;
    stage.put_secret();
}

pub(super) async fn taint_by_hand(stage: &Stage, machine: &str, time: Duration) {
    let adds = stage.world.dice.chance(50);
    let key = *stage.world.dice.pick(&[OUT_OF_SERVICE, CLAIM]);
    // A human who puts a node out of service has made sure that it is down.
    let it = stage.world.machine(machine);
    let (node, is_down) = (it.node, !it.on);
    let _ = stage.world.api.change("human", &NODE, ("", &node), |node| {
        let mut all = taints(node).to_vec();
        let there = all.iter().any(|taint| taint["key"] == key);
        if adds && key == OUT_OF_SERVICE && is_down {
            // Over ours as well, as `kubectl taint --overwrite` does: it is theirs then.
            all.retain(|taint| taint["key"] != key);
            all.push(json!({"key": key, "value": "nodeshutdown", "effect": "NoExecute"}));
            stage.world.hit(Fault::HumanTaints);
        } else if !adds {
            all.retain(|taint| taint["key"] != key);
            stage.world.hit_if(there, Fault::HumanTaints);
        }
        node["spec"]["taints"] = json!(all);
    });
    sleep(time).await;
}

/// The node is cut off, and comes back the moment it is claimed.
pub(super) async fn heal_claimed(stage: &Stage, machine: &str) {
    let world = &stage.world;
    world.with(machine, |machine| machine.cut = true);
    let node = world.machine(machine).node;
    for _ in 0..1200 {
        sleep(Duration::from_millis(100)).await;
        let object = world.api.get(&NODE, "", &node);
        if object.is_some_and(|node| taint(&node, CLAIM).is_some()) {
            world.count(Fault::HealsClaimed.name());
            world.log.tell(machine, "is reached again");
            break;
        }
    }
    world.with(machine, |machine| machine.cut = false);
}

/// The node is cut off and runs on, and the way to its BMC leads to that of another machine, which is down.
pub(super) async fn miswire(stage: &Stage, machine: &str, time: Duration) {
    let world = &stage.world;
    let others: Vec<String> = world
        .names()
        .into_iter()
        .filter(|name| name != machine)
        .collect();
    let other = world.dice.pick(&others).clone();
    world.log.tell(machine, format!("has the BMC of {other}"));
    world.fails(&other, "its power fails");
    world.with(machine, |machine| {
        machine.bmc.leads_to = Some(other.clone());
        machine.cut = true;
    });
    sleep(UNTIL_READ + time).await;
    world.with(machine, |machine| {
        machine.bmc.leads_to = None;
        machine.cut = false;
    });
}

/// The machine gets a new system, and is another Node from then on.
pub(super) async fn install_anew(stage: &Stage, machine: &str, time: Duration) {
    let world = &stage.world;
    let old = world.machine(machine).node;
    let new = format!("{machine}.{}", world.machine(machine).boots + 1);
    world.fails(machine, "it is installed anew");
    if world.dice.chance(70) {
        let _ = world.api.delete("human", &NODE, ("", &old), &Value::Null);
    }
    sleep(time / 4).await;
    // Somebody else may have turned it on.
    world.fails(machine, "it is installed anew");
    world.with(machine, |machine| {
        machine.node.clone_from(&new);
        machine.reported = false;
    });
    let _ = world.api.delete("human", &NODE, ("", &old), &Value::Null);
    world.log.tell(machine, format!("is {new} from now on"));
    world.hit(Fault::Reimaged);
    world.power_on(machine, "with a new system");
    sleep(time / 4).await;
    stage.put_devices();
}

/// An operator of a later version has written into the record of an incident.
pub(super) fn write_as_newer(stage: &Stage) {
    let world = &stage.world;
    for fence in world.api.all(&FENCE) {
        if is_ended(&fence) {
            continue;
        }
        let place = ("", text(&fence, "/metadata/name"));
        let written = world.api.change("newer", &FENCE, place, |fence| {
            let conditions = fence["status"]["conditions"].as_array_mut();
            for condition in conditions.into_iter().flatten() {
                if condition["type"] == "Succeeded" {
                    condition["reason"] = json!("Teleporting");
                }
            }
            fence["status"]["teleporter"] = json!({"phase": 3});
        });
        if written == Ok(true) {
            world.count(Fault::Newer.name());
        }
    }
}

/// A pod of the machine cannot go.
pub(super) async fn hold_pod(stage: &Stage, machine: &str, time: Duration) {
    let world = &stage.world;
    let node = world.machine(machine).node;
    let pods = world.api.all(&POD);
    let Some(pod) = pods.iter().find(|pod| text(pod, "/spec/nodeName") == node) else {
        return;
    };
    let place = (
        text(pod, "/metadata/namespace"),
        text(pod, "/metadata/name"),
    );
    let hold = |finalizers: Value| {
        world.api.change("human", &POD, place, |pod| {
            pod["metadata"]["finalizers"] = finalizers;
        })
    };
    if hold(json!(["example.com/hold"])) == Ok(true) {
        world.count(Fault::PodHeld.name());
    }
    sleep(time * 2).await;
    let _ = hold(json!([]));
}
