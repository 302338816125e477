//! What the operator tells Prometheus.
//!
//! Counters and histograms live in a registry of their own; gauges are made anew for each scrape from a [`Snapshot`], so
//! that no series outlives what it is about. Recording never fails and never waits: a metric is no reason for a fence to be
//! late.
//!
//! A counter that first appears as 1 shows Prometheus no increase, so whatever is known beforehand is exported as 0: what has a fixed list
//! from the beginning, what belongs to a policy or to a driver with the first scrape that sees one.

pub mod process;
pub mod snapshot;
pub mod table;

pub use snapshot::{DeviceRow, IncidentRow, PolicyRow, ReadyCondition, Snapshot};

use fencing_api::fence_status::{AttemptAction, AttemptResult};
use fencing_cluster::client::{Asked, Observer};
use fencing_core::stage::Stage;
use fencing_drivers::clock;
use jiff::Timestamp;
use process::Process;
use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder,
};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use table::{Definition, Kind};
use tokio::runtime::Handle;

/// Why a metric could not be made or written: always a mistake in [`table`].
#[derive(Debug, thiserror::Error)]
#[error("metrics: {0}")]
pub struct Error(#[from] prometheus::Error);

/// How an incident can end.
const OUTCOMES: [Stage; 4] = [
    Stage::Recovered,
    Stage::ConfirmedDown,
    Stage::SelfRecovered,
    Stage::Aborted,
];

/// What can become of a power command.
const RESULTS: [AttemptResult; 3] = [
    AttemptResult::Succeeded,
    AttemptResult::Refused,
    AttemptResult::TimedOut,
];

/// Why a round of decision failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundError {
    /// The Node, its pods, Lease or VolumeAttachments, or the NodeFence could not be read.
    ReadFailed,
    /// A write was refused, or has got no answer.
    WriteFailed,
}

impl RoundError {
    const ALL: [Self; 2] = [Self::ReadFailed, Self::WriteFailed];
}

/// Why an Event was not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventLoss {
    /// Too many were waiting.
    QueueFull,
    /// The publisher has ended.
    Stopped,
    /// The API server does not want it.
    Refused,
    /// The API server did not answer, several times.
    Unreachable,
}

impl EventLoss {
    const ALL: [Self; 4] = [
        Self::QueueFull,
        Self::Stopped,
        Self::Refused,
        Self::Unreachable,
    ];
}

/// Where the gauges come from.
type Source = Arc<dyn Fn() -> Snapshot + Send + Sync>;

/// Everything that is counted and measured. Shared by reference.
pub struct Metrics {
    registry: Registry,
    runtime: Option<Handle>,
    /// When the process started, near enough: these are made first.
    started: Timestamp,
    source: Mutex<Option<Source>>,
    incidents: IntCounterVec,
    node_incidents: IntCounterVec,
    fence_attempts: IntCounterVec,
    contradictions: IntCounterVec,
    early_reports: IntCounterVec,
    early_reports_refuted: IntCounterVec,
    reconcile_errors: IntCounterVec,
    events_dropped: IntCounterVec,
    api_requests: IntCounterVec,
    api_request_duration: HistogramVec,
    time_to_fence: HistogramVec,
    time_to_recover: HistogramVec,
    fence_duration: HistogramVec,
    probe_duration: HistogramVec,
    detach_duration: HistogramVec,
    reconcile_duration: Histogram,
}

impl Metrics {
    /// All metrics, with nothing counted yet.
    ///
    /// # Errors
    /// Only by a mistake in [`table::METRICS`].
    pub fn new() -> Result<Self, Error> {
        let registry = Registry::new();
        let metrics = Self {
            runtime: Handle::try_current().ok(),
            started: clock::wall(),
            source: Mutex::default(),
            incidents: counter(&registry, &table::INCIDENTS)?,
            node_incidents: counter(&registry, &table::NODE_INCIDENTS)?,
            fence_attempts: counter(&registry, &table::FENCE_ATTEMPTS)?,
            contradictions: counter(&registry, &table::CONTRADICTIONS)?,
            early_reports: counter(&registry, &table::EARLY_REPORTS)?,
            early_reports_refuted: counter(&registry, &table::EARLY_REPORTS_REFUTED)?,
            reconcile_errors: counter(&registry, &table::RECONCILE_ERRORS)?,
            events_dropped: counter(&registry, &table::EVENTS_DROPPED)?,
            api_requests: counter(&registry, &table::API_REQUESTS)?,
            api_request_duration: histogram(&registry, &table::API_REQUEST_DURATION)?,
            time_to_fence: histogram(&registry, &table::TIME_TO_FENCE)?,
            time_to_recover: histogram(&registry, &table::TIME_TO_RECOVER)?,
            fence_duration: histogram(&registry, &table::FENCE_DURATION)?,
            probe_duration: histogram(&registry, &table::PROBE_DURATION)?,
            detach_duration: histogram(&registry, &table::DETACH_DURATION)?,
            reconcile_duration: histogram(&registry, &table::RECONCILE_DURATION)?
                .get_metric_with_label_values(&[] as &[&str])?,
            registry,
        };
        for reason in RoundError::ALL {
            add(&metrics.reconcile_errors, &[&format!("{reason:?}")], 0);
        }
        for reason in EventLoss::ALL {
            add(&metrics.events_dropped, &[&format!("{reason:?}")], 0);
        }
        Ok(metrics)
    }

    /// Says where the gauges come from from now on; asked at each scrape, so it must be quick and must not wait.
    pub fn gauges_from(&self, source: impl Fn() -> Snapshot + Send + Sync + 'static) {
        let mut known = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(Arc::new(source));
    }

    /// An incident was opened: its counters exist from now on.
    pub fn incident_opened(&self, policy: &str, node: &str) {
        // That of a human has no policy.
        self.begin_policy(policy);
        for outcome in OUTCOMES {
            add(&self.node_incidents, &[node, &outcome.to_string()], 0);
        }
    }

    /// An incident ended; `outcome` is its last stage.
    pub fn incident_ended(&self, policy: &str, node: &str, outcome: Stage) {
        let outcome = outcome.to_string();
        add(&self.incidents, &[policy, &outcome], 1);
        add(&self.node_incidents, &[node, &outcome], 1);
    }

    /// The series of a policy exist from now on.
    fn begin_policy(&self, policy: &str) {
        for outcome in OUTCOMES {
            add(&self.incidents, &[policy, &outcome.to_string()], 0);
        }
        add(&self.contradictions, &[policy], 0);
        add(&self.early_reports, &[policy], 0);
        add(&self.early_reports_refuted, &[policy], 0);
        begin(&self.time_to_fence, policy);
        begin(&self.time_to_recover, policy);
    }

    /// The series of a driver exist from now on.
    fn begin_driver(&self, driver: &str) {
        let action = format!("{:?}", AttemptAction::PowerOff);
        for result in RESULTS {
            let result = format!("{result:?}");
            add(&self.fence_attempts, &[driver, &action, &result], 0);
        }
        begin(&self.fence_duration, driver);
    }

    /// Series of Nodes that are gone go with them. Their incidents may have ended after them.
    fn forget_nodes_but(&self, existing: &BTreeSet<String>) {
        let families = self.node_incidents.collect();
        let series = families.iter().flat_map(|family| family.get_metric());
        let labels = series.flat_map(|series| series.get_label());
        let nodes = labels.filter(|label| label.name() == "node");
        for gone in nodes.filter(|node| !existing.contains(node.value())) {
            for outcome in OUTCOMES {
                // Each outcome has a series of its own, so the second time there is nothing to remove.
                let labels = [gone.value(), &outcome.to_string()];
                let _ = self.node_incidents.remove_label_values(&labels);
            }
        }
    }

    /// A power command had this result: the words of the NodeFence's `status.attempts`.
    pub fn fence_attempt(&self, driver: &str, action: AttemptAction, result: AttemptResult) {
        let (action, result) = (format!("{action:?}"), format!("{result:?}"));
        add(&self.fence_attempts, &[driver, &action, &result], 1);
    }

    /// A device reads Off, or took an off command, and something of its machine lives (S22): once for each time that an incident calls for a
    /// human because of it.
    pub fn contradiction(&self, policy: &str) {
        add(&self.contradictions, &[policy], 1);
    }

    /// A Node was reported as PoweredOff before Kubernetes noticed.
    pub fn early_report(&self, policy: &str) {
        add(&self.early_reports, &[policy], 1);
    }

    /// And its kubelet, which lives, has taken that back.
    pub fn early_report_refuted(&self, policy: &str) {
        add(&self.early_reports_refuted, &[policy], 1);
    }

    /// From the first unhealthy condition until out of service.
    pub fn time_to_fence(&self, policy: &str, took: Duration) {
        observe(&self.time_to_fence, policy, took);
    }

    /// From the first unhealthy condition until pods and volumes were free.
    pub fn time_to_recover(&self, policy: &str, took: Duration) {
        observe(&self.time_to_recover, policy, took);
    }

    /// From the power command, as it was written down before it went out, until the machine was proven off.
    pub fn fence_duration(&self, driver: &str, took: Duration) {
        observe(&self.fence_duration, driver, took);
    }

    /// One look at a device in peace time.
    pub fn probe_duration(&self, driver: &str, took: Duration) {
        observe(&self.probe_duration, driver, took);
    }

    /// From the taint until the VolumeAttachment was gone.
    pub fn detach_duration(&self, attacher: &str, took: Duration) {
        observe(&self.detach_duration, attacher, took);
    }

    /// One round of decision.
    pub fn reconcile_duration(&self, took: Duration) {
        self.reconcile_duration.observe(took.as_secs_f64());
    }

    /// A round of decision failed.
    pub fn reconcile_error(&self, reason: RoundError) {
        add(&self.reconcile_errors, &[&format!("{reason:?}")], 1);
    }

    /// An Event was not published.
    pub fn event_dropped(&self, reason: EventLoss) {
        add(&self.events_dropped, &[&format!("{reason:?}")], 1);
    }

    /// Counts and times the requests to the API server.
    pub fn observer(self: &Arc<Self>) -> Observer {
        let metrics = Arc::clone(self);
        Observer {
            since_boot: clock::since_boot,
            observe: Arc::new(move |asked, took| metrics.api_request(asked, took)),
        }
    }

    /// A request to the API server was answered, or given up.
    pub fn api_request(&self, asked: &Asked, took: Duration) {
        let code = asked.code.as_ref().map_or("none", |it| it.as_str());
        let (verb, resource) = asked.verb_and_resource();
        add(&self.api_requests, &[verb, resource, code], 1);
        observe(&self.api_request_duration, verb, took);
    }

    /// All metrics in Prometheus' text format, the gauges from the source.
    ///
    /// # Errors
    /// Only by a mistake in [`table::METRICS`].
    pub fn render(&self) -> Result<String, Error> {
        let source = || {
            self.source
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        };
        let mut snapshot = source().map(|source| source()).unwrap_or_default();
        snapshot.tasks = self.tasks();
        snapshot.process = Process::now(self.started);
        self.render_with(&snapshot)
    }

    /// Of the runtime that these were made on, and of the one that asks, which may be another.
    fn tasks(&self) -> Option<usize> {
        let runtime = self.runtime.as_ref()?;
        let here = Handle::try_current().ok();
        let other = here.filter(|it| it.id() != runtime.id());
        let runtimes = [Some(runtime), other.as_ref()].into_iter().flatten();
        Some(runtimes.map(|it| it.metrics().num_alive_tasks()).sum())
    }

    /// All metrics in Prometheus' text format, the gauges from `snapshot`.
    ///
    /// # Errors
    /// Only by a mistake in [`table::METRICS`].
    pub fn render_with(&self, snapshot: &Snapshot) -> Result<String, Error> {
        for row in &snapshot.policies {
            self.begin_policy(&row.policy);
        }
        let drivers: BTreeSet<&str> = snapshot.devices.iter().map(|it| &*it.driver).collect();
        for driver in drivers {
            self.begin_driver(driver);
        }
        if let Some(nodes) = &snapshot.nodes {
            self.forget_nodes_but(nodes);
        }
        let mut families = self.registry.gather();
        families.extend(snapshot.families()?);
        families.retain(|family| !family.get_metric().is_empty());
        families.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(TextEncoder::new().encode_to_string(&families)?)
    }
}

fn counter(registry: &Registry, definition: &Definition) -> Result<IntCounterVec, Error> {
    let opts = Opts::new(definition.name, definition.help);
    registered(registry, IntCounterVec::new(opts, definition.labels)?)
}

fn histogram(registry: &Registry, definition: &Definition) -> Result<HistogramVec, Error> {
    let mut opts = HistogramOpts::new(definition.name, definition.help);
    if let Kind::Histogram(bounds) = definition.kind {
        opts = opts.buckets(bounds.to_vec());
    }
    registered(registry, HistogramVec::new(opts, definition.labels)?)
}

fn registered<C: Collector + Clone + 'static>(registry: &Registry, metric: C) -> Result<C, Error> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

/// Adds to a series. The number of labels is right by [`table`], which a test checks; otherwise nothing is counted.
fn add(counter: &IntCounterVec, labels: &[&str], count: u64) {
    if let Ok(series) = counter.get_metric_with_label_values(labels) {
        series.inc_by(count);
    }
}

/// The series exists from now on, with nothing in it.
fn begin(histogram: &HistogramVec, label: &str) {
    let _ = histogram.get_metric_with_label_values(&[label]);
}

fn observe(histogram: &HistogramVec, label: &str, took: Duration) {
    if let Ok(series) = histogram.get_metric_with_label_values(&[label]) {
        series.observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests;
