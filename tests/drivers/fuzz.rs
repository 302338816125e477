//! The fuzz targets of `fuzz/`, fed with a little of everything: here they are compiled with each change, without libFuzzer.

#[path = "../../fuzz/src/lib.rs"]
mod targets;

use proptest::prelude::*;

/// Noise, and noise behind the beginnings that get past the first look.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let beginning = prop::sample::select(vec![
        &b""[..],
        // RMCP with RMCP+, and with a message outside of any session.
        &[6, 0, 0xff, 7, 6, 0xc0],
        &[6, 0, 0xff, 7, 0, 0, 0, 0, 0],
        // To walk and to read: a sequence that begins with version 2c, or 3.
        &[0, 0x30, 0x10, 2, 1, 1],
        &[1, 0x30, 0x10, 2, 1, 1, 4, 0],
        &[1, 0x30, 0x10, 2, 1, 3, 0x30],
    ]);
    (beginning, prop::collection::vec(any::<u8>(), 0..200))
        .prop_map(|(beginning, noise)| [beginning, &noise].concat())
}

proptest! {
    #[test]
    fn no_bytes_break_a_fuzz_target(bytes in bytes()) {
        targets::datagrams::run(&bytes);
        targets::payloads::run(&bytes);
        targets::session::run(&bytes);
        targets::snmp::run(&bytes);
    }
}
