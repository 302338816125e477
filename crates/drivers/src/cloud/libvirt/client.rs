//! Calls to a daemon of libvirt, on one connection: who we are, which hypervisor, and what its errors mean.

use super::super::Sent;
use super::super::errors::{Failed, Row};
use super::super::io::Io;
use super::super::packets::Purpose;
use super::facts::{ASKED, COMMANDED};
use super::remote::{self, Domain, Procedure, Refusal};
use super::xdr::{Reader, Writer};
use crate::DeviceError;

/// What a daemon says first to a client whose certificate it accepts.
const WELCOME: u8 = 1;
/// `REMOTE_AUTH_NONE`: the certificate is enough.
const NO_LOGIN: i32 = 0;

/// How what a procedure returns is read.
type Read<T> = fn(&mut Reader<'_>) -> Result<T, String>;

/// A hypervisor, as the daemon on its host names it: `qemu:///system`.
#[derive(Debug, Clone)]
pub struct Libvirt {
    pub(super) name: String,
}

impl Libvirt {
    /// Asks what only reads.
    pub(super) async fn ask<T>(
        &self,
        io: &mut Io,
        procedure: Procedure,
        arguments: Writer,
        read: Read<T>,
    ) -> Result<T, DeviceError> {
        let said = self.call(io, procedure, arguments, read).await?;
        said.map_err(|refusal| meant(io, procedure, refusal, &ASKED))
    }

    /// The same, where an error may be an answer.
    pub(super) async fn call<T>(
        &self,
        io: &mut Io,
        procedure: Procedure,
        arguments: Writer,
        read: Read<T>,
    ) -> Result<Result<T, Refusal>, DeviceError> {
        self.greet(io).await?;
        send(io, Purpose::Question, procedure, arguments, read).await
    }

    /// All that comes before the first question on a connection.
    async fn greet(&self, io: &mut Io) -> Result<(), DeviceError> {
        if !io.packets()?.wants_greeting().await? {
            return Ok(());
        }
        let endpoint = io.main().to_string();
        let said = io.packets()?.greeting().await?;
        if said != WELCOME {
            return Err(DeviceError::AuthFailed {
                endpoint,
                said: format!("byte {said} to the certificate"),
            });
        }
        let none = Writer::default();
        let types = first(io, remote::AUTH_LIST, none, remote::auth_types).await?;
        if !types.contains(&NO_LOGIN) {
            return Err(DeviceError::NoSecureLogin {
                endpoint,
                problem: "it asks for SASL beside the certificate; set `auth_tls = \"none\"` in its configuration"
                    .to_owned(),
            });
        }
        let hypervisor = Writer::default().unsigned(1).text(&self.name).unsigned(0);
        first(io, remote::OPEN, hypervisor, remote::nothing).await?;
        io.packets()?.greeted();
        Ok(())
    }
}

/// Asks before a connection is ready.
async fn first<T>(
    io: &mut Io,
    procedure: Procedure,
    arguments: Writer,
    read: Read<T>,
) -> Result<T, DeviceError> {
    let said = send(io, Purpose::Question, procedure, arguments, read).await?;
    said.map_err(|refusal| meant(io, procedure, refusal, &ASKED))
}

/// Asks right before a command, on the connection that is open.
pub(super) async fn check<T>(
    io: &mut Io,
    procedure: Procedure,
    arguments: Writer,
    read: Read<T>,
) -> Result<T, DeviceError> {
    let said = send(io, Purpose::Check, procedure, arguments, read).await?;
    said.map_err(|refusal| meant(io, procedure, refusal, &ASKED))
}

/// Sends one command about a domain.
pub(super) async fn switch(
    io: &mut Io,
    command: Procedure,
    domain: &Domain,
) -> Result<Sent, DeviceError> {
    let argument = domain.argument();
    match send(io, Purpose::Command, command, argument, remote::nothing).await? {
        Ok(()) => Ok(Sent::Done),
        Err(refusal) => failed(io, command, refusal).of_command(&COMMANDED),
    }
}

async fn send<T>(
    io: &mut Io,
    purpose: Purpose,
    procedure: Procedure,
    arguments: Writer,
    read: Read<T>,
) -> Result<Result<T, Refusal>, DeviceError> {
    let call = |serial| remote::call(procedure, serial, arguments);
    let reply = |packet: &[u8], serial| remote::reply(packet, procedure, serial, read);
    io.exchange(purpose, call, reply).await
}

/// What this table makes of an error.
pub(super) fn meant(io: &Io, procedure: Procedure, refusal: Refusal, table: &[Row]) -> DeviceError {
    failed(io, procedure, refusal).of_read(table)
}

fn failed(io: &Io, procedure: Procedure, refusal: Refusal) -> Failed {
    Failed {
        endpoint: io.main().to_string(),
        request: procedure.1.to_owned(),
        // There are some hundred numbers. What is none of them stands in no row.
        status: u16::try_from(refusal.code).map_or(0, |code| code.min(499)),
        code: String::new(),
        message: io.shown(&refusal.message),
        retry_after: None,
        right: "the permission to start and stop domains",
    }
}
