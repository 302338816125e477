//! As much of SNMP as a PDU needs: GET and SET in versions 2c and 3, without a socket and without a clock.
//!
//! Written here and not taken from a crate, because every byte of it is hostile and its answer decides about a machine's power;
//! ARCHITECTURE.md says what was looked at.

pub mod ber;
pub mod conversation;
pub mod message;
mod numbers;
pub mod oid;
pub mod usm;

pub use conversation::{Conversation, Heard, Refusal, Security};
pub use message::{Binding, Kind, Unit, Value};
pub use oid::Oid;
pub use usm::User;
