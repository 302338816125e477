//! What the API server is asked, and that an answer which cannot be trusted is never an empty one.

mod attachments;
mod volumes;

use super::*;
use crate::shell::fake::{self, Cluster, failure};
use fencing_core::plan::Needs;
use serde_json::{Value, json};
use tokio::net::TcpListener;

const NODE: &str = "GET /api/v1/nodes/worker-1";
const LEASE: &str = "GET /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/worker-1";
const PODS: &str = "GET /api/v1/pods";
const ATTACHMENTS: &str = "GET /apis/storage.k8s.io/v1/volumeattachments";
const FENCE: &str = "GET /apis/nodefencing.io/v1alpha1/nodefences/fence";
const CLAIM: &str = "GET /api/v1/namespaces/default/persistentvolumeclaims/data";

const EVERYTHING: Needs = Needs {
    lease: true,
    pods: true,
    starting: Vec::new(),
    attachments: true,
    volumes_of: None,
    kubelet: true,
    foreign_commands: true,
    record: true,
};

fn pod(name: &str, tolerations: Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {
            "containers": [],
            "tolerations": tolerations,
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    })
}

fn attachment(name: &str, node: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {"attacher": "lab.csi", "nodeName": node, "source": {"persistentVolumeName": "pv-1"}},
    })
}

/// A node with one pod and one VolumeAttachment, and one of another node.
async fn cluster() -> Cluster {
    let cluster = Cluster::new().await;
    let lease = json!({"metadata": {"name": "worker-1", "uid": "uid-lease"}, "spec": {"renewTime": "renewal-1"}});
    let claim = json!({"metadata": {"name": "data", "uid": "uid-data"}, "spec": {"volumeName": "pv-1"}, "status": {"phase": "Bound"}});
    let attachments = [
        attachment("csi-1", "worker-1"),
        attachment("csi-2", "worker-2"),
    ];
    cluster.put(NODE, 200, fake::node());
    cluster.put(LEASE, 200, lease);
    cluster.put(PODS, 200, fake::list("Pod", "7", &[pod("db-0", json!([]))]));
    cluster.put(
        ATTACHMENTS,
        200,
        fake::list("VolumeAttachment", "7", &attachments),
    );
    cluster.put(CLAIM, 200, claim);
    cluster.put(FENCE, 200, fence_object(json!({})));
    cluster
}

fn fence_object(status: Value) -> Value {
    let trigger = json!({"type": "NodeCondition"});
    json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": "fence", "uid": "uid-fence"},
        "spec": {
            "nodeName": "worker-1", "policyName": "prod", "policyGeneration": 1, "trigger": trigger,
            "fence": {"mode": "PowerOff"}, "recovery": {}, "release": {}, "powerOn": {},
        },
        "status": status,
    })
}

async fn observed(cluster: &Cluster, needs: Needs) -> Observed {
    read(&cluster.context(), needs).await
}

/// A round's reads, all of them foreseen.
async fn read(context: &Context, needs: Needs) -> Observed {
    let reads = Reads::begin(context, "worker-1", needs.clone()).await;
    reads.complete(context, "fence", needs).await.0
}

#[tokio::test]
async fn everything_is_read_from_the_quorum() {
    let cluster = cluster().await;
    let observed = observed(&cluster, EVERYTHING).await;
    let node = observed.node.present().expect("a Node");
    assert_eq!(
        (node.uid.as_str(), node.boot_id.as_str()),
        ("uid-1", "boot-1")
    );
    let lease = observed.lease.present().expect("a Lease");
    assert_eq!(lease.renew_time, "renewal-1");
    let pods = observed.pods.present().expect("pods");
    assert_eq!(pods[0].full_name(), "default/db-0");
    let attachments = observed.attachments.present().expect("VolumeAttachments");
    assert_eq!(attachments.len(), 1, "only those of the node");
    assert_eq!(attachments[0].name, "csi-1");
    assert_eq!(observed.evidence, Read::Present(false));
    let requests = cluster.requests();
    assert_eq!(requests.len(), 5, "{requests:?}");
    assert!(
        requests
            .iter()
            .any(|line| line.contains("fieldSelector=spec.nodeName%3Dworker-1"))
    );
    // With a resourceVersion, even 0, the API server may answer from its cache.
    let cached = |line: &String| line.contains("resourceVersion");
    assert!(!requests.iter().any(cached), "{requests:?}");
}

/// S18: where lists are newer than ever (`--bump-revision`) it is the Node that went back.
#[tokio::test]
async fn a_node_that_is_older_than_a_watch_has_shown_freezes_the_round_that_reads_it() {
    let cluster = cluster().await;
    for (path, kind) in [(PODS, "Pod"), (ATTACHMENTS, "VolumeAttachment")] {
        cluster.put(path, 200, fake::list(kind, "1000000007", &[]));
    }
    let context = cluster.context();
    let meta = &fake::node()["metadata"];
    let text = |key: &str| meta[key].as_str().expect("text");
    let shown = |version| {
        context
            .revision
            .saw_node(text("name"), text("uid"), version)
    };
    shown("7");
    assert_eq!(read(&context, EVERYTHING).await.frozen, None);
    shown("9");
    let words = read(&context, EVERYTHING).await.frozen.unwrap_or_default();
    assert!(words.contains("from 9 to 7"), "{words}");
}

/// A pod that could still start when it was listed.
fn startable(name: &str) -> PodView {
    let pod = serde_json::from_value(pod(name, json!([]))).expect("a pod");
    pod_view(&pod)
}

#[tokio::test]
async fn pods_that_could_start_are_read_by_name_and_uid() {
    let of = |name: &str| format!("GET /api/v1/namespaces/default/pods/{name}");
    let needs = Needs {
        starting: ["stays", "leaves", "gone", "anew"].map(startable).to_vec(),
        ..Needs::default()
    };
    let cluster = cluster().await;
    let mut leaves = pod("leaves", json!([]));
    leaves["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut anew = pod("anew", json!([]));
    anew["metadata"]["uid"] = json!("another");
    cluster.put(&of("stays"), 200, pod("stays", json!([])));
    cluster.put(&of("leaves"), 200, leaves);
    cluster.put(&of("gone"), 404, failure(404, "NotFound").1);
    cluster.put(&of("anew"), 200, anew);
    let found = observed(&cluster, needs.clone()).await;
    let pods = found.starting.present().expect("pods");
    let named: Vec<_> = pods
        .iter()
        .map(|pod| (pod.name.as_str(), pod.deleting))
        .collect();
    assert_eq!(named, [("stays", false), ("leaves", true)]);
    assert_eq!(found.pods, Read::NotRead);

    let (status, body) = failure(500, "etcd is slow");
    cluster.put(&of("stays"), status, body);
    let found = observed(&cluster, needs).await.starting;
    assert!(matches!(found, Read::Failed(_)), "{found:?}");
}

#[tokio::test]
async fn only_what_is_needed_is_read() {
    let cluster = cluster().await;
    let observed = observed(&cluster, Needs::default()).await;
    assert_eq!(observed.lease, Read::NotRead);
    assert_eq!(observed.pods, Read::NotRead);
    assert_eq!(observed.attachments, Read::NotRead);
    assert_eq!(observed.evidence, Read::NotRead);
    assert_eq!(cluster.requests(), [NODE]);
}

#[tokio::test]
async fn an_answer_that_cannot_be_trusted_is_no_answer() {
    let cut = |kind: &str| {
        let mut list = fake::list(kind, "7", &[]);
        list["metadata"]["continue"] = json!("more");
        (200, list)
    };
    let of_no_version = |kind: &str| (200, fake::list(kind, "", &[]));
    let answers = |kind: &str| {
        [
            failure(500, "etcd is slow"),
            failure(403, "forbidden"),
            (200, json!({"items": "nonsense"})),
            (
                200,
                json!({"kind": format!("{kind}List"), "metadata": {}, "items": []}),
            ),
            of_no_version(kind),
            cut(kind),
        ]
    };
    for (status, body) in answers("Pod") {
        let cluster = cluster().await;
        cluster.put(PODS, status, body.clone());
        let pods = observed(&cluster, EVERYTHING).await.pods;
        assert!(matches!(pods, Read::Failed(_)), "{body}");
    }
    for (status, body) in answers("VolumeAttachment") {
        let cluster = cluster().await;
        cluster.put(ATTACHMENTS, status, body.clone());
        let attachments = observed(&cluster, EVERYTHING).await.attachments;
        assert!(matches!(attachments, Read::Failed(_)), "{body}");
    }
    for (status, body) in [failure(500, "etcd is slow"), failure(403, "forbidden")] {
        let cluster = cluster().await;
        cluster.put(LEASE, status, body.clone());
        let lease = observed(&cluster, EVERYTHING).await.lease;
        assert!(matches!(lease, Read::Failed(_)), "{body}");
        cluster.put(NODE, status, body.clone());
        let node = node(&cluster.context(), "worker-1").await;
        assert!(matches!(node, Read::Failed(_)), "{body}");
    }
}

/// F22: a proxy's page, an object that was cut, or another one.
#[tokio::test]
async fn an_object_that_is_not_the_one_asked_for_is_no_answer() {
    let table = [
        ("/metadata/name", json!("worker-2")),
        ("/metadata/name", Value::Null),
        ("/metadata/uid", json!("")),
        ("/metadata/uid", Value::Null),
    ];
    for (pointer, value) in table {
        let cluster = cluster().await;
        let mut body = fake::node();
        *body.pointer_mut(pointer).expect("a field") = value.clone();
        cluster.put(NODE, 200, body);
        let node = node(&cluster.context(), "worker-1").await;
        assert!(matches!(node, Read::Failed(_)), "{pointer} {value}");
    }
}

/// F22: somebody on the way answers 404, who knows nothing of the cluster.
#[tokio::test]
async fn a_404_that_is_not_the_api_servers_is_no_absence() {
    let (_, mut other) = failure(404, "no such host");
    other["reason"] = json!("Other");
    for body in [other, json!({"error": "no such host"})] {
        let cluster = cluster().await;
        cluster.put(NODE, 404, body.clone());
        let node = node(&cluster.context(), "worker-1").await;
        assert!(matches!(node, Read::Failed(_)), "{body}");
    }
}

/// Whose `out-of-service` it is hangs on the NodeFence as it is now, and on nothing else.
#[tokio::test]
async fn the_evidence_of_another_process_is_read_from_the_nodefence() {
    let cluster = cluster().await;
    let evidence = json!({
        "claim": "fence-n1", "nodeUID": "uid-1", "nodeBootID": "boot-1",
        "quiescedTime": "2026-01-01T00:00:00Z", "provenTime": "2026-01-01T00:00:00Z", "readings": [],
    });
    let fence = fence_object(json!({"evidence": evidence}));
    cluster.put(FENCE, 200, fence);
    let read = observed(&cluster, EVERYTHING).await.evidence;
    assert_eq!(read, Read::Present(true));
    let (status, body) = failure(500, "etcd is slow");
    cluster.put(FENCE, status, body);
    let read = observed(&cluster, EVERYTHING).await.evidence;
    assert!(matches!(read, Read::Failed(_)), "{read:?}");
}

#[tokio::test]
async fn what_does_not_exist_is_said_to_be_absent() {
    let cluster = cluster().await;
    let (status, body) = failure(404, "not found");
    cluster.put(LEASE, status, body.clone());
    let lease = observed(&cluster, EVERYTHING).await.lease;
    let never_moves = LeaseView {
        renew_time: String::new(),
    };
    assert_eq!(lease, Read::Present(never_moves));
    cluster.put(NODE, status, body);
    let node = node(&cluster.context(), "worker-1").await;
    assert!(matches!(node, Read::Absent));
}

#[tokio::test]
async fn the_kubelets_port_is_asked_when_it_matters() {
    let port = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let number = port.local_addr().expect("an address").port();
    let cluster = cluster().await;
    let mut node = fake::node();
    node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "127.0.0.1"}]);
    node["status"]["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": number}});
    cluster.put(NODE, 200, node);
    assert!(observed(&cluster, EVERYTHING).await.kubelet_answers);
    assert!(!observed(&cluster, Needs::default()).await.kubelet_answers);
    drop(port);
    assert!(!observed(&cluster, EVERYTHING).await.kubelet_answers);
}

#[tokio::test]
async fn a_cluster_that_went_back_in_time_is_noticed_by_the_next_list() {
    let cluster = cluster().await;
    let context = cluster.context();
    let needs = Needs {
        pods: true,
        ..Needs::default()
    };
    for (version, frozen) in [("120", false), ("120", false), ("90", true), ("130", true)] {
        cluster.put(PODS, 200, fake::list("Pod", version, &[]));
        let observed = read(&context, needs.clone()).await;
        assert_eq!(observed.frozen.is_some(), frozen, "{version}");
    }
}
