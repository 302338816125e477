//! What power states say, and what resets do.

use super::*;

#[tokio::test]
async fn power_states_lie_flap_and_go_missing() {
    let bench = bench();
    for value in [
        json!("Off"),
        json!(null),
        json!("PoweringOff"),
        json!("Paused"),
        json!("off"),
        json!(0),
    ] {
        bench
            .bmc
            .faults(|faults| faults.power_state = Reading::Says(value.clone()));
        assert_eq!(bench.power_state().await, value);
    }
    bench
        .bmc
        .faults(|faults| faults.power_state = Reading::Cycle(vec![json!("Off"), json!("On")]));
    for value in ["Off", "On", "Off"] {
        assert_eq!(bench.power_state().await, value);
    }
    bench
        .bmc
        .faults(|faults| faults.power_state = Reading::Absent);
    assert!(bench.get(SYSTEM).await.get("PowerState").is_none());
    bench
        .bmc
        .faults(|faults| faults.power_state = Reading::Twice(json!("Off")));
    let (_, body) = bench.read(SYSTEM).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    assert!(
        text.contains(r#""PowerState":"On","PowerState":"Off""#),
        "{text}"
    );

    bench.bmc.faults(|faults| {
        faults.power_state = Reading::Truth;
        faults.power_state_cached_for = Duration::from_mins(1);
    });
    assert_eq!(bench.power_state().await, "On");
    bench.plug.set_power(false);
    assert_eq!(bench.power_state().await, "On", "a stale reading");

    bench
        .bmc
        .faults(|faults| faults.uuid = Some(json!("00000000-0000-0000-0000-000000000000")));
    assert_eq!(
        bench.get(SYSTEM).await["UUID"],
        "00000000-0000-0000-0000-000000000000"
    );
}

#[tokio::test]
async fn resets_are_ignored_late_undone_or_refused() {
    let bench = bench();
    bench.bmc.faults(|faults| faults.effect = Effect::Ignored);
    assert_eq!(bench.reset("ForceOff").await.unwrap(), 204);
    assert_eq!(bench.power_state().await, "On");

    bench
        .bmc
        .faults(|faults| faults.effect = Effect::After(Duration::from_secs(1)));
    assert_eq!(bench.reset("ForceOff").await.unwrap(), 204);
    assert!(bench.plug.is_on());
    assert!(bench.plug.wait_until(false, SOON).await);

    for status in [400, 409] {
        bench
            .bmc
            .faults(|faults| faults.already_off_status = Some(status));
        assert_eq!(bench.reset("ForceOff").await.unwrap(), status);
    }
    bench.plug.set_power(true);
    bench.bmc.faults(|faults| {
        faults.effect = Effect::AtOnce;
        faults.restores_after = Some(Duration::from_secs(1));
    });
    assert_eq!(bench.reset("ForceOff").await.unwrap(), 204);
    assert!(!bench.plug.is_on());
    assert!(
        bench.plug.wait_until(true, SOON).await,
        "the BMC restores the power"
    );

    bench.bmc.faults(|faults| {
        faults.reset_types = Some(vec!["On".to_owned(), "GracefulShutdown".to_owned()])
    });
    assert_eq!(bench.reset("ForceOff").await.unwrap(), 400);
    assert_eq!(bench.reset("GracefulShutdown").await.unwrap(), 204);
    assert!(
        bench.plug.is_on(),
        "nobody in the machine listens to a soft reset"
    );

    bench
        .bmc
        .faults(|faults| faults.advertise = Advertise::ActionInfo);
    let info =
        bench.get(SYSTEM).await["Actions"]["#ComputerSystem.Reset"]["@Redfish.ActionInfo"].clone();
    let info = bench.get(info.as_str().unwrap()).await;
    assert_eq!(
        info["Parameters"][0]["AllowableValues"],
        json!(["On", "GracefulShutdown"])
    );
}

#[tokio::test]
async fn a_reset_may_be_a_task() {
    let bench = bench();
    for (accepted, is_on, last) in [
        (Accepted::FailingTask(Duration::from_secs(1)), true, 500),
        (Accepted::Task(Duration::from_secs(1)), false, 204),
    ] {
        bench.bmc.faults(|faults| faults.accepted = accepted);
        let request = bench.request(Method::POST, RESET, Some(json!({"ResetType": "ForceOff"})));
        let response = bench.send(request).await.unwrap();
        assert_eq!(response.status(), 202);
        let monitor = response.headers()["location"].to_str().unwrap().to_owned();
        assert_eq!(bench.read(&monitor).await.unwrap().0, 202);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(bench.read(&monitor).await.unwrap().0, last);
        assert_eq!(bench.plug.is_on(), is_on);
    }
    bench
        .bmc
        .faults(|faults| faults.accepted = Accepted::Message);
    assert_eq!(bench.reset("On").await.unwrap(), 200);
}
