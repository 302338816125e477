//! Driver `nutanix` and Nutanix' own clients at the same Prism Central, which is ours: whatever one does, the other sees.

use crate::device::local_rules;
use fencing_api::device::NutanixDriver;
use fencing_core::reading::{PowerState, Reading};
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{DriverKind, Extent, FenceDriver, NodeFacts, OffOutcome, OnOutcome, Parts};
use fencing_testbed::bmc::{BmcCa, Plug};
use fencing_testbed::cloud::nutanix::{KEY, LOGIN, Nutanix};
use fencing_testbed::cloud::{Access, Beside, Cloud, Taken, uuid_of};
use fencing_testbed::ntnx::{self, Opens};
use fencing_testbed::power::Power;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const UUID: &str = "4c4c4544-0042-3510-8054-b4c04f4e4e01";

/// A Prism Central with a machine, which runs, and machines on two pages of the list beside it.
struct Prism {
    machine: Arc<Plug>,
    cloud: Arc<Cloud<Nutanix>>,
}

impl Prism {
    fn start(last: u8) -> Self {
        let machine = Arc::new(Plug::new("node-1", UUID));
        let ca = BmcCa::new("a Prism Central").unwrap();
        let power: Arc<dyn Power> = machine.clone();
        let page = Nutanix::with(120);
        let cloud = Cloud::start([127, 85, 2, last].into(), power, page, &ca).unwrap();
        Self {
            machine,
            cloud: Arc::new(cloud),
        }
    }

    fn driver(&self, secret: &[(&str, &str)]) -> Arc<dyn FenceDriver> {
        let settings = json!({"address": self.cloud.url()});
        let settings: NutanixDriver = serde_json::from_value(settings).unwrap();
        let data: BTreeMap<String, Vec<u8>> = secret
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
            .collect();
        let keys = settings.credential_keys();
        let credentials = Credentials::with_keys("prism", keys, &data, &BTreeMap::new());
        let parts = Parts {
            node: NodeFacts {
                provider_id: format!("nutanix://{UUID}"),
                ..NodeFacts::named("node-1")
            },
            address: Address::parse(&self.cloud.url()).unwrap(),
            secret: ("prism".to_owned(), "1".to_owned()),
            credentials: Arc::new(credentials.unwrap()),
            verification: CertificateCheck::Full {
                ca_bundle_pem: Some(self.cloud.ca_pem().as_bytes().to_vec()),
            },
            rules: local_rules(),
            call_timeout: Duration::from_secs(60),
            command_timeout: Duration::from_secs(60),
            past: Default::default(),
            keyring: Arc::default(),
            accounts: Arc::default(),
            clock: Clock::SYSTEM,
        };
        settings.make(parts).unwrap()
    }

    /// What Nutanix' clients make of the same Prism Central.
    async fn clients(&self, opens: Opens, questions: &[(&'static str, &str)]) -> Value {
        let questions: Vec<(&'static str, String)> = questions
            .iter()
            .map(|(what, name)| (*what, (*name).to_owned()))
            .collect();
        let cloud = Arc::clone(&self.cloud);
        let asks = move || ntnx::asks(&cloud.url(), opens, cloud.ca_pem(), &questions);
        tokio::task::spawn_blocking(asks).await.unwrap().unwrap()
    }
}

async fn read(driver: &Arc<dyn FenceDriver>) -> Reading {
    driver.open().observe().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_of_nutanix_understand_the_prism_central_as_the_driver_does() {
    let prism = Prism::start(4);
    let driver = prism.driver(&[("apiKey", KEY)]);
    let selected = "extId,name,biosUuid,powerState,isAgentVm,isCrossClusterMigrationInProgress";
    let questions = [("read", UUID), ("list", selected), ("named", "node-1")];
    let said = prism.clients(Opens::Key, &questions).await;
    let vm = |state: &str| {
        json!({
            "id": UUID, "name": "node-1", "state": state, "bios": UUID, "agent": false, "moves": false,
        })
    };
    assert_eq!(said[0], vm("ON"));
    assert_eq!(said[1].as_array().map(Vec::len), Some(121), "all pages");
    assert_eq!(said[1][120], uuid_of(120));
    assert_eq!(said[2], json!([vm("ON")]));
    assert_eq!(read(&driver).await.state, PowerState::On);
    let needed = driver.open().probe(Extent::Needed).await.unwrap();
    let requests = prism.cloud.requests();
    let listed = driver.open().probe(Extent::Listed).await.unwrap();
    // The machine is on the first page, and its probe waits for no other.
    prism.cloud.until_requests(requests + 2).await.unwrap();
    assert_eq!(needed.model, listed.model);

    // The clients turn it off, and the driver reads that.
    let succeeded = json!([{"status": "SUCCEEDED", "errors": []}]);
    let off = prism.clients(Opens::Login, &[("off", UUID)]).await;
    assert_eq!(off, succeeded);
    assert!(!prism.machine.is_on());
    assert!(read(&driver).await.is_off());

    // The driver turns it on and off, by user and password, and the clients see that.
    let driver = prism.driver(&[("username", LOGIN[0]), ("password", LOGIN[1])]);
    let mut session = driver.open();
    session.prepare_on().await.unwrap();
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    let questions = [("read", UUID), ("on", UUID), ("read", UUID)];
    let said = prism.clients(Opens::Key, &questions).await;
    assert_eq!(said, json!([vm("OFF"), succeeded[0], vm("ON")]));

    prism.machine.set_power(false);
    let faults = |beside| prism.cloud.faults(move |faults| faults.beside = beside);
    faults(Beside::Memory);
    let said = prism.clients(Opens::Key, &[("read", UUID)]).await;
    assert_eq!(said[0]["state"], "PAUSED");
    assert_eq!(read(&driver).await.state, PowerState::Unknown);
    faults(Beside::OldReport);
    let said = prism.clients(Opens::Key, &[("named", "node-1")]).await;
    assert_eq!(said[0].as_array().map(Vec::len), Some(2));
    let reading = read(&driver).await;
    assert_eq!(reading.faults, ["another VM has its name"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_of_nutanix_read_our_errors() {
    let prism = Prism::start(5);
    let status = |number: u16| json!({"status": number});
    let missing = uuid_of(404);
    prism.cloud.faults(|faults| faults.taken = Taken::Already);
    let said = prism
        .clients(Opens::Key, &[("off", UUID), ("list", "extId")])
        .await;
    assert_eq!(said[0]["status"], "FAILED");
    let already = said[0]["errors"][0].as_str();
    assert!(already.is_some_and(|it| it.ends_with("in state Off")));
    let refused = prism.clients(Opens::WrongKey, &[("read", &missing)]).await;
    assert_eq!(refused, json!([status(401)]));
    prism
        .cloud
        .faults(|faults| faults.access = Access::ReadOnly);
    let denied = prism.clients(Opens::Key, &[("off", UUID)]).await;
    assert_eq!(denied, json!([status(403)]));
    assert!(prism.machine.is_on());
}
