//! Whole datagrams: framing, authentication, decryption, and whatever a decoder makes of what is inside.

#![no_main]

use libfuzzer_sys::fuzz_target;
use node_fencing_operator::fence::ipmi::codec::lan::Answer;
use node_fencing_operator::fence::ipmi::codec::packet::{Packet, decode, encode_setup};
use node_fencing_operator::fence::ipmi::codec::rakp::{Opened, Rakp2, Rakp4};

fuzz_target!(|datagram: &[u8]| {
    match decode(datagram) {
        Ok(Packet::Plain(message)) => {
            let _ = Answer::decode(message);
        }
        Ok(Packet::Setup(payload_type, payload)) => {
            let made = encode_setup(payload_type, payload).expect("it was short enough to arrive");
            // All but what RMCP leaves open.
            assert_eq!(made.get(4..), datagram.get(4..));
            let _ = Opened::decode(payload);
            for code_bytes in [20, 32] {
                let _ = Rakp2::decode(payload, code_bytes);
            }
            for code_bytes in [12, 16] {
                let _ = Rakp4::decode(payload, code_bytes);
            }
        }
        Ok(Packet::Sealed(sealed)) => {
            for code_bytes in [12, 16] {
                if let Ok((signed, code)) = sealed.signed(code_bytes) {
                    assert_eq!(code.len(), code_bytes);
                    let _ = sealed.payload(signed);
                }
            }
        }
        Err(_) => {}
    }
});
