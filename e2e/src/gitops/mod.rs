//! What installs charts from elsewhere, and where it finds them: a chart repository over HTTP and a registry on loopback, both filled by the lab's
//! Helm, and the own programs of Flux and Argo CD, which run beside the API server as the administrator.

mod argocd;
mod flux;
mod registry;
mod repository;

use anyhow::Result;

pub use self::argocd::Argo;
pub use self::flux::Flux;
pub use self::registry::Registry;
pub use self::repository::Repository;

/// The module that pins Flux and the registry.
const MODULE: &str = "e2e/gitops";

/// Builds what runs beside a control plane, which takes minutes at the first time: before a test's own time begins.
pub async fn build() -> Result<()> {
    tokio::task::spawn_blocking(registry::program).await??;
    tokio::task::spawn_blocking(flux::controllers).await??;
    Ok(())
}
