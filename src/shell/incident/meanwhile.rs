//! What has become of a node while its incident was held, or while its claim was on its way: another NodeFence may have done what the open one
//! is for, and somebody may work on the node.

use super::Round;
use crate::api::policy::NodeFencingPolicy;
use crate::clock;
use crate::core::budget::Hold;
use crate::core::incident::Settings;
use crate::core::keep_off::{KeepOff, keep_off};
use crate::core::observed::NodeView;
use crate::core::plan;
use crate::shell::detect::cleared_by;
use kube::ResourceExt;

impl Round<'_> {
    /// The other NodeFence that has proven this machine down in this boot and taken everything off it, by the rule by which the policy would
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

    /// Why a claim goes that may have landed late, and under which this process does nothing: what was asked before it was sent may be otherwise
    /// by now (S13). A claim that the record names was there in time, and its fence goes on.
    pub(super) fn hold_of_late_claim(
        &self,
        settings: &Settings,
        node: Option<&NodeView>,
        policy: Option<&NodeFencingPolicy>,
        is_recorded: bool,
    ) -> Option<Hold> {
        let node = node?;
        let held = self.incident.memory.claim.as_ref();
        let is_held = held.is_some_and(|held| node.claim() == Some(held.value.as_str()));
        if is_held || !self.context.brakes.is_late(&settings.fence, is_recorded) {
            return None;
        }
        let policy = policy.filter(|_| !settings.human);
        let kept_off = policy.and_then(|policy| keep_off(policy, node, clock::wall()));
        let cleared = || {
            let other = self.cleared_by(settings, Some(node))?;
            Some(plan::cleared(node, &other))
        };
        kept_off.map(KeepOff::into_hold).or_else(cleared)
    }
}
