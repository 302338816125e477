//! What the BMC's commands do (IPMI 2.0, chapters 20, 22 and 28): those that clients need for the power, and no more.

use std::time::Instant;

use anyhow::Result;
use uuid::Uuid;

use super::{
    account::Privilege,
    crypto::Suite,
    faults::{GuidForm, IpmiFaults, PowerBit, RestorePolicy},
    log::CHASSIS_CONTROL,
    message::{APP, CHASSIS, Request, STORAGE, code},
    service::Service,
    session::Standing,
};
use crate::actuator::Action;

/// The only channel.
const CHANNEL: u8 = 1;
/// `This channel` in a request.
const THIS_CHANNEL: u8 = 0x0E;
/// Bytes of cipher suite records that an answer carries.
const RECORDS_BYTES: usize = 16;
/// More than the session's user may have (section 22.18).
const EXCEEDS_LIMIT: u8 = 0x81;
/// Close Session of one that there is not (section 22.19).
const NO_SUCH_SESSION: u8 = 0x87;

/// What a command comes to.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) code: u8,
    pub(super) data: Vec<u8>,
    /// Is done to the machine before the answer, or later: that is for the faults to say.
    pub(super) action: Option<Action>,
    /// The session that is closed.
    pub(super) closes: Option<u32>,
}

impl Done {
    pub(super) fn with(data: impl Into<Vec<u8>>) -> Self {
        Self {
            data: data.into(),
            ..Self::default()
        }
    }

    pub(super) fn refused(code: u8) -> Self {
        Self {
            code,
            ..Self::default()
        }
    }
}

impl Service {
    /// A command from somebody who has not logged in.
    pub(super) fn outside(&self, request: &Request, faults: &IpmiFaults) -> Done {
        match (request.net_fn, request.command, request.data.as_slice()) {
            (APP, 0x38, &[channel, _]) => capabilities(channel, faults),
            (APP, 0x54, &[channel, _, index]) => self.cipher_suites(channel, index, faults),
            (APP, 0x37, &[]) => self.system_guid(faults),
            (APP, 0x37 | 0x38 | 0x54, _) => Done::refused(code::WRONG_LENGTH),
            _ => Done::refused(code::INSUFFICIENT_PRIVILEGE),
        }
    }

    /// A command in a session.
    pub(super) fn inside(&self, request: &Request, who: Standing, faults: &IpmiFaults) -> Done {
        let (net_fn, command) = (request.net_fn, request.command);
        let needs = match (net_fn, command) {
            (CHASSIS, CHASSIS_CONTROL) => Privilege::Operator,
            (CHASSIS, 0x00 | 0x01) | (APP, 0x01) => Privilege::User,
            (STORAGE, 0x48) if faults.sel_time.is_some() => Privilege::User,
            (APP, 0x07) if faults.acpi_state.is_some() => Privilege::User,
            (APP, 0x37 | 0x38 | 0x3B | 0x3C | 0x3D | 0x54) => Privilege::Callback,
            _ => return Done::refused(code::INVALID_COMMAND),
        };
        if who.privilege < needs {
            return Done::refused(code::INSUFFICIENT_PRIVILEGE);
        }
        match (net_fn, command, request.data.as_slice()) {
            (CHASSIS, 0x00, &[]) => Done::with([0, 0x20, 0x20, 0x20, 0x20]),
            (CHASSIS, 0x01, &[]) => self.chassis_status(faults),
            (CHASSIS, CHASSIS_CONTROL, &[control]) => self.chassis_control(control, faults),
            // A management controller with a chassis device, of nobody, that speaks IPMI 2.0.
            (APP, 0x01, &[]) => Done::with([0x20, 1, 1, 0, 0x02, 0x80, 0, 0, 0, 0, 0]),
            (STORAGE, 0x48, &[]) => Done::with(faults.sel_time.unwrap_or(u32::MAX).to_le_bytes()),
            (APP, 0x07, &[]) => Done::with([faults.acpi_state.unwrap_or(0x2A), 0x2A]),
            (APP, 0x3B, &[level]) => self.set_privilege(level, who),
            (APP, 0x3C, &[a, b, c, d]) => self.close_session(u32::from_le_bytes([a, b, c, d])),
            (APP, 0x3D, &[index, ..]) => self.session_info(index, who),
            (APP, 0x37 | 0x38 | 0x54, _) => self.outside(request, faults),
            _ => Done::refused(code::WRONG_LENGTH),
        }
    }

    fn cipher_suites(&self, channel: u8, index: u8, faults: &IpmiFaults) -> Done {
        if !is_ours(channel) {
            return Done::refused(code::INVALID_FIELD);
        }
        let accepted = || self.suites(faults).into_iter().map(Suite::id).collect();
        let listed = faults.lists_suites.clone().unwrap_or_else(accepted);
        let records: Vec<u8> = listed.into_iter().flat_map(record).collect();
        let mut pages = records.chunks(RECORDS_BYTES);
        let page = pages.nth(usize::from(index & 0x3F));
        Done::with([&[CHANNEL], page.unwrap_or_default()].concat())
    }

    /// The suites that are accepted.
    pub(super) fn suites(&self, faults: &IpmiFaults) -> Vec<Suite> {
        let mut suites = self.settings.suites.clone();
        if faults.offers_suite_zero {
            suites.push(Suite::Zero);
        }
        suites
    }

    fn system_guid(&self, faults: &IpmiFaults) -> Done {
        match self.guid(faults, faults.guid_in_command) {
            Ok(guid) => Done::with(guid),
            Err(_) => Done::refused(code::NOT_IN_THIS_STATE),
        }
    }

    /// The machine's UUID, as this BMC writes it.
    pub(super) fn guid(&self, faults: &IpmiFaults, form: GuidForm) -> Result<[u8; 16]> {
        let text = faults.uuid.as_deref();
        let uuid = Uuid::parse_str(text.unwrap_or_else(|| self.power.system_uuid()))?;
        Ok(match form {
            GuidForm::Smbios => uuid.to_bytes_le(),
            GuidForm::Rfc4122 => uuid.into_bytes(),
            GuidForm::Reversed => {
                let mut bytes = uuid.into_bytes();
                bytes.reverse();
                bytes
            }
            GuidForm::Zeros => [0; 16],
            GuidForm::Ones => [0xFF; 16],
        })
    }

    fn chassis_status(&self, faults: &IpmiFaults) -> Done {
        let is_on = match &faults.power {
            PowerBit::Truth => self.seen_on(faults),
            PowerBit::Says(on) => *on,
            PowerBit::Cycle(turns) => {
                let turn = self.next_turn() % turns.len().max(1);
                turns.get(turn).copied().unwrap_or_default()
            }
        };
        let policy = match faults.restore_policy {
            RestorePolicy::StaysOff => 0,
            RestorePolicy::Previous => 1,
            RestorePolicy::PowersUp => 2,
            RestorePolicy::Unknown => 3,
        };
        Done::with([u8::from(is_on) | policy << 5 | faults.power_bits, 0, 0, 0])
    }

    /// The power as the BMC knows it, which may be old.
    fn seen_on(&self, faults: &IpmiFaults) -> bool {
        let cached = self.cached.lock();
        let mut cached = cached.expect("no panic while the reading is kept");
        match *cached {
            Some((at, is_on)) if at.elapsed() < faults.power_cached_for => is_on,
            _ => {
                let is_on = self.power.is_on();
                *cached = Some((Instant::now(), is_on));
                is_on
            }
        }
    }

    fn chassis_control(&self, control: u8, faults: &IpmiFaults) -> Done {
        let is_on = self.power.is_on();
        let action = match control & 0x0F {
            0 => match faults.already_off_code {
                Some(code) if !is_on => return Done::refused(code),
                _ => Action::Off,
            },
            1 => Action::On,
            // Neither has a meaning for a machine that is off (section 28.3).
            2 | 3 if !is_on => return Done::refused(code::NOT_IN_THIS_STATE),
            2 | 3 => Action::Restart,
            4 => Action::Nothing,
            // A soft shutdown is optional, and this BMC does not have it.
            _ => return Done::refused(code::INVALID_FIELD),
        };
        Done {
            action: Some(action),
            ..Done::default()
        }
    }

    fn set_privilege(&self, level: u8, who: Standing) -> Done {
        let level = match level & 0x0F {
            0 => who.privilege,
            number => match Privilege::of_number(number) {
                Some(level) if level <= who.limit => level,
                Some(_) => return Done::refused(EXCEEDS_LIMIT),
                None => return Done::refused(code::INVALID_FIELD),
            },
        };
        self.with_sessions(|sessions| sessions.raise(who.id, level, &self.sessions_log));
        Done::with([level.number()])
    }

    fn close_session(&self, id: u32) -> Done {
        let is_there = self.with_sessions(|sessions| sessions.has(id));
        match is_there {
            true => Done {
                closes: Some(id),
                ..Done::default()
            },
            false => Done::refused(NO_SUCH_SESSION),
        }
    }

    fn session_info(&self, index: u8, who: Standing) -> Done {
        const RMCP_PLUS: u8 = 1 << 4;
        let (active, most) = self.with_sessions(|sessions| sessions.count());
        if index != 0 {
            // Only of one's own session.
            return Done::with([0, most, active]);
        }
        let mut data = vec![who.handle, most, active, who.user, who.privilege.number()];
        data.push(RMCP_PLUS | CHANNEL);
        // The console's address, which is not told.
        data.extend([0; 12]);
        Done::with(data)
    }
}

fn is_ours(channel: u8) -> bool {
    [CHANNEL, THIS_CHANNEL].contains(&(channel & 0x0F))
}

/// Get Channel Authentication Capabilities: RMCP+ alone, users with names, no key K_G.
fn capabilities(channel: u8, faults: &IpmiFaults) -> Done {
    const EXTENDED: u8 = 0x80;
    const MD5: u8 = 0x04;
    const NAMED_USERS: u8 = 0x04;
    const SPEAKS_2_0: u8 = 0x02;
    if !is_ours(channel) {
        return Done::refused(code::INVALID_FIELD);
    }
    let (types, speaks) = match faults.says_1_5_only {
        true => (MD5, 0),
        false => (channel & EXTENDED, SPEAKS_2_0),
    };
    Done::with([CHANNEL, types, NAMED_USERS, speaks, 0, 0, 0, 0])
}

/// The record of a cipher suite (tables 22-18 to 22-20).
fn record(id: u8) -> [u8; 5] {
    const STANDARD: u8 = 0xC0;
    const INTEGRITY: u8 = 0x40;
    const CONFIDENTIALITY: u8 = 0x80;
    let [authentication, integrity, confidentiality] = match id {
        1 => [1, 0, 0],
        2 => [1, 1, 0],
        3 => [1, 1, 1],
        8 => [2, 2, 1],
        12 => [2, 3, 1],
        15 => [3, 0, 0],
        16 => [3, 4, 0],
        17 => [3, 4, 1],
        _ => [0, 0, 0],
    };
    [
        STANDARD,
        id,
        authentication,
        INTEGRITY | integrity,
        CONFIDENTIALITY | confidentiality,
    ]
}
