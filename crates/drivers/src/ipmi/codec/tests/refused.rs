//! What must not be taken for an answer, and the words for what a BMC refuses.

use super::*;

/// A message inside of a session whose authentication code is not looked at here: eight bytes of payload, two of fill.
fn sealed() -> Vec<u8> {
    encode_sealed(7, 9, &[1; 8], |_| vec![0; 12]).expect("it is short enough")
}

/// Is this what the authentication code covers, found authentic, a payload?
fn is_payload(signed: &[u8]) -> bool {
    let datagram = sealed();
    match decode(&datagram) {
        Ok(Packet::Sealed(sealed)) => sealed.payload(signed).is_ok(),
        other => panic!("{other:?}"),
    }
}

/// The code covers them, so what they are proves nothing.
#[test]
fn fill_bytes_prove_nothing_and_a_payload_that_is_cut_is_none() {
    let datagram = sealed();
    let signed = &datagram[4..datagram.len() - 12];
    let [.., 0xff, 0xff, 2, 7] = *signed else {
        panic!("{signed:02x?}");
    };
    for end in [
        &[0xff, 0xff, 2, 7][..],
        &[0, 0, 2, 7],
        &[0xff, 1, 7],
        &[6, 7],
        &[],
    ] {
        assert!(is_payload(&[&signed[..20], end].concat()), "{end:02x?}");
    }
    assert!(!is_payload(&signed[..19]));
}

#[test]
fn a_datagram_is_as_long_as_it_may_be_and_no_longer() {
    let mut datagram = bytes("06 00 ff 07 06 11 00000000 00000000 f003");
    datagram.resize(DATAGRAM_BYTES_MAX, 0);
    assert_eq!(datagram[14..16], 1008_u16.to_le_bytes());
    assert!(matches!(decode(&datagram), Ok(Packet::Setup(..))));
    datagram.push(0);
    assert_eq!(decode(&datagram), Err(Malformed("it is too long")));
}

/// Some answer outside of a session with the header of 2.0. Inside of one every message is encrypted and authenticated.
#[test]
fn what_is_said_outside_of_a_session_names_none() {
    let decoded = |kind: u8, session: u8, sequence: u8| {
        let datagram = [
            6, 0, 0xff, 7, 6, kind, session, 0, 0, 0, sequence, 0, 0, 0, 1, 0, 0x55,
        ];
        match decode(&datagram) {
            Ok(Packet::Plain(payload)) => Ok(("plain", payload.to_vec())),
            Ok(Packet::Setup(_, payload)) => Ok(("setup", payload.to_vec())),
            Ok(Packet::Sealed(_)) => Ok(("sealed", Vec::new())),
            Err(Malformed(words)) => Err(words),
        }
    };
    let (message, open_session) = (0, 0x11);
    assert_eq!(decoded(message, 0, 0), Ok(("plain", vec![0x55])));
    assert_eq!(decoded(open_session, 0, 0), Ok(("setup", vec![0x55])));
    // Outside of a session a number of the datagram proves nothing.
    assert_eq!(decoded(message, 0, 1), Ok(("plain", vec![0x55])));
    assert_eq!(decoded(open_session, 0, 1), Ok(("setup", vec![0x55])));
    for (session, sequence) in [(1, 0), (1, 1)] {
        assert_eq!(
            decoded(message, session, sequence),
            Err("its message is not both encrypted and authenticated")
        );
        assert_eq!(
            decoded(open_session, session, sequence),
            Err("it sets a session up inside of a session")
        );
    }
}

#[test]
fn both_parts_of_a_message_have_their_checksum_and_only_an_answer_is_one() {
    let answer = Answer {
        function: 7,
        command: 1,
        sequence: 5,
        completion: 0,
        data: &[1, 2],
    };
    let whole = answer.encode();
    assert_eq!(Answer::decode(&whole), Ok(answer));
    for at in [1, 4] {
        let mut wrong = whole.clone();
        wrong[at] ^= 0x10;
        let words = "a checksum of its message is wrong";
        assert_eq!(Answer::decode(&wrong), Err(Malformed(words)), "byte {at}");
        // Where a code was found right, checksums prove nothing more.
        assert!(Answer::decode_signed(&wrong).is_ok(), "byte {at}");
    }
    let outside = Request {
        function: 6,
        command: 1,
        data: Vec::new(),
    };
    let numbered = |sequence| Answer { sequence, ..answer };
    assert!(outside.is_answered_outside_by(5, &numbered(0)));
    assert!(outside.is_answered_outside_by(5, &numbered(5)));
    assert!(!outside.is_answered_outside_by(5, &numbered(4)));
    assert!(
        !outside.is_answered_by(5, &numbered(0)),
        "in a session it tells which question"
    );
    let asked = Answer {
        function: 6,
        ..answer
    };
    let words = "its message is no answer";
    assert_eq!(Answer::decode(&asked.encode()), Err(Malformed(words)));
}

#[test]
fn a_bmc_speaks_ipmi_2_0_only_if_both_of_its_bits_say_so() {
    let capable = |types: u8, extended: u8| {
        let data = [1, types, 0, extended, 0, 0, 0, 0];
        AuthenticationCapabilities::decode(&data).map(|found| found.ipmi_2_0)
    };
    assert_eq!(capable(0x80, 0x02), Ok(true));
    assert_eq!(capable(0x95, 0x03), Ok(true));
    assert_eq!(capable(0x80, 0x01), Ok(false));
    assert_eq!(capable(0x15, 0x02), Ok(false));
    assert_eq!(capable(0, 0), Ok(false));
}

/// Only what was offered is ever used, so kind and length beside a number prove nothing.
#[test]
fn the_algorithms_of_a_session_are_told_by_their_place() {
    let mut payload = vec![1, 0, 4, 0, 1, 0, 0, 0, 2, 0, 0, 0];
    for (kind, length, algorithm) in [(0, 0, 3), (0, 8, 4), (9, 7, 1)] {
        payload.extend([kind, 0, 0, length, algorithm, 0, 0, 0]);
    }
    let opened = Opened::decode(&payload).unwrap().content.unwrap();
    assert_eq!(opened.algorithms, Suite::Sha256.algorithms());
    // And what follows is no part of it.
    payload.push(0);
    assert!(Opened::decode(&payload).is_ok());
    assert!(Opened::decode(&payload[..payload.len() - 2]).is_err());
}

#[test]
fn each_code_has_words_of_its_own() {
    let codes = (0xc0..=0xd6).chain([0x00, 0x01, 0x80, 0xff, 0x7f]);
    let words: Vec<_> = codes.map(|code| Completion(code).words()).collect();
    let mut different = words.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), words.len(), "{words:?}");
    assert_eq!(Completion(0x7e).words(), Completion(0x01).words());
    assert_eq!(Completion(0xbe).words(), Completion(0x80).words());
    assert_eq!(Completion(0xbf).words(), Completion(0x7f).words());
    assert_eq!(Completion::BUSY.to_string(), "0xc0, node busy");

    let words: Vec<_> = (0..=0x13).map(|code| Status(code).words()).collect();
    let mut different = words.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), words.len(), "{words:?}");
    let shown = Status::UNAUTHORIZED_NAME.to_string();
    assert_eq!(shown, "status 0x0d, unauthorized name");
}

#[test]
fn a_status_about_algorithms_is_told_from_any_other() {
    let about: Vec<u8> = (0..=u8::MAX)
        .filter(|code| Status(*code).refuses_algorithms())
        .collect();
    assert_eq!(about, [4, 5, 6, 7, 0x10, 0x11]);
}

/// S23: whether the command was carried out is open.
#[test]
fn a_code_that_leaves_the_outcome_open_is_told_from_a_refusal() {
    let open: Vec<u8> = (0..=u8::MAX)
        .filter(|code| Completion(*code).leaves_open())
        .collect();
    assert_eq!(open, [0xc3, 0xce, 0xcf, 0xff]);
}

#[test]
fn privileges_are_called_as_the_specification_calls_them() {
    let all = [
        Privilege::User,
        Privilege::Operator,
        Privilege::Administrator,
    ];
    assert_eq!(
        all.map(Privilege::word),
        ["User", "Operator", "Administrator"]
    );
}
