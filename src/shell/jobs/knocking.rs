//! The knock at the kubelet's port while the power is read for a proof: begun so that it is known what became of it when the last reading is there.
//!
//! A dark machine does not answer, so that a knock takes its whole time. Where nothing was commanded, the machine was off before, and it is knocked for
//! beside the first reading: any answer counts. After an off command the knock begins once every device that has to be off reads Off, because a machine
//! may take a moment to go down, and one supply of two is no Off yet. What it says then is of the moment in which the readings are complete, or of none.

use super::Job;
use crate::shell::context::Context;
use crate::shell::observe;
use fencing_api::settings::FenceMode;
use fencing_core::observed::Read;
use fencing_core::verification::Require;
use fencing_drivers::clock;
use fencing_drivers::confirm::ConfirmPlan;
use futures::future::join;
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// Begun so long before the readings can be complete: a knock that no one answers takes three quarters of it.
const AHEAD: Duration = Duration::from_millis(400);
/// Readings that end later than this after it was begun are knocked for again when they are judged.
const LIFE: Duration = Duration::from_secs(1);

/// One knock.
#[derive(Default)]
pub(super) struct Knocking {
    /// Devices of the level that have read Off, by their index.
    off: Mutex<BTreeSet<usize>>,
    all_off: Notify,
    /// When it was begun (time since boot).
    begun: OnceLock<Duration>,
    answers: OnceLock<bool>,
}

impl Knocking {
    /// The device with this index reads Off.
    pub(super) fn note_off(&self, job: &Job, index: usize) {
        let needed = match job.level.require {
            Require::All => job.level.devices.len(),
            Require::Any => 1,
        };
        let mut off = self.off.lock().unwrap_or_else(PoisonError::into_inner);
        if off.insert(index) && off.len() == needed {
            self.all_off.notify_one();
        }
    }

    /// Takes the readings of this plan, and tells whether the kubelet answers at their end; none: it is not known, and asked when they are judged.
    pub(super) async fn beside<T>(
        &self,
        context: &Context,
        job: &Job,
        plan: &ConfirmPlan,
        readings: impl Future<Output = T>,
    ) -> (T, Option<bool>) {
        let is_commanded = job.settings.mode() != FenceMode::ConfirmOnly && !job.level.is_manual();
        if !is_commanded {
            let (readings, answers) = join(readings, answers(context, job)).await;
            // Silence at the beginning is none at the end.
            return (readings, answers.filter(|answers| *answers));
        }
        let (mut readings, mut knock) = (pin!(readings), pin!(self.knock(context, job, plan)));
        let (readings, ended) = tokio::select! {
            biased;
            readings = &mut readings => {
                let ended = clock::since_boot();
                if self.is_of(ended) {
                    let _ = timeout(LIFE, knock).await;
                }
                (readings, ended)
            }
            () = &mut knock => (readings.await, clock::since_boot()),
        };
        (readings, self.said(ended))
    }

    /// Knocks when it is time to.
    async fn knock(&self, context: &Context, job: &Job, plan: &ConfirmPlan) {
        self.all_off.notified().await;
        sleep(span(plan).saturating_sub(AHEAD)).await;
        let _ = self.begun.set(clock::since_boot());
        if let Some(answers) = answers(context, job).await {
            let _ = self.answers.set(answers);
        }
    }

    /// Is what it says, or will say, of readings that ended then?
    fn is_of(&self, ended: Duration) -> bool {
        let age = self.begun.get().map(|begun| ended.saturating_sub(*begun));
        age.is_some_and(|age| age <= LIFE)
    }

    fn said(&self, ended: Duration) -> Option<bool> {
        self.answers.get().copied().filter(|_| self.is_of(ended))
    }
}

/// One knock now; none: the Node could not be read.
async fn answers(context: &Context, job: &Job) -> Option<bool> {
    match observe::node(context, &job.settings.node).await {
        Read::Present(node) => Some(observe::kubelet_answers(context, &node).await),
        _ => None,
    }
}

/// From the first Off until the readings are complete, if each is answered in no time: a window may end between two of them.
fn span(plan: &ConfirmPlan) -> Duration {
    let period = plan.period.as_millis().max(1);
    let pauses = u32::try_from(plan.window.as_millis().div_ceil(period)).unwrap_or(u32::MAX);
    plan.period * pauses.max(plan.reads.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::fake::Cluster;
    use crate::shell::jobs::Heard;
    use fencing_core::decision::DeviceOrder;
    use fencing_core::fixtures;

    fn plan(period: u64, window: u64) -> ConfirmPlan {
        ConfirmPlan {
            reads: 2,
            period: Duration::from_secs(period),
            window: Duration::from_secs(window),
            deadline: Duration::from_secs(60),
        }
    }

    fn job(devices: usize, require: Require) -> Job {
        let mut level = fixtures::level();
        level.devices = vec![level.devices[0].clone(); devices];
        level.require = require;
        Job {
            order: DeviceOrder::ReadPower,
            level,
            limit: Duration::from_secs(10),
            settings: fixtures::settings(),
            claim: None,
            lease: None,
            early: None,
            heard: Heard::default(),
        }
    }

    /// S22: a machine runs on one of two supplies, and its kubelet may answer.
    #[tokio::test]
    async fn there_is_no_knock_before_every_device_that_has_to_be_off_reads_off() {
        let (context, at_once) = (Cluster::new().await.context(), plan(0, 0));
        for (require, needed) in [(Require::All, 2), (Require::Any, 1)] {
            let (knocking, job) = (Knocking::default(), job(2, require));
            for off in 1..=2 {
                knocking.note_off(&job, off - 1);
                // The same again is not another one.
                knocking.note_off(&job, off - 1);
                let knock = knocking.knock(&context, &job, &at_once);
                let _ = tokio::time::timeout(Duration::from_millis(50), knock).await;
                let is_begun = knocking.begun.get().is_some();
                assert_eq!(is_begun, off >= needed, "{require:?}, {off} off");
            }
        }
    }

    #[test]
    fn the_readings_last_whole_periods() {
        for (period, window, seconds) in [(3, 3, 3), (3, 10, 12), (1, 1, 1), (3, 0, 3), (3, 40, 42)]
        {
            assert_eq!(span(&plan(period, window)), Duration::from_secs(seconds));
        }
    }

    /// S22: readings that took longer than they had to end with a machine of which the knock knows nothing.
    #[test]
    fn a_knock_from_before_the_last_reading_says_nothing() {
        let knocking = Knocking::default();
        let begun = Duration::from_secs(100);
        assert_eq!(knocking.said(begun), None);
        let _ = (knocking.begun.set(begun), knocking.answers.set(false));
        assert_eq!(knocking.said(begun + LIFE), Some(false));
        let later = begun + LIFE + Duration::from_millis(1);
        assert_eq!(knocking.said(later), None);
    }
}
