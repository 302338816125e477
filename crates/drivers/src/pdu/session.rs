//! A conversation with a PDU about the outlets of one machine: one call at a time, each within its own time.

use super::Pdu;
use super::link::Link;
use super::outlets::Outlet;
use super::snmp::{Binding, Kind, Oid, Unit, Value, message};
use crate::error::printable;
use crate::{Command, DeviceError, Extent, FenceSession, OffOutcome, OnOutcome, Probe};
use fencing_core::reading::{Identity, Reading};
use futures::future::{BoxFuture, FutureExt};
use std::time::Duration;
use tokio::time::timeout;

/// `sysDescr.0`: what the agent says of itself (RFC 3418).
const DESCRIPTION: &str = "1.3.6.1.2.1.1.1.0";
/// Longest description in characters that is kept.
const DESCRIPTION_CHARACTERS_MAX: usize = 127;

/// A conversation with the PDU.
#[derive(Debug)]
pub struct Session {
    driver: Pdu,
    link: Option<Link>,
    /// How all outlets may be switched, once they were read.
    prepared: Option<Command>,
    /// Outlets that took the command.
    taken: Vec<u32>,
    /// Outlets whose answer is missing or leaves open what became of them.
    failed: Vec<(u32, DeviceError)>,
    /// The outlet that the command went to last.
    at: Option<u32>,
}

impl FenceSession for Session {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>> {
        let time = self.driver.call_timeout;
        async move {
            let outcome = timeout(time, async { self.link().await.map(drop) }).await;
            outcome.unwrap_or_else(|_| Err(self.late(time)))
        }
        .boxed()
    }

    fn observe(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        let time = self.driver.call_timeout;
        async move {
            let outcome = timeout(time, self.read(Vec::new())).await;
            let (reading, _) = outcome.unwrap_or_else(|_| Err(self.late(time)))?;
            Ok(reading)
        }
        .boxed()
    }

    fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>> {
        async move { Ok(self.prepare(Command::Off).await?.identity) }.boxed()
    }

    /// Outlets: they say nothing of a machine.
    fn seen(&self) -> Option<Reading> {
        None
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

    fn probe(&mut self, _: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>> {
        let time = self.driver.call_timeout;
        async move {
            let outcome = timeout(time, self.look()).await;
            outcome.unwrap_or_else(|_| Err(self.late(time)))
        }
        .boxed()
    }
}

impl Session {
    /// A session without a socket.
    pub fn new(driver: Pdu) -> Self {
        Self {
            driver,
            link: None,
            prepared: None,
            taken: Vec::new(),
            failed: Vec::new(),
            at: None,
        }
    }

    /// All outlets as they are, if the PDU has each of them.
    async fn prepare(&mut self, command: Command) -> Result<Reading, DeviceError> {
        let time = self.driver.call_timeout;
        self.prepared = None;
        let outcome = timeout(time, self.read(Vec::new())).await;
        let (reading, answer) = outcome.unwrap_or_else(|_| Err(self.late(time)))?;
        self.has_all(&answer)?;
        self.prepared = Some(command);
        Ok(reading)
    }

    async fn switch(&mut self, command: Command) -> Result<OffOutcome, DeviceError> {
        self.taken.clear();
        self.failed.clear();
        self.at = None;
        self.command(command).await?;
        Ok(match self.partly(command) {
            Some(error) => OffOutcome::Unknown(error),
            None => OffOutcome::Accepted,
        })
    }

    async fn link(&mut self) -> Result<&mut Link, DeviceError> {
        let link = match self.link.take() {
            Some(link) => link,
            None => {
                let Pdu {
                    address,
                    rules,
                    credentials,
                    security,
                    clock,
                    ..
                } = &self.driver;
                Link::open(address, rules, credentials, security.clone(), *clock).await?
            }
        };
        Ok(self.link.insert(link))
    }

    /// All outlets, and these objects beside them, in one question.
    async fn read(&mut self, more: Vec<Binding>) -> Result<(Reading, Vec<Binding>), DeviceError> {
        let mut question = self.driver.outlets.question();
        question.extend(more);
        let clock = self.driver.clock;
        let link = self.link().await?;
        let asked = clock.since_boot();
        let answer = link.ask(Kind::Get, question).await?;
        let answered = clock.since_boot();
        let answer = self.readable(answer)?;
        let (state, raw) = self.driver.outlets.judge(&answer);
        let raw = self.driver.credentials.without_secrets(&raw);
        let reading = Reading {
            state,
            raw,
            // An outlet does not know its machine.
            identity: Identity::default(),
            faults: Vec::new(),
            off_parts: self.driver.outlets.off_parts(&answer),
            asked,
            answered,
            wall: clock.wall(),
        };
        Ok((reading, answer))
    }

    /// An answer to GET without an error.
    fn readable(&self, answer: Unit) -> Result<Vec<Binding>, DeviceError> {
        let endpoint = self.driver.address.to_string();
        let name = message::error_name(answer.error_status);
        match answer.error_status {
            0 => Ok(answer.bindings),
            // noAccess, authorizationError
            6 | 16 => Err(DeviceError::PermissionDenied {
                endpoint,
                request: "reading the outlets".to_owned(),
                said: name,
                right: "access to the outlets",
            }),
            _ => Err(DeviceError::Declined {
                endpoint,
                problem: format!("reading the outlets ends with {name}"),
                way_out: "check `pdu.model` and `pdu.outlets`, or restart the PDU's network card"
                    .to_owned(),
            }),
        }
    }

    /// The PDU must have every outlet of the settings.
    fn has_all(&self, answer: &[Binding]) -> Result<(), DeviceError> {
        let missing = self.driver.outlets.missing(answer);
        if missing.is_empty() {
            return Ok(());
        }
        Err(DeviceError::Settings {
            field: "pdu.outlets",
            problem: format!(
                "{} has no {} in the table of `pdu.model`; set the outlets and the model that it has",
                self.driver.address,
                named(&missing)
            ),
        })
    }

    /// Switches every outlet, one after the other, so that a refusal is about one outlet. One whose answer is missing, or leaves open what
    /// became of it, keeps none of the others from its command: each has its share of the time, and what is left goes to those that were
    /// silent. Whether the same command arrives once or twice, the outlet is off, or on. The claim is not read between two outlets (F12):
    /// half a machine that is off is no better than a whole one.
    async fn command(&mut self, command: Command) -> Result<(), DeviceError> {
        if self.prepared.take() != Some(command) {
            return Err(self.refused("nothing was prepared in this session".to_owned()));
        }
        let clock = self.driver.clock;
        let until = clock
            .since_boot()
            .saturating_add(self.driver.command_timeout);
        let outlets = self.driver.outlets.list().to_vec();
        let silent = self.command_each(command, outlets, until, false).await?;
        self.command_each(command, silent, until, true).await?;
        Ok(())
    }

    /// Sends the command for each of these outlets, or sends it again, with a share of the time for each; the first time one share is
    /// kept for later. Returns the silent ones. An error: none of all outlets was switched.
    async fn command_each(
        &mut self,
        command: Command,
        outlets: Vec<Outlet>,
        until: Duration,
        again: bool,
    ) -> Result<Vec<Outlet>, DeviceError> {
        let count = u32::try_from(outlets.len()).unwrap_or(u32::MAX);
        let mut shares = count.saturating_add(u32::from(!again && count > 1));
        let mut silent = Vec::new();
        for outlet in outlets {
            let left = until.saturating_sub(self.driver.clock.since_boot());
            // What is not sent by then is not sent.
            if again && left.is_zero() {
                continue;
            }
            let share = left / shares.max(1);
            shares = shares.saturating_sub(1);
            self.at = None;
            let outcome = timeout(share, self.command_one(command, &outlet)).await;
            let is_silent = outcome.is_err();
            self.failed.retain(|(number, _)| *number != outlet.number);
            match outcome.unwrap_or_else(|_| Err(self.late(share))) {
                Ok(()) => self.taken.push(outlet.number),
                Err(error) if self.may_have_switched(&error) || again => {
                    self.failed.push((outlet.number, error));
                    silent.extend(is_silent.then_some(outlet));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(silent)
    }

    async fn command_one(&mut self, command: Command, outlet: &Outlet) -> Result<(), DeviceError> {
        let outlets = &self.driver.outlets;
        let bindings = match command {
            Command::Off => outlets.off(outlet),
            Command::On => outlets.on(outlet).ok_or_else(|| DeviceError::Settings {
                field: "pdu.generic.controlOnValue",
                problem: "it is not set, so no outlet is switched on".to_owned(),
            })?,
        };
        self.link().await?;
        self.at = Some(outlet.number);
        let answer = self.link().await?.ask(Kind::Set, bindings).await?;
        self.switched(outlet, &answer)
    }

    /// What the answer to a command says.
    fn switched(&self, outlet: &Outlet, answer: &Unit) -> Result<(), DeviceError> {
        let endpoint = self.driver.address.to_string();
        let name = message::error_name(answer.error_status);
        let number = outlet.number;
        match answer.error_status {
            0 => Ok(()),
            // readOnly, noAccess, authorizationError, notWritable
            4 | 6 | 16 | 17 => Err(DeviceError::PermissionDenied {
                endpoint,
                request: format!("switching outlet {number}"),
                said: name,
                right: "write access to the outlets",
            }),
            // tooBig, genErr, commitFailed, undoFailed and what the standard does not know: it may have been switched.
            1 | 5 | 14 | 15 | ..=-1 | 19.. => Err(DeviceError::Declined {
                endpoint,
                problem: format!("switching outlet {number} ends with {name}"),
                way_out: "it may have been switched; read the outlet, and the PDU's event log"
                    .to_owned(),
            }),
            _ => Err(self.refused(format!("switching outlet {number} ends with {name}"))),
        }
    }

    /// May any outlet have been switched by a command that ended like this?
    fn may_have_switched(&self, error: &DeviceError) -> bool {
        // Said by the agent about the command itself: then it did nothing (RFC 3416, section 4.2.5). What a report says, of the user or
        // of the settings, is not signed: whoever forges it does not undo the command.
        let is_definite = matches!(
            error,
            DeviceError::Refused { .. } | DeviceError::PermissionDenied { .. }
        );
        let sends = match (self.at, &self.link) {
            (Some(_), Some(link)) => link.sends(),
            _ => 0,
        };
        // Of a command that was sent twice, one may have been taken and the other refused.
        let was_taken = if is_definite { sends > 1 } else { sends > 0 };
        was_taken || !self.taken.is_empty() || !self.failed.is_empty()
    }

    /// The error of the outlets that may not have taken the command, with those that did; none: all took it.
    fn partly(&self, command: Command) -> Option<DeviceError> {
        let (_, error) = self.failed.first()?;
        if self.taken.is_empty() {
            return Some(error.clone());
        }
        let failed: Vec<u32> = self.failed.iter().map(|(number, _)| *number).collect();
        Some(DeviceError::PartlySwitched {
            endpoint: self.driver.address.to_string(),
            word: match command {
                Command::Off => "off",
                Command::On => "on",
            },
            taken: named(&self.taken),
            failed: named(&failed),
            error: Box::new(error.clone()),
        })
    }

    async fn look(&mut self) -> Result<Probe, DeviceError> {
        let description = Oid::parse(DESCRIPTION).map(|name| Binding {
            name,
            value: Value::Null,
        });
        let (reading, answer) = self.read(description.into_iter().collect()).await?;
        self.has_all(&answer)?;
        let described = answer.last().and_then(|binding| match &binding.value {
            Value::Octets(octets) => {
                let text = String::from_utf8_lossy(octets);
                let text = printable(text.trim(), DESCRIPTION_CHARACTERS_MAX);
                Some(self.driver.credentials.without_secrets(&text))
            }
            _ => None,
        });
        Ok(Probe {
            reading,
            vendor: None,
            model: described.filter(|text| !text.is_empty()),
            firmware: None,
            certificate_expiry: None,
            power_restore_policy: None,
            restarter: None,
            cipher_suites: Vec::new(),
            clock: None,
            // Whether the account may write is only known to whoever writes.
            off_denied: None,
        })
    }

    fn late(&self, waited: Duration) -> DeviceError {
        match &self.link {
            Some(link) => link.silence(waited),
            None => DeviceError::Timeout {
                endpoint: self.driver.address.to_string(),
                waited,
            },
        }
    }

    fn refused(&self, problem: String) -> DeviceError {
        DeviceError::Refused {
            endpoint: self.driver.address.to_string(),
            problem,
        }
    }
}

/// `outlet 3` or `outlets 3, 7`.
fn named(numbers: &[u32]) -> String {
    let list: Vec<String> = numbers.iter().map(u32::to_string).collect();
    let plural = if numbers.len() == 1 { "" } else { "s" };
    format!("outlet{plural} {}", list.join(", "))
}
