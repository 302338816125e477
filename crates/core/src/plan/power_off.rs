//! The off under the claim: it is written down, sent, and tried again where it was not sent to as many devices as the level needs.

use super::level::{Failure, judge_level, names, uncontrolled, verified_reading};
use super::pace::{READ_PACE, poll_again};
use super::precheck::note_contradiction;
use super::round::Round;
use super::span::LEASE_RENEWAL_MAX;
use super::tries::{in_trouble, new_attempt, order, try_again};
use crate::attempt::{Attempt, OffResult};
use crate::decision::{Decision, DeviceOrder, Effect, act, wait};
use crate::device::{Device, Level};
use crate::observed::{NodeView, Ready};
use crate::stage::Stage;

/// An outlet takes an off that changes nothing, so its Off is our doing only if it was seen to have power before. Without that the last On of a
/// BMC that dies with it would contradict it (L1). And a device without a positive control proves nothing unless it reads On before (S25). A
/// node that is claimed early is so because its machine is off: somebody may have turned it on since.
fn asks_first(r: &Round<'_>, level: &Level) -> bool {
    let mut devices = level.devices.iter();
    devices.any(|it| {
        let is_seen = r
            .memory
            .under_claim
            .answers
            .iter()
            .any(|answer| answer.is_of(it));
        let is_new = it.outlets && !r.memory.trust.power_history.knows(&it.name);
        (is_new || r.is_early() || uncontrolled(r, it).is_some()) && !is_seen
    })
}

/// Why nothing is turned off: what follows could not prove that the machine is down.
fn futile(r: &Round<'_>, level: &Level) -> Option<Failure> {
    let proves = |device: &Device| match uncontrolled(r, device) {
        Some(failure) => Err(verified_reading(device, &r.memory.under_claim.answers)
            .err()
            .unwrap_or(failure)),
        None => Ok(()),
    };
    judge_level(level, proves).err()
}

/// A kubelet that is reached again renews its Lease first and reports up to 10 s later: a silent node whose Lease has moved since the claim, or may
/// have moved before this process took the claim over, is given the time for that, once. What stays silent is turned off: a last renewal may have been on its way, and a kubelet that hangs may renew on.
pub(super) fn renewed(r: &mut Round<'_>, node: &NodeView) -> Option<Decision> {
    let attempt = r
        .memory
        .commands
        .attempt
        .as_ref()
        .filter(|it| it.results.is_empty())?;
    if !attempt.recorded || r.memory.commands.busy.is_some() || node.ready() != Ready::Unknown {
        return None;
    }
    if let Some(until) = r
        .memory
        .under_claim
        .taken_over_until
        .filter(|until| r.moment.now < *until)
    {
        let message = format!(
            "the claim of Node {} was taken over; waiting 12 s for a kubelet report before the off command",
            node.name
        );
        return Some(in_trouble(r.memory, wait(Stage::Fencing, message)).until(until));
    }
    if let Some(before) = r.memory.lease_of_silence() {
        let Some(lease) = r.observed.lease.present() else {
            let why = r.observed.lease.why();
            let message = format!("reading the kubelet's Lease before the off command{why}");
            let decision = poll_again(r, Stage::Fencing, message, READ_PACE);
            return Some(in_trouble(r.memory, decision));
        };
        if lease == before {
            return None;
        }
        r.memory.under_claim.off_waits_until = Some(r.moment.now + LEASE_RENEWAL_MAX);
    }
    let until = r
        .memory
        .under_claim
        .off_waits_until
        .filter(|until| r.moment.now < *until)?;
    let message = format!(
        "the kubelet of Node {} renewed its Lease since the claim; waiting 12 s for its report before the off command",
        node.name
    );
    Some(in_trouble(r.memory, wait(Stage::Fencing, message)).until(until))
}

/// Intent, then the command. `None` once the command has ended, however: the readings decide.
pub(super) fn power_off(r: &mut Round<'_>, level: &Level) -> Option<Decision> {
    match &r.memory.commands.attempt {
        None if asks_first(r, level) => {
            let message = format!("reading from {} whether it is already off", names(level));
            let read = order(r.memory, level, DeviceOrder::ReadPower, r.moment.now);
            Some(in_trouble(r.memory, act(read, Stage::Fencing, message)))
        }
        None => {
            note_contradiction(r.memory, level);
            let futile = futile(r, level);
            r.memory.under_claim.answers.clear();
            if let Some(Failure { reason, message }) = futile {
                let decision = try_again(r, message);
                r.memory.tries.alarm = r.memory.tries.alarm.or(Some(reason));
                return Some(in_trouble(r.memory, decision));
            }
            new_attempt(r, level);
            power_off(r, level)
        }
        Some(attempt) if !attempt.recorded => {
            let message = format!(
                "recording off command {} to {} before it is sent",
                attempt.id,
                names(level)
            );
            let intent = Effect::RecordIntent(attempt.clone());
            Some(in_trouble(r.memory, act(intent, Stage::Fencing, message)))
        }
        Some(attempt) if attempt.results.is_empty() => {
            let off = DeviceOrder::Off(attempt.clone());
            let message = format!("turning the machine off by {}", names(level));
            let off = order(r.memory, level, off, r.moment.now);
            Some(in_trouble(r.memory, act(off, Stage::Fencing, message)))
        }
        Some(attempt) if level.is_commanded(&attempt.results) => None,
        // What it says is read by nobody else: it may be off by now, by somebody's hand.
        Some(attempt) if has_answered(attempt) && r.memory.under_claim.answers.is_empty() => {
            let message = format!("reading the other values of {}", names(level));
            let read = order(r.memory, level, DeviceOrder::ReadPower, r.moment.now);
            Some(in_trouble(r.memory, act(read, Stage::Fencing, message)))
        }
        Some(attempt) => {
            let unsent = level.devices.iter().filter_map(|device| {
                let result = attempt.results.get(&device.name);
                let message = result.map_or("not asked", OffResult::message);
                let is_sent = result.is_some_and(OffResult::is_sent);
                (!is_sent).then(|| format!("FenceDevice {}: {message}", device.name))
            });
            let message = unsent.collect::<Vec<_>>().join("; ");
            Some(try_again(r, message))
        }
    }
}

/// Has a device answered that was not commanded, because it refused, or because something forbade it?
fn has_answered(attempt: &Attempt) -> bool {
    let mut results = attempt.results.values();
    results.any(|it| matches!(it, OffResult::NotSent(_)))
}
