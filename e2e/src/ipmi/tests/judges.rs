//! ipmitool and ipmipower log in, read, switch and are refused: what they take for an IPMI BMC is one.
use super::*;
use anyhow::Result;

#[tokio::test(flavor = "multi_thread")]
async fn explore() -> Result<()> {
    let b = bench();
    eprintln!("{}", b.bmc.address());
    tokio::time::sleep(Duration::from_secs(
        std::env::var("SECS").map_or(0, |s| s.parse().unwrap()),
    ))
    .await;
    for entry in b.bmc.log() {
        eprintln!("{entry:?}");
    }
    for entry in b.bmc.sessions() {
        eprintln!("{entry:?}");
    }
    Ok(())
}
