//! From a silent Lease to the report, over a cluster that answers as it is told.

mod guards;

use super::*;
use crate::shell::fake::{self, Cluster, failure};
use crate::shell::found_off::Said;
use crate::shell::knock::Knocked;
use fencing_core::early::Off;
use serde_json::{Value, json};
use tokio::task::JoinSet;

const NODE: &str = "GET /api/v1/nodes/worker-1";
const STATUS: &str = "PATCH /api/v1/nodes/worker-1/status";
const LEASE: &str = "GET /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/worker-1";
const OF: &str = "/apis/nodefencing.io/v1alpha1";
const RENEWED: &str = "2026-11-30T03:59:50.000000Z";

fn lease(node: &str, renewed: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": node, "namespace": LEASES, "uid": "uid-lease", "resourceVersion": "7"},
        "spec": {"renewTime": renewed, "leaseDurationSeconds": 40},
    })
}

fn policy(early_detection: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy",
        "metadata": {"name": "all", "uid": "uid-policy", "generation": 1},
        "spec": {
            "nodeSelector": {}, "earlyDetection": early_detection,
            "fence": {"mode": mode, "levels": [{"name": "bmc"}]},
        },
    })
}

/// A node that is Ready.
fn ready(heartbeat: &str) -> Value {
    let mut node = fake::node();
    node["spec"]["taints"] = json!([]);
    node["status"]["conditions"] = json!([{
        "type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": heartbeat,
        "lastTransitionTime": "2026-11-29T00:00:00Z",
    }]);
    node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "127.0.0.1"}]);
    node["status"]["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": 10250}});
    node
}

struct Scene {
    cluster: Cluster,
    reporter: Reporter,
    _watches: JoinSet<()>,
}

const HEARTBEAT: &str = "2026-11-30T03:59:55Z";

impl Scene {
    /// A silent kubelet beside one that has just renewed its Lease, and what becomes of a knock at it.
    async fn of(policy: Value, knocked: Knocked) -> Self {
        Self::with(policy, knocked, ready(HEARTBEAT), vec![]).await
    }

    /// The same with this Node, where there are these NodeFences.
    async fn with(policy: Value, knocked: Knocked, node: Value, fences: Vec<Value>) -> Self {
        let cluster = Cluster::new().await;
        cluster.knock.set(knocked).expect("it is set once");
        cluster.put(NODE, 200, node.clone());
        cluster.put(STATUS, 200, node.clone());
        cluster.put(LEASE, 200, lease("worker-1", RENEWED));
        cluster.put("GET /api/v1/nodes", 200, fake::list("Node", "7", &[node]));
        let device = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice",
            "metadata": {"name": "bmc", "uid": "uid-bmc", "generation": 1},
            "spec": {
                "nodeName": "worker-1", "redfish": {"address": "https://127.0.0.1"}, "credentialsRef": {"name": "bmc"},
            },
        });
        for (kind, plural, objects) in [
            ("NodeFencingPolicy", "nodefencingpolicies", vec![policy]),
            ("FenceDevice", "fencedevices", vec![device]),
            ("NodeFence", "nodefences", fences),
        ] {
            let list = fake::list(kind, "7", &objects);
            cluster.put(&format!("GET {OF}/{plural}"), 200, list);
        }
        let (context, watches) = cluster.watching();
        let caches = &context.caches;
        caches.nodes.wait_until_ready().await.expect("the nodes");
        caches.policies.wait_until_ready().await.expect("policies");
        caches.devices.wait_until_ready().await.expect("devices");
        caches.fences.wait_until_ready().await.expect("fences");
        let mut reporter = Reporter::of(context);
        let now = clock::since_boot();
        let mut hear = |name: &str, renewed: &str, ago: u64| {
            let lease = serde_json::from_value(lease(name, renewed)).expect("a Lease");
            let seen = now.saturating_sub(Duration::from_secs(ago));
            reporter.heard(Ok(Event::Apply(lease)), seen);
        };
        hear("worker-1", RENEWED, 13);
        hear("worker-2", "2026-11-30T03:59:58.000000Z", 5);
        Self {
            cluster,
            reporter,
            _watches: watches,
        }
    }

    /// The Node, as the cache has it.
    fn node(&self) -> NodeView {
        let node = self.reporter.context.caches.node("worker-1");
        node.expect("it is there").view.clone()
    }

    fn suspects(&mut self) -> Vec<String> {
        self.reporter.look(clock::since_boot());
        let found_off = &self.reporter.context.found_off;
        found_off.suspects().into_iter().collect()
    }

    /// The BMC reads Off twice, having read On before.
    async fn reads_off(&mut self) {
        let (context, node) = (&self.reporter.context, self.node());
        let now = clock::since_boot();
        let ago = |millis| now.saturating_sub(Duration::from_millis(millis));
        for asked in [ago(700), ago(50)] {
            let off = Off {
                first: asked,
                last: asked,
                on_before: Some(ago(20_000)),
            };
            context.found_off.note("bmc", &node, Some(Said::Off(off)));
        }
        self.reporter.report_all().await;
    }

    fn written(&self) -> Vec<Value> {
        let seen = self.cluster.server.seen();
        let written = seen.into_iter().filter(|it| it.line.starts_with(STATUS));
        written.map(|it| it.body).collect()
    }
}

#[tokio::test]
async fn a_silent_machine_that_reads_off_is_reported_once() {
    let mut scene = Scene::of(policy("Enabled", "PowerOff"), Knocked::Silent).await;
    assert_eq!(scene.suspects(), ["worker-1"]);
    assert!(scene.written().is_empty(), "a suspicion writes nothing");
    scene.reads_off().await;
    let written = scene.written();
    let [patch] = written.as_slice() else {
        panic!("{written:?}");
    };
    let operation = |path: &str, op: &str| {
        let all = patch.as_array().expect("operations").iter();
        let path = format!("/status/conditions/0/{path}");
        let of_path = all.filter(|it| it["path"] == json!(path) && it["op"] == json!(op));
        of_path.map(|it| it["value"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(operation("lastHeartbeatTime", "test"), [json!(HEARTBEAT)]);
    assert_eq!(operation("reason", "add"), [json!("PoweredOff")]);
    let message = json!(
        "FenceDevice bmc reads Off, and the kubelet is silent: reported by node-fencing-operator"
    );
    assert_eq!(operation("message", "add"), [message]);
    // S24: once for each boot.
    assert_eq!(scene.suspects(), [""; 0]);
    scene.reads_off().await;
    assert_eq!(scene.written().len(), 1);
}

#[tokio::test]
async fn what_the_quorum_or_the_port_says_refuses_the_report() {
    let mut renewed = Scene::of(policy("Enabled", "PowerOff"), Knocked::Silent).await;
    assert_eq!(renewed.suspects(), ["worker-1"]);
    let newer = lease("worker-1", "2026-11-30T04:00:00.000000Z");
    renewed.cluster.put(LEASE, 200, newer);
    renewed.reads_off().await;
    assert!(renewed.written().is_empty(), "its Lease was renewed");

    let mut unread = Scene::of(policy("Enabled", "PowerOff"), Knocked::Silent).await;
    assert_eq!(unread.suspects(), ["worker-1"]);
    let (status, body) = failure(500, "etcd is away");
    unread.cluster.put(LEASE, status, body);
    unread.reads_off().await;
    assert!(unread.written().is_empty(), "its Lease could not be read");

    // A machine that refuses a connection runs, and of one that cannot be tried nothing is known.
    for knocked in [Knocked::Answers, Knocked::Refused, Knocked::Unclear] {
        let mut scene = Scene::of(policy("Enabled", "PowerOff"), knocked).await;
        assert_eq!(scene.suspects(), ["worker-1"]);
        scene.reads_off().await;
        assert!(scene.written().is_empty(), "{knocked:?}");
    }
}

#[tokio::test]
async fn nobody_is_suspected_where_no_fence_would_begin() {
    for (early_detection, mode) in [("Disabled", "PowerOff"), ("Enabled", "Observe")] {
        let mut scene = Scene::of(policy(early_detection, mode), Knocked::Silent).await;
        assert_eq!(scene.suspects(), [""; 0], "{early_detection} {mode}");
        scene.reads_off().await;
        assert!(scene.written().is_empty());
    }
}

/// The goal is that this never happens: a metric and its alert say when it has.
#[tokio::test]
async fn a_kubelet_that_reports_again_in_the_same_boot_refutes_the_report() {
    let mut scene = Scene::of(policy("Enabled", "PowerOff"), Knocked::Silent).await;
    scene.suspects();
    scene.reads_off().await;
    let refuted = |scene: &Scene| {
        let metrics = scene.reporter.context.metrics.render().expect("metrics");
        let line = "node_fencing_early_reports_refuted_total{policy=\"all\"} 1";
        metrics.contains(line)
    };
    // The cache has not seen the report yet, and shows the Node as it was before.
    scene.suspects();
    assert!(!refuted(&scene));
    let before = scene
        .reporter
        .reported
        .get_mut("worker-1")
        .expect("it was reported");
    before.heartbeat = "2026-11-30T03:59:45Z".to_owned();
    scene.suspects();
    assert!(refuted(&scene));
    assert_eq!(scene.suspects(), [""; 0], "not a second time in this boot");
}

/// What an earlier process has reported: it counts against the budget, and is refuted when its kubelet reports again.
#[tokio::test]
async fn a_report_of_the_process_before_is_taken_over() {
    let mut node = ready(HEARTBEAT);
    node["status"]["conditions"][0]["status"] = json!("Unknown");
    node["status"]["conditions"][0]["reason"] = json!("PoweredOff");
    let mut scene = Scene::with(policy("Enabled", "PowerOff"), Knocked::Silent, node, vec![]).await;
    assert_eq!(scene.suspects(), [""; 0], "it is not Ready");
    let policies = scene.reporter.context.caches.policies();
    let mut other = fencing_core::fixtures::ready_node("worker-2");
    other.boot_id = "boot-2".to_owned();
    let brakes = scene.reporter.brakes(&policies[0], &other, 0);
    assert_eq!(brakes.suspects, 1, "it takes its place");
    assert!(scene.reporter.reported["worker-1"].stands);
}

#[tokio::test]
async fn the_pods_that_stay_are_turned_and_no_others() {
    let scene = Scene::of(policy("Enabled", "PowerOff"), Knocked::Silent).await;
    let pod = |name: &str, ready: &str, deleting: bool| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "7"},
            "spec": {"containers": []},
            "status": {"conditions": [
                {"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": ready},
            ]},
        });
        if deleting {
            pod["metadata"]["deletionTimestamp"] = json!("2026-11-30T04:00:00Z");
        }
        pod
    };
    let pods = [
        pod("stays", "True", false),
        pod("leaves", "True", true),
        pod("broken", "False", false),
    ];
    let path = |name: &str| format!("PATCH /api/v1/namespaces/shop/pods/{name}/status");
    scene
        .cluster
        .put("GET /api/v1/pods", 200, fake::list("Pod", "7", &pods));
    let context = &scene.reporter.context;
    let (status, body) = failure(500, "etcd is away");
    scene.cluster.put(&path("stays"), status, body);
    assert!(
        !pods::turn_not_ready(context, "worker-1").await,
        "once more"
    );
    scene.cluster.put(&path("stays"), 200, pods[0].clone());
    assert!(pods::turn_not_ready(context, "worker-1").await);
    let seen = scene.cluster.server.seen();
    let patches = seen.iter().filter(|it| it.line.starts_with("PATCH"));
    let patches: Vec<&Value> = patches.map(|it| &it.body).collect();
    let [_, patch] = patches.as_slice() else {
        panic!("{patches:?}");
    };
    let test = json!({"op": "test", "path": "/metadata/uid", "value": "uid-stays"});
    assert_eq!(patch[0], test);
    let set = |field: &str, value: &str, op: &str| json!({"op": op, "path": format!("/status/conditions/1/{field}"), "value": value});
    let operations = patch.as_array().expect("operations");
    assert!(operations.contains(&set("type", "Ready", "test")));
    assert!(operations.contains(&set("status", "True", "test")));
    assert!(operations.contains(&set("status", "False", "replace")));
    assert!(operations.contains(&set("reason", "NodePoweredOff", "add")));
}

/// S22: in the proof of what was reported a refused connection is a sign of life, as it was before the report.
#[tokio::test]
async fn a_port_that_refuses_lives_where_the_node_was_reported() {
    let scene = Scene::of(policy("Enabled", "PowerOff"), Knocked::Refused).await;
    let context = &scene.reporter.context;
    let mut node = ready(HEARTBEAT);
    let answers = async |node: &Value| {
        let node = serde_json::from_value(node.clone()).expect("a Node");
        crate::shell::observe::kubelet_answers(context, &node).await
    };
    assert!(!answers(&node).await);
    node["status"]["conditions"][0]["status"] = json!("Unknown");
    assert!(!answers(&node).await);
    node["status"]["conditions"][0]["reason"] = json!("PoweredOff");
    assert!(answers(&node).await);
}
