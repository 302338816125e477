//! The parameters of driver `fenceAgent`, as a user writes them in a FenceDevice.
//!
//! An agent is a program with parameters of its own. Which agents and which of their parameters are taken is for the driver to say, which gives
//! the reason; here is what holds of all of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crd::rule;

/// The keys that a Secret may have for an agent.
pub const SECRET_KEYS: [&str; 4] = ["username", "password", "community", "privPassword"];

/// Driver `fenceAgent`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FenceAgentDriver {
    /// Name of the agent, for instance `fence_ipmilan`. The operator's image with agents has it; `docs/how-to/fence-agents.md` lists those
    /// that are reviewed, and no other is run.
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-validations" = [
            rule("self.matches('^fence_[a-z0-9_]+$')", "must be the name of an agent, without a path, for instance 'fence_ipmilan'"),
        ])
    )]
    pub agent: String,

    /// The agent's own parameters, written to its standard input. `ip` is the address of the device; the action is the operator's.
    #[schemars(
        length(min = 1, max = 32),
        extend(
            "x-kubernetes-list-type" = "map",
            "x-kubernetes-list-map-keys" = ["name"],
            "x-kubernetes-validations" = [
                rule(
                    "self.exists(it, it.name == 'ip' && has(it.value))",
                    "must have `ip` with a `value`, the address that the agent sends its credentials to",
                ),
            ],
        )
    )]
    pub parameters: Vec<FenceAgentParameter>,
}

/// One parameter of a fence agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule("has(self.value) != has(self.secretKey)", "must set exactly one of `value`, `secretKey`"),
]))]
pub struct FenceAgentParameter {
    /// Name of the parameter, as the agent describes it.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub value: Option<String>,
    /// Key of the credentials' Secret with its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = [one_of_the_keys()]))]
    pub secret_key: Option<String>,
}

fn one_of_the_keys() -> serde_json::Value {
    let quoted = SECRET_KEYS.map(|key| format!("'{key}'")).join(", ");
    rule(
        &format!("self in [{quoted}]"),
        &format!("must be one of {}", SECRET_KEYS.join(", ")),
    )
}
