//! Keeps the status of every NodeFencingPolicy: who is protected, who is not, and why a policy does not act.
//!
//! Changes are gathered for a second, for some seconds in a large cluster, and a status is written only when it says something new, and not again
//! at once: a rolling restart of a thousand nodes costs a few writes. The gauges do not wait for a write. [`fencing_core::assess`] says what a policy
//! would do.
//! The runtime's clock does for these pauses: nothing is decided by it, and it may stand still while the host is suspended.

use super::cache::Change;
use super::context::Context;
use super::guard::Guard;
use super::marks::{Marks, mark};
use super::merge::status_patch;
use super::metrics::{PolicyRow, ReadyCondition};
use super::probe::Prober;
use super::tampered::Tampered;
use super::undecodable::Undecodable;
use fencing_api::device::FenceDevice;
use fencing_api::fence::NodeFence;
use fencing_api::policy::{NodeFencingPolicy, NodeFencingPolicyStatus};
use fencing_cluster::client::{AskError, ask, patch_params};
use fencing_core::assess::others::{Attached, Served, signs};
use fencing_core::assess::{Assessment, World, assess, counted};
use fencing_core::exclusions::{active_requests, next_expiry};
use fencing_core::observed::NodeView;
use fencing_core::window::{mode, next_change};
use fencing_drivers::clock::Clock;
use fencing_drivers::targets;
use jiff::Timestamp;
use kube::api::Patch;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// Changes within this time are taken in together.
const GATHER: Duration = Duration::from_secs(1);
/// An assessment takes longer the more Nodes there are, and a fence changes something at each of its stages: the next one follows after so many times
/// as long, unless a person has changed a policy. So they take no more than a fiftieth of a core.
const RESTS: u32 = 50;
/// It follows after this time at the latest.
const REST_MAX: Duration = Duration::from_secs(5);
/// Time between two writes of a policy's status: an incident, which changes it at each of its stages, costs one or two (L7). A
/// generation that has not been answered yet does not wait.
const WRITE_PERIOD: Duration = Duration::from_secs(15);
/// Pause after a write that failed.
const FAILURE_PAUSE: Duration = Duration::from_secs(10);
/// `budgetRemaining` grows by the mere passing of time. A pause that expires is looked at when it does, and
/// so is a window that opens or closes.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Assesses the policies, and writes what it finds.
pub struct PolicyStatuses {
    context: Arc<Context>,
    prober: Arc<Prober>,
    clock: Clock,
    guard: watch::Receiver<Guard>,
    served: watch::Receiver<Served>,
    latest: Mutex<Gauges>,
    /// What [`Self::attached`] found; none: the VolumeAttachments have changed since.
    attached: Mutex<Option<Arc<Attached>>>,
}

/// What the gauges show: the policies, and the nodes they govern with whether each is protected.
pub type Gauges = (Vec<PolicyRow>, Vec<(String, bool)>);

impl PolicyStatuses {
    /// What they say follows from the caches, from what `prober` has found, from `guard`, and from which APIs are `served`.
    pub fn new(
        context: Arc<Context>,
        prober: Arc<Prober>,
        clock: Clock,
        (guard, served): (watch::Receiver<Guard>, watch::Receiver<Served>),
    ) -> Self {
        Self {
            context,
            prober,
            clock,
            guard,
            served,
            latest: Mutex::default(),
            attached: Mutex::default(),
        }
    }

    /// Works until `changes` ends. The caches must be filled. Only the replica that leads may run this.
    pub async fn run(self: Arc<Self>, changes: mpsc::UnboundedReceiver<Change>) {
        self.work(changes).await;
    }

    /// What was assessed last. Quick.
    pub fn snapshot(&self) -> Gauges {
        self.latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Whether the admission policies are missing, if that is known. Quick.
    pub fn guard_missing(&self) -> Option<bool> {
        match *self.guard.borrow() {
            Guard::Unknown => None,
            guard => Some(guard == Guard::Missing),
        }
    }

    async fn work(&self, mut changes: mpsc::UnboundedReceiver<Change>) {
        let mut marks = Marks::default();
        let mut undecodable = Undecodable::new(self.context.events.clone());
        let mut tampered = Tampered::new(self.context.events.clone());
        let mut written = HashMap::new();
        let mut due = Instant::now();
        let mut rested = due;
        let (mut guard, mut served) = (self.guard.clone(), self.served.clone());
        loop {
            tokio::select! {
                // First the moment that has come: changes may come without end.
                biased;
                () = sleep_until(due) => {
                    let (policies, begun) = (self.context.caches.policies(), Instant::now());
                    let assessment = self.assess(&policies);
                    rested = Instant::now() + rest_after(begun.elapsed());
                    let pause = self.refresh(&policies, assessment, &mut written).await;
                    due = Instant::now() + pause;
                }
                change = changes.recv() => match change {
                    Some(change) => {
                        if let Change::Policy(name) = &change {
                            let guard = self.context.caches.policies.get(&ObjectRef::new(name));
                            undecodable.look(&change, guard.as_deref());
                            tampered.look(&change, guard.as_deref());
                        }
                        if let Change::Fence(name) = &change {
                            let fence = self.context.caches.fence_entry(name);
                            tampered.look(&change, fence.as_deref());
                        }
                        let soon = Instant::now() + GATHER;
                        let next = match self.is_asked_for(&change) {
                            true => soon,
                            false => soon.max(rested),
                        };
                        if self.matters(change, &mut marks) {
                            due = due.min(next);
                        }
                    }
                    None => return,
                },
                Ok(()) = guard.changed() => due = Instant::now(),
                Ok(()) = served.changed() => due = Instant::now(),
            }
        }
    }

    /// Does a person wait for what is said of the policy? An own write is a change, too.
    fn is_asked_for(&self, change: &Change) -> bool {
        let Change::Policy(name) = change else {
            return false;
        };
        let policy = self.context.caches.policy(name);
        policy.is_none_or(|policy| !is_answered(&policy))
    }

    fn matters(&self, change: Change, marks: &mut Marks) -> bool {
        let current = match &change {
            Change::Node(name) => self.context.caches.node(name).map(|node| {
                let node = &node.view;
                let conditions = node.conditions.iter();
                let conditions: Vec<_> = conditions
                    .map(|condition| (&condition.kind, &condition.status))
                    .collect();
                mark((&node.labels, conditions, signs(node)))
            }),
            Change::Device(name) => self.context.caches.device(name).map(|device| {
                let status = device.status.as_ref();
                let conditions = status.iter().flat_map(|status| &status.conditions);
                let conditions: Vec<_> = conditions
                    .map(|condition| (&condition.type_, &condition.status, &condition.reason))
                    .collect();
                let counts = status.and_then(|status| status.nodes.as_ref());
                let counts = counts.map(|nodes| (nodes.total, nodes.ready));
                let not_ready = status.map(|status| &status.not_ready_nodes);
                let meta = (device.metadata.generation, &device.metadata.labels);
                mark((meta, conditions, counts, not_ready))
            }),
            Change::Fence(name) => {
                let entry = self.context.caches.fence_entry(name);
                let fence = entry.as_deref().map(|guard| guard.0.as_ref().ok());
                fence.map(|fence| mark(fence.map(|it| (&it.spec.policy_name, counted(it)))))
            }
            Change::Policy(_) => return true,
            Change::Attachment(_) => {
                *self.known_attached() = None;
                return false;
            }
        };
        marks.differs(change, current)
    }

    /// Writes what is new of what was assessed, unless the policy was `written` a moment ago; says when to look again.
    async fn refresh(
        &self,
        policies: &[NodeFencingPolicy],
        assessment: Assessment,
        written: &mut HashMap<String, Instant>,
    ) -> Duration {
        let Assessment {
            statuses,
            protected,
            others,
        } = assessment;
        let now = self.clock.wall();
        let rows = policies.iter().filter_map(|policy| {
            let status = statuses.get(&policy.name_any())?;
            let others = others.get(&policy.name_any()).cloned();
            Some(row(policy, status, others.unwrap_or_default(), now))
        });
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) =
            (rows.collect(), protected.into_iter().collect());
        written.retain(|_, at| at.elapsed() < WRITE_PERIOD);
        let moments = [next_expiry(policies, now), next_change(policies, now)];
        let ahead = moments.into_iter().flatten().min();
        let ahead = ahead.and_then(|time| Duration::try_from(time.duration_since(now)).ok());
        let mut pause = ahead.map_or(LOOK_AGAIN, |ahead| ahead.min(LOOK_AGAIN));
        for policy in policies {
            let name = policy.name_any();
            let Some(patch) = statuses
                .get(&name)
                .and_then(|status| changes(policy, status))
            else {
                continue;
            };
            let last = written.get(&name).filter(|_| is_answered(policy));
            if let Some(last) = last {
                pause = pause.min(WRITE_PERIOD.saturating_sub(last.elapsed()));
            } else if !self.write(name, patch, written).await {
                pause = pause.min(FAILURE_PAUSE);
            }
        }
        pause
    }

    fn assess(&self, policies: &[NodeFencingPolicy]) -> Assessment {
        let guards = self.context.caches.devices.state();
        let devices: Vec<&FenceDevice> = guards
            .iter()
            .filter_map(|guard| guard.0.as_ref().ok())
            .collect();
        let records = self.context.caches.fences.state();
        let fences: Vec<&NodeFence> = records.iter().flat_map(|guard| &guard.0).collect();
        let nodes = self.context.caches.nodes.state();
        let nodes: Vec<&NodeView> = nodes.iter().map(|node| &node.view).collect();
        let now = self.clock.wall();
        let mut assessment = assess(&World {
            policies,
            nodes: &nodes,
            devices: &devices,
            fences: &fences,
            attached: &self.attached(),
            served: &self.served.borrow().clone(),
            delays: &self.context.delays.all(),
            frozen: self.context.revision.frozen().as_deref(),
            lacks: self.context.deletion.lacks().as_deref(),
            lacks_early: self.context.early_detection.lacks().as_deref(),
            found: &|device, node| self.prober.readiness(device, node),
            targets: &targets,
            now,
        });
        let guard = *self.guard.borrow();
        for policy in policies {
            if let Some(status) = assessment.statuses.get_mut(&policy.name_any()) {
                guard.tell(&mut status.conditions, policy.metadata.generation, now);
            }
        }
        assessment
    }

    /// Where CSI drivers have volumes attached. A large cluster has tens of thousands of VolumeAttachments: what they show is kept until one changes.
    fn attached(&self) -> Arc<Attached> {
        let mut known = self.known_attached();
        Arc::clone(known.get_or_insert_with(|| Arc::new(self.attached_now())))
    }

    fn known_attached(&self) -> MutexGuard<'_, Option<Arc<Attached>>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attached_now(&self) -> Attached {
        let mut attached = Attached::new();
        for attachment in self.context.caches.attachments.state() {
            let (attacher, node) = (&attachment.view.attacher, &attachment.node);
            let known = attached.get(attacher);
            if known.is_some_and(|nodes| nodes.contains(node)) {
                continue;
            }
            let nodes: &mut BTreeSet<String> = attached.entry(attacher.clone()).or_default();
            nodes.insert(node.clone());
        }
        attached
    }

    /// `false` when the write has failed.
    async fn write(
        &self,
        name: String,
        patch: Value,
        written: &mut HashMap<String, Instant>,
    ) -> bool {
        let api = Api::<NodeFencingPolicy>::all(self.context.writes.clone());
        let patch = Patch::Merge(patch);
        let error = match ask(api.patch_status(&name, &patch_params(), &patch)).await {
            Ok(_) => {
                written.insert(name, Instant::now());
                return true;
            }
            // Derived from a state that is past, or gone: the cache will tell, and it is derived anew.
            Err(AskError::Refused {
                code: 404 | 409, ..
            }) => return true,
            Err(error) => error.to_string(),
        };
        tracing::warn!(
            policy = name,
            error,
            "cannot write the policy's status, trying again"
        );
        false
    }
}

/// How long the next assessment waits after one that took so long.
fn rest_after(took: Duration) -> Duration {
    (took * RESTS).min(REST_MAX)
}

/// What the status says that the stored one does not.
fn changes(policy: &NodeFencingPolicy, status: &NodeFencingPolicyStatus) -> Option<Value> {
    let version = policy.metadata.resource_version.as_deref();
    status_patch(version, policy.status.as_ref(), status)
}

/// Does the stored status speak of the spec as it is?
fn is_answered(policy: &NodeFencingPolicy) -> bool {
    let status = policy.status.as_ref();
    status.is_some_and(|status| status.observed_generation == policy.metadata.generation)
}

fn row(
    policy: &NodeFencingPolicy,
    status: &NodeFencingPolicyStatus,
    others: Vec<&'static str>,
    now: Timestamp,
) -> PolicyRow {
    let nodes = status.nodes.clone().unwrap_or_default();
    PolicyRow {
        policy: policy.name_any(),
        mode: format!("{:?}", mode(policy, now)),
        ready: ReadyCondition::of(&status.conditions),
        paused_without_end: active_requests(policy, now)
            .iter()
            .any(|it| it.expire_time.is_none()),
        nodes: vec![
            ("selected", nodes.selected),
            ("healthy", nodes.healthy),
            ("unhealthy", nodes.unhealthy),
            ("protected", nodes.protected),
            ("unprotected", nodes.unprotected),
        ],
        budget_remaining: status.budget_remaining,
        others,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assessment_of_a_large_cluster_is_followed_by_a_long_rest() {
        let ms = Duration::from_millis;
        assert!(rest_after(ms(1)) < GATHER);
        assert_eq!(rest_after(ms(40)), ms(2000));
        assert_eq!(rest_after(ms(1000)), REST_MAX);
    }
}
