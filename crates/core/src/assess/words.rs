//! Would the policy act as it says? The condition `Ready` of a policy: its status, its reason, its words.

use super::super::delay::Delayed;
use super::super::exclusions;
use super::super::hold::HeldBy;
use super::super::support::unsupported;
use super::super::window::{self, effective};
use super::others::wants_recovery;
use super::{Tally, World};
use crate::early::wants_reports;
use fencing_api::conditions::ConditionStatus::{self, False, True};
use fencing_api::policy::{FenceMode, NodeFencingPolicy, ReleaseMode, UnhealthyCondition};
use jiff::Timestamp;

/// Kubernetes says `Ready=Unknown` only after this long, so a shorter wait on top of it is short (`--node-monitor-grace-period`,
/// 40 s, and 50 s from 1.32).
const GRACE_PERIOD_SECONDS: u32 = 40;
/// Nodes that are named in a message.
const NODES_NAMED_MAX: usize = 5;

/// Status, reason and words of the policy's condition `Ready`.
pub(super) fn ready(
    policy: &NodeFencingPolicy,
    tally: &Tally<'_>,
    world: &World<'_>,
) -> (ConditionStatus, &'static str, String) {
    let (status, reason, mut words) = match world.frozen {
        Some(why) => (
            False,
            "ClusterWentBack",
            format!("nothing is fenced: {why}"),
        ),
        None => verdict(policy, tally, world),
    };
    if let Some(open) = windows(policy, world.now) {
        words.push_str("; ");
        words.push_str(&open);
    }
    for waits in waits(policy, world.delays) {
        words.push_str("; ");
        words.push_str(&waits);
    }
    let warnings = warnings(policy, tally, world);
    if warnings.is_empty() {
        return (status, reason, words);
    }
    (
        status,
        reason,
        format!("{words}; warning: {}", warnings.join("; ")),
    )
}

fn verdict(
    policy: &NodeFencingPolicy,
    tally: &Tally<'_>,
    world: &World<'_>,
) -> (ConditionStatus, &'static str, String) {
    if let Some((reason, words)) = does_nothing(policy, world.lacks) {
        return (False, reason, words);
    }
    let mode = window::mode(policy, world.now);
    if let Some(first) = tally.conflicts.first() {
        let more = match tally.conflicts.len() - 1 {
            0 => String::new(),
            others => format!(" (and {others} more of its nodes are contested)"),
        };
        return (False, "Conflict", format!("{first}{more}"));
    }
    if let Some(words) = paused(policy, world.now) {
        return (False, HeldBy::Paused.as_str(), words);
    }
    let selected = tally.nodes.len();
    if selected == 0 {
        let words =
            "`nodeSelector` selects no node, or policies of higher `priority` select all of them";
        return (True, "NoNodes", words.to_owned());
    }
    let without_device = levels_without_device(policy, tally);
    if !without_device.is_empty() {
        let words = format!(
            "no FenceDevice of its {selected} nodes matches `deviceSelector` of level {}; label the FenceDevices, or correct the selector",
            without_device.join(", ")
        );
        let status = if tally.protected == 0 { False } else { True };
        return (status, "LevelWithoutDevice", words);
    }
    if let Some(words) = same_device(tally) {
        let status = if tally.protected == 0 { False } else { True };
        return (status, "SameDeviceTwice", words);
    }
    if tally.protected == 0 && mode != FenceMode::Observe {
        let words = format!(
            "none of its {selected} nodes can be fenced (no FenceDevice is Ready); see `kubectl get fencedevices`"
        );
        return (False, "NoReadyDevice", words);
    }
    if !tally.unprotected.is_empty() && mode != FenceMode::Observe {
        let words = format!(
            "{} of {selected} nodes cannot be fenced ({}); see `kubectl get fencedevices`",
            tally.unprotected.len(),
            named(&tally.unprotected)
        );
        return (True, "UnprotectedNodes", words);
    }
    match mode {
        FenceMode::Observe => {
            let words = format!(
                "observing {selected} nodes without changes (mode Observe); {} of them could be fenced",
                tally.protected
            );
            (True, "Observing", words)
        }
        FenceMode::ConfirmOnly => {
            let words =
                format!("all of its {selected} nodes are recovered once confirmed powered off");
            (True, "Active", words)
        }
        FenceMode::PowerOff => (
            True,
            "Active",
            format!("all of its {selected} nodes can be fenced"),
        ),
    }
}

/// What the policy says that the operator cannot act upon, `lacks` being what it may not do.
fn does_nothing(policy: &NodeFencingPolicy, lacks: Option<&str>) -> Option<(&'static str, String)> {
    let unsupported = unsupported(&policy.spec, lacks).map(|words| ("Unsupported", words));
    let unusable = || {
        let words = window::unusable(policy)?.to_string();
        Some((HeldBy::InvalidWindow.as_str(), words))
    };
    unsupported.or_else(unusable)
}

/// Levels that need two devices which are one, the first of them in full.
fn same_device(tally: &Tally<'_>) -> Option<String> {
    let first = tally.same_device.first()?;
    let more = match tally.same_device.len() - 1 {
        0 => String::new(),
        others => format!(" (and {others} more)"),
    };
    Some(format!("{first}{more}"))
}

/// What the policy's windows say now, if it has any that can be used.
fn windows(policy: &NodeFencingPolicy, now: Timestamp) -> Option<String> {
    let has_windows = !policy.spec.windows.is_empty();
    let effective = effective(policy, now).ok();
    effective.filter(|_| has_windows).map(|it| it.message())
}

/// The policy's unhealthy nodes that have to wait, and why; a few of them by name.
fn waits(policy: &NodeFencingPolicy, delays: &[Delayed]) -> Vec<String> {
    let own = |delayed: &&Delayed| Some(&delayed.policy) == policy.metadata.name.as_ref();
    let own = delays.iter().filter(own);
    let mut words: Vec<String> = own.map(|delayed| delayed.message.clone()).collect();
    let more = words.len().saturating_sub(NODES_NAMED_MAX);
    if more > 0 {
        words.truncate(NODES_NAMED_MAX);
        words.push(format!("{more} more of its nodes are waiting"));
    }
    words
}

fn named(nodes: &[String]) -> String {
    let mut text = nodes
        .iter()
        .take(NODES_NAMED_MAX)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if nodes.len() > NODES_NAMED_MAX {
        text.push_str(", …");
    }
    text
}

fn paused(policy: &NodeFencingPolicy, now: Timestamp) -> Option<String> {
    let standing = exclusions::active_requests(policy, now);
    let named = (!standing.is_empty()).then(|| exclusions::named(&standing))?;
    Some(format!(
        "paused, no new incident begins (`pauseRequests` {named})"
    ))
}

fn levels_without_device(policy: &NodeFencingPolicy, tally: &Tally<'_>) -> Vec<String> {
    let levels = policy.spec.procedure.fence.levels.iter();
    levels
        .filter(|level| !tally.levels_served.contains(level.name.as_str()))
        .map(|level| format!("`{}`", level.name))
        .collect()
}

fn warnings(policy: &NodeFencingPolicy, tally: &Tally<'_>, world: &World<'_>) -> Vec<String> {
    let now = world.now;
    let requests = policy.spec.pause_requests.iter();
    let expired = requests.filter_map(|request| {
        let expired = request.expire_time.filter(|expires| *expires <= now)?;
        Some(format!(
            "entry {} of `pauseRequests` has no effect (expired at {expired}); remove it",
            request.name
        ))
    });
    let mut warnings: Vec<String> = expired.collect();
    let mut watched = policy.spec.unhealthy_conditions.iter();
    let hasty = watched.find(|condition| {
        condition.type_ == "Ready" && condition.duration_seconds < GRACE_PERIOD_SECONDS
    });
    if let Some(hasty) = hasty {
        warnings.push(format!(
            "`unhealthyConditions` waits {} s for Ready={}, under Kubernetes' grace period of {GRACE_PERIOD_SECONDS} s (50 s from 1.32); raise `durationSeconds` so that short network failures open no incidents",
            hasty.duration_seconds,
            hasty.status.as_str()
        ));
    }
    if wants_reports(policy) {
        let lacks = world.lacks_early.map(|lacks| {
            format!(
                "no node is reported early ({lacks}); set the chart's `rbac.earlyDetection`, or `earlyDetection: Disabled`"
            )
        });
        warnings.extend(lacks);
        let is_silence =
            |it: &UnhealthyCondition| it.type_ == "Ready" && it.status == ConditionStatus::Unknown;
        if !policy.spec.unhealthy_conditions.iter().any(is_silence) {
            warnings.push(
                "`earlyDetection` reports Ready=Unknown, which is none of `unhealthyConditions`; add it, so that a fence begins".to_owned(),
            );
        }
    }
    if policy.spec.procedure.release.mode == ReleaseMode::AfterDetach
        && let Some(driver) = wants_recovery(world.attached, &tally.nodes)
    {
        warnings.push(format!(
            "volumes of {driver} are attached (Rook and ceph-csi require AfterRecovery); set `release.mode: AfterRecovery`"
        ));
    }
    warnings
}
