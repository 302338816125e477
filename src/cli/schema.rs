//! The shape of what is printed for programs (`-o json`), as JSON Schema: for whoever reads it, and for the test that keeps it.

use super::{check, diagnose, explain, history, plan, status, test};
use schemars::{JsonSchema, schema_for};
use serde_json::Value;

/// The schema of each kind of `cli.nodefencing.io/v1`, by its name.
pub fn all() -> [(&'static str, Value); 7] {
    [
        ("Check", of::<check::Findings<'static>>()),
        ("Diagnosis", of::<diagnose::Diagnosis>()),
        ("Explanation", of::<explain::Explanation>()),
        ("History", of::<history::History>()),
        ("Plan", of::<plan::Plan>()),
        ("Status", of::<status::Status>()),
        ("Test", of::<test::Test>()),
    ]
}

fn of<T: JsonSchema>() -> Value {
    schema_for!(T).to_value()
}
