//! The server in memory against the verdicts of a real API server on the objects of users (`tests/data/api`): the same ones, word for word.
//! The end to end test `api::` holds the same tables against a real one.

use serde::Deserialize;
use serde_json::{Value, json};
use simapi::cel::NOT_JUDGED;
use simapi::{Answer, Api, Request};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PLURALS: [(&str, &str); 3] = [
    ("NodeFence", "nodefences"),
    ("FenceDevice", "fencedevices"),
    ("NodeFencingPolicy", "nodefencingpolicies"),
];

/// A row of `verdicts.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    policy: Option<Value>,
    device: Option<Value>,
    fence: Option<Value>,
    then: Option<Value>,
    expect: String,
    message: Option<String>,
}

fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn definitions() -> Vec<(&'static str, String)> {
    let yaml = |(_, plural)| (plural, text(&format!("../crds/{plural}.yaml")));
    PLURALS.map(yaml).to_vec()
}

fn api() -> Api {
    let definitions = definitions();
    let crds: Vec<(&'static str, &str)> = definitions
        .iter()
        .map(|(plural, yaml)| (*plural, yaml.as_str()))
        .collect();
    Api::new(&crds, || "2026-01-01T00:00:00Z".parse().expect("a time"))
}

/// What the server says to an object, or to a patch of one: nothing, or what it has against it.
fn said(api: &Api, method: http::Method, path: &str, body: &Value) -> Result<(), String> {
    let content = match method {
        http::Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request {
        actor: "table".into(),
        method,
        path: path.to_owned(),
        query: [].into(),
        content_type: content.to_owned(),
        accept: String::new(),
        body: body.to_string().into(),
    };
    let Answer::Whole(code, body) = api.answer(&request) else {
        panic!("{path} is no watch");
    };
    if code < 300 {
        return Ok(());
    }
    let status: Value = serde_json::from_slice(&body).expect("JSON");
    Err(status["message"].as_str().expect("a message").to_owned())
}

fn collection(kind: &str) -> String {
    let found = PLURALS.iter().find(|(known, _)| *known == kind);
    let (_, plural) = found.expect("a kind of ours");
    format!("/apis/nodefencing.io/v1alpha1/{plural}")
}

fn create(api: &Api, kind: &str, name: &str, spec: &Value) -> Result<(), String> {
    let object = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    said(api, http::Method::POST, &collection(kind), &object)
}

/// What the API server adds to every error of a schema that ends it.
const UNCHECKED: &str = ", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]";

/// A refusal without the name of the object, and without what is said at every one.
fn reason(message: &str) -> &str {
    let reason = message.split_once("is invalid: ");
    let reason = reason.map_or(message, |(_, reason)| reason);
    let alone = reason.strip_prefix('[');
    let alone = alone.and_then(|reason| reason.strip_suffix(UNCHECKED));
    alone.unwrap_or(reason)
}

/// What the API server refuses and the one in memory does not: unknown fields, of which a strict request is told and any other is not, and
/// what no rule that can be evaluated here is broken by.
const LET_THROUGH: [&str; 3] = [
    "unknown field",
    "unknown field at the top",
    "window in a time zone that does not exist",
];

#[test]
fn objects_get_the_verdicts_of_a_real_api_server_word_for_word() {
    let api = api();
    let rows: Vec<Row> =
        serde_saphyr::from_str(&text("../tests/data/api/verdicts.yaml")).expect("a table");
    let (mut wrong, mut let_through) = (Vec::new(), Vec::new());
    for (index, row) in rows.iter().enumerate() {
        let specs = [
            ("NodeFencingPolicy", &row.policy),
            ("FenceDevice", &row.device),
            ("NodeFence", &row.fence),
        ];
        let spec = specs
            .iter()
            .find_map(|(kind, spec)| Some((*kind, spec.as_ref()?)));
        let (kind, spec) = spec.expect("policy, device or fence");
        let name = format!("row-{index}");
        let mut verdict = create(&api, kind, &name, spec);
        if let Some(change) = &row.then {
            assert_eq!(verdict, Ok(()), "{}", row.name);
            let path = format!("{}/{name}", collection(kind));
            verdict = said(&api, http::Method::PATCH, &path, &json!({"spec": change}));
        }
        match (row.expect.as_str(), &verdict, &row.message) {
            ("allow", Ok(()), _) => {}
            ("deny", Err(message), Some(words)) if reason(message) == words => {}
            ("deny", Ok(()), _) => let_through.push(row.name.as_str()),
            _ => wrong.push(format!("{}: {verdict:?}, not {:?}", row.name, row.message)),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} verdicts:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(let_through, LET_THROUGH);
}

#[test]
fn a_name_fits_into_a_claim() {
    let api = api();
    let spec =
        json!({"nodeName": "w", "trigger": {"type": "External"}, "fence": {"mode": "Observe"}});
    assert_eq!(create(&api, "NodeFence", &"n".repeat(54), &spec), Ok(()));
    let refused = create(&api, "NodeFence", &"n".repeat(55), &spec).expect_err("too long");
    assert_eq!(
        reason(&refused),
        "<nil>: Invalid value: name must be 54 characters or fewer: with a hyphen and 8 more it is a taint's value, of 63 at most"
    );
}

/// All rules of a schema.
fn rules(schema: &Value, found: &mut BTreeSet<String>) {
    for rule in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        found.insert(rule["rule"].as_str().expect("a rule").trim().to_owned());
    }
    let fields = schema["properties"].as_object().into_iter().flatten();
    for (_, schema) in fields {
        rules(schema, found);
    }
    for name in ["items", "additionalProperties"] {
        if schema[name].is_object() {
            rules(&schema[name], found);
        }
    }
}

/// Any other one refuses what it cannot be evaluated for: `simapi/src/cel.rs`.
#[test]
fn the_rules_that_are_not_judged_are_rules() {
    let mut found = BTreeSet::new();
    for (_, yaml) in definitions() {
        let crd: Value = serde_saphyr::from_str(&yaml).expect("YAML");
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert_eq!(
            schema["properties"]["status"]["x-kubernetes-validations"],
            Value::Null
        );
        let mut of_status = BTreeSet::new();
        rules(&schema["properties"]["status"], &mut of_status);
        assert!(
            of_status.is_empty(),
            "rules of a status are not looked at: {of_status:?}"
        );
        rules(schema, &mut found);
    }
    for rule in NOT_JUDGED {
        assert!(found.contains(rule), "there is no rule `{rule}`");
    }
}
