//! A conversation with a provider about one machine: one call at a time, each within its own time.
//!
//! One for all providers. A command whose operation has failed, has not ended in time or cannot be looked at is one of unknown outcome: the
//! provider may carry it out later (S23).

use super::io::Io;
use super::operation::{self, Follow, Operation};
use super::words::Said;
use super::{Cloud, Machine, Provider, Sent};
use crate::limit::Limit;
use crate::resolve::unreachable;
use crate::tls::Expiry;
use crate::{Command, DeviceError, Extent, FenceSession, OffOutcome, OnOutcome, Probe};
use fencing_core::reading::{Identity, PowerState, Reading, usable_uuid};
use futures::future::{BoxFuture, FutureExt};
use std::sync::Arc;
use std::time::Duration;

/// What a look in peace time has found.
struct Look {
    reading: Reading,
    machine: Machine,
    /// What stands in the way of a power-off.
    off_denied: Option<DeviceError>,
    /// When the provider's certificate expires.
    expiry: Option<Expiry>,
}

/// A conversation with the provider.
#[derive(Debug)]
pub(super) struct Session<P> {
    driver: Arc<Cloud<P>>,
    io: Io,
    /// The machine that a command would turn off or on, and which command.
    prepared: Option<(Machine, Command)>,
    /// What the preparation has read of the power.
    seen: Option<Reading>,
    /// Where the machine was when it was read last.
    place: Option<String>,
}

impl<P: Provider> FenceSession for Session<P> {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>> {
        let limit = self.limit(self.driver.call_timeout);
        async move {
            let main = self.io.main();
            let outcome = limit.on(self.io.open(&main)).await;
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
        self.seen.clone().filter(|_| P::READS_MACHINES)
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

    fn take_turn_now(&mut self) -> bool {
        self.io.account.has_turns_to_spare()
    }

    fn probe(&mut self, extent: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>> {
        let limit = self.limit(self.driver.call_timeout);
        async move {
            let outcome = limit.on(self.look(extent)).await;
            let Look {
                reading,
                machine,
                off_denied,
                expiry,
            } = self.concluded(outcome)?;
            Ok(Probe {
                reading,
                vendor: None,
                model: machine.model.map(|model| self.io.shown(&model)),
                firmware: None,
                power_restore_policy: None,
                restarter: machine.restarter.map(|it| self.io.shown(&it)),
                certificate_expiry: expiry.filter(|_| self.driver.dates_count),
                off_denied,
                cipher_suites: Vec::new(),
                clock: self.io.date(),
            })
        }
        .boxed()
    }
}

impl<P: Provider> Session<P> {
    /// A session without a connection.
    pub(super) fn new(driver: Arc<Cloud<P>>) -> Self {
        Self {
            io: driver.io(),
            prepared: None,
            seen: None,
            place: None,
            driver,
        }
    }

    /// The machine by a list, if that is enough and shows it running, or by itself.
    async fn look(&mut self, extent: Extent) -> Result<Look, DeviceError> {
        let (driver, account) = (Arc::clone(&self.driver), Arc::clone(&self.io.account));
        if extent == Extent::Listed
            && let Some(it) = account.fleet.running(&driver).await?
            && self.is_where_it_was(&it.machine)
        {
            let page = it.page;
            if let Some(place) = it.machine.place.as_deref() {
                account.fleet.note_on(&driver.id, page.asked, Some(place));
            }
            return Ok(Look {
                reading: self.reading(&it.machine, page.asked, page.answered),
                machine: it.machine,
                off_denied: None,
                expiry: page.expiry,
            });
        }
        let (reading, machine) = self.read().await?;
        let off_denied = driver.provider.off_denied(&mut self.io, &machine).await;
        // One that cannot be fenced is not to be shown by a list, which does not tell that.
        if off_denied.is_none() {
            account.fleet.note(&driver.id, &machine.identity);
        }
        Ok(Look {
            reading,
            machine,
            off_denied,
            expiry: self.io.expiry(),
        })
    }

    /// A list may put together where a machine is by its config now and that it ran elsewhere a moment ago. So it never says that a machine has moved.
    fn is_where_it_was(&self, machine: &Machine) -> bool {
        let last = self.io.account.fleet.last_on(&self.driver.id);
        !P::HAS_ONE_PLACE || last.is_none() || last == machine.place
    }

    /// The machine as it is now. The state is no older than the first of the requests that it takes.
    async fn read(&mut self) -> Result<(Reading, Machine), DeviceError> {
        let driver = Arc::clone(&self.driver);
        let asked = driver.clock.since_boot();
        let mut machine = driver.provider.read(&mut self.io, &driver.id).await?;
        // The run of Off begins again where it is now.
        let before = std::mem::replace(&mut self.place, machine.place.clone());
        if let Some(before) = before.filter(|it| machine.place.as_ref() != Some(it)) {
            let moved = format!("it has moved from {before}");
            machine.said = machine.said.only_if(false, moved);
        }
        if P::HAS_ONE_PLACE {
            machine.said = self.judge_place(&machine, asked);
        }
        let reading = self.reading(&machine, asked, driver.clock.since_boot());
        Ok((reading, machine))
    }

    /// Remembers where the machine runs, for all sessions of the account. An Off elsewhere may be that of a config or of a copy that was moved there,
    /// while the machine runs on where it was: its host may be cut off.
    fn judge_place(&self, machine: &Machine, asked: Duration) -> Said {
        let (fleet, id) = (&self.io.account.fleet, &self.driver.id);
        let (said, place) = (machine.said.clone(), machine.place.as_deref());
        if said.state == PowerState::On {
            fleet.note_on(id, asked, place);
        }
        let last = fleet.last_on(id);
        let is_there = last.is_none() || last.as_deref() == place;
        let last = last.unwrap_or_default();
        let said = said.only_if(is_there, format!("it read On on {last} last"));
        if said.is_off() {
            // The place that ran it has said so: where it is put now does not matter.
            fleet.note_on(id, asked, None);
        }
        said
    }

    fn reading(&self, machine: &Machine, asked: Duration, answered: Duration) -> Reading {
        let shown = |text: &str| self.io.shown(text);
        let said = machine.said.clone().with_texts(shown);
        let Identity {
            system_uuid,
            serial_number,
        } = machine.identity.clone();
        // A UUID is compared, so it stays as it is.
        let uuid_of = |uuid: String| match usable_uuid(&uuid) {
            Some(_) => uuid,
            None => shown(&uuid),
        };
        Reading {
            state: said.state,
            raw: said.raw,
            identity: Identity {
                system_uuid: system_uuid.map(uuid_of),
                serial_number: serial_number.map(|serial| shown(&serial)),
            },
            faults: said.faults,
            off_parts: Vec::new(),
            // What it shows was so before it was asked for.
            asked: asked.saturating_sub(said.age),
            answered,
            wall: self.driver.clock.wall(),
        }
    }

    /// All that comes before the command, and the machine as it is.
    async fn prepare(&mut self, command: Command) -> Result<Reading, DeviceError> {
        self.prepared = None;
        self.seen = None;
        let limit = self.driver.call_timeout;
        let found = self.limit(limit).on(self.read()).await;
        let (reading, machine) = self.concluded(found)?;
        self.seen = Some(reading.clone());
        // Nothing is to be opened between the look at the claim and the command (F12).
        let opened = self.limit(limit).on(self.io.open(&machine.at)).await;
        self.concluded(opened)?;
        self.prepared = Some((machine, command));
        Ok(reading)
    }

    /// Sends the command that was prepared, and follows what it becomes, for as long again.
    async fn switch(&mut self, command: Command) -> Result<OffOutcome, DeviceError> {
        let limit = self.driver.command_timeout;
        let sent = match self.limit(limit).on(self.command(command)).await {
            Ok(sent) => sent,
            Err(error) if self.io.sent() && is_lost(&error) => {
                return Ok(OffOutcome::Unknown(error.of_command(command)));
            }
            Err(DeviceError::Timeout { waited, .. }) => {
                let problem = format!(
                    "no connection for the {} within {waited:?}; it was not sent, and is tried again",
                    command.word()
                );
                return Err(unreachable(&self.driver.target.address, problem));
            }
            Err(error) => return Err(error),
        };
        Ok(match sent {
            Sent::Already(said) => OffOutcome::AlreadyOff { said },
            Sent::Done => OffOutcome::Accepted,
            Sent::Unclear(error) => OffOutcome::Unknown(error.of_command(command)),
            Sent::Operation(operation) => return self.end(command, &operation).await,
        })
    }

    async fn command(&mut self, command: Command) -> Result<Sent, DeviceError> {
        let prepared = self.prepared.take();
        let Some((machine, _)) = prepared.filter(|(_, prepared)| *prepared == command) else {
            return Err(DeviceError::Refused {
                endpoint: self.endpoint(),
                problem: "nothing was prepared in this session".to_owned(),
            });
        };
        let provider = &self.driver.provider;
        match command {
            Command::Off => provider.off(&mut self.io, &machine).await,
            // The volumes have moved since.
            Command::On if machine.said.may_resume => Err(self.resumes(&machine)),
            Command::On => provider.on(&mut self.io, &machine).await,
        }
    }

    /// A start may load the memory of before.
    fn resumes(&self, machine: &Machine) -> DeviceError {
        let problem = format!(
            "it reads {} ({}), and a start may resume its old memory; start it by hand",
            machine.said.raw,
            machine.said.faults.join(", ")
        );
        DeviceError::Refused {
            endpoint: self.endpoint(),
            problem: self.io.shown(&problem),
        }
    }

    /// How the operation ended.
    async fn end(
        &mut self,
        command: Command,
        operation: &Operation,
    ) -> Result<OffOutcome, DeviceError> {
        let (time, driver) = (self.driver.command_timeout, Arc::clone(&self.driver));
        let end = operation::end(&driver.provider, &mut self.io, operation);
        // A guest that is asked first outlasts the time of one command: nothing has failed then.
        let read = "its outcome is read from the power";
        let still = match command {
            Command::Off => "the readings say when it is off",
            Command::On => "the readings say when it is on",
        };
        let (problem, way_out) = match tokio::time::timeout(time, end).await {
            Ok(Follow::Done) => return Ok(OffOutcome::Accepted),
            Ok(Follow::Already(said)) => {
                let said = self.io.shown(&said);
                return Ok(OffOutcome::AlreadyOff { said });
            }
            Ok(Follow::Refused(words)) => {
                return Err(DeviceError::Refused {
                    endpoint: self.endpoint(),
                    problem: self.io.shown(&words),
                });
            }
            Ok(Follow::Failed(words)) => (format!("was taken, and {words}"), read),
            Ok(Follow::Running) | Err(_) => (format!("is still in progress after {time:?}"), still),
        };
        Ok(OffOutcome::Unknown(DeviceError::Declined {
            endpoint: self.endpoint(),
            problem: self.io.shown(&format!("the {} {problem}", command.word())),
            way_out: way_out.to_owned(),
        }))
    }

    /// Time that was over before a request could be sent says nothing of what the provider makes of the credentials.
    fn concluded<T>(&self, outcome: Result<T, DeviceError>) -> Result<T, DeviceError> {
        match outcome {
            Err(DeviceError::Timeout { endpoint, waited }) if !self.io.sent() => {
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

/// Did no answer come, or none that was understood? An answer that the provider's table has is none of these.
fn is_lost(error: &DeviceError) -> bool {
    error.is_silence() || matches!(error, DeviceError::Protocol { .. })
}
