//! The machine against a BMC of the test's, without a socket and in a time of the test's.

mod bmc;
mod commands;
mod copies;
mod login;

use super::super::codec::command;
use super::super::codec::rakp::Privilege;
use super::super::crypto::Suite;
use super::*;
use bmc::Bmc;
use std::time::Duration;
use zeroize::Zeroizing;

const USER: &[u8] = b"operator";
const PASSWORD: &[u8] = b"correct horse";

fn account(suite: Suite, password: &[u8]) -> Account {
    Account {
        suite,
        user: USER.to_vec(),
        password: Zeroizing::new(password.to_vec()),
    }
}

/// Random numbers that are none: the n-th is n sixteen times.
fn counting() -> Random {
    let mut count = 0_u8;
    Box::new(move || {
        count = count.wrapping_add(1);
        Some([count; 16])
    })
}

fn session() -> Session {
    Session::new(account(Suite::Sha256, PASSWORD), counting())
}

/// What becomes of one datagram: it arrives so often, in this order, each with these bits changed.
type Fate = Box<dyn FnMut(&[u8]) -> Vec<Vec<u8>>>;

fn whole() -> Fate {
    Box::new(|datagram| vec![datagram.to_vec()])
}

/// A session, a BMC, and the network between them.
struct Bench {
    session: Session,
    bmc: Bmc,
    requests: Fate,
    answers: Fate,
    now: Duration,
    /// Time from a request to its answer.
    round_trip: Duration,
    /// Datagrams that the session has sent.
    sent: u32,
    /// Why datagrams were dropped.
    dropped: Vec<&'static str>,
}

impl Bench {
    fn new() -> Self {
        Self::of(Suite::Sha256)
    }

    fn of(suite: Suite) -> Self {
        Self {
            session: Session::new(account(suite, PASSWORD), counting()),
            bmc: Bmc::new(suite),
            requests: whole(),
            answers: whole(),
            now: Duration::from_secs(1000),
            round_trip: Duration::from_millis(10),
            sent: 0,
            dropped: Vec::new(),
        }
    }

    /// Runs until the work is done, or `within` is over; then the standing counts.
    fn run(&mut self, within: Duration) -> Result<Result<Done, Failure>, Standing> {
        let end = self.now + within;
        loop {
            match self.session.next(self.now) {
                Next::Send(datagram) => self.exchange(&datagram),
                Next::Wait(until) if until > end => return Err(self.session.standing()),
                Next::Wait(until) => {
                    assert!(until > self.now, "it would spin");
                    self.now = until;
                }
                Next::Done(result) => return Ok(result),
                Next::Idle => panic!("nothing was asked for"),
            }
        }
    }

    fn exchange(&mut self, datagram: &[u8]) {
        self.sent += 1;
        for request in (self.requests)(datagram) {
            let Some(answer) = self.bmc.answer(&request) else {
                continue;
            };
            self.now += self.round_trip;
            for answer in (self.answers)(&answer) {
                self.give(&answer);
            }
        }
    }

    fn give(&mut self, answer: &[u8]) {
        if let Err(Malformed(why)) = self.session.receive(answer, self.now) {
            self.dropped.push(why);
        }
    }

    fn log_in(&mut self) -> Result<Result<Done, Failure>, Standing> {
        self.session.log_in(Privilege::Operator, self.now);
        self.run(Duration::from_secs(15))
    }

    fn command(&mut self, request: Request) -> Result<Result<Done, Failure>, Standing> {
        self.session.command(request, Duration::ZERO, self.now);
        self.run(Duration::from_secs(15))
    }

    fn status(&mut self) -> Result<Result<Done, Failure>, Standing> {
        self.command(command::get_chassis_status())
    }
}

/// The answer of a machine that runs.
fn on() -> Result<Result<Done, Failure>, Standing> {
    Ok(Ok(Done::Answered(Completion::DONE, vec![0x01, 0, 0])))
}

const LOGGED_IN: Result<Result<Done, Failure>, Standing> = Ok(Ok(Done::LoggedIn));
