//! sushy-tools from PyPI, each package pinned by its hash, in a virtual environment of the lab's own.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use crate::toolchain::{lab_directory, workspace};

/// Written last: without it, an environment is the rest of an installation that was cut short.
const STAMP: &str = "installed";

/// The folder with our part: the requirements and the program that starts the emulator.
pub(super) fn sources() -> PathBuf {
    workspace().join("e2e/sushy")
}

/// The Python with sushy-tools. Blocks. Installs it first if that has not been done, which takes some seconds and says so.
pub(super) fn python() -> Result<PathBuf> {
    let requirements = sources().join("requirements.txt");
    let mut hash = Sha256::new();
    hash.update(
        run(Command::new("python3").arg("--version")).context("sushy-tools needs Python 3")?,
    );
    hash.update(fs::read(&requirements)?);
    let key: String = hash
        .finalize()
        .iter()
        .take(10)
        .map(|byte| format!("{byte:02x}"))
        .collect();

    let directory = lab_directory().join(format!("sushy-{key}"));
    let python = directory.join("bin/python3");
    fs::create_dir_all(lab_directory())?;
    let lock = File::create(lab_directory().join("sushy.lock"))?;
    // Several labs may start at once; the lock goes with the file descriptor.
    flock(&lock, FlockOperation::LockExclusive)?;
    if !directory.join(STAMP).exists() {
        install(&directory, &requirements)?;
        fs::write(directory.join(STAMP), "")?;
    }
    Ok(python)
}

fn install(directory: &Path, requirements: &Path) -> Result<()> {
    let begin = Instant::now();
    eprintln!(
        "lab: installing sushy-tools from PyPI into {} (about 15 s)",
        directory.display()
    );
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(directory)).context(
        "failed to make a virtual environment (on Debian: `apt-get install python3-venv`)",
    )?;
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
    ];
    // Wheels only: building a package would run code of its own.
    let strict = [
        "--require-hashes",
        "--only-binary",
        ":all:",
        "--requirement",
    ];
    run(Command::new(directory.join("bin/python3"))
        .args(pip)
        .args(strict)
        .arg(requirements))
    .context("failed to install sushy-tools")?;
    eprintln!(
        "lab: installed sushy-tools in {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Standard output of a command that must succeed.
fn run(command: &mut Command) -> Result<Vec<u8>> {
    let output = command
        .output()
        .with_context(|| format!("failed to run {command:?}"))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("{command:?}: {}", String::from_utf8_lossy(&said).trim());
    }
    Ok(output.stdout)
}
