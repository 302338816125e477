//! The whole decision, pure: no clock, no network, no randomness, no Kubernetes client.
//!
//! Everything that can lose data is decided here, over facts that were observed elsewhere and a time that is given.

pub mod reading;
