//! What runs as the operator: a binary of cargo's, or an image's entry point.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::image::{Container, Image};
use fencing_testbed::{
    paths::workspace,
    process::{Guard, Spec},
};

/// A ready binary, to save the call of cargo: `make test` has just built it.
const BINARY_VARIABLE: &str = "NODE_FENCING_OPERATOR";

/// What runs, and how it finds the API server.
#[derive(Debug)]
pub(super) enum Program {
    Binary { path: PathBuf, kubeconfig: PathBuf },
    Container(Container),
}

impl Program {
    /// Blocks.
    pub(super) fn new(
        image: Option<Arc<Image>>,
        kubeconfig: PathBuf,
        guard: &Guard,
    ) -> Result<Self> {
        Ok(match image {
            Some(image) => Self::Container(Container::new(image, &kubeconfig, guard)?),
            None => Self::Binary {
                path: binary()?,
                kubeconfig,
            },
        })
    }

    pub(super) fn spec(
        &self,
        name: &str,
        log: &Path,
        arguments: &[String],
        environment: &[(String, String)],
        starters: Vec<OsString>,
    ) -> Result<Spec> {
        let (path, kubeconfig) = match self {
            Self::Container(container) => {
                return container.spec(name, log, arguments, environment);
            }
            Self::Binary { path, kubeconfig } => (path, kubeconfig),
        };
        let mut words = starters.into_iter().chain([path.into()]);
        let first = words.next().context("the binary at least")?;
        let spec = Spec::new(name, first, log).args(words);
        let spec = spec.args(arguments);
        let spec = spec.env("KUBECONFIG", kubeconfig);
        let variables = environment.iter();
        Ok(variables.fold(spec, |spec, (key, value)| spec.env(key, value)))
    }
}

/// What starts a program with this `ulimit` of its shell.
pub(super) fn limited(ulimit: &str) -> Vec<OsString> {
    let script = format!("ulimit {ulimit} && exec \"$@\"");
    ["sh", "-c", &script, "sh"].map(OsString::from).into()
}

/// What starts a program that finds the fence agents of this directory where Debian's package has them. Only this program sees them there.
pub(super) fn with_agents(directory: &Path) -> Vec<OsString> {
    let script = r#"mount --bind "$0" /usr/sbin && exec "$@""#;
    let words = ["unshare", "--mount", "sh", "-c", script].map(OsString::from);
    words.into_iter().chain([directory.into()]).collect()
}

/// The operator's binary: the one that the environment names, or one that cargo builds now, once a process. Blocks.
pub fn binary() -> Result<PathBuf> {
    static BUILT: OnceLock<Mutex<Option<PathBuf>>> = OnceLock::new();
    if let Some(path) = std::env::var_os(BINARY_VARIABLE) {
        return Ok(path.into());
    }
    // The lock is held while cargo runs: several tests start at once.
    let mut built = BUILT
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = built.as_ref() {
        return Ok(path.clone());
    }
    let path = build()?;
    *built = Some(path.clone());
    Ok(path)
}

/// The folder in which kubectl finds the plugin: cargo puts it beside the operator.
pub async fn plugins() -> Result<PathBuf> {
    let operator = tokio::task::spawn_blocking(binary).await??;
    let folder = operator.parent().context("it stands somewhere")?;
    Ok(folder.to_owned())
}

fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--package", "node-fencing-operator", "--bins"])
        .current_dir(workspace());
    command
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit());
    // What cargo tells the tests about their own package makes it build some crates again (ring, for one) for this call, and
    // once more for the next one from a prompt.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"]
            .iter()
            .any(|start| text.starts_with(start))
        {
            command.env_remove(&name);
        }
    }
    // As this program was built, so that the dependencies are there already.
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let output = command.output().context("failed to run cargo")?;
    ensure!(
        output.status.success(),
        "cargo could not build the operator, see above"
    );
    let text = String::from_utf8(output.stdout)?;
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut executables =
        messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    executables
        .find(|path| path.ends_with("node-fencing-operator"))
        .context("cargo names no binary of the operator")
}
