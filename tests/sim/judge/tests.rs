//! Does the judge see what it is there for? Bad histories, each flagged by the invariant that it breaks, and a good one that is not.

use super::{Asked, Judge};
use crate::dice::Dice;
use crate::libc;
use crate::objects::{
    CLAIM, DETACHING, ELECTION, NAMESPACE, OUT_OF_SERVICE, Role, attachment, condition, node, now,
    pod,
};
use crate::plan::Plan;
use crate::stage;
use crate::world::{Bmc, Container, Machine, World};
use serde_json::{Value, json};
use simapi::kinds::{ATTACHMENT, FENCE, LEASE, NODE, POD};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::time::sleep;

/// Who does it.
pub(super) const OPERATOR: &str = "operator-0.1";
/// The claim of the scene's NodeFence.
pub(super) const OWN: &str = "a-1-x";

/// A machine that is down, its Node, and a NodeFence whose evidence is stored.
pub(super) struct Scene {
    pub(super) world: World,
    pub(super) judge: Judge,
}

impl Scene {
    pub(super) fn new() -> Self {
        Self::in_mode("PowerOff")
    }

    /// With a NodeFence of this mode.
    pub(super) fn in_mode(mode: &str) -> Self {
        Self::of(mode, None, true)
    }

    /// The operator runs on this node; do policies want nodes to be reported early?
    pub(super) fn on(own_node: &str, is_early: bool) -> Self {
        Self::of("PowerOff", Some(own_node.to_owned()), is_early)
    }

    fn of(mode: &str, own_node: Option<String>, is_early: bool) -> Self {
        let dice = Dice::new(1);
        let mut world = World::new(stage::api(), dice.clone());
        world.own_node = own_node;
        let mut plan = Plan::of(&dice);
        plan.is_early = is_early;
        (plan.is_guarded, plan.late_effect) = (true, 60);
        plan.read_period = 1;
        let judge = Judge::new(&world, &plan);
        let machine = Machine {
            node: "a".to_owned(),
            uuid: "4c4c4544-0042-3510-8052-000000000001".to_owned(),
            on: false,
            mains: true,
            boots: 1,
            up_at: Duration::ZERO,
            failed_at: Duration::ZERO,
            reported: true,
            cut: false,
            hung: false,
            restarts: 0,
            containers: BTreeMap::new(),
            starting: BTreeMap::new(),
            bmc: Bmc::default(),
        };
        let mut registered = node("a", "a", &machine.uuid);
        registered["status"]["conditions"] = json!([condition("Unknown")]);
        registered["status"]["nodeInfo"]["bootID"] = json!("a-boot-1");
        world.machines().insert("a".to_owned(), machine);
        let registered = world.api.add("kubelet", &NODE, registered).expect("a Node");
        leads(&world, OPERATOR);
        let record = json!({
            "metadata": {"name": "a-1"},
            "spec": {
                "nodeName": "a", "trigger": {"type": "NodeCondition"}, "fence": {"mode": mode, "levels": [{"name": "bmc"}]},
            },
        });
        world.api.add(OPERATOR, &FENCE, record).expect("a record");
        let scene = Self { world, judge };
        let evidence = Self::evidence(&registered);
        scene.record(|status| {
            status["bootID"] = json!("a-boot-1");
            status["evidence"] = evidence;
        });
        scene
    }

    /// Of the scene's claim, for this Node.
    pub(super) fn evidence(node: &Value) -> Value {
        let reading = json!({"device": "bmc-a", "powerState": "Off", "time": now()});
        json!({
            "claim": OWN, "nodeUID": node["metadata"]["uid"], "nodeBootID": "a-boot-1", "provenTime": now(), "quiescedTime": now(),
            "readings": [reading, reading],
        })
    }

    pub(super) fn record(&self, change: impl FnOnce(&mut Value)) {
        self.record_by(OPERATOR, change);
    }

    pub(super) fn record_by(&self, actor: &str, change: impl FnOnce(&mut Value)) {
        let changed = self.world.api.change(actor, &FENCE, ("", "a-1"), |fence| {
            change(&mut fence["status"]);
        });
        assert_eq!(changed, Ok(true), "the record changes");
    }

    pub(super) fn node(&self, actor: &str, change: impl FnOnce(&mut Value)) {
        let changed = self.world.api.change(actor, &NODE, ("", "a"), change);
        assert_eq!(changed, Ok(true), "the Node changes");
    }

    /// These taints and no others: a claim by its value, out-of-service as `oos`, the mark of the scene's boot as `mark`.
    pub(super) fn taints(&self, actor: &str, taints: &[&str]) {
        let taint = |value: &&str| match *value {
            "oos" => json!({"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}),
            "mark" => json!({"key": DETACHING, "value": "a-boot-1", "effect": "NoExecute"}),
            claim => json!({"key": CLAIM, "value": claim, "effect": "NoExecute"}),
        };
        let all: Vec<Value> = taints.iter().map(taint).collect();
        self.node(actor, |node| node["spec"]["taints"] = json!(all));
    }

    pub(super) fn out_of_service(&self) {
        self.taints(OPERATOR, &[OWN]);
        self.taints(OPERATOR, &[OWN, "oos"]);
    }

    pub(super) fn bound(&self, is_leaving: bool) -> String {
        let mut bound = pod("db-0", "a", Role::Database);
        if is_leaving {
            bound["metadata"]["deletionTimestamp"] = json!(now());
        }
        let bound = self.world.api.add("scheduler", &POD, bound);
        let bound = bound.expect("a pod");
        bound["metadata"]["uid"].as_str().expect("a uid").to_owned()
    }

    pub(super) fn runs(&self, uid: &str) {
        let container = Container {
            pod: "db-0".to_owned(),
            volume: Some("pv-data-db-0".to_owned()),
            stops: None,
            tolerates: false,
            is_forgotten: false,
        };
        self.world.with("a", |machine| {
            machine.on = true;
            machine.containers.insert(uid.to_owned(), container);
        });
    }

    /// What runs is only being started.
    pub(super) fn starts(&self, uid: &str) {
        self.world.with("a", |machine| {
            let container = machine.containers.remove(uid).expect("it runs");
            let starting = (libc::elapsed(), container);
            machine.starting.insert(uid.to_owned(), starting);
        });
    }

    pub(super) fn evict(&self) {
        let options = json!({"gracePeriodSeconds": 0});
        let gone = self
            .world
            .api
            .delete(OPERATOR, &POD, ("default", "db-0"), &options);
        assert_eq!(gone, Ok(true), "the pod goes");
    }

    /// The pod is asked to go.
    pub(super) fn leaves(&self) {
        let place = ("default", "db-0");
        let deleted = self.world.api.delete("human", &POD, place, &Value::Null);
        assert_eq!(deleted, Ok(true), "the pod is there");
        let pod = self.world.api.get(&POD, place.0, place.1);
        assert!(pod.is_some(), "it goes in its own time");
    }

    pub(super) fn intend(&self, actor: &str) {
        self.record_by(actor, |status| {
            status["attempts"] = json!([{
                "id": "1", "level": "bmc", "device": "bmc-a", "action": "PowerOff", "startTime": now(),
                "deadlineTime": now(),
            }]);
        });
    }

    /// The operator reads the Node.
    pub(super) fn looks(&self) {
        self.looks_as(OPERATOR);
    }

    /// So does another process.
    pub(super) fn looks_as(&self, actor: &str) {
        let node = self.world.api.get(&NODE, "", "a").expect("a Node");
        self.judge.looked(actor, &node, libc::elapsed());
    }

    /// The machine's BMC tells this process that it is off, or on.
    pub(super) fn reads(&self, actor: &str, is_off: bool) {
        self.judge.read(actor, "a", Asked::now(), is_off);
    }

    /// The same twice, over the window.
    pub(super) async fn proves(&self) {
        self.reads(OPERATOR, true);
        sleep(Duration::from_secs(1)).await;
        self.reads(OPERATOR, true);
    }
}

/// A process takes or renews the Lease.
pub(super) fn leads(world: &World, actor: &str) {
    let place = (NAMESPACE, ELECTION);
    let time = now();
    let renewed = world.api.change(actor, &LEASE, place, |lease| {
        lease["spec"] = json!({"holderIdentity": actor, "renewTime": time});
    });
    if renewed == Ok(false) {
        let lease = json!({"metadata": {"name": ELECTION, "namespace": NAMESPACE}, "spec": {}});
        world.api.add(actor, &LEASE, lease).expect("a Lease");
    }
}

/// In time that is this thread's alone, and begins before the runtime asks for it.
pub(super) fn simulated(test: impl Future<Output = ()>) {
    libc::simulate(1);
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(test);
}

/// A bad history: the invariant, what happens, and how.
type Bad = (&'static str, &'static str, fn(&Scene));

const BAD: [Bad; 20] = [
    ("S9", "out of service without a claim", |it| {
        it.taints(OPERATOR, &["oos"])
    }),
    ("S9", "out of service with another claim", |it| {
        it.taints(OPERATOR, &[OWN]);
        it.taints(OPERATOR, &["a-1-y", "oos"]);
    }),
    (
        "S17",
        "out of service on the evidence of another claim",
        |it| {
            it.taints(OPERATOR, &["a-1-y"]);
            it.taints(OPERATOR, &["a-1-y", "oos"]);
        },
    ),
    ("S17", "out of service without a record", |it| {
        it.taints(OPERATOR, &["b-1-x"]);
        it.taints(OPERATOR, &["b-1-x", "oos"]);
    }),
    (
        "S10",
        "out of service on the evidence of another Node",
        |it| {
            it.record(|status| status["evidence"]["nodeUID"] = json!("another"));
            it.out_of_service();
        },
    ),
    ("S2", "out of service on one reading", |it| {
        it.record(|status| {
            status["evidence"]["readings"]
                .as_array_mut()
                .expect("readings")
                .pop();
        });
        it.out_of_service();
    }),
    ("S2", "out of service with a pod that may start", |it| {
        it.bound(false);
        it.out_of_service();
    }),
    ("S1", "out of service while a container runs", |it| {
        let uid = it.bound(true);
        it.runs(&uid);
        it.out_of_service();
    }),
    ("S2", "a pod is deleted by force without a proof", |it| {
        it.bound(true);
        it.taints(OPERATOR, &["a-1-y"]);
        it.evict();
    }),
    ("S1", "a pod that runs is deleted by force", |it| {
        let uid = it.bound(true);
        it.taints(OPERATOR, &[OWN]);
        it.runs(&uid);
        it.evict();
    }),
    ("S6", "a Ready node is claimed", |it| {
        it.node("kubelet", |node| {
            node["status"]["conditions"] = json!([condition("True")])
        });
        it.taints(OPERATOR, &[OWN]);
    }),
    ("S7", "a label is changed", |it| {
        it.node(OPERATOR, |node| {
            node["metadata"]["labels"]["a"] = json!("b")
        });
    }),
    ("S8", "a human's out-of-service is taken away", |it| {
        it.taints("human", &["oos"]);
        it.taints(OPERATOR, &[]);
    }),
    ("S14", "released with a pod", |it| {
        it.out_of_service();
        it.bound(true);
        it.taints(OPERATOR, &[]);
    }),
    ("S14", "released with a volume", |it| {
        it.out_of_service();
        let held = attachment("pv-data-db-0", "a");
        it.world
            .api
            .add("csi", &ATTACHMENT, held)
            .expect("an attachment");
        it.taints(OPERATOR, &[]);
    }),
    ("S14", "released while the fenced boot runs", |it| {
        it.out_of_service();
        it.world.with("a", |machine| machine.on = true);
        it.taints(OPERATOR, &[]);
    }),
    ("S23", "released while an off may land", |it| {
        it.out_of_service();
        it.judge
            .lands("a", libc::elapsed() + Duration::from_secs(30));
        it.taints(OPERATOR, &[]);
    }),
    ("S11", "an off without a claim", |it| {
        it.intend(OPERATOR);
        it.looks();
        it.judge.commanded(OPERATOR, "a");
    }),
    ("S11", "an off without an intent", |it| {
        it.taints(OPERATOR, &[OWN]);
        it.looks();
        it.judge.commanded(OPERATOR, "a");
    }),
    ("L3", "a record that has ended is written again", |it| {
        for reason in ["Recovered", "Detaching"] {
            it.record(|status| {
                let time = now();
                status["conditions"] = json!([{
                    "type": "Succeeded", "status": "True", "reason": reason, "message": "", "lastTransitionTime": time,
                }]);
            });
        }
    }),
];

#[test]
fn the_judge_flags_every_bad_history_by_the_invariant_that_it_breaks() {
    simulated(bad());
}

async fn bad() {
    for (id, what, happens) in BAD {
        let scene = Scene::new();
        happens(&scene);
        let found = scene.world.broken();
        assert!(
            found.iter().any(|it| it.starts_with(&format!("{id}:"))),
            "{id}, {what}: {found:?}"
        );
    }
}

#[test]
fn the_judge_has_nothing_against_a_good_history() {
    simulated(good());
}

async fn good() {
    let scene = Scene::new();
    scene.bound(true);
    scene.taints(OPERATOR, &[OWN]);
    scene.intend(OPERATOR);
    scene.looks();
    scene.judge.commanded(OPERATOR, "a");
    scene.proves().await;
    scene.evict();
    scene.taints(OPERATOR, &[OWN, "oos"]);
    scene.taints(OPERATOR, &[]);
    assert_eq!(scene.world.broken(), Vec::<String>::new());
}
