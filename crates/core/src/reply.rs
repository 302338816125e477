//! What is learned from the outcome of an effect.
//!
//! A reply never decides anything: it updates the memory, and the next round looks before the next step.

mod off;

use super::answer::{DeviceReply, PodList, Reply};
use super::attempt::OnResult;
use super::decision::Effect;
use super::device::{DeviceReadings, Level, speaks_against};
use super::foreign_text::is_denial;
use super::manual_confirmation;
use super::memory::Memory;
use super::observed::PodView;
use super::proof::reads_off;
use super::quiesce::none_stays_with_its_volume;
use super::reading::{PowerState, Reading};
use super::settings::{ManualConfirmation, Settings};
use super::verification::Require;
use std::collections::BTreeMap;
use std::time::Duration;

/// What an effect was, once it has been handed out: enough to learn from its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asked {
    /// [`Effect::Claim`].
    Claim,
    /// [`Effect::RecordIntent`].
    RecordIntent,
    /// [`Effect::RecordOn`].
    RecordOn,
    /// [`Effect::StoreEvidence`].
    StoreEvidence,
    /// [`Effect::Evict`].
    Evict,
    /// [`Effect::Taint`].
    Taint,
    /// [`Effect::DropClaim`].
    DropClaim,
    /// Any other write.
    Write,
    /// Device work.
    Device,
    /// [`Effect::Wait`].
    Nothing,
}

impl From<&Effect> for Asked {
    fn from(effect: &Effect) -> Self {
        match effect {
            Effect::Wait => Self::Nothing,
            Effect::Claim(_) => Self::Claim,
            Effect::RecordIntent(_) => Self::RecordIntent,
            Effect::RecordOn(_) => Self::RecordOn,
            Effect::StoreEvidence(_) => Self::StoreEvidence,
            Effect::Evict(_) => Self::Evict,
            Effect::Taint(_) => Self::Taint,
            Effect::Device { .. } => Self::Device,
            Effect::DropClaim(_) => Self::DropClaim,
            Effect::Bind { .. }
            | Effect::Release(_)
            | Effect::Detach(_)
            | Effect::DeleteNode(_)
            | Effect::Close => Self::Write,
        }
    }
}

/// Denials in a row by a webhook that does not answer before a human is called.
const SILENCES: u32 = 3;

/// Learns from the reply at `now` (time since boot).
pub fn learn(settings: &Settings, memory: &mut Memory, asked: Asked, reply: Reply, now: Duration) {
    match reply {
        Reply::Done => {
            memory.writes.denied = None;
            memory.writes.failures = 0;
            memory.writes.retry_at = None;
            match asked {
                Asked::Claim => {
                    if let Some(claim) = &mut memory.claim {
                        claim.seen = true;
                    }
                }
                Asked::RecordIntent => {
                    if let Some(attempt) = &mut memory.commands.attempt {
                        attempt.recorded = true;
                    }
                }
                Asked::RecordOn => {
                    if let Some(on) = &mut memory.power_on.attempt {
                        on.recorded = true;
                    }
                }
                Asked::StoreEvidence => {
                    memory.under_claim.evidence = true;
                    memory.proven.published = true;
                    memory.under_claim.evidence_is_new = true;
                    memory.proven.doubted = None;
                    memory.under_claim.proven_by = std::mem::take(&mut memory.under_claim.proving);
                }
                Asked::Evict => memory.under_claim.evicted = true,
                // Whoever takes it away before the Node is read again is somebody else.
                Asked::Taint => memory.taint.seen = true,
                Asked::DropClaim => memory.forget_claim(now + settings.late_effect()),
                _ => {}
            }
        }
        // No more certain than silence: a proxy may have sent the write twice, and the refused one be the second (F21).
        Reply::Refused(status, message) => {
            failed(memory, asked, &message, now);
            if status == 403 || is_denial(&message) {
                memory.writes.denied = Some(message);
            }
        }
        Reply::NotSent(message) | Reply::Unknown(message) => {
            failed(memory, asked, &message, now);
            // A webhook that does not answer once may just have been on the node that died.
            if is_denial(&message) && memory.writes.failures >= SILENCES {
                memory.writes.denied = Some(message);
            }
        }
        Reply::Device(order, reply)
            if memory.commands.busy.is_some_and(|busy| busy.order == order) =>
        {
            memory.commands.busy = None;
            note_silence(memory, &reply.reported());
            refute(settings, memory, &reply.reported());
            device(settings, memory, reply, now);
        }
        // Asked under another claim, or for another purpose: nothing is decided by it, and what it says of the power stays true.
        // Whether an off came of a command of ours, nobody knows any more: it may have, if one was begun.
        Reply::Device(_, reply) => {
            let reported = reply.reported();
            for device in &reported {
                let commanded = memory.commands.has_commanded
                    || memory
                        .commands
                        .may_have_turned_off(&device.device, device.outlets);
                memory.trust.power_history.note(device, commanded);
            }
            note_silence(memory, &reported);
            refute(settings, memory, &reported);
        }
    }
}

fn failed(memory: &mut Memory, asked: Asked, message: &str, now: Duration) {
    back_off(memory, message, now);
    memory.under_claim.relist |= asked == Asked::Evict;
}

/// 50 ms, doubled with each failure in a row, 10 s at most: a write is never repeated as it was, only decided again.
fn back_off(memory: &mut Memory, message: &str, now: Duration) {
    message.clone_into(&mut memory.writes.failure);
    let pause = Duration::from_millis(50) * 2u32.pow(memory.writes.failures.min(8));
    memory.writes.failures += 1;
    memory.writes.retry_at = Some(now + pause.min(Duration::from_secs(10)));
}

fn device(settings: &Settings, memory: &mut Memory, reply: DeviceReply, now: Duration) {
    let reported = reply.reported();
    // The level that rests on it has no turn any more, and nothing is judged for it.
    let level = settings.levels.get(memory.tries.level);
    let is_refuted = memory.confirmation.refused.is_some() && level.is_some_and(Level::is_manual);
    match reply {
        DeviceReply::PowerRead { answers, mut pods } => {
            for_strategy(settings, pods.iter_mut());
            let last = |device: &str| {
                let answer = answers.iter().find(|answer| answer.device.name == device)?;
                answer.reading.as_ref().ok()
            };
            off::note_effect(settings, memory, last, now);
            note_readings(memory, &reported);
            memory.under_claim.answers = if is_refuted { Vec::new() } else { answers };
            memory.read_at = now;
            memory.under_claim.quiesce.listed_before = pods;
        }
        DeviceReply::Commanded { results, .. } => {
            off::note_before(memory, &reported, &results);
            off::commanded(settings, memory, results, now);
        }
        DeviceReply::TurnedOn(results) => turned_on(memory, results),
        DeviceReply::Confirmed {
            readings,
            failures,
            others,
            kubelet_answers,
            mut pods,
        } => {
            for_strategy(settings, pods.iter_mut().map(|list| &mut list.pods));
            let last = |device: &str| {
                let read = readings.iter().find(|read| read.device == device)?;
                read.readings.last()
            };
            off::note_effect(settings, memory, last, now);
            note_readings(memory, &reported);
            memory.under_claim.others = others;
            for list in &pods {
                memory.under_claim.note_written(&list.pods);
            }
            memory.under_claim.pods = in_time(settings, memory, &readings, pods);
            memory.under_claim.relist = false;
            memory.under_claim.readings = (!is_refuted).then_some(readings);
            memory.under_claim.kubelet_answered = kubelet_answers;
            memory.under_claim.judged_down = false;
            memory.under_claim.evidence_is_new = false;
            if !failures.is_empty() {
                memory.tries.last_failure = Some(failures.join("; "));
            }
        }
    }
}

/// Where the Node is to be deleted, no pod with a volume stays on it.
fn for_strategy<'a>(settings: &Settings, lists: impl Iterator<Item = &'a mut Vec<PodView>>) {
    if settings.deletes_node() {
        lists.for_each(|pods| none_stays_with_its_volume(pods));
    }
}

/// By the device as it was asked: whatever became of its FenceDevice since, or of the level that it was in.
fn note_readings(memory: &mut Memory, reported: &[DeviceReadings]) {
    for device in reported {
        let commanded = memory
            .commands
            .may_have_turned_off(&device.device, device.outlets);
        memory.trust.power_history.note(device, commanded);
    }
}

/// Those that were asked and had no answer, or once one that no proof would take. Of two looks at one device one may have an answer.
fn note_silence(memory: &mut Memory, reported: &[DeviceReadings]) {
    let is_answer = |it: &Reading| it.state != PowerState::Unknown && it.faults.is_empty();
    let is_well = |name: &str| {
        let asked = reported.iter().filter(|it| it.device == name);
        let mut readings = asked.flat_map(|it| &it.readings).peekable();
        readings.peek().is_some() && readings.all(is_answer)
    };
    let silent = reported.iter().filter(|it| !is_well(&it.device));
    memory
        .trust
        .silent
        .extend(silent.map(|it| it.device.clone()));
}

/// A device that is asked after a human's word was heard of, and says that the machine has power, refutes it, at once and for good, whoever's turn it
/// is (S21). What was asked before says nothing of it, nor do outlets; under the mark a machine that has power is another matter (S12).
fn refute(settings: &Settings, memory: &mut Memory, reported: &[DeviceReadings]) {
    let is_of_node = |confirmation: &&ManualConfirmation| {
        settings.node_uid.as_ref() == Some(&confirmation.node_uid)
    };
    let confirmation = settings.confirmation.as_ref().filter(is_of_node);
    let Some(confirmation) = confirmation.filter(|_| !memory.taint.seen) else {
        return;
    };
    let mut machines = reported.iter().filter(|device| !device.outlets);
    let sign = machines.find_map(|device| {
        let mut readings = device.readings.iter();
        // Whatever it has said since: it may have hung after that.
        let on = readings.find(|it| {
            it.asked >= confirmation.given.received() && speaks_against(&device.identity, it)
        })?;
        Some(format!("FenceDevice {} reads {}", device.device, on.raw))
    });
    if let Some(sign) = sign {
        let refused = || manual_confirmation::refused(settings, &sign);
        memory.confirmation.refused.get_or_insert_with(refused);
    }
}

/// The newest list that was answered before the power was read last, by every device that reads off: of a pod that came and was
/// deleted again before such a list, the last reading tells that no machine runs it.
fn in_time(
    settings: &Settings,
    memory: &Memory,
    readings: &[DeviceReadings],
    lists: Vec<PodList>,
) -> Option<Vec<PodView>> {
    let any = settings
        .levels
        .get(memory.tries.level)
        .is_some_and(|level| level.require == Require::Any);
    let asked = |device: &DeviceReadings| {
        let off = device
            .readings
            .last()
            .filter(|last| last.state == PowerState::Off);
        off.map(|last| last.asked)
    };
    // Where one device is enough, the proof rests on the last of those that have read off long enough, and on no other.
    let asked = match any {
        true => readings
            .iter()
            .filter(|device| is_long(settings, memory, device))
            .filter_map(asked)
            .max(),
        false => readings.iter().filter_map(asked).min(),
    }?;
    let mut lists = lists.into_iter().rev();
    let list = lists.find(|list| list.answered <= asked)?;
    Some(list.pods)
}

/// Does the device's last run of Off satisfy the policy, when it was asked last?
fn is_long(settings: &Settings, memory: &Memory, device: &DeviceReadings) -> bool {
    let Some((since, last)) = memory.under_claim.quiesce.since.zip(device.readings.last()) else {
        return false;
    };
    reads_off(device, since, &settings.verification, last.asked).is_ok()
}

/// What was sent counts, whatever came of it (S11).
fn turned_on(memory: &mut Memory, results: BTreeMap<String, OnResult>) {
    for (device, _) in results.iter().filter(|(_, result)| result.is_sent()) {
        let tries = memory.power_on.tries.entry(device.clone());
        tries.or_default().sent += 1;
    }
    if let Some(attempt) = &mut memory.power_on.attempt {
        attempt.results = results;
    }
}

#[cfg(test)]
mod tests;
