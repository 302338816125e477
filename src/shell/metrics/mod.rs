//! What the operator tells Prometheus.
//!
//! Counters and histograms live in a registry of their own; gauges are made anew for each scrape from a [`Snapshot`], so
//! that no series outlives what it is about. Recording never fails and never waits: a metric is no reason for a fence to be
//! late.

pub mod snapshot;
pub mod table;

pub use snapshot::{DeviceRow, IncidentRow, PolicyRow, Snapshot};

use crate::api::fence_status::{AttemptAction, AttemptResult};
use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use table::{Definition, Kind};

/// Why a metric could not be made or written: always a mistake in [`table`].
#[derive(Debug, thiserror::Error)]
#[error("metrics: {0}")]
pub struct Error(#[from] prometheus::Error);

/// How an incident can end. Each is exported as 0 from the beginning, because a counter that first appears as 1 shows
/// Prometheus no increase.
const OUTCOMES: [&str; 3] = ["Recovered", "SelfRecovered", "Aborted"];

/// Where the gauges come from.
type Source = Arc<dyn Fn() -> Snapshot + Send + Sync>;

/// Everything that is counted and measured. Shared by reference.
pub struct Metrics {
    registry: Registry,
    source: Mutex<Option<Source>>,
    incidents: IntCounterVec,
    node_incidents: IntCounterVec,
    fence_attempts: IntCounterVec,
    reconcile_errors: IntCounterVec,
    events_dropped: IntCounterVec,
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
        Ok(Self {
            source: Mutex::default(),
            incidents: counter(&registry, &table::INCIDENTS)?,
            node_incidents: counter(&registry, &table::NODE_INCIDENTS)?,
            fence_attempts: counter(&registry, &table::FENCE_ATTEMPTS)?,
            reconcile_errors: counter(&registry, &table::RECONCILE_ERRORS)?,
            events_dropped: counter(&registry, &table::EVENTS_DROPPED)?,
            time_to_fence: histogram(&registry, &table::TIME_TO_FENCE)?,
            time_to_recover: histogram(&registry, &table::TIME_TO_RECOVER)?,
            fence_duration: histogram(&registry, &table::FENCE_DURATION)?,
            probe_duration: histogram(&registry, &table::PROBE_DURATION)?,
            detach_duration: histogram(&registry, &table::DETACH_DURATION)?,
            reconcile_duration: histogram(&registry, &table::RECONCILE_DURATION)?
                .get_metric_with_label_values(&[] as &[&str])?,
            registry,
        })
    }

    /// Says where the gauges come from from now on; asked at each scrape, so it must be quick and must not wait.
    pub fn gauges_from(&self, source: impl Fn() -> Snapshot + Send + Sync + 'static) {
        let mut known = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(Arc::new(source));
    }

    /// An incident was opened: its counters exist from now on.
    pub fn incident_opened(&self, policy: &str, node: &str) {
        for outcome in OUTCOMES {
            add(&self.incidents, &[policy, outcome], 0);
            add(&self.node_incidents, &[node, outcome], 0);
        }
    }

    /// An incident ended; `outcome` is its last stage.
    pub fn incident_ended(&self, policy: &str, node: &str, outcome: &str) {
        add(&self.incidents, &[policy, outcome], 1);
        add(&self.node_incidents, &[node, outcome], 1);
    }

    /// The Node object is gone: so are its series.
    pub fn node_gone(&self, node: &str) {
        for outcome in OUTCOMES {
            // Not found is the usual case: most nodes never have an incident.
            let _ = self.node_incidents.remove_label_values(&[node, outcome]);
        }
    }

    /// A power command had this result: the words of the NodeFence's `status.attempts`.
    pub fn fence_attempt(&self, driver: &str, action: AttemptAction, result: AttemptResult) {
        let (action, result) = (format!("{action:?}"), format!("{result:?}"));
        add(&self.fence_attempts, &[driver, &action, &result], 1);
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

    /// A round of decision failed, for this reason: a word from a fixed list, never a message.
    pub fn reconcile_error(&self, reason: &str) {
        add(&self.reconcile_errors, &[reason], 1);
    }

    /// An Event was not published: `QueueFull`, `Refused`, `Unreachable`.
    pub fn event_dropped(&self, reason: &str) {
        add(&self.events_dropped, &[reason], 1);
    }

    /// All metrics in Prometheus' text format, the gauges from the source.
    ///
    /// # Errors
    /// Only by a mistake in [`table::METRICS`].
    pub fn render(&self) -> Result<String, Error> {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        let source = source.clone();
        let mut snapshot = source.map(|source| source()).unwrap_or_default();
        let runtime = tokio::runtime::Handle::try_current();
        snapshot.tasks = runtime.ok().map(|it| it.metrics().num_alive_tasks());
        self.render_with(&snapshot)
    }

    /// All metrics in Prometheus' text format, the gauges from `snapshot`.
    ///
    /// # Errors
    /// Only by a mistake in [`table::METRICS`].
    pub fn render_with(&self, snapshot: &Snapshot) -> Result<String, Error> {
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

fn observe(histogram: &HistogramVec, label: &str, took: Duration) {
    if let Ok(series) = histogram.get_metric_with_label_values(&[label]) {
        series.observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests;
