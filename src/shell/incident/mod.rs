//! One incident, one loop: read, ask the core, do the one thing it says, read again.
//!
//! The controller runs one loop a NodeFence at a time. A loop never waits for a device: it hands the work to a job and ends,
//! and the job's answer wakes it again. All that a loop remembers is in [`Incident`], which dies with the process.

mod carry_out;
mod meanwhile;
mod round;
mod superseded;
mod tell;

use super::context::Context;
use super::detect::now;
use super::early::EarlyDrivers;
use super::jobs::Heard;
use super::metrics::RoundError;
use super::observe::{self, Reads};
use super::resolve::Moments;
use super::wakes::{Heed, Why};
use fencing_api::fence::NodeFence;
use fencing_api::fence_status::NodeFenceStatus;
use fencing_core::answer::DeviceReply;
use fencing_core::escalation::Escalation;
use fencing_core::hold::HeldBy;
use fencing_core::memory::Memory;
use fencing_core::observed::Read;
use fencing_core::record;
use fencing_core::settings::Record;
use fencing_core::stage::Stage;
use fencing_drivers::clock;
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Steps of one run of a loop, before others get their turn.
const STEPS_MAX: usize = 32;
/// A stage that has lasted this long is written down though the protocol does not ask for it.
const STAGE_WRITE_AFTER: Duration = Duration::from_secs(2);
/// A pause that is waited out within the loop: the queue would take longer than that to come round again.
const SHORT: Duration = Duration::from_millis(10);
/// Pause that gives others their turn.
const AGAIN: Duration = Duration::from_millis(1);
/// Claims of this process that it knows again. One lands within seconds of being sent, or not at all.
const SENT_KEPT: usize = 16;
/// VolumeAttachments that change within this time are looked at together, unless none is left.
const DETACHED_GATHER: Duration = Duration::from_millis(100);
/// Longest time between two looks at an open incident, whatever the core says.
const LOOK_AGAIN_MAX: Duration = Duration::from_secs(30);

/// The open incidents of this process.
#[derive(Default)]
pub struct Incidents {
    open: Mutex<BTreeMap<String, (Uid, Shared)>>,
    /// Until when another process is left alone with an incident that this one begins anew (time since boot).
    rivals: Mutex<BTreeMap<String, Duration>>,
}

/// `metadata.uid` of a NodeFence.
type Uid = String;
/// An incident; its lock is held for one run of its loop.
type Shared = Arc<tokio::sync::Mutex<Incident>>;

/// What this process remembers of one NodeFence.
pub struct Incident {
    memory: Memory,
    record: Record,
    moments: Moments,
    /// The NodeFence as it was read by quorum, while the cache has an older spec.
    newer: Option<Arc<NodeFence>>,
    /// The record as it should be.
    status: NodeFenceStatus,
    stored: Stored,
    job: Option<UnderWay>,
    answers: Arc<Mutex<Vec<Answer>>>,
    /// What was read beside the last write, for the round after it.
    ahead: Option<Reads>,
    /// What the last round has seen.
    seen: Seen,
    /// What was made beside the claim.
    early: Option<EarlyDrivers>,
    told: Option<Told>,
    /// The claims that this process has sent, the last ones: an earlier one may land later.
    sent_claims: Vec<String>,
    /// A claim that neither this process nor the record knows, and since when it has been seen (time since boot).
    unnamed_claim: Option<(String, Duration)>,
    /// An approval has been heard of.
    is_approved: bool,
    /// The pods that stay on a node that was reported early are not Ready any more.
    pods_turned: bool,
    /// What would have stopped it before its taint, and no longer does, as people have been told.
    past_stops: Vec<String>,
}

/// What the last round has seen, and when the next has its time (since boot).
#[derive(Debug, Default)]
struct Seen {
    /// `metadata.resourceVersion` of the Node; none: it was not read.
    node: Option<String>,
    at: Duration,
    next: Duration,
}

/// What people have an Event of: whatever changes here is told anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    stage: Stage,
    held: Option<HeldBy>,
    escalation: Option<Escalation>,
}

/// A job that may not have answered yet.
struct UnderWay {
    order: u64,
    task: JoinHandle<()>,
    heard: Heard,
}

impl UnderWay {
    /// Ends it, and gives what it has heard: what devices have said of the power is true, whatever it was asked for (S4).
    fn abort(self) -> Option<Answer> {
        if self.task.is_finished() {
            return None;
        }
        self.task.abort();
        let reply = DeviceReply::PowerRead {
            answers: self.heard.take(),
            pods: None,
        };
        Some(Answer {
            order: self.order,
            reply,
            put_back: None,
        })
    }
}

/// What a job has answered.
struct Answer {
    /// The number of its order.
    order: u64,
    reply: DeviceReply,
    /// When it was put back, to be listened to later (time since boot): it is no newer than that.
    put_back: Option<Duration>,
}

/// The record as the API server has it, as far as this process knows.
struct Stored {
    status: NodeFenceStatus,
    /// `metadata.resourceVersion`: a write of ours lands on this version or not at all.
    version: Option<String>,
    /// A write was refused because the version is another one by now.
    behind: bool,
}

impl From<NodeFence> for Stored {
    fn from(fence: NodeFence) -> Self {
        Self {
            version: fence.metadata.resource_version,
            status: fence.status.unwrap_or_default(),
            behind: false,
        }
    }
}

impl Drop for Incident {
    fn drop(&mut self) {
        if let Some(job) = &self.job {
            job.task.abort();
        }
    }
}

impl Incidents {
    /// By name, and only if it still is the NodeFence of that uid.
    fn get(&self, fence: &NodeFence) -> Option<Shared> {
        let incidents = self.open();
        let (uid, incident) = incidents.get(&fence.name_any())?;
        (Some(uid) == fence.metadata.uid.as_ref()).then(|| incident.clone())
    }

    fn begin(&self, fence: NodeFence) -> Shared {
        let (name, uid) = (fence.name_any(), fence.uid().unwrap_or_default());
        let moments = Moments::of(&fence, now());
        let newer = Some(Arc::new(fence.clone()));
        let stored = Stored::from(fence);
        let incident = Arc::new(tokio::sync::Mutex::new(Incident {
            memory: Memory {
                rival_until: self.rivals().remove(&name),
                ..Memory::default()
            },
            record: record::read(&stored.status, clock::wall()),
            moments,
            newer,
            status: stored.status.clone(),
            stored,
            job: None,
            answers: Arc::default(),
            ahead: None,
            seen: Seen::default(),
            early: None,
            told: None,
            sent_claims: Vec::new(),
            unnamed_claim: None,
            is_approved: false,
            pods_turned: false,
            past_stops: vec![],
        }));
        self.open().insert(name, (uid, incident.clone()));
        incident
    }

    /// Another process has taken the incident over: what this one remembers of it is void, but for how long the other is left alone.
    fn forget(&self, fence: &str, rival_until: Option<Duration>) {
        self.open().remove(fence);
        let until = rival_until.map(|until| (fence.to_owned(), until));
        self.rivals().extend(until);
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, (Uid, Shared)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rivals(&self) -> MutexGuard<'_, BTreeMap<String, Duration>> {
        self.rivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The NodeFence has ended or was deleted: its jobs are dropped, its place in the budget is free.
    pub fn end(&self, context: &Context, fence: &str) {
        self.open().remove(fence);
        self.rivals().remove(fence);
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
    let why = context.wakes.take(&fence.name_any());
    // One that is being deleted and that somebody's finalizer holds is a record like any other: nobody can make another of its name, and what
    // is on its Node is seen to until it is gone.
    if fence.is_ended() {
        incidents.end(context, &fence.name_any());
        return None;
    }
    let incident = match incidents.get(fence) {
        Some(incident) => incident,
        // The first look of this process: the cache may be older than what the process before us wrote.
        None => match observe::fence(context, &fence.name_any()).await {
            Read::Present(live) if live.is_ended() => return None,
            // Another of that name: begun with once the cache has it.
            Read::Present(live) if !is_same(&live, fence) => return None,
            Read::Present(live) => {
                let policy = live.spec.policy_name.as_deref().unwrap_or_default();
                context
                    .metrics
                    .incident_opened(policy, &live.spec.node_name);
                incidents.begin(live)
            }
            Read::Absent => return None,
            Read::Failed(_) | Read::NotRead => {
                context.metrics.reconcile_error(RoundError::ReadFailed);
                return Some(Duration::from_secs(1));
            }
        },
    };
    let mut incident = incident.lock().await;
    // Before the version of a human's edit counts as known.
    if let Some(pause) = why.and_then(|why| incident.need_not_look(context, fence, &why)) {
        // An echo that comes before then must not put it off again.
        incident.seen.next = incident.seen.next.min(clock::since_boot() + pause);
        return Some(pause);
    }
    incident.stored.follow(fence);
    incident.seen.next = Duration::ZERO;
    for _ in 0..STEPS_MAX {
        incident.newer.take_if(|newer| !is_newer(newer, fence));
        let newer = incident.newer.clone();
        let mut round = Round {
            context,
            fence: newer.as_deref().unwrap_or(fence),
            incident: &mut incident,
        };
        let begun = clock::since_boot();
        let next = round.step().await;
        let took = clock::since_boot().saturating_sub(begun);
        context.metrics.reconcile_duration(took);
        match next {
            Next::Again => {}
            Next::Wait(pause) if pause <= SHORT => tokio::time::sleep(pause).await,
            Next::Wait(pause) => {
                let pause = pause.min(LOOK_AGAIN_MAX);
                incident.seen.next = clock::since_boot() + pause;
                return Some(pause);
            }
            Next::Ended => {
                drop(incident);
                incidents.end(context, &fence.name_any());
                return None;
            }
            Next::Anew => {
                incidents.forget(&fence.name_any(), incident.memory.rival_until);
                return Some(AGAIN);
            }
        }
    }
    Some(AGAIN)
}

impl Incident {
    /// How long it may still wait, although it was woken: what has woken it is known, or will do a little later.
    fn need_not_look(&self, context: &Context, fence: &NodeFence, why: &Why) -> Option<Duration> {
        let now = clock::since_boot();
        let left = self.seen.next.saturating_sub(now);
        let attached = context.caches.attachments_of(&fence.spec.node_name);
        let (node, stored) = (self.seen.node.as_deref(), self.stored.version.as_deref());
        // What a device answers wakes it again.
        let is_asking = (self.job.as_ref()).is_some_and(|job| !job.task.is_finished());
        let pause = match why.heed(node, stored, is_asking || !attached.is_empty()) {
            Heed::Now => Duration::ZERO,
            Heed::Soon => left.min((self.seen.at + DETACHED_GATHER).saturating_sub(now)),
            Heed::Not => left,
        };
        (!pause.is_zero()).then_some(pause)
    }

    /// Its claim is being sent: the process knows it again, however late it lands.
    fn note_sent(&mut self) {
        let claim = self.memory.claim.as_ref();
        let claim = claim.map(|claim| claim.value.clone());
        self.sent_claims.extend(claim);
        let old = self.sent_claims.len().saturating_sub(SENT_KEPT);
        self.sent_claims.drain(..old);
    }

    /// A human's edit is what a write was refused for more often than not: their no counts from here on, and not only when the cache has it.
    fn heed(&mut self, live: &NodeFence, known: &NodeFence) -> bool {
        let is_edited = is_newer(live, known);
        if is_edited {
            self.newer = Some(Arc::new(live.clone()));
        }
        is_edited
    }
}

/// Is the spec of this NodeFence newer than that one's? Each change of it counts `metadata.generation` up; a status leaves it as it is.
fn is_newer(live: &NodeFence, than: &NodeFence) -> bool {
    is_same(live, than) && live.metadata.generation > than.metadata.generation
}

/// Is it the same object? A human may have deleted the NodeFence and created another of that name, which gets nothing of this one's record.
fn is_same(live: &NodeFence, as_that: &NodeFence) -> bool {
    live.metadata.uid == as_that.metadata.uid
}

impl Stored {
    /// A change of the spec by a human leaves the record as it is, but under a new version.
    fn follow(&mut self, cached: &NodeFence) {
        if cached.status.as_ref() == Some(&self.status) {
            self.version.clone_from(&cached.metadata.resource_version);
        }
    }
}

/// What becomes of the loop after a round.
enum Next {
    /// Another round at once.
    Again,
    /// Another round after this time at the latest.
    Wait(Duration),
    /// The incident has ended.
    Ended,
    /// Another process went on with the incident: begin from what it wrote.
    Anew,
}

/// One round of one incident.
struct Round<'a> {
    context: &'a Arc<Context>,
    fence: &'a NodeFence,
    incident: &'a mut Incident,
}

#[cfg(test)]
mod tests;
