//! What the process before us has left, or another one that sees to the same incident.
//!
//! It comes from the record, and only ever makes the rest stricter (S3): a word that was refused, a device that has lied, a command that may
//! still land.

use super::super::incident::Settings;
use super::super::memory::Memory;
use super::level::{CONTRADICTION, ORDER_MIN, order_max};
use std::time::Duration;

/// Once: what the process before us has left.
pub(super) fn read_record(settings: &Settings, memory: &mut Memory, now: Duration) {
    if memory.record_read {
        return;
    }
    memory.record_read = true;
    memory.is_due = settings.record.due;
    // What has proven the machine down is what has to read off at the release, whatever serves the node by now (S15).
    for (level, devices) in &settings.record.proven_by {
        let claimed = memory.learned.devices_claimed.entry(level.clone());
        claimed.or_insert_with(|| devices.clone());
        memory.learned.proven_by.clone_from(devices);
        memory.learned.proven_by.sort_unstable();
    }
    let refuted = &settings.record.word_refuted;
    memory.word_refuted = memory.word_refuted.take().or_else(|| refuted.clone());
    if settings.record.contradictions.len() > memory.contradictions.len() {
        memory
            .contradictions
            .clone_from(&settings.record.contradictions);
    }
    for device in &settings.record.contradicting {
        memory.said.recall(device);
    }
    // A proof has settled it, and nothing else was done since.
    if memory.is_contradicted() && !settings.record.tainted {
        memory.alarm = Some(CONTRADICTION);
    }
    // An off of the process before us may still be on its way (S23), and who has no record of it cannot say that there was none.
    if settings.record.unresolved || settings.adopted {
        // That process may live, and send as long as its level has time.
        let times = settings.levels.iter().map(order_max);
        let sending = times.max().unwrap_or(ORDER_MIN);
        memory.may_land(now + sending + settings.late_effect);
    }
}
