//! The dashboard follows the rules of Grafana's dashboard-linter 0.2.0 (github.com/grafana/dashboard-linter, folder `lint`) that fit it: the linter
//! itself is no module that can be had here. No variable `instance`: only the leader has incidents, and which replica that is changes.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Ranges of queries. The third is that of an objective.
const RANGES: [&str; 3] = ["$__rate_interval", "$__range", "30d"];
/// What every selector has, so that the variables choose.
const MATCHERS: &str = "{cluster=~\"$cluster\", job=~\"$job\"";

fn dashboard() -> Value {
    let path = "charts/node-fencing-operator/files/dashboard.json";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = fs::read_to_string(path).expect("the dashboard");
    serde_json::from_str(&text).expect("JSON")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Every query for series, of panels and annotations.
fn queries(dashboard: &Value) -> Vec<&str> {
    let targets = list(&dashboard["panels"]).flat_map(|panel| list(&panel["targets"]));
    let annotations = list(&dashboard["annotations"]["list"]);
    let queries = targets.chain(annotations).map(|it| text(&it["expr"]));
    queries.filter(|query| !query.is_empty()).collect()
}

#[test]
fn each_panel_has_title_description_unit_and_the_chosen_data_source() {
    let dashboard = dashboard();
    let mut ids = BTreeSet::new();
    for panel in list(&dashboard["panels"]) {
        let title = text(&panel["title"]);
        assert!(
            !title.is_empty() && ids.insert(panel["id"].as_i64()),
            "{title}"
        );
        let kind = text(&panel["type"]);
        if kind == "row" {
            continue;
        }
        assert!(!text(&panel["description"]).is_empty(), "{title}");
        let has_unit = panel["fieldConfig"]["defaults"]["unit"].is_string();
        assert!(
            has_unit || !["stat", "timeseries"].contains(&kind),
            "{title}"
        );
        assert!(list(&panel["targets"]).count() > 0, "{title}");
        for source in list(&panel["targets"]).chain([panel]) {
            let uid = &source["datasource"]["uid"];
            assert_eq!(uid, "${datasource}", "{title}");
        }
    }
}

#[test]
fn each_query_heeds_the_variables_and_looks_back_over_what_is_shown() {
    let dashboard = dashboard();
    for query in queries(&dashboard) {
        for prefix in ["node_fencing_", "process_"] {
            for (at, _) in query.match_indices(prefix) {
                let rest = query[at..]
                    .trim_start_matches(|sign: char| sign.is_ascii_lowercase() || sign == '_');
                assert!(rest.starts_with(MATCHERS), "{query}");
            }
        }
        for range in query.split('[').skip(1) {
            let range = range.split(']').next().unwrap_or_default();
            assert!(RANGES.contains(&range), "[{range}] in {query}");
        }
    }
}

#[test]
fn variables_are_read_again_with_the_time_that_is_shown() {
    let dashboard = dashboard();
    let variables = || list(&dashboard["templating"]["list"]);
    for variable in variables().filter(|it| it["type"] == "query") {
        let name = text(&variable["name"]);
        assert_eq!(variable["refresh"], 2, "{name}");
        assert_eq!(variable["multi"], true, "{name}");
        assert_eq!(variable["datasource"]["uid"], "${datasource}", "{name}");
    }
    let job = variables().find(|it| it["name"] == "job").expect("a job");
    assert_eq!(job["label"], "Job");
    assert_eq!(job["allValue"], ".+");
}

#[test]
fn incidents_are_marked_and_other_dashboards_are_linked_by_their_tag() {
    let dashboard = dashboard();
    let mut annotations = list(&dashboard["annotations"]["list"]);
    let marks = |it: &Value| text(&it["expr"]).contains("node_fencing_incident_info");
    assert!(annotations.any(marks));
    let tag = "node-fencing";
    assert!(list(&dashboard["tags"]).any(|it| it == tag));
    // The chart puts that of the runbooks before it.
    let links: Vec<_> = list(&dashboard["links"]).collect();
    assert!(links.len() == 1 && links[0]["tags"][0] == tag, "{links:?}");
}
