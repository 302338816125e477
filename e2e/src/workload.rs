//! The workloads of the lab: volumes bound by hand, and the pods that write to them.
//!
//! The pods run on real and on simulated nodes alike: their one container appends to `/data/writes.log` (see
//! [`crate::volume::Write`]) and is created by the real controllers, bound by the real scheduler. Every volume is a
//! PersistentVolume whose name is its CSI handle, bound in advance to the one claim that may use it.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount,
};
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{DeleteParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::csi::DRIVER;

/// The image of the writer, imported into every real node; simulated ones do not look at it.
pub const WRITER_IMAGE: &str = "nodefencing.io/lab-writer:1";

const STORAGE_CLASS: &str = "lab";

/// A pod template, as far as the lab's workloads differ.
#[derive(Debug, Clone, Default)]
pub struct Template {
    /// The claim mounted at `/data`; the container writes nothing without one.
    pub claim: Option<String>,
    /// `terminationGracePeriodSeconds`; 5 if not given, so that a test need not wait for the usual 30.
    pub grace_seconds: Option<u32>,
    /// The container ignores SIGTERM and writes until its grace period is over.
    pub ignores_sigterm: bool,
    /// The pod tolerates every taint, for ever.
    pub tolerates_all: bool,
    /// Only nodes with this name take the pod. The scheduler still binds it.
    pub node: Option<String>,
    /// Finalizers of the pod.
    pub finalizers: Vec<String>,
    /// The pod uses the node's network, so it starts on a real node whose network plugin is not there yet.
    pub host_network: bool,
    /// The pod brings the node's network plugin; see [`crate::machine::Boot::ready_needs_daemonset`].
    pub network_plugin: bool,
}

impl Template {
    /// A pod with `claim` mounted.
    pub fn with_claim(claim: impl Into<String>) -> Self {
        Self {
            claim: Some(claim.into()),
            ..Self::default()
        }
    }

    /// A pod that brings the node's network plugin, for a DaemonSet. It tolerates nodes that are not Ready for want of
    /// it, and no taint of anybody else.
    pub fn network_plugin() -> Self {
        Self {
            host_network: true,
            network_plugin: true,
            ..Self::default()
        }
    }

    fn tolerations(&self) -> Value {
        let tolerate = |key: &str| json!({"key": key, "operator": "Exists"});
        if self.tolerates_all {
            json!([{"operator": "Exists"}])
        } else if self.network_plugin {
            json!([
                tolerate("node.kubernetes.io/not-ready"),
                tolerate("node.kubernetes.io/unreachable")
            ])
        } else {
            json!([])
        }
    }

    fn render(&self, app: &str) -> Value {
        let mut annotations = json!({});
        if self.ignores_sigterm {
            annotations[crate::simulated::IGNORES_SIGTERM] = json!("true");
        }
        let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let mut args = if self.claim.is_some() {
            vec!["write", "/data/writes.log"]
        } else if self.network_plugin {
            vec!["network", "/cni/lab.conflist"]
        } else {
            vec!["pause"]
        };
        if self.ignores_sigterm {
            args.push("--ignore-sigterm");
        }
        let mut volumes = vec![json!({"name": "boot-id", "hostPath": {"path": "/run/boot_id"}})];
        let mut mounts =
            vec![json!({"name": "boot-id", "mountPath": "/boot_id", "readOnly": true})];
        if let Some(claim) = &self.claim {
            volumes.push(json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}}));
            mounts.push(json!({"name": "data", "mountPath": "/data"}));
        }
        if self.network_plugin {
            volumes.push(json!({"name": "cni", "hostPath": {"path": "/run/cni"}}));
            mounts.push(json!({"name": "cni", "mountPath": "/cni"}));
        }
        json!({
            "metadata": {"labels": {"app": app}, "annotations": annotations, "finalizers": self.finalizers},
            "spec": {
                "terminationGracePeriodSeconds": self.grace_seconds.unwrap_or(5),
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "nodeSelector": self.node.as_ref().map(|node| json!({"kubernetes.io/hostname": node})),
                "tolerations": self.tolerations(),
                "hostNetwork": self.host_network,
                "containers": [{
                    "name": "writer",
                    "image": WRITER_IMAGE,
                    "imagePullPolicy": "Never",
                    "args": args,
                    "env": [field("NODE", "spec.nodeName"), field("POD_UID", "metadata.uid")],
                    "volumeMounts": mounts,
                }],
                "volumes": volumes,
            },
        })
    }
}

/// A namespace and what runs in it.
#[derive(Clone)]
pub struct Workloads {
    client: Client,
    namespace: String,
}

impl Workloads {
    /// Creates the namespace, and the CSIDriver and StorageClass of the lab, unless they are there already.
    pub async fn create(client: Client, namespace: &str) -> Result<Self> {
        let this = Self {
            client,
            namespace: namespace.to_owned(),
        };
        let driver = json!({"metadata": {"name": DRIVER}, "spec": {"attachRequired": true, "podInfoOnMount": false}});
        this.ensure::<CSIDriver>(driver).await?;
        this.ensure::<StorageClass>(
            json!({"metadata": {"name": STORAGE_CLASS}, "provisioner": DRIVER}),
        )
        .await?;
        this.ensure::<Namespace>(json!({"metadata": {"name": namespace}}))
            .await?;
        // Pods cannot be created before the controller-manager has made the namespace's service account.
        let exists = |account: Option<&ServiceAccount>| account.is_some();
        let there = await_condition(this.api(), "default", exists);
        let limit = Duration::from_secs(20);
        within(limit, "the default service account", there).await??;
        Ok(this)
    }

    /// The API of a kind of object in this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A ReadWriteOnce volume with this CSI handle, bound in advance to the claim `claim`, which is not created.
    pub async fn volume_for(&self, handle: &str, claim: &str) -> Result<()> {
        let volume = json!({
            "metadata": {"name": handle},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": STORAGE_CLASS,
                "claimRef": {"namespace": self.namespace, "name": claim},
                "csi": {"driver": DRIVER, "volumeHandle": handle},
            },
        });
        self.ensure::<PersistentVolume>(volume).await
    }

    /// A ReadWriteOnce volume with this CSI handle, and a claim of the same name bound to it.
    pub async fn volume(&self, handle: &str) -> Result<()> {
        self.volume_for(handle, handle).await?;
        let mut claim = claim(handle);
        claim["spec"]["volumeName"] = json!(handle);
        self.make::<PersistentVolumeClaim>(claim).await.map(drop)
    }

    /// A StatefulSet of one replica with a ReadWriteOnce volume of its own, whose CSI handle is returned: its pod is
    /// `NAME-0`, and writes.
    pub async fn stateful_set(&self, name: &str, template: &Template) -> Result<String> {
        let handle = format!("{}-{name}", self.namespace);
        self.volume_for(&handle, &format!("data-{name}-0")).await?;
        let mut pod = Template {
            claim: Some("data".to_owned()),
            ..template.clone()
        }
        .render(name);
        let volumes = pod["spec"]["volumes"]
            .as_array_mut()
            .context("a template has volumes")?;
        volumes.retain(|volume| volume["name"] != "data"); // comes from the claim template instead
        let spec = json!({
            "replicas": 1,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": pod,
            "volumeClaimTemplates": [claim("data")],
        });
        self.make::<StatefulSet>(json!({"metadata": {"name": name}, "spec": spec}))
            .await?;
        Ok(handle)
    }

    /// A Deployment.
    pub async fn deployment(
        &self,
        name: &str,
        replicas: u32,
        template: &Template,
    ) -> Result<Deployment> {
        let selector = json!({"matchLabels": {"app": name}});
        let spec =
            json!({"replicas": replicas, "selector": selector, "template": template.render(name)});
        self.make(json!({"metadata": {"name": name}, "spec": spec}))
            .await
    }

    /// A DaemonSet.
    pub async fn daemon_set(&self, name: &str, template: &Template) -> Result<DaemonSet> {
        let spec =
            json!({"selector": {"matchLabels": {"app": name}}, "template": template.render(name)});
        self.make(json!({"metadata": {"name": name}, "spec": spec}))
            .await
    }

    /// A pod that nobody re-creates.
    pub async fn pod(&self, name: &str, template: &Template) -> Result<Pod> {
        let mut pod = template.render(name);
        pod["metadata"]["name"] = json!(name);
        self.make(pod).await
    }

    /// Deletes a pod, with a grace period other than its own if given. One that is gone already is fine.
    pub async fn delete_pod(&self, name: &str, grace_seconds: Option<u32>) -> Result<()> {
        let delete = DeleteParams {
            grace_period_seconds: grace_seconds,
            ..DeleteParams::default()
        };
        match self.api::<Pod>().delete(name, &delete).await {
            Err(kube::Error::Api(refusal)) if refusal.is_not_found() => Ok(()),
            deleted => deleted
                .map(drop)
                .with_context(|| format!("failed to delete pod {name}")),
        }
    }

    /// Waits until the pod is Ready on a node, and returns it.
    pub async fn wait_running(&self, name: &str, timeout: Duration) -> Result<Pod> {
        self.wait_pod(name, timeout, "be Ready", |pod| pod.is_some_and(is_ready))
            .await?
            .context("no pod")
    }

    /// Waits until the pod is Ready on a node other than `node`, and returns it.
    pub async fn wait_running_elsewhere(
        &self,
        name: &str,
        node: &str,
        timeout: Duration,
    ) -> Result<Pod> {
        let moved = |pod: &Pod| is_ready(pod) && node_of(pod) != node;
        self.wait_pod(name, timeout, "be Ready elsewhere", |pod| {
            pod.is_some_and(moved)
        })
        .await?
        .context("no pod")
    }

    /// Waits until the pod is gone.
    pub async fn wait_gone(&self, name: &str, timeout: Duration) -> Result<()> {
        self.wait_pod(name, timeout, "be gone", |pod| pod.is_none())
            .await
            .map(drop)
    }

    /// Waits until `condition` holds for the pod (`None`: there is none). The error says what the pod looked like.
    pub async fn wait_pod(
        &self,
        name: &str,
        timeout: Duration,
        what: &str,
        condition: impl Fn(Option<&Pod>) -> bool,
    ) -> Result<Option<Pod>> {
        let pods: Api<Pod> = self.api();
        match tokio::time::timeout(timeout, await_condition(pods.clone(), name, condition)).await {
            Ok(pod) => pod.with_context(|| format!("failed to watch pod {name}")),
            Err(_) => {
                let mut pod = pods.get_opt(name).await?;
                if let Some(pod) = &mut pod {
                    pod.metadata.managed_fields = None;
                }
                let status = pod.map(|pod| json!({"metadata": pod.metadata, "status": pod.status}));
                bail!(
                    "pod {name} should {what} within {timeout:?}, but is {:#}",
                    json!(status)
                )
            }
        }
    }

    async fn make<K>(&self, object: Value) -> Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
    {
        let object: K = serde_json::from_value(object).context("not an object of its kind")?;
        let created = self.api().create(&PostParams::default(), &object).await;
        created.with_context(|| format!("failed to create {} {}", K::kind(&()), object.name_any()))
    }

    async fn ensure<K>(&self, object: Value) -> Result<()>
    where
        K: Resource<Scope = ClusterResourceScope, DynamicType = ()>,
        K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
    {
        let object: K = serde_json::from_value(object).context("not an object of its kind")?;
        match Api::<K>::all(self.client.clone())
            .create(&PostParams::default(), &object)
            .await
        {
            Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => Ok(()),
            created => created
                .map(drop)
                .with_context(|| format!("failed to create {}", object.name_any())),
        }
    }
}

fn claim(name: &str) -> Value {
    let resources = json!({"requests": {"storage": "1Gi"}});
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": STORAGE_CLASS, "resources": resources});
    json!({"metadata": {"name": name}, "spec": spec})
}

/// Waits until the Node exists and its condition Ready has `status` (`True`, `False`, `Unknown`).
pub async fn wait_node_ready(
    client: Client,
    name: &str,
    status: &str,
    timeout: Duration,
) -> Result<Node> {
    let has = |node: Option<&Node>| node.is_some_and(|node| ready_status(node) == Some(status));
    let what = format!("node {name} with Ready={status}");
    let ready = await_condition(Api::<Node>::all(client), name, has);
    let node = within(timeout, &what, ready).await??;
    node.with_context(|| format!("{what} vanished"))
}

/// The status of the Node's condition Ready.
pub fn ready_status(node: &Node) -> Option<&str> {
    let mut conditions = node.status.as_ref()?.conditions.as_ref()?.iter();
    conditions
        .find(|condition| condition.type_ == "Ready")
        .map(|condition| condition.status.as_str())
}

/// The node that the pod is bound to, or nothing.
pub fn node_of(pod: &Pod) -> &str {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.node_name.as_deref())
        .unwrap_or_default()
}

/// Is the pod Ready, and not about to end?
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

async fn within<T>(timeout: Duration, what: &str, future: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(timeout, future)
        .await
        .with_context(|| format!("no {what} within {timeout:?}"))
}
