//! Driver `hetznerCloud` and Hetzner's own client at the same project, which is ours: whatever one does, the other sees.

use crate::device::local_rules;
use fencing_api::device::HetznerCloudDriver;
use fencing_core::reading::{PowerState, Reading};
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{DriverKind, Extent, FenceDriver, NodeFacts, OffOutcome, OnOutcome, Parts};
use fencing_testbed::bmc::{BmcCa, Plug};
use fencing_testbed::cloud::hetzner::{ADDRESS, Hetzner, SERVER, TOKEN};
use fencing_testbed::cloud::{Access, Beside, Cloud, Taken};
use fencing_testbed::hcloud;
use fencing_testbed::power::Power;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A project with a machine, which runs, and servers on three pages of the list beside it.
struct Project {
    machine: Arc<Plug>,
    cloud: Arc<Cloud<Hetzner>>,
}

impl Project {
    fn start() -> Self {
        let uuid = "4c4c4544-0042-3510-8054-b4c04f4e4e01";
        let machine = Arc::new(Plug::new("node-1", uuid));
        let ca = BmcCa::new("a project").unwrap();
        let power: Arc<dyn Power> = machine.clone();
        let page = Hetzner { others: 120 };
        let cloud = Cloud::start([127, 85, 1, 4].into(), power, page, &ca).unwrap();
        Self {
            machine,
            cloud: Arc::new(cloud),
        }
    }

    fn driver(&self) -> Arc<dyn FenceDriver> {
        let settings = json!({"address": self.cloud.url()});
        let settings: HetznerCloudDriver = serde_json::from_value(settings).unwrap();
        let data = [("token".to_owned(), TOKEN.into())];
        let keys = settings.credential_keys();
        let credentials = Credentials::with_keys("hetzner", keys, &data.into(), &BTreeMap::new());
        let parts = Parts {
            node: NodeFacts {
                provider_id: format!("hcloud://{SERVER}"),
                addresses: vec![ADDRESS.to_owned()],
                ..NodeFacts::named("node-1")
            },
            address: Address::parse(&self.cloud.url()).unwrap(),
            secret: ("hetzner".to_owned(), "1".to_owned()),
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

    /// What Hetzner's client makes of the same project.
    async fn client(&self, questions: &'static [(&'static str, usize)]) -> Value {
        let cloud = Arc::clone(&self.cloud);
        let asks = move || hcloud::asks(&cloud.url(), TOKEN, cloud.ca_pem(), questions);
        tokio::task::spawn_blocking(asks).await.unwrap().unwrap()
    }
}

async fn read(driver: &Arc<dyn FenceDriver>) -> Reading {
    driver.open().observe().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_hetzner_understands_the_project_as_the_driver_does() {
    let project = Project::start();
    let driver = project.driver();
    let said = project
        .client(&[("read", SERVER), ("list", 0), ("actions", SERVER)])
        .await;
    let server = json!({
        "id": SERVER, "name": "node-1", "status": "running", "locked": false, "rescue_enabled": false,
        "address": ADDRESS, "ipv6": "2001:db8:1:2::/64", "type": "cpx31",
    });
    assert_eq!(said[0], server);
    assert_eq!(said[1].as_array().map(Vec::len), Some(121), "all pages");
    assert_eq!(said[2][0]["command"], "start_server");
    assert_eq!(read(&driver).await.state, PowerState::On);
    let listed = driver.open().probe(Extent::Needed).await.unwrap();
    let again = driver.open().probe(Extent::Listed).await.unwrap();
    assert_eq!(listed.model, again.model);

    // The client turns it off, and the driver reads that.
    let stopped = json!({"id": 13, "command": "stop_server", "status": "success"});
    assert_eq!(project.client(&[("off", SERVER)]).await, json!([stopped]));
    assert!(!project.machine.is_on());
    assert!(read(&driver).await.is_off());
    // What is off is turned off once more without an error.
    assert_eq!(project.client(&[("off", SERVER)]).await, json!([stopped]));

    // The driver turns it on and off, and the client sees that.
    let mut session = driver.open();
    session.prepare_on().await.unwrap();
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    let said = project
        .client(&[("read", SERVER), ("actions", SERVER)])
        .await;
    assert_eq!(said[0]["status"], "off");
    assert_eq!(said[1][0], stopped);

    project
        .cloud
        .faults(|faults| faults.beside = Beside::OldReport);
    let said = project.client(&[("actions", SERVER)]).await;
    assert_eq!(said[0][0]["command"], "create_server");
    assert_eq!(read(&driver).await.faults, ["action create_server success"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_hetzner_reads_the_codes_of_our_errors() {
    let project = Project::start();
    let code = |word: &str| json!([{"code": word}]);
    assert_eq!(project.client(&[("read", 404)]).await, code("not_found"));
    project.cloud.faults(|faults| faults.taken = Taken::Refused);
    assert_eq!(
        project.client(&[("off", SERVER)]).await,
        code("resource_locked")
    );
    project
        .cloud
        .faults(|faults| faults.access = Access::ReadOnly);
    assert_eq!(
        project.client(&[("off", SERVER)]).await,
        code("token_readonly")
    );
    project
        .cloud
        .faults(|faults| faults.access = Access::Refused);
    assert_eq!(
        project.client(&[("read", SERVER)]).await,
        code("unauthorized")
    );
    assert!(project.machine.is_on());
}
