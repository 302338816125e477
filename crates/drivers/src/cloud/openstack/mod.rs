//! Driver `openstack`: Nova instances, with an application credential of Keystone.
//!
//! Nova repeats the last state of an instance whose host is dead, and has no hard power-off: `os-stop` asks the guest first and is carried out by
//! the host, hours later if need be. So an Off needs a sign that the host itself has stopped it: it is up, or the last thing that was asked of
//! the instance is a stop, and the host says that it succeeded.

mod facts;

use super::account::Grant;
use super::errors::{Answers, Meaning, row};
use super::fleet::Pages;
use super::io::Io;
use super::kind::{CloudKind, Fields, split};
use super::operation::{Follow, Operation};
use super::{Machine, MachineId, Provider, Sent, check_name, unusable};
use crate::address::Address;
use crate::http::{Call, Reply};
use crate::{DeviceError, NodeFacts};
use facts::{Page, Server, Stop};
use fencing_api::device::{OpenstackDriver, TlsSettings};
use fencing_core::reading::Identity;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The keys of the Secret.
const KEYS: [&str; 2] = ["applicationCredentialID", "applicationCredentialSecret"];
/// The version of Nova's API that is asked for: of 2020 (Ussuri), and served by every later one.
const VERSION: &str = "compute 2.84";

/// Actions of an instance that are looked at: Nova lists the newest first, and an instance of years has thousands.
const ACTIONS_MAX: u32 = 20;

/// Instances of one page of a list, and pages that are asked for: what is beyond is read by itself.
const PAGE: usize = 100;
const PAGES_MAX: usize = 50;
/// Longest page in bytes: an instance takes about 4,000.
const PAGE_BYTES_MAX: usize = 2 << 20;

/// What Keystone's answers mean.
const LOGIN: Answers = Answers {
    table: &[
        row(401, "", "", Meaning::Login),
        row(403, "", "", Meaning::Denied),
        // Keystone does not find a credential that was deleted. Another 404 is another address.
        row(404, "", "application credential", Meaning::Login),
        row(429, "", "", Meaning::Busy),
        row(503, "", "", Meaning::Busy),
    ],
    words,
    right: "a role in its project",
};
/// What Nova's answers mean. 401 is a path outside of the access rules, once the token is known to be none of an hour ago.
const ANSWERS: Answers = Answers {
    table: &[
        row(401, "", "", Meaning::Denied),
        row(403, "", "", Meaning::Denied),
        row(404, "itemNotFound", "", Meaning::Missing),
        row(409, "", "vm_state stopped", Meaning::Already),
        row(409, "", "vm_state active", Meaning::Already),
        row(409, "", "task_state", Meaning::Busy),
        row(409, "", "vm_state", Meaning::Refused),
        row(409, "", "locked", Meaning::Refused),
        // An instance that is on no host, since it was shelved.
        row(409, "", "is not ready", Meaning::Refused),
        row(413, "", "", Meaning::Busy),
        row(429, "", "", Meaning::Busy),
        row(503, "", "", Meaning::Busy),
    ],
    words,
    right: "a role that may stop it, and access rules for GET /v2.1/servers/** and POST /v2.1/servers/*/action",
};

/// A cloud.
#[derive(Debug, Clone)]
pub struct Openstack {
    /// Path of Keystone's API, without its version.
    path: String,
    region: Option<String>,
}

/// The service that has the instances.
#[derive(Debug, Clone)]
struct Nova {
    at: Address,
    path: String,
    grant: Grant,
}

impl CloudKind for OpenstackDriver {
    type Provider = Openstack;
    const KEYS: &'static [&'static str] = &KEYS;
    const FIELDS: Fields = Fields {
        address: "openstack.authURL",
        ca: "openstack.tls.caRef",
    };

    fn url(&self) -> &str {
        &self.auth_url
    }

    fn certificate(&self) -> &TlsSettings {
        &self.tls
    }

    fn provider(&self) -> Openstack {
        let path = split(&self.auth_url).1.trim_end_matches('/');
        Openstack {
            path: path.strip_suffix("/v3").unwrap_or(path).to_owned(),
            region: self.region.clone(),
        }
    }
}

impl Provider for Openstack {
    const NAME: &'static str = "openstack";

    /// `openstack:///ID`, `openstack://REGION/ID` or the id alone, as the cloud controller manager writes it now and wrote it; else the system
    /// UUID, which is the id where libvirt runs the instance, and the name.
    fn machine(&self, node: &NodeFacts) -> Result<MachineId, DeviceError> {
        let rest = match node.provider_id.split_once("://") {
            Some(("openstack", rest)) => rest,
            Some(_) => return Err(unusable(node, "driver `openstack` needs openstack://")),
            None if node.provider_id.is_empty() => &node.system_uuid,
            None => &node.provider_id,
        };
        let (region, id) = rest.split_once('/').unwrap_or(("", rest));
        let region = Some(region).filter(|region| !region.is_empty());
        if region.is_some_and(|region| self.region.as_deref().is_some_and(|own| own != region)) {
            return Err(unusable(node, "`openstack.region` is another one"));
        }
        if !facts::is_id(id) {
            return Err(unusable(node, "no UUID of an instance stands in it"));
        }
        Ok(MachineId {
            region: region.map(str::to_owned),
            ..MachineId::of(node, id.to_lowercase())
        })
    }

    async fn read(&self, io: &mut Io, id: &MachineId) -> Result<Machine, DeviceError> {
        let region = self.region_of(id);
        let (nova, document) = self.get(io, region, &format!("/servers/{}", id.id)).await?;
        let server = facts::server(&document, &id.id);
        let mut server = server.map_err(|problem| io.protocol(&nova.at, &problem))?;
        check_name(io, id, &server.name)?;
        // Also where the host is up: after an evacuation that is another host than the one where the instance may still run.
        if server.said.is_off() {
            let stop = self.last_stop(io, region, id).await?;
            server.said = server.said.only_if(stop == Stop::Done, stop.fault());
        }
        Ok(nova.machine(id, server))
    }

    async fn off(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        self.switch(io, machine, "os-stop").await
    }

    async fn on(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        self.switch(io, machine, "os-start").await
    }

    async fn fleet(
        &self,
        io: &mut Io,
        ids: &[MachineId],
        pages: &mut Pages<'_>,
    ) -> Result<(), DeviceError> {
        let regions: BTreeSet<Option<&str>> = ids.iter().map(|id| self.region_of(id)).collect();
        for region in regions {
            let own = ids.iter().filter(|id| self.region_of(id) == region);
            let by_id: HashMap<&str, &MachineId> = own.map(|id| (id.id.as_str(), id)).collect();
            let mut marker = String::new();
            for _ in 0..PAGES_MAX {
                let page = format!("/servers/detail?limit={PAGE}{marker}");
                let (nova, reply) = self.ask(io, region, &page).await?;
                let servers = io.listed::<Page>(&nova.at, reply)?.servers();
                let last = servers.last().map(|(id, _)| id.clone());
                let is_last = servers.len() < PAGE;
                let found = servers.into_iter().filter_map(|(id, server)| {
                    let id = by_id.get(id.as_str()).copied();
                    let id = id.filter(|id| id.may_be_called(&server.name))?;
                    Some((id.clone(), nova.machine(id, server)))
                });
                pages.add(io, found);
                match last {
                    Some(last) if !is_last => marker = format!("&marker={last}"),
                    _ => break,
                }
            }
        }
        Ok(())
    }

    async fn follow(&self, io: &mut Io, operation: &Operation) -> Result<Follow, DeviceError> {
        let (at, grant) = (&operation.at, self.grant(io).await?);
        let call = authorised(Call::new(Method::GET, &operation.path), &grant)?;
        let reply = io.read(at, &call, StatusCode::OK, &ANSWERS).await?;
        Ok(facts::follow(&io.document(at, reply)?))
    }
}

impl Nova {
    fn machine(&self, id: &MachineId, server: Server) -> Machine {
        Machine {
            said: server.said,
            identity: Identity {
                system_uuid: Some(id.id.clone()),
                serial_number: None,
            },
            at: self.at.clone(),
            path: format!("{}/servers/{}", self.path, id.id),
            place: server.host,
            restarter: None,
            model: server.model,
        }
    }
}

impl Openstack {
    fn region_of<'a>(&'a self, id: &'a MachineId) -> Option<&'a str> {
        id.region.as_deref().or(self.region.as_deref())
    }

    /// Is the last thing that was asked of the instance a stop, and what became of it?
    async fn last_stop(
        &self,
        io: &mut Io,
        region: Option<&str>,
        id: &MachineId,
    ) -> Result<Stop, DeviceError> {
        let actions = format!("/servers/{}/os-instance-actions", id.id);
        let newest = format!("{actions}?limit={ACTIONS_MAX}");
        let (_, document) = self.get(io, region, &newest).await?;
        let Some(request) = facts::last_stop(&document) else {
            return Ok(Stop::None);
        };
        let (_, document) = self
            .get(io, region, &format!("{actions}/{request}"))
            .await?;
        Ok(facts::stop(&document))
    }

    async fn switch(
        &self,
        io: &mut Io,
        machine: &Machine,
        command: &str,
    ) -> Result<Sent, DeviceError> {
        // Its token was fetched by the preparation, and holds for a minute at least: nothing is asked for here (F12).
        let grant = io.account.grant();
        let grant = grant.ok_or_else(|| io.protocol(&machine.at, "its token has ended"))?;
        let path = format!("{}/action", machine.path);
        let body = json!({command: Value::Null}).to_string();
        let call = authorised(Call::new(Method::POST, &path).with_json(body), &grant)?;
        let taken = StatusCode::ACCEPTED;
        let reply = match io.switch(&machine.at, &call, taken, &ANSWERS).await? {
            Ok(reply) => reply,
            Err(sent) => return Ok(sent),
        };
        let request = reply.headers.get("x-openstack-request-id");
        let request = request
            .and_then(|id| id.to_str().ok())
            .filter(|id| facts::is_request(id));
        Ok(match request {
            Some(request) => Sent::Operation(Operation {
                at: machine.at.clone(),
                path: format!("{}/os-instance-actions/{request}", machine.path),
            }),
            None => {
                let problem = "the command was taken, and it names no request";
                Sent::Unclear(io.protocol(&machine.at, problem))
            }
        })
    }

    /// What Nova has at this path. A token that was given a while ago may have been revoked, so a denial is a reason to ask for another, once a
    /// minute at most.
    async fn get(
        &self,
        io: &mut Io,
        region: Option<&str>,
        path: &str,
    ) -> Result<(Nova, Value), DeviceError> {
        let (nova, reply) = self.ask(io, region, path).await?;
        let document = io.document(&nova.at, reply)?;
        Ok((nova, document))
    }

    /// The same as it was sent.
    async fn ask(
        &self,
        io: &mut Io,
        region: Option<&str>,
        path: &str,
    ) -> Result<(Nova, Reply), DeviceError> {
        loop {
            let nova = self.nova(io, region).await?;
            let call = Call::new(Method::GET, &format!("{}{path}", nova.path));
            let call = authorised(call.with_body_of_at_most(PAGE_BYTES_MAX), &nova.grant)?;
            match io.read(&nova.at, &call, StatusCode::OK, &ANSWERS).await {
                Ok(reply) => return Ok((nova, reply)),
                Err(DeviceError::PermissionDenied { .. })
                    if io.account.drop_refused(&nova.grant) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Where Nova is, by the catalog that came with the token.
    async fn nova(&self, io: &mut Io, region: Option<&str>) -> Result<Nova, DeviceError> {
        let grant = self.grant(io).await?;
        let url = facts::endpoint(&grant.endpoints, region);
        let url = url.map_err(|problem| DeviceError::Settings {
            field: "openstack.region",
            problem,
        })?;
        let (origin, path) = split(url);
        Ok(Nova {
            at: Address::parse(origin)?,
            path: path.trim_end_matches('/').to_owned(),
            grant,
        })
    }

    /// The token that the account has, or another.
    async fn grant(&self, io: &mut Io) -> Result<Grant, DeviceError> {
        let account = Arc::clone(&io.account);
        let _turn = account.login().await;
        if let Some(grant) = account.grant() {
            return Ok(grant);
        }
        let (at, credentials) = (io.main(), io.credentials());
        let [id, secret] = KEYS.map(|key| credentials.value(key));
        let body = json!({"auth": {"identity": {
            "methods": ["application_credential"],
            "application_credential": {"id": id, "secret": secret},
        }}});
        let body = body.to_string();
        let path = format!("{}/v3/auth/tokens", self.path);
        let call = Call::new(Method::POST, &path).with_json(body);
        let since = io.now();
        let reply = io.read(&at, &call, StatusCode::CREATED, &LOGIN).await?;
        let token = reply.headers.get("x-subject-token");
        let token = token.and_then(|token| token.to_str().ok());
        let token = Zeroizing::new(token.unwrap_or_default().to_owned());
        if token.is_empty() {
            return Err(io.protocol(&at, "its login gives no token"));
        }
        let document = io.document(&at, reply)?;
        let lasts = facts::lasts(&document);
        let lasts = lasts.ok_or_else(|| io.protocol(&at, "its token has no end"))?;
        let grant = Grant {
            token,
            since,
            until: since + lasts,
            endpoints: facts::endpoints(&document),
        };
        account.keep(grant.clone());
        Ok(grant)
    }
}

fn authorised(call: Call, grant: &Grant) -> Result<Call, DeviceError> {
    let mut token = HeaderValue::from_str(&grant.token).map_err(|_| DeviceError::Settings {
        field: "openstack.authURL",
        problem: "its token cannot be put into a header".to_owned(),
    })?;
    token.set_sensitive(true);
    let version = HeaderName::from_static("openstack-api-version");
    Ok(call
        .with_header(HeaderName::from_static("x-auth-token"), token)
        .with_header(version, HeaderValue::from_static(VERSION)))
}

/// An error of either service is one object: `{"conflictingRequest": {"code": 409, "message": "…"}}`.
fn words(reply: &Reply) -> (String, String) {
    let body = reply.body.as_deref().unwrap_or_default();
    let body: Option<Value> = serde_json::from_slice(body).ok();
    let error = body
        .as_ref()
        .and_then(|body| body.as_object()?.iter().next());
    let message = |error: &Value| error.get("message")?.as_str().map(str::to_owned);
    error.map_or_else(Default::default, |(code, error)| {
        (code.clone(), message(error).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests;
