//! From nodes and policies to incidents: sees that a node has been unhealthy long enough, and opens its NodeFence.
//!
//! One task for all nodes. A change of a node costs a look at that node; the next deadline is a timer. The decision to
//! open an incident is confirmed by a quorum read, and taken a little before the policy's wait is over: the record is written and
//! the devices are asked by then, and nothing else is done before. A node that joined, booted or was fenced a moment ago has
//! to wait, and one that the policy keeps its hands off is left alone; it is said where people look: on the Node and on the policy.
//! When a window of a policy opens or closes, every node is looked at again.

mod tidy;
mod told;
mod waits;
mod wanted;
mod windows;

use super::act;
use super::context::Context;
use super::draft::new_fence;
use super::events::Note;
use super::observe;
use fencing_api::fence::NodeFence;
use fencing_api::policy::NodeFencingPolicy;
use fencing_api::remediation::RemediationReference;
use fencing_cluster::slim::SlimNode;
use fencing_core::answer::Reply;
use fencing_core::delay::{self, LastFence, Now, Since, Start};
use fencing_core::exclusions::exclusion;
use fencing_core::hold::HeldBy;
use fencing_core::observed::{NodeView, Read};
use fencing_core::outage::asked_fence_name;
use fencing_core::protection::{self, Facts, Obstacle, at_opening, outlook};
use fencing_core::remediation::is_served;
use fencing_core::select::{Onsets, fenceable, first_due, governing};
use fencing_core::support::unsupported;
use fencing_drivers::clock;
use futures::future::join_all;
use jiff::Timestamp;
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use told::Told;
use wanted::Wanted;

/// A node that registers has its taints rewritten by node-lifecycle in the same moment; a patch that names an element by its place
/// then fails more often than not.
const LIFT_PAUSE: Duration = Duration::from_secs(1);
/// Incidents that are opened, and quarantines that are lifted, at the same time: each takes a connection to the API server.
const TOGETHER: usize = 16;
/// Pause after an incident could not be opened.
const RETRY: Duration = Duration::from_secs(1);

/// What is known of the nodes over time.
pub struct Detector {
    context: Arc<Context>,
    onsets: BTreeMap<String, Onsets>,
    starts: BTreeMap<String, Start>,
    last_fences: BTreeMap<String, LastFence>,
    due: BTreeMap<String, Duration>,
    /// When all nodes are looked at again because a policy may say something else by then; none: no policy has windows.
    windows: Option<Duration>,
    /// When the quarantine of a node that has booted anew is lifted.
    lifts: BTreeMap<String, Duration>,
    told: Told,
}

impl Detector {
    /// Knows nothing yet.
    pub fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            onsets: BTreeMap::new(),
            starts: BTreeMap::new(),
            last_fences: BTreeMap::new(),
            due: BTreeMap::new(),
            windows: None,
            lifts: BTreeMap::new(),
            told: Told::default(),
        }
    }

    /// The moment (time since boot) of the next deadline.
    pub fn next_due(&self) -> Option<Duration> {
        let nodes = self.due.values().chain(self.lifts.values());
        nodes.chain(&self.windows).min().copied()
    }

    /// A node has changed: its onsets, its deadline, our taints on it.
    pub async fn node_changed(&mut self, name: &str) {
        let Some(node) = self.context.caches.node(name) else {
            self.onsets.remove(name);
            self.starts.remove(name);
            self.last_fences.remove(name);
            self.due.remove(name);
            self.lifts.remove(name);
            self.told.forget(name);
            self.context.delays.over(name);
            self.context.stranded.forget(name);
            return;
        };
        let view = &node.view;
        self.context.revision.saw(Some(&view.resource_version));
        self.note_start(view, node.created);
        self.onsets
            .entry(name.to_owned())
            .or_default()
            .note(view, clock::since_boot());
        self.tidy(view).await;
        let policies = self.context.caches.policies();
        self.schedule(view, &policies);
        self.run_due().await;
    }

    /// Policies or NodeFences have changed: every deadline may be another.
    pub async fn all_changed(&mut self) {
        let policies = self.context.caches.policies();
        for node in self.context.caches.nodes.state() {
            self.tidy(&node.view).await;
            self.schedule(&node.view, &policies);
        }
        self.watch_windows();
        self.run_due().await;
    }

    /// Opens the incidents whose time has come.
    pub async fn run_due(&mut self) {
        let now = clock::since_boot();
        self.heed_windows(now);
        let due: Vec<String> = self
            .due
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(name, _)| name.clone())
            .collect();
        for names in due.chunks(TOGETHER) {
            self.open_incidents(names).await;
        }
        let now = clock::since_boot();
        let lifts = self.lifts.iter().filter(|(_, at)| **at <= now);
        let lifts: Vec<String> = lifts.map(|(name, _)| name.clone()).collect();
        for names in lifts.chunks(TOGETHER) {
            let lifted = join_all(names.iter().map(|name| self.lift(name))).await;
            for (name, is_lifted) in names.iter().zip(lifted) {
                match is_lifted {
                    true => self.lifts.remove(name),
                    false => self.lifts.insert(name.clone(), clock::since_boot() + RETRY),
                };
            }
        }
    }

    /// Takes note of when the node joined and booted.
    fn note_start(&mut self, view: &NodeView, created: Option<Timestamp>) {
        let now = now();
        let created = created.unwrap_or(now.wall);
        self.starts
            .entry(view.name.clone())
            .or_insert_with(|| Start::first(view, created, now))
            .note(view, created, now);
    }

    /// Works out when this node's incident is due, if it is to have one.
    fn schedule(&mut self, node: &NodeView, policies: &[NodeFencingPolicy]) {
        let (wanted, now) = (self.wanted(node, policies), now());
        match wanted.as_ref().and_then(|wanted| wanted.due(now)) {
            Some(due) => self.due.insert(node.name.clone(), due),
            None => self.due.remove(&node.name),
        };
        match wanted {
            Some(wanted) if wanted.kept_off.is_some() && wanted.opens() <= now.boot => {
                self.tell_of_keeping_off(node, &wanted);
            }
            Some(wanted) if wanted.delay.is_some() && wanted.at > now.boot => {
                self.tell_of_delay(node, &wanted);
            }
            _ => self.context.delays.over(&node.name),
        }
    }

    /// The policy and the condition that ask for an incident of this node, and when.
    fn wanted(&mut self, node: &NodeView, policies: &[NodeFencingPolicy]) -> Option<Wanted> {
        fenceable(node).ok()?;
        let policy = governing(policies, node).ok()??;
        // Of most nodes nothing is wanted, and no record is looked at for them.
        let onsets = self.onsets.get(&node.name)?;
        if first_due(&policy.spec.unhealthy_conditions, onsets).is_none() {
            self.told.is_over(&node.name, "FenceRefused");
            return None;
        }
        let fences = self.context.caches.fences_of(&node.name);
        let lacks = self.context.deletion.lacks();
        let wall_now = clock::wall();
        let outlook = outlook(
            node,
            &Facts {
                policies,
                fences: &fences,
                onsets,
                idle: &|policy| {
                    let words = unsupported(&policy.spec, lacks.as_deref())?;
                    Some((HeldBy::Unsupported, words))
                },
                now: wall_now,
            },
        );
        let wanted = match outlook.incident() {
            Ok(wanted) => wanted,
            Err(Obstacle::Refused(_)) => {
                self.tell_of_refusal(node, policy, &fences);
                return None;
            }
            Err(_) => return None,
        };
        self.note_last_fence(&fences, node);
        let (start, last) = (
            self.starts.get(&node.name),
            self.last_fences.get(&node.name),
        );
        let asked = self.asked(&wanted, node, &fences);
        let is_off = self.context.found_off.is_off(node, wanted.since());
        let schedule = match asked {
            Some(_) => wanted.schedule_asked(start, last),
            None => wanted.schedule(is_off, start, last),
        };
        Some(Wanted {
            at: schedule.claim_at,
            wait_ends: schedule.wait_ends,
            delay: schedule.delay,
            asked,
            policy: policy.clone(),
            effective: wanted.effective,
            condition: wanted.condition.clone(),
            kept_off: exclusion(policy, node, wall_now),
        })
    }

    /// The remediation for which the rest of the condition's duration is not waited for.
    fn asked(
        &self,
        wanted: &protection::Wanted<'_>,
        node: &NodeView,
        fences: &[NodeFence],
    ) -> Option<RemediationReference> {
        if !wanted.waits(clock::since_boot()) {
            return None;
        }
        let (policy, says, condition) = (wanted.policy, &wanted.effective, wanted.condition);
        self.context.callers.asking_for(&node.name, |by| {
            let name = asked_fence_name(node, policy, says, condition, &by.uid);
            is_served(fences, &by.uid, &name)
        })
    }

    /// Takes note of the incident that last touched the node's machine. One that is known already goes on ageing.
    fn note_last_fence(&mut self, fences: &[NodeFence], node: &NodeView) {
        let Some((fence, ended)) = delay::last_touch(fences, node) else {
            return;
        };
        let name = fence.name_any();
        let known = self.last_fences.get(&node.name);
        if known.is_none_or(|known| known.name != name) {
            let since = Since::at(ended, now());
            self.last_fences
                .insert(node.name.clone(), LastFence { name, since });
        }
    }

    /// Opens the incidents of these nodes side by side, after quorum reads have confirmed the cache: of a storm the last would else wait for the
    /// requests of all others. What could not be done is tried again.
    async fn open_incidents(&mut self, names: &[String]) {
        self.due.retain(|name, _| !names.contains(name));
        let context = Arc::clone(&self.context);
        let nodes = names.iter().map(|name| observe::node(&context, name));
        let nodes = match context.revision.frozen() {
            Some(_) => Vec::new(),
            None => join_all(nodes).await,
        };
        let (mut fences, mut again) = (Vec::new(), Vec::new());
        // These reads may have shown it.
        if let Some(why) = context.revision.frozen() {
            for name in names {
                self.tell_that_it_went_back(name, &why);
                again.push(name);
            }
        } else {
            let policies = context.caches.policies();
            for (name, node) in names.iter().zip(nodes) {
                match self.opening(name, node, &policies) {
                    Ok(fence) => fences.extend(fence.map(|fence| (name, fence))),
                    Err(Again) => again.push(name),
                }
            }
        }
        let written = fences.iter().map(|(_, fence)| self.write_incident(fence));
        let written = join_all(written).await;
        let failed = fences.iter().zip(written).filter(|(_, written)| !written);
        again.extend(failed.map(|((name, _), _)| *name));
        let at = clock::since_boot() + RETRY;
        let again = again.into_iter().map(|name| (name.clone(), at));
        self.due.extend(again);
    }

    /// The record of the node's incident, if it is to be opened now: `node` was read by quorum.
    fn opening(
        &mut self,
        name: &str,
        node: Read<SlimNode>,
        policies: &[NodeFencingPolicy],
    ) -> Result<Option<NodeFence>, Again> {
        let node = match node {
            Read::Present(node) => {
                let view = node.view();
                self.note_start(&view, node.created());
                view
            }
            Read::Absent => return Ok(None),
            Read::Failed(reason) => {
                tracing::warn!(
                    node = name,
                    reason,
                    "cannot read the node to open its incident"
                );
                return Err(Again);
            }
            Read::NotRead => return Err(Again),
        };
        let Some(wanted) = self.wanted(&node, policies) else {
            return Ok(None);
        };
        let now = now();
        if wanted.opens() > now.boot {
            self.due.insert(name.to_owned(), wanted.opens());
            return Ok(None);
        }
        if !wanted.holds(&node) {
            return Ok(None);
        }
        match at_opening(&node, wanted.kept_off.clone()) {
            Some(Obstacle::OutOfService(_)) => {
                self.tell_of_foreign_taint(&node);
                return Ok(None);
            }
            Some(_) => {
                self.tell_of_keeping_off(&node, &wanted);
                if let Some(due) = wanted.due(now) {
                    self.due.insert(name.to_owned(), due);
                }
                return Ok(None);
            }
            None => {}
        }
        let devices = self.context.caches.devices_of(&node);
        let cause = (&wanted.condition, wanted.claim_due(now));
        let fence = new_fence(&node, &wanted.policy, &wanted.effective, cause, &devices);
        // Whatever is not written now is tried again, and no wait is the reason.
        self.context.delays.over(name);
        Ok(Some(fence))
    }

    /// Writes the record of a new incident. `false`: to be tried again.
    async fn write_incident(&self, fence: &NodeFence) -> bool {
        let fence_name = fence.name_any();
        let node = &fence.spec.node_name;
        match act::create_fence(&self.context, fence).await {
            Reply::Done => {
                let policy = fence.spec.policy_name.as_deref().unwrap_or_default();
                tracing::info!(fence = fence_name, node, policy, "incident opened");
            }
            // Somebody was faster: the record is there.
            Reply::Refused(409, _) | Reply::Device(..) => {}
            Reply::Refused(_, reason) | Reply::NotSent(reason) | Reply::Unknown(reason) => {
                tracing::warn!(fence = fence_name, node, reason, "cannot open the incident");
                return false;
            }
        }
        true
    }

    /// An Event about a node that nothing is done to.
    fn tell(&self, node: &str, reason: &str, message: String) {
        let note = Note::of_node(node, reason, message);
        self.context.events.publish(note);
    }
}

/// An incident could not be opened now.
struct Again;

/// Both clocks.
pub(super) fn now() -> Now {
    Now {
        boot: clock::since_boot(),
        wall: clock::wall(),
    }
}

#[cfg(test)]
mod tests;
