//! Which fence level of the policy has what it needs for the node, and how ready its devices are.

use super::{DevicePlan, Fleet, Judged, Known, LevelPlan, Verdict, obstacle, once_open, told};
use crate::control::{fact, lacking, way_out};
use fencing_api::conditions::{READY, find};
use fencing_api::device::{FenceDevice, Reads};
use fencing_api::policy::{FenceMode, NodeFencingPolicy};
use fencing_core::control::Control;
use fencing_core::observed::NodeView;
use fencing_core::protection::levels::{Devices, Judge, Readiness, stored_readiness};
use fencing_drivers::targets;
use kube::ResourceExt;

/// Drivers whose devices share their machine's power.
const BMC: [&str; 2] = ["redfish", "ipmi"];

/// Which level has what it needs.
pub(super) fn by_devices(
    judged: &mut Judged<'_>,
    fleet: &Fleet<'_>,
    policy: &NodeFencingPolicy,
    dead: &NodeView,
    mode: FenceMode,
) {
    let devices = Devices::of(fleet.devices);
    let protection = devices.protection(policy, dead, mode, Judge::by_status(&targets));
    let mut first_ready = None;
    for it in protection.levels {
        if first_ready.is_none() && it.is_ready {
            first_ready = Some(it.devices.iter().all(|it| it.spec.reads() == Reads::Human));
            judged.reads_off =
                judged.passed_over == 0.0 && it.devices.iter().all(|it| reads_off(it));
        } else if first_ready.is_none() && !it.devices.is_empty() {
            let seconds = it.level.seconds(it.devices.iter().copied());
            judged.passed_over += f64::from(seconds);
        }
        judged.verdict.levels.push(LevelPlan {
            name: it.level.name.clone(),
            ready: it.is_ready,
            devices: it.devices.iter().map(|it| device(it, dead)).collect(),
        });
    }
    let statuses = fleet.devices.iter().filter_map(|it| it.status.as_ref());
    let restarters = statuses.flat_map(|it| &it.restarters);
    for it in restarters.filter(|it| it.node_name == dead.name) {
        judged.verdict.notes.push(format!(
            "{} may turn this machine on again by itself; it is fenced once more then",
            it.by
        ));
    }
    note(&mut judged.verdict, policy, dead, mode, first_ready);
}

/// What follows from the first level that is ready, and whether only a human answers for it.
fn note(
    verdict: &mut Verdict,
    policy: &NodeFencingPolicy,
    dead: &NodeView,
    mode: FenceMode,
    first_ready: Option<bool>,
) {
    match first_ready {
        Some(true) => {
            let message = format!(
                "only a manual confirmation proves this machine off: check it, and {}",
                once_open("confirm", &dead.name)
            );
            verdict
                .obstacles
                .push(obstacle("AwaitingConfirmation", message));
        }
        None if mode != FenceMode::Observe => {
            let found = told(&Known::NoReadyDevice, dead, Some(policy));
            verdict.obstacles.push(found);
        }
        Some(false) | None => {}
    }
    let ready = verdict.levels.iter().filter(|it| it.ready);
    let mut drivers = ready.flat_map(|it| &it.devices).map(|it| &it.driver);
    if first_ready == Some(false) && drivers.all(|it| BMC.contains(&it.as_str())) {
        let note = "a BMC without power of its own cannot answer in a power loss; add a level with the outlets (driver pdu) or driver manual behind it";
        verdict.notes.push(note.to_owned());
    }
}

/// Does it read the machine itself, and has shown that it answers while that has no power? A fleet's status does not tell the latter.
fn reads_off(device: &FenceDevice) -> bool {
    let reads_machine = matches!(
        device.spec.reads(),
        Reads::Bmc | Reads::Instance | Reads::Unnamed
    );
    let status = device.status.as_ref();
    let was_off = status.is_some_and(|it| it.last_off_time.is_some());
    reads_machine && (was_off || device.spec.node_selector.is_some())
}

fn device(device: &FenceDevice, node: &NodeView) -> DevicePlan {
    let readiness = stored_readiness(device, &node.name);
    let lacking = lacking(device, node);
    let status = device.status.as_ref();
    let ready = find(status.map_or(&[], |it| &it.conditions), READY);
    let ready = ready.filter(|_| readiness != Readiness::Ready);
    let is_one_machines = device.spec.node_name.is_some() && device.spec.reads() != Reads::Human;
    let never_off = is_one_machines && status.is_some_and(|it| it.last_off_time.is_none());
    let never_off = never_off
        .then(|| "has never read Off, so it may not answer while its machine is off".to_owned());
    DevicePlan {
        name: device.name_any(),
        driver: device.spec.driver_name().to_owned(),
        readiness: format!("{readiness:?}"),
        positive_control: lacking.map_or("Shown", Control::reason).to_owned(),
        message: ready
            .map(|it| format!("{}: {}", it.reason, it.message))
            .or_else(|| lacking.map(|it| format!("{}: {}", fact(it), way_out(it, &node.name))))
            .or(never_off),
    }
}
