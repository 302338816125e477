//! Driver `openstack` against Keystone and Nova, which none of us wrote: what it makes of each state, of a dead host, and of credentials.

use crate::device::local_rules;
use fencing_api::device::OpenstackDriver;
use fencing_core::reading::{PowerState, Reading};
use fencing_drivers::clock::Clock;
use fencing_drivers::cloud::account::Accounts;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{
    DeviceError, DriverKind, Extent, FenceDriver, NodeFacts, OffOutcome, OnOutcome, Parts,
};
use fencing_testbed::bmc::{BmcCa, Plug};
use fencing_testbed::openstack_peer::OpenstackPeer;
use fencing_testbed::power::Power;
use fencing_testbed::process::Guard;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A cloud with three instances, which run on one host.
struct Peer {
    machines: [Arc<Plug>; 3],
    cloud: OpenstackPeer,
    accounts: Arc<Accounts>,
    _guard: Arc<Guard>,
    _logs: tempfile::TempDir,
}

impl Peer {
    async fn start() -> Self {
        let machines = [1, 2, 3].map(|number| {
            let uuid = format!("4c4c4544-0042-3510-8054-b4c04f4e4e{number:02}");
            Arc::new(Plug::new(format!("node-{number}"), uuid))
        });
        let plugs: Vec<Arc<dyn Power>> = machines.iter().map(|it| Arc::clone(it) as _).collect();
        let (guard, logs) = (Guard::start().unwrap(), tempfile::tempdir().unwrap());
        let ca = BmcCa::new("a cloud of others").unwrap();
        let cloud = OpenstackPeer::start([127, 85, 3, 1].into(), &plugs, &ca, &guard, logs.path());
        Self {
            cloud: cloud.await.unwrap(),
            machines,
            accounts: Arc::default(),
            _guard: guard,
            _logs: logs,
        }
    }

    fn id(&self, machine: usize) -> &str {
        self.machines[machine].system_uuid()
    }

    /// The driver for this instance, with an application credential.
    fn driver(&self, machine: usize, credential: &str) -> Arc<dyn FenceDriver> {
        let [id, secret] = self.cloud.credential(credential).unwrap();
        self.with(machine, [&id, &secret], json!({}))
    }

    /// The same, with an ID and a secret, and more settings.
    fn with(&self, machine: usize, login: [&str; 2], more: Value) -> Arc<dyn FenceDriver> {
        self.of(machine, login, more, &self.accounts)
    }

    fn of(
        &self,
        machine: usize,
        [id, secret]: [&str; 2],
        more: Value,
        accounts: &Arc<Accounts>,
    ) -> Arc<dyn FenceDriver> {
        let mut settings = json!({"authURL": self.cloud.auth_url()});
        settings
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let settings: OpenstackDriver = serde_json::from_value(settings).unwrap();
        let data = [
            ("applicationCredentialID", id),
            ("applicationCredentialSecret", secret),
        ];
        let data = data.map(|(key, value)| (key.to_owned(), value.into()));
        let keys = settings.credential_keys();
        let credentials = Credentials::with_keys("cloud", keys, &data.into(), &BTreeMap::new());
        settings
            .make(Parts {
                node: NodeFacts {
                    provider_id: format!("openstack:///{}", self.id(machine)),
                    ..NodeFacts::named(self.machines[machine].name())
                },
                address: settings.expand("").unwrap(),
                secret: ("cloud".to_owned(), format!("{id} {secret}")),
                credentials: Arc::new(credentials.unwrap()),
                verification: CertificateCheck::Full {
                    ca_bundle_pem: Some(self.cloud.ca_pem().as_bytes().to_vec()),
                },
                rules: local_rules(),
                call_timeout: Duration::from_secs(60),
                command_timeout: Duration::from_secs(60),
                past: Default::default(),
                keyring: Arc::default(),
                accounts: Arc::clone(accounts),
                clock: Clock::SYSTEM,
            })
            .unwrap()
    }

    async fn act(&self, machine: usize, action: &str, state: &str) {
        let action = json!({action: null});
        self.cloud
            .act_until(self.id(machine), &action, state)
            .await
            .unwrap();
    }
}

async fn read(driver: &Arc<dyn FenceDriver>) -> Result<Reading, DeviceError> {
    driver.open().observe().await
}

async fn state(driver: &Arc<dyn FenceDriver>) -> PowerState {
    let reading = read(driver).await.unwrap();
    assert!(!reading.is_off(), "{reading:?}");
    reading.state
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

/// One cloud for all: it takes six seconds and 400 MB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nova_stops_an_instance_and_no_other_state_is_off() {
    let peer = Peer::start().await;
    a_stop_that_its_host_carried_out_is_off(&peer).await;
    no_other_state_is_off(&peer).await;
    a_dead_host_is_never_off(&peer).await;
    credentials(&peer).await;
}

async fn a_stop_that_its_host_carried_out_is_off(peer: &Peer) {
    let (fence, admin) = (peer.driver(0, "fence"), peer.driver(0, "admin"));
    let reading = read(&fence).await.unwrap();
    assert_eq!(reading.state, PowerState::On, "{reading:?}");
    assert!(reading.identity.is_system(peer.id(0)));
    for _ in 0..2 {
        // First read by itself, for who it is; then by a list.
        let listed = fence.open().probe(Extent::Listed).await.unwrap();
        assert_eq!(listed.reading.state, PowerState::On);
        assert!(listed.reading.identity.is_system(peer.id(0)));
    }
    let logins = peer.cloud.logins().unwrap();
    assert_eq!(off(&fence).await.unwrap(), OffOutcome::Accepted);
    assert!(!peer.machines[0].is_on());
    assert!(read(&fence).await.unwrap().is_off());
    let again = off(&fence).await.unwrap();
    assert!(matches!(again, OffOutcome::AlreadyOff { .. }), "{again:?}");
    assert_eq!(
        peer.cloud.logins().unwrap(),
        logins,
        "one token serves them all"
    );
    // Whatever is done after the stop, the stop says nothing of it.
    let mut session = fence.open();
    session.prepare_on().await.unwrap();
    assert_eq!(session.power_on().await.unwrap(), OnOutcome::Accepted);
    assert!(peer.machines[0].is_on());
    assert_eq!(state(&fence).await, PowerState::On);
    peer.act(0, "os-stop", "stopped").await;
    assert!(
        read(&fence).await.unwrap().is_off(),
        "a stop of others is one"
    );
    peer.act(0, "lock", "stopped").await;
    for driver in [&fence, &admin] {
        assert_eq!(faults(driver).await, ["a last action that is no stop"]);
    }
    peer.act(0, "unlock", "stopped").await;
    peer.act(0, "os-start", "active").await;
}

async fn no_other_state_is_off(peer: &Peer) {
    let fence = peer.driver(1, "fence");
    for (action, back, vm_state) in [
        ("pause", "unpause", "paused"),
        ("suspend", "resume", "suspended"),
        ("rescue", "unrescue", "rescued"),
        ("shelve", "unshelve", "shelved_offloaded"),
    ] {
        peer.act(1, action, vm_state).await;
        let wanted = match vm_state {
            "rescued" => PowerState::On,
            _ => PowerState::Unknown,
        };
        assert_eq!(state(&fence).await, wanted, "{vm_state}");
        let refused = off(&fence).await.unwrap_err();
        assert_eq!(refused.reason(), "Refused", "{vm_state}: {refused}");
        peer.act(1, back, "active").await;
    }
    peer.act(1, "lock", "active").await;
    let locked = off(&fence).await.unwrap_err();
    assert_eq!(locked.reason(), "Refused", "{locked}");
    peer.act(1, "unlock", "active").await;
    assert!(peer.machines[1].is_on());
}

async fn a_dead_host_is_never_off(peer: &Peer) {
    let (fence, admin) = (peer.driver(2, "fence"), peer.driver(2, "admin"));
    peer.cloud.set_compute(false).await.unwrap();
    let mut session = peer.driver(2, "fence").open();
    session.prepare_off().await.unwrap();
    let taken = tokio::time::timeout(Duration::from_secs(3), session.force_off()).await;
    assert!(
        taken.is_err(),
        "it has been taken, and nothing comes of it: {taken:?}"
    );
    for driver in [&fence, &admin] {
        assert_eq!(state(driver).await, PowerState::On);
    }
    let busy = off(&fence).await.unwrap_err();
    assert_eq!(busy.reason(), "Busy", "{busy}");
    assert!(peer.machines[2].is_on());

    // The host carries out what waited for it, twice.
    peer.cloud.set_compute(true).await.unwrap();
    peer.cloud.until(peer.id(2), "stopped").await.unwrap();
    assert!(!peer.machines[2].is_on());
    let mut reading = read(&fence).await.unwrap();
    for _ in 0..100 {
        if reading.is_off() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        reading = read(&fence).await.unwrap();
    }
    assert!(reading.is_off(), "{reading:?}");

    // A start that waits for its host: nothing says that it is off by now.
    peer.cloud.set_compute(false).await.unwrap();
    peer.cloud
        .act(peer.id(2), &json!({"os-start": null}))
        .await
        .unwrap();
    for driver in [&fence, &admin] {
        let faults = faults(driver).await;
        assert_eq!(faults, ["task powering-on"]);
    }
    peer.cloud.set_compute(true).await.unwrap();
    peer.cloud.until(peer.id(2), "active").await.unwrap();
}

async fn credentials(peer: &Peer) {
    // A path outside of the access rules is answered as if there were no login at all.
    let blind = peer.driver(0, "no_instances");
    let mut logins = Vec::new();
    for _ in 0..2 {
        let denied = read(&blind).await.unwrap_err();
        assert_eq!(denied.reason(), "PermissionDenied", "{denied}");
        assert!(!denied.refuses_credentials());
        assert!(denied.to_string().contains("access rules"), "{denied}");
        logins.push(peer.cloud.logins().unwrap());
    }
    assert_eq!(logins[0], logins[1], "no second login follows");
    let powerless = peer.driver(0, "no_commands");
    assert_eq!(state(&powerless).await, PowerState::On);
    let denied = off(&powerless).await.unwrap_err();
    assert_eq!(denied.reason(), "PermissionDenied", "{denied}");
    assert!(peer.machines[0].is_on());

    let [id, _] = peer.cloud.credential("fence").unwrap();
    for (id, secret) in [(id.as_str(), "another"), ("none", "another")] {
        let stranger = read(&peer.with(0, [id, secret], json!({})))
            .await
            .unwrap_err();
        assert_eq!(stranger.reason(), "AuthFailed", "{stranger}");
        assert!(!stranger.to_string().contains("another"), "{stranger}");
    }
    // One that has been revoked is no login any more, and its token may live on for as long as Nova remembers it.
    let [id, secret] = peer.cloud.credential("revoked").unwrap();
    let known = peer.with(0, [&id, &secret], json!({}));
    assert_eq!(state(&known).await, PowerState::On);
    peer.cloud.revoke("revoked").await.unwrap();
    let later = read(&known).await;
    let denied = later.as_ref().err().map(DeviceError::reason);
    assert!(
        matches!(denied, None | Some("PermissionDenied")),
        "{later:?}"
    );
    let other = peer.of(0, [&id, &secret], json!({}), &Arc::default());
    let refused = read(&other).await.unwrap_err();
    assert_eq!(refused.reason(), "AuthFailed", "{refused}");

    let [id, secret] = peer.cloud.credential("fence").unwrap();
    let here = peer.with(0, [&id, &secret], json!({"region": "north"}));
    assert_eq!(state(&here).await, PowerState::On);
    let elsewhere = peer.with(0, [&id, &secret], json!({"region": "south"}));
    let missing = read(&elsewhere).await.unwrap_err();
    assert_eq!(missing.reason(), "SettingsInvalid", "{missing}");
    assert!(missing.to_string().contains("north"), "{missing}");
}
