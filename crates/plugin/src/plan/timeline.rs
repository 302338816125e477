//! How long it takes from the power loss until the last pod runs again, step by step, and where each number comes from.
//!
//! A prediction is a sum: what the policy and the control plane are set to, what this cluster's own incidents took, what our benchmark
//! measured (docs/figures.md), and, where nothing is known, a guess that is called one. What somebody has to decide first has no number, and
//! neither has what comes after it.

mod detected;

use super::pods::Marks;
use detected::detected;
use fencing_api::policy::{FenceMode, NodeFencingPolicySpec, PodDeletion, RecoveryStrategy};
use schemars::JsonSchema;
use serde::Serialize;

/// From the policy's deadline to the claim, measured (docs/figures.md).
const CLAIM: f64 = 0.01;
/// From the claim until one pod is being deleted, measured (docs/figures.md).
const QUIESCE: f64 = 0.03;
/// What taint eviction asks the API server for each pod, and how fast it may (`--kube-api-qps`, `--kube-api-burst` of kube-controller-manager).
const REQUESTS_A_POD: f64 = 3.0;
const QPS: f64 = 20.0;
const BURST: f64 = 30.0;
/// Evidence, deletion of the pods and taint, measured: the operator's own time from the deadline on (docs/figures.md).
const TAINT: f64 = 0.1;
/// An off command to a machine that has no power; a guess. A BMC takes seconds, some a minute.
const OFF: f64 = 1.0;
/// Time between two looks of pod GC (upstream's `pkg/controller/podgc/gc_controller.go`, `gcCheckPeriod`, v1.36).
const GC: f64 = 20.0;
/// A detach of which no incident of this cluster tells; a guess.
const DETACH: f64 = 1.0;
/// From the taint to a pod that runs elsewhere, measured with an image that is there (docs/figures.md).
const START: f64 = 1.84;

/// Where a number comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Basis {
    /// A field of the policy.
    Policy,
    /// A flag of this command.
    Flag,
    /// A flag of kube-controller-manager, read from its pod.
    ControlPlane,
    /// Kubernetes' default.
    Default,
    /// This cluster's own incidents, or the pod's own last start.
    Records,
    /// Our benchmark.
    Measured,
    /// Computed from defaults of Kubernetes.
    Computed,
    /// A guess.
    Assumed,
}

/// A number, and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Seconds.
    pub seconds: f64,
    /// Where they come from.
    pub basis: Basis,
    /// That, in words.
    pub because: String,
}

/// A step.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Names the step: it never changes its meaning.
    pub step: &'static str,
    /// Seconds that it takes; none: as long as somebody lets it.
    pub takes_seconds: Option<f64>,
    /// At least, as far as anything bounds it.
    pub least_seconds: Option<f64>,
    /// At most, as far as anything bounds it.
    pub most_seconds: Option<f64>,
    /// Seconds from the power loss to its end; none: something before it has no number.
    pub at_seconds: Option<f64>,
    /// Where the number comes from.
    pub basis: Basis,
    /// That, in words.
    pub because: String,
}

/// The prediction.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// Seconds from the power loss to the last pod's start; none: it is held.
    pub recovered_seconds: Option<f64>,
    /// The same at the earliest.
    pub earliest_seconds: Option<f64>,
    /// The same at the latest, as far as anything bounds it.
    pub latest_seconds: Option<f64>,
    /// Seconds from the moment at which nothing holds it any more to the last pod's start.
    pub after_hold_seconds: Option<f64>,
}

/// What it is predicted from.
#[derive(Debug, Clone)]
pub struct Course<'a> {
    /// `--node-monitor-grace-period`.
    pub grace: Known,
    /// Name and spec of the policy; none: nothing follows.
    pub policy: Option<(&'a str, &'a NodeFencingPolicySpec)>,
    /// The mode that will hold.
    pub mode: FenceMode,
    /// How long the policy waits, and for which condition; none: for none that a dead machine shows.
    pub wait: Option<(f64, String)>,
    /// The level that works reads the machine itself, so that it reads Off by then.
    pub reads_off: bool,
    /// The operator itself reports the node (`earlyDetection`).
    pub reports_early: bool,
    /// Seconds from the power loss until another wait of the policy is over, and which.
    pub delay: Option<(f64, String)>,
    /// The leader is on the node: how long another replica takes to take over.
    pub takeover: Option<f64>,
    /// Fence levels before the one that works: how long they may be tried.
    pub passed_over: f64,
    /// What holds it, in words.
    pub hold: Option<String>,
    /// Pods that have to go.
    pub pods: usize,
    /// Volumes have to detach.
    pub moves: bool,
    /// What off commands took in this cluster's incidents.
    pub off: Option<Known>,
    /// What detaching took there.
    pub detach: Option<Known>,
    /// How long the slowest pod took to start last.
    pub start: Option<Known>,
}

/// Adds the steps up.
struct Sum {
    steps: Vec<Step>,
    at: Option<f64>,
    since_hold: Option<f64>,
}

impl Sum {
    fn step(&mut self, step: &'static str, takes: Known) {
        let seconds = takes.seconds;
        self.between(step, takes, (seconds, seconds));
    }

    fn between(&mut self, step: &'static str, takes: Known, (least, most): (f64, f64)) {
        self.at = self.at.map(|it| millis(it + takes.seconds));
        self.since_hold = self.since_hold.map(|it| millis(it + takes.seconds));
        self.steps.push(Step {
            step,
            takes_seconds: Some(millis(takes.seconds)),
            least_seconds: Some(least),
            most_seconds: Some(most),
            at_seconds: self.at,
            basis: takes.basis,
            because: takes.because,
        });
    }

    /// From here on nobody knows when.
    fn held(&mut self, because: String) {
        (self.at, self.since_hold) = (None, Some(0.0));
        self.steps.push(Step {
            step: "Held",
            takes_seconds: None,
            least_seconds: None,
            most_seconds: None,
            at_seconds: None,
            basis: Basis::Policy,
            because,
        });
    }
}

/// Whole milliseconds: nobody reads what sums of fractions leave behind them.
pub(super) fn millis(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

fn known(seconds: f64, basis: Basis, because: impl Into<String>) -> Known {
    Known {
        seconds,
        basis,
        because: because.into(),
    }
}

/// The timeline, and the moments that pods wait for; none of those where it is held.
pub fn predict(course: &Course<'_>) -> (Timeline, Option<Marks>) {
    let mut sum = Sum {
        steps: Vec::new(),
        at: Some(0.0),
        since_hold: None,
    };
    detected(&mut sum, course);
    let marks = course.policy.and_then(|(name, spec)| {
        course.wait.as_ref()?;
        if course.mode == FenceMode::Observe {
            return None;
        }
        fenced(&mut sum, course, name, spec)
    });
    let all = |of: fn(&Step) -> Option<f64>| sum.steps.iter().map(of).sum::<Option<f64>>();
    let is_whole = marks.is_some();
    let timeline = Timeline {
        recovered_seconds: sum.at.filter(|_| is_whole),
        earliest_seconds: all(|it| it.least_seconds).filter(|_| is_whole),
        latest_seconds: all(|it| it.most_seconds).filter(|_| is_whole),
        after_hold_seconds: sum
            .since_hold
            .filter(|_| sum.steps.last().is_some_and(|it| it.step == "Start")),
        steps: sum.steps,
    };
    (timeline, marks)
}

/// From the claim on.
fn fenced(
    sum: &mut Sum,
    course: &Course<'_>,
    policy: &str,
    spec: &NodeFencingPolicySpec,
) -> Option<Marks> {
    if course.passed_over > 0.0 {
        let because = "earlier fence levels are asked first, at most for this time, and nothing is claimed meanwhile (`fence.levels[].timeoutSeconds`)";
        let passed_over = known(course.passed_over, Basis::Policy, because);
        sum.between("EarlierLevels", passed_over, (0.0, course.passed_over));
    }
    sum.step(
        "Claim",
        known(
            CLAIM,
            Basis::Measured,
            "measured, docs/figures.md; the devices were read before",
        ),
    );
    let claimed = sum.at;
    let pods = u32::try_from(course.pods).unwrap_or(u32::MAX);
    let evicting = (f64::from(pods) * REQUESTS_A_POD - BURST).max(0.0) / QPS;
    let quiesce = match evicting > 0.0 {
        true => known(
            QUIESCE + evicting,
            Basis::Computed,
            format!(
                "{pods} pods with {REQUESTS_A_POD} requests each, of which kube-controller-manager sends {QPS} a second after the first {BURST}"
            ),
        ),
        false => known(
            QUIESCE,
            Basis::Measured,
            "until every pod is being deleted; measured, docs/figures.md",
        ),
    };
    sum.step("Quiesce", quiesce);
    if course.mode == FenceMode::PowerOff {
        let guess = || {
            known(
                OFF,
                Basis::Assumed,
                "time of the device for the command, estimated: seconds with most BMCs, `fence.levels[].timeoutSeconds` at most",
            )
        };
        sum.step("TurnOff", course.off.clone().unwrap_or_else(guess));
    }
    let verification = &spec.procedure.fence.verification;
    let reads = verification.consecutive_off_reads.max(2);
    let window = f64::from(verification.read_period_seconds) * f64::from(reads - 1);
    let because = format!(
        "{reads} readings of Off, {} s apart (`fence.verification` of policy {policy})",
        verification.read_period_seconds
    );
    sum.step("Verify", known(window, Basis::Policy, because));
    if spec.procedure.recovery.strategy == RecoveryStrategy::None {
        return None;
    }
    moved(sum, course, spec, claimed)
}

/// From the proof on.
fn moved(
    sum: &mut Sum,
    course: &Course<'_>,
    spec: &NodeFencingPolicySpec,
    claimed: Option<f64>,
) -> Option<Marks> {
    let recovery = &spec.procedure.recovery;
    let deletes_node = recovery.strategy == RecoveryStrategy::DeleteNode;
    let because = match deletes_node {
        true => {
            "evidence, taint nodefencing.io/detaching and deletion of the pods; measured with out-of-service, docs/figures.md"
        }
        false => "evidence and out-of-service; measured, docs/figures.md",
    };
    sum.step("Taint", known(TAINT, Basis::Measured, because));
    match recovery.pod_deletion {
        PodDeletion::Expedited => sum.step("Evict", known(0.0, Basis::Measured, "the operator deletes the stuck pods in the same step (`recovery.podDeletion: Expedited`)")),
        PodDeletion::PodGC => {
            let because = format!("pod GC runs every {GC} s: half of that on average (`recovery.podDeletion: PodGC`)");
            sum.between("Evict", known(GC / 2.0, Basis::Default, because), (0.0, GC));
        }
    }
    let evicted = sum.at;
    if course.moves {
        let guess = || {
            known(
                DETACH,
                Basis::Assumed,
                "time of the CSI driver, estimated (no incident of this cluster shows it)",
            )
        };
        sum.step("Detach", course.detach.clone().unwrap_or_else(guess));
    }
    let detached = sum.at;
    sum.step(
        "Schedule",
        known(
            0.0,
            Basis::Measured,
            "the next pods are created and scheduled meanwhile",
        ),
    );
    let start = || {
        known(
            START,
            Basis::Measured,
            "attach and start, measured with an image on the node, docs/figures.md",
        )
    };
    sum.step("Start", course.start.clone().unwrap_or_else(start));
    Some(Marks {
        claimed: claimed?,
        evicted: evicted?,
        detached: detached?,
        start: START,
    })
}

#[cfg(test)]
mod tests;
