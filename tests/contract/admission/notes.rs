//! Who may say in an annotation or a pause that they have acted.

use super::policy::{self, Policy, Verdict};
use super::{MANIFEST, WordRow, annotations, judge_word, patched, request};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A row of `notes.yaml`.
#[derive(Deserialize)]
pub struct NoteRow {
    pub name: String,
    user: String,
    object: String,
    #[serde(default)]
    notes: Map<String, Value>,
    #[serde(default)]
    pauses: Vec<Value>,
    #[serde(default)]
    created: bool,
    #[serde(default)]
    then: Map<String, Value>,
    #[serde(default, rename = "thenPauses")]
    then_pauses: Vec<Value>,
    #[serde(rename = "thenSpec")]
    then_spec: Option<Value>,
    pub expect: String,
    pub message: Option<String>,
}

pub fn judge_note(policies: &[Policy], row: &NoteRow) -> Verdict {
    let resource = match row.object.as_str() {
        "policy" => "nodefencingpolicies",
        "device" => "fencedevices",
        other => panic!("no object: {other}"),
    };
    let mut request = request(&row.user, ("nodefencing.io", resource));
    let mut object =
        json!({"metadata": {"name": "o", "annotations": annotations(&row.notes)}, "spec": {}});
    if !row.pauses.is_empty() {
        object["spec"]["pauseRequests"] = json!(row.pauses);
    }
    if row.created {
        (request.operation, request.new) = ("CREATE", object);
    } else {
        let mut then = json!({"metadata": {"annotations": annotations(&row.then)}});
        if resource == "nodefencingpolicies" {
            then["spec"] = json!({"pauseRequests": row.then_pauses});
        }
        if let Some(spec) = &row.then_spec {
            json_patch::merge(&mut then["spec"], spec);
        }
        request.new = patched(&object, &then).expect("a merge");
        request.old = object;
    }
    policy::judge(policies, &request)
}

/// One that was written before this rule stood, or while the policy was away: the API server takes no such note any more, so that no row has it.
#[test]
fn a_note_of_another_stops_nobody_who_lets_go() {
    let policies = policy::all(MANIFEST);
    let fence = json!({"nodeName": "w", "trigger": {"type": "Manual", "requestedBy": "admin", "reason": "a"}});
    let denials = |then_notes: Value| {
        let row = json!({
            "name": "old note", "user": "eve", "fence": fence, "then": {"desiredState": "Released"}, "expect": "allow",
            "notes": {"released-by": "admin", "release-reason": "a joke"}, "thenNotes": then_notes,
        });
        let row: WordRow = serde_json::from_value(row).expect("a row");
        judge_word(&policies, &row).denials
    };
    for own in [
        json!({}),
        json!({"released-by": null, "release-reason": null}),
        json!({"released-by": "eve", "release-reason": "back from the dead"}),
    ] {
        assert_eq!(denials(own.clone()), Vec::<String>::new(), "{own}");
    }
    assert!(!denials(json!({"release-reason": "never dead"})).is_empty());
}
