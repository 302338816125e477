//! A conversation by an agent: one run for each call, none of which knows of another.

use super::FenceAgent;
use super::answers::{self, Answer};
use super::given::Action;
use super::process;
use super::run::{Ended, Failure, OUTPUT_BYTES_MAX, Run};
use super::turns::{self, Purpose};
use crate::error::printable;
use crate::{Command, DeviceError, Extent, FenceSession, OffOutcome, OnOutcome, Probe, resolve};
use fencing_core::reading::{Identity, Reading};
use futures::future::{BoxFuture, FutureExt};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::time::timeout;

/// Longest word of an agent in characters that is repeated.
const SAID_CHARACTERS_MAX: usize = 160;
/// What to do where an agent has failed.
const WAY_OUT: &str =
    "check address, account and `fenceAgent.parameters`, and run the agent by hand";

/// A conversation with a device by its agent.
#[derive(Debug)]
pub struct Session {
    driver: FenceAgent,
    prepared: Option<Command>,
}

/// Why a run came to nothing.
enum Fault {
    /// Nothing was started.
    Before(DeviceError),
    /// It may have done something.
    Within(DeviceError),
}

impl Fault {
    fn error(self) -> DeviceError {
        match self {
            Self::Before(error) | Self::Within(error) => error,
        }
    }
}

impl FenceSession for Session {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>> {
        let time = self.driver.call_timeout;
        async move {
            let looked_up = timeout(time, self.address()).await;
            looked_up.unwrap_or_else(|_| Err(self.late(time))).map(drop)
        }
        .boxed()
    }

    fn observe(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        self.read(Purpose::Read).boxed()
    }

    fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>> {
        async move { Ok(self.prepare(Command::Off).await?.identity) }.boxed()
    }

    /// As of outlets: it says nothing of a machine.
    fn seen(&self) -> Option<Reading> {
        None
    }

    fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>> {
        self.command(Command::Off).boxed()
    }

    fn prepare_on(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        self.prepare(Command::On).boxed()
    }

    fn power_on(&mut self) -> BoxFuture<'_, Result<OnOutcome, DeviceError>> {
        async move { Ok(self.command(Command::On).await?.into()) }.boxed()
    }

    fn probe(&mut self, _: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>> {
        async move {
            Ok(Probe {
                reading: self.read(Purpose::Probe).await?,
                vendor: None,
                model: None,
                firmware: None,
                certificate_expiry: None,
                power_restore_policy: None,
                restarter: None,
                cipher_suites: Vec::new(),
                clock: None,
                // Whether the account may switch is only known to whoever switches.
                off_denied: None,
            })
        }
        .boxed()
    }
}

impl Session {
    /// A session that has run nothing.
    pub fn new(driver: FenceAgent) -> Self {
        Self {
            driver,
            prepared: None,
        }
    }

    async fn prepare(&mut self, command: Command) -> Result<Reading, DeviceError> {
        self.prepared = None;
        let reading = self.read(Purpose::Read).await?;
        self.prepared = Some(command);
        Ok(reading)
    }

    async fn read(&mut self, purpose: Purpose) -> Result<Reading, DeviceError> {
        let clock = self.driver.clock;
        let asked = clock.since_boot();
        let run = self.run(Action::Status, self.driver.call_timeout, purpose);
        let ended = run.await.map_err(Fault::error)?;
        let answered = clock.since_boot();
        let Some(state) = answers::power(&ended) else {
            return Err(self.failed(Action::Status, &ended));
        };
        Ok(Reading {
            state,
            raw: self.shown(&ended.stdout),
            // An agent does not know its machine.
            identity: Identity::default(),
            faults: Vec::new(),
            off_parts: Vec::new(),
            asked,
            answered,
            wall: clock.wall(),
        })
    }

    /// Sends what was prepared, once. Whatever is not known of it afterwards is unknown (S23): an agent that was ended, or has failed, may have
    /// sent it before.
    async fn command(&mut self, command: Command) -> Result<OffOutcome, DeviceError> {
        if self.prepared.take() != Some(command) {
            return Err(DeviceError::Refused {
                endpoint: self.driver.address.to_string(),
                problem: "nothing was prepared in this session".to_owned(),
            });
        }
        let action = match command {
            Command::Off => Action::Off,
            Command::On => Action::On,
        };
        let ended = match self
            .run(action, self.driver.command_timeout, Purpose::Command)
            .await
        {
            Ok(ended) => ended,
            Err(Fault::Before(error)) => return Err(error),
            Err(Fault::Within(error)) => return Ok(OffOutcome::Unknown(error.of_command(command))),
        };
        Ok(match answers::answer(action, &ended) {
            Answer::Done => OffOutcome::Accepted,
            Answer::Already => OffOutcome::AlreadyOff {
                said: self.shown(&ended.stdout),
            },
            Answer::Open => OffOutcome::Unknown(self.failed(action, &ended)),
        })
    }

    async fn run(&self, action: Action, time: Duration, purpose: Purpose) -> Result<Ended, Fault> {
        let until = self.driver.clock.since_boot().saturating_add(time);
        let before = async {
            let address = self.address().await?;
            Ok((
                address,
                turns::of(&self.driver.address.to_string(), purpose).await,
            ))
        };
        let ready = timeout(time, before).await;
        let ready = ready.unwrap_or_else(|_| Err(self.late(time)));
        let (address, turn) = ready.map_err(Fault::Before)?;
        let run = Run {
            program: self.driver.program.clone(),
            input: self.driver.given.input(action, address),
            time: until.saturating_sub(self.driver.clock.since_boot()),
            turn,
        };
        process::run(run).await.map_err(|failure| match failure {
            Failure::NotStarted(error) => Fault::Before(self.not_started(&error)),
            Failure::Late => Fault::Within(self.late(time)),
            Failure::Flooded => Fault::Within(DeviceError::Declined {
                endpoint: self.driver.address.to_string(),
                problem: format!(
                    "{} `{}` printed more than {OUTPUT_BYTES_MAX} bytes",
                    self.driver.agent.name,
                    action.word()
                ),
                way_out: WAY_OUT.to_owned(),
            }),
            Failure::Lost(error) => Fault::Within(DeviceError::Declined {
                endpoint: self.driver.address.to_string(),
                problem: format!("{} was lost ({error})", self.driver.agent.name),
                way_out: WAY_OUT.to_owned(),
            }),
        })
    }

    /// The one address that the agent is given. It resolves nothing itself, so that what was judged is where the account goes (S16).
    async fn address(&self) -> Result<IpAddr, DeviceError> {
        let FenceAgent {
            address,
            credentials,
            rules,
            ..
        } = &self.driver;
        let found = one_device(resolve::found(address, rules).await?, &address.host)?;
        let allowed = resolve::allowed(address, credentials, rules, found)?;
        let first = allowed.first().map(|it| it.ip().to_canonical());
        if !self.driver.agent.takes_ipv6 && first.is_some_and(|ip| ip.is_ipv6()) {
            return Err(DeviceError::Settings {
                field: "fenceAgent.parameters",
                problem: format!(
                    "`ip` must be an IPv4 address for {}, which cannot use another",
                    self.driver.agent.name
                ),
            });
        }
        first.ok_or_else(|| resolve::unreachable(address, "its name has no address".to_owned()))
    }

    fn failed(&self, action: Action, ended: &Ended) -> DeviceError {
        let how = match (ended.code, ended.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "no exit code".to_owned(),
        };
        let printed = match self.shown(&ended.stderr) {
            empty if empty.is_empty() => self.shown(&ended.stdout),
            complaint => complaint,
        };
        let printed = match printed.is_empty() {
            true => "nothing".to_owned(),
            false => format!("`{printed}`"),
        };
        DeviceError::Declined {
            endpoint: self.driver.address.to_string(),
            problem: format!(
                "{} `{}` ended with {how} and printed {printed}",
                self.driver.agent.name,
                action.word()
            ),
            way_out: WAY_OUT.to_owned(),
        }
    }

    /// The last line that is not empty, without anything of the account.
    fn shown(&self, printed: &[u8]) -> String {
        let text = String::from_utf8_lossy(printed);
        let mut lines = text.lines().map(str::trim);
        let last = lines.rfind(|line| !line.is_empty());
        let line = printable(last.unwrap_or_default(), usize::MAX);
        let line = self.driver.credentials.without_secrets(&line);
        printable(&line, SAID_CHARACTERS_MAX)
    }

    fn not_started(&self, error: &io::Error) -> DeviceError {
        let program = self.driver.program.display();
        let problem = match error.kind() {
            io::ErrorKind::NotFound => format!(
                "this image has no {program}; run the operator's image with agents, whose tag ends with `-agents`"
            ),
            _ => format!("{program} cannot be run ({error}); check the operator's image"),
        };
        DeviceError::Settings {
            field: "fenceAgent.agent",
            problem,
        }
    }

    fn late(&self, waited: Duration) -> DeviceError {
        DeviceError::Timeout {
            endpoint: self.driver.address.to_string(),
            waited,
        }
    }
}

/// The addresses of a name, IPv4 first: an agent does not know its device, and of two with one name one would be switched and the other one
/// read (S5).
pub(super) fn one_device(
    mut found: Vec<SocketAddr>,
    host: &str,
) -> Result<Vec<SocketAddr>, DeviceError> {
    let is_ipv6 = |address: &SocketAddr| address.ip().to_canonical().is_ipv6();
    found.sort_by_key(|address| (is_ipv6(address), *address));
    found.dedup();
    let differ = |[one, next]: &[SocketAddr; 2]| is_ipv6(one) != is_ipv6(next);
    if found.array_windows().all(differ) {
        return Ok(found);
    }
    Err(DeviceError::Settings {
        field: "fenceAgent.parameters",
        problem: format!(
            "`ip` {host} resolves to {} addresses, and a device has one per IP version; set the one address",
            found.len()
        ),
    })
}
