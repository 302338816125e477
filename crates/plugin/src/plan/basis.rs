//! What the control plane and this cluster's own past say of how long things take.

use super::timeline::{Basis, Known};
use crate::replica::flag;
use fencing_api::fence::NodeFence;
use fencing_api::fence_status::{AttemptAction, AttemptResult};
use fencing_core::quiesce::counted;
use k8s_openapi::api::core::v1::Pod;
use std::collections::BTreeSet;

/// kube-controller-manager's flag.
const FLAG: &str = "--node-monitor-grace-period";
/// Its default: 50 s from Kubernetes 1.32 on, 40 s before (upstream's `pkg/controller/nodelifecycle/config/v1alpha1/defaults.go`,
/// v1.30 to v1.37).
const PERIODS: (f64, f64) = (50.0, 40.0);
/// The first minor version with the longer one.
const LONGER_FROM: u32 = 32;

/// The grace period: as the user says, as the flag says, or by default.
pub fn grace(said: Option<f64>, managers: Option<&[Pod]>, version: Option<&str>) -> Known {
    let known = |seconds, basis, because: String| Known {
        seconds,
        basis,
        because,
    };
    if let Some(said) = said {
        return known(
            said,
            Basis::Flag,
            format!("{FLAG} of kube-controller-manager is {said} s (--grace)"),
        );
    }
    if let Some(seconds) = managers.and_then(|it| go_duration(flag(it, FLAG)?)) {
        return known(
            seconds,
            Basis::ControlPlane,
            format!("{FLAG} in the pod of kube-controller-manager"),
        );
    }
    let seconds = match version.and_then(minor) {
        Some(minor) if minor < LONGER_FROM => PERIODS.1,
        _ => PERIODS.0,
    };
    let of = version.unwrap_or("its current versions");
    known(
        seconds,
        Basis::Default,
        format!("the default of {FLAG} in Kubernetes {of}; set another one with --grace"),
    )
}

/// A duration as Go writes it: `1m30s`, `50s`, `1500ms`.
fn go_duration(text: &str) -> Option<f64> {
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|it: char| !it.is_ascii_digit() && it != '.')?;
        let (number, behind) = rest.split_at(digits);
        let unit = behind
            .find(|it: char| it.is_ascii_digit())
            .unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit);
        seconds += number.parse::<f64>().ok()?
            * match unit {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 0.001,
                _ => return None,
            };
        rest = behind;
    }
    (seconds > 0.0).then_some(seconds)
}

/// The minor version of `v1.36.3`.
fn minor(version: &str) -> Option<u32> {
    version
        .trim_start_matches('v')
        .split('.')
        .nth(1)?
        .parse()
        .ok()
}

/// What off commands to these devices took.
pub fn off(fences: &[NodeFence], devices: &BTreeSet<String>) -> Option<Known> {
    let attempts = fences
        .iter()
        .flat_map(|it| &it.status)
        .flat_map(|it| &it.attempts);
    let done = attempts.filter(|it| {
        let is_off =
            it.action == AttemptAction::PowerOff && it.result == Some(AttemptResult::Succeeded);
        is_off && devices.contains(&it.device)
    });
    let took = done.filter_map(|it| {
        Some(
            it.completion_time?
                .duration_since(it.start_time)
                .as_secs_f64(),
        )
    });
    median(
        took.collect(),
        "off command",
        "to its devices took in past incidents",
    )
}

/// What volumes of these drivers took from the taint until they had detached.
pub fn detach(fences: &[NodeFence], drivers: &BTreeSet<String>) -> Option<Known> {
    let took = fences.iter().flat_map(|it| &it.status).flat_map(|status| {
        let since = status.taint_applied_time;
        let of_driver = |it: &&fencing_api::fence_status::VolumeRecord| {
            it.attacher.as_ref().is_some_and(|it| drivers.contains(it))
        };
        let volumes = status.volumes.iter().filter(of_driver);
        volumes.filter_map(move |it| Some(it.detached_time?.duration_since(since?).as_secs_f64()))
    });
    median(
        took.collect(),
        "detached volume",
        "of its drivers took in past incidents",
    )
}

/// The middle one: one stuck incident of last year says little of the next.
fn median(mut took: Vec<f64>, noun: &str, what: &str) -> Option<Known> {
    took.retain(|it| *it >= 0.0);
    took.sort_by(f64::total_cmp);
    let seconds = took.get(took.len() / 2).copied()?;
    Some(Known {
        seconds,
        basis: Basis::Records,
        because: format!("the median of what {} {what}", counted(took.len(), noun)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_grace_period_is_what_the_user_says_or_the_flag_or_the_default() {
        let manager = |flags: &[&str]| -> Vec<Pod> {
            let pod = json!({"spec": {"containers": [{"name": "kcm", "command": flags}]}});
            vec![serde_json::from_value(pod).expect("a pod")]
        };
        let set = manager(&[
            "kube-controller-manager",
            "--node-monitor-grace-period=1m20s",
        ]);
        let unset = manager(&["kube-controller-manager"]);
        let seconds = |said, managers, version| {
            let it = grace(said, managers, version);
            (it.seconds, it.basis)
        };
        assert_eq!(seconds(Some(7.0), Some(&set), None), (7.0, Basis::Flag));
        assert_eq!(
            seconds(None, Some(&set), Some("v1.36.3")),
            (80.0, Basis::ControlPlane)
        );
        assert_eq!(
            seconds(None, Some(&unset), Some("v1.32.0")),
            (50.0, Basis::Default)
        );
        assert_eq!(
            seconds(None, None, Some("v1.31.9+k3s1")),
            (40.0, Basis::Default)
        );
        assert_eq!(seconds(None, None, None), (50.0, Basis::Default));
    }

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, seconds) in [
            ("50s", Some(50.0)),
            ("1m0s", Some(60.0)),
            ("1500ms", Some(1.5)),
            ("0s", None),
            ("50", None),
            ("x", None),
        ] {
            assert_eq!(go_duration(text), seconds, "{text}");
        }
    }

    #[test]
    fn past_incidents_say_what_an_off_and_a_detach_take() {
        let fence = |off: &str, detached: &str| -> NodeFence {
            let attempt = json!({"device": "bmc", "action": "PowerOff", "result": "Succeeded", "startTime": "2026-01-01T00:00:00Z", "completionTime": off});
            let volume = json!({"volumeAttachment": "va", "attacher": "csi.example.com", "state": "Detached", "detachedTime": detached});
            let status = json!({"taintAppliedTime": "2026-01-01T00:01:00Z", "attempts": [attempt], "volumes": [volume]});
            let trigger = json!({"type": "Manual", "requestedBy": "alice", "reason": "dark"});
            let fence = json!({"metadata": {"name": "f"}, "spec": {"nodeName": "w1", "trigger": trigger}, "status": status});
            serde_json::from_value(fence).expect("a NodeFence")
        };
        let fences = [
            fence("2026-01-01T00:00:02Z", "2026-01-01T00:01:03Z"),
            fence("2026-01-01T00:00:04Z", "2026-01-01T00:01:09Z"),
            fence("2026-01-01T00:00:50Z", "2026-01-01T00:05:00Z"),
        ];
        let of = |name: &str| BTreeSet::from([name.to_owned()]);
        assert_eq!(off(&fences, &of("bmc")).expect("known").seconds, 4.0);
        assert_eq!(off(&fences, &of("other")), None);
        assert_eq!(
            detach(&fences, &of("csi.example.com"))
                .expect("known")
                .seconds,
            9.0
        );
    }
}
