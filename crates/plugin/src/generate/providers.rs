//! FenceDevices of clouds and hypervisors, one for all Nodes of a provider, as the Nodes' provider IDs name it.

use super::super::Error;
use super::super::cluster::{Cluster, seen};
use super::super::reach::Reach;
use super::devices::{Common, Proposal, Proposals};
use super::document::Remark;
use crate::providers;
use fencing_api::device::{FenceDevice, FenceDeviceSpec, Reads};
use fencing_api::drivers::KINDS;
use fencing_cluster::slim::SlimNode;
use fencing_cluster::text::listed;
use fencing_core::observed::NodeView;
use fencing_core::quiesce::counted;
use kube::api::ListParams;
use serde_json::{Value, json};

/// Names in one remark.
const NAMED_MAX: usize = 5;
/// Stands for a host that is not known.
const HOST: &str = "HOST.example.com";
/// Stands for a region, and for a project, which no provider ID may choose.
const REGION: &str = "REGION";
/// Stands for the namespace of virtual machines, which no provider ID names.
const NAMESPACE: &str = "namespace-of-the-machines";
const PROJECT: &str = "PROJECT";

/// Proposes devices for the Nodes of this cluster.
///
/// # Errors
/// [`Error`].
pub async fn devices(reach: &Reach, common: &Common) -> Result<Proposals, Error> {
    let cluster = Cluster::of(reach).await?;
    let nodes = cluster
        .list(&cluster.api::<SlimNode>(), &ListParams::default())
        .await;
    let nodes = seen(nodes)?.map_err(Error::No)?;
    let views: Vec<NodeView> = nodes.iter().map(SlimNode::view).collect();
    proposals(&views, common)
}

fn proposals(nodes: &[NodeView], common: &Common) -> Result<Proposals, Error> {
    let mut all = Proposals::default();
    for (provider, named) in providers::of(nodes) {
        let nodes = format!(
            "{} ({})",
            counted(named.len(), "node"),
            listed(&named, "", NAMED_MAX)
        );
        let machines = provider.machines;
        match provider.driver {
            Some(driver) => all
                .devices
                .push(proposal(driver, machines, &nodes, common)?),
            None => all.after.push(Remark::Words(format!(
                "{nodes}: {machines}, for which this version has no driver. Use driver `manual`."
            ))),
        }
    }
    if all.devices.is_empty() && all.after.is_empty() {
        let words = "No Node has the provider ID of a cloud or a hypervisor that is known.";
        all.after.push(Remark::words(words));
    }
    Ok(all)
}

fn object<'a>(fields: impl Iterator<Item = (&'a str, Value)>) -> Value {
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn proposal(driver: &str, machines: &str, nodes: &str, common: &Common) -> Result<Proposal, Error> {
    let field = match driver {
        "openstack" => Some(("authURL", format!("https://{HOST}:5000/v3"))),
        "proxmox" => Some(("address", format!("https://{HOST}:8006"))),
        "nutanix" => Some(("address", format!("https://{HOST}:9440"))),
        // Their addresses have a default.
        "hetznerCloud" | "azure" => None,
        "aws" => Some(("region", REGION.to_owned())),
        "kubevirt" | "bareMetalHost" => Some(("address", format!("https://{HOST}:6443"))),
        "gcp" => Some(("project", PROJECT.to_owned())),
        _ => Some(("address", format!("https://{HOST}"))),
    };
    let to_write = match driver {
        "hetznerCloud" | "azure" => "S".to_owned(),
        "aws" => format!("Write the region where {REGION} stands, and s"),
        "kubevirt" => {
            format!("Write address and namespace where {HOST} and {NAMESPACE} stand, and s")
        }
        "gcp" => format!("Write the ID of the project where {PROJECT} stands, and s"),
        _ => format!("Write the address where {HOST} stands, and s"),
    };
    let kind = KINDS.iter().find(|kind| kind.name == driver);
    let opens_by_pod = kind.is_some_and(|kind| kind.opens_by_pod);
    // What is opened by a role of the pod is a public cloud.
    let ca = common.ca_config_map.as_ref().filter(|_| !opens_by_pod);
    let tls = ca.map(|ca| ("tls", json!({"caRef": {"name": ca}})));
    let field = field.map(|(name, value)| (name, json!(value)));
    let namespace = (driver == "kubevirt").then(|| ("namespace", json!(NAMESPACE)));
    let settings = object(field.into_iter().chain(namespace).chain(tls));
    let page = in_kebab_case(driver);
    let secret = (!opens_by_pod).then(|| ("credentialsRef", json!({"name": page})));
    let is_unnamed = kind.is_some_and(|kind| kind.reads == Reads::Unnamed);
    let check = is_unnamed.then(|| ("identityCheck", json!("BestEffort")));
    let spec = [("nodeSelector", json!({})), (driver, settings)];
    let spec = object(spec.into_iter().chain(secret).chain(check));
    let spec: FenceDeviceSpec = serde_json::from_value(spec)
        .map_err(|error| Error::No(format!("driver {driver} cannot be written: {error}")))?;
    let mut device = FenceDevice::new(&page, spec);
    let labels = common.labels.iter().cloned();
    device.metadata.labels = (!common.labels.is_empty()).then(|| labels.collect());
    Ok(Proposal {
        device,
        remarks: vec![
            Remark::Words(format!("{nodes}: {machines}, by one FenceDevice.")),
            Remark::Words(format!(
                "{to_write}elect these nodes alone if others have no such machine. Secret and rights: docs/how-to/{page}.md."
            )),
        ],
        is_complete: false,
    })
}

/// The name of a driver as objects and pages have it: `hetzner-cloud`.
fn in_kebab_case(name: &str) -> String {
    let word = |letter: char| match letter.is_ascii_uppercase() {
        true => format!("-{}", letter.to_ascii_lowercase()),
        false => letter.to_string(),
    };
    name.chars().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::super::devices::text;
    use super::*;
    use fencing_core::fixtures;

    #[test]
    fn a_provider_has_one_device_for_all_of_its_nodes() {
        let node = |name: &str, provider_id: &str| NodeView {
            name: name.to_owned(),
            provider_id: provider_id.to_owned(),
            ..fixtures::node()
        };
        let nodes = [
            node("w1", "vsphere://4c4c4544-0042-3510-8054-b4c04f4e4e31"),
            node("w2", "vsphere://4c4c4544-0042-3510-8054-b4c04f4e4e32"),
            node("w3", "aws:///eu-1a/i-0"),
            node("w4", "gce://prod-4711/europe-west3-a/w4"),
            node("w5", "hcloud://4711"),
            node("w6", "metal3://ns/w6/m3m"),
            node("w10", "kubevirt://w10"),
            node("w9", "azure:///subscriptions/s/resourceGroups/g"),
            node("w7", "nutanix://4c4c4544-0042-3510-8054-b4c04f4e4e37"),
            node(
                "w8",
                "xenorchestra://pool/4c4c4544-0042-3510-8054-b4c04f4e4e38",
            ),
        ];
        let common = Common {
            ca_config_map: Some("vcenter-ca".to_owned()),
            ..Common::default()
        };
        let text = text(&proposals(&nodes, &common).expect("proposals")).expect("YAML");
        for line in [
            "# 2 nodes (w1, w2): virtual machines of vSphere, by one FenceDevice.",
            "#   nodeSelector: {}",
            "#   vsphere:",
            "#     address: https://HOST.example.com",
            "#         name: vcenter-ca",
            "#   name: hetzner-cloud",
            "#   identityCheck: BestEffort",
            "#   hetznerCloud:",
            "# 1 node (w3): EC2 instances, by one FenceDevice.",
            "#     region: REGION",
            "#   name: bare-metal-host",
            "#     namespace: namespace-of-the-machines",
            "#     address: https://HOST.example.com:6443",
            "#     address: https://HOST.example.com:9440",
            "# 1 node (w8): virtual machines of Xen Orchestra, by one FenceDevice.",
            "# 1 node (w9): virtual machines of Azure, by one FenceDevice.",
            "#   azure: {}",
            "# 1 node (w4): instances of Compute Engine, by one FenceDevice.",
            "#     project: PROJECT",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
        let none = proposals(&[node("w10", "")], &common).expect("proposals");
        assert!(none.devices.is_empty() && none.after.len() == 1);
    }
}
