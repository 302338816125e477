//! The devices of a level, read side by side: how long does each of them have to be read?
//!
//! Two supplies are off together only if both read off during the same window, so no device is let go before the others have
//! caught up. Where one device is enough, another one that reads on still speaks against it: each has its say, and one that cannot
//! be reached costs a short grace and not the whole deadline.

use super::{ConfirmPlan, Run};
use crate::clock::Clock;
use fencing_core::verification::Require;
use futures::future::pending;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Readings of off without which nothing is ever stable, whatever the plan says.
const READS_MIN: u32 = 2;
/// Time that the other devices are given once one that is enough is stable, a fifth of a proof's life.
const GRACE: Duration = Duration::from_secs(3);

/// What the devices of a level have in common while they are read.
#[derive(Debug)]
pub struct Together {
    pub(super) plan: ConfirmPlan,
    pub(super) clock: Clock,
    require: Require,
    members: Mutex<Vec<Member>>,
    /// Nobody reads longer than this (time since boot); none: not decided yet.
    until: watch::Sender<Option<Duration>>,
}

/// Where one device stands.
#[derive(Debug, Clone, Copy)]
enum Member {
    /// It has not spoken yet.
    Silent,
    /// It has answered or failed, and goes on.
    Reading(Run),
    /// It will not be read any more.
    Gone,
}

impl Together {
    /// For a level of so many devices.
    #[must_use]
    pub fn new(require: Require, devices: usize, plan: ConfirmPlan, clock: Clock) -> Self {
        Self {
            plan,
            clock,
            require,
            members: Mutex::new(vec![Member::Silent; devices]),
            until: watch::Sender::new(None),
        }
    }

    /// The device with this index has answered or failed.
    pub(super) fn note(&self, index: usize, run: Run) {
        self.set(index, Member::Reading(run));
    }

    /// The device with this index is not read any longer, and never became stable.
    pub fn leave(&self, index: usize) {
        self.set(index, Member::Gone);
    }

    /// Returns as soon as nothing that is still read could change the judgement.
    pub(super) async fn settled(&self) {
        let mut until = self.until.subscribe();
        loop {
            let end = *until.borrow_and_update();
            let end_of_reads = async {
                match end.map(|end| end.saturating_sub(self.clock.since_boot())) {
                    Some(Duration::ZERO) => {}
                    Some(rest) => sleep(rest).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = end_of_reads => return,
                _ = until.changed() => {}
            }
        }
    }

    fn set(&self, index: usize, now: Member) {
        let end = {
            let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(member) = members.get_mut(index) {
                *member = now;
            }
            self.end(&members)
        };
        self.until.send_if_modified(|until| {
            let earlier = end.filter(|end| until.is_none_or(|until| *end < until));
            *until = earlier.or(*until);
            earlier.is_some()
        });
    }

    /// When the reads end, as far as it can be told now.
    fn end(&self, members: &[Member]) -> Option<Duration> {
        let now = self.clock.since_boot();
        match self.require {
            Require::All if members.iter().any(|member| matches!(member, Member::Gone)) => {
                Some(now)
            }
            Require::All => self.together(members).then_some(now),
            Require::Any if !members.iter().any(|member| self.is_stable(member)) => None,
            Require::Any if members.iter().any(Member::reads_on) => None,
            Require::Any if members.iter().any(Member::is_silent) => Some(now + GRACE),
            Require::Any => Some(now),
        }
    }

    /// All of them off, often enough, and for the whole window at the same time.
    fn together(&self, members: &[Member]) -> bool {
        let runs = members.iter().filter_map(Member::run);
        let since = runs.clone().map(|run| run.since).max().unwrap_or_default();
        let until = runs.map(|run| run.until).min().unwrap_or_default();
        members.iter().all(|member| self.is_stable(member))
            && since <= until
            && until.saturating_sub(since) >= self.plan.window
    }

    fn is_stable(&self, member: &Member) -> bool {
        member.run().is_some_and(|run| run.satisfies(&self.plan))
    }
}

impl Member {
    fn run(&self) -> Option<&Run> {
        match self {
            Self::Reading(run) => Some(run),
            Self::Silent | Self::Gone => None,
        }
    }

    /// It may speak yet: it has not, or it failed last.
    fn is_silent(&self) -> bool {
        match self {
            Self::Silent => true,
            Self::Reading(run) => !run.speaks,
            Self::Gone => false,
        }
    }

    fn reads_on(&self) -> bool {
        self.run().is_some_and(|run| run.reads_on)
    }
}

impl Run {
    /// As often, and as long, as the plan asks for.
    pub(super) fn satisfies(&self, plan: &ConfirmPlan) -> bool {
        self.offs >= plan.reads.max(READS_MIN)
            && self.until.saturating_sub(self.since) >= plan.window
    }
}
