//! What the objects of KubeVirt, and the Nodes of its cluster, mean. Pure, and total over any JSON.

use super::super::fleet::Place;
use super::super::kube::{Meta, Object, is_name};
use super::super::words::{Said, Word};
use fencing_core::reading::{Identity, PowerState};
use serde::Deserialize;
use sha1::{Digest, Sha1};
use std::collections::BTreeSet;

/// `status.printableStatus` of a virtual machine. One that is paused keeps its memory, one that is being deleted or cannot start says nothing of what
/// runs: those have no power state here.
const STATUS: [Word; 6] = [
    ("Running", PowerState::On),
    ("Migrating", PowerState::On),
    ("Starting", PowerState::Transitional),
    ("Provisioning", PowerState::Transitional),
    ("Stopping", PowerState::Transitional),
    ("Stopped", PowerState::Off),
];
/// What keeps a virtual machine running, or starts it again once it ends.
const RESTARTING: [&str; 3] = ["Always", "RerunOnFailure", "Once"];
/// Annotation of a pod with the name of the virtual machine that runs in it.
const DOMAIN: &str = "kubevirt.io/domain";
/// The taint of a machine that was proven to be off.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The name space of the UUIDs that KubeVirt makes of names.
const NAMES: u128 = 0x6a1a_24a1_4061_4607_8bf4_a396_3d0c_5895;
/// Between the names of two nodes. No name has it.
const AND: &str = ",";

/// A virtual machine, which exists also while it does not run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Vm {
    kind: Option<String>,
    pub(super) metadata: Meta,
    spec: VmSpec,
    status: Option<VmStatus>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VmSpec {
    run_strategy: Option<String>,
    running: Option<bool>,
    template: Option<Template>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Template {
    spec: InstanceSpec,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct InstanceSpec {
    domain: Option<Domain>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Domain {
    firmware: Option<Firmware>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Firmware {
    uuid: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VmStatus {
    printable_status: Option<String>,
}

/// One run of a virtual machine (`VirtualMachineInstance`).
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Vmi {
    kind: Option<String>,
    pub(super) metadata: Meta,
    spec: InstanceSpec,
    status: Option<VmiStatus>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VmiStatus {
    phase: Option<String>,
    node_name: Option<String>,
    migration_state: Option<Migration>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Migration {
    source_node: Option<String>,
    target_node: Option<String>,
    #[serde(default)]
    completed: bool,
}

/// A pod, which may be the one in which a virtual machine runs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Pod {
    kind: Option<String>,
    metadata: Meta,
    spec: Option<PodSpec>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    node_name: Option<String>,
}

/// A Node of the cluster below.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct InfraNode {
    kind: Option<String>,
    metadata: Meta,
    spec: NodeSpec,
    status: Option<NodeStatus>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct NodeSpec {
    taints: Option<Vec<Taint>>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Taint {
    key: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeStatus {
    conditions: Option<Vec<Condition>>,
    node_info: Option<NodeInfo>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct NodeInfo {
    #[serde(rename = "systemUUID", default)]
    system_uuid: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Object for Vm {
    const KIND: &'static str = "VirtualMachine";

    fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Object for Vmi {
    const KIND: &'static str = "VirtualMachineInstance";

    fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Object for Pod {
    const KIND: &'static str = "Pod";

    fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Object for InfraNode {
    const KIND: &'static str = "Node";

    fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Vm {
    /// Its power, beside its instance: that there is none is a part of an Off, and not the whole of it.
    pub(super) fn said(&self, instance: Option<&Vmi>) -> Said {
        let status = self.status.as_ref();
        let word = status.and_then(|it| it.printable_status.as_deref());
        let phase = instance.map_or("none", Vmi::phase);
        Said::of(&STATUS, "printableStatus", word)
            .only_if(instance.is_none(), format!("instance {phase}"))
            .only_if(
                self.metadata.deletion_timestamp.is_none(),
                "virtual machine being deleted",
            )
    }

    /// Who it is: the UUID that its firmware shows to the guest, of its instance while there is one. Versions before 1.4 keep none in the virtual
    /// machine, and make it of the name.
    pub(super) fn identity(&self, instance: Option<&Vmi>) -> Identity {
        let template = self.spec.template.as_ref().map(|it| &it.spec);
        let uuid = instance
            .and_then(|it| uuid(&it.spec))
            .or_else(|| template.and_then(uuid));
        Identity {
            system_uuid: Some(uuid.unwrap_or_else(|| uuid_of_name(&self.metadata.name))),
            serial_number: Some(self.metadata.uid.clone()).filter(|it| !it.is_empty()),
        }
    }

    /// What starts it again by itself.
    pub(super) fn restarter(&self) -> Option<String> {
        let strategy = match (&self.spec.run_strategy, self.spec.running) {
            (Some(strategy), _) => strategy.as_str(),
            (None, Some(true)) => "Always",
            (None, _) => return None,
        };
        let restarts = RESTARTING.contains(&strategy);
        restarts.then(|| format!("runStrategy {strategy}"))
    }
}

fn uuid(spec: &InstanceSpec) -> Option<String> {
    let firmware = spec.domain.as_ref()?.firmware.as_ref()?;
    firmware.uuid.clone().filter(|it| !it.is_empty())
}

/// The UUID that KubeVirt makes of a name (RFC 9562, version 5).
fn uuid_of_name(name: &str) -> String {
    let mut hash = Sha1::new();
    hash.update(NAMES.to_be_bytes());
    hash.update(name.as_bytes());
    let bytes: [u8; 20] = hash.finalize().into();
    let [first @ .., _, _, _, _] = bytes;
    let number = u128::from_be_bytes(first);
    let version = (number & !(0xf << 76)) | (5 << 76);
    let number = (version & !(0b11 << 62)) | (0b10 << 62);
    let digits = format!("{number:032x}");
    let part = |from, to| digits.get(from..to).unwrap_or_default();
    let parts = [
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32),
    ];
    parts.join("-")
}

impl Vmi {
    /// Its phase.
    pub(super) fn phase(&self) -> &str {
        let phase = self.status.as_ref().and_then(|it| it.phase.as_deref());
        phase.unwrap_or("without a phase")
    }

    /// Is it running, as its instance says?
    pub(super) fn is_running(&self) -> bool {
        self.phase() == "Running"
    }

    /// The nodes on which it may run: two while it moves. Without one: on none yet, or that is not said.
    pub(super) fn places(&self) -> BTreeSet<&str> {
        let Some(status) = &self.status else {
            return BTreeSet::new();
        };
        let Some(own) = status.node_name.as_deref().filter(|it| !it.is_empty()) else {
            return BTreeSet::new();
        };
        let mut all = BTreeSet::from([own]);
        if let Some(moves) = status.migration_state.as_ref().filter(|it| !it.completed) {
            let ends = [&moves.source_node, &moves.target_node];
            all.extend(ends.into_iter().flatten().map(String::as_str));
        }
        all.retain(|it| !it.is_empty());
        // What cannot be asked for by its name is not known.
        match all.iter().all(|it| is_name(it)) {
            true => all,
            false => BTreeSet::new(),
        }
    }
}

/// The names of nodes as one text.
pub(super) fn joined<'a>(nodes: impl IntoIterator<Item = &'a str>) -> String {
    nodes.into_iter().collect::<Vec<_>>().join(AND)
}

impl Pod {
    /// May this virtual machine run in it, in whichever of its runs? A pod whose owner is gone still has its annotation.
    pub(super) fn may_run(&self, name: &str) -> bool {
        let owners = self.metadata.owner_references.iter();
        let owners = owners.flat_map(|it| &it.0);
        let annotations = self.metadata.annotations.as_ref();
        let domain = annotations.and_then(|it| it.get(DOMAIN));
        let mut owners = owners.filter(|it| it.kind == Vmi::KIND);
        owners.any(|it| it.name == name)
            || domain.is_some_and(|it| it == name)
            || self.is_named_after(name)
    }

    /// `virt-launcher-NAME-` and what makes it unique.
    fn is_named_after(&self, name: &str) -> bool {
        let rest = self.metadata.name.strip_prefix("virt-launcher-");
        let rest = rest.and_then(|it| it.strip_prefix(name)?.strip_prefix('-'));
        rest.is_some_and(|it| !it.is_empty() && !it.contains('-'))
    }

    /// May it be on this node? One that is on none yet may come there.
    pub(super) fn may_be_on(&self, node: &str) -> bool {
        let on = self.spec.as_ref().and_then(|it| it.node_name.as_deref());
        on.is_none_or(|it| it.is_empty() || it == node)
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.metadata.name
    }
}

impl InfraNode {
    /// Which node it is.
    pub(super) fn place(&self) -> Place {
        let info = self.status.as_ref().and_then(|it| it.node_info.as_ref());
        Place {
            node: self.metadata.name.clone(),
            uid: self.metadata.uid.clone(),
            system_uuid: info.map(|it| it.system_uuid.clone()).unwrap_or_default(),
        }
    }

    /// Is what it says of its pods true? Either its kubelet answers, or it was proven to be off.
    pub(super) fn is_accounted_for(&self) -> bool {
        let taints = self.spec.taints.iter().flatten();
        let conditions = self.status.iter().flat_map(|it| &it.conditions).flatten();
        let mut ready = conditions.filter(|it| it.kind == "Ready");
        ready.any(|it| it.status == "True") || self.is_out_of_service(taints)
    }

    fn is_out_of_service<'a>(&self, mut taints: impl Iterator<Item = &'a Taint>) -> bool {
        taints.any(|it| it.key == OUT_OF_SERVICE)
    }
}
