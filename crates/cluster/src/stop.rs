//! The signal to end: one switch that everything long-running listens to.
//!
//! SIGTERM and SIGINT throw it. From then on nothing new is begun ([`EFFECTS_END`]), and the process is gone within
//! [`PROCESS_END`] whatever still hangs (L8).

use std::future::Future;
use std::io;
use std::time::Duration;
#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// From the signal until the last effect: what has been begun may end within this time.
pub const EFFECTS_END: Duration = Duration::from_secs(1);
/// From the signal until the process has ended.
pub const PROCESS_END: Duration = Duration::from_secs(4);

/// Listens for the end. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

/// Throws the switch. Dropping it throws it too, so that nothing outlives what it belongs to.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// A switch that no signal throws.
    #[must_use]
    pub fn new() -> (Self, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Stop(receiver))
    }

    /// Throws the switch.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Thrown by SIGTERM or SIGINT.
    ///
    /// # Errors
    /// If the operating system gives no signals.
    #[cfg(unix)]
    pub fn on_signals() -> io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (stopper, stop) = Stopper::new();
        tokio::spawn(async move {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            tracing::info!(
                "{name}: no new step is started; open incidents are resumed by the next operator"
            );
            stopper.stop();
        });
        Ok(Self(stop.0))
    }

    /// Has the end begun?
    #[must_use]
    pub fn requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Resolves when the end begins.
    pub async fn wait(&self) {
        // An error says that the switch is gone, which is an end too.
        let _ = self.0.clone().wait_for(|stopped| *stopped).await;
    }

    /// The future's output, or none if the end begins first.
    pub async fn or<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.wait() => None,
            output = future => Some(output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn everybody_hears_it_also_later() {
        let (stopper, stop) = Stopper::new();
        assert!(!stop.requested());
        assert_eq!(stop.or(async { 1 }).await, Some(1));
        let waiting = tokio::spawn({
            let stop = stop.clone();
            async move { stop.or(pending::<()>()).await }
        });
        stopper.stop();
        assert_eq!(waiting.await.expect("task"), None);
        stop.wait().await;
        assert!(stop.clone().requested());
    }

    #[tokio::test]
    async fn a_lost_switch_is_an_end() {
        let (stopper, stop) = Stopper::new();
        drop(stopper);
        assert!(stop.requested());
        stop.wait().await;
    }

    #[tokio::test]
    async fn a_signal_throws_it() {
        let stop = Stop::on_signals().expect("signals");
        let own = std::process::id().to_string();
        let sent = std::process::Command::new("kill").arg(own).status();
        assert!(sent.expect("kill").success());
        stop.wait().await;
        assert!(stop.requested());
    }
}
