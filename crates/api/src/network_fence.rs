//! The parameters of driver `networkFence`: the storage of a CSI driver, which shuts a Node out.
//!
//! Secrets and parameters of the storage stand in the NetworkFenceClass, where CSI-Addons wants them, and no FenceDevice repeats them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::crd::rule;

/// Driver `networkFence`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkFenceDriver {
    /// Name of the CSI driver, as VolumeAttachments have it (`attacher`): volumes of any other one are not covered.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = [object_name()]))]
    pub provisioner: String,

    /// Name of the NetworkFenceClass of CSI-Addons for this driver.
    #[schemars(length(min = 1, max = 253), extend("x-kubernetes-validations" = [object_name()]))]
    pub network_fence_class_name: String,

    /// Which storage of the driver, as `parameters.clusterID` of the class and the attributes of its volumes have it. Without it they have none:
    /// volumes of another one are not covered.
    #[serde(default, rename = "clusterID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub cluster_id: Option<String>,

    /// Which addresses CSI-Addons may name as the Node's clients of the storage.
    #[serde(default)]
    pub client_addresses: ClientAddresses,
}

/// Where the clients of a storage may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ClientAddresses {
    /// At addresses in the Node's `status.addresses`. CSI-Addons may repeat an old address for long, and a fence of that stops nothing.
    #[default]
    OfNode,
    /// At any, because the storage has a network of its own. The addresses there must not change while a Node lives.
    OfStorageNetwork,
}

fn object_name() -> Value {
    rule(
        "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
        "must be a name: lower-case letters, digits, '-' and '.'",
    )
}
