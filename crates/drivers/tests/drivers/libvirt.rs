//! Driver `libvirt` against a daemon of our own, for what the real one does not do on demand: migrations, lost answers, packets that are none.

use crate::device::local_rules;
use fencing_api::device::LibvirtDriver;
use fencing_core::reading::PowerState;
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{
    DeviceError, DriverKind, Extent, FenceDriver, NodeFacts, OffOutcome, OnOutcome, Parts,
};
use fencing_testbed::bmc::{BmcCa, Plug};
use fencing_testbed::cloud::libvirt::{HOST, Libvirt, LibvirtFaults};
use fencing_testbed::cloud::{Access, Taken};
use fencing_testbed::https::Line;
use fencing_testbed::pki::{Identity, User};
use fencing_testbed::power::Power;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The Secret of the driver with this certificate.
pub fn secret(client: &Identity) -> Arc<Credentials> {
    let data = [("tls.crt", &client.certificate), ("tls.key", &client.key)];
    let data = data.map(|(key, value)| (key.to_owned(), value.clone().into_bytes()));
    let keys = ["tls.crt", "tls.key"];
    let credentials = Credentials::with_keys("hv", &keys, &data.into(), &BTreeMap::new());
    Arc::new(credentials.unwrap())
}

/// The driver for `node-1`, whose domain has this UUID, of the host with this URI.
fn driver(uri: &str, ca_pem: &str, client: &Identity, uuid: &str) -> Arc<dyn FenceDriver> {
    of("node-1", uri, ca_pem, client, uuid)
}

/// The same for another Node.
pub fn of(
    node: &str,
    uri: &str,
    ca_pem: &str,
    client: &Identity,
    uuid: &str,
) -> Arc<dyn FenceDriver> {
    let settings: LibvirtDriver = serde_json::from_value(json!({ "uri": uri })).unwrap();
    let parts = Parts {
        node: NodeFacts {
            system_uuid: uuid.to_owned(),
            ..NodeFacts::named(node)
        },
        address: settings.expand(node).unwrap(),
        secret: ("hv".to_owned(), "1".to_owned()),
        credentials: secret(client),
        verification: CertificateCheck::Full {
            ca_bundle_pem: Some(ca_pem.as_bytes().to_vec()),
        },
        rules: local_rules(),
        call_timeout: Duration::from_secs(60),
        command_timeout: Duration::from_secs(2),
        past: Default::default(),
        keyring: Arc::default(),
        accounts: Arc::default(),
        clock: Clock::SYSTEM,
    };
    settings.make(parts).unwrap()
}

/// A host with a machine, which runs.
struct Host {
    machine: Arc<Plug>,
    daemon: Libvirt,
    driver: Arc<dyn FenceDriver>,
}

impl Host {
    fn start() -> Self {
        let uuid = "4c4c4544-0042-3510-8054-b4c04f4e4e01";
        let machine = Arc::new(Plug::new("node-1", uuid));
        let ca = BmcCa::new("a host").unwrap();
        let power: Arc<dyn Power> = machine.clone();
        let daemon = Libvirt::start([127, 85, 6, 1].into(), power, &ca).unwrap();
        let client = ca.client(&User::new("fence", None)).unwrap();
        Self {
            driver: driver(&daemon.uri(), &ca.pem(), &client, uuid),
            machine,
            daemon,
        }
    }

    fn with(change: impl FnOnce(&mut LibvirtFaults)) -> Self {
        let host = Self::start();
        host.daemon.faults(change);
        host
    }

    async fn off(&self) -> Result<OffOutcome, DeviceError> {
        let mut session = self.driver.open();
        session.prepare_off().await?;
        session.force_off().await
    }

    async fn on(&self) -> Result<OnOutcome, DeviceError> {
        let mut session = self.driver.open();
        session.prepare_on().await?;
        session.power_on().await
    }

    /// What speaks against its Off; none: nothing does.
    async fn faults(&self) -> Vec<String> {
        let reading = self.driver.open().observe().await.unwrap();
        assert_eq!(reading.state, PowerState::Off);
        reading.faults
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_the_domain_reads_it_off_and_begins_it() {
    let host = Host::start();
    let mut session = host.driver.open();
    let seen = session.observe().await.unwrap();
    assert_eq!(
        (seen.state, seen.raw.as_str()),
        (PowerState::On, "RUNNING, reason 1")
    );
    assert!(seen.identity.is_system(host.machine.system_uuid()));
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    assert!(!host.machine.is_on());
    let off = session.observe().await.unwrap();
    assert!(off.is_off(), "{off:?}");
    assert_eq!(off.raw, "SHUTOFF, destroyed");
    session.prepare_on().await.unwrap();
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    assert!(host.machine.is_on());
    assert_eq!(host.daemon.commands(), [false, true]);
    // One connection for all of it, and nothing in a session that was not prepared.
    let opened = host
        .daemon
        .procedures()
        .iter()
        .filter(|it| **it == 1)
        .count();
    assert_eq!(opened, 1);
    assert_eq!(session.force_off().await.unwrap_err().reason(), "Refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_is_kept_is_not_off_and_is_not_resumed() {
    let host = Host::with(|faults| faults.is_saved = true);
    host.machine.set_power(false);
    assert_eq!(host.faults().await, ["a managed save image"]);
    let refused = host.on().await.unwrap_err();
    assert_eq!(refused.reason(), "Refused");
    assert!(
        refused.to_string().contains("managed save image"),
        "{refused}"
    );
    assert!(host.daemon.commands().is_empty());
    host.daemon.faults(|faults| {
        faults.is_saved = false;
        faults.state = Some((5, 5));
    });
    assert_eq!(host.faults().await, ["saved"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_that_may_run_elsewhere_is_not_off_and_not_ended() {
    let host = Host::with(|faults| faults.state = Some((5, 4)));
    assert_eq!(host.faults().await, ["migrated"]);
    for reason in [2, 12, 13] {
        host.daemon
            .faults(|faults| faults.state = Some((3, reason)));
        assert_eq!(
            host.off().await.unwrap_err().reason(),
            "Refused",
            "{reason}"
        );
        let probe = host.driver.open().probe(Extent::Needed).await.unwrap();
        let denied = probe.off_denied.expect("a reason");
        assert!(denied.to_string().contains("migrated"), "{denied}");
    }
    assert!(host.daemon.commands().is_empty());
    // One that a human has paused is ended.
    host.daemon.faults(|faults| faults.state = Some((3, 1)));
    assert_eq!(host.off().await, Ok(OffOutcome::Accepted));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_that_is_gone_once_it_ends_is_not_ended() {
    let host = Host::with(|faults| faults.is_transient = true);
    let refused = host.off().await.unwrap_err();
    assert!(refused.to_string().contains("transient"), "{refused}");
    assert!(host.machine.is_on() && host.daemon.commands().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_domain_and_none_are_no_reading() {
    let host = Host::with(|faults| faults.is_elsewhere = true);
    host.machine.set_power(false);
    let error = host.driver.open().observe().await.unwrap_err();
    assert_eq!(error.reason(), "ProtocolError");
    assert!(
        error.to_string().contains("it may run on another host"),
        "{error}"
    );
    assert_eq!(host.off().await.unwrap_err().reason(), "ProtocolError");
    host.daemon.faults(|faults| {
        faults.is_elsewhere = false;
        faults.cloud.uuid = Some("99999999-2222-4333-8444-555555555555".to_owned());
    });
    let error = host.off().await.unwrap_err();
    assert!(error.to_string().contains("another domain"), "{error}");
    assert!(host.daemon.commands().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_off_begins_again_where_the_host_is_another_one() {
    let host = Host::start();
    host.machine.set_power(false);
    let mut session = host.driver.open();
    assert!(session.observe().await.unwrap().is_off());
    host.daemon
        .faults(|faults| faults.host = Some("hv-2".to_owned()));
    let moved = session.observe().await.unwrap();
    assert_eq!(moved.faults, [format!("it has moved from {HOST}")]);
    assert!(session.observe().await.unwrap().is_off());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_without_an_answer_may_have_been_carried_out() {
    let host = Host::with(|faults| faults.is_silent = true);
    let outcome = host.off().await.unwrap();
    assert!(matches!(outcome, OffOutcome::Unknown(_)), "{outcome:?}");
    assert!(!host.machine.is_on());
    let outcome = host.on().await.unwrap();
    assert!(matches!(outcome, OnOutcome::Unknown(_)), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_before_the_command_was_not_sent() {
    let host = Host::start();
    let mut session = host.driver.open();
    session.prepare_off().await.unwrap();
    host.daemon.set_line(Line::Refused).unwrap();
    assert_eq!(
        session.force_off().await.unwrap_err().reason(),
        "Unreachable"
    );
    host.daemon.set_line(Line::Up).unwrap();
    let mut session = host.driver.open();
    session.prepare_off().await.unwrap();
    host.daemon.set_line(Line::BlackHole).unwrap();
    let error = session.force_off().await.unwrap_err();
    assert!(error.to_string().contains("it was not sent"), "{error}");
    assert!(host.machine.is_on());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_another_call_is_none_and_events_are_passed_over() {
    let host = Host::with(|faults| faults.has_events = true);
    assert_eq!(host.off().await, Ok(OffOutcome::Accepted));
    assert!(host.faults().await.is_empty());
    host.daemon.faults(|faults| faults.is_behind = true);
    let error = host.driver.open().observe().await.unwrap_err();
    assert_eq!(error.reason(), "ProtocolError");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_told_apart_by_their_numbers() {
    let host = Host::start();
    for (taken, reason) in [
        (Taken::Refused, "Refused"),
        (Taken::Denied, "PermissionDenied"),
    ] {
        host.daemon.faults(|faults| faults.cloud.taken = taken);
        assert_eq!(host.off().await.unwrap_err().reason(), reason);
    }
    host.daemon
        .faults(|faults| faults.cloud.taken = Taken::Already);
    let outcome = host.off().await.unwrap();
    assert!(
        matches!(outcome, OffOutcome::AlreadyOff { .. }),
        "{outcome:?}"
    );
    host.daemon.faults(|faults| faults.logins = vec![1]);
    let error = host.driver.open().observe().await.unwrap_err();
    assert_eq!(error.reason(), "NoSecureLogin");
    host.daemon
        .faults(|faults| faults.cloud.access = Access::Refused);
    // A daemon that ends does the same, and no password is locked away for that (F53).
    let error = host.driver.open().observe().await.unwrap_err();
    assert_eq!(error.reason(), "Unreachable", "{error}");
    assert!(error.to_string().contains("before its greeting"), "{error}");
    assert!(host.machine.is_on());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_shows_what_runs_to_the_probes_of_all_nodes() {
    let host = Host::with(|faults| faults.starts = true);
    let by_itself = host.driver.open().probe(Extent::Needed).await.unwrap();
    let listed = host.driver.open().probe(Extent::Listed).await.unwrap();
    assert_eq!(listed.reading.state, PowerState::On);
    assert_eq!(listed.model.as_deref(), Some(HOST));
    assert_eq!(listed.restarter, by_itself.restarter);
    assert!(listed.restarter.is_some_and(|it| it.contains("autostart")));
    assert!(host.daemon.procedures().contains(&273));
}

/// A kubelet can report the UUID of any domain of the host; it cannot have another Node's name.
#[tokio::test(flavor = "multi_thread")]
async fn a_domain_of_another_name_is_left_alone() {
    let uuid = "4c4c4544-0042-3510-8054-b4c04f4e4e01";
    let machine = Arc::new(Plug::new("database", uuid));
    let ca = BmcCa::new("a host").unwrap();
    let power: Arc<dyn Power> = machine.clone();
    let daemon = Libvirt::start([127, 85, 6, 1].into(), power, &ca).unwrap();
    let client = ca.client(&User::new("fence", None)).unwrap();
    let mut session = driver(&daemon.uri(), &ca.pem(), &client, uuid).open();
    let error = session.observe().await.unwrap_err().to_string();
    assert!(
        error.contains("is database, so it is not the machine of Node node-1"),
        "{error}"
    );
    session.force_off().await.unwrap_err();
    assert!(machine.is_on());
    // With the domain behind the name it is the same one.
    let called = of(
        "database.example.com",
        &daemon.uri(),
        &ca.pem(),
        &client,
        uuid,
    );
    let reading = called.open().observe().await.unwrap();
    assert_eq!(reading.state, PowerState::On);
}
