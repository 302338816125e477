//! Keeps wrong credentials from locking an account: after three refusals in ten minutes nothing more is sent.
//!
//! BMCs lock an account after a handful of failed logins, and then even the right password fails when the machine has to be
//! fenced. So every session of every driver is wrapped here: it counts refusals per target and Secret, whoever talks, a probe or
//! a fence. A Secret that was written again begins anew at once, which is what a human does after an alert.

use crate::clock::Clock;
use crate::core::reading::{Identity, Reading};
use crate::fence::{DeviceError, Extent, FenceDriver, FenceSession, OffOutcome, Probe};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Refusals within [`WINDOW`] after which nothing more is sent (docs/faults.md).
const REFUSALS_MAX: usize = 3;
/// How long a refusal counts.
const WINDOW: Duration = Duration::from_secs(600);

/// Whose refusals count together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Account {
    /// [`FenceDriver::endpoint`]: an account is locked at its device, whichever machine of it was asked for.
    endpoint: String,
    /// Name and `resourceVersion` of the Secret: one that was written again is another account.
    secret: (String, String),
}

/// The refusals that still count, of all accounts, with their times (since boot).
#[derive(Debug, Default)]
pub struct Refusals(Mutex<BTreeMap<Account, Vec<(Duration, DeviceError)>>>);

impl Refusals {
    /// The last refusal of this account, if there were so many that nothing must be sent now (time since boot).
    fn lock(&self, account: &Account, now: Duration) -> Option<DeviceError> {
        let refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counting = refusals.get(account).into_iter().flatten();
        let counting: Vec<_> = counting.filter(|(at, _)| counts(*at, now)).collect();
        let (_, last) = counting.last()?;
        (counting.len() >= REFUSALS_MAX).then(|| last.clone())
    }

    fn note(&self, account: &Account, now: Duration, refusal: &DeviceError) {
        let mut refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.retain(|_, refusals| {
            refusals.retain(|(at, _)| counts(*at, now));
            !refusals.is_empty()
        });
        let of_account = refusals.entry(account.clone()).or_default();
        of_account.push((now, refusal.clone()));
    }

    /// A login has succeeded: the account is not locked.
    fn forget(&self, account: &Account) {
        let mut refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.remove(account);
    }
}

fn counts(at: Duration, now: Duration) -> bool {
    now.saturating_sub(at) < WINDOW
}

/// A driver whose refusals are counted.
#[derive(Debug)]
pub struct Guarded {
    driver: Arc<dyn FenceDriver>,
    gate: Gate,
}

#[derive(Debug, Clone)]
struct Gate {
    account: Account,
    refusals: Arc<Refusals>,
    clock: Clock,
}

impl Guarded {
    /// Counts the refusals of `driver`, which uses the Secret of this name and `resourceVersion`.
    pub fn new(
        driver: Arc<dyn FenceDriver>,
        secret: (String, String),
        refusals: Arc<Refusals>,
        clock: Clock,
    ) -> Self {
        let account = Account {
            endpoint: driver.endpoint(),
            secret,
        };
        let gate = Gate {
            account,
            refusals,
            clock,
        };
        Self { driver, gate }
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
            gate: self.gate.clone(),
        })
    }
}

impl Gate {
    /// Lets the call through unless the account is locked: then it is the last refusal that stands, in the device's own words.
    fn enter(&self) -> Result<(), DeviceError> {
        let locked = self.refusals.lock(&self.account, self.clock.since_boot());
        let Some(mut refusal) = locked else {
            return Ok(());
        };
        if let DeviceError::AuthFailed { said, .. } | DeviceError::UnknownUser { said, .. } =
            &mut refusal
        {
            said.push_str(&format!(
                "; {REFUSALS_MAX} times within {} minutes, so nothing more is sent now",
                WINDOW.as_secs() / 60
            ));
        }
        Err(refusal)
    }

    /// Counts a refusal, and passes the outcome on.
    fn leave<T>(&self, outcome: Result<T, DeviceError>) -> Result<T, DeviceError> {
        match &outcome {
            Ok(_) => self.refusals.forget(&self.account),
            // An unknown user today may be a known one with another Secret; some devices lock the address and not the account.
            Err(error) if error.refuses_credentials() => {
                let now = self.clock.since_boot();
                self.refusals.note(&self.account, now, error);
            }
            Err(_) => {}
        }
        outcome
    }
}

#[derive(Debug)]
struct GuardedSession {
    session: Box<dyn FenceSession>,
    gate: Gate,
}

impl FenceSession for GuardedSession {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>> {
        // No login, so nothing to count.
        self.session.connect()
    }

    fn observe(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        async {
            self.gate.enter()?;
            self.gate.leave(self.session.observe().await)
        }
        .boxed()
    }

    fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>> {
        async {
            self.gate.enter()?;
            self.gate.leave(self.session.prepare_off().await)
        }
        .boxed()
    }

    fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>> {
        async {
            self.gate.enter()?;
            self.gate.leave(self.session.force_off().await)
        }
        .boxed()
    }

    fn probe(&mut self, extent: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>> {
        async move {
            self.gate.enter()?;
            self.gate.leave(self.session.probe(extent).await)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Refuses every login but counts them.
    #[derive(Debug, Default)]
    struct Refusing(Arc<AtomicUsize>);

    impl FenceDriver for Refusing {
        fn name(&self) -> &'static str {
            "redfish"
        }

        fn target(&self) -> String {
            "bmc:443".to_owned()
        }

        fn open(&self) -> Box<dyn FenceSession> {
            Box::new(Self(Arc::clone(&self.0)))
        }
    }

    impl Refusing {
        fn refuse<T: Send + 'static>(&self) -> BoxFuture<'static, Result<T, DeviceError>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let endpoint = "bmc:443".to_owned();
            let said = "401".to_owned();
            async { Err(DeviceError::AuthFailed { endpoint, said }) }.boxed()
        }
    }

    impl FenceSession for Refusing {
        fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>> {
            self.refuse()
        }
        fn observe(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
            self.refuse()
        }
        fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>> {
            self.refuse()
        }
        fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>> {
            self.refuse()
        }
        fn probe(&mut self, _: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>> {
            self.refuse()
        }
    }

    fn account(version: &str) -> Account {
        let secret = ("s".to_owned(), version.to_owned());
        Account {
            endpoint: "bmc:443".to_owned(),
            secret,
        }
    }

    #[test]
    fn a_fourth_login_within_ten_minutes_is_not_sent() {
        let sent = Arc::new(AtomicUsize::new(0));
        let refusals = Arc::new(Refusals::default());
        let driver = |version: &str| {
            Guarded::new(
                Arc::new(Refusing(Arc::clone(&sent))),
                account(version).secret,
                Arc::clone(&refusals),
                Clock::SYSTEM,
            )
        };
        for _ in 0..5 {
            let outcome = block_on(driver("1").open().probe(Extent::Needed));
            assert!(matches!(outcome, Err(DeviceError::AuthFailed { .. })));
            let outcome = block_on(driver("1").open().prepare_off());
            assert!(matches!(outcome, Err(DeviceError::AuthFailed { .. })));
        }
        // What the device said is not forgotten for it.
        let locked = block_on(driver("1").open().observe()).expect_err("locked");
        let says = "(401; 3 times within 10 minutes, so nothing more is sent now)";
        assert!(locked.to_string().contains(says), "{locked}");
        assert_eq!(sent.load(Ordering::Relaxed), 3);
        // The Secret was written again.
        let _ = block_on(driver("2").open().observe());
        assert_eq!(sent.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_refusal_counts_for_ten_minutes_or_until_a_login_succeeds() {
        let refusals = Refusals::default();
        let at = Duration::from_secs;
        let refusal = |said: u64| DeviceError::UnknownUser {
            endpoint: "bmc:443".to_owned(),
            said: said.to_string(),
        };
        for second in [0, 1, 2] {
            assert_eq!(refusals.lock(&account("1"), at(second)), None);
            refusals.note(&account("1"), at(second), &refusal(second));
        }
        assert_eq!(refusals.lock(&account("1"), at(599)), Some(refusal(2)));
        assert_eq!(refusals.lock(&account("1"), at(600)), None);
        refusals.forget(&account("1"));
        assert_eq!(refusals.lock(&account("1"), at(3)), None);
    }
}
