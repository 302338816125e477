//! Waiting for what must come true: look again and again, and say at the end what was seen last.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::deadline;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks until the look succeeds, and returns what it found. When that takes longer than the limit, the error is that
/// of the last look, under the words for what was waited for: so a look says with `ensure!` what it saw instead.
pub async fn eventually<T>(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    deadline::waits_for(what);
    let end = Instant::now() + limit;
    loop {
        let found = look().await;
        if found.is_ok() || Instant::now() >= end {
            return found.with_context(|| format!("not within {limit:?}: {what}"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;

    #[tokio::test]
    async fn what_comes_true_is_returned_and_what_does_not_is_described() {
        let mut looks = 0;
        let found = eventually("the third look", Duration::from_secs(1), async || {
            looks += 1;
            ensure!(looks == 3, "look {looks}");
            Ok(looks)
        });
        assert_eq!(found.await.expect("in time"), 3);

        let never = eventually::<()>("a miracle", Duration::ZERO, async || {
            anyhow::bail!("only rain")
        });
        let error = format!("{:#}", never.await.expect_err("it cannot be"));
        assert_eq!(error, "not within 0ns: a miracle: only rain");
    }
}
