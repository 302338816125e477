//! Where the tokens come from, and who is shown them.

use super::calls::{driver, read_path, running};
use super::*;
use crate::cloud::account::Accounts;
use crate::cloud::fixtures::Service;
use crate::{DriverKind, FenceDriver, Parts};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fencing_testbed::cloud::gcp::KEY;
use std::sync::Arc;

const METADATA: &str = "GET /computeMetadata/v1/instance/service-accounts/default/token";
const FLAVOR: &str = "Metadata-Flavor: Google\r\n";

/// What a driver is made of that names no Secret, in a pod whose metadata service is there.
fn of_pod(service: &Service, metadata: &str) -> Parts {
    Parts {
        credentials: Arc::new(Credentials::nobody()),
        secret: Default::default(),
        accounts: Arc::new(Accounts::in_these(Surroundings {
            google: Some(metadata.to_owned()),
            ..Surroundings::default()
        })),
        ..service.parts(node(), &[])
    }
}

fn made(endpoint: &str, more: Value, parts: Parts) -> Arc<dyn FenceDriver> {
    let mut settings = json!({"project": "prod-4711", "endpoint": endpoint});
    let fields = settings.as_object_mut().expect("an object");
    fields.extend(more.as_object().cloned().unwrap_or_default());
    let settings: GcpDriver = serde_json::from_value(settings).expect("settings");
    let address = settings.expand("").expect("an address");
    settings.make(Parts { address, ..parts }).expect("a driver")
}

async fn service() -> Service {
    let service = Service::new().await;
    service.answer(&read_path(), "200 OK", "", running());
    service
}

fn given(token: &str) -> Value {
    json!({"access_token": token, "expires_in": 3599, "token_type": "Bearer"})
}

fn host(service: &Service) -> String {
    service.url.trim_start_matches("http://").to_owned()
}

#[tokio::test]
async fn a_key_signs_a_token_for_compute_engine_alone() {
    let service = service().await;
    let driver = driver(&service);
    driver.open().observe().await.expect("a reading");
    let asked = service.asked().concat();
    let (_, token) = asked.split_once("Bearer ").expect("a token");
    let token = token.split('\r').next().expect("a line");
    let parts: Vec<&str> = token.split('.').collect();
    let document = |at: usize| {
        let bytes = URL_SAFE_NO_PAD.decode(parts[at]).expect("base64");
        serde_json::from_slice::<Value>(&bytes).expect("JSON")
    };
    let (header, claims) = (document(0), document(1));
    assert_eq!(header["alg"], "RS256");
    assert_eq!(header["kid"], "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567");
    assert_eq!(claims["aud"], "https://compute.googleapis.com/");
    assert_eq!(claims["iss"], "fence@prod-4711.iam.gserviceaccount.com");
    assert_eq!(claims["sub"], claims["iss"]);
    let life = claims["exp"].as_i64().zip(claims["iat"].as_i64());
    assert_eq!(life.map(|(until, since)| until - since), Some(3600));
    // 2048 bits.
    let signature = URL_SAFE_NO_PAD.decode(parts[2]).expect("base64");
    assert_eq!(signature.len(), 256);

    // A message that repeats what was sent shows none of it.
    let repeats = json!({"error": {"code": 418, "message": format!("why {token}")}});
    service.now(&read_path(), "418 odd", "", repeats);
    let failed = driver.open().observe().await.expect_err("no reading");
    let failed = failed.to_string();
    assert!(
        failed.contains("why ***") && !failed.contains(token),
        "{failed}"
    );
}

#[tokio::test]
async fn a_file_that_is_no_key_is_refused_without_showing_it() {
    let service = service().await;
    let key: Value = serde_json::from_str(KEY).expect("JSON");
    let user = with(key.clone(), "/type", Some(json!("authorized_user")));
    let broken = with(
        key.clone(),
        "/private_key",
        Some(json!("-----BEGIN PRIVATE KEY-----\nMIIEuwI\n")),
    );
    let elliptic = rcgen::KeyPair::generate().expect("a key").serialize_pem();
    let elliptic = with(key, "/private_key", Some(json!(elliptic)));
    for (value, says) in [
        ("ya29.token".to_owned(), "not the JSON file"),
        ("{}".to_owned(), "not the JSON file"),
        (user.to_string(), "`type` is not service_account"),
        (broken.to_string(), "no RSA key"),
        (elliptic.to_string(), "no RSA key"),
    ] {
        let parts = service.parts(node(), &[("key.json", &value)]);
        let refused = settings(&service.url).make(parts).expect_err("a refusal");
        assert_eq!(refused.reason(), "CredentialsInvalid");
        let refused = refused.to_string();
        assert!(refused.contains(says), "{refused}");
        assert!(
            !refused.contains("MIIE") && !refused.contains("ya29"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn the_metadata_service_gives_the_token_of_the_pod_where_no_secret_is_named() {
    let (service, metadata) = (service().await, Service::new().await);
    metadata.answer(METADATA, "200 OK", FLAVOR, given("ya29.pod-token"));
    let plain = json!({"tls": {"verification": "None"}});
    let own = made(
        &service.url,
        plain.clone(),
        of_pod(&service, &host(&metadata)),
    );
    for _ in 0..2 {
        own.open().observe().await.expect("a reading");
    }
    let asked = metadata.asked();
    assert_eq!(asked.len(), 1, "one token serves all: {asked:?}");
    assert!(
        asked[0].contains("\r\nmetadata-flavor: Google\r\n"),
        "{asked:?}"
    );
    assert!(!asked[0].contains("authorization"), "{asked:?}");
    let sent = service.asked().concat();
    assert!(
        sent.contains("\r\nauthorization: Bearer ya29.pod-token\r\n"),
        "{sent}"
    );

    let fresh = || {
        made(
            &service.url,
            plain.clone(),
            of_pod(&service, &host(&metadata)),
        )
    };
    for (status, headers, body, reason) in [
        ("403 Forbidden", FLAVOR, json!("no"), "PermissionDenied"),
        ("404 Not Found", FLAVOR, json!("no"), "PermissionDenied"),
        ("503 Service Unavailable", FLAVOR, json!("no"), "Busy"),
        // Another cloud's.
        ("200 OK", "", given("ya29.pod-token"), "ProtocolError"),
        ("200 OK", FLAVOR, given(""), "ProtocolError"),
        (
            "200 OK",
            FLAVOR,
            json!({"access_token": "a"}),
            "ProtocolError",
        ),
    ] {
        metadata.now(METADATA, status, headers, body);
        let refused = fresh().open().observe().await.expect_err("no token");
        assert_eq!(refused.reason(), reason, "{refused}");
        assert!(!refused.to_string().contains("ya29"), "{refused}");
    }
    assert!(service.asked().is_empty());
    for elsewhere in ["10.0.0.1", "169.254.170.23", "metadata.google.internal"] {
        let driver = made(&service.url, plain.clone(), of_pod(&service, elsewhere));
        let refused = driver.open().observe().await.expect_err("no token");
        assert!(
            refused
                .to_string()
                .contains("no address of Google's metadata"),
            "{refused}"
        );
    }
    let nothing = Parts {
        credentials: Arc::new(Credentials::nobody()),
        ..service.parts(node(), &[])
    };
    let lacking = made(&service.url, plain, nothing).open().observe().await;
    let lacking = lacking.expect_err("no token").to_string();
    assert!(lacking.contains("`key.json`"), "{lacking}");
}

#[tokio::test]
async fn the_token_of_the_pod_goes_to_google_alone_and_where_the_certificate_is_checked() {
    let (service, metadata) = (service().await, Service::new().await);
    metadata.answer(METADATA, "200 OK", FLAVOR, given("ya29.pod-token"));
    for (endpoint, verification) in [
        ("https://compute.googleapis.com.example.com", "Full"),
        ("https://googleapis.com.evil.example.com", "Full"),
        ("https://evilgoogleapis.com", "Full"),
        ("https://compute.googleapis.com", "None"),
        ("http://compute.googleapis.com", "None"),
        ("https://10.0.0.1", "Full"),
    ] {
        let tls = json!({"tls": {"verification": verification}});
        let driver = made(endpoint, tls, of_pod(&service, &host(&metadata)));
        let refused = driver
            .open()
            .observe()
            .await
            .expect_err("no token")
            .to_string();
        assert!(
            refused.contains("no host below googleapis.com"),
            "{endpoint}: {refused}"
        );
    }
    assert!(metadata.asked().is_empty());
}

/// S16: a device that checks nobody shares its account with one that does, and not what that one has fetched.
#[test]
fn a_token_that_another_device_has_fetched_is_not_sent_unchecked() {
    let at = crate::address::Address::parse("https://compute.googleapis.com").expect("an address");
    let of = |tls: Value| {
        let settings = json!({"project": "prod-4711", "tls": tls});
        let settings: GcpDriver = serde_json::from_value(settings).expect("settings");
        crate::cloud::gcp::login::judge(&settings.provider(), &at)
    };
    assert_eq!(of(json!({"verification": "Full"})), Ok(()));
    assert!(of(json!({"verification": "None"})).is_err());
    assert!(of(json!({"verification": "Pinned"})).is_err());
    let own = json!({"verification": "Full", "caRef": {"name": "own-ca"}});
    assert!(
        of(own).is_err(),
        "the holder of its key could answer in Google's place"
    );
}
