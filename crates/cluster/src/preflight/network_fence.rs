//! The rights that driver `networkFence` takes.

use super::{Right, Scope, right};

/// The API group of CSI-Addons.
const CSI_ADDONS: &str = "csiaddons.openshift.io";

/// What is taken on the NetworkFences themselves.
pub const ON_NETWORK_FENCES: Right = right(
    CSI_ADDONS,
    "networkfences",
    &["list", "create", "patch", "delete"],
    Scope::Cluster,
);

/// What driver `networkFence` takes besides, and `deploy/network-fence` grants.
pub const NETWORK_FENCE_RIGHTS: &[Right] = &[
    ON_NETWORK_FENCES,
    right(CSI_ADDONS, "networkfenceclasses", &["get"], Scope::Cluster),
    right(CSI_ADDONS, "csiaddonsnodes", &["list"], Scope::Cluster),
    right("", "persistentvolumes", &["get"], Scope::Cluster),
];
