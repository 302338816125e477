//! What the BMC does with a datagram, from its arrival to its answer.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::{Result, bail};

use super::{
    Settings,
    answer::{Answer, Way},
    faults::{IpmiFaults, Nonsense, Reply, Which},
    log::{Asked, CHASSIS_STATUS, End, Entry, Session},
    login,
    message::{CHASSIS, Request},
    session::{Sessions, Standing, Terms},
    wire::{Packet, payload},
};
use crate::{
    actuator::Actuator,
    https::{Gate, Journal, Passage},
    moment::Moment,
    power::Power,
};

/// When a request is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Arrival,
    Answer,
}

/// The BMC of one machine.
pub(super) struct Service {
    pub(super) power: Arc<dyn Power>,
    pub(super) settings: Settings,
    pub(super) faults: Mutex<IpmiFaults>,
    pub(super) log: Journal<Entry>,
    pub(super) sessions_log: Journal<Session>,
    pub(super) holds: Mutex<Vec<(Which, Stage, Gate)>>,
    pub(super) actuator: Arc<Actuator>,
    pub(super) cached: Mutex<Option<(Instant, bool)>>,
    sessions: Mutex<Sessions>,
    cycle: AtomicUsize,
}

/// A request that was understood.
enum Heard {
    Ping(u8),
    Login(login::Asked),
    Message(Request, Way, Option<Standing>),
}

impl Service {
    pub(super) fn new(power: Arc<dyn Power>, settings: Settings) -> Self {
        Self {
            power,
            sessions: Mutex::new(Sessions::new(
                settings.sessions_max,
                settings.session_timeout,
            )),
            settings,
            faults: Mutex::default(),
            log: Journal::new(),
            sessions_log: Journal::new(),
            holds: Mutex::default(),
            actuator: Arc::default(),
            cached: Mutex::default(),
            cycle: AtomicUsize::new(0),
        }
    }

    pub(super) fn faults(&self) -> IpmiFaults {
        let faults = self.faults.lock();
        faults.expect("no panic while faults are changed").clone()
    }

    pub(super) fn with_sessions<T>(&self, work: impl FnOnce(&mut Sessions) -> T) -> T {
        let sessions = self.sessions.lock();
        work(&mut sessions.expect("no panic while the sessions are changed"))
    }

    pub(super) fn forget_sessions(&self) {
        self.with_sessions(|sessions| sessions.forget(&self.sessions_log));
    }

    pub(super) fn next_turn(&self) -> usize {
        self.cycle.fetch_add(1, Ordering::Relaxed)
    }

    /// Does what a datagram asks, and returns the datagram that answers it.
    pub(super) async fn receive(&self, datagram: &[u8], from: SocketAddr) -> Option<Vec<u8>> {
        let faults = self.faults();
        self.with_sessions(|sessions| sessions.expire(&self.sessions_log));
        let (heard, index) = self.hear(datagram, from)?;
        self.pass_hold(index, Stage::Arrival).await?;

        let reply = self.take_reply(index);
        let what = reply.as_ref().map(|reply| &reply.what);
        let instead = what.filter(|what| !what.is_made_of_the_answer());
        let takes_effect = instead.is_none() || reply.as_ref().is_some_and(|it| it.after_effect);
        let right = match takes_effect {
            true => self.answer(&heard, index, from, &faults).await,
            false => None,
        };
        let answer = match instead {
            Some(what) => self.instead(&heard, what),
            None => right,
        };

        self.pass_hold(index, Stage::Answer).await?;
        let answer = answer?;
        let outcome = answer.outcome();
        let told_on = reply.is_none().then(|| power(&heard, &answer)).flatten();
        self.log.amend(index, |entry| {
            entry.outcome = Some(outcome);
            entry.answered = Some(Moment::now());
            entry.told_on = told_on;
        });
        Some(answer.encode(what))
    }

    /// Reads a datagram and enters it in the log. What is not understood or not believed ends here.
    fn hear(&self, datagram: &[u8], from: SocketAddr) -> Option<(Heard, usize)> {
        let heard = self.read(datagram);
        let (session, asked) = match &heard {
            Ok(Heard::Ping(_)) => (None, Asked::Ping),
            Ok(Heard::Login(login)) => (login.session(), login.into()),
            Ok(Heard::Message(request, _, who)) => (who.map(|who| who.id), request.into()),
            Err(error) => (None, Asked::Dropped(format!("{error:#}"))),
        };
        let index = self.log.push(Entry {
            at: Moment::now(),
            from,
            session,
            asked,
            outcome: None,
            answered: None,
            told_on: None,
            accepted: false,
        });
        Some((heard.ok()?, index))
    }

    fn read(&self, datagram: &[u8]) -> Result<Heard> {
        let packet = match Packet::parse(datagram)? {
            Packet::Ping { tag } => return Ok(Heard::Ping(tag)),
            Packet::Old { payload } => {
                return Ok(Heard::Message(Request::parse(payload)?, Way::Old, None));
            }
            Packet::Plus(packet) => packet,
        };
        if packet.session == 0 {
            return Ok(match packet.payload_type {
                payload::MESSAGE => {
                    Heard::Message(Request::parse(packet.payload)?, Way::Outside, None)
                }
                other => Heard::Login(login::Asked::parse(other, packet.payload)?),
            });
        }
        if packet.payload_type != payload::MESSAGE {
            bail!("payload type {:#04x} in a session", packet.payload_type);
        }
        let (message, who, back) = self.with_sessions(|sessions| sessions.receive(&packet))?;
        let request = Request::parse(&message)?;
        Ok(Heard::Message(request, Way::Session(back), Some(who)))
    }

    async fn answer(
        &self,
        heard: &Heard,
        index: usize,
        from: SocketAddr,
        faults: &IpmiFaults,
    ) -> Option<Answer> {
        match heard {
            Heard::Ping(tag) => Some(Answer::Pong(*tag)),
            Heard::Login(asked) => {
                let terms = Terms {
                    from,
                    faults,
                    suites: self.suites(faults),
                    accounts: &self.settings.accounts,
                    guid: self.guid(faults, faults.guid_in_rakp).ok()?,
                    journal: &self.sessions_log,
                };
                let payload = self.with_sessions(|sessions| sessions.login(asked, &terms))?;
                if let Some(id) = login::opened_session(asked, &payload) {
                    self.log.amend(index, |entry| entry.session = Some(id));
                }
                let mut payload = payload;
                match payload.first_mut() {
                    Some(tag) if faults.zero_tags => *tag = 0,
                    _ => {}
                }
                Some(Answer::Login(asked.answer_type(), payload))
            }
            Heard::Message(request, way, who) => {
                let done = match who {
                    Some(who) => self.inside(request, *who, faults),
                    None => self.outside(request, faults),
                };
                if let Some(action) = done.action {
                    self.log.amend(index, |entry| entry.accepted = true);
                    let (effect, restores) = (faults.effect, faults.restores_after);
                    let machine = self.power.clone();
                    self.actuator.act(machine, action, effect, restores).await;
                }
                if let Some(id) = done.closes {
                    self.with_sessions(|sessions| {
                        sessions.close(id, End::Closed, &self.sessions_log)
                    });
                }
                let response = request.answer(done.code, done.data);
                Some(Answer::Message(response, way.clone()))
            }
        }
    }

    /// What a request is answered with, whatever it asked.
    fn instead(&self, heard: &Heard, what: &Nonsense) -> Option<Answer> {
        match (what, heard) {
            (Nonsense::Raw(datagram), _) => Some(Answer::Raw(datagram.clone())),
            (Nonsense::Code(code), Heard::Message(request, way, _)) => {
                Some(Answer::Message(request.answer(*code, []), way.clone()))
            }
            (Nonsense::Status(status), Heard::Login(asked)) => {
                let console = match asked {
                    login::Asked::Open(open) => open.console,
                    other => self.with_sessions(|sessions| sessions.console(other.session())),
                };
                let payload = login::head(asked.tag(), *status, 0, console);
                Some(Answer::Login(asked.answer_type(), payload))
            }
            // Silence; and what does not fit the request is not said.
            _ => None,
        }
    }

    /// The fault that concerns an answer, if any; counts it.
    fn take_reply(&self, index: usize) -> Option<Reply> {
        let entry = self.log.entry(index);
        let mut faults = self
            .faults
            .lock()
            .expect("no panic while faults are changed");
        let reply = faults
            .replies
            .iter_mut()
            .find(|reply| reply.times != Some(0) && entry.is(reply.to))?;
        if let Some(times) = &mut reply.times {
            *times -= 1;
        }
        Some(reply.clone())
    }

    /// Waits where a test wants it. `None`: the datagram is discarded.
    async fn pass_hold(&self, index: usize, stage: Stage) -> Option<()> {
        let entry = self.log.entry(index);
        let gate = {
            let mut holds = self.holds.lock().expect("no panic while holds are changed");
            let found = holds
                .iter()
                .position(|(which, when, _)| *when == stage && entry.is(*which));
            found.map(|index| holds.remove(index).2)
        };
        let Some(gate) = gate else { return Some(()) };
        match gate.pass().await {
            Passage::Go => Some(()),
            Passage::Discard => None,
        }
    }
}

/// Whether the machine is on, if this is what the answer tells.
fn power(heard: &Heard, answer: &Answer) -> Option<bool> {
    let asks = matches!(
        heard,
        Heard::Message(request, ..) if (request.net_fn, request.command) == (CHASSIS, CHASSIS_STATUS)
    );
    match answer {
        Answer::Message(response, _) if asks && response.code == 0 => {
            response.data.first().map(|state| state & 1 == 1)
        }
        _ => None,
    }
}
