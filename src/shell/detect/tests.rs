//! What is opened, and what is tidied up: only what the Node and the NodeFence say when they are read again.

use super::*;
use crate::shell::fake::{self, Cluster, failure};
use fencing_core::observed::{DETACHING, QUARANTINE};
use serde_json::{Value, json};
use tokio::task::JoinSet;

mod asked;
mod kept_off;
mod off;
mod orphaned;
mod refused;
mod stranded;
mod together;
mod windows;

const NODE: &str = "GET /api/v1/nodes/worker-1";
const FENCES: &str = "/apis/nodefencing.io/v1alpha1/nodefences";

/// The Node as it is, its `Ready`, and whether it carries the claim and `out-of-service`.
fn node(ready: &str, claimed: bool, out_of_service: bool) -> Value {
    let mut node = fake::node();
    node["status"]["conditions"][0]["status"] = json!(ready);
    let mut taints = Vec::new();
    if claimed {
        taints.push(node["spec"]["taints"][0].clone());
    }
    if out_of_service {
        taints.push(fake::out_of_service());
    }
    node["spec"]["taints"] = json!(taints);
    node
}

/// A NodeFence that is open, or has ended.
fn fence(ended: bool) -> Value {
    let succeeded = json!({
        "type": "Succeeded", "status": "False", "reason": "Aborted", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let conditions: Vec<Value> = ended.then_some(succeeded).into_iter().collect();
    json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": "fence", "uid": "uid-fence"},
        "spec": {
            "nodeName": "worker-1", "trigger": {"type": "Manual"},
            "fence": {"mode": "PowerOff"}, "recovery": {}, "release": {}, "powerOn": {},
        },
        "status": {"conditions": conditions},
    })
}

/// A detector whose cache has this Node, the policy if there is one, and these NodeFences.
struct Lab {
    cluster: Cluster,
    detector: Detector,
    _watches: JoinSet<()>,
}

impl Lab {
    async fn new(cached: Value, policy: Option<Value>, fences: Vec<Value>) -> Self {
        let cluster = Cluster::new().await;
        let policies: Vec<Value> = policy.into_iter().collect();
        for (path, kind, items) in [
            ("/api/v1/nodes", "Node", vec![cached]),
            (FENCES, "NodeFence", fences),
            (
                "/apis/nodefencing.io/v1alpha1/nodefencingpolicies",
                "NodeFencingPolicy",
                policies,
            ),
        ] {
            let list = fake::list(kind, "7", &items);
            cluster.put(&format!("GET {path}"), 200, list);
        }
        let (context, watches) = cluster.watching();
        let caches = &context.caches;
        caches.nodes.wait_until_ready().await.expect("the Nodes");
        caches.fences.wait_until_ready().await.expect("NodeFences");
        caches.policies.wait_until_ready().await.expect("policies");
        Self {
            cluster,
            detector: Detector::new(context),
            _watches: watches,
        }
    }

    /// S18: a list was older than what had been seen before.
    fn goes_back(&self) {
        self.detector.context.revision.note(120, Some("90"));
    }

    /// How many Events were handed in: those of this lab go to nobody, and are counted.
    fn told(&self) -> usize {
        let metrics = self.detector.context.metrics.render().expect("metrics");
        let series = r#"node_fencing_events_dropped_total{reason="Stopped"} "#;
        let lost = metrics.lines().find_map(|line| line.strip_prefix(series));
        lost.map_or(0, |count| count.parse().expect("a number"))
    }

    /// How many NodeFences were created, and how many patches sent, once the Node has changed.
    async fn writes(&mut self) -> (usize, usize) {
        self.detector.node_changed("worker-1").await;
        let requests = self.cluster.requests();
        let count = |verb: &str| requests.iter().filter(|it| it.starts_with(verb)).count();
        (count("POST "), count("PATCH "))
    }
}

/// One that wants every node fenced at once that is `Ready=Unknown`.
fn policy() -> Value {
    json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy",
        "metadata": {"name": "prod", "generation": 1},
        "spec": {
            "nodeSelector": {},
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "durationSeconds": 0}],
            "exclusions": {"minUptimeSeconds": 0},
            "fence": {"mode": "PowerOff"},
        },
    })
}

/// S12: the cache says that the node is down.
#[tokio::test]
async fn an_incident_is_opened_only_if_the_node_still_is_unhealthy() {
    let down = || node("Unknown", false, false);
    let table = [
        ((200, down()), false, 1),
        ((200, node("True", false, false)), false, 0),
        // Unhealthy, but not as the policy says.
        ((200, node("False", false, false)), false, 0),
        // S8.
        ((200, node("Unknown", false, true)), false, 0),
        (failure(404, "not found"), false, 0),
        (failure(500, "etcd is slow"), false, 0),
        ((200, down()), true, 0),
    ];
    for ((status, live), went_back, opened) in table {
        let mut lab = Lab::new(down(), Some(policy()), vec![]).await;
        lab.cluster.put(NODE, status, live.clone());
        if went_back {
            lab.goes_back();
        }
        assert_eq!(lab.writes().await, (opened, 0), "{live} {went_back}");
    }
}

/// What a person asks to observe fences nothing, so the policy does. The policy's own record of mode Observe is its own.
#[tokio::test]
async fn a_record_by_hand_that_only_observes_keeps_no_policy_from_fencing() {
    let open = |mode: &str, by: Option<&str>| {
        let mut open = fence(false);
        open["spec"]["fence"]["mode"] = json!(mode);
        open["spec"]["policyName"] = json!(by);
        open
    };
    let table = [
        (open("Observe", None), 1),
        (open("Observe", Some("another")), 1),
        (open("Observe", Some("prod")), 0),
        (open("ConfirmOnly", None), 0),
        (open("PowerOff", None), 0),
    ];
    for (known, opened) in table {
        let down = node("Unknown", false, false);
        let mut lab = Lab::new(down.clone(), Some(policy()), vec![known.clone()]).await;
        lab.cluster.put(NODE, 200, down);
        assert_eq!(lab.writes().await, (opened, 0), "{known}");
    }
}

/// A claim is taken away only if nobody can be at work under it, `out-of-service` only through a NodeFence that releases it.
#[tokio::test]
async fn only_what_no_open_incident_looks_after_is_tidied_up() {
    let gone = || failure(404, "not found");
    let ready = || node("True", true, false);
    let overruled = || {
        let mut node = node("Unknown", true, true);
        node["spec"]["taints"][1]["timeAdded"] = Value::Null;
        node
    };
    let table = [
        (ready(), gone(), false, (0, 1)),
        (ready(), (200, fence(true)), false, (0, 1)),
        (ready(), (200, fence(false)), false, (0, 0)),
        (ready(), failure(500, "etcd is slow"), false, (0, 0)),
        (ready(), gone(), true, (0, 0)),
        // The next incident takes it over.
        (node("Unknown", true, false), gone(), false, (0, 0)),
        (node("Unknown", true, true), gone(), false, (1, 0)),
        // A human's.
        (overruled(), gone(), false, (0, 0)),
        (
            node("Unknown", true, true),
            (200, fence(false)),
            false,
            (0, 0),
        ),
        (node("True", false, true), gone(), false, (0, 0)),
    ];
    for (live, (status, fence), went_back, writes) in table {
        let mut lab = Lab::new(live.clone(), None, vec![]).await;
        lab.cluster.put(NODE, 200, live.clone());
        lab.cluster
            .put(&format!("GET {FENCES}/fence"), status, fence.clone());
        if went_back {
            lab.goes_back();
        }
        assert_eq!(lab.writes().await, writes, "{live} {fence} {went_back}");
    }
}

/// Somebody has put both taints back after the release: no record can see to them, and people are told so, once.
#[tokio::test]
async fn taints_that_were_put_back_after_the_release_are_told_once() {
    // The Node, its NodeFence, and how often somebody is told; the Events of this lab are handed in to nobody, and counted.
    let gone = || failure(404, "not found");
    let table = [
        (node("True", true, true), (200, fence(true)), 1),
        (node("Unknown", true, true), (200, fence(true)), 1),
        (node("Unknown", true, false), (200, fence(true)), 0),
        (node("Unknown", true, true), (200, fence(false)), 0),
        (node("Unknown", true, true), gone(), 0),
    ];
    for (live, (status, fence), told) in table {
        let mut lab = Lab::new(live.clone(), None, vec![]).await;
        lab.cluster.put(NODE, 200, live.clone());
        lab.cluster
            .put(&format!("GET {FENCES}/fence"), status, fence.clone());
        for _ in 0..3 {
            lab.writes().await;
        }
        assert_eq!(lab.told(), told, "{live} {fence}");
    }
}

/// S1: the mark of a deletion without its claim. A deletion of a VolumeAttachment may be on its way, whatever has booted since: it is neither lifted
/// nor is the node fenced anew, and people are told so, once.
#[tokio::test]
async fn a_mark_without_its_claim_is_left_alone_and_told_once() {
    for (ready, wanted) in [("True", None), ("Unknown", Some(policy()))] {
        let mut live = node(ready, false, false);
        let mark = json!({"key": DETACHING, "value": "boot-0", "effect": "NoExecute"});
        live["spec"]["taints"] = json!([mark]);
        let is_told_of_both = wanted.is_some();
        let mut lab = Lab::new(live.clone(), wanted, vec![]).await;
        lab.cluster.put(NODE, 200, live);
        for _ in 0..3 {
            assert_eq!(lab.writes().await, (0, 0), "{ready}");
        }
        assert!(lab.detector.lifts.is_empty(), "{ready}");
        if is_told_of_both {
            let due = ["worker-1".to_owned()];
            lab.detector.open_incidents(&due).await;
            assert!(lab.detector.due.is_empty());
            assert_eq!(lab.writes().await, (0, 0), "{ready}");
            continue;
        }
        assert_eq!(lab.told(), 1, "{ready}");
    }
}

/// A claim that an open incident looks after costs no reads; one whose record has ended is tidied up.
#[tokio::test]
async fn the_cache_tells_whose_claim_is_looked_after() {
    for (ended, writes) in [(false, (0, 0)), (true, (0, 1))] {
        let claimed = node("True", true, false);
        let mut lab = Lab::new(claimed.clone(), None, vec![fence(ended)]).await;
        lab.cluster.put(NODE, 200, claimed);
        lab.cluster
            .put(&format!("GET {FENCES}/fence"), 200, fence(ended));
        assert_eq!(lab.writes().await, writes, "ended: {ended}");
        let is_read = lab.cluster.requests().contains(&NODE.to_owned());
        assert_eq!(is_read, ended);
    }
}

/// A quarantined Node whose Ready became Unknown then, and whose kubelet last reported then.
fn down(boot: &str, changed: &str, reported: Option<&str>) -> Value {
    let mut node = node("Unknown", false, false);
    let ready = &mut node["status"]["conditions"][0];
    ready["lastTransitionTime"] = json!(changed);
    ready["lastHeartbeatTime"] = json!(reported);
    let taint = json!({"key": QUARANTINE, "value": boot, "effect": "NoSchedule"});
    node["spec"]["taints"] = json!([taint]);
    node
}

/// A NodeFence that has ended after it had proven this Node down, whose kubelet had last reported then.
fn proven(node_uid: &str, reported: Option<&str>) -> Value {
    let mut fence = fence(true);
    fence["status"]["attemptCount"] = json!(1);
    fence["status"]["completionTime"] = json!("2026-01-01T00:10:00Z");
    fence["status"]["taintAppliedTime"] = json!("2026-01-01T00:09:11Z");
    fence["status"]["evidence"] = json!({
        "claim": "fence-n1", "nodeUID": node_uid, "nodeBootID": "boot-1", "readyHeartbeatTime": reported,
        "quiescedTime": "2026-01-01T00:09:00Z", "provenTime": "2026-01-01T00:09:10Z",
    });
    fence
}

/// A NodeFence, a human's or one for `Ready=False`, has proven the machine down and has ended: its policy opens no second one for the
/// same outage, though node-lifecycle makes Ready Unknown after that. One whose kubelet has reported since in the same boot never went
/// down, and is fenced again, whatever the clocks of kubelet and operator say.
#[tokio::test]
async fn a_machine_that_was_proven_down_in_this_boot_is_not_fenced_twice() {
    let (before, after) = ("2026-01-01T00:00:00Z", "2026-01-01T00:20:00Z");
    let later = "2026-01-01T00:09:30Z";
    for (why, node, fences, opened) in [
        (
            "not even heard of as silent",
            down("boot-1", before, Some(before)),
            vec![proven("uid-1", Some(before))],
            0,
        ),
        (
            "node-lifecycle noticed after the end",
            down("boot-1", after, Some(before)),
            vec![proven("uid-1", Some(before))],
            0,
        ),
        (
            "the kubelet's clock is ahead of ours",
            down("boot-1", after, Some(after)),
            vec![proven("uid-1", Some(after))],
            0,
        ),
        (
            "another boot was fenced",
            down("boot-0", before, Some(before)),
            vec![proven("uid-1", Some(before))],
            1,
        ),
        (
            "the kubelet has reported since",
            down("boot-1", after, Some(after)),
            vec![proven("uid-1", Some(before))],
            1,
        ),
        (
            "it has, and our clock was ahead of its",
            down("boot-1", later, Some(later)),
            vec![proven("uid-1", Some(before))],
            1,
        ),
        (
            "nobody kept when it reported, and Ready is as it was at the end",
            down("boot-1", before, Some(after)),
            vec![proven("uid-1", None)],
            0,
        ),
        (
            "nobody kept when it reported, and Ready has changed since",
            down("boot-1", after, None),
            vec![proven("uid-1", None)],
            1,
        ),
        (
            "another Node was proven down",
            down("boot-1", before, Some(before)),
            vec![proven("uid-2", Some(before))],
            1,
        ),
        (
            "nobody knows what was proven",
            down("boot-1", before, Some(before)),
            vec![fence(true)],
            1,
        ),
    ] {
        let mut lab = Lab::new(node.clone(), Some(policy()), fences).await;
        lab.cluster.put(NODE, 200, node);
        assert_eq!(lab.writes().await.0, opened, "{why}");
    }
}

/// It was proven down, and its incident ended before the taint was set: nothing has detached.
#[tokio::test]
async fn a_machine_that_was_proven_down_and_never_put_out_of_service_is_fenced() {
    let before = "2026-01-01T00:00:00Z";
    let mut untainted = proven("uid-1", Some(before));
    untainted["status"]["taintAppliedTime"] = Value::Null;
    let node = down("boot-1", before, Some(before));
    let mut lab = Lab::new(node.clone(), Some(policy()), vec![untainted]).await;
    lab.cluster.put(NODE, 200, node);
    assert_eq!(lab.writes().await.0, 1);
}
