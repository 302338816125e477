//! Writes what was found into the status of the FenceDevices, and tells of what changed.
//!
//! One write per device at a time, each derived from the state it replaces and refused by the API server if that has moved on;
//! then it is derived anew. A device that cannot be written keeps nobody waiting.

use super::schedule::Schedule;
use super::status::{Row, render, worth_writing};
use super::{Prober, requested};
use crate::shell::events::Note;
use crate::shell::marks::mark;
use crate::shell::merge::status_patch;
use fencing_api::conditions::{self, READY};
use fencing_api::device::{FenceDevice, FenceDeviceStatus, PROBE_REQUESTED_AT};
use fencing_cluster::client::{AskError, ask, patch_params};
use fencing_cluster::text::shortened;
use fencing_core::observed::NodeView;
use jiff::SignedDuration;
use kube::api::Patch;
use kube::{Api, Resource, ResourceExt};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Writes that run at the same time.
const WRITES_MAX: usize = 8;
/// Pause after a write that came too late.
const CONFLICT_PAUSE: Duration = Duration::from_secs(1);
/// Pause after a write that failed.
const FAILURE_PAUSE: Duration = Duration::from_secs(10);

struct Reply {
    device: FenceDevice,
    outcome: Result<FenceDevice, Failure>,
}

enum Failure {
    /// Derived from an old state.
    Conflict,
    /// The device is gone.
    Gone,
    /// Anything else.
    Other(String),
}

/// What is to be written, is being written and was written last.
pub(super) struct Writer {
    prober: Arc<Prober>,
    due: BTreeMap<String, Duration>,
    busy: BTreeSet<String>,
    writes: JoinSet<Reply>,
    /// Our last write, until the cache shows it: the resourceVersion it replaced, and what it made.
    written: HashMap<String, (Option<String>, FenceDevice)>,
    /// Hash of each device's generation and nodes.
    shapes: HashMap<String, u64>,
    /// Devices whose trimmed Secret was told of.
    trimmed_told: BTreeSet<String>,
}

impl Writer {
    pub(super) fn new(prober: Arc<Prober>) -> Self {
        Self {
            prober,
            due: BTreeMap::new(),
            busy: BTreeSet::new(),
            writes: JoinSet::new(),
            written: HashMap::new(),
            shapes: HashMap::new(),
            trimmed_told: BTreeSet::new(),
        }
    }

    /// The device's status may have changed: look at it in `patience`, or sooner if that was said before.
    pub(super) fn mark(&mut self, device: &str, now: Duration, patience: Duration) {
        let due = self.due.entry(device.to_owned()).or_insert(now + patience);
        *due = (*due).min(now + patience);
    }

    /// The device serves these nodes: marks it if it did not before.
    pub(super) fn note_shape(&mut self, device: &FenceDevice, nodes: &[&NodeView], now: Duration) {
        let nodes: Vec<_> = nodes.iter().map(|node| (&node.name, &node.uid)).collect();
        let shape = mark((&device.metadata.uid, device.metadata.generation, nodes));
        if self.shapes.insert(device.name_any(), shape) != Some(shape) {
            // The first probe of a new device is mostly done within a second, and then one write says it all.
            self.mark(&device.name_any(), now, Duration::from_secs(1));
        }
    }

    pub(super) fn forget_all_but(&mut self, devices: &[&FenceDevice]) {
        let names: BTreeSet<String> = devices.iter().map(|device| device.name_any()).collect();
        self.due.retain(|name, _| names.contains(name));
        self.shapes.retain(|name, _| names.contains(name));
        self.written.retain(|name, _| names.contains(name));
        self.trimmed_told.retain(|name| names.contains(name));
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        let free = self
            .due
            .iter()
            .filter(|(name, _)| !self.busy.contains(*name));
        let next = free.map(|(_, due)| *due).min();
        next.filter(|_| self.writes.len() < WRITES_MAX)
    }

    /// Begins the writes that are due.
    pub(super) fn write_due(&mut self, schedule: &Schedule, now: Duration) {
        let due = self
            .due
            .iter()
            .filter(|(name, at)| **at <= now && !self.busy.contains(*name));
        let names: Vec<String> = due.map(|(name, _)| name.clone()).collect();
        for name in names {
            if self.writes.len() >= WRITES_MAX {
                return;
            }
            self.due.remove(&name);
            if let Some(device) = self.current(&name) {
                self.write(device, schedule);
            }
        }
    }

    /// The device as it is now: as the cache has it, or as our own last write left it if the cache has not heard of that.
    fn current(&mut self, name: &str) -> Option<FenceDevice> {
        let cached = self.prober.caches.device(name)?;
        match self.written.get(name) {
            Some((replaced, written)) if *replaced == cached.metadata.resource_version => {
                Some(written.clone())
            }
            _ => {
                self.written.remove(name);
                Some(cached)
            }
        }
    }

    fn write(&mut self, device: FenceDevice, schedule: &Schedule) {
        let status = self.render(&device, schedule);
        let period = i64::from(device.spec.probe.period_seconds);
        let devices = i64::try_from(self.shapes.len()).unwrap_or(i64::MAX);
        // One write a second for the times of all devices together.
        let times_after = SignedDuration::from_secs(period.max(devices));
        let requested = requested(&device).and_then(Result::ok);
        // The device of a fleet is probed for its other nodes all the while, and names no reading of one.
        let is_one_machines = device.spec.node_name.is_some();
        let mut nodes = schedule.nodes_of(&device.name_any());
        let is_fenced = is_one_machines && nodes.any(|(_, it)| it);
        let old = device.status.as_ref();
        if !worth_writing(old, &status, times_after, requested, is_fenced) {
            return;
        }
        let Some(patch) = status_patch(
            device.metadata.resource_version.as_deref(),
            device.status.as_ref(),
            &status,
        ) else {
            return;
        };
        self.tell(&device, &status);
        self.busy.insert(device.name_any());
        let api = Api::<FenceDevice>::all(self.prober.client.clone());
        self.writes.spawn(send(api, device, patch));
    }

    fn render(&mut self, device: &FenceDevice, schedule: &Schedule) -> FenceDeviceStatus {
        let name = device.name_any();
        let known = self.prober.known();
        let nodes: Vec<_> = schedule
            .nodes_of(&name)
            .map(|(pair, fenced)| {
                let known = known.get(pair);
                let finding = known.and_then(|known| known.finding(device));
                let duplicate = self.prober.in_the_way(device, &pair.node, finding);
                (pair, fenced, duplicate, known)
            })
            .collect();
        let trimmed = nodes.iter().find_map(|(_, _, _, known)| {
            let finding = known.as_ref()?.finding.as_ref()?;
            (!finding.trimmed_keys.is_empty()).then(|| finding.trimmed_keys.join(" and "))
        });
        let rows = nodes.iter().map(|(pair, fenced, duplicate, known)| {
            let finding = known.and_then(|known| known.finding(device));
            Row {
                node: &pair.node,
                finding,
                duplicate: duplicate.as_deref(),
                awaited: finding.is_none() && !fenced,
                fenced: *fenced,
                last_success: known.and_then(|known| known.last_success),
                last_on: known.and_then(|known| known.last_on),
            }
        });
        let rows: Vec<Row<'_>> = rows.collect();
        let caches = &self.prober.caches;
        let lives = |name: &str, uid: &str| {
            let node = caches.node(name);
            node.is_some_and(|node| node.view.uid == uid)
        };
        let status = render(device, &rows, lives, self.prober.clock.wall());
        drop(rows);
        drop(nodes);
        drop(known);
        if let Some(keys) = trimmed
            && self.trimmed_told.insert(name)
        {
            let message = format!(
                "the Secret's {keys} ended in a newline, which was dropped; write it again without one"
            );
            self.publish(device, true, "SecretTrimmed", message);
        }
        status
    }

    /// An Event and a log line when the device becomes ready, or not ready, or not ready for another reason.
    fn tell(&self, device: &FenceDevice, new: &FenceDeviceStatus) {
        let ready = |status: &FenceDeviceStatus| {
            let condition = conditions::find(&status.conditions, READY)?;
            Some((
                condition.status.clone(),
                condition.reason.clone(),
                condition.message.clone(),
            ))
        };
        let before = device.status.as_ref().and_then(ready);
        let Some((status, reason, message)) = ready(new) else {
            return;
        };
        if before.is_some_and(|(was, why, _)| (was, why) == (status.clone(), reason.clone())) {
            return;
        }
        let name = device.name_any();
        match status.as_str() {
            "True" => {
                tracing::info!(device = name, reason, message, "device is ready");
                self.publish(device, false, "DeviceReady", message);
            }
            "False" => {
                tracing::warn!(device = name, reason, message, "device is not ready");
                self.publish(device, true, &reason, message);
            }
            _ => tracing::info!(device = name, reason, message, "device is not assessed yet"),
        }
    }

    /// A request that cannot be read is not passed over in silence.
    pub(super) fn tell_of_request(&self, device: &FenceDevice) {
        if let Some(Err(said)) = requested(device) {
            let message = format!(
                "the annotation `{PROBE_REQUESTED_AT}` must be a time such as 2026-11-21T01:00:00Z, was `{}`; correct it to have the device probed",
                shortened(&said, 64)
            );
            self.publish(device, true, "ProbeRequestInvalid", message);
        }
    }

    fn publish(&self, device: &FenceDevice, warning: bool, reason: &str, message: String) {
        self.prober.events.publish(Note {
            regarding: device.object_ref(&()),
            related: None,
            warning,
            reason: reason.to_owned(),
            action: "Probe".to_owned(),
            message,
        });
    }

    /// Waits for the end of a write; never ends while none runs.
    pub(super) async fn take_reply(&mut self) {
        let Some(reply) = self.writes.join_next().await else {
            return std::future::pending().await;
        };
        // A task that panicked or was aborted: nobody aborts them, and they do not panic.
        let Ok(Reply { device, outcome }) = reply else {
            return;
        };
        let name = device.name_any();
        self.busy.remove(&name);
        let now = self.prober.clock.since_boot();
        match outcome {
            Ok(written) => {
                self.written
                    .insert(name, (device.metadata.resource_version, written));
            }
            Err(Failure::Gone) => {}
            Err(Failure::Conflict) => self.mark(&name, now, CONFLICT_PAUSE),
            Err(Failure::Other(error)) => {
                tracing::warn!(
                    device = name,
                    error,
                    "cannot write the device's status, trying again"
                );
                self.mark(&name, now, FAILURE_PAUSE);
            }
        }
    }
}

async fn send(api: Api<FenceDevice>, device: FenceDevice, patch: Value) -> Reply {
    let name = device.name_any();
    let patch = Patch::Merge(patch);
    let written = ask(api.patch_status(&name, &patch_params(), &patch)).await;
    let outcome = written.map_err(|error| match error {
        AskError::Refused { code: 409, .. } => Failure::Conflict,
        AskError::Refused { code: 404, .. } => Failure::Gone,
        other => Failure::Other(other.to_string()),
    });
    Reply { device, outcome }
}

/// A fleet's findings are written together; a single device's at once.
pub(super) fn patience(device: &FenceDevice) -> Duration {
    match device.spec.node_name {
        Some(_) => Duration::ZERO,
        None => Duration::from_secs(2),
    }
}

#[cfg(test)]
mod tests;
