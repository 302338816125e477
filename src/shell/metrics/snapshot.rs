//! The gauges: rows of a moment, made into series when somebody scrapes.
//!
//! Nothing is kept between two scrapes, so a series ends by itself with what it was about.

use super::Error;
use super::table::{self, Definition};
use fencing_drivers::clock;
use jiff::Timestamp;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts};
use std::collections::BTreeSet;
use std::time::Duration;

/// The operator's world at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Open incidents.
    pub incidents: Vec<IncidentRow>,
    /// Unhealthy nodes that have no incident, because their policy keeps its hands off them: policy and reason.
    pub kept_off: Vec<(String, &'static str)>,
    /// Nodes on which nothing goes on by itself, and why.
    pub stranded: Vec<(String, &'static str)>,
    /// Devices, a row for each node they serve.
    pub devices: Vec<DeviceRow>,
    /// Policies.
    pub policies: Vec<PolicyRow>,
    /// Nodes that a policy selects, and whether they could be fenced now.
    pub protected: Vec<(String, bool)>,
    /// Names of the Nodes that exist; none: it is not known.
    pub nodes: Option<BTreeSet<String>>,
    /// This replica has the Lease.
    pub leads: bool,
    /// The admission policies do not hold the operator to its limits; none: it is not known.
    pub guard_missing: Option<bool>,
    /// The cluster went back in time: nothing is fenced (S18).
    pub frozen: bool,
    /// Tasks that the runtime has; none: there is no runtime.
    pub tasks: Option<usize>,
    /// Per kind, how long ago its watch last heard of the API server.
    pub watches: Vec<(&'static str, Duration)>,
}

/// An open incident.
#[derive(Debug, Clone, PartialEq)]
pub struct IncidentRow {
    /// NodeFence name.
    pub fence: String,
    /// Node name.
    pub node: String,
    /// Policy name; empty for a human's incident.
    pub policy: String,
    /// Mode: `Observe`, `ConfirmOnly`, `PowerOff`.
    pub mode: String,
    /// Stage: the reason of condition `Succeeded`.
    pub stage: String,
    /// When it entered the stage, by the wall clock.
    pub stage_started_wall: Timestamp,
    /// When the stage is late, by the wall clock.
    pub deadline_wall: Option<Timestamp>,
    /// What holds it back: `MaxConcurrent`, `ForeignOutOfService`, ...
    pub held_reason: Option<String>,
    /// Why it calls for a human: `FenceContradiction`, `DeviceFailed`, ...
    pub escalated_reason: Option<String>,
}

/// A device that serves a node.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRow {
    /// FenceDevice name.
    pub device: String,
    /// Node name.
    pub node: String,
    /// Driver: `redfish`.
    pub driver: String,
    /// It answered; none: it was not looked at yet.
    pub reachable: Option<bool>,
    /// It controls this node's machine; none: not known yet.
    pub identity_verified: Option<bool>,
    /// When it last answered in full.
    pub last_success: Option<Timestamp>,
    /// It read Off while the kubelet renewed its Lease, and has not read On since (S25).
    pub off_while_running: bool,
}

/// A policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyRow {
    /// NodeFencingPolicy name.
    pub policy: String,
    /// Mode: `Observe`, `ConfirmOnly`, `PowerOff`.
    pub mode: String,
    /// Numbers of nodes by state: `selected`, `healthy`, `unhealthy`, `protected`, `unprotected`.
    pub nodes: Vec<(&'static str, u32)>,
    /// Fences that the budget would admit now.
    pub budget_remaining: Option<u32>,
    /// Who else is seen at its nodes.
    pub others: Vec<&'static str>,
}

impl Snapshot {
    pub(super) fn families(&self) -> Result<Vec<MetricFamily>, Error> {
        let mut gauges = Gauges(vec![]);
        self.of_incidents(&mut gauges)?;
        self.of_devices(&mut gauges)?;
        self.of_policies(&mut gauges)?;
        self.of_operator(&mut gauges)?;
        Ok(gauges.0)
    }

    fn of_incidents(&self, gauges: &mut Gauges) -> Result<(), Error> {
        let rows = &self.incidents;
        gauges.add(&table::INCIDENT_INFO, rows, |it, gauge| {
            gauge.set([&it.node, &it.policy, &it.fence, &it.mode], 1.0)
        })?;
        gauges.add(&table::STAGE_START, rows, |it, gauge| {
            gauge.set(
                [&it.node, &it.policy, &it.stage],
                seconds(it.stage_started_wall),
            )
        })?;
        gauges.add(&table::STAGE_DEADLINE, rows, |it, gauge| {
            let labels = [&it.node, &it.policy, &it.stage];
            gauge.set_if(labels, it.deadline_wall.map(seconds))
        })?;
        gauges.add(&table::INCIDENT_ESCALATED, rows, |it, gauge| {
            let Some(reason) = &it.escalated_reason else {
                return Ok(());
            };
            gauge.set([&it.node, &it.policy, &it.fence, reason], 1.0)
        })?;
        gauges.add(
            &table::NODE_STRANDED,
            &self.stranded,
            |(node, reason), gauge| gauge.set([node.as_str(), *reason], 1.0),
        )?;
        let held = rows.iter().filter_map(|it| {
            let reason = it.held_reason.as_deref()?;
            Some((it.policy.as_str(), reason))
        });
        let kept_off = self.kept_off.iter();
        let kept_off = kept_off.map(|(policy, reason)| (policy.as_str(), *reason));
        let rows: Vec<_> = held.chain(kept_off).collect();
        gauges.add(&table::INCIDENTS_HELD, &rows, |(policy, reason), gauge| {
            gauge.count([*policy, *reason])
        })
    }

    fn of_devices(&self, gauges: &mut Gauges) -> Result<(), Error> {
        let flag = |value: Option<bool>| value.map(|it| f64::from(u8::from(it)));
        let rows = &self.devices;
        gauges.add(&table::DEVICE_REACHABLE, rows, |it, gauge| {
            gauge.set_if([&it.device, &it.node, &it.driver], flag(it.reachable))
        })?;
        gauges.add(&table::DEVICE_IDENTITY_VERIFIED, rows, |it, gauge| {
            let labels = [&it.device, &it.node, &it.driver];
            gauge.set_if(labels, flag(it.identity_verified))
        })?;
        gauges.add(&table::DEVICE_LAST_SUCCESS, rows, |it, gauge| {
            let labels = [&it.device, &it.node, &it.driver];
            gauge.set_if(labels, it.last_success.map(seconds))
        })?;
        let lies = rows.iter().filter(|it| it.off_while_running);
        let lies: Vec<_> = lies.collect();
        gauges.add(&table::DEVICE_OFF_WHILE_RUNNING, &lies, |it, gauge| {
            gauge.set([&it.device, &it.node, &it.driver], 1.0)
        })?;
        gauges.add(
            &table::NODE_PROTECTED,
            &self.protected,
            |(node, it), gauge| gauge.set([node], f64::from(u8::from(*it))),
        )
    }

    fn of_policies(&self, gauges: &mut Gauges) -> Result<(), Error> {
        let rows = &self.policies;
        gauges.add(&table::POLICY_MODE, rows, |it, gauge| {
            gauge.set([&it.policy, &it.mode], 1.0)
        })?;
        gauges.add(&table::POLICY_NODES, rows, |it, gauge| {
            it.nodes.iter().try_for_each(|(state, count)| {
                gauge.set([it.policy.as_str(), state], f64::from(*count))
            })
        })?;
        gauges.add(&table::BUDGET_REMAINING, rows, |it, gauge| {
            gauge.set_if([&it.policy], it.budget_remaining.map(f64::from))
        })?;
        gauges.add(&table::OTHER_FENCERS, rows, |it, gauge| {
            let mut others = it.others.iter();
            others.try_for_each(|system| gauge.set([it.policy.as_str(), system], 1.0))
        })
    }

    fn of_operator(&self, gauges: &mut Gauges) -> Result<(), Error> {
        let now = seconds(clock::wall());
        gauges.add(
            &table::WATCH_LAST_EVENT,
            &self.watches,
            |(kind, age), gauge| gauge.set([kind], now - age.as_secs_f64()),
        )?;
        gauges.add(&table::LEADER, &[self.leads], |leads, gauge| {
            gauge.set([""; 0], f64::from(u8::from(*leads)))
        })?;
        gauges.add(
            &table::ADMISSION_GUARD_MISSING,
            &[self.guard_missing],
            |it, gauge| gauge.set_if([""; 0], it.map(|it| f64::from(u8::from(it)))),
        )?;
        gauges.add(&table::FROZEN, &[self.frozen], |frozen, gauge| {
            gauge.set([""; 0], f64::from(u8::from(*frozen)))
        })?;
        gauges.add(&table::TASKS, &[self.tasks], |it, gauge| {
            gauge.set_if([""; 0], it.map(|it| it as f64))
        })?;
        let revision = option_env!("NODE_FENCING_REVISION").unwrap_or("unknown");
        gauges.add(&table::BUILD_INFO, &[revision], |revision, gauge| {
            gauge.set([env!("CARGO_PKG_VERSION"), revision], 1.0)
        })
    }
}

/// Families as they are collected.
struct Gauges(Vec<MetricFamily>);

impl Gauges {
    /// One family: `write` sets the series of each row.
    fn add<Row>(
        &mut self,
        definition: &Definition,
        rows: &[Row],
        write: impl Fn(&Row, &Gauge) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let opts = Opts::new(definition.name, definition.help);
        let gauge = Gauge(GaugeVec::new(opts, definition.labels)?);
        rows.iter().try_for_each(|row| write(row, &gauge))?;
        self.0.extend(gauge.0.collect());
        Ok(())
    }
}

/// A family of gauges whose labels are given in the order of its definition.
struct Gauge(GaugeVec);

impl Gauge {
    fn set<const N: usize>(&self, labels: [impl AsRef<str>; N], value: f64) -> Result<(), Error> {
        let labels = labels.each_ref().map(AsRef::as_ref);
        self.0.get_metric_with_label_values(&labels)?.set(value);
        Ok(())
    }

    fn set_if<const N: usize>(
        &self,
        labels: [impl AsRef<str>; N],
        value: Option<f64>,
    ) -> Result<(), Error> {
        value.map_or(Ok(()), |value| self.set(labels, value))
    }

    fn count<const N: usize>(&self, labels: [impl AsRef<str>; N]) -> Result<(), Error> {
        let labels = labels.each_ref().map(AsRef::as_ref);
        self.0.get_metric_with_label_values(&labels)?.inc();
        Ok(())
    }
}

/// Seconds since the epoch.
fn seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}
