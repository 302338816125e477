//! The table of sessions: who is let in, which packets of theirs are believed, when a slot is free again.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use uuid::Uuid;

use super::{
    account::{Account, Privilege},
    crypto::{Keys, Suite},
    faults::{IpmiFaults, UnknownUser},
    log::{self, End},
    login::{self, Asked, Exchange, NAME_BYTES_MAX, ROLE_PRIVILEGE, status},
    window::Window,
    wire::Plus,
};
use crate::{https::Journal, moment::Moment};

/// The slots of a BMC, and what became of all sessions that had one.
pub(super) struct Sessions {
    slots: Vec<Slot>,
    most: usize,
    timeout: Duration,
    wrong_passwords: u32,
}

struct Slot {
    id: u32,
    console: u32,
    suite: Suite,
    stage: Stage,
    last_heard: Instant,
    /// Index in the journal of sessions.
    record: usize,
    /// The last message of the login, and its answer: sent once more when it comes once more.
    last: (Asked, Vec<u8>),
    from: SocketAddr,
}

enum Stage {
    Opened,
    Challenged(Exchange, Account),
    Active(Active),
}

struct Active {
    keys: Keys,
    user: usize,
    limit: Privilege,
    privilege: Privilege,
    seen: Window,
    sent: u32,
}

/// What a login depends on.
pub(super) struct Terms<'a> {
    pub(super) from: SocketAddr,
    pub(super) faults: &'a IpmiFaults,
    pub(super) suites: Vec<Suite>,
    pub(super) accounts: &'a [Account],
    pub(super) guid: [u8; 16],
    pub(super) journal: &'a Journal<log::Session>,
}

/// How to answer in a session, even if it ends before.
#[derive(Debug, Clone)]
pub(super) struct Return {
    pub(super) keys: Keys,
    pub(super) console: u32,
    pub(super) sequence: u32,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    pub(super) id: u32,
    /// Number of the user, from 1, and of the slot, from 1.
    pub(super) user: u8,
    pub(super) handle: u8,
    pub(super) privilege: Privilege,
    pub(super) limit: Privilege,
}

impl Sessions {
    pub(super) fn new(most: usize, timeout: Duration) -> Self {
        Self {
            slots: Vec::new(),
            most,
            timeout,
            wrong_passwords: 0,
        }
    }

    /// Slots in use, and slots that there are.
    pub(super) fn count(&self) -> (u8, u8) {
        let number = |count: usize| u8::try_from(count).unwrap_or(u8::MAX);
        (number(self.slots.len()), number(self.most))
    }

    /// Is there such a session?
    pub(super) fn has(&self, id: u32) -> bool {
        self.slots.iter().any(|slot| slot.id == id)
    }

    /// The console's number of a session; 0 if there is none.
    pub(super) fn console(&self, id: Option<u32>) -> u32 {
        let slot = self.slots.iter().find(|slot| Some(slot.id) == id);
        slot.map_or(0, |slot| slot.console)
    }

    /// Frees the slots of sessions that nothing was heard of for too long.
    pub(super) fn expire(&mut self, journal: &Journal<log::Session>) {
        let timeout = self.timeout;
        self.slots.retain(|slot| {
            let lives = slot.last_heard.elapsed() < timeout;
            if !lives {
                end(journal, slot.record, End::TimedOut);
            }
            lives
        });
    }

    /// Frees all slots.
    pub(super) fn forget(&mut self, journal: &Journal<log::Session>) {
        for slot in self.slots.drain(..) {
            end(journal, slot.record, End::Forgotten);
        }
    }

    /// Frees the slot of this session, if there is one.
    pub(super) fn close(&mut self, id: u32, how: End, journal: &Journal<log::Session>) -> bool {
        let found = self.slots.iter().position(|slot| slot.id == id);
        let Some(index) = found else { return false };
        end(journal, self.slots.remove(index).record, how);
        true
    }

    /// Does a message of the login. `None`: it is not answered.
    pub(super) fn login(&mut self, asked: &Asked, terms: &Terms) -> Option<Vec<u8>> {
        // A message that comes once more gets the answer that it got: it is the answer that was lost.
        let before = self.slots.iter_mut().find(|slot| {
            asked.repeats(&slot.last.0)
                && (slot.from == terms.from || asked.session() == Some(slot.id))
        });
        if let Some(slot) = before {
            slot.last_heard = Instant::now();
            let mut answer = slot.last.1.clone();
            answer[0] = asked.tag();
            return Some(answer);
        }
        let answer = match asked {
            Asked::Open(open) => Some(self.open(open, terms)),
            Asked::Rakp1(rakp) => self.rakp_1(rakp, terms),
            Asked::Rakp3(rakp) => self.rakp_3(rakp, terms),
        }?;
        let id = asked.session();
        let slot = match id {
            Some(id) => self.slots.iter_mut().find(|slot| slot.id == id),
            None => None,
        };
        if let Some(slot) = slot {
            slot.last_heard = Instant::now();
            slot.last = (asked.clone(), answer.clone());
        }
        Some(answer)
    }

    fn open(&mut self, open: &login::Open, terms: &Terms) -> Vec<u8> {
        let refuse = |status| login::head(open.tag, status, open.privilege, open.console);
        let proposed = match choose(open.algorithms, &terms.suites) {
            Ok(suite) => suite,
            Err(status) => return refuse(status),
        };
        if terms.faults.session_table_full || self.slots.len() >= self.most {
            return refuse(status::NO_SLOT);
        }
        let suite = terms.faults.answers_suite.unwrap_or(proposed);
        let id = random_id();
        // "The highest level that matches" is what is asked for with 0.
        let privilege = match open.privilege {
            0 => Privilege::Administrator.number(),
            other => other,
        };
        let answer = login::opened(open, id, suite, privilege);
        let record = terms.journal.push(log::Session {
            id,
            from: terms.from,
            suite: suite.id(),
            user: None,
            opened: Moment::now(),
            active: None,
            privilege: Privilege::Callback,
            ended: None,
        });
        self.slots.push(Slot {
            id,
            console: open.console,
            suite,
            stage: Stage::Opened,
            last_heard: Instant::now(),
            record,
            last: (Asked::Open(open.clone()), answer.clone()),
            from: terms.from,
        });
        answer
    }

    fn rakp_1(&mut self, rakp: &login::Rakp1, terms: &Terms) -> Option<Vec<u8>> {
        let waits =
            |slot: &&mut Slot| slot.id == rakp.session && !matches!(slot.stage, Stage::Active(_));
        let Some(slot) = self.slots.iter_mut().find(waits) else {
            return Some(login::head(rakp.tag, status::INVALID_SESSION, 0, 0));
        };
        let console = slot.console;
        let name = String::from_utf8_lossy(&rakp.user).into_owned();
        terms
            .journal
            .amend(slot.record, |session| session.user = Some(name));
        let account = match admit(rakp, terms) {
            Ok(account) => account,
            Err(status) => {
                let is_unknown = status == status::UNAUTHORIZED_NAME;
                if is_unknown && terms.faults.unknown_user == UnknownUser::Silence {
                    return None;
                }
                self.close(rakp.session, End::Refused(status), terms.journal);
                return Some(login::head(rakp.tag, status, 0, console));
            }
        };
        let password = match &terms.faults.password {
            Some(password) => password.clone(),
            None => account.credentials.password.clone(),
        };
        let exchange = Exchange {
            suite: slot.suite,
            console,
            session: slot.id,
            console_random: rakp.random,
            random: Uuid::new_v4().into_bytes(),
            guid: terms.guid,
            role: rakp.role,
            user: rakp.user.clone(),
            password: password.into_bytes(),
        };
        let mut answer = login::head(rakp.tag, status::DONE, 0, console);
        answer.extend(exchange.random);
        answer.extend(exchange.guid);
        answer.extend(exchange.code_2());
        slot.stage = Stage::Challenged(exchange, account.clone());
        Some(answer)
    }

    fn rakp_3(&mut self, rakp: &login::Rakp3, terms: &Terms) -> Option<Vec<u8>> {
        let found = self.slots.iter_mut().find(|slot| slot.id == rakp.session);
        let Some(slot) = found else {
            return Some(login::head(rakp.tag, status::INVALID_SESSION, 0, 0));
        };
        let console = slot.console;
        let Stage::Challenged(exchange, account) = &slot.stage else {
            return Some(login::head(rakp.tag, status::INVALID_SESSION, 0, console));
        };
        if rakp.status != status::DONE {
            // The console did not believe RAKP message 2. Nobody waits for an answer.
            self.close(rakp.session, End::GivenUp(rakp.status), terms.journal);
            return None;
        }
        let most = terms.faults.lock_account_after;
        let is_locked = most.is_some_and(|most| self.wrong_passwords >= most);
        if is_locked || rakp.code != exchange.code_3() {
            self.wrong_passwords += 1;
            let how = End::Refused(status::WRONG_CODE);
            self.close(rakp.session, how, terms.journal);
            return Some(login::head(rakp.tag, status::WRONG_CODE, 0, console));
        }
        let asked_for = Privilege::of_number(exchange.role & ROLE_PRIVILEGE)?;
        let limit = account.privilege.min(asked_for);
        // A session begins as a user's, whatever it may become (section 22.18).
        let privilege = limit.min(Privilege::User);
        let user = terms.accounts.iter().position(|other| other == account);
        let mut answer = login::head(rakp.tag, status::DONE, 0, console);
        answer.extend(exchange.code_4());
        slot.stage = Stage::Active(Active {
            keys: Keys::new(slot.suite, &exchange.sik()),
            user: user.map_or(0, |index| index + 1),
            limit,
            privilege,
            seen: Window::default(),
            sent: 0,
        });
        terms.journal.amend(slot.record, |session| {
            session.active = Some(Moment::now());
            session.privilege = privilege;
        });
        Some(answer)
    }

    /// Opens a packet of a session, and says who asks and how to answer.
    pub(super) fn receive(&mut self, packet: &Plus) -> Result<(Vec<u8>, Standing, Return)> {
        let mut numbered = (1..).zip(&mut self.slots);
        let found = numbered.find(|(_, slot)| slot.id == packet.session);
        let (handle, slot) = found.context("there is no such session")?;
        let Stage::Active(active) = &mut slot.stage else {
            anyhow::bail!("its session is not active yet");
        };
        let message = packet.open(&active.keys)?;
        // Sequence numbers are not protected, and not counted, in a session without integrity.
        let is_new = !active.keys.encrypts() || active.seen.take(packet.sequence);
        ensure!(
            is_new,
            "sequence number {} was seen or is far",
            packet.sequence
        );
        slot.last_heard = Instant::now();
        active.sent += 1;
        let standing = Standing {
            id: slot.id,
            user: u8::try_from(active.user)?,
            handle,
            privilege: active.privilege,
            limit: active.limit,
        };
        let back = Return {
            keys: active.keys.clone(),
            console: slot.console,
            sequence: active.sent,
        };
        Ok((message, standing, back))
    }

    /// Gives a session another privilege level.
    pub(super) fn raise(&mut self, id: u32, to: Privilege, journal: &Journal<log::Session>) {
        let found = self.slots.iter_mut().find(|slot| slot.id == id);
        if let Some((record, Stage::Active(active))) =
            found.map(|slot| (slot.record, &mut slot.stage))
        {
            active.privilege = to;
            journal.amend(record, |session| session.privilege = to);
        }
    }
}

/// The suite that fits a proposal, or the status that refuses it.
fn choose(proposal: [Option<u8>; 3], suites: &[Suite]) -> Result<Suite, u8> {
    let fits = |wanted: Option<u8>, has: u8| wanted.is_none_or(|wanted| wanted == has);
    let refusals = [
        status::INVALID_AUTHENTICATION,
        status::INVALID_INTEGRITY,
        status::INVALID_CONFIDENTIALITY,
    ];
    for (index, refusal) in refusals.into_iter().enumerate() {
        let known = |suite: &Suite| fits(proposal[index], suite.algorithms()[index]);
        if !suites.iter().any(known) {
            return Err(refusal);
        }
    }
    let fits_all = |suite: &&Suite| {
        let pairs = proposal.into_iter().zip(suite.algorithms());
        pairs.into_iter().all(|(wanted, has)| fits(wanted, has))
    };
    let found = suites.iter().find(fits_all);
    found.copied().ok_or(status::NO_SUITE)
}

/// The user who asks to log in, or the status that refuses them.
fn admit<'a>(rakp: &login::Rakp1, terms: &'a Terms) -> Result<&'a Account, u8> {
    let is_whole = rakp.user.len() == usize::from(rakp.user_bytes);
    if !is_whole || rakp.user.len() > NAME_BYTES_MAX {
        return Err(status::INVALID_NAME_LENGTH);
    }
    let role = Privilege::of_number(rakp.role & ROLE_PRIVILEGE).ok_or(status::INVALID_ROLE)?;
    let is_it = |account: &&Account| account.credentials.username.as_bytes() == rakp.user;
    let account = terms.accounts.iter().find(is_it);
    let account = account.ok_or(status::UNAUTHORIZED_NAME)?;
    match role <= account.privilege {
        true => Ok(account),
        false => Err(status::UNAUTHORIZED_ROLE),
    }
}

fn end(journal: &Journal<log::Session>, record: usize, how: End) {
    journal.amend(record, |session| session.ended = Some((Moment::now(), how)));
}

/// A session ID: random, and not 0.
fn random_id() -> u32 {
    let (high, _) = Uuid::new_v4().as_u64_pair();
    u32::try_from(high >> 32).unwrap_or_default().max(1)
}
