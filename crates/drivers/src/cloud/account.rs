//! What all sessions with one login share: its token, and how fast it asks. Never a reading that a proof or a command rests on.
//!
//! A provider throttles an account as a whole, and a hundred nodes have one account: so the brake is here, and not at a machine. A power
//! command counts and never waits, since whether it may be sent was asked before (F12). A read waits for its turn, and one that is given up takes
//! none. A look in peace time begins only while a part of the burst is left, so that a fence finds no queue of them.

use super::fleet::Fleet;
use super::surroundings::Surroundings;
use crate::address::Address;
use crate::clock::Clock;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex as Turn, MutexGuard as Taken};
use tokio::time::sleep;
use zeroize::Zeroizing;

/// Accounts that are kept: those of devices that are gone go once there are so many.
const ACCOUNTS_MAX: usize = 256;
/// A token is not renewed because of a refusal within so long: a request that it does not cover is refused by every token.
const RENEWED_WITHIN: Duration = Duration::from_mins(1);
/// A token is renewed so long before its end.
const END_BEFORE: Duration = Duration::from_mins(1);

/// How often an account may be asked.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// One request in so long, over a longer time.
    pub period: Duration,
    /// Requests that may be sent at once after a pause. Half of them are left to fences: with fewer no look in peace time begins.
    pub burst: u32,
    /// A page of a list serves probes for so long, and a list is begun no sooner after another one: a minute is once for each probe of a fleet that
    /// is probed as often.
    pub list_age_max: Duration,
}

impl Pace {
    /// Where no limit is known.
    pub const USUAL: Self = Self {
        period: Duration::from_millis(50),
        burst: 100,
        list_age_max: Duration::from_mins(1),
    };
}

/// A token, and what came with it.
#[derive(Clone)]
pub struct Grant {
    /// The token; of several texts, one a line.
    pub token: Zeroizing<String>,
    /// When it ends, since boot of this host.
    pub until: Duration,
    /// When it was given, on the same clock.
    pub since: Duration,
    /// Where the service is, by region.
    pub endpoints: Vec<(String, String)>,
}

/// Shows no token.
impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("until", &self.until)
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}

/// One login at one provider.
#[derive(Debug)]
pub struct Account {
    clock: Clock,
    pace: Pace,
    grant: Mutex<Option<Grant>>,
    /// When the next request could be sent, had there been no pause.
    next: Mutex<Duration>,
    /// Who waits for the brake.
    queue: Turn<()>,
    login: Turn<()>,
    /// What its lists say, for probes.
    pub fleet: Fleet,
}

impl Account {
    fn new(pace: Pace, clock: Clock) -> Self {
        Self {
            clock,
            pace,
            grant: Mutex::default(),
            next: Mutex::default(),
            queue: Turn::default(),
            login: Turn::default(),
            fleet: Fleet::default(),
        }
    }

    /// Waits until one more request may be sent, and counts it. Whoever gives up has taken nothing.
    pub async fn turn(&self) {
        let _first = self.queue.lock().await;
        loop {
            // A command may have come between.
            let wait = self.wait_beyond(self.pace.burst);
            if wait.is_zero() {
                return self.count();
            }
            sleep(wait).await;
        }
    }

    /// Counts a request that does not wait.
    pub fn count(&self) {
        let now = self.clock.since_boot();
        let mut next = lock(&self.next);
        *next = now.max(*next) + self.pace.period;
    }

    /// May a look in peace time begin?
    #[must_use]
    pub fn has_turns_to_spare(&self) -> bool {
        self.wait_beyond(self.pace.burst / 2).is_zero()
    }

    /// How long one more request would wait if so many might be sent at once after a pause.
    fn wait_beyond(&self, burst: u32) -> Duration {
        let now = self.clock.since_boot();
        let next = *lock(&self.next);
        let behind = next.saturating_sub(now);
        (behind + self.pace.period).saturating_sub(self.pace.period * burst)
    }

    /// The token, if it holds for a while.
    #[must_use]
    pub fn grant(&self) -> Option<Grant> {
        let now = self.clock.since_boot();
        let grant = lock(&self.grant).clone();
        grant.filter(|grant| now + END_BEFORE < grant.until)
    }

    /// One login at a time: the others wait, and find the token of the first.
    pub async fn login(&self) -> Taken<'_, ()> {
        self.login.lock().await
    }

    /// The token of a login.
    pub fn keep(&self, grant: Grant) {
        *lock(&self.grant) = Some(grant);
    }

    /// This token was refused: drops it if it has held for a while, so that it may have been revoked. A younger one was refused for what was
    /// asked, and another would be too.
    #[must_use]
    pub fn drop_refused(&self, refused: &Grant) -> bool {
        let now = self.clock.since_boot();
        if now.saturating_sub(refused.since) < RENEWED_WITHIN {
            return false;
        }
        self.drop_ended(refused);
        true
    }

    /// This token has ended before its time, as the service itself says; one that has come since is kept.
    pub fn drop_ended(&self, ended: &Grant) {
        let mut grant = lock(&self.grant);
        if grant.as_ref().is_some_and(|it| it.token == ended.token) {
            *grant = None;
        }
    }

    /// A text without the token, which a service may repeat.
    #[must_use]
    pub fn without_token(&self, text: &str) -> String {
        match &*lock(&self.grant) {
            Some(grant) => {
                let parts = grant.token.lines();
                parts.fold(text.to_owned(), |text, part| text.replace(part, "***"))
            }
            None => text.to_owned(),
        }
    }
}

/// Driver, address, and name of the Secret.
type Key = (&'static str, String, String);

/// All accounts of this process, each with the version of its Secret, and what the process was given to log in with.
#[derive(Debug, Default)]
pub struct Accounts(Mutex<HashMap<Key, (String, Arc<Account>)>>, Surroundings);

impl Accounts {
    /// Those of a process that was given this.
    #[must_use]
    pub fn in_these(surroundings: Surroundings) -> Self {
        Self(Mutex::default(), surroundings)
    }

    /// What the process was given.
    #[must_use]
    pub fn surroundings(&self) -> &Surroundings {
        &self.1
    }

    /// The account that this version of the Secret opens there: another version begins without a token, and forgets no place of a machine.
    pub fn of(
        &self,
        (driver, pace): (&'static str, Pace),
        address: &Address,
        (secret, version): &(String, String),
        clock: Clock,
    ) -> Arc<Account> {
        let mut accounts = lock(&self.0);
        if accounts.len() >= ACCOUNTS_MAX {
            accounts.retain(|_, (_, account)| Arc::strong_count(account) > 1);
        }
        let made = |fleet| {
            let account = Account {
                fleet,
                ..Account::new(pace, clock)
            };
            (version.clone(), Arc::new(account))
        };
        // One of plain http has a token that is not to be taken for another's: what it is sent by was never checked.
        let scheme = if address.plaintext { "http" } else { "https" };
        let key = (driver, format!("{scheme}://{address}"), secret.clone());
        let (known, account) = accounts
            .entry(key)
            .or_insert_with(|| made(Fleet::default()));
        if known != version {
            (*known, *account) = made(account.fleet.behind_another_login());
        }
        Arc::clone(account)
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::MachineId;
    use crate::cloud::fleet::Place;
    use tokio::time::timeout;

    const STILL: Clock = Clock {
        since_boot: || Duration::from_secs(1000),
        wall: || jiff::Timestamp::UNIX_EPOCH,
    };

    fn grant(token: &str, since: u64, until: u64) -> Grant {
        Grant {
            token: Zeroizing::new(token.to_owned()),
            until: Duration::from_secs(until),
            since: Duration::from_secs(since),
            endpoints: Vec::new(),
        }
    }

    const BURST: u32 = Pace::USUAL.burst;
    const PERIOD: Duration = Pace::USUAL.period;

    fn account() -> Account {
        Account::new(Pace::USUAL, STILL)
    }

    #[test]
    fn a_burst_is_let_through_and_half_of_it_is_kept_for_fences() {
        let account = account();
        for sent in 0..BURST {
            assert_eq!(account.has_turns_to_spare(), sent < 50, "{sent}");
            assert!(account.wait_beyond(BURST).is_zero(), "{sent}");
            account.count();
        }
        assert_eq!(account.wait_beyond(BURST), PERIOD);
        account.count();
        assert_eq!(account.wait_beyond(BURST), PERIOD * 2);
    }

    /// A thousand reads that were given up once made those of a fence wait for a minute.
    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_given_up_takes_no_turn() {
        let account = account();
        for _ in 0..BURST {
            account.turn().await;
        }
        let given_up = (0..1000).map(|_| timeout(Duration::from_millis(1), account.turn()));
        let given_up = futures::future::join_all(given_up).await;
        assert!(given_up.iter().all(Result::is_err));
        assert_eq!(account.wait_beyond(BURST), PERIOD);
    }

    #[test]
    fn a_device_without_tls_has_no_token_of_one_with_it() {
        let accounts = Accounts::default();
        let of = |url: &str| {
            let address = Address::parse(url).expect("an address");
            let secret = (String::new(), String::new());
            accounts.of(("azure", Pace::USUAL), &address, &secret, STILL)
        };
        let account = of("https://cloud:443");
        assert!(Arc::ptr_eq(&account, &of("https://cloud")));
        assert!(!Arc::ptr_eq(&account, &of("http://cloud:443")));
    }

    #[test]
    fn a_token_is_used_until_shortly_before_its_end() {
        let account = account();
        assert!(account.grant().is_none());
        account.keep(grant("long", 0, 1061));
        assert!(account.grant().is_some());
        account.keep(grant("short", 0, 1060));
        assert!(account.grant().is_none());
    }

    #[test]
    fn a_young_token_that_is_refused_is_not_the_reason() {
        let account = account();
        let (old, young) = (grant("old", 940, 9000), grant("young", 941, 9000));
        account.keep(young.clone());
        assert!(!account.drop_refused(&young));
        assert!(account.grant().is_some());
        assert!(account.drop_refused(&old), "it is not the one that is kept");
        assert!(account.grant().is_some());
        account.keep(old.clone());
        assert!(account.drop_refused(&old));
        assert!(account.grant().is_none());
    }

    #[test]
    fn a_token_is_shown_nowhere() {
        let account = account();
        account.keep(grant("gAAAAB-secret", 0, 9000));
        let shown = format!("{account:?} {}", account.without_token("x gAAAAB-secret y"));
        assert!(!shown.contains("gAAAAB"), "{shown}");
        assert!(shown.ends_with("x *** y"), "{shown}");
        account.keep(grant("AKID\nsecret\nsession", 0, 9000));
        assert_eq!(
            account.without_token("the secret of AKID"),
            "the *** of ***"
        );
    }

    #[test]
    fn another_version_of_the_secret_begins_without_a_token() {
        let accounts = Accounts::default();
        let address = Address::parse("https://cloud.example.com").expect("an address");
        let of = |version: &str| {
            let secret = ("login".to_owned(), version.to_owned());
            accounts.of(("openstack", Pace::USUAL), &address, &secret, STILL)
        };
        of("1").keep(grant("one", 0, 9000));
        assert!(of("1").grant().is_some());
        assert!(of("2").grant().is_none());
    }

    /// S7: whoever renews a password, or writes a label on the Secret, has moved no machine.
    #[test]
    fn another_version_of_the_secret_forgets_no_place() {
        let accounts = Accounts::default();
        let address = Address::parse("https://cloud.example.com").expect("an address");
        let of = |version: &str| {
            let secret = ("login".to_owned(), version.to_owned());
            accounts.of(("proxmox", Pace::USUAL), &address, &secret, STILL)
        };
        let id = MachineId {
            id: "104".to_owned(),
            region: None,
            node: "worker-1".to_owned(),
            is_reported: false,
            addresses: Vec::new(),
        };
        let seconds = Duration::from_secs;
        let places = of("1")
            .fleet
            .note_places(&id, "uid-1", &[Place::named("a")].into());
        of("1").fleet.note_on(&id, seconds(1), Some("a"));
        assert_eq!(of("2").fleet.places_of(&id), places);
        assert_eq!(of("2").fleet.last_on(&id).as_deref(), Some("a"));
    }
}
