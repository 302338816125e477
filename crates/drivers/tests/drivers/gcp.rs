//! Driver `gcp` and Google's own client at the same project, which is ours: whatever one does, the other sees.

use crate::device::local_rules;
use fencing_api::device::GcpDriver;
use fencing_core::reading::{PowerState, Reading};
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{DriverKind, Extent, FenceDriver, NodeFacts, OffOutcome, OnOutcome, Parts};
use fencing_testbed::bmc::{BmcCa, Plug};
use fencing_testbed::cloud::gcp::{ADDRESS, Gcp, KEY, NUMBER, PROJECT, ZONE};
use fencing_testbed::cloud::{Access, Beside, Cloud};
use fencing_testbed::google_compute;
use fencing_testbed::power::Power;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A project with a machine, which runs, and instances on two pages of the driver's list beside it.
struct Project {
    machine: Arc<Plug>,
    cloud: Arc<Cloud<Gcp>>,
}

impl Project {
    fn start(address: [u8; 4], page: Gcp) -> Self {
        let uuid = "4c4c4544-0042-3510-8054-b4c04f4e4e01";
        let machine = Arc::new(Plug::new("node-1", uuid));
        let ca = BmcCa::new("a project").unwrap();
        let power: Arc<dyn Power> = machine.clone();
        let cloud = Cloud::start(IpAddr::from(address), power, page, &ca).unwrap();
        Self {
            machine,
            cloud: Arc::new(cloud),
        }
    }

    fn driver(&self, local_ssd: &str) -> Arc<dyn FenceDriver> {
        let settings =
            json!({"project": PROJECT, "endpoint": self.cloud.url(), "localSSD": local_ssd});
        let settings: GcpDriver = serde_json::from_value(settings).unwrap();
        let data = [("key.json".to_owned(), KEY.into())];
        let keys = settings.credential_keys();
        let credentials = Credentials::with_keys("gcp", keys, &data.into(), &BTreeMap::new());
        let parts = Parts {
            node: NodeFacts {
                provider_id: format!("gce://{PROJECT}/{ZONE}/node-1"),
                addresses: vec![ADDRESS.to_owned()],
                ..NodeFacts::named("node-1")
            },
            address: Address::parse(&self.cloud.url()).unwrap(),
            secret: ("gcp".to_owned(), "1".to_owned()),
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

    /// What Google's client makes of the same project.
    async fn client(&self, questions: &'static [(&'static str, &'static str)]) -> Value {
        let cloud = Arc::clone(&self.cloud);
        let asks = move || google_compute::asks(&cloud.url(), cloud.ca_pem(), questions);
        tokio::task::spawn_blocking(asks).await.unwrap().unwrap()
    }
}

async fn read(driver: &Arc<dyn FenceDriver>) -> Reading {
    driver.open().observe().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_google_understands_the_project_as_the_driver_does() {
    let page = Gcp {
        others: 520,
        ..Gcp::default()
    };
    let project = Project::start([127, 85, 7, 1], page);
    let driver = project.driver("Refuse");
    let said = project
        .client(&[("read", "node-1"), ("list", ""), ("may", "node-1")])
        .await;
    let instance = json!({
        "id": NUMBER.to_string(), "name": "node-1", "status": "RUNNING", "address": ADDRESS, "disks": ["PERSISTENT"], "restarts": true,
        "metadata": ["created-by", "instance-template"],
    });
    assert_eq!(said[0], instance);
    assert_eq!(said[1].as_array().map(Vec::len), Some(521), "all pages");
    assert_eq!(said[2], json!(["compute.instances.stop"]));
    assert_eq!(read(&driver).await.state, PowerState::On);
    let needed = driver.open().probe(Extent::Needed).await.unwrap();
    assert_eq!(needed.off_denied, None);
    assert_eq!(
        needed.restarter.as_deref(),
        Some("a managed instance group")
    );
    let requests = project.cloud.requests();
    let listed = driver.open().probe(Extent::Listed).await.unwrap();
    // The machine is on the first page, and its probe waits for no other.
    project.cloud.until_requests(requests + 2).await.unwrap();
    assert_eq!(
        (listed.model, listed.restarter),
        (needed.model, needed.restarter)
    );

    // The client turns it off, and the driver reads that.
    let stopped = json!({"type": "stop", "status": "DONE", "target": NUMBER.to_string()});
    assert_eq!(project.client(&[("off", "node-1")]).await, json!([stopped]));
    assert!(!project.machine.is_on());
    assert!(read(&driver).await.is_off());

    // The driver turns it on and off by its number, and the client sees that.
    let mut session = driver.open();
    session.prepare_on().await.unwrap();
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    // What is off is turned off once more without an error.
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    let said = project.client(&[("read", "node-1")]).await;
    assert_eq!(said[0]["status"], "TERMINATED");
    for (beside, status) in [
        (Beside::Memory, "SUSPENDED"),
        (Beside::OldReport, "REPAIRING"),
        (Beside::AtWork, "STOPPING"),
    ] {
        project.cloud.faults(|faults| faults.beside = beside);
        let reading = read(&driver).await;
        assert!(!reading.is_off(), "{reading:?}");
        assert_eq!(reading.raw, status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_google_reads_the_reasons_of_our_errors() {
    let page = Gcp {
        others: 0,
        has_local_ssd: true,
    };
    let project = Project::start([127, 85, 7, 2], page);
    let code = |code: u16, reason: &str| json!({"code": code, "reasons": [reason]});
    let said = project
        .client(&[("read", "node-404"), ("read", "node-1")])
        .await;
    assert_eq!(said[0], code(404, "notFound"));
    assert_eq!(said[1]["disks"], json!(["PERSISTENT", "SCRATCH"]));
    let keeps = project.driver("Refuse");
    let probe = keeps.open().probe(Extent::Needed).await.unwrap();
    let lost = probe
        .off_denied
        .expect("its disk would be lost")
        .to_string();
    assert!(lost.contains("gcp.localSSD"), "{lost}");
    let mut session = keeps.open();
    session.prepare_off().await.unwrap();
    session.force_off().await.unwrap_err();
    assert!(project.machine.is_on());

    let discards = project.driver("Discard");
    project
        .cloud
        .faults(|faults| faults.access = Access::ReadOnly);
    assert_eq!(
        project.client(&[("off", "node-1")]).await,
        json!([code(403, "forbidden")])
    );
    let mut session = discards.open();
    session.prepare_off().await.unwrap();
    let denied = session.force_off().await.unwrap_err();
    assert_eq!(denied.reason(), "PermissionDenied");
    project
        .cloud
        .faults(|faults| faults.access = Access::Refused);
    assert_eq!(
        project.client(&[("read", "node-1")]).await,
        json!([code(401, "authError")])
    );
    assert_eq!(
        discards.open().observe().await.unwrap_err().reason(),
        "AuthFailed"
    );
    assert!(project.machine.is_on());

    project.cloud.faults(|faults| *faults = Default::default());
    let mut session = discards.open();
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    assert!(!project.machine.is_on());
}
