//! What was seen of the cluster, reduced to the facts that a decision needs.
//!
//! The shell fills these from quorum reads (`resourceVersion` unset, S12) when something destructive hangs on
//! them, and from caches when they only wake somebody up. Nothing here knows where a fact came from or what time it is.

use std::collections::BTreeMap;

/// Taint that makes Kubernetes force-delete the pods of a node and detach its volumes.
/// Source: KEP-2268, `k8s.io/api/core/v1/well_known_taints.go`.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Our fencing token on a Node; its value is `<NodeFence>-<nonce>`, its effect NoExecute.
pub const CLAIM: &str = "nodefencing.io/claim";
/// Keeps new pods off a fenced node until its kubelet reports another boot; its value is the fenced boot ID, its effect
/// NoSchedule.
pub const QUARANTINE: &str = "nodefencing.io/quarantine";
/// Stands on a fenced Node while the operator itself detaches its volumes and until it deletes it (`recovery.strategy: DeleteNode`); its value is
/// the fenced boot ID, its effect NoExecute.
pub const DETACHING: &str = "nodefencing.io/detaching";

/// One element of `spec.taints`, with all that is needed to test for exactly this element.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TaintView {
    /// Taint key.
    pub key: String,
    /// Taint value, absent and empty kept apart as the API server stores them.
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// `timeAdded` as the API server prints it.
    pub time_added: Option<String>,
}

/// Status of the Node's `Ready` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ready {
    /// The kubelet says it is ready.
    True,
    /// The kubelet says it is not.
    False,
    /// The node-lifecycle controller has not heard of the kubelet for the grace period.
    Unknown,
    /// The Node has no such condition: never fenced.
    Missing,
}

impl Ready {
    /// By the condition's status; none: the Node has no such condition.
    pub fn of(status: Option<&str>) -> Self {
        match status {
            Some("True") => Self::True,
            Some("False") => Self::False,
            Some(_) => Self::Unknown,
            None => Self::Missing,
        }
    }
}

/// One condition of a Node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConditionView {
    /// Condition type, such as `Ready`.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// `lastTransitionTime` as the API server prints it.
    pub transition: String,
    /// `lastHeartbeatTime` as the API server prints it.
    pub heartbeat: String,
}

/// A Node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeView {
    /// Node name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Keys of the annotations.
    pub annotation_keys: Vec<String>,
    /// `spec.unschedulable`: the node is cordoned.
    pub unschedulable: bool,
    /// `spec.taints` in their stored order.
    pub taints: Vec<TaintView>,
    /// `status.conditions`.
    pub conditions: Vec<ConditionView>,
    /// `status.nodeInfo.bootID`; empty if the kubelet never reported one.
    pub boot_id: String,
    /// `status.nodeInfo.systemUUID`; empty if the kubelet never reported one.
    pub system_uuid: String,
    /// `spec.providerID`; empty if nobody has set one.
    pub provider_id: String,
    /// `status.addresses`, those that are IP addresses of the machine (`InternalIP`, `ExternalIP`), as text.
    pub addresses: Vec<String>,
    /// Number of `status.volumesAttached`.
    pub volumes_attached: usize,
    /// The operator itself has turned its Ready away from True ([`super::early::mark`]).
    pub reported_early: bool,
    /// `metadata.resourceVersion`: the precondition of its deletion. Compared for equality only, by the API server.
    pub resource_version: String,
    /// `metadata.finalizers`: deleted, it stays until whoever has set them takes them away.
    pub finalizers: Vec<String>,
    /// Has a `deletionTimestamp`: it goes with its last finalizer, at any moment, and nobody can take that back.
    pub deleting: bool,
}

impl NodeView {
    /// Status of the condition `Ready`.
    pub fn ready(&self) -> Ready {
        let ready = self.condition("Ready");
        Ready::of(ready.map(|condition| condition.status.as_str()))
    }

    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&ConditionView> {
        self.conditions
            .iter()
            .find(|condition| condition.kind == kind)
    }

    /// When the kubelet last reported, as it says itself: the heartbeat of `Ready`, empty if there is none. Only the kubelet moves it,
    /// in one write with the boot ID (upstream `pkg/kubelet/nodestatus/setters.go`, `ReadyCondition`): node-lifecycle leaves it alone when
    /// it makes the condition Unknown and dates its transition (`pkg/controller/nodelifecycle/node_lifecycle_controller.go`,
    /// `tryUpdateNodeHealth`). Compared for equality only: another value means that the kubelet was alive, whatever its clock says.
    pub fn last_report(&self) -> &str {
        self.condition("Ready")
            .map_or("", |ready| ready.heartbeat.as_str())
    }

    /// The first taint with this key, and its place in `spec.taints`.
    pub fn taint(&self, key: &str) -> Option<(usize, &TaintView)> {
        self.taints
            .iter()
            .enumerate()
            .find(|(_, taint)| taint.key == key)
    }

    /// Value of the claim on this Node, whoever's it is.
    pub fn claim(&self) -> Option<&str> {
        self.taint(CLAIM)
            .map(|(_, taint)| taint.value.as_deref().unwrap_or_default())
    }

    /// Does the Node carry `out-of-service`, whoever set it?
    pub fn out_of_service(&self) -> bool {
        self.taint(OUT_OF_SERVICE).is_some()
    }

    /// The key of the mark on the Node, whoever set it.
    pub fn marked_by(&self) -> Option<&'static str> {
        let keys = [OUT_OF_SERVICE, DETACHING];
        keys.into_iter().find(|key| self.taint(key).is_some())
    }
}

/// The kubelet's Lease in `kube-node-lease`. Its time is compared for equality only: another value means that the
/// kubelet was alive, whatever its clock says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseView {
    /// `spec.renewTime` as the API server prints it; empty if there is no Lease.
    pub renew_time: String,
}

/// A pod bound to the node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.uid`: a precondition of a forced deletion.
    pub uid: String,
    /// `metadata.resourceVersion`, the other one: in an etcd that was put back the same pod may run again.
    pub resource_version: String,
    /// Has a `deletionTimestamp`.
    pub deleting: bool,
    /// `status.phase` is Succeeded or Failed: no container of it starts again.
    pub finished: bool,
    /// Has finalizers: its object outlives its containers.
    pub finalizers: bool,
    /// Mirror of a static pod: its deletion does not stop it, and it has no claims.
    pub mirror: bool,
    /// Tolerates `out-of-service=nodeshutdown:NoExecute`, and what else evicts from a fenced node, for ever ([`super::quiesce::stays`]).
    pub tolerates_out_of_service: bool,
    /// The toleration that keeps taint eviction from deleting it for our claim, in words, if one does.
    pub tolerates_claim: Option<String>,
    /// Names of the PersistentVolumeClaims it uses.
    pub claims: Vec<String>,
    /// Uses a volume that is attached to its node, or may be: anything but what a kubelet makes up for itself.
    pub attachable: bool,
    /// Its own spec names such a volume, and no claim stands for it.
    pub inline: bool,
    /// Whoever makes it may bind it, or the next one of its name, to the node again, whatever is done to it, and its volume would be taken from it
    /// ([`super::quiesce::none_stays_with_its_volume`]).
    pub comes_back: bool,
    /// Its Ready is True and DisruptionTarget is not: the operator may not delete it by force (S2, `deploy/admission.yaml`).
    pub looks_alive: bool,
    /// Of what only its kubelet writes: its containers' statuses, when it started, its addresses. Another number means that the kubelet was alive;
    /// 0: there is nothing of that.
    pub written: u64,
}

impl PodView {
    /// `namespace/name`, as kubectl prints it.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A VolumeAttachment of the node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AttachmentView {
    /// Name of the VolumeAttachment.
    pub name: String,
    /// `metadata.uid`: the precondition of its deletion.
    pub uid: String,
    /// CSI driver.
    pub attacher: String,
    /// PersistentVolume, or empty for an inline volume.
    pub volume: String,
    /// Has a `deletionTimestamp`: attach/detach wants it gone.
    pub deleting: bool,
    /// `status.detachError.message`.
    pub detach_error: Option<String>,
}

/// What the volumes of a node are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Volumes {
    /// The claims of the pods that leave the node, `namespace/name`, each with its PersistentVolume, which is empty where it is not known.
    pub claims: Vec<(String, String)>,
    /// The PersistentVolumes that are attached to it, each with its `clusterID`, which is empty where it has none. One that does not exist is not in it.
    pub clusters: BTreeMap<String, String>,
}

/// What a read returned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Read<T> {
    /// Not asked for in this round.
    NotRead,
    /// Asked for, and no answer that can be trusted: the reason, for people.
    Failed(String),
    /// The object does not exist.
    Absent,
    /// The object, or the complete list.
    Present(T),
}

impl<T> Read<T> {
    /// The object, if it was read and exists.
    pub fn present(&self) -> Option<&T> {
        match self {
            Self::Present(value) => Some(value),
            _ => None,
        }
    }

    /// Why it could not be read, to be put behind what needs it; empty if nothing was asked for, or nothing is there.
    pub fn why(&self) -> String {
        match self {
            Self::Failed(reason) => format!(": {reason}"),
            _ => String::new(),
        }
    }

    /// This, or `other` where nothing was asked for here.
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::NotRead => other,
            read => read,
        }
    }
}

/// Everything seen in one round, for one incident.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Observed {
    /// Quorum GET of the Node.
    pub node: Read<NodeView>,
    /// Quorum GET of the kubelet's Lease; a missing Lease is an empty one.
    pub lease: Read<LeaseView>,
    /// Quorum LIST of the pods bound to the node, complete.
    pub pods: Read<Vec<PodView>>,
    /// Quorum GETs of the pods that could still start when they were last read: those that still exist.
    pub starting: Read<Vec<PodView>>,
    /// VolumeAttachments of the node: complete quorum LIST, read only for the last check before a release, before some of them are
    /// deleted, and before a taint that a storage alone has to make safe.
    pub attachments: Read<Vec<AttachmentView>>,
    /// VolumeAttachments of the node as the cache has them: for words, and to know when the last check is worth its LIST.
    pub attachments_cached: Vec<AttachmentView>,
    /// What the node's volumes are: quorum GETs, read only where a storage alone is what proves (`plan::storage`).
    pub volumes: Read<Volumes>,
    /// Volumes of pods that tolerate `out-of-service`: they stay attached.
    pub tolerated_volumes: Vec<String>,
    /// Something answers at the kubelet's port (read only after an off command, and after a sign of life beside a device that reads off).
    pub kubelet_answers: bool,
    /// Quorum GET of the NodeFence, after everything else: is its evidence that of the claim which the Node carries?
    pub evidence: Read<bool>,
    /// What keeps the incident from acting: the budget, its policy, or another fence; none: it is admitted.
    pub hold: Option<super::hold::Hold>,
    /// The claim on the Node belongs to another NodeFence that is still open.
    pub claim_of_other_fence: bool,
    /// Another NodeFence that has proven the machine down in this boot, and everything is off it: asked for where nothing of a policy's
    /// incident is on its Node.
    pub cleared_by: Option<String>,
    /// The claim on the Node is this NodeFence's, and another process may be going on with it: the record names it, or may do so yet.
    pub claim_of_other_process: bool,
    /// The cluster's state went back in time (an etcd restore, S18): nothing destructive until the operator is restarted.
    pub frozen: Option<String>,
}

impl Observed {
    /// Something that was asked for could not be read.
    #[must_use]
    pub fn has_failed_read(&self) -> bool {
        let failed = [
            matches!(self.node, Read::Failed(_)),
            matches!(self.lease, Read::Failed(_)),
            matches!(self.pods, Read::Failed(_)),
            matches!(self.starting, Read::Failed(_)),
            matches!(self.attachments, Read::Failed(_)),
            matches!(self.evidence, Read::Failed(_)),
        ];
        failed.contains(&true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    /// What nobody has asked for, and what is not there, has not failed.
    #[test]
    fn a_read_that_failed_is_known_whichever_it_was() {
        let why = || "etcd is slow".to_owned();
        assert!(!fixtures::drained().has_failed_read());
        let mut absent = fixtures::drained();
        absent.node = Read::Absent;
        assert!(!absent.has_failed_read());
        let failing: [fn(&mut Observed, String); 6] = [
            |it, why| it.node = Read::Failed(why),
            |it, why| it.lease = Read::Failed(why),
            |it, why| it.pods = Read::Failed(why),
            |it, why| it.starting = Read::Failed(why),
            |it, why| it.attachments = Read::Failed(why),
            |it, why| it.evidence = Read::Failed(why),
        ];
        for fail in failing {
            let mut observed = fixtures::drained();
            fail(&mut observed, why());
            assert!(observed.has_failed_read(), "{observed:?}");
        }
    }
}
