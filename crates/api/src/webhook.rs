//! The parameters of driver `webhook`: a service of the user's own, which knows the machines of many nodes.
//!
//! Which machine is meant stands in each request, and nothing here names it. The URL is where what opens the service is sent, so it has no
//! placeholder.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clouds::{address_rules, url};
use super::crd::rule_at;
use super::tls::TlsSettings;

/// Driver `webhook`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules()))]
pub struct WebhookDriver {
    /// URL that every request is sent to, like `https://fence.example.com/v1`.
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = [url("https://fence.example.com/v1")]))]
    pub url: String,

    /// What the operator shows the service: `Token` the value of `token` in the Secret, as `Authorization: Bearer`; `ClientCertificate` the
    /// certificate of `tls.crt` and `tls.key`.
    #[serde(default)]
    pub authentication: WebhookAuthentication,

    /// How the certificate of the service is checked.
    #[serde(default)]
    pub tls: TlsSettings,
}

/// How a service knows the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum WebhookAuthentication {
    /// By a secret that both have.
    #[default]
    Token,
    /// By a certificate of an authority that the service trusts.
    ClientCertificate,
}

fn rules() -> Vec<Value> {
    let mut all = address_rules("url");
    all.push(rule_at(
        "self.url.startsWith('https://') || self.authentication != 'ClientCertificate'",
        "must start with 'https://' when `authentication` is 'ClientCertificate'",
        ".url",
    ));
    all
}
