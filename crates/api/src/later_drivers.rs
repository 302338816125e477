//! The parameters of drivers that this version of the operator does not have: their fields are kept for later ones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Driver `gcp`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcpDriver {
    /// Project; without it the one in the Node's provider ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub project: Option<String>,
    /// Zone; without it the one in the Node's provider ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub zone: Option<String>,
}
