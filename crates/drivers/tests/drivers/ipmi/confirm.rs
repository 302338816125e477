//! The reads for a proof over IPMI.

use super::*;
use fencing_core::verification::Require;
use fencing_drivers::confirm::{ConfirmPlan, Ended, Together, confirm};
use fencing_testbed::power::Power;
use std::ops::ControlFlow;

#[tokio::test]
async fn a_run_of_off_is_read_in_one_session() {
    let bench = bench();
    bench.plug.set_power(false);
    let plan = ConfirmPlan {
        reads: 3,
        period: Duration::from_millis(50),
        window: Duration::from_millis(100),
        deadline: ENDLESS,
    };
    let (driver, alone) = (
        bench.driver(),
        Together::new(Require::All, 1, plan, Clock::SYSTEM),
    );
    let go_on = |_: &Reading| ControlFlow::Continue(());
    let confirmation = confirm(&alone, 0, &driver, driver.open(), go_on).await;
    assert_eq!(confirmation.ended, Ended::Stable);
    // One of them is Get ACPI Power State, which this BMC does not have.
    assert_eq!(bench.round_trips(), 7);
    bench.assert_closed(1).await;
}
