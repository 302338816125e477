//! An incident that is to be opened, and when.

use super::super::draft::Due;
use fencing_api::policy::{NodeFencingPolicy, UnhealthyCondition};
use fencing_api::remediation::RemediationReference;
use fencing_core::delay::{Delay, Now};
use fencing_core::exclusions::Exclusion;
use fencing_core::observed::NodeView;
use fencing_core::protection::opens;
use fencing_core::window::Effective;
use jiff::SignedDuration;
use std::time::Duration;

/// A pause that expires, and a window that opens or closes, is looked at this often: somebody may set the wall clock.
pub(super) const PAUSE_LOOK: Duration = Duration::from_secs(60);

/// An incident that is to be opened.
pub(super) struct Wanted {
    pub policy: NodeFencingPolicy,
    /// What the policy says now.
    pub effective: Effective,
    pub condition: UnhealthyCondition,
    /// When the node is to be claimed (time since boot).
    pub at: Duration,
    /// When all waits of the policy are over (time since boot). Later than `at` where the machine is off.
    pub wait_ends: Duration,
    /// The remediation for which the condition's duration is not waited for.
    pub asked: Option<RemediationReference>,
    /// Why not as soon as the condition has held for its duration.
    pub delay: Option<Delay>,
    /// Why it is not to be opened all the same.
    pub kept_off: Option<Exclusion>,
}

impl Wanted {
    /// When the incident is to be opened (time since boot).
    pub fn opens(&self) -> Duration {
        match self.at < self.wait_ends {
            // It is claimed as soon as the machine reads Off, and not before.
            true => self.at,
            false => opens(self.effective.mode, self.at),
        }
    }

    /// Does the node show the condition?
    pub fn holds(&self, node: &NodeView) -> bool {
        let shown = node.condition(&self.condition.type_);
        shown.is_some_and(|now| now.status == self.condition.status.as_str())
    }

    /// When the waits are over, and how much of them is left out.
    pub fn claim_due(&self, now: Now) -> Due {
        let ahead = self.wait_ends.saturating_sub(now.boot);
        let due = SignedDuration::try_from(ahead).unwrap_or_default();
        let seconds = u32::try_from(ahead.as_millis().div_ceil(1000)).unwrap_or(u32::MAX);
        Due {
            time: now.wall.saturating_add(due).unwrap_or(now.wall),
            early_seconds: (self.at < self.wait_ends && seconds > 0).then_some(seconds),
            remediation: self.asked.clone(),
        }
    }

    /// When it is looked at next (time since boot). What the Node says may end at any time, and its change tells of it.
    pub fn due(&self, now: Now) -> Option<Duration> {
        match &self.kept_off {
            Some(kept_off) if self.opens() <= now.boot => {
                let ahead = kept_off.until?.duration_since(now.wall);
                let ahead = Duration::try_from(ahead).unwrap_or_default();
                Some(now.boot + ahead.min(PAUSE_LOOK))
            }
            _ => Some(self.opens()),
        }
    }
}
