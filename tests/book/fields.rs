//! Every field that a page names exists: of the API, or of a chart's values.

use crate::pages::{documents, read};
use crate::schema::of_kind;
use serde_json::Value;
use std::sync::LazyLock;

/// Fields of somebody else's objects that pages name, too.
const FOREIGN: [&str; 13] = [
    "metadata.uid",
    "spec.containers",
    "spec.nodeName",
    "spec.online",
    "spec.providerID",
    "spec.taints",
    "status.conditions",
    "status.nodeInfo.bootID",
    "status.nodeInfo.systemUUID",
    "status.nodeRef",
    "status.poweredOn",
    "status.userInfo.username",
    "status.volumesAttached",
];
/// What ends so is a file.
const FILES: [&str; 6] = [".rs", ".md", ".yaml", ".yml", ".txt", ".json"];

/// A path with dots, such as `fence.levels[].name`; `spec` and `status` may stand before it.
pub fn exists(path: &str) -> bool {
    FOREIGN.contains(&path) || SCHEMAS.iter().any(|schema| below(schema, path).is_some())
}

/// Whatever a path may begin in: the objects, their `spec`s, the values.
static SCHEMAS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let kinds = [
        "NodeFencingPolicy",
        "FenceDevice",
        "NodeFence",
        "NodeFenceRemediation",
        "NodeFenceRemediationTemplate",
    ];
    let objects = kinds.iter().filter_map(|kind| of_kind(kind));
    let values = ["node-fencing-operator", "node-fencing-policies"].map(|chart| {
        let schema = read(&format!("charts/{chart}/values.schema.json"));
        serde_json::from_str(&schema).expect("JSON")
    });
    objects
        .flat_map(|it| [it.clone(), it["properties"]["spec"].clone()])
        .chain(values)
        .collect()
});

/// The schema of a field. What has no fields of its own may have any: labels, for instance.
fn below<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    let mut at = schema;
    for name in path.split('.').map(|it| it.trim_end_matches("[]")) {
        if at["items"].is_object() {
            at = &at["items"];
        }
        at = match (&at["properties"][name], &at["additionalProperties"]) {
            (Value::Null, Value::Null | Value::Bool(false)) => return None,
            (Value::Null, any) => any,
            (field, _) => field,
        };
    }
    Some(at)
}

/// Is this written like a field of ours? Then its path, and its value if it has one.
fn as_field(word: &str) -> Option<(&str, Option<&str>)> {
    let (path, value) = match word.split_once(": ") {
        Some((path, value)) => (path, Some(value)),
        None => (word, None),
    };
    let is_path = path
        .bytes()
        .all(|sign| sign.is_ascii_alphanumeric() || b".[]".contains(&sign));
    let (first, _) = path.split_once('.')?;
    let is_ours = SCHEMAS
        .iter()
        .any(|schema| below(schema, first.trim_end_matches("[]")).is_some());
    let is_file = FILES.iter().any(|end| path.ends_with(end));
    (is_path && is_ours && !is_file).then_some((path, value))
}

#[test]
fn every_field_that_is_named_exists() {
    let (mut found, mut seen) = (Vec::new(), 0);
    for page in documents() {
        for word in page.quoted() {
            let Some((path, value)) = as_field(&word) else {
                continue;
            };
            seen += 1;
            if !exists(path) {
                found.push(format!("{}: `{word}`: there is no such field", page.path));
            }
            let words = SCHEMAS
                .iter()
                .filter_map(|it| below(it, path)?["enum"].as_array());
            let words: Vec<&Value> = words.flatten().collect();
            if let Some(value) = value
                && !words.is_empty()
                && !words.iter().any(|word| *word == value)
            {
                found.push(format!("{}: `{word}`: must be one of {words:?}", page.path));
            }
        }
    }
    assert!(seen > 100, "only {seen} fields");
    assert!(found.is_empty(), "{found:#?}");
}
