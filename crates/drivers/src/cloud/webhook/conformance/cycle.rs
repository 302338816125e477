//! The machine of a test node off and on again, by the driver itself.

use super::{Seen, Service};
use crate::{DeviceError, FenceDriver, OffOutcome, OnOutcome};
use fencing_core::reading::{Identity, PowerState};
use std::time::Duration;
use tokio::time::sleep;

/// Pause between two readings of a machine that is being switched.
const PERIOD: Duration = Duration::from_secs(1);
/// A machine that no service has.
const NO_MACHINE: &str = "7b1f2f6e-6f0c-4f0e-9d55-0c0f0a51de5e";

impl Service {
    /// Off and on again, and a command for another machine before.
    pub(super) async fn power_cycle(
        &self,
        uuid: &str,
        time_max: Duration,
        note: &mut impl FnMut(&'static str, Seen) -> bool,
    ) {
        let runs = self.until(PowerState::On, Duration::ZERO).await;
        if !note("the machine runs before it is switched", runs) {
            return;
        }
        // Whatever becomes of one, the machine is not left off.
        let _ = note(
            "an off for another machine is refused",
            self.mistaken().await,
        ) && note("`off` turns it off", self.off(uuid, time_max).await)
            && note(
                "`off` of a machine that is off keeps it off",
                self.off(uuid, time_max).await,
            );
        note("`on` turns it on", self.on(time_max).await);
    }

    /// An off for a machine that is not this one, while this one runs.
    async fn mistaken(&self) -> Seen {
        let another = Identity {
            system_uuid: Some(NO_MACHINE.to_owned()),
            serial_number: Some(NO_MACHINE.to_owned()),
        };
        let (_, request) = self.webhook.request("off", Some(&another));
        let seen = self.answers(&request.to_string(), 409, "Refused").await?;
        sleep(PERIOD).await;
        let is_on = self.until(PowerState::On, Duration::ZERO).await;
        is_on.map(|_| format!("{seen}, and the machine runs on"))
    }

    async fn off(&self, uuid: &str, time_max: Duration) -> Seen {
        let mut session = self.cloud.open();
        let outcome = async {
            // Of two replicas one may name another machine.
            let named = session.prepare_off().await?;
            if !named.is_system(uuid) {
                return Err(DeviceError::Refused {
                    endpoint: self.cloud.target.address.to_string(),
                    problem: "it named another machine than before; no off was sent".to_owned(),
                });
            }
            session.force_off().await
        };
        let taken = match outcome.await {
            Ok(OffOutcome::Accepted) => "Accepted",
            Ok(OffOutcome::AlreadyOff { .. }) => "Already",
            Ok(OffOutcome::Unknown(error)) | Err(error) => return Err(error.to_string()),
        };
        let off = self.until(PowerState::Off, time_max).await?;
        Ok(format!("{taken}, {off}"))
    }

    async fn on(&self, time_max: Duration) -> Seen {
        let mut session = self.cloud.open();
        let outcome = async {
            session.prepare_on().await?;
            session.power_on().await
        };
        let taken = match outcome.await {
            Ok(OnOutcome::Accepted) => "Accepted",
            Ok(OnOutcome::AlreadyOn { .. }) => "Already",
            Ok(OnOutcome::Unknown(error)) | Err(error) => return Err(error.to_string()),
        };
        let on = self.until(PowerState::On, time_max).await?;
        Ok(format!("{taken}, {on}"))
    }

    /// Reads until this state is there, without anything that speaks against it.
    async fn until(&self, state: PowerState, time_max: Duration) -> Seen {
        let begun = self.cloud.clock.since_boot();
        loop {
            let reading = self.cloud.open().observe().await;
            let passed = self.cloud.clock.since_boot().saturating_sub(begun);
            let seen = match reading {
                Ok(reading) if reading.state == state && reading.faults.is_empty() => {
                    return Ok(format!("reads {state:?} after {} s", passed.as_secs()));
                }
                Ok(reading) => format!("it reads {reading}"),
                Err(error) => error.to_string(),
            };
            if passed >= time_max {
                return Err(format!(
                    "{seen}, {state:?} is required after {} s",
                    time_max.as_secs()
                ));
            }
            sleep(PERIOD).await;
        }
    }
}
