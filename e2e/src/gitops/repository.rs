//! A chart repository over HTTP on loopback: archives of charts, and their index.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use fencing_testbed::https::{Body, Call, Cut, Server, Site, body_of};
use futures::{FutureExt, future::BoxFuture};
use http::{Response, StatusCode};
use rustls::ServerConfig;

use crate::control_plane::ControlPlane;

/// A running chart repository. It ends when dropped.
pub struct Repository {
    folder: PathBuf,
    server: Server,
}

struct Folder(PathBuf);

impl Repository {
    /// Serves what is added, from a folder of this control plane.
    pub fn start(plane: &ControlPlane) -> Result<Self> {
        let folder = plane.files().directory().join("charts");
        std::fs::create_dir_all(&folder)?;
        let site = Arc::new(Folder(folder.clone()));
        let server = Server::start(Ipv4Addr::LOCALHOST.into(), None, site)?;
        Ok(Self { folder, server })
    }

    /// What a client calls it.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Packages the chart in this folder, under this version whatever it has, and adds it to the index. Gives the archive.
    pub async fn add(&self, plane: &ControlPlane, chart: &Path, version: &str) -> Result<PathBuf> {
        let chart = chart.to_str().context("the path is not UTF-8")?;
        let folder = self.folder.to_str().context("the path is not UTF-8")?;
        let package = ["package", chart, "--version", version, "-d", folder];
        let said = helm(plane, &package).await?;
        helm(plane, &["repo", "index", folder]).await?;
        let (_, archive) = said.trim().rsplit_once(": ").context("no archive")?;
        Ok(archive.into())
    }
}

/// What Helm prints.
pub(super) async fn helm(plane: &ControlPlane, arguments: &[&str]) -> Result<String> {
    let output = plane.helm(arguments).await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "helm {arguments:?}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}

impl Site for Folder {
    fn tls(&self) -> Option<Arc<ServerConfig>> {
        None
    }

    fn answer(self: Arc<Self>, call: Call) -> BoxFuture<'static, Result<Response<Body>, Cut>> {
        async move {
            // A name in the folder, never a path out of it.
            let name = Path::new(call.head.uri.path()).file_name();
            let file = name.and_then(|name| std::fs::read(self.0.join(name)).ok());
            let mut response = Response::new(body_of(file.clone().unwrap_or_default()));
            if file.is_none() {
                *response.status_mut() = StatusCode::NOT_FOUND;
            }
            Ok(response)
        }
        .boxed()
    }
}
