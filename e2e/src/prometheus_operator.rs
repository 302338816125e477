//! The CustomResourceDefinitions of the Prometheus Operator, out of its Go module. Nothing of it runs in the lab: its kinds judge what the
//! chart renders for it.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use serde_json::Value;

use fencing_testbed::{fetch, paths::workspace};

const MODULE: &str = "github.com/prometheus-operator/prometheus-operator";

/// The kinds that the chart makes objects of, each with what their file calls them.
const KINDS: [(&str, &str); 3] = [
    ("PodMonitor", "podmonitors"),
    ("PrometheusRule", "prometheusrules"),
    ("ServiceMonitor", "servicemonitors"),
];

/// Each kind and the file with its definition: fetched at the first time, in the version and with the hash that `e2e/prometheus-operator`
/// pins. Blocks.
pub fn definitions() -> Result<[(&'static str, PathBuf); 3]> {
    let mut download = Command::new("go");
    download
        .args(["mod", "download", "-json", MODULE])
        .current_dir(workspace().join("e2e/prometheus-operator"));
    let module: Value = serde_json::from_str(&fetch::run(&mut download)?)?;
    let directory = module["Dir"].as_str().context("Go names no directory")?;
    let folder = Path::new(directory).join("example/prometheus-operator-crd");
    Ok(KINDS.map(|(kind, plural)| {
        let file = folder.join(format!("monitoring.coreos.com_{plural}.yaml"));
        (kind, file)
    }))
}
