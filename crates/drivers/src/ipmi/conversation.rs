//! A conversation with a BMC: one call at a time, each within its own time.
//!
//! Round trips: 4 for the first reading (Open Session, RAKP 1 and 3, Get Chassis Status), 1 for each further one; 5 until a power-off is
//! taken (the same three, Set Session Privilege Level, Chassis Control), and a reading more for a power-on. A reading of off takes one more, Get ACPI
//! Power State, until a BMC has shown that it does not have it. A session begins with the privilege User, which is enough to
//! read.

mod control;
mod probe;

use super::codec::Malformed;
use super::codec::command::{self, ChassisStatus, Completion};
use super::codec::lan::Request;
use super::codec::rakp::Privilege;
use super::link::{Link, LinkError};
use super::session::{Done, Standing};
use super::{Ipmi, words};
use crate::error::UPDATE_FIRMWARE;
use crate::limit::Limit;
use crate::resolve::unreachable;
use crate::{
    Command, DeviceError, Extent, FenceSession, OffOutcome, OnOutcome, Probe, clock_within,
};
use fencing_core::reading::{Identity, PowerState, Reading};
use futures::future::{BoxFuture, FutureExt};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;

/// Time that a BMC has at least before a reading is asked for again.
const READ_PATIENCE: Duration = Duration::ZERO;
/// The same for what changes something: some BMCs answer only when the power has gone.
const COMMAND_PATIENCE: Duration = Duration::from_secs(1);

/// Time that a BMC has for Get ACPI Power State, which is optional: one that is silent to it does not have it.
const ACPI_TIME_MAX: Duration = Duration::from_secs(2);

/// A conversation with the BMC.
#[derive(Debug)]
pub struct Conversation {
    driver: Ipmi,
    link: Option<Link>,
    /// Where the first link has led: a name is resolved once in the life of a conversation.
    address: Option<SocketAddr>,
    /// The command that the session has the privilege for.
    prepared: Option<Command>,
    /// The BMC has shown that it does not tell the ACPI power state.
    lacks_acpi: bool,
}

impl FenceSession for Conversation {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>> {
        let limit = self.limit(self.driver.call_timeout);
        limit
            .on(async move { self.link().await.map(|_| ()) })
            .boxed()
    }

    fn observe(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        async move {
            let limit = self.limit(self.driver.call_timeout);
            let outcome = limit.on(self.read()).await;
            self.conclude(outcome).map(|(reading, _)| reading)
        }
        .boxed()
    }

    fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>> {
        async move {
            let limit = self.limit(self.driver.call_timeout);
            let outcome = limit.on(self.prepare()).await;
            let identity = self.conclude(outcome)?;
            self.prepared = Some(Command::Off);
            Ok(identity)
        }
        .boxed()
    }

    /// It reads no power before an off.
    fn seen(&self) -> Option<Reading> {
        None
    }

    fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>> {
        self.switch(Command::Off).boxed()
    }

    fn prepare_on(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        async move {
            let limit = self.limit(self.driver.call_timeout);
            let outcome = limit
                .on(async {
                    self.prepare().await?;
                    self.read().await
                })
                .await;
            let (reading, _) = self.conclude(outcome)?;
            self.prepared = Some(Command::On);
            Ok(reading)
        }
        .boxed()
    }

    fn power_on(&mut self) -> BoxFuture<'_, Result<OnOutcome, DeviceError>> {
        async move { Ok(self.switch(Command::On).await?.into()) }.boxed()
    }

    fn probe(&mut self, extent: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>> {
        async move {
            let (limit, clock) = (self.driver.call_timeout, self.driver.clock);
            let begun = clock.since_boot();
            let outcome = self.limit(limit).on(self.look()).await;
            let mut probe = self.conclude(outcome)?;
            if extent == Extent::Whole {
                let gone = clock.since_boot().saturating_sub(begun);
                probe.clock = clock_within(limit, gone, self.sel_time()).await;
            }
            Ok(probe)
        }
        .boxed()
    }
}

impl Conversation {
    /// A conversation without a socket.
    pub fn new(driver: Ipmi) -> Self {
        Self {
            driver,
            link: None,
            address: None,
            prepared: None,
            lacks_acpi: false,
        }
    }

    async fn link(&mut self) -> Result<&mut Link, DeviceError> {
        let link = match self.link.take() {
            Some(link) => link,
            None => {
                let (link, address) = Link::open(&self.driver, self.address).await?;
                self.address = Some(address);
                link
            }
        };
        Ok(self.link.insert(link))
    }

    /// A session that is open, with this privilege at least, and who answers in it.
    async fn log_in(&mut self, privilege: Privilege) -> Result<Identity, DeviceError> {
        let link = self.link().await?;
        let peer = link.session().and_then(|session| session.peer());
        match peer {
            Some((guid, granted)) if granted >= privilege => return Ok(identity(guid)),
            // Closed before the next one is opened, because there may be no room for both. The next one gets a socket of its own:
            // some BMCs tell sessions apart by the client's port.
            Some(_) => {
                let closed = link.run(|session, now| session.close(now)).await;
                closed.map_err(|error| self.link_error(error))?;
                self.link = None;
            }
            None => {}
        }
        let link = self.link().await?;
        let opened = link
            .run(|session, now| session.log_in(privilege, now))
            .await;
        let peer = link.session().and_then(|session| session.peer());
        match opened {
            Ok(_) => Ok(peer.map(|(guid, _)| identity(guid)).unwrap_or_default()),
            Err(error) => Err(self.link_error(error)),
        }
    }

    /// A command in the session, and what became of it.
    async fn command(
        &mut self,
        request: Request,
        patience: Duration,
    ) -> Result<(Completion, Vec<u8>), DeviceError> {
        let link = self.link().await?;
        let done = link
            .run(|session, now| session.command(request, patience, now))
            .await;
        self.answered(done)
    }

    fn answered(
        &self,
        done: Result<Done, LinkError>,
    ) -> Result<(Completion, Vec<u8>), DeviceError> {
        match done {
            Ok(Done::Answered(completion, data)) => Ok((completion, data)),
            Ok(Done::LoggedIn | Done::Closed) => {
                Err(self.protocol("it answered something else".to_owned()))
            }
            Err(error) => Err(self.link_error(error)),
        }
    }

    async fn read(&mut self) -> Result<(Reading, ChassisStatus), DeviceError> {
        const REQUEST: &str = "Get Chassis Status";
        let identity = self.log_in(Privilege::User).await?;
        let asked = self.driver.clock.since_boot();
        let (completion, data) = self
            .command(command::get_chassis_status(), READ_PATIENCE)
            .await?;
        let answered = self.driver.clock.since_boot();
        if completion != Completion::DONE {
            return Err(words::not_done(self.endpoint(), REQUEST, completion));
        }
        let status = ChassisStatus::decode(&data).map_err(|error| self.malformed(error))?;
        let mut faults = status.faults();
        if status.is_on() {
            self.driver.past.note_doubt(None);
        } else {
            faults.extend(self.sleeping_state().await);
        }
        let reading = Reading {
            state: if status.is_on() {
                PowerState::On
            } else {
                PowerState::Off
            },
            raw: format!(
                "chassis status {:#04x}, power {}",
                status.0,
                if status.is_on() { "on" } else { "off" }
            ),
            identity,
            faults: faults.into_iter().map(str::to_owned).collect(),
            off_parts: Vec::new(),
            asked,
            answered,
            wall: self.driver.clock.wall(),
        };
        Ok((reading, status))
    }

    /// Beside an off: does the machine sleep? It would go on where it was (S4). A BMC that never says leaves its off as it is; one that fails to
    /// repeat what it said does not take it back.
    async fn sleeping_state(&mut self) -> Option<&'static str> {
        if !self.lacks_acpi {
            let time = ACPI_TIME_MAX.min(self.driver.call_timeout / 2);
            let asked = self.command(command::get_acpi_power_state(), READ_PATIENCE);
            match timeout(time, asked).await {
                Ok(Ok((Completion::DONE, data))) => {
                    if let Some(sleeps) = command::sleeping_state(&data) {
                        self.driver.past.note_doubt(sleeps);
                    }
                }
                _ => self.lacks_acpi = true,
            }
        }
        self.driver.past.doubt()
    }

    async fn prepare(&mut self) -> Result<Identity, DeviceError> {
        self.prepared = None;
        let privilege = self.driver.privilege;
        let identity = self.log_in(privilege).await?;
        self.raise(privilege).await?;
        Ok(identity)
    }

    /// Sends the command that was prepared.
    async fn switch(&mut self, command: Command) -> Result<OffOutcome, DeviceError> {
        if self.prepared.take() != Some(command) {
            let error = self.refused("nothing was prepared in this session".to_owned());
            return self.conclude(Err(error));
        }
        let limit = self.limit(self.driver.command_timeout);
        let outcome = limit.on(self.control(command)).await;
        let session = self.link.as_ref().and_then(Link::session);
        let is_open_question = session.is_some_and(|session| session.may_be_delivered());
        match self.conclude(outcome) {
            Err(error) if is_open_question => Ok(OffOutcome::Unknown(error.of_command(command))),
            Ok(OffOutcome::AlreadyOff { said }) if is_open_question => {
                let problem = format!(
                    "the {} was sent more than once, and one of them ended with {said}",
                    command.word()
                );
                Ok(OffOutcome::Unknown(self.protocol(problem)))
            }
            Ok(OffOutcome::AlreadyOff { said }) => self.already(command, said).await,
            outcome => outcome,
        }
    }

    /// Says more of a call whose time is up, and after any error leaves the session: what comes next begins a new one.
    fn conclude<T>(&mut self, outcome: Result<T, DeviceError>) -> Result<T, DeviceError> {
        let error = match outcome {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        self.prepared = None;
        let session = self.link.as_ref().and_then(Link::session);
        let standing = session.map_or(Standing::Unsent, |session| session.standing());
        self.link = None;
        Err(match error {
            DeviceError::Timeout { endpoint, waited } => {
                words::late(endpoint, self.driver.suite, waited, standing)
            }
            error => error,
        })
    }

    fn link_error(&self, error: LinkError) -> DeviceError {
        match error {
            LinkError::Network(error) => unreachable(&self.driver.address, error.to_string()),
            LinkError::Session(failure) => {
                words::failure(self.endpoint(), self.driver.suite, failure)
            }
        }
    }

    fn malformed(&self, error: Malformed) -> DeviceError {
        self.protocol(error.to_string())
    }

    fn protocol(&self, problem: String) -> DeviceError {
        DeviceError::Protocol {
            endpoint: self.endpoint(),
            problem,
            way_out: UPDATE_FIRMWARE,
        }
    }

    fn refused(&self, problem: String) -> DeviceError {
        DeviceError::Refused {
            endpoint: self.endpoint(),
            problem,
        }
    }

    fn limit(&self, time: Duration) -> Limit {
        Limit {
            endpoint: self.endpoint(),
            time,
        }
    }

    fn endpoint(&self) -> String {
        self.driver.address.to_string()
    }
}

/// The BMC's GUID as a UUID, byte by byte as it arrived: in which order is for [`Identity::is_system`] to see. A BMC without one
/// sends zeros (§22.14).
fn identity(guid: [u8; 16]) -> Identity {
    let digits = format!("{:032x}", u128::from_be_bytes(guid));
    let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| digits.get(range));
    let text = groups.into_iter().flatten().collect::<Vec<_>>().join("-");
    Identity {
        system_uuid: (guid != [0; 16]).then_some(text),
        serial_number: None,
    }
}
