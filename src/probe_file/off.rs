//! One hard off, and whether what the device says after it is what a proof asks of a device.
//!
//! The engine reads; the core judges the readings by the rule of a fence. What else a fence asks, that the Node shows no life and its
//! Lease does not move, is for a cluster to say, and there is none.

use super::report::Off;
use fencing_api::settings::Verification;
use fencing_core::control::Control;
use fencing_core::device::DeviceReadings;
use fencing_core::identity_rule::IdentityRule;
use fencing_core::not_proven::NotProven;
use fencing_core::proof::reads_off;
use fencing_core::reading::{PowerState, Reading};
use fencing_core::verification;
use fencing_core::verification::Require;
use fencing_drivers::clock::Clock;
use fencing_drivers::confirm::{ConfirmPlan, Confirmation, Ended, Together, confirm};
use fencing_drivers::{FenceDriver, OffOutcome};
use std::ops::ControlFlow;
use std::time::Duration;

/// The machine that is turned off, and how it is judged.
#[derive(Debug)]
pub struct Target<'a> {
    /// FenceDevice name.
    pub device: &'a str,
    /// Who must answer there.
    pub identity: &'a IdentityRule,
    /// Time to go off and to be read.
    pub time_max: Duration,
}

impl Target<'_> {
    /// Turns it off and reads it, as often and over the time that a policy's defaults ask for.
    pub async fn power_off(&self, driver: &dyn FenceDriver) -> Off {
        let command = match self.command(driver).await {
            Ok(said) => said,
            Err(off) => return off,
        };
        let begun = Clock::SYSTEM.since_boot();
        let settings = Verification::default();
        let period = Duration::from_secs(settings.read_period_seconds.into());
        let reads = settings.consecutive_off_reads;
        let plan = ConfirmPlan {
            reads,
            period,
            window: period * reads.saturating_sub(1),
            deadline: self.time_max,
        };
        let level = Together::new(Require::All, 1, plan, Clock::SYSTEM);
        let watch = |reading: &Reading| match self.identity.check(self.device, &reading.identity) {
            Err(wrong) if reading.state != PowerState::Unknown => {
                ControlFlow::Break(wrong.to_string())
            }
            _ => ControlFlow::Continue(()),
        };
        let confirmation = confirm(&level, 0, driver, driver.open(), watch).await;
        self.judged(
            command,
            confirmation,
            &plan,
            begun,
            Clock::SYSTEM.since_boot(),
        )
    }

    /// What became of the command; the error is that of one that certainly was not carried out.
    async fn command(&self, driver: &dyn FenceDriver) -> Result<String, Off> {
        let mut session = driver.open();
        let not_sent = |words| Off::ended("not sent", words);
        let prepared = session.prepare_off().await;
        let identity = prepared.map_err(|error| not_sent(error.to_string()))?;
        let who = self.identity.check(self.device, &identity);
        who.map_err(|wrong| not_sent(wrong.to_string()))?;
        match session.force_off().await {
            Ok(OffOutcome::Accepted) => Ok("the device accepted the command".to_owned()),
            Ok(OffOutcome::AlreadyOff { said }) => Ok(format!(
                "the device reports that the machine is already off ({said})"
            )),
            Ok(OffOutcome::Unknown(error)) => Ok(format!("the outcome is unknown: {error}")),
            Err(error) => Err(Off::ended("not carried out", error.to_string())),
        }
    }

    /// The engine only says why it ended; that the readings prove anything is for the core to say.
    fn judged(
        &self,
        command: String,
        confirmation: Confirmation,
        plan: &ConfirmPlan,
        begun: Duration,
        now: Duration,
    ) -> Off {
        let verification = verification::Verification {
            off_reads_min: usize::try_from(plan.reads).unwrap_or(usize::MAX),
            window: plan.window,
        };
        let device = DeviceReadings {
            device: self.device.to_owned(),
            version: String::new(),
            identity: self.identity.clone(),
            outlets: false,
            covers: None,
            // The readings alone are judged.
            control: Control::Shown,
            readings: confirmation.readings,
        };
        let judged = reads_off(&device, begun, &verification, now);
        Off {
            command,
            readings: device.readings,
            is_proven: judged.is_ok(),
            words: self.words(judged, confirmation.ended),
        }
    }

    fn words(&self, judged: Result<(), NotProven>, ended: Ended) -> String {
        let Err(reason) = judged else {
            return "the readings prove the device off; Node and Lease are checked in the cluster"
                .to_owned();
        };
        match ended {
            Ended::Stable | Ended::Settled => reason.to_string(),
            Ended::Deadline(None) => {
                format!(
                    "not confirmed off within {} s: {reason}; raise --timeout, or see the device's log",
                    self.time_max.as_secs()
                )
            }
            Ended::Deadline(Some(error)) | Ended::Failed(error) => error.to_string(),
            Ended::Stopped(words) => words,
        }
    }
}

#[cfg(test)]
mod tests;
