//! Who asks, who is woken, and what the caller is answered.

use super::*;
use crate::shell::fake::{self, Cluster, failure};
use serde_json::json;
use tokio::task::JoinSet;

const LIST: &str = "GET /apis/nodefencing.io/v1alpha1/nodefenceremediations";
const STATUS: &str =
    "PATCH /apis/nodefencing.io/v1alpha1/namespaces/fencing/nodefenceremediations/worker-1/status";
const MACHINE: &str = "GET /apis/cluster.x-k8s.io/v1beta2/namespaces/fencing/machines/m-1";

fn remediation(metadata: Value) -> Value {
    let mut object = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFenceRemediation",
        "metadata": {"name": "worker-1", "namespace": "fencing", "uid": "uid-r", "resourceVersion": "9"}, "spec": {},
    });
    json_patch::merge(&mut object["metadata"], &metadata);
    object
}

fn of_machine() -> Value {
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m-1", "uid": "uid-m"});
    remediation(json!({"ownerReferences": [owner]}))
}

struct Scene {
    cluster: Cluster,
    context: Arc<Context>,
    changes: mpsc::UnboundedSender<Change>,
    changed: mpsc::UnboundedReceiver<Change>,
    _watches: JoinSet<()>,
}

impl Scene {
    /// A cluster with the Node `worker-1`, a policy for it, and an open NodeFence `f` that was opened for `uid-r`.
    async fn new() -> Self {
        let cluster = Cluster::new().await;
        let policy = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy", "metadata": {"name": "prod"},
            "spec": {"nodeSelector": {}, "fence": {"mode": "PowerOff"}},
        });
        let mut node = fake::node();
        node["spec"]["providerID"] = json!("test://1");
        let remediation = json!({"namespace": "fencing", "name": "worker-1", "uid": "uid-r"});
        let fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "f", "uid": "uid-f"},
            "spec": {"nodeName": "worker-1", "trigger": {"type": "NodeCondition", "remediation": remediation}, "fence": {"mode": "PowerOff"}},
        });
        for (path, kind, item) in [
            ("/api/v1/nodes", "Node", node),
            (
                "/apis/nodefencing.io/v1alpha1/nodefencingpolicies",
                "NodeFencingPolicy",
                policy,
            ),
            (
                "/apis/nodefencing.io/v1alpha1/nodefences",
                "NodeFence",
                fence,
            ),
        ] {
            let list = fake::list(kind, "7", &[item]);
            cluster.put(&format!("GET {path}"), 200, list);
        }
        let (context, watches) = cluster.watching();
        let caches = &context.caches;
        caches.nodes.wait_until_ready().await.expect("the Nodes");
        caches.fences.wait_until_ready().await.expect("NodeFences");
        caches.policies.wait_until_ready().await.expect("policies");
        let (changes, changed) = mpsc::unbounded_channel();
        Self {
            cluster,
            context,
            changes,
            changed,
            _watches: watches,
        }
    }

    async fn look(&self, remediations: &[Value]) {
        let list = fake::list("NodeFenceRemediation", "9", remediations);
        self.cluster.put(LIST, 200, list);
        let mut machines = BTreeMap::new();
        let looked = look(&self.context, &self.changes, &mut machines).await;
        assert!(looked.is_ok(), "{looked:?}");
    }

    fn asks(&self) -> bool {
        let asking = self.context.callers.asking_for("worker-1", |_| false);
        asking.is_some()
    }

    /// Would the NodeFence `f` end?
    fn ends(&self) -> bool {
        let fences = self.context.caches.fences();
        let fence = fences.first().expect("the NodeFence");
        let settings = fencing_core::fixtures::settings();
        let (callers, record) = (&self.context.callers, NodeFenceStatus::default());
        callers.heeded(settings, fence, &record).stop.is_some()
    }

    /// The statuses written so far.
    fn written(&self) -> Vec<Value> {
        let seen = self.cluster.server.seen().into_iter();
        let writes = seen.filter(|it| it.line.split('?').next() == Some(STATUS));
        writes.map(|it| it.body).collect()
    }
}

#[tokio::test]
async fn one_that_asks_wakes_the_detector_and_reads_its_fence_in_its_status() {
    let mut scene = Scene::new().await;
    scene.look(&[remediation(json!({}))]).await;
    assert!(scene.asks() && !scene.ends());
    let woken = scene.changed.try_recv().ok();
    assert_eq!(woken, Some(Change::Node("worker-1".to_owned())));
    let written = scene.written();
    let [body] = written.as_slice() else {
        panic!("{written:?}")
    };
    assert_eq!(body["metadata"]["resourceVersion"], "9");
    assert_eq!(body["status"]["nodeName"], "worker-1");
    assert_eq!(body["status"]["fenceName"], "f");
    assert_eq!(body["status"]["conditions"][0]["type"], "Processing");
    assert_eq!(body["status"]["conditions"][0]["status"], "True");
    scene.look(&[remediation(json!({}))]).await;
    assert!(scene.changed.try_recv().is_err(), "it is no news");
}

/// S15, S18: nothing is taken for withdrawn that is only not known.
#[tokio::test]
async fn one_that_is_gone_or_stopped_ends_its_fence_and_one_that_cannot_be_read_does_not() {
    let scene = Scene::new().await;
    assert!(!scene.ends(), "nothing was listed yet");
    scene.look(&[remediation(json!({}))]).await;
    let (status, body) = failure(500, "etcd is away");
    scene.cluster.put(LIST, status, body);
    let mut machines = BTreeMap::new();
    let failed = look(&scene.context, &scene.changes, &mut machines).await;
    assert!(failed.is_err() && !scene.ends() && !scene.asks());
    let timed_out =
        json!({"annotations": {"remediation.medik8s.io/nhc-timed-out": "2026-01-01T00:00:00Z"}});
    scene.look(&[remediation(timed_out)]).await;
    assert!(scene.ends() && !scene.asks());
    scene.look(&[remediation(json!({}))]).await;
    assert!(!scene.ends());
    scene.look(&[remediation(json!({"uid": "uid-2"}))]).await;
    assert!(scene.ends() && scene.asks(), "another one of the same name");
    scene.look(&[]).await;
    assert!(scene.ends() && !scene.asks());
    let scene = Scene::new().await;
    scene.look(&[remediation(json!({}))]).await;
    scene.context.revision.note(120, Some("90"));
    scene.look(&[]).await;
    assert!(!scene.ends(), "the cluster went back in time");
}

#[tokio::test]
async fn a_status_that_cannot_be_written_is_written_by_the_next_look() {
    let scene = Scene::new().await;
    let (status, body) = failure(409, "it has changed");
    scene.cluster.put(STATUS, status, body);
    for looks in 1..=2 {
        scene.look(&[remediation(json!({}))]).await;
        assert!(scene.asks() && !scene.ends());
        assert_eq!(scene.written().len(), looks);
    }
}

/// As NodeHealthCheck does for a Machine of OpenShift that has no Node.
#[tokio::test]
async fn one_that_names_no_node_is_answered_so() {
    let scene = Scene::new().await;
    let nameless = json!({"annotations": {"remediation.medik8s.io/node-name": ""}});
    scene.look(&[remediation(nameless)]).await;
    assert!(!scene.asks());
    let written = scene.written();
    let status = written.last().map(|it| it["status"].clone());
    let status = status.expect("a status");
    assert_eq!(status["conditions"][1]["reason"], "NodeNotFound");
    assert_eq!(status["nodeName"], Value::Null);
}

#[tokio::test]
async fn the_node_of_a_machine_is_that_of_its_status() {
    let scene = Scene::new().await;
    scene.look(&[of_machine()]).await;
    assert!(!scene.asks() && !scene.ends());
    let reason = |body: &Value| body["status"]["conditions"][1]["reason"].clone();
    assert_eq!(
        scene.written().last().map(reason),
        Some(json!("NodeNotFound"))
    );
    let (status, body) = failure(500, "etcd is away");
    scene.cluster.put(MACHINE, status, body);
    scene.look(&[of_machine()]).await;
    assert_eq!(scene.written().len(), 1, "the Machine could not be read");
    for (provider_id, is_its) in [("test://9", false), ("test://1", true), ("", true)] {
        let machine = json!({
            "metadata": {"name": "m-1"}, "spec": {"providerID": provider_id}, "status": {"nodeRef": {"name": "worker-1"}},
        });
        scene.cluster.put(MACHINE, 200, machine);
        scene.look(&[of_machine()]).await;
        assert_eq!(scene.asks(), is_its, "{provider_id}");
    }
}
