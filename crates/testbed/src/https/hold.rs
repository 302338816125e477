//! A request stopped on its way, until the test lets it go.
//!
//! This is how the lab freezes the operator at an exact point without a hook in the product: the operator waits for
//! the answer to its own request. The request goes on living when its sender dies: releasing it afterwards is what
//! a packet does that was still in flight when the process was killed.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Waiting,
    Released,
    Dropped,
}

/// What becomes of a request that was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// It goes on.
    Go,
    /// It is discarded, and its connection closed.
    Discard,
}

/// The test's end of a held request. Dropping it releases the request.
#[derive(Debug)]
pub struct Hold {
    arrived: watch::Receiver<bool>,
    verdict: watch::Sender<Verdict>,
}

/// The server's end of a held request.
#[derive(Debug)]
pub struct Gate {
    arrived: watch::Sender<bool>,
    verdict: watch::Receiver<Verdict>,
}

/// Makes both ends of a hold.
pub fn hold() -> (Hold, Gate) {
    let (arrived_tx, arrived) = watch::channel(false);
    let (verdict, verdict_rx) = watch::channel(Verdict::Waiting);
    (
        Hold { arrived, verdict },
        Gate {
            arrived: arrived_tx,
            verdict: verdict_rx,
        },
    )
}

impl Hold {
    /// Waits until a request has arrived at the hold; an error when none has after `within`.
    pub async fn wait_arrived(&self, within: Duration) -> Result<()> {
        let mut arrived = self.arrived.clone();
        match tokio::time::timeout(within, arrived.wait_for(|arrived| *arrived)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => bail!("the server of the hold has ended"),
            Err(_) => bail!("no request that matches has arrived in {within:?}"),
        }
    }

    /// Has a request arrived?
    pub fn has_arrived(&self) -> bool {
        *self.arrived.borrow()
    }

    /// Lets the request go on, now or when it arrives.
    pub fn release(self) {
        self.verdict.send_replace(Verdict::Released);
    }

    /// Discards the request, now or when it arrives: its connection is closed without an answer.
    pub fn drop_it(self) {
        self.verdict.send_replace(Verdict::Dropped);
    }
}

impl Gate {
    /// Waits for the verdict on a request that has just arrived.
    pub async fn pass(mut self) -> Passage {
        self.arrived.send_replace(true);
        // An error means that the hold was dropped without a word: the last value then is `Waiting`, and we go on.
        let _ = self
            .verdict
            .wait_for(|verdict| *verdict != Verdict::Waiting)
            .await;
        match *self.verdict.borrow() {
            Verdict::Dropped => Passage::Discard,
            Verdict::Waiting | Verdict::Released => Passage::Go,
        }
    }
}
