//! `node-fencing-operator conformance FILE`: does a service keep the contract of driver `webhook`?
//!
//! The rules, and how each is tried, are beside the driver; here the service is found as `probe FILE` finds a device.

use super::objects::Objects;
use super::{BadInput, CLEAN, NOT_CLEAN, node_facts};
use crate::args::conformance::Conforming;
use crate::shell::devices::Devices;
use fencing_api::device::{FenceDevice, WebhookDriver};
use fencing_drivers::clock::Clock;
use fencing_drivers::cloud::webhook::conformance::{Finding, Trial, judge};
use fencing_drivers::{DeviceError, NodeFacts};
use kube::ResourceExt;
use std::process::ExitCode;

/// Tries the service, prints a line for each rule, and says by the exit code whether it keeps them.
///
/// # Errors
/// [`BadInput`], with nothing sent.
pub async fn run(order: &Conforming) -> Result<ExitCode, BadInput> {
    let findings = tried(order).await?;
    for finding in &findings {
        println!("{finding}");
    }
    let is_kept = findings.iter().all(|finding| finding.seen.is_ok());
    Ok(ExitCode::from(if is_kept { CLEAN } else { NOT_CLEAN }))
}

async fn tried(order: &Conforming) -> Result<Vec<Finding>, BadInput> {
    let probing = &order.device;
    let objects = Objects::read(probing)?;
    let device = objects.device()?;
    let node = node_facts(&objects, &device, probing)?;
    let settings = device.spec.drivers.webhook.as_ref().ok_or_else(|| {
        BadInput(format!(
            "FenceDevice `{}` has driver `{}`; conformance is for driver `webhook`, use `probe` for any other",
            device.name_any(),
            device.spec.driver_name()
        ))
    })?;
    let devices = Devices::of_files(
        objects.client(&probing.namespace),
        probing.namespace.clone(),
        probing.addresses.clone(),
        Clock::SYSTEM,
    );
    let judged = judged(&devices, &device, settings, node, order).await;
    Ok(judged.unwrap_or_else(|error| {
        vec![Finding {
            rule: "the settings can be used",
            seen: Err(error.to_string()),
        }]
    }))
}

async fn judged(
    devices: &Devices,
    device: &FenceDevice,
    settings: &WebhookDriver,
    node: NodeFacts,
    order: &Conforming,
) -> Result<Vec<Finding>, DeviceError> {
    let mut parts = devices.parts(device, &node.name).await?;
    let uuid = Some(node.system_uuid.clone()).filter(|it| !it.is_empty());
    // Without a cluster the Node is what the user says of it.
    parts.node = node;
    let trial = Trial {
        node_uuid: uuid,
        power_cycle: order.power_cycle,
        time_max: order.time_max,
    };
    judge(settings, parts, &trial).await
}
