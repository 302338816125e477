//! Driver `azure` and Microsoft's own client at the same cloud, which is ours: whatever one does, the other sees.

use crate::device::local_rules;
use fencing_api::device::AzureDriver;
use fencing_core::reading::{PowerState, Reading};
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{DriverKind, Extent, FenceDriver, NodeFacts, OffOutcome, OnOutcome, Parts};
use fencing_testbed::azure_mgmt;
use fencing_testbed::bmc::{BmcCa, Plug};
use fencing_testbed::cloud::azure::{APP, Azure, GROUP, INSTANCE, NAME};
use fencing_testbed::cloud::{Access, Beside, Cloud, Taken};
use fencing_testbed::power::Power;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const UUID: &str = "4c4c4544-0042-3510-8054-b4c04f4e4e01";
/// The names of the machine.
const MACHINE: &[&str] = &[GROUP, NAME];
/// The same of an instance of a scale set.
const SET: &[&str] = &[GROUP, INSTANCE[0], INSTANCE[1]];

/// A cloud with a machine, which runs, and others on three pages of the list beside it.
struct Project {
    machine: Arc<Plug>,
    cloud: Arc<Cloud<Azure>>,
    page: Azure,
}

impl Project {
    fn start(is_instance: bool) -> Self {
        let machine = Arc::new(Plug::new(NAME, UUID));
        let ca = BmcCa::new("a cloud").unwrap();
        let power: Arc<dyn Power> = machine.clone();
        let page = Azure {
            others: 120,
            is_instance,
        };
        let cloud = Cloud::start([127, 85, 1, 9].into(), power, page, &ca).unwrap();
        Self {
            machine,
            cloud: Arc::new(cloud),
            page,
        }
    }

    fn driver(&self) -> Arc<dyn FenceDriver> {
        let url = self.cloud.url();
        let settings = json!({"address": url, "loginAddress": url});
        let settings: AzureDriver = serde_json::from_value(settings).unwrap();
        let keys = settings.credential_keys();
        let data = keys.iter().zip(APP);
        let data = data.map(|(key, value)| ((*key).to_owned(), value.into()));
        let data: BTreeMap<String, Vec<u8>> = data.collect();
        let credentials = Credentials::with_keys("azure", keys, &data, &BTreeMap::new());
        let parts = Parts {
            node: NodeFacts {
                provider_id: self.page.provider_id(),
                system_uuid: UUID.to_owned(),
                ..NodeFacts::named(NAME)
            },
            address: Address::parse(&url).unwrap(),
            secret: ("azure".to_owned(), "1".to_owned()),
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

    /// What Microsoft's client makes of the same cloud.
    async fn client(&self, questions: &'static [(&'static str, &'static [&'static str])]) -> Value {
        let cloud = Arc::clone(&self.cloud);
        let asks = move || azure_mgmt::asks(&cloud.url(), cloud.ca_pem(), questions);
        tokio::task::spawn_blocking(asks).await.unwrap().unwrap()
    }

    /// One after the other the client and the driver turn the machine off and on, and each sees what the other did.
    async fn both(&self, questions: [&'static [(&'static str, &'static [&'static str])]; 3]) {
        let [look, off, again] = questions;
        let driver = self.driver();
        let said = self.client(look).await;
        assert_eq!(said[0]["uuid"], UUID);
        assert_eq!(said[0]["size"], "Standard_D4s_v5");
        let running = ["ProvisioningState/succeeded", "PowerState/running"];
        assert_eq!(said[0]["codes"], json!(running));
        assert_eq!(said[1].as_array().map(Vec::len), Some(121), "all pages");
        let reading = read(&driver).await;
        assert_eq!(reading.state, PowerState::On);
        assert!(reading.identity.is_system(UUID));
        let listed = driver.open().probe(Extent::Needed).await.unwrap();
        let again_listed = driver.open().probe(Extent::Listed).await.unwrap();
        assert_eq!(listed.model, again_listed.model);

        assert_eq!(self.client(off).await, json!(["Succeeded"]));
        assert!(!self.machine.is_on());
        assert!(read(&driver).await.is_off());

        let mut session = driver.open();
        session.prepare_on().await.unwrap();
        assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
        session.prepare_off().await.unwrap();
        assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
        let said = self.client(again).await;
        let stopped = ["ProvisioningState/succeeded", "PowerState/stopped"];
        assert_eq!(said[0]["codes"], json!(stopped));
        assert_eq!(said[1], "Succeeded");
        assert!(self.machine.is_on());
    }
}

async fn read(driver: &Arc<dyn FenceDriver>) -> Reading {
    driver.open().observe().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_azure_understands_a_virtual_machine_as_the_driver_does() {
    let project = Project::start(false);
    project
        .both([
            &[("read", MACHINE), ("list", MACHINE)],
            &[("off and wait", MACHINE)],
            &[("read", MACHINE), ("on and wait", MACHINE)],
        ])
        .await;
    // What is hibernated reads deallocated to both, and is off to neither.
    project.machine.set_power(false);
    project
        .cloud
        .faults(|faults| faults.beside = Beside::Memory);
    let said = project.client(&[("read", MACHINE)]).await;
    assert_eq!(said[0]["codes"][1], "PowerState/deallocated");
    let reading = read(&project.driver()).await;
    assert_eq!(reading.faults, ["HibernationState Hibernated"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_azure_understands_a_scale_set_as_the_driver_does() {
    let project = Project::start(true);
    project
        .both([
            &[("read", SET), ("list", SET)],
            &[("off and wait", SET)],
            &[("read", SET), ("on and wait", SET)],
        ])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_azure_reads_the_codes_of_our_errors() {
    let project = Project::start(false);
    let code = |status: u16, word: &str| json!([{"status": status, "code": word}]);
    project.cloud.faults(|faults| faults.taken = Taken::Already);
    assert_eq!(
        project.client(&[("off", MACHINE)]).await,
        code(409, "OperationNotAllowed")
    );
    project
        .cloud
        .faults(|faults| faults.access = Access::ReadOnly);
    assert_eq!(
        project.client(&[("off", MACHINE)]).await,
        code(403, "AuthorizationFailed")
    );
    project
        .cloud
        .faults(|faults| faults.access = Access::Refused);
    assert_eq!(
        project.client(&[("read", MACHINE)]).await,
        code(401, "InvalidAuthenticationToken")
    );
    assert!(project.machine.is_on());
}
