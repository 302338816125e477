//! A small HTTPS server whose line can be cut, for everything in the lab that answers the operator.
//!
//! The BMCs and the proxy before the API server differ in what they say, but break in the same ways: the port is
//! closed, the line is a black hole, the power is gone, a connection is reset in the middle of an answer. Those ways
//! live here, once. A [`Site`] says what is answered; [`Server`] owns the socket and the state of the [`Line`].

mod client;
mod hold;
mod journal;
mod leaf;
mod line;
mod server;

pub use client::{Client, client};
pub use hold::{Gate, hold};
pub use hold::{Hold, Passage};
pub use journal::Journal;
pub use leaf::Leaf;
pub use line::Line;
pub use server::{Body, Call, Cut, Duplex, Server, Site, Wire, body_of};
