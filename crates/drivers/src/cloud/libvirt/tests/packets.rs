//! The bytes of the protocol. Those of calls and replies were taken from a libvirtd 9.0.0 with its test driver.

use super::super::remote::{self, Domain, LOOKUP, Procedure, Refusal, STATE, reply};
use super::super::xdr::{Reader, Writer};
use super::{UUID, cases, usable_uuid};
use proptest::prelude::*;

/// The bytes of these digits.
fn bytes(digits: &str) -> Vec<u8> {
    let digits = digits.replace(' ', "");
    let pairs = digits.as_bytes().chunks(2);
    let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).expect("digits"), 16);
    pairs.map(|it| pair(it).expect("a byte")).collect()
}

/// A reply of this type and status, to call 7 of this procedure.
fn packet(procedure: i32, kind: i32, status: i32, returned: &[u8]) -> Vec<u8> {
    let head = Writer::default().unsigned(0x2000_8086).unsigned(1);
    let head = head.int(procedure).int(kind).unsigned(7).int(status);
    head.bytes(returned).done()
}

fn domain() -> Domain {
    Domain {
        name: "test".to_owned(),
        uuid: usable_uuid(UUID).expect("a UUID"),
    }
}

/// State and reason of a domain, or what the daemon refused.
type State = Result<(i32, i32), Refusal>;

/// What it says of the state.
fn said(packet: &[u8]) -> Result<Option<State>, String> {
    reply(packet, STATE, 7, remote::state)
}

#[test]
fn a_call_has_a_length_a_head_and_its_arguments() {
    let written = remote::call(STATE, 7, domain().argument().unsigned(0));
    let expected = bytes(
        "0000003c 20008086 00000001 000000d4 00000000 00000007 00000000 \
         00000004 74657374 6695eb01f6a4830479aa97f2502e193f ffffffff 00000000",
    );
    assert_eq!(written, expected);
    assert_eq!(
        Writer::default().text("hv-01").done(),
        bytes("00000005 68762d3031 000000")
    );
}

#[test]
fn a_reply_is_read_whole() {
    let off = bytes("00000005 00000002");
    assert_eq!(said(&packet(212, 1, 0, &off)), Ok(Some(Ok((5, 2)))));
    let found = bytes("00000004 74657374 6695eb01f6a4830479aa97f2502e193f 00000001");
    let found = reply(&packet(24, 1, 0, &found), LOOKUP, 7, remote::domain);
    assert_eq!(found, Ok(Some(Ok(domain()))));
    let list =
        bytes("00000001 00000004 74657374 6695eb01f6a4830479aa97f2502e193f 00000001 00000001");
    let list = remote::domains(&mut Reader::new(&list));
    assert_eq!(list, Ok(vec![domain()]));
    let message = Writer::default().text("Domain not found").done();
    let error = [
        bytes("0000002a 0000000a 00000001"),
        message,
        bytes(
            "00000002 00000000 00000001 00000000 00000001 00000000 00000000 ffffffff ffffffff 00000000",
        ),
    ];
    let error = reply(
        &packet(24, 1, 1, &error.concat()),
        LOOKUP,
        7,
        remote::domain,
    );
    let refusal = Refusal {
        code: 42,
        message: "Domain not found".to_owned(),
    };
    assert_eq!(error, Ok(Some(Err(refusal))));
}

#[test]
fn an_event_is_no_reply_and_neither_is_what_belongs_to_another_call() {
    let off = bytes("00000005 00000002");
    assert_eq!(said(&packet(107, 2, 0, &off)), Ok(None));
    for (what, other) in [
        (
            "another number",
            reply(&packet(212, 1, 0, &off), STATE, 8, remote::state),
        ),
        ("another procedure", said(&packet(16, 1, 0, &off))),
        ("a call", said(&packet(212, 0, 0, &off))),
        ("a stream", said(&packet(212, 3, 0, &off))),
        ("another status", said(&packet(212, 1, 2, &off))),
        (
            "one with more behind it",
            said(&packet(212, 1, 0, &off.repeat(2))),
        ),
        ("one that ends early", said(&packet(212, 1, 0, &off[..6]))),
        ("no head", said(&off)),
    ] {
        assert!(other.is_err(), "{what}");
    }
    let mut foreign = packet(212, 1, 0, &off);
    foreign[0] = 0x21;
    assert!(said(&foreign).is_err(), "another program");
}

#[test]
fn a_length_is_no_longer_than_what_comes() {
    let read = |digits: &str| Reader::new(&bytes(digits)).text();
    assert_eq!(read("00000001 61000000").as_deref(), Ok("a"));
    for short in [
        "ffffffff 61000000",
        "00000005 61000000",
        "00000001 61",
        "0000",
    ] {
        assert!(read(short).is_err(), "{short}");
    }
    let many = bytes("00002001");
    assert!(Reader::new(&many).list(Reader::int).is_err());
    assert!(Reader::new(&bytes("00000002")).flag().is_err());
    let uneven = bytes("00000001 00000000 6695eb01f6a4830479aa97f2502e193f 00000001 00000002");
    assert!(remote::domains(&mut Reader::new(&uneven)).is_err());
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..96)) {
        for returned in [bytes.clone(), packet(212, 1, i32::from(bytes.len() % 2 == 0), &bytes)] {
            let _ = said(&returned);
            let _ = reply(&returned, Procedure(212, ""), 7, remote::domains);
        }
    }

    #[test]
    fn a_text_is_read_as_it_is_written(text in ".{0,40}") {
        let written = Writer::default().text(&text).done();
        let mut reader = Reader::new(&written);
        prop_assert_eq!(reader.text(), Ok(text));
        prop_assert!(reader.end().is_ok());
    }
}
