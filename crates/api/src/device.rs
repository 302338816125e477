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
use serde_json::Value;

use super::crd::rule;
use super::drivers;
use super::selector::LabelSelector;

pub use super::bmcs::{IpmiDriver, IpmiPrivilege, RedfishDriver};
pub use super::clouds::{
    AwsDriver, AzureDriver, GcpDriver, HetznerCloudDriver, LibvirtDriver, LocalSsd, NutanixDriver,
    OpenstackDriver, ProxmoxDriver, VsphereDriver, XapiDriver,
};
pub use super::device_status::{
    BmcInfo, DeviceNodes, FenceDeviceStatus, PinnedSystem, PositiveControl, PowerState, Restarter,
    SystemInfo,
};
use super::drivers::PATIENCE_SECONDS;
pub use super::drivers::{Drivers, ManualDriver, Reads};
pub use super::fence_agent::{FenceAgentDriver, FenceAgentParameter};
pub use super::http_outlet::{
    HttpOutletDriver, OutletAuthentication, OutletCommand, OutletDeviceId, OutletMethod,
    OutletStatus, OutletWatts,
};
pub use super::infra_clusters::{BareMetalHostDriver, KubevirtDriver};
pub use super::network_fence::{ClientAddresses, NetworkFenceDriver};
pub use super::pdu::PduDriver;
pub use super::tls::{CaKind, CaReference, TlsSettings, TlsVerification};
pub use super::webhook::{WebhookAuthentication, WebhookDriver};

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
#[schemars(extend("x-kubernetes-validations" = rules()))]
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

    /// How the device is talked to.
    #[serde(flatten)]
    pub drivers: Drivers,

    /// Secret in the operator's namespace with the keys `username` and `password`; for driver `pdu` those that `pdu.snmp.version`
    /// names, for `openstack` `applicationCredentialID` and `applicationCredentialSecret`, for `proxmox` `tokenID` (`user@realm!name`) and
    /// `tokenSecret`, for `libvirt` `tls.crt` and `tls.key`, for `webhook` and `httpOutlet` those that their `authentication` names, for `kubevirt` and `bareMetalHost` `kubeconfig`, for `nutanix`
    /// `apiKey` in place of the two, if it is there, and for `fenceAgent` those that its parameters name. Drivers `aws` (`accessKeyID` and
    /// `secretAccessKey`, with `sessionToken` for temporary ones), `azure` (`tenantID`, `clientID` and `clientSecret`) and `gcp` (`key.json`) need
    /// none where the operator's own pod has a role or an identity. Its annotation `nodefencing.io/allowed-hosts`, if it has one, lists the hosts that the Secret may be sent to,
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

    /// How the device is probed periodically.
    #[serde(default)]
    pub probe: ProbeSettings,
}

/// What the API server checks of a whole spec.
fn rules() -> Vec<Value> {
    let mut all = vec![
        rule(
            "has(self.nodeName) != has(self.nodeSelector)",
            "must set exactly one of `nodeName`, `nodeSelector`",
        ),
        drivers::exactly_one(),
        rule(
            "has(self.nodeName) == has(oldSelf.nodeName)",
            "`nodeName` may not be added or removed: create another FenceDevice instead",
        ),
    ];
    all.extend(drivers::rules());
    all
}

impl FenceDeviceSpec {
    /// Name of the driver that is set, as the field is called; `none` for an object no rule has checked.
    #[must_use]
    pub fn driver_name(&self) -> &'static str {
        self.drivers.set().next().map_or("none", |kind| kind.name)
    }

    /// What the driver that is set reads.
    #[must_use]
    pub fn reads(&self) -> Reads {
        let kind = self.drivers.set().next();
        kind.map_or(Reads::Nothing, |kind| kind.reads)
    }

    /// How long a fence level with it may take as a whole unless its policy says, in seconds.
    #[must_use]
    pub fn patience_seconds(&self) -> u32 {
        let kind = self.drivers.set().next();
        kind.map_or(PATIENCE_SECONDS, |kind| kind.patience_seconds)
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

/// How a device is probed periodically.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeSettings {
    /// Pause between two probes, in seconds. While the Node is not Ready the first pauses are shorter: 10 s, 20 s and so on. For one at once, annotate the FenceDevice with `nodefencing.io/probe-requested-at` and the
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
