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

#[test]
fn fill_bytes_are_as_many_as_they_say_and_no_more_than_needed() {
    let datagram = sealed();
    let signed = &datagram[4..datagram.len() - 12];
    let [.., 0xff, 0xff, 2, 7] = *signed else {
        panic!("{signed:02x?}");
    };
    let ends = |end: &[u8]| is_payload(&[&signed[..20], end].concat());
    assert!(ends(&[0xff, 0xff, 2, 7]));
    // One that lies about their number, one that is none, one too few, and a whole block of them too many.
    assert!(!ends(&[0xff, 0xff, 1, 7]));
    assert!(!ends(&[0xff, 0xfe, 2, 7]));
    assert!(!ends(&[0xff, 1, 7]));
    assert!(!ends(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 6, 7]));
    let whole = encode_sealed(7, 9, &[1; 10], |_| vec![0; 12]).expect("short enough");
    let Ok(Packet::Sealed(packet)) = decode(&whole) else {
        panic!("not sealed");
    };
    let payload = |end: &[u8]| packet.payload(&[&whole[4..26], end].concat()).is_ok();
    assert!(payload(&[0, 7]));
    assert!(!payload(&[0xff, 0xff, 0xff, 0xff, 4, 7]));
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
    for (session, sequence) in [(1, 0), (0, 1), (1, 1)] {
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
    }
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

#[test]
fn the_algorithms_of_a_session_stand_in_their_order() {
    let opened = |kinds: [u8; 3]| {
        let mut payload = vec![1, 0, 4, 0, 1, 0, 0, 0, 2, 0, 0, 0];
        for kind in kinds {
            payload.extend([kind, 0, 0, 8, 1, 0, 0, 0]);
        }
        Opened::decode(&payload).is_ok()
    };
    assert!(opened([0, 1, 2]));
    for swapped in [[1, 0, 2], [0, 2, 1], [0, 0, 2], [0, 1, 1]] {
        assert!(!opened(swapped), "{swapped:?}");
    }
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
