//! Would the pods of a node find room elsewhere if it died now? The operator asks that of one node after the other, by the functions that a plan
//! is made with.
//!
//! A plan seats each pod on the roomiest node that takes it. With thousands of nodes that is too much work for each of them in turn: here the
//! first node that takes a pod is enough, the roomiest ones first. Where that leaves a pod without a node, the plan decides.

use super::place::{self, Machine, Wants, takes};
use super::pods::{self, Outcome, PodPlan, Reason, Scene};
use super::quantity::{Amounts, Asked, amounts};
use super::volumes::Storage;
use fencing_cluster::slim::WideNode;
use fencing_core::observed::NodeView;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What is left of each node beside what its pods ask for, as it was read last.
#[derive(Debug, Default)]
pub struct Rooms(BTreeMap<String, Amounts>);

impl Rooms {
    /// Takes in a node and its pods, without those that have ended.
    pub fn note(&mut self, node: &WideNode, pods: &[Pod]) {
        let mut free = amounts(&node.status.allocatable);
        for (name, amount) in pods.iter().flat_map(asked) {
            *free.entry(name).or_default() -= amount;
        }
        self.0.insert(node.name_any(), free);
    }

    /// Forgets the nodes that are not among these.
    pub fn keep(&mut self, names: &BTreeSet<String>) {
        self.0.retain(|name, _| names.contains(name));
    }

    /// Has each of these nodes been read?
    #[must_use]
    pub fn know(&self, names: &BTreeSet<String>) -> bool {
        names.iter().all(|name| self.knows(name))
    }

    /// Has this node been read?
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

/// All nodes at one moment.
#[derive(Debug)]
pub struct Nodes {
    views: Vec<NodeView>,
    /// Those whose room is known, the roomiest first.
    machines: Vec<Machine>,
}

/// What the pods of one node hold of the cluster's storage.
#[derive(Debug, Default)]
pub struct Held {
    /// Their claims.
    pub claims: Vec<PersistentVolumeClaim>,
    /// The volumes of these.
    pub volumes: Vec<PersistentVolume>,
}

impl Nodes {
    /// These nodes, with what is left of them.
    #[must_use]
    pub fn new(views: Vec<NodeView>, rooms: &Rooms) -> Self {
        let machine = |view: &NodeView| {
            Some(Machine {
                free: rooms.0.get(&view.name)?.clone(),
                view: view.clone(),
            })
        };
        let mut machines: Vec<Machine> = views.iter().filter_map(machine).collect();
        machines.sort_by_key(|it| Reverse(place::room(it)));
        Self { views, machines }
    }

    /// Would another one of each of these pods, which run on node `dead`, run elsewhere? Those that nothing makes again, those that belong to the
    /// node, and those with a volume on its own disk are not asked for: no room elsewhere would help them.
    pub fn recover(&mut self, dead: &str, pods: &[Pod], held: Held) -> bool {
        let (storage, rolling) = (storage(held), BTreeSet::new());
        let Self { views, machines } = self;
        let views: &[NodeView] = views;
        let scene = |machines| Scene {
            dead,
            nodes: views,
            machines,
            storage: &storage,
            budgets: &[],
            rolling: &rolling,
            deletes_node: false,
            reports_early: false,
        };
        let alone = scene(None);
        let mut taken = Vec::new();
        let mut is_seated = true;
        for pod in pods {
            let plan = pods::first(pod, &alone);
            match plan.outcome {
                // No other node reaches its volume.
                Outcome::Waits if lacks_a_node(&plan) => return give_back(machines, &taken, false),
                Outcome::Recovers | Outcome::WithoutData => {}
                _ => continue,
            }
            let wants = Wants {
                spec: pod.spec.as_ref(),
                volumes: storage.reach(&plan.volumes),
                asked: asked(pod),
            };
            let seat = machines.iter().position(|it| takes(it, dead, &wants));
            let Some((seat, machine)) = seat.and_then(|it| Some((it, machines.get_mut(it)?)))
            else {
                is_seated = false;
                break;
            };
            for (name, amount) in &wants.asked {
                *machine.free.entry(name.clone()).or_default() -= amount;
            }
            taken.push((seat, wants.asked));
        }
        if give_back(machines, &taken, is_seated) {
            return true;
        }
        let plans = pods::judge(pods, scene(Some(machines.clone())));
        !plans.iter().any(lacks_a_node)
    }
}

/// Would it stay Pending for want of another node? What has its data on the node's own disk waits for the machine in any case.
fn lacks_a_node(plan: &PodPlan) -> bool {
    plan.outcome == Outcome::Waits && plan.reason != Reason::LocalVolume
}

/// Makes the room that was taken free again, and hands on the answer.
fn give_back(machines: &mut [Machine], taken: &[(usize, Amounts)], answer: bool) -> bool {
    for (seat, amounts) in taken {
        let Some(machine) = machines.get_mut(*seat) else {
            continue;
        };
        for (name, amount) in amounts {
            *machine.free.entry(name.clone()).or_default() += amount;
        }
    }
    answer
}

fn asked(pod: &Pod) -> Amounts {
    let spec = pod.spec.as_ref();
    spec.map(|it| Asked::of(it).amounts()).unwrap_or_default()
}

fn storage(held: Held) -> Storage {
    let claim = |it: PersistentVolumeClaim| {
        let key = (it.namespace().unwrap_or_default(), it.name_any());
        (key, it)
    };
    let volumes = held.volumes.into_iter().map(|it| (it.name_any(), it));
    Storage {
        claims: Some(held.claims.into_iter().map(claim).collect()),
        volumes: Some(volumes.collect()),
        unattached: BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_core::fixtures;
    use serde_json::{Value, json};

    fn wide(name: &str, cpu: &str) -> WideNode {
        let allocatable = json!({"cpu": cpu, "memory": "8Gi", "pods": "110"});
        let node = json!({"metadata": {"name": name}, "status": {"allocatable": allocatable}});
        serde_json::from_value(node).expect("a Node")
    }

    fn pod(name: &str, cpu: &str, extra: Value) -> Pod {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "shop", "ownerReferences": [{"apiVersion": "v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]},
            "spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": cpu}}}]},
        });
        json_patch::merge(&mut pod, &extra);
        serde_json::from_value(pod).expect("a pod")
    }

    /// Three nodes of 4 CPUs, of which w2 and w3 have pods of these CPUs.
    fn nodes(w2: &str, w3: &str) -> Nodes {
        let mut rooms = Rooms::default();
        rooms.note(&wide("w1", "4"), &[]);
        rooms.note(&wide("w2", "4"), &[pod("a", w2, json!({}))]);
        rooms.note(&wide("w3", "4"), &[pod("b", w3, json!({}))]);
        let views = ["w1", "w2", "w3"].map(fixtures::ready_node);
        Nodes::new(views.into(), &rooms)
    }

    #[test]
    fn pods_recover_where_together_they_find_room_on_other_nodes() {
        let free = |pods: &[Pod]| nodes("1", "2").recover("w1", pods, Held::default());
        let of = |cpu: &str| pod(cpu, cpu, json!({}));
        assert!(free(&[]));
        assert!(free(&[of("3"), of("2")]));
        assert!(!free(&[of("3"), of("3")]), "the room is there once");
        assert!(!free(&[of("4")]), "its own node has died");
        let of_node = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]}});
        assert!(free(&[pod("d", "4", of_node)]));
    }

    #[test]
    fn the_answer_for_one_node_takes_no_room_from_the_next() {
        let mut nodes = nodes("1", "2");
        let all = [pod("x", "3", json!({})), pod("y", "2", json!({}))];
        for _ in 0..2 {
            assert!(nodes.recover("w1", &all, Held::default()));
        }
        let one_too_many = [pod("x", "3", json!({})), pod("y", "3", json!({}))];
        assert!(!nodes.recover("w1", &one_too_many, Held::default()));
        assert!(nodes.recover("w1", &all, Held::default()));
    }

    /// The first that fits is taken: where the next pod wants that one, the plan seats the important ones first.
    #[test]
    fn where_the_quick_way_finds_no_room_the_plan_is_asked() {
        let picky = json!({"spec": {"priority": 1000, "nodeSelector": {"disk": "ssd"}}});
        let mut nodes = nodes("1", "2");
        let w2 = nodes.machines.iter_mut().find(|it| it.view.name == "w2");
        let labels = &mut w2.expect("w2").view.labels;
        labels.insert("disk".to_owned(), "ssd".to_owned());
        let all = [pod("any", "2", json!({})), pod("picky", "2", picky)];
        assert!(nodes.recover("w1", &all, Held::default()));
    }

    /// A database whose volume can be reached from nodes with this label only, beside a pod of so many CPUs.
    fn with_volume(key: &str, beside: &str) -> bool {
        let claim = json!({"metadata": {"name": "data", "namespace": "shop"}, "spec": {"volumeName": "pv"}});
        let here = json!({"key": key, "operator": "In", "values": ["w1"]});
        let volume = json!({
            "metadata": {"name": "pv"},
            "spec": {"csi": {"driver": "csi.example.com", "volumeHandle": "v"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}},
        });
        let held = Held {
            claims: vec![serde_json::from_value(claim).expect("a claim")],
            volumes: vec![serde_json::from_value(volume).expect("a volume")],
        };
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        let db = pod("db", "1", json!({"spec": {"volumes": volumes}}));
        let pods = [db, pod("web", beside, json!({}))];
        nodes("1", "1").recover("w1", &pods, held)
    }

    #[test]
    fn a_pod_whose_volume_no_other_node_reaches_does_not_recover() {
        assert!(!with_volume("topology.kubernetes.io/zone", "1"));
    }

    /// It waits for its machine however much room there is: an alert about room would never resolve.
    #[test]
    fn a_pod_with_a_volume_on_the_own_disk_of_the_node_is_not_counted() {
        assert!(with_volume("kubernetes.io/hostname", "1"));
        assert!(
            !with_volume("kubernetes.io/hostname", "4"),
            "web has no room"
        );
    }

    #[test]
    fn nodes_that_are_gone_have_no_room() {
        let mut rooms = Rooms::default();
        rooms.note(&wide("w1", "4"), &[]);
        rooms.note(&wide("w2", "4"), &[]);
        let names: BTreeSet<String> = ["w1".to_owned()].into();
        assert!(rooms.know(&names));
        rooms.keep(&names);
        let both: BTreeSet<String> = ["w1".to_owned(), "w2".to_owned()].into();
        assert!(!rooms.know(&both));
    }
}
