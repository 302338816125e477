//! What is wrong with a BMC for a while.

use super::Fault;
use crate::stage::Stage;
use std::time::Duration;
use tokio::time::sleep;

impl Fault {
    pub(super) async fn bmc(self, stage: &Stage, machine: &str, time: Duration) {
        let late = stage.world.dice.seconds(5, stage.plan.late_effect.max(6));
        let set = |on: bool| {
            stage.world.with(machine, |machine| {
                // Only a machine that runs on is turned off.
                machine.hung = on && self.is_of_off();
                let bmc = &mut machine.bmc;
                match self {
                    Self::BmcHangs => bmc.hangs = on,
                    Self::BmcAway => bmc.unreachable = on,
                    Self::BmcBusy => bmc.busy = on,
                    Self::BmcNonsense => bmc.nonsense = on,
                    Self::BmcSlow => bmc.slow = Duration::from_secs(if on { 2 } else { 0 }),
                    Self::OffIgnored => bmc.ignores_off = on,
                    Self::OffLate => bmc.late_off = if on { late } else { Duration::ZERO },
                    Self::OffDelayed => {
                        bmc.late_off = if on { late } else { Duration::ZERO };
                        bmc.loses_reply = on;
                    }
                    _ => bmc.loses_reply = on,
                }
            });
        };
        stage
            .silent
            .lock()
            .expect("the names")
            .insert(machine.to_owned());
        set(true);
        let noticed = Duration::from_secs(if self.is_of_off() { 60 } else { 0 });
        sleep(noticed + time).await;
        set(false);
    }

    fn is_of_off(self) -> bool {
        matches!(
            self,
            Self::OffIgnored | Self::OffLate | Self::OffDelayed | Self::OffLost
        )
    }
}
