//! What runs the machines of Nodes, as their provider IDs say, and which driver is for it.

use fencing_core::observed::NodeView;
use std::collections::BTreeMap;

/// A cloud or a hypervisor.
#[derive(Debug, PartialEq, Eq)]
pub struct Provider {
    /// Scheme of the provider IDs that its cloud controller manager writes.
    pub scheme: &'static str,
    /// What its machines are, for people.
    pub machines: &'static str,
    /// Its driver; none: this version has none.
    pub driver: Option<&'static str>,
}

const fn provider(
    scheme: &'static str,
    machines: &'static str,
    driver: Option<&'static str>,
) -> Provider {
    Provider {
        scheme,
        machines,
        driver,
    }
}

const PROVIDERS: [Provider; 11] = [
    provider("vsphere", "virtual machines of vSphere", Some("vsphere")),
    provider("openstack", "instances of OpenStack", Some("openstack")),
    provider("proxmox", "virtual machines of Proxmox VE", Some("proxmox")),
    provider("aws", "EC2 instances", Some("aws")),
    provider("azure", "virtual machines of Azure", Some("azure")),
    provider("gce", "instances of Compute Engine", Some("gcp")),
    provider("hcloud", "servers of Hetzner Cloud", Some("hetznerCloud")),
    provider("kubevirt", "virtual machines of KubeVirt", Some("kubevirt")),
    provider("metal3", "hosts of Metal3", Some("bareMetalHost")),
    provider("nutanix", "virtual machines of Nutanix", Some("nutanix")),
    provider(
        "xenorchestra",
        "virtual machines of Xen Orchestra",
        Some("xapi"),
    ),
];

/// The Nodes of each provider that is known, in the order of the table.
pub fn of(nodes: &[NodeView]) -> Vec<(&'static Provider, Vec<String>)> {
    let mut found: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for node in nodes {
        let scheme = node.provider_id.split_once("://").map(|(scheme, _)| scheme);
        let place = PROVIDERS.iter().position(|it| Some(it.scheme) == scheme);
        if let Some(place) = place {
            found.entry(place).or_default().push(node.name.clone());
        }
    }
    let known = found.into_iter();
    known
        .filter_map(|(place, nodes)| Some((PROVIDERS.get(place)?, nodes)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_core::fixtures;

    #[test]
    fn nodes_are_told_apart_by_the_scheme_of_their_provider_id() {
        let node = |name: &str, provider_id: &str| NodeView {
            name: name.to_owned(),
            provider_id: provider_id.to_owned(),
            ..fixtures::node()
        };
        let nodes = [
            node("a", "aws:///eu-1a/i-0"),
            node("b", "vsphere://4c4c4544"),
            node("c", ""),
            node("d", "kind://docker/lab/d"),
            node("e", "vsphere://4c4c4545"),
        ];
        let found = of(&nodes);
        let named: Vec<_> = found
            .iter()
            .map(|(it, nodes)| (it.scheme, nodes.concat()))
            .collect();
        assert_eq!(
            named,
            [("vsphere", "be".to_owned()), ("aws", "a".to_owned())]
        );
    }

    #[test]
    fn a_driver_that_is_named_is_one_of_this_version() {
        for it in PROVIDERS.iter().filter_map(|it| it.driver) {
            let kind = fencing_api::drivers::KINDS
                .iter()
                .find(|kind| kind.name == it);
            assert!(
                kind.is_some_and(|it| it.reads != fencing_api::device::Reads::Nothing),
                "{it}"
            );
        }
    }
}
