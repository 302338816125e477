//! The messages of SNMP: the protocol data units of RFC 3416, in the envelopes of version 2c (RFC 1901) and 3 (RFC 3412).

use super::ber::{self, Malformed, Reader};
use super::oid::Oid;

/// Most bindings of an answer that are read; never so many are asked for.
const BINDINGS_MAX: usize = 64;
/// Longest engine ID in octets (RFC 3411, `SnmpEngineID`).
pub const ENGINE_ID_OCTETS_MAX: usize = 32;

/// What a protocol data unit is for. Its tag (RFC 3416, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Asks for values.
    Get,
    /// The answer.
    Response,
    /// Sets values.
    Set,
    /// What an engine says of itself, mostly that it cannot take a message.
    Report,
}

impl Kind {
    const ALL: [(Self, u8); 4] = [
        (Self::Get, 0xa0),
        (Self::Response, 0xa2),
        (Self::Set, 0xa3),
        (Self::Report, 0xa8),
    ];

    fn tag(self) -> u8 {
        let own = Self::ALL.iter().find(|(kind, _)| *kind == self);
        own.map_or(0, |(_, tag)| *tag)
    }
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// None: what stands in a question.
    Null,
    /// INTEGER.
    Integer(i32),
    /// OCTET STRING.
    Octets(Vec<u8>),
    /// OBJECT IDENTIFIER.
    Oid(Oid),
    /// The agent does not know the object (RFC 3416, section 3).
    NoSuchObject,
    /// The agent knows the object, and not this one of it.
    NoSuchInstance,
    /// Any other type, by its tag: counters, addresses, times. No outlet's state is one.
    Other(u8),
}

/// An object and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The object.
    pub name: Oid,
    /// Its value.
    pub value: Value,
}

/// A protocol data unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// What it is for.
    pub kind: Kind,
    /// Pairs a question with its answer.
    pub request_id: i32,
    /// Zero for success (RFC 3416, section 3); see [`error_name`].
    pub error_status: i32,
    /// Which binding the error is about, from 1.
    pub error_index: i32,
    /// Objects and values.
    pub bindings: Vec<Binding>,
}

/// What the agent calls an error (RFC 3416, section 3).
pub fn error_name(status: i32) -> String {
    const NAMES: [&str; 19] = [
        "noError",
        "tooBig",
        "noSuchName",
        "badValue",
        "readOnly",
        "genErr",
        "noAccess",
        "wrongType",
        "wrongLength",
        "wrongEncoding",
        "wrongValue",
        "noCreation",
        "inconsistentValue",
        "resourceUnavailable",
        "commitFailed",
        "undoFailed",
        "authorizationError",
        "notWritable",
        "inconsistentName",
    ];
    let name = usize::try_from(status).ok().and_then(|at| NAMES.get(at));
    name.map_or_else(|| format!("error {status}"), |name| (*name).to_owned())
}

impl Value {
    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Null => ber::element(ber::NULL, &[]),
            Self::Integer(number) => ber::integer(*number),
            Self::Octets(octets) => ber::element(ber::OCTETS, octets),
            Self::Oid(oid) => oid.encode(),
            Self::NoSuchObject => ber::element(0x80, &[]),
            Self::NoSuchInstance => ber::element(0x81, &[]),
            Self::Other(tag) => ber::element(*tag, &[]),
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (tag, contents) = reader.element()?;
        Ok(match tag {
            ber::NULL => Self::Null,
            ber::INTEGER => Self::Integer(contents.as_integer()?),
            ber::OCTETS => Self::Octets(contents.bytes().to_vec()),
            ber::OBJECT_IDENTIFIER => Self::Oid(Oid::decode(&contents)?),
            0x80 => Self::NoSuchObject,
            0x81 => Self::NoSuchInstance,
            other => Self::Other(other),
        })
    }
}

impl Unit {
    /// A question or a command.
    pub fn request(kind: Kind, request_id: i32, bindings: Vec<Binding>) -> Self {
        Self {
            kind,
            request_id,
            error_status: 0,
            error_index: 0,
            bindings,
        }
    }

    /// The bytes of it.
    pub fn encode(&self) -> Vec<u8> {
        let bindings: Vec<Vec<u8>> = self
            .bindings
            .iter()
            .map(|Binding { name, value }| {
                ber::constructed(ber::SEQUENCE, &[&name.encode(), &value.encode()])
            })
            .collect();
        let bindings = ber::element(ber::SEQUENCE, &bindings.concat());
        ber::constructed(
            self.kind.tag(),
            &[
                &ber::integer(self.request_id),
                &ber::integer(self.error_status),
                &ber::integer(self.error_index),
                &bindings,
            ],
        )
    }

    /// Reads one.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (tag, mut fields) = reader.element()?;
        let kind = Kind::ALL.iter().find(|(_, own)| *own == tag);
        let (kind, _) = kind.ok_or(Malformed::Tag {
            expected: Kind::Response.tag(),
            found: tag,
        })?;
        let (request_id, error_status, error_index) =
            (fields.integer()?, fields.integer()?, fields.integer()?);
        let mut list = fields.expect(ber::SEQUENCE)?;
        fields.end()?;
        let mut bindings = Vec::new();
        while !list.is_empty() {
            if bindings.len() == BINDINGS_MAX {
                return Err(Malformed::TooMany);
            }
            let mut binding = list.expect(ber::SEQUENCE)?;
            let name = Oid::decode(&binding.expect(ber::OBJECT_IDENTIFIER)?)?;
            let value = Value::decode(&mut binding)?;
            binding.end()?;
            bindings.push(Binding { name, value });
        }
        Ok(Self {
            kind: *kind,
            request_id,
            error_status,
            error_index,
            bindings,
        })
    }
}

/// A message of version 2c.
pub fn encode_v2c(community: &[u8], unit: &Unit) -> Vec<u8> {
    ber::constructed(
        ber::SEQUENCE,
        &[
            &ber::integer(1),
            &ber::element(ber::OCTETS, community),
            &unit.encode(),
        ],
    )
}

/// Reads a message of version 2c: its community and what it carries.
pub fn decode_v2c(datagram: &[u8]) -> Result<(&[u8], Unit), Malformed> {
    let mut outer = Reader::new(datagram);
    let mut fields = outer.expect(ber::SEQUENCE)?;
    outer.end()?;
    if fields.integer()? != 1 {
        return Err(Malformed::Number);
    }
    let community = fields.octets()?;
    let unit = Unit::decode(&mut fields)?;
    fields.end()?;
    Ok((community, unit))
}

/// The envelope of a message of version 3, with the parameters of the user-based security model (RFC 3414, section 2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V3<'a> {
    /// Pairs a question with its answer or report.
    pub message_id: i32,
    /// Is it signed?
    pub authenticated: bool,
    /// Is it encrypted?
    pub private: bool,
    /// May a report answer it?
    pub reportable: bool,
    /// The engine that is the authority on time and keys: always the agent's.
    pub engine_id: &'a [u8],
    /// How often that engine has restarted.
    pub boots: i32,
    /// Seconds since it did.
    pub time_seconds: i32,
    /// Name of the user.
    pub user: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
    /// Where the signature stands in the datagram.
    pub signature_offset: usize,
    /// What the encryption needs beside the key.
    pub salt: &'a [u8],
    /// The scoped unit, encrypted if `private`.
    pub data: &'a [u8],
}

/// Largest datagram in bytes that is read, and that agents are told we take.
pub const DATAGRAM_BYTES_MAX: usize = 8 << 10;

impl<'a> V3<'a> {
    /// The bytes of it. `data` is the whole element in plain text, or the encrypted octets.
    pub fn encode(&self) -> Vec<u8> {
        let flag = |is: bool, bit: u8| if is { bit } else { 0 };
        let flags = flag(self.authenticated, 1) | flag(self.private, 2) | flag(self.reportable, 4);
        let header = ber::constructed(
            ber::SEQUENCE,
            &[
                &ber::integer(self.message_id),
                &ber::integer(i32::try_from(DATAGRAM_BYTES_MAX).unwrap_or(i32::MAX)),
                &ber::element(ber::OCTETS, &[flags]),
                // The user-based security model.
                &ber::integer(3),
            ],
        );
        let security = ber::constructed(
            ber::SEQUENCE,
            &[
                &ber::element(ber::OCTETS, self.engine_id),
                &ber::integer(self.boots),
                &ber::integer(self.time_seconds),
                &ber::element(ber::OCTETS, self.user),
                &ber::element(ber::OCTETS, self.signature),
                &ber::element(ber::OCTETS, self.salt),
            ],
        );
        let security = ber::element(ber::OCTETS, &security);
        let data = if self.private {
            ber::element(ber::OCTETS, self.data)
        } else {
            self.data.to_vec()
        };
        ber::constructed(
            ber::SEQUENCE,
            &[&ber::integer(3), &header, &security, &data],
        )
    }

    /// Reads one. Nothing in it is true before its signature has been checked.
    pub fn decode(datagram: &'a [u8]) -> Result<Self, Malformed> {
        let mut outer = Reader::new(datagram);
        let mut fields = outer.expect(ber::SEQUENCE)?;
        outer.end()?;
        if fields.integer()? != 3 {
            return Err(Malformed::Number);
        }
        let mut header = fields.expect(ber::SEQUENCE)?;
        let message_id = header.integer()?;
        let _largest = header.integer()?;
        let [flags] = header.octets()? else {
            return Err(Malformed::Length);
        };
        if header.integer()? != 3 {
            return Err(Malformed::Number);
        }
        header.end()?;
        let mut wrapped = fields.expect(ber::OCTETS)?;
        let mut security = wrapped.expect(ber::SEQUENCE)?;
        wrapped.end()?;
        let engine_id = security.octets()?;
        let (boots, time_seconds) = (security.integer()?, security.integer()?);
        let user = security.octets()?;
        let signed = security.expect(ber::OCTETS)?;
        let salt = security.octets()?;
        security.end()?;
        if engine_id.len() > ENGINE_ID_OCTETS_MAX || boots < 0 || time_seconds < 0 {
            return Err(Malformed::Number);
        }
        let private = flags & 2 != 0;
        let data = if private {
            fields.octets()?
        } else {
            let whole = fields.bytes();
            fields.expect(ber::SEQUENCE)?;
            whole
        };
        fields.end()?;
        Ok(Self {
            message_id,
            authenticated: flags & 1 != 0,
            private,
            reportable: flags & 4 != 0,
            engine_id,
            boots,
            time_seconds,
            user,
            signature: signed.bytes(),
            signature_offset: signed.offset(),
            salt,
            data,
        })
    }
}

/// A unit in the context of an engine (RFC 3412, section 6.8).
pub fn encode_scoped(engine_id: &[u8], unit: &Unit) -> Vec<u8> {
    ber::constructed(
        ber::SEQUENCE,
        &[
            &ber::element(ber::OCTETS, engine_id),
            // The default context.
            &ber::element(ber::OCTETS, &[]),
            &unit.encode(),
        ],
    )
}

/// Reads a unit in its context. What stands behind it is padding, which some ciphers leave.
pub fn decode_scoped(data: &[u8]) -> Result<Unit, Malformed> {
    let mut fields = Reader::new(data).expect(ber::SEQUENCE)?;
    let _engine = fields.octets()?;
    let _context = fields.octets()?;
    let unit = Unit::decode(&mut fields)?;
    fields.end()?;
    Ok(unit)
}

#[cfg(test)]
mod tests;
