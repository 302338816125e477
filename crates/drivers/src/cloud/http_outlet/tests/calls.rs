//! Whole calls of the driver, against a plug on loopback.

use super::*;
use crate::cloud::fixtures::{HANGS_UP, SAYS_NOTHING, Service};
use crate::{Extent, FenceSession, OffOutcome, OnOutcome};

const STATUS: &str = "GET /rpc/Shelly.GetStatus";
const OFF: &str = "GET /rpc/Switch.Set?id=0&on=false";
const ON: &str = "GET /rpc/Switch.Set?id=0&on=true";
const SECRET: &str = "correct-horse-battery";

fn session(
    service: &Service,
    changes: Value,
    secret: &[(&'static str, &str)],
) -> Box<dyn FenceSession> {
    let mut all = changes;
    all["url"] = json!(service.url);
    let parts = service.parts(NodeFacts::named("worker-1"), secret);
    settings(all).make(parts).expect("a driver").open()
}

fn plug(service: &Service) -> Box<dyn FenceSession> {
    session(service, json!({}), &[])
}

/// What becomes of an off that is answered like this; it is sent once.
async fn off_outcome(status: &str, body: &str) -> Result<OffOutcome, DeviceError> {
    let service = Service::new().await;
    service.answer(STATUS, "200 OK", "", off(json!({})));
    service.answer(OFF, status, "", body);
    let mut session = plug(&service);
    session.prepare_off().await.expect("prepared");
    service.asked();
    let outcome = session.force_off().await;
    assert_eq!(service.asked().len(), 1, "{status}");
    outcome
}

#[tokio::test]
async fn an_outlet_is_read_and_switched_by_the_settings() {
    let service = Service::new().await;
    service.answer(STATUS, "200 OK", "", off(json!({})));
    service.answer(OFF, "200 OK", "", json!({"was_on": true}));
    service.answer(ON, "200 OK", "", json!({"was_on": false}));
    let mut session = plug(&service);
    let reading = session.observe().await.expect("a reading");
    assert!(reading.is_off(), "{reading:?}");
    assert_eq!(reading.raw, "false");
    assert_eq!(reading.identity, Identity::default());
    session.prepare_off().await.expect("prepared");
    // It says nothing of the machine before the command.
    assert_eq!(session.seen(), None);
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    session.prepare_on().await.expect("prepared");
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    let asked = service.asked();
    let lines: Vec<&str> = asked.iter().filter_map(|it| it.lines().next()).collect();
    let [status, off, on] = [STATUS, OFF, ON].map(|it| format!("{it} HTTP/1.1"));
    assert_eq!(lines, [&status, &status, &off, &status, &on]);
    assert!(asked.iter().all(|it| !it.contains("authorization")));
    let probe = session.probe(Extent::Whole).await.expect("a probe");
    assert!(probe.reading.is_off());
}

/// A POST says how long its body is, also where it has none.
#[tokio::test]
async fn a_command_has_its_method_its_body_and_what_opens_the_plug() {
    let service = Service::new().await;
    let of =
        |body: Value| json!({"method": "POST", "path": "/switch/${outlet}/turn_off", "body": body});
    service.answer(STATUS, "200 OK", "", off(json!({})));
    service.answer("POST /switch/0/turn_off", "200 OK", "", "");
    for (authentication, secret, header) in [
        (
            json!({"authentication": "Basic"}),
            &[("username", "admin"), ("password", SECRET)][..],
            "authorization: Basic YWRtaW46Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5",
        ),
        (
            json!({"authentication": "Bearer"}),
            &[("token", SECRET)][..],
            "authorization: Bearer correct-horse-battery",
        ),
        (
            json!({"authentication": "Header", "header": "X-API-Key"}),
            &[("token", SECRET)][..],
            "x-api-key: correct-horse-battery",
        ),
    ] {
        for body in [Value::Null, json!("{\"entity_id\": \"${outlet}\"}")] {
            let mut changes = authentication.clone();
            changes["powerOff"] = of(body.clone());
            let mut session = session(&service, changes, secret);
            session.prepare_off().await.expect("prepared");
            service.asked();
            assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
            let asked = service.asked();
            let (head, sent) = asked[0].split_once("\r\n\r\n").expect("a body");
            assert!(head.contains(header), "{head}");
            match body.is_null() {
                true => assert!(head.contains("content-length: 0"), "{head}"),
                false => {
                    assert_eq!(sent, "{\"entity_id\": \"0\"}");
                    assert!(head.contains("content-type: application/json"), "{head}");
                }
            }
        }
    }
}

/// S23: what no row has may have been carried out.
#[tokio::test]
async fn an_off_without_a_clear_answer_may_have_been_carried_out() {
    for status in [
        "500 Internal Server Error",
        "503 Service Unavailable",
        "400 Bad Request",
        "302 Found",
        HANGS_UP,
        SAYS_NOTHING,
    ] {
        let outcome = off_outcome(status, "").await;
        assert!(
            matches!(outcome, Ok(OffOutcome::Unknown(_))),
            "{status}: {outcome:?}"
        );
    }
    for (status, reason) in [
        ("401 Unauthorized", "AuthFailed"),
        ("403 Forbidden", "PermissionDenied"),
        ("404 Not Found", "Refused"),
        ("405 Method Not Allowed", "Refused"),
        ("429 Too Many Requests", "Busy"),
    ] {
        let error = off_outcome(status, "").await.expect_err("not sent");
        assert_eq!(error.reason(), reason, "{status}");
    }
    for status in ["200 OK", "202 Accepted", "204 No Content"] {
        assert_eq!(off_outcome(status, "").await, Ok(OffOutcome::Accepted));
    }
    // A success is no word about the outlet, whatever its body says.
    let outcome = off_outcome("200 OK", "{\"Command\": \"Unknown\"}").await;
    assert_eq!(outcome, Ok(OffOutcome::Accepted));
}

/// S5: an address that another plug has now is no reading, and no command goes there.
#[tokio::test]
async fn another_plug_is_no_reading_and_is_sent_nothing() {
    let service = Service::new().await;
    let other = off(json!({"sys": {"mac": "A8032ABE54DD"}}));
    service.answer(STATUS, "200 OK", "", other);
    service.answer(OFF, "200 OK", "", "");
    let mut session = plug(&service);
    let error = session.observe().await.expect_err("no reading");
    assert!(error.to_string().contains("another plug"), "{error}");
    session.prepare_off().await.expect_err("not prepared");
    session.force_off().await.expect_err("not sent");
    let asked = service.asked();
    assert!(asked.iter().all(|it| it.starts_with(STATUS)), "{asked:?}");
}

/// A plug that feeds nothing, or the meter of another one, shows in peace time.
#[tokio::test]
async fn a_meter_that_would_be_no_witness_is_told_by_a_probe() {
    for (watts, is_witness) in [
        (json!(62.4), true),
        (json!(1.1), true),
        (json!(1.0), false),
        (json!(0), false),
        (json!("NaN"), false),
        (Value::Null, false),
    ] {
        let service = Service::new().await;
        let on = off(json!({"switch:0": {"output": true, "apower": watts}}));
        service.answer(STATUS, "200 OK", "", on);
        let probe = plug(&service).probe(Extent::Whole).await.expect("a probe");
        assert_eq!(probe.reading.state, PowerState::On);
        let denied = probe.off_denied.map(|it| it.reason());
        let expected = (!is_witness).then_some("SettingsInvalid");
        assert_eq!(denied, expected, "{watts}");
    }
    // While it is off there is nothing to measure.
    let service = Service::new().await;
    service.answer(STATUS, "200 OK", "", off(json!({})));
    let probe = plug(&service).probe(Extent::Whole).await.expect("a probe");
    assert_eq!(probe.off_denied, None);
}

/// Home Assistant has the meter at another entity.
#[tokio::test]
async fn watts_are_read_elsewhere_where_the_settings_say_so() {
    let service = Service::new().await;
    let changes =
        json!({"watts": {"path": "/api/states/sensor.${outlet}_power", "pointer": "/state"}});
    service.answer(
        STATUS,
        "200 OK",
        "",
        off(json!({"switch:0": {"apower": 99}})),
    );
    let meter = "GET /api/states/sensor.0_power";
    service.answer(meter, "200 OK", "", json!({"state": "0.0"}));
    let reading = session(&service, changes.clone(), &[]).observe().await;
    assert!(reading.expect("a reading").is_off());
    service.now(meter, "200 OK", "", json!({"state": "unavailable"}));
    let reading = session(&service, changes.clone(), &[]).observe().await;
    assert_eq!(reading.expect("a reading").faults, ["no watts at /state"]);
    service.now(meter, "404 Not Found", "", "");
    let reading = session(&service, changes, &[]).observe().await;
    reading.expect_err("no reading without its meter");
}

#[tokio::test]
async fn what_opens_a_plug_is_shown_nowhere_and_nothing_is_switched_on_unsaid() {
    let service = Service::new().await;
    let echo = off(json!({"switch:0": {"output": SECRET}}));
    service.answer(STATUS, "200 OK", "", echo);
    let changes = json!({"authentication": "Bearer", "powerOn": null});
    let mut session = session(&service, changes, &[("token", SECRET)]);
    let reading = session.observe().await.expect("a reading");
    assert_eq!(reading.raw, "***");
    session.prepare_on().await.expect("prepared");
    let error = session.power_on().await.expect_err("no way");
    assert_eq!(error.reason(), "SettingsInvalid");
    let asked = service.asked();
    assert!(asked.iter().all(|it| it.starts_with(STATUS)), "{asked:?}");
}

#[tokio::test]
async fn an_answer_that_is_none_is_no_reading() {
    for (status, body) in [
        ("200 OK", ""),
        ("200 OK", "<html>"),
        (
            "200 OK",
            "{\"switch:0\":{\"output\":true,\"output\":false}}",
        ),
        ("204 No Content", ""),
        ("302 Found", "{}"),
        ("401 Unauthorized", ""),
        ("404 Not Found", ""),
        ("500 Internal Server Error", ""),
    ] {
        let service = Service::new().await;
        service.answer(STATUS, status, "", body);
        let reading = plug(&service).observe().await;
        assert!(reading.is_err(), "{status} {body}: {reading:?}");
    }
}
