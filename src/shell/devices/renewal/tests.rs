//! A BMC and a Secret whose password changes at one moment or another.

use super::*;
use crate::shell::devices::Devices;
use crate::shell::fake::{Fake, failure};
use fencing_core::reading::PowerState;
use fencing_core::verification::Require;
use fencing_drivers::address::AddressRules;
use fencing_drivers::clock::Clock;
use fencing_drivers::confirm::{ConfirmPlan, Ended, Together, confirm};
use futures::poll;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::time::Duration;

const SECRET: &str = "GET /api/v1/namespaces/ns/secrets/bmc";
const SYSTEM: &str = "GET /redfish/v1/Systems/1";
const RESET: &str = "POST /redfish/v1/Systems/1/Actions/ComputerSystem.Reset";

/// When a Secret is written whose BMC has got another password.
#[derive(Clone, Copy, PartialEq)]
enum Secret {
    AtOnce,
    /// Written at once, and what it says is what it said before.
    Same,
    /// As soon as the BMC has refused somebody.
    Late,
    Never,
}

/// An API server and a BMC in one.
struct Site {
    server: Fake,
    devices: Devices,
    device: FenceDevice,
    state: Arc<Mutex<State>>,
}

struct State {
    /// `resourceVersion` of the Secret.
    version: u32,
    /// The password in it.
    secret: u32,
    /// The one that the BMC takes, from whoever has read it last.
    bmc: u32,
    /// The one that was read last.
    read: u32,
    /// When the Secret will be the one that the BMC takes.
    follows: Secret,
    /// When the BMC has refused somebody last (time since boot).
    refused_at: Duration,
    /// What the machine is.
    reads: &'static str,
    /// The Secret changes once the system has been read, which tells elsewhere what it takes; and what the machine is to whoever reads it with the new
    /// one, whom the BMC does not take either if that is none.
    then: Option<Option<&'static str>>,
}

impl Site {
    async fn new() -> Self {
        let state = State {
            version: 1,
            secret: 1,
            bmc: 1,
            read: 0,
            follows: Secret::Never,
            refused_at: Duration::ZERO,
            reads: "Off",
            then: None,
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let server = Fake::start(move |request| {
            let mut state = shared.lock().expect("lock");
            answer(&mut state, &request.line)
        })
        .await;
        let local = vec!["127.0.0.0/8".parse().expect("a range")];
        let rules = AddressRules::new(local, Vec::new());
        let client = server.clients.reads.clone();
        let redfish = json!({
            "address": format!("http://{}", server.address),
            "systemID": "1",
            "tls": {"verification": "None"},
        });
        let spec = json!({"nodeName": "w1", "redfish": redfish, "credentialsRef": {"name": "bmc"}});
        let devices = Devices::new(client, "ns".to_owned(), rules, Clock::SYSTEM);
        let device = FenceDevice::new("bmc", serde_json::from_value(spec).expect("a spec"));
        devices.survey(&[&device], &[]);
        Self {
            devices,
            device,
            server,
            state,
        }
    }

    async fn driver(&self) -> Arc<dyn FenceDriver> {
        let driver = self.devices.driver(&self.device, "w1").await;
        driver.expect("a driver")
    }

    /// The BMC gets the next password.
    fn rotate(&self, secret: Secret) {
        let mut state = self.state.lock().expect("lock");
        state.bmc += 1;
        state.version += u32::from(secret != Secret::Never);
        state.secret += u32::from(secret == Secret::AtOnce);
        state.follows = secret;
    }

    /// What was asked since the last time.
    fn asked(&self, before: &mut usize) -> Vec<String> {
        let seen = self.server.seen().into_iter().map(|request| request.line);
        let new: Vec<_> = seen.skip(*before).collect();
        *before += new.len();
        new
    }
}

fn answer(state: &mut State, line: &str) -> (u16, Value) {
    if line == SECRET {
        use base64::Engine;
        state.read = state.secret;
        let password = state.secret.to_string();
        let password = base64::engine::general_purpose::STANDARD.encode(password);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "bmc", "resourceVersion": state.version.to_string()},
            "data": {"username": "cm9vdA==", "password": password},
        });
        return (200, secret);
    }
    if state.read != state.bmc {
        state.refused_at = fencing_drivers::clock::since_boot();
        state.version += u32::from(state.follows == Secret::Late);
        state.secret += u32::from(state.follows == Secret::Late);
        state.follows = Secret::Never;
        return failure(401, "who are you?");
    }
    let mut system = json!({
        "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem",
        "PowerState": state.reads,
        "UUID": fencing_core::fixtures::MACHINE,
        "Actions": {"#ComputerSystem.Reset": {
            "target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
            "ResetType@Redfish.AllowableValues": ["ForceOff"],
        }},
    });
    if let Some(then) = state.then.take() {
        (state.secret, state.version) = (state.secret + 1, state.version + 1);
        state.bmc += if then.is_some() { 1 } else { 2 };
        state.reads = then.unwrap_or(state.reads);
        system["Actions"]["#ComputerSystem.Reset"] = json!({
            "target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
            "@Redfish.ActionInfo": "/redfish/v1/Systems/1/ResetActionInfo",
        });
    }
    (200, system)
}

#[tokio::test]
async fn a_password_that_was_rotated_before_the_first_reading_is_read_again_once() {
    let site = Site::new().await;
    let driver = site.driver().await;
    let mut seen = 0;
    site.asked(&mut seen);
    let table = [
        (Secret::AtOnce, vec![SYSTEM, SECRET, SYSTEM]),
        // The login that was taken a moment ago is tried once more first.
        (Secret::Late, vec![SYSTEM, SYSTEM, SECRET, SYSTEM]),
    ];
    for (secret, asked) in table {
        site.rotate(secret);
        let reading = driver.open().observe().await.expect("a reading");
        assert_eq!(reading.state, PowerState::Off);
        assert_eq!(site.asked(&mut seen), asked);
    }
    // What is opened later begins with the new one.
    driver.open().observe().await.expect("a reading");
    assert_eq!(site.asked(&mut seen), [SYSTEM]);
}

/// Two sessions are no run: somebody may have been at the BMC in between. Nobody has to be called for it.
#[tokio::test]
async fn a_password_that_is_rotated_between_two_readings_begins_them_anew() {
    let site = Site::new().await;
    let driver = site.driver().await;
    let mut seen = 0;
    site.asked(&mut seen);
    let plan = ConfirmPlan {
        reads: 3,
        period: Duration::from_millis(10),
        window: Duration::from_millis(10),
        deadline: Duration::from_secs(60),
    };
    let level = Together::new(Require::All, 1, plan, Clock::SYSTEM);
    let mut read = Vec::new();
    let confirmed = confirm(&level, 0, driver.as_ref(), driver.open(), |reading| {
        read.push(reading.raw.clone());
        if read.len() == 2 {
            site.rotate(Secret::AtOnce);
        }
        ControlFlow::Continue(())
    });
    let confirmed = confirmed.await;
    assert_eq!(confirmed.ended, Ended::Stable);
    assert_eq!(
        read,
        ["Off", "Off", "CredentialsRenewed", "Off", "Off", "Off"]
    );
    // The refusal of a login that was taken a moment ago is asked for once more.
    let refused = [SYSTEM, SYSTEM];
    let read = [SYSTEM, SYSTEM];
    let asked = [&read[..], &refused, &[SECRET, SYSTEM, SYSTEM, SYSTEM]].concat();
    assert_eq!(site.asked(&mut seen), asked);
}

#[tokio::test]
async fn a_secret_that_is_still_the_same_is_not_tried_again() {
    for secret in [Secret::Never, Secret::Same] {
        let site = Site::new().await;
        let driver = site.driver().await;
        site.rotate(secret);
        let mut seen = 0;
        let refused = driver.open().observe().await.expect_err("refused");
        assert_eq!(refused.reason(), "AuthFailed");
        assert_eq!(site.asked(&mut seen), [SECRET, SYSTEM, SECRET]);
    }
}

/// A Secret that is written again, as by whoever labels it, is the same to the count.
#[tokio::test]
async fn a_secret_that_says_the_same_has_three_tries_under_whatever_version() {
    let site = Site::new().await;
    site.rotate(Secret::Same);
    for _ in 0..6 {
        let refused = site.driver().await.open().observe().await;
        assert_eq!(refused.expect_err("refused").reason(), "AuthFailed");
        site.state.lock().expect("lock").version += 1;
    }
    let asked = site.asked(&mut 0);
    assert_eq!(asked.iter().filter(|line| *line == SYSTEM).count(), 3);
    // Something else is something else.
    site.state.lock().expect("lock").secret += 1;
    let reading = site.driver().await.open().observe().await;
    assert_eq!(reading.expect("accepted").state, PowerState::Off);
}

/// Where its new Secret may be sent is for its settings to say, and these are others by now.
#[tokio::test]
async fn a_device_that_was_changed_meanwhile_is_not_sent_a_new_password() {
    let site = Site::new().await;
    let driver = site.driver().await;
    let mut changed = site.device.clone();
    changed.metadata.generation = Some(2);
    site.devices.survey(&[&changed], &[]);
    site.rotate(Secret::AtOnce);
    let mut seen = 0;
    let refused = driver.open().observe().await.expect_err("refused");
    assert_eq!(refused.reason(), "AuthFailed");
    assert_eq!(site.asked(&mut seen), [SECRET, SYSTEM]);
}

/// A look in peace time comes back later instead, alone or in a group.
#[tokio::test]
async fn a_probe_waits_for_no_login_of_others() {
    let site = Site::new().await;
    let driver = site.driver().await;
    let mut device = site.device.clone();
    device.spec.serialization_group = Some("rack7".to_owned());
    let grouped = site.devices.driver(&device, "w1").await.expect("a driver");
    let has_turn = || [&driver, &grouped].map(|driver| driver.open().take_turn_now());

    let mut under_way = [1, 2, 3].map(|_| driver.open());
    let mut calls = under_way.each_mut().map(|session| session.observe());
    for call in &mut calls {
        assert!(poll!(call).is_pending());
    }
    assert_eq!(has_turn(), [false, false]);
    drop(calls);
    assert_eq!(has_turn(), [true, true]);
}

#[tokio::test]
async fn a_command_that_is_refused_is_not_sent_again() {
    let site = Site::new().await;
    let driver = site.driver().await;
    let mut seen = 0;
    site.rotate(Secret::AtOnce);
    let mut session = driver.open();
    session
        .prepare_off()
        .await
        .expect("by the Secret as it is now");
    assert_eq!(site.asked(&mut seen), [SECRET, SYSTEM, SECRET, SYSTEM]);
    site.rotate(Secret::AtOnce);
    let refused = session.force_off().await.expect_err("refused");
    assert_eq!(refused.reason(), "AuthFailed");
    assert_eq!(site.asked(&mut seen), [RESET]);
}

/// S21: what the first session has read stays read, though the second one reads nothing; and that the machine had power, whatever that one reads.
#[tokio::test]
async fn what_was_read_before_the_password_was_refused_is_kept() {
    for (first, then, seen) in [
        ("On", None, "On"),
        ("On", Some("Off"), "On"),
        ("On", Some("On"), "On"),
        ("Off", Some("On"), "On"),
        ("Unknown", Some("On"), "On"),
        ("Off", None, "Off"),
    ] {
        let site = Site::new().await;
        let driver = site.driver().await;
        {
            let mut state = site.state.lock().expect("lock");
            (state.reads, state.then) = (first, Some(then));
        }
        let mut session = driver.open();
        let prepared = session.prepare_off().await;
        let between = site.state.lock().expect("lock").refused_at;
        assert_eq!(prepared.is_ok(), then.is_some(), "{first} {then:?}");
        let read = session.seen().expect("a reading");
        assert_eq!(format!("{:?}", read.state), seen, "{first} {then:?}");
        // Of two that say so the later one counts: it may have been asked after a word was heard of.
        let is_later = read.asked > between;
        assert_eq!(is_later, then == Some("On"), "{first} {then:?}");
    }
}
