//! In the place of `process.rs` where no operator runs, so that `kubectl fence` can be built for macOS and Windows: no agent is started.

use super::run::{Ended, Failure, Run};
use std::io;

/// Starts nothing.
///
/// # Errors
/// [`Failure::NotStarted`], always.
pub async fn run(_run: Run) -> Result<Ended, Failure> {
    Err(Failure::NotStarted(io::ErrorKind::Unsupported.into()))
}
