//! What a command has become at a provider, followed for a while.
//!
//! An operation proves nothing. One that has not ended, or has ended otherwise than well, makes the command one of unknown outcome: it may
//! be carried out later.

use super::Provider;
use super::io::Io;
use crate::address::Address;
use std::time::Duration;
use tokio::time::sleep;

/// Pause between two looks at an operation.
const PERIOD: Duration = Duration::from_millis(500);

/// What says how a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Where it is.
    pub at: Address,
    /// Its path there.
    pub path: String,
}

/// Where an operation stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Follow {
    /// It has not ended.
    Running,
    /// It has ended well.
    Done,
    /// It found the machine in that state already, in these words.
    Already(String),
    /// It was certainly not carried out, in these words.
    Refused(String),
    /// It has ended otherwise, in these words.
    Failed(String),
}

/// Looks until the operation has ended. One that cannot be looked at has failed, as far as is known.
pub(super) async fn end<P: Provider>(provider: &P, io: &mut Io, operation: &Operation) -> Follow {
    loop {
        match provider.follow(io, operation).await {
            Ok(Follow::Running) => sleep(PERIOD).await,
            Ok(ended) => return ended,
            Err(error) => return Follow::Failed(error.to_string()),
        }
    }
}
