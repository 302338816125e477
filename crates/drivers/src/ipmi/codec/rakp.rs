//! The payloads that set a session up: Open Session, and the four messages of RAKP, the authenticated key exchange (§13.17 to
//! §13.24).
//!
//! Numbers for the two sides: the remote console is we, the managed system is the BMC.

use super::{Malformed, Reader};

/// Set in the privilege byte of RAKP 1: the BMC looks the user up by the name alone and not by name and privilege, so that a
/// user with more rights than asked for is found too (§13.20).
const NAME_ONLY_LOOKUP: u8 = 0x10;
/// Asked for in Open Session. The privilege of the session is what RAKP 1 asks for; several BMCs refuse any other value here.
const HIGHEST_PRIVILEGE: u8 = 0x00;
/// Longest user name in bytes.
pub const USER_BYTES_MAX: usize = 16;

/// The three algorithms of a cipher suite (§13.28), by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Algorithms {
    /// Of the key exchange.
    pub authentication: u8,
    /// Of the authentication codes.
    pub integrity: u8,
    /// Of the encryption.
    pub confidentiality: u8,
}

/// What a session may do (§6.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Privilege {
    /// Reads.
    User,
    /// Reads and switches the power.
    Operator,
    /// Everything.
    Administrator,
}

impl Privilege {
    /// Its number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::User => 2,
            Self::Operator => 3,
            Self::Administrator => 4,
        }
    }

    /// The byte of RAKP 1 that asks for it; it is also part of what is authenticated.
    #[must_use]
    pub fn role(self) -> u8 {
        self.number() | NAME_ONLY_LOOKUP
    }

    /// Its name in the specification.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Operator => "Operator",
            Self::Administrator => "Administrator",
        }
    }
}

/// Open Session Request: exactly one algorithm of each kind is offered, so that there is nothing to negotiate down.
#[must_use]
pub fn open_session(tag: u8, console_id: u32, algorithms: Algorithms) -> Vec<u8> {
    let mut payload = vec![tag, HIGHEST_PRIVILEGE, 0, 0];
    payload.extend(console_id.to_le_bytes());
    let Algorithms {
        authentication,
        integrity,
        confidentiality,
    } = algorithms;
    for (kind, algorithm) in [(0, authentication), (1, integrity), (2, confidentiality)] {
        payload.extend([kind, 0, 0, 8, algorithm, 0, 0, 0]);
    }
    payload
}

/// An answer to one of the payloads: what the status says, and the rest where the status is "no error".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<T> {
    /// Tag of the payload that is answered.
    pub tag: u8,
    /// Our number for the session. A refusal may lack it: OpenIPMI's simulator ends behind the status.
    pub console_id: Option<u32>,
    /// The content, or the status.
    pub content: Result<T, Status>,
}

impl<T> Answer<T> {
    /// Is it for the session with this number of ours? The number is random and says whose answer it is.
    #[must_use]
    pub fn is_for(&self, console_id: u32) -> bool {
        self.console_id.is_none_or(|named| named == console_id)
    }

    /// Does it carry the tag of the payload that it answers, or none? The tag authenticates nothing, and some BMCs always send 0:
    /// only what proves nothing by itself, a refusal or a wrong code, is judged by it.
    #[must_use]
    pub fn echoes(&self, tag: u8) -> bool {
        self.tag == tag || self.tag == 0
    }
}

/// Open Session Response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The BMC's number for the session.
    pub bmc_id: u32,
    /// What the BMC has chosen.
    pub algorithms: Algorithms,
}

impl Opened {
    /// # Errors
    /// It is not an Open Session Response.
    pub fn decode(payload: &[u8]) -> Result<Answer<Self>, Malformed> {
        decode(payload, |reader| {
            let bmc_id = reader.u32()?;
            // Only what was offered is ever used, so the kind and the length before each number prove nothing.
            let mut chosen = || {
                let [_, _, _, _, algorithm, _, _, _] = reader.array()?;
                Ok(algorithm & 0x3f)
            };
            let algorithms = Algorithms {
                authentication: chosen()?,
                integrity: chosen()?,
                confidentiality: chosen()?,
            };
            if bmc_id == 0 {
                return Err(Malformed("its session has the number of no session"));
            }
            Ok(Self { bmc_id, algorithms })
        })
    }
}

/// RAKP message 1. `None` if the user name is longer than [`USER_BYTES_MAX`].
#[must_use]
pub fn rakp1(tag: u8, bmc_id: u32, random: &[u8; 16], role: u8, user: &[u8]) -> Option<Vec<u8>> {
    let user_bytes = u8::try_from(user.len()).ok()?;
    if user.len() > USER_BYTES_MAX {
        return None;
    }
    let mut payload = vec![tag, 0, 0, 0];
    payload.extend(bmc_id.to_le_bytes());
    payload.extend(random);
    payload.extend([role, 0, 0, user_bytes]);
    payload.extend(user);
    Some(payload)
}

/// RAKP message 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rakp2<'a> {
    /// The BMC's random number.
    pub random: [u8; 16],
    /// Which system it is.
    pub guid: [u8; 16],
    /// Proves that the BMC knows the user's password.
    pub code: &'a [u8],
}

impl<'a> Rakp2<'a> {
    /// With a code of so many bytes.
    ///
    /// # Errors
    /// It is not RAKP message 2.
    pub fn decode(payload: &'a [u8], code_bytes: usize) -> Result<Answer<Self>, Malformed> {
        decode(payload, |reader| {
            Ok(Self {
                random: reader.array()?,
                guid: reader.array()?,
                code: reader.take(code_bytes)?,
            })
        })
    }
}

/// RAKP message 3: `code` proves that we know the password.
#[must_use]
pub fn rakp3(tag: u8, bmc_id: u32, code: &[u8]) -> Vec<u8> {
    let mut payload = rakp3_refusal(tag, bmc_id, Status::NO_ERRORS);
    payload.extend(code);
    payload
}

/// RAKP message 3 that ends the exchange, so that the BMC frees the slot of the session at once.
#[must_use]
pub fn rakp3_refusal(tag: u8, bmc_id: u32, status: Status) -> Vec<u8> {
    let mut payload = vec![tag, status.0, 0, 0];
    payload.extend(bmc_id.to_le_bytes());
    payload
}

/// RAKP message 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rakp4<'a> {
    /// Proves that the BMC has the same session key.
    pub code: &'a [u8],
}

impl<'a> Rakp4<'a> {
    /// With a code of so many bytes.
    ///
    /// # Errors
    /// It is not RAKP message 4.
    pub fn decode(payload: &'a [u8], code_bytes: usize) -> Result<Answer<Self>, Malformed> {
        decode(payload, |reader| {
            Ok(Self {
                code: reader.take(code_bytes)?,
            })
        })
    }
}

/// Tag, status, two bytes that do not matter, our number for the session; and with status 0 the content. What follows it is no part of it.
fn decode<'a, T>(
    payload: &'a [u8],
    content: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Answer<T>, Malformed> {
    let mut reader = Reader(payload);
    let (tag, status) = (reader.byte()?, Status(reader.byte()?));
    if status != Status::NO_ERRORS {
        let named = reader.array::<2>().and_then(|_| reader.u32());
        return Ok(Answer {
            tag,
            console_id: named.ok(),
            content: Err(status),
        });
    }
    reader.array::<2>()?;
    let console_id = Some(reader.u32()?);
    let content = content(&mut reader)?;
    Ok(Answer {
        tag,
        console_id,
        content: Ok(content),
    })
}

/// Status of a payload that sets a session up (table 13-15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u8);

impl Status {
    /// All is well.
    pub const NO_ERRORS: Self = Self(0x00);
    /// The table of sessions is full.
    pub const NO_RESOURCES: Self = Self(0x01);
    /// The BMC knows no such session.
    pub const INVALID_SESSION: Self = Self(0x02);
    /// It does not know the payload.
    pub const INVALID_PAYLOAD: Self = Self(0x03);
    /// The session has ended.
    pub const INACTIVE_SESSION: Self = Self(0x08);
    /// No session has this role.
    pub const INVALID_ROLE: Self = Self(0x09);
    /// The user may not have this role.
    pub const UNAUTHORIZED_ROLE: Self = Self(0x0a);
    /// No session with this role is left.
    pub const NO_RESOURCES_FOR_ROLE: Self = Self(0x0b);
    /// The user's name is too long.
    pub const INVALID_NAME_LENGTH: Self = Self(0x0c);
    /// There is no such user.
    pub const UNAUTHORIZED_NAME: Self = Self(0x0d);
    /// It is another system.
    pub const UNAUTHORIZED_GUID: Self = Self(0x0e);
    /// An authentication code is wrong.
    pub const INVALID_INTEGRITY_CHECK: Self = Self(0x0f);

    /// Is it about the algorithms that were asked for?
    #[must_use]
    pub fn refuses_algorithms(self) -> bool {
        matches!(self.0, 0x04..=0x07 | 0x10 | 0x11)
    }

    /// What the specification calls it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self.0 {
            0x00 => "no errors",
            0x01 => "insufficient resources to create a session",
            0x02 => "invalid session ID",
            0x03 => "invalid payload type",
            0x04 => "invalid authentication algorithm",
            0x05 => "invalid integrity algorithm",
            0x06 => "no matching authentication payload",
            0x07 => "no matching integrity payload",
            0x08 => "inactive session ID",
            0x09 => "invalid role",
            0x0a => "unauthorized role or privilege level requested",
            0x0b => "insufficient resources to create a session at the requested role",
            0x0c => "invalid name length",
            0x0d => "unauthorized name",
            0x0e => "unauthorized GUID",
            0x0f => "invalid integrity check value",
            0x10 => "invalid confidentiality algorithm",
            0x11 => "no cipher suite match with proposed security algorithms",
            0x12 => "illegal or unrecognized parameter",
            _ => "a status that the specification does not have",
        }
    }
}

/// `status 0x0d, unauthorized name`.
impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {:#04x}, {}", self.0, self.words())
    }
}
