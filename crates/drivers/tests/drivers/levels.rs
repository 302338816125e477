//! The devices of a level, read side by side: off together, or one that is enough while no other says on.

use crate::bmc::{Act, Bmc, Request, reply};
use crate::device::{driver, service, system};
use fencing_core::reading::{PowerState, Reading};
use fencing_core::verification::Require;
use fencing_drivers::FenceDriver;
use fencing_drivers::clock::Clock;
use fencing_drivers::confirm::{ConfirmPlan, Confirmation, Ended, Together, confirm};
use std::ops::ControlFlow;
use std::time::Duration;

const PLAN: ConfirmPlan = ConfirmPlan {
    reads: 2,
    period: Duration::from_millis(50),
    window: Duration::from_millis(50),
    deadline: Duration::from_secs(60),
};

/// A level of these two.
async fn read(require: Require, one: &Bmc, other: &Bmc) -> [Confirmation; 2] {
    let level = Together::new(require, 2, PLAN, Clock::SYSTEM);
    let level = &level;
    let read = |index: usize, bmc: &Bmc| {
        let driver = driver(bmc);
        async move {
            let watch = |_: &Reading| ControlFlow::Continue(());
            confirm(level, index, &driver, driver.open(), watch).await
        }
    };
    let (one, other) = tokio::join!(read(0, one), read(1, other));
    [one, other]
}

/// On so many times, then off for good.
async fn off_after(ons: usize) -> Bmc {
    Bmc::plain(move |request: &Request| {
        let state = if request.earlier < ons { "On" } else { "Off" };
        Act::Send(reply("200 OK", &system(&format!("\"{state}\""))))
    })
    .await
}

fn last(confirmation: &Confirmation) -> &Reading {
    confirmation.readings.last().expect("a reading")
}

#[tokio::test]
async fn two_supplies_are_read_until_both_are_off_at_the_same_time() {
    let [first, second] = read(Require::All, &off_after(0).await, &off_after(5).await).await;
    assert_eq!(
        [&first.ended, &second.ended],
        [&Ended::Stable, &Ended::Stable]
    );
    let second_went_off = second
        .readings
        .iter()
        .find(|reading| reading.state == PowerState::Off);
    let since = second_went_off.expect("it went off").answered;
    for confirmation in [&first, &second] {
        assert!(last(confirmation).asked >= since + PLAN.window);
    }
}

#[tokio::test]
async fn a_supply_that_needs_a_human_ends_the_reads_of_both() {
    let refusing = Bmc::plain(|_| Act::Send(reply("401 Unauthorized", "{}"))).await;
    let on = Bmc::plain(service("\"On\"")).await;
    let [on, refused] = read(Require::All, &on, &refusing).await;
    assert_eq!(on.ended, Ended::Settled);
    assert!(matches!(refused.ended, Ended::Failed(_)));
}

#[tokio::test]
async fn where_one_is_enough_one_that_hangs_does_not_let_the_readings_grow_old() {
    let silent = Bmc::plain(|_| Act::Hang).await;
    let [off, silent] = read(Require::Any, &off_after(2).await, &silent).await;
    assert_eq!(
        [&off.ended, &silent.ended],
        [&Ended::Stable, &Ended::Settled]
    );
    let age = Clock::SYSTEM.since_boot().saturating_sub(last(&off).asked);
    assert!(
        age < Duration::from_secs(10),
        "a proof lives for 15 s: {age:?}"
    );
}

#[tokio::test]
async fn where_one_is_enough_one_that_reads_on_is_waited_for() {
    let [_, second] = read(Require::Any, &off_after(0).await, &off_after(6).await).await;
    assert_eq!(last(&second).state, PowerState::Off);
    assert!(second.readings.len() > 6);
}
