//! A registry of OCI artifacts on loopback: the program of the Distribution project.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencing_testbed::eventually::eventually;
use fencing_testbed::ports::Port;
use fencing_testbed::process::{Process, Spec};
use http::StatusCode;
use serde_json::json;

use super::MODULE;
use super::repository::helm;
use crate::control_plane::ControlPlane;
use crate::{go, plain_http};

const PACKAGE: &str = "github.com/distribution/distribution/v3/cmd/registry";
/// How long it takes to start on a busy machine.
const START: Duration = Duration::from_secs(60);

/// A running registry, without TLS and without users. It ends when dropped, and with the control plane.
pub struct Registry {
    process: Process,
    port: Port,
}

/// Builds it at the first time. Blocks.
pub(super) fn program() -> Result<PathBuf> {
    go::tool(MODULE, "registry", PACKAGE)
}

impl Registry {
    /// Builds it if need be, and starts it with nothing in it.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let program = tokio::task::spawn_blocking(program).await??;
        let directory = plane.files().directory().join("registry");
        std::fs::create_dir_all(&directory)?;
        let port = Port::reserve()?;
        // JSON is YAML.
        let settings = json!({
            "version": "0.1",
            "log": {"level": "warn"},
            "storage": {"filesystem": {"rootdirectory": directory.join("data")}},
            "http": {"addr": format!("127.0.0.1:{}", port.number())},
        });
        let file = directory.join("settings.json");
        std::fs::write(&file, settings.to_string())?;
        let process = Spec::new("registry", program, &directory.join("log"))
            .args([OsString::from("serve"), file.into_os_string()])
            .spawn(plane.guard())?;
        let this = Self { process, port };
        eventually("the registry answers", START, async || {
            this.process.check()?;
            let (status, words) = plain_http::get(this.port.number(), "/v2/").await?;
            ensure!(status == StatusCode::OK, "{words}");
            Ok(())
        })
        .await?;
        Ok(this)
    }

    /// What a client calls the folder with all charts.
    pub fn url(&self) -> String {
        format!("oci://127.0.0.1:{}/charts", self.port.number())
    }

    /// Pushes an archive, such as [`super::Repository::add`] gives: to a repository named as the chart, under its version.
    pub async fn push(&self, plane: &ControlPlane, archive: &Path) -> Result<()> {
        let archive = archive.to_str().context("the path is not UTF-8")?;
        let push = ["push", archive, &self.url(), "--plain-http"];
        helm(plane, &push).await.map(drop)
    }
}
