//! S25: devices that read Off of a machine that runs, of the right one by its UUID or of one that they cannot name, are found before the outage, and
//! believed in none: a stopped twin of a migrated VM, a BMC without a power sensor, an outlet that feeds nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, ensure};
use e2e::lab::{Kind, LIMIT, Lab, Setup, condition, escalation};
use e2e::machine::Ailment;
use fencing_testbed::bmc::{Effect, Reading};
use fencing_testbed::eventually::eventually;
use fencing_testbed::power::Power;
use fencing_testbed::snmpd::{Feed, Pdu};
use jiff::Timestamp;
use serde_json::json;

use crate::devices::request_probe;
use crate::outage::Outage;

/// Numbers of the lab's machines, and of their outlets.
const MACHINES: [usize; 2] = [1, 2];
const REASON: &str = "OffWhileRunning";

/// What an outlet feeds that nothing is plugged into.
struct Nothing;

impl Power for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }

    fn system_uuid(&self) -> &str {
        ""
    }

    fn is_on(&self) -> bool {
        true
    }

    fn set_power(&self, _on: bool) {}
}

/// The device reads Off while the kubelet lives: it is not ready for the node, and says why.
async fn is_found_out(lab: &Lab, device: &str) -> Result<()> {
    request_probe(lab, device, Timestamp::now()).await?;
    eventually("the device is found out", LIMIT, async || {
        let device = lab.api("FenceDevice").get(device).await?;
        let ready = condition(&device, "Ready").cloned().unwrap_or_default();
        ensure!(
            ready["reason"] == REASON && ready["status"] == "False",
            "{ready}"
        );
        Ok(())
    })
    .await
}

/// The node is cut off with its containers writing: nothing is done to it, and the incident names the device.
async fn is_not_believed(outage: &Outage, device: &str) -> Result<()> {
    let Outage { lab, node, .. } = outage;
    is_found_out(lab, device).await?;
    let rig = outage.rig()?;
    rig.machine.ail(Ailment {
        partitioned: true,
        ..Ailment::default()
    });
    let names_it = |words: &str| words.contains(&format!("FenceDevice {device} read Off while"));
    let called = lab
        .wait_fence(
            node,
            |fence| matches!(escalation(fence), Some((REASON, words)) if names_it(words)),
        )
        .await?;
    let told = lab.wait_told(&called, REASON).await?;
    ensure!(names_it(&told), "the event says `{told}`");
    let written = lab.volumes.writes(&outage.volume)?.len();
    eventually("the containers go on writing", LIMIT, async || {
        let now = lab.volumes.writes(&outage.volume)?.len();
        ensure!(now > written + 5, "{written} writes, now {now}");
        Ok(())
    })
    .await?;
    ensure!(lab.times_tainted(node).await? == 0, "it was tainted");
    lab.hands_off().await?;
    rig.machine.ail(Ailment::default());
    lab.wait_stage(node, "SelfRecovered").await?;
    outage.verdict().await
}

/// By a BMC that reads Off from now on, and does this with commands.
async fn a_bmc(name: &str, kind: Kind, mode: &str, effect: Effect) -> Result<()> {
    let Some(outage) = Outage::set(name, kind, mode).await? else {
        return Ok(());
    };
    let bmc = &outage.rig()?.bmc;
    bmc.faults(|faults| {
        faults.power_state = Reading::Says(json!("Off"));
        faults.effect = effect;
    });
    is_not_believed(&outage, &format!("{}-bmc", outage.node)).await?;
    ensure!(outage.rig()?.bmc.power_commands().is_empty());
    Ok(())
}

/// A PDU with an outlet for each machine, into which nothing is plugged.
async fn unused(lab: &Lab) -> Result<Pdu> {
    let feed = || Feed::new(Arc::new(Nothing));
    let feeds = MACHINES.map(|number| Ok((u32::try_from(number)?, feed())));
    let feeds: Result<BTreeMap<u32, _>> = feeds.into_iter().collect();
    let pdu = lab.pdu(feeds?).await?;
    for number in MACHINES {
        let name = format!("node-{number}-unused");
        lab.outlets(&name, number, &pdu, &[u32::try_from(number)?])
            .await?;
    }
    Ok(pdu)
}

async fn an_outlet(name: &str, kind: Kind, mode: &str) -> Result<()> {
    let setup = Setup::new(name, MACHINES.len()).on(kind);
    let Some(lab) = Lab::start_if_available(setup).await? else {
        return Ok(());
    };
    let pdu = unused(&lab).await?;
    let selector = json!({"matchLabels": {"tier": "pdu"}});
    let levels = json!([{"name": "pdu", "retryPeriodSeconds": 1, "deviceSelector": selector}]);
    let outage = Outage::of(lab, mode, json!({"fence": {"levels": levels}})).await?;
    // Somebody finds that it is unused.
    let number = outage.node.trim_start_matches("node-").parse()?;
    pdu.switch(number, false)?;
    is_not_believed(&outage, &format!("{}-unused", outage.node)).await
}

/// A test for each kind of node and each mode that may fence.
macro_rules! is_not_believed {
    ($($name:ident: $case:ident($lab:literal, $kind:ident, $mode:literal $(, $effect:expr)?);)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() -> Result<()> {
            $case($lab, Kind::$kind, $mode $(, $effect)?).await
        }
    )*};
}

is_not_believed! {
    simulated_twin_in_confirm_only: a_bmc("twin-confirm", Simulated, "ConfirmOnly", Effect::Ignored);
    simulated_twin_in_power_off: a_bmc("twin-off", Simulated, "PowerOff", Effect::Ignored);
    simulated_dead_sensor_in_confirm_only: a_bmc("sensor-confirm", Simulated, "ConfirmOnly", Effect::default());
    simulated_dead_sensor_in_power_off: a_bmc("sensor-off", Simulated, "PowerOff", Effect::default());
    simulated_unused_outlet_in_confirm_only: an_outlet("unused-confirm", Simulated, "ConfirmOnly");
    simulated_unused_outlet_in_power_off: an_outlet("unused-off", Simulated, "PowerOff");
    real_twin_in_confirm_only: a_bmc("real-twin-confirm", Real, "ConfirmOnly", Effect::Ignored);
    real_twin_in_power_off: a_bmc("real-twin-off", Real, "PowerOff", Effect::Ignored);
    real_dead_sensor_in_confirm_only: a_bmc("real-sensor-confirm", Real, "ConfirmOnly", Effect::default());
    real_dead_sensor_in_power_off: a_bmc("real-sensor-off", Real, "PowerOff", Effect::default());
    real_unused_outlet_in_confirm_only: an_outlet("real-unused-confirm", Real, "ConfirmOnly");
    real_unused_outlet_in_power_off: an_outlet("real-unused-off", Real, "PowerOff");
}
