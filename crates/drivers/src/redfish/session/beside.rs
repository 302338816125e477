//! What speaks against an Off: the system's own state, the machine's chassis, or a Manager that has just restarted.
//!
//! A Manager that restarts under a running machine may read Off until it has heard from it (OpenBMC does: the host's state is Off unless
//! the host answers). A reading costs one request more at most: the chassis is asked beside the first Off of a session and the Manager beside the
//! next, so a single look has heard the chassis, and a proof, which rests on two readings of a session, both. What a service never says changes
//! nothing; what it fails to repeat stands as it was: a BMC that restarts is slow, and no Off becomes better by that.

use super::super::parse::{self, System};
use super::Session;
use fencing_core::reading::PowerState;
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

/// So long after its start a Manager's Off is doubted.
const RESTARTED_WITHIN: Duration = Duration::from_mins(5);
/// Time for one of these answers at most: the reading before it is not to grow old.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(3);
/// So many answers of one resource may be late: then it is asked no more in this session.
const LATE_MAX: u32 = 2;
/// Names of what is found, for the record.
const CHASSIS_ON: &str = "a chassis that reads On";
const RESTARTED: &str = "a BMC that restarted in the last 5 minutes";

/// What a session knows of what it asks beside an Off.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// The Manager has answered.
    has_heard_manager: bool,
    /// The last Off had the chassis asked: the next one has the Manager.
    is_managers_turn: bool,
    /// Answers that did not come in time, of the chassis and of the Manager.
    late: [u32; 2],
}

/// Which of them is asked.
#[derive(Debug, Clone, Copy)]
enum Asked {
    Chassis,
    Manager,
}

impl Session {
    /// Names of all that speaks against what this system says, which was asked for at `asked`.
    pub(super) async fn doubts(&mut self, system: &System, asked: Duration) -> Vec<String> {
        if system.state == PowerState::On {
            self.driver.past.note_doubt(None);
        }
        if system.state != PowerState::Off {
            return Vec::new();
        }
        // Its own word takes back its own, and not its chassis's.
        if let Some(says) = system.runs
            && self.driver.past.doubt() != Some(CHASSIS_ON)
        {
            self.driver.past.note_doubt(says);
        }
        self.ask_beside(system, asked).await;
        let running = system.runs.flatten().or_else(|| self.driver.past.doubt());
        let restarted = self.has_just_restarted().then_some(RESTARTED);
        let doubts = running.into_iter().chain(restarted);
        doubts.map(str::to_owned).collect()
    }

    /// Asks the chassis, where the system does not say itself that it runs, and the Manager until it has answered: in turn.
    async fn ask_beside(&mut self, system: &System, asked: Duration) {
        let [late_chassis, late_manager] = self.beside.late;
        let is_running = system.runs.flatten().is_some();
        let chassis = system.chassis.as_deref();
        let chassis = chassis.filter(|_| !is_running && late_chassis < LATE_MAX);
        let manager = system.manager.as_deref();
        let manager = manager.filter(|_| !self.beside.has_heard_manager && late_manager < LATE_MAX);
        match (chassis, manager) {
            (Some(_), Some(path)) if self.beside.is_managers_turn => {
                self.ask_manager(path, asked).await;
            }
            (Some(path), _) => self.ask_chassis(path, asked).await,
            (None, Some(path)) => self.ask_manager(path, asked).await,
            (None, None) => {}
        }
    }

    async fn ask_chassis(&mut self, path: &str, asked: Duration) {
        self.beside.is_managers_turn = true;
        if let Some(chassis) = self.get_beside(Asked::Chassis, path, asked).await
            && let Some(is_on) = parse::machine_reads_on(&chassis)
        {
            self.driver.past.note_doubt(is_on.then_some(CHASSIS_ON));
        }
    }

    async fn ask_manager(&mut self, path: &str, asked: Duration) {
        self.beside.is_managers_turn = false;
        if let Some(manager) = self.get_beside(Asked::Manager, path, asked).await {
            self.beside.has_heard_manager = true;
            if let Some(began) = self.began(&manager) {
                self.driver.past.note_start(began);
            }
        }
    }

    /// A command that the device took after its Manager had begun is as good as any; one that was taken before may be forgotten.
    fn has_just_restarted(&self) -> bool {
        let now = self.driver.clock.since_boot();
        self.driver.past.started().is_some_and(|at| {
            let was_commanded = self.driver.past.commanded().is_some_and(|last| last >= at);
            now.saturating_sub(at) < RESTARTED_WITHIN && !was_commanded
        })
    }

    /// When the Manager began, on the clock of this host.
    fn began(&self, manager: &Value) -> Option<Duration> {
        let age = parse::restart(manager)?.age;
        Some(self.driver.clock.since_boot().saturating_sub(age))
    }

    /// Within half of what is left of the call, so that it does not cost the reading. None of a refusal, or of an answer that is late.
    async fn get_beside(&mut self, of: Asked, path: &str, asked: Duration) -> Option<Value> {
        let gone = self.driver.clock.since_boot().saturating_sub(asked);
        let left = self.driver.call_timeout.saturating_sub(gone);
        match timeout((left / 2).min(ANSWER_TIME_MAX), self.get_once(path)).await {
            Ok(answer) => answer.ok(),
            Err(_) => {
                let [chassis, manager] = &mut self.beside.late;
                let late = match of {
                    Asked::Chassis => chassis,
                    Asked::Manager => manager,
                };
                *late += 1;
                None
            }
        }
    }
}
