//! Pods and Deployments with only the fields that a diagnosis reads, so that a cluster of a hundred thousand pods fits into a laptop. No cache
//! holds them.

use super::pods::toleration;
use fencing_core::quiesce::stays;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStrategy};
use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A pod.
#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = Pod)]
#[serde(default)]
pub struct SlimPod {
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: SlimPodSpec,
    /// Status.
    pub status: SlimPodStatus,
}

/// Spec of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SlimPodSpec {
    /// Its node; none: it waits for the scheduler.
    pub node_name: Option<String>,
    /// Its volumes.
    pub volumes: Option<Vec<SlimVolume>>,
    /// What it tolerates.
    pub tolerations: Option<Vec<Toleration>>,
    /// Its containers.
    pub containers: Vec<SlimContainer>,
}

/// A volume of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SlimVolume {
    /// Its name in the pod.
    pub name: String,
    /// The claim that it is of.
    pub persistent_volume_claim: Option<PersistentVolumeClaimVolumeSource>,
    /// It has a claim of its own, named after pod and volume.
    pub ephemeral: Option<IgnoredAny>,
}

/// A container, with the words by which a CSI sidecar is known.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimContainer {
    /// Name.
    pub name: String,
    /// Image.
    pub image: String,
    /// Arguments.
    pub args: Option<Vec<String>>,
    /// Environment.
    pub env: Option<Vec<SlimVariable>>,
}

/// A variable of a container's environment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimVariable {
    /// Its value, if it stands there.
    pub value: Option<String>,
}

/// Status of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimPodStatus {
    /// Phase.
    pub phase: String,
    /// Why it is in that phase.
    pub reason: String,
    /// Conditions.
    pub conditions: Option<Vec<PodCondition>>,
}

impl SlimPod {
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

    /// Has it not started, and is it not to go?
    pub fn is_pending(&self) -> bool {
        self.status.phase == "Pending" && !self.is_deleting()
    }

    /// Is it on this node?
    pub fn is_on(&self, node: &str) -> bool {
        self.spec.node_name.as_deref() == Some(node)
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
        let scheduled = scheduled.and_then(|it| it.last_transition_time.as_ref());
        let made = self.metadata.creation_timestamp.as_ref();
        scheduled.or(made).map(|it| it.0)
    }

    fn holds(&self, condition: &str) -> Option<&PodCondition> {
        let mut conditions = self.status.conditions.iter().flatten();
        conditions.find(|it| it.type_ == condition && it.status == "True")
    }

    /// Why the scheduler finds no node for it, by its latest look. Its Event keeps the words of the first one, however many follow: client-go makes
    /// a series of those that differ in nothing else (upstream's `tools/events/event_broadcaster.go`, v1.36).
    pub fn unschedulable(&self) -> Option<&str> {
        let mut conditions = self.status.conditions.iter().flatten();
        let found = conditions.find(|it| it.type_ == "PodScheduled" && it.status == "False")?;
        found.message.as_deref().filter(|it| !it.is_empty())
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
        stays(&tolerations.map(toleration).collect::<Vec<_>>())
    }

    /// Does one of its containers have this word among its arguments or in its environment?
    pub fn mentions(&self, word: &str) -> bool {
        let mentions = |container: &SlimContainer| {
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
pub struct SlimDeployment {
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: SlimDeploymentSpec,
}

/// Spec of a Deployment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimDeploymentSpec {
    /// How many pods it wants.
    pub replicas: Option<i32>,
    /// How it replaces them.
    pub strategy: Option<DeploymentStrategy>,
}

impl SlimDeployment {
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
