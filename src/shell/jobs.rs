//! Device work, outside of any reconcile slot: a slow or hung BMC delays nobody but its own incident (L5).
//!
//! A job carries out one order of the core with all devices of a level, side by side, and reports what they said. It decides
//! nothing but one thing: right before an off command leaves, the claim is read once more, and beside it whether anybody has said no since, and
//! without the one or against the other nothing is sent; before an on command leaves, that there is no claim.

mod knocking;
mod power_off;
mod power_on;
mod readings;
mod unwanted;

use super::context::Context;
use super::early::EarlyDrivers;
use super::{observe, resolve};
use fencing_api::settings::FenceMode;
use fencing_core::answer::DeviceReply;
use fencing_core::attempt::OffResult;
use fencing_core::decision::DeviceOrder;
use fencing_core::device::DeviceAnswer;
use fencing_core::device::DeviceReadings;
use fencing_core::device::{Device, Level};
use fencing_core::manual_confirmation;
use fencing_core::memory::OwnClaim;
use fencing_core::observed::{LeaseView, PodView};
use fencing_core::reading::{PowerState, Reading};
use fencing_core::settings::Settings;
use fencing_drivers::FenceDriver;
use fencing_drivers::clock::{self, Clock};
use fencing_drivers::manual::Manual;
use futures::future::join_all;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// How long one question to a device may take, its turn and its Secret included.
const LOOK_TIMEOUT: Duration = Duration::from_secs(20);

/// The driver is told to send a command this long after the question for the claim at the latest (F12), on a clock that counts suspend. It
/// sends at once, on the connection that the preparation has left open, or on a new one if that takes no more than another second. What is
/// sent again, and further outlets of a PDU, follow within the command's 5 s, or not at all.
const CLAIM_LIFE: Duration = Duration::from_secs(1);

/// The list beside a look may take so long.
const PODS_NOW_TIMEOUT: Duration = Duration::from_secs(1);

/// An order, and all that it needs.
pub struct Job {
    /// What to do.
    pub order: DeviceOrder,
    /// With which devices.
    pub level: Level,
    /// For how long at most.
    pub limit: Duration,
    /// The incident's settings.
    pub settings: Settings,
    /// The claim under which a command may be sent.
    pub claim: Option<OwnClaim>,
    /// The Lease that the kubelet of a silent node had then: another one forbids the off command before the taint.
    pub lease: Option<LeaseView>,
    /// What was made beside the claim.
    pub early: Option<EarlyDrivers>,
    /// What the devices have said so far, for whoever ends the work before it has an answer.
    pub heard: Heard,
}

/// Readings of a job, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Heard(Arc<Mutex<Vec<DeviceAnswer>>>);

impl Heard {
    /// A device has said this.
    pub fn note(&self, device: &Device, reading: &Reading) {
        if reading.state == PowerState::Unknown {
            return;
        }
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut earlier = heard.iter_mut().rev();
        let last = earlier.find(|sight| sight.device == *device);
        match last.map(|sight| &mut sight.reading) {
            // Of the same words the first Off and the last On say as much as all of them.
            Some(Ok(last)) if last.says_the_same(reading) => {
                if reading.state != PowerState::Off {
                    *last = reading.clone();
                }
            }
            _ => heard.push(DeviceAnswer {
                device: device.clone(),
                reading: Ok(reading.clone()),
            }),
        }
    }

    /// Takes them out.
    pub fn take(&self) -> Vec<DeviceAnswer> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Carries the order out. Dropping the future ends all device work at once.
pub async fn run(context: &Context, job: &Job) -> DeviceReply {
    if !matches!(job.order, DeviceOrder::Confirm { .. }) {
        // It has the turn that this needs.
        job.early.iter().for_each(EarlyDrivers::disconnect);
    }
    match &job.order {
        DeviceOrder::ReadPower => {
            let answers = async {
                // First, and to the end: what answers may speak against a human's word, and the word does not grow old.
                let mut answers = match job.level.is_manual() {
                    true => readings::witnesses(context, job).await,
                    false => Vec::new(),
                };
                answers.extend(readings::answers(context, job, readings::OTHERS_GRACE).await);
                answers
            };
            let answers = answers.await;
            // A device that does not answer, or says On where the machine is not turned off, is asked again and again, and pods are of no use then.
            let is_of_use = |answer: &DeviceAnswer| match job.settings.mode() {
                FenceMode::ConfirmOnly => answer.is_off(),
                _ => answer.reading.is_ok(),
            };
            let pods = match answers.iter().any(is_of_use) {
                true => pods_now(context, job).await,
                false => None,
            };
            DeviceReply::PowerRead { answers, pods }
        }
        DeviceOrder::Off(attempt) => {
            // To those that were written down, and to no other.
            let is_written = |device: &&Device| attempt.devices.contains(&device.name);
            let devices = job.level.devices.iter().filter(is_written);
            let commands = devices.map(|device| power_off::off(context, job, device, attempt));
            let results = join_all(commands).await.into_iter().collect();
            let answers = job.heard.take();
            DeviceReply::Commanded { answers, results }
        }
        DeviceOrder::On(attempt) => {
            let names = &attempt.devices;
            let devices = job.level.devices.iter();
            let devices = devices.filter(|device| names.contains(&device.name));
            let commands = devices.map(|device| power_on::on(context, job, device, attempt));
            DeviceReply::TurnedOn(join_all(commands).await.into_iter().collect())
        }
        DeviceOrder::Confirm { window } => {
            readings::of_level(context, job, *window, readings::OTHERS_GRACE).await
        }
    }
}

/// The answer of work that was lost on the way. What was said before a command is said with it.
pub fn lost(job: &Job) -> DeviceReply {
    let why = "the device task ended without an answer";
    let mut reply = unanswered(&job.order, &job.level.devices, why);
    if let DeviceReply::Commanded { answers, .. } = &mut reply {
        *answers = job.heard.take();
    }
    reply
}

/// The answer to an order that could not be carried out, or whose work was lost on the way. A command may have been sent then.
pub fn unanswered(order: &DeviceOrder, devices: &[Device], why: &str) -> DeviceReply {
    let sight = |device: &Device| DeviceAnswer {
        device: device.clone(),
        reading: Err(why.to_owned()),
    };
    match order {
        DeviceOrder::ReadPower => DeviceReply::PowerRead {
            answers: devices.iter().map(sight).collect(),
            pods: None,
        },
        DeviceOrder::Off(attempt) => {
            let result = match devices.is_empty() {
                true => OffResult::NotSent(why.to_owned()),
                false => OffResult::Unknown(why.to_owned()),
            };
            let names = attempt.devices.iter().cloned();
            DeviceReply::Commanded {
                answers: Vec::new(),
                results: names.map(|name| (name, result.clone())).collect(),
            }
        }
        DeviceOrder::On(attempt) => {
            DeviceReply::TurnedOn(power_on::unanswered(attempt, devices.is_empty(), why))
        }
        DeviceOrder::Confirm { .. } => DeviceReply::Confirmed {
            readings: devices
                .iter()
                .map(|it| DeviceReadings::of(it, Vec::new()))
                .collect(),
            failures: vec![why.to_owned()],
            others: Vec::new(),
            kubelet_answers: None,
            pods: Vec::new(),
        },
    }
}

/// The node's pods before it is claimed. Nobody waits long for them: they can be listed under the claim too.
async fn pods_now(context: &Context, job: &Job) -> Option<Vec<PodView>> {
    if job.claim.is_some() {
        return None;
    }
    let pods = observe::pods(context, &job.settings.node);
    let pods = timeout(PODS_NOW_TIMEOUT, pods).await.ok()?;
    pods.present().cloned()
}

/// The device's version, as in the order, and its driver for this node.
async fn driver(
    context: &Context,
    job: &Job,
    device: &Device,
) -> Result<(String, Arc<dyn FenceDriver>), String> {
    if device.manual {
        let word = manual_confirmation::valid_confirmation(&job.settings, clock::since_boot());
        let driver = Manual::new(word, Clock::SYSTEM);
        return Ok((device.version.clone(), Arc::new(driver)));
    }
    let live = context.caches.device(&device.name);
    let live = live.ok_or_else(|| "it was deleted".to_owned())?;
    let version = resolve::version(&live);
    // What it says would be heard as what it was: an outlet as a machine, or the other way round.
    if version != device.version {
        return Err("it was changed meanwhile, trying again with its new version".to_owned());
    }
    let early = job.early.as_ref();
    if let Some(driver) =
        early.and_then(|early| early.driver(&device.name, &version, clock::since_boot()))
    {
        return Ok((version, driver));
    }
    let driver = context.driver(&live, &job.settings.node).await?;
    Ok((version, driver))
}

async fn look(context: &Context, job: &Job, device: &Device) -> DeviceAnswer {
    // A rack that is dark keeps hundreds of looks waiting: without a file left, no other device could be asked, nor /livez answered.
    let is_bounded = job.claim.is_none() && !device.manual;
    let _room = match is_bounded {
        true => context.devices.room().await,
        false => None,
    };
    let question = async {
        let room = match is_bounded {
            true => context.devices.room_for_secret().await,
            false => None,
        };
        let (_, driver) = driver(context, job, device).await?;
        drop(room);
        let _turn = context.devices.turn(driver.as_ref()).await;
        let answer = driver.open().observe().await;
        answer.map_err(|error| error.to_string())
    };
    let reading = match timeout(LOOK_TIMEOUT, question).await {
        Ok(reading) => reading,
        Err(_) => Err(format!("no answer within {} s", LOOK_TIMEOUT.as_secs())),
    };
    if let Ok(reading) = &reading {
        job.heard.note(device, reading);
    }
    DeviceAnswer {
        device: device.clone(),
        reading,
    }
}

/// The last that is asked before a command leaves, where nothing is waited for any more: this replica leads, the cluster has not gone back in
/// time, and what allows the command was read just now.
fn may_still_leave(context: &Context, looked: Duration, what: &str) -> Result<(), String> {
    let now = clock::since_boot();
    if context.term_end.is_over(now) {
        return Err("this replica is no longer the leader".to_owned());
    }
    if let Some(why) = context.revision.frozen() {
        return Err(why);
    }
    let age = now.saturating_sub(looked);
    if age > CLAIM_LIFE {
        return Err(format!(
            "{what} was read {} ms before the command, at most {} ms allowed",
            age.as_millis(),
            CLAIM_LIFE.as_millis()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
