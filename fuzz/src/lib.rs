//! What the fuzz targets do with the bytes that they are given: each is a function that panics where something is wrong.
//!
//! They are apart from libFuzzer, so that the operator's own tests compile them too, and feed them a little.

pub mod datagrams;
pub mod payloads;
pub mod session;
pub mod snmp;
