//! Cases 1 and 2 on virtual machines: one FenceDevice for all of them, and hypervisors that none of us wrote.

use anyhow::{Result, ensure};
use e2e::lab::{Lab, Setup};
use fencing_testbed::moment::Moment;

use super::{hung_kubelet::hung_kubelet, power_cut::power_cut};

/// What a provider did to the machine of this place: when, and whether on or off.
pub type Switched<'a> = &'a (dyn Fn(usize) -> Vec<(Moment, bool)> + Sync);

/// Case 1: `ConfirmOnly` only reads.
pub async fn cut(lab: &Lab, switched: Switched<'_>) -> Result<()> {
    power_cut(lab).await?;
    for machine in 0..lab.rigs.len() {
        ensure!(switched(machine).is_empty(), "ConfirmOnly only reads");
    }
    Ok(())
}

/// Case 2: one off, of the machine whose kubelet hangs.
pub async fn turned_off(lab: &Lab, switched: Switched<'_>) -> Result<()> {
    let node = hung_kubelet(lab).await?;
    only(lab, switched, &node, &[false])
}

/// The machine of this node was switched so, and no other.
pub fn only(lab: &Lab, switched: Switched<'_>, node: &str, so: &[bool]) -> Result<()> {
    for (machine, rig) in lab.rigs.iter().enumerate() {
        let switched = switched(machine);
        let switched: Vec<bool> = switched.iter().map(|(_, on)| *on).collect();
        let wanted: &[bool] = match rig.machine.name() == node {
            true => so,
            false => &[],
        };
        ensure!(switched == wanted, "{}: {switched:?}", rig.machine.name());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cut_moves_the_volume_by_proxmox() -> Result<()> {
    let lab = Lab::start(Setup::new("proxmox-cut", 2)).await?;
    let cluster = lab.proxmox().await?;
    cut(&lab, &|machine| cluster.switched(machine)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hung_kubelet_is_turned_off_by_proxmox() -> Result<()> {
    let lab = Lab::start(Setup::new("proxmox-hung", 2)).await?;
    let cluster = lab.proxmox().await?;
    turned_off(&lab, &|machine| cluster.switched(machine)).await
}

/// Nova stops an instance whose machine went off, and records that as a stop of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cut_moves_the_volume_by_openstack() -> Result<()> {
    let lab = Lab::start(Setup::new("openstack-cut", 2)).await?;
    let cloud = lab.openstack().await?;
    power_cut(&lab).await?;
    for machine in 0..lab.rigs.len() {
        ensure!(
            cloud.switched(machine).iter().all(|(_, on)| !on),
            "nothing was turned on"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hung_kubelet_is_turned_off_by_openstack() -> Result<()> {
    let lab = Lab::start(Setup::new("openstack-hung", 2)).await?;
    let cloud = lab.openstack().await?;
    turned_off(&lab, &|machine| cloud.switched(machine)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cut_moves_the_volume_by_vsphere() -> Result<()> {
    let lab = Lab::start(Setup::new("vsphere-cut", 2)).await?;
    let vcenter = lab.vsphere().await?;
    cut(&lab, &|machine| vcenter.switched(machine)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hung_kubelet_is_turned_off_by_vsphere() -> Result<()> {
    let lab = Lab::start(Setup::new("vsphere-hung", 2)).await?;
    let vcenter = lab.vsphere().await?;
    turned_off(&lab, &|machine| vcenter.switched(machine)).await
}
