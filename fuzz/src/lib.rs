//! What the fuzz targets do with the bytes that they are given: each is a function that panics where something is wrong.
//!
//! They are apart from libFuzzer, so that the operator's own tests run them too.

pub mod address;
pub mod datagrams;
pub mod libvirt;
pub mod payloads;
pub mod policy;
pub mod redfish;
pub mod retry_after;
pub mod secret;
pub mod session;
pub mod snmp;
