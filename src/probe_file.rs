//! `node-fencing-operator probe FILE`: one look at a FenceDevice that stands in a file, without a cluster.
//!
//! For the engineer who racks the machine. The file holds the FenceDevice as it will be applied, and its Secret (and ConfigMap) beside
//! it or in a file of their own; what is looked at, and the words, are those of the operator. With `--power-off --yes` the whole
//! engine runs ([`off`]): one hard off, and readings until they are what a proof asks of a device, with a policy's defaults.
//!
//! The drivers read their Secret from an API server. Here that is a client which answers from the file.

pub mod contract;
mod fields;
mod objects;
mod off;
mod operator;
mod report;

use crate::args::probe::{Output, Probing};
use crate::shell::devices::{Devices, Freshness};
use fencing_api::device::{FenceDevice, IdentityCheck};
use fencing_core::identity_rule::IdentityRule;
use fencing_drivers::clock::Clock;
use fencing_drivers::{Extent, FenceDriver};
use kube::ResourceExt;
use objects::Objects;
use off::Target;
use operator::Operator;
use report::Report;
use std::process::ExitCode;

/// The device proves the machine off, or the probe is clean.
const CLEAN: u8 = 0;
/// It is not.
const NOT_CLEAN: u8 = 1;

/// The input cannot be used: exit code 2. Each message names the file, what is wrong, and the way out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(String);

/// Looks at the device once, prints what was found, and says by the exit code whether it would do.
///
/// # Errors
/// [`BadInput`], with nothing sent to any device.
pub async fn run(order: &Probing) -> Result<ExitCode, BadInput> {
    let report = looked(order).await?;
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

/// Looks at the device once, and turns its machine off if that is ordered.
pub(crate) async fn looked(order: &Probing) -> Result<Report, BadInput> {
    let objects = Objects::read(order)?;
    let device = objects.device()?;
    let node = node_name(&device, order)?;
    let is_known = order.node_uuid.is_some() || device.spec.identity_check == IdentityCheck::Skip;
    if order.power_off && !is_known {
        return Err(BadInput(
            "--power-off needs --node-uuid, so that no other machine is turned off (S5); a device that cannot name its machine has `identityCheck: Skip`".to_owned(),
        ));
    }
    let devices = Devices::of_files(
        objects.client(&order.namespace),
        order.namespace.clone(),
        order.addresses.clone(),
        Clock::SYSTEM,
    );
    let mut report = Report::new(&device, &node);
    let operator = Operator::new(&device, &node, order.node_uuid.as_deref());
    match devices.access(&device, &node, Freshness::Now).await {
        Err(error) => report.judged(&operator.judge(&Err(error))),
        Ok(access) => {
            report.trimmed(&access.trimmed_keys);
            let rule = identity_rule(&device, order);
            look(access.driver.as_ref(), &rule, &operator, &mut report).await;
            if order.power_off && report.may_be_turned_off() {
                let target = Target {
                    device: &device.name_any(),
                    identity: &rule,
                    time_max: order.off_time_max,
                };
                report.off(target.power_off(access.driver.as_ref()).await);
            }
        }
    }
    Ok(report)
}

/// For which node a device for a fleet is asked.
fn node_name(device: &FenceDevice, order: &Probing) -> Result<String, BadInput> {
    match (&order.node, &device.spec.node_name) {
        (Some(asked), Some(own)) if asked != own => Err(BadInput(format!(
            "--node: `{asked}` is not the node of this FenceDevice (`spec.nodeName` is {own}); leave --node out"
        ))),
        (Some(node), _) | (None, Some(node)) => Ok(node.clone()),
        (None, None) if device.spec.node_selector.is_none() => Err(BadInput(format!(
            "`spec` of FenceDevice `{}` must set `nodeName` or `nodeSelector`",
            device.name_any()
        ))),
        (None, None) => Err(BadInput(
            "the FenceDevice is for a fleet (`spec.nodeSelector`); name the node with --node"
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

async fn look(
    driver: &dyn FenceDriver,
    rule: &IdentityRule,
    operator: &Operator<'_>,
    report: &mut Report,
) {
    let begun = Clock::SYSTEM.since_boot();
    let outcome = driver.open().probe(Extent::Whole).await;
    let took = Clock::SYSTEM.since_boot().saturating_sub(begun);
    report.judged(&operator.judge(&outcome));
    if let Ok(probe) = &outcome {
        report.answered(probe, rule, took);
    }
}
