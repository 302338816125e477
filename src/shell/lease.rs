//! The Lease by which replicas agree who works: read, decide ([`fencing_core::election`]), write.
//!
//! Every write is a replace that names the version it was decided on, so that of two candidates one is refused (409) and looks again. A
//! request takes no longer than the leader may still work without its answer.

mod term_end;

use super::revision::Revision;
use fencing_api::names::LEASE;
use fencing_cluster::client::{AskError, REQUEST_TIMEOUT, ask_within};
use fencing_core::election::{Election, Record, Times, Turn};
use fencing_drivers::clock::Clock;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
pub use term_end::{Pulse, TermEnd};
use tokio::time::sleep;

/// Candidates that have lost to each other do not meet again at the same moment: up to a fifth more of a pause.
const JITTER_MAX: f64 = 0.2;
/// So many tries to renew have room in the time that a leader has for it, so that one answer that is lost does not cost the Lease.
const TRIES: u32 = 4;
/// The Lease is given back within twice this time (read, and written), or not at all: another replica takes it when its time is over.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// This replica as a candidate.
pub struct Elector {
    leases: Api<Lease>,
    clock: Clock,
    election: Election,
    /// The Lease as it was read or written last.
    stored: Option<Lease>,
    /// Its uid and newest version, and who is told when that goes back.
    version: Option<(String, String)>,
    age: Revision,
    end: TermEnd,
    work: Option<Pulse>,
    /// Why the last try failed; told once.
    failure: Option<String>,
}

impl Elector {
    /// A candidate. `own` is its name in the Lease, which no other process that lives has.
    #[must_use]
    pub fn new(client: Client, namespace: &str, own: String, times: Times, clock: Clock) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            clock,
            election: Election::new(own, times),
            stored: None,
            version: None,
            age: Revision::default(),
            end: TermEnd::default(),
            work: None,
            failure: None,
        }
    }

    /// Tells this of a cluster that goes back in time, which no version of the Lease survives (S18).
    pub fn notes_age_in(&mut self, age: Revision) {
        self.age = age;
    }

    /// When the term ends, renewals included.
    #[must_use]
    pub fn term_end(&self) -> TermEnd {
        self.end.clone()
    }

    /// Waits until this replica leads.
    pub async fn elected(&mut self) {
        let mut told = None;
        loop {
            self.turn().await;
            if self.election.leads(self.clock.since_boot()) {
                tracing::info!(
                    lease = LEASE,
                    replica = self.election.own(),
                    "leading: fences from now on"
                );
                return;
            }
            // It may have slept while it took the Lease: a term that ended before it began gives nothing to hold on to.
            self.step_down();
            let holder = self.election.holder().map(str::to_owned);
            let is_other = holder
                .as_deref()
                .is_some_and(|it| it != self.election.own());
            if is_other && holder != told {
                let leader = holder.as_deref().unwrap_or_default();
                tracing::info!(
                    lease = LEASE,
                    replica = self.election.own(),
                    leader,
                    "standing by with warm caches"
                );
                told = holder;
            }
            sleep(self.pause()).await;
        }
    }

    /// Of a leader whose work has its turn on another thread: if it has had none for as long as a Lease lasts, the Lease is left to others.
    pub fn follows(&mut self, work: Pulse) {
        self.work = Some(work);
    }

    /// Keeps the Lease until it is lost.
    pub async fn lost(&mut self) {
        while self.election.leads(self.clock.since_boot()) {
            let (now, lease) = (self.clock.since_boot(), self.election.times().lease);
            if self.work.as_ref().is_some_and(|it| it.age(now) >= lease) {
                self.failure = Some("its own work stands still".to_owned());
                break;
            }
            let pause = self.election.times().retry.min(self.left());
            self.within_term(sleep(pause)).await;
            // The process may have stood still meanwhile, and its time be over: then not even a renewal is tried.
            if self.election.leads(self.clock.since_boot()) {
                self.turn().await;
            }
        }
        self.step_down();
        let why = match self.election.holder() {
            Some(holder) if holder != self.election.own() => format!("{holder} has it"),
            _ => "it was not renewed in time (this process or its host was stopped)".to_owned(),
        };
        self.tell_lost(&why);
    }

    /// `why`: unless something has failed before.
    fn tell_lost(&mut self, why: &str) {
        let failure = self.failure.take();
        let why = failure.as_deref().unwrap_or(why);
        tracing::warn!(
            lease = LEASE,
            replica = self.election.own(),
            why,
            "no longer the leader: open incidents are left to the next leader"
        );
    }

    /// The term has ended before the work of the leader had its turn: whoever led begins anew as a candidate, even if the Lease was renewed since.
    pub fn stood_still(&mut self) {
        self.step_down();
        self.tell_lost("this process or its host was stopped");
    }

    /// Leaves the Lease to whoever else wants it, for as long as one lasts.
    pub async fn let_others(&self) {
        sleep(self.election.times().lease).await;
    }

    /// Gives the Lease back if it is ours, so that nobody has to wait for its end. It is read first: a write that was under way may have landed.
    pub async fn release(&mut self) {
        self.step_down();
        match self.given_back().await {
            Ok(true) => tracing::info!(
                lease = LEASE,
                replica = self.election.own(),
                "releasing the Lease"
            ),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(lease = LEASE, %error, "the Lease could not be released: another replica waits until it expires")
            }
        }
    }

    fn step_down(&mut self) {
        self.election.step_down();
        self.end.set(None);
    }

    async fn given_back(&mut self) -> Result<bool, AskError> {
        self.stored = ask_within(RELEASE_TIMEOUT, self.leases.get_opt(LEASE)).await?;
        let spec = self.stored.as_ref().and_then(|lease| lease.spec.clone());
        let spec = spec.filter(|it| it.holder_identity.as_deref() == Some(self.election.own()));
        let Some(spec) = spec else {
            return Ok(false);
        };
        let vacant = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            renew_time: Some(MicroTime(self.clock.wall())),
            ..spec
        };
        self.write(vacant, RELEASE_TIMEOUT).await?;
        Ok(true)
    }

    /// One try: read unless it is ours, decide, write.
    async fn turn(&mut self) {
        let tried = self.tried().await;
        self.end.set(self.election.until());
        match tried {
            Ok(Some(())) => self.failure = None,
            // Its time was over meanwhile: why, an earlier failure says better.
            Ok(None) => {}
            // Somebody was faster: it is read again.
            Err(AskError::Refused { code: 409, .. }) => self.stored = None,
            Err(error) => {
                self.stored = None;
                let words = error.to_string();
                if self.failure.as_ref() != Some(&words) {
                    tracing::warn!(
                        lease = LEASE,
                        error = words,
                        "the Lease could not be read or written, trying again"
                    );
                }
                self.failure = Some(words);
            }
        }
    }

    /// None: the term ended first.
    async fn tried(&mut self) -> Result<Option<()>, AskError> {
        let is_ours = self.election.leads(self.clock.since_boot()) && self.stored.is_some();
        if !is_ours {
            let asked = ask_within(self.limit(), self.leases.get_opt(LEASE));
            let Some(read) = self.within_term(asked).await else {
                return Ok(None);
            };
            let read = read?;
            self.election
                .saw(read.as_ref().map(record), self.clock.since_boot());
            self.note_version(read.as_ref());
            self.stored = read;
        }
        let sent = self.clock.since_boot();
        let acquire = match self.election.decide(sent) {
            Turn::Wait => return Ok(Some(())),
            Turn::Renew => None,
            Turn::Take { transitions } => Some(transitions),
        };
        let spec = self.spec(acquire);
        let asked = self.write(spec, self.limit());
        let Some(written) = self.within_term(asked).await else {
            return Ok(None);
        };
        let written = written?;
        self.election.wrote(record(&written), sent);
        self.note_version(Some(&written));
        self.stored = Some(written);
        Ok(Some(()))
    }

    fn note_version(&mut self, lease: Option<&Lease>) {
        let Some(meta) = lease.map(|lease| &lease.metadata) else {
            return;
        };
        let (Some(uid), Some(now)) = (meta.uid.clone(), meta.resource_version.clone()) else {
            return;
        };
        if let Some((_, before)) = self.version.as_ref().filter(|(of, _)| *of == uid) {
            self.age.note_same(before, &now);
        }
        self.version = Some((uid, now));
    }

    fn spec(&self, acquire: Option<i32>) -> LeaseSpec {
        let now = MicroTime(self.clock.wall());
        let stored = self.stored.as_ref().and_then(|lease| lease.spec.clone());
        let stored = stored.unwrap_or_default();
        let seconds = self.election.times().lease.as_secs();
        LeaseSpec {
            holder_identity: Some(self.election.own().to_owned()),
            lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
            acquire_time: match acquire {
                Some(_) => Some(now.clone()),
                None => stored.acquire_time,
            },
            renew_time: Some(now),
            lease_transitions: acquire.or(stored.lease_transitions),
            ..stored
        }
    }

    async fn write(&self, spec: LeaseSpec, limit: Duration) -> Result<Lease, AskError> {
        let params = PostParams::default();
        let metadata = match &self.stored {
            Some(stored) => stored.metadata.clone(),
            None => ObjectMeta {
                name: Some(LEASE.to_owned()),
                ..ObjectMeta::default()
            },
        };
        let lease = Lease {
            metadata,
            spec: Some(spec),
        };
        match self.stored {
            Some(_) => ask_within(limit, self.leases.replace(LEASE, &params, &lease)).await,
            None => ask_within(limit, self.leases.create(&params, &lease)).await,
        }
    }

    /// Waits for this, but not beyond the end of the term, if there is one now; `None`: it is over. That is looked at whenever anything
    /// wakes the task up: timers stand still while the host is suspended, and what a fence has waited for may be there before them (F13).
    async fn within_term<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        let until = self.election.until();
        let is_over = || until.is_some_and(|until| self.clock.since_boot() >= until);
        let mut what = pin!(what);
        poll_fn(|task| match what.as_mut().poll(task) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if is_over() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// How long this replica may still lead without a renewal.
    fn left(&self) -> Duration {
        let until = self.election.until().unwrap_or_default();
        until.saturating_sub(self.clock.since_boot())
    }

    /// How long one request may take.
    fn limit(&self) -> Duration {
        match self.election.until() {
            Some(_) => self.left().min(self.election.times().renew / TRIES),
            None => REQUEST_TIMEOUT,
        }
    }

    fn pause(&self) -> Duration {
        let mut byte = [0];
        // Without randomness they meet again, and one of them is refused again.
        let _ = getrandom::fill(&mut byte);
        let jitter = JITTER_MAX * f64::from(byte[0]) / f64::from(u8::MAX);
        self.election.times().retry.mul_f64(1.0 + jitter)
    }
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let time = |time: Option<MicroTime>| time.map(|time| time.0.to_string()).unwrap_or_default();
    let seconds = spec.lease_duration_seconds.unwrap_or_default();
    Record {
        uid: lease.metadata.uid.clone().unwrap_or_default(),
        holder: spec.holder_identity.unwrap_or_default(),
        duration: Duration::from_secs(u64::try_from(seconds).unwrap_or_default()),
        acquired: time(spec.acquire_time),
        renewed: time(spec.renew_time),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
