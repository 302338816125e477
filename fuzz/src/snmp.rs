//! SNMP: BER, messages of both versions, and what a conversation of version 3 makes of datagrams that are forged, and of such that are
//! signed by an agent that has gone mad.

use fencing_api::pdu::{SnmpAuthentication, SnmpPrivacy};
use fencing_drivers::pdu::snmp::ber::Reader;
use fencing_drivers::pdu::snmp::message::{
    V3, decode_scoped, decode_v2c, encode_scoped, encode_v2c,
};
use fencing_drivers::pdu::snmp::usm::{Keys, signature_bytes};
use fencing_drivers::pdu::snmp::{
    Binding, Conversation, Heard, Kind, Oid, Security, Unit, User, Value,
};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

const AUTHENTICATION: SnmpAuthentication = SnmpAuthentication::SHA256;
const ENGINE: &[u8] = b"engine";
const NAME: &str = "operator";
const SALT: [u8; 8] = [3; 8];
const UNKNOWN_ENGINE: &str = "1.3.6.1.6.3.15.1.1.4.0";

/// Keys are slow to make, as they should be.
static SECURITY: LazyLock<Arc<Security>> = LazyLock::new(|| {
    let (signs, hides) = ("correct horse", "battery staple");
    let user = User::new(NAME, AUTHENTICATION, signs, SnmpPrivacy::AES128, hides);
    Arc::new(Security::User(user))
});

/// The first byte says what the others are.
pub fn run(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else {
        return;
    };
    match which % 4 {
        0 => walk(bytes),
        1 => read(bytes),
        2 => converse(|_, _| bytes.to_vec(), false),
        _ => converse(|message_id, keys| signed(message_id, keys, bytes), true),
    }
}

/// Every element, and those within it.
fn walk(bytes: &[u8]) {
    let mut left = vec![Reader::new(bytes)];
    while let Some(mut reader) = left.pop() {
        while let Ok((_, inner)) = reader.element() {
            let end = inner.offset() + inner.bytes().len();
            assert_eq!(bytes.get(inner.offset()..end), Some(inner.bytes()));
            let _ = inner.as_integer();
            let _ = Oid::decode(&inner);
            left.push(inner);
        }
    }
}

/// What is understood is written and understood again.
fn read(bytes: &[u8]) {
    if let Ok((community, unit)) = decode_v2c(bytes) {
        let made = encode_v2c(community, &unit);
        assert_eq!(decode_v2c(&made), Ok((community, unit)));
    }
    if let Ok(unit) = decode_scoped(bytes) {
        assert_eq!(decode_scoped(&encode_scoped(ENGINE, &unit)), Ok(unit));
    }
    if let Ok(message) = V3::decode(bytes) {
        let made = message.encode();
        let again = V3::decode(&made).expect("what was made of it");
        let signature_offset = again.signature_offset;
        let end = signature_offset + message.signature.len();
        assert_eq!(made.get(signature_offset..end), Some(message.signature));
        assert_eq!(
            again,
            V3 {
                signature_offset,
                ..message
            }
        );
    }
}

/// Asks an agent whose engine is known, and hears what `answer` makes of the number of the message and of the keys.
fn converse(answer: impl FnOnce(i32, &Keys) -> Vec<u8>, may_be_believed: bool) {
    let Security::User(user) = &**SECURITY else {
        panic!("it is a user");
    };
    let keys = user.keys(ENGINE);
    let now = Duration::from_secs(1);
    let mut conversation = Conversation::new(Arc::clone(&SECURITY), [5; 32]);
    let first = conversation.ask(
        Kind::Get,
        vec![binding("1.3.6.1.2.1.1.2.0", Value::Null)],
        now,
    );
    let report = report(message_id(&first));
    let Heard::Send(question) = conversation.hear(&report, now) else {
        panic!("it has the engine now");
    };
    let datagram = answer(message_id(&question), &keys);
    let heard = conversation.hear(&datagram, now);
    assert!(
        may_be_believed || !matches!(heard, Heard::Answer(_)),
        "nobody else has the keys: {heard:?}"
    );
}

fn message_id(datagram: &[u8]) -> i32 {
    V3::decode(datagram).expect("our own").message_id
}

fn binding(name: &str, value: Value) -> Binding {
    let name = Oid::parse(name).expect("an object identifier");
    Binding { name, value }
}

/// The agent's engine says which one it is.
fn report(message_id: i32) -> Vec<u8> {
    let counted = vec![binding(UNKNOWN_ENGINE, Value::Integer(1))];
    let unit = Unit::request(Kind::Report, 0, counted);
    V3 {
        authenticated: false,
        private: false,
        user: &[],
        signature: &[],
        salt: &[],
        data: &encode_scoped(ENGINE, &unit),
        ..message(message_id)
    }
    .encode()
}

/// The engine's answer, signed and encrypted as it must be, with these bytes for a unit.
fn signed(message_id: i32, keys: &Keys, bytes: &[u8]) -> Vec<u8> {
    let mut data = bytes.to_vec();
    let message = message(message_id);
    keys.encrypt(message.boots, message.time_seconds, SALT, &mut data);
    let zeros = vec![0; signature_bytes(AUTHENTICATION)];
    let mut message = V3 {
        signature: &zeros,
        data: &data,
        ..message
    };
    let signature = keys.sign(&message.encode());
    message.signature = &signature;
    message.encode()
}

fn message<'a>(message_id: i32) -> V3<'a> {
    V3 {
        message_id,
        authenticated: true,
        private: true,
        reportable: false,
        engine_id: ENGINE,
        boots: 1,
        time_seconds: 1,
        user: NAME.as_bytes(),
        signature: &[],
        signature_offset: 0,
        salt: &SALT,
        data: &[],
    }
}
