//! Whole calls of the driver, against a service on loopback.

use super::*;
use crate::cloud::fixtures::{HANGS_UP, REQUEST_ID, SAYS_NOTHING, Service};
use crate::{DriverKind, Extent, FenceDriver, FenceSession, OffOutcome, OnOutcome};
use fencing_testbed::cloud::gcp::KEY;
use std::sync::Arc;

pub(super) const ZONE: &str = "/compute/v1/projects/prod-4711/zones/europe-west3-a";
/// Behind it stands the id of the request, which is another one each time.
const ANY: &str = "requestId=";

pub(super) fn read_path() -> String {
    format!("GET {ZONE}/instances/worker-1?fields={FIELDS}")
}

fn error(status: u16, reason: &str) -> Value {
    json!({"error": {"code": status, "message": "so it is", "errors": [{"domain": "global", "reason": reason, "message": "so it is"}]}})
}

/// A project that answers for an instance that was stopped.
pub(super) async fn service() -> Service {
    let service = Service::new().await;
    service.answer(&read_path(), "200 OK", "", off());
    service
}

fn made(service: &Service, more: Value) -> Arc<dyn FenceDriver> {
    let mut settings = json!({
        "project": "prod-4711", "endpoint": service.url, "tls": {"verification": "None"},
    });
    let fields = settings.as_object_mut().expect("an object");
    fields.extend(more.as_object().cloned().unwrap_or_default());
    let settings: GcpDriver = serde_json::from_value(settings).expect("settings");
    let parts = service.parts(node(), &[("key.json", KEY)]);
    settings.make(parts).expect("a driver")
}

pub(super) fn driver(service: &Service) -> Arc<dyn FenceDriver> {
    made(service, json!({}))
}

fn session(service: &Service) -> Box<dyn FenceSession> {
    driver(service).open()
}

pub(super) fn running() -> Value {
    with(off(), "/status", Some(json!("RUNNING")))
}

/// The commands among these requests, by their paths without the id of the request.
fn commands(asked: &[String]) -> Vec<String> {
    let posts = asked.iter().filter_map(|it| it.strip_prefix("POST "));
    let posts = posts.filter(|it| !it.contains("testIamPermissions"));
    let path = |it: &str| it.split(ANY).next().unwrap_or_default().to_owned();
    posts.map(path).collect()
}

#[tokio::test]
async fn an_instance_is_read_with_a_signed_token_and_without_the_values_of_its_metadata() {
    let service = service().await;
    let mut session = session(&service);
    for _ in 0..2 {
        let reading = session.observe().await.expect("a reading");
        assert!(reading.is_off(), "{reading:?}");
        assert_eq!(reading.identity.system_uuid, None);
        assert_eq!(reading.identity.serial_number.as_deref(), Some(NUMBER));
    }
    let asked = service.asked();
    assert_eq!(asked.len(), 2);
    let token = |it: &String| {
        let (_, rest) = it
            .split_once("\r\nauthorization: Bearer eyJ")
            .expect("a token");
        rest.split('\r').next().map(str::to_owned)
    };
    assert_eq!(token(&asked[0]), token(&asked[1]), "it is signed once");
    assert!(asked[0].contains("metadata/items/key"), "{asked:?}");
    assert!(
        !asked[0].contains("value") && !asked[0].contains("PRIVATE"),
        "{asked:?}"
    );
}

#[tokio::test]
async fn another_machine_is_no_reading_and_is_sent_nothing() {
    let service = service().await;
    for (at, value) in [
        ("/name", json!("db-1")),
        ("/id", json!("db-1")),
        ("/networkInterfaces", json!([])),
    ] {
        let other = with(running(), at, Some(value));
        service.now(&read_path(), "200 OK", "", other);
        let mut session = session(&service);
        for outcome in [
            session.observe().await.map(drop),
            session.prepare_off().await.map(drop),
            session.prepare_on().await.map(drop),
            session.probe(Extent::Needed).await.map(drop),
        ] {
            let refused = outcome.expect_err("another machine").to_string();
            let is_said = refused.contains("not the machine of Node worker-1");
            assert!(is_said, "{refused}");
        }
        session.force_off().await.expect_err("nothing was prepared");
        assert!(!service.asked().concat().contains("POST "));
    }
}

#[tokio::test]
async fn one_that_was_made_again_under_the_same_name_begins_the_readings_again() {
    let service = service().await;
    let mut session = session(&service);
    assert!(session.observe().await.expect("a reading").is_off());
    let again = with(off(), "/id", Some(json!("4711000000000000002")));
    service.now(&read_path(), "200 OK", "", again);
    let reading = session.observe().await.expect("a reading");
    assert_eq!(
        reading.faults,
        [format!("it has moved from instance {NUMBER}")]
    );
    assert!(session.observe().await.expect("a reading").is_off());
}

#[tokio::test]
async fn an_error_is_told_by_its_status_and_its_reason() {
    let service = service().await;
    for (status, code, of, reason) in [
        ("401 Unauthorized", 401, "authError", "AuthFailed"),
        ("403 Forbidden", 403, "forbidden", "PermissionDenied"),
        (
            "403 Forbidden",
            403,
            "accessNotConfigured",
            "PermissionDenied",
        ),
        ("403 Forbidden", 403, "rateLimitExceeded", "Busy"),
        ("403 Forbidden", 403, "userRateLimitExceeded", "Busy"),
        ("403 Forbidden", 403, "of_a_proxy", "ProtocolError"),
        ("404 Not Found", 404, "notFound", "ProtocolError"),
        ("400 Bad Request", 400, "resourceNotReady", "Busy"),
        ("429 Too Many Requests", 429, "", "Busy"),
        ("503 Service Unavailable", 503, "backendError", "Busy"),
        ("401 Unauthorized", 401, "of_a_proxy", "ProtocolError"),
    ] {
        service.now(&read_path(), status, "", error(code, of));
        let refused = session(&service).observe().await.expect_err("no reading");
        assert_eq!(refused.reason(), reason, "{of}: {refused}");
        assert!(!refused.to_string().contains("fields="), "{refused}");
    }
    service.now(&read_path(), "404 Not Found", "", error(404, "notFound"));
    let missing = session(&service).observe().await.expect_err("no instance");
    assert!(missing.to_string().contains("is no Off"), "{missing}");
    let status = json!({"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "no"}});
    service.now(&read_path(), "403 Forbidden", "", status);
    let denied = session(&service).observe().await.expect_err("a denial");
    assert_eq!(denied.reason(), "PermissionDenied");
    let date = "Date: Sun, 29 Nov 2026 01:00:00 GMT\r\n";
    service.now(
        &read_path(),
        "401 Unauthorized",
        date,
        error(401, "authError"),
    );
    let late = session(&service).observe().await.expect_err("no reading");
    assert!(
        late.to_string()
            .contains("its clock shows Sun, 29 Nov 2026"),
        "{late}"
    );
}

/// A stop or a start that is answered like this, and what it is followed by.
async fn commanded(
    is_on: bool,
    status: &str,
    body: Value,
    followed: Value,
) -> Result<OffOutcome, String> {
    let service = service().await;
    let command = if is_on { "start" } else { "stop" };
    let query = if is_on {
        "?"
    } else {
        "?noGracefulShutdown=true&"
    };
    let path = format!("{ZONE}/instances/{NUMBER}/{command}{query}{ANY}");
    service.answer(&format!("POST {path}"), status, "", body);
    let operation = format!("GET {ZONE}/operations/operation-1-a");
    service.answer(&operation, "200 OK", "", followed);
    let mut session = session(&service);
    let outcome = match is_on {
        true => {
            session.prepare_on().await.expect("prepared");
            session.power_on().await.map(|it| match it {
                OnOutcome::Accepted => OffOutcome::Accepted,
                OnOutcome::AlreadyOn { said } => OffOutcome::AlreadyOff { said },
                OnOutcome::Unknown(error) => OffOutcome::Unknown(error),
            })
        }
        false => {
            session.prepare_off().await.expect("prepared");
            session.force_off().await
        }
    };
    assert_eq!(commands(&service.asked()), [path.trim_end_matches(ANY)]);
    session.force_off().await.expect_err("never twice");
    outcome.map_err(|error| error.reason().to_owned())
}

fn of_ours(kind: &str, status: &str) -> Value {
    with(
        operation(kind, status),
        "/clientOperationId",
        Some(json!(REQUEST_ID)),
    )
}

#[tokio::test]
async fn a_stop_is_one_request_to_the_number_and_its_operation_is_followed() {
    let (taken, ended) = (of_ours("stop", "RUNNING"), of_ours("stop", "DONE"));
    let off = async |status: &str, body: &Value, followed: &Value| {
        commanded(false, status, body.clone(), followed.clone()).await
    };
    assert_eq!(
        off("200 OK", &taken, &ended).await,
        Ok(OffOutcome::Accepted)
    );
    let failed = with(ended.clone(), "/error", Some(json!({"errors": []})));
    for end in [&failed, &taken, &json!({})] {
        let outcome = off("200 OK", &taken, end).await;
        assert!(matches!(outcome, Ok(OffOutcome::Unknown(_))), "{outcome:?}");
    }
    let Ok(OffOutcome::Unknown(still)) = off("200 OK", &taken, &taken).await else {
        panic!("the operation is still running");
    };
    let words = "the power-off is still in progress after 2s; the readings say when it is off";
    assert!(still.to_string().ends_with(words), "{still}");
    let foreign = with(
        taken.clone(),
        "/targetId",
        Some(json!("4711000000000000002")),
    );
    for (status, body) in [
        ("200 OK", foreign),
        ("200 OK", of_ours("start", "RUNNING")),
        ("200 OK", operation("stop", "RUNNING")),
        ("200 OK", json!({})),
        ("202 Accepted", taken.clone()),
        ("403 Forbidden", error(403, "of_a_proxy")),
        ("409 Conflict", error(409, "conflict")),
        ("500 Internal Server Error", error(500, "internalError")),
        ("503 Service Unavailable", error(503, "backendError")),
        (HANGS_UP, Value::Null),
        (SAYS_NOTHING, Value::Null),
    ] {
        let outcome = off(status, &body, &ended).await;
        let is_open = matches!(outcome, Ok(OffOutcome::Unknown(_)));
        assert!(is_open, "{status} {body}: {outcome:?}");
    }
    for (status, code, of, reason) in [
        ("403 Forbidden", 403, "forbidden", "PermissionDenied"),
        ("403 Forbidden", 403, "rateLimitExceeded", "Busy"),
        ("400 Bad Request", 400, "resourceNotReady", "Busy"),
        ("400 Bad Request", 400, "invalid", "Refused"),
        ("412 Precondition Failed", 412, "conditionNotMet", "Refused"),
    ] {
        let refused = off(status, &error(code, of), &ended).await;
        assert_eq!(refused, Err(reason.to_owned()), "{of}");
    }
}

#[tokio::test]
async fn an_instance_is_started_by_its_number() {
    let (taken, ended) = (of_ours("start", "RUNNING"), of_ours("start", "DONE"));
    let outcome = commanded(true, "200 OK", taken, ended).await;
    assert_eq!(outcome, Ok(OffOutcome::Accepted));
}

#[tokio::test]
async fn local_ssds_are_lost_only_where_that_was_agreed_to() {
    let service = service().await;
    let local = json!([{"type": "PERSISTENT"}, {"type": "SCRATCH"}, {"type": "SCRATCH"}]);
    let local = with(running(), "/disks", Some(local));
    service.now(&read_path(), "200 OK", "", local);
    let mut keeps = session(&service);
    keeps.prepare_off().await.expect("prepared");
    let refused = keeps.force_off().await.expect_err("a refusal");
    assert!(
        refused.to_string().contains("set `gcp.localSSD: Discard`"),
        "{refused}"
    );
    let probe = keeps.probe(Extent::Needed).await.expect("a probe");
    let denied = probe.off_denied.expect("it is said in peace time, too");
    assert_eq!(denied, refused);
    assert!(commands(&service.asked()).is_empty());

    let mut discards = made(&service, json!({"localSSD": "Discard"})).open();
    discards.prepare_off().await.expect("prepared");
    let path =
        format!("{ZONE}/instances/{NUMBER}/stop?noGracefulShutdown=true&discardLocalSsd=true&");
    let taken = of_ours("stop", "RUNNING");
    service.answer(&format!("POST {path}{ANY}"), "200 OK", "", taken);
    let operation = format!("GET {ZONE}/operations/operation-1-a");
    service.answer(&operation, "200 OK", "", of_ours("stop", "DONE"));
    assert_eq!(discards.force_off().await, Ok(OffOutcome::Accepted));
    assert_eq!(commands(&service.asked()), [path]);
}

/// The permissions of the account on the instance.
pub(super) fn permitted(service: &Service, has: Value) {
    let path = format!("POST {ZONE}/instances/{NUMBER}/testIamPermissions");
    service.now(&path, "200 OK", "", has);
}

#[tokio::test]
async fn a_probe_says_whether_the_account_may_stop_it() {
    let service = service().await;
    service.now(&read_path(), "200 OK", "", running());
    let driver = driver(&service);
    let probe = async || driver.open().probe(Extent::Needed).await.expect("a probe");
    for has in [
        json!({}),
        json!({"permissions": ["compute.instances.start"]}),
    ] {
        permitted(&service, has);
        let denied = probe().await.off_denied.expect("it may not");
        assert_eq!(denied.reason(), "PermissionDenied");
        assert!(
            denied.to_string().contains("compute.instances.stop"),
            "{denied}"
        );
    }
    assert!(
        service
            .asked()
            .concat()
            .contains("{\"permissions\":[\"compute.instances.stop\"]}")
    );
    permitted(&service, json!({"permissions": ["compute.instances.stop"]}));
    let probe = probe().await;
    assert_eq!(
        (probe.reading.state, probe.off_denied),
        (PowerState::On, None)
    );
    assert_eq!(probe.restarter.as_deref(), Some("a managed instance group"));
}
