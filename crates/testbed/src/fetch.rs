//! What the lab fetches from elsewhere: once, into a directory of its own below `target/lab`, whoever else wants it meanwhile.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use crate::paths::lab_directory;

/// Written last: without it, a directory is the rest of a try that was cut short.
const STAMP: &str = "complete";

/// The directory of this name that is made of these ingredients: filled now if that has not been done yet, which says so. Blocks.
pub fn once(
    name: &str,
    ingredients: &[&[u8]],
    what: &str,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let mut hash = Sha256::new();
    for ingredient in ingredients {
        hash.update(ingredient);
        hash.update([0]);
    }
    let digest = hash.finalize();
    let key: String = digest.iter().take(10).map(|b| format!("{b:02x}")).collect();
    let directory = lab_directory().join(format!("{name}-{key}"));

    fs::create_dir_all(lab_directory())?;
    let lock = File::create(lab_directory().join(format!("{name}.lock")))
        .context("failed to create a lock file")?;
    // Several labs may start at once; the lock goes with the file descriptor.
    flock(&lock, FlockOperation::LockExclusive)?;
    if !directory.join(STAMP).exists() {
        let begin = Instant::now();
        eprintln!("lab: fetching {what} into {}", directory.display());
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory)?;
        fill(&directory).with_context(|| format!("failed to fetch {what}"))?;
        fs::write(directory.join(STAMP), "")?;
        let seconds = begin.elapsed().as_secs_f64();
        eprintln!("lab: fetched {what} in {seconds:.1} s");
    }
    Ok(directory)
}

/// Standard output of a command that must succeed.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("failed to run {command:?}"))?;
    let said = [output.stdout.as_slice(), &output.stderr].concat();
    ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&said).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
