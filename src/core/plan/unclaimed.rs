//! Nothing of ours is on the Node: is there a reason to begin, and a device that can see it through?
//!
//! Everything that forbids or ends an incident is looked at first. Then the level's devices are asked once, before
//! anything is written: do they answer, are they wired to this machine, and, in mode ConfirmOnly, does it already read Off?

use super::super::incident::{
    Approval, Decision, Device, DeviceOrder, Effect, Held, Level, Memory, Settings, Sight,
};
use super::super::observed::{NodeView, Observed, QUARANTINE, Ready};
use super::super::proof::{NotProven, Require};
use super::super::reading::{PowerState, Reading};
use super::super::release::booted_anew;
use super::super::stage::Stage;
use super::super::taint;
use super::{Moment, act, close, wait};
use crate::api::settings::{FenceMode, RecoveryStrategy};
use std::time::Duration;

/// An answer is good for the claim this long.
const SIGHT_LIFE: Duration = Duration::from_secs(5);
/// Pause between two looks at a machine that is not off (ConfirmOnly).
const LOOK_PERIOD: Duration = Duration::from_secs(5);
/// Longest pause between two rounds over all levels.
const ROUND_PAUSE_MAX: Duration = Duration::from_secs(30);

pub(super) fn step(
    s: &Settings,
    m: &mut Memory,
    node: &NodeView,
    o: &Observed,
    t: &Moment,
) -> Decision {
    if let Some(end) = ended(s, m, node) {
        return end;
    }
    // A claim that was written and is not there: its write failed, or has not landed yet. The next one has another nonce.
    if m.claim.is_some() {
        m.forget_claim(t.now + s.late_effect);
    }
    if let Some(held) = held_back(s, node, o) {
        return held;
    }
    if s.node_uid.is_none() {
        let words = format!(
            "bound to Node {} with UID {} and boot ID {}",
            node.name, node.uid, node.boot_id
        );
        return act(
            Effect::Bind {
                uid: node.uid.clone(),
                boot_id: node.boot_id.clone(),
            },
            Stage::Checking,
            words,
        );
    }
    check(s, m, node, t)
}

/// `out-of-service` without our claim. If we set it, our claim was taken away since; either way it is not ours to remove.
pub(super) fn foreign_taint(s: &Settings, m: &Memory, node: &NodeView, t: &Moment) -> Decision {
    let again = t.now + Duration::from_secs(10);
    if m.tainted || s.record.evidence {
        let words = format!(
            "the claim on Node {} was removed by somebody else, so `out-of-service` is no longer ours to remove: remove it yourself once the machine is known to be off or freshly booted (kubectl taint node {} node.kubernetes.io/out-of-service-)",
            node.name, node.name
        );
        return wait(Stage::AwaitingRelease, words.clone())
            .escalated("ClaimRemoved", words)
            .until(again);
    }
    if node.ready() == Ready::True {
        return close(
            Stage::SelfRecovered,
            format!("Node {} is Ready again", node.name),
        );
    }
    let words = format!(
        "Node {} already carries `out-of-service`, set by somebody else: it is left alone",
        node.name
    );
    wait(Stage::Held, words).until(again)
}

/// Reasons to end before anything was written.
fn ended(s: &Settings, m: &mut Memory, node: &NodeView) -> Option<Decision> {
    let boot_changed = s
        .boot_id
        .as_deref()
        .is_some_and(|boot| booted_anew(node, Some(boot)));
    if let Some((stage, words)) = &m.ending {
        return Some(close(*stage, words.clone()));
    }
    if m.releasing || (s.record.evidence && (boot_changed || node.taint(QUARANTINE).is_some())) {
        let words = "the machine was proven down, its pods and volumes are free, `out-of-service` is gone again".to_owned();
        return Some(close(Stage::Recovered, words));
    }
    let removed = m.claim.as_ref().is_some_and(|claim| claim.seen) && !m.dropping;
    if m.tainted || removed || s.record.evidence {
        let words = format!(
            "somebody else removed our taints from Node {}: the incident ends, nothing is set again",
            node.name
        );
        return Some(close(Stage::Aborted, words));
    }
    if s.released {
        return Some(close(
            Stage::Aborted,
            "released by `spec.desiredState: Released`".to_owned(),
        ));
    }
    if let Approval::Denied(user, reason) = &s.approval {
        return Some(close(Stage::Aborted, format!("denied by {user}: {reason}")));
    }
    if node.ready() == Ready::True {
        return Some(match s.human {
            true => close(
                Stage::Aborted,
                format!(
                    "Node {} is Ready: a Ready node is never fenced; cut its power or wait for NotReady, then ask again",
                    node.name
                ),
            ),
            false => close(
                Stage::SelfRecovered,
                format!("Node {} is Ready again", node.name),
            ),
        });
    }
    if boot_changed {
        return Some(close(
            Stage::Aborted,
            format!(
                "Node {} has booted anew: its boot ID is {}",
                node.name, node.boot_id
            ),
        ));
    }
    s.stop
        .as_ref()
        .map(|reason| close(Stage::Aborted, reason.clone()))
}

/// Reasons to wait before anything is written.
fn held_back(s: &Settings, node: &NodeView, o: &Observed) -> Option<Decision> {
    if node.ready() == Ready::Missing || node.boot_id.is_empty() {
        let words = format!(
            "Node {} has no Ready condition or no boot ID: its kubelet never reported, it is never fenced",
            node.name
        );
        return Some(wait(Stage::Held, words));
    }
    if s.mode == FenceMode::Observe {
        let words = format!(
            "Node {} would be fenced now; mode Observe only reports",
            node.name
        );
        return Some(wait(Stage::Observing, words));
    }
    if s.strategy == RecoveryStrategy::DeleteNode {
        let words = "`recovery.strategy: DeleteNode` is not supported by this version; use OutOfServiceTaint".to_owned();
        return Some(wait(Stage::Held, words.clone()).escalated("Unsupported", words));
    }
    if o.rival {
        let claim = node.claim().unwrap_or_default();
        return Some(wait(
            Stage::Held,
            format!(
                "claim {claim} of another NodeFence stands on Node {}",
                node.name
            ),
        ));
    }
    if s.approval == Approval::Awaited {
        let words =
            "waits for `spec.approval` (the policy's `fence.approval.mode` is Manual)".to_owned();
        return Some(wait(Stage::AwaitingApproval, words));
    }
    o.hold.as_ref().map(|hold| {
        wait(
            Stage::Held,
            format!("held ({}): {}", hold.reason, hold.words),
        )
    })
}

/// Asks the level's devices, and claims when their answers allow it.
fn check(s: &Settings, m: &mut Memory, node: &NodeView, t: &Moment) -> Decision {
    let Some(level) = current_level(s, m) else {
        let words = format!(
            "no FenceDevice of any level serves Node {}; create one, or correct `fence.levels[].deviceSelector`",
            node.name
        );
        return wait(Stage::Checking, words.clone())
            .escalated("NoDevice", words)
            .until(t.now + ROUND_PAUSE_MAX);
    };
    if m.busy.is_some() {
        return in_trouble(
            m,
            wait(
                Stage::Checking,
                format!("asks the devices of level {}", level.name),
            ),
        );
    }
    if let Some(at) = m.retry_at.filter(|at| t.now < *at) {
        let words = m.last_failure.clone().unwrap_or_default();
        return in_trouble(m, wait(Stage::Checking, words)).until(at);
    }
    if m.sights.is_empty()
        || m.sights
            .iter()
            .any(|sight| t.now.saturating_sub(sight.at) > SIGHT_LIFE)
    {
        let asks = look(m, &level);
        return in_trouble(m, asks);
    }
    let sights = std::mem::take(&mut m.sights);
    match usable(&level, &sights, s.mode) {
        Ok(()) => {
            m.failures = 0;
            m.rounds = 0;
            m.last_failure = None;
            claim(s, m, node, &level, t)
        }
        Err(Unusable::StillOn(words)) => {
            m.retry_at = Some(t.now + LOOK_PERIOD);
            m.last_failure = Some(words.clone());
            let decision = wait(Stage::Checking, words.clone()).until(t.now + LOOK_PERIOD);
            decision.escalated("StillOn", words)
        }
        Err(Unusable::Failed(failure)) => {
            fail(s, m, failure.words.clone(), t.now);
            let decision =
                wait(Stage::Checking, failure.words.clone()).until(m.retry_at.unwrap_or(t.now));
            // Another machine at the device's address is never a passing fault.
            match failure.reason {
                "IdentityMismatch" => decision.escalated(failure.reason, failure.words),
                _ => in_trouble(m, decision),
            }
        }
    }
}

/// Device work with the level that is tried now.
pub(super) fn order(m: &mut Memory, order: DeviceOrder) -> Effect {
    m.begin(matches!(order, DeviceOrder::Off(_)));
    Effect::Device {
        order,
        level: m.level,
        number: m.orders,
    }
}

/// After a whole round of failures a human is needed, and the tries go on.
pub(super) fn in_trouble(m: &Memory, decision: Decision) -> Decision {
    match (&m.last_failure, m.rounds) {
        (Some(words), 1..) => decision.escalated("DeviceFailed", words.clone()),
        _ => decision,
    }
}

fn look(m: &mut Memory, level: &Level) -> Decision {
    let words = format!("asks {} of level {}", names(level), level.name);
    act(order(m, DeviceOrder::Look), Stage::Checking, words)
}

fn claim(s: &Settings, m: &mut Memory, node: &NodeView, level: &Level, t: &Moment) -> Decision {
    let words = match s.mode {
        FenceMode::ConfirmOnly => {
            format!("{} read Off: Node {} is claimed", names(level), node.name)
        }
        _ => format!(
            "{} answer for this machine: Node {} is claimed",
            names(level),
            node.name
        ),
    };
    let value = taint::claim_value(&s.fence, &t.nonce);
    m.claim = Some(Held {
        value: value.clone(),
        uid: node.uid.clone(),
        boot_id: node.boot_id.clone(),
        seen: false,
    });
    act(
        Effect::Claim(taint::claim(node, &value)),
        Stage::Claiming,
        words,
    )
}

/// The level that is tried now; levels without a device for this node are passed over.
pub(super) fn current_level(s: &Settings, m: &mut Memory) -> Option<Level> {
    let count = s.levels.len();
    let index = (0..count)
        .map(|step| (m.level + step) % count)
        .find(|index| {
            s.levels
                .get(*index)
                .is_some_and(|level| !level.devices.is_empty())
        })?;
    if index != m.level {
        m.level = index;
        m.failures = 0;
    }
    s.levels.get(index).cloned()
}

/// A try has failed: again after a pause, then the next level, then a longer pause and all of them again.
pub(super) fn fail(s: &Settings, m: &mut Memory, words: String, now: Duration) {
    m.last_failure = Some(words);
    m.failures += 1;
    let Some(level) = current_level(s, m) else {
        return;
    };
    let mut pause = level.retry_period;
    if m.failures >= level.attempts_max {
        m.failures = 0;
        let usable: Vec<usize> = (0..s.levels.len())
            .filter(|index| {
                s.levels
                    .get(*index)
                    .is_some_and(|level| !level.devices.is_empty())
            })
            .collect();
        match usable.iter().find(|index| **index > m.level) {
            Some(next) => {
                m.level = *next;
                pause = Duration::ZERO;
            }
            None => {
                m.level = usable.first().copied().unwrap_or(0);
                m.rounds = m.rounds.saturating_add(1);
            }
        }
    }
    let pause = pause * 2u32.pow(m.rounds.saturating_sub(1).min(4));
    m.retry_at = Some(now + pause.min(ROUND_PAUSE_MAX.max(level.retry_period)));
}

/// A device that did not answer, or not for this machine.
pub(super) struct Failure {
    /// Condition reason: `DeviceFailed` or `IdentityMismatch`.
    pub(super) reason: &'static str,
    /// In words, naming the device.
    pub(super) words: String,
}

/// Why the level's devices do not allow a claim.
enum Unusable {
    /// They work, and the machine is not off (ConfirmOnly).
    StillOn(String),
    /// They do not answer, or not for this machine.
    Failed(Failure),
}

/// Do the answers allow a claim? In ConfirmOnly the machine has to read Off already.
fn usable(level: &Level, sights: &[Sight], mode: FenceMode) -> Result<(), Unusable> {
    judge_level(level, |device| {
        let reading = answer(device, sights).map_err(Unusable::Failed)?;
        match (mode, reading.state) {
            (FenceMode::ConfirmOnly, PowerState::Off) | (FenceMode::PowerOff, _) => Ok(()),
            _ => Err(Unusable::StillOn(format!(
                "FenceDevice {} reads {} ({}): mode ConfirmOnly never turns a machine off; it is looked at again every {} s",
                device.name,
                state_word(reading.state),
                reading.raw,
                LOOK_PERIOD.as_secs()
            ))),
        }
    })
}

/// The device's answer, if the right machine gave it.
pub(super) fn answer<'a>(device: &Device, sights: &'a [Sight]) -> Result<&'a Reading, Failure> {
    let failed = |words: String| Failure {
        reason: "DeviceFailed",
        words: format!("FenceDevice {}: {words}", device.name),
    };
    let sight = sights.iter().find(|sight| sight.device == device.name);
    let sight = sight.ok_or_else(|| failed("not asked".to_owned()))?;
    let reading = sight
        .reading
        .as_ref()
        .map_err(|reason| failed(reason.clone()))?;
    let wrong = |reason: NotProven| Failure {
        reason: "IdentityMismatch",
        words: reason.to_string(),
    };
    device
        .identity
        .check(&device.name, reading)
        .map_err(wrong)?;
    Ok(reading)
}

/// AND or OR over the level's devices.
pub(super) fn judge_level<E>(
    level: &Level,
    judge: impl Fn(&Device) -> Result<(), E>,
) -> Result<(), E> {
    let mut refusal = None;
    for device in &level.devices {
        match (judge(device), level.require) {
            (Ok(()), Require::Any) => return Ok(()),
            (Err(reason), Require::All) => return Err(reason),
            (Err(reason), Require::Any) => refusal = Some(reason),
            (Ok(()), Require::All) => {}
        }
    }
    refusal.map_or(Ok(()), Err)
}

pub(super) fn names(level: &Level) -> String {
    let names: Vec<&str> = level
        .devices
        .iter()
        .map(|device| device.name.as_str())
        .collect();
    format!("FenceDevice {}", names.join(", "))
}

pub(super) fn state_word(state: PowerState) -> &'static str {
    match state {
        PowerState::On => "On",
        PowerState::Off => "Off",
        PowerState::Transitional => "Transitional",
        PowerState::Unknown => "Unknown",
    }
}
