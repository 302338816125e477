//! Whole calls of the driver, against a service on loopback.

use super::*;
use crate::cloud::fixtures::{HANGS_UP, SAYS_NOTHING, Service};
use crate::{DriverKind, Extent, FenceDriver, FenceSession, OffOutcome, OnOutcome};
use std::sync::Arc;

pub(super) const SECRET: [(&str, &str); 3] = [
    ("tenantID", "contoso.example.com"),
    ("clientID", "0c0ffee0-0000-4000-8000-000000000001"),
    ("clientSecret", "s3cret~of/the+app"),
];
pub(super) const LOGIN: &str = "POST /contoso.example.com/oauth2/v2.0/token";
pub(super) const TOKEN: &str = "eyJ0eXAi.of.azure";

/// The request for the machine with this ID.
pub(super) fn get(id: &str) -> String {
    format!("GET /{id}?$expand=instanceView&api-version=2024-07-01")
}

fn post(command: &str) -> String {
    format!("POST /{}/{command}api-version=2024-07-01", id())
}

fn off_request() -> String {
    post("powerOff?skipShutdown=true&")
}

fn operation_path() -> String {
    format!(
        "/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/westeurope/operations/0a1b?p=x&api-version=2024-07-01"
    )
}

fn followed() -> String {
    format!("GET {}", operation_path())
}

fn header(link: &str) -> String {
    format!("Azure-AsyncOperation: {link}\r\nRetry-After: 10\r\n")
}

fn ended(status: &str) -> Value {
    json!({"name": "0A1B", "status": status, "error": {"code": "InternalExecutionError", "message": "so it is"}})
}

pub(super) fn error(code: &str) -> Value {
    said(code, "so it is")
}

fn said(code: &str, message: &str) -> Value {
    json!({"error": {"code": code, "message": message}})
}

pub(super) fn granted(token: &str, life: &Value) -> Value {
    json!({"access_token": token, "token_type": "Bearer", "expires_in": life, "ext_expires_in": 3599})
}

/// A cloud that answers for a machine that was turned off.
pub(super) async fn service() -> Service {
    let service = Service::new().await;
    service.answer(LOGIN, "200 OK", "", granted(TOKEN, &json!(3599)));
    service.answer(&get(&id()), "200 OK", "", vm(&STOPPED));
    service
}

pub(super) fn settings(service: &Service, login: Option<&str>) -> AzureDriver {
    let mut settings = json!({"address": service.url, "tls": {"verification": "None"}});
    if let Some(login) = login {
        settings["loginAddress"] = json!(login);
    }
    serde_json::from_value(settings).expect("settings")
}

pub(super) fn driver(service: &Service) -> Arc<dyn FenceDriver> {
    let settings = settings(service, Some(&service.url));
    settings
        .make(service.parts(node(provider_id()), &SECRET))
        .expect("a driver")
}

fn session(service: &Service) -> Box<dyn FenceSession> {
    driver(service).open()
}

#[tokio::test]
async fn a_machine_is_read_by_one_request_and_one_login_serves_many() {
    let service = service().await;
    let driver = driver(&service);
    for _ in 0..2 {
        let reading = driver.open().observe().await.expect("a reading");
        assert!(reading.is_off(), "{reading:?}");
        assert_eq!(reading.raw, "stopped");
        assert_eq!(reading.identity.system_uuid.as_deref(), Some(UUID));
    }
    let asked = service.asked();
    assert_eq!(asked.len(), 3, "{asked:?}");
    for field in [
        "client_id=0c0ffee0-0000-4000-8000-000000000001",
        "client_secret=s3cret~of%2Fthe%2Bapp",
        "grant_type=client_credentials",
        "scope=http%3A%2F%2F127.0.0.1%3A",
    ] {
        assert!(asked[0].contains(field), "{field}: {asked:?}");
    }
    assert!(!asked[0].contains("authorization"), "{asked:?}");
    for read in &asked[1..] {
        let token = format!("\r\nauthorization: Bearer {TOKEN}\r\n");
        assert!(read.contains(&token) && !read.contains("s3cret"), "{read}");
    }
}

#[tokio::test]
async fn a_machine_of_generation_1_names_the_uuid_in_the_other_byte_order() {
    let service = service().await;
    let reading = session(&service).observe().await.expect("a reading");
    let own = "544cdfd0-cb4e-4b4a-9954-5bdf3ed5c3b8";
    assert!(reading.identity.is_system(own) && reading.identity.is_system(UUID));
    assert!(
        !reading
            .identity
            .is_system("99999999-2222-4333-8444-555555555555")
    );
}

#[tokio::test]
async fn the_answer_for_another_machine_is_no_reading_and_is_sent_nothing() {
    let service = service().await;
    let another = vm(&STOPPED)["id"]
        .as_str()
        .expect("an id")
        .replace("worker-1", "worker-2");
    let other = with(vm(&STOPPED), "/id", json!(another));
    service.now(&get(&id()), "200 OK", "", other);
    let mut session = session(&service);
    let error = session.observe().await.expect_err("no reading");
    assert!(
        error.to_string().contains("was asked for, and it shows"),
        "{error}"
    );
    session.prepare_off().await.expect_err("nothing prepared");
    session.force_off().await.expect_err("nothing sent");
    let asked = service.asked();
    assert!(!asked.iter().any(|it| it.contains("powerOff")), "{asked:?}");
}

#[tokio::test]
async fn an_instance_of_a_scale_set_is_asked_for_below_its_set() {
    let service = service().await;
    let id = of_scale_set()["azure:///".len()..].to_lowercase();
    let instance = with(vm(&RUNNING), "/id", json!(format!("/{id}")));
    service.answer(&get(&id), "200 OK", "", instance);
    let off = format!("POST /{id}/powerOff?skipShutdown=true&api-version=2024-07-01");
    service.answer(&off, "200 OK", "", "");
    let driver = settings(&service, Some(&service.url))
        .make(service.parts(node(of_scale_set()), &SECRET))
        .expect("a driver");
    let probed = driver.open().probe(Extent::Needed).await.expect("a probe");
    assert_eq!(probed.restarter.as_deref(), Some("scale set aks-pool-vmss"));
    let mut session = driver.open();
    session.prepare_off().await.expect("prepared");
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
}

#[tokio::test]
async fn an_error_is_told_by_status_and_code() {
    let service = service().await;
    for (status, body, reason) in [
        (
            "401 Unauthorized",
            error("InvalidAuthenticationToken"),
            "AuthFailed",
        ),
        ("401 Unauthorized", error("of_a_proxy"), "ProtocolError"),
        (
            "403 Forbidden",
            error("AuthorizationFailed"),
            "PermissionDenied",
        ),
        ("403 Forbidden", error("of_a_proxy"), "ProtocolError"),
        ("404 Not Found", error("ResourceNotFound"), "ProtocolError"),
        ("404 Not Found", json!("<html>"), "ProtocolError"),
        (
            "429 Too Many Requests",
            error("OperationNotAllowed"),
            "Busy",
        ),
        ("429 Too Many Requests", Value::Null, "Busy"),
        ("503 Service Unavailable", error("ServerBusy"), "Busy"),
        ("502 Bad Gateway", json!("<html>"), "Busy"),
    ] {
        service.now(&get(&id()), status, "", body);
        let error = session(&service).observe().await.expect_err("no reading");
        assert_eq!(error.reason(), reason, "{error}");
    }
    for code in ["ResourceNotFound", "ResourceGroupNotFound", "NotFound"] {
        service.now(&get(&id()), "404 Not Found", "", error(code));
        let missing = session(&service).observe().await.expect_err("no machine");
        assert!(missing.to_string().contains("is no Off"), "{missing}");
    }
    let wait = "Retry-After: 17\r\n";
    service.now(
        &get(&id()),
        "429 Too Many Requests",
        wait,
        error("TooManyRequests"),
    );
    let busy = session(&service).observe().await.expect_err("later");
    assert!(
        matches!(&busy, DeviceError::Busy { retry_after: Some(it), .. } if it.as_secs() == 17),
        "{busy}"
    );
}

/// The outcome of a power-off, which is one request and no more.
async fn off(service: &Service) -> Result<OffOutcome, DeviceError> {
    let mut session = session(service);
    session.prepare_off().await.expect("prepared");
    service.asked();
    let outcome = session.force_off().await;
    let asked = service.asked();
    let sent = asked.iter().filter(|it| it.starts_with("POST ")).count();
    assert_eq!(sent, 1, "{asked:?}");
    assert!(asked[0].contains("\r\ncontent-length: 0\r\n"), "{asked:?}");
    assert!(session.force_off().await.is_err(), "never twice");
    outcome
}

#[tokio::test]
async fn a_power_off_is_one_request_and_its_operation_is_followed() {
    let service = service().await;
    let link = header(&format!("{}{}", service.url, operation_path()));
    service.answer(&off_request(), "202 Accepted", &link, "");
    service.answer(&followed(), "200 OK", "", ended("InProgress"));
    service.answer(&followed(), "200 OK", "", ended("Succeeded"));
    assert_eq!(off(&service).await, Ok(OffOutcome::Accepted));
    for (status, body) in [
        ("200 OK", ended("Failed")),
        ("200 OK", ended("Canceled")),
        ("200 OK", ended("InProgress")),
        ("200 OK", json!({})),
        ("404 Not Found", error("NotFound")),
        ("429 Too Many Requests", Value::Null),
    ] {
        service.now(&followed(), status, "", body);
        let outcome = off(&service).await;
        assert!(matches!(outcome, Ok(OffOutcome::Unknown(_))), "{outcome:?}");
    }
    service.now(&off_request(), "200 OK", "", "");
    assert_eq!(off(&service).await, Ok(OffOutcome::Accepted));
}

#[tokio::test]
async fn a_power_off_whose_answer_is_not_understood_is_of_unknown_outcome() {
    let service = service().await;
    for (status, body) in [
        ("202 Accepted", Value::Null),
        ("409 Conflict", error("Conflict")),
        ("409 Conflict", error("of_later_versions")),
        ("411 Length Required", json!("<html>")),
        ("500 Internal Server Error", error("InternalServerError")),
        ("504 Gateway Timeout", error("GatewayTimeout")),
        (HANGS_UP, Value::Null),
        (SAYS_NOTHING, Value::Null),
    ] {
        service.now(&off_request(), status, "", body);
        let outcome = off(&service).await;
        assert!(
            matches!(outcome, Ok(OffOutcome::Unknown(_))),
            "{status}: {outcome:?}"
        );
    }
    for (code, reason) in [
        ("403 Forbidden AuthorizationFailed", "PermissionDenied"),
        ("409 Conflict ScopeLocked", "PermissionDenied"),
        ("409 Conflict OperationNotAllowed", "Refused"),
        ("429 Too_Many_Requests TooManyRequests", "Busy"),
    ] {
        let (status, code) = code.rsplit_once(' ').expect("two words");
        service.now(&off_request(), status, "", error(code));
        let refused = off(&service).await.expect_err("not carried out");
        assert_eq!(refused.reason(), reason, "{refused}");
    }
    let words = "Operation 'powerOff' is not allowed on VM 'worker-1' since the VM is either deallocated or marked to be deallocated.";
    let already = said("OperationNotAllowed", words);
    service.now(&off_request(), "409 Conflict", "", already);
    let outcome = off(&service).await;
    assert!(
        matches!(outcome, Ok(OffOutcome::AlreadyOff { .. })),
        "{outcome:?}"
    );
}

/// Azure hands out a URL; a token goes to no other origin, and to no other part of this one.
#[tokio::test]
async fn a_token_goes_to_no_other_host() {
    let (service, elsewhere) = (service().await, Service::new().await);
    elsewhere.answer(&followed(), "200 OK", "", ended("Succeeded"));
    let foreign = format!("/subscriptions/{}/secrets", SUBSCRIPTION.replace('b', "c"));
    service.answer(&format!("GET {foreign}"), "200 OK", "", ended("Succeeded"));
    for link in [
        format!("{}{}", elsewhere.url, operation_path()),
        format!("{}{foreign}", service.url),
        operation_path(),
    ] {
        service.now(&off_request(), "202 Accepted", &header(&link), "");
        let mut session = session(&service);
        session.prepare_off().await.expect("prepared");
        service.asked();
        let outcome = session.force_off().await;
        assert!(matches!(outcome, Ok(OffOutcome::Unknown(_))), "{outcome:?}");
        assert_eq!(service.asked().len(), 1, "{link}");
    }
    assert!(elsewhere.asked().is_empty());
}

#[tokio::test]
async fn a_machine_is_turned_on_by_its_own_command() {
    let service = service().await;
    let link = header(&format!("{}{}", service.url, operation_path()));
    service.answer(&post("start?"), "202 Accepted", &link, "");
    service.answer(&followed(), "200 OK", "", ended("Succeeded"));
    let mut session = session(&service);
    assert!(session.power_on().await.is_err());
    let reading = session.prepare_on().await.expect("prepared");
    assert!(reading.is_off());
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
}

/// S11: it would go on with its old mounts, and its volumes are elsewhere.
#[tokio::test]
async fn a_machine_that_may_resume_its_memory_is_not_started() {
    let hibernated = [
        STOPPED[0],
        "PowerState/deallocated",
        "HibernationState/Hibernated",
    ];
    let enabled = with(
        vm(&STOPPED),
        "/properties/additionalCapabilities",
        json!({"hibernationEnabled": true}),
    );
    for machine in [vm(&hibernated), enabled] {
        let service = service().await;
        service.now(&get(&id()), "200 OK", "", machine);
        let mut session = session(&service);
        session.prepare_on().await.expect("prepared");
        let refused = session.power_on().await.expect_err("a refusal");
        assert!(refused.to_string().contains("old memory"), "{refused}");
        let asked = service.asked();
        assert!(!asked.iter().any(|it| it.contains("/start?")), "{asked:?}");
    }
}
