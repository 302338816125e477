//! The waits of a policy as dates, for whoever has seen nothing but the objects.
//!
//! The operator counts a wait from when it has seen the condition, by its own clock. From outside only the date is known that Kubernetes gave the
//! condition, which is earlier by a moment, and by more where the operator has begun since. When a machine booted is written nowhere.

use super::super::delay::{self, Delay, LastFence, Now, Since, Start};
use super::super::observed::NodeView;
use super::super::select::Onsets;
use fencing_api::fence::NodeFence;
use fencing_api::policy::NodeFencingPolicy;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// What a Node and its NodeFences say of when its waits began. The wall clock is the only one here: what the operator counts since its machine's boot
/// counts since the epoch.
pub struct Dates {
    /// Each condition since its own date, as if it had been seen at once.
    pub onsets: Onsets,
    /// When the Node joined.
    pub start: Option<Start>,
    /// The incident that last touched its machine.
    pub last: Option<LastFence>,
}

impl Dates {
    /// `created` is when the Node was; none: not known.
    pub fn of(
        node: &NodeView,
        created: Option<Timestamp>,
        fences: &[NodeFence],
        now: Timestamp,
    ) -> Self {
        // As if each had been seen when it was: so the end of a wait is exact that is over.
        let seen = |at: Timestamp| Now {
            boot: since_epoch(at.min(now)),
            wall: at.min(now),
        };
        let last = delay::last_touch(fences, node).map(|(fence, ended)| LastFence {
            name: fence.metadata.name.clone().unwrap_or_default(),
            since: Since::at(ended, seen(ended)),
        });
        Self {
            onsets: onsets(node, now),
            start: created.map(|it| Start::first(node, it, seen(it))),
            last,
        }
    }

    /// Until when the policy leaves a node alone that joined or was fenced a moment ago, and why.
    pub fn delay(&self, policy: &NodeFencingPolicy) -> Option<Delay> {
        delay::delay(&policy.spec, self.start.as_ref(), self.last.as_ref())
    }
}

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

/// A date as the waits count.
pub fn since_epoch(at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(Timestamp::UNIX_EPOCH)).unwrap_or_default()
}

/// The date of a moment of the waits.
pub fn moment(since_epoch: Duration) -> Timestamp {
    let since = SignedDuration::try_from(since_epoch).unwrap_or(SignedDuration::MAX);
    let at = Timestamp::UNIX_EPOCH.saturating_add(since);
    at.unwrap_or(Timestamp::MAX)
}
