//! Driver `webhook` and its conformance test against the service that the page about it shows, and against ones that break a rule.

use crate::device::local_rules;
use fencing_api::device::WebhookDriver;
use fencing_core::reading::PowerState;
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::cloud::webhook::conformance::{Finding, Trial, judge};
use fencing_drivers::credentials::Credentials;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{DriverKind, FenceDriver, NodeFacts, OffOutcome, Parts};
use fencing_testbed::bmc::BmcCa;
use fencing_testbed::pki::User;
use fencing_testbed::process::Guard;
use fencing_testbed::webhook_example::{Example, TOKEN, script};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

const NODE: &str = "worker-3";
const UUID: &str = "4c4c4544-0042-3510-8052-b4c04f4a4d32";

/// A running script, and what opens it.
struct Bench {
    example: Example,
    ca: BmcCa,
    clients: Option<BmcCa>,
    _guard: Arc<Guard>,
    _logs: tempfile::TempDir,
}

impl Bench {
    async fn start(script: &str, clients: Option<BmcCa>) -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let (guard, logs) = (Guard::start().unwrap(), tempfile::tempdir().unwrap());
        let ca = BmcCa::new("a service of a user").unwrap();
        let address = [127, 85, 2, NEXT.fetch_add(1, Ordering::Relaxed)].into();
        let cas = (&ca, clients.as_ref());
        let example = Example::start(script, address, (NODE, UUID), cas, &guard, logs.path());
        Self {
            example: example.await.unwrap(),
            ca,
            clients,
            _guard: guard,
            _logs: logs,
        }
    }

    fn settings(&self) -> WebhookDriver {
        let authentication = match self.clients {
            Some(_) => "ClientCertificate",
            None => "Token",
        };
        let settings = json!({"url": self.example.url(), "authentication": authentication});
        serde_json::from_value(settings).unwrap()
    }

    fn parts(&self) -> Parts {
        let mut data = vec![("token".to_owned(), TOKEN.into())];
        if let Some(clients) = &self.clients {
            let identity = clients.client(&User::new("operator", None)).unwrap();
            data.push(("tls.crt".to_owned(), identity.certificate.into()));
            data.push(("tls.key".to_owned(), identity.key.into()));
        }
        let data: BTreeMap<String, Vec<u8>> = data.into_iter().collect();
        let settings = self.settings();
        let keys = settings.credential_keys();
        let credentials = Credentials::with_keys("fence", keys, &data, &BTreeMap::new());
        Parts {
            node: NodeFacts {
                system_uuid: UUID.to_owned(),
                ..NodeFacts::named(NODE)
            },
            address: settings.expand(NODE).unwrap(),
            secret: ("fence".to_owned(), "1".to_owned()),
            credentials: Arc::new(credentials.unwrap()),
            verification: CertificateCheck::Full {
                ca_bundle_pem: Some(self.ca.pem().into_bytes()),
            },
            rules: local_rules(),
            call_timeout: Duration::from_secs(30),
            command_timeout: Duration::from_secs(30),
            past: Default::default(),
            keyring: Arc::default(),
            accounts: Arc::default(),
            clock: Clock::SYSTEM,
        }
    }

    fn driver(&self) -> Arc<dyn FenceDriver> {
        self.settings().make(self.parts()).unwrap()
    }

    /// Tries the contract. The example keeps a token beside a certificate, which the driver does not send.
    async fn judged(&self, power_cycle: bool) -> Vec<Finding> {
        let trial = Trial {
            node_uuid: Some(UUID.to_owned()),
            power_cycle,
            time_max: Duration::from_secs(5),
        };
        let found = judge(&self.settings(), self.parts(), &trial).await;
        found.unwrap()
    }
}

/// The rules that are broken.
fn broken(found: &[Finding]) -> Vec<&'static str> {
    let broken = found.iter().filter(|finding| finding.seen.is_err());
    broken.map(|finding| finding.rule).collect()
}

#[tokio::test]
async fn the_example_of_the_page_is_read_and_switched_and_keeps_the_contract() {
    let bench = Bench::start(&script().unwrap(), None).await;
    let driver = bench.driver();
    let mut session = driver.open();
    let reading = session.observe().await.unwrap();
    assert_eq!(reading.state, PowerState::On, "{reading:?}");
    assert!(reading.identity.is_system(UUID));
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    assert_eq!(bench.example.state().unwrap(), "off");
    assert!(driver.open().observe().await.unwrap().is_off());
    for word in ["suspended", "", "OFF", "off on"] {
        bench.example.set_state(word).unwrap();
        let reading = driver.open().observe().await.unwrap();
        assert_eq!(reading.state, PowerState::Unknown, "{word}");
    }
    bench.example.set_state("on").unwrap();

    let found = bench.judged(true).await;
    let lines: Vec<String> = found.iter().map(Finding::to_string).collect();
    assert!(broken(&found).is_empty(), "{lines:#?}");
    assert_eq!(found.len(), 13, "{lines:#?}");
    assert_eq!(bench.example.state().unwrap(), "on");
    // The page shows these lines.
    let page = include_str!("../../../../docs/how-to/webhook.md");
    for line in lines.iter().take(8) {
        let rule = line.split_once(": ").map_or(line.as_str(), |it| it.0);
        assert!(page.contains(rule), "{line} is not on the page");
    }
}

#[tokio::test]
async fn a_machine_that_does_not_run_is_not_switched_by_a_trial() {
    let bench = Bench::start(&script().unwrap(), None).await;
    bench.example.set_state("off").unwrap();
    let found = bench.judged(true).await;
    assert_eq!(broken(&found), ["the machine runs before it is switched"]);
    assert_eq!(bench.example.state().unwrap(), "off");
}

/// What is wrong with a script: a text of it, what stands there instead, and the rule that it breaks.
const WRONG: [(&str, &str, &str); 10] = [
    (
        "\"power\": power, ",
        "\"power\": power.lower(), ",
        "`status` answers by the contract",
    ),
    (
        "\"ageSeconds\": time.monotonic() - asked",
        "\"ageSeconds\": 60",
        "`status` answers by the contract",
    ),
    (
        "document[\"requestID\"] = request[\"requestID\"]",
        "document[\"requestID\"] = \"1\"",
        "`status` answers by the contract",
    ),
    (
        "\"machine\": {\"systemUUID\": uuid}",
        "\"machine\": {\"systemUUID\": f\"{time.monotonic_ns():032x}\"}",
        "the machine is named, always the same",
    ),
    (
        "not hmac.compare_digest(token, ",
        "not token or len(token) != len(",
        "a wrong token is refused",
    ),
    (
        "and not hmac",
        "and token and not hmac",
        "no token is refused",
    ),
    (
        "raise Refusal(404, \"UnknownNode\", \"no machine of this name\")",
        "uuid = \"4c4c4544-0042-3510-8052-b4c04f4a4d32\"",
        "an unknown node is refused",
    ),
    (
        "raise Refusal(400, \"BadRequest\", \"the action must be status, off or on\")",
        "request[\"action\"] = \"status\"",
        "an unknown action is refused",
    ),
    (
        "if request[\"apiVersion\"] != API",
        "if False",
        "an unknown version is refused",
    ),
    (
        "400, \"BadRequest\", \"no request of the contract\"",
        "500, \"InternalError\", \"\"",
        "what is no JSON is refused",
    ),
];

#[tokio::test]
async fn a_service_that_breaks_a_rule_is_found_and_its_machine_is_not_switched() {
    let script = script().unwrap();
    for (good, bad, rule) in WRONG {
        assert_eq!(script.matches(good).count(), 1, "{good}");
        let bench = Bench::start(&script.replace(good, bad), None).await;
        let found = bench.judged(true).await;
        assert_eq!(broken(&found), [rule], "{good} -> {bad}: {found:#?}");
        assert_eq!(bench.example.state().unwrap(), "on");
        assert!(found.iter().all(|it| !it.rule.contains("`off`")), "{rule}");
    }
}

#[tokio::test]
async fn a_service_that_switches_another_machine_than_it_is_told_is_found() {
    let script = script().unwrap();
    let good = "request[\"machine\"][\"systemUUID\"].lower() != uuid.lower()";
    assert!(script.contains(good));
    let bench = Bench::start(&script.replace(good, "False"), None).await;
    let found = bench.judged(true).await;
    assert_eq!(broken(&found), ["an off for another machine is refused"]);
    // It had the machine off, and the trial leaves it on.
    assert_eq!(bench.example.state().unwrap(), "on");
}

#[tokio::test]
async fn a_client_certificate_opens_a_service_that_asks_for_one() {
    let script = script().unwrap();
    let clients = BmcCa::new("clients of a service").unwrap();
    let bench = Bench::start(&script, Some(clients)).await;
    let reading = bench.driver().open().observe().await.unwrap();
    assert_eq!(reading.state, PowerState::On, "{reading:?}");
    let found = bench.judged(true).await;
    assert!(broken(&found).is_empty(), "{found:#?}");
    // One of another authority opens nothing.
    let stranger = Bench {
        clients: Some(BmcCa::new("clients of another").unwrap()),
        ..bench
    };
    stranger.driver().open().observe().await.unwrap_err();
    assert_eq!(Address::parse("https://fence").unwrap().port, 443);
}
