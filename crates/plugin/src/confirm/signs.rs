//! Signs of life: what the devices of a machine read in this outage, for whichever incident, and what warns of this one. A person who confirms goes
//! by them.

use super::{Scene, outage, read};
use crate::fences::{self, Warning, WarningKind};
use fencing_api::conditions::{IDENTITY_VERIFIED, find};
use fencing_api::device::FenceDevice;
use fencing_api::device_status::{FenceDeviceStatus, PowerState};
use fencing_api::fence::NodeFence;
use jiff::Timestamp;
use kube::ResourceExt;
use std::collections::BTreeMap;

/// What a device has said in this outage, and when; none: nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// When it has said last that the machine has power.
    pub on: Option<Timestamp>,
    /// When it has said last that it has none.
    pub off: Option<Timestamp>,
}

/// Is it not shown that this machine answered? The times of On and Off are those of its own.
fn is_another(status: &FenceDeviceStatus) -> bool {
    let identity = find(&status.conditions, IDENTITY_VERIFIED);
    identity.is_some_and(|it| it.status == "False")
}

impl Said {
    /// To this incident, whatever the operator's clock says, to an earlier one, or as it was probed before.
    pub(super) fn of(scene: &Scene, device: &FenceDevice, fence: &NodeFence) -> Self {
        let began = outage(scene, fence);
        let of = |it: &NodeFence| {
            let read = read(device, it);
            let on = read.and_then(|it| it.last_on_time);
            let now = read.map(|it| (it.power_state, it.since_time));
            let on = on.map(|at| (PowerState::On, at));
            on.into_iter().chain(now)
        };
        let status = device.status.as_ref();
        let on = status.and_then(|it| it.last_on_time);
        let on = on.map(|at| (PowerState::On, at));
        let off = status.and_then(|it| it.last_off_time);
        let off = off.map(|at| (PowerState::Off, at));
        // Of one that is silent by now that is when it answered last.
        let probed = status.and_then(|it| it.power_state.zip(it.last_success_time));
        // An On is heard from whomever it comes, an Off only of this machine.
        let is_another = status.is_some_and(is_another);
        let probed = probed.filter(|(state, _)| state.has_power() || !is_another);
        let probed = probed.into_iter().chain(on).chain(off);
        let before = scene.others.iter().flat_map(of).chain(probed);
        let before = before.filter(|(_, at)| Some(*at) >= began);
        let mut said = Self::default();
        for (state, at) in before.chain(of(fence)) {
            match state {
                PowerState::Unknown => {}
                PowerState::Off => said.off = said.off.max(Some(at)),
                _ => said.on = said.on.max(Some(at)),
            }
        }
        said
    }

    /// Is the last that it has said that the machine has power? When?
    pub(super) fn last_on(&self) -> Option<Timestamp> {
        self.on.filter(|_| self.on >= self.off)
    }

    /// Is the last that it has said that it has none? When?
    pub(super) fn last_off(&self) -> Option<Timestamp> {
        self.off.filter(|_| self.off > self.on)
    }

    /// Has it said nothing at all?
    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What speaks for it that the machine runs.
#[derive(Debug)]
pub(super) struct Signs {
    /// The Node's name.
    node: String,
    /// Its UID and its boot.
    boot: (String, String),
    /// What warns of the incident, but for what it calls people for: that changes with each try.
    warnings: Vec<Warning>,
    /// When each FenceDevice of the machine has said On last.
    on: BTreeMap<String, Timestamp>,
}

impl Signs {
    pub(super) fn of(scene: &Scene, fence: &NodeFence) -> Self {
        let machines = scene
            .devices
            .iter()
            .filter(|it| it.spec.reads().tells_power());
        let on = machines.filter_map(|it| Some((it.name_any(), Said::of(scene, it, fence).on?)));
        let warnings = fences::warnings(fence).into_iter();
        let node = &scene.node;
        Self {
            node: node.name.clone(),
            boot: (node.uid.clone(), node.boot_id.clone()),
            warnings: warnings
                .filter(|it| it.kind != WarningKind::Escalated)
                .collect(),
            on: on.collect(),
        }
    }

    /// The first that was not there when those were shown; one that has gone since is none.
    pub(super) fn news(&self, shown: &Self) -> Option<String> {
        if self.boot != shown.boot {
            return Some(format!(
                "Node {} has rebooted or was created again, so its machine is running",
                self.node
            ));
        }
        let mut on = self.on.iter();
        let on = on.find(|(device, at)| shown.on.get(*device) < Some(at));
        let on = on.map(|(device, at)| format!("FenceDevice {device} read On at {at}"));
        let is_shown = |it: &Warning| {
            let same = |known: &&Warning| known.kind == it.kind;
            // How a proof is doubted is told anew with each look.
            let mut known = shown.warnings.iter().filter(same);
            known.any(|known| it.kind == WarningKind::ProofInDoubt || known.words == it.words)
        };
        let warned = self.warnings.iter().find(|it| !is_shown(it));
        on.or_else(|| warned.map(|it| format!("{}: {}", it.kind.title(), it.words)))
    }
}
