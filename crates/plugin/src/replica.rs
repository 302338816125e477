//! One of several pods that stand in for each other: of the operator, or of etcd.

use k8s_openapi::api::core::v1::Pod;

/// Is it ready, and not on its way out?
pub fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.iter();
    let mut conditions = status.flat_map(|it| it.conditions.iter().flatten());
    let is_well = conditions.any(|it| it.type_ == "Ready" && it.status == "True");
    pod.metadata.deletion_timestamp.is_none() && is_well
}
