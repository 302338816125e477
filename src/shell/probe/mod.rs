//! Looks at every fence device in peace time, so that "this node cannot be fenced" is known before the outage.
//!
//! Each pair of a FenceDevice and a node that it serves is probed every `spec.probe.periodSeconds`, and at once when something
//! about it changes ([`schedule`]). What is found is judged ([`judge`]) and becomes the FenceDevice's status ([`status`]),
//! and the identity of the machine is pinned there. Writes are few: a status is written when it says something new, and its
//! times alone only so often that all devices together cost one write a second at most.
//!
//! A probe never disturbs a fence. It takes the device's turn only when it is free, is not begun for a node with an open
//! incident, and is dropped, connection and all, when one is opened.

mod epoch;
mod extent;
mod gathering;
pub mod judge;
mod period;
mod running;
pub mod schedule;
pub mod status;
mod task;
mod write;

use super::cache::Caches;
use super::devices::{Devices, Freshness, Upkeep};
use super::events::Events;
use super::found_off::FoundOff;
use super::metrics::{DeviceRow, Metrics};
use extent::{extent, freshness};
use fencing_api::conditions::{self, ConditionStatus, IDENTITY_VERIFIED, REACHABLE};
use fencing_api::device::{FenceDevice, FenceDeviceStatus, PROBE_REQUESTED_AT, PositiveControl};
use fencing_core::protection::levels::Readiness;
use fencing_core::reading::{PowerState, Reading};
use fencing_drivers::clock::Clock;
use fencing_drivers::tls::Expiry;
use fencing_drivers::{DeviceClock, DeviceError, Extent, Probe};
use jiff::Timestamp;
use judge::{Finding, Judgement};
use kube::{Client, ResourceExt};
use running::Doubt;
use schedule::Pair;
use status::seen;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// A device's clock is read this often: it costs as much as everything else, and changes nothing.
const CLOCK_PERIOD: Duration = Duration::from_secs(3600);
/// A driver ends by itself; this is for one that does not.
const GRACE: Duration = Duration::from_secs(2);

/// What probing needs, and what it has found so far. One for the whole process.
pub struct Prober {
    caches: Caches,
    devices: Arc<Devices>,
    client: Client,
    clock: Clock,
    events: Events,
    metrics: Arc<Metrics>,
    found_off: FoundOff,
    known: Mutex<BTreeMap<Pair, Known>>,
}

/// What a probe came back with; it has none when somebody else talked to the device.
struct Answer {
    outcome: Result<Probe, DeviceError>,
    trimmed_keys: Vec<&'static str>,
    extent: Extent,
    /// The kubelet has renewed its Lease since the doubt arose, and before the device was asked.
    renewed: bool,
    /// It reads Off beside a Ready Node.
    doubt: Option<Doubt>,
    /// What of it needs renewal; none: its driver could not be made.
    upkeep: Option<Upkeep>,
}

/// What is known of a pair.
#[derive(Debug, Clone, Default)]
struct Known {
    driver: &'static str,
    finding: Option<Box<Finding>>,
    /// When the device's clock was read last (time since boot), and what it showed.
    clock: Option<(Duration, Option<DeviceClock>)>,
    readiness: Option<Readiness>,
    reachable: Option<bool>,
    identity_verified: Option<bool>,
    last_success: Option<Timestamp>,
    /// When a probe last read that the machine has power.
    last_on: Option<Timestamp>,
    /// The same as this process saw it: when it was asked for (time since boot).
    on_asked: Option<Duration>,
    /// What the device reads of the running machine (S25).
    control: Option<PositiveControl>,
    /// It read Off beside a Ready Node, and the kubelet has not answered yet.
    doubt: Option<Doubt>,
    /// What of it needs renewal.
    upkeep: Upkeep,
    /// When its certificate expires, as it presented it last.
    certificate_expiry: Option<Expiry>,
}

impl Prober {
    /// `client` writes the status of FenceDevices.
    pub fn new(
        caches: Caches,
        devices: Arc<Devices>,
        client: Client,
        clock: Clock,
        events: Events,
        metrics: Arc<Metrics>,
        found_off: FoundOff,
    ) -> Self {
        Self {
            caches,
            devices,
            client,
            clock,
            events,
            metrics,
            found_off,
            known: Mutex::default(),
        }
    }

    /// Probes until `changes` ends. The caches must be filled. Only the replica that leads may run this.
    pub async fn run(self: Arc<Self>, changes: mpsc::UnboundedReceiver<super::cache::Change>) {
        task::Task::new(Arc::clone(&self)).run(changes).await;
    }

    /// Why the device must not be used for this node: another node resolves to the same system, or had what answers now pinned before.
    fn in_the_way(
        &self,
        device: &FenceDevice,
        node: &str,
        finding: Option<&Finding>,
    ) -> Option<String> {
        let taken = || {
            let finding = finding?;
            let found = finding.identity.as_ref()?;
            self.devices.taken(device, &finding.node, found)
        };
        let duplicate = self.devices.duplicate(&device.name_any(), node);
        duplicate.or_else(taken)
    }

    /// What a probe has found. That the device reads Off of a running machine counts from now on, whenever its status is written.
    fn judged(&self, device: &FenceDevice, node: &str, finding: &Finding) -> Judgement {
        let duplicate = self.in_the_way(device, node, Some(finding));
        let judgement = judge::judge(device, finding, duplicate.as_deref());
        if let Some(row) = &judgement.control {
            self.devices.note_control(device, row);
        }
        judgement
    }

    /// The pair is gone, or is another one now.
    fn forget(&self, pair: &Pair) {
        self.known().remove(pair);
        self.found_off.forget(&pair.device, &pair.node);
    }

    /// How ready this process has found the device (its name) to be for the node; none: not looked at yet.
    pub fn readiness(&self, device: &str, node: &str) -> Option<Readiness> {
        let pair = Pair {
            device: device.to_owned(),
            node: node.to_owned(),
        };
        self.known().get(&pair)?.readiness
    }

    /// All pairs as they are known now, for the gauges. Quick.
    pub fn snapshot(&self) -> Vec<DeviceRow> {
        let known = self.known();
        let row = |(pair, known): (&Pair, &Known)| DeviceRow {
            device: pair.device.clone(),
            node: pair.node.clone(),
            driver: known.driver.to_owned(),
            reachable: known.reachable,
            identity_verified: known.identity_verified,
            last_success: known.last_success,
            off_while_running: known.reads_off_while_running(),
            name_resolved: known.upkeep.name_resolved,
            clock_ahead_seconds: known.clock_ahead_seconds(),
            expiries: known.expiries(),
        };
        known.iter().map(row).collect()
    }

    /// How the next look at a pair is made (time since boot).
    fn look(
        &self,
        device: &FenceDevice,
        pair: &Pair,
        ready_in: Option<&str>,
        now: Duration,
    ) -> (Extent, Freshness) {
        let known = self.known();
        let known = known.get(pair);
        let extent = extent(device, known, ready_in, now);
        (extent, freshness(known, extent))
    }

    /// The doubt that the next look at a pair is to settle.
    fn doubt_of(&self, pair: &Pair) -> Option<Doubt> {
        self.known().get(pair)?.doubt.clone()
    }

    /// None while somebody else talks to the device.
    async fn probe(
        &self,
        device: &FenceDevice,
        node: &str,
        (extent, freshness): (Extent, Freshness),
        doubt: Option<Doubt>,
    ) -> Option<Answer> {
        if !self.devices.is_group_free(device) {
            return None;
        }
        let access = match self.devices.access(device, node, freshness).await {
            Ok(access) => access,
            Err(error) => {
                return Some(Answer {
                    outcome: Err(error),
                    trimmed_keys: Vec::new(),
                    extent,
                    renewed: false,
                    doubt: None,
                    upkeep: None,
                });
            }
        };
        let driver = access.driver;
        let _turn = self.devices.turn_now(driver.as_ref())?;
        let mut session = driver.open();
        // What the others of its group take is not this device's time, nor may a fence of one of them wait for a queue of probes.
        if !session.take_turn_now() {
            return None;
        }
        let renewed = self.has_renewed(node, doubt.as_ref()).await;
        let limit = Duration::from_secs(device.spec.probe.timeout_seconds.into()) + GRACE;
        let begun = self.clock.since_boot();
        let answer = timeout(limit, session.probe(extent)).await;
        let took = self.clock.since_boot().saturating_sub(begun);
        self.metrics.probe_duration(driver.name(), took);
        let outcome = answer.unwrap_or_else(|_| {
            Err(DeviceError::Timeout {
                endpoint: driver.target(),
                waited: limit,
            })
        });
        drop(session);
        let doubt = self.doubt(node, &outcome, doubt).await;
        Some(Answer {
            renewed: renewed && doubt.is_some(),
            doubt,
            outcome,
            trimmed_keys: access.trimmed_keys,
            extent,
            upkeep: Some(self.devices.upkeep(access.host.as_ref(), access.expiries)),
        })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Pair, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// What was found, and how it is judged.
    fn take(&mut self, device: &FenceDevice, finding: Finding, judgement: &Judgement) {
        self.driver = device.spec.driver_name();
        self.readiness = Some(judgement.readiness());
        self.reachable = holds(judgement.reachable.status);
        if let Some(identity) = &judgement.identity {
            self.identity_verified = holds(identity.status);
        }
        if finding.outcome.is_ok() {
            self.last_success = Some(finding.at);
        }
        let on = seen(&finding, judgement, PowerState::has_power);
        self.last_on = on.or(self.last_on);
        let reading = finding.outcome.as_ref().ok().map(|it| &it.reading);
        let is_on = |it: &&Reading| on.is_some() && it.state == PowerState::On;
        self.on_asked = reading.filter(is_on).map(|it| it.asked).or(self.on_asked);
        self.control = judgement.control.clone();
        self.finding = Some(Box::new(finding));
    }

    /// What was found of this FenceDevice, by these settings. A change of them ends the probes only some moments later.
    fn finding(&self, device: &FenceDevice) -> Option<&Finding> {
        self.finding.as_deref().filter(|it| it.is_of(device))
    }

    /// It was read On in this boot, and answered last.
    fn has_shown_on(&self, boot_id: &str) -> bool {
        let finding = self.finding.as_ref();
        let row = self.control.as_ref();
        finding.is_some_and(|it| it.outcome.is_ok())
            && row.is_some_and(|it| it.power_state == PowerState::On && it.boot_id == boot_id)
    }

    /// It read Off while the kubelet renewed its Lease in this boot, and has not read On since.
    fn reads_off_while_running(&self) -> bool {
        let row = self.control.as_ref();
        let is_of = |boot_id: &str| {
            let finding = self.finding.as_ref();
            finding.is_none_or(|it| it.node.boot_id == boot_id)
        };
        row.is_some_and(|row| row.power_state == PowerState::Off && is_of(&row.boot_id))
    }

    /// What an earlier process has left in the status.
    fn from_status(device: &FenceDevice, node: &str) -> Self {
        let driver = device.spec.driver_name();
        // Other settings may lead to another device.
        let is_current =
            |it: &&FenceDeviceStatus| it.observed_generation == device.metadata.generation;
        let status = device.status.as_ref().filter(is_current);
        let mut rows = status.into_iter().flat_map(|it| &it.positive_controls);
        let control = rows.find(|row| row.node_name == node).cloned();
        let status = device
            .status
            .as_ref()
            .filter(|_| device.spec.node_name.is_some());
        let Some(status) = status else {
            return Self {
                driver,
                control,
                ..Self::default()
            };
        };
        let holds = |kind: &str| {
            let condition = conditions::find(&status.conditions, kind)?;
            is_true(&condition.status)
        };
        Self {
            driver,
            reachable: holds(REACHABLE),
            identity_verified: holds(IDENTITY_VERIFIED),
            last_success: status.last_success_time,
            last_on: status.last_on_time.filter(|_| is_current(&status)),
            control,
            ..Self::default()
        }
    }
}

/// The request for a probe, word for word.
fn request(device: &FenceDevice) -> Option<&String> {
    device.annotations().get(PROBE_REQUESTED_AT)
}

/// The time of the request for a probe, if there is one; the error is what stands there instead.
fn requested(device: &FenceDevice) -> Option<Result<Timestamp, String>> {
    let said = request(device)?;
    Some(said.trim().parse().map_err(|_| said.clone()))
}

/// The request that no probe has answered yet, as far as the status tells.
fn open_request(device: &FenceDevice) -> Option<Timestamp> {
    let at = requested(device)?.ok()?;
    let last = device.status.as_ref().and_then(|it| it.last_probe_time);
    last.is_none_or(|last| last < at).then_some(at)
}

fn is_true(status: &str) -> Option<bool> {
    match status {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    }
}

fn holds(status: ConditionStatus) -> Option<bool> {
    is_true(status.as_str())
}

#[cfg(test)]
mod tests;
