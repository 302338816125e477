//! Whether the machine reads Off now: what the release and each deletion rest on.

use super::level::{judge_level, verified_reading};
use super::round::Moment;
use super::tries::lost_device;
use super::watch::{NOW_LIFE, has_power, reads, would_know};
use crate::device::Level;
use crate::memory::Memory;
use crate::settings::Settings;
use std::time::Duration;

/// A reading of now counts if its device was asked this long ago at most: a look may take 20 s.
pub(super) const ASKED_LIFE: Duration = Duration::from_secs(25);

/// What the release still waits for.
pub(super) const READ_ONCE_MORE: &str = "reading the machine's power once more before the release";

/// Off, read by the right machine's device, after everything had detached (or where the operator detaches: since no pod is left) and just now.
pub(super) fn off_now(
    s: &Settings,
    m: &Memory,
    level: Option<&Level>,
    t: &Moment,
) -> Result<(), String> {
    let level = level.ok_or(match s.adopted {
        true => "no FenceDevice can read the power: the record that named them is gone",
        false => {
            "no FenceDevice serves the node, so its power cannot be read; create one, or boot the machine"
        }
    })?;
    if let Some(message) = lost_device(m, level) {
        return Err(format!("{message}, or boot the machine"));
    }
    if let Some((device, reading)) = has_power(s, m) {
        return Err(format!("FenceDevice {} {}", device.name, reads(reading)));
    }
    let since = m.taint.reads_since().unwrap_or(t.now);
    judge_level(level, |device| {
        // S1: it may run, with mounts that would write once the storage lets them; only another boot has none.
        if device.covers.is_some() && storage_alone(m, level) {
            return Err(format!(
                "FenceDevice {} keeps the node from its volumes, and its machine may run; boot the machine",
                device.name
            ));
        }
        if !m
            .under_claim
            .answers
            .iter()
            .any(|answer| answer.is_of(device))
        {
            return Err(READ_ONCE_MORE.to_owned());
        }
        let reading = verified_reading(device, &m.under_claim.answers).map_err(|failure| {
            match device.manual {
                true => confirmation_is_over(s),
                false => failure.message,
            }
        })?;
        if !reading.is_off() {
            let message = format!("FenceDevice {} {}", device.name, reads(reading));
            return Err(match would_know(m, device) {
                true => message,
                false => format!("{message}: {}", who_knows(m)),
            });
        }
        let is_old = t.now.saturating_sub(m.read_at) > NOW_LIFE
            || t.now.saturating_sub(reading.asked) > ASKED_LIFE;
        if reading.asked < since || is_old {
            return Err(READ_ONCE_MORE.to_owned());
        }
        Ok(())
    })
}

/// Does no device of the level read the machine itself Off?
fn storage_alone(m: &Memory, level: &Level) -> bool {
    let mut power = level.devices.iter().filter(|it| it.covers.is_none());
    !power.any(|it| {
        let reading = verified_reading(it, &m.under_claim.answers);
        reading.is_ok_and(|reading| reading.is_off())
    })
}

/// A word does not say that the machine is off now, and a NodeFence takes one only.
pub fn confirmation_is_over(s: &Settings) -> String {
    if s.adopted {
        return "the manual confirmation has expired, and this NodeFence accepts no other; boot the machine, or delete this NodeFence and confirm its successor"
            .to_owned();
    }
    format!(
        "the manual confirmation has expired; boot the machine, have a FenceDevice of Node {node} read Off, or delete its Node (`kubectl delete node {node}`)",
        node = s.node
    )
}

/// Where outlets were asked in place of what has turned the machine off.
pub(super) fn who_knows(m: &Memory) -> String {
    let needed = match m.under_claim.proven_by.join(", ") {
        none if none.is_empty() => "turn off these outlets too".to_owned(),
        devices => format!("have FenceDevice {devices} answer, which confirmed it off"),
    };
    format!(
        "outlets that did not turn the machine off prove nothing; {needed}, or boot the machine"
    )
}
