//! The waits of a policy, by the operator's own functions, as dates.
//!
//! The operator counts a wait from when it has seen the condition, by its own clock. From here only the date is known that Kubernetes gave the
//! condition, which is earlier by a moment, and by more where the operator has begun since. When a machine booted is written nowhere.

use fencing_api::fence::NodeFence;
use fencing_api::policy::{NodeFencingPolicy, UnhealthyCondition};
use fencing_core::delay::{self, LastFence, Now, Since, Start};
use fencing_core::observed::NodeView;
use fencing_core::select::{Onsets, first_due};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use std::time::Duration;

/// Which of these conditions will first have lasted as long as it has to, and when. None: the node shows none of them.
pub(super) fn first_held<'a>(
    wanted: impl IntoIterator<Item = &'a UnhealthyCondition>,
    node: &NodeView,
    now: Timestamp,
) -> Option<(&'a UnhealthyCondition, Timestamp)> {
    let (condition, held) = first_due(wanted, &onsets(node, now))?;
    Some((condition, moment(held)))
}

/// Until when the policy leaves a node alone that joined or was fenced a moment ago, and why. `created` is when the Node was.
pub fn delayed(
    policy: &NodeFencingPolicy,
    node: &NodeView,
    created: Option<Timestamp>,
    fences: &[NodeFence],
    now: Timestamp,
) -> Option<(Timestamp, String)> {
    // As if each had been seen when it was: so the end of a wait is exact that is over.
    let seen = |at: Timestamp| Now {
        boot: since_epoch(at.min(now)),
        wall: at.min(now),
    };
    let last = delay::last_touch(fences, node).map(|(fence, ended)| LastFence {
        name: fence.name_any(),
        since: Since::at(ended, seen(ended)),
    });
    let start = created.map(|it| Start::first(node, it, seen(it)));
    let delay = delay::delay(&policy.spec, start.as_ref(), last.as_ref())?;
    Some((moment(delay.until), delay.message))
}

/// Each condition since its own date, as if it had been seen at once.
fn onsets(node: &NodeView, now: Timestamp) -> Onsets {
    let since = |text: &str| text.parse().map_or(now, |it: Timestamp| it.min(now));
    let mut conditions = node.conditions.clone();
    conditions.sort_by_key(|it| since(&it.transition));
    let mut seen = NodeView {
        conditions: Vec::new(),
        ..node.clone()
    };
    let mut onsets = Onsets::default();
    for condition in conditions {
        let at = since(&condition.transition);
        seen.conditions.push(condition);
        onsets.note(&seen, since_epoch(at));
    }
    onsets
}

/// The wall clock is the only one here: what the operator counts since its machine's boot counts since the epoch.
fn since_epoch(at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(Timestamp::UNIX_EPOCH)).unwrap_or_default()
}

fn moment(since_epoch: Duration) -> Timestamp {
    let since = SignedDuration::try_from(since_epoch).unwrap_or(SignedDuration::MAX);
    let at = Timestamp::UNIX_EPOCH.saturating_add(since);
    at.unwrap_or(Timestamp::MAX)
}
