//! What is sent to EC2 and STS, and what comes of their answers.

use super::*;
use crate::cloud::fixtures::{HANGS_UP, Service};
use crate::{DriverKind, Extent, FenceDriver, FenceSession, OffOutcome, OnOutcome};
use serde_json::json;
use std::sync::Arc;

pub(super) const EC2: &str = "POST /";
pub(super) const SECRET: [(&str, &str); 2] = [
    ("accessKeyID", "AKIAEXAMPLE"),
    ("secretAccessKey", "wJalr/secret"),
];

pub(super) fn node() -> NodeFacts {
    NodeFacts {
        provider_id: format!("aws:///eu-central-1a/{ID}"),
        addresses: vec![ADDRESS.to_owned()],
        ..NodeFacts::named("worker-1")
    }
}

pub(super) fn settings(service: &Service) -> AwsDriver {
    let settings =
        json!({"region": "eu-central-1", "endpoint": service.url, "tls": {"verification": "None"}});
    serde_json::from_value(settings).expect("settings")
}

fn driver(service: &Service, node: NodeFacts) -> Arc<dyn FenceDriver> {
    let parts = service.parts(node, &SECRET);
    settings(service).make(parts).expect("a driver")
}

fn session(service: &Service) -> Box<dyn FenceSession> {
    driver(service, node()).open()
}

/// A service that answers each request with the next of these; an answer that is no XML is a status.
pub(super) async fn service(answers: &[&str]) -> Service {
    let service = Service::new().await;
    for answer in answers {
        answered(&service, answer);
    }
    service
}

fn answered(service: &Service, answer: &str) {
    match answer.starts_with("<Response") {
        true => service.answer(EC2, "400 Bad Request", "", answer),
        false => service.answer(EC2, "200 OK", "", answer),
    }
}

fn error(code: &str) -> String {
    format!(
        "<Response><Errors><Error><Code>{code}</Code><Message>why</Message></Error></Errors></Response>"
    )
}

fn changed(action: &str, before: &str, now: &str) -> String {
    let of = |name: &str, state: &str| format!("<{name}><name>{state}</name></{name}>");
    let within = format!(
        "<instancesSet><item><instanceId>{ID}</instanceId>{}{}</item></instancesSet>",
        of("currentState", now),
        of("previousState", before)
    );
    response(action, &within)
}

pub(super) fn shown(shown: Shown<'_>) -> String {
    described(&item(ID, ADDRESS, shown))
}

#[tokio::test]
async fn an_instance_is_read_by_one_signed_request() {
    let service = service(&[&shown(STOPPED)]).await;
    let reading = session(&service).observe().await.expect("a reading");
    assert!(reading.is_off(), "{reading:?}");
    assert_eq!(reading.identity, Identity::default());
    let asked = service.asked().concat();
    for part in [
        "POST / HTTP/1.1\r\n",
        "\r\ncontent-type: application/x-www-form-urlencoded\r\n",
        "\r\nauthorization: AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/",
        "/eu-central-1/ec2/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=",
        "Action=DescribeInstances&IncludeManagedResources=true&InstanceId.1=i-0a1b2c3d4e5f60718&Version=2016-11-15",
    ] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    assert!(!asked.contains("wJalr"), "{asked}");
}

#[tokio::test]
async fn another_machine_is_no_reading_and_is_sent_nothing() {
    let service = service(&[&described(&item(ID, "10.0.0.99", RUNNING))]).await;
    let mut session = session(&service);
    for outcome in [
        session.observe().await.map(drop),
        session.prepare_off().await.map(drop),
        session.prepare_on().await.map(drop),
        session.probe(Extent::Needed).await.map(drop),
    ] {
        let refused = outcome.expect_err("another machine");
        assert!(
            refused.to_string().contains("no address of the Node"),
            "{refused}"
        );
    }
    session.force_off().await.expect_err("nothing was prepared");
    let commands = |it: &String| it.contains("StopInstances") || it.contains("StartInstances");
    assert!(!service.asked().iter().any(commands));
}

#[tokio::test]
async fn a_stop_skips_the_guest_and_its_answer_says_whether_it_began() {
    let off = async |answer: &str| {
        let service = service(&[&shown(RUNNING)]).await;
        let mut session = session(&service);
        session.prepare_off().await.expect("prepared");
        service.asked();
        service.now(EC2, "200 OK", "", "");
        match answer {
            HANGS_UP => service.now(EC2, HANGS_UP, "", ""),
            it if it.starts_with("<Response") => service.now(EC2, "400 Bad Request", "", it),
            it if it.starts_with('5') => service.now(EC2, it, "", error("InternalError")),
            it => service.now(EC2, "200 OK", "", it),
        }
        let outcome = session.force_off().await;
        let asked = service.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        let form = "Action=StopInstances&Force=true&InstanceId.1=i-0a1b2c3d4e5f60718&SkipOsShutdown=true&Version=2016-11-15";
        assert!(asked[0].ends_with(form), "{asked:?}");
        outcome
    };
    assert_eq!(
        off(&changed("StopInstances", "running", "stopping")).await,
        Ok(OffOutcome::Accepted)
    );
    assert_eq!(
        off(&changed("StopInstances", "stopping", "stopping")).await,
        Ok(OffOutcome::Accepted)
    );
    let already = off(&changed("StopInstances", "stopped", "stopped")).await;
    assert!(
        matches!(already, Ok(OffOutcome::AlreadyOff { .. })),
        "{already:?}"
    );
    let other = changed("StopInstances", "running", "stopping").replace(ID, "i-0000000000000000f");
    for unclear in [
        &other,
        "<a/>",
        "",
        "500 Internal Server Error",
        "503 Service Unavailable",
        HANGS_UP,
    ] {
        let outcome = off(unclear).await;
        assert!(
            matches!(outcome, Ok(OffOutcome::Unknown(_))),
            "{unclear}: {outcome:?}"
        );
    }
    for (code, reason) in [
        ("IncorrectInstanceState", "Busy"),
        ("RequestLimitExceeded", "Busy"),
        ("RequestExpired", "Busy"),
        ("UnauthorizedOperation", "PermissionDenied"),
        ("AccessDenied", "PermissionDenied"),
        ("AuthFailure", "AuthFailed"),
        ("UnsupportedOperation", "Refused"),
        ("OperationNotPermitted", "Refused"),
        ("UnknownParameter", "Refused"),
    ] {
        let refused = off(&error(code)).await.expect_err("not carried out");
        assert_eq!(refused.reason(), reason, "{code}");
    }
    let outcome = off(&error("SomethingNew")).await;
    assert!(matches!(outcome, Ok(OffOutcome::Unknown(_))), "{outcome:?}");
}

#[tokio::test]
async fn an_instance_that_hibernates_is_sent_no_stop() {
    let hibernating = shown(Shown {
        state: ("stopping", "64"),
        reason: "Client.UserInitiatedHibernate",
        ..STOPPED
    });
    let service = service(&[&hibernating]).await;
    let mut session = session(&service);
    session.prepare_off().await.expect("prepared");
    let refused = session.force_off().await.expect_err("a refusal");
    assert_eq!(refused.reason(), "Refused");
    assert!(refused.to_string().contains("hibernating"), "{refused}");
    assert!(!service.asked().concat().contains("StopInstances"));
}

#[tokio::test]
async fn an_instance_is_started_by_one_request() {
    let service = service(&[
        &shown(STOPPED),
        &changed("StartInstances", "stopped", "pending"),
    ])
    .await;
    let mut session = session(&service);
    session.prepare_on().await.expect("prepared");
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    let asked = service.asked();
    assert!(
        asked[1]
            .ends_with("Action=StartInstances&InstanceId.1=i-0a1b2c3d4e5f60718&Version=2016-11-15"),
        "{asked:?}"
    );
}

/// S11: it would go on with its old mounts, and its volumes are elsewhere.
#[tokio::test]
async fn an_instance_that_may_resume_its_memory_is_not_started() {
    for (reason, hibernation) in [
        ("Client.UserInitiatedHibernate", "false"),
        ("Server.SpotInstanceShutdown", "false"),
        (STOPPED.reason, "true"),
    ] {
        let hibernated = Shown {
            reason,
            hibernation,
            ..STOPPED
        };
        let service = service(&[&shown(hibernated)]).await;
        let mut session = session(&service);
        session.prepare_on().await.expect("prepared");
        let refused = session.power_on().await.expect_err("a refusal");
        assert_eq!(refused.reason(), "Refused");
        assert!(refused.to_string().contains("old memory"), "{refused}");
        assert!(!service.asked().concat().contains("StartInstances"));
    }
}

#[tokio::test]
async fn a_probe_says_whether_the_account_may_stop_it_and_a_list_serves_those_that_may() {
    let would = |service: &Service, status: &str, code: &str| {
        service.now(EC2, "200 OK", "", shown(RUNNING));
        service.answer(EC2, status, "", error(code));
        service.answer(EC2, "200 OK", "", shown(RUNNING));
    };
    let service = service(&[]).await;
    let driver = driver(&service, node());
    would(&service, "403 Forbidden", "UnauthorizedOperation");
    let probe = driver.open().probe(Extent::Listed).await.expect("a probe");
    let denied = probe.off_denied.expect("it may not");
    assert_eq!(denied.reason(), "PermissionDenied");
    assert!(denied.to_string().contains("ec2:StopInstances"), "{denied}");
    for code in ["UnsupportedOperation", "OperationNotPermitted"] {
        would(&service, "400 Bad Request", code);
        let probe = driver.open().probe(Extent::Needed).await.expect("a probe");
        assert!(probe.off_denied.is_some(), "{code}");
    }
    would(&service, "503 Service Unavailable", "RequestLimitExceeded");
    let probe = driver.open().probe(Extent::Needed).await.expect("a probe");
    assert_eq!(probe.off_denied, None, "that says nothing");
    would(&service, "412 Precondition Failed", "DryRunOperation");
    service.asked();
    let probe = driver.open().probe(Extent::Listed).await.expect("a probe");
    assert_eq!(
        (probe.reading.state, probe.off_denied),
        (PowerState::On, None)
    );
    assert_eq!(probe.model.as_deref(), Some("m5.large"));
    let asked = service.asked().concat();
    assert!(asked.contains("Filter.1.Name=instance-id&Filter.1.Value.1=i-0a1b2c3d4e5f60718&IncludeManagedResources=true&MaxResults=1000"), "{asked}");
}

#[tokio::test]
async fn a_list_of_many_pages_ends() {
    let service = service(&[&shown(RUNNING)]).await;
    service.answer(EC2, "412 Precondition Failed", "", error("DryRunOperation"));
    let driver = driver(&service, node());
    driver.open().probe(Extent::Needed).await.expect("a probe");
    let endless = shown(Shown {
        state: ("pending", "0"),
        ..RUNNING
    });
    let endless = endless.replace("<requestId>", "<nextToken>a+b</nextToken><requestId>");
    service.now(EC2, "200 OK", "", endless);
    service.asked();
    // The first page does not show it running, so it is read by itself while the list goes on.
    driver.open().probe(Extent::Listed).await.expect("a probe");
    let mut pages = 0;
    while pages < PAGES_MAX - 1 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        let asked = service.asked();
        let next = asked.iter().filter(|it| it.contains("NextToken=a%2Bb"));
        pages += next.count();
    }
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(service.asked().len(), 0, "it ends there");
}

#[tokio::test]
async fn one_that_a_list_does_not_show_as_the_nodes_is_read_by_itself() {
    let service = service(&[&shown(RUNNING)]).await;
    service.answer(EC2, "412 Precondition Failed", "", error("DryRunOperation"));
    let driver = driver(&service, node());
    driver.open().probe(Extent::Needed).await.expect("a probe");
    service.now(
        EC2,
        "200 OK",
        "",
        described(&item(ID, "10.0.0.99", RUNNING)),
    );
    service.asked();
    let refused = driver
        .open()
        .probe(Extent::Listed)
        .await
        .expect_err("another machine");
    assert!(
        refused.to_string().contains("no address of the Node"),
        "{refused}"
    );
    assert_eq!(service.asked().len(), 2, "the list, and the instance");
}

#[tokio::test]
async fn what_a_clock_that_is_wrong_brings_about_shows_the_other_clock() {
    let service = service(&[]).await;
    let date = "Date: Sun, 29 Nov 2026 01:00:00 GMT\r\n";
    service.answer(EC2, "400 Bad Request", date, error("RequestExpired"));
    let refused = session(&service).observe().await.expect_err("no reading");
    assert!(
        refused
            .to_string()
            .contains("its clock shows Sun, 29 Nov 2026"),
        "{refused}"
    );
}
