//! The right that `--headroom` takes.

use super::{Right, Scope, right};

/// What `--headroom` takes besides, and `deploy/headroom` grants.
pub const HEADROOM_RIGHTS: &[Right] = &[right("", "persistentvolumes", &["get"], Scope::Cluster)];
