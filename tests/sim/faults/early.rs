//! What may be taken for a dead machine, and is none: a kubelet, an API server or a BMC that is away for a while.

use super::Fault;
use crate::libc::elapsed;
use crate::stage::Stage;
use std::time::Duration;
use tokio::time::sleep;

/// How long a BMC reads Off at most while it begins anew: less than lies between two Offs that count.
const MOMENT: Duration = Duration::from_millis(400);

/// Nobody is answered, and watches end.
pub async fn outage(stage: &Stage, time: Duration) {
    stage.world.switches().api_away = true;
    stage.world.api.end_watches();
    stage.world.hit(Fault::ApiOutage);
    sleep(time).await;
    stage.world.switches().api_away = false;
    // Who has begun to watch meanwhile begins anew.
    stage.world.api.end_watches();
}

/// Its containers run on.
pub async fn restart(stage: &Stage, machine: &str, time: Duration) {
    let runs = stage.world.with(machine, |machine| {
        machine.hung = true;
        machine.on
    });
    stage.world.hit_if(runs, Fault::KubeletRestart);
    sleep(time).await;
    stage.world.with(machine, |machine| {
        machine.hung = false;
        // It says so at once.
        machine.restarts += 1;
    });
}

/// Another one may be on its way by the time that it is asked: that is no fault of it.
pub async fn restart_bmc(stage: &Stage, machine: &str) {
    let time = stage.world.dice.millis(100, 400).min(MOMENT);
    let runs = stage.world.with(machine, |machine| {
        machine.bmc.off_until = elapsed() + time;
        machine.on
    });
    stage.world.hit_if(runs, Fault::BmcRestart);
    sleep(time).await;
}
