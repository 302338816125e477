//! Whole calls of the driver, against a service on loopback.

use super::*;
use crate::cloud::fixtures::{HANGS_UP, REQUEST_ID, SAYS_NOTHING, Service};
use crate::{Extent, FenceSession, OffOutcome, OnOutcome};

const POST: &str = "POST /v1/fence";
const SECRET: &str = "correct-horse-battery";

fn settings(service: &Service) -> WebhookDriver {
    let url = format!("{}/v1/fence", service.url);
    serde_json::from_value(json!({"url": url, "tls": {"verification": "None"}})).expect("settings")
}

fn session(service: &Service) -> Box<dyn FenceSession> {
    let node = NodeFacts {
        name: "worker-1".to_owned(),
        provider_id: "example://104".to_owned(),
        system_uuid: UUID.to_owned(),
        ..NodeFacts::named("worker-1")
    };
    let parts = service.parts(node, &[("token", SECRET)]);
    settings(service).make(parts).expect("a driver").open()
}

fn taken(outcome: &str) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "FenceResponse", "requestID": REQUEST_ID, "outcome": outcome})
}

fn refusal(code: &str) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "FenceResponse", "code": code, "message": "the words"})
}

/// What becomes of an off that is answered like this; it is sent once.
async fn off_outcome(status: &str, body: impl ToString) -> Result<OffOutcome, DeviceError> {
    let service = Service::new().await;
    service.answer(POST, "200 OK", "", off(REQUEST_ID));
    let mut session = session(&service);
    session.prepare_off().await.expect("prepared");
    service.now(POST, status, "", body);
    service.asked();
    let outcome = session.force_off().await;
    assert_eq!(service.asked().len(), 1, "{status}");
    outcome
}

#[tokio::test]
async fn a_request_says_which_node_and_a_command_which_machine() {
    let service = Service::new().await;
    service.answer(POST, "200 OK", "", off(REQUEST_ID));
    let mut session = session(&service);
    let reading = session.observe().await.expect("a reading");
    assert!(reading.is_off(), "{reading:?}");
    assert!(reading.identity.is_system(UUID));
    session.prepare_off().await.expect("prepared");
    service.now(POST, "200 OK", "", taken("Accepted"));
    let outcome = session.force_off().await;
    assert_eq!(outcome, Ok(OffOutcome::Accepted));

    let asked = service.asked();
    let requests: Vec<Value> = asked
        .iter()
        .map(|text| {
            let (head, body) = text.split_once("\r\n\r\n").expect("a body");
            assert!(
                head.contains(&format!("authorization: Bearer {SECRET}")),
                "{head}"
            );
            assert!(head.starts_with("POST /v1/fence HTTP/1.1"), "{head}");
            serde_json::from_str(body).expect("JSON")
        })
        .collect();
    let actions: Vec<&Value> = requests.iter().map(|it| &it["action"]).collect();
    assert_eq!(actions, ["status", "status", "off"]);
    for request in &requests {
        let node = json!({"name": "worker-1", "providerID": "example://104", "systemUUID": UUID});
        assert_eq!(request["node"], node);
        assert_eq!(request["apiVersion"], "webhook.nodefencing.io/v1");
        assert_eq!(request["kind"], "FenceRequest");
    }
    assert_eq!(requests[0]["machine"], Value::Null);
    assert_eq!(
        requests[2]["machine"],
        json!({"systemUUID": UUID, "machineID": "vm-104"})
    );
    assert_ne!(requests[0]["requestID"], requests[1]["requestID"]);
}

/// The state was so when the service looked, and a proof counts from there.
#[tokio::test]
async fn a_report_counts_from_when_the_service_looked() {
    let service = Service::new().await;
    let mut answer = off(REQUEST_ID);
    answer["ageSeconds"] = json!(4);
    service.answer(POST, "200 OK", "", answer);
    let before = crate::clock::Clock::SYSTEM.since_boot();
    let reading = session(&service).observe().await.expect("a reading");
    assert!(reading.is_off());
    assert!(reading.asked < before, "{reading:?}");
    assert!(reading.answered - reading.asked >= Duration::from_secs(4));
}

#[tokio::test]
async fn the_answer_to_another_request_says_nothing() {
    let service = Service::new().await;
    service.answer(POST, "200 OK", "", off("another"));
    let error = session(&service).observe().await.expect_err("no reading");
    assert_eq!(error.reason(), "ProtocolError", "{error}");
    let mut other = taken("Accepted");
    other["requestID"] = json!("another");
    let outcome = off_outcome("200 OK", other).await;
    assert!(
        matches!(&outcome, Ok(OffOutcome::Unknown(_))),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn an_off_without_an_answer_of_the_contract_may_have_been_carried_out() {
    let unclear = [
        ("200 OK", String::new()),
        ("200 OK", "{\"power\":".to_owned()),
        ("200 OK", taken("Done").to_string()),
        ("202 Accepted", taken("Accepted").to_string()),
        ("204 No Content", String::new()),
        ("302 Found", String::new()),
        ("400 Bad Request", String::new()),
        ("401 Unauthorized", String::new()),
        ("403 Forbidden", "<html>filtered</html>".to_owned()),
        ("429 Too Many Requests", String::new()),
        ("404 Not Found", "<html>no such host</html>".to_owned()),
        ("409 Conflict", String::new()),
        ("409 Conflict", refusal("Odd").to_string()),
        ("500 Internal Server Error", refusal("Refused").to_string()),
        ("502 Bad Gateway", String::new()),
        ("503 Service Unavailable", String::new()),
        (HANGS_UP, String::new()),
        (SAYS_NOTHING, String::new()),
    ];
    for (status, body) in unclear {
        let outcome = off_outcome(status, &body).await;
        assert!(
            matches!(&outcome, Ok(OffOutcome::Unknown(_))),
            "{status} {body}: {outcome:?}"
        );
    }
    let already = off_outcome("200 OK", taken("Already")).await;
    assert!(matches!(already, Ok(OffOutcome::AlreadyOff { .. })));
}

#[tokio::test]
async fn an_off_that_the_service_refuses_was_not_carried_out() {
    for (status, code, reason) in [
        ("400 Bad Request", "BadRequest", "Refused"),
        ("401 Unauthorized", "Unauthorized", "AuthFailed"),
        ("403 Forbidden", "Forbidden", "PermissionDenied"),
        ("404 Not Found", "UnknownNode", "ProtocolError"),
        ("409 Conflict", "Refused", "Refused"),
        ("503 Service Unavailable", "Busy", "Busy"),
    ] {
        let outcome = off_outcome(status, refusal(code)).await;
        let error = outcome.expect_err(status);
        assert_eq!(error.reason(), reason, "{error}");
        assert!(error.to_string().contains("the words"), "{error}");
    }
}

#[tokio::test]
async fn a_node_that_the_service_does_not_know_is_not_off() {
    let service = Service::new().await;
    for body in [
        refusal("UnknownNode").to_string(),
        off(REQUEST_ID).to_string(),
    ] {
        service.now(POST, "404 Not Found", "", body);
        session(&service).observe().await.expect_err("no reading");
    }
}

#[tokio::test]
async fn what_was_turned_off_is_turned_on_and_probed() {
    let service = Service::new().await;
    let mut answer = off(REQUEST_ID);
    answer["restarter"] = json!("the rack's watchdog");
    service.answer(POST, "200 OK", "", answer);
    let mut session = session(&service);
    for extent in [Extent::Listed, Extent::Whole] {
        let probe = session.probe(extent).await.expect("a probe");
        assert_eq!(probe.restarter.as_deref(), Some("the rack's watchdog"));
    }
    session.prepare_on().await.expect("prepared");
    service.now(POST, "200 OK", "", taken("Accepted"));
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    let refused = session.power_on().await.expect_err("nothing is prepared");
    assert_eq!(refused.reason(), "Refused");
}

#[tokio::test]
async fn a_token_that_the_service_repeats_is_shown_nowhere() {
    let service = Service::new().await;
    let mut echo = refusal("Unauthorized");
    echo["message"] = json!(format!("wrong: Bearer {SECRET}"));
    service.answer(POST, "401 Unauthorized", "", echo);
    let error = session(&service).observe().await.expect_err("no reading");
    assert!(!format!("{error} {error:?}").contains(SECRET), "{error}");
    let node = NodeFacts::named("worker-1");
    let parts = service.parts(node, &[("token", "two words")]);
    let error = settings(&service).make(parts).expect_err("no header");
    assert_eq!(error.reason(), "CredentialsInvalid", "{error}");
}

#[tokio::test]
async fn a_client_certificate_goes_over_tls_alone() {
    let service = Service::new().await;
    let mut settings = settings(&service);
    settings.authentication = WebhookAuthentication::ClientCertificate;
    assert_eq!(settings.credential_keys(), CERTIFICATE);
    let secret = [("tls.crt", "a certificate"), ("tls.key", "a key")];
    let parts = service.parts(NodeFacts::named("worker-1"), &secret);
    let error = settings.make(parts).expect_err("plain http");
    assert_eq!(error.reason(), "SettingsInvalid", "{error}");
}
