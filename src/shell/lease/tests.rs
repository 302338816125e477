//! Candidates at one API server: who is elected, what ends a term, what does not.

use super::*;
use crate::shell::fake::{Fake, Seen, failure};
use futures::future::join;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use tokio::time::timeout;

/// An API server that knows Leases, and how it ails.
#[derive(Default)]
struct Store {
    lease: Option<Value>,
    version: u64,
    /// Everybody who had it, one after the other; empty: nobody.
    holders: Vec<String>,
    /// When it was last written (time since boot).
    written: Duration,
    /// Nothing is done.
    is_down: bool,
    /// So many writes are done, and their answers lost.
    answers_lost: u32,
}

impl Store {
    fn answer(&mut self, seen: &Seen) -> (u16, Value) {
        if self.is_down {
            return failure(500, "etcd is away");
        }
        let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
        let verb = seen.line.split(' ').next().unwrap_or_default();
        match (verb, &self.lease) {
            ("GET", None) | ("PUT", None) => return failure(404, "no such Lease"),
            ("GET", Some(lease)) => return (200, lease.clone()),
            ("POST", Some(_)) => return failure(409, "it exists"),
            ("PUT", Some(lease)) if version(lease) != version(&seen.body) => {
                return failure(409, "it has been modified");
            }
            _ => {}
        }
        self.version += 1;
        let mut lease = seen.body.clone();
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        lease["metadata"]["uid"] = json!("uid-1");
        self.lease = Some(lease.clone());
        self.holders.push(self.holder().to_owned());
        self.holders.dedup();
        self.written = Clock::SYSTEM.since_boot();
        if self.answers_lost > 0 {
            self.answers_lost -= 1;
            return failure(500, "the answer was lost");
        }
        (200, lease)
    }

    fn holder(&self) -> &str {
        let lease = self.lease.as_ref();
        lease.map_or("", |lease| {
            lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
        })
    }
}

type Shared = Arc<Mutex<Store>>;

async fn server() -> (Fake, Shared) {
    let store = Shared::default();
    let shared = Arc::clone(&store);
    let fake = Fake::start(move |seen| shared.lock().expect("lock").answer(seen)).await;
    (fake, store)
}

fn candidate(fake: &Fake, name: &str) -> Elector {
    candidate_by(fake, name, Clock::SYSTEM)
}

fn candidate_by(fake: &Fake, name: &str, clock: Clock) -> Elector {
    let times = Times {
        lease: Duration::from_secs(3),
        renew: Duration::from_secs(2),
        retry: Duration::from_millis(100),
    };
    Elector::new(
        fake.clients.writes.clone(),
        "ns",
        name.to_owned(),
        times,
        clock,
    )
}

/// The clock of a host that was suspended for so many seconds, as a static says: no timer knows of it.
macro_rules! suspended_by {
    ($seconds:ident) => {
        Clock {
            since_boot: || {
                let suspended = Duration::from_secs($seconds.load(Ordering::Relaxed));
                Clock::SYSTEM.since_boot() + suspended
            },
            ..Clock::SYSTEM
        }
    };
}

/// Generous: what it waits for is over in a few seconds.
async fn in_time<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), what)
        .await
        .expect("in time")
}

#[tokio::test]
async fn of_two_candidates_one_is_elected_and_the_other_follows_its_release() {
    let (fake, store) = server().await;
    let (mut a, mut b) = (candidate(&fake, "a"), candidate(&fake, "b"));
    in_time(a.elected()).await;
    let following = tokio::spawn(async move {
        b.elected().await;
        b
    });
    // Over more than a lease: `b` sees that it is renewed.
    let lost = timeout(Duration::from_secs(4), a.lost()).await;
    assert!(lost.is_err(), "`a` renews it");
    assert!(!following.is_finished());
    a.release().await;
    in_time(following).await.expect("`b`");
    let store = store.lock().expect("lock");
    assert_eq!(store.holders, ["a", "", "b"]);
    let spec = &store.lease.as_ref().expect("a Lease")["spec"];
    assert_eq!(spec["leaseTransitions"], 1);
    assert_eq!(spec["leaseDurationSeconds"], 3);
}

/// L8: also where its last renewal has landed without an answer, or the last look has failed; and never another one's.
#[tokio::test]
async fn only_its_holder_gives_it_back_whatever_it_knows_of_it() {
    let (fake, store) = server().await;
    let (mut a, mut b) = (candidate(&fake, "a"), candidate(&fake, "b"));
    in_time(a.elected()).await;
    b.release().await;
    assert_eq!(store.lock().expect("lock").holder(), "a");
    store.lock().expect("lock").version += 1;
    let version = json!(store.lock().expect("lock").version.to_string());
    store.lock().expect("lock").lease.as_mut().expect("a Lease")["metadata"]["resourceVersion"] =
        version;
    a.release().await;
    assert_eq!(store.lock().expect("lock").holder(), "");
}

/// F10: whoever watches the Lease may count from the moment of the write. The answer to it may come much later.
#[tokio::test]
async fn a_term_counts_from_before_the_lease_is_written() {
    let (fake, store) = server().await;
    let mut a = candidate(&fake, "a");
    in_time(a.elected()).await;
    let until = a.election.until().expect("a term");
    let written = store.lock().expect("lock").written;
    assert!(until <= written + a.election.times().renew);
}

/// L4, and the way of whoever is killed.
#[tokio::test]
async fn a_lease_that_nobody_renews_is_taken() {
    let (fake, store) = server().await;
    in_time(candidate(&fake, "a").elected()).await;
    in_time(candidate(&fake, "b").elected()).await;
    assert_eq!(store.lock().expect("lock").holder(), "b");
}

/// F46, an API server that is away, or this replica on the wrong side: it stops before anybody else can begin, and comes back by itself.
#[tokio::test]
async fn who_cannot_renew_it_stops_and_may_lead_again() {
    let (fake, store) = server().await;
    let mut a = candidate(&fake, "a");
    in_time(a.elected()).await;
    store.lock().expect("lock").is_down = true;
    in_time(a.lost()).await;
    let again = timeout(Duration::from_millis(500), a.elected()).await;
    assert!(again.is_err(), "nobody leads without the API server");
    store.lock().expect("lock").is_down = false;
    in_time(a.elected()).await;
}

/// F13: timers stand still while the host is suspended, and what a fence waits for may be there first when it goes on.
#[tokio::test]
async fn who_wakes_up_after_its_term_finds_that_out_before_it_goes_on() {
    static SLEPT: AtomicU64 = AtomicU64::new(0);
    let (fake, _store) = server().await;
    let mut a = candidate_by(&fake, "a", suspended_by!(SLEPT));
    in_time(a.elected()).await;
    let answer = Notify::new();
    let works = async {
        tokio::select! {
            biased;
            () = a.lost() => false,
            () = answer.notified() => true,
        }
    };
    let sleeps = async {
        SLEPT.store(60, Ordering::Relaxed);
        answer.notify_one();
    };
    let (went_on, ()) = join(works, sleeps).await;
    assert!(!went_on);
}

/// F13: it slept while its request was on its way, and its term ended before it began.
#[tokio::test]
async fn who_sleeps_while_it_takes_the_lease_takes_it_again() {
    static SLEPT: AtomicU64 = AtomicU64::new(0);
    let store = Shared::default();
    let fake = Fake::start(move |seen| {
        if seen.line.starts_with("POST ") {
            SLEPT.store(60, Ordering::Relaxed);
        }
        store.lock().expect("lock").answer(seen)
    })
    .await;
    let mut a = candidate_by(&fake, "a", suspended_by!(SLEPT));
    in_time(a.elected()).await;
    let requests: Vec<String> = fake.seen().into_iter().map(|it| it.line).collect();
    let verbs: Vec<&str> = requests
        .iter()
        .filter_map(|it| it.split(' ').next())
        .collect();
    assert_eq!(verbs, ["GET", "POST", "GET", "PUT"]);
}

/// F13: what was on its way when the host was suspended is not sent when it goes on.
#[tokio::test]
async fn nothing_goes_on_after_the_end_of_the_term() {
    let (end, answer) = (TermEnd::never(), Notify::new());
    let works = end.lasts(async {
        answer.notified().await;
        "sent"
    });
    let ends = async {
        end.set(None);
        answer.notify_one();
    };
    assert_eq!(join(works, ends).await, (None, ()));
    assert_eq!(TermEnd::never().lasts(async { "sent" }).await, Some("sent"));
    assert_eq!(TermEnd::default().lasts(async { "sent" }).await, None);
}

#[tokio::test]
async fn who_was_replaced_stops() {
    let (fake, store) = server().await;
    let mut a = candidate(&fake, "a");
    in_time(a.elected()).await;
    {
        let mut store = store.lock().expect("lock");
        store.version += 1;
        let version = json!(store.version.to_string());
        let lease = store.lease.as_mut().expect("a Lease");
        lease["metadata"]["resourceVersion"] = version;
        lease["spec"]["holderIdentity"] = json!("b");
    }
    in_time(a.lost()).await;
    assert_eq!(store.lock().expect("lock").holder(), "b");
}

/// A write whose answer was lost may have been done: it is read again, and no term ends for it. Nor for a Lease that somebody deletes.
#[tokio::test]
async fn a_lost_answer_or_a_deleted_lease_ends_no_term() {
    let (fake, store) = server().await;
    let mut a = candidate(&fake, "a");
    store.lock().expect("lock").answers_lost = 1;
    in_time(a.elected()).await;
    store.lock().expect("lock").answers_lost = 2;
    let lost = timeout(Duration::from_secs(3), a.lost()).await;
    assert!(lost.is_err());
    store.lock().expect("lock").lease = None;
    let lost = timeout(Duration::from_secs(3), a.lost()).await;
    assert!(lost.is_err());
    assert_eq!(store.lock().expect("lock").holder(), "a");
}

/// S18: nothing else is read by quorum while there is no incident.
#[tokio::test]
async fn a_lease_that_is_older_than_it_was_is_a_cluster_that_went_back() {
    // With `--bump-revision` the next write is newer than ever, and what is stored is as old as before.
    for next in [1, 1_000_000_000] {
        let (fake, store) = server().await;
        let (mut a, age) = (candidate(&fake, "a"), Revision::default());
        a.notes_age_in(age.clone());
        in_time(a.elected()).await;
        let past = store.lock().expect("lock").lease.clone();
        let lost = timeout(Duration::from_secs(1), a.lost()).await;
        assert!(lost.is_err(), "`a` renews it");
        assert_eq!(age.frozen(), None);
        {
            let mut store = store.lock().expect("lock");
            assert!(store.version > 2, "it was renewed");
            store.lease = past;
            store.version = next;
        }
        let frozen = async {
            while age.frozen().is_none() {
                let _ = timeout(Duration::from_secs(1), a.lost()).await;
            }
        };
        in_time(frozen).await;
        let words = age.frozen().unwrap_or_default();
        assert!(words.contains("restored"), "{words}");
    }
}

/// Two that have lost to each other wait for different times, none for less than it has to and none for more than a fifth longer.
#[tokio::test]
async fn pauses_differ_by_up_to_a_fifth() {
    let (fake, _) = server().await;
    let candidate = candidate(&fake, "one");
    let retry = candidate.election.times().retry;
    let pauses: BTreeSet<Duration> = (0..2000).map(|_| candidate.pause()).collect();
    let (least, most) = (pauses.first().copied(), pauses.last().copied());
    let (least, most) = (least.expect("a pause"), most.expect("a pause"));
    assert!(least >= retry && most <= retry.mul_f64(1.0 + JITTER_MAX));
    // Of 256 lengths that are equally likely nearly all have come, over the whole width.
    assert!(pauses.len() > 200, "only {}", pauses.len());
    let width = most.saturating_sub(least);
    assert!(width > retry.mul_f64(JITTER_MAX * 0.9), "only {width:?}");
}
