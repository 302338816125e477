//! The drivers of a FenceDevice: the field of each, its row in [`KINDS`], and the parameters as a user writes them.
//!
//! What follows from a driver follows from its row: the rules that the API server checks, and what is done with its answers. How it
//! talks to a device is in `crates/drivers`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::bmcs::{IpmiDriver, RedfishDriver};
use super::clouds::{
    AwsDriver, AzureDriver, GcpDriver, HetznerCloudDriver, LibvirtDriver, NutanixDriver,
    OpenstackDriver, ProxmoxDriver, VsphereDriver, XapiDriver,
};
use super::crd::{rule, rule_at};
use super::fence_agent::FenceAgentDriver;
use super::http_outlet::HttpOutletDriver;
use super::infra_clusters::{BareMetalHostDriver, KubevirtDriver};
use super::network_fence::NetworkFenceDriver;
use super::pdu::PduDriver;
use super::webhook::WebhookDriver;

/// The drivers, of which a FenceDevice sets exactly one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Drivers {
    /// Driver `redfish`: a BMC with DMTF's Redfish API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redfish: Option<RedfishDriver>,

    /// Driver `ipmi`: a BMC with IPMI 2.0 over LAN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipmi: Option<IpmiDriver>,

    /// Driver `pdu`: the outlets of a switched PDU, over SNMP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pdu: Option<PduDriver>,

    /// Driver `httpOutlet`: a smart plug with an HTTP API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_outlet: Option<HttpOutletDriver>,

    /// Driver `fenceAgent`: a reviewed agent of the ClusterLabs collection, in the image with agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence_agent: Option<FenceAgentDriver>,

    /// Driver `manual`: a human looks at the machine and confirms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual: Option<ManualDriver>,

    /// Driver `openstack`: Nova instances, found by the Node's provider ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openstack: Option<OpenstackDriver>,

    /// Driver `vsphere`: virtual machines of a vCenter, found by the Node's provider ID, or by its system UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<VsphereDriver>,

    /// Driver `proxmox`: virtual machines of Proxmox VE, found by the Node's provider ID, or by its system UUID and name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxmox: Option<ProxmoxDriver>,

    /// Driver `libvirt`: domains of the hypervisor on one host, found by the Node's system UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub libvirt: Option<LibvirtDriver>,

    /// Driver `hetznerCloud`: servers of Hetzner Cloud, found by the Node's provider ID, name and addresses. Needs `identityCheck: BestEffort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hetzner_cloud: Option<HetznerCloudDriver>,
    /// Driver `webhook`: a service of your own over HTTPS, which is asked about each Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookDriver>,

    /// Driver `aws`: EC2 instances, found by the Node's provider ID and addresses. Needs `identityCheck: BestEffort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsDriver>,

    /// Driver `azure`: virtual machines and scale set instances of Azure, found by the Node's provider ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure: Option<AzureDriver>,
    /// Driver `kubevirt`: virtual machines of KubeVirt, found by the Node's provider ID, in an infrastructure cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubevirt: Option<KubevirtDriver>,

    /// Driver `bareMetalHost`: hosts of Metal3, found by the Node's provider ID. Needs `identityCheck: BestEffort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bare_metal_host: Option<BareMetalHostDriver>,
    /// Driver `nutanix`: virtual machines of AHV, found by the Node's provider ID, or by its system UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nutanix: Option<NutanixDriver>,

    /// Driver `xapi`: virtual machines of XCP-ng and XenServer, found by the Node's provider ID, or by its system UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xapi: Option<XapiDriver>,

    /// Driver `gcp`: Compute Engine instances, found by the Node's provider ID, name and addresses. Needs `identityCheck: BestEffort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gcp: Option<GcpDriver>,

    /// Driver `networkFence`: keeps a Node from the volumes of a CSI driver by CSI-Addons, and leaves its power alone. Needs `identityCheck: Skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_fence: Option<NetworkFenceDriver>,
}

/// What a driver reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// A machine, by a BMC that shares its power: it has an `address` and a login.
    Bmc,
    /// An instance or a virtual machine, by what runs it, or any machine by a service: its login opens the machines of many nodes.
    Instance,
    /// The same, where what runs it tells no system UUID: it is known by the Node's provider ID and by what else the driver compares.
    Unnamed,
    /// Outlets, or a plug behind an agent, which cannot name their machine: they have a login and belong to one node.
    Outlets,
    /// Whether a node is kept from the volumes of a storage: nothing of its machine.
    Storage,
    /// What a human has seen.
    Human,
    /// Nothing: the FenceDevice has a driver of another version.
    Nothing,
}

impl Reads {
    /// Does what it reads tell whether the machine has power? An outlet that has some, and a storage, tell nothing of a machine that was turned off
    /// otherwise.
    #[must_use]
    pub fn tells_power(self) -> bool {
        !matches!(self, Self::Outlets | Self::Storage)
    }
}

/// A driver, as far as a FenceDevice shows.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name, which is that of its field.
    pub name: &'static str,
    /// What it reads.
    pub reads: Reads,
    /// May the operator's own pod be what opens it, or nothing, so that it needs no Secret?
    pub opens_by_pod: bool,
    /// How long a fence level with it may take as a whole unless its policy says, in seconds: what runs its machines has carried a power-off out by
    /// then, or says so.
    pub patience_seconds: u32,
    is_set: fn(&Drivers) -> bool,
}

/// The patience with a BMC, and with whatever else carries a power-off out within seconds.
pub const PATIENCE_SECONDS: u32 = 120;

/// All drivers, in the order in which they are listed for people.
pub const KINDS: [Kind; 20] = [
    kind("redfish", Reads::Bmc, |it| it.redfish.is_some()),
    kind("ipmi", Reads::Bmc, |it| it.ipmi.is_some()),
    kind("pdu", Reads::Outlets, |it| it.pdu.is_some()),
    kind("httpOutlet", Reads::Outlets, |it| it.http_outlet.is_some()).or_by_its_pod(),
    kind("fenceAgent", Reads::Outlets, |it| it.fence_agent.is_some()),
    // The guest has 60 s before its host destroys it.
    kind("openstack", Reads::Instance, |it| it.openstack.is_some()).within(120),
    kind("vsphere", Reads::Instance, |it| it.vsphere.is_some()),
    kind("proxmox", Reads::Instance, |it| it.proxmox.is_some()),
    kind("libvirt", Reads::Instance, |it| it.libvirt.is_some()),
    kind("hetznerCloud", Reads::Unnamed, |it| {
        it.hetzner_cloud.is_some()
    }),
    // Minutes, where the host has failed.
    kind("aws", Reads::Unnamed, |it| it.aws.is_some())
        .or_by_its_pod()
        .within(600),
    // Mostly within a minute; nothing is known of one whose host has failed.
    kind("azure", Reads::Instance, |it| it.azure.is_some())
        .or_by_its_pod()
        .within(300),
    // The guest has two minutes (ACPI), however hard it is stopped.
    kind("gcp", Reads::Unnamed, |it| it.gcp.is_some())
        .or_by_its_pod()
        .within(240),
    kind("kubevirt", Reads::Instance, |it| it.kubevirt.is_some()).within(120),
    kind("bareMetalHost", Reads::Unnamed, |it| {
        it.bare_metal_host.is_some()
    }),
    kind("nutanix", Reads::Instance, |it| it.nutanix.is_some()),
    kind("xapi", Reads::Instance, |it| it.xapi.is_some()),
    kind("webhook", Reads::Instance, |it| it.webhook.is_some()),
    kind("networkFence", Reads::Storage, |it| {
        it.network_fence.is_some()
    }),
    kind("manual", Reads::Human, |it| it.manual.is_some()),
];

const fn kind(name: &'static str, reads: Reads, is_set: fn(&Drivers) -> bool) -> Kind {
    Kind {
        name,
        reads,
        opens_by_pod: false,
        patience_seconds: PATIENCE_SECONDS,
        is_set,
    }
}

/// The longest patience of any driver, in seconds.
pub const PATIENCE_SECONDS_MAX: u32 = {
    let (mut longest, mut left) = (PATIENCE_SECONDS, KINDS.as_slice());
    while let [kind, rest @ ..] = left {
        if kind.patience_seconds > longest {
            longest = kind.patience_seconds;
        }
        left = rest;
    }
    longest
};

impl Kind {
    const fn or_by_its_pod(self) -> Self {
        Self {
            opens_by_pod: true,
            ..self
        }
    }

    const fn within(self, patience_seconds: u32) -> Self {
        Self {
            patience_seconds,
            ..self
        }
    }
}

impl Drivers {
    /// Those that are set: exactly one, unless no rule has checked the object.
    pub fn set(&self) -> impl Iterator<Item = &'static Kind> {
        KINDS.iter().filter(|kind| (kind.is_set)(self))
    }
}

/// The names of all drivers, as `shown`: `a, b or c`.
fn listed(shown: impl Fn(&str) -> String) -> String {
    let names: Vec<String> = KINDS.iter().map(|kind| shown(kind.name)).collect();
    match names.split_last() {
        Some((end, rest)) if !rest.is_empty() => format!("{} or {end}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// The drivers that this version has, for a message: `a`, `b` or `c`.
#[must_use]
pub fn supported() -> String {
    listed(|name| format!("`{name}`"))
}

/// A FenceDevice sets exactly one.
pub(super) fn exactly_one() -> Value {
    let terms: Vec<String> = KINDS
        .iter()
        .map(|kind| format!("(has(self.{}) ? 1 : 0)", kind.name))
        .collect();
    rule(
        &format!("{} == 1", terms.join(" + ")),
        &format!("must set exactly one driver: {}", listed(str::to_owned)),
    )
}

/// What each driver asks of the rest of its FenceDevice.
pub(super) fn rules() -> Vec<Value> {
    let of = |reads: &'static [Reads]| KINDS.iter().filter(|kind| reads.contains(&kind.reads));
    let with_login = &[Reads::Bmc, Reads::Instance, Reads::Unnamed, Reads::Outlets];
    let needs_secret = |kind: &&Kind| !kind.opens_by_pod;
    let login = of(with_login)
        .filter(needs_secret)
        .map(|Kind { name, .. }| {
            rule(
                &format!("!has(self.{name}) || has(self.credentialsRef)"),
                &format!("`credentialsRef` must be set for driver `{name}`"),
            )
        });
    let unnamed = of(&[Reads::Unnamed]).map(|Kind { name, .. }| {
        rule_at(
            &format!("!has(self.{name}) || self.identityCheck == 'BestEffort'"),
            &format!(
                "`identityCheck` must be 'BestEffort' for driver `{name}`: its machines name no system UUID, and the driver compares what else there is"
            ),
            ".identityCheck",
        )
    });
    let outlets = of(&[Reads::Outlets]).flat_map(|Kind { name, .. }| {
        [
            rule_at(
                &format!("!has(self.{name}) || self.identityCheck == 'Skip'"),
                &format!(
                    "`identityCheck` must be 'Skip' for driver `{name}`: the device cannot name its machine. Verify it once, with the \
                     node drained: switch it off, and check that this machine is powered off"
                ),
                ".identityCheck",
            ),
            rule(
                &format!("!has(self.{name}) || has(self.nodeName)"),
                &format!("`nodeName` must be set for driver `{name}`: the device belongs to one machine"),
            ),
        ]
    });
    let fleet = of(&[Reads::Bmc]).map(|Kind { name, .. }| {
        rule_at(
            &format!(
                "!has(self.nodeSelector) || !has(self.{name}) || self.{name}.address.contains('${{node.name}}')"
            ),
            &format!(
                "`{name}.address` must contain '${{node.name}}' when `nodeSelector` is used: each node has its own device"
            ),
            &format!(".{name}.address"),
        )
    });
    let host = rule_at(
        "!has(self.bareMetalHost) || !has(self.bareMetalHost.name) || has(self.nodeName)",
        "`nodeName` must be set where `bareMetalHost.name` is: the host is one machine",
        ".nodeName",
    );
    let storage = of(&[Reads::Storage]).map(|Kind { name, .. }| {
        rule_at(
            &format!("!has(self.{name}) || self.identityCheck == 'Skip'"),
            &format!("`identityCheck` must be 'Skip' for driver `{name}`: it reads no machine"),
            ".identityCheck",
        )
    });
    // A plug may let in everybody.
    let of_a_plug = rule(
        "!has(self.httpOutlet) || self.httpOutlet.authentication == 'None' || has(self.credentialsRef)",
        "`credentialsRef` must be set for driver `httpOutlet`, unless `authentication` is 'None'",
    );
    let login = login.chain([of_a_plug]);
    let rules = login.chain(unnamed).chain(outlets).chain(storage);
    let rules = rules.chain(fleet);
    rules.chain([host]).collect()
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
