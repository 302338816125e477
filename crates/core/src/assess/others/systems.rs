//! The others, one row each: by what they are known, what they do to a node, and what is done about them here.
//!
//! What each does was read in its own source in November 2026 (docs/comparison.md has the table): node-healthcheck-operator,
//! self-node-remediation, fence-agents-remediation, machine-deletion-remediation and storage-based-remediation of Medik8s, the
//! MachineHealthChecks of OpenShift's Machine API and of Cluster API, the cloud-node-lifecycle controller of `k8s.io/cloud-provider` and
//! cloud-provider-azure, kured, Rook's node watcher, and what the machine-config-operator of OpenShift puts on the nodes of a two-node cluster
//! with fencing.

use super::super::super::exclusions::KURED_ANNOTATIONS;
use super::super::super::observed::{NodeView, OUT_OF_SERVICE};
use super::super::super::taint;
use fencing_api::policy::{FenceMode, MaintenanceNodes, NodeFencingPolicy, ReleaseMode};

/// Somebody else.
pub(super) struct System {
    /// One word, for the gauge.
    pub label: &'static str,
    /// For people.
    pub name: &'static str,
    /// The API group that it brings.
    pub group: Option<&'static str>,
    /// What it leaves on a node, in words.
    pub signs: fn(&NodeView) -> Vec<String>,
    /// Is this CSI driver one of its?
    pub drivers: fn(&str) -> bool,
    /// What it does, as the rest of a sentence that begins with its name.
    pub does: &'static str,
    /// What the operator does about it under this policy, and what a human should.
    pub here: fn(&NodeFencingPolicy) -> String,
}

/// Set by the remediators of Medik8s; the value says by which. Older versions of self-node-remediation set it, too.
const MEDIK8S_TAINT: &str = "medik8s.io/remediation";
const SELF_NODE: &str = "self-node-remediation";
const FENCE_AGENTS: &str = "fence-agents-remediation";
const SELF_NODE_TAINT: &str = "remediation.medik8s.io/self-node-remediation";
const SHUTDOWN_TAINT: &str = "node.cloudprovider.kubernetes.io/shutdown";
const UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const OPENSHIFT_MACHINE: &str = "machine.openshift.io/machine";
/// Beside an `out-of-service`: who has set it. Two-node OpenShift alone writes it (value `pacemaker`; machine-config-operator,
/// `taint-fenced-node.yaml` at 1f50cc1), and removes whatever `out-of-service` is beside it (cluster-etcd-operator, `taint.go` at 26d61e9).
const APPLIED_BY: &str = "node.kubernetes.io/out-of-service-applied-by";
/// Two-node OpenShift with fencing: on the node that Pacemaker has fenced, and, from then on, on the one that did it.
const PACEMAKER_ANNOTATIONS: [&str; 2] = [APPLIED_BY, "tnf-taint-probe"];
const CLUSTER_API_MACHINE: &str = "cluster.x-k8s.io/machine";
/// kured's, if it runs with `--annotate-nodes`; stays after a reboot.
const KURED_NEEDED_ANNOTATIONS: [&str; 2] = [
    "weave.works/kured-most-recent-reboot-needed",
    "kured.dev/kured-most-recent-reboot-needed",
];
/// Schemes of `spec.providerID` behind which no cloud deletes a Node: hosts of Metal3, and distributions that name a node themselves.
const METAL3_SCHEMES: [&str; 2] = ["metal3", "baremetalhost"];
const NO_CLOUD_SCHEMES: [&str; 3] = ["kind", "k3s", "rke2"];
/// Azure's cloud controller, which does more than those of others.
const AZURE_SCHEME: &str = "azure";

/// All of them, in the order in which they are told.
pub(super) const SYSTEMS: [System; 15] = [
    System {
        label: "unknown",
        name: "an unknown component",
        group: None,
        signs: |node| {
            let is_foreign =
                node.out_of_service() && taint::out_of_service_of_claim(node).is_none();
            let has_a_name = !annotation_sign(node, APPLIED_BY).is_empty();
            sign_if(is_foreign && !has_a_name, || {
                format!("taint {OUT_OF_SERVICE}, which the operator did not set,")
            })
        },
        drivers: none,
        does: "has tainted nodes out-of-service",
        here: |_| {
            "the operator leaves these nodes alone until that taint is removed; have it removed once the machine is off or rebooted"
                .to_owned()
        },
    },
    System {
        label: "node-healthcheck",
        name: "NodeHealthCheck of Medik8s",
        group: Some("remediation.medik8s.io"),
        signs: |node| {
            let other = |value: &str| value != SELF_NODE && value != FENCE_AGENTS;
            medik8s_taint(node, other)
        },
        drivers: none,
        does: "creates a remediation for an unhealthy node (by its own conditions); the remediator restarts, turns off or deletes the node",
        here: |policy| remediators(policy, "its `selector`"),
    },
    System {
        label: SELF_NODE,
        name: "self-node-remediation of Medik8s",
        group: Some("self-node-remediation.medik8s.io"),
        signs: |node| {
            let mut signs = medik8s_taint(node, |value| value == SELF_NODE);
            signs.extend(taint_sign(node, SELF_NODE_TAINT));
            signs
        },
        drivers: none,
        does: "has a node restart itself, sets out-of-service or deletes its pods, then removes out-of-service, also one that others set",
        here: |policy| remediators(policy, "the NodeHealthCheck that names it"),
    },
    System {
        label: FENCE_AGENTS,
        name: "fence-agents-remediation of Medik8s",
        group: Some("fence-agents-remediation.medik8s.io"),
        signs: |node| medik8s_taint(node, |value| value == FENCE_AGENTS),
        drivers: none,
        does: "runs a fence agent that restarts or turns off the machine, then sets out-of-service or deletes the node's pods",
        here: |policy| remediators(policy, "the NodeHealthCheck that names it"),
    },
    System {
        label: "machine-deletion-remediation",
        name: "machine-deletion-remediation of Medik8s",
        group: Some("machine-deletion-remediation.medik8s.io"),
        signs: no_signs,
        drivers: none,
        does: "deletes a node's Machine, and with it the Node",
        here: |_| deleted("the NodeHealthCheck that names it"),
    },
    System {
        label: "storage-based-remediation",
        name: "storage-based-remediation of Medik8s",
        group: Some("storage-based-remediation.medik8s.io"),
        signs: no_signs,
        drivers: none,
        does: "cordons a node, has it restart itself by shared storage or watchdog, sets out-of-service, then removes it, also one that others set",
        here: |policy| remediators(policy, "the NodeHealthCheck that names it"),
    },
    System {
        label: "openshift-two-node-fencing",
        name: "two-node OpenShift with fencing (Pacemaker)",
        group: Some("etcd.openshift.io"),
        signs: |node| {
            let all = PACEMAKER_ANNOTATIONS.iter();
            all.flat_map(|key| annotation_sign(node, key)).collect()
        },
        drivers: none,
        does: "fences the other node, sets out-of-service by a patch that removes all other taints, and removes it when the node is back",
        here: |_| {
            "Pacemaker wins: its patch removes the operator's claim, which ends the incident; exclude both nodes from this policy's `nodeSelector`"
                .to_owned()
        },
    },
    System {
        label: "openshift-machine-api",
        name: "a MachineHealthCheck of OpenShift's Machine API",
        group: Some("machine.openshift.io"),
        signs: |node| annotation_sign(node, OPENSHIFT_MACHINE),
        drivers: none,
        does: "may delete the Machine of an unhealthy node (by its own timeout), and with it the Node",
        here: |_| deleted("the `selector` of each MachineHealthCheck"),
    },
    System {
        label: "cluster-api",
        name: "a MachineHealthCheck of Cluster API",
        group: Some("cluster.x-k8s.io"),
        signs: |node| annotation_sign(node, CLUSTER_API_MACHINE),
        drivers: none,
        does: "may delete the Machine of an unhealthy node (from the management cluster, which the operator cannot read), and with it the Node",
        here: |_| deleted("the `selector` of each MachineHealthCheck"),
    },
    System {
        label: "metal3",
        name: "Metal3",
        group: Some("metal3.io"),
        signs: |node| scheme_sign(node, |scheme| METAL3_SCHEMES.contains(&scheme)),
        drivers: none,
        does: "turns on hosts whose BareMetalHost is online; a Metal3Remediation turns its host off and sets out-of-service",
        here: metal3,
    },
    System {
        label: "cloud-provider-azure",
        name: "cloud-provider-azure",
        group: None,
        signs: |node| match is_azure(node) {
            true => cloud_signs(node, |scheme| scheme == AZURE_SCHEME),
            false => Vec::new(),
        },
        drivers: none,
        does: "deletes a NotReady Node whose VM is gone, sets out-of-service by a cached power state, and removes it from a Ready node, also the operator's",
        here: |_| {
            "the first taint of the two stays; the operator leaves the other's alone, whose proof counts a hibernated VM as shut down"
                .to_owned()
        },
    },
    System {
        label: "cloud-controller-manager",
        name: "a cloud controller manager",
        group: None,
        signs: |node| match is_azure(node) {
            true => Vec::new(),
            false => cloud_signs(node, |scheme| {
                !METAL3_SCHEMES.contains(&scheme) && !NO_CLOUD_SCHEMES.contains(&scheme)
            }),
        },
        drivers: none,
        does: "deletes a NotReady Node whose cloud instance is gone, and taints one whose instance is shut down; some also set out-of-service",
        here: |_| {
            "the operator reads only FenceDevices and leaves a cloud's out-of-service alone; give each node a FenceDevice, or exclude cloud nodes from `nodeSelector`"
                .to_owned()
        },
    },
    System {
        label: "kured",
        name: "kured",
        group: None,
        signs: |node| {
            let all = KURED_ANNOTATIONS.iter().chain(&KURED_NEEDED_ANNOTATIONS);
            all.flat_map(|key| annotation_sign(node, key)).collect()
        },
        drivers: none,
        does: "drains and restarts one node after the other",
        here: kured,
    },
    System {
        label: "ceph-csi",
        name: "Ceph (Rook, ceph-csi)",
        group: None,
        signs: no_signs,
        drivers: is_ceph,
        does: "puts a node with out-of-service on its blocklist (if its fencing is enabled) until the taint is removed",
        here: ceph,
    },
    System {
        label: "csi-addons",
        name: "CSI-Addons",
        group: Some("csiaddons.openshift.io"),
        signs: no_signs,
        drivers: none,
        does: "blocks addresses from a storage while a NetworkFence for them exists (created by Rook or a disaster recovery)",
        here: |_| {
            "the operator changes its own alone (driver `networkFence`); see `kubectl get networkfences` if a fenced node gets no volumes after it is back"
                .to_owned()
        },
    },
];

/// A driver of Ceph, which wants `release.mode: AfterRecovery`.
pub(super) fn is_ceph(driver: &str) -> bool {
    driver.ends_with(".csi.ceph.com")
}

fn none(_: &str) -> bool {
    false
}

fn no_signs(_: &NodeView) -> Vec<String> {
    Vec::new()
}

fn sign_if(is_seen: bool, words: impl FnOnce() -> String) -> Vec<String> {
    is_seen.then(words).into_iter().collect()
}

fn taint_sign(node: &NodeView, key: &str) -> Vec<String> {
    sign_if(node.taint(key).is_some(), || format!("taint {key}"))
}

fn medik8s_taint(node: &NodeView, is_own: impl Fn(&str) -> bool) -> Vec<String> {
    let taint = node.taint(MEDIK8S_TAINT).map(|(_, taint)| taint);
    let value = taint.map(|taint| taint.value.as_deref().unwrap_or_default());
    let own = value.filter(|value| is_own(value));
    sign_if(own.is_some(), || {
        format!("taint {MEDIK8S_TAINT}={}", own.unwrap_or_default())
    })
}

fn annotation_sign(node: &NodeView, key: &str) -> Vec<String> {
    let has = node.annotation_keys.iter().any(|one| one == key);
    sign_if(has, || format!("annotation {key}"))
}

fn is_azure(node: &NodeView) -> bool {
    !scheme_sign(node, |scheme| scheme == AZURE_SCHEME).is_empty()
}

/// What a cloud controller manager leaves on a Node of its own.
fn cloud_signs(node: &NodeView, is_own: impl Fn(&str) -> bool) -> Vec<String> {
    let mut signs = scheme_sign(node, is_own);
    // As the older cloud controllers of OpenStack and AWS write it.
    signs.extend(sign_if(has_no_scheme(&node.provider_id), || {
        "`spec.providerID` without a scheme".to_owned()
    }));
    signs.extend(taint_sign(node, SHUTDOWN_TAINT));
    signs.extend(taint_sign(node, UNINITIALIZED_TAINT));
    signs
}

fn has_no_scheme(provider_id: &str) -> bool {
    !provider_id.is_empty() && !provider_id.contains("://")
}

fn scheme_sign(node: &NodeView, is_own: impl Fn(&str) -> bool) -> Vec<String> {
    let scheme = node.provider_id.split_once("://").map(|(scheme, _)| scheme);
    let own = scheme.filter(|scheme| is_own(scheme));
    sign_if(own.is_some(), || {
        format!("`spec.providerID` {}://", own.unwrap_or_default())
    })
}

/// About the remediators of Medik8s.
fn remediators(policy: &NodeFencingPolicy, theirs: &str) -> String {
    let excluded = &policy.spec.exclusions.taints;
    let meanwhile = match excluded.iter().any(|key| key == MEDIK8S_TAINT) {
        true => {
            "leaves a node with their taint alone (`exclusions.taints`), and does not wait for that taint"
        }
        false => "waits only for an out-of-service taint that others set",
    };
    format!(
        "the operator {meanwhile}; give each node to one of the two: narrow {theirs}, or this policy's `nodeSelector`"
    )
}

/// About those who delete the Node.
fn deleted(theirs: &str) -> String {
    format!(
        "an incident ends when its Node is deleted; give each node to one of the two: narrow {theirs}, or this policy's `nodeSelector`"
    )
}

fn metal3(policy: &NodeFencingPolicy) -> String {
    // At any time of the week.
    let windows = policy.spec.windows.iter().filter_map(|it| it.mode);
    let mut all = windows.chain([policy.spec.procedure.fence.mode]);
    let modes = match all.any(|mode| mode == FenceMode::PowerOff) {
        true => {
            "this policy turns off machines that it turns on; use driver `bareMetalHost`, or `fence.mode: ConfirmOnly`, for its hosts"
        }
        false => "this policy only reads the power",
    };
    format!(
        "{modes}; remove the remediation template from the MachineHealthCheck of the operator's machines (docs/how-to/metal3.md)"
    )
}

fn kured(policy: &NodeFencingPolicy) -> String {
    let [annotation, _] = KURED_ANNOTATIONS;
    let restarts = match policy.spec.exclusions.maintenance {
        MaintenanceNodes::Skip => {
            format!("the operator does not fence a node with {annotation}")
        }
        MaintenanceNodes::Fence => format!(
            "the operator fences a node also during a restart (`exclusions.maintenance` is Fence; Skip excludes one with {annotation})"
        ),
    };
    format!(
        "{restarts}, and cannot read kured's lock; keep `--annotate-nodes` on, and `durationSeconds` above the time of a restart"
    )
}

fn ceph(policy: &NodeFencingPolicy) -> String {
    match policy.spec.procedure.release.mode {
        ReleaseMode::AfterDetach => {
            "this policy may release the taint before the machine has rebooted (when its volumes have detached); set `release.mode: AfterRecovery`"
        }
        ReleaseMode::AfterRecovery => {
            "this policy keeps the taint until the machine has rebooted, as Ceph requires (`release.mode: AfterRecovery`)"
        }
        ReleaseMode::Manual => {
            "this policy keeps the taint until it is released by hand (`release.mode: Manual`); release it only after the machine has rebooted"
        }
    }
    .to_owned()
}
