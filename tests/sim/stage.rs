//! Where a seed plays: the world, its judge, the operators; built whole and healthy, troubled, healed.

mod repair;

use crate::controllers;
use crate::judge::Judge;
use crate::kubelet;
use crate::libc;
use crate::network::Network;
use crate::objects::{CLAIM, EFFECTS, ELECTION, NAMESPACE, SECRET, WORK, ready, taint, text};
use crate::operator::Operator;
use crate::plan::{self, Plan};
use crate::world::{Bmc, Machine, Switches, World};
use fencing_drivers::clock;
use node_fencing_operator::shell::foreign_text::REFUSAL;
use serde_json::{Value, json};
use simapi::kinds::{DEVICE, Kind, LEASE, NODE, POD, POLICY, SECRET as SECRETS};
use simapi::{Api, Refusal};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The CustomResourceDefinitions.
const CRDS: [(&str, &str); 4] = [
    ("nodefences", include_str!("../../crds/nodefences.yaml")),
    ("fencedevices", include_str!("../../crds/fencedevices.yaml")),
    (
        "nodefencingpolicies",
        include_str!("../../crds/nodefencingpolicies.yaml"),
    ),
    (
        "nodefenceremediations",
        include_str!("../../crds/nodefenceremediations.yaml"),
    ),
];

/// Everything. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Stage {
    /// The world.
    pub world: World,
    /// Its judge.
    pub judge: Judge,
    /// What this seed is about.
    pub plan: Arc<Plan>,
    operators: Arc<[Operator; 2]>,
    /// Machines whose BMC did not answer.
    pub silent: Arc<Mutex<BTreeSet<String>>>,
}

impl Stage {
    /// A healthy cluster, with everything in it at work in `tasks`.
    pub fn build(world: World, plan: Plan, tasks: &mut JoinSet<()>) -> Self {
        let judge = Judge::new(&world, &plan);
        if plan.is_guarded {
            world.api.admit(Box::new(admission));
        }
        for number in 0..plan.machines {
            let name = format!("worker-{number}");
            let machine = Machine {
                node: name.clone(),
                uuid: format!("4c4c4544-0042-3510-8052-{:012x}", number + 1),
                on: true,
                mains: true,
                boots: 1,
                up_at: world.dice.seconds(0, 10),
                failed_at: Duration::ZERO,
                reported: false,
                cut: false,
                hung: false,
                restarts: 0,
                containers: BTreeMap::new(),
                starting: BTreeMap::new(),
                bmc: Bmc::default(),
            };
            world.machines().insert(name.clone(), machine);
            world
                .api
                .add("human", &DEVICE, plan::device(&name, &name))
                .expect("a FenceDevice");
            let claims = world.clone();
            tasks.spawn(kubelet::run(claims, name));
        }
        for number in 0..plan.workload.databases {
            let claim = json!({
                "metadata": {"name": format!("data-db-{number}"), "namespace": WORK},
                "spec": {"volumeName": format!("pv-data-db-{number}")},
            });
            world
                .api
                .add("human", &simapi::kinds::CLAIM, claim)
                .expect("a claim");
        }
        controllers::start(&world, &plan, tasks);
        let plan = Arc::new(plan);
        let serves_callers = plan.serves_callers();
        let operators =
            [0, 1].map(|number| Operator::absent(&world, &judge, number, serves_callers));
        for operator in operators.iter().take(plan.replicas) {
            operator.revive();
        }
        for operator in &operators {
            tasks.spawn(operator.clone().supervise());
        }
        let stage = Self {
            world,
            judge,
            plan,
            operators: Arc::new(operators),
            silent: Arc::default(),
        };
        stage.put_secret();
        stage.put_policy();
        stage
    }

    /// The operator that faults are about: mostly the one that leads.
    pub fn operator(&self) -> &Operator {
        let leader = self.leader();
        let mut all = self.operators.iter();
        let leading = all.find(|operator| leader.as_ref() == Some(&operator.pod()));
        match leading {
            Some(leading) if self.world.dice.chance(80) => leading,
            _ => self.world.dice.pick(&self.operators[..self.plan.replicas]),
        }
    }

    /// The machine that a fault is about: often one that is down.
    pub fn machine(&self) -> String {
        let names = self.world.names();
        let down: Vec<String> = {
            let machines = self.world.machines();
            let down = machines.iter().filter(|(_, machine)| !machine.on);
            down.map(|(name, _)| name.clone()).collect()
        };
        let dice = &self.world.dice;
        match !down.is_empty() && dice.chance(50) {
            true => dice.pick(&down).clone(),
            false => dice.pick(&names).clone(),
        }
    }

    /// Both operators, living or not.
    pub fn operators(&self) -> &[Operator] {
        &*self.operators
    }

    /// Who has the Lease.
    pub fn leader(&self) -> Option<String> {
        let lease = self.world.api.get(&LEASE, NAMESPACE, ELECTION)?;
        Some(text(&lease, "/spec/holderIdentity").to_owned()).filter(|holder| !holder.is_empty())
    }

    /// Its network.
    pub fn network(&self) -> Option<Network> {
        self.operator().network()
    }

    /// For a while two operators act: the second one leads whatever the Lease says.
    pub async fn rival(&self, time: Duration) {
        let rival = &self.operators[1];
        rival.revive();
        self.world.log.tell(
            "FAULT",
            format!("{} has an election to itself", rival.pod()),
        );
        let set = |on| {
            if let Some(network) = rival.network() {
                network.faults().alone = on;
            }
        };
        set(true);
        sleep(time).await;
        set(false);
        self.send_away();
    }

    /// Only as many replicas are left as there should be.
    fn send_away(&self) {
        for surplus in &self.operators[self.plan.replicas..] {
            surplus.dismiss();
        }
    }

    /// The operator dies.
    pub fn kill(&self) {
        let operator = self.operator().clone();
        operator.kill();
        let world = self.world.clone();
        tokio::spawn(async move {
            sleep(world.dice.seconds(1, 15)).await;
            operator.revive();
        });
    }

    /// The policy is as it was.
    pub fn put_policy(&self) {
        self.put(&POLICY, ("", "all"), self.plan.policy());
    }

    /// The Secret is as it was.
    pub fn put_secret(&self) {
        self.put(&SECRETS, (NAMESPACE, SECRET), plan::secret());
    }

    fn put(&self, kind: &'static Kind, place: (&str, &str), object: Value) {
        if self.world.api.get(kind, place.0, place.1).is_none() {
            self.world
                .api
                .add("human", kind, object)
                .expect("a valid object");
            return;
        }
        let changed = self.world.api.change("human", kind, place, |it| {
            for field in ["spec", "data"] {
                if !object[field].is_null() {
                    it[field] = object[field].clone();
                }
            }
        });
        changed.expect("a valid object");
    }

    /// Machines lose their power, and the faults of the plan happen, each at a moment of its own.
    pub async fn trouble(&self) {
        let dice = &self.world.dice;
        let mut tasks = JoinSet::new();
        for _ in 0..self.plan.outages {
            let (world, at) = (self.world.clone(), dice.seconds(0, 20));
            tasks.spawn(async move {
                sleep(at).await;
                let name = world.dice.pick(&world.names()).clone();
                world.fails(&name, "its power fails");
            });
        }
        let span = self.plan.trouble.as_secs();
        for fault in &self.plan.faults {
            for _ in 0..dice.between(1, self.plan.repeats) {
                // Mostly when the first fences are under way.
                let at = if fault.waits() {
                    dice.seconds(0, 50)
                } else if dice.chance(60) {
                    dice.seconds(35, 110)
                } else {
                    dice.seconds(0, span)
                };
                let (stage, fault) = (self.clone(), *fault);
                tasks.spawn(async move {
                    sleep(at).await;
                    fault.happen(&stage).await;
                });
            }
        }
        sleep(self.plan.trouble).await;
        // What still goes on ends here.
        tasks.abort_all();
    }

    /// Everything is made good again, as people would: no fault is left, and machines are turned on.
    pub fn heal(&self) {
        self.world.log.tell("FAULT", "all is made good again");
        libc::set_wall(0);
        self.world.api.allow_everything();
        self.world.api.limit_pages(usize::MAX);
        let restored = self.world.switches().restored;
        *self.world.switches() = Switches {
            restored,
            ..Switches::default()
        };
        self.world.steps().clear();
        self.send_away();
        for operator in &self.operators[..self.plan.replicas] {
            if restored {
                // A cluster that went back in time is frozen until a human has looked and starts the operators anew.
                operator.kill();
            }
            operator.revive();
            if let Some(network) = operator.network() {
                let mut faults = network.faults();
                (faults.cut, faults.watches_dead, faults.lag) = (false, false, 0);
                (faults.watch_lag, faults.alone) = (Duration::ZERO, false);
                faults.fates.clear();
                faults.missed = 0;
                if let Some(behind) = faults.behind.take() {
                    behind.end_watches();
                }
            }
        }
        // Who has missed something lists anew: whatever version a watch has come to, it is an older one.
        for node in self.world.nodes() {
            let place = ("", node.as_str());
            let _ = self.world.api.change("human", &NODE, place, |node| {
                node["metadata"]["annotations"]["healed"] = json!("now");
            });
        }
        self.world.api.compact();
        self.world.api.end_watches();
        self.put_secret();
        self.put_policy();
        self.put_devices();
        let nodes = self.world.nodes();
        for node in self.world.api.all(&NODE) {
            let name = text(&node, "/metadata/name");
            if !nodes.iter().any(|own| own == name) {
                // The machine has become another one.
                let _ = self
                    .world
                    .api
                    .delete("human", &NODE, ("", name), &Value::Null);
            }
        }
        for pod in self.world.api.all(&POD) {
            let place = (
                text(&pod, "/metadata/namespace"),
                text(&pod, "/metadata/name"),
            );
            let _ = self.world.api.change("human", &POD, place, |pod| {
                pod["metadata"]["finalizers"] = json!([]);
            });
        }
        for name in self.world.names() {
            let node = self.world.machine(&name).node;
            let is_gone = self.world.api.get(&NODE, "", &node).is_none();
            self.world.with(&name, |machine| {
                (machine.mains, machine.cut, machine.hung) = (true, false, false);
                machine.bmc = Bmc::default();
                machine.reported &= !is_gone;
            });
            self.world.power_on(&name, "by hand, at the end");
            self.untaint(&node);
        }
    }
}

/// Part of the shipped admission policies: nothing but taints (S7), and when ours may appear (S6).
fn admission(actor: &str, kind: &Kind, old: Option<&Value>, new: &Value) -> Result<(), Refusal> {
    let Some(old) = old.filter(|_| *kind == NODE && actor.starts_with("operator")) else {
        return Ok(());
    };
    let appears = |key| taint(new, key).is_some() && taint(old, key).is_none();
    let name = text(new, "/metadata/name");
    let why = if old["metadata"]["labels"] != new["metadata"]["labels"] {
        REFUSAL
    } else if (appears(CLAIM) || EFFECTS.into_iter().any(appears)) && ready(old) == "True" {
        "S6: a Ready node may not be claimed, nor put out of service"
    } else {
        return Ok(());
    };
    let message = format!(
        "nodes \"{name}\" is forbidden: ValidatingAdmissionPolicy 'node-fencing-operator-nodes' with binding \
         'node-fencing-operator-nodes' denied request: {why}"
    );
    Err(Refusal::new(403, "Forbidden", message))
}

/// An API server that knows our CustomResourceDefinitions.
pub fn api() -> Api {
    Api::new(&CRDS, clock::wall)
}
