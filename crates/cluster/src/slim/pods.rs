//! A pod as the core sees it: what it holds, what it tolerates, and whether it is on its way out.

use fencing_core::early::mark::POD_REASON;
use fencing_core::observed::PodView;
use fencing_core::quiesce::{Toleration, stays, tolerates_claim};
use k8s_openapi::api::core::v1::{Pod, PodStatus, Volume};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The pod as the core sees it.
pub fn pod_view(pod: &Pod) -> PodView {
    let spec = pod.spec.as_ref();
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    let annotations = pod.metadata.annotations.as_ref();
    let tolerations = spec.and_then(|spec| spec.tolerations.as_deref());
    let tolerations: Vec<_> = tolerations
        .unwrap_or_default()
        .iter()
        .map(toleration)
        .collect();
    let volumes = spec.and_then(|spec| spec.volumes.as_deref());
    let volumes = volumes.unwrap_or_default();
    let conditions = status.and_then(|it| it.conditions.as_ref());
    let conditions = conditions.into_iter().flatten();
    let has = |kind| {
        conditions
            .clone()
            .any(|it| it.type_ == kind && it.status == "True")
    };
    // What the operator wrote itself is no leave to delete it.
    let is_ours = conditions
        .clone()
        .any(|it| it.type_ == "Ready" && it.reason.as_deref() == Some(POD_REASON));
    PodView {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        resource_version: pod.metadata.resource_version.clone().unwrap_or_default(),
        deleting: pod.metadata.deletion_timestamp.is_some(),
        finished: matches!(phase, Some("Succeeded" | "Failed")),
        finalizers: pod
            .metadata
            .finalizers
            .as_ref()
            .is_some_and(|finalizers| !finalizers.is_empty()),
        mirror: annotations.is_some_and(|map| map.contains_key("kubernetes.io/config.mirror")),
        tolerates_out_of_service: stays(&tolerations),
        tolerates_claim: tolerates_claim(&tolerations),
        claims: volumes
            .iter()
            .filter_map(|volume| claim_of(volume, pod.metadata.name.as_deref()?))
            .collect(),
        attachable: volumes.iter().any(|volume| !is_of_kubelet(volume)),
        inline: volumes.iter().any(|volume| {
            let has_claim = volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some();
            !has_claim && !is_of_kubelet(volume)
        }),
        comes_back: false,
        looks_alive: (has("Ready") || is_ours) && !has("DisruptionTarget"),
        written: status.map_or(0, written),
    }
}

/// What only a kubelet writes of a pod, as a number (`pkg/kubelet/status/status_manager.go`, v1.36). Its phase and conditions are written by pod GC and
/// node-lifecycle too.
fn written(status: &PodStatus) -> u64 {
    let statuses = [
        &status.container_statuses,
        &status.init_container_statuses,
        &status.ephemeral_container_statuses,
    ];
    let is_none = statuses.iter().all(|it| it.is_none()) && status.start_time.is_none();
    if is_none {
        return 0;
    }
    let written = serde_json::json!([statuses, status.start_time, status.pod_ips]);
    let mut hasher = DefaultHasher::new();
    written.to_string().hash(&mut hasher);
    hasher.finish().max(1)
}

/// The claim behind a volume. That of a generic ephemeral one is named by its pod (`k8s.io/component-helpers/storage/ephemeral`, v1.36).
fn claim_of(volume: &Volume, pod: &str) -> Option<String> {
    match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => Some(source.claim_name.clone()),
        (None, Some(_)) => Some(format!("{pod}-{}", volume.name)),
        (None, None) => None,
    }
}

/// Does the kubelet make the volume up for itself, or take it from its host, so that nothing is ever attached for it? Listed is what is known
/// not to be; whatever else there is, or comes later, counts as attached (`csi` here is an inline volume of the pod's own life, for which
/// upstream's attach/detach does nothing: `pkg/volume/csi/csi_plugin.go`, `CanAttach`, v1.36).
fn is_of_kubelet(volume: &Volume) -> bool {
    let Volume {
        config_map,
        csi,
        downward_api,
        empty_dir,
        host_path,
        image,
        projected,
        secret,
        ..
    } = volume;
    config_map.is_some()
        || csi.is_some()
        || downward_api.is_some()
        || empty_dir.is_some()
        || host_path.is_some()
        || image.is_some()
        || projected.is_some()
        || secret.is_some()
}

pub(super) fn toleration(stored: &k8s_openapi::api::core::v1::Toleration) -> Toleration {
    Toleration {
        key: stored.key.clone().unwrap_or_default(),
        operator: stored.operator.clone().unwrap_or_default(),
        value: stored.value.clone().unwrap_or_default(),
        effect: stored.effect.clone().unwrap_or_default(),
        seconds: stored.toleration_seconds,
    }
}
