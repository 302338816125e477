//! Has another NodeFence done what an open one is for? Its own incident may have been held, and a human has asked for a fence meanwhile.

use super::Round;
use crate::core::incident::Settings;
use crate::core::observed::NodeView;
use crate::shell::detect::cleared_by;
use kube::ResourceExt;

impl Round<'_> {
    /// The other NodeFence that has proven this machine down in this boot and taken everything off it, by the rule by which the policy would
use crate::core::plan;
    /// open no incident now.
    pub(super) fn cleared_by(
        &self,
        settings: &Settings,
        node: Option<&NodeView>,
    ) -> Option<String> {
        let memory = &self.incident.memory;
        let node = node.filter(|_| plan::may_be_outrun(settings, memory))?;
        let mut fences = self.context.caches.fences();
        fences.retain(|it| it.spec.node_name == node.name && it.name_any() != settings.fence);
        cleared_by(&fences, node).map(ResourceExt::name_any)
    }
}
