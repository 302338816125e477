//! How many devices are looked at at the same time.

use super::*;
use crate::shell::devices::looks_at_once;
use futures::future::FutureExt;
use std::pin::pin;
use tokio::task::unconstrained;

/// All the rooms there are.
async fn all_rooms(devices: &crate::shell::devices::Devices) -> Vec<impl Sized> {
    let mut taken = Vec::new();
    while let Some(room) = unconstrained(devices.room()).now_or_never() {
        taken.push(room);
    }
    taken
}

/// A rack that is dark keeps all rooms: the next look waits for one, and work under a claim for none.
#[tokio::test]
async fn a_look_before_a_claim_waits_for_room_and_one_under_a_claim_does_not() {
    let lab = Lab::new().await;
    let taken = all_rooms(&lab.context.devices).await;
    assert!(!taken.is_empty());
    let claimed = lab.run(DeviceOrder::ReadPower, Some("fence-n1"));
    let claimed = timeout(Duration::from_secs(60), claimed).await;
    assert!(has_answered(claimed.expect("it waits for no room")));
    let mut look = pin!(lab.run(DeviceOrder::ReadPower, None));
    let asked = timeout(Duration::from_millis(500), &mut look).await;
    assert!(asked.is_err(), "there is no room: {asked:?}");
    drop(taken);
    assert!(has_answered(look.await));
}

/// Each device that was looked at has said something.
fn has_answered(reply: DeviceReply) -> bool {
    match reply {
        DeviceReply::PowerRead { answers, .. } => answers.iter().all(|it| it.reading.is_ok()),
        _ => false,
    }
}

/// A container often has 1,024 files; where it has more, the devices of a dark rack keep nobody waiting.
#[test]
fn two_files_a_look_are_half_of_all() {
    let looks = [Some(1), Some(1024), Some(20_000), None].map(looks_at_once);
    assert_eq!(looks, [1, 256, 2048, 2048]);
}
