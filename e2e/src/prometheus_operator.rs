//! The CustomResourceDefinitions of the Prometheus Operator, out of its Go module. Nothing of it runs in the lab: its kinds judge what the
//! chart renders for it.

use std::path::PathBuf;

use anyhow::Result;

use crate::go;

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
    let source = go::source("e2e/prometheus-operator", MODULE)?;
    let folder = source.join("example/prometheus-operator-crd");
    Ok(KINDS.map(|(kind, plural)| {
        let file = folder.join(format!("monitoring.coreos.com_{plural}.yaml"));
        (kind, file)
    }))
}
