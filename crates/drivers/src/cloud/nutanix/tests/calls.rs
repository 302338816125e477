//! Whole calls of the driver, against a service on loopback.

use super::*;
use crate::cloud::fixtures::{HANGS_UP, SAYS_NOTHING, Service};
use crate::{DriverKind, Extent, FenceDriver, FenceSession, OffOutcome, OnOutcome};
use std::sync::Arc;

const VM: &str = "GET /api/vmm/v4.0/ahv/config/vms/4c4c4544-0042-3510-8054-b4c04f4e4e31";
const NAMESAKES: &str = "GET /api/vmm/v4.0/ahv/config/vms?$filter=name%20eq%20%27worker-1%27&$limit=100&$select=extId,name,biosUuid,powerState,isAgentVm,isCrossClusterMigrationInProgress";
const STOP: &str =
    "POST /api/vmm/v4.0/ahv/config/vms/4c4c4544-0042-3510-8054-b4c04f4e4e31/$actions/power-off";
const START: &str =
    "POST /api/vmm/v4.0/ahv/config/vms/4c4c4544-0042-3510-8054-b4c04f4e4e31/$actions/power-on";
const FOLLOWED: &str =
    "GET /api/prism/v4.0/config/tasks/ZXJnb24=:0b9e4f3e-4a5c-4a6e-9b55-1a2b3c4d5e6f";
const TAG: &str = "ETag: YXBwbGljYXRpb24vanNvbg==:1\r\n";

fn list(page: usize) -> String {
    format!(
        "GET /api/vmm/v4.0/ahv/config/vms?$page={page}&$limit=100&$select=extId,name,biosUuid,powerState,isAgentVm,isCrossClusterMigrationInProgress"
    )
}

fn data(it: &Value) -> Value {
    json!({"data": it, "metadata": {}})
}

fn begun() -> Value {
    data(&json!({"extId": TASK, "$objectType": "prism.v4.config.TaskReference"}))
}

fn task_is(status: &str) -> Value {
    data(&json!({"extId": TASK, "status": status, "operation": "VmPowerOff"}))
}

fn error(code: &str, group: &str, message: &str) -> Value {
    data(&json!({"error": [{"code": code, "errorGroup": group, "message": message}]}))
}

fn running() -> Value {
    with(off(), "powerState", Some(json!("ON")))
}

/// A Prism Central that answers for a VM that is off.
async fn service() -> Service {
    let service = Service::new().await;
    service.answer(VM, "200 OK", TAG, data(&off()));
    service.answer(NAMESAKES, "200 OK", "", data(&json!([off()])));
    service
}

fn driver_with(service: &Service, secret: &[(&'static str, &str)]) -> Arc<dyn FenceDriver> {
    driver_of(service, node(), secret)
}

fn driver_of(
    service: &Service,
    node: NodeFacts,
    secret: &[(&'static str, &str)],
) -> Arc<dyn FenceDriver> {
    let settings: NutanixDriver =
        serde_json::from_value(json!({"address": service.url, "tls": {"verification": "None"}}))
            .expect("settings");
    settings
        .make(service.parts(node, secret))
        .expect("a driver")
}

fn session(service: &Service) -> Box<dyn FenceSession> {
    driver_with(service, &[("apiKey", "the-api-key")]).open()
}

/// S5: a kubelet can report the UUID of another machine.
#[tokio::test]
async fn without_a_provider_id_the_vm_is_called_like_its_node() {
    let service = service().await;
    for (name, is_it) in [("worker-1.example.com", true), ("db-1", false)] {
        let node = NodeFacts {
            system_uuid: UUID.to_owned(),
            ..NodeFacts::named(name)
        };
        let driver = driver_of(&service, node, &[("apiKey", "the-api-key")]);
        let read = driver.open().observe().await;
        assert_eq!(read.is_ok(), is_it, "{name}: {read:?}");
        let words = read.err().map(|it| it.to_string()).unwrap_or_default();
        assert_eq!(words.contains("another name"), !is_it, "{words}");
    }
}

#[tokio::test]
async fn a_vm_is_read_with_a_key_or_with_user_and_password() {
    let service = service().await;
    let reading = session(&service).observe().await.expect("a reading");
    assert!(reading.is_off(), "{reading:?}");
    assert!(reading.identity.is_system(UUID));
    let asked = service.asked();
    assert_eq!(asked.len(), 2, "the VM, and those with its name");
    let key = "\r\nx-ntnx-api-key: the-api-key\r\n";
    assert!(asked.iter().all(|it| it.contains(key)), "{asked:?}");

    let login = [("username", "fence"), ("password", "s3cret")];
    let driver = driver_with(&service, &login);
    service.now(VM, "200 OK", TAG, data(&running()));
    let reading = driver.open().observe().await.expect("a reading");
    assert_eq!(reading.state, PowerState::On);
    let asked = service.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].contains("\r\nauthorization: Basic ZmVuY2U6czNjcmV0\r\n"));
}

#[tokio::test]
async fn an_off_beside_another_vm_that_could_be_the_machine_is_none() {
    let service = service().await;
    let other = with(running(), "extId", Some(json!(OTHER)));
    service.now(NAMESAKES, "200 OK", "", data(&json!([off(), other])));
    let reading = session(&service).observe().await.expect("a reading");
    assert_eq!(reading.faults, ["another VM has its name"]);
    let lacks = "the list of its name lacks it";
    let full = "more VMs have its name than are listed";
    let unrelated = with(running(), "name", Some(json!("db-1")));
    let unrelated = with(unrelated, "extId", Some(json!(OTHER)));
    for (listed, faults) in [
        (json!({"metadata": {}}), vec![lacks]),
        (data(&Value::Null), vec![lacks]),
        (data(&json!([])), vec![lacks]),
        (data(&json!([unrelated])), vec![lacks]),
        (data(&json!(vec![off(); PAGE])), vec![full]),
        (data(&json!(vec![off(); PAGE - 1])), vec![]),
    ] {
        service.now(NAMESAKES, "200 OK", "", listed);
        let reading = session(&service).observe().await.expect("a reading");
        assert_eq!(reading.faults, faults);
        assert_eq!(reading.is_off(), faults.is_empty());
    }
    service.now(NAMESAKES, "403 Forbidden", "", json!({}));
    let none = session(&service).observe().await.expect_err("no reading");
    assert_eq!(none.reason(), "PermissionDenied", "{none}");
}

#[tokio::test]
async fn another_machine_is_no_reading_and_is_sent_nothing() {
    let service = service().await;
    let other = with(off(), "extId", Some(json!(OTHER)));
    service.now(VM, "200 OK", TAG, data(&other));
    let mut session = session(&service);
    let error = session.observe().await.expect_err("no reading").to_string();
    assert!(
        error.contains("not the machine of Node worker-1"),
        "{error}"
    );
    session.prepare_off().await.expect_err("nothing prepared");
    session.force_off().await.expect_err("nothing sent");
    assert!(!service.asked().iter().any(|it| it.starts_with("POST ")));
}

#[tokio::test]
async fn an_error_is_told_by_status_code_and_message() {
    let service = service().await;
    let lost = "Failed to perform the operation as the backend service could not find the entity.";
    for (status, body, reason) in [
        ("401 Unauthorized", json!({}), "AuthFailed"),
        ("403 Forbidden", json!({}), "PermissionDenied"),
        (
            "404 Not Found",
            error("VMM-20005", "", lost),
            "ProtocolError",
        ),
        ("404 Not Found", json!({}), "ProtocolError"),
        ("429 Too Many Requests", json!({}), "Busy"),
        ("500 Internal Server Error", json!({}), "Busy"),
        (
            "400 Bad Request",
            error("VMM-30100", "", ""),
            "ProtocolError",
        ),
    ] {
        service.now(VM, status, "", body);
        let error = session(&service).observe().await.expect_err("no reading");
        assert_eq!(error.reason(), reason, "{error}");
    }
    for missing in [
        error("VMM-20005", "", ""),
        error("PLAT-1", "RESOURCE_NOT_FOUND", ""),
    ] {
        service.now(VM, "404 Not Found", "", missing);
        let error = session(&service).observe().await.expect_err("no VM");
        assert!(error.to_string().contains("is no Off"), "{error}");
    }
}

#[tokio::test]
async fn a_power_off_is_for_the_version_that_was_read_and_its_task_is_followed() {
    let service = service().await;
    let off = async || {
        let mut session = session(&service);
        session.prepare_off().await.expect("prepared");
        service.asked();
        let outcome = session.force_off().await;
        let asked = service.asked();
        let sent: Vec<&String> = asked.iter().filter(|it| it.starts_with("POST ")).collect();
        assert_eq!(sent.len(), 1);
        assert!(sent[0].contains("\r\nif-match: YXBwbGljYXRpb24vanNvbg==:1\r\n"));
        assert!(sent[0].contains("\r\nntnx-request-id: "), "{}", sent[0]);
        assert!(session.force_off().await.is_err(), "never twice");
        outcome
    };
    service.answer(STOP, "202 Accepted", "", begun());
    service.answer(FOLLOWED, "200 OK", "", task_is("RUNNING"));
    service.answer(FOLLOWED, "200 OK", "", task_is("SUCCEEDED"));
    assert_eq!(off().await, Ok(OffOutcome::Accepted));
    let failed = |words: &str| {
        data(&json!({"extId": TASK, "status": "FAILED", "errorMessages": [{"message": words}]}))
    };
    for end in [
        task_is("FAILED"),
        failed("Cannot complete request in state On"),
        task_is("QUEUED"),
        json!({}),
    ] {
        service.now(FOLLOWED, "200 OK", "", end);
        assert!(matches!(off().await, Ok(OffOutcome::Unknown(_))));
    }
    let is_so = failed("Cannot complete request in state Off");
    service.now(FOLLOWED, "200 OK", "", is_so);
    assert!(matches!(off().await, Ok(OffOutcome::AlreadyOff { .. })));
    let odd_task = data(&json!({"extId": "../../../vmm/v4.0"}));
    for (status, body) in [
        ("202 Accepted", odd_task),
        ("202 Accepted", json!({})),
        ("200 OK", begun()),
        ("409 Conflict", json!({})),
        ("500 Internal Server Error", json!({})),
        ("503 Service Unavailable", json!({})),
        (HANGS_UP, json!({})),
        (SAYS_NOTHING, json!({})),
    ] {
        service.now(STOP, status, "", body);
        let outcome = off().await;
        assert!(
            matches!(outcome, Ok(OffOutcome::Unknown(_))),
            "{status}: {outcome:?}"
        );
    }
    for (status, body, reason) in [
        (
            "412 Precondition Failed",
            error("VMM-30303", "VM_ETAG_MISMATCH", ""),
            "Busy",
        ),
        ("400 Bad Request", error("VMM-30303", "", ""), "Busy"),
        ("403 Forbidden", json!({}), "PermissionDenied"),
        ("429 Too Many Requests", json!({}), "Busy"),
    ] {
        service.now(STOP, status, "", body);
        let refused = off().await.expect_err("not carried out");
        assert_eq!(refused.reason(), reason, "{refused}");
    }
}

#[tokio::test]
async fn a_vm_without_a_version_is_sent_nothing() {
    let service = service().await;
    service.now(VM, "200 OK", "", data(&off()));
    let mut session = session(&service);
    session.prepare_off().await.expect("prepared");
    service.asked();
    let error = session.force_off().await.expect_err("nothing sent");
    assert_eq!(error.reason(), "Refused", "{error}");
    assert!(service.asked().is_empty());
}

#[tokio::test]
async fn a_vm_is_turned_on_by_its_own_command() {
    let service = service().await;
    service.answer(START, "202 Accepted", "", begun());
    service.answer(FOLLOWED, "200 OK", "", task_is("SUCCEEDED"));
    let mut session = session(&service);
    assert!(session.prepare_on().await.expect("prepared").is_off());
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
}

#[tokio::test]
async fn a_list_serves_probes_of_machines_that_were_read_and_run() {
    let service = service().await;
    let agent = with(running(), "isAgentVm", Some(json!(true)));
    service.now(VM, "200 OK", TAG, data(&agent));
    let others: Vec<Value> = (0..100)
        .map(|number| {
            let id = format!("4c4c4544-0042-3510-8054-{number:012x}");
            with(running(), "extId", Some(json!(id)))
        })
        .collect();
    service.answer(&list(0), "200 OK", "", data(&json!(others)));
    service.answer(&list(1), "200 OK", "", data(&json!([agent])));
    let driver = driver_with(&service, &[("apiKey", "the-api-key")]);
    let probe = async |extent| driver.open().probe(extent).await.expect("a probe");
    let whole = probe(Extent::Needed).await;
    assert_eq!(whole.model.as_deref(), Some("VM worker-1"));
    let restarter = whole.restarter.expect("a restarter");
    assert!(restarter.starts_with("AHV"), "{restarter}");
    service.asked();
    for requests in [2, 0] {
        let probed = probe(Extent::Listed).await;
        assert_eq!(service.asked().len(), requests);
        assert_eq!(probed.reading.state, PowerState::On);
    }
    driver.open().observe().await.expect("a reading");
    assert_eq!(service.asked().len(), 1, "a fence reads the VM itself");
}

#[tokio::test]
async fn a_list_of_many_pages_ends() {
    let service = service().await;
    service.now(VM, "200 OK", TAG, data(&running()));
    let full = vec![with(running(), "extId", Some(json!(OTHER))); PAGE];
    for page in 0..=PAGES_MAX {
        service.answer(&list(page), "200 OK", "", data(&json!(full)));
    }
    let driver = driver_with(&service, &[("apiKey", "the-api-key")]);
    driver.open().probe(Extent::Needed).await.expect("a probe");
    service.asked();
    driver.open().probe(Extent::Listed).await.expect("a probe");
    let asked = service.asked();
    let pages = asked.iter().filter(|it| it.contains("?$page="));
    assert_eq!(pages.count(), PAGES_MAX);
}
