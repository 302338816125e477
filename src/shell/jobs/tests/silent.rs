//! S21: of a device that answers and refuses the off somebody may still read the power; one that is silent says nothing.

use super::power_off::unsent;
use super::*;
use fencing_drivers::error::DeviceError;
use std::pin::pin;

#[tokio::test]
async fn a_device_that_answers_is_told_from_one_that_is_silent() {
    let mut only_soft = system("On", MACHINE);
    only_soft["Actions"]["#ComputerSystem.Reset"]["ResetType@Redfish.AllowableValues"] =
        json!(["On", "GracefulShutdown"]);
    for (what, path, (status, body)) in [
        ("no hard off", SYSTEM, (200, only_soft)),
        ("not implemented", RESET, failure(501, "no")),
        ("no right", RESET, failure(403, "no")),
        ("no login any more", RESET, failure(401, "no")),
        ("no such action", RESET, failure(404, "no")),
        ("not to be read", SYSTEM, failure(403, "no")),
        ("broken", SYSTEM, failure(500, "no")),
    ] {
        let lab = Lab::new().await;
        lab.cluster.put(path, status, body);
        let result = lab.off(Some("fence-n1")).await;
        let answers = matches!(result, OffResult::NotSent(_));
        assert!(answers, "{what}: {result:?}");
    }
}

#[test]
fn silence_is_told_from_every_answer() {
    let endpoint = || "bmc:443".to_owned();
    let unreachable = DeviceError::Unreachable {
        endpoint: endpoint(),
        problem: "no route".to_owned(),
    };
    let refused = DeviceError::Refused {
        endpoint: endpoint(),
        problem: "no hard off".to_owned(),
    };
    assert!(matches!(unsent(&unreachable), OffResult::Silent(_)));
    assert!(matches!(unsent(&refused), OffResult::NotSent(_)));
}

/// S21: whatever becomes of the command. It is told with that, as what was said before it.
#[tokio::test]
async fn what_the_preparation_of_an_off_reads_is_heard() {
    let lab = Lab::new().await;
    lab.cluster.put(RESET, 403, failure(403, "no").1);
    let mut job = Job {
        lease: None,
        heard: Heard::default(),
        early: None,
        order: DeviceOrder::Off(fixtures::attempt()),
        level: fixtures::level(),
        limit: Duration::from_secs(10),
        settings: fixtures::settings(),
        claim: None,
    };
    let DeviceReply::Commanded { answers, .. } = run(&lab.context, &job).await else {
        panic!("an answer to an off");
    };
    let states = answers.into_iter().map(|it| it.reading.map(|it| it.state));
    assert_eq!(states.collect::<Vec<_>>(), [Ok(PowerState::On)]);
    assert!(job.heard.take().is_empty());
    // It is there while the command is under way: whoever ends the work takes it then.
    lab.cluster.delay(RESET, Duration::from_secs(6));
    job.claim = Some(OwnClaim {
        value: "fence-n1".to_owned(),
        uid: "uid-1".to_owned(),
        boot_id: "boot-1".to_owned(),
        seen: true,
    });
    {
        let mut work = pin!(run(&lab.context, &job));
        let has_heard = || !job.heard.0.lock().expect("lock").is_empty();
        while !has_heard() {
            let ended = timeout(Duration::from_millis(20), &mut work).await;
            assert!(ended.is_err(), "{ended:?}");
        }
    }
    job.heard.take();
    // Though the device hangs after that.
    let mut elsewhere = system("On", MACHINE);
    let reset = &mut elsewhere["Actions"]["#ComputerSystem.Reset"];
    reset["@Redfish.ActionInfo"] = json!("/redfish/v1/Systems/1/ResetActionInfo");
    reset
        .as_object_mut()
        .expect("an action")
        .remove("ResetType@Redfish.AllowableValues");
    lab.cluster.put(SYSTEM, 200, elsewhere);
    const INFO: &str = "GET /redfish/v1/Systems/1/ResetActionInfo";
    lab.cluster.put(INFO, 200, json!({}));
    lab.cluster.delay(INFO, Duration::from_secs(6));
    job.limit = Duration::from_secs(3);
    let DeviceReply::Commanded { answers, results } = run(&lab.context, &job).await else {
        panic!("an answer to an off");
    };
    assert!(
        matches!(results["bmc"], OffResult::Silent(_)),
        "{results:?}"
    );
    assert_eq!(answers.len(), 1);
    // Work that is lost on the way tells it, too.
    job.heard
        .note(&fixtures::bmc(), &fixtures::off_readings()[0].readings[0]);
    let DeviceReply::Commanded { answers, results } = lost(&job) else {
        panic!("an answer to an off");
    };
    assert_eq!(answers.len(), 1);
    assert!(matches!(results["bmc"], OffResult::Unknown(_)));
}
