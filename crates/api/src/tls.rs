//! How a driver checks the certificate of the server that it talks to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crd::rule;

/// How a server's certificate is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "self.verification != 'Pinned' || has(self.sha256Fingerprint)",
        "`sha256Fingerprint` must be set when `verification` is 'Pinned'",
    ),
]))]
pub struct TlsSettings {
    /// `Full` checks chain and host name. `Pinned` checks that the certificate is exactly the one of `sha256Fingerprint`.
    /// `None` checks nothing: any host that answers gets the password.
    pub verification: TlsVerification,

    /// ConfigMap or Secret in the operator's namespace with the CA certificates; without it those of the operator's system count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_ref: Option<CaReference>,

    /// SHA-256 of the server's certificate: 64 hexadecimal digits, with or without colons between the bytes, as
    /// `openssl x509 -noout -fingerprint -sha256` prints it.
    #[serde(rename = "sha256Fingerprint", skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 95),
        extend("x-kubernetes-validations" = [
            rule(
                "self.matches('^([0-9A-Fa-f]{2}:){31}[0-9A-Fa-f]{2}$|^[0-9A-Fa-f]{64}$')",
                "must be 64 hexadecimal digits, with or without colons between the bytes, as \
                 `openssl x509 -noout -fingerprint -sha256` prints them",
            ),
        ])
    )]
    pub sha256_fingerprint: Option<String>,
}

/// How a server's certificate is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum TlsVerification {
    /// Chain and host name.
    #[default]
    Full,
    /// Exactly one certificate.
    Pinned,
    /// Not at all.
    None,
}

/// A key of a ConfigMap or a Secret in the operator's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaReference {
    /// What holds the certificates. A Secret is what cert-manager writes.
    #[serde(default)]
    pub kind: CaKind,

    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Key with the certificates, PEM.
    #[serde(default = "ca_crt")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// What holds CA certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CaKind {
    /// A ConfigMap, as trust-manager writes it.
    #[default]
    ConfigMap,
    /// A Secret, as cert-manager writes it.
    Secret,
}

fn ca_crt() -> String {
    "ca.crt".to_owned()
}
