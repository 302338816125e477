//! One test for each kind of pod that a plan tells apart.

use super::super::place::Machine;
use super::super::quantity::{Amounts, parse};
use super::super::volumes::Storage;
use super::*;
use fencing_core::fixtures;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};

mod volumes;

const DEAD: &str = "w1";

/// A cluster: the dead node and another one in its zone, and one in another zone.
struct World {
    nodes: Vec<NodeView>,
    free: Vec<Amounts>,
    storage: Storage,
    budgets: Vec<PodDisruptionBudget>,
    rolling: BTreeSet<(String, String)>,
    rooms_are_known: bool,
    reports_early: bool,
}

fn node(name: &str, zone: &str) -> NodeView {
    let labels = [
        ("kubernetes.io/hostname", name),
        ("topology.kubernetes.io/zone", zone),
    ];
    NodeView {
        labels: labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..fixtures::ready_node(name)
    }
}

fn room(cpu: &str) -> Amounts {
    let amounts = [("cpu", cpu), ("memory", "8Gi"), ("pods", "110")];
    let amounts =
        amounts.map(|(name, amount)| (name.to_owned(), parse(amount).expect("an amount")));
    amounts.into()
}

impl World {
    fn new() -> Self {
        Self {
            nodes: vec![node(DEAD, "a"), node("w2", "a"), node("w3", "b")],
            free: vec![room("4"), room("4"), room("4")],
            storage: Storage {
                claims: Some(Default::default()),
                volumes: Some(Default::default()),
                unattached: Default::default(),
            },
            budgets: Vec::new(),
            rolling: BTreeSet::new(),
            rooms_are_known: true,
            reports_early: false,
        }
    }

    /// With a claim `data` that is bound to a volume of this spec.
    fn with_volume(extra: Value) -> Self {
        let mut world = Self::new();
        let mut spec = json!({"accessModes": ["ReadWriteOnce"], "csi": {"driver": "csi.example.com", "volumeHandle": "h"}});
        json_patch::merge(&mut spec, &extra);
        let volume = json!({"metadata": {"name": "pv"}, "spec": spec});
        let volume: PersistentVolume = serde_json::from_value(volume).expect("a volume");
        let claim = json!({"metadata": {"name": "data", "namespace": "shop"}, "spec": {"volumeName": "pv"}});
        let claim: PersistentVolumeClaim = serde_json::from_value(claim).expect("a claim");
        let key = ("shop".to_owned(), "data".to_owned());
        world.storage.claims = Some([(key, claim)].into());
        world.storage.volumes = Some([("pv".to_owned(), volume)].into());
        world
    }

    fn machines(&self) -> Option<Vec<Machine>> {
        let machines = self.nodes.iter().zip(&self.free);
        let machines = machines.map(|(view, free)| Machine {
            view: view.clone(),
            free: free.clone(),
        });
        self.rooms_are_known.then(|| machines.collect())
    }

    fn judge(&self, pods: &[Pod]) -> Vec<PodPlan> {
        let scene = Scene {
            dead: DEAD,
            nodes: &self.nodes,
            machines: self.machines(),
            storage: &self.storage,
            budgets: &self.budgets,
            rolling: &self.rolling,
            deletes_node: false,
            reports_early: self.reports_early,
        };
        judge(pods, scene)
    }

    /// What becomes of this one alone.
    fn one(&self, pod: &Pod) -> PodPlan {
        self.judge(std::slice::from_ref(pod)).remove(0)
    }

    fn says(&self, pod: &Pod) -> (Outcome, Reason) {
        let plan = self.one(pod);
        assert!(!plan.message.is_empty(), "{plan:?}");
        (plan.outcome, plan.reason)
    }
}

/// A pod of this kind of owner.
fn pod(owner: &str, extra: Value) -> Pod {
    let owners = match owner {
        "" => json!([]),
        kind => {
            json!([{"apiVersion": "v1", "kind": kind, "name": "web-5d", "uid": "u", "controller": true}])
        }
    };
    let labels = json!({"app": "web", "pod-template-hash": "5d"});
    let mut whole = json!({
        "metadata": {"name": "web-0", "namespace": "shop", "ownerReferences": owners, "labels": labels},
        "spec": {"containers": [{"name": "web"}]},
        "status": {"phase": "Running"},
    });
    json_patch::merge(&mut whole, &extra);
    serde_json::from_value(whole).expect("a pod")
}

/// One that uses the claim `data`.
fn with_claim(owner: &str) -> Pod {
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
    pod(owner, json!({"spec": {"volumes": [volume]}}))
}

#[test]
fn what_belongs_to_the_node_is_not_missed_elsewhere() {
    let world = World::new();
    let daemon = (Outcome::OfTheNode, Reason::DaemonSet);
    assert_eq!(world.says(&pod("DaemonSet", json!({}))), daemon);
    let mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "hash"}}});
    assert_eq!(
        world.says(&pod("Node", mirror)),
        (Outcome::OfTheNode, Reason::StaticPod)
    );
    let ended = json!({"status": {"phase": "Succeeded"}});
    assert_eq!(
        world.says(&pod("Job", ended)),
        (Outcome::Finished, Reason::Ended)
    );
}

#[test]
fn nobody_makes_a_bare_pod_again() {
    assert_eq!(
        World::new().says(&pod("", json!({}))),
        (Outcome::Gone, Reason::NoController)
    );
}

#[test]
fn a_pod_that_tolerates_everything_stays_on_the_dead_node() {
    let tolerates = |seconds: Value| {
        let toleration = json!([{"operator": "Exists", "tolerationSeconds": seconds}]);
        pod("ReplicaSet", json!({"spec": {"tolerations": toleration}}))
    };
    let world = World::new();
    let stays = (Outcome::Stays, Reason::ToleratesOutOfService);
    assert_eq!(world.says(&tolerates(Value::Null)), stays);
    assert_eq!(
        world.says(&tolerates(json!(300))),
        (Outcome::Recovers, Reason::Free)
    );
}

#[test]
fn a_pod_waits_where_no_other_node_has_room_for_it() {
    let asks = |name: &str, cpu: &str| {
        let container = json!({"name": "web", "resources": {"requests": {"cpu": cpu}}});
        pod(
            "ReplicaSet",
            json!({"metadata": {"name": name}, "spec": {"containers": [container]}}),
        )
    };
    let world = World::new();
    let plan = world.one(&asks("big", "5"));
    assert_eq!(
        (plan.outcome, plan.reason),
        (Outcome::Waits, Reason::NoRoom)
    );
    assert!(plan.message.contains("5 of cpu"), "{}", plan.message);
    // Two nodes with room for one of these each: the third finds none.
    let plans = world.judge(&[asks("a", "3"), asks("b", "3"), asks("c", "3")]);
    let outcomes: Vec<Outcome> = plans.iter().map(|it| it.outcome).collect();
    assert_eq!(
        outcomes,
        [Outcome::Waits, Outcome::Recovers, Outcome::Recovers]
    );
}

#[test]
fn the_important_pod_gets_the_room() {
    let asks = |name: &str, priority: i32| {
        let container = json!({"name": "web", "resources": {"requests": {"cpu": "3"}}});
        pod(
            "ReplicaSet",
            json!({"metadata": {"name": name}, "spec": {"priority": priority, "containers": [container]}}),
        )
    };
    let mut world = World::new();
    world.nodes[2].unschedulable = true;
    let plans = world.judge(&[asks("low", 0), asks("high", 1000)]);
    let named: Vec<(&str, Outcome)> = plans
        .iter()
        .map(|it| (it.name.as_str(), it.outcome))
        .collect();
    assert_eq!(
        named,
        [("low", Outcome::Waits), ("high", Outcome::Recovers)]
    );
}

#[test]
fn a_pod_that_is_bound_to_the_node_by_its_labels_waits() {
    let selector = json!({"spec": {"nodeSelector": {"kubernetes.io/hostname": DEAD}}});
    let waits = (Outcome::Waits, Reason::NoMatchingNode);
    assert_eq!(World::new().says(&pod("ReplicaSet", selector)), waits);
    let term =
        json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [DEAD]}]});
    let required =
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
    let affinity = json!({"spec": {"affinity": {"nodeAffinity": required}}});
    assert_eq!(World::new().says(&pod("ReplicaSet", affinity)), waits);
}

/// The taint does not ask it, whatever people fear.
#[test]
fn a_disruption_budget_at_zero_is_no_obstacle() {
    let mut world = World::new();
    let budget = |labels: Value| -> PodDisruptionBudget {
        let status = json!({"currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0, "expectedPods": 1});
        let budget = json!({"metadata": {"name": "pdb", "namespace": "shop"}, "spec": {"selector": {"matchLabels": labels}}, "status": status});
        serde_json::from_value(budget).expect("a budget")
    };
    world.budgets = vec![
        budget(json!({"app": "web"})),
        budget(json!({"app": "other"})),
    ];
    let plan = world.one(&pod("ReplicaSet", json!({})));
    assert_eq!(plan.outcome, Outcome::Recovers);
    let [note] = plan.notes.as_slice() else {
        panic!("{:?}", plan.notes);
    };
    assert!(
        note.contains("pdb") && note.contains("the taint ignores"),
        "{note}"
    );
}

#[test]
fn a_finalizer_keeps_a_fixed_name_and_no_other() {
    let held =
        |owner: &str, finalizer: &str| pod(owner, json!({"metadata": {"finalizers": [finalizer]}}));
    let world = World::new();
    let hangs = (Outcome::Hangs, Reason::Finalizer);
    assert_eq!(world.says(&held("StatefulSet", "example.com/f")), hangs);
    assert_eq!(
        world.says(&held("Job", OF_JOBS)),
        (Outcome::Recovers, Reason::Free)
    );
    let plan = world.one(&held("ReplicaSet", "example.com/f"));
    assert_eq!(plan.outcome, Outcome::Recovers);
    assert!(
        plan.notes.iter().any(|it| it.contains("example.com/f")),
        "{:?}",
        plan.notes
    );
}

/// What a user may not read is not said to be well.
#[test]
fn a_missing_right_is_told_as_not_known() {
    let mut world = World::with_volume(json!({}));
    world.storage.volumes = None;
    let unknown = (Outcome::Unknown, Reason::RightMissing);
    assert_eq!(world.says(&with_claim("StatefulSet")), unknown);
    let mut world = World::new();
    world.rooms_are_known = false;
    assert_eq!(world.says(&pod("ReplicaSet", json!({}))), unknown);
    // Of this one no other node is asked.
    assert_eq!(
        world.says(&pod("DaemonSet", json!({}))).0,
        Outcome::OfTheNode
    );
}

/// A ReplicaSet does not wait for the proof, a StatefulSet for the name, and whoever has a volume for that.
/// What a kubelet that lives takes back within 15 s evicts whoever has no patience for so long.
#[test]
fn a_pod_without_patience_is_named_where_nodes_are_reported_early() {
    let mut world = World::new();
    let notes = |world: &World, tolerations: Value| {
        let pod = pod("ReplicaSet", json!({"spec": {"tolerations": tolerations}}));
        world.one(&pod).notes
    };
    let for_seconds = |seconds: i64| json!({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "operator": "Exists", "tolerationSeconds": seconds});
    assert_eq!(notes(&world, json!([])), [""; 0]);
    world.reports_early = true;
    for (tolerations, seconds) in [
        (json!([]), Some(0)),
        (json!([for_seconds(14)]), Some(14)),
        (
            json!([for_seconds(300), {"operator": "Exists", "tolerationSeconds": 5}]),
            Some(5),
        ),
        (json!([for_seconds(15)]), None),
        (json!([{"operator": "Exists", "effect": "NoExecute"}]), None),
        (json!([{"key": "other", "operator": "Exists"}]), Some(0)),
    ] {
        let notes = notes(&world, tolerations);
        let named = seconds.map(|it| format!("it tolerates `unreachable` for {it} s only"));
        let is_named = |named: &String| notes.iter().any(|it| it.starts_with(named.as_str()));
        assert_eq!(notes.len(), usize::from(seconds.is_some()), "{notes:?}");
        assert!(named.iter().all(is_named), "{notes:?}");
    }
}

#[test]
fn each_pod_begins_when_what_it_waits_for_is_over() {
    let world = World::with_volume(json!({}));
    let scheduled = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let container = json!({"name": "web", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:07Z"}}});
    let started = json!({"status": {"conditions": [scheduled], "containerStatuses": [container]}});
    let marks = Marks {
        claimed: 100.0,
        evicted: 105.0,
        detached: 110.0,
        start: 2.0,
    };
    let after = |pod: &Pod| {
        let mut plans = world.judge(std::slice::from_ref(pod));
        date(&mut plans, marks);
        plans[0].after_seconds
    };
    assert_eq!(after(&pod("ReplicaSet", json!({}))), Some(102.0));
    assert_eq!(after(&pod("ReplicaSet", started)), Some(107.0));
    assert_eq!(after(&pod("StatefulSet", json!({}))), Some(107.0));
    assert_eq!(after(&with_claim("ReplicaSet")), Some(112.0));
    assert_eq!(after(&pod("", json!({}))), None);
}
