//! The parameters of driver `httpOutlet`: a smart plug with an HTTP API, described by its requests and by where its answers say what is so.
//!
//! What is written here is all that the driver knows of a plug. Paths, bodies and pointers hold no secret: what opens a plug stands in the
//! Secret, and is sent in a header.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clouds::{address_rules, origin};
use super::crd::{rule, rule_at};
use super::tls::TlsSettings;

/// Driver `httpOutlet`. `${outlet}` stands for the outlet in each path, body and pointer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules()))]
pub struct HttpOutletDriver {
    /// URL of the plug, or of what switches it, `http://host[:port]`. Plain http needs `tls.verification: None`.
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = [origin("http://10.20.3.11")]))]
    pub url: String,

    /// The outlet, as the API calls it: `0`, or `switch.worker_3`. The outlets of a machine with several supplies are a FenceDevice each, all
    /// in one level with `require: All`.
    #[schemars(
        length(max = 127),
        extend("x-kubernetes-validations" = [
            rule("self.matches('^[-._%0-9A-Za-z]+$')", "must consist of letters, digits and '-', '.', '_', '%'"),
        ])
    )]
    pub outlet: String,

    /// The request that switches the outlet off at once. Never one that switches it on again after a while.
    pub power_off: OutletCommand,

    /// The request that switches it on. Without it nothing is switched on (`powerOn.policy` of a policy).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_on: Option<OutletCommand>,

    /// Where the state is read.
    pub status: OutletStatus,

    /// Where the measured power is read, of an outlet that measures it. An Off beside more than `maxMilliwatts` is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watts: Option<OutletWatts>,

    /// What the plug calls itself. An answer that names another plug, or none, is no reading: plugs change their addresses.
    #[serde(default, rename = "deviceID", skip_serializing_if = "Option::is_none")]
    pub device_id: Option<OutletDeviceId>,

    /// What the operator shows the plug.
    #[serde(default)]
    pub authentication: OutletAuthentication,

    /// Name of the header for `authentication: Header`, like `X-API-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 63),
        extend("x-kubernetes-validations" = [
            rule("self.matches('^[A-Za-z][-0-9A-Za-z]*$')", "must be the name of a header, like 'X-API-Key'"),
        ])
    )]
    pub header: Option<String>,

    /// How the certificate of an https URL is checked.
    #[serde(default)]
    pub tls: TlsSettings,
}

/// A request that switches an outlet. An answer of 200 to 299 says that it was taken; what has come of it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [no_password("")]))]
pub struct OutletCommand {
    /// Its method.
    #[serde(default)]
    pub method: OutletMethod,

    /// Its path and query, like `/rpc/Switch.Set?id=${outlet}&on=false`.
    #[schemars(length(max = 1024), extend("x-kubernetes-validations" = [path()]))]
    pub path: String,

    /// Its body, which is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub body: Option<String>,
}

/// Method of a request that switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum OutletMethod {
    /// For plugs that switch by a GET.
    GET,
    /// The usual one.
    #[default]
    POST,
    /// For plugs that have the state replaced.
    PUT,
}

/// Where the state of an outlet is read, by a GET whose answer is JSON. A string, a number, true and false are compared by their text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [no_password("")]))]
pub struct OutletStatus {
    /// Path and query.
    #[schemars(length(max = 1024), extend("x-kubernetes-validations" = [path()]))]
    pub path: String,

    /// JSON pointer (RFC 6901) to the state, like `/switch:${outlet}/output`. Where the plug keeps what was commanded and what is so apart,
    /// take what is so.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [pointer()]))]
    pub pointer: String,

    /// What is read there when the outlet has no power. Only this is off.
    #[schemars(length(min = 1, max = 63))]
    pub off_value: String,

    /// What is read there when the outlet has power.
    #[schemars(length(min = 1, max = 63))]
    pub on_value: String,

    /// JSON pointers to what speaks against an Off, like a timer that switches on again. Only an answer that has nothing, null or false there
    /// counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 8),
        inner(length(max = 253)),
        extend("x-kubernetes-list-type" = "set", "x-kubernetes-validations" = [
            rule(
                "self.all(it, it.replace('${outlet}', '0').matches('^/[^${}]*$'))",
                "must be JSON pointers that begin with '/', with no placeholder but '${outlet}'",
            ),
        ])
    )]
    pub unless: Vec<String>,
}

/// Where the measured power is read: a number, or a string with one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [no_password("!has(self.path) || ")]))]
pub struct OutletWatts {
    /// Path and query; without it the power stands in the answer with the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), extend("x-kubernetes-validations" = [path()]))]
    pub path: Option<String>,

    /// JSON pointer to the watts, like `/switch:${outlet}/apower`.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [pointer()]))]
    pub pointer: String,

    /// The most that an outlet without power may measure, in thousandths of a watt. The default is above what meters read of nothing, and below
    /// what a small computer takes that runs.
    #[serde(default = "one_watt")]
    #[schemars(range(min = 0, max = 5000))]
    pub max_milliwatts: u32,
}

fn one_watt() -> u32 {
    1000
}

/// What a plug calls itself in the answer with the state, like its MAC address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutletDeviceId {
    /// JSON pointer to it, like `/sys/mac`.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [pointer()]))]
    pub pointer: String,

    /// What must be read there.
    #[schemars(length(min = 1, max = 253))]
    pub value: String,
}

/// How a plug knows the operator. Digest, and what stands in a query, are not supported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum OutletAuthentication {
    /// Not at all: whoever reaches the plug may switch it.
    #[default]
    None,
    /// By `username` and `password` of the Secret (RFC 7617).
    Basic,
    /// By `token` of the Secret, as `Authorization: Bearer`.
    Bearer,
    /// By `token` of the Secret, in the header that `header` names.
    Header,
}

/// In a path that holds a password.
const PASSWORD: &str = "'(?i)pass(word|wd)?='";

fn path() -> Value {
    rule(
        &format!(
            "self.matches({PASSWORD}) || self.replace('${{outlet}}', '0').matches('^/[-._~!&()*+,;=:@%/?0-9A-Za-z]*$')"
        ),
        "must be a path that begins with '/', with a query or without, and no placeholder but '${outlet}'",
    )
}

/// At the parent, because a refusal at the field itself prints its value.
fn no_password(unless: &str) -> Value {
    rule_at(
        &format!("{unless}!self.path.matches({PASSWORD})"),
        "must contain no password: what opens the plug belongs into the Secret of `credentialsRef`, and is sent in a header",
        ".path",
    )
}

fn pointer() -> Value {
    rule(
        "self.replace('${outlet}', '0').matches('^/[^${}]*$')",
        "must be a JSON pointer that begins with '/', with no placeholder but '${outlet}'",
    )
}

/// A request that names no outlet would let two FenceDevices have one outlet.
fn rules() -> Vec<Value> {
    let names = |of: &str| {
        format!(
            "(self.{of}.path + (has(self.{of}.body) ? self.{of}.body : '')).contains('${{outlet}}')"
        )
    };
    let needs = |field: &str, condition: &str| {
        rule_at(
            condition,
            &format!("`{field}` must contain '${{outlet}}' in its path or body"),
            &format!(".{field}"),
        )
    };
    let mut all = address_rules("url");
    all.extend([
        needs("powerOff", &names("powerOff")),
        needs(
            "powerOn",
            &format!("!has(self.powerOn) || {}", names("powerOn")),
        ),
        rule_at(
            "(self.status.path + self.status.pointer).contains('${outlet}')",
            "`status` must contain '${outlet}' in its path or pointer",
            ".status",
        ),
        rule_at(
            "self.status.offValue != self.status.onValue",
            "`offValue` and `onValue` must differ",
            ".status.offValue",
        ),
        rule_at(
            "has(self.header) == (self.authentication == 'Header')",
            "`header` must be set for `authentication` 'Header', and for no other",
            ".header",
        ),
    ]);
    all
}
