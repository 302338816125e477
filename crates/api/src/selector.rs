//! A label selector with bounds: what Kubernetes' own type says, but small enough for the API server's cost budget.
//!
//! Only its shape is here; whether it matches a set of labels is decided in `fencing-core`.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::crd::rule;

/// Selects objects by their labels. All requirements must hold; an empty selector selects every object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LabelSelector {
    /// Labels that must be there with exactly this value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels")]
    pub match_labels: BTreeMap<String, String>,

    /// Further requirements, each of which must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// Schema of a map of labels, bounded.
fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": {"type": "string", "maxLength": 63},
    })
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0",
        "`values` must have at least one entry when `operator` is 'In' or 'NotIn', and none when it is 'Exists' or 'DoesNotExist'",
    ),
]))]
pub struct LabelSelectorRequirement {
    /// The label's key.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,

    /// How the label is compared with `values`.
    pub operator: SelectorOperator,

    /// Values for `In` and `NotIn`; must be absent for the other operators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 63)), extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectorOperator {
    /// The label is there and its value is one of `values`.
    In,
    /// The label is missing, or its value is none of `values`.
    NotIn,
    /// The label is there, whatever its value.
    Exists,
    /// The label is missing.
    DoesNotExist,
}
