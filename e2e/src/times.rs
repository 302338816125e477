//! How often kubelets give signs of life, and how long Kubernetes waits for one before it gives their node up.
//!
//! Tests want all of it to be over soon, users have what Kubernetes comes with, and some of them tune their kubelets. What a cluster does after a
//! power loss is mostly made of these times, so a figure of the lab says little without them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::control_plane::Options;
use crate::simulated::FleetOptions;

/// Which times the control plane and the kubelets of a lab have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Times {
    /// For tests: Kubernetes' own, in the proportion in which the control plane's grace period is to Kubernetes' 50 s.
    #[default]
    Fast,
    /// Kubernetes' own: grace period 50 s, a Lease of 40 s that is renewed every 10 s, a status every 10 s that is posted when it has changed.
    Stock,
    /// The same control plane with quicker kubelets: a Lease of 8 s, renewed every 2 s, and a status every 2 s.
    Tuned,
}

/// What a kubelet's configuration says of its signs of life, where it is not derived from the control plane's grace period.
struct Kubelet {
    /// `nodeLeaseDurationSeconds`. Four renewals: source: `nodeLeaseRenewIntervalFraction` in `pkg/kubelet/kubelet.go` (v1.36).
    lease_seconds: u16,
    /// `nodeStatusUpdateFrequency`: how often the kubelet looks whether its status has changed.
    status: Duration,
    /// `nodeStatusReportFrequency`: how often it posts one that has not. It follows `nodeStatusUpdateFrequency` where that alone is set.
    /// Source: `SetDefaults_KubeletConfiguration` in `pkg/kubelet/apis/config/v1beta1/defaults.go` (v1.36).
    report: Duration,
}

/// `nodeStatusReportFrequency` where neither is set; the source is the same.
const REPORT: Duration = Duration::from_secs(5 * 60);

impl Times {
    /// What the command line calls them.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Stock => "stock",
            Self::Tuned => "tuned",
        }
    }

    /// In words, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Fast => "grace period 6 s, Lease 4 s, status every 1.2 s",
            Self::Stock => "grace period 50 s, Lease 40 s, status every 10 s",
            Self::Tuned => "grace period 50 s, Lease 8 s, status every 2 s",
        }
    }

    /// The control plane with these times. Source: `RecommendedDefaultNodeLifecycleControllerConfiguration` in
    /// `pkg/controller/nodelifecycle/config/v1alpha1/defaults.go`, and for the monitor period `SetDefaults_KubeCloudSharedConfiguration` in
    /// cloud-provider's `config/v1alpha1/defaults.go` (v1.36).
    #[must_use]
    pub fn of_control_plane(self, options: Options) -> Options {
        match self {
            Self::Fast => options,
            Self::Stock | Self::Tuned => Options {
                times: self,
                node_monitor_period: Duration::from_secs(5),
                node_monitor_grace: Duration::from_secs(50),
                node_startup_grace: Duration::from_secs(60),
                ..options
            },
        }
    }

    /// Simulated kubelets with these times.
    #[must_use]
    pub fn of_fleet(self, fleet: FleetOptions) -> FleetOptions {
        match self.kubelet() {
            None => fleet,
            Some(kubelet) => FleetOptions {
                lease_duration_seconds: i32::from(kubelet.lease_seconds),
                lease_period: Duration::from_secs(kubelet.lease_seconds.into()) / 4,
                status_look: Some(kubelet.status),
                status_period: kubelet.report,
                ..fleet
            },
        }
    }

    /// The fields of a KubeletConfiguration that say so, for a control plane with this grace period.
    ///
    /// They matter beyond the signs of life: a kubelet mounts an attachable volume only after it has posted it as in use, which it does with its
    /// next status. Source: `GenerateVerifyControllerAttachedVolumeFunc` in `pkg/volume/util/operationexecutor/operation_generator.go` (v1.36).
    pub fn of_kubelet(self, grace: Duration) -> Value {
        match self {
            Self::Fast => {
                let (lease, status) = (grace * 4 / 5, grace / 5);
                json!({
                    "nodeLeaseDurationSeconds": lease.as_secs().max(1),
                    "nodeStatusUpdateFrequency": format!("{}ms", status.as_millis()),
                })
            }
            Self::Stock => json!({"nodeLeaseDurationSeconds": 40}),
            // Alone the first of these would also have each of them post a status every 2 s that says nothing new.
            Self::Tuned => json!({
                "nodeLeaseDurationSeconds": 8,
                "nodeStatusUpdateFrequency": "2s",
                "nodeStatusReportFrequency": "5m",
            }),
        }
    }

    /// How often a kubelet looks whether its status has changed, under the control plane that goes with it.
    pub fn status_period(self) -> Duration {
        match self.kubelet() {
            None => Options::default().node_monitor_grace / 5,
            Some(kubelet) => kubelet.status,
        }
    }

    /// How long to wait before the power cut of this number: what follows depends on where in their periods the kubelet and the node controller are,
    /// and a benchmark whose steps follow one another would always cut at the same place. The waits spread evenly over the longest of the periods.
    pub fn phase(self, number: usize) -> Duration {
        let longest = match self {
            Self::Fast | Self::Stock => self.status_period(),
            // Of the node controller (`node_monitor_period`).
            Self::Tuned => Duration::from_secs(5),
        };
        // Multiples of the golden ratio leave no gap for long, however many there are (Weyl's sequence).
        let part = (number as f64 * 0.618_033_988_749_895).fract();
        longest.mul_f64(part)
    }

    fn kubelet(self) -> Option<Kubelet> {
        let (lease_seconds, status) = match self {
            Self::Fast => return None,
            Self::Stock => (40, 10),
            Self::Tuned => (8, 2),
        };
        Some(Kubelet {
            lease_seconds,
            status: Duration::from_secs(status),
            report: REPORT,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubelet(times: Times) -> Value {
        let plane = times.of_control_plane(Options::default());
        plane.times.of_kubelet(plane.node_monitor_grace)
    }

    #[test]
    fn kubelets_have_the_times_that_are_said_of_them() {
        let fast = json!({"nodeLeaseDurationSeconds": 4, "nodeStatusUpdateFrequency": "1200ms"});
        assert_eq!(kubelet(Times::Fast), fast);
        // The status is left to the kubelet's own default, as in a cluster that has not set it.
        assert_eq!(
            kubelet(Times::Stock),
            json!({"nodeLeaseDurationSeconds": 40})
        );
        assert_eq!(kubelet(Times::Tuned)["nodeLeaseDurationSeconds"], 8);
        assert_eq!(kubelet(Times::Tuned)["nodeStatusReportFrequency"], "5m");
        for times in [Times::Fast, Times::Stock, Times::Tuned] {
            let plane = times.of_control_plane(Options::default());
            assert_eq!(plane.times, times);
            let (grace, period) = (plane.node_monitor_grace, times.status_period());
            let words = format!("grace period {} s, Lease ", grace.as_secs());
            assert!(times.words().starts_with(&words), "{}", times.words());
            let words = format!(", status every {} s", period.as_secs_f64());
            assert!(times.words().ends_with(&words), "{}", times.words());
        }
    }

    #[test]
    fn simulated_kubelets_have_the_same_times() {
        let fleet = |times: Times| {
            let fleet = times.of_fleet(FleetOptions::default());
            (
                fleet.lease_duration_seconds,
                fleet.lease_period,
                fleet.status_look,
            )
        };
        let seconds = Duration::from_secs;
        assert_eq!(fleet(Times::Fast).2, None);
        assert_eq!(fleet(Times::Stock), (40, seconds(10), Some(seconds(10))));
        assert_eq!(fleet(Times::Tuned), (8, seconds(2), Some(seconds(2))));
    }

    #[test]
    fn the_cuts_of_a_benchmark_spread_over_the_period() {
        let mut phases: Vec<_> = (1..=10).map(|it| Times::Stock.phase(it)).collect();
        phases.sort();
        let gaps = phases.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(
            gaps.max().is_some_and(|gap| gap < Duration::from_secs(2)),
            "{phases:?}"
        );
        assert!(phases.iter().all(|phase| *phase < Duration::from_secs(10)));
    }
}
