//! A conversation with one SNMP agent, without a socket: it makes datagrams to send, and says what one that came means.
//!
//! One question at a time. Its datagram may be sent again, unchanged, until something with the same two random numbers comes
//! back; everything else is as if it had not come: another's, a replay, a duplicate, an answer to what was asked before, one
//! that is not signed or not encrypted as the question was. Version 2c has no signature: whoever can read the network
//! can forge an answer, and only the random numbers keep out those who cannot.

use super::message::{self, Binding, Kind, Unit, V3};
use super::numbers::Numbers;
use super::usm::{Keys, User, signature_bytes};
use crate::error::printable;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// Fresh beginnings of one question: the agent's engine is unknown, its clock is another.
const RESTARTS_MAX: u8 = 3;
/// How far the clock of an agent may be behind what it said before (RFC 3414, section 2.2.3).
const TIME_WINDOW_SECONDS: i32 = 150;
/// Shortest engine ID in octets (RFC 3411, `SnmpEngineID`).
const ENGINE_ID_OCTETS_MIN: usize = 5;

/// Who asks.
pub enum Security {
    /// Version 2c: a password that travels in plain text.
    Community(Zeroizing<String>),
    /// Version 3.
    User(User),
}

/// What a datagram means.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing: it does not belong here, for this reason.
    Nothing(String),
    /// The question is to be put like this from now on, at once.
    Send(Vec<u8>),
    /// The answer. Its error status has not been judged.
    Answer(Unit),
    /// The agent does not take the question.
    Refused(Refusal),
}

/// Why an agent does not take a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Unknown user, wrong password: what the engine calls it.
    User(&'static str),
    /// The user has no such authentication or privacy.
    Level,
    /// Another engine answers than the one that has signed before.
    OtherEngine,
    /// Anything else.
    Other(String),
}

/// The reports that say something about a question (RFC 3414, section 5, `usmStats`).
const UNSUPPORTED_LEVEL: &str = "1.3.6.1.6.3.15.1.1.1.0";
const NOT_IN_TIME_WINDOW: &str = "1.3.6.1.6.3.15.1.1.2.0";
const UNKNOWN_USER: &str = "1.3.6.1.6.3.15.1.1.3.0";
const UNKNOWN_ENGINE: &str = "1.3.6.1.6.3.15.1.1.4.0";
const WRONG_DIGEST: &str = "1.3.6.1.6.3.15.1.1.5.0";
const DECRYPTION_ERROR: &str = "1.3.6.1.6.3.15.1.1.6.0";

/// A conversation. See the module's text.
pub struct Conversation {
    security: Arc<Security>,
    numbers: Numbers,
    engine: Option<Engine>,
    question: Option<Question>,
}

struct Question {
    unit: Unit,
    message_id: i32,
    restarts: u8,
}

/// The agent's engine, as far as it is known.
struct Engine {
    id: Vec<u8>,
    keys: Keys,
    boots: i32,
    time_seconds: i32,
    /// When it said so (time since boot of this host).
    heard: Duration,
    /// Was that signed? Before, it is good enough to try, and not to judge others by.
    signed: bool,
}

impl Engine {
    fn time_seconds_at(&self, now: Duration) -> i32 {
        let passed = now.saturating_sub(self.heard).as_secs();
        self.time_seconds
            .saturating_add(i32::try_from(passed).unwrap_or(i32::MAX))
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation").finish_non_exhaustive()
    }
}

impl Conversation {
    /// Begins one. `seed` comes from the system's random numbers.
    pub fn new(security: Arc<Security>, seed: [u8; 32]) -> Self {
        Self {
            security,
            numbers: Numbers::new(seed),
            engine: None,
            question: None,
        }
    }

    /// What in the settings makes an agent silent rather than refuse.
    pub fn silent_when(&self) -> &'static str {
        match &*self.security {
            Security::Community(_) => {
                "the community is wrong, when SNMPv2c is not enabled (use `version: V3` for an agent with version 3 only)"
            }
            Security::User(user) if user.is_private() => {
                "SNMPv3 is not enabled, or when `privPassword` or the protocol differs (DES is not supported, AES-128 is)"
            }
            Security::User(_) => "SNMPv3 is not enabled",
        }
    }

    /// Puts a question, in place of any other. Returns the datagram to send.
    pub fn ask(&mut self, kind: Kind, bindings: Vec<Binding>, now: Duration) -> Vec<u8> {
        let unit = Unit::request(kind, self.numbers.id(), bindings);
        self.put(unit, 0, now)
    }

    fn put(&mut self, unit: Unit, restarts: u8, now: Duration) -> Vec<u8> {
        let message_id = self.numbers.id();
        let salt = self.numbers.draw();
        let datagram = match (&*self.security, &self.engine) {
            (Security::Community(community), _) => message::encode_v2c(community.as_bytes(), &unit),
            (Security::User(_), None) => discovery(message_id, unit.request_id),
            (Security::User(user), Some(engine)) => {
                secured(user, engine, message_id, salt, &unit, now)
            }
        };
        self.question = Some(Question {
            unit,
            message_id,
            restarts,
        });
        datagram
    }

    /// Says what a datagram means that came at this time (since boot of this host).
    pub fn hear(&mut self, datagram: &[u8], now: Duration) -> Heard {
        let security = Arc::clone(&self.security);
        let heard = match &*security {
            Security::Community(community) => self.hear_v2c(community, datagram),
            Security::User(user) => self.hear_v3(user, datagram, now),
        };
        if matches!(heard, Heard::Answer(_) | Heard::Refused(_)) {
            self.question = None;
        }
        heard
    }

    fn hear_v2c(&self, community: &str, datagram: &[u8]) -> Heard {
        let (found, unit) = match message::decode_v2c(datagram) {
            Ok(message) => message,
            Err(problem) => return nothing(problem),
        };
        if found != community.as_bytes() {
            return nothing("it has another community");
        }
        self.judge(unit)
    }

    fn hear_v3(&mut self, user: &User, datagram: &[u8], now: Duration) -> Heard {
        let message = match V3::decode(datagram) {
            Ok(message) => message,
            Err(problem) => return nothing(problem),
        };
        let asked = self.question.as_ref().map(|question| question.message_id);
        if asked != Some(message.message_id) {
            return nothing("it answers another message");
        }
        let mut data = message.data.to_vec();
        if message.authenticated {
            let Some(engine) = &mut self.engine else {
                return nothing("it is signed before any key was agreed on");
            };
            if let Err(problem) = authenticate(engine, user, &message, datagram, now) {
                return nothing(problem);
            }
            if message.private {
                let Ok(salt) = message.salt.try_into() else {
                    return nothing("its salt has not eight octets");
                };
                let keys = &engine.keys;
                keys.decrypt(message.boots, message.time_seconds, salt, &mut data);
            }
        } else if message.private {
            return nothing("it is encrypted and not signed");
        }
        let unit = match message::decode_scoped(&data) {
            Ok(unit) => unit,
            Err(problem) => return nothing(problem),
        };
        match unit.kind {
            Kind::Report => self.hear_report(&message, &unit, now),
            _ if !message.authenticated || message.private != user.is_private() => {
                nothing("it is less protected than the question was")
            }
            _ => self.judge(unit),
        }
    }

    /// An answer whose envelope is right.
    fn judge(&self, unit: Unit) -> Heard {
        let Some(question) = &self.question else {
            return nothing("nothing was asked");
        };
        if unit.kind != Kind::Response || unit.request_id != question.unit.request_id {
            return nothing("it answers another question");
        }
        let names = |unit: &Unit| -> Vec<_> {
            unit.bindings
                .iter()
                .map(|binding| binding.name.clone())
                .collect()
        };
        if unit.error_status == 0 && names(&unit) != names(&question.unit) {
            let problem = "it names other objects than were asked for";
            return Heard::Refused(Refusal::Other(problem.to_owned()));
        }
        Heard::Answer(unit)
    }

    /// What the agent's engine says about our message. Most reports cannot be signed: they are believed no further than that
    /// this question has failed, which whoever sits on the network can bring about anyway.
    fn hear_report(&mut self, message: &V3<'_>, unit: &Unit, now: Duration) -> Heard {
        let about = unit
            .bindings
            .first()
            .map(|binding| binding.name.to_string());
        match about.as_deref() {
            Some(UNKNOWN_ENGINE) => {
                if message.engine_id.len() < ENGINE_ID_OCTETS_MIN {
                    return nothing("its engine ID is too short");
                }
                // Nobody can sign this. An engine that has signed before knows its own ID; where another one answers, a question in the
                // middle of a session would go to another PDU.
                if let Some(engine) = self.engine.as_ref().filter(|engine| engine.signed) {
                    return match engine.id == message.engine_id {
                        true => nothing("it names the engine that has signed before"),
                        false => Heard::Refused(Refusal::OtherEngine),
                    };
                }
                self.engine = None;
                self.restart(
                    Some((message.engine_id, message.boots, message.time_seconds)),
                    now,
                )
            }
            // `authenticate` has taken over the time already.
            Some(NOT_IN_TIME_WINDOW) if message.authenticated => self.restart(None, now),
            Some(NOT_IN_TIME_WINDOW) => nothing("a report about the time is not signed"),
            Some(UNKNOWN_USER) if self.engine.is_some() => {
                Heard::Refused(Refusal::User("unknownUserNames"))
            }
            Some(WRONG_DIGEST) if self.engine.is_some() => {
                Heard::Refused(Refusal::User("wrongDigests"))
            }
            Some(DECRYPTION_ERROR) if self.engine.is_some() => {
                Heard::Refused(Refusal::User("decryptionErrors"))
            }
            Some(UNSUPPORTED_LEVEL) if self.engine.is_some() => Heard::Refused(Refusal::Level),
            other => {
                let about = printable(other.unwrap_or("nothing"), 120);
                Heard::Refused(Refusal::Other(format!("its engine reports {about}")))
            }
        }
    }

    /// Puts the question anew, to this engine if one was found.
    fn restart(&mut self, found: Option<(&[u8], i32, i32)>, now: Duration) -> Heard {
        let Some(question) = self.question.take() else {
            return nothing("nothing was asked");
        };
        if question.restarts >= RESTARTS_MAX {
            let problem = "its engine and its clock cannot be agreed on";
            return Heard::Refused(Refusal::Other(problem.to_owned()));
        }
        if let (Security::User(user), Some((id, boots, time_seconds))) = (&*self.security, found) {
            self.engine = Some(Engine {
                id: id.to_vec(),
                keys: user.keys(id),
                boots,
                time_seconds,
                heard: now,
                signed: false,
            });
        }
        Heard::Send(self.put(question.unit, question.restarts + 1, now))
    }
}

fn nothing(why: impl ToString) -> Heard {
    Heard::Nothing(why.to_string())
}

/// Asks for the engine's ID, and gives nothing away (RFC 3414, section 4).
fn discovery(message_id: i32, request_id: i32) -> Vec<u8> {
    let empty = Unit::request(Kind::Get, request_id, Vec::new());
    V3 {
        message_id,
        authenticated: false,
        private: false,
        reportable: true,
        engine_id: &[],
        boots: 0,
        time_seconds: 0,
        user: &[],
        signature: &[],
        signature_offset: 0,
        salt: &[],
        data: &message::encode_scoped(&[], &empty),
    }
    .encode()
}

/// A question, signed and encrypted.
fn secured(
    user: &User,
    engine: &Engine,
    message_id: i32,
    salt: [u8; 8],
    unit: &Unit,
    now: Duration,
) -> Vec<u8> {
    let (boots, time_seconds) = (engine.boots, engine.time_seconds_at(now));
    let mut data = message::encode_scoped(&engine.id, unit);
    let private = user.is_private();
    if private {
        engine.keys.encrypt(boots, time_seconds, salt, &mut data);
    }
    let zeros = vec![0; signature_bytes(user.authentication())];
    let mut message = V3 {
        message_id,
        authenticated: true,
        private,
        reportable: true,
        engine_id: &engine.id,
        boots,
        time_seconds,
        user: user.name.as_bytes(),
        signature: &zeros,
        signature_offset: 0,
        salt: if private { &salt } else { &[] },
        data: &data,
    };
    // Signed with zeros in the place of the signature, which has the same length.
    let signature = engine.keys.sign(&message.encode());
    message.signature = &signature;
    message.encode()
}

/// Is the message from this engine to this user, signed, and of now (RFC 3414, section 3.2)? Takes over the engine's time.
fn authenticate(
    engine: &mut Engine,
    user: &User,
    message: &V3<'_>,
    datagram: &[u8],
    now: Duration,
) -> Result<(), &'static str> {
    if message.engine_id != engine.id || message.user != user.name.as_bytes() {
        return Err("it is from another engine or for another user");
    }
    let keys = &engine.keys;
    if !keys.is_signed(datagram, message.signature, message.signature_offset) {
        return Err("its signature is wrong");
    }
    let (said, known) = (
        (message.boots, message.time_seconds),
        (engine.boots, engine.time_seconds_at(now)),
    );
    let oldest = (known.0, known.1.saturating_sub(TIME_WINDOW_SECONDS));
    if engine.signed && said < oldest || said.0 == i32::MAX {
        return Err("it is older than the engine's earlier answer");
    }
    if !engine.signed || said > (engine.boots, engine.time_seconds) {
        (engine.boots, engine.time_seconds) = said;
        engine.heard = now;
        engine.signed = true;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
