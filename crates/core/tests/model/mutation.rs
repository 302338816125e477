//! What is wrong with the operator, for once: a precondition, a `test` or an order of the protocol is missing.
//!
//! The core is not changed. A mutation stands between it and the cluster, and either shows it something that is not so (as if it did not
//! look), or changes what it sends (as if it had not asked for it). The others are about the shell and the API server, which the model retells.

use crate::talk::{Kind, Request};
use fencing_core::memory::Memory;
use fencing_core::observed::{CLAIM, OUT_OF_SERVICE, Observed, PodView, QUARANTINE, Read};
use serde_json::Value;

/// A guard that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// CLAIM does not test the Node's uid.
    ClaimWithoutUid,
    /// CLAIM does not test that the list of taints is still empty.
    ClaimOverTaints,
    /// A take-over does not test the claim that it replaces.
    TakeOverUntested,
    /// A claim's effect is NoSchedule.
    ClaimEvictsNobody,
    /// QUIESCE is left out: pods count as on their way out.
    ProveBeforeQuiesce,
    /// TAINT does not test the claim.
    TaintWithoutClaim,
    /// TAINT does not test the boot ID.
    TaintWithoutBoot,
    /// PROVE is left out: Off was read before the claim, and every later reading counts as Off.
    TaintWithoutProof,
    /// The list of pods beside the readings is not compared with the one before.
    NewcomersIgnored,
    /// EVIDENCE comes after TAINT.
    TaintBeforeEvidence,
    /// An off command leaves before its INTENT is stored.
    OffBeforeIntent,
    /// An off command leaves without a last look at the claim.
    OffWithoutClaim,
    /// RELEASE does not wait for pods and volumes.
    ReleaseBeforeDetach,
    /// RELEASE does not read the power: every look counts as Off.
    LookBelieved,
    /// RELEASE does not wait for off commands that may land late.
    ReleaseBeforeLateOff,
    /// POWERON does not look at the taints, neither when it is decided on nor before it leaves.
    OnBeforeRelease,
    /// RELEASE does not test the claim and the taint.
    ReleaseUntested,
    /// ABORT tests the claim alone, and not that no `out-of-service` has come meanwhile.
    AbortWithoutList,
    /// TAINT does not test the Node's uid.
    TaintWithoutUid,
    /// ABORT does not test the Node's uid.
    AbortWithoutUid,
    /// RELEASE does not test the Node's uid.
    ReleaseWithoutUid,
    /// EVICT comes before PROVE.
    EvictBeforeProve,
    /// EVICT names pods, and does not ask for their uid.
    EvictWithoutUid,
    /// A process does not read that another one has proven the machine down, and writes its own status over it.
    EvidenceUnread,
    /// The API server has no admission policy of ours.
    NoAdmissionPolicy,
    /// PROVE does not ask whether the Lease was renewed.
    ProveWithoutLease,
    /// PROVE does not ask what the kubelet writes of its pods.
    ProveWithoutPods,
    /// After an off command life counts anew, whatever the devices had read before it.
    EveryOffCounts,
    /// PROVE does not look at the Node's boot and Ready.
    ProveWithoutNode,
    /// RELEASE does not test the boot that it quarantines.
    ReleaseWithoutBoot,
    /// DELETE of the Node names no resourceVersion.
    DeleteWithoutVersion,
    /// DELETE of a VolumeAttachment names no uid.
    DetachWithoutUid,
    /// A pod that tolerates everything counts as one that stays, though it uses a volume that will be detached.
    TolerantWithVolume,
    /// A pod that tolerates everything and uses a volume is deleted by force once somebody has deleted it.
    TolerantEvicted,
    /// An Off counts although the device has never read On of the machine.
    AnyOffCounts,
    /// A machine that has booted anew is let go though the deletion of a VolumeAttachment may be on its way.
    LetGoWhileDetaching,
}

impl Mutation {
    /// What the core sees that is not so.
    pub fn misread(self, observed: &mut Observed, memory: &mut Memory) {
        match self {
            Self::ProveBeforeQuiesce => {
                for pods in [&mut observed.pods, &mut observed.starting] {
                    if let Read::Present(pods) = pods {
                        pods.iter_mut().for_each(|pod| pod.deleting = true);
                    }
                }
                if let Some(listed) = &mut memory.under_claim.quiesce.listed_before {
                    listed.iter_mut().for_each(|pod| pod.deleting = true);
                }
                memory.under_claim.quiesce.starting.clear();
                if let Some(pods) = &mut memory.under_claim.pods {
                    pods.iter_mut().for_each(|pod| pod.deleting = true);
                }
            }
            Self::NewcomersIgnored => {
                let known = memory
                    .under_claim
                    .quiesce
                    .listed
                    .clone()
                    .unwrap_or_default();
                if let Some(pods) = &mut memory.under_claim.pods {
                    pods.retain(|pod| known.contains(&pod.uid));
                }
            }
            Self::ReleaseBeforeDetach if memory.taint.seen => {
                observed.pods = Read::Present(Vec::new());
                nothing_attached(observed);
            }
            Self::OnBeforeRelease if memory.taint.seen => released_already(observed, memory),
            Self::ProveWithoutLease => {
                if let (Read::Present(now), Some(before)) =
                    (&mut observed.lease, &memory.under_claim.lease_before)
                {
                    now.clone_from(before);
                }
            }
            Self::ProveWithoutPods => memory.under_claim.written = None,
            Self::EveryOffCounts => memory.trust.power_history = Default::default(),
            Self::ProveWithoutNode if memory.under_claim.readings.is_some() => {
                if let (Read::Present(node), Some(claim)) = (&mut observed.node, &memory.claim) {
                    node.boot_id.clone_from(&claim.boot_id);
                    let conditions = node.conditions.iter_mut();
                    conditions.for_each(|it| "Unknown".clone_into(&mut it.status));
                }
            }
            Self::TolerantWithVolume => without_a_volume(observed, memory),
            Self::TolerantEvicted => like_any_other(observed, memory),
            Self::LetGoWhileDetaching if memory.taint.seen => {
                let is_back = observed
                    .node
                    .present()
                    .is_some_and(|it| it.boot_id != "boot-1");
                if is_back {
                    nothing_attached(observed);
                }
            }
            _ => {}
        }
    }

    /// What the core did not ask for.
    pub fn garble(self, request: &mut Request) {
        let without = |operations: &mut Value, path: &str| {
            let list = operations.as_array_mut().expect("a JSON Patch");
            list.retain(|it| {
                it["op"] != "test" || !it["path"].as_str().is_some_and(|at| at.starts_with(path))
            });
        };
        let operations = &mut request.operations;
        match (self, request.kind) {
            (Self::ClaimWithoutUid, Kind::Claim) => without(operations, "/metadata/uid"),
            (Self::ClaimOverTaints, Kind::Claim) if request.claim == 0 => {
                without(operations, "/spec/taints");
            }
            (Self::TakeOverUntested, Kind::Claim) if request.claim != 0 => {
                without(operations, "/spec/taints");
            }
            (Self::TaintWithoutClaim, Kind::Taint) => without(operations, "/spec/taints/"),
            (Self::TaintWithoutBoot, Kind::Taint) | (Self::ReleaseWithoutBoot, Kind::Release) => {
                without(operations, "/status");
            }
            (Self::TaintWithoutUid, Kind::Taint)
            | (Self::AbortWithoutUid, Kind::DropClaim)
            | (Self::ReleaseWithoutUid, Kind::Release) => without(operations, "/metadata/uid"),
            (Self::ReleaseUntested, Kind::Release) => without(operations, "/spec/taints"),
            (Self::AbortWithoutList, Kind::DropClaim) => without(operations, "/spec/taints"),
            _ => {}
        }
    }
}

fn nothing_attached(observed: &mut Observed) {
    observed.attachments_cached.clear();
    if let Read::Present(attachments) = &mut observed.attachments {
        attachments.clear();
    }
    if let Read::Present(node) = &mut observed.node {
        node.volumes_attached = 0;
    }
}

/// The quarantine in the place of the claim, and no `out-of-service`.
fn released_already(observed: &mut Observed, memory: &mut Memory) {
    if let Read::Present(node) = &mut observed.node
        && node.out_of_service()
    {
        let ours = node.taints.iter_mut().filter(|it| it.key == CLAIM);
        for taint in ours {
            QUARANTINE.clone_into(&mut taint.key);
            taint.value = Some(node.boot_id.clone());
        }
        node.taints.retain(|it| it.key != OUT_OF_SERVICE);
        memory.taint.releasing = true;
    }
}

/// The second pod uses none, and may stay.
fn without_a_volume(observed: &mut Observed, memory: &mut Memory) {
    let stays = |pod: &mut PodView| {
        if pod.name == "pod-1" {
            (pod.attachable, pod.tolerates_out_of_service) = (false, true);
            pod.comes_back = false;
        }
    };
    for pods in [&mut observed.pods, &mut observed.starting] {
        if let Read::Present(pods) = pods {
            pods.iter_mut().for_each(stays);
        }
    }
    let heard = [
        &mut memory.under_claim.quiesce.listed_before,
        &mut memory.under_claim.pods,
    ];
    heard.into_iter().flatten().flatten().for_each(stays);
}

/// The second pod tolerates nothing once somebody has deleted it.
fn like_any_other(observed: &mut Observed, memory: &mut Memory) {
    let is_left = |pod: &mut PodView| {
        if pod.name == "pod-1" && pod.deleting {
            (pod.comes_back, pod.tolerates_out_of_service) = (false, false);
        }
    };
    for pods in [&mut observed.pods, &mut observed.starting] {
        if let Read::Present(pods) = pods {
            pods.iter_mut().for_each(is_left);
        }
    }
    let heard = [
        &mut memory.under_claim.quiesce.listed_before,
        &mut memory.under_claim.pods,
    ];
    heard.into_iter().flatten().flatten().for_each(is_left);
}
