//! Driver `vsphere` against vcsim, a vCenter that none of us wrote: what it makes of each state, and of commands.

use crate::device::local_rules;
use fencing_api::device::VsphereDriver;
use fencing_core::reading::{PowerState, Reading};
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{
    DeviceError, DriverKind, Extent, FenceDriver, NodeFacts, OffOutcome, OnOutcome, Parts,
};
use fencing_testbed::bmc::BmcCa;
use fencing_testbed::process::Guard;
use fencing_testbed::vcsim::{LOGIN, Vcsim};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const UUIDS: [&str; 2] = [
    "4c4c4544-0042-3510-8054-b4c04f4e4e31",
    "4c4c4544-0042-3510-8054-b4c04f4e4e32",
];

/// A vCenter with two VMs, which run.
struct Peer {
    vcenter: Vcsim,
    accounts: Arc<fencing_drivers::cloud::account::Accounts>,
    _guard: Arc<Guard>,
    _logs: tempfile::TempDir,
}

impl Peer {
    async fn start(address: [u8; 4]) -> Self {
        let (guard, logs) = (Guard::start().unwrap(), tempfile::tempdir().unwrap());
        let ca = BmcCa::new("a vCenter of others").unwrap();
        let vcenter = Vcsim::start(address.into(), &UUIDS, &ca, &guard, logs.path());
        Self {
            vcenter: vcenter.await.unwrap(),
            accounts: Arc::default(),
            _guard: guard,
            _logs: logs,
        }
    }

    fn driver(&self, uuid: &str, password: &str) -> Arc<dyn FenceDriver> {
        let settings = json!({"address": self.vcenter.url()});
        let settings: VsphereDriver = serde_json::from_value(settings).unwrap();
        let data = [("username", LOGIN[0]), ("password", password)];
        let data = data.map(|(key, value)| (key.to_owned(), value.into()));
        let keys = settings.credential_keys();
        let credentials = Credentials::with_keys("vcenter", keys, &data.into(), &BTreeMap::new());
        settings
            .make(Parts {
                node: NodeFacts {
                    provider_id: format!("vsphere://{uuid}"),
                    ..NodeFacts::named("node-1")
                },
                address: Address::parse(self.vcenter.url()).unwrap(),
                secret: ("vcenter".to_owned(), password.to_owned()),
                credentials: Arc::new(credentials.unwrap()),
                verification: CertificateCheck::Full {
                    ca_bundle_pem: Some(self.vcenter.ca_pem().as_bytes().to_vec()),
                },
                rules: local_rules(),
                call_timeout: Duration::from_secs(60),
                command_timeout: Duration::from_secs(60),
                past: Default::default(),
                keyring: Arc::default(),
                accounts: Arc::clone(&self.accounts),
                clock: Clock::SYSTEM,
            })
            .unwrap()
    }

    fn of(&self, vm: usize) -> Arc<dyn FenceDriver> {
        self.driver(UUIDS[vm], LOGIN[1])
    }

    async fn set(&self, line: &str) {
        self.vcenter.set(line).await.unwrap();
    }
}

async fn read(driver: &Arc<dyn FenceDriver>) -> Result<Reading, DeviceError> {
    driver.open().observe().await
}

async fn faults(driver: &Arc<dyn FenceDriver>) -> Vec<String> {
    let reading = read(driver).await.unwrap();
    assert_eq!(reading.state, PowerState::Off, "{reading:?}");
    reading.faults
}

async fn off(driver: &Arc<dyn FenceDriver>) -> Result<OffOutcome, DeviceError> {
    let mut session = driver.open();
    session.prepare_off().await?;
    session.force_off().await
}

#[tokio::test]
async fn vcsim_turns_a_vm_off_and_no_other_state_is_off() {
    let peer = Peer::start([127, 85, 2, 1]).await;
    let (first, second) = (peer.of(0), peer.of(1));
    for (driver, uuid) in [(&first, UUIDS[0]), (&second, UUIDS[1])] {
        let reading = read(driver).await.unwrap();
        assert_eq!(reading.state, PowerState::On, "{reading:?}");
        assert!(reading.identity.is_system(uuid), "{reading:?}");
    }
    let listed = first.open().probe(Extent::Listed).await.unwrap();
    assert_eq!(listed.reading.state, PowerState::On);
    for _ in 0..2 {
        // The first of them is read by itself, for who it is; the other by a list.
        let listed = first.open().probe(Extent::Listed).await.unwrap();
        assert!(listed.reading.identity.is_system(UUIDS[0]));
    }

    assert_eq!(off(&first).await.unwrap(), OffOutcome::Accepted);
    assert!(read(&first).await.unwrap().is_off());
    assert_eq!(read(&second).await.unwrap().state, PowerState::On);
    let again = off(&first).await.unwrap();
    assert!(matches!(again, OffOutcome::AlreadyOff { .. }), "{again:?}");

    // The last word of a vCenter that has lost the host, or the VM.
    peer.set("host 0 runtime.connectionState notResponding")
        .await;
    assert_eq!(faults(&first).await, ["host notResponding"]);
    peer.set("host 0 runtime.connectionState connected").await;
    peer.set("vm 0 runtime.connectionState disconnected").await;
    assert_eq!(faults(&first).await, ["VM disconnected"]);
    peer.set("vm 0 runtime.connectionState connected").await;
    assert!(read(&first).await.unwrap().is_off());

    let mut session = first.open();
    session.prepare_on().await.unwrap();
    assert_eq!(session.power_on().await.unwrap(), OnOutcome::Accepted);
    assert_eq!(read(&first).await.unwrap().state, PowerState::On);
    peer.set("vm 0 runtime.powerState suspended").await;
    let suspended = read(&first).await.unwrap();
    assert_eq!(suspended.state, PowerState::Unknown, "{suspended:?}");
}

#[tokio::test]
async fn vcsim_lets_no_stranger_in_and_knows_no_other_vm() {
    let peer = Peer::start([127, 85, 2, 2]).await;
    let stranger = read(&peer.driver(UUIDS[0], "wrong")).await.unwrap_err();
    assert_eq!(stranger.reason(), "AuthFailed", "{stranger}");
    assert!(!stranger.to_string().contains("wrong"), "{stranger}");
    let missing = "4c4c4544-0042-3510-8054-b4c04f4e4eff";
    let none = read(&peer.driver(missing, LOGIN[1])).await.unwrap_err();
    assert!(none.to_string().contains("is no Off"), "{none}");
    peer.set(&format!("vm 1 config.uuid {}", UUIDS[0])).await;
    let two = read(&peer.of(0)).await.unwrap_err();
    assert!(two.to_string().contains("2 VMs"), "{two}");
}
