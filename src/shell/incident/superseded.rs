//! What another process of the operator has written into the NodeFence: this one takes it over, or begins anew from it.

use super::{Next, Round, Stored, is_same};
use crate::shell::act;
use crate::shell::merge::status_patch;
use crate::shell::metrics::RoundError;
use crate::shell::observe;
use fencing_api::fence::NodeFence;
use fencing_api::fence_status::NodeFenceStatus;
use fencing_core::observed::Read;
use fencing_core::plan;
use fencing_core::record;
use fencing_drivers::clock;
use kube::ResourceExt;
use std::time::Duration;

impl Round<'_> {
    /// A write was refused for its version. The record of a process that took the incident over is its own, and a command of it that may
    /// still land is not forgotten (S23); anything else that somebody wrote there is no input, and what this process knows is written again.
    pub(super) async fn catch_up(&mut self, nonce: &str) -> Option<Next> {
        let live = match observe::fence(self.context, &self.fence.name_any()).await {
            Read::Present(live) if is_same(&live, self.fence) => live,
            Read::Present(_) | Read::Absent => return Some(Next::Ended),
            Read::Failed(_) | Read::NotRead => {
                let metrics = &self.context.metrics;
                metrics.reconcile_error(RoundError::ReadFailed);
                return Some(Next::Wait(Duration::from_secs(1)));
            }
        };
        let claim_of = |status: Option<&NodeFenceStatus>| status.and_then(|it| it.claim.clone());
        let theirs = claim_of(live.status.as_ref());
        let ours = [
            claim_of(Some(&self.incident.status)),
            claim_of(Some(&self.incident.stored.status)),
        ];
        let is_taken = theirs.is_some() && !ours.contains(&theirs);
        let is_tainted = self.incident.memory.taint.seen;
        let is_news = live.status.iter().any(|it| self.is_news(it));
        if live.is_ended() || is_taken || (is_news && !is_tainted) {
            if let Some(again) = self.hand_on(&live).await {
                return Some(again);
            }
            // Whoever wrote it lives, and is left alone with it for a while.
            self.incident.memory.rival_until = Some(plan::rival_until(clock::since_boot(), nonce));
            return Some(Next::Anew);
        }
        let is_edited = self.incident.heed(&live, self.fence);
        self.adopt(live);
        is_edited.then_some(Next::Again)
    }

    /// What this process knows for good, whoever goes on has to know too.
    async fn hand_on(&self, live: &NodeFence) -> Option<Next> {
        let stored = live.status.clone().unwrap_or_default();
        let mut warned = stored.clone();
        record::hand_on(&mut warned, &self.incident.status, clock::wall());
        let version = live.metadata.resource_version.as_deref();
        let changes = status_patch(version, Some(&stored), &warned).filter(|_| !live.is_ended())?;
        let written = act::patch_status(self.context, &live.name_any(), &changes).await;
        let reply = written.err()?;
        tracing::warn!(fence = %live.name_any(), ?reply, "the findings of this process could not be handed over, trying again");
        Some(Next::Wait(Duration::from_secs(1)))
    }

    /// Has another process proven the machine down, and this one does not know it?
    fn is_proven_by_another(&self, live: &NodeFenceStatus) -> bool {
        let held = self.incident.memory.claim.as_ref();
        let is_own = |claim: &str| held.is_some_and(|held| held.value == claim);
        let mut theirs = live.evidence.iter().filter(|it| !is_own(&it.claim));
        theirs.any(|it| self.incident.status.evidence.as_ref() != Some(it))
    }

    /// Is a newer proof stored than this process knows of? Its own may have been, by a request that it had no answer to.
    fn has_landed(&self, live: &NodeFenceStatus) -> bool {
        let proven = |it: &NodeFenceStatus| it.evidence.as_ref().map(|it| it.proven_time);
        proven(live) > proven(&self.incident.status)
    }

    /// Does the record name a command, a proof or a taint that this process knows nothing of, or refuse a human's word, a proof or a device that it
    /// would believe?
    fn is_news(&self, live: &NodeFenceStatus) -> bool {
        let memory = &self.incident.memory;
        let own = memory.commands.attempt.as_ref().map(|it| &it.id);
        let own_on = memory.power_on.attempt.as_ref().map(|it| &it.id);
        let known = &self.incident.status;
        let mut attempts = live.attempts.iter();
        let is_sent = attempts.any(|attempt| {
            let is_own = [own, own_on].contains(&attempt.id.as_ref());
            !is_own && !known.attempts.iter().any(|it| it.id == attempt.id)
        });
        is_sent || self.is_proven_by_another(live) || record::is_news(live, known)
    }

    /// Takes the record as it is, with what another process has sent. Under one taint that both see to, nobody begins anew with every off
    /// of the other and counts its own from none; but what the other's may still do is waited for as after a restart (S23).
    fn adopt(&mut self, live: NodeFence) -> bool {
        let status = live.status.clone().unwrap_or_default();
        let is_news = self.is_news(&status);
        let has_landed = self.has_landed(&status);
        if self.is_proven_by_another(&status) || has_landed {
            self.incident.status.evidence.clone_from(&status.evidence);
        }
        self.incident.memory.proven.published |= has_landed;
        let own = self.incident.memory.commands.attempt.as_ref();
        record::adopt(&mut self.incident.status, status, own);
        if is_news {
            self.incident.record = record::read(&self.incident.status, clock::wall());
            self.incident.memory.record_read = false;
        }
        self.incident.stored = Stored::from(live);
        is_news
    }

    /// Before this process sees to a taint of another one: what that one has proven and sent, and may still send, stands in the record
    /// alone. Whoever knows an older record begins anew from it (S23), and goes on when it is the one that is known.
    pub(super) fn superseded(&mut self, record: Read<NodeFence>) -> Option<Next> {
        match record {
            Read::Present(live) if !is_same(&live, self.fence) => Some(Next::Ended),
            // The other one has released it: nothing is written into a record that has ended (L3).
            Read::Present(live) if live.is_ended() => Some(Next::Anew),
            // It has seen to the taint up to the last check: the other one's commands are all that it asks for.
            Read::Present(live) if self.incident.memory.taint.last_check => {
                let is_edited = self.incident.heed(&live, self.fence);
                (self.adopt(live) || is_edited).then_some(Next::Again)
            }
            Read::Present(live) => {
                let is_edited = self.incident.heed(&live, self.fence);
                let is_other = live.status.unwrap_or_default() != self.incident.stored.status;
                let again = is_edited.then_some(Next::Again);
                is_other.then_some(Next::Anew).or(again)
            }
            Read::Absent => Some(Next::Ended),
            Read::Failed(_) | Read::NotRead => None,
        }
    }
}
