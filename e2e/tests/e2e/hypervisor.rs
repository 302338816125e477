//! Cases 1 and 2 on virtual machines: one FenceDevice for all of them, and a Proxmox VE cluster that none of us wrote.

use anyhow::{Result, ensure};
use e2e::lab::{Lab, Setup};

use super::{hung_kubelet::hung_kubelet, power_cut::power_cut};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cut_moves_the_volume_by_proxmox() -> Result<()> {
    let lab = Lab::start(Setup::new("proxmox-cut", 2)).await?;
    let cluster = lab.proxmox().await?;
    power_cut(&lab).await?;
    for machine in 0..lab.rigs.len() {
        ensure!(
            cluster.switched(machine).is_empty(),
            "ConfirmOnly only reads"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hung_kubelet_is_turned_off_by_proxmox() -> Result<()> {
    let lab = Lab::start(Setup::new("proxmox-hung", 2)).await?;
    let cluster = lab.proxmox().await?;
    let node = hung_kubelet(&lab).await?;
    for (machine, rig) in lab.rigs.iter().enumerate() {
        let switched = cluster.switched(machine);
        let switched: Vec<bool> = switched.iter().map(|(_, on)| *on).collect();
        let wanted: &[bool] = match rig.machine.name() == node {
            true => &[false],
            false => &[],
        };
        ensure!(switched == wanted, "{}: {switched:?}", rig.machine.name());
    }
    Ok(())
}
