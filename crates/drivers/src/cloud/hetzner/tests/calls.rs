//! Whole calls of the driver, against a service on loopback.

use super::*;
use crate::cloud::fixtures::{HANGS_UP, SAYS_NOTHING, Service};
use crate::{DriverKind, Extent, FenceDriver, FenceSession, OffOutcome, OnOutcome};
use std::sync::Arc;

const SERVER: &str = "GET /v1/servers/4711";
const ACTIONS: &str = "GET /v1/servers/4711/actions?sort=id:desc&per_page=25";
const LIST: &str = "GET /v1/servers?sort=id:asc&per_page=50&page=1";
const STOP: &str = "POST /v1/servers/4711/actions/poweroff";
const FOLLOWED: &str = "GET /v1/actions/13";

fn of_action(status: &str) -> Value {
    json!({"action": action(13, "stop_server", status)})
}

fn error(code: &str) -> Value {
    json!({"error": {"code": code, "message": "so it is", "details": {}}})
}

/// A project that answers for a server that was turned off.
async fn service() -> Service {
    let service = Service::new().await;
    service.answer(SERVER, "200 OK", "", json!({"server": off()}));
    let actions = json!({"actions": [action(7, "stop_server", "success")]});
    service.answer(ACTIONS, "200 OK", "", actions);
    service
}

fn driver(service: &Service) -> Arc<dyn FenceDriver> {
    let settings: HetznerCloudDriver =
        serde_json::from_value(json!({"address": service.url, "tls": {"verification": "None"}}))
            .expect("settings");
    let secret = [("token", "jEheVytlAoFl7F8M-token")];
    settings
        .make(service.parts(node(), &secret))
        .expect("a driver")
}

fn session(service: &Service) -> Box<dyn FenceSession> {
    driver(service).open()
}

fn running() -> Value {
    with(off(), "/status", Some(json!("running")))
}

#[tokio::test]
async fn a_server_is_read_with_the_token_and_its_actions_only_if_it_is_off() {
    let service = service().await;
    let reading = session(&service).observe().await.expect("a reading");
    assert!(reading.is_off(), "{reading:?}");
    assert_eq!(reading.identity.system_uuid, None);
    assert_eq!(reading.identity.serial_number.as_deref(), Some("4711"));
    let asked = service.asked();
    assert_eq!(asked.len(), 2);
    let token = "\r\nauthorization: Bearer jEheVytlAoFl7F8M-token\r\n";
    assert!(asked.iter().all(|it| it.contains(token)), "{asked:?}");

    let later = json!({"actions": [action(7, "stop_server", "success"), action(9, "start_server", "running")]});
    service.now(ACTIONS, "200 OK", "", later);
    let reading = session(&service).observe().await.expect("a reading");
    assert_eq!(reading.faults, ["action start_server running"]);
    service.now(ACTIONS, "200 OK", "", "{}");
    let none = session(&service).observe().await.expect_err("no reading");
    assert_eq!(none.reason(), "ProtocolError", "{none}");
    service.asked();
    service.now(SERVER, "200 OK", "", json!({"server": running()}));
    let reading = session(&service).observe().await.expect("a reading");
    assert_eq!(reading.state, PowerState::On);
    assert_eq!(service.asked().len(), 1);
}

#[tokio::test]
async fn another_machine_is_no_reading_and_is_sent_nothing() {
    let service = service().await;
    for (at, value) in [
        ("/name", json!("db-1")),
        ("/id", json!(4712)),
        ("/private_net", json!([])),
    ] {
        let other = with(off(), at, Some(value));
        service.now(SERVER, "200 OK", "", json!({"server": other}));
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
        assert!(!service.asked().iter().any(|it| it.starts_with("POST ")));
    }
}

#[tokio::test]
async fn an_error_is_told_by_its_code() {
    let service = service().await;
    for (status, body, reason) in [
        ("401 Unauthorized", error("unauthorized"), "AuthFailed"),
        ("403 Forbidden", error("forbidden"), "PermissionDenied"),
        ("404 Not Found", error("not_found"), "ProtocolError"),
        (
            "429 Too Many Requests",
            error("rate_limit_exceeded"),
            "Busy",
        ),
        ("429 Too Many Requests", Value::Null, "Busy"),
        ("503 Service Unavailable", error("maintenance"), "Busy"),
        ("502 Bad Gateway", error("bad_gateway"), "Busy"),
        ("401 Unauthorized", error("of_a_proxy"), "ProtocolError"),
    ] {
        service.now(SERVER, status, "", body);
        let error = session(&service).observe().await.expect_err("no reading");
        assert_eq!(error.reason(), reason, "{error}");
    }
    let missing = error("not_found");
    service.now(SERVER, "404 Not Found", "", missing);
    let missing = session(&service).observe().await.expect_err("no server");
    assert!(missing.to_string().contains("is no Off"), "{missing}");
}

#[tokio::test]
async fn a_power_off_is_one_request_and_its_action_is_followed() {
    let service = service().await;
    let off = async || {
        let mut session = session(&service);
        session.prepare_off().await.expect("prepared");
        service.asked();
        let outcome = session.force_off().await;
        let asked = service.asked();
        let sent = asked.iter().filter(|it| it.starts_with("POST ")).count();
        assert_eq!(sent, 1);
        assert!(session.force_off().await.is_err(), "never twice");
        outcome
    };
    service.answer(STOP, "201 Created", "", of_action("running"));
    service.answer(FOLLOWED, "200 OK", "", of_action("running"));
    service.answer(FOLLOWED, "200 OK", "", of_action("success"));
    assert_eq!(off().await, Ok(OffOutcome::Accepted));
    for end in [of_action("error"), of_action("running"), json!({})] {
        service.now(FOLLOWED, "200 OK", "", end);
        assert!(matches!(off().await, Ok(OffOutcome::Unknown(_))));
    }
    let foreign = with(
        of_action("success"),
        "/action/resources",
        Some(json!([{"id": 4712, "type": "server"}])),
    );
    for (status, body) in [
        ("201 Created", foreign),
        ("201 Created", json!({})),
        ("200 OK", of_action("success")),
        ("409 Conflict", error("conflict")),
        ("500 Internal Server Error", error("server_error")),
        ("504 Gateway Timeout", error("timeout")),
        ("423 Locked", error("not_heard_of")),
        (HANGS_UP, Value::Null),
        (SAYS_NOTHING, Value::Null),
    ] {
        service.now(STOP, status, "", body);
        let outcome = off().await;
        assert!(
            matches!(outcome, Ok(OffOutcome::Unknown(_))),
            "{status}: {outcome:?}"
        );
    }
    for (status, code, reason) in [
        ("423 Locked", "locked", "Busy"),
        ("423 Locked", "resource_locked", "Refused"),
        ("403 Forbidden", "token_readonly", "PermissionDenied"),
        ("429 Too Many Requests", "rate_limit_exceeded", "Busy"),
        ("503 Service Unavailable", "maintenance", "Busy"),
    ] {
        service.now(STOP, status, "", error(code));
        let refused = off().await.expect_err("not carried out");
        assert_eq!(refused.reason(), reason, "{refused}");
    }
}

#[tokio::test]
async fn a_server_is_turned_on_by_its_own_command() {
    let service = service().await;
    let start = json!({"action": action(14, "start_server", "success")});
    let path = "POST /v1/servers/4711/actions/poweron";
    service.answer(path, "201 Created", "", start.clone());
    service.answer("GET /v1/actions/14", "200 OK", "", start);
    let mut session = session(&service);
    assert!(session.power_on().await.is_err());
    let reading = session.prepare_on().await.expect("prepared");
    assert!(reading.is_off());
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
}

#[tokio::test]
async fn a_list_serves_probes_of_machines_that_were_read_and_run() {
    let service = service().await;
    let list = |server: Value, headers: &str| {
        service.now(LIST, "200 OK", headers, json!({"servers": [server]}));
    };
    let rescue = with(running(), "/rescue_enabled", Some(json!(true)));
    service.now(SERVER, "200 OK", "", json!({"server": rescue}));
    list(running(), "RateLimit-Remaining: 600\r\n");
    let driver = driver(&service);
    let probe = async |extent| driver.open().probe(extent).await;
    let probed = probe(Extent::Listed).await.expect("a probe");
    assert_eq!(
        probed.model.as_deref(),
        Some("cpx31, boots the rescue system next")
    );
    service.asked();
    for requests in [1, 0] {
        let probed = probe(Extent::Listed).await.expect("a probe");
        assert_eq!(service.asked().len(), requests);
        assert_eq!(probed.reading.state, PowerState::On);
        assert_eq!(probed.model.as_deref(), Some("cpx31"));
    }
    driver.open().observe().await.expect("a reading");
    assert_eq!(service.asked().len(), 1, "a fence reads the server itself");
}

#[tokio::test]
async fn one_that_a_list_does_not_show_as_the_nodes_is_read_by_itself() {
    for server in [off(), with(running(), "/name", Some(json!("db-1")))] {
        let service = service().await;
        service.answer(LIST, "200 OK", "", json!({"servers": [server]}));
        let driver = driver(&service);
        driver.open().probe(Extent::Needed).await.expect("a probe");
        service.asked();
        driver.open().probe(Extent::Listed).await.expect("a probe");
        assert_eq!(service.asked().len(), 3);
    }
}

#[tokio::test]
async fn a_list_of_many_pages_ends() {
    let service = service().await;
    let page = |number: usize| format!("GET /v1/servers?sort=id:asc&per_page=50&page={number}");
    let many: Vec<Value> = (1..=50)
        .map(|id| with(running(), "/id", Some(json!(id))))
        .collect();
    for number in 1..=50 {
        service.answer(&page(number), "200 OK", "", json!({"servers": many}));
    }
    let driver = driver(&service);
    driver.open().probe(Extent::Needed).await.expect("a probe");
    service.asked();
    driver.open().probe(Extent::Listed).await.expect("a probe");
    let asked = service.asked();
    let pages = asked.iter().filter(|it| it.starts_with("GET /v1/servers?"));
    assert_eq!(pages.count(), PAGES_MAX);
    // The third is the last.
    let service = self::service().await;
    for number in 1..=2 {
        service.answer(&page(number), "200 OK", "", json!({"servers": many}));
    }
    service.answer(&page(3), "200 OK", "", json!({"servers": [running()]}));
    let driver = self::driver(&service);
    driver.open().probe(Extent::Needed).await.expect("a probe");
    service.asked();
    let probed = driver.open().probe(Extent::Listed).await.expect("a probe");
    assert_eq!(probed.reading.state, PowerState::On);
    assert_eq!(service.asked().len(), 3);
}

#[tokio::test]
async fn a_project_with_few_requests_left_keeps_them_for_fences() {
    let service = service().await;
    let few = "RateLimit-Limit: 3600\r\nRateLimit-Remaining: 599\r\n";
    service.answer(LIST, "200 OK", few, json!({"servers": [running()]}));
    let driver = driver(&service);
    driver.open().probe(Extent::Needed).await.expect("a probe");
    service.asked();
    for requests in [1, 0] {
        let busy = driver
            .open()
            .probe(Extent::Listed)
            .await
            .expect_err("later");
        assert_eq!(busy.reason(), "Busy", "{busy}");
        assert!(busy.to_string().contains("599 requests are left"), "{busy}");
        assert_eq!(service.asked().len(), requests);
    }
    assert!(driver.open().observe().await.expect("a reading").is_off());
}
