//! What is worth knowing of a pod though it is in nobody's way, and how long it took to start last.

use super::super::volumes::Fate;
use super::{Outcome, PodPlan, Scene, foreign_finalizers};
use fencing_api::selector::LabelSelector;
use fencing_core::select;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Toleration};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector as Stored, OwnerReference};
use kube::ResourceExt;

/// All of them, in words.
pub(super) fn of(
    pod: &Pod,
    plan: &PodPlan,
    owner: Option<&OwnerReference>,
    scene: &Scene<'_>,
) -> Vec<String> {
    let mut notes: Vec<String> = scene
        .budgets
        .iter()
        .filter_map(|it| of_budget(pod, it))
        .collect();
    let lost = plan.volumes.iter().filter(|it| it.fate == Fate::Lost);
    notes.extend(lost.map(|it| it.message.clone()));
    notes.extend(of_rollout(pod, plan, owner, scene));
    notes.extend(of_short_patience(pod).filter(|_| scene.reports_early));
    let finalizers = foreign_finalizers(pod);
    if !finalizers.is_empty() && owner.is_some_and(|it| it.kind == "ReplicaSet") {
        notes.push(format!(
            "finalizer {} keeps the old object Terminating; the next pod (another name) does not wait, its volumes wait up to 20 s",
            finalizers.join(", ")
        ));
    }
    let is_old =
        owner.is_some_and(|it| !["ReplicaSet", "StatefulSet", "Job"].contains(&it.kind.as_str()));
    if let (true, Some(owner)) = (is_old, owner) {
        notes.push(format!(
            "{} {} is no controller of Kubernetes; it is assumed to create another pod",
            owner.kind, owner.name
        ));
    }
    notes
}

/// The taint deletes, and asks for no eviction.
fn of_budget(pod: &Pod, budget: &PodDisruptionBudget) -> Option<String> {
    let allowed = budget.status.as_ref()?.disruptions_allowed;
    let selector = budget.spec.as_ref()?.selector.as_ref()?;
    let is_full = allowed == 0 && budget.namespace() == pod.namespace();
    (is_full && selects(selector, pod)).then(|| {
        format!(
            "PodDisruptionBudget {} allows no disruption now, which the taint ignores",
            budget.name_any()
        )
    })
}

/// Same rules as for a policy's selectors; what the API server would refuse selects nothing.
fn selects(stored: &Stored, pod: &Pod) -> bool {
    let selector = serde_json::to_value(stored).and_then(serde_json::from_value);
    selector.is_ok_and(|it: LabelSelector| select::matches(&it, pod.labels()))
}

/// A report that was wrong is taken back by the kubelet within its status period of 10 s, and taint eviction's own look of 5 s: what is patient for
/// longer is not evicted by it.
const PATIENCE: i64 = 15;

/// It would be evicted by a report that was wrong.
fn of_short_patience(pod: &Pod) -> Option<String> {
    const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
    let tolerates = |it: &&Toleration| {
        let key = it.key.as_deref().unwrap_or_default();
        let effect = it.effect.as_deref().unwrap_or_default();
        [UNREACHABLE, ""].contains(&key) && ["NoExecute", ""].contains(&effect)
    };
    let tolerations = pod.spec.as_ref()?.tolerations.iter().flatten();
    // The shortest of them counts (`pkg/controller/tainteviction/taint_eviction.go`, `getMinTolerationTime`, v1.36).
    let of_each = tolerations
        .filter(tolerates)
        .map(|it| it.toleration_seconds);
    let seconds = match of_each.clone().next() {
        None => 0,
        Some(_) => of_each.flatten().min()?,
    };
    (seconds < PATIENCE).then(|| {
        format!(
            "it tolerates `unreachable` for {} s only: an early report that was wrong would evict it; give it {PATIENCE} s (`tolerationSeconds`)",
            seconds.max(0)
        )
    })
}

/// What makes rollouts hang does not make this hang, and people mix the two up.
fn of_rollout(
    pod: &Pod,
    plan: &PodPlan,
    owner: Option<&OwnerReference>,
    scene: &Scene<'_>,
) -> Option<String> {
    let replicas = owner.filter(|it| it.kind == "ReplicaSet")?;
    // A Deployment calls its ReplicaSets after itself and their hash (upstream's `pkg/controller/deployment/sync.go`).
    let hash = pod.labels().get("pod-template-hash")?;
    let deployment = replicas
        .name
        .strip_suffix(hash.as_str())?
        .strip_suffix('-')?;
    let is_rolling = scene
        .rolling
        .contains(&(plan.namespace.clone(), deployment.to_owned()));
    let held = plan.volumes.iter().find(|it| it.fate == Fate::Moves);
    let claim = held.filter(|_| is_rolling)?.claim.clone()?;
    Some(format!(
        "Deployment {deployment} is RollingUpdate with claim {claim} for one node: a failover succeeds, but a rollout may block itself; set its strategy to Recreate"
    ))
}

/// A StatefulSet makes its pods one after the other, each when the one before is Ready, unless it says otherwise.
pub(super) fn of_brothers(plans: &mut [PodPlan]) {
    let sets = plans
        .iter()
        .map(|it| (it.namespace.clone(), it.owner.clone()));
    let sets: Vec<_> = sets.collect();
    for plan in plans
        .iter_mut()
        .filter(|it| it.outcome == Outcome::Recovers)
    {
        let own = (plan.namespace.clone(), plan.owner.clone());
        let is_of_set = plan.owner_kind == "StatefulSet";
        let brothers = sets.iter().filter(|it| **it == own).count();
        if is_of_set && brothers > 1 {
            plan.notes.push(format!("{brothers} pods of its StatefulSet are on this node and start in order (unless `podManagementPolicy` is Parallel); the time is the first one's"));
        }
    }
}

/// From its scheduling to the start of its last container, if none has been restarted since: with attaching and the images, as it was then.
pub(super) fn last_start(pod: &Pod) -> Option<f64> {
    let status = pod.status.as_ref()?;
    let scheduled = status
        .conditions
        .iter()
        .flatten()
        .find(|it| it.type_ == "PodScheduled")?;
    let scheduled = scheduled.last_transition_time.as_ref()?.0;
    let started: Option<Vec<Timestamp>> = status
        .container_statuses
        .iter()
        .flatten()
        .map(|it| {
            let running = it.state.as_ref()?.running.as_ref()?;
            running
                .started_at
                .as_ref()
                .filter(|_| it.restart_count == 0)
                .map(|it| it.0)
        })
        .collect();
    let seconds = started?
        .into_iter()
        .max()?
        .duration_since(scheduled)
        .as_secs_f64();
    (seconds >= 0.0).then_some(seconds)
}
