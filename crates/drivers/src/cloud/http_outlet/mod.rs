//! Driver `httpOutlet`: a smart plug, or what switches one, that the settings describe: one request to switch it, one to read it.
//!
//! As with the outlets of a PDU, nothing here can notice a plug that feeds another machine: `identityCheck` is `Skip`, and whoever enters the
//! plug has tried it. An outlet is a FenceDevice; those of a machine with several supplies stand in one level with `require: All`, where each
//! is commanded for itself and all have to read off within the same window.

mod facts;

use super::errors::{Answers, Meaning, row};
use super::io::Io;
use super::kind::{self, Fields};
use super::operation::{Follow, Operation};
use super::{Cloud, Machine, MachineId, Provider, Sent};
use crate::address::{Address, AddressError};
use crate::credentials::{Credentials, LOGIN};
use crate::http::{Call, Reply};
use crate::{DeviceError, DriverKind, FenceDriver, NodeFacts, Parts};
use facts::{Table, filled, names_outlet};
use fencing_api::device::{
    HttpOutletDriver, OutletAuthentication, OutletCommand, OutletMethod, TlsSettings,
};
use fencing_core::reading::{Identity, PowerState};
use http::header::{AUTHORIZATION, CONTENT_LENGTH};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde_json::Value;
use std::sync::Arc;

/// The key of the Secret with the token.
const TOKEN: [&str; 1] = ["token"];
/// Longest answer in bytes: the whole state of a plug has some thousand.
const ANSWER_BYTES_MAX: usize = 64 << 10;

const FIELDS: Fields = Fields {
    address: "httpOutlet.url",
    ca: "httpOutlet.tls.caRef",
};

/// What an answer other than a success means, whatever the plug. What stands in no row leaves open whether a command was carried out.
const ANSWERS: Answers = Answers {
    table: &[
        row(401, "", "", Meaning::Login),
        row(403, "", "", Meaning::Denied),
        row(404, "", "", Meaning::Refused),
        row(405, "", "", Meaning::Refused),
        row(429, "", "", Meaning::Busy),
    ],
    words: no_words,
    right: "access to the outlet",
};

/// An outlet.
#[derive(Debug, Clone)]
struct HttpOutlet {
    settings: HttpOutletDriver,
    table: Table,
}

impl HttpOutlet {
    /// Checks the settings: what the API server checks where it has seen them, since a request that names no outlet may be another one's.
    fn new(settings: &HttpOutletDriver) -> Result<Self, DeviceError> {
        let status = &settings.status;
        let unnamed = |it: &OutletCommand| {
            !names_outlet(&it.path) && !it.body.as_deref().is_some_and(names_outlet)
        };
        let invalid = |field, problem: &str| {
            let problem = problem.to_owned();
            Err(DeviceError::Settings { field, problem })
        };
        if unnamed(&settings.power_off) {
            return invalid("httpOutlet.powerOff", "it must contain ${outlet}");
        }
        if settings.power_on.as_ref().is_some_and(unnamed) {
            return invalid("httpOutlet.powerOn", "it must contain ${outlet}");
        }
        if !names_outlet(&status.path) && !names_outlet(&status.pointer) {
            return invalid("httpOutlet.status", "it must contain ${outlet}");
        }
        if status.off_value == status.on_value {
            let problem = "`offValue` and `onValue` must differ";
            return invalid("httpOutlet.status", problem);
        }
        Ok(Self {
            settings: settings.clone(),
            table: Table::new(settings),
        })
    }

    /// A request with what opens the plug.
    fn call(
        &self,
        method: Method,
        path: &str,
        credentials: &Credentials,
    ) -> Result<Call, DeviceError> {
        let call = Call::new(method, path).with_body_of_at_most(ANSWER_BYTES_MAX);
        Ok(match self.opener(credentials)? {
            Some((name, value)) => call.with_header(name, value),
            None => call,
        })
    }

    /// The header that opens the plug.
    fn opener(
        &self,
        credentials: &Credentials,
    ) -> Result<Option<(HeaderName, HeaderValue)>, DeviceError> {
        Ok(match self.settings.authentication {
            OutletAuthentication::None => None,
            OutletAuthentication::Basic => Some((AUTHORIZATION, credentials.basic()?)),
            OutletAuthentication::Bearer => Some((AUTHORIZATION, credentials.bearer(TOKEN[0])?)),
            OutletAuthentication::Header => {
                let name = self.settings.header.as_deref().unwrap_or_default();
                let name = name.parse().map_err(|_| DeviceError::Settings {
                    field: "httpOutlet.header",
                    problem: "it must be the name of a header".to_owned(),
                })?;
                Some((name, credentials.bare(TOKEN[0])?))
            }
        })
    }

    /// The answer to a GET.
    async fn document(&self, io: &mut Io, path: &str) -> Result<Value, DeviceError> {
        let call = self.call(Method::GET, path, &io.credentials())?;
        let at = io.main();
        let reply = io.read(&at, &call, StatusCode::OK, &ANSWERS).await?;
        io.document(&at, reply)
    }

    /// Sends one command. Whatever success it is answered with says that it was taken, and no more.
    async fn switch(&self, io: &mut Io, command: &OutletCommand) -> Result<Sent, DeviceError> {
        let method = match command.method {
            OutletMethod::GET => Method::GET,
            OutletMethod::POST => Method::POST,
            OutletMethod::PUT => Method::PUT,
        };
        let path = filled(&command.path, &self.settings.outlet);
        let call = self.call(method.clone(), &path, &io.credentials())?;
        let call = match &command.body {
            Some(body) => call.with_json(filled(body, &self.settings.outlet)),
            // Small servers refuse a POST that does not say how long its body is.
            None if method != Method::GET => {
                call.with_header(CONTENT_LENGTH, HeaderValue::from_static("0"))
            }
            None => call,
        };
        let at = io.main();
        let reply = io.command(&at, &call).await?;
        match reply.status.is_success() {
            true => Ok(Sent::Done),
            false => {
                let failed = io.failed(&at, &call, &reply, &ANSWERS);
                failed.of_command(ANSWERS.table)
            }
        }
    }
}

impl Provider for HttpOutlet {
    const NAME: &'static str = "httpOutlet";
    const READS_MACHINES: bool = false;

    /// The outlet, whatever it feeds.
    fn machine(&self, node: &NodeFacts) -> Result<MachineId, DeviceError> {
        Ok(machine_id(&self.settings, node))
    }

    async fn read(&self, io: &mut Io, _: &MachineId) -> Result<Machine, DeviceError> {
        let status = self.document(io, self.table.path()).await?;
        let at = io.main();
        self.table
            .check(&status)
            .map_err(|problem| DeviceError::Declined {
                endpoint: at.to_string(),
                problem: io.shown(&format!("another plug answers: {problem}")),
                way_out:
                    "correct `httpOutlet.url`, or `httpOutlet.deviceID` if the plug was replaced"
                        .to_owned(),
            })?;
        let watts = self.table.watts.as_ref();
        let said = match watts.and_then(|it| it.path.as_deref()) {
            Some(path) => {
                let answer = self.document(io, path).await?;
                self.table.said(&status, &answer)
            }
            None => self.table.said(&status, &status),
        };
        Ok(Machine {
            said,
            identity: Identity::default(),
            at,
            path: self.table.path().to_owned(),
            place: None,
            restarter: None,
            model: None,
        })
    }

    async fn off(&self, io: &mut Io, _: &Machine) -> Result<Sent, DeviceError> {
        self.switch(io, &self.settings.power_off).await
    }

    /// A meter that reads nothing of a machine that runs would say nothing of one that was turned off; so would an outlet that feeds another one.
    async fn off_denied(&self, io: &mut Io, machine: &Machine) -> Option<DeviceError> {
        let watts = self.table.watts.as_ref()?;
        if machine.said.state != PowerState::On {
            return None;
        }
        let path = watts.path.as_deref().unwrap_or(self.table.path());
        match self.document(io, path).await {
            Ok(answer) => watts.problem(&answer).map(|problem| DeviceError::Settings {
                field: "httpOutlet.watts",
                problem: io.shown(&problem),
            }),
            Err(error) => Some(error),
        }
    }

    async fn on(&self, io: &mut Io, _: &Machine) -> Result<Sent, DeviceError> {
        match &self.settings.power_on {
            Some(on) => self.switch(io, on).await,
            None => Err(DeviceError::Settings {
                field: "httpOutlet.powerOn",
                problem: "it is not set, so the outlet is not switched on".to_owned(),
            }),
        }
    }

    /// What was taken has no operation: what comes of it is read from the outlet.
    async fn follow(&self, _: &mut Io, _: &Operation) -> Result<Follow, DeviceError> {
        Ok(Follow::Done)
    }
}

impl DriverKind for HttpOutletDriver {
    fn credential_keys(&self) -> &'static [&'static str] {
        match self.authentication {
            OutletAuthentication::None => &[],
            OutletAuthentication::Basic => &LOGIN,
            OutletAuthentication::Bearer | OutletAuthentication::Header => &TOKEN,
        }
    }

    fn needs_secret(&self) -> bool {
        self.authentication != OutletAuthentication::None
    }

    fn written(&self) -> &str {
        &self.url
    }

    fn expand(&self, _: &str) -> Result<Address, AddressError> {
        Address::parse(&self.url)
    }

    fn targets(&self, node: &NodeFacts) -> Vec<String> {
        let address = self.expand(&node.name).ok();
        let named = address.map(|address| kind::target(&address, &machine_id(self, node)));
        named.into_iter().collect()
    }

    fn tls(&self) -> Option<&TlsSettings> {
        Some(&self.tls)
    }

    fn make(&self, parts: Parts) -> Result<Arc<dyn FenceDriver>, DeviceError> {
        let outlet = HttpOutlet::new(self)?;
        outlet.opener(&parts.credentials)?;
        Ok(Arc::new(Cloud::new(outlet, FIELDS, parts)?))
    }
}

/// An outlet is known by what the requests name.
fn machine_id(settings: &HttpOutletDriver, node: &NodeFacts) -> MachineId {
    MachineId::of(node, format!("outlet {}", settings.outlet))
}

/// Plugs have no words in common.
fn no_words(_: &Reply) -> (String, String) {
    (String::new(), String::new())
}

#[cfg(test)]
mod tests;
