//! `make demo`, the first that a stranger runs, with no more programs than it builds on a fresh machine.

use anyhow::Result;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demo_runs_with_what_it_builds() -> Result<()> {
    e2e::demo::run().await
}
