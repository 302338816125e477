//! The parameters of each driver, as a user writes them in a FenceDevice.
//!
//! An address is where credentials will be sent, so the API server already refuses everything that is not a plain https URL
//! of a host: no user info, query or fragment, and no placeholder but `${node.name}` (labels and annotations are writable by a
//! kubelet and must never choose an address).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crd::{rule, rule_at};

/// Driver `redfish`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    // At the parent, because a refusal at the field itself prints its value, and here that has a password in it.
    rule_at(
        "!self.address.contains('@')",
        "must not contain user info ('@'): put user name and password into the Secret of `credentialsRef`",
        ".address",
    ),
    rule_at(
        "self.address.startsWith('https://') || self.tls.verification == 'None'",
        "must start with 'https://' unless `tls.verification` is 'None'",
        ".address",
    ),
]))]
pub struct RedfishDriver {
    /// URL of the BMC, `https://host[:port]`. `${node.name}` stands for the name of the node.
    #[schemars(
        length(max = 2048),
        extend("x-kubernetes-validations" = [
            rule(
                "self.contains('@') || !self.replace('${node.name}', '').matches('[${}]')",
                "must contain no placeholder but '${node.name}': labels and annotations never choose an address",
            ),
            rule(
                "self.contains('@') || !self.matches('[?#]')",
                "must not contain a query ('?') or a fragment ('#')",
            ),
            rule(
                "self.contains('@') || self.replace('${node.name}', 'n').matches(\
                 '^https?://([0-9A-Za-z]([-.0-9A-Za-z]*[0-9A-Za-z])?|[[][0-9A-Fa-f:.]+[]])(:[1-9][0-9]{0,4})?(/|/redfish/v1/?)?$')",
                "must be https://host[:port], like 'https://10.0.0.1' or 'https://${node.name}-bmc.example.com:8443'",
            ),
            rule(
                "self.contains('@') || !self.matches(':[0-9]{1,5}(/.*)?$') \
                 || int(self.find(':[0-9]{1,5}(/.*)?$').find('[0-9]+')) <= 65535",
                "must have a port from 1 to 65535, or none",
            ),
        ])
    )]
    pub address: String,

    /// Which ComputerSystem of the service this is, its `Id`. Needed only when there are several.
    #[serde(rename = "systemID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub system_id: Option<String>,

    /// How the BMC's certificate is checked.
    #[serde(default)]
    pub tls: TlsSettings,
}

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
    /// `None` checks nothing: whoever answers gets the password.
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

/// Driver `ipmi`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule_at(
        "!self.address.replace('${node.name}', '').matches('[${}]')",
        "`address` must contain no placeholder but '${node.name}'",
        ".address",
    ),
    rule_at(
        "!self.address.matches('[/@?#[:space:]]')",
        "`address` must be a host name or an IP address, without scheme, user info, path or query",
        ".address",
    ),
]))]
pub struct IpmiDriver {
    /// Host name or IP address of the BMC. `${node.name}` stands for the name of the node.
    #[schemars(length(min = 1, max = 253))]
    pub address: String,

    /// UDP port.
    #[serde(default = "ipmi_port")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: u16,

    /// Cipher suite of the session, and no other is ever used: 17 (HMAC-SHA256, AES), or 3 (HMAC-SHA1, AES) for old BMCs.
    #[serde(default = "ipmi_cipher_suite")]
    #[schemars(
        range(min = 0, max = 255),
        extend("x-kubernetes-validations" = [
            rule("self != 0", "must not be 0, which lets everybody in without a password: use 17, or 3 for old BMCs"),
            rule(
                "self == 0 || self == 3 || self == 17",
                "must be 17, or 3 for old BMCs: the others do not both authenticate and encrypt, or are not supported",
            ),
        ])
    )]
    pub cipher_suite: u32,

    /// Privilege level that is asked for when a power command is sent; to read, it is always User.
    #[serde(default)]
    pub privilege: IpmiPrivilege,
}

fn ipmi_port() -> u16 {
    623
}

fn ipmi_cipher_suite() -> u32 {
    17
}

/// Privilege level of an IPMI session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IpmiPrivilege {
    /// Enough for power commands.
    #[default]
    Operator,
    /// For BMCs that ask for more.
    Administrator,
}

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

/// Driver `openstack`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenstackDriver {
    /// Name of the cloud in the `clouds.yaml` of the credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub cloud: Option<String>,
    /// Region.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub region: Option<String>,
}

/// Driver `vsphere`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VsphereDriver {
    /// Host name of the vCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub server: Option<String>,
    /// Datacenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub datacenter: Option<String>,
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

/// Driver `webhook`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule_at("isURL(self.url) && url(self.url).getScheme() == 'https'", "`url` must be an https URL", ".url"),
    rule_at(
        "!self.url.contains('@')",
        "must not contain user info ('@'): put user name and password into the Secret of `credentialsRef`",
        ".url",
    ),
]))]
pub struct WebhookDriver {
    /// URL that the requests go to.
    #[schemars(length(min = 8, max = 2048))]
    pub url: String,

    /// How long one request may take, in seconds.
    #[serde(default = "thirty_seconds")]
    #[schemars(range(min = 1, max = 300))]
    pub timeout_seconds: u32,

    /// How the server's certificate is checked.
    #[serde(default)]
    pub tls: TlsSettings,
}

fn thirty_seconds() -> u32 {
    30
}

/// Driver `manual`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManualDriver {
    /// What the human is asked to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub instructions: Option<String>,
}
