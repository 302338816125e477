//! Programs in Go, for what only a library in Go knows: each is built from a module of ours in `e2e` and the Go module proxy.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use serde_json::Value;

use fencing_testbed::{fetch, paths::workspace};

/// The program of the module in this folder: built at the first time. Blocks.
pub fn program(folder: &str, name: &str) -> Result<PathBuf> {
    build(folder, name, ".", &["go.mod", "go.sum", "main.go"])
}

/// A program of this package, in the version that the module in this folder pins: built at the first time. Blocks.
pub fn tool(folder: &str, name: &str, package: &str) -> Result<PathBuf> {
    build(folder, name, package, &["go.mod", "go.sum"])
}

/// The files of a Go module, in the version that the module in this folder pins: fetched at the first time. Blocks.
pub fn source(folder: &str, module: &str) -> Result<PathBuf> {
    let mut download = Command::new("go");
    download
        .args(["mod", "download", "-json", module])
        .current_dir(workspace().join(folder));
    let module: Value = serde_json::from_str(&fetch::run(&mut download)?)?;
    let directory = module["Dir"].as_str().context("Go names no directory")?;
    Ok(Path::new(directory).to_owned())
}

/// Builds the package from what these files of the folder are.
fn build(folder: &str, name: &str, package: &str, files: &[&str]) -> Result<PathBuf> {
    let module = workspace().join(folder);
    let parts = files.iter().map(|name| Ok(fs::read(module.join(name))?));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let directory = fetch::once(name, &parts, name, |directory| {
        let mut build = Command::new("go");
        build
            .args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false"])
            .args(["-ldflags", "-s -w", "-o"])
            .arg(directory.join(name))
            .arg(package)
            .env("CGO_ENABLED", "0")
            .current_dir(&module);
        fetch::run(&mut build).map(drop)
    })?;
    Ok(directory.join(name))
}
