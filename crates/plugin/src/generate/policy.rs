//! `kubectl fence generate policy`: a NodeFencingPolicy by flags.
//!
//! Every default is the API's own, the mode too: a policy that nobody has thought about observes. The output says so.

use super::super::mode::Mode;
use super::super::output::print;
use super::super::time::time;
use super::super::{Done, Error};
use super::devices::object_name;
use super::document::{Remark, document};
use super::selector::selector;
use fencing_api::min_healthy::MinHealthy;
use fencing_api::policy::{
    ApprovalMode, ConditionStatus, FenceLevel, FenceMode, NodeFencingPolicy, NodeFencingPolicySpec,
    PowerOnPolicy, UnhealthyCondition,
};
use fencing_api::selector::LabelSelector;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Nodes that are no control plane.
const WORKERS: &str = "!node-role.kubernetes.io/control-plane";
/// Of a policy whose author has not named it.
const NAME: &str = "workers";
/// Of the only level.
const LEVEL: &str = "bmc";

const EXAMPLES: &str = "\
Examples:
  For the devices that have the label tier=bmc:
      kubectl fence generate policy --name workers --mode Observe \\
          --device-selector tier=bmc --wait 90s > policy.yaml

Start with mode Observe, review `kubectl fence history`, then change to \
ConfirmOnly and PowerOff.";

/// Print a NodeFencingPolicy
#[derive(Debug, Default, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Its name [default: workers]
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    pub name: Option<String>,

    /// Its nodes, as kubectl's -l [default: !node-role.kubernetes.io/control-plane]
    #[arg(long, value_name = "SELECTOR", value_parser = selector)]
    pub selector: Option<LabelSelector>,

    /// How far the operator may go [default: Observe]
    #[arg(long, value_name = "MODE", ignore_case = true)]
    pub mode: Option<Mode>,

    /// Labels of the FenceDevices that are used [default: all of a node]
    #[arg(long, value_name = "SELECTOR", value_parser = selector)]
    pub device_selector: Option<LabelSelector>,

    /// How long a node is NotReady before it is fenced, such as 90s [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = wait)]
    pub wait: Option<u32>,

    /// Nodes that must be Ready: a number or a percentage [default: 51%]
    #[arg(long, value_name = "NODES", value_parser = min_healthy)]
    pub min_healthy: Option<MinHealthy>,

    /// Nodes that may be fenced at the same time [default: 1]
    #[arg(long, value_name = "NODES", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub max_concurrent: Option<u32>,

    /// Require an approval for each fence
    #[arg(long)]
    pub manual_approval: bool,

    /// Power the machine on after its volumes are detached (mode PowerOff)
    #[arg(long)]
    pub power_on: bool,
}

/// A time that a condition may have to hold, in seconds.
///
/// # Errors
/// The rule, in words.
fn wait(text: &str) -> Result<u32, String> {
    let seconds = time(text)?.as_secs();
    let seconds = u32::try_from(seconds)
        .ok()
        .filter(|it| (10..=86_400).contains(it));
    seconds.ok_or_else(|| "must be from 10s to 24h".to_owned())
}

/// A number of nodes or a share of them.
///
/// # Errors
/// The rule, in words.
fn min_healthy(text: &str) -> Result<MinHealthy, String> {
    let value = text
        .parse::<u32>()
        .map_or_else(|_| json!(text), |it| json!(it));
    let read: Result<MinHealthy, _> = serde_json::from_value(value);
    let is_bounded = |it: &MinHealthy| !matches!(it, MinHealthy::Count(100_001..));
    read.ok().filter(is_bounded).ok_or_else(|| {
        "must be a number of at most 100000 or a percentage between 0% and 100%".to_owned()
    })
}

/// Runs the command.
///
/// # Errors
/// [`Error`].
pub fn run(args: &Args) -> Done {
    print(&text(args)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The policy as YAML.
///
/// # Errors
/// The flags contradict one another.
fn text(args: &Args) -> Result<String, Error> {
    let mode = args.mode.map_or(FenceMode::Observe, FenceMode::from);
    if args.power_on && mode != FenceMode::PowerOff {
        return Err(Error::No(format!(
            "--power-on: mode {mode:?} powers no machine off, so none is powered on; add --mode PowerOff"
        )));
    }
    let policy = policy(args, mode)?;
    document(&policy, &remarks(args, mode), true)
}

/// What it does, in words.
fn remarks(args: &Args, mode: FenceMode) -> Vec<Remark> {
    let default = match args.mode {
        None => ", the API's default",
        Some(_) => "",
    };
    let does = match mode {
        FenceMode::Observe => "it reports what would be done and changes nothing",
        FenceMode::ConfirmOnly => {
            "it acts on a machine that is already off, and sends no power command"
        }
        FenceMode::PowerOff => "it powers the machine off, verifies that, and acts",
    };
    let mode = format!("Mode {mode:?}{default}: {does}.");
    let is_all = args.selector.as_ref() == Some(&LabelSelector::default());
    // Nobody is to find that out by an outage: an empty variable of a script does it, too.
    let all = "Nodes: every one, control plane included, because `--selector` is empty.";
    let words = std::iter::once(mode).chain(is_all.then(|| all.to_owned()));
    words.map(Remark::Words).collect()
}

fn policy(args: &Args, mode: FenceMode) -> Result<NodeFencingPolicy, Error> {
    let node_selector = match &args.selector {
        Some(selector) => selector.clone(),
        None => selector(WORKERS).map_err(Error::No)?,
    };
    // The API fills in what no flag gives.
    let spec: Value = json!({"nodeSelector": node_selector});
    let failed =
        |error: serde_json::Error| Error::No(format!("the policy cannot be made: {error}"));
    let mut spec: NodeFencingPolicySpec = serde_json::from_value(spec).map_err(failed)?;
    spec.procedure.fence.mode = mode;
    if mode != FenceMode::Observe || args.device_selector.is_some() {
        let level: Result<FenceLevel, _> = serde_json::from_value(json!({"name": LEVEL}));
        spec.procedure.fence.levels = vec![FenceLevel {
            device_selector: args.device_selector.clone(),
            ..level.map_err(failed)?
        }];
    }
    if args.manual_approval {
        spec.procedure.fence.approval.mode = ApprovalMode::Manual;
    }
    if let Some(duration_seconds) = args.wait {
        spec.unhealthy_conditions = vec![UnhealthyCondition {
            type_: "Ready".to_owned(),
            status: ConditionStatus::Unknown,
            duration_seconds,
        }];
    }
    if let Some(min_healthy) = args.min_healthy {
        spec.budget.min_healthy = min_healthy;
    }
    if let Some(max_concurrent) = args.max_concurrent {
        spec.budget.max_concurrent = max_concurrent;
    }
    if args.power_on {
        spec.procedure.power_on.policy = PowerOnPolicy::AfterRecovery;
    }
    let name = args.name.as_deref().unwrap_or(NAME);
    Ok(NodeFencingPolicy::new(name, spec))
}

#[cfg(test)]
mod tests;
