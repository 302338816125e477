//! `kubectl fence confirm`: a manual confirmation that a machine is powered off, where no device can read it.
//!
//! A false confirmation corrupts data. So it is checked first against what is known (the Node is Ready, a device reads On), what runs on the node is
//! shown, and the node's name has to be typed. The API server admits it by the verb `confirm`, and the operator rejects it as soon as a device reads On
//! or the kubelet reports (S21).

mod shown;
mod signs;

use super::cluster::{Cluster, Error as ClusterError, seen};
use super::dry_run::DryRun;
use super::prompt::typed;
use super::trail::reason;
use super::{Done, Error, fences};
use fencing_api::device::FenceDevice;
use fencing_api::device_status::PowerState;
use fencing_api::fence::{ManualStatement, NodeFence, TriggerType};
use fencing_api::fence_status::PowerReading;
use fencing_api::settings::FenceMode;
use fencing_cluster::slim::SlimNode;
use fencing_core::observed::{NodeView, Ready};
use fencing_core::select;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;
use shown::{approval, shown};
use signs::Signs;

const EXAMPLES: &str = "\
Examples:
      kubectl fence confirm worker-3 --reason \"both cords are out, rack 7\"

Confirm that the machine has no power, not that it does not answer. The \
confirmation is valid for 15 minutes. It needs the verb `confirm` (ClusterRole \
node-fencing-confirmer), and node-fencing-cluster-viewer for what is shown.";

/// Confirm that a machine is powered off
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The NodeFence, or the node of an open one
    #[arg(value_parser = super::name::incident)]
    name: super::name::Name,

    /// How you verified it, for the record
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,

    /// Confirm the node's name without a prompt
    #[arg(long, value_name = "NODE")]
    confirm_node: Option<String>,

    #[command(flatten)]
    dry_run: DryRun,
}

/// What the user is shown before they confirm.
struct Scene {
    node: NodeView,
    /// The devices that serve the node.
    devices: Vec<FenceDevice>,
    /// The pods that are there, or why they are not known.
    pods: Result<Vec<Pod>, String>,
    /// The other NodeFences of the Node in this boot: what a device said to one of them it has said.
    others: Vec<NodeFence>,
}

/// Runs the command.
///
/// # Errors
/// [`Error`].
pub async fn run(cluster: &Cluster, args: Args) -> Done {
    let fence = fences::open(cluster, &args.name).await?;
    let node = fence.spec.node_name.clone();
    let scene = scene(cluster, &fence).await?;
    refuse(&scene, &fence, None)?;
    let server = &cluster.clients.server;
    let signs = Signs::of(&scene, &fence);
    let mut text = shown(&scene, &fence, server, cluster.now().await);
    if args.confirm_node.is_none() {
        text += "Type the node's name to confirm that it has no power:\n";
    }
    args.dry_run.shows(&text)?;
    if typed(&node, args.confirm_node)? != node {
        return Err(Error::No(format!(
            "that is not the name of Node {node}; nothing was changed"
        )));
    }
    // Somebody may have read for a while, in which the incident went on.
    let fence = fences::again(cluster, &fence).await?;
    let scene = self::scene(cluster, &fence).await?;
    let asker = cluster.asker().await?;
    let write = args.dry_run.write("node-fencing-confirmer");
    let fence = fences::change(cluster, &fence, &write, |fence| {
        refuse(&scene, fence, Some(&signs))?;
        Ok(json!({"spec": {"manualConfirmation": {
            "statement": ManualStatement::IVerifiedTheNodeIsPoweredOff,
            "nodeUID": scene.node.uid,
            "user": asker.name,
            "reason": args.reason,
            "time": asker.at,
        }}}))
    })
    .await?;
    let follow = args.dry_run.follow(&node);
    args.dry_run.told(&fence, "confirmed", follow)
}

/// Something speaks against the confirmation, or there is one; `shown`: the signs of life that the user was shown.
fn refuse(scene: &Scene, fence: &NodeFence, shown: Option<&Signs>) -> Result<(), Error> {
    against(scene, fence).map_err(Error::No)?;
    if fence.spec.manual_confirmation.is_some() {
        return Err(Error::No(format!(
            "NodeFence {} already has a manual confirmation, which is final; {}",
            fence.name_any(),
            another(fence)
        )));
    }
    match shown.and_then(|shown| Signs::of(scene, fence).news(shown)) {
        None => Ok(()),
        Some(news) => Err(Error::No(format!(
            "NodeFence {} changed meanwhile and was not confirmed: {news}; check the machine, then confirm again",
            fence.name_any()
        ))),
    }
}

/// It was made of a mark that stood there without a record: it observes, and its release rests on a word.
fn is_adopted(fence: &NodeFence) -> bool {
    fence.spec.trigger.type_ == TriggerType::External
}

/// How another word is given.
fn another(fence: &NodeFence) -> String {
    let (name, node) = (fence.name_any(), &fence.spec.node_name);
    if is_adopted(fence) {
        return format!(
            "delete it: it is created again for the taint, and accepts another confirmation (kubectl delete nodefence {name})"
        );
    }
    format!(
        "to confirm again: {}, then kubectl fence now {node} --mode ConfirmOnly --reason WHY",
        over(fence)
    )
}

/// How this one comes to its end.
fn over(fence: &NodeFence) -> String {
    let node = &fence.spec.node_name;
    fences::let_go(fence)
        .unwrap_or_else(|| format!("wait until it has ended (kubectl fence status {node} --watch)"))
}

async fn scene(cluster: &Cluster, fence: &NodeFence) -> Result<Scene, Error> {
    let name = &fence.spec.node_name;
    let node = cluster.find(&cluster.api::<SlimNode>(), name).await?;
    let node = node.ok_or_else(|| ClusterError::Absent {
        kind: "Node".to_owned(),
        name: name.clone(),
        way_out: "its incident ends by itself".to_owned(),
    })?;
    let node = node.view();
    let mut devices = cluster.ours::<FenceDevice>().await?;
    devices.retain(|it| select::serves(it, &node));
    let mut others = cluster.ours::<NodeFence>().await?;
    let is_other = |it: &NodeFence| it.name_any() != fence.name_any();
    others.retain(|it| is_other(it) && fences::is_of_boot(it, &node));
    let there = ListParams::default().fields(&format!("spec.nodeName={name}"));
    let pods = cluster.list(&cluster.api::<Pod>(), &there).await;
    Ok(Scene {
        node,
        devices,
        pods: seen(pods)?,
        others,
    })
}

/// What speaks against the word, as far as it is known here.
fn against(scene: &Scene, fence: &NodeFence) -> Result<(), String> {
    let node = &scene.node;
    if node.ready() == Ready::True {
        return Err(format!(
            "Node {} is Ready, so its machine is running; check which machine you powered off",
            node.name
        ));
    }
    let status = fence.status.as_ref();
    let bound = fence.spec.node_uid.as_ref();
    let bound = bound.or_else(|| status?.node_uid.as_ref());
    if bound.is_some_and(|uid| *uid != node.uid) {
        return Err(format!(
            "Node {} was deleted and created again since NodeFence {} began, so its machine is running",
            node.name,
            fence.name_any()
        ));
    }
    if let Some(refused) = status.and_then(|it| it.confirmation_refused.as_ref()) {
        let (name, another) = (fence.name_any(), another(fence));
        return Err(format!(
            "NodeFence {name} accepts no manual confirmation: {refused}; {another}"
        ));
    }
    if is_adopted(fence) {
        // It asks no FenceDevice, and they are not probed while it is open.
        return Ok(());
    }
    if fence.spec.procedure.fence.mode == FenceMode::Observe {
        return Err(format!(
            "NodeFence {} is in mode Observe and acts on no confirmation; confirm another: kubectl fence now {} --mode ConfirmOnly --reason WHY",
            fence.name_any(),
            node.name
        ));
    }
    // A device that is gone, or is another node's by now, is asked no more.
    let is_there = |name: &str| scene.devices.iter().any(|it| it.name_any() == name);
    let mut readings = fence.status.iter().flat_map(|it| &it.power_readings);
    if let Some(on) = readings.find(|it| it.speaks_against_a_word() && is_there(&it.device)) {
        return Err(reads_on(on, fence));
    }
    // What was read before the outage says nothing of it: a device that has fallen silent since is why somebody has gone to look.
    let began = outage(scene, fence);
    let on = scene.devices.iter().find(|it| {
        let status = it.status.as_ref();
        let state = status.and_then(|it| it.power_state);
        let is_on = state.is_some_and(PowerState::has_power);
        // Whoever pulls the cords leaves outlets on; and what the incident itself has read is newer.
        let is_asked = it.spec.reads().tells_power() && read(it, fence).is_none();
        is_asked && is_on && status.and_then(|it| it.last_success_time) >= began
    });
    on.map_or(Ok(()), |it| Err(has_read_on(it, node, fence)))
}

fn reads_on(on: &PowerReading, fence: &NodeFence) -> String {
    let (device, node) = (&on.device, &fence.spec.node_name);
    let again = fences::held(fence).map(|reason| {
        let lifts = approval(fence).map(|it| format!("; an approval lifts it{it}"));
        format!(
            "once the incident is no longer held ({reason}{})",
            lifts.unwrap_or_default()
        )
    });
    [
        format!(
            "manual confirmation rejected: FenceDevice {device} reads {:?} in NodeFence {} since {};",
            on.power_state,
            fence.name_any(),
            on.since_time
        ),
        format!(
            "power the machine off; {device} is read again {}.",
            again.as_deref().unwrap_or("as the incident continues")
        ),
        format!("Once it does not answer, confirm again (kubectl fence status {node} --watch)."),
        format!("If it is wired to another machine, correct it (kubectl describe fencedevice {device});"),
        another(fence),
    ]
    .join(" ")
}

/// A FenceDevice is not probed while the incident is open, not by a request either. The incident has not read it yet: it waits, has not come to the
/// device's level, or the device is of none of its levels.
fn has_read_on(device: &FenceDevice, node: &NodeView, fence: &NodeFence) -> String {
    let (device, node, read) = (device.name_any(), &node.name, probed(device));
    let waits = fences::held(fence).is_some() || fences::is_awaited(fence);
    let asked = match waits {
        true => "The incident waits, and reads no device.",
        false => {
            "The incident reads the devices of its levels in turn: confirm again once this one does not answer (kubectl fence status --output wide)."
        }
    };
    [
        format!("manual confirmation rejected: FenceDevice {device} read On at {read}, in this outage;"),
        "power the machine off, or check which machine the device is wired to.".to_owned(),
        asked.to_owned(),
        format!("To read it outside of the incident: {}, then kubectl fence test {node} --device {device};", over(fence)),
        format!("unless that reads On, confirm a new one: kubectl fence now {node} --mode ConfirmOnly --reason WHY"),
    ]
    .join(" ")
}

/// What the incident has read of the device last.
fn read<'a>(device: &FenceDevice, fence: &'a NodeFence) -> Option<&'a PowerReading> {
    let mut readings = fence.status.iter().flat_map(|it| &it.power_readings);
    readings.find(|it| it.device == device.name_any())
}

/// When the outage began, as far as is known.
fn outage(scene: &Scene, fence: &NodeFence) -> Option<Timestamp> {
    let began = fences::began(fence);
    // A human's NodeFence is younger than the outage.
    let ready = scene.node.condition("Ready");
    let silent = ready.and_then(|it| it.transition.parse().ok());
    began.into_iter().chain(silent).min()
}

/// When the device was read last.
fn probed(device: &FenceDevice) -> String {
    let status = device.status.as_ref();
    let at = status.and_then(|it| it.last_success_time);
    at.map_or_else(|| "no known time".to_owned(), |at| at.to_string())
}

#[cfg(test)]
mod tests;
