//! The part of the prediction until the incident may act: the Node is reported, and the policy's waits are over.

use super::{Basis, Course, Sum, known};
use fencing_api::policy::{DurationPolicy, FenceMode};

/// Time between two renewals of a kubelet's Lease: a quarter of its 40 s (upstream's `pkg/kubelet/kubelet.go`,
/// `nodeLeaseRenewIntervalFraction`, and `pkg/kubelet/apis/config/v1beta1/defaults.go`, v1.36). The last one before the power loss is that old
/// at most.
pub(super) const RENEWAL: f64 = 10.0;
/// Time between two looks of node-lifecycle (`--node-monitor-period`). One of them notes the last renewal, another that it is too old, so that
/// two of them may come on top (`tryUpdateNodeHealth`, upstream's `pkg/controller/nodelifecycle/node_lifecycle_controller.go`, v1.36).
pub(super) const MONITOR: f64 = 5.0;
/// A Lease that is silent for so long is suspicious: three tenths of its 40 s (`earlyDetection`, [`fencing_core::early::renewals`]).
const SILENCE: f64 = 12.0;
/// From then on until its device has read Off twice and the Node is reported.
const REPORT: f64 = 1.0;
/// From a node's silence until its device has been read Off, a guess: most BMCs answer within it.
const LOOK: f64 = 2.0;

/// Until the Node is reported as silent, by Kubernetes or by the operator.
fn reported(sum: &mut Sum, course: &Course<'_>) {
    if course.reports_early {
        let because = format!(
            "`earlyDetection`, by a Lease of 40 s, the default; {RENEWAL} s less just before the kubelet renews it"
        );
        let early = known(SILENCE + REPORT, Basis::Default, because);
        let least = SILENCE + REPORT - RENEWAL;
        return sum.between("ReportedEarly", early, (least, course.grace.seconds));
    }
    let grace = &course.grace;
    let (least, most) = (
        (grace.seconds - RENEWAL).max(0.0),
        grace.seconds + 2.0 * MONITOR,
    );
    let because = format!(
        "{}; {RENEWAL} s less just before the kubelet renews its Lease, {} s more by node-lifecycle's period of {MONITOR} s",
        grace.because,
        2.0 * MONITOR
    );
    sum.between(
        "ReadyUnknown",
        known(grace.seconds, grace.basis, because),
        (least, most),
    );
}

/// Until the incident may act.
pub(super) fn detected(sum: &mut Sum, course: &Course<'_>) {
    let grace = &course.grace;
    reported(sum, course);
    if let Some(takeover) = course.takeover {
        let rest = (takeover - grace.seconds).max(0.0);
        let because = format!(
            "the operator's leader is on this node: another replica takes over {takeover} s after the power loss, and counts the policy's wait from then"
        );
        sum.step("Takeover", known(rest, Basis::Default, because));
    }
    if let (Some((name, spec)), Some((wait, condition))) = (course.policy, &course.wait) {
        let skips = spec.duration_policy == DurationPolicy::SkipIfOff && course.reads_off;
        if skips && course.reports_early {
            // It has read Off already.
        } else if skips && course.mode != FenceMode::Observe {
            let because = format!(
                "a device reads Off, estimated: the {wait} s of policy {name} for {condition} are not waited for (`durationPolicy: SkipIfOff`)"
            );
            let look = known(LOOK.min(*wait), Basis::Assumed, because);
            sum.between("ReadOff", look, (0.0, *wait));
        } else {
            let because =
                format!("`unhealthyConditions[].durationSeconds` of policy {name} for {condition}");
            sum.step("PolicyWait", known(*wait, Basis::Policy, because));
        }
    }
    let at = sum.at.unwrap_or_default();
    if let Some((until, words)) = course.delay.as_ref().filter(|(until, _)| *until > at) {
        sum.step("Delay", known(until - at, Basis::Policy, words.clone()));
    }
    if let Some(words) = &course.hold {
        sum.held(words.clone());
    }
}
