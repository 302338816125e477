//! Datagrams: RMCP with ASF presence ping, IPMI 1.5 without a session, RMCP+ (IPMI 2.0, sections 13.1 to 13.14 and 13.29).

use anyhow::{Context, Result, bail, ensure};

use super::crypto::Keys;

/// RMCP version 1.0, no acknowledgement wanted; then the class follows.
const RMCP: [u8; 3] = [0x06, 0x00, 0xFF];
const CLASS_ASF: u8 = 0x06;
const CLASS_IPMI: u8 = 0x07;
/// The enterprise number of the ASF.
const ASF: [u8; 4] = 4542_u32.to_be_bytes();
const ASF_PING: u8 = 0x80;
const ASF_PONG: u8 = 0x40;
/// Authentication type of a packet outside of sessions; the IPMI 1.5 format.
const FORMAT_NONE: u8 = 0x00;
/// Authentication type that means the format of RMCP+.
const FORMAT_RMCP_PLUS: u8 = 0x06;
const ENCRYPTED: u8 = 0x80;
const AUTHENTICATED: u8 = 0x40;
/// The byte before the authentication code.
const NEXT_HEADER: u8 = 0x07;

/// Payload types of RMCP+.
pub(super) mod payload {
    pub(in super::super) const MESSAGE: u8 = 0x00;
    pub(in super::super) const OPEN_REQUEST: u8 = 0x10;
    pub(in super::super) const OPEN_RESPONSE: u8 = 0x11;
    pub(in super::super) const RAKP_1: u8 = 0x12;
    pub(in super::super) const RAKP_2: u8 = 0x13;
    pub(in super::super) const RAKP_3: u8 = 0x14;
    pub(in super::super) const RAKP_4: u8 = 0x15;
}

/// A datagram, as far as it can be read without a session.
#[derive(Debug)]
pub(super) enum Packet<'a> {
    /// ASF presence ping.
    Ping { tag: u8 },
    /// A message in the format of IPMI 1.5, outside of sessions.
    Old { payload: &'a [u8] },
    /// RMCP+.
    Plus(Plus<'a>),
}

/// A packet of RMCP+.
#[derive(Debug)]
pub(super) struct Plus<'a> {
    pub(super) payload_type: u8,
    pub(super) encrypted: bool,
    pub(super) authenticated: bool,
    pub(super) session: u32,
    pub(super) sequence: u32,
    pub(super) payload: &'a [u8],
    /// From the authentication type to the end of the datagram.
    whole: &'a [u8],
    /// Where the payload ends in it.
    payload_end: usize,
}

/// Takes bytes off the front.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).context("it is too short")?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.bytes(N)?.try_into()?)
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Multi-byte fields of IPMI have the least significant byte first.
    pub(super) fn number(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }
}

impl<'a> Packet<'a> {
    pub(super) fn parse(datagram: &'a [u8]) -> Result<Self> {
        let mut reader = Reader(datagram);
        let [version, _, _, class] = reader.array()?;
        ensure!(version == RMCP[0], "RMCP version {version:#04x}");
        match class {
            CLASS_ASF => {
                ensure!(reader.array()? == ASF, "an enterprise that is not the ASF");
                let [kind, tag] = reader.array()?;
                ensure!(kind == ASF_PING, "ASF message {kind:#04x}");
                Ok(Self::Ping { tag })
            }
            CLASS_IPMI => Self::parse_ipmi(reader.0),
            other => bail!("RMCP class {other:#04x}"),
        }
    }

    fn parse_ipmi(whole: &'a [u8]) -> Result<Self> {
        let mut reader = Reader(whole);
        match reader.byte()? {
            FORMAT_NONE => {
                let (sequence, session) = (reader.number()?, reader.number()?);
                ensure!(
                    (sequence, session) == (0, 0),
                    "IPMI 1.5 with session {session:#010x}: there are none"
                );
                let length = reader.byte()?;
                let payload = reader.bytes(length.into())?;
                Ok(Self::Old { payload })
            }
            FORMAT_RMCP_PLUS => {
                let kind = reader.byte()?;
                let (session, sequence) = (reader.number()?, reader.number()?);
                let length = u16::from_le_bytes(reader.array()?);
                let payload = reader.bytes(length.into())?;
                Ok(Self::Plus(Plus {
                    payload_type: kind & !(ENCRYPTED | AUTHENTICATED),
                    encrypted: kind & ENCRYPTED != 0,
                    authenticated: kind & AUTHENTICATED != 0,
                    session,
                    sequence,
                    payload,
                    whole,
                    payload_end: whole.len() - reader.0.len(),
                }))
            }
            other => bail!("authentication type {other:#04x} of IPMI 1.5"),
        }
    }
}

impl Plus<'_> {
    /// The payload in clear, if the packet is protected as the session's suite demands.
    pub(super) fn open(&self, keys: &Keys) -> Result<Vec<u8>> {
        if !keys.encrypts() {
            return Ok(self.payload.to_vec());
        }
        ensure!(self.encrypted && self.authenticated, "it is not protected");
        let code_bytes = keys.suite.integrity_bytes();
        let end = self.whole.len().checked_sub(code_bytes);
        let end = end.context("it is too short for its code")?;
        let (signed, code) = self
            .whole
            .split_at_checked(end)
            .context("it is too short")?;
        ensure!(keys.sign(signed) == code, "its code is wrong");

        let trailer = signed.get(self.payload_end..).unwrap_or_default();
        let Some((&[pad, next_header], padding)) =
            trailer.split_last_chunk::<2>().map(|(a, b)| (b, a))
        else {
            bail!("it has no trailer");
        };
        ensure!(next_header == NEXT_HEADER, "next header {next_header:#04x}");
        ensure!(
            padding.len() == usize::from(pad) && signed.len() % 4 == 0,
            "{} bytes of integrity padding",
            padding.len()
        );
        keys.decrypt(self.payload)
    }
}

/// Where a packet of a session goes, and in which ways it is to be wrong.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seal {
    pub(super) session: u32,
    pub(super) sequence: u32,
    /// Not encrypted, though the suite demands it.
    pub(super) in_clear: bool,
    /// Not authenticated, though the suite demands it.
    pub(super) unsigned: bool,
    /// With wrong bytes as confidentiality padding.
    pub(super) bad_padding: bool,
}

/// A packet of RMCP+ outside of sessions.
pub(super) fn plain(payload_type: u8, payload: &[u8]) -> Vec<u8> {
    let mut datagram = rmcp(CLASS_IPMI);
    datagram.extend(plus_header(payload_type, 0, 0, payload));
    datagram.extend(payload);
    datagram
}

/// A message in a session.
pub(super) fn seal(keys: &Keys, seal: Seal, message: &[u8]) -> Vec<u8> {
    let encrypts = keys.encrypts() && !seal.in_clear;
    let signs = keys.encrypts() && !seal.unsigned;
    let iv = uuid::Uuid::new_v4().into_bytes();
    let payload = match encrypts {
        true => keys.encrypt(iv, message, seal.bad_padding),
        false => message.to_vec(),
    };
    let flags = u8::from(encrypts) * ENCRYPTED + u8::from(signs) * AUTHENTICATED;
    let kind = flags | payload::MESSAGE;
    let mut signed = plus_header(kind, seal.session, seal.sequence, &payload);
    signed.extend(payload);
    if signs {
        let mut pad = 0;
        while !(signed.len() + 2).is_multiple_of(4) {
            signed.push(0xFF);
            pad += 1;
        }
        signed.extend([pad, NEXT_HEADER]);
        let code = keys.sign(&signed);
        signed.extend(code);
    }
    let mut datagram = rmcp(CLASS_IPMI);
    datagram.extend(signed);
    datagram
}

/// A message in the format of IPMI 1.5, outside of sessions.
pub(super) fn old(message: &[u8]) -> Vec<u8> {
    let mut datagram = rmcp(CLASS_IPMI);
    datagram.extend([FORMAT_NONE, 0, 0, 0, 0, 0, 0, 0, 0]);
    datagram.push(u8::try_from(message.len()).expect("messages outside of sessions are short"));
    datagram.extend(message);
    datagram
}

/// The answer to a presence ping: IPMI is spoken here.
pub(super) fn pong(tag: u8) -> Vec<u8> {
    const IPMI_AND_ASF_1_0: u8 = 0x81;
    let mut datagram = rmcp(CLASS_ASF);
    datagram.extend(ASF);
    datagram.extend([ASF_PONG, tag, 0, 16]);
    datagram.extend(ASF);
    datagram.extend([0, 0, 0, 0, IPMI_AND_ASF_1_0, 0, 0, 0, 0, 0, 0, 0]);
    datagram
}

fn rmcp(class: u8) -> Vec<u8> {
    let mut header = RMCP.to_vec();
    header.push(class);
    header
}

fn plus_header(kind: u8, session: u32, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![FORMAT_RMCP_PLUS, kind];
    header.extend(session.to_le_bytes());
    header.extend(sequence.to_le_bytes());
    let length = u16::try_from(payload.len()).expect("payloads are short");
    header.extend(length.to_le_bytes());
    header
}
