//! What the budget would say, as for the youngest incident of all.

use super::{Fleet, Verdict, obstacle, once_open};
use fencing_api::conditions::{HELD, find};
use fencing_api::fence::NodeFence;
use fencing_api::policy::{FenceMode, NodeFencingPolicy};
use fencing_core::budget::{self, Cluster, HOUR, Open, healthy_min, selected};
use fencing_core::hold::HeldBy;
use fencing_core::observed::{NodeView, Ready};
use fencing_core::support::deletes_nodes;
use kube::ResourceExt;
use std::time::Duration;

/// Asks the budget.
pub(super) fn by_budget(
    verdict: &mut Verdict,
    fleet: &Fleet<'_>,
    policy: &NodeFencingPolicy,
    dead: &NodeView,
    mode: FenceMode,
) {
    let name = policy.name_any();
    let mut nodes: Vec<NodeView> = fleet
        .nodes
        .iter()
        .filter(|it| it.name != dead.name)
        .cloned()
        .collect();
    nodes.push(dead.clone());
    let selected = selected(policy, &nodes, fleet.fences);
    let open: Vec<Open> = fleet
        .fences
        .iter()
        // Its own is over at the next power loss.
        .filter(|it| !it.is_ended() && it.spec.node_name != dead.name)
        .map(open)
        .collect();
    // As long after the boot as the budget looks back, or what is past would be before it.
    let now = HOUR + HOUR;
    let cluster = Cluster {
        nodes: &nodes,
        selected: &selected,
        open: &open,
        admissions: &admissions(fleet, &name, now),
        // Whoever is on the node is as dead as it is.
        own_node: None,
        cap: fleet.cap,
    };
    let mine = Open {
        fence: String::new(),
        node: dead.name.clone(),
        policy: name.clone(),
        admitted: false,
        waits: None,
        // After every date.
        created: "~".to_owned(),
        deletes: deletes_nodes(&policy.spec.procedure.recovery),
    };
    let budget = &policy.spec.budget;
    let ready = nodes
        .iter()
        .filter(|it| selected.contains(&it.name) && it.ready() == Ready::True)
        .count();
    match budget::admit(&mine, mode, false, budget, &cluster, now) {
        Ok(()) => {
            verdict.budget = Some(format!(
                "admits it: {ready} of {} nodes would be Ready, `budget.minHealthy` requires {}",
                selected.len(),
                healthy_min(budget, selected.len())
            ));
        }
        Err(hold) => {
            verdict.budget = Some(format!("holds it ({})", hold.reason));
            // Of the brakes that protect the operator and the control plane no approval lets anything go.
            let is_lifted = budget::admit(&mine, mode, true, budget, &cluster, now).is_ok();
            let approve = match is_lifted {
                true => format!("; {}", once_open("approve", &dead.name)),
                false => String::new(),
            };
            let message = hold.message + &approve;
            verdict
                .obstacles
                .push(obstacle(hold.reason.as_str(), message));
        }
    }
}

/// A NodeFence as the budget sees it, by its record.
fn open(fence: &NodeFence) -> Open {
    let queues = [
        HeldBy::MaxConcurrent,
        HeldBy::MinHealthy,
        HeldBy::ClusterCap,
    ];
    let conditions = fence.status.as_ref().map(|it| it.conditions.as_slice());
    let held = find(conditions.unwrap_or_default(), HELD).filter(|it| it.status == "True");
    Open {
        waits: queues
            .into_iter()
            .find(|it| held.is_some_and(|held| held.reason == it.as_str())),
        ..Open::of_record(fence)
    }
}

/// When the policy's earlier incidents were admitted.
fn admissions(fleet: &Fleet<'_>, policy: &str, now: Duration) -> Vec<Duration> {
    let of_policy = fleet
        .fences
        .iter()
        .filter(|it| it.spec.policy_name.as_deref() == Some(policy));
    let ages = of_policy.filter_map(|it| {
        let admitted = it.status.as_ref()?.approved_time?;
        Some(Duration::try_from(fleet.now.duration_since(admitted)).unwrap_or_default())
    });
    ages.map(|age| now.saturating_sub(age)).collect()
}
