//! A conversation with a Redfish service: one call at a time, each within its own time.

mod account;
mod ask;
mod beside;
mod follow;

use super::parse::{self, Allowable, FORCE_OFF, Reset, System};
use super::said::said as said_in;
use super::status;
use super::{Redfish, SYSTEMS, SYSTEMS_LISTED_MAX, reset_type};
use crate::error::{UPDATE_FIRMWARE, printable};
use crate::http::{Client, Reply};
use crate::limit::Limit;
use crate::resolve::unreachable;
use crate::{
    Command, DeviceClock, DeviceError, Extent, FenceSession, OffOutcome, OnOutcome, Probe,
    clock_within,
};
use beside::Beside;
use bytes::Bytes;
use fencing_core::reading::{Identity, PowerState, Reading};
use futures::future::{BoxFuture, FutureExt};
use http::StatusCode;
use std::sync::Arc;
use std::time::Duration;

/// The way out where its collection of systems cannot be used: it is not asked for then.
const NAME_SYSTEM: &str = "set `redfish.systemID` to the system that is this node";

/// A conversation with the service.
#[derive(Debug)]
pub struct Session {
    driver: Redfish,
    http: Client,
    /// Path of the system, once known.
    system: Option<String>,
    /// Path that takes a command, and which, once it is known to take it.
    prepared: Option<(String, Command)>,
    /// What the preparation has read of the power.
    seen: Option<Reading>,
    /// Path of the Task that the command became.
    task: Option<String>,
    /// What was asked beside an Off.
    beside: Beside,
}

impl FenceSession for Session {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>> {
        let limit = self.limit(self.driver.call_timeout);
        async move {
            let outcome = limit.on(self.http.open()).await;
            self.concluded(outcome)
        }
        .boxed()
    }

    fn observe(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        let limit = self.limit(self.driver.call_timeout);
        async move {
            let outcome = limit.on(self.read()).await;
            self.concluded(outcome).map(|(reading, _)| reading)
        }
        .boxed()
    }

    fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>> {
        async move { Ok(self.prepare(Command::Off).await?.identity) }.boxed()
    }

    fn seen(&self) -> Option<Reading> {
        self.seen.clone()
    }

    fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>> {
        self.switch(Command::Off).boxed()
    }

    fn prepare_on(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        self.prepare(Command::On).boxed()
    }

    fn power_on(&mut self) -> BoxFuture<'_, Result<OnOutcome, DeviceError>> {
        async move { Ok(self.switch(Command::On).await?.into()) }.boxed()
    }

    fn probe(&mut self, extent: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>> {
        async move {
            let (limit, clock) = (self.driver.call_timeout, self.driver.clock);
            let begun = clock.since_boot();
            let outcome = self.limit(limit).on(self.look()).await;
            let (mut probe, manager) = self.concluded(outcome)?;
            let gone = || clock.since_boot().saturating_sub(begun);
            let denial = match extent {
                Extent::Whole => self.asked_denial(gone()).await,
                Extent::Listed | Extent::Needed => self.known_denial(),
            };
            probe.off_denied = probe.off_denied.or(denial);
            if extent == Extent::Whole {
                probe.clock = clock_within(limit, gone(), self.manager_time(manager)).await;
            }
            Ok(probe)
        }
        .boxed()
    }
}

impl Session {
    /// A session without a connection.
    pub fn new(driver: Redfish) -> Self {
        Self {
            http: Client::new(Arc::clone(&driver.target), driver.clock),
            system: driver.system.clone(),
            prepared: None,
            seen: None,
            task: None,
            beside: Beside::default(),
            driver,
        }
    }

    /// The system as it is now.
    async fn read(&mut self) -> Result<(Reading, System), DeviceError> {
        let path = self.locate().await?;
        let asked = self.driver.clock.since_boot();
        let document = self.get(&path).await?;
        let answered = self.driver.clock.since_boot();
        let system = parse::system(&document);
        let way_out = match &self.driver.system {
            Some(_) => "set `redfish.systemID` to a ComputerSystem of the device",
            None => UPDATE_FIRMWARE,
        };
        let system = system.map_err(|problem| self.protocol(problem, way_out))?;
        let system = system.with_texts(|text| self.shown(text));
        let faults = self.doubts(&system, asked).await;
        let reading = Reading {
            state: system.state,
            raw: system.raw.clone(),
            identity: system.identity.clone(),
            faults,
            off_parts: Vec::new(),
            asked,
            answered,
            wall: self.driver.clock.wall(),
        };
        Ok((reading, system))
    }

    /// All that comes before the command, and the system as it is.
    async fn prepare(&mut self, command: Command) -> Result<Reading, DeviceError> {
        self.prepared = None;
        self.seen = None;
        let limit = self.driver.call_timeout;
        let found = self.limit(limit).on(self.find(command)).await;
        let (reading, path) = self.concluded(found)?;
        // BMCs reset a second request on a connection, or close it after an answer, some only a moment later. Nothing is to be
        // opened between the look at the claim and the command (F12). With time of its own: who is slow and ready takes commands.
        let opened = self.limit(limit).on(self.http.open()).await;
        self.concluded(opened)?;
        self.prepared = Some((path, command));
        Ok(reading)
    }

    /// The system that a command would turn off or on, and the path that takes it.
    async fn find(&mut self, command: Command) -> Result<(Reading, String), DeviceError> {
        let (reading, system) = self.read().await?;
        // What it says counts, whatever it refuses.
        self.seen = Some(reading.clone());
        let path = self.reset_path(system.reset, reset_type(command)).await?;
        Ok((reading, path))
    }

    /// Sends the command that was prepared, and follows what it becomes.
    async fn switch(&mut self, command: Command) -> Result<OffOutcome, DeviceError> {
        let limit = self.limit(self.driver.command_timeout);
        let sent = self.driver.clock.since_boot();
        match limit.on(self.command(command)).await {
            Err(late @ DeviceError::Timeout { .. }) if self.http.sent() => {
                Ok(OffOutcome::Unknown(late.of_command(command)))
            }
            Err(DeviceError::Timeout { waited, .. }) => {
                let problem = format!(
                    "no connection for the {} within {waited:?}; it was not sent, and is tried again",
                    command.word()
                );
                Err(unreachable(&self.driver.target.address, problem))
            }
            Ok(OffOutcome::Accepted) => {
                let outcome = self.follow().await;
                if (command, &outcome) == (Command::Off, &OffOutcome::Accepted) {
                    self.driver.past.note_command(sent);
                }
                Ok(outcome)
            }
            outcome => outcome,
        }
    }

    async fn command(&mut self, command: Command) -> Result<OffOutcome, DeviceError> {
        let prepared = self.prepared.take();
        let (path, command) = prepared
            .filter(|(_, prepared)| *prepared == command)
            .ok_or_else(|| self.refused("nothing was prepared in this session".to_owned()))?;
        let body = Bytes::from(format!(r#"{{"ResetType":"{}"}}"#, reset_type(command)));
        match self.http.post(&path, body).await {
            Ok(reply) => {
                self.task = self.task_of(&reply);
                self.outcome(&path, &reply, command)
            }
            Err(error) if self.http.sent() => Ok(OffOutcome::Unknown(error)),
            Err(error) => Err(error),
        }
    }

    /// What the answer to the command says about the command.
    fn outcome(
        &self,
        path: &str,
        reply: &Reply,
        command: Command,
    ) -> Result<OffOutcome, DeviceError> {
        let said = || self.shown(&said_in(reply.body.as_deref().unwrap_or_default()));
        match reply.status {
            StatusCode::OK
            | StatusCode::CREATED
            | StatusCode::ACCEPTED
            | StatusCode::NO_CONTENT => Ok(OffOutcome::Accepted),
            // How devices say that the machine is off already, or on; some say the same of a malformed request, or while they are busy.
            status @ (StatusCode::BAD_REQUEST | StatusCode::CONFLICT) => {
                let said = format!("{}: {}", status.as_u16(), said());
                Ok(match self.read_otherwise(command) {
                    true => OffOutcome::Unknown(self.refused(said)),
                    false => OffOutcome::AlreadyOff { said },
                })
            }
            status @ StatusCode::NOT_IMPLEMENTED => {
                Err(self.refused(format!("{}: {}", status.as_u16(), said())))
            }
            status => match self.status_error("POST", path, reply) {
                // Whatever is no refusal, a failure inside the device too, may have come after the power was cut.
                error if !status::is_refusal(status) => Ok(OffOutcome::Unknown(error)),
                DeviceError::Protocol { .. } => {
                    Err(self.refused(format!("{}: {}", status.as_u16(), said())))
                }
                error => Err(error),
            },
        }
    }

    /// Did the preparation read the state that the command is to end? Then the machine hardly is in the other one "already".
    fn read_otherwise(&self, command: Command) -> bool {
        let ended = match command {
            Command::Off => PowerState::On,
            Command::On => PowerState::Off,
        };
        self.seen.as_ref().is_some_and(|seen| seen.state == ended)
    }

    /// `DateTime` of the Manager. Whatever goes wrong says nothing: not every user may read it, nor has every service one.
    async fn manager_time(&mut self, manager: Option<String>) -> Option<DeviceClock> {
        let document = self.get_once(&manager?).await.ok()?;
        Some(DeviceClock {
            time: parse::date_time(&document)?,
            ours: self.driver.clock.wall(),
        })
    }

    /// What a fence would need, and the path of the Manager.
    async fn look(&mut self) -> Result<(Probe, Option<String>), DeviceError> {
        let (reading, system) = self.read().await?;
        let off_denied = match self.reset_path(system.reset, FORCE_OFF).await {
            Ok(_) => None,
            Err(denial @ DeviceError::Refused { .. }) => Some(denial),
            Err(error) => return Err(error),
        };
        let probe = Probe {
            reading,
            vendor: system.vendor,
            model: system.model,
            firmware: system.firmware,
            power_restore_policy: system.power_restore_policy,
            restarter: None,
            certificate_expiry: self.http.expiry().filter(|_| self.driver.dates_count),
            off_denied,
            cipher_suites: Vec::new(),
            clock: None,
        };
        Ok((probe, system.manager))
    }

    /// Path of the system: the one in the settings, or the only one there is.
    async fn locate(&mut self) -> Result<String, DeviceError> {
        if let Some(path) = &self.system {
            return Ok(path.clone());
        }
        let collection = self.get(SYSTEMS).await?;
        let members = parse::members(&collection);
        let members = members.map_err(|problem| self.protocol(problem, NAME_SYSTEM))?;
        if let [only] = members.as_slice() {
            return Ok(self.system.insert(only.clone()).clone());
        }
        let id = |path: &String| {
            path.rsplit('/')
                .find(|part| !part.is_empty())
                .unwrap_or_default()
                .to_owned()
        };
        let listed: Vec<String> = members.iter().take(SYSTEMS_LISTED_MAX).map(id).collect();
        let found = match members.len() {
            0 => "no system".to_owned(),
            count => format!("{count} systems ({})", listed.join(", ")),
        };
        Err(DeviceError::AmbiguousSystem {
            endpoint: self.endpoint(),
            found: self.shown(&found),
        })
    }

    /// Path that takes this reset type, if the device lists it.
    async fn reset_path(
        &mut self,
        reset: Result<Reset, String>,
        wanted: &str,
    ) -> Result<String, DeviceError> {
        let Reset { target, allowable } = reset.map_err(|problem| self.refused(problem))?;
        let listed = match allowable {
            Allowable::Listed(listed) => listed,
            Allowable::ActionInfo(path) => {
                let document = self.get(&path).await?;
                parse::action_info(&document).map_err(|problem| self.refused(problem))?
            }
        };
        if listed.iter().any(|listed| listed == wanted) {
            return Ok(target);
        }
        let listed = printable(&listed.join(", "), 120);
        Err(self.refused(format!(
            "{wanted} is not among the reset types it takes ({listed})"
        )))
    }

    /// [`status::error`] of this endpoint, without secrets.
    fn status_error(&self, method: &str, path: &str, reply: &Reply) -> DeviceError {
        let is_named = self.driver.system.as_deref() == Some(path);
        let shown = |text: &str| self.shown(text);
        status::error(self.endpoint(), method, path, is_named, reply, shown)
    }

    /// A text of the device, without the credentials that it may repeat.
    fn shown(&self, text: &str) -> String {
        self.driver.target.credentials.without_secrets(text)
    }

    fn protocol(&self, problem: String, way_out: &'static str) -> DeviceError {
        DeviceError::Protocol {
            endpoint: self.endpoint(),
            problem: self.shown(&problem),
            way_out,
        }
    }

    fn refused(&self, problem: String) -> DeviceError {
        DeviceError::Refused {
            endpoint: self.endpoint(),
            problem: self.shown(&problem),
        }
    }

    /// Time that was over before a request could be sent says nothing of what the device makes of the password.
    fn concluded<T>(&self, outcome: Result<T, DeviceError>) -> Result<T, DeviceError> {
        match outcome {
            Err(DeviceError::Timeout { endpoint, waited }) if !self.http.sent() => {
                Err(DeviceError::NoAnswer {
                    endpoint,
                    waited,
                    way_out: "no connection; check the address, and what filters TCP on the way"
                        .to_owned(),
                })
            }
            outcome => outcome,
        }
    }

    fn limit(&self, time: Duration) -> Limit {
        Limit {
            endpoint: self.endpoint(),
            time,
        }
    }

    fn endpoint(&self) -> String {
        self.driver.target.address.to_string()
    }
}
