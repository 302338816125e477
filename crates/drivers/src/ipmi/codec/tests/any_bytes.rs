//! Properties of every decoder: no bytes make it panic, and what was encoded is decoded.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn no_bytes_panic(datagram in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&datagram);
        let _ = Opened::decode(&datagram);
        let _ = Rakp2::decode(&datagram, 32);
        let _ = Rakp4::decode(&datagram, 16);
        let _ = Answer::decode(&datagram);
        let _ = ChassisStatus::decode(&datagram);
        let _ = AuthenticationCapabilities::decode(&datagram);
        let _ = cipher_suite_bytes(&datagram);
        let _ = cipher_suites(&datagram);
        let _ = sel_time(&datagram);
    }

    #[test]
    fn no_bytes_behind_a_session_header_panic(
        kind: u8,
        session_id: u32,
        length in 0_u16..80,
        rest in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let mut datagram = vec![6, 0, 0xff, 7, 6, kind];
        datagram.extend(session_id.to_le_bytes());
        datagram.extend(1_u32.to_le_bytes());
        datagram.extend(length.to_le_bytes());
        datagram.extend(&rest);
        if let Ok(Packet::Sealed(sealed)) = decode(&datagram) {
            prop_assert!(exchange().keys().open(&sealed).is_err());
            for code_bytes in [0, 12, 16, 500] {
                if let Ok((signed, _)) = sealed.signed(code_bytes) {
                    let _ = sealed.payload(signed);
                }
            }
        }
    }

    #[test]
    fn a_setup_payload_survives_its_datagram(number in 0x10_u8..=0x15, payload in prop::collection::vec(any::<u8>(), 0..200)) {
        let datagram = bytes(&format!("0600ff0706{number:02x}0000000000000000"));
        let length = u16::try_from(payload.len()).unwrap().to_le_bytes();
        let datagram = [&datagram[..], &length, &payload].concat();
        let Ok(Packet::Setup(payload_type, found)) = decode(&datagram) else {
            panic!("not understood");
        };
        prop_assert_eq!((payload_type.number(), found), (number, &payload[..]));
        prop_assert_eq!(encode_setup(payload_type, &payload), Some(datagram.clone()));
        prop_assert!(decode(&datagram[..datagram.len() - 1]).is_err());
    }

    #[test]
    fn a_plain_message_survives_its_datagram(message in prop::collection::vec(any::<u8>(), 0..=255)) {
        let datagram = encode_plain(&message).unwrap();
        prop_assert_eq!(decode(&datagram), Ok(Packet::Plain(&message)));
        // Bytes that fill up prove nothing.
        let filled = [&datagram[..], &[0, 0]].concat();
        prop_assert_eq!(decode(&filled), Ok(Packet::Plain(&message)));
    }

    #[test]
    fn a_sealed_message_survives_its_datagram(
        sha256: bool, session_id: u32, sequence: u32, vector: [u8; 16],
        message in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let suite = if sha256 { Suite::Sha256 } else { Suite::Sha1 };
        let keys = Exchange { suite, ..exchange() }.keys();
        let datagram = keys.seal(session_id, sequence, vector, &message).unwrap();
        let signed_bytes = datagram.len() - 4 - suite.integrity_code_bytes();
        prop_assert_eq!(signed_bytes % 4, 0);
        prop_assert_eq!(open(&keys, &datagram), Ok((session_id, sequence, message)));
    }

    #[test]
    fn an_answer_survives_its_message(
        function: u8, command: u8, sequence in 0_u8..=0x3f, completion: u8,
        data in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let answer = Answer { function: function >> 2 | 1, command, sequence, completion, data: &data };
        let message = answer.encode();
        prop_assert_eq!(Answer::decode(&message), Ok(answer));
        let request = Request { function: answer.function & !1, command, data: Vec::new() };
        prop_assert!(request.is_answered_by(sequence, &answer));
        prop_assert!(!request.is_answered_by(sequence ^ 1, &answer));
        prop_assert!(Answer::decode(&request.encode(sequence)).is_err(), "a request is no answer");
    }

    #[test]
    fn setup_answers_are_read_whole(tag: u8, console_id: u32, bmc_id in 1_u32.., status: u8, more in prop::collection::vec(any::<u8>(), 0..9)) {
        let mut payload = vec![tag, 0, 4, 0];
        payload.extend(console_id.to_le_bytes());
        payload.extend(bmc_id.to_le_bytes());
        payload.extend(bytes("00000008 03000000 01000008 04000000 02000008 01000000"));
        let answer = Opened::decode(&payload).unwrap();
        let algorithms = Suite::Sha256.algorithms();
        prop_assert!(answer.is_for(console_id) && answer.echoes(tag));
        prop_assert_eq!(answer.content, Ok(Opened { bmc_id, algorithms }));
        let longer = [&payload[..], &more].concat();
        prop_assert_eq!(Opened::decode(&longer), Ok(answer), "what follows is no part of it");
        payload[1] = status;
        payload.truncate(8);
        prop_assert_eq!(Opened::decode(&payload).is_ok(), status != 0);
    }
}
