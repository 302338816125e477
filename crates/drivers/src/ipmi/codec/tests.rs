mod any_bytes;
mod refused;
mod vectors;

use super::command::*;
use super::lan::{Answer, Request};
use super::packet::*;
use super::rakp::*;
use super::*;
use crate::ipmi::crypto::{Exchange, Keys, Suite};
use vectors::{suite_3, suite_17};
use zeroize::Zeroizing;

/// The bytes of a line of hexadecimal digits.
pub fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .map(|digit| u8::try_from(digit).unwrap())
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

fn setup(hex: &str) -> (PayloadType, Vec<u8>) {
    let datagram = bytes(hex);
    match decode(&datagram) {
        Ok(Packet::Setup(payload_type, payload)) => {
            assert_eq!(encode_setup(payload_type, payload), Some(datagram.clone()));
            (payload_type, payload.to_vec())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_asked_outside_of_a_session_is_what_ipmitool_asks() {
    let request = get_authentication_capabilities(Privilege::Operator);
    assert_eq!(
        encode_plain(&request.encode(0)),
        Some(bytes(suite_3::CAPABILITIES))
    );
    let datagram = bytes(suite_3::CAPABILITIES_ANSWER);
    let Ok(Packet::Plain(message)) = decode(&datagram) else {
        panic!("no message");
    };
    let answer = Answer::decode(message).unwrap();
    assert!(request.is_answered_by(0, &answer));
    assert_eq!(answer.encode(), message);
    assert_eq!(
        AuthenticationCapabilities::decode(answer.data),
        Ok(AuthenticationCapabilities {
            ipmi_2_0: true,
            bmc_key_set: false
        })
    );
}

/// The exchange of [`suite_3`], from its datagrams.
fn exchange() -> Exchange {
    let (_, payload) = setup(suite_3::RAKP2);
    let answer = Rakp2::decode(&payload, 20).unwrap();
    let found = answer.content.unwrap();
    let (_, rakp1) = setup(suite_3::RAKP1);
    Exchange {
        suite: Suite::Sha1,
        console_id: 0xa0a2_a3a4,
        bmc_id: 0x82,
        console_random: *rakp1[8..].first_chunk().unwrap(),
        bmc_random: found.random,
        guid: found.guid,
        role: Privilege::Operator.role(),
        user: b"op".to_vec(),
        password: Zeroizing::new(b"operator".to_vec()),
    }
}

#[test]
fn a_login_with_suite_3_is_the_one_of_ipmitool_and_openipmi() {
    let algorithms = Suite::Sha1.algorithms();
    let (payload_type, mut payload) = setup(suite_3::OPEN_SESSION);
    assert_eq!(payload_type, PayloadType::OpenSession);
    // `-L OPERATOR` asks for it here already, we for the highest.
    assert_eq!(std::mem::take(&mut payload[1]), 3);
    assert_eq!(open_session(0, 0xa0a2_a3a4, algorithms), payload);

    let (_, payload) = setup(suite_3::OPEN_SESSION_ANSWER);
    let answer = Opened::decode(&payload).unwrap();
    assert!(answer.is_for(0xa0a2_a3a4) && !answer.is_for(0xa0a2_a3a5));
    let opened = Opened {
        bmc_id: 0x82,
        algorithms,
    };
    assert_eq!(answer.content, Ok(opened));

    let exchange = exchange();
    let (_, payload) = setup(suite_3::RAKP1);
    let random = &exchange.console_random;
    assert_eq!(rakp1(0, 0x82, random, exchange.role, b"op"), Some(payload));
    let (_, payload) = setup(suite_3::RAKP2);
    let found = Rakp2::decode(&payload, 20).unwrap().content.unwrap();
    assert!(exchange.verify_rakp2(found.code));
    let (_, payload) = setup(suite_3::RAKP3);
    assert_eq!(rakp3(0, 0x82, &exchange.rakp3()), payload);
    let (_, payload) = setup(suite_3::RAKP4);
    let found = Rakp4::decode(&payload, 12).unwrap().content.unwrap();
    assert!(exchange.verify_rakp4(found.code));
}

fn open(keys: &Keys, datagram: &[u8]) -> Result<(u32, u32, Vec<u8>), Malformed> {
    match decode(datagram)? {
        Packet::Sealed(sealed) => Ok((sealed.session_id, sealed.sequence, keys.open(&sealed)?)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_of_suite_3_is_the_one_of_ipmitool_and_openipmi() {
    let keys = exchange().keys();
    for (datagram, message) in suite_3::SESSION {
        let (datagram, message) = (bytes(datagram), bytes(message));
        let (session_id, sequence, found) = open(&keys, &datagram).unwrap();
        assert_eq!(found, message);
        let vector = *datagram[16..].first_chunk().unwrap();
        let made = keys.seal(session_id, sequence, vector, &message).unwrap();
        assert_eq!(made, datagram);
    }
    let message = |at: usize| bytes(suite_3::SESSION[at].1);
    assert_eq!(
        set_session_privilege(Privilege::Operator).encode(1),
        message(0)
    );
    assert_eq!(get_chassis_status().encode(6), message(2));
    assert_eq!(close_session(0x82).encode(7), message(4));
    let message = message(3);
    let answer = Answer::decode(&message).unwrap();
    assert!(get_chassis_status().is_answered_by(6, &answer));
    let status = ChassisStatus::decode(answer.data).unwrap();
    assert!(status.is_on() && status.faults().is_empty());
}

/// The exchange of [`suite_17`], from its datagrams.
fn exchange_17() -> Exchange {
    let (_, payload) = setup(suite_17::RAKP2);
    let found = Rakp2::decode(&payload, 32).unwrap().content.unwrap();
    let (_, rakp1) = setup(suite_17::RAKP1);
    Exchange {
        suite: Suite::Sha256,
        bmc_id: 0x41e5_9585,
        console_random: *rakp1[8..].first_chunk().unwrap(),
        bmc_random: found.random,
        guid: found.guid,
        user: b"fence".to_vec(),
        password: Zeroizing::new(b"s3cret-Bmc".to_vec()),
        ..exchange()
    }
}

#[test]
fn a_session_of_suite_17_is_the_one_of_ipmitool() {
    let exchange = exchange_17();
    let (_, mut payload) = setup(suite_17::OPEN_SESSION);
    assert_eq!(std::mem::take(&mut payload[1]), 3);
    assert_eq!(
        open_session(0, 0xa0a2_a3a4, exchange.suite.algorithms()),
        payload
    );
    let (_, payload) = setup(suite_17::OPEN_SESSION_ANSWER);
    let opened = Opened {
        bmc_id: exchange.bmc_id,
        algorithms: exchange.suite.algorithms(),
    };
    assert_eq!(Opened::decode(&payload).unwrap().content, Ok(opened));
    let (_, payload) = setup(suite_17::RAKP1);
    let made = rakp1(
        0,
        exchange.bmc_id,
        &exchange.console_random,
        exchange.role,
        b"fence",
    );
    let (_, payload_2) = setup(suite_17::RAKP2);
    let found = Rakp2::decode(&payload_2, 32).unwrap().content.unwrap();
    assert_eq!(made, Some(payload));
    assert!(exchange.verify_rakp2(found.code));
    let (_, payload) = setup(suite_17::RAKP3);
    assert_eq!(rakp3(0, exchange.bmc_id, &exchange.rakp3()), payload);
    let (_, payload) = setup(suite_17::RAKP4);
    let found = Rakp4::decode(&payload, 16).unwrap().content.unwrap();
    assert!(exchange.verify_rakp4(found.code));
    let keys = exchange.keys();
    for (datagram, message) in suite_17::SESSION {
        let (datagram, message) = (bytes(datagram), bytes(message));
        let (session_id, sequence, found) = open(&keys, &datagram).unwrap();
        assert_eq!(found, message);
        let vector = *datagram[16..].first_chunk().unwrap();
        let made = keys.seal(session_id, sequence, vector, &message);
        assert_eq!(made, Some(datagram));
    }
}

#[test]
fn a_refusal_of_two_bytes_is_understood() {
    let (payload_type, payload) = setup(suite_3::REFUSAL);
    assert_eq!(payload_type, PayloadType::OpenSessionAnswer);
    let answer = Opened::decode(&payload).unwrap();
    assert!(answer.is_for(0xa0a2_a3a4) && answer.echoes(1) && !answer.echoes(2));
    assert_eq!(answer.content, Err(Status(0x04)));
    assert!(Status(0x04).refuses_algorithms());
}

#[test]
fn every_bit_that_is_changed_in_a_session_is_noticed() {
    let keys = exchange().keys();
    let datagram = bytes(suite_3::SESSION[3].0);
    // The first four bytes are those of RMCP, of which the second and third mean nothing.
    for at in 4..datagram.len() {
        for bit in 0..8 {
            let mut changed = datagram.clone();
            changed[at] ^= 1 << bit;
            let found = decode(&changed).and_then(|packet| match packet {
                Packet::Sealed(sealed) => keys.open(&sealed),
                _ => Err(Malformed("not sealed")),
            });
            assert!(found.is_err(), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn a_message_that_is_not_encrypted_or_not_authenticated_is_refused() {
    let datagram = bytes(suite_3::SESSION[3].0);
    for kind in [0x00, 0x40, 0x80] {
        let mut weak = datagram.clone();
        weak[5] = kind;
        assert!(decode(&weak).is_err(), "{kind:#x}");
    }
    // A session of IPMI 1.5.
    let mut old = bytes(suite_3::CAPABILITIES_ANSWER);
    old[9] = 1;
    assert!(decode(&old).is_err());
    old[4] = 2;
    assert!(decode(&old).is_err());
}

#[test]
fn the_power_bits_mean_what_table_28_3_says() {
    let table: [(u8, bool, &[&str], Option<&str>); 8] = [
        (0x00, false, &[], Some("AlwaysOff")),
        (0x01, true, &[], Some("AlwaysOff")),
        (0x20, false, &[], Some("LastState")),
        (0x41, true, &[], Some("AlwaysOn")),
        (0x60, false, &[], None),
        (0x10, false, &["power control fault"], Some("AlwaysOff")),
        (
            0x0c,
            false,
            &["power fault", "interlock"],
            Some("AlwaysOff"),
        ),
        // A shutdown for overload is a shutdown.
        (0x02, false, &[], Some("AlwaysOff")),
    ];
    for (byte, on, faults, policy) in table {
        let status = ChassisStatus::decode(&[byte, 0, 0]).unwrap();
        assert_eq!(status.is_on(), on, "{byte:#x}");
        assert_eq!(status.faults(), faults, "{byte:#x}");
        assert_eq!(status.power_restore_policy(), policy, "{byte:#x}");
    }
    for short in [&[][..], &[0], &[0, 0]] {
        assert!(ChassisStatus::decode(short).is_err());
    }
    assert!(ChassisStatus::decode(&[0, 0, 0, 0x0f]).is_ok());
}

/// Table 20-6: what keeps memory is no off; 06h is S4 or S5, 0ah and 21h are soft off, 2ah is unknown, 7fh is no change.
#[test]
fn the_acpi_states_that_keep_memory_are_sleeping() {
    let request = get_acpi_power_state();
    assert_eq!((request.function, request.command), (0x06, 0x07));
    let sleeping: Vec<u8> = (0..=u8::MAX)
        .filter(|state| sleeping_state(&[*state, 0x2a]).flatten().is_some())
        .collect();
    let states = [0x01, 0x02, 0x03, 0x04, 0x08, 0x09];
    assert_eq!(
        sleeping,
        [states, states.map(|state| state | 0x80)].concat()
    );
    assert_eq!(sleeping_state(&[0x03]), Some(Some("sleeping (ACPI S3)")));
    for awake_or_off in [0x00, 0x05, 0x06, 0x07, 0x0a, 0x21] {
        assert_eq!(sleeping_state(&[awake_or_off]), Some(None));
    }
    for unknown in [&[][..], &[0x2a], &[0x7f]] {
        assert_eq!(sleeping_state(unknown), None);
    }
}

#[test]
fn only_a_hard_power_off_can_be_said() {
    let request = power_down();
    assert_eq!((request.function, request.command), (0x00, 0x02));
    assert_eq!(request.data, [0x00]);
}

#[test]
fn cipher_suite_records_are_read_and_those_of_makers_left_out() {
    let list = bytes("c000 000040 80 c003 014181 c10512345601 c011 034481");
    let suites = cipher_suites(&list).unwrap();
    let numbers: Vec<u8> = suites.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 3, 17]);
    assert_eq!(suites[1].1, Suite::Sha1.algorithms());
    assert_eq!(suites[2].1, Suite::Sha256.algorithms());
    for broken in ["c0", "c1 05 12", "03 01"] {
        assert!(cipher_suites(&bytes(broken)).is_err(), "{broken}");
    }
    assert!(cipher_suite_bytes(&[]).is_err());
    assert!(cipher_suite_bytes(&[0; 18]).is_err());
    assert_eq!(cipher_suite_bytes(&[1, 2, 3]), Ok(&[2, 3][..]));
}

#[test]
fn a_name_is_never_cut() {
    assert!(rakp1(0, 1, &[0; 16], 0x13, &[b'a'; 16]).is_some());
    assert_eq!(rakp1(0, 1, &[0; 16], 0x13, &[b'a'; 17]), None);
}

#[test]
fn a_clock_that_was_never_set_shows_nothing() {
    let request = get_sel_time();
    assert_eq!((request.function, request.command), (0x0a, 0x48));
    assert!(request.data.is_empty());
    for (bytes, expected) in [
        ([0x00, 0x00, 0x00, 0x00], None),
        // Up to here it counts from the BMC's start.
        ([0x00, 0x00, 0x00, 0x20], None),
        ([0x01, 0x00, 0x00, 0x20], Some(0x2000_0001)),
        ([0x80, 0x3b, 0xb1, 0x6a], Some(0x6ab1_3b80)),
        ([0xff, 0xff, 0xff, 0xff], None),
    ] {
        assert_eq!(sel_time(&bytes), Ok(expected), "{bytes:x?}");
    }
    assert!(sel_time(&[1, 2, 3]).is_err());
}
