//! The login: Open Session, RAKP messages 1 to 4.
//!
//! Until RAKP message 4 nothing that arrives is authentic, and what is not authentic proves nothing: a single datagram that was
//! corrupted on its way must not look like a wrong password. So a refusal is believed when it has come twice, in two
//! logins; and a wrong code of the BMC when it has come twice, or when the BMC says nothing else.

use super::super::codec::Malformed;
use super::super::codec::command;
use super::super::codec::packet::{self, PayloadType};
use super::super::codec::rakp::{self, Opened, Rakp2, Rakp4, Status};
use super::super::crypto::Exchange;
use super::tries::Login;
use super::window::Window;
use super::{
    Done, Failure, NO_RANDOMNESS, Open, PAUSE_MIN, Question, STRAY, Session, Stage, State,
};
use std::time::Duration;
use zeroize::Zeroizing;

/// Codes that are wrong before the password is.
const MISMATCHES_MAX: u32 = 2;
/// A payload behind Open Session is sent so often before the login begins anew: the BMC may have forgotten the session.
const SENDS_MAX: u32 = 4;
/// Sessions that the BMC opens for one login without an answer to what follows. It keeps each of them for a minute and has few.
const UNUSED_MAX: u32 = 2;
/// The same after a wrong code.
const SENDS_AFTER_MISMATCH_MAX: u32 = 2;

/// A login that is under way.
pub struct Opening {
    login: Login,
    step: Step,
    exchange: Exchange,
    /// Tag of RAKP message 1.
    rakp1_tag: u8,
    /// Codes of the BMC that were wrong in this step.
    mismatches: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    OpenSession,
    Rakp1,
    Rakp3,
}

impl Opening {
    /// Has the BMC opened a session?
    pub fn is_begun(&self) -> bool {
        self.login.opened > 0
    }

    /// The BMC's last refusal.
    pub fn refused(&self) -> Option<Failure> {
        self.login.refused
    }

    /// What to send so that the BMC frees the slot of the session at once. Only RAKP message 2 can be refused; before it, the BMC
    /// has to notice by itself that nothing more comes.
    pub fn abandon(&self, random: &mut dyn FnMut() -> Option<[u8; 16]>) -> Vec<Vec<u8>> {
        if self.step != Step::Rakp3 && self.mismatches == 0 {
            return Vec::new();
        }
        let bmc_id = self.exchange.bmc_id;
        let payload = rakp::rakp3_refusal(0, bmc_id, Status::INVALID_INTEGRITY_CHECK);
        let refusal = packet::encode_setup(PayloadType::Rakp3, &payload);
        // The BMC may have taken RAKP message 3, and then only a Close Session ends the session.
        let close = match self.step {
            Step::Rakp3 => random().and_then(|vector| {
                let message = command::close_session(bmc_id).encode(0);
                self.exchange.keys().seal(bmc_id, 1, vector, &message)
            }),
            Step::OpenSession | Step::Rakp1 => None,
        };
        refusal.into_iter().chain(close).collect()
    }
}

impl Session {
    /// Asks for a session, not before `due`.
    pub(super) fn begin(&mut self, login: Login, due: Duration) {
        match self.open_session(login) {
            Some((opening, datagram)) => {
                self.state = State::Opening(Box::new(opening));
                self.ask_setup(datagram, due);
            }
            None => self.finish(Err(Failure::Unsendable(NO_RANDOMNESS))),
        }
    }

    fn open_session(&mut self, login: Login) -> Option<(Opening, Vec<u8>)> {
        let [a, b, c, d, ..] = (self.random)()?;
        let exchange = Exchange {
            suite: self.account.suite,
            // Zero is the number of no session.
            console_id: u32::from_le_bytes([a, b, c, d]).max(1),
            bmc_id: 0,
            console_random: (self.random)()?,
            bmc_random: [0; 16],
            guid: [0; 16],
            role: login.privilege.role(),
            user: self.account.user.clone(),
            password: Zeroizing::new(self.account.password.to_vec()),
        };
        let payload = rakp::open_session(
            self.upcoming_number(),
            exchange.console_id,
            exchange.suite.algorithms(),
        );
        let datagram = packet::encode_setup(PayloadType::OpenSession, &payload)?;
        let opening = Opening {
            login,
            step: Step::OpenSession,
            exchange,
            rakp1_tag: 0,
            mismatches: 0,
        };
        Some((opening, datagram))
    }

    fn ask_setup(&mut self, datagram: Vec<u8>, due: Duration) {
        self.ask(Question::Setup(datagram), PAUSE_MIN, due);
    }

    pub(super) fn receive_setup(
        &mut self,
        payload_type: PayloadType,
        payload: &[u8],
        now: Duration,
    ) -> Result<(), Malformed> {
        let State::Opening(opening) = &self.state else {
            return Err(STRAY);
        };
        match (payload_type, opening.step) {
            (PayloadType::OpenSessionAnswer, Step::OpenSession) => self.opened(payload, now),
            (PayloadType::Rakp2, Step::Rakp1 | Step::Rakp3) => self.rakp2(payload, now),
            (PayloadType::Rakp4, Step::Rakp3) => self.rakp4(payload, now),
            _ => Err(STRAY),
        }
    }

    fn opened(&mut self, payload: &[u8], now: Duration) -> Result<(), Malformed> {
        let answer = Opened::decode(payload)?;
        let (number, tag) = (self.pending_number(), self.upcoming_number());
        let State::Opening(opening) = &mut self.state else {
            return Err(STRAY);
        };
        let exchange = &mut opening.exchange;
        if !answer.is_for(exchange.console_id) {
            return Err(STRAY);
        }
        let opened = match answer.content {
            Ok(opened) => opened,
            Err(_) if !number.is_some_and(|tag| answer.echoes(tag)) => return Err(STRAY),
            Err(status) => {
                self.measure(now);
                self.refused(Failure::Refused(Stage::OpenSession, status), now);
                return Ok(());
            }
        };
        exchange.bmc_id = opened.bmc_id;
        opening.login.opened = opening.login.opened.saturating_add(1);
        if opened.algorithms != exchange.suite.algorithms() {
            self.refused(Failure::OtherSuite(opened.algorithms), now);
            return Ok(());
        }
        let (random, role) = (&exchange.console_random, exchange.role);
        let payload = rakp::rakp1(tag, opened.bmc_id, random, role, &exchange.user);
        opening.step = Step::Rakp1;
        opening.rakp1_tag = tag;
        self.measure(now);
        let datagram =
            payload.and_then(|payload| packet::encode_setup(PayloadType::Rakp1, &payload));
        match datagram {
            Some(datagram) => self.ask_setup(datagram, now),
            None => self.fail(Failure::Unsendable("the user's name is too long")),
        }
        Ok(())
    }

    fn rakp2(&mut self, payload: &[u8], now: Duration) -> Result<(), Malformed> {
        let tag = self.upcoming_number();
        let State::Opening(opening) = &mut self.state else {
            return Err(STRAY);
        };
        let exchange = &mut opening.exchange;
        let answer = Rakp2::decode(payload, exchange.suite.exchange_code_bytes())?;
        if !answer.is_for(exchange.console_id) {
            return Err(STRAY);
        }
        let is_echo = answer.echoes(opening.rakp1_tag);
        // Where RAKP message 1 was sent twice, the BMC may have answered twice, and only its last random number counts.
        let is_late = opening.step == Step::Rakp3;
        let found = match answer.content {
            Ok(found) => found,
            Err(_) if is_late || !is_echo => return Err(STRAY),
            Err(_) if opening.mismatches > 0 => {
                self.fail(Failure::WrongPassword);
                return Ok(());
            }
            Err(status) => {
                self.refused(Failure::Refused(Stage::Rakp2, status), now);
                return Ok(());
            }
        };
        if is_late && found.random == exchange.bmc_random {
            return Err(STRAY);
        }
        let before = (exchange.bmc_random, exchange.guid);
        (exchange.bmc_random, exchange.guid) = (found.random, found.guid);
        if !exchange.verify_rakp2(found.code) {
            (exchange.bmc_random, exchange.guid) = before;
            if !is_late && is_echo {
                self.mismatch(Failure::WrongPassword, now);
            }
            return Err(Malformed("the code of its RAKP message 2 is wrong"));
        }
        let payload = rakp::rakp3(tag, exchange.bmc_id, &exchange.rakp3());
        opening.step = Step::Rakp3;
        opening.mismatches = 0;
        self.measure(now);
        match packet::encode_setup(PayloadType::Rakp3, &payload) {
            Some(datagram) => self.ask_setup(datagram, now),
            None => self.fail(Failure::Unsendable(NO_RANDOMNESS)),
        }
        Ok(())
    }

    fn rakp4(&mut self, payload: &[u8], now: Duration) -> Result<(), Malformed> {
        let number = self.pending_number();
        let State::Opening(opening) = &self.state else {
            return Err(STRAY);
        };
        let exchange = &opening.exchange;
        let answer = Rakp4::decode(payload, exchange.suite.integrity_code_bytes())?;
        if !answer.is_for(exchange.console_id) {
            return Err(STRAY);
        }
        let is_echo = number.is_some_and(|tag| answer.echoes(tag));
        match answer.content {
            Ok(found) if exchange.verify_rakp4(found.code) => {
                let open = Open {
                    console_id: exchange.console_id,
                    bmc_id: exchange.bmc_id,
                    guid: exchange.guid,
                    privilege: opening.login.privilege,
                    keys: exchange.keys(),
                    sent: 0,
                    window: Window::default(),
                    proven: false,
                    forged: 0,
                };
                self.measure(now);
                self.state = State::Open(Box::new(open));
                self.finish(Ok(Done::LoggedIn));
                Ok(())
            }
            _ if !is_echo => Err(STRAY),
            Ok(_) => {
                self.mismatch(Failure::BmcKey, now);
                Err(Malformed("the code of its RAKP message 4 is wrong"))
            }
            Err(_) if opening.mismatches > 0 => {
                self.fail(Failure::BmcKey);
                Ok(())
            }
            Err(status) => {
                self.refused(Failure::Refused(Stage::Rakp4, status), now);
                Ok(())
            }
        }
    }

    /// A code of the BMC is wrong: the question is asked once more.
    fn mismatch(&mut self, failure: Failure, now: Duration) {
        let State::Opening(opening) = &mut self.state else {
            return;
        };
        opening.mismatches = opening.mismatches.saturating_add(1);
        if opening.mismatches >= MISMATCHES_MAX {
            self.fail(failure);
        } else if let Some(pending) = &mut self.pending {
            (pending.due, pending.sends) = (now, 0);
        }
    }

    /// The BMC refuses: begins anew, or believes it.
    fn refused(&mut self, failure: Failure, now: Duration) {
        let State::Opening(opening) = &mut self.state else {
            return;
        };
        match opening.login.refuse(failure) {
            Some(pause) => self.begin_anew(now.saturating_add(pause)),
            None => self.fail(failure),
        }
    }

    /// What was sent often enough ends here.
    pub(super) fn give_up_login(&mut self, now: Duration) -> bool {
        let (State::Opening(opening), Some(pending)) = (&self.state, &self.pending) else {
            return false;
        };
        match opening.step {
            Step::OpenSession => false,
            step if opening.mismatches > 0 => {
                let enough = pending.sends >= SENDS_AFTER_MISMATCH_MAX;
                if enough {
                    self.fail(match step {
                        Step::Rakp3 => Failure::BmcKey,
                        Step::Rakp1 | Step::OpenSession => Failure::WrongPassword,
                    });
                }
                enough
            }
            Step::Rakp1 | Step::Rakp3 => {
                let enough = pending.sends >= SENDS_MAX && opening.login.opened < UNUSED_MAX;
                if enough {
                    self.begin_anew(now);
                }
                enough
            }
        }
    }

    fn begin_anew(&mut self, due: Duration) {
        if let Some(login) = self.abandon() {
            self.begin(login, due);
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.abandon();
        self.finish(Err(failure));
    }

    /// Leaves the login that is under way, and frees its slot in the BMC.
    pub(super) fn abandon(&mut self) -> Option<Login> {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Opening(opening) => {
                self.outbox.extend(opening.abandon(self.random.as_mut()));
                Some(opening.login)
            }
            state @ (State::Open(_) | State::Closed) => {
                self.state = state;
                None
            }
        }
    }

    fn pending_number(&self) -> Option<u8> {
        self.pending.as_ref().map(|pending| pending.number)
    }
}
