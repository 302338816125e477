//! The book that is kept of a host's logins: what it has refused, what is under way, and whether one more may be sent.

use fencing_drivers::DeviceError;
use fencing_drivers::address::Address;
use fencing_drivers::credentials::Digest;
use std::collections::BTreeMap;
use std::time::Duration;

/// Refusals of the same user and password within [`WINDOW`] after which they are not sent any more (docs/faults.md).
const REFUSALS_MAX: usize = 3;
/// The same of one Secret, whatever it said.
const REFUSALS_OF_SECRET_MAX: usize = 6;
/// How long a refusal counts.
const WINDOW: Duration = Duration::from_secs(600);
/// A login that has not ended by then is taken to hang, and no longer keeps the next one waiting.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

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
    /// At this address, with what the Secret of this name says.
    pub fn new(address: &Address, secret: String, content: Digest) -> Self {
        Self {
            // In one spelling, however the settings write it.
            host: address.host.clone(),
            port: address.port,
            secret,
            content,
        }
    }
}

/// A login that was refused.
#[derive(Debug)]
struct Refusal {
    login: Login,
    /// Since boot.
    at: Duration,
    error: DeviceError,
}

/// May one more login be sent?
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Yes, even if it and all that is under way is refused.
    Free,
    /// One of those that are under way has to end first.
    Wait,
    /// No: so many were refused, this one last.
    Closed(DeviceError),
}

/// All hosts of which something counts.
#[derive(Debug, Default)]
pub(super) struct Book {
    hosts: BTreeMap<String, Host>,
    /// When those of which nothing counts were dropped last (time since boot).
    swept: Duration,
}

impl Book {
    /// The page of the login's host at this time since boot.
    pub(super) fn page(&mut self, login: &Login, now: Duration) -> &mut Host {
        if now.saturating_sub(self.swept) >= WINDOW {
            self.swept = now;
            self.hosts.retain(|_, host| {
                host.forget_old(now);
                !host.is_idle()
            });
        }
        self.hosts.entry(login.host.clone()).or_default()
    }
}

/// The logins of one host.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// What was refused, the oldest first.
    refused: Vec<Refusal>,
    /// What is being sent now, and since when.
    trying: Vec<(Login, Duration)>,
    /// What was accepted last at each port, and when.
    accepted: Vec<(Login, Duration)>,
}

impl Host {
    /// May this be sent now (time since boot)?
    pub(super) fn room(&mut self, login: &Login, now: Duration) -> Room {
        self.forget_old(now);
        let same_content = |other: &Login| other.content == login.content;
        let then = || "the same credentials are sent again then, new ones without delay".to_owned();
        match self.room_among(same_content, REFUSALS_MAX, login, now, then) {
            Room::Free => {
                let same_secret = |other: &Login| other.secret == login.secret;
                let then = || format!("also those of Secret `{}`", login.secret);
                self.room_among(same_secret, REFUSALS_OF_SECRET_MAX, login, now, then)
            }
            no_room => no_room,
        }
    }

    /// The same for those logins that share so many tries, and what is said where they are used up.
    fn room_among(
        &self,
        shares: impl Fn(&Login) -> bool,
        tries: usize,
        login: &Login,
        now: Duration,
        then: impl FnOnce() -> String,
    ) -> Room {
        let is_here = |other: &Login| other.port == login.port;
        let is_known = self.is_known(login);
        // Who never had this login does not take it away where it is right; who had it, shares its account.
        let counts =
            |other: &Login| shares(other) && (!is_known || is_here(other) || self.is_known(other));
        let refused = self.refused.iter().filter(|refusal| counts(&refusal.login));
        let under_way = self.trying.iter().filter(|(other, _)| counts(other));
        let refused_here = refused.clone().rfind(|refusal| is_here(&refusal.login));
        let mut here = under_way.clone().filter(|(other, _)| is_here(other));
        let is_young = |since: &Duration| now.saturating_sub(*since) < PATIENCE;
        // Where the login was right a while ago, those that hang keep nobody from it: it has been changed at most.
        let has_own_try = match is_known {
            true => here.filter(|(_, since)| is_young(since)).count() < tries,
            false => here.next().is_none(),
        };
        let used = refused.count();
        match refused_here {
            Some(last) if used >= tries => {
                let minutes = WINDOW.as_secs() / 60;
                let words = format!(
                    "{tries} times within {minutes} minutes at this host; the next attempt is made when the first is {minutes} minutes old: {}",
                    then()
                );
                Room::Closed(saying(last.error.clone(), &words))
            }
            None if has_own_try => Room::Free,
            _ if used + under_way.count() < tries => Room::Free,
            _ => Room::Wait,
        }
    }

    /// It is being sent, from this time since boot on.
    pub(super) fn begin(&mut self, login: &Login, now: Duration) {
        self.trying.push((login.clone(), now));
    }

    /// It has ended, or nobody waits for it any more.
    pub(super) fn end(&mut self, login: &Login) {
        if let Some(own) = self.trying.iter().position(|(trying, _)| trying == login) {
            self.trying.swap_remove(own);
        }
        if self.trying.is_empty() {
            self.trying = Vec::new();
        }
    }

    /// Its port has taken this login not long ago: it is right here, whatever is refused elsewhere.
    fn is_known(&self, login: &Login) -> bool {
        self.accepted
            .iter()
            .any(|(accepted, _)| accepted.port == login.port && accepted.content == login.content)
    }

    /// It was refused at this time since boot.
    pub(super) fn refuse(&mut self, login: &Login, error: &DeviceError, at: Duration) {
        self.refused.push(Refusal {
            login: login.clone(),
            at,
            error: error.clone(),
        });
    }

    /// It was sent, and nobody has heard an answer by this time since boot. Where the last answer of its port was a refusal, this is one,
    /// too: a device may take longer to refuse than anybody waits.
    pub(super) fn unanswered(&mut self, login: &Login, at: Duration) {
        let same = |refusal: &&Refusal| {
            refusal.login.port == login.port && refusal.login.content == login.content
        };
        let last = self.refused.iter().rfind(same);
        if let Some(error) = last.map(|refusal| refusal.error.clone()) {
            self.refuse(login, &error, at);
        }
    }

    /// Its port takes this login at this time since boot: its account is not locked, and most devices count anew, too. What another
    /// protocol refuses, it may go on refusing.
    pub(super) fn accept(&mut self, login: &Login, at: Duration) {
        self.accepted
            .retain(|(before, _)| before.port != login.port);
        // Most hosts have one port, and there may be thousands of them.
        self.accepted.reserve_exact(1);
        self.accepted.push((login.clone(), at));
        self.refused.retain(|Refusal { login: refused, .. }| {
            let is_same = refused.content == login.content || refused.secret == login.secret;
            refused.port != login.port || !is_same
        });
    }

    /// Drops what does not count any more at this time since boot.
    fn forget_old(&mut self, now: Duration) {
        let counts = |at: Duration| now.saturating_sub(at) < WINDOW;
        self.refused.retain(|refusal| counts(refusal.at));
        self.accepted.retain(|(_, at)| counts(*at));
    }

    /// Is there nothing to remember?
    fn is_idle(&self) -> bool {
        self.refused.is_empty() && self.trying.is_empty() && self.accepted.is_empty()
    }
}

/// The refusal in the device's own words, and these.
fn saying(mut refusal: DeviceError, words: &str) -> DeviceError {
    if let DeviceError::AuthFailed { said, .. }
    | DeviceError::BasicNotOffered { said, .. }
    | DeviceError::UnknownUser { said, .. } = &mut refusal
    {
        said.push_str(&format!("; {words}"));
    }
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_drivers::credentials::Credentials;
    use std::hash::RandomState;

    fn login() -> Login {
        let address = Address::parse("https://bmc").expect("an address");
        let data = [("username", "root"), ("password", "wrong")];
        let data = data.map(|(key, value)| (key.to_owned(), value.into()));
        let credentials = Credentials::from_secret("s", &data.into(), &BTreeMap::new());
        let content = credentials.expect("credentials");
        Login::new(
            &address,
            "s".to_owned(),
            content.digest(&RandomState::new()),
        )
    }

    /// Systems of one chassis that hang do not keep the others from being fenced, where the login was right a while ago.
    #[test]
    fn a_login_that_hangs_keeps_nobody_from_a_host_that_took_it() {
        let login = login();
        let at = Duration::from_secs;
        let room_beside_three = |host: &mut Host, now| {
            for _ in 0..3 {
                host.begin(&login, at(0));
            }
            let room = host.room(&login, now);
            host.trying.clear();
            room
        };
        let mut book = Book::default();
        let host = book.page(&login, at(0));
        assert_eq!(room_beside_three(host, at(60)), Room::Wait);
        host.accept(&login, at(0));
        assert_eq!(room_beside_three(host, at(1)), Room::Wait);
        assert_eq!(room_beside_three(host, PATIENCE), Room::Free);
    }

    #[test]
    fn a_refusal_counts_for_ten_minutes_or_until_a_login_succeeds() {
        let login = login();
        let at = Duration::from_secs;
        let refusal = |second: u64| DeviceError::AuthFailed {
            endpoint: "bmc:443".to_owned(),
            said: second.to_string(),
        };
        let mut book = Book::default();
        let host = book.page(&login, at(0));
        for second in [0, 1, 2] {
            assert_eq!(host.room(&login, at(second)), Room::Free);
            host.refuse(&login, &refusal(second), at(second));
        }
        let Room::Closed(last) = host.room(&login, at(599)) else {
            panic!("not closed");
        };
        assert!(last.to_string().contains("(2; 3 times"), "{last}");
        assert_eq!(host.room(&login, at(600)), Room::Free);
        host.accept(&login, at(600));
        assert_eq!(host.room(&login, at(1199)), Room::Free);
        assert!(!host.is_idle());
        // What is kept is no more than what counts.
        let other = Address::parse("https://other").expect("an address");
        let other = Login::new(&other, "s".to_owned(), login.content);
        book.page(&other, at(1199));
        assert_eq!(book.hosts.len(), 2);
        book.page(&other, at(1200));
        assert_eq!(book.hosts.len(), 2, "swept within the last ten minutes");
        book.page(&other, at(1799));
        assert_eq!(book.hosts.len(), 1);
    }
}
