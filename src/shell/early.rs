//! Drivers that are made, and sessions that are connected, beside a claim, so that the first reading after the quiesce is asked for at once.
//!
//! To read a Secret and a CA takes the API server several milliseconds, a TLS handshake takes a BMC some more, between a policy's
//! deadline and the taint. Only the way is made early: nothing is asked about the machine before its time has come. All of it dies
//! with the first work for a device, or unused with the incident.

use super::context::Context;
use super::resolve;
use crate::api::device::FenceDevice;
use crate::clock;
use crate::core::incident::Level;
use crate::fence::{FenceDriver, FenceSession};
use futures::future::join_all;
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A rotated password counts at once: what is older than this is read again.
const LIFE: Duration = Duration::from_secs(1);

/// Drivers of a level's devices, by name; one that could not be made is left out, and why is said when it is needed.
pub struct EarlyDrivers {
    /// When their Secrets were asked for (time since boot).
    asked: Duration,
    made: BTreeMap<String, Made>,
}

struct Made {
    /// Of the FenceDevice, see [`resolve::version`].
    version: String,
    driver: Arc<dyn FenceDriver>,
    /// Connected, and nothing was asked in it; until it is taken.
    session: Mutex<Option<Box<dyn FenceSession>>>,
}

impl EarlyDrivers {
    /// Makes what the devices of this level need for this node.
    pub async fn of(context: &Context, level: &Level, node: &str) -> Self {
        let asked = clock::since_boot();
        let made = level.devices.iter().map(|device| async {
            let device = context.caches.device(&device.name)?;
            let driver = context.devices.driver(&device, node).await.ok()?;
            let session = connected(context, &device, driver.as_ref()).await;
            let made = Made {
                version: resolve::version(&device),
                driver,
                session: Mutex::new(session),
            };
            Some((device.name_any(), made))
        });
        Self {
            asked,
            made: join_all(made).await.into_iter().flatten().collect(),
        }
    }

    /// The driver of this device, unless it is too old `now` (time since boot), or the FenceDevice has changed since.
    pub fn driver(&self, device: &FenceDevice, now: Duration) -> Option<Arc<dyn FenceDriver>> {
        self.made(device, now).map(|made| Arc::clone(&made.driver))
    }

    /// A session of that driver, under the same conditions, and once.
    pub fn session(&self, device: &FenceDevice, now: Duration) -> Option<Box<dyn FenceSession>> {
        let session = &self.made(device, now)?.session;
        session
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Is none of it of use any more `now` (time since boot)?
    pub fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.asked) > LIFE
    }

    fn made(&self, device: &FenceDevice, now: Duration) -> Option<&Made> {
        let made = self.made.get(&device.name_any())?;
        let is_fresh = !self.is_over(now) && made.version == resolve::version(device);
        is_fresh.then_some(made)
    }
}

/// Unless somebody else talks to the device, or it cannot be reached: why is said when it is needed.
async fn connected(
    context: &Context,
    device: &FenceDevice,
    driver: &dyn FenceDriver,
) -> Option<Box<dyn FenceSession>> {
    let _turn = context.devices.turn_now(device, driver)?;
    let mut session = driver.open();
    session.connect().await.ok()?;
    Some(session)
}
