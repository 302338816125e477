//! One session with a BMC, as a machine without I/O: it takes datagrams and a time, and gives datagrams and a deadline.
//!
//! UDP loses, repeats, reorders and corrupts: every question is sent again until it is answered, and what answers none is dropped.
//! What goes wrong *beyond* doubt ends the work at once; how long to wait is the caller's business, and [`Session::standing`] says for what.
//!
//! The machine does one thing at a time: log in, one command, or close.

mod login;
mod outcome;
mod pending;
mod tries;
mod window;

pub use outcome::{Account, Done, Failure, Next, Random, Stage, Standing};

use super::codec::Malformed;
use super::codec::command::{self, Completion};
use super::codec::lan::{self, Request};
use super::codec::packet::{self, Packet, Sealed};
use super::codec::rakp::Privilege;
use super::crypto::Keys;
use login::Opening;
use pending::{Pending, Question};
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;
use tries::Login;
use window::Window;

/// Pause before a question is sent again, while nothing is known of the network.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// The same at least, however near the BMC is: some think for a while.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// Longest pause before a question is sent again.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Pause after the first "node busy"; it doubles up to [`PAUSE_MAX`].
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// So many answers fail their integrity check, and none passes it, before that is more than bad luck on the way.
const FORGED_MIN: u32 = 2;
/// A Close Session without an answer is sent so often; then the BMC ends the session by itself, after a minute or so.
const CLOSE_SENDS_MAX: u32 = 3;

/// A session, and the work that is under way in it.
pub struct Session {
    account: Account,
    random: Random,
    state: State,
    pending: Option<Pending>,
    /// Sent once, and not waited for.
    outbox: VecDeque<Vec<u8>>,
    result: Option<Result<Done, Failure>>,
    /// Pause before a question is sent again for the first time.
    pause: Duration,
    /// The last tag or sequence number that was given to a question.
    number: u8,
    /// Has anything come from the BMC, whatever it was?
    heard: bool,
    /// A copy of the last command that is over has no answer of its own.
    open_copy: bool,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("account", &self.account)
            .field("is_open", &self.is_open())
            .finish_non_exhaustive()
    }
}

enum State {
    Closed,
    Opening(Box<Opening>),
    Open(Box<Open>),
}

struct Open {
    console_id: u32,
    bmc_id: u32,
    guid: [u8; 16],
    privilege: Privilege,
    keys: Keys,
    /// Number of the last datagram that was sent.
    sent: u32,
    window: Window,
    /// Has an answer in the session passed its integrity check?
    proven: bool,
    /// Datagrams of the session that failed it.
    forged: u32,
}

impl Session {
    /// A session that is not open.
    #[must_use]
    pub fn new(account: Account, random: Random) -> Self {
        Self {
            account,
            random,
            state: State::Closed,
            pending: None,
            outbox: VecDeque::new(),
            result: None,
            pause: PAUSE_FIRST,
            number: 0,
            heard: false,
            open_copy: false,
        }
    }

    /// Is the session open?
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Which system answers in the session that is open, and the privilege that was asked for.
    #[must_use]
    pub fn peer(&self) -> Option<([u8; 16], Privilege)> {
        match &self.state {
            State::Open(open) => Some((open.guid, open.privilege)),
            State::Closed | State::Opening(_) => None,
        }
    }

    /// Begins a command in the session. `patience` is the least time that the BMC has before the command is sent again.
    pub fn command(&mut self, request: Request, patience: Duration, now: Duration) {
        if self.is_open() {
            self.ask(Question::Command(request), patience, now);
        } else {
            self.finish(Err(Failure::NoSession));
        }
    }

    /// Begins a command outside of the session.
    pub fn plain_command(&mut self, request: Request, now: Duration) {
        self.ask(Question::Plain(request), PAUSE_MIN, now);
    }

    /// Begins to close the session, whatever is under way in it.
    pub fn close(&mut self, now: Duration) {
        self.pending = None;
        match &self.state {
            State::Open(open) => {
                let request = command::close_session(open.bmc_id);
                self.ask(Question::Close(request), PAUSE_MIN, now);
            }
            State::Opening(_) | State::Closed => {
                self.abandon();
                self.finish(Ok(Done::Closed));
            }
        }
    }

    /// What to do now (time since boot).
    pub fn next(&mut self, now: Duration) -> Next {
        if let Some(datagram) = self.outbox.pop_front() {
            return Next::Send(datagram);
        }
        if let Some(result) = self.result.take() {
            return Next::Done(result);
        }
        let Some(pending) = &self.pending else {
            return Next::Idle;
        };
        if now < pending.due {
            return Next::Wait(pending.due);
        }
        if self.give_up(now) {
            return self.next(now);
        }
        match self.send(now) {
            Ok(datagram) => Next::Send(datagram),
            Err(problem) => {
                self.finish(Err(Failure::Unsendable(problem)));
                self.next(now)
            }
        }
    }

    /// How far the work has come that is under way.
    #[must_use]
    pub fn standing(&self) -> Standing {
        match (&self.pending, &self.state) {
            (None, _) => Standing::Unsent,
            (
                Some(Pending {
                    busy: Some(busy),
                    sends: 0,
                    ..
                }),
                _,
            ) => Standing::Busy(*busy),
            (Some(_), State::Opening(opening)) if opening.refused().is_some() => opening
                .refused()
                .map_or(Standing::Unanswered, Standing::Refused),
            (Some(_), State::Opening(opening)) if opening.is_begun() => Standing::LoginUnanswered,
            (Some(Pending { asked: None, .. }), _) => Standing::Unsent,
            (Some(_), State::Open(open)) if !open.proven => match open.forged {
                FORGED_MIN.. => Standing::Forged,
                _ => Standing::SessionUnanswered,
            },
            (Some(_), _) if !self.heard => Standing::Silent,
            (Some(_), _) => Standing::Unanswered,
        }
    }

    /// May a copy of the command, which is under way or just over, have reached the BMC without an answer that says what became of
    /// it? The answer to one copy does not speak for another.
    #[must_use]
    pub fn may_be_delivered(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.map_or(self.open_copy, |pending| pending.is_open_after(0))
    }

    /// Takes a datagram.
    ///
    /// # Errors
    /// It was dropped, and why. This is nothing to act on: what was asked is sent again.
    pub fn receive(&mut self, datagram: &[u8], now: Duration) -> Result<(), Malformed> {
        self.heard = true;
        match packet::decode(datagram)? {
            Packet::Setup(payload_type, payload) => self.receive_setup(payload_type, payload, now),
            Packet::Plain(message) => {
                let answer = lan::Answer::decode(message)?;
                match &self.pending {
                    Some(Pending {
                        question: Question::Plain(request),
                        number,
                        ..
                    }) if request.is_answered_outside_by(*number, &answer) => {}
                    _ => return Err(STRAY),
                }
                self.answered(Completion(answer.completion), answer.data, now);
                Ok(())
            }
            Packet::Sealed(sealed) => self.receive_sealed(&sealed, now),
        }
    }

    fn receive_sealed(&mut self, sealed: &Sealed<'_>, now: Duration) -> Result<(), Malformed> {
        let State::Open(open) = &mut self.state else {
            return Err(STRAY);
        };
        if sealed.session_id != open.console_id {
            return Err(Malformed("it belongs to another session"));
        }
        let opened = open.keys.open(sealed);
        open.proven |= opened.is_ok();
        open.forged = open.forged.saturating_add(opened.is_err().into());
        let message = opened?;
        if !open.window.accept(sealed.sequence) {
            return Err(Malformed("it is a replay"));
        }
        let answer = lan::Answer::decode_signed(&message)?;
        let is_last = match &self.pending {
            Some(Pending {
                question: Question::Command(request),
                number,
                ..
            }) if request.is_answered_by(*number, &answer) => false,
            Some(Pending {
                question: Question::Close(request),
                number,
                ..
            }) if request.is_answered_by(*number, &answer) => true,
            _ => return Err(STRAY),
        };
        if is_last {
            self.state = State::Closed;
            self.finish(Ok(Done::Closed));
        } else {
            self.answered(Completion(answer.completion), answer.data, now);
        }
        Ok(())
    }

    /// The open command has its answer, unless the BMC wants to be asked again later.
    fn answered(&mut self, completion: Completion, data: &[u8], now: Duration) {
        self.measure(now);
        let number = self.next_number();
        match &mut self.pending {
            Some(pending) if completion.is_busy() => {
                pending.uncertain |= pending.sends > 1;
                pending.number = number;
                pending.sends = 0;
                pending.asked = None;
                pending.busy = Some(completion);
                pending.due = now.saturating_add(pending.busy_pause);
                pending.busy_pause = pending.busy_pause.saturating_mul(2).min(PAUSE_MAX);
            }
            _ => self.finish(Ok(Done::Answered(completion, data.to_vec()))),
        }
    }

    fn ask(&mut self, question: Question, patience: Duration, now: Duration) {
        self.result = None;
        let number = self.next_number();
        self.pending = Some(Pending {
            question,
            number,
            due: now,
            pause: self.pause.max(patience),
            asked: None,
            sends: 0,
            busy: None,
            busy_pause: BUSY_PAUSE,
            uncertain: false,
        });
    }

    /// The datagram of the open question, and when it is sent again.
    ///
    /// A command that is sent again keeps its own sequence number, so that the BMC can tell it from a new one. The number of the
    /// datagram in its session must be a new one all the same: BMCs drop a number that they have seen (§6.12.13), and if only the
    /// answer was lost they would drop the repetition too, for ever.
    fn send(&mut self, now: Duration) -> Result<Vec<u8>, &'static str> {
        const TOO_LONG: &str = "the datagram would be too long";
        let pending = self.pending.as_mut().ok_or("nothing was asked")?;
        let datagram = match (&pending.question, &mut self.state) {
            (Question::Setup(datagram), _) => datagram.clone(),
            (Question::Plain(request), _) => {
                packet::encode_plain(&request.encode(pending.number)).ok_or(TOO_LONG)?
            }
            (Question::Command(request) | Question::Close(request), State::Open(open)) => {
                let vector = (self.random)().ok_or(NO_RANDOMNESS)?;
                open.sent = open.sent.checked_add(1).ok_or("the session is used up")?;
                let message = request.encode(pending.number);
                open.keys
                    .seal(open.bmc_id, open.sent, vector, &message)
                    .ok_or(TOO_LONG)?
            }
            (Question::Command(_) | Question::Close(_), _) => return Err("no session is open"),
        };
        pending.asked.get_or_insert(now);
        pending.sends = pending.sends.saturating_add(1);
        pending.due = now.saturating_add(pending.pause);
        pending.pause = pending.pause.saturating_mul(2).min(PAUSE_MAX);
        Ok(datagram)
    }

    /// Ends what has been sent often enough.
    fn give_up(&mut self, now: Duration) -> bool {
        let Some(pending) = &self.pending else {
            return false;
        };
        match pending.question {
            Question::Close(_) if pending.sends >= CLOSE_SENDS_MAX => {
                self.state = State::Closed;
                self.finish(Ok(Done::Closed));
                true
            }
            Question::Setup(_) => self.give_up_login(now),
            Question::Close(_) | Question::Plain(_) | Question::Command(_) => false,
        }
    }

    /// Learns from an answer how far the BMC is. Only an answer to something that was sent once tells.
    fn measure(&mut self, now: Duration) {
        if let Some(Pending {
            asked: Some(asked),
            sends: 1,
            ..
        }) = self.pending
        {
            let round_trip = now.saturating_sub(asked);
            self.pause = round_trip.saturating_mul(3).clamp(PAUSE_MIN, PAUSE_MAX);
        }
    }

    /// The number that the next question gets.
    fn upcoming_number(&self) -> u8 {
        self.number.wrapping_add(1) & lan::SEQUENCE_MAX
    }

    fn next_number(&mut self) -> u8 {
        self.number = self.upcoming_number();
        self.number
    }

    fn finish(&mut self, result: Result<Done, Failure>) {
        let answers = u32::from(matches!(result, Ok(Done::Answered(..))));
        let pending = self.pending.take();
        self.open_copy = pending.is_some_and(|pending| pending.is_open_after(answers));
        self.result = Some(result);
    }

    /// Begins to log in, in a session that is not open.
    pub fn log_in(&mut self, privilege: Privilege, now: Duration) {
        self.result = None;
        self.begin(Login::new(privilege), now);
    }
}

/// It belongs to something that is over.
const STRAY: Malformed = Malformed("it answers no open question");
/// The kernel gives no random bytes.
const NO_RANDOMNESS: &str = "there are no random numbers";

#[cfg(test)]
mod tests;
