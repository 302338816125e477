//! The PDU driver against net-snmp's agent, which none of us wrote: both versions, five tables of outlets, and a memory that is
//! thirty seconds old.

use crate::agent::settings;
use fencing_core::reading::{PowerState, Reading};
use fencing_core::verification::Require;
use fencing_drivers::clock::Clock;
use fencing_drivers::confirm::{ConfirmPlan, Ended, Together, confirm};
use fencing_drivers::pdu::{Pdu, PduSettings};
use fencing_drivers::{DeviceError, Extent, FenceDriver, OffOutcome};
use fencing_testbed::bmc::Plug;
use fencing_testbed::process::Guard;
use fencing_testbed::snmpd::{
    AUTHENTICATION_PASSWORD, COMMUNITY, Feed, PRIVACY_PASSWORD, Pdu as Emulator, READ_ONLY, SIGNER,
    USER, WATCHER,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// A machine with two supplies at outlets 3 and 7 of one PDU.
pub struct Rack {
    machine: Arc<Plug>,
    feed: Arc<Feed>,
    pdu: Emulator,
    guard: Arc<Guard>,
    logs: tempfile::TempDir,
}

impl Rack {
    pub async fn new() -> Self {
        let machine = Arc::new(Plug::new("node-1", "4c4c4544-0042-3510-8052-b4c04f4a4d32"));
        let feed = Feed::new(machine.clone());
        let (guard, logs) = (Guard::start().unwrap(), tempfile::tempdir().unwrap());
        let pdu = plugged_in(&feed, &guard, logs.path()).await;
        Self {
            machine,
            feed,
            pdu,
            guard,
            logs,
        }
    }

    /// What hangs on the outlets.
    pub fn machine(&self) -> Arc<Plug> {
        Arc::clone(&self.machine)
    }

    /// Where its agent listens.
    pub fn address(&self) -> SocketAddr {
        self.pdu.address()
    }

    fn driver(&self, changes: Value, secret: &[(&str, &str)]) -> Pdu {
        Pdu::new(settings(self.pdu.address(), changes, secret)).unwrap()
    }

    /// Version 2c, the community that may switch.
    fn v2c(&self, changes: Value) -> Pdu {
        self.driver(changes, &[("community", COMMUNITY)])
    }

    /// Version 3, this user.
    pub fn v3(&self, snmp: Value, user: &str, authentication: &str, privacy: &str) -> Pdu {
        let mut changes = json!({"snmp": {"version": "V3"}});
        json_patch::merge(&mut changes, &json!({"snmp": snmp}));
        let secret = [
            ("username", user),
            ("authPassword", authentication),
            ("privPassword", privacy),
        ];
        self.driver(changes, &secret)
    }
}

async fn plugged_in(feed: &Arc<Feed>, guard: &Arc<Guard>, logs: &std::path::Path) -> Emulator {
    let outlets = BTreeMap::from([(3, Arc::clone(feed)), (7, Arc::clone(feed))]);
    let address = "127.0.0.1".parse().unwrap();
    Emulator::start(address, outlets, guard, logs)
        .await
        .unwrap()
}

/// Switches off, and reads what has become of it.
async fn off(driver: &Pdu) -> Result<(Reading, Reading), DeviceError> {
    let mut session = driver.open();
    let before = session.observe().await?;
    session.prepare_off().await?;
    assert_eq!(session.force_off().await?, OffOutcome::Accepted);
    Ok((before, session.observe().await?))
}

/// How the reads for a proof end: the whole engine, with a session of its own.
async fn confirmed(driver: &Pdu) -> Ended {
    let plan = ConfirmPlan {
        reads: 3,
        period: Duration::from_millis(50),
        window: Duration::from_millis(100),
        deadline: Duration::from_secs(20),
    };
    let go_on = |_: &Reading| ControlFlow::Continue(());
    let level = Together::new(Require::All, 1, plan, Clock::SYSTEM);
    let confirmation = confirm(&level, 0, driver, driver.open(), go_on).await;
    confirmation.ended
}

async fn reason(driver: &Pdu) -> &'static str {
    driver.open().observe().await.unwrap_err().reason()
}

/// One outlet of the table of Raritan's PDU2-MIB, whose state alone is asked for.
fn raritan(outlets: Value) -> Value {
    json!({"model": "Generic", "outlets": outlets, "generic": {
        "controlOID": "1.3.6.1.4.1.13742.6.4.1.2.1.2.1.${outlet}", "controlOffValue": 0,
        "statusOID": "1.3.6.1.4.1.13742.6.4.1.2.1.3.1.${outlet}", "statusOffValue": 8, "statusOnValue": 7,
    }})
}

#[tokio::test]
async fn a_machine_is_dark_when_all_its_outlets_are_off() {
    let rack = Rack::new().await;
    let driver = rack.v2c(json!({}));
    let probe = driver.open().probe(Extent::Whole).await.unwrap();
    assert_eq!(probe.model.as_deref(), Some("Switched rack PDU of the lab"));
    let (before, after) = off(&driver).await.unwrap();
    assert_eq!(
        (before.state, before.raw.as_str()),
        (PowerState::On, "3: on, 7: on")
    );
    assert_eq!(
        (after.state, after.raw.as_str()),
        (PowerState::Off, "3: off, 7: off")
    );
    assert!(
        rack.machine
            .wait_until(false, Duration::from_secs(10))
            .await
    );
    assert_eq!(confirmed(&driver).await, Ended::Stable);
    // One supply is plugged in again.
    rack.pdu.switch(7, true).unwrap();
    let reading = driver.open().observe().await.unwrap();
    assert_eq!(
        (reading.state, reading.raw.as_str()),
        (PowerState::On, "7: on, 3: off")
    );
}

#[tokio::test]
async fn two_pdus_feed_a_machine_until_both_are_off() {
    let rack = Rack::new().await;
    let other = plugged_in(&rack.feed, &rack.guard, rack.logs.path()).await;
    off(&rack.v2c(json!({}))).await.unwrap();
    assert!(
        !rack
            .machine
            .wait_until(false, Duration::from_millis(300))
            .await
    );
    let second = settings(other.address(), json!({}), &[("community", COMMUNITY)]);
    off(&Pdu::new(second).unwrap()).await.unwrap();
    assert!(
        rack.machine
            .wait_until(false, Duration::from_secs(10))
            .await
    );
}

#[tokio::test]
async fn users_of_version_3_sign_and_encrypt_as_the_settings_say() {
    let rack = Rack::new().await;
    let driver = rack.v3(json!({}), USER, AUTHENTICATION_PASSWORD, PRIVACY_PASSWORD);
    let (before, after) = off(&driver).await.unwrap();
    assert_eq!(
        (before.state, after.state),
        (PowerState::On, PowerState::Off)
    );
    assert!(
        rack.machine
            .wait_until(false, Duration::from_secs(10))
            .await
    );
    let settings = json!({"authentication": "SHA512", "privacy": "None"});
    let signer = rack.v3(settings, SIGNER, AUTHENTICATION_PASSWORD, "unused");
    assert_eq!(
        signer.open().observe().await.unwrap().state,
        PowerState::Off
    );
}

#[tokio::test]
async fn wrong_users_passwords_and_protocols_are_told_apart() {
    let rack = Rack::new().await;
    let v3 = |snmp: Value, user: &str, authentication: &str, privacy: &str| {
        let driver = rack.v3(snmp, user, authentication, privacy);
        async move { reason(&driver).await }
    };
    let (right, hidden) = (AUTHENTICATION_PASSWORD, PRIVACY_PASSWORD);
    assert_eq!(
        v3(json!({}), USER, "signed by nobody", hidden).await,
        "AuthFailed"
    );
    assert_eq!(v3(json!({}), "nobody", right, hidden).await, "AuthFailed");
    assert_eq!(
        v3(json!({"authentication": "SHA1"}), USER, right, hidden).await,
        "AuthFailed"
    );
    assert_eq!(
        v3(json!({"authentication": "SHA512"}), SIGNER, right, hidden).await,
        "SettingsInvalid"
    );
    // An agent cannot tell a message that was encrypted with another key from noise, and one of version 2c is silent.
    let short = |driver: &Pdu, snmp: Value, secret: &[(&str, &str)]| {
        let _ = driver;
        Pdu::new(PduSettings {
            call_timeout: Duration::from_secs(2),
            ..settings(rack.pdu.address(), snmp, secret)
        })
        .unwrap()
    };
    let any = rack.v2c(json!({}));
    let wrong = [
        ("username", USER),
        ("authPassword", right),
        ("privPassword", "hidden by nobody"),
    ];
    let noise = reason(&short(&any, json!({"snmp": {"version": "V3"}}), &wrong)).await;
    assert!(
        ["AuthFailed", "Unreachable", "ProtocolError"].contains(&noise),
        "{noise}"
    );
    assert_eq!(
        reason(&short(&any, json!({}), &[("community", "wrong")])).await,
        "Unreachable"
    );
}

#[tokio::test]
async fn an_account_that_may_only_look_is_denied_and_nothing_is_switched() {
    let rack = Rack::new().await;
    let watcher = rack.v3(
        json!({}),
        WATCHER,
        AUTHENTICATION_PASSWORD,
        PRIVACY_PASSWORD,
    );
    for driver in [rack.driver(json!({}), &[("community", READ_ONLY)]), watcher] {
        let mut session = driver.open();
        session.prepare_off().await.unwrap();
        let error = session.force_off().await.unwrap_err();
        assert_eq!(error.reason(), "PermissionDenied");
    }
    assert!(rack.pdu.is_on(3).unwrap() && rack.pdu.is_on(7).unwrap());
}

#[tokio::test]
async fn every_table_of_outlets_is_switched_and_read() {
    let rack = Rack::new().await;
    for changes in [
        json!({"model": "APCRackPDU2"}),
        json!({"model": "APCRackPDU"}),
        json!({"model": "APCMasterSwitch"}),
        raritan(json!([3, 7])),
        json!({"model": "PoE"}),
    ] {
        for outlet in [3, 7] {
            rack.pdu.switch(outlet, true).unwrap();
        }
        let (before, after) = off(&rack.v2c(changes.clone())).await.unwrap();
        assert_eq!(
            (before.state, after.state),
            (PowerState::On, PowerState::Off),
            "{changes}"
        );
        assert!(!rack.pdu.is_on(3).unwrap() && !rack.pdu.is_on(7).unwrap());
    }
}

/// Ports of a PoE switch: what is off and looks for a device to power may power it at any moment.
#[tokio::test]
async fn a_port_of_poe_that_searches_is_not_off() {
    let rack = Rack::new().await;
    let driver = rack.v2c(json!({"model": "PoE"}));
    let (before, after) = off(&driver).await.unwrap();
    assert_eq!(
        (before.state, before.raw.as_str()),
        (PowerState::On, "3: on, 7: on")
    );
    assert!(after.is_off(), "{after:?}");
    assert!(
        rack.machine
            .wait_until(false, Duration::from_secs(10))
            .await
    );
    rack.pdu.search(true).unwrap();
    let reading = driver.open().observe().await.unwrap();
    assert_eq!(
        (reading.state, reading.raw.as_str()),
        (PowerState::Unknown, "3: 2, 7: 2")
    );
    // Another group has none of these ports.
    let other = rack.v2c(json!({"model": "PoE", "group": 2}));
    let error = other.open().prepare_off().await.unwrap_err();
    assert_eq!(error.reason(), "SettingsInvalid");
    rack.pdu.search(false).unwrap();
    let mut session = driver.open();
    session.prepare_on().await.unwrap();
    session.power_on().await.unwrap();
    assert!(rack.machine.wait_until(true, Duration::from_secs(10)).await);
}

#[tokio::test]
async fn commands_that_are_ignored_and_states_that_are_withheld_are_seen() {
    let rack = Rack::new().await;
    let driver = rack.v2c(json!({}));
    rack.pdu.ignore_commands(true).unwrap();
    let (_, after) = off(&driver).await.unwrap();
    assert_eq!(after.state, PowerState::On);
    rack.pdu.ignore_commands(false).unwrap();
    rack.pdu.withhold_states(true).unwrap();
    let reading = driver.open().observe().await.unwrap();
    assert_eq!(reading.state, PowerState::Unknown);
    assert_eq!(reading.raw, "3: noSuchInstance, 7: noSuchInstance");
    assert_eq!(
        driver.open().prepare_off().await.unwrap_err().reason(),
        "SettingsInvalid"
    );
}

/// The agent remembers the last answer of its script for 30 seconds (`NETSNMP_EXCACHETIME`), if the same is asked again. A command ends
/// that, as does any other question, so that nobody waits for it here; a hand at the panel does not, and only a contradiction in
/// the cluster could tell meanwhile.
#[tokio::test]
async fn a_remembered_state_outlives_a_hand_at_the_panel_and_no_command() {
    let rack = Rack::new().await;
    let driver = rack.v2c(raritan(json!([3])));
    let (before, after) = off(&driver).await.unwrap();
    assert_eq!(
        (before.state, after.state),
        (PowerState::On, PowerState::Off)
    );
    rack.pdu.switch(3, true).unwrap();
    let confirmed = confirmed(&driver).await;
    assert_eq!(confirmed, Ended::Stable, "the agent remembers nothing");
    let other = rack.v2c(raritan(json!([7])));
    other.open().observe().await.unwrap();
    let reading = driver.open().observe().await.unwrap();
    assert_eq!(reading.state, PowerState::On, "it never looks again");
}
