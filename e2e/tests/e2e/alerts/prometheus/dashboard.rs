//! The dashboard of the chart, asked of the Prometheus that has watched a run: every query has data.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use fencing_testbed::paths::workspace;
use serde_json::Value;

use super::list;
use super::scene::Scene;

const DASHBOARD: &str = "charts/node-fencing-operator/files/dashboard.json";
/// What a panel says while there is nothing, so that it is no empty panel.
const OR_NOTHING: &str = " or vector(0)";
/// Between two points, in seconds.
const STEP: u32 = 2;

fn dashboard() -> Result<Value> {
    let text = std::fs::read_to_string(workspace().join(DASHBOARD))?;
    Ok(serde_json::from_str(&text)?)
}

/// A query as Grafana sends it when nobody has chosen anything.
fn substituted(query: &str) -> Result<String> {
    let query = query
        .replace("$cluster", ".*")
        .replace("$job", ".+")
        .replace("$policy", ".*")
        .replace("$__range", "1h")
        .replace("$__rate_interval", "15s");
    ensure!(!query.contains('$'), "an unknown variable: {query}");
    Ok(query)
}

/// Every query of every panel, annotation and variable, and every recording rule has been a number at some time of the run: of itself, and not
/// because nothing is 0.
pub async fn has_data(scene: &Scene, records: &BTreeSet<String>) -> Result<()> {
    let dashboard = dashboard()?;
    let mut asked: Vec<String> = records.iter().cloned().collect();
    for panel in list(&dashboard["panels"]) {
        for target in list(&panel["targets"]) {
            asked.push(substituted(target["expr"].as_str().unwrap_or_default())?);
        }
    }
    for annotation in list(&dashboard["annotations"]["list"]) {
        if let Some(query) = annotation["expr"].as_str() {
            asked.push(substituted(query)?);
        }
    }
    for variable in list(&dashboard["templating"]["list"]) {
        let Some(query) = variable["query"]["query"].as_str() else {
            continue;
        };
        // `label_values(series, label)`
        let inner = query
            .strip_prefix("label_values(")
            .and_then(|it| it.strip_suffix(')'));
        let (series, label) = inner
            .and_then(|it| it.rsplit_once(", "))
            .with_context(|| format!("not understood: {query}"))?;
        asked.push(format!("count by ({label}) ({})", substituted(series)?));
    }
    ensure!(asked.len() > 50, "only {} queries", asked.len());
    let (mut empty, mut left) = (Vec::new(), 0);
    for query in asked {
        let query = match query.strip_suffix(OR_NOTHING) {
            Some(query) => {
                left += 1;
                query.to_owned()
            }
            None => query,
        };
        ensure!(!query.contains("vector("), "it always has data: {query}");
        let series = scene
            .prometheus
            .query_range(&query, scene.begin, STEP)
            .await?;
        if series.iter().all(|series| series.points().is_empty()) {
            empty.push(query);
        }
    }
    ensure!(left > 5, "only {left} queries end in {OR_NOTHING}");
    ensure!(empty.is_empty(), "without data: {empty:#?}");
    Ok(())
}
