//! What this host must offer before real machines can run on it: privileges, and a container runtime.
//!
//! The runtime is Debian's containerd and runc, unpacked into `target/lab/` and not installed: no service starts, and
//! the host is left as it was.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use rustix::fs::{FlockOperation, flock};

use crate::toolchain::{lab_directory, workspace};

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
    search_path().map(drop)
}

/// A file of `e2e/real-node/`.
pub(super) fn script(name: &str) -> PathBuf {
    workspace().join("e2e/real-node").join(name)
}

/// The `PATH` of a real machine, with the container runtime in front.
pub(super) fn search_path() -> Result<String> {
    let directory = lab_directory().join("containerd");
    let lock =
        File::create(directory.with_extension("lock")).context("failed to create a lock file")?;
    // Several labs may start at once; the lock goes with the file descriptor.
    flock(&lock, FlockOperation::LockExclusive)?;
    if !directory.exists() {
        let fresh = directory.with_extension("new");
        unpack(&fresh)?;
        fs::rename(&fresh, &directory)?;
    }
    Ok(path_with(&directory))
}

fn path_with(root: &Path) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let root = root.display();
    format!("{root}/usr/bin:{root}/usr/sbin:{path}:/usr/sbin:/sbin")
}

fn unpack(directory: &Path) -> Result<()> {
    let started = Instant::now();
    let names = PACKAGES.join(" and ");
    eprintln!("lab: fetching {names} for real nodes (about 5 s)");
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    fs::create_dir_all(directory)?;
    if download(directory).is_err() {
        // A fresh machine has no package lists, an old one has lists of packages that are gone.
        run(Command::new("apt-get").args(["update", "-qq"]))?;
        download(directory)?;
    }
    for entry in fs::read_dir(directory)? {
        let package = entry?.path();
        let mut extract = Command::new("dpkg-deb");
        run(extract.arg("--extract").args([&package, directory]))?;
        fs::remove_file(&package)?;
    }
    // Without their dependencies: those are libraries that a Debian has anyway, or this fails.
    for program in ["containerd", "ctr", "runc"] {
        let mut command = Command::new(program);
        run(command.arg("--version").env("PATH", path_with(directory)))?;
    }
    let seconds = started.elapsed().as_secs_f64();
    eprintln!("lab: fetched {names} in {seconds:.1} s");
    Ok(())
}

fn download(directory: &Path) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.args(["download", "-qq"]).args(PACKAGES);
    run(command.current_dir(directory))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("failed to run {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
