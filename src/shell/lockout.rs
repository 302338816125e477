//! Keeps wrong credentials from locking an account: after three refusals in ten minutes nothing more is sent.
//!
//! BMCs lock an account after a handful of failed logins, and then even the right password fails when the machine has to be
//! fenced. So every session of every driver is wrapped here. Refusals count where the accounts live, at the host, whoever talks: a probe
//! or a fence, of whichever system and over whichever protocol. A Secret that says something else begins anew at once, which is what
//! a human brings about after an alert; one that was merely written again does not. Nor does whoever rewrites it every minute lock
//! anything: there is a limit to what one Secret may try, whatever it says.
//!
//! Many BMCs have users for Redfish who may not use IPMI, or the other way round. So that a device that is set up wrongly does not take
//! one down that works, a port is closed only once it has refused a login itself; until then it has one try at a time. Logins that are
//! under way count as if they were refused, so at most three calls with the same credentials are under way to a host, also while all
//! is well: that is why sixteen blades of one chassis manager are not read at once.

mod tries;

pub use tries::Login;

use crate::clock::Clock;
use crate::core::reading::{Identity, Reading};
use crate::fence::{DeviceError, Extent, FenceDriver, FenceSession, OffOutcome, Probe};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tries::{Host, Room};

/// The refusals that still count, of all hosts.
#[derive(Debug, Default)]
pub struct Refusals {
    hosts: Mutex<BTreeMap<String, Host>>,
    /// A login has ended.
    ended: Notify,
}

impl Refusals {
    fn hosts(&self) -> MutexGuard<'_, BTreeMap<String, Host>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A driver whose refusals are counted.
#[derive(Debug)]
pub struct Guarded {
    driver: Arc<dyn FenceDriver>,
    gate: Arc<Gate>,
}

impl Guarded {
    /// Counts the refusals of `driver`, which logs in like this.
    pub fn new(
        driver: Arc<dyn FenceDriver>,
        login: Login,
        refusals: Arc<Refusals>,
        clock: Clock,
    ) -> Self {
        let gate = Gate {
            login,
            refusals,
            clock,
        };
        Self {
            driver,
            gate: Arc::new(gate),
        }
    }
}

impl FenceDriver for Guarded {
    fn name(&self) -> &'static str {
        self.driver.name()
    }

    fn target(&self) -> String {
        self.driver.target()
    }

    fn endpoint(&self) -> String {
        self.driver.endpoint()
    }

    fn open(&self) -> Box<dyn FenceSession> {
        Box::new(GuardedSession {
            session: self.driver.open(),
            gate: Arc::clone(&self.gate),
            ahead: None,
        })
    }
}

#[derive(Debug)]
struct Gate {
    login: Login,
    refusals: Arc<Refusals>,
    clock: Clock,
}

impl Gate {
    /// Lets a call through unless the account may be locked: then it is the last refusal that stands. Where others are under way whose
    /// refusals would leave no try for one more, it waits for them: eight systems of one chassis send a wrong password three times.
    async fn enter(self: &Arc<Self>) -> Result<Attempt, DeviceError> {
        loop {
            // Begun before the look, so that no end is missed between the two.
            let ended = self.refusals.ended.notified();
            match self.enter_now()? {
                Some(attempt) => return Ok(attempt),
                None => ended.await,
            }
        }
    }

    /// The same without waiting; none: it would have to.
    fn enter_now(self: &Arc<Self>) -> Result<Option<Attempt>, DeviceError> {
        let mut hosts = self.refusals.hosts();
        let host = hosts.entry(self.login.host.clone()).or_default();
        match host.room(&self.login, self.clock.since_boot()) {
            Room::Free => {
                host.begin(&self.login);
                Ok(Some(Attempt(Arc::clone(self))))
            }
            Room::Wait => Ok(None),
            Room::Closed(last) => Err(last),
        }
    }
}

/// A login that is under way, until it is dropped.
#[derive(Debug)]
struct Attempt(Arc<Gate>);

impl Attempt {
    /// Counts a refusal, and passes the outcome on.
    fn note<T>(&self, outcome: Result<T, DeviceError>) -> Result<T, DeviceError> {
        let Gate {
            login,
            refusals,
            clock,
        } = &*self.0;
        let mut hosts = refusals.hosts();
        match &outcome {
            Ok(_) => hosts.entry(login.host.clone()).or_default().accept(login),
            // An unknown user today may be a known one with another Secret; some devices lock the address and not the account.
            Err(error) if error.refuses_credentials() => {
                let now = clock.since_boot();
                // Nobody may ask again at a host that is no device's any more.
                hosts.retain(|_, host| {
                    host.forget_old(now);
                    !host.is_idle()
                });
                let host = hosts.entry(login.host.clone()).or_default();
                host.refuse(login, error, now);
            }
            Err(_) => {}
        }
        outcome
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let Gate {
            login, refusals, ..
        } = &*self.0;
        let mut hosts = refusals.hosts();
        if let Some(host) = hosts.get_mut(&login.host) {
            host.end(login);
            if host.is_idle() {
                hosts.remove(&login.host);
            }
        }
        drop(hosts);
        refusals.ended.notify_waiters();
    }
}

#[derive(Debug)]
struct GuardedSession {
    session: Box<dyn FenceSession>,
    gate: Arc<Gate>,
    /// Kept from a preparation to its command, which waits for nobody (F12), or taken ahead for the next call.
    ahead: Option<Attempt>,
}

impl GuardedSession {
    async fn attempt(&mut self) -> Result<Attempt, DeviceError> {
        match self.ahead.take() {
            Some(attempt) => Ok(attempt),
            None => self.gate.enter().await,
        }
    }
}

impl FenceSession for GuardedSession {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>> {
        // No login, so nothing to count.
        self.session.connect()
    }

    fn observe(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        async {
            let attempt = self.attempt().await?;
            attempt.note(self.session.observe().await)
        }
        .boxed()
    }

    fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>> {
        async {
            let attempt = self.attempt().await?;
            let identity = attempt.note(self.session.prepare_off().await)?;
            self.ahead = Some(attempt);
            Ok(identity)
        }
        .boxed()
    }

    fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>> {
        async {
            let attempt = self.attempt().await?;
            match self.session.force_off().await {
                // Nothing was said about the login either.
                Ok(OffOutcome::Unknown(error)) => Ok(OffOutcome::Unknown(error)),
                outcome => attempt.note(outcome),
            }
        }
        .boxed()
    }

    fn take_turn_now(&mut self) -> bool {
        if self.ahead.is_none() {
            match self.gate.enter_now() {
                Ok(Some(attempt)) => self.ahead = Some(attempt),
                Ok(None) => return false,
                // Whoever asks is told why.
                Err(_) => {}
            }
        }
        self.session.take_turn_now()
    }

    fn probe(&mut self, extent: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>> {
        async move {
            let attempt = self.attempt().await?;
            attempt.note(self.session.probe(extent).await)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
