//! The driver that runs fence agents, against one that lies, hangs and leaves children behind, and one that is not ours.

use crate::device::local_rules;
use fencing_api::fence_agent::FenceAgentDriver;
use fencing_core::reading::PowerState;
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::fence_agent::{FenceAgent, FenceAgentSettings};
use fencing_drivers::{
    Advice, DeviceError, DriverKind, Extent, FenceDriver, OffOutcome, OnOutcome,
};
use fencing_testbed::bmc::Plug;
use fencing_testbed::debian;
use fencing_testbed::fence_agent::{DebianAgents, FakeAgent, NAME, is_running};
use fencing_testbed::power::Power;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longer than anything takes on the busiest machine.
const ENDLESS: Duration = Duration::from_secs(60);
/// Time for what is ended by it.
const SHORT: Duration = Duration::from_millis(1500);
/// The password, which must show up nowhere.
const PASSWORD: &str = "correct horse battery staple";

fn settings_for(directory: &Path, parameters: &Value, password: &str) -> FenceAgentSettings {
    let driver = json!({"agent": NAME, "parameters": parameters});
    let driver: FenceAgentDriver = serde_json::from_value(driver).unwrap();
    let data = [("username", "admin"), ("password", password)];
    let data = data.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
    let keys = driver.credential_keys();
    let credentials = Credentials::with_keys("bmc", keys, &BTreeMap::from(data), &BTreeMap::new());
    FenceAgentSettings {
        driver,
        credentials: Arc::new(credentials.unwrap()),
        rules: local_rules(),
        call_timeout: ENDLESS,
        command_timeout: ENDLESS,
        clock: Clock::SYSTEM,
        directory: directory.to_owned(),
    }
}

fn parameters(address: &str, port: u16) -> Value {
    json!([
        {"name": "ip", "value": address}, {"name": "ipport", "value": port.to_string()},
        {"name": "username", "secretKey": "username"}, {"name": "password", "secretKey": "password"},
    ])
}

/// Settings for the fake agent.
pub fn settings(agent: &FakeAgent) -> FenceAgentSettings {
    settings_for(
        agent.directory(),
        &parameters(&agent.address().to_string(), 623),
        PASSWORD,
    )
}

/// A driver that runs it, with this time for a call and for a command.
pub fn driver(agent: &FakeAgent, call: Duration, command: Duration) -> FenceAgent {
    driver_at(agent, &agent.address().to_string(), call, command)
}

/// The same for a device at another address.
pub fn driver_at(
    agent: &FakeAgent,
    address: &str,
    call: Duration,
    command: Duration,
) -> FenceAgent {
    let settings = settings_for(agent.directory(), &parameters(address, 623), PASSWORD);
    FenceAgent::new(FenceAgentSettings {
        call_timeout: call,
        command_timeout: command,
        ..settings
    })
    .unwrap()
}

fn fake(manner: &str) -> (Arc<Plug>, FakeAgent) {
    let machine = Arc::new(Plug::new("node-1", crate::ipmi::UUID));
    let agent = FakeAgent::new(machine.clone(), manner).unwrap();
    (machine, agent)
}

async fn off(driver: &FenceAgent) -> Result<OffOutcome, DeviceError> {
    let mut session = driver.open();
    session.prepare_off().await?;
    session.force_off().await
}

#[tokio::test]
async fn an_agent_is_told_all_on_its_standard_input_and_the_action_each_time() {
    let (machine, agent) = fake("honest");
    let driver = driver(&agent, ENDLESS, ENDLESS);
    let mut session = driver.open();
    session.connect().await.unwrap();
    assert!(agent.runs().is_empty(), "connecting runs nothing");
    assert_eq!(session.observe().await.unwrap().state, PowerState::On);
    assert_eq!(off(&driver).await, Ok(OffOutcome::Accepted));
    assert!(!machine.is_on());
    let reading = session.observe().await.unwrap();
    assert_eq!(
        (reading.state, reading.raw.as_str()),
        (PowerState::Off, "Status: OFF")
    );
    let reading = session.prepare_on().await.unwrap();
    assert_eq!(reading.state, PowerState::Off);
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    assert!(machine.is_on());
    let runs = agent.runs();
    let actions: Vec<&str> = runs.iter().map(|run| run.action.as_str()).collect();
    assert_eq!(
        actions,
        ["status", "status", "off", "status", "status", "on"]
    );
    for run in runs {
        assert!(run.arguments.is_empty(), "{:?}", run.arguments);
        assert!(
            run.input.contains(&format!("\npassword={PASSWORD}\n")),
            "{}",
            run.input
        );
        assert!(
            run.input.starts_with(&format!("ip={}\n", agent.address())),
            "{}",
            run.input
        );
        let environment = format!("{:?}", run.environment);
        assert!(
            !environment.contains("horse") && !environment.contains("admin"),
            "{environment}"
        );
        assert!(!run.environment.contains_key("HOME"), "{environment}");
    }
}

#[tokio::test]
async fn a_command_is_sent_once_and_only_if_it_was_prepared() {
    let (machine, agent) = fake("honest");
    let driver = driver(&agent, ENDLESS, ENDLESS);
    let mut session = driver.open();
    let refused = session.force_off().await.unwrap_err();
    assert_eq!(refused.reason(), "Refused");
    session.prepare_on().await.unwrap();
    assert!(
        session.force_off().await.is_err(),
        "something else was prepared"
    );
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    machine.set_power(true);
    assert!(session.force_off().await.is_err(), "it was sent");
    assert!(machine.is_on());
    let offs = agent
        .runs()
        .iter()
        .filter(|run| run.action == "off")
        .count();
    assert_eq!(offs, 1);
}

/// Whatever an agent says of its own off, nobody knows it: an agent that has failed, was ended, or says nothing may have sent it.
#[tokio::test]
async fn an_off_that_did_not_end_well_may_have_been_sent() {
    for manner in ["ignores", "fails after off"] {
        let (machine, agent) = fake(manner);
        let outcome = off(&driver(&agent, ENDLESS, ENDLESS)).await.unwrap();
        assert!(
            matches!(&outcome, OffOutcome::Unknown(error) if error.reason() == "ProtocolError"),
            "{manner}: {outcome:?}"
        );
        assert_eq!(machine.is_on(), manner == "ignores");
    }
    let (_, agent) = fake("hangs at off");
    let outcome = off(&driver(&agent, ENDLESS, SHORT)).await.unwrap();
    let OffOutcome::Unknown(error) = outcome else {
        panic!("{outcome:?}")
    };
    let said = error.to_string();
    assert!(
        said.contains("gave no complete answer to the power-off within 1.5s (fixed limit)"),
        "{said}"
    );
    let last = agent.runs().pop().unwrap();
    assert!(last.action == "off" && !is_running(last.pid), "{last:?}");
}

/// It reads off, says that it is, and sends nothing: that is no more than its reading.
#[tokio::test]
async fn an_agent_that_says_already_has_said_nothing() {
    let (machine, agent) = fake("lies");
    let outcome = off(&driver(&agent, ENDLESS, ENDLESS)).await;
    let said = "Success: Already OFF".to_owned();
    assert_eq!(outcome, Ok(OffOutcome::AlreadyOff { said }));
    assert!(machine.is_on() && agent.switched().is_empty());
}

#[tokio::test]
async fn nothing_but_its_two_words_with_their_codes_is_a_reading() {
    for (manner, words) in [
        (
            "fails",
            "ended with exit code 1 and printed `2026-11-29 00:00:00,000 ERROR: Failed: Unable to obtain correct plug status",
        ),
        ("killed", "ended with signal 9 and printed nothing"),
        ("empty", "ended with exit code 2 and printed nothing"),
        ("html", "ended with exit code 0 and printed `<html></html>`"),
        ("half", "ended with exit code 2"),
        ("twice", "ended with exit code 2"),
        ("off with code 0", "ended with exit code 0"),
        ("huge", "printed more than 65536 bytes"),
        ("endless", "printed more than 65536 bytes"),
    ] {
        let (_, agent) = fake(manner);
        let error = driver(&agent, ENDLESS, ENDLESS)
            .open()
            .observe()
            .await
            .expect_err(manner);
        let said = error.to_string();
        assert!(
            said.contains(words)
                && said.starts_with(&format!("{}:623: fence_ipmilan `status` ", agent.address())),
            "{manner}: {said}"
        );
        assert_eq!(
            (error.reason(), error.advice()),
            ("ProtocolError", Advice::Retry)
        );
    }
    let (_, agent) = fake("repeats the password");
    let error = driver(&agent, ENDLESS, ENDLESS)
        .open()
        .observe()
        .await
        .unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("ipmitool -P *** chassis") && !said.contains("horse"),
        "{said}"
    );
}

#[tokio::test]
async fn an_agent_that_hangs_is_ended_with_its_children() {
    let (_, agent) = fake("children");
    let begun = Instant::now();
    let error = driver(&agent, Duration::from_secs(3), SHORT)
        .open()
        .observe()
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "Timeout");
    assert!(begun.elapsed() < ENDLESS / 2);
    let (run, children) = (agent.runs().pop().unwrap(), agent.children());
    assert_eq!(children.len(), 2, "they were started");
    assert!(
        !children
            .iter()
            .chain([&run.pid])
            .any(|pid| is_running(*pid)),
        "{children:?}"
    );
    // One that ends and leaves them is read, and they end with it.
    let (_, agent) = fake("leaves children");
    let reading = driver(&agent, ENDLESS, SHORT)
        .open()
        .observe()
        .await
        .unwrap();
    assert_eq!(reading.state, PowerState::On);
    assert!(!agent.children().iter().any(|pid| is_running(*pid)));
}

/// Two sessions, and one that was dropped: the device meets one agent at a time.
#[tokio::test]
async fn one_agent_at_a_time_asks_a_device() {
    let (_, agent) = fake("alone");
    let driver = driver(&agent, ENDLESS, ENDLESS);
    let read = || async { driver.open().observe().await.map(|reading| reading.state) };
    let (one, other, third) = tokio::join!(read(), read(), read());
    assert_eq!([one, other, third], [(); 3].map(|()| Ok(PowerState::On)));
    // Dropped while it holds the lock.
    let before = agent.runs().len();
    let mut session = driver.open();
    tokio::select! {
        _ = session.observe() => {}
        () = async { while agent.runs().len() == before { tokio::time::sleep(Duration::from_millis(5)).await } } => {}
    }
    assert_eq!(read().await, Ok(PowerState::On));
}

#[tokio::test]
async fn an_image_without_agents_is_told_from_a_device_that_does_not_answer() {
    let (_, agent) = fake("honest");
    let settings = FenceAgentSettings {
        directory: agent.directory().join("empty"),
        ..settings(&agent)
    };
    let error = FenceAgent::new(settings)
        .unwrap()
        .open()
        .probe(Extent::Needed)
        .await
        .unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("this image has no ") && said.contains("whose tag ends with `-agents`"),
        "{said}"
    );
    assert_eq!(
        (error.reason(), error.advice()),
        ("SettingsInvalid", Advice::Human)
    );
}

#[tokio::test]
async fn an_account_goes_only_where_credentials_may_go() {
    let (_, agent) = fake("honest");
    for address in ["169.254.169.254", "10.96.0.1"] {
        let settings = settings_for(agent.directory(), &parameters(address, 623), PASSWORD);
        let only_here = Arc::new(fencing_drivers::address::AddressRules::new(
            Vec::new(),
            vec![("10.96.0.0/12".parse().unwrap(), "services".to_owned())],
        ));
        let driver = FenceAgent::new(FenceAgentSettings {
            rules: only_here,
            ..settings
        })
        .unwrap();
        let error = driver.open().observe().await.unwrap_err();
        assert_eq!(error.reason(), "AddressNotAllowed", "{error}");
    }
    assert!(agent.runs().is_empty(), "nothing was run");
}

/// On, off, on, by Debian's `fence_ipmilan` and `ipmitool`: neither they nor the BMC know of the driver. A wrong password is a fault.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_clusterlabs_reads_and_switches_an_emulated_bmc() {
    if !debian::available_to_test("fenceAgent").unwrap() {
        return;
    }
    let agents = tokio::task::spawn_blocking(DebianAgents::unpack);
    let agents = agents.await.unwrap().unwrap();
    let bench = crate::ipmi::bench_with(fencing_testbed::ipmi::Settings::default());
    let address = bench.bmc.address();
    let account = bench.bmc.credentials().clone();
    let of = |user: &str, password: &str| {
        let mut parameters = parameters(&address.ip().to_string(), address.port());
        parameters[2] = json!({"name": "username", "value": user});
        FenceAgent::new(settings_for(agents.directory(), &parameters, password)).unwrap()
    };
    let driver = of(&account.username, &account.password);
    let probe = driver.open().probe(Extent::Needed).await.unwrap();
    assert_eq!(
        (probe.reading.state, probe.reading.raw.as_str()),
        (PowerState::On, "Status: ON")
    );
    assert_eq!(off(&driver).await, Ok(OffOutcome::Accepted));
    assert!(!bench.plug.is_on());
    assert_eq!(
        driver.open().observe().await.unwrap().state,
        PowerState::Off
    );
    let said = "Success: Already OFF".to_owned();
    assert_eq!(off(&driver).await, Ok(OffOutcome::AlreadyOff { said }));
    let mut session = driver.open();
    assert_eq!(session.prepare_on().await.unwrap().state, PowerState::Off);
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    assert!(bench.plug.is_on());
    assert_eq!(driver.open().observe().await.unwrap().state, PowerState::On);
    let commands = bench.bmc.power_commands();
    assert_eq!(commands.len(), 2, "off once, on once: {commands:?}");
    for driver in [
        of(&account.username, "wrong"),
        of("stranger", &account.password),
    ] {
        let error = driver.open().observe().await.unwrap_err();
        assert_eq!(error.reason(), "ProtocolError", "{error}");
        assert!(
            error.to_string().contains("ended with exit code 1"),
            "{error}"
        );
    }
    assert!(bench.plug.is_on());
}
