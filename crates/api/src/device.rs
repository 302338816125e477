//! FenceDevice: how to reach the power of one machine, or of a fleet.
//!
//! A device is probed in peace time, so that "this node cannot be fenced" is known before the outage and not during it. What
//! it answers is trusted only as far as its identity: the system UUID pinned while the node was Ready (S5).

#![allow(
    clippy::duplicated_attributes,
    reason = "each printer column has a type and a path"
)]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crd::{rule, rule_at};
use super::selector::LabelSelector;

pub use super::device_status::{
    BmcInfo, DeviceNodes, FenceDeviceStatus, PinnedSystem, PositiveControl, PowerState, SystemInfo,
};
pub use super::drivers::{IpmiDriver, IpmiPrivilege, ManualDriver, RedfishDriver};
pub use super::later_drivers::{
    AwsDriver, AzureDriver, BareMetalHostDriver, FenceAgentDriver, FenceAgentParameter, GcpDriver,
    OpenstackDriver, VsphereDriver, WebhookDriver,
};
pub use super::pdu::PduDriver;
pub use super::tls::{CaKind, CaReference, TlsSettings, TlsVerification};

/// Annotation of a FenceDevice that asks for a probe at once, by the time of the request (RFC 3339). Each time is answered once.
pub const PROBE_REQUESTED_AT: &str = "nodefencing.io/probe-requested-at";

/// How to reach the power of one machine, or of a fleet.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "nodefencing.io",
    version = "v1alpha1",
    kind = "FenceDevice",
    plural = "fencedevices",
    shortname = "fdev",
    category = "fencing",
    status = "FenceDeviceStatus",
    derive = "PartialEq",
    doc = "How to reach the power of one machine, or of a fleet.",
    annotation("helm.sh/resource-policy", "keep"),
    selectable = ".spec.nodeName",
    printcolumn(name = "NODE", type_ = "string", json_path = ".spec.nodeName"),
    printcolumn(name = "DRIVER", type_ = "string", json_path = ".status.driver"),
    printcolumn(name = "POWER", type_ = "string", json_path = ".status.powerState"),
    printcolumn(
        name = "READY",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "IDENTITY",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="IdentityVerified")].status"#
    ),
    printcolumn(
        name = "LAST-OK",
        type_ = "date",
        json_path = ".status.lastSuccessTime"
    ),
    printcolumn(
        name = "REASON",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#,
        priority = 1
    ),
    printcolumn(
        name = "MODEL",
        type_ = "string",
        json_path = ".status.system.model",
        priority = 1
    ),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule("has(self.nodeName) != has(self.nodeSelector)", "must set exactly one of `nodeName`, `nodeSelector`"),
    rule(
        "(has(self.redfish) ? 1 : 0) + (has(self.ipmi) ? 1 : 0) + (has(self.aws) ? 1 : 0) + (has(self.gcp) ? 1 : 0) \
         + (has(self.azure) ? 1 : 0) + (has(self.openstack) ? 1 : 0) + (has(self.vsphere) ? 1 : 0) \
         + (has(self.bareMetalHost) ? 1 : 0) + (has(self.fenceAgent) ? 1 : 0) + (has(self.webhook) ? 1 : 0) \
         + (has(self.manual) ? 1 : 0) + (has(self.pdu) ? 1 : 0) == 1",
        "must set exactly one driver: redfish, ipmi, pdu or manual (aws, gcp, azure, openstack, vsphere, bareMetalHost, fenceAgent and \
         webhook are for later versions)",
    ),
    rule("has(self.nodeName) == has(oldSelf.nodeName)", "`nodeName` may not be added or removed: create another FenceDevice instead"),
    rule("!has(self.redfish) || has(self.credentialsRef)", "`credentialsRef` must be set for driver `redfish`"),
    rule("!has(self.ipmi) || has(self.credentialsRef)", "`credentialsRef` must be set for driver `ipmi`"),
    rule("!has(self.pdu) || has(self.credentialsRef)", "`credentialsRef` must be set for driver `pdu`"),
    rule_at(
        "!has(self.pdu) || self.identityCheck == 'Skip'",
        "`identityCheck` must be 'Skip' for driver `pdu`: an outlet cannot name its machine. Verify the wiring once, with the \
         node drained: switch the outlets off, and see that this machine is dark",
        ".identityCheck",
    ),
    rule("!has(self.pdu) || has(self.nodeName)", "`nodeName` must be set for driver `pdu`: outlets belong to one machine"),
    rule_at(
        "!has(self.nodeSelector) || !has(self.redfish) || self.redfish.address.contains('${node.name}')",
        "`redfish.address` must contain '${node.name}' when `nodeSelector` is used: each node has its own device",
        ".redfish.address",
    ),
    rule_at(
        "!has(self.nodeSelector) || !has(self.ipmi) || self.ipmi.address.contains('${node.name}')",
        "`ipmi.address` must contain '${node.name}' when `nodeSelector` is used: each node has its own device",
        ".ipmi.address",
    ),
]))]
pub struct FenceDeviceSpec {
    /// The Node whose machine this device controls. Exactly one of `nodeName` and `nodeSelector` must be set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        extend("x-kubernetes-validations" = [
            rule("self == oldSelf", "`nodeName` is immutable: create another FenceDevice for another node"),
        ])
    )]
    pub node_name: Option<String>,

    /// Nodes that each have such a device, for a whole fleet with one address scheme.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,

    /// Driver `redfish`: a BMC with DMTF's Redfish API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redfish: Option<RedfishDriver>,

    /// Driver `ipmi`: a BMC with IPMI 2.0 over LAN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipmi: Option<IpmiDriver>,

    /// Driver `pdu`: the outlets of a switched PDU, over SNMP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pdu: Option<PduDriver>,

    /// Driver `aws`: EC2 instances, found by the Node's provider ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsDriver>,

    /// Driver `gcp`: Compute Engine instances, found by the Node's provider ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gcp: Option<GcpDriver>,

    /// Driver `azure`: virtual machines, found by the Node's provider ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure: Option<AzureDriver>,

    /// Driver `openstack`: Nova instances, found by the Node's provider ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openstack: Option<OpenstackDriver>,

    /// Driver `vsphere`: virtual machines, found by the Node's provider ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<VsphereDriver>,

    /// Driver `bareMetalHost`: a host that Metal3 manages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bare_metal_host: Option<BareMetalHostDriver>,

    /// Driver `fenceAgent`: an agent of the ClusterLabs collection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence_agent: Option<FenceAgentDriver>,

    /// Driver `webhook`: a service of your own over HTTPS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookDriver>,

    /// Driver `manual`: a human looks at the machine and confirms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual: Option<ManualDriver>,

    /// Secret in the operator's namespace with the keys `username` and `password`; for driver `pdu` those that `pdu.snmp.version`
    /// names. Its annotation `nodefencing.io/allowed-hosts`, if it has one, lists the hosts that the Secret may be sent to,
    /// separated by commas: names as a FenceDevice has them, `*.` and a domain, IP addresses, ranges such as 10.20.0.0/16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<SecretReference>,

    /// Whether the device's system UUID must equal `status.nodeInfo.systemUUID` of the Node before any power command or
    /// taint. `BestEffort` only refuses a mismatch. `Skip` is for devices that do not know the machine, like an outlet.
    #[serde(default)]
    pub identity_check: IdentityCheck,

    /// Devices of the same group are talked to one after the other, for instance the blades of one chassis.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub serialization_group: Option<String>,

    /// How the device is probed in peace time.
    #[serde(default)]
    pub probe: ProbeSettings,
}

impl FenceDeviceSpec {
    /// Name of the driver that is set, as the field is called; `none` for an object no rule has checked.
    #[must_use]
    pub fn driver_name(&self) -> &'static str {
        self.driver_names().first().unwrap_or(&"none")
    }

    /// Names of all drivers that are set: exactly one, unless no rule has checked the object.
    #[must_use]
    pub fn driver_names(&self) -> Vec<&'static str> {
        let set = [
            (self.redfish.is_some(), "redfish"),
            (self.ipmi.is_some(), "ipmi"),
            (self.pdu.is_some(), "pdu"),
            (self.aws.is_some(), "aws"),
            (self.gcp.is_some(), "gcp"),
            (self.azure.is_some(), "azure"),
            (self.openstack.is_some(), "openstack"),
            (self.vsphere.is_some(), "vsphere"),
            (self.bare_metal_host.is_some(), "bareMetalHost"),
            (self.fence_agent.is_some(), "fenceAgent"),
            (self.webhook.is_some(), "webhook"),
            (self.manual.is_some(), "manual"),
        ];
        set.into_iter()
            .filter_map(|(is_set, name)| is_set.then_some(name))
            .collect()
    }
}

/// A Secret in the operator's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// How strictly the device must prove whose power it controls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IdentityCheck {
    /// The device must name the system, and it must be the node's.
    #[default]
    Required,
    /// If the device names the system, it must be the node's.
    BestEffort,
    /// The device cannot name the system; the user vouches for the wiring.
    Skip,
}

/// How a device is probed in peace time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeSettings {
    /// Pause between two probes, in seconds. For one at once, annotate the FenceDevice with `nodefencing.io/probe-requested-at` and the
    /// current time (RFC 3339).
    #[schemars(range(min = 30, max = 86_400))]
    pub period_seconds: u32,

    /// How long one probe may take, in seconds.
    #[schemars(range(min = 1, max = 120))]
    pub timeout_seconds: u32,
}

impl Default for ProbeSettings {
    fn default() -> Self {
        Self {
            period_seconds: 300,
            timeout_seconds: 15,
        }
    }
}
