//! When do readings prove that a machine is down? The rule, and the only place that makes a [`Proof`].
//!
//! A proof cannot be stored, copied or made elsewhere: its fields are private and it implements neither Clone nor
//! Deserialize. It names the claim under which it was won, and it dies 15 seconds after its last reading was asked for.
//! Deleting pods by force borrows one, setting the taint consumes one; the type system carries the rule from here.

use super::observed::{LeaseView, NodeView, Ready};
use super::reading::{PowerState, Reading};
use std::time::Duration;

/// A proof dies this long after its last reading was asked for.
pub const PROOF_LIFE: Duration = Duration::from_secs(15);

/// How the machine behind a device is recognised (S5).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum IdentityRule {
    /// The device must name this system UUID, in either byte order.
    Is(String),
    /// The device should name this system UUID; one that names none is believed.
    IsOrSilent(String),
    /// Nothing is compared: the user said so for this device.
    Skip,
    /// An identity is required and none was pinned while the node was Ready.
    NotPinned,
    /// Whoever answers cannot be told apart from another machine, for this reason: two nodes on one system, or a Node whose
    /// own system UUID is no longer the pinned one.
    Refused(String),
}

impl IdentityRule {
    /// Is this the machine? The error says what was expected, what was found and what to do.
    pub fn check(&self, device: &str, reading: &Reading) -> Result<(), NotProven> {
        let found = reading.identity.system_uuid.clone();
        let (expected, silent_is_fine) = match self {
            Self::Skip => return Ok(()),
            Self::NotPinned => {
                return Err(NotProven::IdentityNotPinned {
                    device: device.to_owned(),
                });
            }
            Self::Refused(why) => {
                return Err(NotProven::IdentityRefused {
                    device: device.to_owned(),
                    why: why.clone(),
                });
            }
            Self::Is(uuid) => (uuid, false),
            Self::IsOrSilent(uuid) => (uuid, true),
        };
        match found {
            None if silent_is_fine => Ok(()),
            Some(_) if reading.identity.is_system(expected) => Ok(()),
            found => Err(NotProven::WrongMachine {
                device: device.to_owned(),
                expected: expected.clone(),
                found: found.unwrap_or_else(|| "none".to_owned()),
            }),
        }
    }
}

/// What one device said since the node was quiesced.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeviceReadings {
    /// FenceDevice name.
    pub device: String,
    /// Version of the FenceDevice that was asked, as [`super::incident::Device::version`].
    pub version: String,
    /// Who must answer there.
    pub identity: IdentityRule,
    /// All readings of the session, oldest first.
    pub readings: Vec<Reading>,
}

/// How many devices of a level must read off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Require {
    /// Every one: two supplies, two outlets.
    All,
    /// One is enough: two ways to the same supply.
    Any,
}

/// The policy's demands on a proof.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Verification {
    /// Consecutive Off readings, 2 at least.
    pub off_reads_min: usize,
    /// They must lie at least this far apart, first answer to last question.
    pub window: Duration,
}

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
    /// When no pod could start on the node any more (time since boot).
    pub quiesced: Duration,
    /// The level's devices.
    pub devices: &'a [DeviceReadings],
    /// How many of them must be off.
    pub require: Require,
    /// The policy's demands.
    pub verification: &'a Verification,
    /// Something answers at the kubelet's port.
    pub kubelet_answers: bool,
}

/// The machine is down, under this claim, until the proof dies.
#[derive(Debug, PartialEq, Eq)]
pub struct Proof {
    claim: String,
    valid_until: Duration,
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
}

/// Why there is no proof, in words for people.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NotProven {
    /// The Node no longer is the one that was claimed, or shows life.
    #[error("{0}")]
    Alive(String),
    /// The kubelet's Lease moved although the device reads Off (S22).
    #[error(
        "the kubelet's Lease was renewed ({before} -> {now}) while the device reads Off: the device lies or is wired to another machine"
    )]
    LeaseMoved {
        /// renewTime when the readings began.
        before: String,
        /// renewTime now.
        now: String,
    },
    /// The kubelet answers although the device reads Off (S22).
    #[error(
        "the kubelet's port answers although the device reads Off: the device lies or is wired to another machine"
    )]
    KubeletAnswers,
    /// Another machine answers at the device's address.
    #[error(
        "FenceDevice {device}: the machine that answers has system UUID {found}, pinned for this node is {expected}; correct the device's address or `systemID`"
    )]
    WrongMachine {
        /// FenceDevice name.
        device: String,
        /// The UUID that was pinned.
        expected: String,
        /// The UUID that answered.
        found: String,
    },
    /// Nobody knows which machine should answer.
    #[error(
        "FenceDevice {device}: no system UUID was pinned while the node was Ready, and `identityCheck` is Required; set it to BestEffort to accept the Node's own `systemUUID`"
    )]
    IdentityNotPinned {
        /// FenceDevice name.
        device: String,
    },
    /// Whoever answers cannot be told apart from another machine.
    #[error("FenceDevice {device}: {why}")]
    IdentityRefused {
        /// FenceDevice name.
        device: String,
        /// Why, and the way out.
        why: String,
    },
    /// A device has not read Off often and long enough.
    #[error(
        "FenceDevice {device}: {off} consecutive Off readings over {span_ms} ms, {needed} over {window_ms} ms are needed; last reading: {last}"
    )]
    NotOffLongEnough {
        /// FenceDevice name.
        device: String,
        /// Off readings at the end.
        off: usize,
        /// What they span, in milliseconds.
        span_ms: u128,
        /// How many are needed.
        needed: usize,
        /// What they must span, in milliseconds.
        window_ms: u128,
        /// The last reading, word for word.
        last: String,
    },
    /// The readings are too old.
    #[error(
        "the last Off reading of FenceDevice {device} is {age_ms} ms old, a proof lives {} ms",
        PROOF_LIFE.as_millis()
    )]
    Stale {
        /// FenceDevice name.
        device: String,
        /// Its age in milliseconds.
        age_ms: u128,
    },
    /// The level has no device.
    #[error("no device has been read")]
    NoDevice,
}

impl NotProven {
    /// Life beside a device that reads Off (S22): it stops the fence, everything else is tried again.
    pub fn is_contradiction(&self) -> bool {
        matches!(self, Self::LeaseMoved { .. } | Self::KubeletAnswers)
    }
}

/// Judges the case at `now` (time since boot).
pub fn judge(case: &Case<'_>, now: Duration) -> Result<Proof, NotProven> {
    no_life(case)?;
    let mut last_asked = Vec::new();
    let mut refusal = NotProven::NoDevice;
    for device in case.devices {
        if case.require == Require::Any && reads_on(device) {
            return device_is_off(device, case, now).and(Err(NotProven::NoDevice));
        }
        match (device_is_off(device, case, now), case.require) {
            (Ok(asked), _) => last_asked.push(asked),
            (Err(reason), Require::All) => return Err(reason),
            (Err(reason), Require::Any) => refusal = reason,
        }
    }
    let oldest = match case.require {
        Require::All => last_asked.iter().min(),
        Require::Any => last_asked.iter().max(),
    };
    let Some(asked) = oldest else {
        return Err(refusal);
    };
    lease_unmoved(case)?;
    if case.kubelet_answers {
        return Err(NotProven::KubeletAnswers);
    }
    Ok(Proof {
        claim: case.claim.to_owned(),
        valid_until: *asked + PROOF_LIFE,
    })
}

/// The kubelet did not renew its Lease. Looked at last: only beside a device that reads Off it is a contradiction (S22), and
/// beside one that reads On it is what has to be expected.
fn lease_unmoved(case: &Case<'_>) -> Result<(), NotProven> {
    if case.lease_now == case.lease_before {
        return Ok(());
    }
    let [before, now] = [case.lease_before, case.lease_now].map(|lease| lease.renew_time.clone());
    Err(NotProven::LeaseMoved { before, now })
}

/// No sign of life on the Node since the claim: same Node, same boot, not Ready, and our claim still stands.
fn no_life(case: &Case<'_>) -> Result<(), NotProven> {
    let node = case.node;
    if node.uid != case.node_uid {
        return Err(NotProven::Alive(format!(
            "the Node has UID {}, claimed was {}",
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
            "the Node has boot ID {}, claimed was {}",
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

/// The device's last run of Off readings, all after quiesce, all by the right machine, long enough and fresh. Returns
/// when the last of them was asked for.
fn device_is_off(
    device: &DeviceReadings,
    case: &Case<'_>,
    now: Duration,
) -> Result<Duration, NotProven> {
    let name = || device.device.clone();
    let run: Vec<&Reading> = device
        .readings
        .iter()
        .rev()
        .take_while(|reading| is_off(reading, case.quiesced))
        .collect();
    for reading in &run {
        device.identity.check(&device.device, reading)?;
    }
    let (newest, oldest) = (run.first(), run.last());
    let span = match (newest, oldest) {
        (Some(newest), Some(oldest)) => newest.asked.saturating_sub(oldest.answered),
        _ => Duration::ZERO,
    };
    let off_reads_min = case.verification.off_reads_min.max(2);
    match newest {
        Some(newest) if run.len() >= off_reads_min && span >= case.verification.window => {
            let age = now.saturating_sub(newest.asked);
            if now < newest.asked || age > PROOF_LIFE {
                return Err(NotProven::Stale {
                    device: name(),
                    age_ms: age.as_millis(),
                });
            }
            Ok(newest.asked)
        }
        _ => Err(NotProven::NotOffLongEnough {
            device: name(),
            off: run.len(),
            span_ms: span.as_millis(),
            needed: off_reads_min,
            window_ms: case.verification.window.as_millis(),
            last: device
                .readings
                .last()
                .map_or_else(|| "none".to_owned(), |reading| reading.raw.clone()),
        }),
    }
}

/// The right machine's device says last that it is not off: no other way to it can say that it is (S4).
fn reads_on(device: &DeviceReadings) -> bool {
    device.readings.last().is_some_and(|last| {
        matches!(last.state, PowerState::On | PowerState::Transitional)
            && device.identity.check(&device.device, last).is_ok()
    })
}

/// Off, without a fault bit, and asked for after no pod could start any more.
fn is_off(reading: &Reading, quiesced: Duration) -> bool {
    reading.state == PowerState::Off && reading.faults.is_empty() && reading.asked >= quiesced
}

#[cfg(test)]
mod tests;
