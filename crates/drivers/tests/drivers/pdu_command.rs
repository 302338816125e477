//! What the answers to the command mean, outlet by outlet: taken, refused, and everything in between.

use crate::agent::{Agent, Answers, OFF, ON, Question, now, settings};
use fencing_drivers::pdu::{Pdu, PduSettings};
use fencing_drivers::{DeviceError, FenceDriver, OffOutcome};
use serde_json::json;
use std::sync::Mutex;
use std::time::Duration;

/// What the agent does with the command for an outlet.
type Command = fn(&Question) -> Answers;

/// Powers off outlets 3 and 7, with this answer to the command for the second, or to both.
async fn power_off(answer: Command, both: bool) -> (Result<OffOutcome, DeviceError>, Vec<u8>) {
    let agent = Agent::start(move |question| {
        if question.is_set && (both || question.outlet() == 7) {
            answer(question)
        } else {
            now(question.states(&[ON, ON]))
        }
    })
    .await;
    let settings = PduSettings {
        command_timeout: Duration::from_millis(1800),
        ..agent.settings()
    };
    let mut session = Pdu::new(settings).unwrap().open();
    session.prepare_off().await.unwrap();
    let outcome = session.force_off().await;
    (outcome, agent.commands())
}

/// An answer with this error and no values.
fn failing(question: &Question, error_status: u8) -> Answers {
    now(question.answer(&[], error_status))
}

const REFUSED: [(Command, &str, &str); 5] = [
    (
        |question| failing(question, 6),
        "PermissionDenied",
        "noAccess",
    ),
    (
        |question| failing(question, 16),
        "PermissionDenied",
        "authorizationError",
    ),
    (
        |question| failing(question, 17),
        "PermissionDenied",
        "notWritable",
    ),
    (|question| failing(question, 10), "Refused", "wrongValue"),
    (
        |question| failing(question, 12),
        "Refused",
        "inconsistentValue",
    ),
];

#[tokio::test]
async fn a_refusal_by_the_first_outlet_is_an_error_and_the_second_is_left_alone() {
    for (answer, reason, name) in REFUSED {
        let (outcome, commands) = power_off(answer, true).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.reason(), reason);
        assert!(
            error.to_string().contains("outlet 3") && error.to_string().contains(name),
            "{error}"
        );
        assert_eq!(commands, [3]);
    }
}

#[tokio::test]
async fn a_refusal_by_the_second_outlet_is_unknown_and_names_both() {
    for (answer, _, name) in REFUSED {
        let (outcome, commands) = power_off(answer, false).await;
        let Ok(OffOutcome::Unknown(error)) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(error.reason(), "PartlyOff");
        let words = error.to_string();
        for part in ["outlet 3 took", "outlet 7 may not have", name] {
            assert!(words.contains(part), "{words}");
        }
        assert_eq!(commands, [3, 7]);
    }
}

#[tokio::test]
async fn an_error_after_which_it_may_be_off_and_silence_are_unknown() {
    const UNCLEAR: [(Command, &str); 5] = [
        (|question| failing(question, 5), "ProtocolError"),
        (|question| failing(question, 14), "ProtocolError"),
        (|question| failing(question, 99), "ProtocolError"),
        (|_| Answers::new(), "Unreachable"),
        (|_| now(b"SSH-2.0".to_vec()), "ProtocolError"),
    ];
    for (answer, reason) in UNCLEAR {
        let (outcome, commands) = power_off(answer, true).await;
        let Ok(OffOutcome::Unknown(error)) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(error.reason(), reason);
        // What became of the first keeps nobody from the second.
        assert!(
            commands.starts_with(&[3]) && commands.contains(&7),
            "{commands:?}"
        );
        let (outcome, _) = power_off(answer, false).await;
        let Ok(OffOutcome::Unknown(error)) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(error.reason(), "PartlyOff");
    }
}

/// An APC AP8965 ends every command with genErr and switches (apc-pdu-snmp issue 18).
#[tokio::test]
async fn outlets_that_switch_with_an_error_are_all_commanded_and_read_off() {
    let agent = Agent::start({
        let off = Mutex::new([ON, ON]);
        move |question| {
            let mut states = off.lock().unwrap();
            if !question.is_set {
                return now(question.states(&*states));
            }
            states[usize::from(question.outlet() == 7)] = OFF;
            failing(question, 5)
        }
    })
    .await;
    let mut session = agent.driver().open();
    session.prepare_off().await.unwrap();
    let outcome = session.force_off().await;
    let Ok(OffOutcome::Unknown(error)) = outcome else {
        panic!("{outcome:?}");
    };
    let words = error.to_string();
    assert!(
        words.contains("genErr") && !words.contains("address is"),
        "{words}"
    );
    assert_eq!(agent.commands(), [3, 7]);
    assert!(session.observe().await.unwrap().is_off());
}

/// The first outlet never answers: the second has its command in the first half of the time, and the first is tried once more.
#[tokio::test]
async fn a_silent_outlet_keeps_no_other_from_its_command() {
    let agent = Agent::start(|question| match question.is_set && question.outlet() == 3 {
        true => Answers::new(),
        false => now(question.states(&[ON, ON])),
    })
    .await;
    let settings = PduSettings {
        command_timeout: Duration::from_millis(1500),
        ..agent.settings()
    };
    let mut session = Pdu::new(settings).unwrap().open();
    session.prepare_off().await.unwrap();
    let outcome = session.force_off().await;
    let Ok(OffOutcome::Unknown(error)) = outcome else {
        panic!("{outcome:?}");
    };
    let words = error.to_string();
    assert!(
        words.contains("outlet 7 took") && words.contains("outlet 3 may not"),
        "{words}"
    );
    let commands = agent.commands();
    assert!(
        commands.starts_with(&[3]) && commands.ends_with(&[3]),
        "{commands:?}"
    );
    assert_eq!(commands.iter().filter(|outlet| **outlet == 7).count(), 1);
}

/// The first of two commands may have been taken, however definite the refusal of the second is.
#[tokio::test]
async fn a_refusal_after_a_lost_answer_is_unknown() {
    let agent = Agent::start(|question| match (question.is_set, question.earlier) {
        (false, _) => now(question.states(&[ON, ON])),
        (true, 1) => Answers::new(),
        (true, _) => failing(question, 12),
    })
    .await;
    let mut session = agent.driver().open();
    session.prepare_off().await.unwrap();
    let outcome = session.force_off().await;
    assert!(
        matches!(
            outcome,
            Ok(OffOutcome::Unknown(DeviceError::Refused { .. }))
        ),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_dropped_command_is_not_repeated_by_the_session() {
    let agent = Agent::start(|question| match question.is_set {
        false => now(question.states(&[ON, ON])),
        true => Answers::new(),
    })
    .await;
    let mut session = agent.driver().open();
    session.prepare_off().await.unwrap();
    let dropped = tokio::time::timeout(Duration::from_millis(100), session.force_off()).await;
    assert!(dropped.is_err());
    // The session goes on, and sends no command without being prepared again.
    assert_eq!(session.force_off().await.unwrap_err().reason(), "Refused");
    session.observe().await.unwrap();
    assert_eq!(agent.commands(), [3]);
}

#[test]
fn secrets_that_snmp_cannot_use_name_the_key_and_not_the_value() {
    let address = "127.0.0.1:161".parse().unwrap();
    let v3 = json!({"snmp": {"version": "V3"}});
    let long = "u".repeat(33);
    for (user, authentication, privacy, key) in [
        (long.as_str(), "long enough", "long enough", "`username`"),
        ("fencer", "short12", "long enough", "`authPassword`"),
        ("fencer", "long enough", "short12", "`privPassword`"),
    ] {
        let secret = [
            ("username", user),
            ("authPassword", authentication),
            ("privPassword", privacy),
        ];
        let error = Pdu::new(settings(address, v3.clone(), &secret)).unwrap_err();
        assert_eq!(error.reason(), "CredentialsInvalid");
        let words = error.to_string();
        assert!(
            words.contains(key) && !words.contains("short12") && !words.contains(&long),
            "{words}"
        );
    }
}
