//! Case 12: the power cut and the hung kubelet once more, through sushy-tools' emulator, which none of us wrote.

use anyhow::{Result, ensure};
use e2e::lab::{Lab, Setup};

use super::{hung_kubelet::hung_kubelet, power_cut::power_cut};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cut_moves_the_volume_by_sushy_tools() -> Result<()> {
    let lab = Lab::start(Setup::new("sushy-cut", 2)).await?;
    let emulators = [lab.sushy(1).await?, lab.sushy(2).await?];
    power_cut(&lab).await?;
    ensure!(
        emulators.iter().all(|bmc| bmc.switched().is_empty()),
        "ConfirmOnly only reads"
    );
    only_sushy(&lab)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hung_kubelet_is_turned_off_by_sushy_tools() -> Result<()> {
    let lab = Lab::start(Setup::new("sushy-hung", 2)).await?;
    let emulators = [lab.sushy(1).await?, lab.sushy(2).await?];
    let node = hung_kubelet(&lab).await?;
    for (emulator, rig) in emulators.iter().zip(&lab.rigs) {
        let switched: Vec<_> = emulator.switched().iter().map(|(_, on)| *on).collect();
        let wanted: &[bool] = match rig.machine.name() == node {
            true => &[false],
            false => &[],
        };
        ensure!(switched == wanted, "{}: {switched:?}", rig.machine.name());
    }
    only_sushy(&lab)
}

/// The lab's own BMCs were not asked anything.
fn only_sushy(lab: &Lab) -> Result<()> {
    ensure!(lab.rigs.iter().all(|rig| rig.bmc.log().is_empty()));
    Ok(())
}
