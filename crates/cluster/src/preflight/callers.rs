//! The rights that `--callers` takes.

use super::{Right, Scope, right};
use fencing_api::GROUP;
use fencing_api::remediation::MACHINE_GROUP;

/// What `--callers` takes besides, and `deploy/callers` grants.
pub const CALLERS_RIGHTS: &[Right] = &[
    right(GROUP, "nodefenceremediations", &["list"], Scope::Cluster),
    right(
        GROUP,
        "nodefenceremediations/status",
        &["patch"],
        Scope::Cluster,
    ),
    right(MACHINE_GROUP, "machines", &["get"], Scope::Cluster),
];
