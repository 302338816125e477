//! The rights that a policy with `earlyDetection: Enabled` takes.

use super::{Right, Scope, right};

/// What `earlyDetection: Enabled` takes besides, and `deploy/early-detection` grants.
pub const EARLY_DETECTION_RIGHTS: &[Right] = &[
    right("", "nodes/status", &["patch"], Scope::Cluster),
    right("", "pods/status", &["patch"], Scope::Cluster),
    right(
        "coordination.k8s.io",
        "leases",
        &["list", "watch"],
        Scope::Namespace("kube-node-lease"),
    ),
];
