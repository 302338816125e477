//! The parameters of drivers that this version of the operator does not have: their fields are kept for later ones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crd::rule;

/// Driver `aws`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AwsDriver {
    /// Region; without it the one in the Node's provider ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub region: Option<String>,
}

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

/// Driver `azure`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AzureDriver {
    /// Subscription; without it the one in the Node's provider ID.
    #[serde(rename = "subscriptionID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub subscription_id: Option<String>,
    /// Resource group; without it the one in the Node's provider ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub resource_group: Option<String>,
}

/// Driver `bareMetalHost`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BareMetalHostDriver {
    /// Name of the BareMetalHost.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
}

/// Driver `fenceAgent`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FenceAgentDriver {
    /// Name of the agent, for instance `fence_apc_snmp`.
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-validations" = [
            rule("self.matches('^fence_[a-z0-9_]+$')", "must be the name of an agent, without a path, for instance 'fence_apc_snmp'"),
        ])
    )]
    pub agent: String,

    /// The agent's own parameters, written to its standard input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub parameters: Vec<FenceAgentParameter>,
}

/// One parameter of a fence agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule("has(self.value) != has(self.secretKey)", "must set exactly one of `value`, `secretKey`"),
]))]
pub struct FenceAgentParameter {
    /// Name of the parameter.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub value: Option<String>,
    /// Key of the credentials' Secret with its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub secret_key: Option<String>,
}
