//! How often is something looked at that nobody announces?

use super::round::Round;
use crate::decision::{Decision, wait};
use crate::memory::Memory;
use crate::release::Hindrance;
use crate::stage::Stage;
use std::time::Duration;

/// How often something is read that nobody announces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Pause between the first polls.
    first: Duration,
    /// The longest pause.
    slowest: Duration,
}

/// What has to be known before the next step.
pub(super) const READ_PACE: Pace = Pace {
    first: Duration::from_millis(2),
    slowest: Duration::from_secs(1),
};

/// Whether everything has detached, as far as pods go: they are not watched.
pub(super) const DETACH_PACE: Pace = Pace {
    first: Duration::from_millis(250),
    slowest: Duration::from_secs(2),
};

/// Whether everything has detached, where only what is watched is left: VolumeAttachments, and what the Node lists. What changes of it wakes the
/// incident at once, and a driver may take minutes.
const WATCHED_PACE: Pace = Pace {
    first: Duration::from_secs(2),
    slowest: Duration::from_secs(2),
};

/// The pace of looks at what keeps the taint from being removed.
pub(super) fn of(hindrance: &Hindrance) -> Pace {
    match hindrance {
        Hindrance::Attachments(_) | Hindrance::VolumesAttached(_) => WATCHED_PACE,
        Hindrance::Pods(_) | Hindrance::NotRead(_) | Hindrance::LastList => DETACH_PACE,
    }
}

/// Pause between two looks at the power while the taint stands.
pub(super) const WATCH_PERIOD: Duration = Duration::from_secs(10);

/// Polls before the pace slows down.
pub(super) const QUICK_POLLS: u32 = 20;

/// Waits for something that nobody announces, and looks again at this pace.
pub(super) fn poll_again(r: &mut Round<'_>, stage: Stage, message: String, pace: Pace) -> Decision {
    let wake = poll(r.memory, r.moment.now, pace);
    wait(stage, message).until(wake)
}

/// When it is looked at next: after the pace's first pause for a while, then ever more slowly.
pub(super) fn poll(memory: &mut Memory, now: Duration, pace: Pace) -> Duration {
    let pause = pace.first
        * 2u32.pow(
            memory
                .under_claim
                .polls
                .saturating_sub(QUICK_POLLS - 1)
                .min(10),
        );
    memory.under_claim.polls = memory.under_claim.polls.saturating_add(1);
    now + pause.min(pace.slowest)
}
