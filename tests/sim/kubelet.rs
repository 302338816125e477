//! The kubelets, as real ones were seen to behave: after a boot, pods that are still bound start *before* the node says Ready; a start in
//! flight survives the deletion of its pod; a pod that is being deleted is torn down and never started; the Lease may be the only sign of
//! life.

use crate::libc::elapsed;
use crate::objects::{
    NODE_LEASES, condition, is_leaving, node, now, ready, taints, text, tolerates,
    tolerates_out_of_service, volume,
};
use crate::world::{Container, Machine, World};
use serde_json::{Value, json};
use simapi::kinds::{ATTACHMENT, LEASE, NODE, POD};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Time between two renewals of the Lease.
const LEASE_PERIOD: Duration = Duration::from_secs(10);
/// A Lease that is renewed later than that is silent for the operator.
const SILENCE: Duration = Duration::from_secs(12);
/// Time between two reports of a node on which nothing changes.
const REPORT_PERIOD: Duration = Duration::from_secs(120);
/// Who writes.
const KUBELET: &str = "kubelet";

/// The kubelet of one node, through all boots of its machine.
pub async fn run(world: World, machine: String) {
    let mut kubelet = Kubelet {
        world,
        name: machine.clone(),
        machine,
        renewed: Duration::ZERO,
        renewed_in: 0,
        reported: Duration::ZERO,
        boot: 0,
        report_at: Duration::ZERO,
        synced: 0,
        restarts: 0,
    };
    loop {
        let pause = kubelet.world.dice.millis(600, 1400);
        sleep(pause).await;
        kubelet.tick();
    }
}

/// Two nodes never write one volume; unless etcd has forgotten that one of them does.
pub fn judge_start(world: &World, container: &Container) {
    let Some(volume) = &container.volume else {
        return;
    };
    let writers: Vec<String> = {
        let machines = world.machines();
        let writes = |machine: &Machine| {
            let mut running = machine.containers.values();
            running.any(|other| other.volume.as_ref() == Some(volume) && !other.is_forgotten)
        };
        let writing = machines.iter().filter(|(_, machine)| writes(machine));
        writing.map(|(name, _)| name.clone()).collect()
    };
    if writers.len() > 1 {
        world.violation(format!(
            "S1: {volume} is written by {}",
            writers.join(" and ")
        ));
    }
}

/// etcd was put back: it knows nothing of what came to a machine since.
pub fn forgotten(world: &World) {
    let pods = world.api.all(&POD);
    let attachments = world.api.all(&ATTACHMENT);
    for machine in world.machines().values_mut() {
        let node = machine.node.as_str();
        let is_known = |uid: &str, volume: Option<&str>| {
            let here = |object: &Value| text(object, "/spec/nodeName") == node;
            let of = |it: &Value| {
                volume == Some(text(it, "/spec/source/persistentVolumeName")) && !is_leaving(it)
            };
            let has_pod = pods
                .iter()
                .any(|pod| here(pod) && text(pod, "/metadata/uid") == uid);
            let has_volume = volume.is_none() || attachments.iter().any(|it| here(it) && of(it));
            has_pod && has_volume
        };
        let running = machine.containers.iter_mut();
        let starting = machine.starting.iter_mut();
        let starting = starting.map(|(uid, (_, container))| (uid, container));
        for (uid, container) in running.chain(starting) {
            container.is_forgotten |= !is_known(uid, container.volume.as_deref());
        }
    }
}

struct Kubelet {
    world: World,
    machine: String,
    /// Of its Node.
    name: String,
    renewed: Duration,
    /// In which boot.
    renewed_in: u32,
    reported: Duration,
    boot: u32,
    report_at: Duration,
    /// How much had been written when the pods were looked at last.
    synced: u64,
    /// How often it had begun anew.
    restarts: u32,
}

impl Kubelet {
    fn tick(&mut self) {
        let now = elapsed();
        let machine = self.world.machine(&self.machine);
        if !machine.on || now < machine.up_at {
            return;
        }
        self.finish_starts(now);
        if machine.hung || machine.cut || self.world.switches().api_away {
            return;
        }
        if self.restarts != machine.restarts {
            self.restarts = machine.restarts;
            self.renewed = self.renewed.min(now.saturating_sub(LEASE_PERIOD));
            self.reported = Duration::ZERO;
        }
        if self.boot != machine.boots {
            self.boot = machine.boots;
            self.name.clone_from(&machine.node);
            self.synced = 0;
            self.report_at = now + self.world.dice.seconds(2, 8);
        }
        let Some(node) = self.world.api.get(&NODE, "", &self.name) else {
            if !machine.reported {
                let node = node(&self.name, &self.machine, &machine.uuid);
                let _ = self.world.api.add(KUBELET, &NODE, node);
                self.world.log.tell(&self.name, "registers its Node");
            } else {
                self.runs_on(&machine, now);
            }
            return;
        };
        if now >= self.renewed + LEASE_PERIOD {
            if self.renewed_in == self.boot && now >= self.renewed + SILENCE {
                self.world.judged("S24 silence");
            }
            (self.renewed, self.renewed_in) = (now, self.boot);
            if !self.renew() {
                self.make_lease();
            }
        }
        let version = self.world.api.moves();
        let is_busy = !machine.starting.is_empty()
            || machine.containers.values().any(|it| it.stops.is_some());
        if is_busy || self.synced != version {
            self.sync_pods(&machine, Some(&node), now);
            self.synced = version;
        }
        if now >= self.report_at {
            self.report(&machine, &node, now);
        }
    }

    /// Its Node was deleted, and it makes none before it starts anew: it tears down what is to go, starts nothing, and renews the Lease that is
    /// there.
    fn runs_on(&mut self, machine: &Machine, now: Duration) {
        if now >= self.renewed + LEASE_PERIOD {
            self.renewed = now;
            self.renew();
        }
        self.sync_pods(machine, None, now);
    }

    /// Says whether there was a Lease.
    fn renew(&self) -> bool {
        let place = (NODE_LEASES, self.name.as_str());
        let time = now();
        let renewed = self.world.api.change(KUBELET, &LEASE, place, |lease| {
            lease["spec"]["renewTime"] = json!(time);
        });
        renewed != Ok(false)
    }

    fn make_lease(&self) {
        let lease = json!({
            "metadata": {"name": self.name, "namespace": NODE_LEASES},
            "spec": {"holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": now()},
        });
        let _ = self.world.api.add(KUBELET, &LEASE, lease);
    }

    fn finish_starts(&self, now: Duration) {
        let started = self.world.with(&self.machine, |machine| {
            let done = machine.starting.iter().filter(|(_, (at, _))| *at <= now);
            let done: Vec<String> = done.map(|(uid, _)| uid.clone()).collect();
            let mut started = Vec::new();
            for uid in done {
                if let Some((_, container)) = machine.starting.remove(&uid) {
                    started.push(container.clone());
                    machine.containers.insert(uid, container);
                }
            }
            started
        });
        for container in started {
            self.world
                .log
                .tell(&self.name, format!("runs {}", container.pod));
            judge_start(&self.world, &container);
        }
    }

    /// Without a Node nothing is started.
    fn sync_pods(&self, machine: &Machine, node: Option<&Arc<Value>>, now: Duration) {
        let pods = self.world.api.all(&POD);
        let own: Vec<&Arc<Value>> = pods
            .iter()
            .filter(|pod| text(pod, "/spec/nodeName") == self.name)
            .collect();
        for pod in &own {
            let uid = text(pod, "/metadata/uid");
            let runs = machine.containers.contains_key(uid) || machine.starting.contains_key(uid);
            let may_start = |node: &Arc<Value>| self.may_start(pod, node);
            if is_leaving(pod) {
                self.tear_down(pod, uid, now);
            } else if !runs && node.is_some_and(may_start) {
                self.start(pod, uid, now);
            }
        }
        // Of pods that are gone altogether.
        let known = |uid: &String| own.iter().any(|pod| text(pod, "/metadata/uid") == uid);
        let orphans = machine.containers.keys().filter(|uid| !known(uid));
        for uid in orphans {
            self.stop(uid);
        }
        if let Some(node) = node {
            self.tell_volumes(node);
        }
    }

    fn may_start(&self, pod: &Value, node: &Value) -> bool {
        let mut hostile = taints(node)
            .iter()
            .filter(|taint| taint["effect"] == "NoExecute");
        if !hostile.all(|taint| tolerates(pod, taint)) {
            return false;
        }
        let Some(volume) = volume(pod) else {
            return true;
        };
        let name = format!("csi-{volume}-{}", self.name);
        let attached = self.world.api.get(&ATTACHMENT, "", &name);
        attached.is_some_and(|it| it["status"]["attached"] == true && !is_leaving(&it))
    }

    fn start(&self, pod: &Value, uid: &str, now: Duration) {
        let at = now + self.world.dice.millis(200, 2500);
        let container = Container {
            pod: text(pod, "/metadata/name").to_owned(),
            volume: volume(pod),
            stops: None,
            tolerates: tolerates_out_of_service(pod),
            is_forgotten: false,
        };
        self.world.with(&self.machine, |machine| {
            machine.starting.insert(uid.to_owned(), (at, container));
        });
    }

    fn tear_down(&self, pod: &Value, uid: &str, now: Duration) {
        let ends = now + self.world.dice.millis(500, 3000);
        let is_over = self.world.with(&self.machine, |machine| {
            if machine.starting.contains_key(uid) {
                return false;
            }
            match machine.containers.get_mut(uid) {
                Some(container) => now >= *container.stops.get_or_insert(ends),
                None => true,
            }
        });
        if is_over {
            self.stop(uid);
            let name = text(pod, "/metadata/name");
            let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
            let place = (text(pod, "/metadata/namespace"), name);
            let _ = self.world.api.delete(KUBELET, &POD, place, &options);
        }
    }

    fn stop(&self, uid: &str) {
        let stopped = self
            .world
            .with(&self.machine, |machine| machine.containers.remove(uid));
        if let Some(container) = stopped {
            self.world
                .log
                .tell(&self.name, format!("has stopped {}", container.pod));
        }
    }

    /// `volumesInUse`, which attach/detach waits for.
    fn tell_volumes(&self, node: &Value) {
        let machine = self.world.machine(&self.machine);
        let all = machine.alive();
        let mut used: Vec<String> = all.filter_map(|it| it.volume.clone()).collect();
        used.sort();
        let told: Vec<&str> = node["status"]["volumesInUse"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if told != used {
            let _ = self
                .world
                .api
                .change(KUBELET, &NODE, ("", &self.name), |node| {
                    node["status"]["volumesInUse"] = json!(used);
                });
        }
    }

    fn report(&mut self, machine: &Machine, node: &Value, now: Duration) {
        let is_news = !machine.reported || ready(node) != "True";
        if !is_news && now < self.reported + REPORT_PERIOD {
            return;
        }
        self.reported = now;
        let boot = machine.boot_id(&self.machine);
        let _ = self
            .world
            .api
            .change(KUBELET, &NODE, ("", &self.name), |node| {
                let since = node["status"]["conditions"][0]["lastTransitionTime"].clone();
                let mut condition = condition("True");
                if !is_news {
                    condition["lastTransitionTime"] = since;
                }
                node["status"]["conditions"] = json!([condition]);
                node["status"]["nodeInfo"]["bootID"] = json!(boot);
                node["status"]["nodeInfo"]["systemUUID"] = json!(machine.uuid);
            });
        self.world
            .with(&self.machine, |machine| machine.reported = true);
        if is_news {
            self.world
                .log
                .tell(&self.name, format!("says Ready, boot {}", machine.boots));
        }
    }
}
