//! Driver `xapi` at a pool of ours, over TLS. Nobody else's client judges it: those of XAPI's authors that a registry has speak XML-RPC.

use crate::device::local_rules;
use fencing_api::device::XapiDriver;
use fencing_core::reading::PowerState;
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::cloud::account::Accounts;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{DriverKind, Extent, FenceDriver, NodeFacts, OffOutcome, OnOutcome, Parts};
use fencing_testbed::bmc::{BmcCa, Plug};
use fencing_testbed::cloud::xapi::{LOGIN, Xapi};
use fencing_testbed::cloud::{Beside, Cloud, Taken, uuid_of};
use fencing_testbed::power::Power;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const UUID: &str = "4c4c4544-0042-3510-8054-b4c04f4e4e01";

/// A pool with a machine, which runs, and others beside it.
struct Pool {
    machine: Arc<Plug>,
    cloud: Cloud<Xapi>,
    accounts: Arc<Accounts>,
}

impl Pool {
    fn start(last: u8) -> Self {
        let machine = Arc::new(Plug::new("node-1", UUID));
        let ca = BmcCa::new("a pool").unwrap();
        let power: Arc<dyn Power> = machine.clone();
        let page = Xapi { others: 120 };
        Self {
            cloud: Cloud::start([127, 85, 3, last].into(), power, page, &ca).unwrap(),
            machine,
            accounts: Arc::default(),
        }
    }

    fn driver(&self, uuid: &str) -> Arc<dyn FenceDriver> {
        let settings = json!({"address": self.cloud.url()});
        let settings: XapiDriver = serde_json::from_value(settings).unwrap();
        let [user, password] = LOGIN.map(|it| it.as_bytes().to_vec());
        let data = [
            ("username".to_owned(), user),
            ("password".to_owned(), password),
        ];
        let keys = settings.credential_keys();
        let credentials = Credentials::with_keys("pool", keys, &data.into(), &BTreeMap::new());
        let parts = Parts {
            node: NodeFacts {
                provider_id: format!("xenorchestra://3679fe1a-d058-4055-b800-d30e1bd2af48/{uuid}"),
                ..NodeFacts::named("node-1")
            },
            address: Address::parse(&self.cloud.url()).unwrap(),
            secret: ("pool".to_owned(), "1".to_owned()),
            credentials: Arc::new(credentials.unwrap()),
            verification: CertificateCheck::Full {
                ca_bundle_pem: Some(self.cloud.ca_pem().as_bytes().to_vec()),
            },
            rules: local_rules(),
            call_timeout: Duration::from_secs(60),
            command_timeout: Duration::from_secs(60),
            past: Default::default(),
            keyring: Arc::default(),
            accounts: Arc::clone(&self.accounts),
            clock: Clock::SYSTEM,
        };
        settings.make(parts).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_is_off_once_its_host_has_shut_it_down() {
    let pool = Pool::start(4);
    let driver = pool.driver(UUID);
    let read = async || driver.open().observe().await.unwrap();
    assert_eq!(read().await.state, PowerState::On);
    let mut session = driver.open();
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    assert!(!pool.machine.is_on());
    let reading = read().await;
    assert!(reading.is_off() && reading.identity.is_system(UUID));
    session.prepare_off().await.unwrap();
    let again = session.force_off().await;
    assert!(
        matches!(again, Ok(OffOutcome::AlreadyOff { .. })),
        "{again:?}"
    );
    session.prepare_on().await.unwrap();
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    assert!(pool.machine.is_on());

    pool.machine.set_power(false);
    for (beside, fault) in [
        (Beside::OldReport, "message VM_STARTED"),
        (Beside::AtWork, "operation start"),
    ] {
        pool.cloud.faults(move |faults| faults.beside = beside);
        assert_eq!(read().await.faults, [fault]);
    }
    pool.cloud.faults(|faults| faults.beside = Beside::Memory);
    assert_eq!(read().await.state, PowerState::Unknown);
    pool.cloud.faults(|faults| faults.taken = Taken::Refused);
    session.prepare_off().await.unwrap();
    let refused = session.force_off().await.unwrap_err();
    assert!(
        refused.to_string().contains("OPERATION_BLOCKED"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_vms_are_probed_by_one_call() {
    let pool = Pool::start(5);
    let drivers: Vec<_> = (1..=100)
        .map(|number| pool.driver(&uuid_of(number)))
        .collect();
    for driver in &drivers {
        driver.open().probe(Extent::Needed).await.unwrap();
    }
    let requests = pool.cloud.requests();
    for driver in &drivers {
        let probed = driver.open().probe(Extent::Listed).await.unwrap();
        assert_eq!(probed.reading.state, PowerState::On);
    }
    assert_eq!(pool.cloud.requests() - requests, 1);
}
