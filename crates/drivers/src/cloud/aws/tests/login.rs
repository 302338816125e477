//! Where the keys come from, and who is shown them.

use super::calls::{EC2, SECRET, node, service, settings, shown};
use super::*;
use crate::cloud::account::Accounts;
use crate::cloud::fixtures::Service;
use crate::cloud::surroundings::{AwsAgent, AwsRole};
use crate::{DriverKind, FenceDriver, Parts};
use serde_json::json;
use std::sync::Arc;

/// A driver without a Secret, in a pod that has a role.
fn with_role(service: &Service, sts: &Service, file: &std::path::Path) -> Arc<dyn FenceDriver> {
    let role = AwsRole {
        arn: "arn:aws:iam::123456789012:role/fence".to_owned(),
        token_file: file.to_owned(),
        sts: Some(sts.url.clone()),
    };
    let parts = Parts {
        credentials: Arc::new(Credentials::nobody()),
        secret: Default::default(),
        accounts: Arc::new(Accounts::in_these(Surroundings {
            role: Some(role),
            ..Surroundings::default()
        })),
        ..service.parts(node(), &SECRET)
    };
    settings(service).make(parts).expect("a driver")
}

fn keys(secret: &str) -> String {
    format!(
        "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult>\
         <Credentials><AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey><SessionToken>FwoGZX+session==</SessionToken>\
         <Expiration>2026-11-29T02:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
    )
}

#[tokio::test]
async fn the_role_of_the_pod_opens_it_where_no_secret_is_named() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "eyJhbGciOi.pod.token\n").expect("written");
    let (service, sts) = (service(&[&shown(RUNNING)]).await, Service::new().await);
    sts.answer(EC2, "200 OK", "", keys("temporary-secret"));
    let driver = with_role(&service, &sts, file.path());
    for _ in 0..2 {
        driver.open().observe().await.expect("a reading");
    }
    let asked = sts.asked();
    assert_eq!(asked.len(), 1, "one login serves all: {asked:?}");
    for part in [
        "\r\naccept: text/xml\r\n",
        "Action=AssumeRoleWithWebIdentity&DurationSeconds=3600&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Ffence&RoleSessionName=node-fencing-operator&Version=2011-06-15&WebIdentityToken=eyJhbGciOi.pod.token",
    ] {
        assert!(asked[0].contains(part), "{asked:?}");
    }
    assert!(!asked[0].contains("authorization"), "{asked:?}");
    let asked = service.asked().concat();
    assert!(
        asked.contains("\r\nx-amz-security-token: FwoGZX+session==\r\n"),
        "{asked}"
    );
    assert!(asked.contains("Credential=ASIAROLE/"), "{asked}");
    assert!(
        !asked.contains("temporary-secret") && !asked.contains("pod.token"),
        "{asked}"
    );

    // A message that repeats what was sent shows none of it.
    let repeats = "<Response><Errors><Error><Code>Odd</Code><Message>FwoGZX+session== of temporary-secret</Message></Error></Errors></Response>";
    service.now(EC2, "400 Bad Request", "", repeats);
    let failed = driver
        .open()
        .observe()
        .await
        .expect_err("no reading")
        .to_string();
    assert!(failed.contains("*** of ***"), "{failed}");
}

#[tokio::test]
async fn an_agent_of_pod_identity_is_asked_at_its_own_address_alone() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "eyJ.pod.token").expect("written");
    let (service, agent) = (service(&[&shown(RUNNING)]).await, Service::new().await);
    let driver = |url: String| {
        let agent = AwsAgent {
            url,
            token_file: file.path().to_owned(),
        };
        let surroundings = Surroundings {
            agent: Some(agent),
            ..Surroundings::default()
        };
        let parts = Parts {
            credentials: Arc::new(Credentials::nobody()),
            accounts: Arc::new(Accounts::in_these(surroundings)),
            ..service.parts(node(), &SECRET)
        };
        settings(&service).make(parts).expect("a driver")
    };
    let own = driver(format!("{}/v1/credentials", agent.url));
    let denied = "<Response/>";
    agent.answer("GET /v1/credentials", "403 Forbidden", "", denied);
    let refused = own.open().observe().await.expect_err("no keys");
    assert_eq!(refused.reason(), "PermissionDenied");
    let given = json!({"AccessKeyId": "ASIAPOD", "SecretAccessKey": "s", "Token": "tok/", "Expiration": "2026-11-29T02:00:00Z"});
    agent.now("GET /v1/credentials", "200 OK", "", given);
    agent.asked();
    for _ in 0..2 {
        own.open().observe().await.expect("a reading");
    }
    let asked = agent.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(
        asked[0].contains("\r\nauthorization: eyJ.pod.token\r\n"),
        "{asked:?}"
    );
    let sent = service.asked().concat();
    assert!(
        sent.contains("Credential=ASIAPOD/") && sent.contains("\r\nx-amz-security-token: tok/\r\n"),
        "{sent}"
    );
    for url in [
        "http://169.254.169.254/v1",
        "http://10.0.0.1/v1",
        "https://127.0.0.1/v1",
        "http://agent.example.com/v1",
    ] {
        let refused = driver(url.to_owned())
            .open()
            .observe()
            .await
            .expect_err("no keys");
        assert!(
            refused
                .to_string()
                .contains("no address of EKS Pod Identity"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn what_sts_refuses_is_said_and_without_a_role_a_secret_is_asked_for() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "eyJhbGciOi.pod.token").expect("written");
    let (service, sts) = (service(&[]).await, Service::new().await);
    let refused = async |code: &str| {
        let error = format!(
            "<ErrorResponse><Error><Code>{code}</Code><Message>why eyJhbGciOi.pod.token</Message></Error></ErrorResponse>"
        );
        sts.now(EC2, "403 Forbidden", "", error);
        let driver = with_role(&service, &sts, file.path());
        driver.open().observe().await.expect_err("no reading")
    };
    for (code, reason) in [
        ("AccessDenied", "PermissionDenied"),
        ("InvalidIdentityToken", "PermissionDenied"),
        ("ExpiredTokenException", "PermissionDenied"),
        ("IDPCommunicationError", "Busy"),
    ] {
        assert_eq!(refused(code).await.reason(), reason, "{code}");
    }
    sts.now(EC2, "200 OK", "", "<AssumeRoleWithWebIdentityResponse/>");
    let driver = with_role(&service, &sts, file.path());
    let none = driver.open().observe().await.expect_err("no keys");
    assert_eq!(none.reason(), "ProtocolError");
    std::fs::write(file.path(), "").expect("written");
    let empty = driver
        .open()
        .observe()
        .await
        .expect_err("no token")
        .to_string();
    assert!(empty.contains("it is empty"), "{empty}");
    let parts = Parts {
        credentials: Arc::new(Credentials::nobody()),
        ..service.parts(node(), &SECRET)
    };
    let driver = settings(&service).make(parts).expect("a driver");
    let lacking = driver
        .open()
        .observe()
        .await
        .expect_err("no keys")
        .to_string();
    assert!(lacking.contains("AWS_ROLE_ARN"), "{lacking}");
    assert!(service.asked().is_empty());
}

#[tokio::test]
async fn temporary_keys_in_a_secret_need_their_token() {
    let service = service(&[&shown(RUNNING)]).await;
    let make =
        |secret: &[(&'static str, &str)]| settings(&service).make(service.parts(node(), secret));
    let refused =
        make(&[("accessKeyID", "ASIAX"), ("secretAccessKey", "s")]).expect_err("a refusal");
    assert!(refused.to_string().contains("sessionToken"), "{refused}");
    let whole = [
        ("accessKeyID", "ASIAX"),
        ("secretAccessKey", "s"),
        ("sessionToken", "tok"),
    ];
    let driver = make(&whole).expect("a driver");
    driver.open().observe().await.expect("a reading");
    assert!(
        service
            .asked()
            .concat()
            .contains("\r\nx-amz-security-token: tok\r\n")
    );
}
