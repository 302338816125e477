//! Carries a decision out: one write, or device work handed to a job, and what is learned from it.

use super::{Answer, LOOK_AGAIN_MAX, Next, Round, STAGE_WRITE_AFTER, Stored, UnderWay};
use crate::shell::act;
use crate::shell::early::{self, EarlyDrivers};
use crate::shell::jobs::{self, Heard, Job};
use crate::shell::merge::status_patch;
use crate::shell::metrics::RoundError;
use crate::shell::observe::Reads;
use crate::shell::wakes::Reason;
use fencing_api::fence_status::NodeFenceStatus;
use fencing_core::answer::{DeviceReply, Reply};
use fencing_core::attempt::{Attempt, OnAttempt};
use fencing_core::decision::{Decision, DeviceOrder, Effect, Eviction, Evidence};
use fencing_core::plan::evicts_next;
use fencing_core::record;
use fencing_core::reply::{Asked, learn};
use fencing_core::settings::Settings;
use fencing_core::stage::Stage;
use fencing_core::taint::{NodeDeletion, NodePatch};
use fencing_drivers::clock;
use futures::FutureExt;
use futures::future::{Either, OptionFuture, join, select};
use kube::ResourceExt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

impl Round<'_> {
    /// Does what was decided, and teaches the memory what became of it.
    pub(super) async fn carry_out(
        &mut self,
        settings: &Settings,
        decision: Decision,
        now: Duration,
    ) -> Next {
        let asked = Asked::from(&decision.effect);
        // Whatever is begun now, its end may be another process's to see.
        if self.is_urgent(&decision.effect) {
            let reply = self.write_findings().await;
            if reply != Reply::Done {
                tracing::warn!(fence = %settings.fence, ?reply, "a permanent fact could not be recorded, trying again");
            }
        }
        let reply = match decision.effect {
            Effect::Wait => return self.wait(decision.wake, now).await,
            Effect::Device {
                order,
                level,
                limit,
                number,
            } => return self.hand_out(settings, order, level, limit, number),
            Effect::Claim(patch) => self.claim(settings, patch).await,
            Effect::DropClaim(patch) => self.drop_claim(patch).await,
            Effect::Taint(patch) => self.taint(patch).await,
            Effect::Release(patch) => self.release(patch).await,
            Effect::Evict(eviction) => self.evict(eviction).await,
            Effect::Detach(detachment) => act::detach(self.context, detachment).await,
            Effect::DeleteNode(deletion) => self.delete_node(deletion).await,
            Effect::Bind { uid, boot_id } => {
                let mut bound = self.incident.status.clone();
                bound.node_uid = Some(uid);
                bound.boot_id = Some(boot_id);
                self.write(bound).await
            }
            Effect::RecordIntent(attempt) => self.record_intent(&attempt).await,
            Effect::RecordOn(attempt) => self.record_on(&attempt).await,
            Effect::StoreEvidence(evidence) => self.store_evidence(settings, &evidence, now).await,
            Effect::Close => return self.close(settings, decision.stage).await,
        };
        if let Reply::Refused(_, reason) | Reply::NotSent(reason) | Reply::Unknown(reason) = &reply
        {
            self.context
                .metrics
                .reconcile_error(RoundError::WriteFailed);
            tracing::warn!(fence = %settings.fence, node = %settings.node, ?asked, reason, "write failed, deciding again");
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

    /// Claims the node, and meanwhile makes the drivers that come next. Nobody waits for them.
    async fn claim(&mut self, settings: &Settings, patch: NodePatch) -> Reply {
        self.incident.early = None;
        self.incident.note_sent();
        let claimed = act::patch_node(self.context, patch);
        let Some(level) = settings.levels.get(self.incident.memory.tries.level) else {
            return claimed.await;
        };
        let early = EarlyDrivers::of(
            self.context,
            settings.mode(),
            level,
            &settings.node,
            early::LIFE,
        );
        match select(pin!(claimed), pin!(early)).await {
            Either::Left((reply, _)) => reply,
            Either::Right((early, claimed)) => {
                self.incident.early = Some(early);
                claimed.await
            }
        }
    }

    pub(super) async fn drop_claim(&self, patch: NodePatch) -> Reply {
        let reply = act::patch_node(self.context, patch).await;
        if reply == Reply::Done {
            self.context.brakes.give_back(&self.fence.name_any());
        }
        reply
    }

    /// Whoever comes after us has to know at once that the taint was there: it would else set it again when somebody else has taken it away.
    pub(super) async fn taint(&mut self, patch: NodePatch) -> Reply {
        let reply = act::patch_node(self.context, patch).await;
        if reply == Reply::Done {
            let applied = &mut self.incident.status.taint_applied_time;
            applied.get_or_insert(clock::wall());
            let written = self.write_status().await;
            if written != Reply::Done {
                tracing::warn!(fence = %self.fence.name_any(), reply = ?written, "`out-of-service` is set on the Node, but the NodeFence's status could not be written, trying again");
            }
        }
        reply
    }

    /// A record that could not say so far that the taint was there says it before it goes: a machine that somebody repairs by now would
    /// else be fenced anew. A record that cannot be written holds up no release, but one that somebody else wrote since is read first.
    pub(super) async fn release(&mut self, patch: NodePatch) -> Reply {
        if self.incident.stored.status.taint_applied_time.is_none() {
            let reply = self.write_status().await;
            // Somebody wrote there since the last check, another process and its command perhaps: that is read first (S23).
            if let Reply::Refused(409, _) = reply {
                return reply;
            }
            if reply != Reply::Done {
                tracing::warn!(fence = %self.fence.name_any(), ?reply, "the taint could not be recorded before its release");
            }
        }
        let reply = act::patch_node(self.context, patch).await;
        if reply == Reply::Done {
            let (status, now) = (&mut self.incident.status, clock::wall());
            status.detached_time.get_or_insert(now);
            status.taint_removed_time.get_or_insert(now);
        }
        reply
    }

    /// Like the release: a record that somebody else wrote since is read first (S23). That the mark was there, and that everything has detached, it
    /// says before the Node is gone: a successor that finds a new Node of that name would not know. When the mark has gone the end says, which has
    /// seen that the Node is.
    pub(super) async fn delete_node(&mut self, deletion: NodeDeletion) -> Reply {
        let stored = &self.incident.stored.status;
        let is_told = stored.taint_applied_time.is_some() && stored.detached_time.is_some();
        if !is_told {
            let detached = &mut self.incident.status.detached_time;
            detached.get_or_insert(clock::wall());
            let reply = self.write_status().await;
            if reply != Reply::Done {
                return reply;
            }
        }
        act::delete_node(self.context, deletion).await
    }

    async fn record_intent(&mut self, attempt: &Attempt) -> Reply {
        let mut intended = self.incident.status.clone();
        record::intent(&mut intended, attempt, clock::wall());
        self.write(intended).await
    }

    async fn record_on(&mut self, attempt: &OnAttempt) -> Reply {
        let mut intended = self.incident.status.clone();
        record::on_intent(&mut intended, attempt, clock::wall());
        self.write(intended).await
    }

    /// A deletion that comes next rests on what is read meanwhile, see [`evicts_next`].
    pub(super) async fn store_evidence(
        &mut self,
        settings: &Settings,
        evidence: &Evidence,
        now: Duration,
    ) -> Reply {
        let before = self.incident.status.confirmed_down_time;
        let mut proven = self.incident.status.clone();
        let memory = &self.incident.memory;
        record::evidence(&mut proven, evidence, memory, now, clock::wall());
        let reads = evicts_next(settings, &self.incident.memory).then(|| self.read());
        let (reply, reads) = join(self.write(proven), OptionFuture::from(reads)).await;
        self.keep_ahead(&reply, reads);
        if reply == Reply::Done {
            self.measure_fence(before);
        }
        reply
    }

    /// The taint comes next, and rests on what is read meanwhile: unlike this deletion it tests the Node itself.
    pub(super) async fn evict(&mut self, eviction: Eviction) -> Reply {
        let (reply, reads) = join(act::evict(self.context, eviction), self.read()).await;
        self.keep_ahead(&reply, Some(reads));
        reply
    }

    /// What was read beside a write is for the next round; after a write that failed that one reads anew.
    fn keep_ahead(&mut self, reply: &Reply, reads: Option<Reads>) {
        self.incident.ahead = reads.filter(|_| *reply == Reply::Done);
    }

    async fn wait(&mut self, wake: Option<Duration>, now: Duration) -> Next {
        let since = self.incident.memory.stage.map_or(now, |(_, since)| since);
        // In the moment until the policy's wait ends nothing happens that is worth a write, unless it was opened long before.
        let since = match self.fence.spec.trigger.early_seconds {
            Some(_) => since,
            None => since.max(self.incident.moments.not_before),
        };
        let old_enough = now.saturating_sub(since) >= STAGE_WRITE_AFTER;
        if old_enough && self.worth_writing() {
            let reply = self.write_status().await;
            if reply != Reply::Done {
                // The record only: it is written again with the next look.
                tracing::warn!(fence = %self.fence.name_any(), ?reply, "the stage could not be recorded");
            }
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

    /// What a successor of this process would have to know at once, and what speaks against a proof, for others free volumes by it (S22). That the
    /// taint stands is said before anything is done under it: its write may have had no answer, or have been another process's.
    pub(super) fn is_urgent(&self, effect: &Effect) -> bool {
        let (known, stored) = (&self.incident.status, &self.incident.stored.status);
        let is_tainted = known.taint_applied_time.is_some() && stored.taint_applied_time.is_none();
        record::has_new_findings(known, stored)
            || record::speaks_more_against(known, stored)
            || is_tainted && *effect != Effect::Wait
    }

    fn hand_out(
        &mut self,
        settings: &Settings,
        order: DeviceOrder,
        level: usize,
        limit: Duration,
        number: u64,
    ) -> Next {
        let (answers, name) = (self.incident.answers.clone(), settings.fence.clone());
        let Some(level) = settings.levels.get(level).cloned() else {
            let nothing = jobs::unanswered(&order, &[], "the level is gone from the policy");
            answer(&answers, number, nothing);
            return Next::Wait(Duration::from_secs(1));
        };
        let job = Job {
            order,
            level,
            limit,
            settings: settings.clone(),
            claim: self.incident.memory.claim.clone(),
            lease: self.incident.memory.lease_of_silence().cloned(),
            early: self.incident.early.take(),
            heard: Heard::default(),
        };
        let (context, heard) = (self.context.clone(), job.heard.clone());
        if let Some(said) = self.incident.job.take().and_then(UnderWay::abort) {
            let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.push(said);
        }
        let task = tokio::spawn(async move {
            let work = AssertUnwindSafe(jobs::run(&context, &job)).catch_unwind();
            let ended = work.await;
            if ended.is_err() {
                tracing::error!(fence = name, "the device task has panicked");
            }
            let is_lost = ended.is_err();
            let reply = ended.unwrap_or_else(|_| jobs::lost(&job));
            answer(&answers, number, reply);
            // What was read before the end is in no answer.
            let sights = job.heard.take();
            if is_lost && !sights.is_empty() {
                answer(
                    &answers,
                    number,
                    DeviceReply::PowerRead {
                        answers: sights,
                        pods: None,
                    },
                );
            }
            context.wakes.wake(name, Reason::Other);
        });
        self.incident.job = Some(UnderWay {
            order: number,
            task,
            heard,
        });
        Next::Wait(LOOK_AGAIN_MAX)
    }

    async fn close(&mut self, settings: &Settings, stage: Stage) -> Next {
        let mut ended = self.incident.status.clone();
        record::end(&mut ended, clock::wall());
        match self.write(ended).await {
            Reply::Done => {
                self.count(stage);
                Next::Ended
            }
            // The NodeFence is gone: there is no record to close.
            Reply::Refused(404, _) => Next::Ended,
            Reply::Refused(409, _) => Next::Again,
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

    /// Writes what counts for good. Before the policy's wait is over nothing else: whoever goes on from a record that tells of more would
    /// take it that the node had not come back until then.
    async fn write_findings(&mut self) -> Reply {
        let memory = &self.incident.memory;
        let is_claimed = memory.claim.as_ref().is_some_and(|claim| claim.seen);
        if memory.is_due || is_claimed {
            return self.write_status().await;
        }
        let status = self.incident.status.clone();
        let mut told = self.incident.stored.status.clone();
        record::merge_findings(&mut told, &status);
        let reply = self.write(told).await;
        self.incident.status = status;
        reply
    }

    async fn write_status(&mut self) -> Reply {
        self.write(self.incident.status.clone()).await
    }

    /// Writes the record, on the version of it that this process knows; it is what we remember only once the API server has it.
    async fn write(&mut self, status: NodeFenceStatus) -> Reply {
        let stored = &self.incident.stored;
        let version = stored.version.as_deref();
        let Some(changes) = status_patch(version, Some(&stored.status), &status) else {
            return Reply::Done;
        };
        match act::patch_status(self.context, &self.fence.name_any(), &changes).await {
            Ok(fence) => {
                self.incident.stored = Stored::from(fence);
                self.incident.status = status;
                Reply::Done
            }
            Err(reply) => {
                self.incident.stored.behind |= matches!(reply, Reply::Refused(409, _));
                reply
            }
        }
    }
}

/// Leaves the answer to an order for the next round.
fn answer(answers: &Mutex<Vec<Answer>>, order: u64, reply: DeviceReply) {
    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    answers.push(Answer {
        order,
        reply,
        put_back: None,
    });
}
