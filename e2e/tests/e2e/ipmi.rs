//! Cases 1, 2, 4 and 8 once more, over IPMI: on the lab's own BMC with suite 17, and on OpenIPMI's, which none of us wrote, with suite 3.

use anyhow::{Context, Result, ensure};
use e2e::lab::{Lab, Setup};
use fencing_testbed::bmc::{Line, Plug};
use fencing_testbed::ipmi::{GuidForm, IpmiBmc, Suite};
use fencing_testbed::ipmi_peers::{Brand, IpmiPeer};
use rustix::process::Signal;
use serde_json::json;
use std::sync::Arc;
use uuid::Uuid;

use super::hung_kubelet::hung_kubelet;
use super::outage::Outage;
use super::power_cut::power_cut;
use super::rack_power::{impatient, waits_for_the_bmc};
use super::wrong_machine::{STRANGER, is_refused};

/// The number of a power-off (IPMI 2.0, table 28-4), the only power command that is ever sent but for an on (`turned_on`).
pub const POWER_DOWN: u8 = 0;

/// An IPMI BMC before each machine, and nothing else.
pub async fn own(lab: &Lab) -> Result<Vec<IpmiBmc>> {
    let mut bmcs = Vec::new();
    for number in 1..=lab.rigs.len() {
        bmcs.push(lab.ipmi(number, Suite::Seventeen).await?);
    }
    Ok(bmcs)
}

async fn peers(lab: &Lab) -> Result<Vec<IpmiPeer>> {
    let mut peers = Vec::new();
    for number in 1..=lab.rigs.len() {
        peers.push(lab.ipmi_peer(number, Brand::IpmiSim).await?);
    }
    Ok(peers)
}

/// The BMC of this node.
pub fn of<'a, T>(lab: &Lab, bmcs: &'a [T], node: &str) -> Result<&'a T> {
    let mut pairs = lab.rigs.iter().zip(bmcs);
    let pair = pairs.find(|(rig, _)| rig.machine.name() == node);
    pair.map(|(_, bmc)| bmc).context("a BMC for each machine")
}

/// Its Redfish BMCs were not asked anything.
fn only_ipmi(lab: &Lab) -> Result<()> {
    ensure!(lab.rigs.iter().all(|rig| rig.bmc.log().is_empty()));
    Ok(())
}

/// The power commands that it has received, and whether it accepted them.
pub fn commands(bmc: &IpmiBmc) -> Vec<(u8, bool)> {
    let commands = bmc.power_commands().into_iter();
    commands
        .map(|command| (command.control, command.accepted))
        .collect()
}

/// Every session that was begun has been closed: their slots are few.
fn all_closed(bmcs: &[IpmiBmc]) -> Result<()> {
    for bmc in bmcs {
        let sessions = bmc.sessions();
        let open = sessions
            .iter()
            .filter(|session| session.ended.is_none())
            .count();
        ensure!(open <= 1, "{open} of {} sessions are open", sessions.len());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cut_moves_the_volume_by_ipmi_suite_17() -> Result<()> {
    let lab = Lab::start(Setup::new("ipmi-cut", 2)).await?;
    let bmcs = own(&lab).await?;
    power_cut(&lab).await?;
    ensure!(
        bmcs.iter().all(|bmc| commands(bmc).is_empty()),
        "ConfirmOnly only reads"
    );
    all_closed(&bmcs)?;
    only_ipmi(&lab)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cut_moves_the_volume_by_ipmi_sim() -> Result<()> {
    let lab = Lab::start(Setup::new("ipmi-sim-cut", 2)).await?;
    let _peers = peers(&lab).await?;
    power_cut(&lab).await?;
    only_ipmi(&lab)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hung_kubelet_is_turned_off_by_ipmi_suite_17() -> Result<()> {
    let lab = Lab::start(Setup::new("ipmi-hung", 2)).await?;
    let bmcs = own(&lab).await?;
    let node = hung_kubelet(&lab).await?;
    for (bmc, rig) in bmcs.iter().zip(&lab.rigs) {
        let wanted: &[_] = match rig.machine.name() == node {
            true => &[(POWER_DOWN, true)],
            false => &[],
        };
        let commands = commands(bmc);
        ensure!(commands == wanted, "{}: {commands:?}", rig.machine.name());
    }
    all_closed(&bmcs)?;
    only_ipmi(&lab)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hung_kubelet_is_turned_off_by_ipmi_sim() -> Result<()> {
    let lab = Lab::start(Setup::new("ipmi-sim-hung", 2)).await?;
    let _peers = peers(&lab).await?;
    hung_kubelet(&lab).await?;
    only_ipmi(&lab)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rack_power_loss_waits_for_the_bmc_over_ipmi() -> Result<()> {
    let (outage, bmcs) = Outage::by("ipmi-rack", "PowerOff", impatient(), own).await?;
    let bmc = of(&outage.lab, &bmcs, &outage.node)?;
    waits_for_the_bmc(&outage, |line| bmc.set_line(line)).await?;
    only_ipmi(&outage.lab)
}

/// A process that is stopped takes what it is sent and says nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rack_power_loss_waits_for_ipmi_sim() -> Result<()> {
    let (outage, peers) = Outage::by("ipmi-sim-rack", "PowerOff", impatient(), peers).await?;
    let peer = of(&outage.lab, &peers, &outage.node)?.process();
    let set_line = |line| match line {
        Line::Dark => peer.signal(Signal::STOP),
        _ => peer.signal(Signal::CONT),
    };
    waits_for_the_bmc(&outage, set_line).await?;
    only_ipmi(&outage.lab)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_machine_is_refused_by_ipmi_sim() -> Result<()> {
    let (outage, peers) = Outage::by("ipmi-sim-wrong", "PowerOff", json!({}), peers).await?;
    let own = of(&outage.lab, &peers, &outage.node)?;
    // It writes a GUID as SMBIOS does, and nobody can tell how a stranger's is meant: it is shown in the order of the text.
    let guid = Uuid::from_bytes(Uuid::parse_str(STRANGER)?.to_bytes_le());
    let stranger = Arc::new(Plug::new("stranger", guid.to_string()));
    let swap = async || own.replace(stranger).await;
    let put_right = async |stranger: IpmiPeer| {
        let switched = stranger.switched();
        ensure!(switched.is_empty(), "another machine was commanded");
        stranger.replace(own.power().clone()).await
    };
    is_refused(&outage, swap, put_right).await?;
    only_ipmi(&outage.lab)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_machine_is_refused_over_ipmi() -> Result<()> {
    let (outage, bmcs) = Outage::by("ipmi-wrong", "PowerOff", json!({}), own).await?;
    let bmc = of(&outage.lab, &bmcs, &outage.node)?;
    let swap = async || {
        bmc.faults(|faults| {
            faults.uuid = Some(STRANGER.to_owned());
            // In the order of the text, for whoever compares it.
            faults.guid_in_rakp = GuidForm::Rfc4122;
        });
        Ok(())
    };
    is_refused(&outage, swap, async |()| {
        ensure!(commands(bmc).is_empty(), "another machine was commanded");
        bmc.heal()
    })
    .await?;
    only_ipmi(&outage.lab)
}
