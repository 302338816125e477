//! What becomes of each pod on the node once it is out of service: does it run again, where else, and with what of its data?
//!
//! A pod never moves. The taint has it deleted, and whoever made it makes another one, which needs a node that takes it and its volumes. So
//! the questions come in this order: is it evicted at all, does anybody make another one, is its name free again, can its volumes be
//! reached from elsewhere, and is there room. The first no decides.

use super::place::{self, Machine, Nowhere, Wants, place};
use super::quantity::Asked;
use super::timeline::millis;
use super::volumes::{Fate, Storage};
use fencing_cluster::slim::pod_view;
use fencing_core::observed::NodeView;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use std::collections::BTreeSet;

mod notes;
mod outcome;

pub use outcome::{Outcome, PodPlan, Reason, counted};

/// A Job's own finalizer: the Job controller takes it away by itself (`JobTrackingFinalizer`, upstream's batch/v1).
const OF_JOBS: &str = "batch.kubernetes.io/job-tracking";

/// What surrounds the node's pods.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The node.
    pub dead: &'a str,
    /// All Nodes.
    pub nodes: &'a [NodeView],
    /// What is left of each of them; none: the user may not list all pods.
    pub machines: Option<Vec<Machine>>,
    /// Storage.
    pub storage: &'a Storage,
    /// PodDisruptionBudgets.
    pub budgets: &'a [PodDisruptionBudget],
    /// Deployments, by namespace and name, that are rolled over with the new pod first.
    pub rolling: &'a BTreeSet<(String, String)>,
    /// The Node is deleted in the end, and pod GC takes what is left on it.
    pub deletes_node: bool,
    /// The operator may report the node before Kubernetes notices (`earlyDetection`).
    pub reports_early: bool,
}

/// What becomes of each of the node's pods: those that are not well first.
pub fn judge(pods: &[Pod], mut scene: Scene<'_>) -> Vec<PodPlan> {
    let mut plans: Vec<(usize, PodPlan)> = pods
        .iter()
        .map(|it| first(it, &scene))
        .enumerate()
        .collect();
    let mut machines = scene.machines.take();
    // As the scheduler does: the important ones first; and of these the large ones, which find room most rarely.
    let weight = |index: usize| {
        let spec = pods.get(index).and_then(|it| it.spec.as_ref());
        let asked = spec.map(|it| Asked::of(it).amounts()).unwrap_or_default();
        let asked = |name: &str| asked.get(name).copied().unwrap_or_default();
        (
            spec.and_then(|it| it.priority).unwrap_or_default(),
            asked("memory"),
            asked("cpu"),
        )
    };
    plans.sort_by_key(|(index, _)| std::cmp::Reverse(weight(*index)));
    for (index, plan) in &mut plans {
        if let (Outcome::Recovers | Outcome::WithoutData, Some(pod)) =
            (plan.outcome, pods.get(*index))
        {
            seat(plan, pod, machines.as_deref_mut(), &scene);
        }
    }
    let mut plans: Vec<PodPlan> = plans.into_iter().map(|(_, plan)| plan).collect();
    notes::of_brothers(&mut plans);
    plans.sort_by_key(|it| (it.outcome, it.namespace.clone(), it.name.clone()));
    plans
}

/// Everything but the room for it elsewhere.
pub(super) fn first(pod: &Pod, scene: &Scene<'_>) -> PodPlan {
    let owner = controller(pod);
    let mut plan = PodPlan {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        owner: owner.map(|it| format!("{}/{}", it.kind, it.name)),
        owner_kind: owner.map(|it| it.kind.clone()).unwrap_or_default(),
        outcome: Outcome::Recovers,
        reason: Reason::Free,
        message: String::new(),
        volumes: Vec::new(),
        notes: Vec::new(),
        last_start_seconds: notes::last_start(pod),
        after_seconds: None,
    };
    if stays_or_ends(&mut plan, pod, owner, scene) {
        return plan;
    }
    plan.volumes = scene.storage.of_pod(pod, scene.nodes, scene.dead);
    plan.notes = notes::of(pod, &plan, owner, scene);
    let Some(owner) = owner else {
        plan.settle(Outcome::Gone, Reason::NoController, "it has no controller: it is deleted and not created again; run it by a Deployment or a StatefulSet");
        return plan;
    };
    if let Some(message) = hangs(pod, owner) {
        plan.settle(Outcome::Hangs, Reason::Finalizer, message);
        return plan;
    }
    by_volumes(&mut plan);
    plan
}

/// Those that no other node is asked for.
fn stays_or_ends(
    plan: &mut PodPlan,
    pod: &Pod,
    owner: Option<&OwnerReference>,
    scene: &Scene<'_>,
) -> bool {
    let view = pod_view(pod);
    let dead = scene.dead;
    if view.mirror {
        plan.settle(
            Outcome::OfTheNode,
            Reason::StaticPod,
            "a static pod: its kubelet starts it when the machine is back",
        );
    } else if owner.is_some_and(|it| it.kind == "DaemonSet") {
        plan.settle(
            Outcome::OfTheNode,
            Reason::DaemonSet,
            "of a DaemonSet: every node has its own",
        );
    } else if view.finished {
        plan.settle(
            Outcome::Finished,
            Reason::Ended,
            "has ended: only its object is deleted",
        );
    } else if view.tolerates_out_of_service && !(scene.deletes_node && view.attachable) {
        let message = format!(
            "it tolerates out-of-service and the claim for ever, so it and its volumes stay on Node {dead}; remove the toleration, or limit it by tolerationSeconds"
        );
        plan.settle(Outcome::Stays, Reason::ToleratesOutOfService, message);
    } else {
        return false;
    }
    true
}

/// Who makes another one.
fn controller(pod: &Pod) -> Option<&OwnerReference> {
    pod.owner_references()
        .iter()
        .find(|it| it.controller == Some(true))
}

/// Finalizers that only whoever set them takes away.
fn foreign_finalizers(pod: &Pod) -> Vec<String> {
    let foreign = pod.finalizers().iter().filter(|it| *it != OF_JOBS);
    foreign.cloned().collect()
}

/// Its object keeps its name, and whoever makes the next one of that name waits. A ReplicaSet gives each its own name and does not wait
/// (upstream's `FilterActivePods`, `pkg/controller/controller_utils.go`, v1.36).
fn hangs(pod: &Pod, owner: &OwnerReference) -> Option<String> {
    let finalizers = foreign_finalizers(pod);
    if finalizers.is_empty() || owner.kind == "ReplicaSet" || owner.kind == "Job" {
        return None;
    }
    Some(format!(
        "finalizer {} keeps its object after deletion: {} {} creates the next one only after its owner has removed it",
        finalizers.join(", "),
        owner.kind,
        owner.name
    ))
}

/// Can its volumes be reached from elsewhere, and is its data in them?
fn by_volumes(plan: &mut PodPlan) {
    for (fate, outcome, reason) in [
        (Fate::OnTheNode, Outcome::Waits, Reason::LocalVolume),
        (Fate::OutOfReach, Outcome::Waits, Reason::VolumeOutOfReach),
        (Fate::Unknown, Outcome::Unknown, Reason::RightMissing),
        (Fate::StaysBehind, Outcome::WithoutData, Reason::HostPath),
    ] {
        if let Some(found) = plan.volumes.iter().find(|it| it.fate == fate) {
            let message = found.message.clone();
            plan.settle(outcome, reason, message);
            return;
        }
    }
}

/// Looks for a node that takes it.
fn seat(plan: &mut PodPlan, pod: &Pod, machines: Option<&mut [Machine]>, scene: &Scene<'_>) {
    let Some(machines) = machines else {
        plan.settle(
            Outcome::Unknown,
            Reason::RightMissing,
            "room on other nodes is unknown (you may not list the pods of the cluster)",
        );
        return;
    };
    let spec = pod.spec.as_ref();
    let wants = Wants {
        spec,
        volumes: scene.storage.reach(&plan.volumes),
        asked: spec.map(|it| Asked::of(it).amounts()).unwrap_or_default(),
    };
    let seated = place(machines, scene.dead, &wants);
    let nowhere = match seated {
        Ok(node) if plan.outcome == Outcome::Recovers => {
            let words = with_data(plan);
            plan.message =
                format!("another one is created elsewhere (Node {node} has room){words}");
            plan.notes.extend(spec.and_then(place::overlooked));
            return;
        }
        Ok(_) => return,
        Err(nowhere) => nowhere,
    };
    let (reason, message) = match nowhere {
        Nowhere::NoOtherNode => (Reason::NoOtherNode, "no other node is Ready and not cordoned".to_owned()),
        Nowhere::Tainted(taint) => (Reason::NoMatchingNode, format!("every other node has a taint that it does not tolerate, such as {taint}")),
        Nowhere::NoMatch => (Reason::NoMatchingNode, "no other usable node has the labels that its nodeSelector or its required node affinity wants".to_owned()),
        Nowhere::VolumesElsewhere => (Reason::VolumeOutOfReach, "no other usable node can reach its volumes".to_owned()),
        Nowhere::NoRoom(short) => (Reason::NoRoom, format!("no other node has room for it beside the others of this node (it requests {short}); add a node, or request less")),
    };
    plan.settle(
        Outcome::Waits,
        reason,
        format!("{message}: the next one stays Pending"),
    );
}

/// What it has of its data there.
fn with_data(plan: &PodPlan) -> String {
    let has = |fate: Fate| {
        plan.volumes
            .iter()
            .filter(move |it| it.fate == fate)
            .count()
    };
    let told = [
        (has(Fate::Moves), "moved to it"),
        (has(Fate::Shared), "mounted there"),
    ];
    let told = told.into_iter().filter(|(count, _)| *count > 0);
    let told: Vec<String> = told
        .map(|(count, what)| format!("{} {what}", fencing_core::quiesce::counted(count, "volume")))
        .collect();
    match told.is_empty() {
        true => String::new(),
        false => format!(", {}", told.join(", ")),
    }
}

/// Moments that a pod may wait for, in seconds from the power loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Marks {
    /// The claim stands: pods are being deleted.
    pub claimed: f64,
    /// Their objects are gone.
    pub evicted: f64,
    /// Their volumes have detached.
    pub detached: f64,
    /// How long a pod takes that says nothing of it.
    pub start: f64,
}

/// Fills in when each of them runs again. A ReplicaSet makes another one as soon as the claim has the old one deleted; a StatefulSet when the name
/// is free.
pub fn date(plans: &mut [PodPlan], marks: Marks) {
    for plan in plans
        .iter_mut()
        .filter(|it| it.outcome == Outcome::Recovers)
    {
        let is_replaced_at_once = plan.owner_kind == "ReplicaSet";
        let begins = match (plan.has_moving_volumes(), is_replaced_at_once) {
            (true, _) => marks.detached,
            (false, true) => marks.claimed,
            (false, false) => marks.evicted,
        };
        let start = plan.last_start_seconds.unwrap_or(marks.start);
        plan.after_seconds = Some(millis(begins + start));
    }
}

#[cfg(test)]
mod tests;
