//! Keeps wrong credentials from locking an account: after three refusals in ten minutes nothing more is sent.
//!
//! BMCs lock an account after a handful of failed logins, and then even the right password fails when the machine has to be
//! fenced. So every session of every driver is wrapped here. Refusals count where the accounts live, at the host, whoever talks: a probe
//! or a fence, of whichever system and over whichever protocol. A Secret that says something else begins anew at once, which is what
//! a human brings about after an alert; one that was merely written again does not. Nor does whoever rewrites it every minute lock
//! anything: there is a limit to what one Secret may try, whatever it says.
//!
//! Many BMCs have users for Redfish who may not use IPMI, or the other way round. So that a device that is set up wrongly does not take
//! one down that works, each port has one try of its own before the refusals of others close it, and is closed by nothing else.

use crate::clock::Clock;
use crate::core::reading::{Identity, Reading};
use crate::fence::address::Address;
use crate::fence::credentials::{Credentials, Digest};
use crate::fence::{DeviceError, Extent, FenceDriver, FenceSession, OffOutcome, Probe};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::hash::RandomState;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Refusals of the same user and password within [`WINDOW`] after which they are not sent any more (docs/faults.md).
const REFUSALS_MAX: usize = 3;
/// The same of one Secret, whatever it said.
const REFUSALS_OF_SECRET_MAX: usize = 6;
/// How long a refusal counts.
const WINDOW: Duration = Duration::from_secs(600);

/// Where somebody logs in, and with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Whoever is reached there has the same users and locks them together.
    host: String,
    port: u16,
    /// Name of the Secret.
    secret: String,
    content: Digest,
}

impl Login {
    /// At this address, with what the Secret of this name says ([`Refusals::digest`]).
    pub fn new(address: &Address, secret: String, content: Digest) -> Self {
        // However the settings write it.
        let host = match address.literal() {
            Some(literal) => literal.to_canonical().to_string(),
            None => address.host.clone(),
        };
        Self {
            host,
            port: address.port,
            secret,
            content,
        }
    }
}

#[derive(Debug)]
struct Refusal {
    login: Login,
    /// Since boot.
    at: Duration,
    error: DeviceError,
}

/// The accounts of one host.
#[derive(Debug, Default)]
struct Host {
    /// What was refused, the oldest first.
    refused: Vec<Refusal>,
    /// What is being sent now.
    trying: Vec<Login>,
}

impl Host {
    /// May this be sent now (time since boot), even if it and all that is under way is refused? If not, one of those has to end first.
    ///
    /// # Errors
    /// The last refusal, if there were so many that nothing must be sent.
    fn has_room(&mut self, login: &Login, now: Duration) -> Result<bool, DeviceError> {
        self.forget_old(now);
        let minutes = WINDOW.as_secs() / 60;
        let of_content = self.has_tries(REFUSALS_MAX, login.port, |other| {
            other.content == login.content
        });
        let of_content = of_content.map_err(|last| {
            let times = format!("{REFUSALS_MAX} times within {minutes} minutes");
            saying(last, &format!("{times}, so nothing more is sent now"))
        })?;
        let of_secret = self.has_tries(REFUSALS_OF_SECRET_MAX, login.port, |other| {
            other.secret == login.secret
        });
        let of_secret = of_secret.map_err(|last| {
            let times = format!("{REFUSALS_OF_SECRET_MAX} times within {minutes} minutes");
            let secret = &login.secret;
            let words = format!(
                "{times}, whatever Secret `{secret}` said, so nothing more is sent until the first of them is {minutes} minutes old"
            );
            saying(last, &words)
        })?;
        Ok(of_content && of_secret)
    }

    /// The same for those logins that share so many tries.
    fn has_tries(
        &self,
        tries: usize,
        port: u16,
        shares: impl Fn(&Login) -> bool,
    ) -> Result<bool, DeviceError> {
        let refused = || self.refused.iter().filter(|refusal| shares(&refusal.login));
        let trying = || self.trying.iter().filter(|login| shares(login));
        let refused_here = refused().rfind(|refusal| refusal.login.port == port);
        let used = refused().count();
        match refused_here {
            Some(last) if used >= tries => Err(last.error.clone()),
            Some(_) => Ok(used + trying().count() < tries),
            None => Ok(used + trying().count() < tries || trying().all(|login| login.port != port)),
        }
    }

    fn forget_old(&mut self, now: Duration) {
        self.refused
            .retain(|refusal| now.saturating_sub(refusal.at) < WINDOW);
    }

    /// Its port takes this login: its account is not locked, and most devices count anew, too. What another protocol refuses, it
    /// may go on refusing.
    fn accept(&mut self, login: &Login) {
        self.refused.retain(|Refusal { login: refused, .. }| {
            let is_same = refused.content == login.content || refused.secret == login.secret;
            refused.port != login.port || !is_same
        });
    }

    fn is_idle(&self) -> bool {
        self.refused.is_empty() && self.trying.is_empty()
    }
}

/// The refusal in the device's own words, and these.
fn saying(mut refusal: DeviceError, words: &str) -> DeviceError {
    if let DeviceError::AuthFailed { said, .. } | DeviceError::UnknownUser { said, .. } =
        &mut refusal
    {
        said.push_str(&format!("; {words}"));
    }
    refusal
}

/// The refusals that still count, of all hosts.
#[derive(Debug, Default)]
pub struct Refusals {
    hosts: Mutex<BTreeMap<String, Host>>,
    /// A login has ended.
    ended: Notify,
    /// Of this process alone.
    key: RandomState,
}

impl Refusals {
    /// What tells these credentials from others for as long as this process lives, and says nothing of what they are.
    pub fn digest(&self, credentials: &Credentials) -> Digest {
        credentials.digest(&self.key)
    }

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
        let has_room = host.has_room(&self.login, self.clock.since_boot())?;
        Ok(has_room.then(|| {
            host.trying.push(self.login.clone());
            Attempt(Arc::clone(self))
        }))
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
                host.refused.push(Refusal {
                    login: login.clone(),
                    at: now,
                    error: error.clone(),
                });
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
            let own = host.trying.iter().position(|trying| trying == login);
            own.map(|own| host.trying.swap_remove(own));
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
            attempt.note(self.session.force_off().await)
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
