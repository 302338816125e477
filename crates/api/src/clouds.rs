//! The parameters of the drivers whose machines are instances of a cloud or virtual machines of a hypervisor.
//!
//! One FenceDevice covers a fleet: the machine follows from each Node's `spec.providerID`, and nothing here names it. The address is where
//! credentials are sent, so it has no placeholder.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::crd::{rule, rule_at};
use super::tls::TlsSettings;

/// Driver `openstack`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = address_rules("authURL")))]
pub struct OpenstackDriver {
    /// URL of Keystone, like `https://keystone.example.com:5000/v3`.
    #[serde(rename = "authURL")]
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = [url("https://keystone.example.com:5000/v3")]))]
    pub auth_url: String,

    /// Region of the catalog. Needed only when there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub region: Option<String>,

    /// How the certificates of Keystone and Nova are checked.
    #[serde(default)]
    pub tls: TlsSettings,
}

/// Driver `vsphere`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = address_rules("address")))]
pub struct VsphereDriver {
    /// URL of the vCenter, `https://host[:port]`.
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = [origin("https://vcenter.example.com")]))]
    pub address: String,

    /// How the certificate of the vCenter is checked.
    #[serde(default)]
    pub tls: TlsSettings,
}

/// Driver `proxmox`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = address_rules("address")))]
pub struct ProxmoxDriver {
    /// URL of the cluster's API, `https://host[:port]`, the port mostly 8006. A DNS name with the addresses of several nodes is tried one
    /// after the other: the API of a single node is silent when that node is down.
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = [origin("https://pve.example.com:8006")]))]
    pub address: String,

    /// The region in the Nodes' provider IDs (`proxmox://REGION/VMID`): a Node of another one is refused. Without it every region is taken for
    /// this cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub region: Option<String>,

    /// How the certificate of the API is checked.
    #[serde(default)]
    pub tls: TlsSettings,
}

/// Driver `libvirt`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule_at(
        "!self.uri.contains('@')",
        "must not contain user info ('@'): the certificate in the Secret of `credentialsRef` says who the operator is",
        ".uri",
    ),
]))]
pub struct LibvirtDriver {
    /// URI of the hypervisor on one host, as libvirt's own clients have it: `qemu+tls://host[:port]/system`. The port is 16514 where none is
    /// written.
    #[schemars(
        length(max = 2048),
        extend("x-kubernetes-validations" = [
            rule(
                "self.contains('@') || self.matches(\
                 '^[a-z][0-9a-z]*\\\\+tls://([0-9A-Za-z]([-.0-9A-Za-z]*[0-9A-Za-z])?|\\\\[[0-9A-Fa-f:.]+\\\\])(:[1-9][0-9]{0,4})?/[-._/0-9A-Za-z]*$')",
                "must be HYPERVISOR+tls://host[:port]/PATH without query and placeholder, like 'qemu+tls://hv-1.example.com/system'",
            ),
        ])
    )]
    pub uri: String,

    /// How the certificate of the host is checked.
    #[serde(default)]
    pub tls: TlsSettings,
}

/// Driver `hetznerCloud`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = address_rules("address")))]
pub struct HetznerCloudDriver {
    /// URL of the API, `https://host[:port]`. Another than Hetzner's is a proxy of your own in front of it.
    #[serde(default = "hetzner_cloud")]
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = [origin("https://api.hetzner.cloud")]))]
    pub address: String,

    /// How the certificate of the API is checked.
    #[serde(default)]
    pub tls: TlsSettings,
}

fn hetzner_cloud() -> String {
    "https://api.hetzner.cloud".to_owned()
}

/// Driver `aws`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = optional_address_rules("endpoint")))]
pub struct AwsDriver {
    /// Region of the instances, like `eu-central-1`. A Node whose provider ID names a zone of another one is refused.
    #[schemars(
        length(max = 63),
        extend("x-kubernetes-validations" = [
            rule("self.matches('^[a-z]+(-[a-z]+)+-[0-9]+$')", "must be a region, like 'eu-central-1'"),
        ])
    )]
    pub region: String,

    /// URL of EC2's API, `https://host[:port]`, where it is not the one of the region: a VPC endpoint without private DNS, for instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 2048),
        extend("x-kubernetes-validations" = [origin("https://vpce-0a1b.ec2.eu-central-1.vpce.amazonaws.com")])
    )]
    pub endpoint: Option<String>,

    /// How the certificates of the API, and of STS, are checked.
    #[serde(default)]
    pub tls: TlsSettings,
}

/// Driver `azure`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    address_rules("address"), optional_address_rules("loginAddress"),
].concat()))]
pub struct AzureDriver {
    /// URL of Azure Resource Manager, `https://host[:port]`: `https://management.usgovcloudapi.net` and `https://management.chinacloudapi.cn`
    /// are those of other clouds. Tokens are asked for this address alone.
    #[serde(default = "azure_public")]
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = [origin("https://management.azure.com")]))]
    pub address: String,

    /// URL of Microsoft Entra ID, where the Secret is exchanged for a token, `https://host[:port]`. Needed only beside an `address` that is
    /// none of the three clouds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = [origin("https://login.microsoftonline.com")]))]
    pub login_address: Option<String>,

    /// The subscription of the machines: a Node whose provider ID names another one is refused. Without it every one is taken that the account
    /// may see.
    #[serde(rename = "subscriptionID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub subscription_id: Option<String>,

    /// The resource group of the machines: a Node whose provider ID names another one is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub resource_group: Option<String>,

    /// How the certificates of both services are checked.
    #[serde(default)]
    pub tls: TlsSettings,
}

fn azure_public() -> String {
    "https://management.azure.com".to_owned()
}

/// Driver `gcp`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = address_rules("endpoint")))]
pub struct GcpDriver {
    /// ID of the project with the instances, like `prod-4711`; not its number. A Node whose provider ID names another one is refused.
    #[schemars(
        length(max = 128),
        extend("x-kubernetes-validations" = [
            rule(
                "self.matches('^([a-z0-9][-.a-z0-9]*:)?[a-z][-a-z0-9]*$')",
                "must be the ID of a project, like 'prod-4711', and not its number",
            ),
        ])
    )]
    pub project: String,

    /// What becomes of an instance with Local SSD disks, whose content a power-off would lose.
    #[serde(rename = "localSSD", default)]
    pub local_ssd: LocalSsd,

    /// URL of the Compute Engine API, `https://host[:port]`. Another than Google's is a Private Service Connect endpoint, or a proxy of your own.
    #[serde(default = "compute_engine")]
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = [origin("https://compute.googleapis.com")]))]
    pub endpoint: String,

    /// How the certificate of the API is checked.
    #[serde(default)]
    pub tls: TlsSettings,
}

/// What becomes of an instance with disks that a power-off discards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LocalSsd {
    /// It is not powered off, and `READY` says so.
    #[default]
    Refuse,
    /// It is powered off, and what is on these disks is lost.
    Discard,
}

fn compute_engine() -> String {
    "https://compute.googleapis.com".to_owned()
}

/// Driver `nutanix`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = address_rules("address")))]
pub struct NutanixDriver {
    /// URL of the Prism Central, `https://host[:port]`, the port mostly 9440.
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = [origin("https://prism.example.com:9440")]))]
    pub address: String,

    /// How the certificate of the Prism Central is checked.
    #[serde(default)]
    pub tls: TlsSettings,
}

/// Driver `xapi`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = address_rules("address")))]
pub struct XapiDriver {
    /// URL of the pool's master, `https://host[:port]`. Another member names the master, and is followed there only if the annotation
    /// `nodefencing.io/allowed-hosts` of the Secret lists it.
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = [origin("https://xcp-1.example.com")]))]
    pub address: String,

    /// How the certificate of the master is checked.
    #[serde(default)]
    pub tls: TlsSettings,
}

/// The address is that of a service, with a path or without.
pub(super) fn url(example: &str) -> Value {
    rule(
        "self.contains('@') || self.matches(\
         '^https?://([0-9A-Za-z]([-.0-9A-Za-z]*[0-9A-Za-z])?|\\\\[[0-9A-Fa-f:.]+\\\\])(:[1-9][0-9]{0,4})?(/[-._0-9A-Za-z]+)*/?$')",
        &format!("must be a URL without query, fragment and placeholder, like '{example}'"),
    )
}

/// The address is that of a service, without a path.
pub(super) fn origin(example: &str) -> Value {
    rule(
        "self.contains('@') || self.matches(\
         '^https?://([0-9A-Za-z]([-.0-9A-Za-z]*[0-9A-Za-z])?|\\\\[[0-9A-Fa-f:.]+\\\\])(:[1-9][0-9]{0,4})?/?$')",
        &format!("must be https://host[:port] without placeholder, like '{example}'"),
    )
}

/// What holds of an address whatever follows it. At the parent, because a refusal at the field itself prints its value.
pub(super) fn address_rules(field: &str) -> Vec<Value> {
    address_rules_where("", field)
}

/// The same of one that need not be there.
fn optional_address_rules(field: &str) -> Vec<Value> {
    address_rules_where(&format!("!has(self.{field}) || "), field)
}

fn address_rules_where(unless: &str, field: &str) -> Vec<Value> {
    let path = format!(".{field}");
    vec![
        rule_at(
            &format!("{unless}!self.{field}.contains('@')"),
            "must not contain user info ('@'): put what opens it into the Secret of `credentialsRef`",
            &path,
        ),
        rule_at(
            &format!(
                "{unless}self.{field}.startsWith('https://') || self.tls.verification == 'None'"
            ),
            "must start with 'https://' unless `tls.verification` is 'None'",
            &path,
        ),
    ]
}
