//! The lab's control plane itself.

use anyhow::Result;
use e2e::control_plane::{ControlPlane, Options};

#[tokio::test(flavor = "multi_thread")]
async fn comes_up() -> Result<()> {
    let plane = ControlPlane::start(Options::named("comes-up")).await?;
    eprintln!("up in {:?}", plane.startup());
    let version = plane.admin().apiserver_version().await?;
    assert_eq!(version.git_version, e2e::toolchain::KUBERNETES_VERSION);
    Ok(())
}
