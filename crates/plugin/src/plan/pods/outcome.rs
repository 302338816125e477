//! What can become of a pod, and how that is written down.

use super::super::volumes::{Fate, VolumePlan};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// What becomes of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum Outcome {
    /// It is deleted, and nobody makes another one.
    Gone,
    /// Its object stays, and with it its name, until somebody acts.
    Hangs,
    /// Another one is made, and finds no node.
    Waits,
    /// Another one runs, without the data of this one.
    WithoutData,
    /// It is not evicted: it stays bound to the dead node.
    Stays,
    /// The user's rights do not suffice to tell.
    Unknown,
    /// Another one runs elsewhere, with the volumes of this one.
    Recovers,
    /// It belongs to the node, and every node has its own.
    OfTheNode,
    /// It has ended already.
    Finished,
}

impl Outcome {
    /// Is nothing missing afterwards?
    pub fn is_well(self) -> bool {
        matches!(self, Self::Recovers | Self::OfTheNode | Self::Finished)
    }
}

/// Why it becomes that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Reason {
    /// Its phase is Succeeded or Failed.
    Ended,
    /// Mirror of a static pod.
    StaticPod,
    /// Of a DaemonSet.
    DaemonSet,
    /// Tolerates everything that evicts from a fenced node.
    ToleratesOutOfService,
    /// No controller made it.
    NoController,
    /// A finalizer keeps its object.
    Finalizer,
    /// A volume is on the node's own disk.
    LocalVolume,
    /// A volume can be reached from nodes with certain labels only, such as a zone's.
    VolumeOutOfReach,
    /// There is no other usable node.
    NoOtherNode,
    /// No other node has the labels that it wants, or none without a taint.
    NoMatchingNode,
    /// No other node has room for it.
    NoRoom,
    /// What it has written to a hostPath stays behind.
    HostPath,
    /// A right is missing.
    RightMissing,
    /// Nothing is in its way.
    Free,
}

/// What becomes of one pod.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodPlan {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Who made it: `StatefulSet/db`.
    pub owner: Option<String>,
    /// Of which kind that is; empty: nothing made it.
    #[serde(skip)]
    pub owner_kind: String,
    /// What becomes of it.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
    /// That, in words.
    pub message: String,
    /// Its volumes that hold data.
    pub volumes: Vec<VolumePlan>,
    /// What else is worth knowing, and no obstacle.
    pub notes: Vec<String>,
    /// Seconds from its scheduling to its last container's start, when it last started.
    pub last_start_seconds: Option<f64>,
    /// Predicted seconds from the power loss to the start of the next one.
    pub after_seconds: Option<f64>,
}

impl PodPlan {
    /// `namespace/name`, as kubectl prints it.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Does it wait for a volume that has to leave the node?
    pub fn has_moving_volumes(&self) -> bool {
        self.volumes.iter().any(|it| it.fate == Fate::Moves)
    }

    /// What the first question said that was answered by no.
    pub(super) fn settle(&mut self, outcome: Outcome, reason: Reason, message: impl Into<String>) {
        (self.outcome, self.reason, self.message) = (outcome, reason, message.into());
    }
}

/// How many of each outcome.
pub fn counted(plans: &[PodPlan]) -> BTreeMap<Outcome, usize> {
    let mut counts = BTreeMap::new();
    for plan in plans {
        *counts.entry(plan.outcome).or_default() += 1;
    }
    counts
}
