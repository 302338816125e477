//! A kubelet's way to the API server, and the two things that cut it: a partition and a hung kubelet.
//!
//! Every wait and every request of a simulated kubelet goes through its [`Uplink`], so that the ailments of a machine
//! hold everywhere without each place having to think of them.

use std::future::Future;
use std::time::Duration;

use kube::core::Status;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::machine::Ailment;

/// How long a kubelet waits for an answer, and how long before it tries again.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(200);

/// What a kubelet can reach at the moment.
#[derive(Debug, Clone)]
pub(super) struct Uplink {
    ailment: watch::Receiver<Ailment>,
}

impl Uplink {
    pub(super) fn new(ailment: watch::Receiver<Ailment>) -> Self {
        Self { ailment }
    }

    /// Waits until the kubelet is not hung.
    pub(super) async fn awake(&self) {
        self.until(|ailment| !ailment.kubelet_hung).await;
    }

    /// Waits until the kubelet is neither hung nor partitioned.
    pub(super) async fn reachable(&self) {
        self.until(|ailment| !ailment.kubelet_hung && !ailment.partitioned)
            .await;
    }

    /// Waits until unmounting works (and the kubelet is not hung).
    pub(super) async fn unmountable(&self) {
        self.until(|ailment| !ailment.kubelet_hung && !ailment.unmount_hung)
            .await;
    }

    /// Waits until `at`, and then until the kubelet is not hung.
    pub(super) async fn sleep_until(&self, at: Instant) {
        tokio::time::sleep_until(at).await;
        self.awake().await;
    }

    /// Sends `request` until there is a final answer: success, or a refusal that will not change by asking again.
    /// Waits through partitions; a request that is in flight when one begins is lost.
    pub(super) async fn insist<T, R>(
        &self,
        what: &str,
        request: impl Fn() -> R,
    ) -> Result<T, Box<Status>>
    where
        R: Future<Output = kube::Result<T>>,
    {
        loop {
            self.reachable().await;
            let answer = tokio::select! {
                answer = tokio::time::timeout(REQUEST_TIMEOUT, request()) => answer,
                () = self.until(|ailment| ailment.partitioned) => continue,
            };
            self.awake().await;
            match answer {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(kube::Error::Api(refusal))) if is_final(refusal.code) => {
                    return Err(refusal);
                }
                Ok(Err(error)) => tracing::debug!(%error, what, "to be tried again"),
                Err(_) => tracing::debug!(what, "no answer, to be tried again"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn until(&self, is_so: impl Fn(&Ailment) -> bool) {
        let mut ailment = self.ailment.clone();
        if ailment.wait_for(|ailment| is_so(ailment)).await.is_err() {
            // The machine is gone; its kubelet does nothing any more.
            std::future::pending::<()>().await;
        }
    }
}

/// 403 is not final: the node authorizer learns some milliseconds late that a volume claim belongs to a pod of the node.
fn is_final(code: u16) -> bool {
    matches!(code, 400 | 404 | 409 | 422)
}
