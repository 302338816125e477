//! The PDU driver on a network that loses, repeats, delays and forges datagrams.

use crate::agent::{
    Agent, Answers, COMMUNITY, ENDLESS, OFF, ON, Question, element, int, now, settings,
};
use crate::pdu::{switching, verdict};
use fencing_core::reading::PowerState;
use fencing_drivers::address::{AddressRules, Lookup};
use fencing_drivers::pdu::{Pdu, PduSettings};
use fencing_drivers::{Advice, FenceDriver, OffOutcome};
use futures::future::{FutureExt, join_all, ready};
use serde_json::json;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A wrong community is silence, too, and the message says so.
#[tokio::test]
async fn a_silent_pdu_ends_at_the_call_s_own_deadline() {
    let agent = Agent::start(|_| Answers::new()).await;
    let settings = PduSettings {
        call_timeout: Duration::from_secs(2),
        ..agent.settings()
    };
    let begin = Instant::now();
    let error = Pdu::new(settings)
        .unwrap()
        .open()
        .observe()
        .await
        .unwrap_err();
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(2) && took < ENDLESS, "{took:?}");
    assert_eq!(
        (error.reason(), error.advice()),
        ("Unreachable", Advice::Retry)
    );
    assert!(error.to_string().contains("community"), "{error}");
    // Sent again, the same bytes with the same number.
    let questions = agent.questions();
    assert!(questions.len() > 1);
    assert!(
        questions
            .iter()
            .all(|question| question.datagram == questions[0].datagram)
    );
}

#[tokio::test]
async fn a_third_of_the_datagrams_may_be_lost() {
    let switching = switching();
    // Of three datagrams one is lost on the way there, and one on the way back.
    let agent = Agent::start(move |question| match question.earlier % 3 {
        0 => Answers::new(),
        1 => {
            switching(question);
            Answers::new()
        }
        _ => switching(question),
    })
    .await;
    let driver = agent.driver();
    let mut session = driver.open();
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    assert_eq!(session.observe().await.unwrap().state, PowerState::Off);
    // Each command once, however often it had to be sent.
    let mut commands: Vec<_> = agent
        .questions()
        .into_iter()
        .filter(|question| question.is_set)
        .collect();
    commands.dedup_by_key(|question| question.datagram.clone());
    assert_eq!(commands.len(), 2);
}

#[tokio::test]
async fn duplicates_and_late_answers_to_earlier_questions_are_dropped() {
    let before: Mutex<Vec<u8>> = Mutex::default();
    let agent = Agent::start(move |question| {
        let states = if question.earlier == 0 {
            [OFF, OFF]
        } else {
            [ON, ON]
        };
        let answer = question.states(&states);
        let earlier = std::mem::replace(&mut *before.lock().unwrap(), answer.clone());
        let datagrams = [earlier.clone(), earlier, answer.clone(), answer];
        datagrams.map(|datagram| (Duration::ZERO, datagram)).into()
    })
    .await;
    let mut session = agent.driver().open();
    assert_eq!(session.observe().await.unwrap().state, PowerState::Off);
    for _ in 0..3 {
        assert_eq!(session.observe().await.unwrap().state, PowerState::On);
    }
    assert_eq!(agent.questions().len(), 4);
}

#[tokio::test]
async fn corrupt_and_replayed_datagrams_are_dropped_and_the_question_is_sent_again() {
    let wrong = |question: &Question| {
        let right = question.states(&[OFF, OFF]);
        let mut cut = right.clone();
        cut.pop();
        let mut flipped = right.clone();
        flipped[9] ^= 0x20;
        let replayed = question.renumbered().states(&[OFF, OFF]);
        let longer = [right, vec![0]].concat();
        [
            Vec::new(),
            vec![0; 40],
            vec![0xff; 8000],
            cut,
            flipped,
            replayed,
            longer,
            question.datagram.clone(),
        ]
    };
    let agent = Agent::start(move |question| {
        let mut answers: Answers = wrong(question)
            .map(|datagram| (Duration::ZERO, datagram))
            .into();
        if question.earlier > 0 {
            answers.push((Duration::ZERO, question.states(&[ON, ON])));
        }
        answers
    })
    .await;
    assert_eq!(
        agent.driver().open().observe().await.unwrap().state,
        PowerState::On
    );
    assert!(agent.questions().len() > 1);
    // With nothing else, there is no reading.
    let reads = (0..8).map(|kind| verdict(move |question| now(wrong(question)[kind].clone())));
    assert_eq!(join_all(reads).await, ["ProtocolError"; 8]);
}

#[tokio::test]
async fn huge_and_endless_datagrams_end_by_a_limit() {
    let huge = |question: &Question| {
        let padding = element(4, &[b'x'; 60_000]);
        now(question.answer(&[int(OFF), padding, int(2), int(2)], 0))
    };
    assert_eq!(verdict(huge).await, "ProtocolError");
    let endless = |_: &Question| vec![(Duration::ZERO, vec![0x30, 0]); 5000];
    let begin = Instant::now();
    assert_eq!(verdict(endless).await, "ProtocolError");
    assert!(begin.elapsed() < ENDLESS);
}

/// The driver for an agent by a name that leads to these addresses, and the next time to the same in another order.
fn by_a_name_of(agent: &Agent, addresses: &[IpAddr]) -> Pdu {
    Pdu::new(named(agent, addresses)).unwrap()
}

fn named(agent: &Agent, addresses: &[IpAddr]) -> PduSettings {
    let port = agent.address.port();
    let found = addresses
        .iter()
        .map(|address| SocketAddr::new(*address, port));
    let (found, asked): (Vec<_>, _) = (found.collect(), AtomicUsize::new(0));
    let lookup = Lookup::new(move |_, _| {
        let mut found = found.clone();
        let turn = asked.fetch_add(1, Ordering::Relaxed) % found.len();
        found.rotate_left(turn);
        ready(Ok(found)).boxed()
    });
    let allowed = ["127.0.0.0/8", "::1/128"].map(|range| range.parse().unwrap());
    let rules = AddressRules::new(allowed.into(), Vec::new()).with_lookup(lookup);
    let named = json!({"address": "pdu.example"});
    PduSettings {
        rules: Arc::new(rules),
        ..settings(agent.address, named, &[("community", COMMUNITY)])
    }
}

/// The outlets would be switched on one of them, and read on the other one, where they may have been off for years.
#[tokio::test]
async fn a_name_of_two_pdus_is_neither_switched_nor_read() {
    let one = Agent::start(switching()).await;
    let spare = |question: &Question| now(question.states(&[OFF, OFF]));
    let other = Agent::at_port(one.address.port(), spare).await;
    let addresses = [&one, &other].map(|agent| agent.address.ip());
    let driver = by_a_name_of(&one, &addresses);
    let mut session = driver.open();
    let prepared = session.prepare_off().await.map(drop);
    let commanded = session.force_off().await;
    assert_eq!(commanded.unwrap_err().reason(), "Refused");
    for answer in [
        prepared,
        driver.open().connect().await,
        driver.open().observe().await.map(drop),
    ] {
        let error = answer.unwrap_err();
        assert_eq!(
            (error.reason(), error.advice()),
            ("SettingsInvalid", Advice::Human)
        );
        let [one, other] = addresses.map(|address| address.to_string());
        for part in [
            &one,
            &other,
            "`require: All`",
            "write the one address into `pdu.address`",
        ] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
    assert!(one.questions().is_empty() && other.questions().is_empty());
}

/// Whichever the name service puts first.
#[tokio::test]
async fn a_pdu_with_an_address_of_each_family_is_asked_at_the_same_one_each_time() {
    let agent = Agent::start(switching()).await;
    let (ipv4, ipv6) = (agent.address.ip(), "::1".parse().unwrap());
    let driver = by_a_name_of(&agent, &[ipv6, ipv4, ipv4]);
    for asked in 1..4 {
        driver.open().observe().await.unwrap();
        assert_eq!(agent.questions().len(), asked);
    }
}

/// It may listen at the other one.
#[tokio::test]
async fn a_silent_pdu_with_an_address_of_each_family_has_the_one_named_that_was_asked() {
    let agent = Agent::start(|_| Answers::new()).await;
    let (ipv4, ipv6) = (agent.address.ip(), "::1".parse().unwrap());
    let silent = async |settings: PduSettings| {
        let hasty = PduSettings {
            call_timeout: Duration::from_secs(1),
            ..settings
        };
        let answer = Pdu::new(hasty).unwrap().open().observe().await;
        answer.unwrap_err().to_string()
    };
    let by_name = silent(named(&agent, &[ipv6, ipv4])).await;
    let asked = format!("no answer within 1s from {ipv4}.");
    for part in [
        &asked,
        "community",
        "write the one address into `pdu.address`",
    ] {
        assert!(by_name.contains(part), "{by_name}");
    }
    let by_address = silent(agent.settings()).await;
    assert!(!by_address.contains("`pdu.address`"), "{by_address}");
}
