//! Whole calls of the driver, against a service on loopback.

use super::*;
use crate::cloud::fixtures::Service;
use crate::{DriverKind, Extent, FenceDriver, FenceSession, OffOutcome};

/// A cloud that answers for an instance that is off, in a stop that its host has carried out.
async fn service() -> Service {
    let service = Service::new().await;
    let endpoint = json!({"region_id": "north", "interface": "public", "url": format!("{}/v2.1", service.url)});
    let token = json!({"token": {
        "issued_at": "2026-11-29T01:00:00.000000Z",
        "expires_at": "2026-11-29T02:00:00.000000Z",
        "catalog": [{"type": "compute", "endpoints": [endpoint]}],
    }});
    let header = "X-Subject-Token: gAAAAB-token\r\n";
    service.answer(
        "POST /identity/v3/auth/tokens",
        "201 Created",
        header,
        token,
    );
    let get = |path: &str, body: Value| {
        service.answer(&format!("GET /v2.1/servers/{ID}{path}"), "200 OK", "", body)
    };
    get("", stopped());
    get(
        "/os-instance-actions?limit=20",
        actions(&[("stop", "2026-11-29T02:00:00.000000")]),
    );
    get(
        &format!("/os-instance-actions/{REQUEST}"),
        action("stop", event(json!("Success"))),
    );
    service
}

fn driver(service: &Service) -> Arc<dyn FenceDriver> {
    driver_of(
        service,
        NodeFacts {
            provider_id: format!("openstack:///{ID}"),
            ..NodeFacts::named("worker-1")
        },
    )
}

fn driver_of(service: &Service, node: NodeFacts) -> Arc<dyn FenceDriver> {
    let url = format!("{}/identity/v3/", service.url);
    let settings: OpenstackDriver =
        serde_json::from_value(json!({"authURL": url, "tls": {"verification": "None"}}))
            .expect("settings");
    let secret = KEYS.map(|key| (key, "9f8e7d-credential"));
    settings
        .make(service.parts(node, &secret))
        .expect("a driver")
}

fn session(service: &Service) -> Box<dyn FenceSession> {
    driver(service).open()
}

#[tokio::test]
async fn one_login_serves_all_sessions_and_off_needs_the_host_s_success() {
    let service = service().await;
    let driver = driver(&service);
    for logins in [1, 0] {
        let reading = driver.open().observe().await.expect("a reading");
        assert!(reading.is_off(), "{reading:?}");
        assert!(reading.identity.is_system(ID));
        let asked = service.asked();
        let is_login = |request: &&String| request.starts_with("POST /identity/v3/auth/tokens");
        assert_eq!(asked.iter().filter(is_login).count(), logins);
        assert_eq!(asked.len(), 3 + logins);
        let token = "\r\nx-auth-token: gAAAAB-token\r\n";
        assert_eq!(
            asked
                .iter()
                .filter(|request| request.contains(token))
                .count(),
            3
        );
    }
    let actions_path = format!("GET /v2.1/servers/{ID}/os-instance-actions");
    let stop = format!("{actions_path}/{REQUEST}");
    service.now(&stop, "200 OK", "", action("stop", event(Value::Null)));
    let reading = driver.open().observe().await.expect("a reading");
    assert_eq!(
        reading.faults,
        ["a stop that its host has not carried out yet"]
    );
    let list = format!("{actions_path}?limit=20");
    service.now(&list, "200 OK", "", actions(&[]));
    let reading = driver.open().observe().await.expect("a reading");
    assert_eq!(reading.faults, ["a last action that is no stop"]);
    // After an evacuation `host_status` is that of another host, and the instance may still run at the first one.
    let evacuated = with(stopped(), "host_status", Some(json!("UP")));
    service.now(&format!("GET /v2.1/servers/{ID}"), "200 OK", "", evacuated);
    let evacuate = actions(&[("stop", "09:00:00"), ("evacuate", "10:00:00")]);
    service.now(&list, "200 OK", "", evacuate);
    let reading = driver.open().observe().await.expect("a reading");
    assert_eq!(reading.faults, ["a last action that is no stop"]);
}

/// S5: a kubelet can report the UUID of another machine.
#[tokio::test]
async fn without_a_provider_id_the_instance_is_called_like_its_node() {
    let service = service().await;
    for (name, is_it) in [("worker-1.example.com", true), ("db-1", false)] {
        let node = NodeFacts {
            system_uuid: ID.to_owned(),
            ..NodeFacts::named(name)
        };
        let read = driver_of(&service, node).open().observe().await;
        assert_eq!(read.is_ok(), is_it, "{name}: {read:?}");
        let words = read.err().map(|it| it.to_string()).unwrap_or_default();
        assert_eq!(words.contains("another name"), !is_it, "{words}");
    }
}

#[tokio::test]
async fn pages_of_a_list_serve_probes_of_instances_that_were_read_and_run() {
    let service = service().await;
    let running = with(stopped(), "OS-EXT-STS:vm_state", Some(json!("active")));
    let server = running["server"].clone();
    service.now(&format!("GET /v2.1/servers/{ID}"), "200 OK", "", running);
    let other = |number: usize| json!({"id": format!("aaaaaaaa-2222-4333-8444-{number:012}"), "OS-EXT-STS:vm_state": "active"});
    let full: Vec<Value> = (0..100).map(other).collect();
    let first = "GET /v2.1/servers/detail?limit=100";
    service.answer(first, "200 OK", "", json!({"servers": full}));
    let second = format!("{first}&marker=aaaaaaaa-2222-4333-8444-000000000099");
    service.answer(&second, "200 OK", "", json!({"servers": [server]}));
    let driver = driver(&service);
    // The login, and the instance; the two pages; nothing.
    for requests in [2, 2, 0] {
        let probed = driver.open().probe(Extent::Listed).await.expect("a probe");
        assert_eq!(probed.reading.state, PowerState::On);
        assert!(probed.reading.identity.is_system(ID));
        assert_eq!(service.asked().len(), requests);
    }
}

/// S7: an instance that was evacuated may still run at the host that was lost.
#[tokio::test]
async fn an_instance_is_off_only_at_the_host_where_it_was_read_on_last() {
    let service = service().await;
    let server = format!("GET /v2.1/servers/{ID}");
    let at = |host: &str, state: &str| {
        let document = with(stopped(), "hostId", Some(json!(host)));
        let document = with(document, "OS-EXT-STS:vm_state", Some(json!(state)));
        service.now(&server, "200 OK", "", document);
    };
    let driver = driver(&service);
    let read = async || driver.open().observe().await.expect("a reading");
    at("3c0f", "active");
    read().await;
    at("9d1a", "stopped");
    assert_eq!(read().await.faults, ["it read On on host 3c0f last"]);
    // One that is on no host is elsewhere, too.
    at("", "stopped");
    assert_eq!(read().await.faults, ["it read On on host 3c0f last"]);
    // Where it ran says that it is off, and after that it may be shelved or moved.
    for host in ["3c0f", "", "9d1a"] {
        at(host, "stopped");
        assert!(read().await.is_off(), "on host {host}");
    }
}

#[tokio::test]
async fn an_instance_is_read_by_itself_where_no_list_may_be_had() {
    let service = service().await;
    let running = with(stopped(), "OS-EXT-STS:vm_state", Some(json!("active")));
    service.now(&format!("GET /v2.1/servers/{ID}"), "200 OK", "", running);
    let list = "GET /v2.1/servers/detail?limit=100";
    let forbidden = json!({"forbidden": {"code": 403, "message": "no"}});
    service.now(list, "403 Forbidden", "", forbidden);
    let driver = driver(&service);
    // The login and the instance; the list and the instance; the instance.
    for requests in [2, 2, 1] {
        let probed = driver.open().probe(Extent::Listed).await.expect("a probe");
        assert_eq!(probed.reading.state, PowerState::On);
        assert_eq!(service.asked().len(), requests);
    }
}

#[tokio::test]
async fn a_path_outside_the_access_rules_is_no_reason_to_log_in_again() {
    let service = service().await;
    let error = |title: &str| json!({"error": {"code": 401, "message": title}});
    let server = format!("GET /v2.1/servers/{ID}");
    service.now(
        &server,
        "401 Unauthorized",
        "",
        error("The request you have made requires authentication."),
    );
    let driver = driver(&service);
    for _ in 0..2 {
        let refused = driver.open().observe().await.expect_err("no reading");
        assert_eq!(refused.reason(), "PermissionDenied", "{refused}");
        assert!(!refused.refuses_credentials());
    }
    let logins = service
        .asked()
        .iter()
        .filter(|it| it.starts_with("POST "))
        .count();
    assert_eq!(logins, 1);
    let missing = json!({"itemNotFound": {"code": 404, "message": "Instance could not be found."}});
    service.now(&server, "404 Not Found", "", missing);
    let error_of = driver.open().observe().await.expect_err("no reading");
    assert!(error_of.to_string().contains("is no Off"), "{error_of}");
    service.now(
        "POST /identity/v3/auth/tokens",
        "401 Unauthorized",
        "",
        error("wrong"),
    );
    let refused = session(&service).observe().await.expect_err("no login");
    assert!(refused.refuses_credentials(), "{refused}");
    for (words, is_deleted) in [
        ("Could not find Application Credential: x.", true),
        ("Not Found", false),
    ] {
        let body = json!({"error": {"code": 404, "message": words}});
        service.now("POST /identity/v3/auth/tokens", "404 Not Found", "", body);
        let refused = session(&service).observe().await.expect_err("no login");
        assert_eq!(refused.refuses_credentials(), is_deleted, "{refused}");
    }
}

#[tokio::test]
async fn a_token_goes_to_no_other_host() {
    let service = service().await;
    let token = json!({"token": {
        "issued_at": "2026-11-29T01:00:00.000000Z",
        "expires_at": "2026-11-29T02:00:00.000000Z",
        "catalog": [{"type": "compute", "endpoints": [
            {"region_id": "north", "interface": "public", "url": "http://127.0.0.9:1/v2.1"},
        ]}],
    }});
    let header = "X-Subject-Token: gAAAAB-token\r\n";
    service.now(
        "POST /identity/v3/auth/tokens",
        "201 Created",
        header,
        token,
    );
    let refused = session(&service).observe().await.expect_err("no reading");
    assert_eq!(refused.reason(), "SettingsInvalid");
    assert!(refused.to_string().contains("allowed-hosts"), "{refused}");
}

#[tokio::test]
async fn a_stop_is_followed_by_its_request() {
    let service = service().await;
    let stop = format!("POST /v2.1/servers/{ID}/action");
    let followed = format!("GET /v2.1/servers/{ID}/os-instance-actions/{REQUEST}");
    let request_id = format!("X-Openstack-Request-Id: {REQUEST}\r\n");
    let off = async || {
        let mut session = session(&service);
        session.prepare_off().await.expect("prepared");
        service.asked();
        let outcome = session.force_off().await;
        let asked = service.asked();
        let posts: Vec<&String> = asked.iter().filter(|it| it.starts_with("POST ")).collect();
        assert_eq!(posts.len(), 1);
        assert!(posts[0].ends_with(r#"{"os-stop":null}"#), "{posts:?}");
        outcome
    };
    service.answer(&stop, "202 Accepted", &request_id, "");
    assert_eq!(off().await, Ok(OffOutcome::Accepted));
    for events in [event(json!("Error")), event(Value::Null), json!([])] {
        service.now(&followed, "200 OK", "", action("stop", events));
        assert!(matches!(off().await, Ok(OffOutcome::Unknown(_))));
    }
    service.now(&stop, "202 Accepted", "", "");
    assert!(
        matches!(off().await, Ok(OffOutcome::Unknown(_))),
        "no request"
    );
    let conflict = |words: &str| {
        let message = format!("Cannot 'stop' instance {ID} while it is in {words}");
        json!({"conflictingRequest": {"code": 409, "message": message}})
    };
    service.now(&stop, "409 Conflict", "", conflict("vm_state stopped"));
    assert!(matches!(off().await, Ok(OffOutcome::AlreadyOff { .. })));
    for (words, reason) in [
        ("task_state powering-off", "Busy"),
        ("vm_state paused", "Refused"),
        ("vm_state suspended", "Refused"),
        ("locked", "Refused"),
    ] {
        service.now(&stop, "409 Conflict", "", conflict(words));
        assert_eq!(
            off().await.expect_err("not carried out").reason(),
            reason,
            "{words}"
        );
    }
    let unready = json!({"conflictingRequest": {"code": 409, "message": format!("Instance {ID} is not ready")}});
    service.now(&stop, "409 Conflict", "", unready);
    assert_eq!(off().await.expect_err("shelved").reason(), "Refused");
    service.now(&stop, "409 Conflict", "", conflict("another way"));
    assert!(matches!(off().await, Ok(OffOutcome::Unknown(_))));
    service.now(&stop, "500 Internal Server Error", "", "");
    assert!(matches!(off().await, Ok(OffOutcome::Unknown(_))));
}
