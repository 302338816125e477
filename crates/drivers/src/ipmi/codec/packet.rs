//! Datagrams: the RMCP header (§13.1.3), and the session header of IPMI 1.5 or 2.0 behind it (§13.6).
//!
//! The header of 1.5 carries only messages outside of any session here: no session of 1.5 is ever opened, because it encrypts
//! nothing.

use super::{Malformed, Reader};

/// Largest datagram in bytes that is sent or understood; the longest that we ever wait for has about 150.
pub const DATAGRAM_BYTES_MAX: usize = 1024;
/// RMCP version 1.0, no acknowledgement wanted, class IPMI.
const RMCP: [u8; 4] = [0x06, 0x00, 0xff, 0x07];
/// No authentication: the header of IPMI 1.5.
const AUTHENTICATION_NONE: u8 = 0x00;
/// The header of IPMI 2.0, RMCP+.
const AUTHENTICATION_RMCP_PLUS: u8 = 0x06;
/// Bit of the payload type: the payload is encrypted.
const ENCRYPTED: u8 = 0x80;
/// Bit of the payload type: an authentication code follows.
const AUTHENTICATED: u8 = 0x40;
/// Ends what the authentication code covers.
const NEXT_HEADER: u8 = 0x07;
/// What the authentication code covers is filled up to a multiple of so many bytes.
const INTEGRITY_BLOCK: usize = 4;
/// Fills it.
const INTEGRITY_PAD: u8 = 0xff;
/// Length of the session header of RMCP+ in bytes.
const HEADER_BYTES: usize = 12;

/// What a payload is (table 13-16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadType {
    /// A message, encrypted and authenticated.
    Message,
    /// Open Session Request.
    OpenSession,
    /// Open Session Response.
    OpenSessionAnswer,
    /// RAKP message 1.
    Rakp1,
    /// RAKP message 2.
    Rakp2,
    /// RAKP message 3.
    Rakp3,
    /// RAKP message 4.
    Rakp4,
}

impl PayloadType {
    /// Its number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Message => 0x00,
            Self::OpenSession => 0x10,
            Self::OpenSessionAnswer => 0x11,
            Self::Rakp1 => 0x12,
            Self::Rakp2 => 0x13,
            Self::Rakp3 => 0x14,
            Self::Rakp4 => 0x15,
        }
    }

    fn read(number: u8) -> Option<Self> {
        let all = [
            Self::Message,
            Self::OpenSession,
            Self::OpenSessionAnswer,
            Self::Rakp1,
            Self::Rakp2,
            Self::Rakp3,
            Self::Rakp4,
        ];
        all.into_iter().find(|one| one.number() == number)
    }
}

/// A datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A message outside of any session.
    Plain(&'a [u8]),
    /// A payload that sets a session up, neither encrypted nor authenticated.
    Setup(PayloadType, &'a [u8]),
    /// A message inside of a session, to be authenticated before it is looked at.
    Sealed(Sealed<'a>),
}

/// An encrypted payload and the authentication code over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed<'a> {
    /// The session, by the number that the receiver has chosen for it.
    pub session_id: u32,
    /// Number of the datagram in its session, from 1.
    pub sequence: u32,
    /// The session header and everything behind it.
    bytes: &'a [u8],
    /// Length of the payload.
    payload_bytes: usize,
}

impl<'a> Sealed<'a> {
    /// What is authenticated, and its authentication code of so many bytes.
    ///
    /// # Errors
    /// There is no room for the code.
    pub fn signed(&self, code_bytes: usize) -> Result<(&'a [u8], &'a [u8]), Malformed> {
        let signed_bytes = self.bytes.len().checked_sub(code_bytes);
        signed_bytes
            .and_then(|at| self.bytes.split_at_checked(at))
            .ok_or(Malformed("it has no authentication code"))
    }

    /// The encrypted payload, once `signed` has been found authentic.
    ///
    /// # Errors
    /// Lengths do not fit together.
    pub fn payload(&self, signed: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let mut reader = Reader(signed);
        reader.take(HEADER_BYTES)?;
        let payload = reader.take(self.payload_bytes)?;
        // The code covers the fill bytes too, so whatever stands there proves nothing more.
        Ok(payload)
    }
}

/// Takes a datagram apart.
///
/// # Errors
/// It is not one of IPMI, or of a kind that is never asked for.
pub fn decode(datagram: &[u8]) -> Result<Packet<'_>, Malformed> {
    if datagram.len() > DATAGRAM_BYTES_MAX {
        return Err(Malformed("it is too long"));
    }
    let mut reader = Reader(datagram);
    let [version, _, _, class] = reader.array()?;
    let [known_version, _, _, known_class] = RMCP;
    if (version, class) != (known_version, known_class) {
        return Err(Malformed("it is not RMCP with an IPMI message"));
    }
    let bytes = reader.0;
    match reader.byte()? {
        AUTHENTICATION_NONE => decode_plain(reader),
        AUTHENTICATION_RMCP_PLUS => decode_plus(bytes, reader),
        _ => Err(Malformed("it belongs to a session of IPMI 1.5")),
    }
}

fn decode_plain(mut reader: Reader<'_>) -> Result<Packet<'_>, Malformed> {
    // Outside of a session nothing is numbered: what stands there, and bytes behind the message, prove nothing.
    let (_sequence, session_id) = (reader.u32()?, reader.u32()?);
    if session_id != 0 {
        return Err(Malformed("it belongs to a session of IPMI 1.5"));
    }
    let length = usize::from(reader.byte()?);
    Ok(Packet::Plain(reader.take(length)?))
}

fn decode_plus<'a>(bytes: &'a [u8], mut reader: Reader<'a>) -> Result<Packet<'a>, Malformed> {
    let kind = reader.byte()?;
    let (session_id, sequence) = (reader.u32()?, reader.u32()?);
    let payload_bytes = usize::from(reader.u16()?);
    let payload = reader.take(payload_bytes)?;
    let payload_type = PayloadType::read(kind & !(ENCRYPTED | AUTHENTICATED))
        .ok_or(Malformed("its payload is of a kind that is not used"))?;
    match (
        payload_type,
        kind & ENCRYPTED != 0,
        kind & AUTHENTICATED != 0,
    ) {
        (PayloadType::Message, true, true) => Ok(Packet::Sealed(Sealed {
            session_id,
            sequence,
            bytes,
            payload_bytes,
        })),
        // How some answer a message outside of a session that was sent with the header of 1.5.
        (PayloadType::Message, false, false) if session_id == 0 => Ok(Packet::Plain(payload)),
        (PayloadType::Message, ..) => Err(Malformed(
            "its message is not both encrypted and authenticated",
        )),
        (_, false, false) if session_id == 0 => Ok(Packet::Setup(payload_type, payload)),
        _ => Err(Malformed("it sets a session up inside of a session")),
    }
}

/// A message outside of any session. `None` if it is longer than 255 bytes.
#[must_use]
pub fn encode_plain(message: &[u8]) -> Option<Vec<u8>> {
    let length = u8::try_from(message.len()).ok()?;
    let mut datagram = RMCP.to_vec();
    datagram.extend([AUTHENTICATION_NONE, 0, 0, 0, 0, 0, 0, 0, 0, length]);
    datagram.extend(message);
    Some(datagram)
}

/// A payload that sets a session up. `None` if it is longer than a datagram may be.
#[must_use]
pub fn encode_setup(payload_type: PayloadType, payload: &[u8]) -> Option<Vec<u8>> {
    encode_plus(payload_type.number(), 0, 0, payload)
}

/// A message inside of a session: `encrypted`, and the authentication code that `sign` makes of what it is given. `None` if it is
/// longer than a datagram may be.
#[must_use]
pub fn encode_sealed(
    session_id: u32,
    sequence: u32,
    encrypted: &[u8],
    sign: impl FnOnce(&[u8]) -> Vec<u8>,
) -> Option<Vec<u8>> {
    let kind = PayloadType::Message.number() | ENCRYPTED | AUTHENTICATED;
    let mut datagram = encode_plus(kind, session_id, sequence, encrypted)?;
    let unfilled = datagram.len().checked_sub(RMCP.len())?.checked_add(2)?;
    let pad_bytes = unfilled
        .next_multiple_of(INTEGRITY_BLOCK)
        .checked_sub(unfilled)?;
    datagram.extend(std::iter::repeat_n(INTEGRITY_PAD, pad_bytes));
    datagram.extend([u8::try_from(pad_bytes).ok()?, NEXT_HEADER]);
    let code = sign(datagram.get(RMCP.len()..)?);
    datagram.extend(code);
    (datagram.len() <= DATAGRAM_BYTES_MAX).then_some(datagram)
}

fn encode_plus(kind: u8, session_id: u32, sequence: u32, payload: &[u8]) -> Option<Vec<u8>> {
    let mut datagram = RMCP.to_vec();
    datagram.extend([AUTHENTICATION_RMCP_PLUS, kind]);
    datagram.extend(session_id.to_le_bytes());
    datagram.extend(sequence.to_le_bytes());
    datagram.extend(u16::try_from(payload.len()).ok()?.to_le_bytes());
    datagram.extend(payload);
    (datagram.len() <= DATAGRAM_BYTES_MAX).then_some(datagram)
}
