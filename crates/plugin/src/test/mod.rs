//! `kubectl fence test`: would a fence of this node work? The operator probes its devices, with its own credentials and from its own network; this machine
//! connects to no BMC.
//!
//! A request for a probe is an annotation of the FenceDevice, beside who asks and why, which the operator answers within seconds in its status. With `--power-cycle` it is
//! the whole protocol on a drained node ([`cycle`]).

mod cycle;

use super::cluster::{Asker, Cluster, Error as ClusterError};
use super::dry_run::DryRun;
use super::output::{Content, Form, forms, print, written};
use super::table::{or_none, table, wrapped};
use super::time::time;
use super::trail::{PROBE, reason};
use super::{Done, Error, fences};
use clap::Arg;
use fencing_api::conditions::{CREDENTIALS_VALID, IDENTITY_VERIFIED, REACHABLE, READY, find};
use fencing_api::device::{FenceDevice, PROBE_REQUESTED_AT, PowerState};
use fencing_core::observed::NodeView;
use fencing_core::protection::levels::{Readiness, stored_readiness};
use fencing_core::select::serves;
use fencing_drivers::clock;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::sleep;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// Why a probe is asked for, unless the user says it.
const REASON: &str = "would a fence work?";

const EXAMPLES: &str = "\
Examples:
  Probe all devices of a node: login, power, identity, and the right to power off:
      kubectl fence test worker-3

  The whole protocol on a drained node. It asks you to stop the kubelet \
(systemctl stop kubelet), since a Ready node is never fenced, and continues once \
the node is NotReady. A cordoned node is not powered on: at stage PoweringOn \
uncordon it from another terminal; the quarantine keeps pods away until it has \
booted:
      kubectl drain worker-3 --ignore-daemonsets --delete-emptydir-data
      kubectl fence test worker-3 --power-cycle --reason \"new BMC firmware\"
      kubectl uncordon worker-3

A probe needs the right to patch FenceDevices (ClusterRole node-fencing-prober), \
--power-cycle the verb `fence` (node-fencing-fencer).

Exit codes: 0 fencing works, 1 it would not, is unknown, or the command line \
cannot be used.";

/// Test the devices of a node
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("output", of_answers))]
pub struct Args {
    /// The node
    #[arg(value_parser = crate::name::node)]
    node: String,

    /// Only this FenceDevice [default: all that serve the node]
    #[arg(long, value_name = "NAME", conflicts_with = "power_cycle")]
    device: Option<String>,

    /// Power the machine off and on by a fence: of a drained node only
    #[arg(long, requires = "reason")]
    power_cycle: bool,

    /// Why, for the record [default, but for --power-cycle: would a fence work?]
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,

    /// Confirm the node's name without a prompt
    #[arg(long, value_name = "NODE", requires = "power_cycle")]
    confirm_node: Option<String>,

    /// How long to wait for an answer [default: 60s, of --power-cycle 30m]
    #[arg(long, value_name = "TIME", value_parser = time)]
    wait: Option<SignedDuration>,

    #[command(flatten)]
    dry_run: DryRun,
}

/// What devices have answered has more forms than what was done.
fn of_answers(output: Arg) -> Arg {
    output
        .help("Output format")
        .value_parser(forms(&[Form::Table, Form::Json, Form::Yaml, Form::Name]))
        .default_value("table")
        .conflicts_with("power_cycle")
}

/// What the command shows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Test {
    /// The node.
    pub node: String,
    /// Its devices.
    pub devices: Vec<Device>,
}

/// A device, as the operator has found it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// The FenceDevice.
    pub name: String,
    /// Has the operator looked since it was asked to?
    pub answered: bool,
    /// `True`, `False` or `Unknown`: it answers.
    pub reachable: String,
    /// The same: it takes user and password.
    pub credentials_valid: String,
    /// The same: it is this machine's.
    pub identity_verified: String,
    /// The power that it reads; a device of several nodes tells of none.
    pub power: Option<PowerState>,
    /// Would a fence of this node work?
    pub ready: bool,
    /// Why not, or what else the operator says of it.
    pub message: String,
    /// When it was probed last.
    #[schemars(with = "Option<String>")]
    pub last_probe_time: Option<Timestamp>,
}

/// Runs the command.
///
/// # Errors
/// [`Error`].
pub async fn run(cluster: &Cluster, args: Args) -> Done {
    if args.power_cycle {
        return cycle::run(cluster, args).await;
    }
    let node = fences::node(cluster, &args.node).await?;
    refuse_fenced(cluster, &node.name).await?;
    let devices = devices(cluster, &node, args.device.as_deref()).await?;
    let asker = cluster.asker().await?;
    let reason = args.reason.as_deref().unwrap_or(REASON);
    let mut asked = Vec::new();
    for device in &devices {
        let at = asked_at(device, asker.at);
        let asker = Asker {
            at,
            ..asker.clone()
        };
        let mut annotations = PROBE.of(&asker, reason);
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(PROBE_REQUESTED_AT.to_owned(), json!(at));
        }
        let patch = json!({"metadata": {"annotations": annotations}});
        let write = args.dry_run.write("node-fencing-prober");
        let name = device.name_any();
        let device: FenceDevice = cluster.patch(&name, &patch, &write).await?;
        if write.dry_run {
            args.dry_run.told(&device, "asked", [])?;
        }
        asked.push((name, at));
    }
    if args.dry_run.is_on() {
        return Ok(ExitCode::SUCCESS);
    }
    let limit = args.wait.unwrap_or(SignedDuration::from_secs(60));
    let test = answers(cluster, &node, &asked, limit).await?;
    let form = args.dry_run.output.unwrap_or(Form::Table);
    print(&written(form, &test, |_| screen(&test))?)?;
    let is_well = test.devices.iter().all(|it| it.answered && it.ready);
    Ok(ExitCode::from(u8::from(!is_well)))
}

/// The operator leaves devices alone while their node is being fenced.
async fn refuse_fenced(cluster: &Cluster, node: &str) -> Result<(), Error> {
    let fences = fences::fences(cluster).await?;
    let open = fences
        .iter()
        .find(|it| it.spec.node_name == node && !it.is_ended());
    match open {
        Some(fence) => Err(Error::No(format!(
            "Node {node} has an open incident, NodeFence {}, that uses its devices; wait until it has ended: kubectl fence status {node} --watch",
            fence.name_any()
        ))),
        None => Ok(()),
    }
}

async fn devices(
    cluster: &Cluster,
    node: &NodeView,
    named: Option<&str>,
) -> Result<Vec<FenceDevice>, Error> {
    let mut devices = cluster.ours::<FenceDevice>().await?;
    devices.retain(|it| serves(it, node));
    if let Some(named) = named {
        devices.retain(|it| it.name_any() == named);
    }
    match (devices.is_empty(), named) {
        (false, _) => Ok(devices),
        (true, Some(named)) => Err(Error::No(format!(
            "no FenceDevice `{named}` serves Node {}; check `spec.nodeName` or `spec.nodeSelector` (kubectl get fencedevices -o wide)",
            node.name
        ))),
        (true, None) => Err(Error::No(format!(
            "no FenceDevice serves Node {}, so it can be fenced only by manual confirmation; write one (kubectl fence generate devices)",
            node.name
        ))),
    }
}

/// By the API server's clock, and later than the last probe by the operator's: an older request would count as answered.
fn asked_at(device: &FenceDevice, now: Timestamp) -> Timestamp {
    let last = device.status.as_ref().and_then(|it| it.last_probe_time);
    let after = last.map(|last| last + SignedDuration::from_secs(1));
    after.map_or(now, |after| after.max(now))
}

/// Waits until every device was looked at, or the time is over.
async fn answers(
    cluster: &Cluster,
    node: &NodeView,
    asked: &[(String, Timestamp)],
    limit: SignedDuration,
) -> Result<Test, Error> {
    let until = clock::since_boot() + limit.unsigned_abs();
    loop {
        let mut found = Vec::new();
        for (name, at) in asked {
            let device = cluster.find_ours::<FenceDevice>(name).await?;
            let device = device.ok_or_else(|| ClusterError::Absent {
                kind: "FenceDevice".to_owned(),
                name: name.clone(),
                way_out: "it was deleted meanwhile".to_owned(),
            })?;
            found.push(told(&device, &node.name, *at));
        }
        if found.iter().all(|it| it.answered) || clock::since_boot() >= until {
            return Ok(Test {
                node: node.name.clone(),
                devices: found,
            });
        }
        sleep(PAUSE).await;
    }
}

fn told(device: &FenceDevice, node: &str, asked: Timestamp) -> Device {
    let status = device.status.clone().unwrap_or_default();
    let is = |name: &str| {
        let condition = find(&status.conditions, name);
        condition.map_or_else(|| "Unknown".to_owned(), |it| it.status.clone())
    };
    let answered = status.last_probe_time >= Some(asked);
    let ready = find(&status.conditions, READY);
    let message = match ready {
        _ if !answered => {
            "the operator has not answered; check it (kubectl fence status), or set a longer --wait"
                .to_owned()
        }
        Some(it) => format!("{}: {}", it.reason, it.message),
        None => "the operator has not probed it yet".to_owned(),
    };
    Device {
        name: device.name_any(),
        answered,
        reachable: is(REACHABLE),
        credentials_valid: is(CREDENTIALS_VALID),
        identity_verified: is(IDENTITY_VERIFIED),
        power: status.power_state,
        ready: stored_readiness(device, node) != Readiness::NotReady,
        message,
        last_probe_time: status.last_probe_time,
    }
}

fn screen(test: &Test) -> String {
    let rows: Vec<_> = test
        .devices
        .iter()
        .map(|it| {
            [
                it.name.clone(),
                it.reachable.clone(),
                it.credentials_valid.clone(),
                it.identity_verified.clone(),
                or_none(it.power.map(|it| format!("{it:?}"))),
                if it.ready { "True" } else { "False" }.to_owned(),
            ]
        })
        .collect();
    let titles = ["DEVICE", "REACHABLE", "LOGIN", "IDENTITY", "POWER", "READY"];
    let mut text = table(titles, &rows);
    for device in &test.devices {
        text += &wrapped(&format!("{}: {}", device.name, device.message), 2);
    }
    text
}

impl Content for Test {
    const KIND: &'static str = "Test";

    fn names(&self) -> Vec<String> {
        let devices = self.devices.iter();
        let names = devices.map(|it| format!("fencedevice.nodefencing.io/{}", it.name));
        names.collect()
    }
}

#[cfg(test)]
mod tests;
