//! Where the token comes from, and who is shown what.

use super::calls::{LOGIN, SECRET, TOKEN, granted, service, settings};
use super::*;
use crate::clock::Clock;
use crate::cloud::account::{Accounts, Grant};
use crate::cloud::fixtures::Service;
use crate::cloud::surroundings::{AzureIdentity, AzureNode};
use crate::{DriverKind, FenceDriver, Parts};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A driver without a Secret.
fn of_pod(service: &Service, surroundings: Surroundings) -> Arc<dyn FenceDriver> {
    let parts = Parts {
        credentials: Arc::new(Credentials::nobody()),
        secret: Default::default(),
        accounts: Arc::new(Accounts::in_these(surroundings)),
        ..service.parts(node(provider_id()), &SECRET)
    };
    settings(service, None).make(parts).expect("a driver")
}

fn workload(entra: &Service, token_file: PathBuf) -> Surroundings {
    Surroundings {
        azure: Some(AzureIdentity {
            tenant: "contoso.example.com".to_owned(),
            client: "the-client".to_owned(),
            token_file,
            authority: Some(format!("{}/", entra.url)),
        }),
        ..Surroundings::default()
    }
}

fn managed(metadata: &str) -> Surroundings {
    Surroundings {
        azure_node: AzureNode {
            client: Some("the-client".to_owned()),
            metadata: Some(metadata.to_owned()),
        },
        ..Surroundings::default()
    }
}

fn refused(code: &str) -> Value {
    let words = "AADSTS70021: no matching federated identity record\r\nTrace ID: 1";
    json!({"error": code, "error_description": words})
}

#[tokio::test]
async fn the_token_of_the_pod_is_exchanged_where_its_environment_says() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "eyJhbGciOi.pod.token\n").expect("written");
    let (service, entra) = (service().await, Service::new().await);
    entra.answer(LOGIN, "200 OK", "", granted(TOKEN, &json!(3599)));
    let driver = of_pod(&service, workload(&entra, file.path().to_owned()));
    for _ in 0..2 {
        let reading = driver.open().observe().await.expect("a reading");
        assert!(reading.is_off());
    }
    let asked = entra.asked();
    assert_eq!(asked.len(), 1, "one login serves all: {asked:?}");
    for field in [
        "client_id=the-client",
        "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer",
        "client_assertion=eyJhbGciOi.pod.token",
    ] {
        assert!(asked[0].contains(field), "{field}: {asked:?}");
    }
    let asked = service.asked().concat();
    assert!(
        asked.contains(TOKEN) && !asked.contains("pod.token"),
        "{asked}"
    );

    // A message that repeats the token shows none of it.
    let repeats = json!({"error": {"code": "Odd", "message": format!("{TOKEN} is odd")}});
    let request = format!("GET /{}?$expand=instanceView&api-version=2024-07-01", id());
    service.now(&request, "400 Bad Request", "", repeats);
    let failed = driver.open().observe().await.expect_err("no reading");
    assert!(failed.to_string().contains("*** is odd"), "{failed}");
}

#[tokio::test]
async fn what_entra_refuses_is_no_wrong_password_of_a_pod_and_is_one_of_a_secret() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "eyJhbGciOi.pod.token").expect("written");
    let (service, entra) = (service().await, Service::new().await);
    let identity = workload(&entra, file.path().to_owned());
    for (status, code, reason) in [
        ("401 Unauthorized", "invalid_client", "PermissionDenied"),
        ("400 Bad Request", "invalid_request", "PermissionDenied"),
        ("400 Bad Request", "unauthorized_client", "PermissionDenied"),
        ("400 Bad Request", "of_later_versions", "ProtocolError"),
        ("503 Service Unavailable", "temporarily_unavailable", "Busy"),
        ("429 Too Many Requests", "slow_down", "Busy"),
    ] {
        entra.now(LOGIN, status, "", refused(code));
        let driver = of_pod(&service, identity.clone());
        let error = driver.open().observe().await.expect_err("no token");
        assert_eq!(error.reason(), reason, "{error}");
        assert!(!error.to_string().contains("Trace ID"), "{error}");
    }
    for (code, reason) in [
        ("invalid_client", "AuthFailed"),
        ("unauthorized_client", "AuthFailed"),
        ("invalid_request", "AuthFailed"),
        ("invalid_scope", "PermissionDenied"),
    ] {
        service.now(LOGIN, "400 Bad Request", "", refused(code));
        let driver = settings(&service, Some(&service.url))
            .make(service.parts(node(provider_id()), &SECRET))
            .expect("a driver");
        let error = driver.open().observe().await.expect_err("no token");
        assert_eq!(error.reason(), reason, "{error}");
    }
    std::fs::write(file.path(), "").expect("written");
    let empty = of_pod(&service, identity).open().observe().await;
    let empty = empty.expect_err("no token").to_string();
    assert!(empty.contains("it is empty"), "{empty}");
}

#[tokio::test]
async fn the_metadata_service_is_asked_at_its_own_address_and_shown_nothing() {
    let (service, metadata) = (service().await, Service::new().await);
    let path = |service: &Service| {
        let port = service.url.rsplit(':').next().expect("a port");
        format!(
            "GET /metadata/identity/oauth2/token?api-version=2018-02-01&resource=http%3A%2F%2F127.0.0.1%3A{port}%2F&client_id=the-client"
        )
    };
    let asks = path(&service);
    for (status, reason) in [
        ("400 Bad Request", "PermissionDenied"),
        ("404 Not Found", "PermissionDenied"),
        ("410 Gone", "Busy"),
        ("429 Too Many Requests", "Busy"),
        ("500 Internal Server Error", "Busy"),
    ] {
        metadata.now(&asks, status, "", refused("invalid_request"));
        let driver = of_pod(&service, managed(&metadata.url));
        let error = driver.open().observe().await.expect_err("no token");
        assert_eq!(error.reason(), reason, "{error}");
    }
    metadata.asked();
    metadata.now(&asks, "200 OK", "", granted(TOKEN, &json!("86399")));
    let driver = of_pod(&service, managed(&metadata.url));
    for _ in 0..2 {
        driver.open().observe().await.expect("a reading");
    }
    let asked = metadata.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains("\r\nmetadata: true\r\n"), "{asked:?}");
    assert!(!asked[0].contains("authorization"), "{asked:?}");
    for url in [
        "http://10.0.0.1",
        "https://127.0.0.1",
        "http://metadata.example.com",
        "http://168.63.129.16",
    ] {
        let driver = of_pod(&service, managed(url));
        let error = driver.open().observe().await.expect_err("no token");
        assert!(error.to_string().contains("no metadata service"), "{error}");
    }
    drop(metadata);
    let closed = of_pod(&service, managed("http://127.0.0.1:1"));
    let absent = closed.open().observe().await.expect_err("no token");
    assert!(
        absent.to_string().contains("AZURE_FEDERATED_TOKEN_FILE"),
        "{absent}"
    );
}

#[tokio::test]
async fn what_gives_no_token_is_said_without_what_it_gives() {
    let service = service().await;
    for answer in [
        json!({}),
        granted("", &json!(3599)),
        granted("sec ret", &json!(3599)),
        granted("secret", &Value::Null),
        granted("secret", &json!("soon")),
        json!({"access_token": "secret", "token_type": "mac", "expires_in": 3599}),
    ] {
        service.now(LOGIN, "200 OK", "", answer);
        let driver = settings(&service, Some(&service.url))
            .make(service.parts(node(provider_id()), &SECRET))
            .expect("a driver");
        let error = driver.open().observe().await.expect_err("no token");
        assert_eq!(error.reason(), "ProtocolError", "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn a_secret_goes_to_entra_of_its_cloud_or_where_the_settings_say() {
    let service = service().await;
    let driver = settings(&service, None)
        .make(service.parts(node(provider_id()), &SECRET))
        .expect("a driver");
    let error = driver.open().observe().await.expect_err("no login");
    assert!(error.to_string().contains("azure.loginAddress"), "{error}");
    assert!(service.asked().is_empty());
    let tenants = [("tenantID", "../x"), SECRET[1], SECRET[2]];
    let refused = settings(&service, None).make(service.parts(node(provider_id()), &tenants));
    let refused = refused.expect_err("a refusal").to_string();
    assert!(refused.contains("it is no tenant"), "{refused}");
}

#[tokio::test]
async fn an_identity_of_the_pod_needs_a_certificate_that_is_checked() {
    let unchecked = json!({"address": "https://127.0.0.1:1", "tls": {"verification": "None"}});
    let unchecked: AzureDriver = serde_json::from_value(unchecked).expect("settings");
    let service = Service::new().await;
    let parts = Parts {
        credentials: Arc::new(Credentials::nobody()),
        address: Address::parse("https://127.0.0.1:1").expect("an address"),
        accounts: Arc::new(Accounts::in_these(managed(&service.url))),
        ..service.parts(node(provider_id()), &SECRET)
    };
    // Neither one of its own, nor one that another device has fetched for this address.
    let pace = (Azure::NAME, Azure::PACE);
    let account = parts
        .accounts
        .of(pace, &parts.address, &parts.secret, Clock::SYSTEM);
    let driver = unchecked.make(parts).expect("a driver");
    for is_known in [false, true] {
        if is_known {
            let since = Clock::SYSTEM.since_boot();
            account.keep(Grant {
                token: "token-of-another".to_owned().into(),
                since,
                until: since + Duration::from_secs(3600),
                endpoints: Vec::new(),
            });
        }
        let error = driver.open().observe().await.expect_err("no token");
        assert!(
            error
                .to_string()
                .contains("it must be Full, without `caRef`"),
            "{error}"
        );
    }
    assert!(service.asked().is_empty());
    let is_checked = |settings: Value| azure(&settings).is_checked;
    assert!(is_checked(json!({})));
    assert!(!is_checked(json!({"tls": {"verification": "None"}})));
    let plain =
        |host: &str| json!({"address": format!("http://{host}"), "tls": {"verification": "None"}});
    assert!(!is_checked(plain("management.azure.com:443")));
    assert!(is_checked(plain("127.0.0.1:1")));
    assert!(!is_checked(
        json!({"tls": {"verification": "Pinned", "sha256Fingerprint": "00"}})
    ));
    // Whoever holds the key of that authority answers for Azure.
    let own = json!({"tls": {"verification": "Full", "caRef": {"name": "own-ca"}}});
    assert!(!is_checked(own));
}
