//! Could a node be fenced by its devices: which fence level of its policy has what it needs?
//!
//! A node is *protected* when at least one level of its policy has what it needs: all of its devices ready, or one of them where one is enough.

use super::super::identity::{one_and_the_same, same_device_message};
use super::super::observed::NodeView;
use super::super::select::{matches, serves};
use fencing_api::conditions::{self, READY};
use fencing_api::device::{FenceDevice, FenceDeviceStatus};
use fencing_api::policy::{FenceLevel, FenceMode, LevelRequirement, NodeFencingPolicy};
use std::collections::BTreeMap;

/// Reason of a device that works but offers no hard power-off: enough for mode ConfirmOnly, not for PowerOff.
pub const POWER_OFF_DENIED: &str = "PowerOffDenied";

/// How ready a device is for one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readiness {
    /// It could not fence the node, or nobody knows.
    NotReady,
    /// It reads the power, but offers no hard power-off.
    ConfirmOnly,
    /// It could fence the node.
    Ready,
}

/// The devices, so ordered that those of a node are found without looking at all of them.
pub struct Devices<'a> {
    own: BTreeMap<&'a str, Vec<&'a FenceDevice>>,
    fleets: Vec<&'a FenceDevice>,
}

/// How ready a device (its name) was found for a node; none: its status counts.
pub type Found<'a> = dyn Fn(&str, &str) -> Option<Readiness> + 'a;
/// What a device controls for the node, as far as its settings and the Node say.
pub type Targets<'a> = dyn Fn(&FenceDevice, &NodeView) -> Vec<String> + 'a;

/// What the readiness of a level is judged by, beside the status of its devices.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    /// What this process has found itself.
    pub found: &'a Found<'a>,
    /// The machines that devices control.
    pub targets: &'a Targets<'a>,
}

/// A fence level of a policy, for one node.
#[derive(Debug)]
pub struct LevelOf<'a> {
    /// The level.
    pub level: &'a FenceLevel,
    /// Its devices that serve the node.
    pub devices: Vec<&'a FenceDevice>,
    /// Two of them are one and the same where both are needed, in words.
    pub same_device: Option<String>,
    /// Has it what it needs?
    pub is_ready: bool,
}

/// What a policy has to fence one node with.
#[derive(Debug)]
pub struct Protection<'a> {
    /// All devices that serve the node.
    pub devices: Vec<&'a FenceDevice>,
    /// The policy's levels.
    pub levels: Vec<LevelOf<'a>>,
    /// Could the node be fenced?
    pub is_protected: bool,
}

impl<'a> Devices<'a> {
    /// Of these.
    pub fn of(devices: impl IntoIterator<Item = &'a FenceDevice>) -> Self {
        let mut this = Self {
            own: BTreeMap::new(),
            fleets: Vec::new(),
        };
        for device in devices {
            match &device.spec.node_name {
                Some(name) => this.own.entry(name).or_default().push(device),
                None => this.fleets.push(device),
            }
        }
        this
    }

    /// Those that serve this node.
    pub fn serving(&self, node: &NodeView) -> Vec<&'a FenceDevice> {
        let own = self.own.get(node.name.as_str()).into_iter().flatten();
        let fleets = self.fleets.iter().filter(|it| serves(it, node));
        own.chain(fleets).copied().collect()
    }

    /// What `policy` has for this node in a `mode`.
    pub fn protection(
        &self,
        policy: &'a NodeFencingPolicy,
        node: &NodeView,
        mode: FenceMode,
        judge: Judge<'_>,
    ) -> Protection<'a> {
        let devices = self.serving(node);
        let can = |device: &&FenceDevice| judge.can(device, node, mode);
        let of_level = |level: &'a FenceLevel| {
            let is_of_level = |device: &&FenceDevice| is_of_level(device, level);
            let own: Vec<_> = devices.iter().copied().filter(is_of_level).collect();
            let needs_all = level.require == LevelRequirement::All;
            let same_device = needs_all.then(|| judge.same(&own, level, node)).flatten();
            LevelOf {
                is_ready: match level.require {
                    LevelRequirement::All => {
                        !own.is_empty() && same_device.is_none() && own.iter().all(can)
                    }
                    LevelRequirement::Any => own.iter().any(can),
                },
                level,
                devices: own,
                same_device,
            }
        };
        let levels: Vec<_> = policy
            .spec
            .procedure
            .fence
            .levels
            .iter()
            .map(of_level)
            .collect();
        Protection {
            is_protected: match levels.is_empty() {
                true => devices.iter().any(can),
                false => levels.iter().any(|it| it.is_ready),
            },
            devices,
            levels,
        }
    }
}

fn is_of_level(device: &FenceDevice, level: &FenceLevel) -> bool {
    let none = BTreeMap::new();
    let labels = device.metadata.labels.as_ref().unwrap_or(&none);
    let selector = level.device_selector.as_ref();
    selector.is_none_or(|selector| matches(selector, labels))
}

impl<'a> Judge<'a> {
    /// By the status of the devices alone.
    pub fn by_status(targets: &'a Targets<'a>) -> Self {
        Self {
            found: &|_, _| None,
            targets,
        }
    }

    /// Two devices of a level are one and the same for this node, in words.
    fn same<'d>(
        self,
        own: &[&'d FenceDevice],
        level: &FenceLevel,
        node: &NodeView,
    ) -> Option<String> {
        let named = |device: &&'d FenceDevice| {
            let name = device.metadata.name.as_deref().unwrap_or_default();
            (name, (self.targets)(device, node))
        };
        let named: Vec<_> = own.iter().map(named).collect();
        let pair = one_and_the_same(&named)?;
        Some(same_device_message(&level.name, pair, &node.name))
    }

    fn can(self, device: &FenceDevice, node: &NodeView, mode: FenceMode) -> bool {
        let name = device.metadata.name.as_deref().unwrap_or_default();
        let readiness =
            (self.found)(name, &node.name).unwrap_or_else(|| stored_readiness(device, &node.name));
        match mode {
            FenceMode::PowerOff => readiness == Readiness::Ready,
            FenceMode::Observe | FenceMode::ConfirmOnly => readiness >= Readiness::ConfirmOnly,
        }
    }
}

/// How ready the device is for the node, by its stored status.
pub fn stored_readiness(device: &FenceDevice, node: &str) -> Readiness {
    let status = device.status.as_ref();
    let current =
        |status: &&FenceDeviceStatus| status.observed_generation == device.metadata.generation;
    let Some(status) = status.filter(current) else {
        return Readiness::NotReady;
    };
    let Some(ready) = conditions::find(&status.conditions, READY) else {
        return Readiness::NotReady;
    };
    if ready.status == "True" {
        return Readiness::Ready;
    }
    if device.spec.node_name.is_some() {
        return match ready.reason == POWER_OFF_DENIED {
            true => Readiness::ConfirmOnly,
            false => Readiness::NotReady,
        };
    }
    let counts = status.nodes.clone().unwrap_or_default();
    let missing = counts.total.saturating_sub(counts.ready);
    let not_ready = usize::try_from(missing).unwrap_or(usize::MAX);
    let all_are_named = status.not_ready_nodes.len() == not_ready;
    let is_named = status.not_ready_nodes.iter().any(|named| named == node);
    if all_are_named && !is_named && counts.total > 0 {
        Readiness::Ready
    } else {
        Readiness::NotReady
    }
}
