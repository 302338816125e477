//! Whole calls of the driver, against a service on loopback.

mod masters;

use super::*;
use crate::cloud::fixtures::{HANGS_UP, SAYS_NOTHING, Service};
use crate::{DriverKind, Extent, FenceDriver, FenceSession, OffOutcome, OnOutcome};
use std::sync::Arc;

const OPEN: &str = "POST /jsonrpc session.login_with_password";
const RECORDS: &str = "POST /jsonrpc VM.get_all_records_where";
const STARTED: &str = "POST /jsonrpc VM_metrics.get_start_time";
const MESSAGES: &str = "POST /jsonrpc message.get";
const STOP: &str = "POST /jsonrpc Async.VM.hard_shutdown";
const START: &str = "POST /jsonrpc Async.VM.start";
const TASK: &str = "POST /jsonrpc task.get_record";
const SESSION: &str = "OpaqueRef:the-session";

fn result(it: &Value) -> Value {
    json!({"jsonrpc": "2.0", "result": it, "id": 1})
}

fn error(code: &str, data: &[&str]) -> Value {
    json!({"jsonrpc": "2.0", "error": {"code": 1, "message": code, "data": data}, "id": 1})
}

fn task(status: &str, error: &[&str]) -> Value {
    result(&json!({"status": status, "error_info": error, "name_label": "Async.VM.hard_shutdown"}))
}

fn running() -> Value {
    let running = with(halted(), "power_state", Some(json!("Running")));
    with(running, "resident_on", Some(json!("OpaqueRef:host")))
}

fn records(all: &[Value]) -> Value {
    let all = all.iter().enumerate();
    let all: Value = all
        .map(|(number, it)| (format!("{REFERENCE}{number}"), it.clone()))
        .collect();
    result(&all)
}

/// A master that answers for a VM that was shut down.
async fn service() -> Service {
    let service = Service::new().await;
    service.answer(OPEN, "200 OK", "", result(&json!(SESSION)));
    service.answer(RECORDS, "200 OK", "", records(&[halted()]));
    let since = json!("20261129T11:59:00Z");
    service.answer(STARTED, "200 OK", "", result(&since));
    let all = messages(&[("VM_SHUTDOWN", 9)]);
    service.answer(MESSAGES, "200 OK", "", result(&all));
    service
}

fn driver(service: &Service) -> Arc<dyn FenceDriver> {
    driver_of(service, node())
}

fn driver_of(service: &Service, node: NodeFacts) -> Arc<dyn FenceDriver> {
    let settings: XapiDriver =
        serde_json::from_value(json!({"address": service.url, "tls": {"verification": "None"}}))
            .expect("settings");
    let secret = [("username", "fence"), ("password", "s3cret\"")];
    settings
        .make(service.parts(node, &secret))
        .expect("a driver")
}

fn session(service: &Service) -> Box<dyn FenceSession> {
    driver(service).open()
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
        let read = driver_of(&service, node).open().observe().await;
        assert_eq!(read.is_ok(), is_it, "{name}: {read:?}");
        let words = read.err().map(|it| it.to_string()).unwrap_or_default();
        assert_eq!(words.contains("another name"), !is_it, "{words}");
    }
}

/// Methods and parameters of the calls since this was asked last.
fn calls(service: &Service) -> Vec<(String, Value)> {
    let body = |it: &String| {
        let (_, body) = it.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str::<Value>(body).expect("JSON")
    };
    let calls = service.asked();
    let calls = calls.iter().map(body);
    let of = |it: Value| {
        (
            it["method"].as_str().unwrap_or("").to_owned(),
            it["params"].clone(),
        )
    };
    calls.map(of).collect()
}

fn methods(service: &Service) -> Vec<String> {
    calls(service)
        .into_iter()
        .map(|(method, _)| method)
        .collect()
}

#[tokio::test]
async fn a_vm_is_read_within_one_session_and_its_messages_only_if_it_is_halted() {
    let service = service().await;
    let driver = driver(&service);
    let reading = driver.open().observe().await.expect("a reading");
    assert!(reading.is_off(), "{reading:?}");
    assert!(reading.identity.is_system(UUID));
    // The same bytes as firmware may print them.
    let turned = "44454c4c-4200-1035-8054-b4c04f4e4e31";
    let filter = format!("field \"uuid\"=\"{UUID}\" or field \"uuid\"=\"{turned}\"");
    let expected = [
        (
            "session.login_with_password",
            json!(["fence", "s3cret\"", "1.0", "node-fencing-operator"]),
        ),
        ("VM.get_all_records_where", json!([SESSION, filter])),
        (
            "VM_metrics.get_start_time",
            json!([SESSION, "OpaqueRef:metrics"]),
        ),
        (
            "message.get",
            json!([SESSION, "VM", UUID, "20261129T11:59:00Z"]),
        ),
    ];
    let expected = expected.map(|(method, params)| (method.to_owned(), params));
    assert_eq!(calls(&service), expected);

    let later = messages(&[("VM_SHUTDOWN", 1), ("VM_STARTED", 2)]);
    service.now(MESSAGES, "200 OK", "", result(&later));
    let reading = driver.open().observe().await.expect("a reading");
    assert_eq!(reading.faults, ["message VM_STARTED"]);
    assert!(!methods(&service).contains(&expected[0].0), "one session");
    service.now(MESSAGES, "200 OK", "", error("UUID_INVALID", &[]));
    driver.open().observe().await.expect_err("no reading");
    service.asked();
    service.now(RECORDS, "200 OK", "", records(&[running()]));
    let reading = driver.open().observe().await.expect("a reading");
    assert_eq!(reading.state, PowerState::On);
    assert_eq!(calls(&service).len(), 1);
}

#[tokio::test]
async fn no_vm_and_two_vms_are_no_reading_and_are_sent_nothing() {
    let service = service().await;
    for (all, words) in [
        (vec![], "0 VMs have the UUID"),
        (vec![halted(), running()], "2 VMs have the UUID"),
    ] {
        service.now(RECORDS, "200 OK", "", records(&all));
        let mut session = session(&service);
        let error = session.observe().await.expect_err("no reading").to_string();
        assert!(error.contains(words) && error.contains("no Off"), "{error}");
        session.prepare_off().await.expect_err("nothing prepared");
        session.force_off().await.expect_err("nothing sent");
        assert!(!methods(&service).iter().any(|it| it.starts_with("Async")));
    }
}

#[tokio::test]
async fn a_session_that_has_ended_is_opened_again_once() {
    let service = service().await;
    let ended = error("SESSION_INVALID", &[SESSION]);
    let driver = driver(&service);
    driver.open().observe().await.expect("a reading");
    service.asked();
    service.now(RECORDS, "200 OK", "", ended.clone());
    service.answer(RECORDS, "200 OK", "", records(&[running()]));
    driver.open().observe().await.expect("a reading");
    let expected = [
        "VM.get_all_records_where",
        "session.login_with_password",
        "VM.get_all_records_where",
    ];
    assert_eq!(methods(&service), expected);
    service.now(RECORDS, "200 OK", "", ended);
    let error = driver.open().observe().await.expect_err("no reading");
    assert_eq!(error.reason(), "Busy", "{error}");
    assert!(!error.to_string().contains(SESSION), "{error}");
    assert_eq!(methods(&service), expected);
}

#[tokio::test]
async fn a_failure_is_told_by_its_code_whatever_the_status() {
    let service = service().await;
    for (status, body, reason) in [
        (
            "200 OK",
            error("RBAC_PERMISSION_DENIED", &["vm.get"]),
            "PermissionDenied",
        ),
        ("200 OK", error("HOST_STILL_BOOTING", &[]), "Busy"),
        ("200 OK", error("INTERNAL_ERROR", &["x"]), "ProtocolError"),
        (
            "200 OK",
            json!({"jsonrpc": "2.0", "id": 1}),
            "ProtocolError",
        ),
        ("500 Internal Error", json!("oops"), "Busy"),
        ("404 Not Found", json!("nothing here"), "ProtocolError"),
    ] {
        service.now(RECORDS, status, "", body);
        let error = session(&service).observe().await.expect_err("no reading");
        assert_eq!(error.reason(), reason, "{error}");
    }
    let wrong = error("SESSION_AUTHENTICATION_FAILED", &["fence"]);
    service.now(OPEN, "200 OK", "", wrong);
    let error = session(&service).observe().await.expect_err("no reading");
    assert_eq!(error.reason(), "AuthFailed", "{error}");
}

#[tokio::test]
async fn another_member_leads_to_no_address_that_is_not_allowed() {
    let service = service().await;
    service.now(OPEN, "200 OK", "", error("HOST_IS_SLAVE", &["127.0.0.9"]));
    let error = session(&service).observe().await.expect_err("no reading");
    let words = error.to_string();
    assert!(words.contains("nothing was sent there"), "{words}");
    assert!(words.contains("127.0.0.9"), "{words}");
    assert_eq!(methods(&service), ["session.login_with_password"]);
    service.now(
        OPEN,
        "200 OK",
        "",
        self::error("HOST_IS_SLAVE", &["10.0.0.1/jsonrpc"]),
    );
    session(&service).observe().await.expect_err("no reading");
    assert_eq!(methods(&service).len(), 1);
}

#[tokio::test]
async fn a_member_that_names_an_address_of_its_own_host_is_followed_once() {
    let service = service().await;
    let here = "127.0.0.1";
    service.now(OPEN, "200 OK", "", error("HOST_IS_SLAVE", &[here]));
    service.answer(OPEN, "200 OK", "", result(&json!(SESSION)));
    let driver = driver(&service);
    assert!(driver.open().observe().await.expect("a reading").is_off());
    let opened = |service: &Service| {
        let methods = methods(service);
        let opened = methods.iter().filter(|it| it.starts_with("session."));
        opened.count()
    };
    assert_eq!(opened(&service), 2);
    assert!(driver.open().observe().await.expect("a reading").is_off());
    assert_eq!(opened(&service), 0);
    service.now(OPEN, "200 OK", "", error("HOST_IS_SLAVE", &[here]));
    let lost = session(&service).observe().await.expect_err("no reading");
    assert_eq!(lost.reason(), "Busy", "{lost}");
    assert_eq!(opened(&service), 2);
}

#[tokio::test]
async fn a_power_off_is_one_call_and_its_task_is_followed() {
    let service = service().await;
    let off = async || {
        let mut session = session(&service);
        session.prepare_off().await.expect("prepared");
        service.asked();
        let outcome = session.force_off().await;
        let stop = "Async.VM.hard_shutdown";
        let mut calls = calls(&service);
        calls.retain(|(method, _)| method == stop);
        let params = json!([SESSION, format!("{REFERENCE}0")]);
        assert_eq!(calls, [(stop.to_owned(), params)]);
        assert!(session.force_off().await.is_err(), "never twice");
        outcome
    };
    service.answer(STOP, "200 OK", "", result(&json!("OpaqueRef:task")));
    service.answer(TASK, "200 OK", "", task("pending", &[]));
    service.answer(TASK, "200 OK", "", task("success", &[]));
    assert_eq!(off().await, Ok(OffOutcome::Accepted));
    let halted = ["VM_BAD_POWER_STATE", REFERENCE, "running", "halted"];
    service.now(TASK, "200 OK", "", task("failure", &halted));
    assert!(matches!(off().await, Ok(OffOutcome::AlreadyOff { .. })));
    service.now(
        TASK,
        "200 OK",
        "",
        task("failure", &["HOST_OFFLINE", "OpaqueRef:host"]),
    );
    let refused = off().await.expect_err("not carried out");
    assert_eq!(refused.reason(), "Refused", "{refused}");
    for end in [
        task("failure", &["CANNOT_CONTACT_HOST", "OpaqueRef:host"]),
        task(
            "failure",
            &["VM_BAD_POWER_STATE", REFERENCE, "halted", "running"],
        ),
        task("pending", &[]),
        error("HANDLE_INVALID", &["task", "OpaqueRef:task"]),
    ] {
        service.now(TASK, "200 OK", "", end);
        assert!(matches!(off().await, Ok(OffOutcome::Unknown(_))));
    }
    for (status, body) in [
        ("200 OK", result(&json!({}))),
        ("200 OK", json!({})),
        ("200 OK", error("INTERNAL_ERROR", &[])),
        ("500 Internal Error", json!({})),
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
    for (code, reason) in [
        ("RBAC_PERMISSION_DENIED", "PermissionDenied"),
        ("SESSION_INVALID", "Busy"),
        ("HOST_IS_SLAVE", "Busy"),
    ] {
        service.now(STOP, "200 OK", "", error(code, &[]));
        let refused = off().await.expect_err("not carried out");
        assert_eq!(refused.reason(), reason, "{refused}");
    }
}

#[tokio::test]
async fn a_vm_is_started_neither_paused_nor_by_force() {
    let service = service().await;
    service.answer(START, "200 OK", "", result(&json!("OpaqueRef:task")));
    service.answer(TASK, "200 OK", "", task("success", &[]));
    let mut session = session(&service);
    assert!(session.prepare_on().await.expect("prepared").is_off());
    service.asked();
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    let calls = calls(&service);
    let params = json!([SESSION, format!("{REFERENCE}0"), false, false]);
    assert_eq!(calls[0].1, params);
    assert_eq!(calls[1].1, json!([SESSION, "OpaqueRef:task"]));
}

#[tokio::test]
async fn a_list_serves_probes_of_machines_that_were_read_and_run() {
    let service = service().await;
    let kept = with(running(), "ha_restart_priority", Some(json!("restart")));
    service.now(RECORDS, "200 OK", "", records(&[kept]));
    let driver = driver(&service);
    let probe = async |extent| driver.open().probe(extent).await.expect("a probe");
    let whole = probe(Extent::Needed).await;
    assert_eq!(whole.model.as_deref(), Some("VM worker-1"));
    let restarter = whole.restarter.expect("a restarter");
    assert!(restarter.starts_with("HA of the pool"), "{restarter}");
    service.asked();
    for requests in [1, 0] {
        let probed = probe(Extent::Listed).await;
        assert_eq!(calls(&service).len(), requests);
        assert_eq!(probed.reading.state, PowerState::On);
    }
    driver.open().observe().await.expect("a reading");
    assert_eq!(calls(&service).len(), 1, "a fence reads the VM itself");
}
