//! Each decoder of IPMI by itself, on bytes that no frame has checked.

use fencing_drivers::ipmi::codec::command::{
    AuthenticationCapabilities, ChassisStatus, cipher_suite_bytes, cipher_suites, sel_time,
};
use fencing_drivers::ipmi::codec::lan::Answer;
use fencing_drivers::ipmi::codec::rakp::{Opened, Rakp2, Rakp4};

/// The first byte says which decoder gets the others.
pub fn run(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else {
        return;
    };
    match which % 9 {
        0 => {
            let _ = Opened::decode(bytes);
        }
        1 => {
            let _ = Rakp2::decode(bytes, 32);
        }
        2 => {
            let _ = Rakp4::decode(bytes, 16);
        }
        3 => {
            if let Ok(answer) = Answer::decode(bytes) {
                let made = answer.encode();
                assert_eq!(Answer::decode(&made), Ok(answer));
            }
        }
        4 => {
            let _ = ChassisStatus::decode(bytes);
        }
        5 => {
            let _ = AuthenticationCapabilities::decode(bytes);
        }
        6 => {
            let _ = cipher_suite_bytes(bytes);
        }
        7 => {
            let _ = cipher_suites(bytes);
        }
        _ => {
            let _ = sel_time(bytes);
        }
    }
}
