//! From a NodeFence and the live objects beside it to the settings of its incident.
//!
//! What the NodeFence froze is used as it stands; devices are resolved live, because a corrected address must help a fence
//! that runs. A policy that was deleted or narrowed only ever stops a fence before its taint (S15).

mod begun;
mod elsewhere;
mod power_on;

pub use elsewhere::elsewhere;
pub use power_on::{by_others, no_off, power_on, taken_since};

use self::begun::begun;
use super::devices::Devices;
use fencing_api::device::{FenceDevice, Reads};
use fencing_api::fence::{ApprovalDecision, DesiredState, NodeFence, TriggerType};
use fencing_api::fence_status::NodeFenceStatus;
use fencing_api::policy::{DurationPolicy, NodeFencingPolicy};
use fencing_api::settings::{ApprovalMode, FenceLevel, FenceMode, LevelRequirement};
use fencing_core::control::Control;
use fencing_core::delay::{HeldCondition, Now, Since};
use fencing_core::device::{Device, Level, Storage};
use fencing_core::identity::{one_and_the_same, same_device_message};
use fencing_core::identity_rule::IdentityRule;
use fencing_core::observed::NodeView;
use fencing_core::select::serving;
use fencing_core::settings::{Approval, ManualConfirmation, Record, Settings};
use fencing_core::verification::{Require, Verification};
use fencing_core::window::{self, Begun, Effective, Unusable, rank};
use fencing_core::{delay, select, support};
use fencing_drivers::clock;
use fencing_drivers::targets;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Name of the level of a human's word, where the NodeFence has none with driver `manual`.
const BY_HAND: &str = "manualConfirmation";

/// A word that is dated further ahead is not believed to be of now: each restart of the operator would make it young again.
const CLOCKS_APART_MAX: SignedDuration = SignedDuration::from_mins(1);

/// Moments of an incident that are told by the wall clock, and asked for once.
#[derive(Debug, Clone, Copy)]
pub struct Moments {
    /// The node is not claimed before (time since boot).
    pub not_before: Duration,
    /// When a human gave the word, if anybody has.
    pub word_given: Option<Since>,
    /// It was dated later than it was heard of.
    pub word_is_ahead: bool,
}

impl Moments {
    /// Of a NodeFence that this process hears of now.
    pub fn of(fence: &NodeFence, now: Now) -> Self {
        Self {
            not_before: delay::not_before(&fence.spec.trigger, now),
            word_given: None,
            word_is_ahead: false,
        }
    }

    /// Notes the word when it is heard of first.
    pub fn listen(&mut self, fence: &NodeFence, now: Now) {
        let (None, Some(word)) = (self.word_given, &fence.spec.manual_confirmation) else {
            return;
        };
        self.word_given = Some(Since::at(word.time, now));
        self.word_is_ahead = word.time.duration_since(now.wall) > CLOCKS_APART_MAX;
    }
}

/// The policy of an incident as it is now.
#[derive(Debug)]
pub struct Live<'a> {
    policy: &'a NodeFencingPolicy,
    /// What its windows make of it.
    effective: Result<Effective, Unusable>,
}

impl<'a> Live<'a> {
    /// At `now`, by the wall clock.
    pub fn at(policy: &'a NodeFencingPolicy, now: Timestamp) -> Self {
        Self {
            policy,
            effective: window::effective(policy, now),
        }
    }

    /// How long after `now` one of its windows changes what it says.
    pub fn changes_in(&self, now: Timestamp) -> Option<Duration> {
        let until = self.effective.as_ref().ok()?.until?;
        Duration::try_from(until.duration_since(now)).ok()
    }
}

/// Opened early, by a policy that allows it still (S15).
fn claims_off_early(fence: &NodeFence, live: Option<&Live<'_>>) -> bool {
    let allows = |live: &Live<'_>| live.policy.spec.duration_policy == DurationPolicy::SkipIfOff;
    fence.spec.trigger.early_seconds.is_some() && live.is_none_or(allows)
}

/// The settings of the incident, as of now. `node` is the Node as last seen, for labels and identity.
pub fn settings(
    fence: &NodeFence,
    status: &NodeFenceStatus,
    node: Option<&NodeView>,
    live: Option<&Live<'_>>,
    devices: (&Devices, &[FenceDevice]),
    record: &Record,
    moments: Moments,
) -> Settings {
    let spec = &fence.spec;
    let frozen = &spec.procedure.fence;
    let reads = frozen.verification.consecutive_off_reads.max(2);
    let period = Duration::from_secs(frozen.verification.read_period_seconds.into());
    let human = spec.trigger.type_ == TriggerType::Manual;
    let boot_id = spec.boot_id.as_ref().or(status.boot_id.as_ref());
    let levels = frozen
        .levels
        .iter()
        .map(|level| resolve_level(level, node, boot_id, devices));
    let mut levels: Vec<Level> = levels.collect();
    let word = word(fence, moments);
    if word.is_some() && !levels.iter().any(Level::is_manual) {
        levels.push(by_hand(fence));
    }
    Settings {
        fence: fence.metadata.name.clone().unwrap_or_default(),
        node: spec.node_name.clone(),
        node_uid: spec.node_uid.clone().or_else(|| status.node_uid.clone()),
        boot_id: boot_id.cloned(),
        human,
        adopted: spec.trigger.type_ == TriggerType::External,
        not_before: moments.not_before,
        claims_off_early: claims_off_early(fence, live),
        condition: HeldCondition::of(&spec.trigger),
        procedure: spec.procedure.clone(),
        power_on: power_on(fence, node, live.map(|live| live.policy), clock::wall()),
        verification: Verification {
            off_reads_min: usize::try_from(reads).unwrap_or(2),
            window: period * (reads - 1),
        },
        read_period: period,
        levels,
        approval: approval(fence),
        unsupported: support::unsupported_fence(spec, None),
        confirmation: word,
        released: spec.desired_state == DesiredState::Released,
        stop: if human || spec.trigger.type_ == TriggerType::External {
            None
        } else {
            stop(
                fence,
                node,
                live,
                node.map(|node| begun(fence, status, node)),
            )
        },
        record: record.clone(),
    }
}

/// The same by what the operator may do: `lacks` says which right is missing that deleting a Node takes.
pub fn by_rights(settings: Settings, fence: &NodeFence, lacks: Option<&str>) -> Settings {
    Settings {
        unsupported: support::unsupported_fence(&fence.spec, lacks),
        ..settings
    }
}

fn resolve_level(
    level: &FenceLevel,
    node: Option<&NodeView>,
    boot_id: Option<&String>,
    (all, fence_devices): (&Devices, &[FenceDevice]),
) -> Level {
    let own = node.map_or_else(Vec::new, |node| devices_of(level, node, fence_devices));
    let serving = node.map(|node| {
        own.iter().map(|device| Device {
            name: device.metadata.name.clone().unwrap_or_default(),
            version: version(device),
            identity: match device.spec.reads() {
                Reads::Human => IdentityRule::Skip,
                Reads::Bmc
                | Reads::Instance
                | Reads::Unnamed
                | Reads::Outlets
                | Reads::Storage
                | Reads::Nothing => all.identity_rule(device, node),
            },
            manual: device.spec.reads() == Reads::Human,
            outlets: !device.spec.reads().tells_power(),
            covers: device.spec.drivers.network_fence.as_ref().map(Storage::of),
            control: all.control(
                device,
                node,
                boot_id.unwrap_or(&node.boot_id),
                clock::wall(),
            ),
        })
    });
    let mut devices: Vec<Device> = serving.into_iter().flatten().collect();
    devices.sort_by(|one, other| one.name.cmp(&other.name));
    if level.require == LevelRequirement::All
        && let Some(node) = node
    {
        refuse_the_same_twice(&level.name, node, &mut devices, fence_devices);
    }
    // A word beside a device would spare it the question whether it is refuted: it stands in a level of its own, or not at all.
    let is_mixed =
        devices.iter().any(|device| device.manual) && !devices.iter().all(|device| device.manual);
    if is_mixed {
        match level.require {
            LevelRequirement::All => devices.clear(),
            LevelRequirement::Any => devices.retain(|device| !device.manual),
        }
    }
    Level {
        name: level.name.clone(),
        require: match level.require {
            LevelRequirement::All => Require::All,
            LevelRequirement::Any => Require::Any,
        },
        attempts_max: level.attempts,
        retry_period: Duration::from_secs(level.retry_period_seconds.into()),
        timeout: Duration::from_secs(level.seconds(own).into()),
        devices,
    }
}

/// The FenceDevices that serve the node and are of this level.
pub fn devices_of<'a>(
    level: &FenceLevel,
    node: &NodeView,
    devices: &'a [FenceDevice],
) -> Vec<&'a FenceDevice> {
    let selector = level.device_selector.as_ref();
    let is_selected = |device: &&FenceDevice| {
        let labels = device.metadata.labels.clone().unwrap_or_default();
        selector.is_none_or(|selector| select::matches(selector, &labels))
    };
    let serving = serving(devices, node).into_iter();
    serving.filter(is_selected).collect()
}

/// Two devices that are one are never read off together, so a level that needs both is not even begun with: it says why, and the
/// next one has its turn.
fn refuse_the_same_twice(
    level: &str,
    node: &NodeView,
    devices: &mut [Device],
    fence_devices: &[FenceDevice],
) {
    let of_level = |device: &&FenceDevice| {
        let name = device.metadata.name.as_deref();
        devices.iter().any(|own| Some(own.name.as_str()) == name)
    };
    let of_level = fence_devices.iter().filter(of_level);
    let named = of_level.map(|device| {
        let name = device.metadata.name.as_deref().unwrap_or_default();
        (name, targets(device, node))
    });
    let named: Vec<_> = named.collect();
    let Some(pair) = one_and_the_same(&named) else {
        return;
    };
    let words = same_device_message(level, pair, &node.name);
    for device in devices.iter_mut().filter(|device| device.name == pair.1) {
        device.identity = IdentityRule::Refused(words.clone());
    }
}

/// What a human has said of the machine.
fn word(fence: &NodeFence, moments: Moments) -> Option<ManualConfirmation> {
    let said = fence.spec.manual_confirmation.as_ref()?;
    Some(ManualConfirmation {
        user: said.user.clone(),
        node_uid: said.node_uid.clone(),
        given: moments.word_given?,
        is_ahead: moments.word_is_ahead,
    })
}

/// A human's word needs no FenceDevice: at three in the morning nobody should have to write one first.
fn by_hand(fence: &NodeFence) -> Level {
    Level {
        name: BY_HAND.to_owned(),
        require: Require::All,
        attempts_max: 1,
        retry_period: Duration::from_secs(5),
        timeout: Duration::from_secs(60),
        devices: vec![Device {
            name: BY_HAND.to_owned(),
            version: fence.metadata.uid.clone().unwrap_or_default(),
            identity: IdentityRule::Skip,
            manual: true,
            outlets: false,
            covers: None,
            control: Control::Shown,
        }],
    }
}

/// `<uid>/<generation>`: another one after each change of the FenceDevice's spec.
pub fn version(device: &FenceDevice) -> String {
    let (uid, generation) = (device.metadata.uid.as_deref(), device.metadata.generation);
    format!(
        "{}/{}",
        uid.unwrap_or_default(),
        generation.unwrap_or_default()
    )
}

fn approval(fence: &NodeFence) -> Approval {
    match (
        &fence.spec.approval,
        fence.spec.procedure.fence.approval.mode,
    ) {
        (Some(given), _) => match given.decision {
            ApprovalDecision::Approved => Approval::Approved(given.user.clone()),
            ApprovalDecision::Denied => Approval::Denied(given.user.clone(), given.reason.clone()),
        },
        (None, ApprovalMode::Manual) => Approval::Awaited,
        (None, ApprovalMode::Automatic) => Approval::NotNeeded,
    }
}

/// The policy of a NodeFence, if it has one that still exists.
pub fn policy_of<'a>(
    fence: &NodeFence,
    policies: &'a [NodeFencingPolicy],
) -> Option<&'a NodeFencingPolicy> {
    let name = fence.spec.policy_name.as_deref()?;
    let mut policies = policies.iter();
    policies.find(|policy| policy.metadata.name.as_deref() == Some(name))
}

/// Has the live policy been taken away from this incident, or narrowed below it, or does one of its windows want something else?
fn stop(
    fence: &NodeFence,
    node: Option<&NodeView>,
    live: Option<&Live<'_>>,
    begun: Option<Begun>,
) -> Option<String> {
    let name = fence.spec.policy_name.as_deref().unwrap_or_default();
    let Some(Live { policy, effective }) = live else {
        return Some(format!("NodeFencingPolicy {name} was deleted"));
    };
    if node.is_some_and(|node| !select::matches(&policy.spec.node_selector, &node.labels)) {
        return Some(format!(
            "NodeFencingPolicy {name} no longer selects the node"
        ));
    }
    let (frozen, changed) = (
        fence.spec.procedure.fence.mode,
        fence.spec.policy_generation != policy.metadata.generation,
    );
    // Nobody can tell: before the claim that holds it, and under the claim it goes on as it was begun.
    let effective = effective.as_ref().ok()?;
    let has_windows = !policy.spec.windows.is_empty();
    // What a window says is no edit, unless there was one.
    let live = effective.mode;
    if (changed || !has_windows) && rank(live) < rank(frozen) {
        return Some(format!(
            "NodeFencingPolicy {name} was narrowed from mode {frozen:?} to {live:?}"
        ));
    }
    if frozen == FenceMode::Observe && changed {
        return Some(format!(
            "NodeFencingPolicy {name} was changed, and a new NodeFence is opened"
        ));
    }
    let is_answered = fence.spec.approval.is_some();
    let replaced = window::replaced(
        name,
        &fence.spec.procedure.fence,
        is_answered,
        begun?,
        effective,
    );
    replaced.filter(|_| has_windows)
}

#[cfg(test)]
mod tests;
