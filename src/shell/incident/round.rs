//! A round: everything is read, the core is asked, its decision is told and carried out.

use super::{Answer, Next, Round};
use crate::shell::brakes::Applicant;
use crate::shell::detect::now;
use crate::shell::early_detection::pods::turn_not_ready;
use crate::shell::metrics::RoundError;
use crate::shell::observe::Reads;
use crate::shell::resolve::{self, Live};
use fencing_api::policy::NodeFencingPolicy;
use fencing_api::settings::FenceMode;
use fencing_core::answer::Reply;
use fencing_core::budget;
use fencing_core::decision::{Decision, Effect};
use fencing_core::exclusions::exclusion;
use fencing_core::hold::HeldBy;
use fencing_core::observed::{NodeView, Observed};
use fencing_core::plan::{self, Moment};
use fencing_core::record;
use fencing_core::reply::{Asked, learn};
use fencing_core::settings::{Approval, Settings};
use fencing_core::stage::Stage;
use fencing_core::taint;
use fencing_drivers::clock;
use kube::ResourceExt;
use std::sync::PoisonError;
use std::time::Duration;

/// What was read beside a write is good for the next round this long after it was asked for.
const READ_AHEAD_LIFE: Duration = Duration::from_millis(100);

/// A claim that no record names is left alone this long.
const UNNAMED_MAX: Duration = Duration::from_secs(60);

impl Round<'_> {
    /// One round.
    pub(super) async fn step(&mut self) -> Next {
        let Some(nonce) = nonce() else {
            tracing::error!(fence = %self.fence.name_any(), "the system returns no random bytes, which a claim requires; trying again");
            return Next::Wait(Duration::from_secs(1));
        };
        if self.incident.stored.behind
            && let Some(next) = self.catch_up(&nonce).await
        {
            return next;
        }
        // Taken before anything is read: what is judged is a Node that was read after the last reading.
        let answers = self.answers();
        let reads = match self.read_ahead(&answers, clock::since_boot()) {
            Some(reads) => reads,
            None => self.read().await,
        };
        let version = reads.node().map(|node| node.resource_version.clone());
        self.incident.seen.node = version;
        self.incident.seen.at = reads.asked;
        let (policy, wall_now) = (self.policy(), clock::wall());
        let live = policy.as_ref().map(|policy| Live::at(policy, wall_now));
        self.incident.moments.listen(self.fence, now());
        let mut settings = self.settings(reads.node(), live.as_ref());
        if reads.is_unread() {
            self.put_back(answers);
        } else {
            self.listen(&settings, answers);
        }
        let needs = plan::needs(&settings, &self.incident.memory, reads.node());
        if needs.foreign_commands
            && let Some(listed) = self.listed_elsewhere(&settings, reads.node()).await
        {
            settings.record.foreign_commands = listed;
        }
        let (mut observed, record) = reads.complete(self.context, &settings.fence, needs).await;
        if observed.has_failed_read() {
            let metrics = &self.context.metrics;
            metrics.reconcile_error(RoundError::ReadFailed);
        }
        if let Some(next) = self.superseded(record) {
            return next;
        }
        let expires = self.admit(&settings, &mut observed, policy.as_ref());
        let changes = live.as_ref().and_then(|live| live.changes_in(wall_now));
        let moment = Moment {
            now: clock::since_boot(),
            nonce,
            date: clock::date(),
        };
        let decision = plan::step(&settings, &mut self.incident.memory, &observed, &moment);
        self.note_place(&settings, &decision, &observed);
        self.explain(&settings, &observed, &decision, moment.now);
        if matches!(decision.effect, Effect::Claim(_)) {
            let applicant = self.applicant(&settings, policy.as_ref());
            if let Err(hold) = self.context.brakes.admit(self.context, &applicant) {
                // Somebody else took the last place since the look.
                let reply = Reply::NotSent(hold.message);
                let memory = &mut self.incident.memory;
                learn(&settings, memory, Asked::Claim, reply, clock::since_boot());
                return Next::Again;
            }
            let admitted = &mut self.incident.status.approved_time;
            admitted.get_or_insert(clock::wall());
        }
        let next = self.carry_out(&settings, decision, moment.now).await;
        self.turn_pods(&observed).await;
        match (next, expires.into_iter().chain(changes).min()) {
            (Next::Wait(pause), Some(ahead)) => Next::Wait(pause.min(ahead)),
            (next, _) => next,
        }
    }

    /// Under its mark a node that was reported early keeps no pod that is Ready. Once for each process.
    async fn turn_pods(&mut self, observed: &Observed) {
        let is_off = |node: &NodeView| node.reported_early && taint::mark_of_claim(node).is_some();
        let is_off = observed.node.present().is_some_and(is_off);
        if is_off && !self.incident.pods_turned {
            let turned = turn_not_ready(self.context, &self.fence.spec.node_name).await;
            self.incident.pods_turned = turned;
        }
    }

    /// Tells the budget whether the incident waits for its turn, and whether it needs its place.
    fn note_place(&self, settings: &Settings, decision: &Decision, observed: &Observed) {
        let brakes = &self.context.brakes;
        brakes.waits(&settings.fence, queue(decision, observed));
        let is_stuck = plan::waits_for_a_pod(settings, &self.incident.memory, decision);
        brakes.note_stuck(&settings.fence, is_stuck);
        if decision.stage == Stage::PoweringOn {
            // The node is recovered, and others need no longer wait for it.
            brakes.give_back(&settings.fence);
        }
    }

    fn settings(&self, node: Option<&NodeView>, live: Option<&Live<'_>>) -> Settings {
        let devices = node.map(|node| self.context.caches.devices_of(node));
        let devices = devices.unwrap_or_default();
        let settings = resolve::settings(
            self.fence,
            &self.incident.status,
            node,
            live,
            (&self.context.devices, &devices),
            &self.incident.record,
            self.incident.moments,
        );
        let fences = || self.context.caches.fences_of(&self.fence.spec.node_name);
        let mut settings = resolve::by_others(settings, &self.incident.status, fences);
        settings.record.foreign_commands = self.elsewhere(&settings, node);
        let callers = &self.context.callers;
        let settings = callers.heeded(settings, self.fence, &self.incident.status);
        let lacks = self.context.deletion.lacks();
        resolve::by_rights(settings, self.fence, lacks.as_deref())
    }

    /// Reads the Node, and what else the next decision is known to need. Borrows nothing of the round, so that a write may go on
    /// beside it.
    pub(super) fn read(&self) -> impl Future<Output = Reads> + use<> {
        let foreseen = plan::foresee(&self.incident.memory);
        let (context, node) = (self.context.clone(), self.fence.spec.node_name.clone());
        async move { Reads::begin(&context, &node, foreseen).await }
    }

    /// What was read beside the last write, if that was just now and no device has answered since.
    pub(super) fn read_ahead(&mut self, answers: &[Answer], now: Duration) -> Option<Reads> {
        let reads = self.incident.ahead.take()?;
        let age = now.saturating_sub(reads.asked);
        let is_fresh = age <= READ_AHEAD_LIFE && answers.is_empty();
        is_fresh.then_some(reads)
    }

    fn policy(&self) -> Option<NodeFencingPolicy> {
        let name = self.fence.spec.policy_name.as_deref()?;
        self.context.caches.policy(name)
    }

    /// What jobs have answered since the last round.
    fn answers(&self) -> Vec<Answer> {
        let mut answers = self
            .incident
            .answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *answers)
    }

    /// Which devices a level has, the Node's labels tell: what was answered is not listened to before the Node can be read.
    pub(super) fn put_back(&self, mut answers: Vec<Answer>) {
        for answer in &mut answers {
            answer.put_back.get_or_insert_with(clock::since_boot);
        }
        let mut newer = self
            .incident
            .answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        answers.append(&mut newer);
        *newer = answers;
    }

    /// Learns from the answers, and writes the outcome of a command down.
    fn listen(&mut self, settings: &Settings, answers: Vec<Answer>) {
        for answer in answers {
            let status = &mut self.incident.status;
            record::power_readings(status, settings, &answer.reply, clock::wall());
            learn(
                settings,
                &mut self.incident.memory,
                Asked::Device,
                Reply::Device(answer.order, answer.reply),
                answer.put_back.unwrap_or_else(clock::since_boot),
            );
            if let Some(attempt) = self.incident.memory.commands.attempt.clone() {
                record::outcome(&mut self.incident.status, &attempt, clock::wall());
            }
        }
    }

    /// Asks who else claims the Node, whether the policy keeps its hands off it, and the budget. Says when a pause that holds the incident
    /// is over.
    pub(super) fn admit(
        &mut self,
        settings: &Settings,
        observed: &mut Observed,
        policy: Option<&NodeFencingPolicy>,
    ) -> Option<Duration> {
        let node = observed.node.present();
        let owner = node.and_then(NodeView::claim).and_then(taint::claim_fence);
        let applicant = self.applicant(settings, policy);
        if owner == Some(settings.fence.as_str()) {
            // Never from the very node that is to go down, whoever has claimed it.
            let own_node = budget::own_node(&settings.node, self.context.own_node.as_deref());
            let claim = node.and_then(NodeView::claim);
            let is_recorded = claim == self.incident.stored.status.claim.as_deref();
            let brakes = &self.context.brakes;
            let readmit = || brakes.readmit(self.context, &applicant, is_recorded).err();
            let late = || self.hold_of_late_claim(settings, node, policy, is_recorded);
            let hold = own_node.or_else(late).or_else(readmit);
            observed.claim_of_other_process =
                hold.is_some() && claim.is_some_and(|it| self.is_of_another(it));
            observed.hold = hold;
            return None;
        }
        if node.is_some_and(|node| plan::is_bare(settings, &self.incident.memory, node)) {
            let brakes = &self.context.brakes;
            brakes.note_unclaimed(&settings.fence, clock::since_boot());
        }
        observed.cleared_by = self.cleared_by(settings, node);
        observed.claim_of_other_fence =
            owner.is_some_and(|owner| self.context.caches.has_open_fence(owner));
        if let Some(hold) = self.hold_of_power_on(settings, node) {
            observed.hold = Some(hold);
            return None;
        }
        // Neither takes a place in a budget: the one does nothing, the other nothing yet.
        if settings.mode() == FenceMode::Observe || settings.approval == Approval::Awaited {
            return None;
        }
        let policy = policy.filter(|_| !settings.human);
        let wall_now = clock::wall();
        let kept_off = node.and_then(|node| exclusion(policy?, node, wall_now));
        let Some(kept_off) = kept_off else {
            observed.hold = self.context.brakes.look(self.context, &applicant).err();
            return None;
        };
        let ahead = kept_off.until.map(|until| until.duration_since(wall_now));
        observed.hold = Some(kept_off.into_hold());
        Duration::try_from(ahead?).ok()
    }

    /// May another process be going on with this claim of the NodeFence? The record names it, or it was not seen for a minute yet: whoever
    /// has written it names it with the next step.
    fn is_of_another(&mut self, claim: &str) -> bool {
        let incident = &mut *self.incident;
        if incident.sent_claims.iter().any(|sent| sent == claim) {
            return false;
        }
        let mut records = self.fence.status.iter().chain([&incident.stored.status]);
        if records.any(|status| status.claim.as_deref() == Some(claim)) {
            return true;
        }
        let now = clock::since_boot();
        match &incident.unnamed_claim {
            Some((unnamed, since)) if unnamed == claim => now.saturating_sub(*since) < UNNAMED_MAX,
            _ => {
                incident.unnamed_claim = Some((claim.to_owned(), now));
                true
            }
        }
    }

    fn applicant<'a>(
        &'a self,
        settings: &Settings,
        policy: Option<&'a NodeFencingPolicy>,
    ) -> Applicant<'a> {
        Applicant {
            fence: self.fence,
            policy,
            approved: settings.human || matches!(settings.approval, Approval::Approved(_)),
        }
    }
}

/// Eight characters that no other round gets, of those that may stand in a taint's value. None: no randomness. A clock would not
/// do, two processes may read the same.
fn nonce() -> Option<String> {
    let mut bytes = [0_u8; 4];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What an incident waits for that waits for nothing but its turn: what holds it may be something else, which the budget knows nothing of.
fn queue(decision: &Decision, observed: &Observed) -> Option<HeldBy> {
    let hold = observed.hold.as_ref()?;
    (hold.reason.is_a_queue() && decision.held == Some(hold.reason)).then_some(hold.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_core::fixtures;
    use fencing_core::hold::Hold;

    /// L5: what something else holds as well, or waits for more than its turn, would keep a place free that others could use.
    #[test]
    fn a_place_is_kept_for_what_only_its_turn_holds() {
        for (decided, observed, is_kept) in [
            (HeldBy::MaxConcurrent, HeldBy::MaxConcurrent, true),
            (HeldBy::OtherNodeFence, HeldBy::MaxConcurrent, false),
            (HeldBy::OwnNode, HeldBy::OwnNode, false),
        ] {
            let hold = Hold {
                reason: observed,
                message: String::new(),
            };
            let seen = Observed {
                hold: Some(hold),
                ..fixtures::drained()
            };
            let decision = Decision {
                effect: Effect::Wait,
                stage: Stage::Held,
                message: String::new(),
                held: Some(decided),
                escalation: None,
                wake: None,
                deadline: None,
            };
            let queued = queue(&decision, &seen);
            assert_eq!(queued.is_some(), is_kept, "{decided} beside {observed}");
        }
    }
}
