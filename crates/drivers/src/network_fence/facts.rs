//! What the objects beside a NetworkFence mean: the class, and the clients that CSI-Addons names for a Node. Pure.

use super::object::one_address;
use crate::error::printable;
use fencing_api::device::{ClientAddresses, NetworkFenceDriver};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// A NetworkFenceClass.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Class {
    spec: ClassSpec,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct ClassSpec {
    #[serde(default)]
    provisioner: String,
    #[serde(default)]
    parameters: ClassParameters,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct ClassParameters {
    #[serde(default, rename = "clusterID")]
    cluster_id: String,
}

impl Class {
    /// Is it of this storage? The fence of another one covers other volumes.
    pub(super) fn check(&self, settings: &NetworkFenceDriver) -> Result<(), String> {
        let cluster = settings.cluster_id.as_deref().unwrap_or_default();
        let named = [
            (
                "provisioner",
                &self.spec.provisioner,
                settings.provisioner.as_str(),
            ),
            ("clusterID", &self.spec.parameters.cluster_id, cluster),
        ];
        for (field, found, wanted) in named {
            if found != wanted {
                return Err(format!(
                    "the class is of {field} `{}`, and `networkFence.{field}` is `{wanted}`; correct one of them",
                    printable(found, 63)
                ));
            }
        }
        Ok(())
    }
}

/// A CSIAddonsNode: the sidecar of a CSI driver on a node, and the clients of the storage there.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Sidecar {
    metadata: SidecarMeta,
    spec: SidecarSpec,
    #[serde(default)]
    status: SidecarStatus,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SidecarMeta {
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct SidecarSpec {
    driver: SidecarDriver,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct SidecarDriver {
    #[serde(default)]
    name: String,
    #[serde(default, rename = "nodeID")]
    node_id: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SidecarStatus {
    #[serde(default)]
    state: String,
    #[serde(default)]
    network_fence_client_status: Vec<ClientStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientStatus {
    #[serde(default)]
    network_fence_class_name: String,
    /// Upstream's type writes a capital letter here, unlike its documentation.
    #[serde(default, rename = "ClientDetails", alias = "clientDetails")]
    client_details: Vec<Client>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Client {
    #[serde(default)]
    cidrs: Vec<String>,
}

/// The clients of the storage on a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clients {
    /// Their addresses, each a range of one.
    pub(super) cidrs: Vec<String>,
    /// CSI-Addons is connected to the sidecar that names them.
    pub(super) is_connected: bool,
}

/// Whose clients are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) node: &'a str,
    pub(super) addresses: &'a [String],
    pub(super) provisioner: &'a str,
    pub(super) class: &'a str,
    pub(super) client_addresses: ClientAddresses,
}

/// The clients that CSI-Addons names for the Node by this class.
///
/// # Errors
/// What is missing, or forbids to use them.
pub(super) fn clients(sidecars: &[Sidecar], wanted: Wanted<'_>) -> Result<Clients, String> {
    let is_meant = |it: &&Sidecar| {
        let driver = &it.spec.driver;
        (driver.name.as_str(), driver.node_id.as_str()) == (wanted.provisioner, wanted.node)
            && it.metadata.deletion_timestamp.is_none()
    };
    let of_class = |it: &ClientStatus| it.network_fence_class_name == wanted.class;
    let mut cidrs = BTreeSet::new();
    let mut is_connected = true;
    for sidecar in sidecars.iter().filter(is_meant) {
        let named = sidecar
            .status
            .network_fence_client_status
            .iter()
            .filter(|it| of_class(it));
        let clients = named
            .flat_map(|it| &it.client_details)
            .flat_map(|it| &it.cidrs);
        let before = cidrs.len();
        cidrs.extend(clients.cloned());
        is_connected &= cidrs.len() == before || sidecar.status.state == "Connected";
    }
    if cidrs.is_empty() {
        return Err(format!(
            "no CSIAddonsNode of driver {} names a client on Node {} for NetworkFenceClass {}",
            wanted.provisioner, wanted.node, wanted.class
        ));
    }
    let own: BTreeSet<IpAddr> = wanted
        .addresses
        .iter()
        .filter_map(|it| it.parse().ok())
        .collect();
    for cidr in &cidrs {
        let shown = printable(cidr, 50);
        let Some(address) = one_address(cidr) else {
            return Err(format!(
                "the client `{shown}` is not one address, and others would be shut out with it"
            ));
        };
        if wanted.client_addresses == ClientAddresses::OfNode && !own.contains(&address) {
            return Err(format!(
                "the client {shown} is no address of Node {}; if the storage has a network of its own, set `networkFence.clientAddresses`",
                wanted.node
            ));
        }
    }
    Ok(Clients {
        cidrs: cidrs.into_iter().collect(),
        is_connected,
    })
}
