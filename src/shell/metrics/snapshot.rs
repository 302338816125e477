//! The gauges: rows of a moment, made into series when somebody scrapes.
//!
//! Nothing is kept between two scrapes, so a series ends by itself with what it was about.

use super::super::standby::StandbyRow;
use super::Error;
use super::process::Process;
use super::table::{self, Definition};
use fencing_api::conditions::{self, ConditionStatus, READY};
use fencing_drivers::clock;
use fencing_drivers::tls::Expiry;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{Counter, GaugeVec, Opts};
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
    /// FenceDevices by name, as their status has them.
    pub devices_ready: Vec<(String, ReadyCondition)>,
    /// Devices to which a replica that stands by has tried to open a connection.
    pub standby: Vec<StandbyRow>,
    /// Policies.
    pub policies: Vec<PolicyRow>,
    /// Nodes that a policy selects, and whether they could be fenced now.
    pub protected: Vec<(String, bool)>,
    /// Nodes, and whether their pods would find room elsewhere; nothing: it is not looked at.
    pub recoverable: Vec<(String, bool)>,
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
    /// The process itself.
    pub process: Process,
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
    /// The last lookup of its host's name was answered; none: it has none.
    pub name_resolved: Option<bool>,
    /// How far its clock is ahead of ours, in seconds; none: it shows none.
    pub clock_ahead_seconds: Option<i64>,
    /// When what it is known by, and what opens it, expires: `DeviceCertificate`, `CertificateAuthority`, `ClientCertificate`, `Token`.
    pub expiries: Vec<(&'static str, Expiry)>,
}

/// A policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyRow {
    /// NodeFencingPolicy name.
    pub policy: String,
    /// Mode: `Observe`, `ConfirmOnly`, `PowerOff`.
    pub mode: String,
    /// Whether it would act as it says; none: it was not assessed yet.
    pub ready: Option<ReadyCondition>,
    /// A pause of it ends only when its entry is removed.
    pub paused_without_end: bool,
    /// Numbers of nodes by state: `selected`, `healthy`, `unhealthy`, `protected`, `unprotected`.
    pub nodes: Vec<(&'static str, u32)>,
    /// Fences that the budget would admit now.
    pub budget_remaining: Option<u32>,
    /// Who else is seen at its nodes.
    pub others: Vec<&'static str>,
}

/// What the condition `Ready` of an object says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyCondition {
    /// Its status is `True`.
    pub is_true: bool,
    /// Its reason.
    pub reason: String,
}

impl ReadyCondition {
    /// Of an object with these conditions; none: it has no such condition yet.
    pub fn of(conditions: &[Condition]) -> Option<Self> {
        let condition = conditions::find(conditions, READY)?;
        Some(Self {
            is_true: condition.status == ConditionStatus::True.as_str(),
            reason: condition.reason.clone(),
        })
    }

    fn value(&self) -> f64 {
        f64::from(u8::from(self.is_true))
    }
}

impl Snapshot {
    pub(super) fn families(&self) -> Result<Vec<MetricFamily>, Error> {
        let mut gauges = Gauges(vec![]);
        self.of_incidents(&mut gauges)?;
        self.of_devices(&mut gauges)?;
        self.of_policies(&mut gauges)?;
        self.of_operator(&mut gauges)?;
        self.of_process(&mut gauges)?;
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
        let rows = &self.devices_ready;
        gauges.add(&table::DEVICE_READY, rows, |(device, ready), gauge| {
            gauge.set([device, &ready.reason], ready.value())
        })?;
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
        self.of_upkeep(gauges)?;
        let lies = rows.iter().filter(|it| it.off_while_running);
        let lies: Vec<_> = lies.collect();
        gauges.add(&table::DEVICE_OFF_WHILE_RUNNING, &lies, |it, gauge| {
            gauge.set([&it.device, &it.node, &it.driver], 1.0)
        })?;
        for (definition, rows) in [
            (&table::NODE_PROTECTED, &self.protected),
            (&table::NODE_RECOVERABLE, &self.recoverable),
        ] {
            gauges.add(definition, rows, |(node, it), gauge| {
                gauge.set([node], f64::from(u8::from(*it)))
            })?;
        }
        Ok(())
    }

    /// What fails one day although all devices answer now.
    fn of_upkeep(&self, gauges: &mut Gauges) -> Result<(), Error> {
        let rows = &self.devices;
        gauges.add(&table::DEVICE_NAME_RESOLVED, rows, |it, gauge| {
            let resolved = it.name_resolved.map(|it| f64::from(u8::from(it)));
            gauge.set_if([&it.device, &it.node, &it.driver], resolved)
        })?;
        gauges.add(&table::STANDBY_REACHABLE, &self.standby, |it, gauge| {
            let reachable = f64::from(u8::from(it.reachable));
            gauge.set([&it.device, &it.node, &it.driver], reachable)
        })?;
        gauges.add(&table::DEVICE_CLOCK_AHEAD, rows, |it, gauge| {
            let ahead = it.clock_ahead_seconds.map(|it| it as f64);
            gauge.set_if([&it.device, &it.node, &it.driver], ahead)
        })?;
        gauges.add(&table::DEVICE_CREDENTIAL_EXPIRY, rows, |it, gauge| {
            it.expiries.iter().try_for_each(|(credential, expiry)| {
                let labels = [it.device.as_str(), &it.node, &it.driver, credential];
                gauge.set(labels, seconds(expiry.at))
            })
        })?;
        gauges.add(&table::DEVICE_CREDENTIAL_NOTICE, rows, |it, gauge| {
            it.expiries.iter().try_for_each(|(credential, expiry)| {
                let labels = [it.device.as_str(), &it.node, &it.driver, credential];
                gauge.set(labels, expiry.notice.as_secs_f64())
            })
        })
    }

    fn of_policies(&self, gauges: &mut Gauges) -> Result<(), Error> {
        let rows = &self.policies;
        gauges.add(&table::POLICY_MODE, rows, |it, gauge| {
            gauge.set([&it.policy, &it.mode], 1.0)
        })?;
        gauges.add(&table::POLICY_READY, rows, |it, gauge| {
            let Some(ready) = &it.ready else {
                return Ok(());
            };
            gauge.set([&it.policy, &ready.reason], ready.value())
        })?;
        let paused = rows.iter().filter(|it| it.paused_without_end);
        let paused: Vec<_> = paused.collect();
        gauges.add(&table::POLICY_PAUSED_WITHOUT_END, &paused, |it, gauge| {
            gauge.set([&it.policy], 1.0)
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

    fn of_process(&self, gauges: &mut Gauges) -> Result<(), Error> {
        let process = &self.process;
        for (definition, value) in [
            (&table::PROCESS_OPEN_FDS, process.open_files),
            (&table::PROCESS_MAX_FDS, process.max_files),
            (&table::PROCESS_VIRTUAL_MEMORY, process.virtual_bytes),
            (&table::PROCESS_RESIDENT_MEMORY, process.resident_bytes),
            (&table::PROCESS_START_TIME, process.started.map(seconds)),
        ] {
            gauges.add(definition, &[value], |it, gauge| gauge.set_if([""; 0], *it))?;
        }
        if let Some(seconds) = process.cpu_seconds {
            let cpu = Counter::new(table::PROCESS_CPU.name, table::PROCESS_CPU.help)?;
            cpu.inc_by(seconds);
            gauges.0.extend(cpu.collect());
        }
        Ok(())
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
