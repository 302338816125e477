//! A master that a member has named, and that answers nobody any more.

use super::*;
use crate::cloud::account::Pace;
use crate::credentials::{ALLOWED_HOSTS_ANNOTATION, Credentials};
use tokio::net::TcpListener;
use tokio::time::timeout;

const HERE: &str = "127.0.0.1";
const ELSEWHERE: &str = "127.0.0.2";

/// A driver that has a session with the master at this host, and the account that keeps it.
fn in_session_with(host: &str, service: &Service) -> (Arc<dyn FenceDriver>, Arc<Account>) {
    let secret = [("username", "fence"), ("password", "s3cret")];
    let mut parts = service.parts(node(), &secret);
    let data = secret.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
    let hosts = format!("{HERE},{ELSEWHERE}");
    let annotations = [(ALLOWED_HOSTS_ANNOTATION.to_owned(), hosts)];
    let credentials = Credentials::with_keys("cloud", &KEYS, &data.into(), &annotations.into());
    parts.credentials = Arc::new(credentials.expect("credentials"));
    let of = (Xapi::NAME, Pace::USUAL);
    let account = parts
        .accounts
        .of(of, &parts.address, &parts.secret, parts.clock);
    account.keep(Grant {
        token: Zeroizing::new(SESSION.to_owned()),
        since: Duration::ZERO,
        until: Duration::MAX,
        endpoints: vec![(String::new(), host.to_owned())],
    });
    let settings: XapiDriver =
        serde_json::from_value(json!({"address": service.url, "tls": {"verification": "None"}}))
            .expect("settings");
    (settings.make(parts).expect("a driver"), account)
}

#[tokio::test]
async fn a_master_without_an_answer_is_looked_for_at_the_address_in_the_settings() {
    let service = service().await;
    let (driver, account) = in_session_with(ELSEWHERE, &service);
    driver.open().observe().await.expect_err("no answer");
    assert!(service.asked().is_empty());
    assert!(account.grant().is_none());
    assert!(driver.open().observe().await.expect("a reading").is_off());
    assert_eq!(methods(&service)[0], "session.login_with_password");
}

/// The time of a call may be over long before that of a connection is.
#[tokio::test]
async fn a_master_whose_answer_nobody_waits_for_any_more_has_given_none() {
    let service = service().await;
    let (_, port) = service.url.rsplit_once(':').expect("a port");
    let silent = TcpListener::bind(format!("{ELSEWHERE}:{port}")).await;
    let silent = silent.expect("the same port elsewhere");
    let (driver, account) = in_session_with(ELSEWHERE, &service);
    let waited = timeout(Duration::from_millis(200), driver.open().observe()).await;
    waited.expect_err("no answer");
    assert!(account.grant().is_none());
    drop(silent);
    assert!(driver.open().observe().await.expect("a reading").is_off());
}

#[tokio::test]
async fn a_session_with_the_address_in_the_settings_itself_is_kept() {
    let service = service().await;
    let (driver, account) = in_session_with(HERE, &service);
    service.now(RECORDS, HANGS_UP, "", json!({}));
    driver.open().observe().await.expect_err("no answer");
    assert!(account.grant().is_some());
}
