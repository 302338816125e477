//! What has become of a node while its incident was held, or while its claim was on its way: another NodeFence may have done what the open one
//! is for, or have sent what lands later, and somebody may work on the node.

use super::Round;
use crate::shell::{observe, resolve};
use fencing_api::fence::NodeFence;
use fencing_api::policy::{NodeFencingPolicy, PowerOnPolicy};
use fencing_core::exclusions::{Exclusion, exclusion};
use fencing_core::hold::Hold;
use fencing_core::observed::{NodeView, Read};
use fencing_core::outage::cleared_by;
use fencing_core::plan;
use fencing_core::settings::{ForeignCommands, Settings};
use fencing_core::taint;
use fencing_drivers::clock;
use kube::ResourceExt;
use std::time::Duration;

impl Round<'_> {
    /// The other NodeFence that has proven this machine down in this boot and taken everything off it, by the rule by which the policy would
    /// open no incident now. One that may yet turn the machine on leaves something to do.
    pub(super) fn cleared_by(
        &self,
        settings: &Settings,
        node: Option<&NodeView>,
    ) -> Option<String> {
        let other = self.clearing(settings, node)?;
        (!may_turn_on(&other)).then(|| other.name_any())
    }

    /// The policy's incident waits until the machine was turned on, or is left off. A human who wants it fenced goes on, and takes the node.
    pub(super) fn hold_of_power_on(
        &self,
        settings: &Settings,
        node: Option<&NodeView>,
    ) -> Option<Hold> {
        let node = node.filter(|_| !settings.human)?;
        let other = self.clearing(settings, Some(node)).filter(may_turn_on)?;
        Some(plan::turning_on(node, &other.name_any()))
    }

    /// Of several, the one that may turn the machine on.
    fn clearing(&self, settings: &Settings, node: Option<&NodeView>) -> Option<NodeFence> {
        let memory = &self.incident.memory;
        let node = node.filter(|_| plan::may_be_superseded(settings, memory))?;
        let mut fences = self.context.caches.fences_of(&node.name);
        fences.retain(|it| it.name_any() != settings.fence);
        fences.sort_by_key(|it| !may_turn_on(it));
        cleared_by(&fences, node).cloned()
    }

    /// What may be on its way to the machine that the record does not name (S23).
    pub(super) fn elsewhere(
        &self,
        settings: &Settings,
        node: Option<&NodeView>,
    ) -> ForeignCommands {
        let fences = self.context.caches.fences_of(&settings.node);
        ForeignCommands {
            by_watch: true,
            ..self.sent_by(&fences, settings, node)
        }
    }

    /// The same by a quorum LIST; none: there is no list.
    pub(super) async fn listed_elsewhere(
        &self,
        settings: &Settings,
        node: Option<&NodeView>,
    ) -> Option<ForeignCommands> {
        match observe::fences(self.context).await {
            Read::Present(fences) => Some(self.sent_by(&fences, settings, node)),
            unread => {
                let fence = &settings.fence;
                tracing::warn!(%fence, why = unread.why(), "the NodeFences could not be listed");
                None
            }
        }
    }

    fn sent_by(
        &self,
        fences: &[NodeFence],
        settings: &Settings,
        node: Option<&NodeView>,
    ) -> ForeignCommands {
        let claim = node.and_then(NodeView::claim);
        // One of the own name was another NodeFence's, if the own record does not name it.
        let is_own = |of: Option<&str>| of == Some(settings.fence.as_str());
        let has_fence =
            |of: Option<&str>| fences.iter().any(|it| it.metadata.name.as_deref() == of);
        let is_orphaned = |claim: &&str| {
            let of = taint::claim_fence(claim);
            is_own(of) || !has_fence(of)
        };
        let incident = &self.incident;
        let held = incident.memory.claim.as_ref().map(|held| &held.value);
        let known = held.into_iter().chain(&incident.stored.status.claim);
        let known = known.chain(&incident.sent_claims);
        let is_known = |claim: &str| known.clone().any(|it| it == claim);
        let orphaned = claim.filter(is_orphaned).is_some_and(|it| !is_known(it));
        let known = resolve::elsewhere(settings, fences);
        let window = match orphaned || settings.adopted {
            true => known.window.max(self.longest_window()),
            false => known.window,
        };
        ForeignCommands {
            orphaned,
            window,
            ..known
        }
    }

    /// As late as this may land what was sent by a record that is lost: it was of one of these policies, of one that is gone, or a human's, and of
    /// those nobody knows.
    fn longest_window(&self) -> Duration {
        let policies = self.context.caches.policies();
        let windows = policies
            .iter()
            .map(|it| it.spec.procedure.fence.landing_seconds());
        Duration::from_secs(windows.max().unwrap_or_default())
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
        let kept_off = policy.and_then(|policy| exclusion(policy, node, clock::wall()));
        let cleared = || {
            let other = self.cleared_by(settings, Some(node))?;
            Some(plan::cleared(node, &other))
        };
        let waits = || self.hold_of_power_on(settings, Some(node));
        let hold = kept_off.map(Exclusion::into_hold);
        hold.or_else(cleared).or_else(waits)
    }
}

/// Is it open, and may it turn its machine on yet?
fn may_turn_on(fence: &NodeFence) -> bool {
    fence.spec.procedure.power_on.policy == PowerOnPolicy::AfterRecovery && !fence.is_ended()
}
