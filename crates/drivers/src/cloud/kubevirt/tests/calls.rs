//! Whole calls of the driver, against a service on loopback.

mod places;
mod probes;

use super::*;
use crate::cloud::fixtures::{HANGS_UP, SAYS_NOTHING, Service};
use crate::{DriverKind, Extent, FenceDriver, OffOutcome, OnOutcome, Parts};
use std::sync::Arc;

const VM: &str = "GET /apis/kubevirt.io/v1/namespaces/tenant/virtualmachines/worker-1";
const VMI: &str = "GET /apis/kubevirt.io/v1/namespaces/tenant/virtualmachineinstances/worker-1";
const PODS: &str =
    "GET /api/v1/namespaces/tenant/pods?limit=500&labelSelector=kubevirt.io%3Dvirt-launcher";
/// The kind of what they are answered with, which is metadata alone.
const HEADS: &str = "PartialObjectMetadataList";
const NODE: &str = "GET /api/v1/nodes/infra-1";
const STOP: &str =
    "PUT /apis/subresources.kubevirt.io/v1/namespaces/tenant/virtualmachines/worker-1/stop";
const START: &str =
    "PUT /apis/subresources.kubevirt.io/v1/namespaces/tenant/virtualmachines/worker-1/start";
const REVIEW: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const NOT_FOUND: &str = "404 Not Found";

fn status(code: u16, reason: &str, message: &str, details: Value) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "reason": reason, "message": message, "details": details,
    })
}

fn absent(group: &str, kind: &str, name: &str) -> Value {
    let details = json!({"group": group, "kind": kind, "name": name});
    status(404, "NotFound", "it is not found", details)
}

fn list(kind: &str, items: Vec<Value>) -> Value {
    json!({"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "99"}, "items": items})
}

/// A cluster with a virtual machine that runs on a node that is Ready.
async fn service() -> Service {
    let service = Service::new().await;
    service.answer(VM, "200 OK", "", running());
    service.answer(VMI, "200 OK", "", vmi());
    service.answer(
        PODS,
        "200 OK",
        "",
        list(HEADS, vec![pod("virt-launcher-worker-10-abcde")]),
    );
    service.answer(NODE, "200 OK", "", infra_node("True"));
    service.answer(
        REVIEW,
        "201 Created",
        "",
        json!({"status": {"allowed": true}}),
    );
    service
}

/// The same once it is stopped.
fn stop(service: &Service) {
    let gone = absent("kubevirt.io", "virtualmachineinstances", "worker-1");
    service.now(VM, "200 OK", "", vm());
    service.now(VMI, NOT_FOUND, "", gone);
}

fn driver(service: &Service) -> Arc<dyn FenceDriver> {
    let settings =
        json!({"address": service.url, "namespace": "tenant", "tls": {"verification": "None"}});
    let settings: KubevirtDriver = serde_json::from_value(settings).expect("settings");
    settings.make(parts(service)).expect("a driver")
}

fn parts(service: &Service) -> Parts {
    let kubeconfig = format!(
        "current-context: c\nclusters: [{{name: c, cluster: {{server: '{}'}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         users: [{{name: u, user: {{token: eyJhbGciOi-token}}}}]\n",
        service.url
    );
    service.parts(node(), &[("kubeconfig", kubeconfig.as_str())])
}

#[tokio::test]
async fn a_machine_that_was_seen_running_is_off_once_all_of_it_is_gone() {
    let service = service().await;
    let driver = driver(&service);
    let mut session = driver.open();
    let reading = session.observe().await.expect("a reading");
    assert_eq!(reading.state, PowerState::On);
    assert_eq!(reading.identity.system_uuid.as_deref(), Some(UUID));
    let asked = service.asked();
    assert_eq!(asked.len(), 3, "and which node that is");
    let token = "\r\nauthorization: Bearer eyJhbGciOi-token\r\n";
    assert!(asked.iter().all(|it| it.contains(token)), "{asked:?}");
    stop(&service);
    assert!(session.observe().await.expect("a reading").is_off());
    // The pods before the node: its kubelet answers for what was not there.
    let asked = service.asked();
    let lines: Vec<&str> = asked.iter().filter_map(|it| it.lines().next()).collect();
    let expected = [VM, VMI, PODS, NODE].map(|it| format!("{it} HTTP/1.1"));
    assert_eq!(lines, expected);
    let form = format!("\r\naccept: application/json;as={HEADS};g=meta.k8s.io;v=v1\r\n");
    assert!(asked[2].contains(&form), "{asked:?}");
    // Another session of the same process knows where it ran.
    assert!(driver.open().observe().await.expect("a reading").is_off());
}

#[tokio::test]
async fn what_is_left_of_it_speaks_against_an_off() {
    let tainted = with(
        infra_node("Unknown"),
        "/spec/taints",
        Some(json!([{"key": "node.kubernetes.io/out-of-service"}])),
    );
    for (request, answer, body, fault) in [
        (
            PODS,
            "200 OK",
            list(HEADS, vec![pod("virt-launcher-worker-1-abcde")]),
            Some("pod virt-launcher-worker-1-abcde"),
        ),
        (
            NODE,
            "200 OK",
            infra_node("Unknown"),
            Some("infra node infra-1 not Ready"),
        ),
        (
            NODE,
            NOT_FOUND,
            absent("", "nodes", "infra-1"),
            Some("infra node infra-1 not Ready"),
        ),
        (NODE, "200 OK", tainted, None),
    ] {
        let service = service().await;
        let driver = driver(&service);
        let mut session = driver.open();
        session.observe().await.expect("a reading");
        stop(&service);
        service.now(request, answer, "", body);
        let reading = session.observe().await.expect("a reading");
        assert_eq!(reading.state, PowerState::Off);
        assert_eq!(reading.faults.first().map(String::as_str), fault);
    }
}

#[tokio::test]
async fn a_machine_that_was_not_seen_running_is_not_off() {
    let service = service().await;
    stop(&service);
    let reading = driver(&service).open().observe().await.expect("a reading");
    assert_eq!(
        reading.faults,
        ["infra node unknown, as it was not read while it ran"]
    );
    // Nor is one whose last run had no node yet.
    let service = self::service().await;
    let driver = driver(&service);
    let mut session = driver.open();
    session.observe().await.expect("a reading");
    service.now(VMI, "200 OK", "", with(vmi(), "/status/nodeName", None));
    session.observe().await.expect("a reading");
    stop(&service);
    let reading = session.observe().await.expect("a reading");
    assert!(!reading.is_off(), "{reading:?}");
}

#[tokio::test]
async fn what_is_not_found_for_another_reason_is_no_reading() {
    let group = status(
        404,
        "NotFound",
        "the server could not find the requested resource",
        json!({}),
    );
    for (request, body) in [
        (VMI, group.clone()),
        (VMI, json!("404 page not found")),
        (
            VMI,
            absent("kubevirt.io", "virtualmachineinstances", "worker-2"),
        ),
        (PODS, group.clone()),
        (NODE, group),
        (VM, absent("kubevirt.io", "virtualmachines", "worker-1")),
    ] {
        let service = service().await;
        let driver = driver(&service);
        driver.open().observe().await.expect("a reading");
        stop(&service);
        service.now(request, NOT_FOUND, "", body);
        let error = driver.open().observe().await.expect_err("no reading");
        assert_eq!(error.reason(), "ProtocolError", "{request}: {error}");
    }
    let missing = {
        let service = service().await;
        service.now(
            VM,
            NOT_FOUND,
            "",
            absent("kubevirt.io", "virtualmachines", "worker-1"),
        );
        driver(&service)
            .open()
            .observe()
            .await
            .expect_err("no reading")
    };
    assert!(missing.to_string().contains("is no Off"), "{missing}");
}

#[tokio::test]
async fn a_list_that_is_not_whole_or_of_another_kind_is_no_reading() {
    let page = |mark: &str| {
        let mut page = list(HEADS, vec![pod("p")]);
        page["metadata"]["continue"] = json!(mark);
        page
    };
    for body in [
        list("NodeList", vec![]),
        list("PodList", vec![]),
        page("a&b"),
        json!({}),
        json!({"kind": HEADS, "metadata": {}}),
    ] {
        let service = service().await;
        let driver = driver(&service);
        driver.open().observe().await.expect("a reading");
        stop(&service);
        service.now(PODS, "200 OK", "", body);
        assert!(driver.open().observe().await.is_err());
    }
    // The pod on the second page counts.
    let service = service().await;
    let driver = driver(&service);
    driver.open().observe().await.expect("a reading");
    stop(&service);
    service.now(PODS, "200 OK", "", page("bmV4dA"));
    let next = format!("{PODS}&continue=bmV4dA");
    service.answer(
        &next,
        "200 OK",
        "",
        list(HEADS, vec![pod("virt-launcher-worker-1-abcde")]),
    );
    let reading = driver.open().observe().await.expect("a reading");
    assert_eq!(reading.faults, ["pod virt-launcher-worker-1-abcde"]);
    // One without an end is none.
    service.now(&next, "200 OK", "", page("bmV4dA"));
    assert!(driver.open().observe().await.is_err());
}

/// Whole pods of so many launchers were more than a list may have: no machine of the namespace was ever off.
#[tokio::test]
async fn a_namespace_may_have_thousands_of_launchers() {
    let service = service().await;
    let driver = driver(&service);
    driver.open().observe().await.expect("a reading");
    stop(&service);
    let page = |number: usize, last: &str| {
        let other = |it: usize| pod(&format!("virt-launcher-other-{number}-{it:05}"));
        let mut pods: Vec<Value> = (1..500).map(other).collect();
        pods.push(pod(last));
        list(HEADS, pods)
    };
    let path = |number: usize| match number {
        0 => PODS.to_owned(),
        number => format!("{PODS}&continue=page-{number}"),
    };
    for (last, faults) in [
        ("virt-launcher-worker-2-abcde", 0),
        ("virt-launcher-worker-1-abcde", 1),
    ] {
        for number in 0..10 {
            let mut page = page(number, if number == 9 { last } else { "p" });
            if number < 9 {
                page["metadata"]["continue"] = json!(format!("page-{}", number + 1));
            }
            service.now(&path(number), "200 OK", "", page);
        }
        let reading = driver.open().observe().await.expect("a reading");
        assert_eq!(reading.state, PowerState::Off);
        assert_eq!(reading.faults.len(), faults, "{:?}", reading.faults);
    }
}

#[tokio::test]
async fn a_stop_is_one_request_without_a_grace_period() {
    let service = service().await;
    let off = async || {
        let mut session = driver(&service).open();
        session.prepare_off().await.expect("prepared");
        service.asked();
        let outcome = session.force_off().await;
        let asked = service.asked();
        let sent: Vec<&String> = asked.iter().filter(|it| it.starts_with("PUT ")).collect();
        assert_eq!(sent.len(), 1);
        assert!(sent[0].ends_with("\r\n\r\n{\"gracePeriod\":0}"), "{sent:?}");
        assert!(session.force_off().await.is_err(), "never twice");
        outcome
    };
    service.answer(STOP, "202 Accepted", "", "");
    assert_eq!(off().await, Ok(OffOutcome::Accepted));
    let conflict = |message: &str| {
        let message = format!(
            "Operation cannot be fulfilled on virtualmachine.kubevirt.io \"worker-1\": {message}"
        );
        status(409, "Conflict", &message, json!({}))
    };
    service.now(STOP, "409 Conflict", "", conflict("VM is not running"));
    let outcome = off().await;
    assert!(
        matches!(outcome, Ok(OffOutcome::AlreadyOff { .. })),
        "{outcome:?}"
    );
    // A stop is pending then, and the guest may run on.
    let pending = "Halted only supports manual stop requests with a shorter graceperiod";
    for (status, body) in [
        ("409 Conflict", conflict(pending)),
        ("409 Conflict", conflict("something else")),
        (
            "500 Internal Server Error",
            status(500, "InternalError", "", json!({})),
        ),
        (
            "503 Service Unavailable",
            status(503, "ServiceUnavailable", "", json!({})),
        ),
        ("403 Forbidden", json!("a proxy")),
        ("200 OK", json!({})),
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
    for (status, reason, shown) in [
        ("403 Forbidden", "Forbidden", "PermissionDenied"),
        ("401 Unauthorized", "Unauthorized", "AuthFailed"),
    ] {
        service.now(STOP, status, "", self::status(403, reason, "", json!({})));
        assert_eq!(off().await.expect_err("not carried out").reason(), shown);
    }
}

#[tokio::test]
async fn a_machine_is_started_by_its_own_command() {
    let service = service().await;
    let driver = driver(&service);
    let mut session = driver.open();
    session.observe().await.expect("a reading");
    stop(&service);
    service.answer(START, "202 Accepted", "", "");
    assert!(session.power_on().await.is_err());
    assert!(session.prepare_on().await.expect("prepared").is_off());
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    session.prepare_on().await.expect("prepared");
    let always = status(
        409,
        "Conflict",
        "Always does not support manual start requests",
        json!({}),
    );
    service.now(START, "409 Conflict", "", always);
    assert!(matches!(
        session.power_on().await,
        Ok(OnOutcome::AlreadyOn { .. })
    ));
    session.prepare_on().await.expect("prepared");
    let once = status(
        409,
        "Conflict",
        "Once does not support manual start requests",
        json!({}),
    );
    service.now(START, "409 Conflict", "", once);
    assert_eq!(
        session.power_on().await.expect_err("refused").reason(),
        "Refused"
    );
}
