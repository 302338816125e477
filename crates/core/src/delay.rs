//! A node that has been unhealthy long enough may still have to wait: it joined or booted a moment ago
//! (`exclusions.minUptimeSeconds`), or it was fenced a moment ago (`budget.cooldownSeconds`).
//!
//! Both waits guard against doing harm again and again, and neither is a matter of safety: the proof is. When a node joined
//! and when it was fenced stands in objects of the API, so it is known after a restart of the operator too. When it booted is
//! written nowhere: it counts from the change of the boot ID that this process saw, and a boot before that counts as long ago,
//! for the operator itself often starts anew because of the very node that is down.

use super::hold::HeldBy;
use super::observed::NodeView;
use super::stage::Stage;
use fencing_api::conditions::{SUCCEEDED, find};
use fencing_api::fence::{NodeFence, Trigger, TriggerType};
use fencing_api::policy::NodeFencingPolicySpec;
use jiff::Timestamp;
use std::time::Duration;

/// The two clocks of one moment: time since boot, and the wall clock.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Time since boot.
    pub boot: Duration,
    /// Wall clock.
    pub wall: Timestamp,
}

/// How long ago something was. The wall clock is asked once, when it is first heard of; from then on it ages by this process's
/// own clock. So a wall clock that jumps changes nothing, and one that is wrong never makes a wait longer than its whole length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Since {
    age: Duration,
    seen: Duration,
}

impl Since {
    /// Something that was at `time`, heard of now. What lies in the future is now.
    pub fn at(time: Timestamp, now: Now) -> Self {
        let age = now.wall.duration_since(time);
        Self {
            age: Duration::try_from(age).unwrap_or(Duration::ZERO),
            seen: now.boot,
        }
    }

    /// When this process first heard of it (time since boot).
    pub fn received(self) -> Duration {
        self.seen
    }

    /// The moment (time since boot) at which it is `wait` ago; a moment that is past is not exact.
    pub fn over(self, wait: Duration) -> Duration {
        self.seen + wait.saturating_sub(self.age)
    }
}

/// How long before the end of its policy's wait an incident is opened. Time enough to write the record and ask the devices; short,
/// because a machine that read Off then is claimed without another look.
pub const AHEAD: Duration = Duration::from_secs(1);

/// When (time since boot) the node may be claimed whose machine is not known to be off. At most [`AHEAD`] away, whatever the clocks say; exactly
/// that where nobody wrote it down, because an older CustomResourceDefinition drops the field. For one that was opened early no wall clock is asked:
/// what was left of the wait begins anew with each process.
pub fn not_before(trigger: &Trigger, now: Now) -> Duration {
    if trigger.type_ != TriggerType::NodeCondition {
        return now.boot;
    }
    if let Some(early) = trigger.early_seconds {
        return now.boot + Duration::from_secs(early.into());
    }
    let ahead = trigger.due_time.map_or(AHEAD, |due| {
        Duration::try_from(due.duration_since(now.wall)).unwrap_or_default()
    });
    now.boot + ahead.min(AHEAD)
}

/// The node condition that began the incident.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HeldCondition {
    /// Its type, such as `Ready`.
    pub type_: String,
    /// Its status, such as `Unknown`.
    pub status: String,
    /// Since when it has had that status: its `lastTransitionTime`.
    pub since: Option<Timestamp>,
}

impl HeldCondition {
    /// The condition for which a policy began the incident; none: a human or another system asked.
    pub fn of(trigger: &Trigger) -> Option<Self> {
        (trigger.type_ == TriggerType::NodeCondition).then_some(())?;
        Some(Self {
            type_: trigger.condition_type.clone()?,
            status: trigger.condition_status?.as_str().to_owned(),
            since: trigger.unhealthy_since_time,
        })
    }

    /// Has node-lifecycle not heard of the kubelet?
    pub fn is_silence(&self) -> bool {
        self.type_ == "Ready" && self.status == "Unknown"
    }

    /// Does the node show it still, without a break?
    pub fn holds(&self, node: &NodeView) -> bool {
        node.condition(&self.type_).is_some_and(|now| {
            let is_same = |since| {
                now.transition
                    .parse()
                    .is_ok_and(|now: Timestamp| now == since)
            };
            now.status == self.status && self.since.is_none_or(is_same)
        })
    }
}

/// What began the present life of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beginning {
    Joined,
    Booted,
}

/// When a node joined or last booted, as far as this process knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    uid: String,
    boot_id: String,
    beginning: Beginning,
    since: Since,
}

impl Start {
    /// A Node that is seen for the first time: how long it has been up is not known, but it joined when it was created.
    pub fn first(node: &NodeView, created: Timestamp, now: Now) -> Self {
        Self {
            uid: node.uid.clone(),
            boot_id: node.boot_id.clone(),
            beginning: Beginning::Joined,
            since: Since::at(created, now),
        }
    }

    /// Takes note of the Node as it is now: another UID is another Node, another boot ID a boot.
    pub fn note(&mut self, node: &NodeView, created: Timestamp, now: Now) {
        if self.uid != node.uid {
            *self = Self::first(node, created, now);
            return;
        }
        if self.boot_id != node.boot_id {
            // The first boot ID of a Node that had none is that of the boot with which it joined.
            if !self.boot_id.is_empty() {
                self.beginning = Beginning::Booted;
                self.since = Since::at(now.wall, now);
            }
            self.boot_id.clone_from(&node.boot_id);
        }
    }
}

/// The last incident that touched a node's machine, and how long ago it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastFence {
    /// NodeFence name.
    pub name: String,
    /// Its end.
    pub since: Since,
}

/// When did this incident end, if it ended and touched the machine or its pods? One that only looked, waited, was denied or
/// was overtaken by the node's recovery is no reason to wait.
pub fn touched(fence: &NodeFence) -> Option<Timestamp> {
    let status = fence.status.as_ref().filter(|_| fence.is_ended())?;
    let recovered = Stage::Recovered.to_string();
    let stage = find(&status.conditions, SUCCEEDED).map(|succeeded| succeeded.reason.as_str());
    let acted = status.evidence.is_some()
        || status.attempt_count.is_some_and(|count| count > 0)
        || stage == Some(recovered.as_str());
    status.completion_time.filter(|_| acted)
}

/// Of all NodeFences the one that last touched this node's machine, and when it ended.
pub fn last_touch<'a>(
    fences: &'a [NodeFence],
    node: &NodeView,
) -> Option<(&'a NodeFence, Timestamp)> {
    let of_node = |fence: &&NodeFence| {
        let status = fence.status.as_ref();
        let bound = status.and_then(|status| status.node_uid.as_ref());
        let uid = fence.spec.node_uid.as_ref().or(bound);
        fence.spec.node_name == node.name && uid.is_none_or(|uid| *uid == node.uid)
    };
    fences
        .iter()
        .filter(of_node)
        .filter_map(|fence| Some((fence, touched(fence)?)))
        .max_by_key(|(_, ended)| *ended)
}

/// A wait, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delay {
    /// Over at this moment (time since boot).
    pub until: Duration,
    /// In words, naming the field.
    pub message: String,
}

/// An unhealthy node that has to wait, or is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delayed {
    /// Node name.
    pub node: String,
    /// The policy that makes it wait.
    pub policy: String,
    /// Why it has no incident.
    pub why: Why,
    /// Which node, until when, and why.
    pub message: String,
}

/// Why an unhealthy node has no incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// A wait, over at this moment (time since boot).
    Wait(Duration),
    /// The policy keeps its hands off it, for this reason ([`super::exclusion`]).
    KeptOff(HeldBy),
}

/// Until when the policy leaves the node alone, and why: the longer of the two waits.
pub fn delay(
    policy: &NodeFencingPolicySpec,
    start: Option<&Start>,
    last: Option<&LastFence>,
) -> Option<Delay> {
    let (uptime, cooldown) = (
        policy.exclusions.min_uptime_seconds,
        policy.budget.cooldown_seconds,
    );
    let young = start.map(|start| Delay {
        until: start.since.over(Duration::from_secs(uptime.into())),
        message: match start.beginning {
            Beginning::Joined => {
                format!("it joined less than {uptime} s ago (`exclusions.minUptimeSeconds`)")
            }
            Beginning::Booted => {
                format!("it booted less than {uptime} s ago (`exclusions.minUptimeSeconds`)")
            }
        },
    });
    let fenced = last.map(|last| Delay {
        until: last.since.over(Duration::from_secs(cooldown.into())),
        message: format!(
            "its last incident, NodeFence {}, ended less than {cooldown} s ago (`budget.cooldownSeconds`)",
            last.name
        ),
    });
    young
        .into_iter()
        .chain(fenced)
        .max_by_key(|delay| delay.until)
}

#[cfg(test)]
mod tests;
