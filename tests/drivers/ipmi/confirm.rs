//! The reads for a proof over IPMI: what starts them again, and what they never are.

use super::*;
use e2e::ipmi::PowerBit;
use e2e::machine::Power;
use node_fencing_operator::core::proof::Require;
use node_fencing_operator::core::reading::PowerState;
use node_fencing_operator::fence::confirm::{ConfirmPlan, Confirmation, Ended, Together, confirm};
use std::ops::ControlFlow;

const PLAN: ConfirmPlan = ConfirmPlan {
    reads: 3,
    period: Duration::from_millis(50),
    window: Duration::from_millis(100),
    deadline: Duration::from_secs(3),
};

async fn confirmed(bench: &Bench, plan: &ConfirmPlan, limit: Duration) -> Confirmation {
    let driver = Ipmi::new(IpmiSettings {
        call_timeout: limit,
        ..bench.settings()
    });
    let driver = driver.unwrap();
    let watch = |_: &Reading| ControlFlow::Continue(());
    let alone = Together::new(Require::All, 1, *plan, Clock::SYSTEM);
    confirm(&alone, 0, &driver, driver.open(), watch).await
}

#[tokio::test]
async fn a_run_of_off_is_read_in_one_session() {
    let bench = bench();
    bench.plug.set_power(false);
    let confirmation = confirmed(&bench, &PLAN, ENDLESS).await;
    assert_eq!(confirmation.ended, Ended::Stable);
    assert_eq!(bench.round_trips(), 6);
    bench.assert_closed(1).await;
}

#[tokio::test]
async fn flapping_and_faults_never_satisfy_the_window() {
    let bench = bench();
    bench
        .bmc
        .faults(|faults| faults.power = PowerBit::Cycle(vec![false, false, true]));
    let confirmation = confirmed(&bench, &PLAN, ENDLESS).await;
    assert_eq!(confirmation.ended, Ended::Deadline(None));

    let bench = super::bench();
    bench.plug.set_power(false);
    bench.bmc.faults(|faults| faults.power_bits = 0x04);
    let confirmation = confirmed(&bench, &PLAN, ENDLESS).await;
    assert_eq!(confirmation.ended, Ended::Deadline(None));
}

#[tokio::test]
async fn a_bmc_that_forgets_the_session_costs_a_reading_and_gets_a_new_session() {
    let bench = bench();
    bench.plug.set_power(false);
    let plan = ConfirmPlan {
        reads: 6,
        window: Duration::from_millis(250),
        deadline: ENDLESS,
        ..PLAN
    };
    let forgets = async {
        let is_read = |entry: &e2e::ipmi::Entry| {
            matches!(
                entry.asked,
                Asked::Command {
                    net_fn: 0,
                    command: 1,
                    ..
                }
            )
        };
        bench.bmc.wait_for(ENDLESS, is_read).await.unwrap();
        bench.bmc.reboot(Duration::from_millis(100)).await.unwrap();
    };
    let (confirmation, ()) = tokio::join!(confirmed(&bench, &plan, SHORT), forgets);
    assert_eq!(confirmation.ended, Ended::Stable);
    let states: Vec<PowerState> = confirmation.readings.iter().map(|one| one.state).collect();
    let broken = states
        .iter()
        .rposition(|state| *state == PowerState::Unknown);
    assert!(broken.is_some(), "{states:?}");
    let run = states.len() - broken.unwrap() - 1;
    assert!(run >= 6, "the run begins anew: {states:?}");
}

#[tokio::test]
async fn a_wrong_password_ends_the_reads_at_once() {
    let bench = bench();
    bench
        .bmc
        .faults(|faults| faults.password = Some("another".to_owned()));
    let confirmation = confirmed(&bench, &PLAN, ENDLESS).await;
    assert!(
        matches!(&confirmation.ended, Ended::Failed(error) if error.reason() == "AuthFailed"),
        "{:?}",
        confirmation.ended
    );
    assert_eq!(confirmation.readings.len(), 1);
}
