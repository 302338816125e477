//! The driver's own deadline over a whole call, whatever the call waits for.

use super::DeviceError;
use std::time::Duration;
use tokio::time::timeout;

/// The time for one call.
#[derive(Debug)]
pub struct Limit {
    /// Host and port, for the message.
    pub endpoint: String,
    /// The time allowed.
    pub time: Duration,
}

impl Limit {
    /// Ends the call when its time is up.
    ///
    /// # Errors
    /// Those of the call, and [`DeviceError::Timeout`].
    pub async fn on<T>(
        self,
        call: impl Future<Output = Result<T, DeviceError>>,
    ) -> Result<T, DeviceError> {
        let late = DeviceError::Timeout {
            endpoint: self.endpoint,
            waited: self.time,
        };
        timeout(self.time, call).await.unwrap_or(Err(late))
    }
}
