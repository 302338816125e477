//! The parameters of driver `pdu`, as a user writes them in a FenceDevice.
//!
//! A file of its own, because an outlet table has more to say than an address.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crd::{rule, rule_at};

/// Driver `pdu`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule_at(
        "!self.address.matches('[/@?#${}[:space:]]')",
        "`address` must be a host name or an IP address, without scheme, user info, path, query or placeholder",
        ".address",
    ),
    rule_at(
        "self.model == 'PoE' || !has(self.group)",
        "`group` must be set for model 'PoE' alone",
        ".group",
    ),
    rule_at(
        "(self.model == 'Generic') == has(self.generic)",
        "`generic` must be set for model 'Generic', and for no other",
        ".generic",
    ),
]))]
pub struct PduDriver {
    /// Host name or IP address of the PDU. A name stands for one PDU: at most one IPv4 and one IPv6 address.
    #[schemars(length(min = 1, max = 253))]
    pub address: String,

    /// UDP port.
    #[serde(default = "snmp_port")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: u16,

    /// Which table of outlets the PDU has. It is never guessed.
    pub model: PduModel,

    /// Every outlet of this PDU that feeds the machine, as its table numbers them. The outlets of another PDU belong in another
    /// FenceDevice, and both in one level with `require: All`.
    #[schemars(
        length(min = 1, max = 8),
        inner(range(min = 1, max = 65_535)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub outlets: Vec<u32>,

    /// Group of the ports of a PoE switch (`pethPsePortGroupIndex`): a box of a stack, or a module. Without it 1, as of a switch that is neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub group: Option<u32>,

    /// The table of outlets of a PDU that is not among the models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generic: Option<OutletTable>,

    /// How the PDU is talked to.
    #[serde(default)]
    pub snmp: SnmpSettings,
}

fn snmp_port() -> u16 {
    161
}

/// Which table of outlets a PDU has. The names of the tables are those of APC's PowerNet-MIB, and of the POWER-ETHERNET-MIB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PduModel {
    /// APC rack PDU of the second generation, such as AP8xxx and APDU9xxx: `rPDU2OutletSwitched`.
    APCRackPDU2,
    /// APC rack PDU of the first generation, such as AP7xxx: `rPDUOutlet`.
    APCRackPDU,
    /// APC MasterSwitch, such as AP9xxx: `sPDUOutletCtl`.
    APCMasterSwitch,
    /// PoE switch or midspan, whose ports are the outlets: `pethPsePortTable` of RFC 3621.
    PoE,
    /// Any other, described by `generic`.
    Generic,
}

/// A table of outlets: where each outlet is switched and read, and what the numbers mean. `${outlet}` stands for the outlet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule_at(
        "self.statusOffValue != self.statusOnValue",
        "`statusOffValue` and `statusOnValue` must differ",
        ".statusOffValue",
    ),
    rule_at(
        "!has(self.controlOnValue) || has(self.controlOnOID) || self.controlOnValue != self.controlOffValue",
        "`controlOnValue` and `controlOffValue` must differ",
        ".controlOnValue",
    ),
    rule_at(
        "!has(self.controlOnOID) || (has(self.controlOnValue) && self.controlOnOID != self.controlOID)",
        "`controlOnOID` needs `controlOnValue`, and must differ from `controlOID`",
        ".controlOnOID",
    ),
]))]
pub struct OutletTable {
    /// The INTEGER that is set to switch an outlet off, like `1.3.6.1.4.1.13742.6.4.1.2.1.2.1.${outlet}`.
    #[serde(rename = "controlOID")]
    #[schemars(length(max = 256), extend("x-kubernetes-validations" = [oid_rule()]))]
    pub control_oid: String,

    /// What is written there to switch it off at once. Never a value that reboots, or that waits.
    #[schemars(range(min = -2_147_483_648_i64, max = 2_147_483_647_i64))]
    pub control_off_value: i32,

    /// What is written there to switch it on at once. Without it nothing is switched on (`powerOn.policy` of a policy).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -2_147_483_648_i64, max = 2_147_483_647_i64))]
    pub control_on_value: Option<i32>,

    /// Where `controlOnValue` is written on a PDU with a column of its own for switching on. Without it, where an outlet is switched off.
    #[serde(
        default,
        rename = "controlOnOID",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 256), extend("x-kubernetes-validations" = [oid_rule()]))]
    pub control_on_oid: Option<String>,

    /// The INTEGER that says whether an outlet has power, like `1.3.6.1.4.1.13742.6.4.1.2.1.3.1.${outlet}`. Where the PDU keeps what was
    /// commanded and what is so apart, take what is so.
    #[serde(rename = "statusOID")]
    #[schemars(length(max = 256), extend("x-kubernetes-validations" = [oid_rule()]))]
    pub status_oid: String,

    /// What is read there when the outlet has no power. Only this is off.
    #[schemars(range(min = -2_147_483_648_i64, max = 2_147_483_647_i64))]
    pub status_off_value: i32,

    /// What is read there when the outlet has power.
    #[schemars(range(min = -2_147_483_648_i64, max = 2_147_483_647_i64))]
    pub status_on_value: i32,
}

fn oid_rule() -> serde_json::Value {
    rule(
        "self.contains('${outlet}') \
         && self.replace('${outlet}', '1').matches('^[.]?[0-2]([.](0|[1-9][0-9]*))+$')",
        "must be an object identifier with '${outlet}' in the place of the outlet",
    )
}

/// How an agent is talked to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnmpSettings {
    /// `V3` signs and encrypts; the Secret has the keys `username`, `authPassword` and `privPassword`. `V2c` sends the key
    /// `community` in plain text, with which everyone on the network can switch outlets: for PDUs that know nothing else.
    pub version: SnmpVersion,

    /// How messages of version 3 are signed: the protocol of the user on the PDU.
    pub authentication: SnmpAuthentication,

    /// How messages of version 3 are encrypted: the protocol of the user on the PDU.
    pub privacy: SnmpPrivacy,
}

/// Version of SNMP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SnmpVersion {
    /// With users, signed.
    #[default]
    V3,
    /// With a community, in plain text.
    V2c,
}

/// How messages are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SnmpAuthentication {
    /// HMAC-SHA-96, for old PDUs.
    SHA1,
    /// HMAC-128-SHA-224.
    SHA224,
    /// HMAC-192-SHA-256.
    #[default]
    SHA256,
    /// HMAC-256-SHA-384.
    SHA384,
    /// HMAC-384-SHA-512.
    SHA512,
}

/// How messages are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum SnmpPrivacy {
    /// CFB128-AES-128.
    #[default]
    AES128,
    /// Not at all: nothing secret is in them but which outlet is switched.
    None,
}
