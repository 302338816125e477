//! Drivers that are made beside a claim, and in mode ConfirmOnly their connections, so that the first reading after the quiesce
//! is asked for at once.
//!
//! To read a Secret and a CA takes the API server several milliseconds, a TLS handshake takes a BMC some more, between a policy's
//! deadline and the taint. Only the way is made early: nothing is asked of a device before its time has come. A connection has the
//! device's turn, and is closed with it after a second; all of it dies with the first work for a device, or with the incident.

use super::context::Context;
use super::resolve;
use fencing_api::settings::FenceMode;
use fencing_core::device::Level;
use fencing_drivers::clock;
use fencing_drivers::{FenceDriver, FenceSession};
use futures::future::{join_all, pending};
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// A rotated password counts at once, and no connection is kept from others: what is older than this is made again.
pub const LIFE: Duration = Duration::from_secs(1);

/// Drivers of a level's devices, by name; one that could not be made is left out, and why is said when it is needed.
pub struct EarlyDrivers {
    /// What is older than this is made again.
    life: Duration,
    /// When their Secrets were asked for (time since boot).
    asked: Duration,
    made: BTreeMap<String, Made>,
}

struct Made {
    /// Of the FenceDevice, see [`resolve::version`].
    version: String,
    driver: Arc<dyn FenceDriver>,
    connection: Option<Connection>,
}

/// A session in which nothing was asked, and the device's turn.
pub type Connected = (Box<dyn FenceSession>, OwnedMutexGuard<()>);

/// A connection, and the task that opens and closes it.
struct Connection {
    state: Arc<Mutex<State>>,
    task: AbortHandle,
}

enum State {
    Opening,
    Open(Connected),
    /// Given away, too old, or not to be had.
    Closed,
}

impl EarlyDrivers {
    /// Makes the drivers of this level for this node, to be used for so long ([`LIFE`]). Does not wait for connections.
    pub async fn of(
        context: &Context,
        mode: FenceMode,
        level: &Level,
        node: &str,
        life: Duration,
    ) -> Self {
        let asked = clock::since_boot();
        let made = level.devices.iter().map(|device| async {
            let device = context.caches.device(&device.name)?;
            let driver = context.driver(&device, node).await.ok()?;
            // In mode PowerOff the off command comes before the readings, in a session of its own.
            let connection = match mode {
                FenceMode::ConfirmOnly => Connection::begin(context, driver.as_ref(), life),
                FenceMode::PowerOff | FenceMode::Observe => None,
            };
            let made = Made {
                version: resolve::version(&device),
                driver,
                connection,
            };
            Some((device.name_any(), made))
        });
        Self {
            life,
            asked,
            made: join_all(made).await.into_iter().flatten().collect(),
        }
    }

    /// The driver of this version of a FenceDevice, unless it is too old `now` (time since boot).
    pub fn driver(&self, name: &str, version: &str, now: Duration) -> Option<Arc<dyn FenceDriver>> {
        self.made(name, version, now)
            .map(|made| Arc::clone(&made.driver))
    }

    /// What is connected by that driver, under the same conditions, and once. Whatever is not given away here is closed.
    pub fn connected(&self, name: &str, version: &str, now: Duration) -> Option<Connected> {
        let made = self.made.get(name);
        let connected = made.and_then(|made| made.connection.as_ref()?.end());
        self.made(name, version, now).and(connected)
    }

    /// Is a connection open, and not given away yet?
    #[cfg(test)]
    pub fn is_connected(&self) -> bool {
        let is_open = |connection: &Connection| {
            let state = connection
                .state
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            matches!(*state, State::Open(_))
        };
        let mut connections = self.made.values().flat_map(|made| &made.connection);
        connections.any(is_open)
    }

    /// Closes all connections.
    pub fn disconnect(&self) {
        let connections = self.made.values().flat_map(|made| &made.connection);
        connections.for_each(|connection| drop(connection.end()));
    }

    fn made(&self, name: &str, version: &str, now: Duration) -> Option<&Made> {
        let made = self.made.get(name)?;
        let age = now.saturating_sub(self.asked);
        let is_fresh = age <= self.life && made.version == version;
        is_fresh.then_some(made)
    }
}

impl Connection {
    /// Unless somebody else talks to the device; one that cannot be reached says why when it is asked.
    fn begin(context: &Context, driver: &dyn FenceDriver, life: Duration) -> Option<Self> {
        let turn = context.devices.turn_now(driver)?;
        let state = Arc::new(Mutex::new(State::Opening));
        let (mut session, shared) = (driver.open(), Arc::clone(&state));
        let task = tokio::spawn(async move {
            let open = async {
                if session.connect().await.is_ok() {
                    offer(&shared, (session, turn));
                    pending::<()>().await;
                }
            };
            // Nothing to wait for, or long enough.
            let _ = timeout(life, open).await;
            drop(close(&shared));
        });
        Some(Self {
            state,
            task: task.abort_handle(),
        })
    }

    /// Closes it, but for what it gives away.
    fn end(&self) -> Option<Connected> {
        self.task.abort();
        close(&self.state)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.end());
    }
}

fn offer(state: &Mutex<State>, connected: Connected) {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    if matches!(*state, State::Opening) {
        *state = State::Open(connected);
    }
}

fn close(state: &Mutex<State>) -> Option<Connected> {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    match std::mem::replace(&mut *state, State::Closed) {
        State::Open(connected) => Some(connected),
        State::Opening | State::Closed => None,
    }
}
