//! What speaks against an Off: the machine's own chassis, its operating system, or a Manager that has just restarted.
//!
//! A Manager that restarts under a running machine may read Off until it has heard from it (OpenBMC does: the host's state is Off unless
//! the host answers). `Status` is about health and says nothing here. What a service never says changes nothing; what it fails to repeat stands as
//! it was: a BMC that restarts is slow, and no Off becomes better by that.

use super::super::parse::{self, System};
use super::Session;
use crate::core::reading::PowerState;
use crate::fence::DeviceError;
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

/// So long after its start a Manager's Off is doubted.
const RESTARTED_WITHIN: Duration = Duration::from_mins(5);
/// Names of what is found, for the record.
const OS_RUNS: &str = "BootProgress OSRunning";
const CHASSIS_ON: &str = "a chassis that reads On";
const RESTARTED: &str = "a BMC that restarted in the last 5 minutes";

/// What a session knows of what it asks beside an Off.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// The Manager has answered, or was not in time.
    has_asked: bool,
    /// When the Manager began, time since boot of this host.
    restarted: Option<Duration>,
    /// The chassis did not answer in time, and is not waited for again.
    is_slow: bool,
}

impl Session {
    /// Names of all that speaks against what this system says, which was asked for at `asked`.
    pub(super) async fn doubts(&mut self, system: &System, asked: Duration) -> Vec<String> {
        if system.state == PowerState::On {
            self.driver.past.note_chassis(false);
        }
        if system.state != PowerState::Off {
            return Vec::new();
        }
        let mut doubts = Vec::new();
        if system.os_runs {
            doubts.push(OS_RUNS.to_owned());
        } else if self.chassis_reads_on(system, asked).await {
            doubts.push(CHASSIS_ON.to_owned());
        }
        if self.has_just_restarted(system, asked).await {
            doubts.push(RESTARTED.to_owned());
        }
        doubts
    }

    async fn chassis_reads_on(&mut self, system: &System, asked: Duration) -> bool {
        let Some(path) = system.chassis.as_deref() else {
            return false;
        };
        if !self.beside.is_slow {
            match self.get_beside(path, asked).await {
                Some(Ok(chassis)) => {
                    let is_on = parse::machine_reads_on(&chassis);
                    self.driver.past.note_chassis(is_on);
                }
                Some(Err(_)) => {}
                None => self.beside.is_slow = true,
            }
        }
        self.driver.past.chassis_reads_on()
    }

    /// A command that the device took after its Manager had begun is as good as any; one that was taken before may be forgotten.
    async fn has_just_restarted(&mut self, system: &System, asked: Duration) -> bool {
        if !self.beside.has_asked
            && let Some(path) = system.manager.as_deref()
        {
            let answer = self.get_beside(path, asked).await;
            self.beside.has_asked = !matches!(answer, Some(Err(_)));
            self.beside.restarted = answer.and_then(|it| self.began(&it.ok()?));
        }
        let now = self.driver.clock.since_boot();
        self.beside.restarted.is_some_and(|at| {
            let was_commanded = self.driver.past.commanded().is_some_and(|last| last >= at);
            now.saturating_sub(at) < RESTARTED_WITHIN && !was_commanded
        })
    }

    /// When the Manager began, on the clock of this host.
    fn began(&self, manager: &Value) -> Option<Duration> {
        let age = parse::restart(manager)?.age;
        Some(self.driver.clock.since_boot().saturating_sub(age))
    }

    /// Within half of what is left of the call, so that it does not cost the reading.
    async fn get_beside(
        &mut self,
        path: &str,
        asked: Duration,
    ) -> Option<Result<Value, DeviceError>> {
        let gone = self.driver.clock.since_boot().saturating_sub(asked);
        let left = self.driver.call_timeout.saturating_sub(gone);
        timeout(left / 2, self.get_once(path)).await.ok()
    }
}
