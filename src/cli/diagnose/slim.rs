//! Kubernetes objects with only the fields that a diagnosis reads, so that a cluster of a hundred thousand pods fits into a laptop.

use crate::cli::table::age;
use crate::core::observed::{NodeView, OUT_OF_SERVICE, Ready};
use crate::core::quiesce::{self, stays};
use crate::shell::slim::{SlimCondition, SlimNode, SlimNodeInfo, SlimNodeSpec, SlimNodeStatus};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStrategy, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A Node, with what kubelet and attach/detach say of its volumes.
#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = Node)]
#[serde(default)]
pub struct Machine {
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: SlimNodeSpec,
    /// Status.
    pub status: MachineStatus,
}

/// Status of a Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineStatus {
    /// Conditions.
    pub conditions: Option<Vec<SlimCondition>>,
    /// Boot ID.
    pub node_info: SlimNodeInfo,
    /// What attach/detach believes attached.
    pub volumes_attached: Option<Vec<AttachedVolume>>,
    /// What the kubelet has mounted, by unique name.
    pub volumes_in_use: Option<Vec<String>>,
}

/// A volume that attach/detach believes attached.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AttachedVolume {
    /// Unique name, such as `kubernetes.io/csi/DRIVER^HANDLE`.
    pub name: String,
}

impl Machine {
    /// The Node as the core sees it.
    pub fn view(&self) -> NodeView {
        let node = SlimNode {
            metadata: self.metadata.clone(),
            spec: self.spec.clone(),
            status: SlimNodeStatus {
                conditions: self.status.conditions.clone(),
                node_info: self.status.node_info.clone(),
                ..SlimNodeStatus::default()
            },
        };
        node.view()
    }

    /// Is its kubelet silent, or not ready?
    pub fn is_down(&self) -> bool {
        self.view().ready() != Ready::True
    }

    /// Does it bear `out-of-service`, or what the operator sets in its place?
    pub fn is_marked(&self) -> bool {
        self.view().marked_by().is_some()
    }

    /// The same, with its name.
    pub fn told(&self, now: Timestamp) -> String {
        format!("node {} has {}", self.name_any(), self.state(now))
    }

    /// Its `Ready`, since when and how it is marked, in words.
    pub fn state(&self, now: Timestamp) -> String {
        let view = self.view();
        let ready = view.condition("Ready");
        let status = ready.map_or("missing", |it| it.status.as_str());
        let since = ready.and_then(|it| it.transition.parse::<Timestamp>().ok());
        let since = since.map(|it| format!(" for {}", age(it, now)));
        let mark = match view.marked_by() {
            Some(OUT_OF_SERVICE) => ", out of service",
            Some(_) => ", being deleted by the operator",
            None => "",
        };
        let since = since.unwrap_or_default();
        format!("Ready {status}{since}{mark}")
    }

    /// Does the kubelet say that it has the volume mounted?
    pub fn has_in_use(&self, unique: &str) -> bool {
        let mut names = self.status.volumes_in_use.iter().flatten();
        names.any(|it| it == unique)
    }

    /// Does attach/detach believe it attached there?
    pub fn has_attached(&self, unique: &str) -> bool {
        let mut volumes = self.status.volumes_attached.iter().flatten();
        volumes.any(|it| it.name == unique)
    }
}

/// A pod.
#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = Pod)]
#[serde(default)]
pub struct Workload {
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: WorkloadSpec,
    /// Status.
    pub status: WorkloadStatus,
}

/// Spec of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkloadSpec {
    /// Its node; none: it waits for the scheduler.
    pub node_name: Option<String>,
    /// Its volumes.
    pub volumes: Option<Vec<VolumeOf>>,
    /// What it tolerates.
    pub tolerations: Option<Vec<Tolerated>>,
    /// Its containers.
    pub containers: Vec<ContainerOf>,
}

/// A volume of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeOf {
    /// Its name in the pod.
    pub name: String,
    /// The claim that it is of.
    pub persistent_volume_claim: Option<ClaimOf>,
    /// It has a claim of its own, named after pod and volume.
    pub ephemeral: Option<IgnoredAny>,
}

/// The claim of a pod's volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimOf {
    /// Name.
    pub claim_name: String,
}

/// A toleration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Tolerated {
    /// Key.
    pub key: String,
    /// Operator.
    pub operator: String,
    /// Value.
    pub value: String,
    /// Effect.
    pub effect: String,
    /// For how long.
    pub toleration_seconds: Option<i64>,
}

/// A container, with the words by which a CSI sidecar is known.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerOf {
    /// Name.
    pub name: String,
    /// Image.
    pub image: String,
    /// Arguments.
    pub args: Option<Vec<String>>,
    /// Environment.
    pub env: Option<Vec<Variable>>,
}

/// A variable of a container's environment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Variable {
    /// Its value, if it stands there.
    pub value: Option<String>,
}

/// Status of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct WorkloadStatus {
    /// Phase.
    pub phase: String,
    /// Why it is in that phase.
    pub reason: String,
    /// Conditions.
    pub conditions: Option<Vec<ConditionOf>>,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConditionOf {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Status.
    pub status: String,
    /// Why, in words.
    pub message: String,
    /// Since when.
    #[serde(rename = "lastTransitionTime")]
    pub transition: Option<Time>,
}

impl Workload {
    /// `namespace/name`, as kubectl prints it.
    pub fn full_name(&self) -> String {
        format!(
            "{}/{}",
            self.namespace().unwrap_or_default(),
            self.name_any()
        )
    }

    /// Has it ended, so that it uses no volume any more?
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Is it to go?
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Is it ready?
    pub fn is_ready(&self) -> bool {
        self.holds("Ready").is_some()
    }

    /// Are its volumes mounted? The kubelet makes its sandbox after that.
    pub fn is_mounted(&self) -> bool {
        self.holds("PodReadyToStartContainers").is_some()
    }

    /// Since when it waits: since it has a node, else since it was made.
    pub fn waits_since(&self) -> Option<Timestamp> {
        let scheduled = self.holds("PodScheduled");
        let scheduled = scheduled.and_then(|it| it.transition.as_ref());
        let made = self.metadata.creation_timestamp.as_ref();
        scheduled.or(made).map(|it| it.0)
    }

    fn holds(&self, condition: &str) -> Option<&ConditionOf> {
        let mut conditions = self.status.conditions.iter().flatten();
        conditions.find(|it| it.type_ == condition && it.status == "True")
    }

    /// Why the scheduler finds no node for it, by its latest look. Its Event keeps the words of the first one, however many follow: client-go makes
    /// a series of those that differ in nothing else (upstream's `tools/events/event_broadcaster.go`, v1.36).
    pub fn unschedulable(&self) -> Option<&str> {
        let mut conditions = self.status.conditions.iter().flatten();
        let found = conditions.find(|it| it.type_ == "PodScheduled" && it.status == "False")?;
        Some(found.message.as_str()).filter(|it| !it.is_empty())
    }

    /// Names of its claims, those of generic ephemeral volumes included.
    pub fn claims(&self) -> Vec<String> {
        let volumes = self.spec.volumes.iter().flatten();
        let claims = volumes.filter_map(|volume| match &volume.persistent_volume_claim {
            Some(claim) => Some(claim.claim_name.clone()),
            None => {
                let name = || format!("{}-{}", self.name_any(), volume.name);
                volume.ephemeral.map(|_| name())
            }
        });
        claims.collect()
    }

    /// Will no taint of a fence ever evict it?
    pub fn tolerates_out_of_service(&self) -> bool {
        let tolerations = self.spec.tolerations.iter().flatten();
        let tolerations = tolerations.map(|it| quiesce::Toleration {
            key: it.key.clone(),
            operator: it.operator.clone(),
            value: it.value.clone(),
            effect: it.effect.clone(),
            seconds: it.toleration_seconds,
        });
        stays(&tolerations.collect::<Vec<_>>())
    }

    /// Does one of its containers have this word among its arguments or in its environment?
    pub fn mentions(&self, word: &str) -> bool {
        let mentions = |container: &ContainerOf| {
            let args = container.args.iter().flatten();
            let env = container.env.iter().flatten();
            let mut words = args.chain(env.filter_map(|it| it.value.as_ref()));
            words.any(|it| it.contains(word))
        };
        self.spec.containers.iter().any(mentions)
    }
}

/// A Deployment.
#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = Deployment)]
#[serde(default)]
pub struct Rollout {
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: RolloutSpec,
}

/// Spec of a Deployment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RolloutSpec {
    /// How many pods it wants.
    pub replicas: Option<i32>,
    /// How it replaces them.
    pub strategy: Option<DeploymentStrategy>,
}

impl Rollout {
    /// Does it start a new pod before the old one has stopped?
    pub fn surges(&self) -> bool {
        let strategy = self.spec.strategy.as_ref();
        let kind = strategy.and_then(|it| it.type_.as_deref());
        if kind == Some("Recreate") {
            return false;
        }
        let rolling = strategy.and_then(|it| it.rolling_update.as_ref());
        match rolling.and_then(|it| it.max_surge.as_ref()) {
            Some(IntOrString::Int(many)) => *many != 0,
            Some(IntOrString::String(share)) => share.trim_end_matches('%') != "0",
            // The API server's own default is 25%, rounded up.
            None => true,
        }
    }

    /// The strategy, in one word.
    pub fn strategy(&self) -> &str {
        let strategy = self.spec.strategy.as_ref();
        let kind = strategy.and_then(|it| it.type_.as_deref());
        kind.unwrap_or("RollingUpdate")
    }
}

/// A ReplicaSet: whose it is.
#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = ReplicaSet)]
#[serde(default)]
pub struct Replicas {
    /// Standard metadata.
    pub metadata: ObjectMeta,
}
