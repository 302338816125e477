//! A panic with a password in hand tells the log where it happened, and not the password (S16). The panicking process is this binary
//! once more: its log goes to standard error, as the operator's does.

use crate::agent;
use crate::bmc::Bmc;
use crate::device::{PASSWORD, driver, service, settings_of};
use crate::udp;
use fencing_drivers::FenceDriver;
use fencing_testbed::secrecy::{Secret, check};
use node_fencing_operator::telemetry::{LogFormat, start};
use serde_json::json;
use std::fmt::Debug;
use std::net::Ipv4Addr;
use std::process::Command;

/// Nobody is asked there.
const NOWHERE: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 9);

/// A task of the operator panics and prints all that it holds.
async fn panics(with: impl Debug + Send + 'static) {
    let task = tokio::spawn(async move { panic!("what it held was {with:?}") });
    assert!(task.await.is_err(), "it has not panicked");
}

#[tokio::test]
#[ignore = "the other test runs it, in a process of its own whose log it reads"]
async fn the_process_that_panics() {
    start(LogFormat::Json, "trace").unwrap();
    let bmc = Bmc::plain(service("\"Off\"")).await;
    let redfish = driver(&bmc);
    let mut session = redfish.open();
    session.prepare_off().await.unwrap();
    panics(settings_of(&bmc)).await;
    panics(redfish).await;
    panics(udp::ipmi_settings(NOWHERE.into(), PASSWORD)).await;
    for (version, keys) in [
        ("V2c", &["community"][..]),
        ("V3", &["username", "authPassword", "privPassword"][..]),
    ] {
        let secret: Vec<_> = keys.iter().map(|key| (*key, PASSWORD)).collect();
        let version = json!({"snmp": {"version": version}});
        panics(agent::settings(NOWHERE.into(), version, &secret)).await;
    }
}

#[test]
fn a_panic_with_a_password_in_hand_does_not_tell_it() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "panic::the_process_that_panics",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    let told = log.matches("a task of this program panicked, which is a bug: what it held was");
    assert_eq!(told.count(), 5, "{log}");
    let secret = Secret::new("the password", PASSWORD).unwrap();
    check("the log", log.as_bytes(), &[secret]).unwrap();
}
