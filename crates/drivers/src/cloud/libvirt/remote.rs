//! libvirt's remote protocol as bytes: the head of a packet, a call, its reply, and the few procedures that a fence needs.
//!
//! By libvirt's `virnetprotocol.x` and `remote_protocol.x`. Numbers and layouts there never change, since old clients talk to new daemons. Pure, and
//! total over any bytes.

use super::xdr::{Reader, Writer};

/// The program whose procedures these are, and its version.
const PROGRAM: u32 = 0x2000_8086;
const VERSION: u32 = 1;
/// Bytes of a length and a head.
const HEAD_BYTES: u32 = 28;
/// Types of a packet, and the status of a reply.
const CALL: i32 = 0;
const REPLY: i32 = 1;
const MESSAGE: i32 = 2;
const OK: i32 = 0;
const ERROR: i32 = 1;

/// Number and name of a procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Procedure(pub i32, pub &'static str);

/// Begins with a hypervisor.
pub const OPEN: Procedure = Procedure(1, "CONNECT_OPEN");
/// Begins a domain, from its managed save image if it has one.
pub const CREATE: Procedure = Procedure(9, "DOMAIN_CREATE");
/// Ends a domain at once.
pub const DESTROY: Procedure = Procedure(12, "DOMAIN_DESTROY");
/// Is it begun with its host?
pub const AUTOSTART: Procedure = Procedure(15, "DOMAIN_GET_AUTOSTART");
/// The domain with a UUID.
pub const LOOKUP: Procedure = Procedure(24, "DOMAIN_LOOKUP_BY_UUID");
/// The name of the host.
pub const HOSTNAME: Procedure = Procedure(59, "CONNECT_GET_HOSTNAME");
/// How a client shows who it is.
pub const AUTH_LIST: Procedure = Procedure(66, "AUTH_LIST");
/// Does it stay when it ends?
pub const PERSISTENT: Procedure = Procedure(151, "DOMAIN_IS_PERSISTENT");
/// Is its memory kept in a file?
pub const SAVED: Procedure = Procedure(183, "DOMAIN_HAS_MANAGED_SAVE_IMAGE");
/// Its state, and the reason.
pub const STATE: Procedure = Procedure(212, "DOMAIN_GET_STATE");
/// All domains.
pub const LIST: Procedure = Procedure(273, "CONNECT_LIST_ALL_DOMAINS");

/// A domain, as calls and replies name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// Its name, for people.
    pub name: String,
    /// Its UUID, by which it is found.
    pub uuid: [u8; 16],
}

impl Domain {
    fn read(reader: &mut Reader<'_>) -> Result<Self, String> {
        let (name, uuid) = (reader.text()?, reader.bytes()?);
        // The number of a running one.
        reader.int()?;
        Ok(Self { name, uuid })
    }

    /// As the argument of a call, with nothing behind it.
    #[must_use]
    pub fn argument(&self) -> Writer {
        // Without the number of a running one: none is found by it.
        Writer::default().text(&self.name).bytes(&self.uuid).int(-1)
    }
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The number of the error (`virErrorNumber`).
    pub code: i32,
    /// Its words, in whatever language the daemon speaks: nothing is decided by them.
    pub message: String,
}

impl Refusal {
    fn read(reader: &mut Reader<'_>) -> Result<Self, String> {
        let code = reader.int()?;
        // The part of libvirt that it comes from.
        reader.int()?;
        let message = reader.optional(Reader::text)?;
        // Its level, what it is about, and details of it, which nobody reads.
        reader.int()?;
        reader.optional(Domain::read)?;
        for _ in 0..3 {
            reader.optional(Reader::text)?;
        }
        reader.int()?;
        reader.int()?;
        reader.optional(|reader| Ok((reader.text()?, reader.bytes::<16>()?)))?;
        let message = message.unwrap_or_default();
        Ok(Self { code, message })
    }
}

/// A call as it is sent.
#[must_use]
pub fn call(procedure: Procedure, serial: u32, arguments: Writer) -> Vec<u8> {
    let arguments = arguments.done();
    let length = u32::try_from(arguments.len()).unwrap_or(u32::MAX);
    Writer::default()
        .unsigned(length.saturating_add(HEAD_BYTES))
        .unsigned(PROGRAM)
        .unsigned(VERSION)
        .int(procedure.0)
        .int(CALL)
        .unsigned(serial)
        .int(OK)
        .bytes(&arguments)
        .done()
}

/// What this packet, without its length, says to the call of this procedure with this number; none: it is an event, and no reply.
///
/// # Errors
/// It is no packet, or a reply to another call.
pub fn reply<T>(
    packet: &[u8],
    procedure: Procedure,
    serial: u32,
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, String>,
) -> Result<Option<Result<T, Refusal>>, String> {
    let mut reader = Reader::new(packet);
    let program = (reader.unsigned()?, reader.unsigned()?);
    let (number, kind) = (reader.int()?, reader.int()?);
    let (replied, status) = (reader.unsigned()?, reader.int()?);
    if kind == MESSAGE {
        return Ok(None);
    }
    let is_ours = program == (PROGRAM, VERSION) && number == procedure.0;
    let said = match (kind, status) {
        (REPLY, OK) if is_ours && replied == serial => Ok(read(&mut reader)?),
        (REPLY, ERROR) if is_ours && replied == serial => Err(Refusal::read(&mut reader)?),
        _ => return Err(format!("it is no reply to {}", procedure.1)),
    };
    reader.end()?;
    Ok(Some(said))
}

/// A number that says yes or no.
///
/// # Errors
/// It is none.
pub fn flag(reader: &mut Reader<'_>) -> Result<bool, String> {
    reader.flag()
}

/// A text.
///
/// # Errors
/// It is none.
pub fn text(reader: &mut Reader<'_>) -> Result<String, String> {
    reader.text()
}

/// `remote_auth_list_ret`.
///
/// # Errors
/// It is none.
pub fn auth_types(reader: &mut Reader<'_>) -> Result<Vec<i32>, String> {
    reader.list(Reader::int)
}

/// Of procedures that return nothing.
///
/// # Errors
/// None.
pub fn nothing(_: &mut Reader<'_>) -> Result<(), String> {
    Ok(())
}

/// Those that return one domain.
///
/// # Errors
/// It is none.
pub fn domain(reader: &mut Reader<'_>) -> Result<Domain, String> {
    Domain::read(reader)
}

/// `remote_connect_list_all_domains_ret`.
///
/// # Errors
/// It is none.
pub fn domains(reader: &mut Reader<'_>) -> Result<Vec<Domain>, String> {
    let domains = reader.list(Domain::read)?;
    match reader.unsigned()? {
        count if usize::try_from(count) == Ok(domains.len()) => Ok(domains),
        count => Err(format!("a list of {}, which has {count}", domains.len())),
    }
}

/// `remote_domain_get_state_ret`: state and reason.
///
/// # Errors
/// It is none.
pub fn state(reader: &mut Reader<'_>) -> Result<(i32, i32), String> {
    Ok((reader.int()?, reader.int()?))
}
