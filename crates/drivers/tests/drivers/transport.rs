//! Getting there: networks that drop, connections that break, addresses that are not allowed.

use crate::bmc::{Act, Bmc, reply, reply_with};
use crate::device::{
    PASSWORD, driver, hasty_verdict, service, settings, settings_of, settings_with, system,
    verdict, verdict_of,
};
use fencing_core::reading::PowerState;
use fencing_drivers::address::{AddressRules, Lookup};
use fencing_drivers::credentials::ALLOWED_HOSTS_ANNOTATION;
use fencing_drivers::redfish::{Redfish, RedfishSettings};
use fencing_drivers::{FenceDriver, OffOutcome};
use futures::future::{FutureExt, ready};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[tokio::test]
async fn a_device_that_never_answers_ends_at_the_deadline() {
    assert_eq!(hasty_verdict(|_| Act::Hang).await, "Timeout");
}

#[tokio::test]
async fn a_device_that_breaks_off_or_speaks_something_else_is_not_off() {
    assert_eq!(verdict(|_| Act::Reset).await, "Unreachable");
    assert_eq!(
        verdict(|_| Act::SendThenClose(Vec::new())).await,
        "Unreachable"
    );
    assert_eq!(
        verdict(|_| Act::SendThenClose(b"HTTP/1.1 200 OK\r\nContent-Le".to_vec())).await,
        "Unreachable"
    );
    assert_eq!(
        verdict(|_| Act::SendThenClose(b"SSH-2.0-dropbear\r\n\r\n".to_vec())).await,
        "ProtocolError"
    );
    assert_eq!(
        verdict(|_| Act::Send(b"HTTP/2.0 200 OK\r\n\r\n".to_vec())).await,
        "ProtocolError"
    );
}

#[tokio::test]
async fn one_connection_serves_a_session_and_a_reset_one_is_replaced_once() {
    let bmc = Bmc::plain(|request| match request.earlier {
        2 => Act::Reset,
        _ => Act::Send(reply("200 OK", &system("\"Off\""))),
    })
    .await;
    let mut session = driver(&bmc).open();
    for _ in 0..3 {
        assert_eq!(session.observe().await.unwrap().state, PowerState::Off);
    }
    let connections: Vec<usize> = bmc
        .requests()
        .iter()
        .map(|request| request.connection)
        .collect();
    assert_eq!(connections, [0, 0, 0, 1]);
}

#[tokio::test]
async fn a_second_reset_in_a_row_is_an_error() {
    let bmc = Bmc::plain(|request| match request.earlier {
        0 => Act::Send(reply("200 OK", &system("\"Off\""))),
        _ => Act::Reset,
    })
    .await;
    let mut session = driver(&bmc).open();
    session.observe().await.unwrap();
    assert_eq!(
        session.observe().await.map_err(|error| error.reason()),
        Err("Unreachable")
    );
    assert_eq!(bmc.requests().len(), 3);
}

#[tokio::test]
async fn a_session_shares_nothing_with_the_one_before() {
    let bmc = Bmc::plain(service("\"Off\"")).await;
    let driver = driver(&bmc);
    let mut first = driver.open();
    first.observe().await.unwrap();
    driver.open().observe().await.unwrap();
    first.observe().await.unwrap();
    let connections: Vec<usize> = bmc
        .requests()
        .iter()
        .map(|request| request.connection)
        .collect();
    assert_eq!(connections, [0, 1, 0]);
}

#[tokio::test]
async fn credentials_go_to_no_address_that_is_denied() {
    let bmc = Bmc::plain(service("\"Off\"")).await;
    let denied = RedfishSettings {
        rules: Arc::new(AddressRules::default()),
        ..settings_of(&bmc)
    };
    assert_eq!(verdict_of(denied.clone()).await, "AddressNotAllowed");
    let by_name = settings(&format!("http://localhost:{}", bmc.address.port()));
    let denied = RedfishSettings {
        rules: denied.rules,
        ..by_name
    };
    assert_eq!(
        verdict_of(denied).await,
        "AddressNotAllowed",
        "what counts is where a name leads"
    );
    assert!(bmc.requests().is_empty());
}

/// A name, and how often somebody has asked for it.
#[derive(Clone, Default)]
struct Name {
    asked: Arc<AtomicUsize>,
}

impl Name {
    /// To these addresses at the first question, to the next ones at the second, and so on.
    fn leads_to<const N: usize>(&self, answers: [&'static [&'static str]; N]) -> Lookup {
        let asked = Arc::clone(&self.asked);
        Lookup::new(move |host, port| {
            assert_eq!(host, "bmc.example");
            let at = asked.fetch_add(1, Ordering::Relaxed).min(N - 1);
            let found = answers[at].iter().map(|address| {
                let address: IpAddr = address.parse().unwrap();
                SocketAddr::new(address, port)
            });
            ready(Ok(found.collect())).boxed()
        })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

/// The driver for a BMC of the test by a name that is looked up like this, and may be at these addresses.
fn named(bmc: &Bmc, lookup: Lookup, allowed: &str) -> Redfish {
    let rules = AddressRules::new(vec![allowed.parse().unwrap()], Vec::new());
    let by_name = settings(&format!("http://bmc.example:{}", bmc.address.port()));
    Redfish::new(RedfishSettings {
        rules: Arc::new(rules.with_lookup(lookup)),
        system_id: Some("1".to_owned()),
        ..by_name
    })
    .unwrap()
}

/// Who takes a name over takes its machine over, and with the next request its password.
#[tokio::test]
async fn a_name_is_asked_for_once_a_session_and_what_it_leads_to_later_is_not_connected_to() {
    for allowed in ["127.0.0.0/8", "127.0.0.1/32"] {
        // A connection for each request.
        let bmc = Bmc::plain(|request| {
            let (status, body) = match request.method.as_str() {
                "POST" => ("204 No Content", String::new()),
                _ => ("200 OK", system("\"On\"")),
            };
            Act::SendThenClose(reply_with(status, "Connection: close\r\n", &body))
        })
        .await;
        let elsewhere = TcpListener::bind(("127.0.0.2", bmc.address.port())).unwrap();
        elsewhere.set_nonblocking(true).unwrap();
        let connected = || elsewhere.accept().map_err(|error| error.kind());
        let name = Name::default();
        let lookup = name.leads_to([&["127.0.0.1"], &["127.0.0.2"]]);
        let driver = named(&bmc, lookup, allowed);

        let mut session = driver.open();
        session.connect().await.unwrap();
        for _ in 0..2 {
            assert_eq!(session.observe().await.unwrap().state, PowerState::On);
        }
        session.prepare_off().await.unwrap();
        assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
        let requests = bmc.requests();
        let connections = requests.iter().map(|request| request.connection);
        assert!(connections.eq(0..4));
        assert_eq!(name.asked(), 1);
        assert!(matches!(connected(), Err(ErrorKind::WouldBlock)));
    }
}

#[tokio::test]
async fn a_session_goes_where_its_name_leads_by_then_if_that_is_allowed() {
    let bmc = Bmc::plain(service("\"Off\"")).await;
    let name = Name::default();
    let lookup = name.leads_to([&["127.0.0.2", "127.0.0.1"], &["127.0.0.2"], &[]]);
    let driver = named(&bmc, lookup, "127.0.0.1/32");
    let elsewhere = TcpListener::bind(("127.0.0.2", bmc.address.port())).unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let verdict = async || {
        let reading = driver.open().observe().await;
        reading.map_or_else(|error| error.reason().to_owned(), |reading| reading.raw)
    };
    assert_eq!(verdict().await, "Off", "one of two addresses is allowed");
    assert_eq!(verdict().await, "AddressNotAllowed");
    assert_eq!(verdict().await, "Unreachable", "it leads nowhere");
    assert_eq!((name.asked(), bmc.requests().len()), (3, 1));
    let connected = elsewhere.accept().map_err(|error| error.kind());
    assert!(matches!(connected, Err(ErrorKind::WouldBlock)));
}

#[tokio::test]
async fn credentials_go_to_no_host_that_their_secret_excludes() {
    let bmc = Bmc::plain(service("\"Off\"")).await;
    for (hosts, expected) in [
        ("127.0.0.0/8", "Off(Off)"),
        ("bmc.example, 127.0.0.1", "Off(Off)"),
        ("*.mgmt.example, 10.0.0.0/8", "CredentialsInvalid"),
        ("", "CredentialsInvalid"),
    ] {
        let asked = bmc.requests().len();
        let annotations = BTreeMap::from([(ALLOWED_HOSTS_ANNOTATION.to_owned(), hosts.to_owned())]);
        let bound = settings_with(&format!("http://{}", bmc.address), &annotations);
        assert_eq!(verdict_of(bound).await, expected, "{hosts}");
        assert_eq!(
            bmc.requests().len() > asked,
            expected == "Off(Off)",
            "{hosts}"
        );
    }
}

#[tokio::test]
async fn a_secret_is_shown_by_nothing() {
    let bmc = Bmc::plain(|_| Act::Send(reply("401 Unauthorized", "{}"))).await;
    let driver = driver(&bmc);
    let mut session = driver.open();
    let error = session.observe().await.expect_err("401");
    // The user and the password as Basic authentication writes them.
    let encoded = "YWRtaW46Y29ycmVjdCBob3JzZSBiYXR0ZXJ5IHN0YXBsZQ==";
    assert!(
        bmc.requests()
            .iter()
            .all(|request| request.head.contains(&encoded.to_ascii_lowercase()))
    );
    for shown in [
        format!("{driver:?}"),
        format!("{session:?}"),
        format!("{error} {error:?}"),
        format!("{:?}", settings_of(&bmc)),
    ] {
        assert!(
            !shown.contains(PASSWORD) && !shown.contains(encoded),
            "{shown}"
        );
    }
}
