//! The settings of the drivers for BMCs, as a user writes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crd::{rule, rule_at};
use super::tls::TlsSettings;

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
