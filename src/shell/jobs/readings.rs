//! The reads for a proof: all devices of a level until they are off together, and beside them everything that could speak against it.
//!
//! That is the kubelet's port, pods that come meanwhile, and the devices of the node's other levels: where they answer, none of them
//! may say that the machine is on. None of this is judged here.

use super::knocking::Knocking;
use super::{Job, LOOK_TIMEOUT, driver, look};
use crate::shell::context::Context;
use crate::shell::observe;
use fencing_core::answer::{DeviceReply, PodList};
use fencing_core::device::Device;
use fencing_core::device::DeviceAnswer;
use fencing_core::device::DeviceReadings;
use fencing_core::observed::Read;
use fencing_core::reading::{PowerState, Reading};
use fencing_core::verification::Require;
use fencing_drivers::DeviceError;
use fencing_drivers::clock::{self, Clock};
use fencing_drivers::confirm::{ConfirmPlan, Ended, Together, confirm};
use futures::future::join_all;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// Pause after a list that failed.
const LIST_PAUSE: Duration = Duration::from_millis(100);
/// The other levels' devices are waited for this long after the level's own have been read: a fifth of a proof's life.
pub(super) const OTHERS_GRACE: Duration = Duration::from_secs(3);

/// What the readings set off as they arrive.
#[derive(Default)]
struct OffSeen {
    /// Each reading of off.
    each: Notify,
    /// The first one.
    first: Notify,
    /// What those of all devices set off.
    knocking: Knocking,
}

/// Reads all devices of the job's level, over this window at least; those of the other levels are waited for so long once these have
/// been read ([`OTHERS_GRACE`]).
pub async fn of_level(
    context: &Context,
    job: &Job,
    window: Duration,
    grace: Duration,
) -> DeviceReply {
    let off_seen = OffSeen::default();
    let plan = ConfirmPlan {
        reads: u32::try_from(job.settings.verification.off_reads_min).unwrap_or(u32::MAX),
        period: job.settings.read_period,
        window,
        // A window that the core had to lengthen is not cut off by what little time its level has left.
        deadline: job.limit.max(window + LOOK_TIMEOUT),
    };
    let devices = &job.level.devices;
    let level = &Together::new(job.level.require, devices.len(), plan, Clock::SYSTEM);
    let devices = devices.iter().enumerate();
    let reads =
        devices.map(|(index, device)| read(context, job, (index, device), level, &off_seen));
    let mut lists = Vec::new();
    let said = Mutex::default();
    let readings = async {
        tokio::select! {
            biased;
            readings = join_all(reads) => readings,
            never = list_pods(context, job, &off_seen.each, &mut lists) => match never {},
        }
    };
    let readings = async {
        if job.level.is_manual() {
            // A word does not grow old, and is weaker than any device that answers: these are waited for.
            others(context, job, &said).await;
            if is_refuted(&said) {
                let unread = |device: &Device| (DeviceReadings::of(device, Vec::new()), None);
                return job.level.devices.iter().map(unread).collect();
            }
            return readings.await;
        }
        let beside = async {
            off_seen.first.notified().await;
            others(context, job, &said).await;
        };
        let (mut readings, mut beside) = (pin!(readings), pin!(beside));
        tokio::select! {
            biased;
            readings = &mut readings => {
                let is_needed = readings.iter().any(|(device, _)| reads_off(device));
                let grace = if is_needed { grace } else { Duration::ZERO };
                // Whoever has not answered by then has said nothing; whoever has is heard.
                let _ = timeout(grace, beside).await;
                readings
            }
            () = &mut beside => readings.await,
        }
    };
    let knocking = &off_seen.knocking;
    let (readings, kubelet_answers) = knocking.beside(context, job, &plan, readings).await;
    let others = said.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (readings, failures): (Vec<_>, Vec<_>) = readings.into_iter().unzip();
    DeviceReply::Confirmed {
        readings,
        failures: failures.into_iter().flatten().collect(),
        others,
        kubelet_answers,
        pods: lists,
    }
}

/// Somebody says that the machine has power: the word is not even read.
fn is_refuted(said: &Mutex<Vec<DeviceReadings>>) -> bool {
    let said = said.lock().unwrap_or_else(PoisonError::into_inner);
    said.iter().any(|device| device.against().is_some())
}

fn reads_off(device: &DeviceReadings) -> bool {
    let last = device.readings.last();
    last.is_some_and(|last| last.state == PowerState::Off)
}

/// One look at each device of the other levels. What one says is noted at once: a device that hangs silences no other. Of one that does not answer it
/// is noted that it was asked: what it said before is not what it says now.
async fn others(context: &Context, job: &Job, said: &Mutex<Vec<DeviceReadings>>) {
    let note = |device: &Device, reading: Option<Reading>| {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        // Of a device that two levels have each look stands by itself: whichever of them says On speaks against a proof.
        let is_asked =
            |it: &&mut DeviceReadings| it.device == device.name && it.readings.is_empty();
        match said.iter_mut().find(is_asked) {
            Some(known) => known.readings.extend(reading),
            None => said.push(DeviceReadings::of(device, reading.into_iter().collect())),
        }
    };
    let note = &note;
    let looks = job
        .settings
        .other_devices(&job.level)
        .map(|device| async move {
            note(device, None);
            note(device, look(context, job, device).await.reading.ok());
        });
    join_all(looks).await;
}

/// One look at each device of the level, in their order. Where one is enough, the others are waited for so long once it has answered.
pub(super) async fn answers(context: &Context, job: &Job, grace: Duration) -> Vec<DeviceAnswer> {
    let (said, answered) = (Mutex::new(Vec::new()), Notify::new());
    let looks = join_all(job.level.devices.iter().map(async |device| {
        let sight = look(context, job, device).await;
        if sight.reading.is_ok() {
            answered.notify_one();
        }
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.push(sight);
    }));
    let enough = async {
        answered.notified().await;
        sleep(grace).await;
    };
    match job.level.require {
        Require::All => drop(looks.await),
        Require::Any => tokio::select! {
            biased;
            _ = looks => {}
            () = enough => {}
        },
    }
    let said = said.into_inner().unwrap_or_else(PoisonError::into_inner);
    let sight = |device: &Device| {
        let said = said.iter().find(|sight| sight.device == *device);
        said.cloned().unwrap_or_else(|| DeviceAnswer {
            device: device.clone(),
            reading: Err(format!(
                "no answer within {} s of another device's",
                grace.as_secs()
            )),
        })
    };
    job.level.devices.iter().map(sight).collect()
}

/// One look at each device of the other levels, in their order.
pub(super) async fn witnesses(context: &Context, job: &Job) -> Vec<DeviceAnswer> {
    let witnesses = job.settings.other_devices(&job.level);
    join_all(witnesses.map(|device| look(context, job, device))).await
}

/// Lists the node's pods after each reading of off, for as long as the readings last: of a list that was complete before the
/// power was read last there is then one, however slow the device or the API server.
async fn list_pods(
    context: &Context,
    job: &Job,
    off_seen: &Notify,
    lists: &mut Vec<PodList>,
) -> Infallible {
    loop {
        off_seen.notified().await;
        match observe::pods(context, &job.settings.node).await {
            Read::Present(pods) => lists.push(PodList {
                pods,
                answered: clock::since_boot(),
            }),
            _ => {
                sleep(LIST_PAUSE).await;
                off_seen.notify_one();
            }
        }
    }
}

/// Reads in a session of its own until the level is settled, or until time is up.
async fn read(
    context: &Context,
    job: &Job,
    (index, device): (usize, &Device),
    level: &Together,
    off_seen: &OffSeen,
) -> (DeviceReadings, Option<String>) {
    let nothing = |reason: String| {
        // The others need not wait for it.
        level.leave(index);
        let reason = format!("FenceDevice {}: {reason}", device.name);
        (DeviceReadings::of(device, Vec::new()), Some(reason))
    };
    let (version, driver) = match driver(context, job, device).await {
        Ok(found) => found,
        Err(reason) => return nothing(reason),
    };
    let early = job.early.as_ref();
    let connected =
        early.and_then(|early| early.connected(&device.name, &version, clock::since_boot()));
    let (session, _turn) = match connected {
        Some(connected) => connected,
        None => {
            let turn = context.devices.turn(driver.as_ref());
            let Ok(turn) = timeout(job.limit, turn).await else {
                let limit = job.limit.as_secs();
                return nothing(format!("another call to it has not ended within {limit} s"));
            };
            (driver.open(), turn)
        }
    };
    let watch = |reading: &Reading| {
        job.heard.note(device, reading);
        if reading.state == PowerState::Off {
            off_seen.each.notify_one();
            off_seen.first.notify_one();
            off_seen.knocking.note_off(job, index);
        }
        // An error names nobody; a machine that answers must be the right one.
        let named = reading.state != PowerState::Unknown || reading.identity.system_uuid.is_some();
        match device.identity.check(&device.name, &reading.identity) {
            Err(wrong) if named => ControlFlow::Break(wrong.to_string()),
            _ => ControlFlow::Continue(()),
        }
    };
    let confirmation = confirm(level, index, driver.as_ref(), session, watch).await;
    let failure = match confirmation.ended {
        Ended::Stable | Ended::Settled => None,
        Ended::Deadline(error) => Some(error.map_or_else(
            || "not off in time".to_owned(),
            |error: DeviceError| error.to_string(),
        )),
        Ended::Stopped(reason) => Some(reason),
        Ended::Failed(error) => Some(error.to_string()),
    };
    let readings = DeviceReadings {
        version,
        ..DeviceReadings::of(device, confirmation.readings)
    };
    (
        readings,
        failure.map(|reason| format!("FenceDevice {}: {reason}", device.name)),
    )
}
