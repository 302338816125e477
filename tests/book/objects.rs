//! Every object of ours that stands in a document is one that the API server would take, and every value of a chart one that Helm would.

use crate::pages::{Block, documents, read};
use crate::schema::{complaints, fit};
use serde_json::{Value, json};

const OURS: &str = "nodefencing.io/";
/// A block that begins so is a file of values, of this chart.
const VALUES: [(&str, &str); 2] = [
    ("# values.yaml", "charts/node-fencing-operator"),
    ("# policies.yaml", "charts/node-fencing-policies"),
];

#[test]
fn every_object_is_one_that_the_api_server_would_take() {
    let (mut found, mut judged) = (Vec::new(), 0);
    for block in documents().iter().flat_map(|page| page.blocks()) {
        let names_ours = block.text.contains(&format!("apiVersion: {OURS}"));
        if block.info != "yaml" {
            let place = &block.place;
            assert!(
                !names_ours,
                "{place}: an object of ours must stand in a block ```yaml"
            );
            continue;
        }
        let objects: Vec<Value> = serde_saphyr::from_multiple(&block.text)
            .unwrap_or_else(|error| panic!("{}: {error}", block.place));
        for object in &objects {
            judged += 1;
            found.extend(judge(&block, object));
        }
    }
    assert!(judged > 20, "only {judged} objects");
    assert!(found.is_empty(), "{found:#?}");
}

fn judge(block: &Block, object: &Value) -> Vec<String> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let mut files = VALUES.iter();
    let file = files.find(|(begin, _)| block.text.starts_with(begin));
    let complaints = match kind {
        _ if version.starts_with(OURS) => {
            assert_eq!(version, "nodefencing.io/v1alpha1", "{}", block.place);
            complaints(kind, object)
        }
        "HelmRelease" => {
            let spec = &object["spec"];
            let chart = spec["chart"]["spec"]["chart"].as_str();
            // An OCIRepository is called as its chart.
            let chart = chart.or(spec["chartRef"]["name"].as_str());
            let chart = format!("charts/{}", chart.expect("a chart"));
            values(&chart, &spec["values"])
        }
        "Application" => {
            let source = &object["spec"]["source"];
            let chart = source["chart"].as_str().expect("a chart");
            values(&format!("charts/{chart}"), &source["helm"]["valuesObject"])
        }
        _ => file.map_or_else(Vec::new, |(_, chart)| values(chart, object)),
    };
    let place = |words| format!("{}: {words}", block.place);
    complaints.into_iter().map(place).collect()
}

/// What Helm would have against these values, and the API server against the objects in them.
fn values(chart: &str, values: &Value) -> Vec<String> {
    let schema = read(&format!("{chart}/values.schema.json"));
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let mut found = Vec::new();
    fit(&schema, values, "values", &mut found);
    for (list, kind) in [
        ("policies", "NodeFencingPolicy"),
        ("devices", "FenceDevice"),
    ] {
        for one in values[list].as_array().into_iter().flatten() {
            let object = json!({"metadata": {"name": one["name"]}, "spec": one["spec"]});
            found.extend(complaints(kind, &object));
        }
    }
    found
}

/// The examples for Artifact Hub, too.
#[test]
fn the_examples_of_the_chart_are_objects_that_the_api_server_would_take() {
    let chart: Value =
        serde_saphyr::from_str(&read("charts/node-fencing-operator/Chart.yaml")).expect("YAML");
    let examples = chart["annotations"]["artifacthub.io/crdsExamples"].as_str();
    let examples: Vec<Value> = serde_saphyr::from_str(examples.expect("examples")).expect("a list");
    for example in examples {
        let kind = example["kind"].as_str().unwrap_or_default();
        assert_eq!(complaints(kind, &example), [""; 0]);
    }
}
