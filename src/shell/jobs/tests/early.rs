//! What is made beside a claim: used by the first readings for a second, and in nobody's way. How long a second is, is the tests'
//! matter here: a busy machine may take longer for anything.

use super::*;
use fencing_api::settings::FenceMode;
use tokio::time::sleep;

/// Longer than any of this can take.
const AGES: Duration = Duration::from_secs(3600);

/// What is made beside a claim in this mode.
async fn early(lab: &Lab, mode: FenceMode) -> EarlyDrivers {
    living(lab, mode, AGES).await
}

async fn living(lab: &Lab, mode: FenceMode, life: Duration) -> EarlyDrivers {
    EarlyDrivers::of(&lab.context, mode, &fixtures::level(), "worker-1", life).await
}

/// Waits until this holds, or fails.
async fn until(mut holds: impl FnMut() -> bool) {
    let polls = async {
        while !holds() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(20), polls)
        .await
        .expect("in time");
}

/// The first reading after the quiesce finds its Secret read.
#[tokio::test]
async fn a_driver_that_was_made_beside_the_claim_is_used_for_a_second() {
    let lab = Lab::new().await;
    let device = lab.context.caches.device("bmc").expect("the device");
    let made = early(&lab, FenceMode::PowerOff).await;
    let now = clock::since_boot();
    assert!(
        made.driver("bmc", &resolve::version(&device), now)
            .is_some()
    );
    let late = now + AGES + Duration::from_millis(1);
    assert!(
        made.driver("bmc", &resolve::version(&device), late)
            .is_none()
    );
    let mut corrected = device.clone();
    corrected.metadata.generation = Some(2);
    assert!(
        made.driver("bmc", &resolve::version(&corrected), now)
            .is_none()
    );
    let secrets_read = || {
        let requests = lab.cluster.requests();
        let of_secrets = |line: &&String| line.contains("secrets/bmc");
        requests.iter().filter(of_secrets).count()
    };
    lab.run_early(DeviceOrder::ReadPower, Some(made)).await;
    assert_eq!(secrets_read(), 1);
    lab.run_early(DeviceOrder::ReadPower, None).await;
    assert_eq!(secrets_read(), 2);
}

/// And a connection, in which nothing was asked. It has the device's turn, and keeps it from others for a second at most.
#[tokio::test]
async fn a_connection_that_was_opened_beside_the_claim_is_given_away_once() {
    let lab = Lab::new().await;
    let device = lab.context.caches.device("bmc").expect("the device");
    let powered_off = early(&lab, FenceMode::PowerOff).await;
    let driver = powered_off.driver("bmc", &resolve::version(&device), clock::since_boot());
    let driver = driver.expect("a driver");
    let is_free = || lab.context.devices.turn_now(driver.as_ref()).is_some();
    assert!(is_free());

    let made = early(&lab, FenceMode::ConfirmOnly).await;
    until(|| made.is_connected()).await;
    assert!(!is_free());
    assert_eq!(lab.requests(), [""; 0]);
    let connected = made.connected("bmc", &resolve::version(&device), clock::since_boot());
    assert!(connected.is_some() && !is_free());
    assert!(
        made.connected("bmc", &resolve::version(&device), clock::since_boot())
            .is_none()
    );
    drop(connected);
    assert!(is_free());

    let made = early(&lab, FenceMode::ConfirmOnly).await;
    until(|| made.is_connected()).await;
    let late = clock::since_boot() + AGES + Duration::from_millis(1);
    assert!(
        made.connected("bmc", &resolve::version(&device), late)
            .is_none()
            && is_free()
    );

    let life = Duration::from_millis(500);
    let unused = living(&lab, FenceMode::ConfirmOnly, life).await;
    until(is_free).await;
    assert!(!unused.is_connected());

    let _turn = lab.context.devices.turn(driver.as_ref()).await;
    let second = early(&lab, FenceMode::ConfirmOnly).await;
    assert!(
        second
            .driver("bmc", &resolve::version(&device), clock::since_boot())
            .is_some()
    );
    assert!(
        second
            .connected("bmc", &resolve::version(&device), clock::since_boot())
            .is_none()
    );
}

/// Whatever is ordered, the connection's turn is in nobody's way.
#[tokio::test]
async fn no_order_waits_for_a_connection_of_its_own() {
    let lab = Lab::new().await;
    lab.cluster.put(SYSTEM, 200, system("Off", MACHINE));
    let window = Duration::from_millis(20);
    for order in [DeviceOrder::ReadPower, DeviceOrder::Confirm { window }] {
        let made = early(&lab, FenceMode::ConfirmOnly).await;
        until(|| made.is_connected()).await;
        // One that waited until the connection is closed would read nothing: every order gives up sooner.
        match lab.run_early(order, Some(made)).await {
            DeviceReply::PowerRead { answers, .. } => {
                answers[0].reading.as_ref().expect("a reading");
            }
            DeviceReply::Confirmed {
                readings, failures, ..
            } => {
                assert!(readings[0].readings.len() >= 2, "{failures:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// S15: what serves the node now may be something else than what was to be asked: an outlet, whose On says nothing of the machine.
#[tokio::test]
async fn a_device_that_was_changed_since_the_order_is_not_asked() {
    let mut settings = fixtures::settings();
    for (version, is_asked) in [("uid-bmc/1", true), ("uid-bmc/2", false)] {
        let lab = Lab::new().await;
        version.clone_into(&mut settings.levels[0].devices[0].version);
        let job = Job {
            lease: None,
            heard: Heard::default(),
            early: None,
            order: DeviceOrder::ReadPower,
            level: settings.levels[0].clone(),
            limit: Duration::from_secs(10),
            settings: settings.clone(),
            claim: None,
        };
        let DeviceReply::PowerRead { answers, .. } = run(&lab.context, &job).await else {
            panic!("another answer");
        };
        let asked = !lab.requests().is_empty();
        assert_eq!((answers[0].reading.is_ok(), asked), (is_asked, is_asked));
    }
}
