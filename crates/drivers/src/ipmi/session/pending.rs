//! The open question of a session: what is sent until it is answered.

use super::super::codec::command::Completion;
use super::super::codec::lan::Request;
use std::time::Duration;

/// A question without an answer.
pub struct Pending {
    pub question: Question,
    /// Tag of a payload, sequence number of a message.
    pub number: u8,
    pub due: Duration,
    pub pause: Duration,
    pub asked: Option<Duration>,
    pub sends: u32,
    /// The BMC's last word, if it was that it has no time.
    pub busy: Option<Completion>,
    pub busy_pause: Duration,
    /// The same command was sent several times, and not every one of them was answered.
    pub uncertain: bool,
}

impl Pending {
    /// Is there a copy without an answer, after so many answers to what was sent last?
    pub fn is_open_after(&self, answers: u32) -> bool {
        self.sends > answers || self.uncertain
    }
}

pub enum Question {
    /// A payload of the login, as a datagram.
    Setup(Vec<u8>),
    /// A command outside of a session.
    Plain(Request),
    /// A command in the session.
    Command(Request),
    /// The last command in the session.
    Close(Request),
}
