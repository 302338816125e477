//! What is said of an unhealthy node that has no incident yet: once on the Node and, as long as it lasts, on the policy.

use super::{Detector, Wanted};
use fencing_api::fence::{ApprovalDecision, NodeFence};
use fencing_api::policy::{NodeFencingPolicy, UnhealthyCondition};
use fencing_api::settings::FenceMode;
use fencing_core::delay::{Delayed, Why};
use fencing_core::exclusions::Exclusion;
use fencing_core::hold::HeldBy;
use fencing_core::observed::NodeView;
use fencing_core::outage::refused_by;
use fencing_core::window;
use fencing_drivers::clock;
use jiff::{SignedDuration, Unit};
use kube::ResourceExt;

impl Detector {
    /// The cluster went back in time: nothing is begun (S18).
    pub(super) fn tell_that_it_went_back(&mut self, name: &str, why: &str) {
        if self.told.is_news(name, "ClusterWentBack", "") {
            tracing::warn!(node = name, why, "the node is not fenced");
            let message = format!("Node {name} is not fenced: {why}");
            self.tell(name, "ClusterWentBack", message);
        }
    }

    /// It has to wait.
    pub(super) fn tell_of_delay(&self, node: &NodeView, wanted: &Wanted) {
        let Some(delay) = &wanted.delay else { return };
        let ahead = wanted.at.saturating_sub(clock::since_boot());
        let until = SignedDuration::try_from(ahead)
            .ok()
            .and_then(|ahead| clock::wall().checked_add(ahead).ok())
            .and_then(|until| until.round(Unit::Second).ok());
        let until = until.map_or_else(String::new, |until| format!(" before {until}"));
        let words = format!("is not fenced{until}: {}", delay.message);
        self.show("FenceDelayed", Why::Wait(delay.until), node, wanted, &words);
    }

    /// The policy keeps its hands off it, and nothing else keeps it from being fenced. In mode Observe it would not be fenced anyway.
    /// What mode it is in nobody can tell whose windows cannot be used.
    pub(super) fn tell_of_keeping_off(&self, node: &NodeView, wanted: &Wanted) {
        let acts = wanted.effective.mode != FenceMode::Observe;
        let is_told = |it: &&Exclusion| acts || it.reason == HeldBy::InvalidWindow;
        let Some(kept_off) = wanted.kept_off.as_ref().filter(is_told) else {
            self.context.delays.over(&node.name);
            return;
        };
        let words = format!("is not fenced ({}): {}", kept_off.reason, kept_off.message);
        let why = Why::KeptOff(kept_off.reason);
        self.show("FenceWithheld", why, node, wanted, &words);
    }

    /// A human has said no to it: told once, for whoever wonders why a node that is down stays as it is.
    pub(super) fn tell_of_refusal(
        &mut self,
        node: &NodeView,
        policy: &NodeFencingPolicy,
        fences: &[NodeFence],
    ) {
        let is_open = |it: &NodeFence| it.spec.node_name == node.name && it.may_act();
        let mode = window::mode(policy, clock::wall());
        let acts = mode != FenceMode::Observe && !fences.iter().any(is_open);
        let is_shown = |it: &&UnhealthyCondition| {
            let now = node.condition(&it.type_);
            acts && now.is_some_and(|now| now.status == it.status.as_str())
        };
        let shown = policy.spec.unhealthy_conditions.iter().filter(is_shown);
        let mut refused = shown.filter_map(|it| Some((it, refused_by(fences, node, it)?)));
        let Some((condition, fence)) = refused.next() else {
            self.told.is_over(&node.name, "FenceRefused");
            return;
        };
        let said_no = match &fence.spec.approval {
            Some(answer) if answer.decision == ApprovalDecision::Denied => {
                format!("{} has denied NodeFence", answer.user)
            }
            _ => "a user has released NodeFence".to_owned(),
        };
        let words = format!(
            "Node {} is {}={} and is not fenced ({said_no} {} of this outage); create a NodeFence by hand to fence it anyway",
            node.name,
            condition.type_,
            condition.status.as_str(),
            fence.name_any(),
        );
        if self.told.is_news(&node.name, "FenceRefused", &words) {
            tracing::info!(node = node.name, "{words}");
            self.tell(&node.name, "FenceRefused", words);
        }
    }

    fn show(&self, event: &str, why: Why, node: &NodeView, wanted: &Wanted, words: &str) {
        let words = format!(
            "Node {} is {}={} and {words}",
            node.name,
            wanted.condition.type_,
            wanted.condition.status.as_str(),
        );
        let policy = wanted.policy.name_any();
        let delayed = Delayed {
            node: node.name.clone(),
            policy: policy.clone(),
            why,
            message: words.clone(),
        };
        if !self.context.delays.show(delayed) {
            return;
        }
        tracing::info!(node = node.name, policy, "{words}");
        self.tell(&node.name, event, words);
    }
}
