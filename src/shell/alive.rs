//! What keeps a replica alive, on a thread of its own: the renewal of its Lease, and the answers to the kubelet's probes.
//!
//! All other work shares one thread, and some of it grows with the cluster: a look at all of five thousand Nodes, the decoding of a list of
//! twenty thousand VolumeAttachments. While that lasts no other task has its turn, and a leader that renews late is none any more.

use super::lease::{Elector, Pulse, TermEnd};
use fencing_drivers::clock;
use futures::future::{BoxFuture, pending};
use kube::Client;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, JoinError};
use tokio::time::sleep;

/// How often a leader's work says that it has its turn.
const BEAT: Duration = Duration::from_secs(1);

/// Where it runs, and with what.
#[derive(Clone)]
pub struct Alive {
    /// The runtime that nothing else uses.
    pub apart: Apart,
    /// For the Lease alone: a connection belongs to the runtime that has opened it.
    pub client: Client,
}

/// A runtime of its own.
#[derive(Clone)]
pub struct Apart(Handle);

impl Apart {
    /// On a thread of its own, which lasts as long as the process.
    ///
    /// # Errors
    /// The operating system gives no thread, or no way to wait for I/O.
    pub fn thread() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let forever = move || runtime.block_on(pending::<()>());
        thread::Builder::new()
            .name("alive".to_owned())
            .spawn(forever)?;
        Ok(Self(handle))
    }

    /// The runtime of whoever calls this: a simulation has only one.
    #[must_use]
    pub fn here() -> Self {
        Self(Handle::current())
    }

    /// For tasks that nothing waits for.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.0
    }

    /// Runs it there, as long as this is waited for.
    pub async fn run<T: Send + 'static>(
        &self,
        what: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let task = self.0.spawn(what);
        let _ended = Ended(task.abort_handle());
        match task.await.map_err(JoinError::try_into_panic) {
            Ok(done) => done,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // Its runtime has ended, and this process with it.
            Err(Err(_)) => pending().await,
        }
    }
}

/// Ends a task when it is dropped.
struct Ended(AbortHandle);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An [`Elector`] that reads and writes its Lease apart.
pub struct Candidate {
    apart: Apart,
    elector: Arc<Mutex<Elector>>,
    end: TermEnd,
    work: Pulse,
}

impl Candidate {
    /// Of this elector, whose client was made there.
    #[must_use]
    pub fn new(apart: Apart, mut elector: Elector) -> Self {
        let work = Pulse::default();
        elector.follows(work.clone());
        Self {
            apart,
            end: elector.term_end(),
            elector: Arc::new(Mutex::new(elector)),
            work,
        }
    }

    /// When the term ends, renewals included.
    #[must_use]
    pub fn term_end(&self) -> TermEnd {
        self.end.clone()
    }

    /// [`Elector::elected`].
    pub async fn elected(&self) {
        self.does(|elector| Box::pin(elector.elected())).await;
    }

    /// [`Elector::lost`], of a leader whose work shares the thread of whoever waits for this.
    pub async fn lost(&self) {
        self.work.beat(clock::since_boot());
        let beats = async {
            loop {
                sleep(BEAT).await;
                self.work.beat(clock::since_boot());
            }
        };
        tokio::select! {
            biased;
            () = self.does(|elector| Box::pin(elector.lost())) => {}
            never = beats => match never {},
        }
    }

    /// [`Elector::stood_still`].
    pub async fn stood_still(&self) {
        self.does(|elector| Box::pin(async move { elector.stood_still() }))
            .await;
    }

    /// [`Elector::let_others`].
    pub async fn let_others(&self) {
        self.does(|elector| Box::pin(elector.let_others())).await;
    }

    /// [`Elector::release`].
    pub async fn release(&self) {
        self.does(|elector| Box::pin(elector.release())).await;
    }

    /// One thing at a time: what was given up before has ended by then.
    async fn does(&self, what: impl FnOnce(&mut Elector) -> BoxFuture<'_, ()> + Send + 'static) {
        let elector = Arc::clone(&self.elector);
        let done = async move { what(&mut *elector.lock().await).await };
        self.apart.run(done).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::fake::Fake;
    use fencing_core::election::Times;
    use fencing_drivers::clock::Clock;
    use serde_json::json;

    /// A leader on a thread of its own that computes for so long. Whether its term lasted, and how often it wrote the Lease.
    async fn leads_and_computes(computes: Duration) -> (bool, usize) {
        let fake = Fake::start(|seen| {
            let mut lease = seen.body.clone();
            lease["metadata"]["uid"] = json!("uid-1");
            match seen.line.starts_with("GET") {
                true => crate::shell::fake::failure(404, "no such Lease"),
                false => (200, lease),
            }
        })
        .await;
        let times = Times {
            lease: Duration::from_secs(6),
            renew: Duration::from_secs(4),
            retry: Duration::from_millis(100),
        };
        let (apart, address) = (Apart::thread().expect("a thread"), fake.address);
        let client = apart.run(async move {
            let uri = format!("http://{address}").parse().expect("a URI");
            Client::try_from(kube::Config::new(uri)).expect("a client")
        });
        let elector = Elector::new(client.await, "ns", "a".to_owned(), times, Clock::SYSTEM);
        let candidate = Candidate::new(apart, elector);
        let leads = move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                candidate.elected().await;
                let end = candidate.term_end();
                let work = async {
                    // The Lease is being kept by then.
                    sleep(Duration::from_millis(200)).await;
                    thread::sleep(computes);
                    end.is_over(clock::since_boot())
                };
                tokio::select! {
                    biased;
                    () = candidate.lost() => false,
                    is_over = work => !is_over,
                }
            })
        };
        let led = tokio::task::spawn_blocking(leads).await;
        let seen = fake.seen();
        let written = seen.iter().filter(|it| it.line.starts_with("PUT")).count();
        (led.expect("it led"), written)
    }

    /// L8: what takes long, but ends, costs no Lease.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_lease_is_renewed_while_the_other_thread_computes() {
        let (leads, written) = leads_and_computes(Duration::from_millis(4_500)).await;
        assert!(leads && written > 5, "renewed {written} times");
    }

    /// F13: a leader that hangs would keep all others from fencing, and go on with what it knew before.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_leader_whose_work_stands_still_leads_no_more() {
        let (leads, written) = leads_and_computes(Duration::from_secs(14)).await;
        assert!(!leads);
        assert!(written < 90, "renewed {written} times within 14 s");
    }
}
