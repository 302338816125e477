//! The Helm chart without Helm: its schema, its README and its copies are what their sources say, byte for byte.
//!
//! `cargo test --test chart` fails when one is stale, and `UPDATE=1 cargo test --test chart` writes it anew. What Helm makes of the chart is
//! tested in `e2e/tests/e2e/chart.rs`.

#[path = "../stale/mod.rs"]
mod stale;
mod values;

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the chart is.
const CHART: &str = "charts/node-fencing-operator";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn chart() -> PathBuf {
    root().join(CHART)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn values() -> Vec<values::Entry> {
    values::entries(&read(&chart().join("values.yaml")))
}

/// Compares a file of the chart with what it should be.
fn check(name: &str, expected: String) {
    stale::check("chart", [(format!("{CHART}/{name}"), expected)]);
}

#[test]
fn the_schema_is_made_of_the_values() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "node-fencing-operator",
        "type": "object",
        "additionalProperties": false,
        "properties": values::schema(&values()),
    });
    let text = serde_json::to_string_pretty(&schema).expect("JSON");
    check("values.schema.json", format!("{text}\n"));
}

#[test]
fn the_readme_is_made_of_the_values() {
    let text = read(&chart().join("README.md.in"));
    let table = values::table(&values());
    check("README.md", text.replace("{{values}}\n", &table));
}

/// The chart is packed without what lies around it.
#[test]
fn its_copies_are_those_of_crds_and_deploy() {
    for (copy, source) in [
        ("files/crds/fencedevices.yaml", "crds/fencedevices.yaml"),
        ("files/crds/nodefences.yaml", "crds/nodefences.yaml"),
        (
            "files/crds/nodefencingpolicies.yaml",
            "crds/nodefencingpolicies.yaml",
        ),
        ("files/admission.yaml", "deploy/admission.yaml"),
        ("files/people.yaml", "deploy/people.yaml"),
        ("files/aggregated.yaml", "deploy/aggregated.yaml"),
    ] {
        check(copy, read(&root().join(source)));
    }
    let copied = fs::read_dir(chart().join("files/crds")).expect("the folder");
    assert_eq!(copied.count(), 3);
}

#[test]
fn its_version_is_the_operator_s() {
    let chart: Value = serde_saphyr::from_str(&read(&chart().join("Chart.yaml"))).expect("YAML");
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
}

/// The comment says what a value is for, so that nobody has to read a template.
#[test]
fn every_value_is_described() {
    let mut left = values();
    let mut undescribed = Vec::new();
    while let Some(entry) = left.pop() {
        let is_plain = [
            "enabled",
            "labels",
            "annotations",
            "interval",
            "relabelings",
        ];
        if entry.text.is_empty() && entry.children.is_empty() && !is_plain.contains(&entry.name()) {
            undescribed.push(entry.path.join("."));
        }
        left.extend(entry.children);
    }
    assert_eq!(undescribed, [""; 0]);
}
