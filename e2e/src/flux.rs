//! What Flux does to an object that stands in Git, by its own library: `e2e/flux` is a Go program that applies as kustomize-controller does.

use std::{fs, path::PathBuf, process::Command};

use anyhow::Result;

use fencing_testbed::{fetch, paths::workspace};

/// The program that applies standard input to the cluster of `KUBECONFIG`: built at the first time. Blocks.
pub fn apply() -> Result<PathBuf> {
    let module = workspace().join("e2e/flux");
    let parts = ["go.mod", "go.sum", "main.go"].map(|name| fs::read(module.join(name)));
    let [modules, sums, program] = parts;
    let (modules, sums, program) = (modules?, sums?, program?);
    let name = "flux-apply";
    let directory = fetch::once(name, &[&modules, &sums, &program], name, |directory| {
        let mut build = Command::new("go");
        build
            .args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false"])
            .args(["-ldflags", "-s -w", "-o"])
            .arg(directory.join(name))
            .env("CGO_ENABLED", "0")
            .current_dir(&module);
        fetch::run(&mut build).map(drop)
    })?;
    Ok(directory.join(name))
}
