//! Why does nobody fence a node that has died? The policies are asked as the operator asks them, and the first answer that explains it is told.

mod due;
mod record;

use super::super::finding::{Step, step};
use super::super::index::Index;
use super::super::slim::Machine;
use crate::api::conditions::{READY, find};
use crate::api::fence::NodeFence;
use crate::api::policy::NodeFencingPolicy;
use crate::api::settings::FenceMode;
use crate::cli::fences;
use crate::core::keep_off::keep_off;
use crate::core::observed::{NodeView, Ready};
use crate::core::select::{Conflict, fenceable, governing};
use crate::core::window;
use crate::shell::detect::cleared_by;
use due::due;
use jiff::Timestamp;
use kube::ResourceExt;
use record::{cleared, spoken};

/// Why, and the way out.
pub(super) struct Why {
    /// In words.
    pub words: String,
    /// The commands.
    pub steps: Vec<Step>,
}

/// Why nobody fences it.
pub(super) fn why(index: &Index<'_>, node: &Machine) -> Why {
    let facts = index.facts;
    let view = node.view();
    if !facts.is_installed() {
        return uninstalled(&view);
    }
    let unknown = facts
        .policies
        .unknown
        .as_ref()
        .or(facts.fences.unknown.as_ref());
    if let Some(unknown) = unknown {
        let words = format!(
            "whether a policy selects it, and a NodeFence is open, is not known: {unknown}"
        );
        return Why {
            words,
            steps: vec![by_hand(&view.name)],
        };
    }
    match governing(&facts.policies.items, &view) {
        Err(conflict) => in_conflict(&conflict, &view.name),
        Ok(None) => unselected(&view),
        Ok(Some(policy)) => of_policy(index, node, &view, policy),
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
            "without it: first see for yourself that the machine has no power. If it runs, this destroys data. Then",
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
            "its kubelet speaks, so the machine runs: move its pods away, which unmounts their volumes, and never mark it as out of service",
            format!("kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"),
        ));
    }
    Why {
        words:
            "the operator is not installed in this cluster, so nobody proves that a machine is down"
                .to_owned(),
        steps,
    }
}

fn by_hand(node: &str) -> Step {
    step(
        "have it fenced now: its machine is proven down all the same",
        format!("kubectl fence now {node} --reason \"WHY\""),
    )
}

/// The same by the settings of a policy, among them its mode: one that observes would do no more for a human.
fn under(policy: &NodeFencingPolicy, node: &str) -> Step {
    if policy.spec.fence.mode != FenceMode::Observe {
        return by_hand(node);
    }
    step(
        "have it fenced now: ConfirmOnly never turns the machine off and goes on when its devices read Off; PowerOff turns it off",
        format!("kubectl fence now {node} --mode ConfirmOnly --reason \"WHY\""),
    )
}

/// Until one of them governs the node, nobody has said by which devices it is fenced.
fn in_conflict(conflict: &Conflict, node: &str) -> Why {
    let mut steps = vec![shown_policies()];
    let patch = format!(
        r#"{{"spec":{{"priority":{}}}}}"#,
        conflict.priority.saturating_add(1)
    );
    steps.extend(conflict.policies.iter().map(|it| {
        step(
            "either have this one govern this node, and all others that both select, in its mode",
            format!("kubectl patch nodefencingpolicy {it} --type=merge -p '{patch}'"),
        )
    }));
    steps.push(step(
        "then have it fenced now",
        format!("kubectl fence now {node} --reason \"WHY\""),
    ));
    Why {
        words: conflict.to_string(),
        steps,
    }
}

fn shown(policy: &NodeFencingPolicy) -> Step {
    let name = policy.name_any();
    step(
        "what the operator says of the policy",
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

fn unselected(view: &NodeView) -> Why {
    let node = &view.name;
    let labels = view.labels.len();
    Why {
        words: format!(
            "no NodeFencingPolicy selects Node {node} by its {labels} label(s), so nobody has said by which devices it is fenced"
        ),
        steps: vec![
            shown_policies(),
            step(
                "give the node a label that a policy selects, or widen a policy's nodeSelector",
                format!("kubectl label node {node} KEY=VALUE"),
            ),
            step(
                "then have it fenced now",
                format!("kubectl fence now {node} --reason \"WHY\""),
            ),
        ],
    }
}

/// The policy's own answer, by the operator's own functions.
fn of_policy(
    index: &Index<'_>,
    node: &Machine,
    view: &NodeView,
    policy: &NodeFencingPolicy,
) -> Why {
    let (name, now) = (policy.name_any(), index.facts.now);
    let fences = &index.facts.fences.items;
    if let Err(words) = fenceable(view) {
        return Why {
            words: format!("policy {name} governs it, and never fences it: {words}"),
            steps: vec![shown(policy)],
        };
    }
    if let Some(fence) = cleared_by(fences, view) {
        return cleared(fence, view);
    }
    if let Some(kept_off) = keep_off(policy, view, now) {
        let way = under(policy, &view.name);
        let why = format!("if whoever has said so agrees: {}", way.why);
        return Why {
            words: kept_off.words,
            steps: vec![shown(policy), step(why, way.command)],
        };
    }
    let told = match not_acting(policy, view, now) {
        Some(words) => words,
        None => match spoken(index, policy, view) {
            Ok(spoken) => return spoken,
            Err(open) => due(index, node, view, policy, &open),
        },
    };
    Why {
        words: with_last(index, view, told),
        steps: vec![shown(policy), under(policy, &view.name)],
    }
}

/// Why the policy fences no such node now, by its settings and by what the operator says of it.
fn not_acting(policy: &NodeFencingPolicy, view: &NodeView, now: Timestamp) -> Option<String> {
    let name = policy.name_any();
    let status = policy.status.as_ref();
    if window::mode(policy, now) == FenceMode::Observe {
        return Some(format!(
            "policy {name} governs it, and only observes now: it says what it would do and does nothing (`fence.mode`, or an open window)"
        ));
    }
    if status.is_some_and(|it| it.unprotected_nodes.contains(&view.name)) {
        return Some(format!(
            "policy {name} governs it, and no FenceDevice of its levels is ready for it: see kubectl get fencedevices"
        ));
    }
    let ready = find(status.map_or(&[], |it| &it.conditions), READY);
    let ready = ready.filter(|it| it.status != "True")?;
    Some(format!(
        "policy {name} governs it, and is not ready: {}: {}",
        ready.reason, ready.message
    ))
}

/// What speaks against the proof of an incident that has ended.
pub(super) fn doubt(fence: &NodeFence) -> String {
    let doubt = fences::doubt(fence).map(|it| format!("; do not go by its proof: {it}"));
    doubt.unwrap_or_default()
}

/// And how the last incident of the node has ended.
fn with_last(index: &Index<'_>, view: &NodeView, words: String) -> String {
    let fences = index.facts.fences.items.iter();
    let boot = Some(view.boot_id.as_str()).filter(|it| !it.is_empty());
    let of_boot =
        fences.filter(|it| it.is_ended() && it.may_be_about(&view.name, Some(&view.uid), boot));
    match of_boot.max_by_key(|it| fences::created(it)) {
        None => words,
        Some(last) => format!(
            "{words}. Its last incident, NodeFence {}, has ended {}: {}{}",
            last.name_any(),
            fences::stage(last),
            fences::message(last),
            doubt(last)
        ),
    }
}
