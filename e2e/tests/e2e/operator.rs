//! The operator as a process: how it starts, ends, and what it does when nobody told it to do anything.

use std::time::Duration;

use anyhow::Result;
use e2e::{
    audit::OPERATOR,
    control_plane::{ControlPlane, Options},
    operator::{self, Operator},
};
use http::StatusCode;

/// A machine under load is slow to start a process.
const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn starts_freezes_dies_and_ends_well() -> Result<()> {
    let control_plane = ControlPlane::start(Options::named("operator")).await?;
    control_plane.apply_deploy().await?;
    let options = operator::Options {
        wait_until_ready: false,
        ..operator::Options::default()
    };
    let operator = Operator::start(&control_plane, options).await?;
    operator.alive(LIMIT).await?;
    let (status, metrics) = operator.get("/metrics").await?;
    assert_eq!(status, StatusCode::OK);
    assert!(!metrics.is_empty());
    assert!(operator.usage()?.resident_bytes > 1 << 20);

    operator.pause()?;
    let frozen = tokio::time::timeout(Duration::from_millis(500), operator.get("/livez")).await;
    assert!(frozen.is_err(), "a frozen operator answers");
    operator.resume()?;
    assert_eq!(operator.get("/livez").await?.0, StatusCode::OK);

    operator.kill()?;
    assert!(!operator.is_running());
    operator.start_again().await?;
    operator.alive(LIMIT).await?;
    // L8: gone within 5 s of SIGTERM.
    operator.stop(Duration::from_secs(5)).await?;
    assert!(!operator.is_running());
    assert!(
        !operator.log_lines()?.is_empty(),
        "nothing in {}",
        operator.log().display()
    );

    let audit = control_plane.audit();
    audit.settled().await?;
    let writes: Vec<_> = audit
        .writes_of(OPERATOR)?
        .iter()
        .map(e2e::audit::Request::summary)
        .collect();
    assert!(
        writes.is_empty(),
        "without a policy it writes nothing: {writes:?}"
    );
    Ok(())
}
