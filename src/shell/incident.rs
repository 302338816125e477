//! One incident, one loop: read, ask the core, do the one thing it says, read again.
//!
//! The controller runs one loop a NodeFence at a time. A loop never waits for a device: it hands the work to a job and ends,
//! and the job's answer wakes it again. All that a loop remembers is in [`Incident`], which dies with the process.

use super::context::{Context, open};
use super::events::Note;
use super::jobs::{self, Job};
use super::metrics::IncidentRow;
use super::{act, observe, resolve, status};
use crate::api::fence::NodeFence;
use crate::api::fence_status::NodeFenceStatus;
use crate::api::settings::FenceMode;
use crate::clock;
use crate::core::incident::{
    Approval, Decision, DeviceOrder, DeviceReply, Effect, Memory, Record, Reply, Settings,
};
use crate::core::observed::{NodeView, Observed, Seen};
use crate::core::plan::{self, Moment};
use crate::core::reply::{Asked, learn};
use crate::core::stage::Stage;
use crate::core::taint;
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Steps of one run of a loop, before others get their turn.
const STEPS_MAX: usize = 32;
/// A stage that has lasted this long is written down though the protocol does not ask for it.
const STAGE_WRITE_AFTER: Duration = Duration::from_secs(2);
/// Longest time between two looks at an open incident, whatever the core says.
const LOOK_AGAIN_MAX: Duration = Duration::from_secs(30);

/// The open incidents of this process.
#[derive(Default)]
pub struct Incidents(Mutex<BTreeMap<String, (Uid, Shared)>>);

/// `metadata.uid` of a NodeFence.
type Uid = String;
/// An incident; its lock is held for one run of its loop.
type Shared = Arc<tokio::sync::Mutex<Incident>>;

/// What this process remembers of one NodeFence.
pub struct Incident {
    memory: Memory,
    record: Record,
    status: NodeFenceStatus,
    written: NodeFenceStatus,
    job: Option<JoinHandle<()>>,
    answers: Arc<Mutex<Vec<(u64, DeviceReply)>>>,
    told: Option<(Stage, Option<&'static str>)>,
}

impl Drop for Incident {
    fn drop(&mut self) {
        if let Some(job) = &self.job {
            job.abort();
        }
    }
}

impl Incidents {
    /// By name, and only if it still is the NodeFence of that uid.
    fn get(&self, fence: &NodeFence) -> Option<Shared> {
        let incidents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (uid, incident) = incidents.get(&fence.name_any())?;
        (Some(uid) == fence.metadata.uid.as_ref()).then(|| incident.clone())
    }

    fn begin(&self, fence: &NodeFence, status: NodeFenceStatus) -> Shared {
        let incident = Arc::new(tokio::sync::Mutex::new(Incident {
            memory: Memory::default(),
            record: resolve::record(&status),
            written: status.clone(),
            status,
            job: None,
            answers: Arc::default(),
            told: None,
        }));
        let entry = (fence.uid().unwrap_or_default(), incident.clone());
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(fence.name_any(), entry);
        incident
    }

    /// The NodeFence has ended or was deleted: its jobs are dropped, its place in the budget is free.
    pub fn end(&self, context: &Context, fence: &str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(fence);
        context.brakes.end(fence);
        context.board.end(fence);
    }
}

/// Goes on with an incident as far as it can without waiting; says when to look again at the latest.
pub async fn run(
    context: &Arc<Context>,
    incidents: &Incidents,
    fence: &NodeFence,
) -> Option<Duration> {
    if status::is_ended(fence) || fence.metadata.deletion_timestamp.is_some() {
        incidents.end(context, &fence.name_any());
        return None;
    }
    let incident = match incidents.get(fence) {
        Some(incident) => incident,
        // The first look of this process: the cache may be older than what the process before us wrote.
        None => match observe::fence(context, &fence.name_any()).await {
            Seen::Present(live) if status::is_ended(&live) => return None,
            Seen::Present(live) => {
                let policy = live.spec.policy_name.as_deref().unwrap_or_default();
                context
                    .metrics
                    .incident_opened(policy, &live.spec.node_name);
                incidents.begin(&live, live.status.clone().unwrap_or_default())
            }
            Seen::Absent => return None,
            Seen::Failed(_) | Seen::NotRead => return Some(Duration::from_secs(1)),
        },
    };
    let mut incident = incident.lock().await;
    for _ in 0..STEPS_MAX {
        let mut round = Round {
            context,
            fence,
            incident: &mut incident,
        };
        match round.step().await {
            Next::Again => {}
            Next::Wait(pause) => return Some(pause.min(LOOK_AGAIN_MAX)),
            Next::Ended => {
                drop(incident);
                incidents.end(context, &fence.name_any());
                return None;
            }
        }
    }
    Some(Duration::from_millis(10))
}

enum Next {
    Again,
    Wait(Duration),
    Ended,
}

/// One round of one incident.
struct Round<'a> {
    context: &'a Arc<Context>,
    fence: &'a NodeFence,
    incident: &'a mut Incident,
}

impl Round<'_> {
    async fn step(&mut self) -> Next {
        // Taken before the Node is read: what is judged is a Node that was read after the last reading.
        let answers = self.answers();
        let (node, view) = self.read_node().await;
        let policy = self.policy();
        let devices = self.context.caches.devices();
        let settings = resolve::settings(
            self.fence,
            &self.incident.status,
            view.present(),
            policy.as_ref(),
            (&self.context.devices, &devices),
            &self.incident.record,
        );
        self.listen(&settings, answers);
        let mut observed = match (node.present(), view) {
            (Some(node), Seen::Present(view)) => {
                let needs = plan::needs(&settings, &self.incident.memory, &view);
                observe::rest(self.context, node, view, needs).await
            }
            (_, view) => observe::nothing_but(view),
        };
        self.admit(&settings, &mut observed, policy.as_ref());
        let moment = Moment {
            now: clock::since_boot(),
            nonce: nonce(),
        };
        let decision = plan::step(&settings, &mut self.incident.memory, &observed, &moment);
        self.explain(&settings, &observed, &decision, moment.now);
        self.act(&settings, decision, moment.now).await
    }

    async fn read_node(&self) -> (Seen<super::slim::SlimNode>, Seen<NodeView>) {
        let node = observe::node(self.context, &self.fence.spec.node_name).await;
        let view = match &node {
            Seen::Present(node) => Seen::Present(node.view()),
            Seen::Absent => Seen::Absent,
            Seen::Failed(reason) => Seen::Failed(reason.clone()),
            Seen::NotRead => Seen::NotRead,
        };
        (node, view)
    }

    fn policy(&self) -> Option<crate::api::policy::NodeFencingPolicy> {
        let name = self.fence.spec.policy_name.as_deref()?;
        self.context
            .caches
            .policies()
            .into_iter()
            .find(|policy| policy.name_any() == name)
    }

    /// What jobs have answered since the last round.
    fn answers(&mut self) -> Vec<(u64, DeviceReply)> {
        let mut answers = self
            .incident
            .answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *answers)
    }

    /// Learns from the answers, and writes the outcome of a command down.
    fn listen(&mut self, settings: &Settings, answers: Vec<(u64, DeviceReply)>) {
        for (number, reply) in answers {
            learn(
                settings,
                &mut self.incident.memory,
                Asked::Device,
                Reply::Device(number, reply),
                clock::since_boot(),
            );
            if let Some(attempt) = self.incident.memory.attempt.clone() {
                status::outcome(&mut self.incident.status, &attempt, clock::wall());
            }
        }
    }

    /// Asks the budget, and who else claims the Node.
    fn admit(
        &self,
        settings: &Settings,
        observed: &mut Observed,
        policy: Option<&crate::api::policy::NodeFencingPolicy>,
    ) {
        let claim = observed.node.present().and_then(NodeView::claim);
        let owner = claim.and_then(taint::claim_fence);
        if owner == Some(settings.fence.as_str()) {
            self.context.brakes.readmit(&settings.fence);
            return;
        }
        observed.rival = owner.is_some_and(|owner| {
            self.context
                .caches
                .fences()
                .iter()
                .any(|fence| fence.name_any() == owner && !status::is_ended(fence))
        });
        if settings.mode == FenceMode::Observe {
            return;
        }
        let approved = settings.human || matches!(settings.approval, Approval::Approved(_));
        let priority = policy.map(|policy| (policy.name_any(), policy.spec.priority));
        let mine = open(
            self.fence,
            &BTreeSet::new(),
            &priority.into_iter().collect(),
        );
        observed.hold = self
            .context
            .brakes
            .admit(self.context, &mine, policy, approved)
            .err();
    }

    /// Tells people: the record in memory, an event for each new stage and each new call for a human, a log line.
    fn explain(
        &mut self,
        settings: &Settings,
        observed: &Observed,
        decision: &Decision,
        now: Duration,
    ) {
        let incident = &mut *self.incident;
        let wall = clock::wall();
        status::stage(
            &mut incident.status,
            &incident.memory,
            decision,
            self.fence.metadata.generation,
            now,
            wall,
        );
        if incident.memory.tainted || incident.memory.quiesced.is_some() {
            status::volumes(&mut incident.status, &observed.attachments_cached, wall);
        }
        let escalation = decision.escalation.as_ref().map(|(reason, _)| *reason);
        self.show(settings, observed, decision);
        let incident = &mut *self.incident;
        let told = Some((decision.stage, escalation));
        if incident.told == told {
            return;
        }
        incident.told = told;
        let words = decision
            .escalation
            .as_ref()
            .map_or(&decision.words, |(_, words)| words);
        let reason = escalation.map_or_else(|| decision.stage.to_string(), str::to_owned);
        match escalation {
            Some(_) => {
                tracing::warn!(fence = %settings.fence, node = %settings.node, stage = %decision.stage, reason, words)
            }
            None => {
                tracing::info!(fence = %settings.fence, node = %settings.node, stage = %decision.stage, words)
            }
        }
        let warning = escalation.is_some() || decision.stage == Stage::Held;
        self.context
            .events
            .publish(note(self.fence, warning, &reason, words));
    }

    /// The incident's row in the metrics.
    fn show(&self, settings: &Settings, observed: &Observed, decision: &Decision) {
        let status = &self.incident.status;
        self.context.board.show(IncidentRow {
            fence: settings.fence.clone(),
            node: settings.node.clone(),
            policy: self.fence.spec.policy_name.clone().unwrap_or_default(),
            mode: format!("{:?}", settings.mode),
            stage: decision.stage.to_string(),
            stage_started_wall: status.stage_start_time.unwrap_or_else(clock::wall),
            deadline_wall: status.stage_deadline_time,
            held_reason: observed.hold.as_ref().map(|hold| hold.reason.to_owned()),
        });
    }

    async fn act(&mut self, settings: &Settings, decision: Decision, now: Duration) -> Next {
        let asked = Asked::from(&decision.effect);
        let reply = match decision.effect {
            Effect::Wait => return self.wait(decision.wake, now).await,
            Effect::Device {
                order,
                level,
                number,
            } => return self.hand_out(settings, order, level, number),
            Effect::Claim(patch) | Effect::DropClaim(patch) => {
                act::patch_node(self.context, patch).await
            }
            Effect::Taint(patch) => {
                let reply = act::patch_node(self.context, patch).await;
                if reply == Reply::Done {
                    self.incident
                        .status
                        .taint_applied_time
                        .get_or_insert(clock::wall());
                }
                reply
            }
            Effect::Release(patch) => {
                let reply = act::patch_node(self.context, patch).await;
                if reply == Reply::Done {
                    self.incident
                        .status
                        .detached_time
                        .get_or_insert(clock::wall());
                    self.incident
                        .status
                        .taint_removed_time
                        .get_or_insert(clock::wall());
                }
                reply
            }
            Effect::Evict(eviction) => act::evict(self.context, eviction).await,
            Effect::Bind { uid, boot_id } => {
                self.incident.status.node_uid = Some(uid);
                self.incident.status.boot_id = Some(boot_id);
                self.write_status().await
            }
            Effect::RecordIntent(attempt) => {
                let timeout = settings
                    .levels
                    .iter()
                    .find(|level| level.name == attempt.level)
                    .map(|level| level.timeout);
                let mut intended = self.incident.status.clone();
                status::intent(
                    &mut intended,
                    &attempt,
                    timeout.unwrap_or_default(),
                    clock::wall(),
                );
                self.write(intended).await
            }
            Effect::StoreEvidence(evidence) => {
                let mut proven = self.incident.status.clone();
                status::evidence(
                    &mut proven,
                    &evidence,
                    &self.incident.memory,
                    now,
                    clock::wall(),
                );
                self.write(proven).await
            }
            Effect::Close => return self.close(settings, decision.stage).await,
        };
        if let Reply::Refused(_, reason) | Reply::Unknown(reason) = &reply {
            self.context.metrics.reconcile_error("WriteFailed");
            tracing::warn!(fence = %settings.fence, node = %settings.node, ?asked, reason, "write failed; it is decided again");
        }
        learn(
            settings,
            &mut self.incident.memory,
            asked,
            reply,
            clock::since_boot(),
        );
        Next::Again
    }

    async fn wait(&mut self, wake: Option<Duration>, now: Duration) -> Next {
        let since = self.incident.memory.stage.map_or(now, |(_, since)| since);
        let old_enough = now.saturating_sub(since) >= STAGE_WRITE_AFTER;
        if old_enough && self.worth_writing() {
            self.write_status().await;
        }
        let pause = match wake {
            Some(at) => at
                .saturating_sub(clock::since_boot())
                .max(Duration::from_millis(1)),
            None => LOOK_AGAIN_MAX,
        };
        // The stage's own write is due even if nothing else happens.
        let due = (since + STAGE_WRITE_AFTER).saturating_sub(now);
        Next::Wait(if old_enough {
            pause
        } else {
            pause.min(due.max(Duration::from_millis(1)))
        })
    }

    /// Words that only count up are not worth a write.
    fn worth_writing(&self) -> bool {
        let told = |status: &NodeFenceStatus| {
            let conditions: Vec<_> = status
                .conditions
                .iter()
                .map(|condition| {
                    (
                        condition.type_.clone(),
                        condition.status.clone(),
                        condition.reason.clone(),
                        condition.message.clone(),
                    )
                })
                .collect();
            (conditions, status.volumes.clone(), status.attempts.clone())
        };
        told(&self.incident.status) != told(&self.incident.written)
    }

    fn hand_out(
        &mut self,
        settings: &Settings,
        order: DeviceOrder,
        level: usize,
        number: u64,
    ) -> Next {
        let Some(level) = settings.levels.get(level).cloned() else {
            return Next::Wait(Duration::from_secs(1));
        };
        let job = Job {
            order,
            level,
            settings: settings.clone(),
            claim: self.incident.memory.claim.clone(),
        };
        let (context, answers) = (self.context.clone(), self.incident.answers.clone());
        let name = settings.fence.clone();
        if let Some(old) = self.incident.job.take() {
            old.abort();
        }
        self.incident.job = Some(tokio::spawn(async move {
            let reply = jobs::run(&context, &job).await;
            answers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((number, reply));
            // Nobody listens any more only while the operator ends.
            let _ = context.wake.send(name);
        }));
        Next::Wait(LOOK_AGAIN_MAX)
    }

    async fn close(&mut self, settings: &Settings, stage: Stage) -> Next {
        match self.write_status().await {
            Reply::Done => {
                self.count(stage);
                Next::Ended
            }
            // The NodeFence is gone: there is no record to close.
            Reply::Refused(404, _) => Next::Ended,
            reply => {
                learn(
                    settings,
                    &mut self.incident.memory,
                    Asked::Write,
                    reply,
                    clock::since_boot(),
                );
                Next::Wait(Duration::from_secs(1))
            }
        }
    }

    /// The incident in the counters and histograms.
    fn count(&self, stage: Stage) {
        let (spec, status) = (&self.fence.spec, &self.incident.status);
        let policy = spec.policy_name.as_deref().unwrap_or_default();
        let since = spec.trigger.unhealthy_since_time.or(status.detected_time);
        let took =
            |until: Option<Timestamp>| Duration::try_from(until?.duration_since(since?)).ok();
        self.context
            .metrics
            .incident_ended(policy, &spec.node_name, &stage.to_string());
        if let Some(took) = took(status.taint_applied_time) {
            self.context.metrics.time_to_fence(policy, took);
        }
        if let (Stage::Recovered, Some(took)) = (stage, took(status.completion_time)) {
            self.context.metrics.time_to_recover(policy, took);
        }
    }

    async fn write_status(&mut self) -> Reply {
        self.write(self.incident.status.clone()).await
    }

    /// Writes a status; it is ours only once the API server has it.
    async fn write(&mut self, status: NodeFenceStatus) -> Reply {
        let patch = status::merge(&self.incident.written, &status);
        let reply = act::patch_status(self.context, &self.fence.name_any(), &patch).await;
        if reply == Reply::Done {
            self.incident.written = status.clone();
            self.incident.status = status;
        }
        reply
    }
}

/// What is told about a NodeFence, with its Node beside it.
fn note(fence: &NodeFence, warning: bool, reason: &str, words: &str) -> Note {
    Note {
        regarding: fence.object_ref(&()),
        related: Some(super::events::node_reference(&fence.spec.node_name)),
        warning,
        reason: reason.to_owned(),
        action: "Fence".to_owned(),
        message: words.to_owned(),
    }
}

/// Eight characters that no other round gets, of those that may stand in a taint's value.
fn nonce() -> String {
    let mut bytes = [0_u8; 4];
    if getrandom::fill(&mut bytes).is_err() {
        // Without randomness the time since boot still tells our own rounds apart.
        bytes = u32::try_from(clock::since_boot().as_nanos() & u128::from(u32::MAX))
            .unwrap_or_default()
            .to_be_bytes();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
