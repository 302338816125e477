//! Keeps wrong credentials from locking an account: after three refusals in ten minutes nothing more is sent.
//!
//! BMCs lock an account after a handful of failed logins, and then even the right password fails when the machine has to be
//! fenced. So every session of every driver is wrapped here. Refusals count where the accounts live, at the host, whoever talks: a probe
//! or a fence, of whichever system and over whichever protocol. A Secret that says something else begins anew at once, which is what
//! a human brings about after an alert; one that was merely written again does not. Nor does whoever rewrites it every minute lock
//! anything: there is a limit to what one Secret may try, whatever it says.
//!
//! Many BMCs have users for Redfish who may not use IPMI, or the other way round. So that a device that is set up wrongly does not take
//! one down that works, a port is closed only once it has refused a login itself; until then it has one try at a time. One that has taken
//! a login not long ago counts the refusals of those only that have taken it, too. Logins that are under way count as if they were
//! refused, so that no more than three are sent together; where the login was right a while ago, those that hang do not.

mod tries;

pub use tries::Login;

use fencing_core::reading::{Identity, Reading};
use fencing_drivers::clock::Clock;
use fencing_drivers::{
    DeviceError, Extent, FenceDriver, FenceSession, OffOutcome, OnOutcome, Probe,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;
use tries::{Book, Host, PATIENCE, Room};

/// The refusals that still count, of all hosts.
#[derive(Debug, Default)]
pub struct Refusals {
    book: Mutex<Book>,
    /// A login has ended.
    ended: Notify,
}

impl Refusals {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// What is done with the page of the login's host, at this time since boot.
    fn on_page<T>(&self, act: impl FnOnce(&mut Host, &Login, Duration) -> T) -> T {
        let now = self.clock.since_boot();
        let mut book = self.refusals.book();
        act(book.page(&self.login, now), &self.login, now)
    }

    /// Lets a call through unless the account may be locked: then it is the last refusal that stands. Where others are under way whose
    /// refusals would leave no try for one more, it waits for them: eight systems of one chassis send a wrong password three times.
    async fn enter(self: &Arc<Self>) -> Result<Attempt, DeviceError> {
        loop {
            // Begun before the look, so that no end is missed between the two.
            let ended = self.refusals.ended.notified();
            match self.enter_now()? {
                Some(attempt) => return Ok(attempt),
                // One that hangs does not end, and counts for less after a while.
                None => {
                    let _ = timeout(PATIENCE, ended).await;
                }
            }
        }
    }

    /// The same without waiting; none: it would have to.
    fn enter_now(self: &Arc<Self>) -> Result<Option<Attempt>, DeviceError> {
        self.on_page(|host, login, now| match host.room(login, now) {
            Room::Free => {
                host.begin(login, now);
                Ok(Some(Attempt {
                    gate: Arc::clone(self),
                    is_sent: false,
                }))
            }
            Room::Wait => Ok(None),
            Room::Closed(last) => Err(last),
        })
    }
}

/// A login that is under way, until it is dropped.
#[derive(Debug)]
struct Attempt {
    gate: Arc<Gate>,
    /// A call with it waits for its answer.
    is_sent: bool,
}

impl Attempt {
    /// The answer to a call, counted.
    async fn of<T>(
        &mut self,
        call: BoxFuture<'_, Result<T, DeviceError>>,
    ) -> Result<T, DeviceError> {
        let answer = self.sent(call).await;
        self.note(&answer);
        answer
    }

    /// The answer to a call.
    async fn sent<T>(
        &mut self,
        call: BoxFuture<'_, Result<T, DeviceError>>,
    ) -> Result<T, DeviceError> {
        self.is_sent = true;
        let answer = call.await;
        self.is_sent = false;
        answer
    }

    fn note<T>(&self, answer: &Result<T, DeviceError>) {
        self.gate.on_page(|host, login, now| match answer {
            Ok(_) => host.accept(login, now),
            // An unknown user today may be a known one with another Secret; some devices lock the address and not the account.
            Err(error) if error.refuses_credentials() => host.refuse(login, error, now),
            // Not NoAnswer: no login was sent, or it was taken.
            Err(DeviceError::Timeout { .. } | DeviceError::LoginUnanswered { .. }) => {
                host.unanswered(login, now);
            }
            Err(_) => {}
        });
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.gate.on_page(|host, login, now| {
            host.end(login);
            if self.is_sent {
                host.unanswered(login, now);
            }
        });
        self.gate.refusals.ended.notify_waiters();
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
            let mut attempt = self.attempt().await?;
            attempt.of(self.session.observe()).await
        }
        .boxed()
    }

    fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>> {
        async {
            let mut attempt = self.attempt().await?;
            let identity = attempt.of(self.session.prepare_off()).await?;
            self.ahead = Some(attempt);
            Ok(identity)
        }
        .boxed()
    }

    fn seen(&self) -> Option<Reading> {
        self.session.seen()
    }

    fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>> {
        async {
            let mut attempt = self.attempt().await?;
            let answer = attempt.sent(self.session.force_off()).await;
            // Where the outcome is unknown, nothing was said about the login either.
            if !matches!(answer, Ok(OffOutcome::Unknown(_))) {
                attempt.note(&answer);
            }
            answer
        }
        .boxed()
    }

    fn prepare_on(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        async {
            let mut kept = self.attempt().await?;
            let reading = kept.of(self.session.prepare_on()).await?;
            self.ahead = Some(kept);
            Ok(reading)
        }
        .boxed()
    }

    fn power_on(&mut self) -> BoxFuture<'_, Result<OnOutcome, DeviceError>> {
        async {
            let mut attempt = self.attempt().await?;
            let answer = attempt.sent(self.session.power_on()).await;
            // As of a power-off.
            if !matches!(answer, Ok(OnOutcome::Unknown(_))) {
                attempt.note(&answer);
            }
            answer
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
            let mut attempt = self.attempt().await?;
            attempt.of(self.session.probe(extent)).await
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
