//! The PDU driver against an agent of the test: outlets that do not switch, answers that are not off, and what is sent when.

use crate::agent::{Agent, Answers, OFF, ON, Question, element, int, now, settings_with};
use fencing_core::reading::PowerState;
use fencing_drivers::address::AddressRules;
use fencing_drivers::pdu::{Pdu, PduSettings};
use fencing_drivers::{Advice, DeviceError, Extent, FenceDriver, OffOutcome};
use futures::future::join_all;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a PDU whose agent does this is read as: `On(3: on, 7: on)`, or the reason of the error.
pub async fn verdict(script: impl Fn(&Question) -> Answers + Send + Sync + 'static) -> String {
    let agent = Agent::start(script).await;
    let settings = PduSettings {
        call_timeout: Duration::from_secs(3),
        ..agent.settings()
    };
    match Pdu::new(settings).unwrap().open().observe().await {
        Ok(reading) => format!("{:?}({})", reading.state, reading.raw),
        Err(error) => {
            let words = format!("{error} {error:?}");
            assert!(!words.contains(crate::agent::COMMUNITY), "{words}");
            error.reason().to_owned()
        }
    }
}

async fn power_off(driver: &Pdu) -> Result<OffOutcome, DeviceError> {
    let mut session = driver.open();
    session.prepare_off().await?;
    session.force_off().await
}

/// Outlets 3 and 7, which really switch, and whose agent takes every command.
pub fn switching() -> impl Fn(&Question) -> Answers + Send + Sync {
    let states = Mutex::new(BTreeMap::from([(3, ON), (7, ON)]));
    move |question| {
        let mut states = states.lock().unwrap();
        if question.is_set {
            states.insert(question.outlet(), OFF);
        }
        let states: Vec<u8> = states.values().copied().collect();
        now(question.states(&states))
    }
}

#[tokio::test]
async fn every_outlet_is_switched_off_once_and_read_again() {
    let agent = Agent::start(switching()).await;
    let mut session = agent.driver().open();
    let before = session.observe().await.unwrap();
    session.prepare_off().await.unwrap();
    assert_eq!(
        (before.state, before.raw.as_str()),
        (PowerState::On, "3: on, 7: on")
    );
    assert_eq!(agent.commands(), [0_u8; 0]);
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    assert_eq!(agent.commands(), [3, 7]);
    let after = session.observe().await.unwrap();
    assert_eq!(
        (after.state, after.raw.as_str()),
        (PowerState::Off, "3: off, 7: off")
    );
    assert!(after.asked <= after.answered && after.identity.system_uuid.is_none());
}

#[tokio::test]
async fn the_command_is_sent_to_outlets_that_read_off_too() {
    let agent = Agent::start(|question| now(question.states(&[OFF, OFF]))).await;
    assert_eq!(power_off(&agent.driver()).await, Ok(OffOutcome::Accepted));
    assert_eq!(agent.commands(), [3, 7]);
}

#[tokio::test]
async fn nothing_is_switched_that_was_not_prepared() {
    let agent = Agent::start(switching()).await;
    let mut session = agent.driver().open();
    session.observe().await.unwrap();
    assert_eq!(session.force_off().await.unwrap_err().reason(), "Refused");
    session.prepare_off().await.unwrap();
    session.force_off().await.unwrap();
    // And not twice.
    assert_eq!(session.force_off().await.unwrap_err().reason(), "Refused");
    assert_eq!(agent.commands(), [3, 7]);
}

#[tokio::test]
async fn one_of_two_outlets_still_on_reads_on() {
    let read = verdict(|question| now(question.states(&[OFF, ON]))).await;
    assert_eq!(read, "On(7: on, 3: off)");
}

#[tokio::test]
async fn an_outlet_that_does_not_say_off_is_not_off() {
    let answering = |value: Vec<u8>| {
        move |question: &Question| {
            let values = [int(OFF), value.clone(), int(2), int(2)];
            now(question.answer(&values, 0))
        }
    };
    for (value, read) in [
        (element(4, b""), "Unknown(7: \"\", 3: off)"),
        (element(4, b"1"), "Unknown(7: \"1\", 3: off)"),
        (element(0x42, &[1]), "Unknown(7: type 0x42, 3: off)"),
        (element(0x81, b""), "Unknown(7: noSuchInstance, 3: off)"),
        (element(5, b""), "Unknown(7: null, 3: off)"),
        (int(3), "Unknown(7: 3, 3: off)"),
    ] {
        assert_eq!(verdict(answering(value)).await, read);
    }
    let rebooting =
        |question: &Question| now(question.answer(&[int(OFF), int(OFF), int(2), int(1)], 0));
    assert_eq!(
        verdict(rebooting).await,
        "Transitional(7: off, pending, 3: off)"
    );
}

#[tokio::test]
async fn an_answer_about_nothing_or_about_less_is_a_protocol_error() {
    let reads = [0, 1, 3].map(|kept| {
        verdict(move |question| {
            let mut less = question.clone();
            less.names.truncate(kept);
            now(less.states(&[OFF, OFF]))
        })
    });
    assert_eq!(join_all(reads).await, ["ProtocolError"; 3]);
}

#[tokio::test]
async fn an_outlet_that_the_pdu_does_not_have_is_told_before_anything_is_sent() {
    let agent = Agent::start(|question| {
        let values = [int(ON), element(0x81, b""), int(2), element(0x81, b"")];
        let mut values = values.to_vec();
        values.resize(question.names.len(), element(4, b"PDU"));
        now(question.answer(&values, 0))
    })
    .await;
    let mut session = agent.driver().open();
    let error = session.prepare_off().await.unwrap_err();
    assert_eq!(
        (error.reason(), error.advice()),
        ("SettingsInvalid", Advice::Human)
    );
    let words = error.to_string();
    assert!(
        words.contains("`pdu.outlets`") && words.contains("no outlet 7"),
        "{words}"
    );
    assert_eq!(session.probe(Extent::Whole).await, Err(error));
    assert_eq!(session.force_off().await.unwrap_err().reason(), "Refused");
    assert_eq!(agent.commands(), [0_u8; 0]);
}

#[tokio::test]
async fn a_probe_reads_and_describes_and_changes_nothing() {
    let agent = Agent::start(|question| {
        let mut values = vec![int(ON), int(ON), int(2), int(2)];
        values.push(element(4, b"APC Web/SNMP Management Card\n"));
        now(question.answer(&values, 0))
    })
    .await;
    let probe = agent.driver().open().probe(Extent::Whole).await.unwrap();
    assert_eq!(probe.reading.state, PowerState::On);
    assert_eq!(probe.model.as_deref(), Some("APC Web/SNMP Management Card"));
    assert!(probe.off_denied.is_none() && agent.commands().is_empty());
}

#[tokio::test]
async fn a_community_goes_to_no_host_that_its_secret_or_the_rules_exclude() {
    let agent = Agent::start(switching()).await;
    let secret = [("community", crate::agent::COMMUNITY)];
    let annotations = BTreeMap::from([(
        "nodefencing.io/allowed-hosts".to_owned(),
        "10.0.0.0/8".to_owned(),
    )]);
    let excluded = settings_with(agent.address, json!({}), &secret, &annotations);
    let denied = PduSettings {
        rules: Arc::new(AddressRules::default()),
        ..agent.settings()
    };
    for (settings, reason) in [
        (excluded, "CredentialsInvalid"),
        (denied, "AddressNotAllowed"),
    ] {
        let driver = Pdu::new(settings).unwrap();
        assert_eq!(driver.open().connect().await.unwrap_err().reason(), reason);
        assert_eq!(driver.open().observe().await.unwrap_err().reason(), reason);
    }
    assert!(agent.questions().is_empty());
}

#[tokio::test]
async fn connecting_sends_nothing_and_no_secret_is_shown() {
    let agent = Agent::start(switching()).await;
    let driver = agent.driver();
    let mut session = driver.open();
    session.connect().await.unwrap();
    assert!(agent.questions().is_empty());
    session.observe().await.unwrap();
    let shown = format!(
        "{driver:?} {session:?} {:?} {}",
        agent.settings(),
        driver.target()
    );
    assert!(!shown.contains(crate::agent::COMMUNITY), "{shown}");
}

/// L1: who has the same target waits for the other.
#[tokio::test]
async fn outlets_of_one_number_on_two_units_are_two_targets() {
    let agent = Agent::start(switching()).await;
    let target = |unit: u32| {
        let column =
            |column: u32| format!("1.3.6.1.4.1.13742.6.4.1.2.1.{column}.{unit}.${{outlet}}");
        let driver = serde_json::json!({"address": "127.0.0.1", "model": "Generic", "outlets": [3], "snmp": {"version": "V2c"}, "generic": {
            "controlOID": column(2), "controlOffValue": 0,
            "statusOID": column(3), "statusOffValue": 8, "statusOnValue": 7,
        }});
        let settings = PduSettings {
            driver: serde_json::from_value(driver).unwrap(),
            ..agent.settings()
        };
        Pdu::new(settings).unwrap().target()
    };
    assert_ne!(target(1), target(2));
    assert_eq!(target(1), target(1));
}
