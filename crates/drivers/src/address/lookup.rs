//! Who says where a name leads, and where it led when nobody can say.
//!
//! The DNS of a cluster may stand on the rack that is down. A name that has been found once is then looked for where it led last: what may be
//! sent there is judged as ever (S16), and the device still has to say who it is (S5).

use crate::foreign_text::is_temporary;
use futures::future::{BoxFuture, FutureExt, Shared};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long a name that has been found before is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Lookups at the same time. One that hangs keeps a thread of the runtime's pool, which has 512 and serves others too.
const LOOKUPS_MAX: usize = 64;
/// Names that are remembered: more than the devices of a large cluster.
const NAMES_MAX: usize = 20_000;

/// The addresses of a host, each with the port.
type Found = BoxFuture<'static, io::Result<Vec<SocketAddr>>>;
/// What is asked.
type Ask = dyn Fn(&str, u16) -> Found + Send + Sync;
/// One question, for all who wait for its answer.
type Flight = Shared<BoxFuture<'static, Result<Vec<SocketAddr>, Arc<io::Error>>>>;
/// Host and port.
type Name = (String, u16);

/// Asks for the addresses of a host and port; the system's resolver, unless it is another. Clones remember the same.
#[derive(Clone)]
pub struct Lookup {
    ask: Arc<Ask>,
    known: Arc<Mutex<HashMap<Name, Known>>>,
    turns: Arc<Semaphore>,
}

/// What is known of a name.
#[derive(Default)]
struct Known {
    /// Where it led last; nothing: it has not been found.
    last: Vec<SocketAddr>,
    /// The question that is under way.
    flight: Option<Flight>,
    /// It has been said that the last addresses are used.
    is_told: bool,
    /// The last question had no answer; none: there was no question.
    fails: Option<bool>,
}

impl Lookup {
    /// One that asks like this.
    pub fn new(ask: impl Fn(&str, u16) -> Found + Send + Sync + 'static) -> Self {
        Self {
            ask: Arc::new(ask),
            known: Arc::default(),
            turns: Arc::new(Semaphore::new(LOOKUPS_MAX)),
        }
    }

    /// Where the name leads now; where it led last, if nobody can say now. A name that does not exist leads nowhere.
    #[must_use]
    pub fn of(&self, host: &str, port: u16) -> Found {
        let (this, name) = (self.clone(), (host.to_owned(), port));
        async move {
            let (flight, last) = this.begin(&name);
            // Who has nowhere else to go waits for as long as its caller does.
            let answer = match last.is_empty() {
                true => flight.await,
                false => timeout(PATIENCE, flight)
                    .await
                    .unwrap_or_else(|_| Err(Arc::new(io::ErrorKind::TimedOut.into()))),
            };
            match answer {
                Ok(found) => Ok(found),
                Err(error) if !last.is_empty() && is_for_now(&error) => {
                    this.tell(&name, &error);
                    Ok(last)
                }
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            }
        }
        .boxed()
    }

    /// Where this name led last; nothing: it has not been found.
    #[must_use]
    pub fn last(&self, host: &str, port: u16) -> Vec<IpAddr> {
        let names = self.names();
        let known = names.get(&(host.to_owned(), port));
        let last = known.into_iter().flat_map(|it| &it.last);
        last.map(SocketAddr::ip).collect()
    }

    /// Had the last lookup of this name no answer? None: it was not looked up.
    #[must_use]
    pub fn fails(&self, host: &str, port: u16) -> Option<bool> {
        self.names().get(&(host.to_owned(), port))?.fails
    }

    /// The question that is under way for this name, begun if there is none, and where it led last.
    fn begin(&self, name: &Name) -> (Flight, Vec<SocketAddr>) {
        let mut names = self.names();
        if names.len() >= NAMES_MAX {
            // Those that are still used come back with their next lookup.
            names.retain(|_, known| known.flight.is_some());
        }
        let known = names.entry(name.clone()).or_default();
        let flight = known.flight.get_or_insert_with(|| {
            let (this, name) = (self.clone(), name.clone());
            // Whoever gives up waiting gives up no lookup: its thread stays busy, and counts as that.
            let task = tokio::spawn(async move {
                let _turn = this.turns.acquire().await;
                let answer = (this.ask)(&name.0, name.1).await;
                this.end(name, answer.map_err(Arc::new))
            });
            let lost = |error| Err(Arc::new(io::Error::other(error)));
            task.map(move |ended| ended.unwrap_or_else(lost))
                .boxed()
                .shared()
        });
        (flight.clone(), known.last.clone())
    }

    /// The question has its answer.
    fn end(
        &self,
        name: Name,
        answer: Result<Vec<SocketAddr>, Arc<io::Error>>,
    ) -> Result<Vec<SocketAddr>, Arc<io::Error>> {
        let mut names = self.names();
        if let Some(known) = names.get_mut(&name) {
            known.flight = None;
            known.fails = Some(answer.is_err());
            match &answer {
                Ok(found) => {
                    known.last.clone_from(found);
                    known.is_told = false;
                }
                Err(error) if is_for_now(error) => {}
                Err(_) => known.last.clear(),
            }
        }
        answer
    }

    /// Says once that the last addresses are used.
    fn tell(&self, (host, port): &Name, error: &io::Error) {
        let mut names = self.names();
        let Some(known) = names.get_mut(&(host.clone(), *port)) else {
            return;
        };
        // The question may still be open: its answer comes too late for this caller.
        known.fails = Some(true);
        if !std::mem::replace(&mut known.is_told, true) {
            tracing::warn!(host, %error, "the name cannot be resolved now, using its last address");
        }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Name, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does the resolver say that it has no answer now, and not that there is no such name?
fn is_for_now(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
        || error.raw_os_error().is_some()
        || is_temporary(&error.to_string())
}

impl Default for Lookup {
    fn default() -> Self {
        Self::new(|host, port| {
            let host = host.to_owned();
            async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) }.boxed()
        })
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lookup")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::{pending, ready};
    use std::sync::atomic::{AtomicUsize, Ordering};

    const AGAIN: &str =
        "failed to lookup address information: Temporary failure in name resolution";
    const NO_NAME: &str = "failed to lookup address information: Name or service not known";

    /// What the resolver does.
    #[derive(Clone, Copy)]
    enum Dns {
        LeadsTo(u8),
        Hangs,
        Fails(&'static str),
    }

    /// A resolver that does what stands here by then, and how often it was asked.
    fn resolver(first: Dns) -> (Lookup, Arc<Mutex<Dns>>, Arc<AtomicUsize>) {
        let (now, asked) = (Arc::new(Mutex::new(first)), Arc::new(AtomicUsize::new(0)));
        let (dns, count) = (Arc::clone(&now), Arc::clone(&asked));
        let lookup = Lookup::new(move |_, port| {
            count.fetch_add(1, Ordering::Relaxed);
            match *dns.lock().expect("no panic") {
                Dns::LeadsTo(last) => ready(Ok(vec![([192, 0, 2, last], port).into()])).boxed(),
                Dns::Hangs => pending().boxed(),
                Dns::Fails(words) => ready(Err(io::Error::other(words))).boxed(),
            }
        });
        (lookup, now, asked)
    }

    /// Where `bmc` leads: the last number of its address.
    async fn found(lookup: &Lookup) -> Result<u8, String> {
        let found = lookup.of("bmc", 443).await.map_err(|it| it.to_string())?;
        match found.first().map(SocketAddr::ip) {
            Some(std::net::IpAddr::V4(address)) => Ok(address.octets()[3]),
            other => Err(format!("{other:?}")),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_cannot_be_looked_up_now_leads_where_it_led_last() {
        let (lookup, dns, _) = resolver(Dns::LeadsTo(7));
        let set = |state| *dns.lock().expect("no panic") = state;
        assert_eq!(found(&lookup).await, Ok(7));
        let fails = || lookup.fails("bmc", 443);
        assert_eq!(fails(), Some(false));
        set(Dns::Fails(AGAIN));
        assert_eq!(found(&lookup).await, Ok(7));
        assert_eq!(fails(), Some(true), "the answer was an old one");
        set(Dns::LeadsTo(8));
        assert_eq!(found(&lookup).await, Ok(8), "it has moved");
        assert_eq!(fails(), Some(false));
        set(Dns::Hangs);
        assert_eq!(found(&lookup).await, Ok(8));
        assert_eq!((fails(), lookup.fails("pdu", 161)), (Some(true), None));
    }

    /// Its address may be another device's by now.
    #[tokio::test]
    async fn a_name_that_is_gone_leads_nowhere() {
        let (lookup, dns, _) = resolver(Dns::LeadsTo(7));
        let set = |state| *dns.lock().expect("no panic") = state;
        assert_eq!(found(&lookup).await, Ok(7));
        set(Dns::Fails(NO_NAME));
        assert_eq!(found(&lookup).await, Err(NO_NAME.to_owned()));
        assert_eq!(lookup.fails("bmc", 443), Some(true));
        set(Dns::Fails(AGAIN));
        assert_eq!(found(&lookup).await, Err(AGAIN.to_owned()));
    }

    /// Nor do lookups that hang take all threads of the pool.
    #[tokio::test(start_paused = true)]
    async fn lookups_that_hang_are_asked_once_a_name_and_are_few() {
        let (lookup, _, asked) = resolver(Dns::Hangs);
        for number in 0..1000 {
            let host = format!("bmc-{}", number % 500);
            let waited = timeout(PATIENCE, lookup.of(&host, 443)).await;
            assert!(
                waited.is_err(),
                "{host}: without a known address the lookup waits"
            );
        }
        assert_eq!(asked.load(Ordering::Relaxed), LOOKUPS_MAX);
    }
}
