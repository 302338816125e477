//! From nodes and policies to incidents: sees that a node has been unhealthy long enough, and opens its NodeFence.
//!
//! One task for all nodes. A change of a node costs a look at that node; the next deadline is a timer. The decision to
//! open an incident is confirmed by a quorum read, and the NodeFence's name is made from the outage itself, so that two
//! operators, or one that has crashed, open one record and not two.

use super::act::{self, MANAGER};
use super::context::{Context, REQUEST_TIMEOUT};
use super::events::{Note, node_reference};
use super::observe;
use crate::api::fence::{NodeFence, NodeFenceSpec, Trigger, TriggerType};
use crate::api::policy::{CordonedNodes, Exclusions, NodeFencingPolicy, UnhealthyCondition};
use crate::clock;
use crate::core::incident::Reply;
use crate::core::observed::{NodeView, QUARANTINE, Ready, Seen};
use crate::core::release::never_went_down;
use crate::core::select::{Onsets, fenceable, first_due, governing};
use crate::core::support::unsupported;
use crate::core::taint;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Characters of the node's name in the name of its NodeFence; a hash of the outage follows.
const NODE_NAME_CHARACTERS: usize = 40;
/// A node that registers has its taints rewritten by node-lifecycle in the same moment; a patch that names an element by its place
/// then fails more often than not.
const LIFT_PAUSE: Duration = Duration::from_secs(1);
/// Pause after an incident could not be opened.
const RETRY: Duration = Duration::from_secs(1);

/// What is known of the nodes over time.
pub struct Detector {
    context: Arc<Context>,
    onsets: BTreeMap<String, Onsets>,
    due: BTreeMap<String, Duration>,
    /// When the quarantine of a node that has booted anew is lifted.
    lifts: BTreeMap<String, Duration>,
    /// Boot ID of each quarantined node that was told to have never gone down.
    contradicted: BTreeMap<String, String>,
}

impl Detector {
    /// Knows nothing yet.
    pub fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            onsets: BTreeMap::new(),
            due: BTreeMap::new(),
            lifts: BTreeMap::new(),
            contradicted: BTreeMap::new(),
        }
    }

    /// The moment (time since boot) of the next deadline.
    pub fn next_due(&self) -> Option<Duration> {
        self.due.values().chain(self.lifts.values()).min().copied()
    }

    /// A node has changed: its onsets, its deadline, our taints on it.
    pub async fn node_changed(&mut self, name: &str) {
        let Some(node) = self.context.caches.node(name) else {
            self.onsets.remove(name);
            self.due.remove(name);
            self.lifts.remove(name);
            self.contradicted.remove(name);
            self.context.metrics.node_gone(name);
            return;
        };
        let version = node.metadata.resource_version.as_deref();
        self.context.revision.saw(version);
        let view = node.view();
        self.onsets
            .entry(name.to_owned())
            .or_default()
            .note(&view, clock::since_boot());
        self.tidy(&view).await;
        self.schedule(&view);
        self.run_due().await;
    }

    /// Policies or NodeFences have changed: every deadline may be another.
    pub async fn all_changed(&mut self) {
        for node in self.context.caches.nodes.state() {
            let view = node.view();
            self.tidy(&view).await;
            self.schedule(&view);
        }
        self.run_due().await;
    }

    /// Opens the incidents whose deadline has come.
    pub async fn run_due(&mut self) {
        let now = clock::since_boot();
        let due: Vec<String> = self
            .due
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            self.due.remove(&name);
            if !self.open_incident(&name).await {
                self.due.insert(name, clock::since_boot() + RETRY);
            }
        }
        let now = clock::since_boot();
        let lifts = self.lifts.iter().filter(|(_, at)| **at <= now);
        let lifts: Vec<String> = lifts.map(|(name, _)| name.clone()).collect();
        for name in lifts {
            self.lifts.remove(&name);
            if !self.lift(&name).await {
                self.lifts.insert(name, clock::since_boot() + RETRY);
            }
        }
    }

    /// Lifts the quarantine of a node that has booted anew. `false`: to be tried again.
    async fn lift(&self, name: &str) -> bool {
        let node = match observe::node(&self.context, name).await {
            Seen::Present(node) => node.view(),
            Seen::Absent => return true,
            Seen::Failed(_) | Seen::NotRead => return false,
        };
        let Some(patch) = taint::lift_quarantine(&node) else {
            return true;
        };
        let reply = act::patch_node(&self.context, patch).await;
        tracing::info!(
            node = name,
            boot = node.boot_id,
            ?reply,
            "the node has booted anew: its quarantine is lifted"
        );
        reply == Reply::Done
    }

    /// Works out when this node's incident is due, if it is to have one.
    fn schedule(&mut self, node: &NodeView) {
        match self.wanted(node) {
            Some((_, _, at)) => self.due.insert(node.name.clone(), at),
            None => self.due.remove(&node.name),
        };
    }

    /// The policy and the condition that ask for an incident of this node, and when.
    fn wanted(&self, node: &NodeView) -> Option<(NodeFencingPolicy, UnhealthyCondition, Duration)> {
        fenceable(node).ok()?;
        let policies = self.context.caches.policies();
        let policy = governing(&policies, node).ok()??;
        let acts = policy.spec.pause_requests.is_empty() && unsupported(&policy.spec).is_none();
        if !acts || excluded(&policy.spec.exclusions, node) {
            return None;
        }
        let (condition, at) = first_due(
            &policy.spec.unhealthy_conditions,
            self.onsets.get(&node.name)?,
        )?;
        let name = fence_name(node, policy, condition);
        let known = self.context.caches.fences().into_iter().any(|fence| {
            fence.name_any() == name || (fence.spec.node_name == node.name && !fence.is_ended())
        });
        (!known).then(|| (policy.clone(), condition.clone(), at))
    }

    /// Opens the incident, after a quorum read has confirmed the cache. `false`: to be tried again.
    async fn open_incident(&self, name: &str) -> bool {
        if self.context.revision.frozen().is_some() {
            return false;
        }
        let node = match observe::node(&self.context, name).await {
            Seen::Present(node) => node.view(),
            Seen::Absent => return true,
            Seen::Failed(reason) => {
                tracing::warn!(
                    node = name,
                    reason,
                    "cannot read the node to open its incident"
                );
                return false;
            }
            Seen::NotRead => return false,
        };
        let Some((policy, condition, _)) = self.wanted(&node) else {
            return true;
        };
        let holds = node
            .condition(&condition.type_)
            .is_some_and(|now| now.status == condition.status.as_str());
        if !holds {
            return true;
        }
        if node.out_of_service() {
            self.tell_of_foreign_taint(&node);
            return true;
        }
        let fence = new_fence(&node, &policy, &condition);
        let fence_name = fence.name_any();
        match create(&self.context, &fence).await {
            Reply::Done => tracing::info!(
                fence = fence_name,
                node = name,
                policy = policy.name_any(),
                "incident opened"
            ),
            // Somebody was faster: the record is there.
            Reply::Refused(409, _) => {}
            Reply::Refused(_, reason) | Reply::Unknown(reason) => {
                tracing::warn!(
                    fence = fence_name,
                    node = name,
                    reason,
                    "cannot open the incident"
                );
                return false;
            }
            Reply::Device(..) => {}
        }
        true
    }

    /// A node that somebody else has put out of service is theirs: no record of ours, but nobody has to guess why (S8).
    fn tell_of_foreign_taint(&self, node: &NodeView) {
        let message = format!(
            "Node {} already carries `out-of-service`, set by somebody else: it is left alone until they remove it",
            node.name
        );
        tracing::warn!(node = node.name, "{message}");
        self.context.events.publish(Note {
            regarding: node_reference(&node.name),
            related: None,
            warning: true,
            reason: "ForeignOutOfService".to_owned(),
            action: "Fence".to_owned(),
            message,
        });
    }

    /// Our taints on a node that no open incident looks after: quarantine after a new boot, an orphaned claim, an orphaned
    /// out-of-service.
    async fn tidy(&mut self, cached: &NodeView) {
        let owner = cached
            .claim()
            .and_then(taint::claim_fence)
            .map(str::to_owned);
        if cached.taint(QUARANTINE).is_none() && owner.is_none() {
            return;
        }
        let Seen::Present(node) = observe::node(&self.context, &cached.name).await else {
            return;
        };
        let node = node.view();
        // A cluster that went back in time is not tidied up: what stands there may belong to a fence that it has forgotten.
        if self.context.revision.frozen().is_some() {
            return;
        }
        if never_went_down(
            &node,
            node.taint(QUARANTINE)
                .and_then(|(_, it)| it.value.as_deref()),
        ) {
            self.tell_of_contradiction(&node);
        }
        if owner
            .is_some_and(|owner| node.claim().and_then(taint::claim_fence) == Some(owner.as_str()))
        {
            self.tidy_claim(&node).await;
        } else if taint::lift_quarantine(&node).is_some() {
            let at = clock::since_boot() + LIFT_PAUSE;
            self.lifts.entry(node.name.clone()).or_insert(at);
        }
    }

    /// The record of this fence has ended, and the machine that it proved down is Ready with the boot that was fenced (S22).
    fn tell_of_contradiction(&mut self, node: &NodeView) {
        let boot = self.contradicted.entry(node.name.clone()).or_default();
        if *boot == node.boot_id {
            return;
        }
        node.boot_id.clone_into(boot);
        let message = format!(
            "Node {} is Ready with the boot ID it was fenced with ({}): it never went down, its device lies or is wired to another machine; its quarantine stays: check the volumes' data, correct the FenceDevice, then reboot the node, or remove the taint (kubectl taint node {} {QUARANTINE}-)",
            node.name, node.boot_id, node.name
        );
        tracing::error!(node = node.name, "{message}");
        self.context.events.publish(Note {
            regarding: node_reference(&node.name),
            related: None,
            warning: true,
            reason: "FenceContradiction".to_owned(),
            action: "Fence".to_owned(),
            message,
        });
    }

    /// A claim whose NodeFence does not exist: without out-of-service it goes once the node is Ready (before that, the next
    /// incident takes it over); with it, a NodeFence is made that sees to the release.
    async fn tidy_claim(&self, node: &NodeView) {
        let Some(claim) = node.claim() else { return };
        let Some(owner) = taint::claim_fence(claim) else {
            return;
        };
        let open = match observe::fence(&self.context, owner).await {
            Seen::Present(fence) => !fence.is_ended(),
            Seen::Absent => false,
            Seen::Failed(_) | Seen::NotRead => return,
        };
        if open {
            return;
        }
        if node.out_of_service() {
            let reply = create(&self.context, &adopting_fence(node, owner)).await;
            tracing::warn!(
                node = node.name,
                claim,
                ?reply,
                "out-of-service of ours without its NodeFence: adopted, to release it"
            );
        } else if node.ready() == Ready::True
            && let Some(patch) = taint::drop_claim(node, claim)
        {
            let reply = act::patch_node(&self.context, patch).await;
            tracing::warn!(
                node = node.name,
                claim,
                ?reply,
                "orphaned claim on a Ready node dropped"
            );
        }
    }
}

/// Left alone by the policy's exclusions.
fn excluded(exclusions: &Exclusions, node: &NodeView) -> bool {
    (exclusions.cordoned == CordonedNodes::Skip && node.unschedulable)
        || exclusions
            .annotations
            .iter()
            .any(|key| node.annotation_keys.contains(key))
        || exclusions
            .taints
            .iter()
            .any(|key| node.taint(key).is_some())
}

async fn create(context: &Context, fence: &NodeFence) -> Reply {
    let api = Api::<NodeFence>::all(context.writes.clone());
    let params = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    match timeout(REQUEST_TIMEOUT, api.create(&params, fence)).await {
        Ok(Ok(_)) => Reply::Done,
        Ok(Err(kube::Error::Api(status))) => Reply::Refused(status.code, status.message.clone()),
        Ok(Err(error)) => Reply::Unknown(error.to_string()),
        Err(_) => Reply::Unknown(format!(
            "the API server did not answer within {} s",
            REQUEST_TIMEOUT.as_secs()
        )),
    }
}

/// The record of a new incident: the policy's settings, frozen.
fn new_fence(
    node: &NodeView,
    policy: &NodeFencingPolicy,
    condition: &UnhealthyCondition,
) -> NodeFence {
    let since = node
        .condition(&condition.type_)
        .and_then(|now| now.transition.parse().ok());
    let trigger = Trigger {
        type_: TriggerType::NodeCondition,
        condition_type: Some(condition.type_.clone()),
        condition_status: Some(condition.status),
        unhealthy_since_time: since,
        requested_by: None,
        reason: None,
    };
    let spec = NodeFenceSpec {
        node_name: node.name.clone(),
        node_uid: Some(node.uid.clone()),
        boot_id: Some(node.boot_id.clone()),
        policy_name: Some(policy.name_any()),
        policy_generation: policy.metadata.generation,
        trigger,
        fence: policy.spec.fence.clone(),
        recovery: policy.spec.recovery.clone(),
        release: policy.spec.release.clone(),
        power_on: policy.spec.power_on.clone(),
        desired_state: Default::default(),
        approval: None,
        manual_confirmation: None,
    };
    NodeFence::new(&fence_name(node, policy, condition), spec)
}

/// A record for a taint of ours whose own record is lost. It never leads to a taint: its mode only observes.
fn adopting_fence(node: &NodeView, name: &str) -> NodeFence {
    let trigger = Trigger {
        type_: TriggerType::External,
        condition_type: None,
        condition_status: None,
        unhealthy_since_time: None,
        requested_by: Some(MANAGER.to_owned()),
        reason: Some("out-of-service of this operator was found without its NodeFence".to_owned()),
    };
    let spec = NodeFenceSpec {
        node_name: node.name.clone(),
        node_uid: Some(node.uid.clone()),
        boot_id: None,
        policy_name: None,
        policy_generation: None,
        trigger,
        fence: Default::default(),
        recovery: Default::default(),
        release: Default::default(),
        power_on: Default::default(),
        desired_state: Default::default(),
        approval: None,
        manual_confirmation: None,
    };
    NodeFence::new(name, spec)
}

/// `<node>-<hash of the outage>`. The outage is the Node, its boot, the transition of the condition, and what the policy said
/// at the time: the same for everybody who looks, another one for the next outage.
pub fn fence_name(
    node: &NodeView,
    policy: &NodeFencingPolicy,
    condition: &UnhealthyCondition,
) -> String {
    let transition = node
        .condition(&condition.type_)
        .map(|now| now.transition.clone())
        .unwrap_or_default();
    let generation = policy.metadata.generation.unwrap_or_default().to_string();
    let parts = [
        &node.uid,
        &node.boot_id,
        &transition,
        &policy.uid().unwrap_or_default(),
        &generation,
    ];
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let digest: String = hash
        .finalize()
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let short: String = node.name.chars().take(NODE_NAME_CHARACTERS).collect();
    format!("{}-{digest}", short.trim_end_matches(['-', '.']))
}
