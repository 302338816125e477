//! What people get to know of a round: the record, an event, a log line, the metrics.

use super::{Round, Told};
use crate::shell::events::{Note, node_reference};
use crate::shell::metrics::IncidentRow;
use fencing_api::conditions::{ESCALATED, HELD, find};
use fencing_api::fence::NodeFence;
use fencing_api::fence_status::{Attempt, NodeFenceStatus, PowerReading};
use fencing_core::decision::Decision;
use fencing_core::escalation::Escalation;
use fencing_core::hold::HeldBy;
use fencing_core::observed::Observed;
use fencing_core::record;
use fencing_core::settings::{Approval, Settings};
use fencing_core::stage::Stage;
use fencing_drivers::clock;
use jiff::Timestamp;
use kube::Resource;
use std::time::Duration;

impl Round<'_> {
    /// Tells people: the record in memory, an event for each new stage and each new call for a human, a log line.
    pub(super) fn explain(
        &mut self,
        settings: &Settings,
        observed: &Observed,
        decision: &Decision,
        now: Duration,
    ) {
        self.count_contradiction(decision);
        let incident = &mut *self.incident;
        let wall = clock::wall();
        record::stage(
            &mut incident.status,
            &incident.memory,
            decision,
            self.fence.metadata.generation,
            now,
            wall,
        );
        if incident.memory.taint.seen || incident.memory.under_claim.quiesce.since.is_some() {
            record::volumes(&mut incident.status, &incident.memory, observed, now, wall);
        }
        let escalation = decision.escalation.as_ref().map(|(reason, _)| *reason);
        self.show(settings, decision);
        self.tell_of_approval(settings);
        self.tell_of_past_stop(settings, decision);
        let incident = &mut *self.incident;
        let before = incident.told.filter(|told| told.stage == decision.stage);
        let told = Told {
            stage: decision.stage,
            // Nothing new is known while the Node cannot be read: what held the incident before still does.
            held: decision.held.or(before.and_then(|told| told.held)),
            escalation,
        };
        if incident.told.replace(told) == Some(told) {
            return;
        }
        let words = decision
            .escalation
            .as_ref()
            .map_or(&decision.message, |(_, words)| words);
        let reason = escalation.map_or_else(|| decision.stage.to_string(), |it| it.to_string());
        self.log(
            settings,
            decision,
            escalation.map(Escalation::as_str),
            words,
        );
        let warning = escalation.is_some() || decision.stage == Stage::Held;
        self.context
            .events
            .publish(note(self.fence, warning, &reason, words));
    }

    /// One line for each change of the stage, and for each call for a human: whose it is, and which command was sent last.
    fn log(&self, settings: &Settings, decision: &Decision, reason: Option<&str>, words: &str) {
        let (fence, node, stage) = (&settings.fence, &settings.node, decision.stage);
        let policy = self.fence.spec.policy_name.as_deref();
        let memory = &self.incident.memory;
        let off = memory
            .commands
            .attempt
            .as_ref()
            .map(|it| (&it.id, &it.devices));
        let on = memory.power_on.attempt.as_ref();
        let last = on.map(|it| (&it.id, &it.devices)).or(off);
        let attempt = last.map(|(id, _)| id.as_str());
        let device = last.map(|(_, devices)| devices.join(", "));
        match reason {
            Some(reason) => {
                tracing::warn!(%fence, %node, policy, %stage, device, attempt, reason, words)
            }
            None => tracing::info!(%fence, %node, policy, %stage, device, attempt, words),
        }
    }

    /// Whoever approves an incident that waits for nobody must not think that it goes on because of that.
    fn tell_of_approval(&mut self, settings: &Settings) {
        let Approval::Approved(user) = &settings.approval else {
            return;
        };
        let before = self.incident.told;
        if std::mem::replace(&mut self.incident.is_approved, true) {
            return;
        }
        let in_vain = |told: Told| approved_for_nothing(user, told.stage, told.held);
        if let Some(words) = before.and_then(in_vain) {
            let note = note(self.fence, false, "ApprovalNotNeeded", &words);
            self.context.events.publish(note);
        }
    }

    /// Whoever denies a fence, or deletes or narrows its policy, to stop it must not think that it has stopped when its node is out of service already (S15).
    fn tell_of_past_stop(&mut self, settings: &Settings, decision: &Decision) {
        let is_under_taint = matches!(decision.stage, Stage::Detaching | Stage::AwaitingRelease);
        let stops = [settings.stop.clone(), settings.approval.denial()];
        let stops = stops.into_iter().flatten().filter(|_| is_under_taint);
        let stops: Vec<String> = stops.collect();
        let before = std::mem::replace(&mut self.incident.past_stops, stops.clone());
        for stop in stops.iter().filter(|it| !before.contains(it)) {
            let words = format!(
                "{stop}, which stops no fence after the taint: Node {} continues to its release with its original settings",
                settings.node
            );
            let note = note(self.fence, false, "GoesOnToRelease", &words);
            self.context.events.publish(note);
        }
    }

    /// The incident's row in the metrics.
    fn show(&self, settings: &Settings, decision: &Decision) {
        let status = &self.incident.status;
        // Nothing new is known while the Node cannot be read: what held the incident before still does.
        let is_held = decision.stage == Stage::Held;
        let condition = find(&status.conditions, HELD).filter(|_| is_held);
        let before = || condition.map(|held| held.reason.clone());
        self.context.board.show(IncidentRow {
            fence: settings.fence.clone(),
            node: settings.node.clone(),
            policy: self.fence.spec.policy_name.clone().unwrap_or_default(),
            mode: format!("{:?}", settings.mode()),
            stage: decision.stage.to_string(),
            stage_started_wall: status.stage_start_time.unwrap_or_else(clock::wall),
            deadline_wall: status.stage_deadline_time,
            held_reason: decision.held.map(|it| it.to_string()).or_else(before),
            escalated_reason: decision
                .escalation
                .as_ref()
                .map(|(reason, _)| reason.to_string()),
        });
    }

    /// A contradiction, when the incident begins to call for a human because of it: its end may come with the same breath, and the row of an
    /// incident goes with it. Whoever goes on from the record counts nothing again.
    fn count_contradiction(&self, decision: &Decision) {
        let escalation = decision.escalation.as_ref().map(|(reason, _)| *reason);
        let before = find(&self.incident.status.conditions, ESCALATED);
        let contradiction = Escalation::FenceContradiction;
        let is_known =
            before.is_some_and(|it| it.status == "True" && it.reason == contradiction.as_str());
        if escalation != Some(contradiction) || is_known {
            return;
        }
        let policy = self.fence.spec.policy_name.as_deref();
        self.context
            .metrics
            .contradiction(policy.unwrap_or_default());
    }

    /// Words that only count up are not worth a write.
    pub(super) fn worth_writing(&self) -> bool {
        // What an older CustomResourceDefinition drops would be missed in each round.
        let known = |attempt: &Attempt| Attempt {
            device_version: None,
            ..attempt.clone()
        };
        let told = |status: &NodeFenceStatus| {
            let attempts: Vec<_> = status.attempts.iter().map(known).collect();
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
            (
                conditions,
                status.volumes.clone(),
                attempts,
                status.confirmation_refused.clone(),
                status.contradictions.clone(),
                status.contradicting_devices.clone(),
            )
        };
        let (new, stored) = (&self.incident.status, &self.incident.stored.status);
        told(new) != told(stored) || say_otherwise(new, stored)
    }

    /// The incident in the counters and histograms.
    pub(super) fn count(&self, stage: Stage) {
        let (spec, status) = (&self.fence.spec, &self.incident.status);
        let policy = spec.policy_name.as_deref().unwrap_or_default();
        let since = spec.trigger.unhealthy_since_time.or(status.detected_time);
        let metrics = &self.context.metrics;
        metrics.incident_ended(policy, &spec.node_name, stage);
        if let Some(took) = between(since, status.taint_applied_time) {
            metrics.time_to_fence(policy, took);
        }
        // Under `release.mode` AfterRecovery or Manual the release may be hours later, and the volumes are in use elsewhere by then.
        if let (Stage::Recovered, Some(took)) = (stage, between(since, status.detached_time)) {
            metrics.time_to_recover(policy, took);
        }
        for volume in &status.volumes {
            // What had detached before the taint was not waited for.
            if let Some(took) = between(status.taint_applied_time, volume.detached_time) {
                metrics.detach_duration(volume.attacher.as_deref().unwrap_or_default(), took);
            }
        }
    }

    /// How long the off command of this proof took to be proven, in the histogram of each device's driver. One that was proven `before` is
    /// measured already.
    pub(super) fn measure_fence(&self, before: Option<Timestamp>) {
        let status = &self.incident.status;
        let Some(attempt) = &self.incident.memory.commands.attempt else {
            return;
        };
        let is_new = |record: &Attempt| before.is_none_or(|before| record.start_time > before);
        let mine = |record: &&Attempt| record.id.as_ref() == Some(&attempt.id) && is_new(record);
        for record in status.attempts.iter().filter(mine) {
            if let Some(took) = between(Some(record.start_time), status.confirmed_down_time) {
                let driver = self.context.caches.driver_of(&record.device);
                self.context.metrics.fence_duration(&driver, took);
            }
        }
    }
}

/// What an approval that comes in this stage, held by this, has to be answered with; none: it is what was waited for.
fn approved_for_nothing(user: &str, stage: Stage, held: Option<HeldBy>) -> Option<String> {
    let is = match (stage, held) {
        (Stage::AwaitingApproval, _) | (Stage::Held, None) => return None,
        (Stage::Held, Some(reason)) if reason.is_lifted_by_approval() => return None,
        (Stage::Held, Some(reason)) => format!("held ({reason}), and no approval lifts that"),
        _ => format!("in stage {stage}"),
    };
    Some(format!(
        "`spec.approval` by {user} has no effect now: the incident is {is}; an approval is valid only if the budget holds it before its claim"
    ))
}

/// Does a device say another thing than the one that people read? What the record has none of an older CustomResourceDefinition may have
/// dropped.
fn say_otherwise(new: &NodeFenceStatus, stored: &NodeFenceStatus) -> bool {
    let told = &stored.power_readings;
    let is_told = |it: &PowerReading| match told.iter().find(|told| told.device == it.device) {
        Some(told) => (told.power_state, told.reads) == (it.power_state, it.reads),
        None => !it.speaks_against_a_word(),
    };
    !told.is_empty() && !new.power_readings.iter().all(is_told)
}

/// None if either is not known, or if they are the other way round.
fn between(from: Option<Timestamp>, until: Option<Timestamp>) -> Option<Duration> {
    Duration::try_from(until?.duration_since(from?)).ok()
}

/// What is told about a NodeFence, with its Node beside it.
fn note(fence: &NodeFence, warning: bool, reason: &str, words: &str) -> Note {
    Note {
        regarding: fence.object_ref(&()),
        related: Some(node_reference(&fence.spec.node_name)),
        warning,
        reason: reason.to_owned(),
        action: "Fence".to_owned(),
        message: words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_approval_that_nobody_waited_for_is_answered() {
        for (stage, held) in [
            (Stage::AwaitingApproval, Some(HeldBy::AwaitingApproval)),
            (Stage::Held, Some(HeldBy::MinHealthy)),
            (Stage::Held, Some(HeldBy::MaxPerHour)),
            (Stage::Held, None),
        ] {
            assert_eq!(approved_for_nothing("alice", stage, held), None);
        }
        for (stage, held, says) in [
            (Stage::Checking, None, "in stage Checking"),
            (Stage::Verifying, None, "in stage Verifying"),
            (
                Stage::Held,
                Some(HeldBy::Paused),
                "held (Paused), and no approval",
            ),
            (
                Stage::Held,
                Some(HeldBy::Quorum),
                "held (Quorum), and no approval",
            ),
        ] {
            let words = approved_for_nothing("alice", stage, held).expect("words");
            assert!(words.contains("alice") && words.contains(says), "{words}");
        }
    }
}
