//! The reads for a proof: when they are worth a judgement, and everything that starts them again.

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
    reads: 3,
    period: Duration::from_millis(50),
    window: Duration::from_millis(100),
    deadline: Duration::from_secs(20),
};

async fn confirmed(bmc: &Bmc, plan: &ConfirmPlan) -> Confirmation {
    let driver = driver(bmc);
    let watch = |_: &Reading| ControlFlow::Continue(());
    confirm(&alone(*plan), 0, &driver, driver.open(), watch).await
}

/// A level of one device.
fn alone(plan: ConfirmPlan) -> Together {
    Together::new(Require::All, 1, plan, Clock::SYSTEM)
}

/// A system whose power state, request by request, is the next of these; the last one stays. `!` is a reset.
fn playing(states: &'static [&'static str]) -> impl Fn(&Request) -> Act + Send + Sync {
    move |request| match states[request.earlier.min(states.len() - 1)] {
        "!" => Act::Reset,
        state => Act::Send(reply("200 OK", &system(&format!("\"{state}\"")))),
    }
}

fn words(confirmation: &Confirmation) -> Vec<&str> {
    confirmation
        .readings
        .iter()
        .map(|reading| reading.raw.as_str())
        .collect()
}

#[tokio::test]
async fn enough_offs_over_the_window_are_stable() {
    let bmc = Bmc::plain(service("\"Off\"")).await;
    let confirmation = confirmed(&bmc, &PLAN).await;
    assert_eq!(confirmation.ended, Ended::Stable);
    assert_eq!(words(&confirmation), ["Off", "Off", "Off"]);
    for pair in confirmation.readings.windows(2) {
        assert!(pair[1].asked >= pair[0].answered + PLAN.period);
    }
}

#[tokio::test]
async fn a_longer_window_takes_more_reads() {
    let bmc = Bmc::plain(service("\"Off\"")).await;
    let plan = ConfirmPlan {
        reads: 0,
        window: Duration::from_millis(180),
        ..PLAN
    };
    let confirmation = confirmed(&bmc, &plan).await;
    let (first, last) = (
        &confirmation.readings[0],
        confirmation.readings.last().unwrap(),
    );
    assert_eq!(confirmation.ended, Ended::Stable);
    assert!(last.asked >= first.answered + plan.window);
}

#[tokio::test]
async fn one_off_alone_is_never_stable() {
    let bmc = Bmc::plain(service("\"Off\"")).await;
    let plan = ConfirmPlan {
        reads: 1,
        window: Duration::ZERO,
        ..PLAN
    };
    assert_eq!(confirmed(&bmc, &plan).await.readings.len(), 2);
}

#[tokio::test]
async fn anything_else_starts_the_run_again() {
    let bmc = Bmc::plain(playing(&[
        "On",
        "PoweringOff",
        "Off",
        "Off",
        "Paused",
        "Off",
    ]))
    .await;
    let confirmation = confirmed(&bmc, &PLAN).await;
    assert_eq!(confirmation.ended, Ended::Stable);
    assert_eq!(
        words(&confirmation),
        [
            "On",
            "PoweringOff",
            "Off",
            "Off",
            "Paused",
            "Off",
            "Off",
            "Off"
        ]
    );
}

#[tokio::test]
async fn an_error_starts_a_new_session_and_counts_as_unknown() {
    // Two resets: the first one is a GET on a reused connection, which is sent once more.
    let bmc = Bmc::plain(playing(&["Off", "Off", "!", "!", "Off"])).await;
    let confirmation = confirmed(&bmc, &PLAN).await;
    assert_eq!(confirmation.ended, Ended::Stable);
    assert_eq!(
        words(&confirmation),
        ["Off", "Off", "Unreachable", "Off", "Off", "Off"]
    );
    assert_eq!(confirmation.readings[2].state, PowerState::Unknown);
    let connections: Vec<usize> = bmc
        .requests()
        .iter()
        .map(|request| request.connection)
        .collect();
    assert_eq!(connections.first(), Some(&0));
    assert!(!connections[connections.len() - 3..].contains(&0));
}

/// Nothing is asked in it before it is time to read.
#[tokio::test]
async fn a_connected_session_reads_on_its_connection() {
    let bmc = Bmc::plain(service("Off")).await;
    let driver = driver(&bmc);
    let mut session = driver.open();
    session.connect().await.expect("a connection");
    assert!(bmc.requests().is_empty());
    let watch = |_: &Reading| ControlFlow::Break("seen enough".to_owned());
    confirm(&alone(PLAN), 0, &driver, session, watch).await;
    let requests = bmc.requests();
    assert!(!requests.is_empty());
    assert!(
        requests.iter().all(|request| request.connection == 0),
        "{requests:?}"
    );
}

#[tokio::test]
async fn an_error_that_leaves_the_connection_whole_still_starts_a_new_session() {
    let bmc = Bmc::plain(|request| match request.earlier {
        1 => Act::Send(reply("500 Internal Server Error", "{}")),
        _ => Act::Send(reply("200 OK", &system("\"Off\""))),
    })
    .await;
    assert_eq!(confirmed(&bmc, &PLAN).await.ended, Ended::Stable);
    let connections: Vec<usize> = bmc
        .requests()
        .iter()
        .map(|request| request.connection)
        .collect();
    assert_eq!(connections, [0, 0, 1, 1, 1]);
}

#[tokio::test]
async fn a_device_that_hangs_ends_at_the_deadline() {
    let bmc = Bmc::plain(|request| match request.earlier {
        0 => Act::Send(reply("200 OK", &system("\"Off\""))),
        _ => Act::Hang,
    })
    .await;
    let plan = ConfirmPlan {
        deadline: Duration::from_secs(2),
        ..PLAN
    };
    let confirmation = confirmed(&bmc, &plan).await;
    assert_eq!(confirmation.ended, Ended::Deadline(None));
    assert_eq!(words(&confirmation), ["Off"]);
}

#[tokio::test]
async fn a_busy_device_is_asked_again_only_after_the_pause_it_wants() {
    let bmc = Bmc::plain(|_| {
        Act::Send(crate::bmc::reply_with(
            "503 Busy",
            "Retry-After: 30\r\n",
            "{}",
        ))
    })
    .await;
    let confirmation = confirmed(&bmc, &PLAN).await;
    assert!(
        matches!(&confirmation.ended, Ended::Deadline(Some(error)) if error.reason() == "Busy")
    );
    assert_eq!(
        bmc.requests().len(),
        1,
        "its pause is longer than the deadline"
    );
}

#[tokio::test]
async fn a_refused_password_is_not_tried_again() {
    let bmc = Bmc::plain(|_| Act::Send(reply("401 Unauthorized", "{}"))).await;
    let confirmation = confirmed(&bmc, &PLAN).await;
    assert!(matches!(&confirmation.ended, Ended::Failed(error) if error.reason() == "AuthFailed"));
    assert_eq!(bmc.requests().len(), 1);
    // The driver asks once more where it was taken a moment ago, and nobody else does: more could lock the account.
    let bmc = Bmc::plain(|request| {
        Act::Send(match request.earlier {
            0 => reply("200 OK", &system("\"Off\"")),
            _ => crate::bmc::reply_with(
                "401 Unauthorized",
                "WWW-Authenticate: Basic realm=\"bmc\"\r\n",
                "{}",
            ),
        })
    })
    .await;
    let confirmation = confirmed(&bmc, &PLAN).await;
    assert!(matches!(&confirmation.ended, Ended::Failed(error) if error.reason() == "AuthFailed"));
    assert_eq!(bmc.requests().len(), 3);
}

#[tokio::test]
async fn the_watcher_sees_every_reading_and_can_stop_the_reads() {
    let bmc = Bmc::plain(service("\"Off\"")).await;
    let mut seen = 0;
    let stop_at_second = |_: &_| {
        seen += 1;
        if seen == 2 {
            ControlFlow::Break("claim lost".to_owned())
        } else {
            ControlFlow::Continue(())
        }
    };
    let driver = driver(&bmc);
    let session = driver.open();
    let confirmation = confirm(&alone(PLAN), 0, &driver, session, stop_at_second).await;
    assert_eq!(confirmation.ended, Ended::Stopped("claim lost".to_owned()));
    assert_eq!(confirmation.readings.len(), 2);
}
