//! How long a stage may take, and what is said when it takes longer: what is waited for, the setting that it has outlasted, and the way out.

use super::super::incident::{Decision, Settings};
use super::super::stage::Stage;
use std::time::Duration;

/// How long a stage may take before a human is called.
pub(super) fn time_limit(settings: &Settings, stage: Stage) -> Option<Duration> {
    let level = settings.levels.iter().map(|level| level.timeout).max();
    match stage {
        Stage::Checking
        | Stage::Claiming
        | Stage::Quiescing
        | Stage::Fencing
        | Stage::Verifying
        | Stage::Tainting => level,
        Stage::Detaching => Some(settings.detach_timeout),
        Stage::AwaitingRelease => Some(settings.release_timeout),
        _ => None,
    }
}

/// A stage past its deadline is never silent.
pub(super) fn overdue(settings: &Settings, decision: &mut Decision, now: Duration) {
    if decision.escalation.is_some() || decision.deadline.is_none_or(|deadline| now < deadline) {
        return;
    }
    let node = &settings.node;
    let (reason, field, way_out) = match decision.stage {
        Stage::Detaching => (
            "DetachStuck",
            "`recovery.detachTimeoutSeconds`",
            format!(
                "see what holds them (a pod's finalizers, the CSI driver's controller, kube-controller-manager); `out-of-service` stays on Node {node} until they are free, do not remove it by hand"
            ),
        ),
        Stage::AwaitingRelease => (
            "ReleaseStuck",
            "`release.timeoutSeconds`",
            format!("`out-of-service` stays on Node {node} until then, do not remove it by hand"),
        ),
        Stage::Quiescing => (
            "QuiesceStuck",
            "`fence.levels[].timeoutSeconds`",
            format!("see which pods of Node {node} are not being deleted, and why"),
        ),
        _ => (
            "FenceStuck",
            "`fence.levels[].timeoutSeconds`",
            format!(
                "Node {node} is not out of service yet; if you know that its machine has no power, confirm it by `spec.manualConfirmation`"
            ),
        ),
    };
    let words = format!(
        "{}; this takes longer than {field}: {way_out}",
        decision.words
    );
    decision.escalation = Some((reason, words));
}
