//! A NetworkFence of CSI-Addons: what is written into one, and what its answer means.
//!
//! CSI-Addons writes no `observedGeneration` (`internal/controller/csiaddons/networkfence_controller.go`, v0.13.0): after a change of `fenceState`
//! its result is that of the state before, until the next one is there. So an object is made for one fence, and changed once, when that is over:
//! while it is fenced its `generation` is 1, and whatever result it has is of what stands in it. Deleting one does not unfence.

pub use fencing_core::storage_fence::Purpose;

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Path of all NetworkFences.
pub const PATH: &str = "/apis/csiaddons.openshift.io/v1alpha1/networkfences";
/// The API group.
pub const GROUP: &str = "csiaddons.openshift.io";
/// The kind.
pub const KIND: &str = "NetworkFence";
/// Its version.
pub const VERSION: &str = "v1alpha1";
/// Selects ours.
pub const SELECTOR: &str = "app.kubernetes.io%2Fmanaged-by%3Dnode-fencing-operator";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const MANAGER: &str = "node-fencing-operator";
/// The annotation with the Node's name.
pub const NODE: &str = "nodefencing.io/node";
const NODE_UID: &str = "nodefencing.io/node-uid";
const BOOT_ID: &str = "nodefencing.io/boot-id";
const FENCE: &str = "nodefencing.io/node-fence";
/// What CSI-Addons says of an operation that has succeeded (`api/csiaddons/v1alpha1/networkfence_types.go`).
const FENCED: &str = "fencing operation successful";
const UNFENCED: &str = "unfencing operation successful";
const SUCCEEDED: &str = "Succeeded";
/// `generation` of what was not changed since it was made: the API server counts changes of the spec.
const UNCHANGED: i64 = 1;

/// One, as far as it is read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NetworkFence {
    /// Its metadata.
    pub metadata: Meta,
    /// What is wanted of it.
    pub spec: Spec,
    #[serde(default)]
    status: Status,
}

/// The metadata of one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its version, a precondition of its deletion.
    #[serde(default)]
    pub resource_version: String,
    #[serde(default)]
    generation: i64,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// What is wanted of one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    #[serde(default)]
    fence_state: String,
    #[serde(default)]
    cidrs: Vec<String>,
    #[serde(default)]
    network_fence_class_name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct Status {
    #[serde(default)]
    result: String,
    #[serde(default)]
    message: String,
}

/// How far one of ours has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The storage has shut these addresses out.
    Fenced,
    /// It has been asked to, and this is its last word, which is empty before the first one.
    Fencing(String),
    /// It lets them in again.
    Unfenced,
    /// It has been asked to, and this is its last word.
    Unfencing(String),
    /// It goes once CSI-Addons has taken its finalizer away, whatever the storage does.
    Deleting,
    /// Others have changed it: nothing is concluded from it, for this reason.
    Spoilt(String),
}

/// The name of the one that shuts the Node out by this class. There is one at a time: the API server refuses another of its name.
#[must_use]
pub fn name(node: &str, class: &str) -> String {
    format!("{node}.{class}")
}

/// The object that CSI-Addons is handed, as its controller writes it itself. It adds its finalizer by an update of the whole object, in which its types
/// have an empty `driver` and an empty `secret` where there was none: that would be a change of the spec, and the `generation` 2.
#[must_use]
pub fn new(name: &str, class: &str, cidrs: &[String], purpose: &Purpose) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": KIND,
        "metadata": {
            "name": name,
            "labels": {MANAGED_BY: MANAGER},
            "annotations": {
                NODE: purpose.node, NODE_UID: purpose.node_uid, BOOT_ID: purpose.boot_id, FENCE: purpose.fence,
            },
        },
        "spec": {
            "networkFenceClassName": class, "fenceState": "Fenced", "cidrs": cidrs, "driver": "", "secret": {},
        },
    })
}

impl NetworkFence {
    /// Did this operator make it, and what for?
    #[must_use]
    pub fn purpose(&self) -> Option<Purpose> {
        let is_ours = self
            .metadata
            .labels
            .get(MANAGED_BY)
            .is_some_and(|it| it == MANAGER);
        let get = |key: &str| {
            self.metadata
                .annotations
                .get(key)
                .filter(|it| !it.is_empty())
                .cloned()
        };
        let purpose = Purpose {
            node: get(NODE)?,
            node_uid: get(NODE_UID)?,
            boot_id: get(BOOT_ID)?,
            fence: get(FENCE)?,
        };
        is_ours.then_some(purpose)
    }

    /// The JSON Patch by which CSI-Addons lets the node in, if this is still the object that was read, and fenced.
    #[must_use]
    pub fn unfencing(&self) -> Value {
        json!([
            {"op": "test", "path": "/metadata/uid", "value": self.metadata.uid},
            {"op": "test", "path": "/spec/fenceState", "value": "Fenced"},
            {"op": "replace", "path": "/spec/fenceState", "value": "Unfenced"},
        ])
    }

    /// How far it has come.
    #[must_use]
    pub fn state(&self) -> State {
        let Status { result, message } = &self.status;
        let said = match (result.as_str(), message.as_str()) {
            ("", _) => String::new(),
            (result, "") => result.to_owned(),
            (result, message) => format!("{result}: {message}"),
        };
        let has = |words: &str| result == SUCCEEDED && message == words;
        match self.spec.fence_state.as_str() {
            _ if self.metadata.deletion_timestamp.is_some() => State::Deleting,
            "Fenced" if self.metadata.generation != UNCHANGED => {
                State::Spoilt("it was changed, so its result may be an older one's".to_owned())
            }
            "Fenced" if has(FENCED) => State::Fenced,
            "Fenced" => State::Fencing(said),
            // Only an unfencing says so, and it is asked for once.
            "Unfenced" if has(UNFENCED) => State::Unfenced,
            "Unfenced" => State::Unfencing(said),
            other => State::Spoilt(format!(
                "its `fenceState` is `{}`",
                crate::error::printable(other, 20)
            )),
        }
    }

    /// Is it of this class?
    #[must_use]
    pub fn is_of_class(&self, class: &str) -> bool {
        self.spec.network_fence_class_name == class
    }

    /// Does it shut out addresses, each of them a single one?
    #[must_use]
    pub fn has_cidrs(&self) -> bool {
        !self.spec.cidrs.is_empty() && self.spec.cidrs.iter().all(|it| one_address(it).is_some())
    }

    /// Does its `fenceState` let one of these addresses in? CSI-Addons carries that out each time that it starts, long after it was asked to.
    #[must_use]
    pub fn lets_in(&self, others: &Self) -> bool {
        let is_meant = |cidr: &String| {
            let range: Option<crate::cidr::Cidr> = cidr.parse().ok();
            let holds = |other: &String| {
                let address = one_address(other);
                let is_in = range
                    .zip(address)
                    .is_some_and(|(range, address)| range.contains(address));
                is_in || other == cidr
            };
            others.spec.cidrs.iter().any(holds)
        };
        self.spec.fence_state != "Fenced" && self.spec.cidrs.iter().any(is_meant)
    }
}

/// The address of a range that is a single one.
#[must_use]
pub fn one_address(cidr: &str) -> Option<IpAddr> {
    let (address, bits) = cidr.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let whole = match address {
        IpAddr::V4(_) => "32",
        IpAddr::V6(_) => "128",
    };
    (bits == whole).then_some(address)
}
