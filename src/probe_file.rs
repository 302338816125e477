//! `node-fencing-operator probe FILE`: one look at a FenceDevice that stands in a file, without a cluster.
//!
//! For the engineer who racks the machine. The file holds the FenceDevice as it will be applied, and its Secret (and ConfigMap) beside
//! it or in a file of their own; what is looked at, and the words, are those of the operator. With `--power-off --yes` the whole
//! engine runs: one hard off, and readings until the power is proven off, over the time that a policy's defaults ask for.
//!
//! The drivers read their Secret from an API server. Here that is a client which answers from the file.

mod objects;
mod report;

use crate::api::device::{FenceDevice, IdentityCheck};
use crate::api::settings::Verification;
use crate::args::probe::{Output, Probing};
use crate::clock::Clock;
use crate::core::proof::{IdentityRule, Require};
use crate::core::reading::{PowerState, Reading};
use crate::fence::confirm::{ConfirmPlan, Ended, Together, confirm};
use crate::fence::{DeviceError, Extent, FenceDriver, OffOutcome};
use crate::shell::devices::{Devices, Freshness};
use objects::Objects;
use report::{Off, Report};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

/// The power is proven off, or the probe is clean.
const CLEAN: u8 = 0;
/// It is not.
const NOT_CLEAN: u8 = 1;

/// Time for a machine to go off and to be read.
const OFF_TIME_MAX: Duration = Duration::from_secs(90);

/// The input cannot be used: exit code 2. Each message names the file, what is wrong, and the way out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(String);

/// Looks at the device once, prints what was found, and says by the exit code whether it would do.
///
/// # Errors
/// [`BadInput`], with nothing sent to any device.
pub async fn run(order: &Probing) -> Result<ExitCode, BadInput> {
    let objects = Objects::read(order)?;
    let device = objects.device()?;
    let node = node_name(&device, order)?;
    let is_known = order.node_uuid.is_some() || device.spec.identity_check == IdentityCheck::Skip;
    if order.power_off && !is_known {
        return Err(BadInput(
            "--power-off needs --node-uuid, so that no other machine is turned off (S5); a device that cannot name its machine has `identityCheck: Skip`".to_owned(),
        ));
    }
    let devices = Devices::new(
        objects.client(&order.namespace),
        order.namespace.clone(),
        order.addresses.clone(),
        Clock::SYSTEM,
    );
    let mut report = Report::new(&device, &node);
    match devices.access(&device, &node, Freshness::Now).await {
        Err(error) => report.failed(&error),
        Ok(access) => {
            report.trimmed(&access.trimmed_keys);
            let rule = identity_rule(&device, order);
            look(access.driver.as_ref(), &rule, &mut report).await;
            if order.power_off && report.is_clean() {
                let off = power_off(access.driver.as_ref(), &rule).await;
                report.off(off);
            }
        }
    }
    match order.output {
        Output::Text => print!("{report}"),
        Output::Json => println!("{}", report.json()),
    }
    Ok(ExitCode::from(if report.is_clean() {
        CLEAN
    } else {
        NOT_CLEAN
    }))
}

/// For which node a device for a fleet is asked.
fn node_name(device: &FenceDevice, order: &Probing) -> Result<String, BadInput> {
    match (&order.node, &device.spec.node_name) {
        (Some(asked), Some(own)) if asked != own => Err(BadInput(format!(
            "--node: `{asked}` is not the node of this FenceDevice (`spec.nodeName` is {own}); leave --node out"
        ))),
        (Some(node), _) | (None, Some(node)) => Ok(node.clone()),
        (None, None) => Err(BadInput(
            "the FenceDevice is for a fleet (`spec.nodeSelector`); say for which node with --node"
                .to_owned(),
        )),
    }
}

/// Without a cluster nobody has pinned a machine: what is compared is what the user gives.
fn identity_rule(device: &FenceDevice, order: &Probing) -> IdentityRule {
    match (&order.node_uuid, device.spec.identity_check) {
        (Some(uuid), IdentityCheck::Required) => IdentityRule::Is(uuid.clone()),
        // Whoever names the machine means it: a device that names another one is refused, and one that names none (an outlet) is not.
        (Some(uuid), IdentityCheck::BestEffort | IdentityCheck::Skip) => {
            IdentityRule::IsOrSilent(uuid.clone())
        }
        (None, _) => IdentityRule::Skip,
    }
}

async fn look(driver: &dyn FenceDriver, rule: &IdentityRule, report: &mut Report) {
    let begun = Clock::SYSTEM.since_boot();
    match driver.open().probe(Extent::Whole).await {
        Ok(probe) => {
            let took = Clock::SYSTEM.since_boot().saturating_sub(begun);
            report.answered(&probe, rule, took);
        }
        Err(error) => report.failed(&error),
    }
}

/// One hard off, and the readings that a proof needs.
async fn power_off(driver: &dyn FenceDriver, rule: &IdentityRule) -> Off {
    let mut session = driver.open();
    let commanded = async {
        let identity = session.prepare_off().await?;
        if let Err(wrong) = rule.check("of the file", &identity) {
            return Ok(Err(wrong.to_string()));
        }
        session.force_off().await.map(Ok)
    };
    let outcome: Result<_, DeviceError> = commanded.await;
    let command = match outcome {
        Ok(Ok(OffOutcome::Accepted)) => "the device accepted the command".to_owned(),
        Ok(Ok(OffOutcome::AlreadyOff { said })) => {
            format!("the device says that the machine already is off ({said})")
        }
        Ok(Ok(OffOutcome::Unknown(error))) => format!("the outcome is unknown: {error}"),
        Ok(Err(words)) => return Off::not_sent(words),
        Err(error) => return Off::not_sent(error.to_string()),
    };
    drop(session);
    let settings = Verification::default();
    let (reads, period) = (
        settings.consecutive_off_reads,
        Duration::from_secs(settings.read_period_seconds.into()),
    );
    let plan = ConfirmPlan {
        reads,
        period,
        window: period * reads.saturating_sub(1),
        deadline: OFF_TIME_MAX,
    };
    let level = Together::new(Require::All, 1, plan, Clock::SYSTEM);
    let watch = |reading: &Reading| match rule.check("of the file", &reading.identity) {
        Err(wrong) if reading.state != PowerState::Unknown => ControlFlow::Break(wrong.to_string()),
        _ => ControlFlow::Continue(()),
    };
    let confirmation = confirm(&level, 0, driver, driver.open(), watch).await;
    let (is_proven, words) = match confirmation.ended {
        Ended::Stable => (true, "the machine is proven off".to_owned()),
        Ended::Settled => (false, "the readings ended early".to_owned()),
        Ended::Deadline(None) => (
            false,
            format!("not off within {} s", OFF_TIME_MAX.as_secs()),
        ),
        Ended::Deadline(Some(error)) | Ended::Failed(error) => (false, error.to_string()),
        Ended::Stopped(words) => (false, words),
    };
    Off {
        command,
        readings: confirmation.readings,
        is_proven,
        words,
    }
}
