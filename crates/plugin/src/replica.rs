//! One of several pods that stand in for each other: of the operator, of the control plane, or of etcd.

use k8s_openapi::api::core::v1::Pod;

/// Label that every pod of the operator has.
pub const OPERATOR: &str = "app.kubernetes.io/name=node-fencing-operator";
/// Label of kube-controller-manager's pods, where the control plane is made of pods.
pub const MANAGER: &str = "component=kube-controller-manager";

/// The value of this flag in the first of these pods that has it; `true` where it has none.
pub fn flag<'a>(pods: impl IntoIterator<Item = &'a Pod>, flag: &str) -> Option<&'a str> {
    let specs = pods.into_iter().flat_map(|it| &it.spec);
    let containers = specs.flat_map(|it| &it.containers);
    let mut words = containers.flat_map(|it| it.command.iter().chain(&it.args).flatten());
    words.find_map(|it| match it.strip_prefix(flag)? {
        "" => Some("true"),
        rest => rest.strip_prefix('='),
    })
}

/// Is it ready, and not on its way out?
pub fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.iter();
    let mut conditions = status.flat_map(|it| it.conditions.iter().flatten());
    let is_well = conditions.any(|it| it.type_ == "Ready" && it.status == "True");
    pod.metadata.deletion_timestamp.is_none() && is_well
}
