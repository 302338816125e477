//! What is shown before a manual confirmation: what the devices read and when, how the incident stands, and what runs on the node.

use super::signs::Said;
use super::{Scene, is_adopted, outage, read};
use crate::fences;
use crate::table::{age, count, table, wrapped};
use fencing_api::device::FenceDevice;
use fencing_api::device_status::PowerState;
use fencing_api::fence::NodeFence;
use fencing_api::fence_status::PowerReading;
use fencing_api::settings::FenceMode;
use fencing_core::hold::HeldBy;
use fencing_core::manual_confirmation::CONFIRMATION_LIFE;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// What is known of the node.
pub(super) fn shown(scene: &Scene, fence: &NodeFence, server: &str, now: Timestamp) -> String {
    let (node, began) = (&scene.node, outage(scene, fence));
    let title = format!(
        "Node {} (nodefence/{}) of the cluster {server}",
        node.name,
        fence.name_any()
    );
    let mut text = wrapped(&title, 0);
    text += &format!("last report of the kubelet: {}\n", node.last_report());
    let devices = scene.devices.iter();
    let rows: Vec<_> = devices
        .map(|it| device_row(it, read(it, fence), began, now))
        .collect();
    text += &table(["DEVICE", "POWER", "READ"], &rows);
    text += &lights(scene, fence, now);
    if is_adopted(fence) {
        text += &wrapped(
            "It was created for a taint found on the Node: no device is read beside your confirmation",
            0,
        );
    }
    let warnings = fences::warnings(fence);
    let stage = fences::stage(fence);
    let stands = match warnings.is_empty() {
        true => format!("The incident is {stage}: {}", fences::message(fence)),
        false => format!("The incident is {stage}:"),
    };
    text += &wrapped(&stands, 0);
    text += &fences::warned(&warnings);
    text += &held(fence);
    match &scene.pods {
        Ok(pods) => {
            let rows: Vec<_> = pods.iter().map(pod_row).collect();
            text += &format!("{} bound to it\n", count(pods.len(), "pod is", "pods are"));
            text += &table(["NAMESPACE", "POD", "VOLUMES"], &rows);
        }
        Err(words) => text += &wrapped(&format!("Its pods are not shown: {words}"), 0),
    }
    text += &wrapped(
        "If this machine is running, two nodes will write to one volume.",
        0,
    );
    text
}

/// What stands in capitals: that a device that does not answer was on, or that none has answered.
fn lights(scene: &Scene, fence: &NodeFence, now: Timestamp) -> String {
    let said = scene.devices.iter();
    let said: Vec<_> = said.map(|it| (it, Said::of(scene, it, fence))).collect();
    let told = |last: fn(&Said) -> Option<Timestamp>, words: fn(&str, &str) -> String| -> String {
        let machines = said.iter().filter(|(it, _)| it.spec.reads().tells_power());
        let lines = machines.filter_map(|(it, said)| {
            let ago = age(last(said)?, now);
            Some(wrapped(&words(&it.name_any(), &ago), 0))
        });
        lines.collect()
    };
    let on = told(Said::last_on, |name, ago| {
        format!(
            "{name} READ ON {ago} AGO, IN THIS OUTAGE: unless its power was cut since then, this machine is running"
        )
    });
    if on.is_empty() && said.iter().all(|(_, it)| it.is_nothing()) {
        return "NO DEVICE HAS BEEN READ IN THIS OUTAGE\n".to_owned();
    }
    // A mark that stood there without a record asks no device.
    let off = (!is_adopted(fence)).then(|| {
        told(Said::last_off, |name, ago| {
            format!("{name} read Off {ago} ago or longer; if a level of the incident has it, no confirmation may be needed")
        })
    });
    on + &off.unwrap_or_default()
}

/// A confirmation lifts no hold, and expires while it lasts.
fn held(fence: &NodeFence) -> String {
    let asks = fences::is_awaited(fence) && fences::is_asked_first(fence);
    let asks = asks.then_some(HeldBy::AwaitingApproval.as_str());
    let Some(reason) = fences::held(fence).or(asks) else {
        return String::new();
    };
    let lifts = approval(fence).map(|it| format!("; an approval does{it}"));
    let lifts = lifts.unwrap_or_default();
    let minutes = CONFIRMATION_LIFE.as_secs() / 60;
    wrapped(
        &format!(
            "HELD ({reason}): a confirmation is valid for {minutes} minutes and does not lift the hold{lifts}"
        ),
        0,
    )
}

/// What follows `an approval lifts that`: what else it does, and how it is given; none: no approval lifts it.
pub(super) fn approval(fence: &NodeFence) -> Option<String> {
    let node = &fence.spec.node_name;
    let turns_off = match fence.spec.procedure.fence.mode {
        FenceMode::PowerOff => ", and the machine is powered off then",
        FenceMode::ConfirmOnly | FenceMode::Observe => "",
    };
    fences::is_awaited(fence)
        .then(|| format!("{turns_off}: kubectl fence approve {node} --reason WHY"))
}

fn is_read_since(device: &FenceDevice, began: Option<Timestamp>) -> bool {
    let read = device.status.as_ref().and_then(|it| it.last_success_time);
    read.is_some() && read >= began
}

fn device_row(
    device: &FenceDevice,
    read: Option<&PowerReading>,
    began: Option<Timestamp>,
    now: Timestamp,
) -> [String; 3] {
    if let Some(read) = read {
        return [
            device.name_any(),
            format!("{:?}", read.power_state),
            format!("in this incident, for {}", age(read.since_time, now)),
        ];
    }
    let status = device.status.as_ref();
    let power = status.and_then(|it| it.power_state);
    let at = status.and_then(|it| it.last_success_time);
    [
        device.name_any(),
        power.map_or_else(|| "<unknown>".to_owned(), |it| format!("{it:?}")),
        at.map_or_else(
            || "<never>".to_owned(),
            |at| {
                let unknown = match power {
                    Some(PowerState::Unknown) | None => "not known; it answered ",
                    Some(_) => "",
                };
                match is_read_since(device, began) {
                    true => format!("{unknown}{} ago", age(at, now)),
                    false => format!("{unknown}{} ago, before the outage", age(at, now)),
                }
            },
        ),
    ]
}

fn pod_row(pod: &Pod) -> [String; 3] {
    let volumes = pod.spec.iter().flat_map(|it| it.volumes.iter().flatten());
    let claims = volumes.filter(|it| it.persistent_volume_claim.is_some());
    [
        pod.namespace().unwrap_or_default(),
        pod.name_any(),
        claims.count().to_string(),
    ]
}
