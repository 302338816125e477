//! `node-fencing-operator probe FILE`: one look at a FenceDevice that stands in a file, without a cluster.
//!
//! For the engineer who racks the machine. The file holds the FenceDevice as it will be applied, and its Secret (and ConfigMap) beside
//! it or in a file of their own, and the Node where the machine is found by that; what is looked at, and the words, are those of the operator. With `--power-off --yes` the whole
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
use fencing_core::reading::{same_system, usable_uuid};
use fencing_drivers::clock::Clock;
use fencing_drivers::{Extent, FenceDriver, NodeFacts};
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
    let facts = node_facts(&objects, &device, order)?;
    let node = facts.name.clone();
    let uuid = Some(facts.system_uuid.clone()).filter(|it| !it.is_empty());
    let is_known = uuid.is_some() || device.spec.identity_check == IdentityCheck::Skip;
    if order.power_off && !is_known {
        return Err(BadInput(
            "--power-off needs --node-uuid or the Node in the files, to turn no other machine off (S5); set `identityCheck: Skip` if the device cannot name its machine".to_owned(),
        ));
    }
    let devices = Devices::of_files(
        objects.client(&order.namespace),
        order.namespace.clone(),
        order.addresses.clone(),
        Clock::SYSTEM,
    );
    devices.note_node(facts);
    let mut report = Report::new(&device, &node);
    let operator = Operator::new(&device, &node, uuid.as_deref());
    match devices.access(&device, &node, Freshness::Now).await {
        Err(error) => report.judged(&operator.judge(&Err(error))),
        Ok(access) => {
            report.trimmed(&access.trimmed_keys);
            let rule = identity_rule(&device, uuid.as_deref());
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

/// What is known of the node that the device is asked for: what the flags say, and the Node in the files, which have to agree.
fn node_facts(
    objects: &Objects,
    device: &FenceDevice,
    order: &Probing,
) -> Result<NodeFacts, BadInput> {
    let name = node_name(objects, device, order)?;
    let node = objects.node(&name)?;
    let mut facts = node.unwrap_or_else(|| NodeFacts::named(&name));
    // A UUID that names no machine is none.
    if usable_uuid(&facts.system_uuid).is_none() {
        facts.system_uuid.clear();
    }
    let differs = |flag: &str, given: &str, own: &str| {
        BadInput(format!(
            "{flag}: `{given}` is not that of Node {name} in the files, `{own}`; leave {flag} out, or correct the Node"
        ))
    };
    if let Some(uuid) = &order.node_uuid {
        if !facts.system_uuid.is_empty() && !same_system(uuid, &facts.system_uuid) {
            return Err(differs("--node-uuid", uuid, &facts.system_uuid));
        }
        facts.system_uuid.clone_from(uuid);
    }
    if let Some(id) = &order.node_provider_id {
        if !facts.provider_id.is_empty() && *id != facts.provider_id {
            return Err(differs("--node-provider-id", id, &facts.provider_id));
        }
        facts.provider_id.clone_from(id);
    }
    facts.addresses.extend(order.node_addresses.iter().cloned());
    Ok(facts)
}

/// For which node a device for a fleet is asked.
fn node_name(objects: &Objects, device: &FenceDevice, order: &Probing) -> Result<String, BadInput> {
    match (&order.node, &device.spec.node_name) {
        (Some(asked), Some(own)) if asked != own => Err(BadInput(format!(
            "--node: `{asked}` is not the node of this FenceDevice (`spec.nodeName` is {own}); leave --node out"
        ))),
        (Some(node), _) | (None, Some(node)) => Ok(node.clone()),
        (None, None) if device.spec.node_selector.is_none() => Err(BadInput(format!(
            "`spec` of FenceDevice `{}` must set `nodeName` or `nodeSelector`",
            device.name_any()
        ))),
        (None, None) => objects.only_node().ok_or_else(|| {
            BadInput(
                "the FenceDevice is for a fleet (`spec.nodeSelector`); name the node with --node"
                    .to_owned(),
            )
        }),
    }
}

/// Without a cluster nobody has pinned a machine: what is compared is what the user gives.
fn identity_rule(device: &FenceDevice, node_uuid: Option<&str>) -> IdentityRule {
    let node_uuid = node_uuid.map(str::to_owned);
    match (node_uuid, device.spec.identity_check) {
        (Some(uuid), IdentityCheck::Required) => IdentityRule::Is(uuid),
        // Whoever names the machine means it: a device that names another one is refused, and one that names none (an outlet) is not.
        (Some(uuid), IdentityCheck::BestEffort | IdentityCheck::Skip) => {
            IdentityRule::IsOrSilent(uuid)
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
