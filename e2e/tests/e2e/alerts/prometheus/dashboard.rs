//! The dashboard of the chart, asked of the Prometheus that has watched a run: every query has data, and the main panels are drawn.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use e2e::prometheus::{Kind, Panel, Series, draw};
use fencing_testbed::paths::workspace;
use jiff::Timestamp;
use serde_json::Value;

use super::list;
use super::scene::Scene;

const DASHBOARD: &str = "charts/node-fencing-operator/files/dashboard.json";
/// Where the picture belongs; it is written there if `UPDATE` is set.
const PICTURE: &str = "docs/images/dashboard.svg";
/// What a panel says while there is nothing, so that it is no empty panel.
const OR_NOTHING: &str = " or vector(0)";
/// Between two points, in seconds.
const STEP: u32 = 1;
/// The panels of the picture.
const DRAWN: [&str; 7] = [
    "Stages of the incidents, by node",
    "Open incidents",
    "Held",
    "Protected nodes over time",
    "Who leads",
    "Time to fence",
    "Time to recover",
];

fn dashboard() -> Result<Value> {
    let text = std::fs::read_to_string(workspace().join(DASHBOARD))?;
    Ok(serde_json::from_str(&text)?)
}

/// A query as Grafana sends it when nobody has chosen anything.
fn substituted(query: &str) -> Result<String> {
    let query = query
        .replace("$cluster", ".*")
        .replace("$policy", ".*")
        .replace("$__rate_interval", "15s");
    ensure!(!query.contains('$'), "an unknown variable: {query}");
    Ok(query)
}

/// What the queries of a panel are, and what their legends say.
fn queries(panel: &Value) -> Result<Vec<(String, String)>> {
    let text = |target: &Value, field: &str| target[field].as_str().unwrap_or_default().to_owned();
    list(&panel["targets"])
        .map(|target| {
            Ok((
                substituted(&text(target, "expr"))?,
                text(target, "legendFormat"),
            ))
        })
        .collect()
}

/// Every query of every panel, and of every variable, and every recording rule has been a number at some time of the run: of itself, and not
/// because nothing is 0.
pub async fn has_data(scene: &Scene, records: &BTreeSet<String>) -> Result<()> {
    let dashboard = dashboard()?;
    let mut asked: Vec<String> = records.iter().cloned().collect();
    for panel in list(&dashboard["panels"]) {
        asked.extend(queries(panel)?.into_iter().map(|(query, _)| query));
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

/// Draws the main panels of the run.
pub async fn is_drawn(scene: &Scene) -> Result<()> {
    let dashboard = dashboard()?;
    let mut panels = Vec::new();
    for title in DRAWN {
        let mut all = list(&dashboard["panels"]);
        // Of two with the same title, the number and not the table.
        let panel = all
            .find(|it| it["title"] == title && it["type"] != "table")
            .with_context(|| format!("no panel `{title}`"))?;
        panels.push(drawn(scene, panel, title).await?);
    }
    let seconds = |at: Timestamp| at.as_duration().as_secs_f64();
    let picture = draw(
        "Node fencing: everything goes wrong in a lab of eleven nodes",
        &panels,
        seconds(scene.begin),
        seconds(Timestamp::now()),
    );
    let mut path = scene
        .lab
        .control_plane
        .files()
        .directory()
        .join("dashboard.svg");
    if std::env::var_os("UPDATE").is_some() {
        path = workspace().join(PICTURE);
    }
    std::fs::write(&path, picture).with_context(|| path.display().to_string())
}

async fn drawn(scene: &Scene, panel: &Value, title: &str) -> Result<Panel> {
    let mut series = Vec::new();
    for (query, legend) in queries(panel)? {
        let found = scene
            .prometheus
            .query_range(&query, scene.begin, STEP)
            .await?;
        series.extend(found.iter().map(|it| (named(it, &legend), it.points())));
    }
    series.retain(|(_, points)| !points.is_empty());
    // node-2 before node-11.
    series.sort_by_key(|(name, _)| (name.len(), name.clone()));
    let kind = match panel["type"].as_str() {
        Some("state-timeline") => Kind::States(states(panel)?),
        _ => Kind::Lines,
    };
    let is_time = panel["fieldConfig"]["defaults"]["unit"] == "s";
    Ok(Panel {
        title: title.to_owned(),
        kind,
        unit: if is_time { " s" } else { "" },
        series,
    })
}

/// The legend of a series, without the cluster: there is one.
fn named(series: &Series, legend: &str) -> String {
    let labels = series.metric.iter();
    let name = labels.fold(legend.replace("{{cluster}}", ""), |name, (label, value)| {
        name.replace(&format!("{{{{{label}}}}}"), value)
    });
    name.trim().to_owned()
}

/// What the numbers of a panel stand for, from 1.
fn states(panel: &Value) -> Result<Vec<String>> {
    let names = &panel["fieldConfig"]["defaults"]["mappings"][0]["options"];
    let name = |number: usize| names[number.to_string()]["text"].as_str();
    let names: Vec<_> = (1..).map_while(name).map(str::to_owned).collect();
    ensure!(names.len() > 5, "{names:?}");
    Ok(names)
}
