//! Whole calls of the driver, against a service on loopback.

use super::*;
use crate::cloud::fixtures::{HANGS_UP, SAYS_NOTHING, Service};
use crate::{DriverKind, Extent, FenceDriver, FenceSession, OffOutcome, OnOutcome};
use std::sync::Arc;

const LIST: &str = "GET /apis/metal3.io/v1alpha1/namespaces/racks/baremetalhosts?limit=100";
const HOST: &str = "GET /apis/metal3.io/v1alpha1/namespaces/racks/baremetalhosts/host-1";
const PATCH: &str = "PATCH /apis/metal3.io/v1alpha1/namespaces/racks/baremetalhosts/host-1";
const EVENTS: &str = "GET /api/v1/namespaces/racks/events?limit=100&fieldSelector=involvedObject.kind%3DBareMetalHost%2C\
                      involvedObject.name%3Dhost-1%2Creason%3DPowerOff";
const REVIEW: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

fn list(kind: &str, items: Vec<Value>) -> Value {
    json!({"kind": kind, "metadata": {"resourceVersion": "120"}, "items": items})
}

fn status(reason: &str) -> Value {
    json!({"kind": "Status", "status": "Failure", "reason": reason, "message": "so it is", "details": {}})
}

/// A cluster with a host that runs.
async fn service() -> Service {
    let service = Service::new().await;
    service.answer(HOST, "200 OK", "", running());
    service.answer(EVENTS, "200 OK", "", list("EventList", vec![]));
    service.answer(
        REVIEW,
        "201 Created",
        "",
        json!({"status": {"allowed": true}}),
    );
    service
}

/// The same once the host is off.
fn turned_off(service: &Service) {
    service.now(HOST, "200 OK", "", off());
    service.now(EVENTS, "200 OK", "", list("EventList", vec![event("101")]));
}

fn driver_of(service: &Service, node: NodeFacts) -> Arc<dyn FenceDriver> {
    let settings = json!({
        "address": service.url, "namespace": "racks", "name": "host-1", "tls": {"verification": "None"},
    });
    let settings: BareMetalHostDriver = serde_json::from_value(settings).expect("settings");
    let kubeconfig = format!(
        "clusters: [{{name: c, cluster: {{server: '{}'}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         users: [{{name: u, user: {{token: eyJhbGciOi-token}}}}]\n",
        service.url
    );
    let parts = service.parts(node, &[("kubeconfig", kubeconfig.as_str())]);
    settings.make(parts).expect("a driver")
}

fn driver(service: &Service) -> Arc<dyn FenceDriver> {
    driver_of(service, node())
}

fn session(service: &Service) -> Box<dyn FenceSession> {
    driver(service).open()
}

/// An off that was read before the events would count one that was turned on in between.
#[tokio::test]
async fn the_events_are_listed_before_the_host_is_read() {
    let service = service().await;
    let reading = session(&service).observe().await.expect("a reading");
    assert_eq!(reading.state, PowerState::On);
    assert_eq!(reading.identity.serial_number.as_deref(), Some(UID));
    turned_off(&service);
    assert!(
        session(&service)
            .observe()
            .await
            .expect("a reading")
            .is_off()
    );
    let asked = service.asked();
    let lines: Vec<&str> = asked.iter().filter_map(|it| it.lines().next()).collect();
    let expected = [EVENTS, HOST, EVENTS, HOST].map(|it| format!("{it} HTTP/1.1"));
    assert_eq!(lines, expected);
    let token = "\r\nauthorization: Bearer eyJhbGciOi-token\r\n";
    assert!(asked.iter().all(|it| it.contains(token)), "{asked:?}");
    for (request, body) in [
        (EVENTS, list("EventList", vec![json!({})])),
        (
            EVENTS,
            json!({"kind": "EventList", "metadata": {"resourceVersion": "x"}, "items": []}),
        ),
        (HOST, json!({"kind": "Status"})),
        (HOST, with(off(), "/metadata/name", Some(json!("host-2")))),
    ] {
        let service = self::service().await;
        service.now(request, "200 OK", "", body);
        assert!(session(&service).observe().await.is_err());
    }
}

#[tokio::test]
async fn another_machine_is_no_reading_and_is_sent_nothing() {
    let service = service().await;
    service.now(
        HOST,
        "200 OK",
        "",
        with(
            running(),
            "/spec/consumerRef/name",
            Some(json!("machine-2")),
        ),
    );
    let mut session = session(&service);
    for error in [
        session.observe().await.expect_err("no reading"),
        session.prepare_off().await.expect_err("nothing prepared"),
        session.force_off().await.expect_err("nothing sent"),
    ] {
        assert_ne!(error.reason(), "Busy", "{error}");
    }
    let error = session.observe().await.expect_err("no reading").to_string();
    assert!(
        error.contains("not the machine of Node worker-1"),
        "{error}"
    );
    assert!(!service.asked().iter().any(|it| it.starts_with("PATCH ")));
}

#[tokio::test]
async fn a_power_off_is_our_annotation_and_nothing_else() {
    let service = service().await;
    let off = async || {
        let mut session = session(&service);
        session.prepare_off().await.expect("prepared");
        service.asked();
        let outcome = session.force_off().await;
        let asked = service.asked();
        assert_eq!(asked.len(), 1);
        assert!(asked[0].contains("content-type: application/merge-patch+json\r\n"));
        let body = asked[0].split("\r\n\r\n").nth(1).expect("a body");
        let body: Value = serde_json::from_str(body).expect("JSON");
        let value = "{\"after\":\"120\",\"mode\":\"hard\"}";
        assert_eq!(
            body,
            json!({"metadata": {"uid": UID, "annotations": {HELD: value}}})
        );
        assert!(session.force_off().await.is_err(), "never twice");
        outcome
    };
    let annotated = json!({HELD: "{\"after\":\"120\",\"mode\":\"hard\"}"});
    service.answer(
        PATCH,
        "200 OK",
        "",
        with(running(), "/metadata/annotations", Some(annotated)),
    );
    assert_eq!(off().await, Ok(OffOutcome::Accepted));
    for (status, body) in [
        ("200 OK", running()),
        ("200 OK", json!({})),
        ("202 Accepted", running()),
        ("403 Forbidden", json!("a proxy")),
        ("500 Internal Server Error", status("InternalError")),
        ("504 Gateway Timeout", status("Timeout")),
        (HANGS_UP, Value::Null),
        (SAYS_NOTHING, Value::Null),
    ] {
        service.now(PATCH, status, "", body);
        let outcome = off().await;
        assert!(
            matches!(outcome, Ok(OffOutcome::Unknown(_))),
            "{status}: {outcome:?}"
        );
    }
    for (line, reason, shown) in [
        ("409 Conflict", "Conflict", "Busy"),
        ("403 Forbidden", "Forbidden", "PermissionDenied"),
        ("404 Not Found", "NotFound", "ProtocolError"),
        ("422 Unprocessable Entity", "Invalid", "Refused"),
    ] {
        service.now(PATCH, line, "", status(reason));
        assert_eq!(off().await.expect_err("not carried out").reason(), shown);
    }
}

#[tokio::test]
async fn a_host_that_would_not_be_turned_off_is_not_asked_to_be() {
    let service = service().await;
    service.now(
        HOST,
        "200 OK",
        "",
        with(running(), "/spec/disablePowerOff", Some(json!(true))),
    );
    let mut session = session(&service);
    session.prepare_off().await.expect("prepared");
    service.asked();
    let refused = session.force_off().await.expect_err("refused");
    assert_eq!(refused.reason(), "Refused");
    assert!(service.asked().is_empty());
    let probed = session.probe(Extent::Needed).await.expect("a probe");
    let denied = probed.off_denied.expect("a reason");
    assert!(denied.to_string().contains("disablePowerOff"), "{denied}");
}

#[tokio::test]
async fn a_host_is_turned_on_by_taking_the_annotation_away() {
    let service = service().await;
    turned_off(&service);
    let mut session = session(&service);
    assert!(session.prepare_on().await.expect("prepared").is_off());
    service.answer(PATCH, "200 OK", "", running());
    service.asked();
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    let asked = service.asked().concat();
    assert!(asked.contains(&format!("{{\"{HELD}\":null}}")), "{asked}");
    session.prepare_on().await.expect("prepared");
    service.now(PATCH, "200 OK", "", off());
    assert!(
        matches!(session.power_on().await, Ok(OnOutcome::Unknown(_))),
        "it is still held"
    );
    service.now(
        HOST,
        "200 OK",
        "",
        with(off(), "/spec/online", Some(json!(false))),
    );
    session.prepare_on().await.expect("prepared");
    assert_eq!(
        session.power_on().await.expect_err("refused").reason(),
        "Refused"
    );
}

#[tokio::test]
async fn an_old_provider_id_is_that_of_the_host_in_the_settings() {
    let service = service().await;
    let old = NodeFacts {
        provider_id: format!("metal3://{UID}"),
        ..node()
    };
    let driver = driver_of(&service, old);
    let reading = driver.open().observe().await.expect("a reading");
    assert_eq!(reading.state, PowerState::On);
    // So that a second Node with the same host is found, whichever form its own has.
    assert_eq!(driver.target(), self::driver(&service).target());
    let other = with(running(), "/metadata/uid", Some(json!("another")));
    service.now(HOST, "200 OK", "", other);
    let mut session = driver.open();
    let error = session.observe().await.expect_err("another host");
    assert!(error.to_string().contains("has the uid another"), "{error}");
    session.prepare_off().await.expect_err("nothing prepared");
    session.force_off().await.expect_err("nothing sent");
    assert!(!service.asked().iter().any(|it| it.starts_with("PATCH ")));
}

#[tokio::test]
async fn a_probe_says_what_the_account_may_not_do() {
    let service = service().await;
    let probed = session(&service)
        .probe(Extent::Needed)
        .await
        .expect("a probe");
    assert_eq!(probed.off_denied, None);
    assert_eq!(
        probed.restarter.as_deref(),
        Some("spec.online of the BareMetalHost")
    );
    assert_eq!(probed.model.as_deref(), Some("Dell Inc. R650"));
    service.now(
        REVIEW,
        "201 Created",
        "",
        json!({"status": {"allowed": false}}),
    );
    let probed = session(&service)
        .probe(Extent::Needed)
        .await
        .expect("a probe");
    assert_eq!(
        probed.off_denied.expect("a right is missing").reason(),
        "PermissionDenied"
    );
    assert!(service.asked().concat().contains("\"namespace\":\"racks\""));
}

#[tokio::test]
async fn a_list_serves_probes_of_hosts_that_were_read_and_run() {
    for (listed, requests) in [
        (running(), 1),
        (off(), 4),
        (
            with(
                running(),
                "/spec/consumerRef/name",
                Some(json!("machine-2")),
            ),
            4,
        ),
    ] {
        let service = service().await;
        service.answer(LIST, "200 OK", "", list("BareMetalHostList", vec![listed]));
        let driver = driver(&service);
        driver.open().probe(Extent::Needed).await.expect("a probe");
        service.asked();
        let probed = driver.open().probe(Extent::Listed).await.expect("a probe");
        assert_eq!(service.asked().len(), requests);
        assert_eq!(probed.reading.state, PowerState::On);
    }
}
