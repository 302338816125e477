//! When a policy acts that is free to: its waits, by the operator's own functions, counted from the dates that Kubernetes gives.

use super::super::super::index::Index;
use super::super::super::slim::Machine;
use crate::api::policy::{NodeFencingPolicy, UnhealthyCondition};
use crate::cli::table::duration;
use crate::core::delay::{self, LastFence, Now, Since, Start};
use crate::core::observed::NodeView;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use std::time::Duration;

/// Does the node show what the policy waits for, and for how long has it? The operator counts from when it saw that.
pub(super) fn due(
    index: &Index<'_>,
    node: &Machine,
    view: &NodeView,
    policy: &NodeFencingPolicy,
    open: &[&UnhealthyCondition],
) -> String {
    let (name, now) = (policy.name_any(), index.facts.now);
    let held = open.iter().filter_map(|it| left(it, view, now)).min();
    let Some(held) = held else {
        return unwatched(policy, view);
    };
    let delayed = delayed(index, node, view, policy);
    let delayed = delayed.filter(|(ahead, _)| *ahead > held && *ahead > SignedDuration::ZERO);
    match delayed {
        Some((ahead, words)) => format!(
            "policy {name} governs it, and acts in about {}: {words}",
            duration(ahead)
        ),
        None if held > SignedDuration::ZERO => format!(
            "policy {name} governs it, and acts in about {}: its condition has to hold for so long (`unhealthyConditions`)",
            duration(held)
        ),
        None => format!(
            "policy {name} governs it, and should have acted: does a replica of the operator lead? (kubectl fence check)"
        ),
    }
}

fn unwatched(policy: &NodeFencingPolicy, view: &NodeView) -> String {
    let conditions = policy.spec.unhealthy_conditions.iter();
    let wanted: Vec<String> = conditions
        .map(|it| format!("{}={}", it.type_, it.status.as_str()))
        .collect();
    let shown = view
        .condition("Ready")
        .map_or("missing", |it| it.status.as_str());
    format!(
        "policy {} governs it, and waits for {} while Node {} has Ready={shown}: add that to `unhealthyConditions`",
        policy.name_any(),
        wanted.join(" or "),
        view.name
    )
}

/// The wait of a node that joined, or was fenced, a moment ago. When it booted is written nowhere.
fn delayed(
    index: &Index<'_>,
    node: &Machine,
    view: &NodeView,
    policy: &NodeFencingPolicy,
) -> Option<(SignedDuration, String)> {
    let now = Now {
        boot: Duration::ZERO,
        wall: index.facts.now,
    };
    let created = node.metadata.creation_timestamp.as_ref();
    let start = created.map(|it| Start::first(view, it.0, now));
    let last = delay::last_touch(&index.facts.fences.items, view);
    let last = last.map(|(fence, ended)| LastFence {
        name: fence.name_any(),
        since: Since::at(ended, now),
    });
    let delay = delay::delay(&policy.spec, start.as_ref(), last.as_ref())?;
    let ahead = SignedDuration::try_from(delay.until).ok()?;
    Some((ahead, delay.words))
}

pub(super) fn left(
    wanted: &UnhealthyCondition,
    view: &NodeView,
    now: Timestamp,
) -> Option<SignedDuration> {
    let condition = view.condition(&wanted.type_)?;
    let since: Timestamp = condition.transition.parse().ok()?;
    let lasts = SignedDuration::from_secs(wanted.duration_seconds.into());
    (condition.status == wanted.status.as_str()).then(|| lasts - now.duration_since(since))
}
