//! Who a session talks to, once that is known.

use super::*;

/// Once it has signed, nothing that is not signed moves a session to another engine, neither at once nor in two steps.
#[test]
fn an_engine_that_has_signed_is_not_replaced_in_its_session() {
    let agent = Agent::new(3, 1000);
    let other = |id: i32| {
        let mut other = Agent::new(9, 9000);
        other.engine.id = b"\x80\0\0\0another".to_vec();
        other.report(id, UNKNOWN_ENGINE, false)
    };
    let (mut conversation, id, unit) = asked(&agent);
    let answer = agent.answer(id, unit.request_id, Value::Integer(1));
    assert!(matches!(
        conversation.hear(&answer, Duration::ZERO),
        Heard::Answer(_)
    ));
    let set = conversation.ask(
        Kind::Set,
        vec![binding(Value::Integer(2))],
        Duration::from_secs(1),
    );
    let id = message_id(&set);
    let heard = conversation.hear(&agent.report(id, UNKNOWN_ENGINE, false), Duration::ZERO);
    assert!(is_nothing(&heard, "signed before"), "{heard:?}");
    let heard = conversation.hear(&other(id), Duration::ZERO);
    assert_eq!(heard, Heard::Refused(Refusal::OtherEngine));
    // What is asked next goes to the first one still.
    let next = conversation.ask(
        Kind::Get,
        vec![binding(Value::Null)],
        Duration::from_secs(2),
    );
    assert_eq!(V3::decode(&next).unwrap().engine_id, ENGINE);
    // Before anything was signed, whoever answers is tried.
    let (mut conversation, id, _) = asked(&agent);
    assert!(matches!(
        conversation.hear(&other(id), Duration::ZERO),
        Heard::Send(_)
    ));
}
