mod engine;

use super::message::Value;
use super::*;
use crate::pdu::snmp::oid::Oid;
use fencing_api::pdu::{SnmpAuthentication, SnmpPrivacy};
use proptest::prelude::*;

const ENGINE: &[u8] = b"\x80\0\0\0engine";

fn user() -> User {
    let (hash, cipher) = (SnmpAuthentication::SHA256, SnmpPrivacy::AES128);
    User::new("fencer", hash, "correct horse", cipher, "battery staple")
}

fn binding(value: Value) -> Binding {
    let name = Oid::parse("1.3.6.1.4.1.318.1").unwrap();
    Binding { name, value }
}

/// The agent at the other end, which knows its own clock.
struct Agent {
    user: User,
    engine: Engine,
}

impl Agent {
    fn new(boots: i32, time_seconds: i32) -> Self {
        let user = user();
        let engine = Engine {
            id: ENGINE.to_vec(),
            keys: user.keys(ENGINE),
            boots,
            time_seconds,
            heard: Duration::ZERO,
            signed: true,
        };
        Self { user, engine }
    }

    /// The question in a datagram, decrypted.
    fn read(&self, datagram: &[u8]) -> (i32, Unit) {
        let message = V3::decode(datagram).unwrap();
        assert!(message.authenticated && message.private && message.reportable);
        let keys = &self.engine.keys;
        assert!(keys.is_signed(datagram, message.signature, message.signature_offset));
        let mut data = message.data.to_vec();
        let salt = message.salt.try_into().unwrap();
        keys.decrypt(message.boots, message.time_seconds, salt, &mut data);
        (message.message_id, message::decode_scoped(&data).unwrap())
    }

    /// A signed and encrypted answer.
    fn answer(&self, message_id: i32, request_id: i32, value: Value) -> Vec<u8> {
        let mut unit = Unit::request(Kind::Response, request_id, vec![binding(value)]);
        unit.error_status = 0;
        secured(
            &self.user,
            &self.engine,
            message_id,
            *b"saltsalt",
            &unit,
            Duration::ZERO,
        )
    }

    /// A report in plain text, signed if `signed`.
    fn report(&self, message_id: i32, about: &str, signed: bool) -> Vec<u8> {
        let name = Oid::parse(about).unwrap();
        let count = Binding {
            name,
            value: Value::Other(0x41),
        };
        let unit = Unit::request(Kind::Report, 0, vec![count]);
        let data = message::encode_scoped(&self.engine.id, &unit);
        let zeros = [0; 24];
        let mut message = V3 {
            message_id,
            authenticated: signed,
            private: false,
            reportable: false,
            engine_id: &self.engine.id,
            boots: self.engine.boots,
            time_seconds: self.engine.time_seconds,
            user: if signed { b"fencer" } else { b"" },
            signature: if signed { &zeros } else { &[] },
            signature_offset: 0,
            salt: &[],
            data: &data,
        };
        let signature = self.engine.keys.sign(&message.encode());
        if signed {
            message.signature = &signature;
        }
        message.encode()
    }
}

fn message_id(datagram: &[u8]) -> i32 {
    V3::decode(datagram).unwrap().message_id
}

fn is_nothing(heard: &Heard, because: &str) -> bool {
    matches!(heard, Heard::Nothing(why) if why.contains(because))
}

fn v2c() -> Conversation {
    let community = Security::Community(Zeroizing::new("secret".to_owned()));
    Conversation::new(Arc::new(community), [7; 32])
}

/// A conversation whose engine is known and whose question is on its way, and that question as the agent reads it.
fn asked(agent: &Agent) -> (Conversation, i32, Unit) {
    let mut conversation = Conversation::new(Arc::new(Security::User(user())), [7; 32]);
    let discovery = conversation.ask(Kind::Get, vec![binding(Value::Null)], Duration::ZERO);
    let report = agent.report(message_id(&discovery), UNKNOWN_ENGINE, false);
    let Heard::Send(question) = conversation.hear(&report, Duration::ZERO) else {
        panic!("the engine is not found");
    };
    let (message_id, unit) = agent.read(&question);
    (conversation, message_id, unit)
}

#[test]
fn an_answer_of_version_2c_needs_the_number_and_the_community_of_its_question() {
    let mut conversation = v2c();
    let first = conversation.ask(Kind::Get, vec![binding(Value::Null)], Duration::ZERO);
    let (_, unit) = message::decode_v2c(&first).unwrap();
    let answer =
        |request_id, kind| Unit::request(kind, request_id, vec![binding(Value::Integer(1))]);
    let right = message::encode_v2c(b"secret", &answer(unit.request_id, Kind::Response));

    for (wrong, because) in [
        (
            message::encode_v2c(b"public", &answer(unit.request_id, Kind::Response)),
            "community",
        ),
        (
            message::encode_v2c(b"secret", &answer(unit.request_id + 1, Kind::Response)),
            "another question",
        ),
        (
            message::encode_v2c(b"secret", &answer(unit.request_id, Kind::Set)),
            "another question",
        ),
        (first.clone(), "another question"),
        (right[..right.len() - 1].to_vec(), "cut short"),
        (Vec::new(), "cut short"),
    ] {
        let heard = conversation.hear(&wrong, Duration::ZERO);
        assert!(is_nothing(&heard, because), "{heard:?}");
    }
    assert!(matches!(
        conversation.hear(&right, Duration::ZERO),
        Heard::Answer(_)
    ));
    // A duplicate, and a replay once the next question is out.
    assert!(is_nothing(
        &conversation.hear(&right, Duration::ZERO),
        "nothing was asked"
    ));
    let second = conversation.ask(Kind::Get, vec![binding(Value::Null)], Duration::ZERO);
    assert_ne!(first, second);
    assert!(is_nothing(
        &conversation.hear(&right, Duration::ZERO),
        "another question"
    ));
}

#[test]
fn an_answer_about_other_objects_is_refused() {
    let mut conversation = v2c();
    let question = conversation.ask(Kind::Get, vec![binding(Value::Null)], Duration::ZERO);
    let (_, unit) = message::decode_v2c(&question).unwrap();
    let empty = Unit::request(Kind::Response, unit.request_id, Vec::new());
    let heard = conversation.hear(&message::encode_v2c(b"secret", &empty), Duration::ZERO);
    assert!(
        matches!(heard, Heard::Refused(Refusal::Other(_))),
        "{heard:?}"
    );
}

#[test]
fn the_engine_is_found_and_then_every_message_is_signed_and_encrypted() {
    let agent = Agent::new(3, 1000);
    let (mut conversation, id, unit) = asked(&agent);
    assert_eq!(unit.bindings, [binding(Value::Null)]);
    let answer = agent.answer(id, unit.request_id, Value::Integer(1));
    let Heard::Answer(answer) = conversation.hear(&answer, Duration::ZERO) else {
        panic!("no answer");
    };
    assert_eq!(answer.bindings, [binding(Value::Integer(1))]);
    // The engine stays known: no further discovery, and its clock has gone on.
    let next = conversation.ask(
        Kind::Set,
        vec![binding(Value::Integer(2))],
        Duration::from_secs(60),
    );
    let (_, unit) = agent.read(&next);
    assert_eq!(
        (unit.kind, V3::decode(&next).unwrap().time_seconds),
        (Kind::Set, 1060)
    );
}

#[test]
fn nothing_forged_or_less_protected_is_believed() {
    let agent = Agent::new(3, 1000);
    let (mut conversation, id, unit) = asked(&agent);
    let right = agent.answer(id, unit.request_id, Value::Integer(1));
    let mut changed = right.clone();
    *changed.last_mut().unwrap() ^= 1;
    let stranger = Agent {
        user: user(),
        engine: Engine {
            keys: User::new(
                "fencer",
                SnmpAuthentication::SHA256,
                "another word",
                SnmpPrivacy::AES128,
                "another word",
            )
            .keys(ENGINE),
            ..Agent::new(3, 1000).engine
        },
    };
    let plain = {
        let unit = Unit::request(
            Kind::Response,
            unit.request_id,
            vec![binding(Value::Integer(1))],
        );
        let data = message::encode_scoped(ENGINE, &unit);
        let message = V3::decode(&right).unwrap();
        V3 {
            authenticated: false,
            private: false,
            signature: &[],
            salt: &[],
            data: &data,
            ..message
        }
        .encode()
    };
    for (forged, because) in [
        (changed, "signature is wrong"),
        (
            stranger.answer(id, unit.request_id, Value::Integer(1)),
            "signature is wrong",
        ),
        (plain, "less protected"),
        (
            agent.answer(id + 1, unit.request_id, Value::Integer(1)),
            "another message",
        ),
        (
            agent.answer(id, unit.request_id + 1, Value::Integer(1)),
            "another question",
        ),
        (agent.report(id, NOT_IN_TIME_WINDOW, false), "not signed"),
    ] {
        let heard = conversation.hear(&forged, Duration::ZERO);
        assert!(is_nothing(&heard, because), "{because}: {heard:?}");
    }
    assert!(matches!(
        conversation.hear(&right, Duration::ZERO),
        Heard::Answer(_)
    ));
}

#[test]
fn a_message_from_before_is_a_replay() {
    let agent = Agent::new(3, 1000);
    let (mut conversation, id, unit) = asked(&agent);
    let right = agent.answer(id, unit.request_id, Value::Integer(1));
    assert!(matches!(
        conversation.hear(&right, Duration::ZERO),
        Heard::Answer(_)
    ));
    let next = conversation.ask(Kind::Get, vec![binding(Value::Null)], Duration::ZERO);
    let (id, unit) = agent.read(&next);
    for (boots, time_seconds, is_old) in [(3, 849, true), (2, 5000, true), (3, 850, false)] {
        let old = Agent::new(boots, time_seconds).answer(id, unit.request_id, Value::Integer(1));
        let heard = conversation.hear(&old, Duration::ZERO);
        assert_eq!(
            is_nothing(&heard, "older"),
            is_old,
            "{boots} {time_seconds}: {heard:?}"
        );
    }
}

#[test]
fn a_clock_that_is_another_is_taken_over_when_that_is_signed() {
    let (told, real) = (Agent::new(1, 10), Agent::new(3, 1000));
    let (mut conversation, id, _) = asked(&told);
    let Heard::Send(again) =
        conversation.hear(&real.report(id, NOT_IN_TIME_WINDOW, true), Duration::ZERO)
    else {
        panic!("the question is not put again");
    };
    let message = V3::decode(&again).unwrap();
    assert_eq!((message.boots, message.time_seconds), (3, 1000));
}

#[test]
fn an_engine_that_cannot_be_agreed_on_ends_the_question() {
    let agent = Agent::new(3, 1000);
    let (mut conversation, mut id, _) = asked(&agent);
    for _ in 1..RESTARTS_MAX {
        let Heard::Send(again) =
            conversation.hear(&agent.report(id, UNKNOWN_ENGINE, false), Duration::ZERO)
        else {
            panic!("given up early");
        };
        id = message_id(&again);
    }
    let heard = conversation.hear(&agent.report(id, UNKNOWN_ENGINE, false), Duration::ZERO);
    assert!(
        matches!(heard, Heard::Refused(Refusal::Other(_))),
        "{heard:?}"
    );
}

#[test]
fn reports_about_the_user_are_told_apart() {
    let agent = Agent::new(3, 1000);
    for (about, refusal) in [
        (UNKNOWN_USER, Refusal::User("unknownUserNames")),
        (WRONG_DIGEST, Refusal::User("wrongDigests")),
        (DECRYPTION_ERROR, Refusal::User("decryptionErrors")),
        (UNSUPPORTED_LEVEL, Refusal::Level),
        (
            "1.3.6.1.6.3.11.2.1.1.0",
            Refusal::Other("its engine reports 1.3.6.1.6.3.11.2.1.1.0".to_owned()),
        ),
    ] {
        let (mut conversation, id, _) = asked(&agent);
        let heard = conversation.hear(&agent.report(id, about, false), Duration::ZERO);
        assert_eq!(heard, Heard::Refused(refusal));
    }
}

#[test]
fn no_secret_is_shown() {
    let shown = format!("{:?}", v2c());
    assert!(!shown.contains("secret"), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever comes, it is either an answer that the agent really gave, or none.
    #[test]
    fn no_changed_bytes_become_an_answer(wrong in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..4)) {
        let agent = Agent::new(3, 1000);
        let (mut conversation, id, unit) = asked(&agent);
        let right = agent.answer(id, unit.request_id, Value::Integer(1));
        let mut datagram = right.clone();
        for (at, change) in wrong {
            let at = at.index(datagram.len());
            datagram[at] ^= change;
        }
        prop_assume!(datagram != right);
        let heard = conversation.hear(&datagram, Duration::ZERO);
        prop_assert!(!matches!(heard, Heard::Answer(_)), "{:?}", heard);
    }
}
