//! Driver `proxmox` against fakepve, a Proxmox VE cluster that none of us wrote: what it makes of each state, and of commands.

use crate::device::local_rules;
use fencing_api::device::ProxmoxDriver;
use fencing_core::reading::{PowerState, Reading};
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{DeviceError, DriverKind, FenceDriver, NodeFacts, OffOutcome, Parts};
use fencing_testbed::bmc::{BmcCa, Plug};
use fencing_testbed::fakepve::{FIRST_VM, FakePve, TOKEN};
use fencing_testbed::power::Power;
use fencing_testbed::process::Guard;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A cluster with two machines, which run: the first on `pve1`, the second on `pve2`.
struct Peer {
    machines: [Arc<Plug>; 2],
    cluster: FakePve,
    _guard: Arc<Guard>,
    _logs: tempfile::TempDir,
}

impl Peer {
    async fn start() -> Self {
        let plug = |number: u8| {
            let uuid = format!("4c4c4544-0042-3510-8054-b4c04f4e4e{number:02}");
            Arc::new(Plug::new(format!("node-{number}"), uuid))
        };
        let machines = [plug(1), plug(2)];
        let plugs: Vec<Arc<dyn Power>> = machines.iter().map(|it| Arc::clone(it) as _).collect();
        let (guard, logs) = (Guard::start().unwrap(), tempfile::tempdir().unwrap());
        let ca = BmcCa::new("a cluster of others").unwrap();
        let cluster = FakePve::start([127, 85, 1, 1].into(), &plugs, &ca, &guard, logs.path());
        Self {
            cluster: cluster.await.unwrap(),
            machines,
            _guard: guard,
            _logs: logs,
        }
    }

    /// The driver for one of them, found as this provider ID says.
    fn driver(&self, machine: usize, provider_id: &str, secret: &str) -> Arc<dyn FenceDriver> {
        let settings = json!({"address": self.cluster.url()});
        let settings: ProxmoxDriver = serde_json::from_value(settings).unwrap();
        let data = [("tokenID", TOKEN[0]), ("tokenSecret", secret)];
        let data = data.map(|(key, value)| (key.to_owned(), value.into()));
        let keys = settings.credential_keys();
        let credentials = Credentials::with_keys("pve", keys, &data.into(), &BTreeMap::new());
        let plug = &self.machines[machine];
        settings
            .make(Parts {
                node: NodeFacts {
                    provider_id: provider_id.to_owned(),
                    system_uuid: plug.system_uuid().to_owned(),
                    ..NodeFacts::named(plug.name())
                },
                address: Address::parse(self.cluster.url()).unwrap(),
                secret: ("pve".to_owned(), "1".to_owned()),
                credentials: Arc::new(credentials.unwrap()),
                verification: CertificateCheck::Full {
                    ca_bundle_pem: Some(self.cluster.ca_pem().as_bytes().to_vec()),
                },
                rules: local_rules(),
                call_timeout: Duration::from_secs(60),
                command_timeout: Duration::from_secs(60),
                past: Default::default(),
                keyring: Arc::default(),
                accounts: Arc::default(),
                clock: Clock::SYSTEM,
            })
            .unwrap()
    }

    /// The machine of this place, found by its name and its UUID.
    fn of(&self, machine: usize) -> Arc<dyn FenceDriver> {
        self.driver(machine, "", TOKEN[1])
    }

    async fn set(&self, machine: u32, field: &str, value: serde_json::Value) {
        self.cluster
            .set(FIRST_VM + machine, field, value)
            .await
            .unwrap();
    }
}

async fn read(driver: &Arc<dyn FenceDriver>) -> Result<Reading, DeviceError> {
    driver.open().observe().await
}

async fn faults(driver: &Arc<dyn FenceDriver>) -> Vec<String> {
    let reading = read(driver).await.unwrap();
    assert_eq!(reading.state, PowerState::Off, "{reading:?}");
    assert!(!reading.is_off(), "{reading:?}");
    reading.faults
}

async fn off(driver: &Arc<dyn FenceDriver>) -> Result<OffOutcome, DeviceError> {
    let mut session = driver.open();
    session.prepare_off().await?;
    session.force_off().await
}

#[tokio::test]
async fn fakepve_stops_a_vm_and_no_other_state_is_off() {
    let peer = Peer::start().await;
    let (first, second) = (peer.of(0), peer.of(1));
    let reading = read(&first).await.unwrap();
    assert_eq!(reading.state, PowerState::On, "{reading:?}");
    assert!(reading.identity.is_system(peer.machines[0].system_uuid()));

    // A lock keeps a VM from being stopped, and one that hibernates reads stopped.
    peer.set(0, "lock", json!("backup")).await;
    let refused = off(&first).await;
    assert!(
        matches!(&refused, Err(DeviceError::Refused { .. })),
        "{refused:?}"
    );
    peer.set(0, "lock", json!(null)).await;
    assert_eq!(off(&first).await.unwrap(), OffOutcome::Accepted);
    assert!(!peer.machines[0].is_on());
    assert!(read(&first).await.unwrap().is_off());
    peer.set(0, "lock", json!("suspended")).await;
    assert_eq!(faults(&first).await, ["lock suspended"]);
    peer.set(0, "lock", json!(null)).await;

    // HA starts it again, elsewhere too.
    peer.set(0, "ha_state", json!("started")).await;
    assert_eq!(faults(&first).await, ["HA state started"]);
    peer.set(0, "ha_state", json!("stopped")).await;
    assert!(read(&first).await.unwrap().is_off());
    peer.set(0, "ha_state", json!(null)).await;

    // What a cluster without a quorum says is what it knew last, and it stops nothing.
    peer.cluster.call("lose_quorum", &[]).await.unwrap();
    assert_eq!(faults(&first).await, ["no quorum of the cluster"]);
    let busy = off(&second).await;
    assert!(matches!(&busy, Err(DeviceError::Busy { .. })), "{busy:?}");
    peer.cluster.call("regain_quorum", &[]).await.unwrap();
    assert!(peer.machines[1].is_on());

    // The VM of a node that does not answer has no state.
    peer.cluster
        .call("set_node_offline", &["pve2"])
        .await
        .unwrap();
    peer.machines[1].set_power(false);
    let silent = read(&second).await.unwrap_err();
    assert_eq!(silent.reason(), "Busy", "{silent}");
    assert!(
        read(&first).await.unwrap().is_off(),
        "two of three nodes are a quorum"
    );
}

#[tokio::test]
async fn fakepve_finds_a_vm_by_its_number_and_lets_no_stranger_in() {
    let peer = Peer::start().await;
    let by_number = peer.driver(1, "proxmox://lab/102", TOKEN[1]);
    let reading = read(&by_number).await.unwrap();
    assert!(reading.identity.is_system(peer.machines[1].system_uuid()));
    // VMIDs are used again: the UUID is that of whoever has the number now.
    let another = peer.driver(1, "proxmox://lab/101", TOKEN[1]);
    let reading = read(&another).await.unwrap();
    assert!(!reading.identity.is_system(peer.machines[1].system_uuid()));
    let none = read(&peer.driver(0, "proxmox://lab/404", TOKEN[1]))
        .await
        .unwrap_err();
    assert!(none.to_string().contains("is no Off"), "{none}");
    let stranger = read(&peer.driver(0, "", "another")).await.unwrap_err();
    assert_eq!(stranger.reason(), "AuthFailed", "{stranger}");

    // What was turned off is turned on by the same account.
    assert_eq!(off(&by_number).await.unwrap(), OffOutcome::Accepted);
    let mut session = by_number.open();
    session.prepare_on().await.unwrap();
    session.power_on().await.unwrap();
    assert!(peer.machines[1].is_on());
    assert_eq!(peer.cluster.switched(1).len(), 2);
}
