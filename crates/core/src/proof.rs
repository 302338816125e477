//! When do readings prove that a machine is down? The rule, and the only place that makes a [`Proof`].
//!
//! A proof cannot be stored, copied or made elsewhere: its fields are private and it implements neither Clone nor
//! Deserialize. It names the claim under which it was won, and it dies 15 seconds after its last reading was asked for, or with the
//! human's word that it rests on.
//! Deleting pods by force borrows one, setting the taint consumes one; the type system carries the rule from here.

use super::device::{DeviceReadings, Storage};
use super::not_proven::NotProven;
use super::observed::{LeaseView, NodeView, Ready};
use super::power_history::PowerHistory;
use super::reading::{PowerState, Reading};
use super::verification::{PROOF_LIFE, Require, Verification};
use std::collections::BTreeSet;
use std::time::Duration;

/// Everything a proof is judged on. The Node and the Lease are read by quorum after the last reading.
#[derive(Debug)]
pub struct Case<'a> {
    /// Our claim, as it was written.
    pub claim: &'a str,
    /// UID of the Node that was claimed.
    pub node_uid: &'a str,
    /// Boot ID of the Node when it was claimed.
    pub boot_id: &'a str,
    /// The Node now.
    pub node: &'a NodeView,
    /// The kubelet's Lease when the readings began.
    pub lease_before: &'a LeaseView,
    /// The kubelet's Lease now.
    pub lease_now: &'a LeaseView,
    /// A pod of which the kubelet has written something since the readings began.
    pub written: Option<&'a str>,
    /// When no pod could start on the node any more (time since boot).
    pub quiesced: Duration,
    /// The level's devices.
    pub devices: &'a [DeviceReadings],
    /// One reading of each device of the other levels, as far as they answered once the level's own read off.
    pub others: &'a [DeviceReadings],
    /// How many of the level's devices must be off.
    pub require: Require,
    /// What each device of the node has said last, in these readings and before.
    pub power_history: &'a PowerHistory,
    /// The policy's demands.
    pub verification: &'a Verification,
    /// An off command of this incident has turned the machine off, or may have.
    pub commanded: bool,
    /// Something answers at the kubelet's port.
    pub kubelet_answers: bool,
    /// A human's word, where the level rests on one, counts until then (time since boot), and so does what it proves.
    pub confirmed_until: Option<Duration>,
}

impl Case<'_> {
    /// The level's devices that said Off last, for people.
    fn devices(&self) -> String {
        let says_off =
            |it: &&DeviceReadings| last_reading(it).is_some_and(|it| it.state == PowerState::Off);
        let devices = self.devices.iter().filter(says_off);
        let names: Vec<&str> = devices.map(|device| device.device.as_str()).collect();
        format!("FenceDevice {}", names.join(", "))
    }
}

/// The machine is down, or kept from its volumes, under this claim, until the proof dies.
#[derive(Debug, PartialEq, Eq)]
pub struct Proof {
    claim: String,
    valid_until: Duration,
    covers: Option<BTreeSet<Storage>>,
}

impl Proof {
    /// The claim under which it was won.
    pub fn claim(&self) -> &str {
        &self.claim
    }

    /// It dies at this moment (time since boot).
    pub fn valid_until(&self) -> Duration {
        self.valid_until
    }

    /// The storages from whose volumes the node is kept, where nothing says that its machine is off (`StorageFenced`); none: it is off.
    pub fn covers(&self) -> Option<&BTreeSet<Storage>> {
        self.covers.as_ref()
    }
}

/// Judges the case at `now` (time since boot).
pub fn judge(case: &Case<'_>, now: Duration) -> Result<Proof, NotProven> {
    no_life(case)?;
    nobody_contradicts(case)?;
    let off = off_until(case, now);
    // Too short, too old or not by all at once: it proves nothing, and a kubelet that lives beside it speaks against it all the same.
    if read_off_last(case) {
        kubelet_wrote_nothing(case)?;
    }
    let (until, covers) = off?;
    if case.kubelet_answers {
        let devices = case.devices();
        return Err(NotProven::KubeletAnswers { devices });
    }
    nothing_else_reads_on(case)?;
    let dies = until + PROOF_LIFE;
    Ok(Proof {
        claim: case.claim.to_owned(),
        valid_until: case.confirmed_until.map_or(dies, |word| word.min(dies)),
        covers,
    })
}

/// Until when the machine was read off, by all of the devices that the level needs; and what is covered where none of them knows its power.
fn off_until(
    case: &Case<'_>,
    now: Duration,
) -> Result<(Duration, Option<BTreeSet<Storage>>), NotProven> {
    let off_run = |device: &DeviceReadings| {
        let run = device_is_off(device, case.quiesced, case.verification, now)?;
        can_read_on(case, device)?;
        Ok(run)
    };
    let (mut runs, mut covered) = (Vec::new(), Vec::new());
    let mut refusal = NotProven::NoDevice;
    for device in case.devices {
        match (off_run(device), case.require) {
            (Ok(run), _) => {
                runs.push(run);
                covered.push(device.covers.clone());
            }
            (Err(reason), Require::All) => return Err(reason),
            (Err(reason), Require::Any) if device.against().is_some() => return Err(reason),
            // What has died of age is read again at once, whatever the other device says.
            (Err(_), Require::Any) if matches!(refusal, NotProven::Stale { .. }) => {}
            (Err(reason), Require::Any) => refusal = reason,
        }
    }
    let until = match case.require {
        Require::All => runs.iter().map(|run| run.until).min(),
        Require::Any => runs.iter().map(|run| run.until).max(),
    };
    let Some(until) = until else {
        return Err(refusal);
    };
    if case.require == Require::All {
        off_together(case, &runs, until)?;
    }
    // One that reads the power is worth more than any storage.
    Ok((until, covered.into_iter().collect()))
}

/// Its Off counts: it has read On of this machine, before the incident or, where that was turned off by a command of ours, in it (S25).
fn can_read_on(case: &Case<'_>, device: &DeviceReadings) -> Result<(), NotProven> {
    let was_on = case.commanded && case.power_history.was_on(&device.device, &device.version);
    if device.control.is_shown() || was_on {
        return Ok(());
    }
    Err(device.control.missing(&device.device))
}

/// What a proof asks of each device, at `now`, and of nothing else: readings of off, asked for after `since`, by the right machine, long
/// enough and fresh. For `probe FILE`, which has no cluster: nobody has looked at the Node and at its Lease, and it is no [`Proof`].
pub fn reads_off(
    device: &DeviceReadings,
    since: Duration,
    verification: &Verification,
    now: Duration,
) -> Result<(), NotProven> {
    device_is_off(device, since, verification, now).map(drop)
}

/// A run of Off readings of one device.
struct OffRun {
    /// When the first of them was answered.
    since: Duration,
    /// When the last of them was asked for.
    until: Duration,
}

/// All devices were off during the same window: of two supplies that are off one after the other, one always feeds the machine.
fn off_together(case: &Case<'_>, runs: &[OffRun], until: Duration) -> Result<(), NotProven> {
    let since = runs.iter().map(|run| run.since).max().unwrap_or(until);
    let together = until.saturating_sub(since);
    if since <= until && together >= case.verification.window {
        return Ok(());
    }
    Err(NotProven::NotOffTogether {
        devices: case.devices(),
        together_ms: together.as_millis(),
        window_ms: case.verification.window.as_millis(),
    })
}

/// No device of the node has said On when these had read off, and nothing that takes it back since (S4, S22).
fn nobody_contradicts(case: &Case<'_>) -> Result<(), NotProven> {
    // Whoever gave the word has seen more than the devices say; what they say to it is asked beside it (S21).
    if case.confirmed_until.is_some() {
        return Ok(());
    }
    let off = have_read_off(case.devices);
    let contradiction = case
        .power_history
        .contradiction(&off, case.devices.len(), case.require);
    contradiction.map_or(Ok(()), Err)
}

/// Those that have read off: of one that is silent nobody would rest a proof on what it said before.
pub(super) fn have_read_off(devices: &[DeviceReadings]) -> Vec<&str> {
    let is_off = |it: &&DeviceReadings| {
        let mut readings = it.readings.iter();
        readings.any(|one| one.state == PowerState::Off)
    };
    let off = devices.iter().filter(is_off);
    off.map(|it| it.device.as_str()).collect()
}

/// What a device has said last: one that is silent since said it before.
fn last_reading(device: &DeviceReadings) -> Option<&Reading> {
    let mut readings = device.readings.iter().rev();
    readings.find(|reading| reading.state != PowerState::Unknown)
}

/// Is Off what the machine's devices said last, few or old as the readings may be? One of two supplies says nothing: the kubelet lives by the other
/// one.
fn read_off_last(case: &Case<'_>) -> bool {
    let has_said_off = |device: &DeviceReadings| {
        let is_its_own = |it: &Reading| device.identity.check(&device.device, &it.identity).is_ok();
        last_reading(device).is_some_and(|it| is_off(it, case.quiesced) && is_its_own(it))
    };
    match case.require {
        Require::All => !case.devices.is_empty() && case.devices.iter().all(has_said_off),
        Require::Any => case.devices.iter().any(has_said_off),
    }
}

/// The kubelet did not renew its Lease, nor write of its pods. Only beside a device that reads Off it is a contradiction (S22); beside one that reads On it is what has
/// to be expected.
fn kubelet_wrote_nothing(case: &Case<'_>) -> Result<(), NotProven> {
    if let Some(pod) = case.written {
        return Err(NotProven::PodWritten {
            devices: case.devices(),
            pod: pod.to_owned(),
        });
    }
    if case.lease_now == case.lease_before {
        return Ok(());
    }
    let [before, now] = [case.lease_before, case.lease_now].map(|lease| lease.renew_time.clone());
    let devices = case.devices();
    Err(NotProven::LeaseMoved {
        devices,
        before,
        now,
    })
}

/// No device of another level says that the machine has power: an outlet that feeds another machine is off as well.
fn nothing_else_reads_on(case: &Case<'_>) -> Result<(), NotProven> {
    let against = |other: &DeviceReadings| {
        let last = other.against()?;
        Some(NotProven::OtherReadsOn {
            devices: case.devices(),
            other: other.device.clone(),
            raw: last.raw.clone(),
        })
    };
    let against = case.others.iter().find_map(against);
    against.map_or(Ok(()), Err)
}

/// No sign of life on the Node since the claim: same Node, same boot, not Ready, and our claim still stands.
fn no_life(case: &Case<'_>) -> Result<(), NotProven> {
    let node = case.node;
    if node.uid != case.node_uid {
        return Err(NotProven::Alive(format!(
            "the Node has UID {}, when it was claimed {}",
            node.uid, case.node_uid
        )));
    }
    if node.claim() != Some(case.claim) {
        let stands = node.claim().unwrap_or("none");
        return Err(NotProven::Alive(format!(
            "the Node's claim is {stands}, ours is {}",
            case.claim
        )));
    }
    if node.boot_id != case.boot_id {
        return Err(NotProven::Alive(format!(
            "the Node has boot ID {}, when it was claimed {}",
            node.boot_id, case.boot_id
        )));
    }
    match node.ready() {
        Ready::False | Ready::Unknown => Ok(()),
        Ready::True => Err(NotProven::Alive("the Node is Ready".to_owned())),
        Ready::Missing => Err(NotProven::Alive(
            "the Node has lost its Ready condition".to_owned(),
        )),
    }
}

/// The device's last run of Off readings, all after quiesce, all by the right machine, long enough and fresh.
fn device_is_off(
    device: &DeviceReadings,
    quiesced: Duration,
    verification: &Verification,
    now: Duration,
) -> Result<OffRun, NotProven> {
    let name = || device.device.clone();
    let run: Vec<&Reading> = device
        .readings
        .iter()
        .rev()
        .take_while(|reading| is_off(reading, quiesced))
        .collect();
    for reading in &run {
        device.identity.check(&device.device, &reading.identity)?;
    }
    let off_run = run.first().zip(run.last()).map(|(newest, oldest)| OffRun {
        since: oldest.answered,
        until: newest.asked,
    });
    let span = off_run
        .as_ref()
        .map_or(Duration::ZERO, |run| run.until.saturating_sub(run.since));
    let off_reads_min = verification.off_reads_min.max(2);
    match off_run {
        Some(off_run) if run.len() >= off_reads_min && span >= verification.window => {
            let age = now.saturating_sub(off_run.until);
            if now < off_run.until || age > PROOF_LIFE {
                return Err(NotProven::Stale {
                    device: name(),
                    age_ms: age.as_millis(),
                });
            }
            Ok(off_run)
        }
        _ => Err(NotProven::NotOffLongEnough {
            device: name(),
            off: run.len(),
            span_ms: span.as_millis(),
            needed: off_reads_min,
            window_ms: verification.window.as_millis(),
            last: device
                .readings
                .last()
                .map_or_else(|| "none".to_owned(), Reading::to_string),
        }),
    }
}

/// Off, without a fault bit, and asked for after no pod could start any more.
fn is_off(reading: &Reading, quiesced: Duration) -> bool {
    reading.is_off() && reading.asked >= quiesced
}

#[cfg(test)]
mod tests;
