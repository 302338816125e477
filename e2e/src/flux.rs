//! What Flux does to an object that stands in Git, by its own library: `e2e/flux` is a Go program that applies as kustomize-controller does.

use std::path::PathBuf;

use anyhow::Result;

use crate::go;

/// The program that applies standard input to the cluster of `KUBECONFIG`: built at the first time. Blocks.
pub fn apply() -> Result<PathBuf> {
    go::program("e2e/flux", "flux-apply")
}
