//! What the machine of a session is given, and what it says.

use super::super::codec::command::Completion;
use super::super::codec::rakp::{Algorithms, Status};
use super::super::crypto::Suite;
use std::fmt;
use std::time::Duration;
use zeroize::Zeroizing;

/// Who logs in, and how.
pub struct Account {
    /// The only cipher suite that is accepted.
    pub suite: Suite,
    /// The user's name.
    pub user: Vec<u8>,
    /// The user's password.
    pub password: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("suite", &self.suite)
            .finish_non_exhaustive()
    }
}

/// Gives 16 unpredictable bytes; none if there are none to be had.
pub type Random = Box<dyn FnMut() -> Option<[u8; 16]> + Send>;

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Send this datagram, then ask again.
    Send(Vec<u8>),
    /// Wait for a datagram, at most until then (time since boot).
    Wait(Duration),
    /// What was asked for is done.
    Done(Result<Done, Failure>),
    /// Nothing was asked for.
    Idle,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// The session is open.
    LoggedIn,
    /// The BMC has answered a command, whatever it says.
    Answered(Completion, Vec<u8>),
    /// The session is closed, as far as can be known.
    Closed,
}

/// Why it cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The BMC refuses the login with this status, at this payload.
    Refused(Stage, Status),
    /// The BMC has chosen other algorithms than the ones that were offered.
    OtherSuite(Algorithms),
    /// The BMC's password for this user is another one.
    WrongPassword,
    /// The BMC's session key is another one: it has a key of its own (K_g).
    BmcKey,
    /// No session is open.
    NoSession,
    /// A datagram could not be made.
    Unsendable(&'static str),
}

/// A payload of the login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Open Session Response.
    OpenSession,
    /// RAKP message 2.
    Rakp2,
    /// RAKP message 4.
    Rakp4,
}

/// How far the work has come that was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing was sent.
    Unsent,
    /// Something was sent, and nothing at all has come back.
    Silent,
    /// No answer to what was sent last.
    Unanswered,
    /// A session was opened, and the login that follows was not answered.
    LoginUnanswered,
    /// The session is open, and no command in it was ever answered.
    SessionUnanswered,
    /// The session is open, and every answer in it fails its integrity check.
    Forged,
    /// The login was refused, and begun anew.
    Refused(Failure),
    /// The BMC has no time: this was its last answer, and nothing was sent since.
    Busy(Completion),
}
