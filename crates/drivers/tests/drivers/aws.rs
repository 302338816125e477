//! Driver `aws` against moto, a model of AWS that none of us wrote: our signatures, IAM's policies and a role, and what it makes of each state.

use crate::device::local_rules;
use fencing_api::device::AwsDriver;
use fencing_core::reading::{PowerState, Reading};
use fencing_drivers::clock::Clock;
use fencing_drivers::cloud::account::Accounts;
use fencing_drivers::cloud::surroundings::{AwsRole, Surroundings};
use fencing_drivers::credentials::Credentials;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{
    DeviceError, DriverKind, Extent, FenceDriver, NodeFacts, OffOutcome, OnOutcome, Parts,
};
use fencing_testbed::bmc::BmcCa;
use fencing_testbed::moto::{Moto, REGION};
use fencing_testbed::process::Guard;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A region with three instances, which run.
struct Peer {
    moto: Moto,
    accounts: Arc<Accounts>,
    _guard: Arc<Guard>,
    logs: tempfile::TempDir,
}

impl Peer {
    async fn start() -> Self {
        let (guard, logs) = (Guard::start().unwrap(), tempfile::tempdir().unwrap());
        let ca = BmcCa::new("a region of others").unwrap();
        let moto = Moto::start([127, 85, 4, 1].into(), 3, &ca, &guard, logs.path());
        Self {
            moto: moto.await.unwrap(),
            accounts: Arc::default(),
            _guard: guard,
            logs,
        }
    }

    /// The driver for this instance, with these keys; none: what the pod was given.
    fn driver(&self, place: usize, key: Option<[&str; 2]>) -> Arc<dyn FenceDriver> {
        let [id, address] = self.moto.instance(place).unwrap();
        self.with(id, address, key, &self.accounts)
    }

    fn with(
        &self,
        id: &str,
        address: &str,
        key: Option<[&str; 2]>,
        accounts: &Arc<Accounts>,
    ) -> Arc<dyn FenceDriver> {
        let settings = json!({"region": REGION, "endpoint": self.moto.url()});
        let settings: AwsDriver = serde_json::from_value(settings).unwrap();
        let credentials = key.map_or_else(Credentials::nobody, |[id, secret]| {
            let data = [("accessKeyID", id), ("secretAccessKey", secret)];
            let data = data.map(|(key, value)| (key.to_owned(), value.into()));
            let keys = settings.credential_keys();
            Credentials::with_keys("aws", keys, &data.into(), &BTreeMap::new()).unwrap()
        });
        settings
            .make(Parts {
                node: NodeFacts {
                    provider_id: format!("aws:///{REGION}a/{id}"),
                    addresses: vec![address.to_owned()],
                    ..NodeFacts::named("node-1")
                },
                address: settings.expand("").unwrap(),
                secret: ("aws".to_owned(), key.unwrap_or_default().concat()),
                credentials: Arc::new(credentials),
                verification: CertificateCheck::Full {
                    ca_bundle_pem: Some(self.moto.ca_pem().as_bytes().to_vec()),
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

    fn of(&self, place: usize, user: &str) -> Arc<dyn FenceDriver> {
        self.driver(place, Some(self.moto.key(user).unwrap()))
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

/// One region for all: it takes some seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moto_stops_an_instance_and_no_other_state_is_off() {
    let peer = Peer::start().await;
    states(&peer).await;
    keys(&peer).await;
    a_role(&peer).await;
}

async fn states(peer: &Peer) {
    let fence = peer.of(0, "fence");
    for _ in 0..2 {
        // First read by itself, then by a list.
        let probe = fence.open().probe(Extent::Listed).await.unwrap();
        assert_eq!(probe.reading.state, PowerState::On);
        assert_eq!(probe.off_denied, None);
        assert_eq!(probe.model.as_deref(), Some("m5.large"));
    }
    assert_eq!(off(&fence).await.unwrap(), OffOutcome::Accepted);
    let reading = read(&fence).await.unwrap();
    assert!(reading.is_off(), "{reading:?}");
    for reason in [
        "Client.UserInitiatedHibernate",
        "Server.SpotInstanceShutdown",
    ] {
        peer.moto.set_reason(0, reason).await.unwrap();
        let faults = faults(&fence).await;
        assert_eq!(faults[0], format!("reason {reason}"));
    }
    let mut session = fence.open();
    session.prepare_on().await.unwrap();
    let refused = session.power_on().await.unwrap_err();
    assert_eq!(refused.reason(), "Refused", "{refused}");
    let stopped = "Client.UserInitiatedShutdown";
    peer.moto.set_reason(0, stopped).await.unwrap();
    session.prepare_on().await.unwrap();
    assert_eq!(session.power_on().await.unwrap(), OnOutcome::Accepted);
    assert_eq!(read(&fence).await.unwrap().state, PowerState::On);

    let protected = |on| json!({"InstanceId": peer.moto.instance(1).unwrap()[0], "DisableApiStop": {"Value": on}});
    let second = peer.of(1, "fence");
    let change = "modify_instance_attribute";
    peer.moto.call(1, change, protected(true)).await.unwrap();
    let refused = off(&second).await.unwrap_err();
    assert_eq!(refused.reason(), "Refused", "{refused}");
    assert_eq!(read(&second).await.unwrap().state, PowerState::On);
    peer.moto.call(1, change, protected(false)).await.unwrap();

    // One that is gone for good has no address any more.
    let third = peer.of(2, "fence");
    assert_eq!(read(&third).await.unwrap().state, PowerState::On);
    let all = json!({"InstanceIds": null});
    peer.moto.call(2, "terminate_instances", all).await.unwrap();
    let reading = read(&third).await.unwrap();
    assert!(reading.is_off(), "{reading:?}");
}

async fn keys(peer: &Peer) {
    let [id, secret] = peer.moto.key("fence").unwrap();
    for key in [[id, "another"], ["AKIAUNKNOWN", secret]] {
        let stranger = read(&peer.driver(1, Some(key))).await.unwrap_err();
        assert_eq!(stranger.reason(), "AuthFailed", "{stranger}");
        assert!(!stranger.to_string().contains(secret), "{stranger}");
    }
    let blind = read(&peer.of(1, "stranger")).await.unwrap_err();
    assert_eq!(blind.reason(), "PermissionDenied", "{blind}");
    let reader = peer.of(1, "reader");
    assert_eq!(read(&reader).await.unwrap().state, PowerState::On);
    let denied = off(&reader).await.unwrap_err();
    assert_eq!(denied.reason(), "PermissionDenied", "{denied}");
    let probe = reader.open().probe(Extent::Needed).await.unwrap();
    let denied = probe.off_denied.expect("it is denied in peace time, too");
    assert!(denied.to_string().contains("ec2:StopInstances"), "{denied}");

    let [_, address] = peer.moto.instance(1).unwrap();
    let missing = peer.with(
        "i-0000000000000000f",
        address,
        Some([id, secret]),
        &peer.accounts,
    );
    let none = read(&missing).await.unwrap_err();
    assert!(none.to_string().contains("is no Off"), "{none}");
    let [other, _] = peer.moto.instance(0).unwrap();
    let foreign = peer.with(other, address, Some([id, secret]), &peer.accounts);
    let refused = off(&foreign).await.unwrap_err();
    assert!(
        refused.to_string().contains("no address of the Node"),
        "{refused}"
    );
}

async fn a_role(peer: &Peer) {
    let token_file = peer.logs.path().join("token");
    // moto does not look into the token; it does look at the signatures with the keys that it gives for one.
    std::fs::write(&token_file, "eyJhbGciOi.eyJzdWIi.sig").unwrap();
    let of = |arn: &str| {
        let role = AwsRole {
            arn: arn.to_owned(),
            token_file: token_file.clone(),
            sts: Some(peer.moto.url().to_owned()),
        };
        let accounts = Accounts::in_these(Surroundings {
            role: Some(role),
            ..Surroundings::default()
        });
        let [id, address] = peer.moto.instance(1).unwrap();
        peer.with(id, address, None, &Arc::new(accounts))
    };
    let fence = of(peer.moto.role());
    assert_eq!(read(&fence).await.unwrap().state, PowerState::On);
    assert_eq!(off(&fence).await.unwrap(), OffOutcome::Accepted);
    assert!(read(&fence).await.unwrap().is_off());
    let other = read(&of("arn:aws:iam::123456789012:role/other")).await;
    other.unwrap_err();
}
