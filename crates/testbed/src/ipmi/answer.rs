//! An answer on its way out: from what the BMC means to the bytes of a datagram, and what faults do to it in between.

use super::{
    faults::Nonsense,
    log::Outcome,
    message::Response,
    session::Return,
    wire::{self, Seal, payload},
};

/// What a request came in, and its answer goes out in.
#[derive(Debug, Clone)]
pub(super) enum Way {
    /// The format of IPMI 1.5.
    Old,
    /// RMCP+, outside of sessions.
    Outside,
    /// A session.
    Session(Return),
}

/// What the BMC means.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Pong(u8),
    /// Payload type and payload.
    Login(u8, Vec<u8>),
    Message(Response, Way),
    /// A datagram as it is.
    Raw(Vec<u8>),
}

impl Answer {
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Pong(_) => Outcome::Pong,
            Self::Login(_, payload) => payload
                .get(1)
                .map_or(Outcome::Nonsense, |status| Outcome::Status(*status)),
            Self::Message(response, _) => Outcome::Code(response.code),
            Self::Raw(_) => Outcome::Nonsense,
        }
    }

    /// The datagram, changed as this fault wants it.
    pub(super) fn encode(mut self, nonsense: Option<&Nonsense>) -> Vec<u8> {
        let mut seal = Seal::default();
        if let Some(nonsense) = nonsense {
            self.spoil(nonsense, &mut seal);
        }
        let mut datagram = match self {
            Self::Pong(tag) => wire::pong(tag),
            Self::Login(kind, payload) => wire::plain(kind, &payload),
            Self::Message(response, Way::Old) => wire::old(&response.encode()),
            Self::Message(response, Way::Outside) => {
                wire::plain(payload::MESSAGE, &response.encode())
            }
            Self::Message(response, Way::Session(back)) => {
                seal.session ^= back.console;
                seal.sequence = back.sequence - seal.sequence;
                wire::seal(&back.keys, seal, &response.encode())
            }
            Self::Raw(datagram) => datagram,
        };
        match nonsense {
            Some(Nonsense::Truncated(bytes)) => datagram.truncate(*bytes),
            Some(Nonsense::Padded(bytes)) => datagram.resize(datagram.len() + bytes, 0),
            Some(Nonsense::BadCode) => {
                if let Some(last) = datagram.last_mut() {
                    *last ^= 1;
                }
            }
            _ => {}
        }
        datagram
    }

    /// Changes what is inside. The seal's session and sequence are those by which it differs from the right one.
    fn spoil(&mut self, nonsense: &Nonsense, seal: &mut Seal) {
        match (nonsense, self) {
            (Nonsense::ShortData(bytes), Self::Message(response, _)) => {
                response.data.truncate(*bytes);
            }
            (Nonsense::ShortData(bytes), Self::Login(_, payload)) => payload.truncate(*bytes),
            (Nonsense::LongData(bytes), Self::Message(response, _)) => {
                response.data.resize(response.data.len() + bytes, 0);
            }
            (Nonsense::LongData(bytes), Self::Login(_, payload)) => {
                payload.resize(payload.len() + bytes, 0);
            }
            (Nonsense::OtherRequest, Self::Message(response, _)) => {
                // The two low bits are the requester's LUN.
                response.sequence = response.sequence.wrapping_add(1 << 2);
            }
            (Nonsense::OtherRequest, Self::Login(_, payload)) => {
                if let Some(tag) = payload.first_mut() {
                    *tag = tag.wrapping_add(1);
                }
            }
            (Nonsense::OtherCommand, Self::Message(response, _)) => {
                response.command = response.command.wrapping_add(1);
            }
            (Nonsense::BadChecksum, Self::Message(response, _)) => response.bad_checksum = true,
            (Nonsense::OtherSession, Self::Login(_, payload)) => {
                if let Some(console) = payload.get_mut(4) {
                    *console ^= 1;
                }
            }
            (Nonsense::OtherSession, _) => seal.session = 1,
            (Nonsense::OldSequence, _) => seal.sequence = 1,
            (Nonsense::BadPadding, _) => seal.bad_padding = true,
            (Nonsense::InClear, _) => seal.in_clear = true,
            (Nonsense::Unsigned, _) => seal.unsigned = true,
            _ => {}
        }
    }
}
