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
pub(super) const READ_ONCE_MORE: &str = "the machine's power is read once more before the release";

/// Off, read by the right machine's device, after everything had detached (or where the operator detaches: since no pod is left) and just now.
pub(super) fn off_now(
    s: &Settings,
    m: &Memory,
    level: Option<&Level>,
    t: &Moment,
) -> Result<(), String> {
    let level = level.ok_or(match s.adopted {
        true => "the record that named its FenceDevices is gone: whether it is still off is read by none",
        false => {
            "no FenceDevice serves the node any more: whether it is still off cannot be read; bring one back, or boot the machine anew"
        }
    })?;
    if let Some(message) = lost_device(m, level) {
        return Err(format!("{message}, or boot the machine anew"));
    }
    if let Some((device, reading)) = has_power(s, m) {
        return Err(format!("FenceDevice {} {}", device.name, reads(reading)));
    }
    let since = m.taint.reads_since().unwrap_or(t.now);
    judge_level(level, |device| {
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

/// A word does not say that the machine is off now, and a NodeFence takes one only.
pub fn confirmation_is_over(s: &Settings) -> String {
    if s.adopted {
        return format!(
            "the word is too old to say that the machine is off now, and this NodeFence takes no other and asks no FenceDevice: boot it, or delete this \
             NodeFence ({}), which is made anew and takes a new one",
            s.fence
        );
    }
    format!(
        "the word by which the machine was proven down is too old to say that it is off now: boot it, have a FenceDevice of Node {node} read it Off, or, \
         if it is gone for good, delete its Node (`kubectl delete node {node}`)",
        node = s.node
    )
}

/// Where outlets were asked in place of what has turned the machine off.
pub(super) fn who_knows(m: &Memory) -> String {
    let needed = match m.under_claim.proven_by.join(", ") {
        none if none.is_empty() => "turn them off too".to_owned(),
        devices => format!("FenceDevice {devices}, which has proven it down, has to answer"),
    };
    format!(
        "outlets that did not turn the machine off cannot say whether it is; {needed}, or boot the machine anew"
    )
}
