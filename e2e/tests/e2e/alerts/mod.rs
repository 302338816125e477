//! The rules of the chart in Prometheus' own hands: promtool takes the file, and each alert fires, stays silent and resolves as its test says.
//! [`prometheus`] has them fire over a run of the lab, and [`silence`] the one that takes ten minutes.

mod prometheus;
mod silence;

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fencing_testbed::debian::{self, Packages};
use fencing_testbed::paths::workspace;
use serde_json::Value;

const RULES: &str = "charts/node-fencing-operator/files/alerts.yaml";
const TESTS: &str = "tests/data/alerts.test.yaml";

#[tokio::test(flavor = "multi_thread")]
async fn promtool_takes_the_rules_and_their_tests_pass() -> Result<()> {
    if !debian::available_to_test("promtool_takes_the_rules_and_their_tests_pass")? {
        return Ok(());
    }
    let unpack = || Packages::unpack("prometheus", &["prometheus"]);
    let packages = tokio::task::spawn_blocking(unpack).await??;
    promtool(&packages, &["check", "rules", RULES])?;
    promtool(&packages, &["test", "rules", TESTS])?;
    every_alert_is_tested()
}

fn promtool(packages: &Packages, arguments: &[&str]) -> Result<()> {
    let mut command: Command = packages.command("promtool");
    let output = command
        .args(arguments)
        .current_dir(workspace())
        .output()
        .context("failed to run promtool")?;
    ensure!(
        output.status.success(),
        "promtool {arguments:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Each fires once, at least, and is silent once.
fn every_alert_is_tested() -> Result<()> {
    let read = |path: &str| -> Result<Value> {
        let text = std::fs::read_to_string(workspace().join(path))?;
        Ok(serde_saphyr::from_str(&text)?)
    };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let rules = list(&read(RULES)?["groups"])
        .iter()
        .flat_map(|group| list(&group["rules"]))
        .filter_map(|rule| Some(rule["alert"].as_str()?.to_owned()))
        .collect::<BTreeSet<_>>();
    let tests: Vec<Value> = list(&read(TESTS)?["tests"])
        .iter()
        .flat_map(|test| list(&test["alert_rule_test"]))
        .collect();
    let tested = |fires: bool| -> BTreeSet<String> {
        let tests = tests
            .iter()
            .filter(|test| list(&test["exp_alerts"]).is_empty() != fires);
        let names = tests.filter_map(|test| Some(test["alertname"].as_str()?.to_owned()));
        names.collect()
    };
    for fires in [true, false] {
        let missing: Vec<_> = rules.difference(&tested(fires)).cloned().collect();
        ensure!(missing.is_empty(), "fires {fires}: not tested: {missing:?}");
    }
    Ok(())
}
