//! Which volumes a node has: those that are attached to it, and those of its pods' claims.

use super::{Context, found, get};
use fencing_core::observed::{AttachmentView, PodView, Read, Volumes};
use fencing_core::quiesce::tolerating;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Api;

/// The volumes that are attached, and the claims of these pods. A claim that is not bound has no volume that is known.
pub(super) async fn volumes(
    context: &Context,
    attachments: &[AttachmentView],
    pods: &[PodView],
) -> Read<Volumes> {
    let cluster = |name: String| async move {
        let api = Api::<PersistentVolume>::all(context.reads.clone());
        let volume = found(get(api, &name).await)?;
        Ok(volume.map(|it| (name, cluster_id(it))))
    };
    let claim = |namespace: &str, name: &str| {
        let api = Api::<PersistentVolumeClaim>::namespaced(context.reads.clone(), namespace);
        let (name, full_name) = (name.to_owned(), format!("{namespace}/{name}"));
        async move {
            let claim = found(get(api, &name).await)?;
            let volume = claim.and_then(|it| it.spec?.volume_name);
            Ok((full_name, volume.unwrap_or_default()))
        }
    };
    let attached = attachments.iter().filter(|it| !it.volume.is_empty());
    let clusters = attached.map(|it| cluster(it.volume.clone()));
    let of_pod = |pod: &'_ PodView| {
        let claims = pod.claims.iter();
        claims
            .map(|it| claim(&pod.namespace, it))
            .collect::<Vec<_>>()
    };
    let read = futures::try_join!(
        try_join_all(clusters),
        try_join_all(pods.iter().flat_map(of_pod))
    );
    match read {
        Ok((clusters, claims)) => Read::Present(Volumes {
            claims,
            clusters: clusters.into_iter().flatten().collect(),
        }),
        Err(reason) => Read::Failed(reason),
    }
}

/// Which storage of its driver has this volume; empty where its attributes name none.
fn cluster_id(volume: PersistentVolume) -> String {
    let csi = volume.spec.and_then(|it| it.csi);
    let attributes = csi.and_then(|it| it.volume_attributes);
    let named = attributes.and_then(|mut it| it.remove("clusterID"));
    named.unwrap_or_default()
}

/// PersistentVolumes of the pods that tolerate out-of-service. One that cannot be resolved is left out: its VolumeAttachment then
/// hinders the release, which is the safe side.
pub(super) async fn tolerated_volumes(context: &Context, pods: &[PodView]) -> Vec<String> {
    let mut volumes = Vec::new();
    for pod in tolerating(pods) {
        for claim in &pod.claims {
            let api =
                Api::<PersistentVolumeClaim>::namespaced(context.reads.clone(), &pod.namespace);
            if let Read::Present(claim) = get(api, claim).await
                && is_bound(&claim)
            {
                volumes.extend(claim.spec.and_then(|spec| spec.volume_name));
            }
        }
    }
    volumes
}

/// Anybody may name the volume of another tenant in a claim: it is theirs once the API server's controller says so, in the status, which users
/// cannot write.
fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let phase = claim.status.as_ref().and_then(|it| it.phase.as_deref());
    phase == Some("Bound") && claim.metadata.deletion_timestamp.is_none()
}
