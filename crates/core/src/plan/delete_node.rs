//! `recovery.strategy: DeleteNode`: what forbids to fence a node this way, or to delete its Node in the end.

pub(super) mod finalizers;
pub(super) mod sticky_pods;
