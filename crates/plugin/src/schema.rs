//! The shape of what is printed for programs (`-o json`), as JSON Schema: for whoever reads it, and for the test that keeps it.

use super::output::Content;
use super::{check, diagnose, explain, history, plan, status, test, version};
use schemars::{JsonSchema, schema_for};
use serde_json::Value;

/// The schema of each kind of `cli.nodefencing.io/v1`, by its name.
pub fn all() -> [(&'static str, Value); 8] {
    [
        of::<check::Findings<'static>>(),
        of::<diagnose::Diagnosis>(),
        of::<explain::Explanation>(),
        of::<history::History>(),
        of::<plan::Plan>(),
        of::<status::Status>(),
        of::<test::Test>(),
        of::<version::Version>(),
    ]
}

fn of<T: Content + JsonSchema>() -> (&'static str, Value) {
    (T::KIND, schema_for!(T).to_value())
}
