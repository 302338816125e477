#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::retry_after::run(bytes));
