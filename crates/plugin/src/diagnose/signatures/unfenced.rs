//! Why does nobody fence a node that has died, and what is there to type? The verdict is [`crate::unfenced`]'s.

use super::super::finding::{Step, step};
use super::super::index::Index;
use crate::fences;
use crate::unfenced::{World, at_present, fence_now, verdict};
use fencing_api::fence::NodeFence;
use fencing_api::policy::NodeFencingPolicy;
use fencing_api::settings::FenceMode;
use fencing_cluster::slim::WideNode;
use fencing_core::exclusions::exclusion;
use fencing_core::hold::HeldBy;
use fencing_core::observed::{NodeView, Ready};
use fencing_core::protection::Obstacle;
use fencing_core::select::Conflict;
use kube::ResourceExt;

/// Why, and the way out.
pub(super) struct Why {
    /// Is it still to come, once the policy's wait is over?
    pub is_to_come: bool,
    /// In words.
    pub words: String,
    /// The commands.
    pub steps: Vec<Step>,
}

/// Why nobody fences it.
pub(super) fn why(index: &Index<'_>, node: &WideNode) -> Why {
    let facts = index.facts;
    let view = node.view();
    if !facts.is_installed() {
        return uninstalled(&view);
    }
    let (policies, fences) = (&facts.policies, &facts.fences);
    if let Some(unknown) = policies.unknown.as_ref().or(fences.unknown.as_ref()) {
        let words = format!("policies and NodeFences of the node are unknown: {unknown}");
        return Why {
            is_to_come: false,
            words,
            steps: vec![by_hand(None, &view.name)],
        };
    }
    let world = World {
        policies: &policies.items,
        fences: &fences.items,
        now: facts.now,
    };
    let created = node.metadata.creation_timestamp.as_ref().map(|it| it.0);
    let found = verdict(&view, created, &world);
    let is_to_come = found.fence_is_to_come(facts.now);
    let mut words = match found.due {
        Some(due) => at_present(&found.words, due, facts.now),
        None => found.words,
    };
    // Whoever keeps it from being fenced may be at the machine, though something else has kept it from that before.
    let kept_off = found.policy.and_then(|it| exclusion(it, &view, facts.now));
    let told = found.reason.as_str();
    let is_told = |held: HeldBy| held.as_str() == told;
    if let Some(besides) = kept_off.as_ref().filter(|it| !is_told(it.reason)) {
        words += &format!(". Besides, {}", besides.message);
    }
    let obstacle = found.reason.obstacle();
    if obstacle.and_then(Obstacle::fence).is_none() {
        words += &last(index, &view);
    }
    let mut way = by_hand(found.policy, &view.name);
    if let Some(Obstacle::Ended(fence)) = obstacle {
        way = again(fence);
    }
    if kept_off.is_some() {
        way.why = format!("if the person who denied it agrees: {}", way.why);
    }
    let steps = steps(obstacle, found.policy, &view.name, way);
    Why {
        is_to_come,
        words,
        steps,
    }
}

/// How it is fenced once more, as far as this one went.
fn again(fence: &NodeFence) -> Step {
    let command = format!("{} --reason \"WHY\"", fences::anew(fence));
    step(fences::once_more(fence), command)
}

/// What to type, `way` being how it is fenced all the same.
fn steps(
    obstacle: Option<&Obstacle<'_>>,
    policy: Option<&NodeFencingPolicy>,
    node: &str,
    way: Step,
) -> Vec<Step> {
    let shown = policy.map(shown);
    match obstacle {
        Some(Obstacle::NoPolicy) => vec![
            shown_policies(),
            step(
                "give the node a label that a policy selects, or widen a policy's nodeSelector",
                format!("kubectl label node {node} KEY=VALUE"),
            ),
            step("then fence it now", way.command),
        ],
        Some(Obstacle::Conflict(conflict)) => in_conflict(conflict, way),
        Some(Obstacle::Cleared(fence)) => vec![
            step(
                "which readings confirmed it off, and what contradicts them now",
                format!("kubectl fence explain {}", fence.name_any()),
            ),
            step(
                "whether the machine is off now (no later reading)",
                format!("kubectl fence test {node}"),
            ),
        ],
        Some(Obstacle::Refused(fence)) => vec![
            explained(fence),
            Step {
                why: format!(
                    "if that no longer applies, and its author agrees: {}",
                    fences::once_more(fence)
                ),
                ..again(fence)
            },
        ],
        Some(Obstacle::Ended(fence)) => vec![explained(fence), way],
        // A human's fence of it is held, too.
        Some(Obstacle::NeverReported(_)) => shown.into_iter().collect(),
        _ => shown.into_iter().chain([way]).collect(),
    }
}

/// The way that Kubernetes' own documents have it, whose proof is a human's eyes. It is for a machine without power, and one whose kubelet speaks has
/// some.
fn uninstalled(view: &NodeView) -> Why {
    let node = &view.name;
    let mut steps = vec![step(
        "what the cluster needs for the operator (docs/how-to/install.md)",
        "kubectl fence check --pre",
    )];
    if view.ready() == Ready::Unknown {
        steps.push(step(
            "without it: first check that the machine has no power. If it runs, this destroys data. Then",
            format!(
                "kubectl taint nodes {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
            ),
        ));
        steps.push(step(
            "once its volumes have detached, and before it runs again",
            format!("kubectl taint nodes {node} node.kubernetes.io/out-of-service-"),
        ));
    } else {
        steps.push(step(
            "its kubelet reports, so the machine runs: drain it, which unmounts its volumes, and never taint it out-of-service",
            format!("kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"),
        ));
    }
    Why {
        is_to_come: false,
        words: "the operator is not installed in this cluster, so no machine is confirmed off"
            .to_owned(),
        steps,
    }
}

/// By the settings of the policy, among them its mode.
fn by_hand(policy: Option<&NodeFencingPolicy>, node: &str) -> Step {
    let observes = policy.is_some_and(|it| it.spec.procedure.fence.mode == FenceMode::Observe);
    let why = match observes {
        true => {
            "fence it now: ConfirmOnly never turns the machine off and continues when its devices read Off; PowerOff turns it off"
        }
        false => "fence it now: its machine is still confirmed off first",
    };
    let command = fence_now(policy, node);
    step(why, format!("{command} --reason \"WHY\""))
}

/// Until one of them governs the node, nobody has said by which devices it is fenced.
fn in_conflict(conflict: &Conflict, way: Step) -> Vec<Step> {
    let mut steps = vec![shown_policies()];
    let patch = format!(
        r#"{{"spec":{{"priority":{}}}}}"#,
        conflict.priority.saturating_add(1)
    );
    steps.extend(conflict.policies.iter().map(|it| {
        step(
            "or have this one govern this node, and all others that both select, in its mode",
            format!("kubectl patch nodefencingpolicy {it} --type=merge -p '{patch}'"),
        )
    }));
    steps.push(step("then fence it now", way.command));
    steps
}

fn shown(policy: &NodeFencingPolicy) -> Step {
    let name = policy.name_any();
    step(
        "what the operator reports of the policy",
        format!("kubectl fence status {name}"),
    )
}

fn shown_policies() -> Step {
    let columns = "NAME:.metadata.name,PRIORITY:.spec.priority,SELECTS:.spec.nodeSelector";
    step(
        "which policies there are, and which nodes they select",
        format!("kubectl get nodefencingpolicies -o custom-columns={columns}"),
    )
}

fn explained(fence: &NodeFence) -> Step {
    step(
        "what happened in it",
        format!("kubectl fence explain {}", fence.name_any()),
    )
}

/// How the last incident of the node has ended; empty: it had none.
fn last(index: &Index<'_>, view: &NodeView) -> String {
    let fences = index.facts.fences.items.iter();
    let boot = Some(view.boot_id.as_str()).filter(|it| !it.is_empty());
    let of_boot =
        fences.filter(|it| it.is_ended() && it.may_be_about(&view.name, Some(&view.uid), boot));
    let last = of_boot.max_by_key(|it| fences::created(it));
    last.map_or_else(String::new, |last| {
        format!(
            ". Its last incident, NodeFence {}, has ended {}: {}{}",
            last.name_any(),
            fences::stage(last),
            fences::message(last),
            fences::in_doubt(last)
        )
    })
}
