//! Others who fence, taint, restart or delete nodes: the policy whose nodes they are says who is seen, and says when they are gone. It reads
//! no object of theirs, and has no right more.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::audit::OPERATOR;
use e2e::control_plane::{Component, ControlPlane, Options};
use e2e::lab::LIMIT;
use e2e::operator::{self, Operator};
use fencing_testbed::eventually::eventually;
use http::Method;
use serde_json::{Value, json};

use crate::verdict::{Body, must};

/// A look at the caches each minute, at most 15 s between two writes of a policy's status, and a busy machine.
const TOLD: Duration = Duration::from_secs(150);
const POLICIES: &str = "/apis/nodefencing.io/v1alpha1/nodefencingpolicies";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Each API that tells of somebody else, with one of its kinds and the word for it in the gauge.
const APIS: [(&str, &str, &str); 8] = [
    (
        "remediation.medik8s.io",
        "nodehealthcheck",
        "node-healthcheck",
    ),
    (
        "self-node-remediation.medik8s.io",
        "selfnoderemediation",
        "self-node-remediation",
    ),
    (
        "fence-agents-remediation.medik8s.io",
        "fenceagentsremediation",
        "fence-agents-remediation",
    ),
    (
        "machine-deletion-remediation.medik8s.io",
        "machinedeletionremediation",
        "machine-deletion-remediation",
    ),
    (
        "machine.openshift.io",
        "machinehealthcheck",
        "openshift-machine-api",
    ),
    ("cluster.x-k8s.io", "machinehealthcheck", "cluster-api"),
    ("metal3.io", "baremetalhost", "metal3"),
    ("csiaddons.openshift.io", "networkfence", "csi-addons"),
];

struct Scene {
    plane: ControlPlane,
    operator: Operator,
}

impl Scene {
    async fn must(&self, method: Method, path: &str, body: (Body, Value)) -> Result<Value> {
        let (kind, value) = body;
        must(&self.plane.admin(), method, path, Some((kind, &value))).await
    }

    async fn kubectl(&self, words: &[&str]) -> Result<()> {
        self.plane.kubectl_text(words).await.map(drop)
    }

    /// Status and reason of the policy's condition, and its message.
    async fn told(&self, policy: &str) -> Result<Option<(String, String)>> {
        let path = format!("{POLICIES}/{policy}");
        let policy = must(&self.plane.admin(), Method::GET, &path, None).await?;
        let conditions = policy["status"]["conditions"].as_array();
        let conditions = conditions.context("no conditions yet")?;
        let told = conditions.iter().find(|it| it["type"] == "OtherFencers");
        let text = |told: &Value, key: &str| told[key].as_str().unwrap_or_default().to_owned();
        Ok(told.map(|told| {
            let shown = format!("{} {}", text(told, "status"), text(told, "reason"));
            (shown, text(told, "message"))
        }))
    }

    /// Waits until the policy of these nodes says so, with all of these words; then the gauge does, too.
    async fn wait_told(&self, shown: &str, words: &[&str], systems: &[&str]) -> Result<()> {
        eventually(shown, TOLD, async || {
            let told = self.told("ours").await?;
            let (now, message) = told.context("it says nothing")?;
            ensure!(now == shown, "it says {now}: {message}");
            let missing: Vec<_> = words.iter().filter(|it| !message.contains(**it)).collect();
            ensure!(missing.is_empty(), "{missing:?} is not in {message}");
            let (_, metrics) = self.operator.get("/metrics").await?;
            let gauge = |system: &str| {
                format!("node_fencing_other_fencers{{policy=\"ours\",system=\"{system}\"}} 1")
            };
            let absent: Vec<_> = systems
                .iter()
                .filter(|it| !metrics.contains(&gauge(it)))
                .collect();
            ensure!(absent.is_empty(), "{absent:?} is not among the metrics");
            let series = metrics
                .matches("node_fencing_other_fencers{policy=\"ours\"")
                .count();
            ensure!(series == systems.len(), "{series} systems");
            Ok(())
        })
        .await
    }

    /// The cluster serves the APIs of all of them, or none.
    async fn serve(&self, is_wanted: bool) -> Result<()> {
        let crd = |(group, kind, _): (&str, &str, &str)| {
            let schema = json!({"openAPIV3Schema": {"type": "object"}});
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {
                    "name": format!("{kind}s.{group}"),
                    // Some of these groups are under the protection of the community that approves APIs.
                    "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
                },
                "spec": {
                    "group": group, "scope": "Namespaced", "names": {"plural": format!("{kind}s"), "singular": kind, "kind": kind},
                    "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": schema}],
                },
            })
        };
        for api in APIS {
            match is_wanted {
                true => {
                    self.must(Method::POST, CRDS, (Body::Object, crd(api)))
                        .await?
                }
                false => {
                    let path = format!("{CRDS}/{}s.{}", api.1, api.0);
                    must(&self.plane.admin(), Method::DELETE, &path, None).await?
                }
            };
        }
        eventually("discovery knows of it", LIMIT, async || {
            let all = must(&self.plane.admin(), Method::GET, "/apis", None).await?;
            let groups = all["groups"].as_array().context("a list")?;
            let is_served = |group: &str| groups.iter().any(|it| it["name"] == group);
            let served = APIS.iter().filter(|(group, ..)| is_served(group)).count();
            let wanted = if is_wanted { APIS.len() } else { 0 };
            ensure!(served == wanted, "{served} of them are served");
            Ok(())
        })
        .await?;
        // It looks at the beginning of a term, and then not for minutes.
        self.operator.kill()?;
        self.operator.start_again().await?;
        self.operator.ready(LIMIT).await
    }
}

async fn scene() -> Result<Scene> {
    let plane = ControlPlane::start(Options::named("others")).await?;
    plane.apply_deploy().await?;
    let admin = plane.admin();
    // It would find that the Nodes' kubelets do not report.
    plane.stop_component(Component::ControllerManager)?;
    let node = |name: &str, role: &str, id: &str| {
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"role": role}}, "spec": {"providerID": id},
        })
    };
    for node in [
        node("node-1", "ours", ""),
        node("node-2", "ours", ""),
        node("node-3", "theirs", "aws:///zone/i-1"),
    ] {
        let body = Some((Body::Object, &node));
        must(&admin, Method::POST, "/api/v1/nodes", body).await?;
    }
    for role in ["ours", "theirs"] {
        let policy = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy", "metadata": {"name": role},
            "spec": {"nodeSelector": {"matchLabels": {"role": role}}},
        });
        let body = Some((Body::Object, &policy));
        must(&admin, Method::POST, POLICIES, body).await?;
    }
    let operator = Operator::start(&plane, operator::Options::default()).await?;
    Ok(Scene { plane, operator })
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_told_of_while_they_are_seen() -> Result<()> {
    let scene = scene().await?;
    // The other policy's node is in a cloud, and ours has nobody: both are known by then.
    eventually("the cloud is told of", TOLD, async || {
        let (shown, words) = scene.told("theirs").await?.context("it says nothing")?;
        ensure!(
            shown == "True SeenOnNodes" && words.contains("aws:// on node-3"),
            "{shown}: {words}"
        );
        Ok(())
    })
    .await?;
    ensure!(scene.told("ours").await?.is_none());

    scene.serve(true).await?;
    let groups = APIS.map(|(group, ..)| group);
    let systems = APIS.map(|(.., system)| system);
    scene.wait_told("True Installed", &groups, &systems).await?;

    let remediation = "medik8s.io/remediation=self-node-remediation:NoExecute";
    scene
        .kubectl(&["taint", "node", "node-1", remediation])
        .await?;
    let machine = "machine.openshift.io/machine=openshift-machine-api/worker";
    scene
        .kubectl(&["annotate", "node", "node-2", machine])
        .await?;
    let kured = "weave.works/kured-most-recent-reboot-needed=2026-01-01T00:00:00Z";
    scene
        .kubectl(&["annotate", "node", "node-2", kured])
        .await?;
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "rbd-1"},
        "spec": {"attacher": "rook-ceph.rbd.csi.ceph.com", "nodeName": "node-1", "source": {"persistentVolumeName": "pv-1"}},
    });
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    scene
        .must(Method::POST, attachments, (Body::Object, attachment))
        .await?;
    let words = [
        "taint medik8s.io/remediation=self-node-remediation on node-1",
        "annotation machine.openshift.io/machine on node-2",
        "annotation weave.works/kured-most-recent-reboot-needed on node-2",
        "volumes of rook-ceph.rbd.csi.ceph.com on node-1",
        "set `release.mode: AfterRecovery`",
    ];
    let mut systems = systems.to_vec();
    systems.extend(["kured", "ceph-csi"]);
    scene
        .wait_told("True SeenOnNodes", &words, &systems)
        .await?;

    scene
        .kubectl(&["taint", "node", "node-1", "medik8s.io/remediation-"])
        .await?;
    let gone = [
        "machine.openshift.io/machine-",
        "weave.works/kured-most-recent-reboot-needed-",
    ];
    scene
        .kubectl(&["annotate", "node", "node-2", gone[0], gone[1]])
        .await?;
    scene
        .kubectl(&["delete", "volumeattachment", "rbd-1"])
        .await?;
    scene.serve(false).await?;
    scene
        .wait_told("False NoneSeen", &["no other component was found"], &[])
        .await?;

    let audit = scene.plane.audit();
    audit.settled().await?;
    let writes = audit.writes_of(OPERATOR)?;
    let others = writes
        .iter()
        .filter(|write| write.object_ref.resource != "nodefencingpolicies");
    let others: Vec<_> = others.map(e2e::audit::Request::summary).collect();
    ensure!(others.is_empty(), "it wrote {others:?}");
    let used = e2e::rights::lines(&scene.plane)?;
    ensure!(
        used.iter().all(|line| !line.starts_with("denied")),
        "{used:?}"
    );
    Ok(())
}
