//! Driver `libvirt` against libvirtd over mutual TLS, and virsh beside it at the same host: whatever one does, the other sees. None of us wrote either.

use crate::libvirt::of;
use fencing_core::reading::{PowerState, Reading};
use fencing_drivers::{Extent, FenceDriver, FenceSession, OffOutcome, OnOutcome};
use fencing_testbed::libvirtd::{DOMAIN, Libvirtd, Programs, UUID};
use fencing_testbed::pki::{Authority, User};
use fencing_testbed::process::Guard;
use std::sync::Arc;

/// A host with the domain of libvirt's test driver, which runs.
struct Host {
    daemon: Libvirtd,
    _guard: Arc<Guard>,
    _logs: tempfile::TempDir,
}

impl Host {
    /// At this last part of an address; none: the test is to end here.
    async fn start(at: u8, login: &str, test: &str) -> Option<Self> {
        let programs = Programs::to_test(test).await.unwrap()?;
        let (guard, logs) = (Guard::start().unwrap(), tempfile::tempdir().unwrap());
        let daemon = Libvirtd::start(
            [127, 85, 7, at].into(),
            programs,
            login,
            &guard,
            logs.path(),
        );
        Some(Self {
            daemon: daemon.await.unwrap(),
            _guard: guard,
            _logs: logs,
        })
    }

    fn driver(&self, uuid: &str) -> Arc<dyn FenceDriver> {
        let daemon = &self.daemon;
        of(
            "test",
            &daemon.uri(),
            daemon.ca_pem(),
            daemon.client(),
            uuid,
        )
    }

    async fn virsh(&self, words: &'static [&'static str]) -> String {
        self.daemon.virsh(words).await.unwrap()
    }
}

async fn read(session: &mut Box<dyn FenceSession>) -> Reading {
    session.observe().await.unwrap()
}

/// State and faults.
async fn said(session: &mut Box<dyn FenceSession>) -> (PowerState, String, Vec<String>) {
    let Reading {
        state, raw, faults, ..
    } = read(session).await;
    (state, raw, faults)
}

const REASON: &[&str] = &["domstate", "--reason", DOMAIN];

#[tokio::test(flavor = "multi_thread")]
async fn virsh_sees_what_the_driver_does_and_the_driver_what_virsh_does() {
    let test = "virsh_sees_what_the_driver_does_and_the_driver_what_virsh_does";
    let Some(host) = Host::start(1, "none", test).await else {
        return;
    };
    let driver = host.driver(UUID);
    // The domain's state lives as long as one connection.
    let mut session = driver.open();
    let running = read(&mut session).await;
    assert_eq!(running.state, PowerState::On, "{running:?}");
    assert_eq!(running.identity.system_uuid.as_deref(), Some(UUID));
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    assert_eq!(host.virsh(REASON).await, "shut off (destroyed)");
    assert!(read(&mut session).await.is_off());
    // What is off is not ended once more.
    session.prepare_off().await.unwrap();
    let again = session.force_off().await.unwrap();
    assert!(matches!(again, OffOutcome::AlreadyOff { .. }), "{again:?}");
    session.prepare_on().await.unwrap();
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    assert_eq!(host.virsh(REASON).await, "running (booted)");

    host.virsh(&["shutdown", DOMAIN]).await;
    let down = read(&mut session).await;
    assert!(down.is_off(), "{down:?}");
    assert_eq!(down.raw, "SHUTOFF, shutdown");
    host.virsh(&["start", DOMAIN]).await;
    host.virsh(&["autostart", DOMAIN]).await;
    let probe = session.probe(Extent::Whole).await.unwrap();
    assert_eq!(probe.off_denied, None);
    assert!(probe.restarter.is_some_and(|it| it.contains("autostart")));
    assert!(probe.certificate_expiry.is_some());
    // Once more by a list, which names it among those that begin with their host.
    let listed = driver.open().probe(Extent::Listed).await.unwrap();
    assert_eq!(listed.model, probe.model);
    assert!(listed.restarter.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_libvirtd_keeps_is_not_off_and_not_resumed() {
    let test = "memory_that_libvirtd_keeps_is_not_off_and_not_resumed";
    let Some(host) = Host::start(2, "none", test).await else {
        return;
    };
    let mut session = host.driver(UUID).open();
    read(&mut session).await;
    host.virsh(&["suspend", DOMAIN]).await;
    assert_eq!(said(&mut session).await.0, PowerState::Unknown);
    host.virsh(&["resume", DOMAIN]).await;
    host.virsh(&["managedsave", DOMAIN]).await;
    let faults = vec!["saved".to_owned(), "a managed save image".to_owned()];
    let saved = (PowerState::Off, "SHUTOFF, saved".to_owned(), faults);
    assert_eq!(said(&mut session).await, saved);
    session.prepare_on().await.unwrap();
    assert_eq!(session.power_on().await.unwrap_err().reason(), "Refused");
    assert_eq!(host.virsh(REASON).await, "shut off (saved)");
    // Without the image the reason alone is left.
    host.virsh(&["managedsave-remove", DOMAIN]).await;
    assert_eq!(said(&mut session).await.2, ["saved"]);
    session.prepare_on().await.unwrap();
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_and_a_domain_that_does_not_stay_are_not_off() {
    let test = "a_snapshot_and_a_domain_that_does_not_stay_are_not_off";
    let Some(host) = Host::start(3, "none", test).await else {
        return;
    };
    let mut session = host.driver(UUID).open();
    read(&mut session).await;
    host.virsh(&["destroy", DOMAIN]).await;
    host.virsh(&["snapshot-create-as", DOMAIN, "down"]).await;
    host.virsh(&["start", DOMAIN]).await;
    host.virsh(&["snapshot-revert", DOMAIN, "down"]).await;
    assert_eq!(said(&mut session).await.2, ["from snapshot"]);
    host.virsh(&["start", DOMAIN]).await;
    host.virsh(&["snapshot-delete", DOMAIN, "down"]).await;
    host.virsh(&["undefine", DOMAIN]).await;
    session.prepare_off().await.unwrap();
    let refused = session.force_off().await.unwrap_err();
    assert!(refused.to_string().contains("transient"), "{refused}");
    assert_eq!(host.virsh(REASON).await, "running (booted)");
    host.virsh(&["destroy", DOMAIN]).await;
    let gone = session.observe().await.unwrap_err();
    assert!(gone.to_string().contains("which is no Off"), "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn libvirtd_lets_in_a_certificate_of_its_own_authority_alone() {
    let test = "libvirtd_lets_in_a_certificate_of_its_own_authority_alone";
    let Some(host) = Host::start(4, "none", test).await else {
        return;
    };
    let daemon = &host.daemon;
    let stranger = Authority::new("another authority").unwrap();
    let client = stranger.client(&User::new("fence", None)).unwrap();
    let foreign = of("test", &daemon.uri(), daemon.ca_pem(), &client, UUID);
    let error = foreign.open().observe().await.unwrap_err();
    // It says nothing of the reason, as when it ends.
    assert_eq!(error.reason(), "Unreachable", "{error}");
    assert!(error.to_string().contains("before its greeting"), "{error}");
    // The other way round, nothing is sent to a host of another authority.
    let other = of(
        "test",
        &daemon.uri(),
        &stranger.pem(),
        daemon.client(),
        UUID,
    );
    let error = other.open().observe().await.unwrap_err();
    assert_eq!(error.reason(), "TlsIdentity", "{error}");
    let unknown = host.driver("4c4c4544-0042-3510-8054-b4c04f4e4e01");
    let error = unknown.open().observe().await.unwrap_err();
    assert!(error.to_string().contains("it has no domain"), "{error}");
    let uri = daemon
        .uri()
        .replace("test+tls", "qemu+tls")
        .replace("/default", "/system");
    let hypervisor = of("test", &uri, daemon.ca_pem(), daemon.client(), UUID);
    let error = hypervisor.open().observe().await.unwrap_err();
    assert_eq!(error.reason(), "ProtocolError", "{error}");
    assert!(error.to_string().contains("CONNECT_OPEN"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_libvirtd_that_asks_for_sasl_is_not_used() {
    let test = "a_libvirtd_that_asks_for_sasl_is_not_used";
    let Some(host) = Host::start(5, "sasl", test).await else {
        return;
    };
    let error = host.driver(UUID).open().observe().await.unwrap_err();
    assert_eq!(error.reason(), "NoSecureLogin", "{error}");
}
