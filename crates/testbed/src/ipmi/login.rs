//! The messages of a login: RMCP+ Open Session and RAKP 1 to 4 (IPMI 2.0, sections 13.17 to 13.24).

use anyhow::{Result, bail, ensure};

use super::{
    crypto::Suite,
    wire::{Reader, payload},
};

/// The longest name and password that RMCP+ has room for.
pub(super) const NAME_BYTES_MAX: usize = 16;
pub(super) const PASSWORD_BYTES_MAX: usize = 20;
/// The bits of a role that are the privilege.
pub(super) const ROLE_PRIVILEGE: u8 = 0x0F;

/// Status codes of RMCP+ and RAKP (table 13-15).
pub(super) mod status {
    pub(in super::super) const DONE: u8 = 0x00;
    pub(in super::super) const NO_SLOT: u8 = 0x01;
    pub(in super::super) const INVALID_SESSION: u8 = 0x02;
    pub(in super::super) const INVALID_AUTHENTICATION: u8 = 0x04;
    pub(in super::super) const INVALID_INTEGRITY: u8 = 0x05;
    pub(in super::super) const INVALID_ROLE: u8 = 0x09;
    pub(in super::super) const UNAUTHORIZED_ROLE: u8 = 0x0A;
    pub(in super::super) const INVALID_NAME_LENGTH: u8 = 0x0C;
    pub(in super::super) const UNAUTHORIZED_NAME: u8 = 0x0D;
    pub(in super::super) const WRONG_CODE: u8 = 0x0F;
    pub(in super::super) const INVALID_CONFIDENTIALITY: u8 = 0x10;
    pub(in super::super) const NO_SUITE: u8 = 0x11;
}

/// A message of the login, to the BMC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    Open(Open),
    Rakp1(Rakp1),
    Rakp3(Rakp3),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) tag: u8,
    pub(super) privilege: u8,
    pub(super) console: u32,
    /// For authentication, integrity and confidentiality. `None`: the BMC may choose.
    pub(super) algorithms: [Option<u8>; 3],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rakp1 {
    pub(super) tag: u8,
    pub(super) session: u32,
    pub(super) random: [u8; 16],
    pub(super) role: u8,
    pub(super) user: Vec<u8>,
    /// As announced; the name may be cut off.
    pub(super) user_bytes: u8,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rakp3 {
    pub(super) tag: u8,
    pub(super) status: u8,
    pub(super) session: u32,
    pub(super) code: Vec<u8>,
}

impl Asked {
    pub(super) fn parse(payload_type: u8, payload: &[u8]) -> Result<Self> {
        let mut reader = Reader(payload);
        let tag = reader.byte()?;
        match payload_type {
            payload::OPEN_REQUEST => {
                let [privilege, _, _] = reader.array()?;
                let console = reader.number()?;
                let mut algorithms = [None; 3];
                for (number, algorithm) in (0..).zip(&mut algorithms) {
                    let [kind, _, _, length] = reader.array()?;
                    let [value, ..] = reader.array::<4>()?;
                    ensure!(kind == number, "proposal {number} is of type {kind}");
                    *algorithm = (length != 0).then_some(value & 0x3F);
                }
                Ok(Self::Open(Open {
                    tag,
                    privilege: privilege & ROLE_PRIVILEGE,
                    console,
                    algorithms,
                }))
            }
            payload::RAKP_1 => {
                reader.bytes(3)?;
                let (session, random) = (reader.number()?, reader.array()?);
                let [role, _, _, user_bytes] = reader.array()?;
                let present = reader.0.len().min(user_bytes.into());
                Ok(Self::Rakp1(Rakp1 {
                    tag,
                    session,
                    random,
                    role,
                    user: reader.bytes(present)?.to_vec(),
                    user_bytes,
                }))
            }
            payload::RAKP_3 => {
                let [status, _, _] = reader.array()?;
                Ok(Self::Rakp3(Rakp3 {
                    tag,
                    status,
                    session: reader.number()?,
                    code: reader.0.to_vec(),
                }))
            }
            other => bail!("payload type {other:#04x}"),
        }
    }

    /// The payload type of its answer.
    pub(super) fn answer_type(&self) -> u8 {
        match self {
            Self::Open(_) => payload::OPEN_RESPONSE,
            Self::Rakp1(_) => payload::RAKP_2,
            Self::Rakp3(_) => payload::RAKP_4,
        }
    }

    pub(super) fn tag(&self) -> u8 {
        match self {
            Self::Open(open) => open.tag,
            Self::Rakp1(rakp) => rakp.tag,
            Self::Rakp3(rakp) => rakp.tag,
        }
    }

    /// Whether it is the same message sent once more. Some clients change the tag when they ask again.
    pub(super) fn repeats(&self, before: &Self) -> bool {
        let mut before = before.clone();
        match &mut before {
            Self::Open(open) => open.tag = self.tag(),
            Self::Rakp1(rakp) => rakp.tag = self.tag(),
            Self::Rakp3(rakp) => rakp.tag = self.tag(),
        }
        *self == before
    }

    /// The BMC's number of the session that it is about.
    pub(super) fn session(&self) -> Option<u32> {
        match self {
            Self::Open(_) => None,
            Self::Rakp1(rakp) => Some(rakp.session),
            Self::Rakp3(rakp) => Some(rakp.session),
        }
    }
}

/// What all answers of the login begin with. More follows only if the status is 0.
pub(super) fn head(tag: u8, status: u8, privilege: u8, console: u32) -> Vec<u8> {
    let mut payload = vec![tag, status, privilege, 0];
    payload.extend(console.to_le_bytes());
    payload
}

/// The answer that opens a session.
pub(super) fn opened(open: &Open, session: u32, suite: Suite, privilege: u8) -> Vec<u8> {
    let mut payload = head(open.tag, status::DONE, privilege, open.console);
    payload.extend(session.to_le_bytes());
    for (number, algorithm) in (0..).zip(suite.algorithms()) {
        payload.extend([number, 0, 0, 8, algorithm, 0, 0, 0]);
    }
    payload
}

/// The session that an answer opens.
pub(super) fn opened_session(asked: &Asked, answer: &[u8]) -> Option<u32> {
    let mut reader = Reader(
        answer
            .get(8..)
            .filter(|_| matches!(asked, Asked::Open(_)))?,
    );
    reader.number().ok()
}

/// What both sides know after RAKP message 2, and compute their codes over.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    pub(super) suite: Suite,
    pub(super) console: u32,
    pub(super) session: u32,
    pub(super) console_random: [u8; 16],
    pub(super) random: [u8; 16],
    pub(super) guid: [u8; 16],
    pub(super) role: u8,
    pub(super) user: Vec<u8>,
    pub(super) password: Vec<u8>,
}

impl Exchange {
    fn role_and_name(&self) -> Vec<u8> {
        let length = u8::try_from(self.user.len()).expect("a name of at most 255 bytes");
        [&[self.role, length], self.user.as_slice()].concat()
    }

    /// Of RAKP message 2.
    pub(super) fn code_2(&self) -> Vec<u8> {
        let parts: [&[u8]; 6] = [
            &self.console.to_le_bytes(),
            &self.session.to_le_bytes(),
            &self.console_random,
            &self.random,
            &self.guid,
            &self.role_and_name(),
        ];
        self.suite.hmac(&self.password, &parts)
    }

    /// Of RAKP message 3.
    pub(super) fn code_3(&self) -> Vec<u8> {
        let console = self.console.to_le_bytes();
        let parts: [&[u8]; 3] = [&self.random, &console, &self.role_and_name()];
        self.suite.hmac(&self.password, &parts)
    }

    /// The session integrity key. There is one key: no K_G is set.
    pub(super) fn sik(&self) -> Vec<u8> {
        let parts: [&[u8]; 3] = [&self.console_random, &self.random, &self.role_and_name()];
        self.suite.hmac(&self.password, &parts)
    }

    /// Of RAKP message 4.
    pub(super) fn code_4(&self) -> Vec<u8> {
        let session = self.session.to_le_bytes();
        let parts: [&[u8]; 3] = [&self.console_random, &session, &self.guid];
        self.suite.short_hmac(&self.sik(), &parts)
    }
}
