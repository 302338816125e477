//! What this host must offer before real machines can run on it: privileges, and a container runtime.
//!
//! The runtime is Debian's containerd and runc, unpacked and not installed.

use std::{fs, path::PathBuf, process::Command, sync::OnceLock};

use anyhow::{Context, Result, ensure};

use fencing_testbed::{
    debian::Packages,
    paths::{lab_directory, workspace},
};

/// The packages that hold containerd, its shim, ctr and runc.
const PACKAGES: [&str; 2] = ["containerd", "runc"];

/// Whether this host can run real machines; if not, why, in one line. Asked once, then remembered. Fetches the container
/// runtime if that has not been done yet, because a host that cannot have it cannot run real machines either.
pub fn available() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    let ask = || probe().map_err(|error| format!("{error:#}").replace('\n', " "));
    ANSWER.get_or_init(ask).clone()
}

fn probe() -> Result<()> {
    fs::create_dir_all(lab_directory())?;
    let mut probe = Command::new(script("probe.sh"));
    let output = probe.arg(lab_directory()).output();
    let output = output.context("failed to run probe.sh")?;
    let reason = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}", reason.trim());
    let runtime = runtime()?;
    for program in ["containerd", "ctr", "runc"] {
        let output = runtime.command(program).arg("--version").output();
        let output = output.with_context(|| format!("failed to run {program}"))?;
        ensure!(
            output.status.success(),
            "{program} does not run here: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

/// A file of `e2e/real-node/`.
pub(super) fn script(name: &str) -> PathBuf {
    workspace().join("e2e/real-node").join(name)
}

/// The container runtime of a real machine.
pub(super) fn runtime() -> Result<Packages> {
    Packages::unpack("containerd", &PACKAGES)
}
