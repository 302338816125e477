//! Drivers that are made beside a claim, so that the first session after the quiesce finds its Secret read.
//!
//! To read a Secret and a CA takes the API server several milliseconds, between a policy's deadline and the taint. Only the
//! credentials are fetched early: no device is contacted, and the session is opened when its time has come. They die with the
//! first work for a device, or unused with the incident.

use super::context::Context;
use super::resolve;
use crate::api::device::FenceDevice;
use crate::clock;
use crate::core::incident::Level;
use crate::fence::FenceDriver;
use futures::future::join_all;
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::sync::Arc;
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
}

impl EarlyDrivers {
    /// Reads what the drivers of this level need for this node.
    pub async fn of(context: &Context, level: &Level, node: &str) -> Self {
        let asked = clock::since_boot();
        let made = level.devices.iter().map(|device| async {
            let device = context.caches.device(&device.name)?;
            let driver = context.devices.driver(&device, node).await.ok()?;
            let version = resolve::version(&device);
            Some((device.name_any(), Made { version, driver }))
        });
        Self {
            asked,
            made: join_all(made).await.into_iter().flatten().collect(),
        }
    }

    /// The driver of this device, unless it is too old `now` (time since boot), or the FenceDevice has changed since.
    pub fn driver(&self, device: &FenceDevice, now: Duration) -> Option<Arc<dyn FenceDriver>> {
        let made = self.made.get(&device.name_any())?;
        let age = now.saturating_sub(self.asked);
        let is_fresh = age <= LIFE && made.version == resolve::version(device);
        is_fresh.then(|| Arc::clone(&made.driver))
    }
}
