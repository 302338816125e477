//! What keeps a replica alive, on a thread of its own: the renewal of its Lease, and the answers to the kubelet's probes.
//!
//! All other work shares one thread, and some of it grows with the cluster: a look at all of five thousand Nodes, the decoding of a list of
//! twenty thousand VolumeAttachments. While that lasts no other task has its turn, and a leader that renews late is none any more.

use super::lease::{Elector, TermEnd};
use futures::future::{BoxFuture, pending};
use kube::Client;
use std::io;
use std::sync::Arc;
use std::thread;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, JoinError};

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
}

impl Candidate {
    /// Of this elector, whose client was made there.
    #[must_use]
    pub fn new(apart: Apart, elector: Elector) -> Self {
        Self {
            apart,
            end: elector.term_end(),
            elector: Arc::new(Mutex::new(elector)),
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

    /// [`Elector::lost`].
    pub async fn lost(&self) {
        self.does(|elector| Box::pin(elector.lost())).await;
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
    use fencing_drivers::clock::{self, Clock};
    use serde_json::json;
    use std::time::Duration;

    /// L8: a leader that computes for longer than its Lease lasts keeps it, and goes on as the leader.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_lease_is_renewed_while_the_other_thread_computes() {
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
            lease: Duration::from_secs(3),
            renew: Duration::from_secs(2),
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
                let computes = async { thread::sleep(Duration::from_secs(5)) };
                tokio::select! {
                    biased;
                    () = candidate.lost() => panic!("the Lease was lost"),
                    () = computes => {}
                }
                let end = candidate.term_end();
                assert!(!end.is_over(clock::since_boot()));
                candidate.release().await;
                assert!(end.is_over(clock::since_boot()));
            });
        };
        let led = tokio::task::spawn_blocking(leads);
        led.await.expect("it led all the time");
        let renewed = fake
            .seen()
            .iter()
            .filter(|it| it.line.starts_with("PUT"))
            .count();
        assert!(renewed > 10, "renewed {renewed} times");
    }
}
