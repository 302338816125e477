//! What becomes of a command when its time runs out.

use super::*;

/// An off command of this device, with this time.
async fn off_within(lab: &Lab, device: &str, limit: Duration) -> OffResult {
    let mut level = fixtures::level();
    level.devices[0].name = device.to_owned();
    let attempt = Attempt {
        devices: vec![device.to_owned()],
        ..fixtures::attempt()
    };
    let job = Job {
        lease: None,
        heard: Heard::default(),
        early: None,
        order: DeviceOrder::Off(attempt),
        level,
        limit,
        settings: fixtures::settings(),
        claim: Some(OwnClaim {
            value: "fence-n1".to_owned(),
            uid: "uid-1".to_owned(),
            boot_id: "boot-1".to_owned(),
            seen: true,
        }),
    };
    match run(&lab.context, &job).await {
        DeviceReply::Commanded { mut results, .. } => results.remove(device).expect("a result"),
        other => panic!("{other:?}"),
    }
}

/// S23: one that never left may not land late, and turns nothing off; one that left may.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_a_command_that_has_left_may_land_after_its_time() {
    let lab = Lab::new().await;
    let never = off_within(&lab, "hung", Duration::from_millis(300)).await;
    assert!(matches!(never, OffResult::Silent(_)), "{never:?}");
    lab.cluster.delay(RESET, Duration::from_secs(3));
    let left = off_within(&lab, "bmc", Duration::from_secs(2)).await;
    assert!(matches!(left, OffResult::Unknown(_)), "{left:?}");
    assert!(lab.requests().iter().any(|it| it == RESET));
}
