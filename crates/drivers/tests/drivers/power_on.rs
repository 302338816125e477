//! The other command: on, to what reads Off, only where it is offered; and what its answers mean.

use crate::agent::{self, Agent, COMMUNITY, now};
use crate::bmc::{Act, Bmc, reply};
use crate::device::{RESET, driver, service, system, system_with};
use crate::ipmi::{UUID, bench_with};
use fencing_core::reading::PowerState;
use fencing_drivers::ipmi::Ipmi;
use fencing_drivers::pdu::Pdu;
use fencing_drivers::{DeviceError, FenceDriver, OffOutcome, OnOutcome};
use fencing_testbed::ipmi::{Nonsense, Reply, Settings, Which};
use fencing_testbed::power::Power;
use serde_json::json;

async fn power_on(driver: &dyn FenceDriver) -> Result<OnOutcome, DeviceError> {
    let mut session = driver.open();
    session.prepare_on().await?;
    session.power_on().await
}

#[tokio::test]
async fn redfish_turns_on_with_on_and_with_nothing_else() {
    let bmc = Bmc::plain(service("\"Off\"")).await;
    let mut session = driver(&bmc).open();
    let reading = session.prepare_on().await.unwrap();
    assert_eq!(reading.state, PowerState::Off);
    assert!(reading.identity.usable(), "who answers is told before");
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    assert_eq!(bmc.commands(), [r#"{"ResetType":"On"}"#]);
    // Once.
    assert_eq!(session.power_on().await.unwrap_err().reason(), "Refused");
    assert_eq!(bmc.commands().len(), 1);
}

/// S11: what is prepared for the one command does not send the other.
#[tokio::test]
async fn what_was_prepared_for_an_off_turns_nothing_on() {
    let bmc = Bmc::plain(service("\"Off\"")).await;
    let mut session = driver(&bmc).open();
    session.prepare_off().await.unwrap();
    assert_eq!(session.power_on().await.unwrap_err().reason(), "Refused");
    session.prepare_on().await.unwrap();
    assert_eq!(session.force_off().await.unwrap_err().reason(), "Refused");
    assert!(bmc.commands().is_empty());
    let ipmi = bench_with(Settings::default());
    let mut session = Ipmi::new(ipmi.settings()).unwrap().open();
    session.prepare_off().await.unwrap();
    assert_eq!(session.power_on().await.unwrap_err().reason(), "Refused");
    assert!(ipmi.bmc.power_commands().is_empty());
    let pdu = Agent::start(|question| now(question.states(&[agent::OFF, agent::OFF]))).await;
    let mut session = pdu.driver().open();
    session.prepare_off().await.unwrap();
    assert_eq!(session.power_on().await.unwrap_err().reason(), "Refused");
    assert!(pdu.commands().is_empty());
}

#[tokio::test]
async fn redfish_that_offers_no_on_is_told_nothing() {
    let offers =
        r#""ResetType@Redfish.AllowableValues":["ForceOn","ForceRestart","ForceOff","PowerCycle"]"#;
    let bmc =
        Bmc::plain(move |_| Act::Send(reply("200 OK", &system_with("\"Off\"", offers)))).await;
    let error = power_on(&driver(&bmc)).await.unwrap_err();
    assert_eq!(error.reason(), "Refused");
    assert!(error.to_string().contains("On is not among"), "{error}");
    assert!(bmc.commands().is_empty());
}

#[tokio::test]
async fn what_the_answer_to_an_on_means() {
    let answered = async |status: &'static str| {
        let bmc = Bmc::plain(move |request| {
            let answer = match request.path.as_str() {
                RESET => reply(status, "{}"),
                _ => reply("200 OK", &system("\"Off\"")),
            };
            Act::Send(answer)
        })
        .await;
        let outcome = power_on(&driver(&bmc)).await;
        assert_eq!(bmc.commands().len(), 1, "{status}");
        outcome
    };
    for status in ["200 OK", "202 Accepted", "204 No Content"] {
        assert_eq!(answered(status).await, Ok(OnOutcome::Accepted), "{status}");
    }
    for status in ["400 Bad Request", "409 Conflict"] {
        let outcome = answered(status).await;
        assert!(matches!(outcome, Ok(OnOutcome::Unknown(_))), "{outcome:?}");
    }
    let outcome = answered("500 Internal Server Error").await;
    assert!(matches!(outcome, Ok(OnOutcome::Unknown(_))), "{outcome:?}");
    let error = answered("403 Forbidden").await.unwrap_err();
    assert_eq!(error.reason(), "PermissionDenied");
}

#[tokio::test]
async fn an_on_without_an_answer_may_have_been_carried_out() {
    let bmc = Bmc::plain(|request| match request.path.as_str() {
        RESET => Act::Hang,
        _ => Act::Send(reply("200 OK", &system("\"Off\""))),
    })
    .await;
    let outcome = power_on(&driver(&bmc)).await;
    let Ok(OnOutcome::Unknown(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(error.to_string().contains("the power-on"), "{error}");
}

#[tokio::test]
async fn ipmi_turns_on_by_power_up_with_the_privilege_for_it() {
    let bench = bench_with(Settings::default());
    bench.plug.set_power(false);
    let driver = Ipmi::new(bench.settings()).unwrap();
    let mut session = driver.open();
    let reading = session.prepare_on().await.unwrap();
    assert_eq!(reading.state, PowerState::Off);
    assert!(reading.identity.is_system(UUID));
    assert!(!bench.plug.is_on());
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    assert!(bench.plug.is_on());
    let commands = bench.bmc.power_commands();
    let controls: Vec<u8> = commands.iter().map(|it| it.control).collect();
    assert_eq!(controls, [1], "power up, and no cycle");
    assert_eq!(session.observe().await.unwrap().state, PowerState::On);
    // To a machine that runs it does nothing, and the driver says what it reads.
    assert_eq!(session.prepare_on().await.unwrap().state, PowerState::On);
}

#[tokio::test]
async fn ipmi_that_refuses_or_is_silent() {
    let said = |code| {
        let bench = bench_with(Settings::default());
        bench.plug.set_power(false);
        let reply = Reply::new(Which::Command(0x00, 0x02), Nonsense::Code(code));
        bench.bmc.faults(|faults| faults.replies.push(reply));
        bench
    };
    // Of a machine that runs it is already on, and of one that does not it says nothing.
    let bench = said(0xd5);
    let outcome = power_on(&Ipmi::new(bench.settings()).unwrap()).await;
    assert!(
        matches!(&outcome, Ok(OnOutcome::Unknown(error)) if error.to_string().contains("reads Off")),
        "{outcome:?}"
    );
    bench.plug.set_power(true);
    let outcome = power_on(&Ipmi::new(bench.settings()).unwrap()).await;
    assert!(
        matches!(&outcome, Ok(OnOutcome::AlreadyOn { said }) if said.contains("0xd5")),
        "{outcome:?}"
    );
    let bench = said(0xd4);
    let error = power_on(&Ipmi::new(bench.settings()).unwrap()).await;
    let error = error.unwrap_err();
    assert_eq!(error.reason(), "PermissionDenied");
    assert!(error.to_string().contains("the power-on"), "{error}");
    let bench = said(0xff);
    let outcome = power_on(&Ipmi::new(bench.settings()).unwrap()).await;
    assert!(matches!(outcome, Ok(OnOutcome::Unknown(_))), "{outcome:?}");
}

#[tokio::test]
async fn every_outlet_of_a_pdu_is_switched_on() {
    let pdu = Agent::start(|question| now(question.states(&[agent::OFF, agent::OFF]))).await;
    let mut session = pdu.driver().open();
    let reading = session.prepare_on().await.unwrap();
    assert_eq!(reading.state, PowerState::Off);
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
    assert_eq!(pdu.commands(), [3, 7]);
    assert_eq!(pdu.ons(), [true, true]);
}

#[tokio::test]
async fn a_pdu_that_takes_one_outlet_only_says_which() {
    let pdu = Agent::start(|question| {
        if question.is_set && question.outlet() == 7 {
            return now(question.answer(&[], 6));
        }
        now(question.states(&[agent::OFF, agent::OFF]))
    })
    .await;
    let outcome = power_on(&pdu.driver()).await;
    let Ok(OnOutcome::Unknown(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(error.reason(), "PartlyOn");
    let words = error.to_string();
    assert!(
        words.contains("outlet 3 took the command to switch on") && words.contains("outlet 7"),
        "{words}"
    );
}

/// Of a table that only says how an outlet is switched off nobody guesses the other number.
#[tokio::test]
async fn a_generic_table_without_a_value_for_on_switches_nothing_on() {
    let table = json!({
        "controlOID": "1.3.6.1.4.1.318.1.1.26.9.2.4.1.5.${outlet}", "controlOffValue": 2,
        "statusOID": "1.3.6.1.4.1.318.1.1.26.9.2.3.1.5.${outlet}", "statusOffValue": 1, "statusOnValue": 2,
    });
    for (value, outcome) in [(None, None), (Some(1), Some(OnOutcome::Accepted))] {
        let pdu = Agent::start(|question| now(question.states(&[agent::OFF, agent::OFF]))).await;
        let mut table = table.clone();
        if let Some(value) = value {
            table["controlOnValue"] = json!(value);
        }
        let changes = json!({"model": "Generic", "generic": table});
        let settings = agent::settings(pdu.address, changes, &[("community", COMMUNITY)]);
        let driver = Pdu::new(settings).unwrap();
        let on = power_on(&driver).await;
        match outcome {
            Some(outcome) => assert_eq!(on, Ok(outcome)),
            None => {
                let words = on.unwrap_err().to_string();
                assert!(words.contains("controlOnValue"), "{words}");
                assert!(pdu.commands().is_empty());
            }
        }
        // Off is switched either way.
        let mut session = driver.open();
        session.prepare_off().await.unwrap();
        assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    }
}
