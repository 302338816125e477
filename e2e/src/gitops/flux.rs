//! Flux: its controllers for sources, Helm releases and Kustomizations, as they are released, and their CRDs.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencing_testbed::eventually::eventually;
use fencing_testbed::ports::Port;
use fencing_testbed::process::{Process, Spec};
use http::StatusCode;

use super::MODULE;
use crate::control_plane::ControlPlane;
use crate::{go, plain_http};

/// Each is the package `main` of a module that is called so, and has its CRDs there.
const CONTROLLERS: [&str; 3] = [
    "source-controller",
    "helm-controller",
    "kustomize-controller",
];
/// How long they take to start on a busy machine.
const START: Duration = Duration::from_secs(60);
/// Everything of Flux's own is in this namespace.
const NAMESPACE: &str = "flux-system";

/// Flux's controllers at work. They end when dropped, and with the control plane.
pub struct Flux {
    /// Each with the port of its health.
    controllers: Vec<(Process, Port)>,
    /// Where source-controller serves what it has fetched.
    artifacts: Port,
}

/// Each with its program, which is built at the first time, and the folder of its CRDs. Blocks.
pub(super) fn controllers() -> Result<Vec<(&'static str, PathBuf, PathBuf)>> {
    let all = CONTROLLERS.into_iter().map(|name| {
        let module = format!("github.com/fluxcd/{name}");
        let program = go::tool(MODULE, name, &module)?;
        let definitions = go::source(MODULE, &module)?.join("config/crd/bases");
        Ok((name, program, definitions))
    });
    all.collect()
}

impl Flux {
    /// Builds the controllers if need be, applies their CRDs, and starts them as the administrator.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let mut this = Self {
            controllers: Vec::new(),
            artifacts: Port::reserve()?,
        };
        let directory = plane.files().directory().join("flux");
        // What they fetch and unpack goes where the control plane's files go.
        let (storage, scratch) = (directory.join("storage"), directory.join("scratch"));
        std::fs::create_dir_all(&storage)?;
        std::fs::create_dir_all(&scratch)?;
        let create = ["create", "namespace", NAMESPACE];
        plane.kubectl_text(&create).await?;
        let controllers = tokio::task::spawn_blocking(controllers).await??;
        for (_, _, definitions) in &controllers {
            let definitions = definitions.to_str().context("the path is not UTF-8")?;
            let apply = ["apply", "--server-side", "-f", definitions];
            plane.kubectl_text(&apply).await?;
        }
        plane.wait_for_definitions().await?;
        let artifacts = format!("127.0.0.1:{}", this.artifacts.number());
        for (name, program, _) in controllers {
            let health = Port::reserve()?;
            let mut arguments = vec![
                "--metrics-addr=0".to_owned(),
                format!("--health-addr=127.0.0.1:{}", health.number()),
                "--requeue-dependency=2s".to_owned(),
            ];
            if name == "source-controller" {
                arguments.extend([
                    format!("--storage-path={}", storage.display()),
                    format!("--storage-addr={artifacts}"),
                    format!("--storage-adv-addr={artifacts}"),
                ]);
            }
            let process = Spec::new(name, program, &plane.files().log(name))
                .args(arguments)
                .env("KUBECONFIG", plane.kubeconfig_for_admin())
                .env("RUNTIME_NAMESPACE", NAMESPACE)
                .env("NO_PROXY", "*")
                .env("TMPDIR", &scratch)
                .spawn(plane.guard())?;
            this.controllers.push((process, health));
        }
        eventually("Flux is ready", START, async || this.ready().await).await?;
        Ok(this)
    }

    async fn ready(&self) -> Result<()> {
        for (process, health) in &self.controllers {
            process.check()?;
            let (status, words) = plain_http::get(health.number(), "/readyz").await?;
            ensure!(status == StatusCode::OK, "{}: {words}", process.name());
        }
        Ok(())
    }
}
