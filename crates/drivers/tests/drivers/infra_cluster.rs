//! Drivers `kubevirt` and `bareMetalHost` at a cluster below, which is ours: a fence from the first look to the power-on, and fleets by pages.

use crate::device::local_rules;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fencing_api::device::{BareMetalHostDriver, KubevirtDriver};
use fencing_core::reading::{PowerState, Reading};
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::cloud::account::Accounts;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{DriverKind, Extent, FenceDriver, NodeFacts, OffOutcome, OnOutcome, Parts};
use fencing_testbed::bmc::{BmcCa, Plug};
use fencing_testbed::cloud::kube::kubeconfig;
use fencing_testbed::cloud::kubevirt::{self, Kubevirt};
use fencing_testbed::cloud::metal3::{self, Metal3};
use fencing_testbed::cloud::{Beside, Cloud, Page};
use fencing_testbed::power::Power;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

const UUID: &str = "4c4c4544-0042-3510-8054-b4c04f4e4e01";
/// Machines beside the first one: their lists have two pages.
const OTHERS: usize = 150;

/// A cluster with a machine, which runs.
struct Infra<P> {
    machine: Arc<Plug>,
    cloud: Cloud<P>,
    accounts: Arc<Accounts>,
}

impl<P: Page> Infra<P> {
    fn start(address: [u8; 4], page: P) -> Self {
        let machine = Arc::new(Plug::new("node-1", UUID));
        let ca = BmcCa::new("a cluster below").unwrap();
        let power: Arc<dyn Power> = machine.clone();
        let cloud = Cloud::start(IpAddr::from(address), power, page, &ca).unwrap();
        Self {
            machine,
            cloud,
            accounts: Arc::default(),
        }
    }

    /// Its certificate is checked by the authority in the kubeconfig alone.
    fn driver(&self, kind: &dyn DriverKind, name: &str, provider_id: &str) -> Arc<dyn FenceDriver> {
        let authority = STANDARD.encode(self.cloud.ca_pem());
        let server = format!("server: '{}'", self.cloud.url());
        let with_ca = format!("{server}, certificate-authority-data: {authority}");
        let text = kubeconfig(&self.cloud.url()).replace(&server, &with_ca);
        let data = [("kubeconfig".to_owned(), text.into_bytes())];
        let keys = kind.credential_keys();
        let credentials = Credentials::with_keys("infra", keys, &data.into(), &BTreeMap::new());
        let parts = Parts {
            node: NodeFacts {
                provider_id: provider_id.to_owned(),
                ..NodeFacts::named(name)
            },
            address: Address::parse(&self.cloud.url()).unwrap(),
            secret: ("infra".to_owned(), "1".to_owned()),
            credentials: Arc::new(credentials.unwrap()),
            verification: CertificateCheck::Full {
                ca_bundle_pem: None,
            },
            rules: local_rules(),
            call_timeout: Duration::from_secs(60),
            command_timeout: Duration::from_secs(60),
            past: Default::default(),
            keyring: Arc::default(),
            accounts: Arc::clone(&self.accounts),
            clock: Clock::SYSTEM,
        };
        kind.make(parts).unwrap()
    }
}

async fn read(driver: &Arc<dyn FenceDriver>) -> Reading {
    driver.open().observe().await.unwrap()
}

/// Off and on again, by the driver alone.
async fn there_and_back<P: Page>(infra: &Infra<P>, driver: &Arc<dyn FenceDriver>) {
    assert_eq!(read(driver).await.state, PowerState::On);
    let mut session = driver.open();
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    assert!(!infra.machine.is_on());
    let reading = session.observe().await.unwrap();
    assert!(reading.is_off(), "{reading:?}");
    infra
        .cloud
        .faults(|faults| faults.beside = Beside::OldReport);
    assert!(!read(driver).await.is_off(), "by an old report");
    infra.cloud.faults(|faults| faults.beside = Beside::Nothing);
    session.prepare_on().await.unwrap();
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    assert!(infra.machine.is_on());
    assert_eq!(infra.cloud.commands(), [false, true]);
}

fn kubevirt_of<P: Page>(infra: &Infra<P>) -> KubevirtDriver {
    let settings = json!({"address": infra.cloud.url(), "namespace": kubevirt::NAMESPACE});
    serde_json::from_value(settings).unwrap()
}

fn hosts_of<P: Page>(infra: &Infra<P>) -> BareMetalHostDriver {
    serde_json::from_value(json!({"address": infra.cloud.url()})).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_machine_of_kubevirt_is_turned_off_and_on() {
    let infra = Infra::start([127, 85, 1, 11], Kubevirt { others: 2 });
    let driver = infra.driver(&kubevirt_of(&infra), "node-1", "kubevirt://node-1");
    there_and_back(&infra, &driver).await;
    let probed = driver.open().probe(Extent::Needed).await.unwrap();
    assert_eq!(probed.off_denied, None);
    assert_eq!(probed.restarter.as_deref(), Some("runStrategy Always"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_of_metal3_is_turned_off_and_on() {
    let infra = Infra::start([127, 85, 1, 12], Metal3 { others: 2 });
    let driver = infra.driver(&hosts_of(&infra), "node-1", metal3::PROVIDER_ID);
    there_and_back(&infra, &driver).await;
    let probed = driver.open().probe(Extent::Needed).await.unwrap();
    assert_eq!(probed.off_denied, None);
    assert_eq!(probed.model.as_deref(), Some("Dell Inc. PowerEdge R650"));
}

/// Each is read whole once; then a list of two pages, of one kind or of two, serves all of them.
async fn listed<P: Page>(infra: &Infra<P>, drivers: Vec<Arc<dyn FenceDriver>>, requests: u64) {
    for driver in &drivers {
        driver.open().probe(Extent::Needed).await.unwrap();
    }
    let before = infra.cloud.requests();
    for driver in &drivers {
        let probed = driver.open().probe(Extent::Listed).await.unwrap();
        assert_eq!(probed.reading.state, PowerState::On);
    }
    assert_eq!(infra.cloud.requests() - before, requests);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_of_kubevirt_is_four_pages() {
    let infra = Infra::start([127, 85, 1, 13], Kubevirt { others: OTHERS });
    let kind = kubevirt_of(&infra);
    let of = |number: usize| {
        let name = kubevirt::name_of(number);
        infra.driver(&kind, &name, &format!("kubevirt://{name}"))
    };
    let drivers = [1, 75, OTHERS].map(of);
    listed(&infra, drivers.into(), 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_of_metal3_is_two_pages() {
    let infra = Infra::start([127, 85, 1, 14], Metal3 { others: OTHERS });
    let kind = hosts_of(&infra);
    let of = |number: usize| {
        let provider_id = metal3::provider_id_of(number);
        infra.driver(&kind, &format!("node-{number}"), &provider_id)
    };
    let drivers = [1, 75, OTHERS].map(of);
    listed(&infra, drivers.into(), 2).await;
}
