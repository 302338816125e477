//! Whole datagrams of IPMI: framing, authentication, decryption, and whatever a decoder makes of what is inside.

use fencing_drivers::ipmi::codec::lan::Answer;
use fencing_drivers::ipmi::codec::packet::{Packet, Sealed, decode, encode_sealed, encode_setup};
use fencing_drivers::ipmi::codec::rakp::{Opened, Rakp2, Rakp4};
use fencing_drivers::ipmi::crypto::{Exchange, Keys, Suite};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

const PASSWORD: &[u8] = b"correct horse";
const USER: &[u8] = b"operator";
/// Both random numbers.
const RANDOM: [u8; 16] = [7; 16];
const ROLE: u8 = 0x12;

/// What arrived as it is, and then as the content of a datagram whose authentication code is right.
pub fn run(bytes: &[u8]) {
    read(bytes);
    let keys = keys();
    let Some(datagram) = encode_sealed(1, 1, bytes, sign) else {
        return;
    };
    match decode(&datagram) {
        Ok(Packet::Sealed(sealed)) => {
            if let Ok(message) = keys.open(&sealed) {
                assert!(
                    message.len() < bytes.len(),
                    "the vector and a byte of padding"
                );
                let _ = Answer::decode(&message);
            }
        }
        other => panic!("{other:?} is what was made"),
    }
}

fn read(datagram: &[u8]) {
    match decode(datagram) {
        Ok(Packet::Plain(message)) => {
            let _ = Answer::decode(message);
        }
        Ok(Packet::Setup(payload_type, payload)) => {
            let made = encode_setup(payload_type, payload).expect("it was short enough to arrive");
            // All but what RMCP leaves open, the number of a datagram outside of a session, and what follows the payload.
            assert_eq!(made.get(4..10), datagram.get(4..10));
            assert_eq!(made.get(14..), datagram.get(14..made.len()));
            let _ = Opened::decode(payload);
            for code_bytes in [20, 32] {
                let _ = Rakp2::decode(payload, code_bytes);
            }
            for code_bytes in [12, 16] {
                let _ = Rakp4::decode(payload, code_bytes);
            }
        }
        Ok(Packet::Sealed(sealed)) => read_sealed(&sealed),
        Err(_) => {}
    }
}

fn read_sealed(sealed: &Sealed<'_>) {
    for code_bytes in [12, 16] {
        if let Ok((signed, code)) = sealed.signed(code_bytes) {
            assert_eq!(code.len(), code_bytes);
            let _ = sealed.payload(signed);
        }
    }
    assert!(keys().open(sealed).is_err(), "nobody else has the key");
}

fn keys() -> Keys {
    Exchange {
        suite: Suite::Sha1,
        console_id: 1,
        bmc_id: 2,
        console_random: RANDOM,
        bmc_random: RANDOM,
        guid: [0; 16],
        role: ROLE,
        user: USER.to_vec(),
        password: PASSWORD.to_vec().into(),
    }
    .keys()
}

/// The authentication code that those keys make (§13.31, §13.32): they sign only what they have encrypted themselves, and here what
/// is encrypted is hostile, too.
fn sign(signed: &[u8]) -> Vec<u8> {
    let name_bytes = u8::try_from(USER.len()).expect("a short name");
    let session = [&RANDOM[..], &RANDOM, &[ROLE, name_bytes], USER].concat();
    let session_key = code(PASSWORD, &session);
    let mut code = code(&code(&session_key, &[1; 20]), signed);
    code.truncate(Suite::Sha1.integrity_code_bytes());
    code
}

fn code(key: &[u8], data: &[u8]) -> Vec<u8> {
    let mac = Hmac::<Sha1>::new_from_slice(key).expect("a key of any length");
    mac.chain_update(data).finalize().into_bytes().to_vec()
}
