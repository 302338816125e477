//! What the API server itself knows of Nodes, and no schema says.

use crate::answer::Cause;
use serde_json::{Value, json};

/// A label's value, and a taint's, has so many bytes at most.
const LABEL_VALUE_MAX: usize = 63;
/// What is said of one that has other characters.
const LABEL_VALUE_FORM: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
    and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// What is wrong with a Node: its taints are to be unique by key and effect, of effects that exist, and their
/// values those that a label may have.
#[must_use]
pub fn of_node(node: &Value) -> Vec<Cause> {
    let taints = node["spec"]["taints"].as_array();
    let taints = taints.map(Vec::as_slice).unwrap_or_default();
    let mut causes = Vec::new();
    for (at, taint) in taints.iter().enumerate() {
        let same =
            |other: &Value| other["key"] == taint["key"] && other["effect"] == taint["effect"];
        let path = format!("metadata.taints[{at}]");
        if taints[..at].iter().any(same) {
            causes.push(Cause::duplicate(&path, taint));
        }
        if let Some(why) = taint["value"].as_str().and_then(wrong_with_label_value) {
            causes.push(Cause::invalid(
                &format!("{path}.value"),
                &taint["value"],
                why,
            ));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"].map(|effect| json!(effect));
        if !effects.contains(&taint["effect"]) {
            let path = format!("{path}.effect");
            causes.push(Cause::unsupported(&path, &taint["effect"], &effects));
        }
    }
    causes
}

/// `IsValidLabelValue` (apimachinery, pkg/util/validation).
fn wrong_with_label_value(value: &str) -> Option<String> {
    let mut wrong = Vec::new();
    if value.len() > LABEL_VALUE_MAX {
        wrong.push(format!("must be no more than {LABEL_VALUE_MAX} bytes"));
    }
    let mut ends = value.chars().take(1).chain(value.chars().last());
    let is_well_formed = ends.all(|it| it.is_ascii_alphanumeric())
        && value
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || "-_.".contains(it));
    if !is_well_formed {
        wrong.push(LABEL_VALUE_FORM.to_owned());
    }
    (!wrong.is_empty()).then(|| wrong.join(";"))
}
