//! Driver `gcp`: instances of Compute Engine, over its REST API.
//!
//! A provider ID names an instance by its name, under which a managed group makes another one. So what was read is called by its number from then on,
//! and it is the Node's by its name and a private address. A stop lets the guest shut down first, for up to two minutes, and discards Local SSDs.

mod answers;
mod facts;
mod login;

use super::account::Pace;
use super::fleet::Pages;
use super::io::Io;
use super::kind::{CloudKind, Fields, is_known_to_the_system};
use super::operation::{Follow, Operation};
use super::spelling::is_called;
use super::surroundings::Surroundings;
use super::{Machine, MachineId, Provider, Sent, foreign, unusable};
use crate::credentials::Credentials;
use crate::http::{Call, Reply};
use crate::{DeviceError, NodeFacts};
use answers::{ANSWERS, RIGHT};
use facts::{Instance, Page, Permitted, ZoneOperation};
use fencing_api::device::{GcpDriver, LocalSsd, TlsSettings};
use fencing_core::reading::Identity;
use http::{Method, StatusCode};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// The key of the Secret: a key of a service account, as Google gives it.
const KEYS: [&str; 1] = [crate::credentials::KEY_FILE];
/// What is asked of an instance: of its metadata the names alone, since kubelets' secrets are among the values.
const FIELDS: &str = "id,name,status,machineType,networkInterfaces(networkIP,ipv6Address),disks/type,\
                      scheduling(automaticRestart,provisioningModel,skipGuestOsShutdown),metadata/items/key";
/// Stands behind the path of an instance with Local SSDs: a stop of it has to say this.
const DISCARD: &str = "discardLocalSsd=true";
/// The permission that a power-off needs.
const STOP: &str = "compute.instances.stop";
/// Instances of one page, which is the most there is, and pages of a zone that are asked for: what is beyond is read by itself.
const PAGE: usize = 500;
const PAGES_MAX: usize = 20;
/// Longest page in bytes: an instance takes about 1,000 of these fields.
const PAGE_BYTES_MAX: usize = 2 << 20;

/// A project.
#[derive(Debug, Clone)]
pub struct Gcp {
    project: String,
    /// Local SSDs may be lost.
    discards: bool,
    /// The certificate of the API is checked in full.
    is_checked: bool,
    surroundings: Surroundings,
}

impl CloudKind for GcpDriver {
    type Provider = Gcp;
    const KEYS: &'static [&'static str] = &KEYS;
    const NEEDS_SECRET: bool = false;
    const FIELDS: Fields = Fields {
        address: "gcp.endpoint",
        ca: "gcp.tls.caRef",
    };

    fn url(&self) -> &str {
        &self.endpoint
    }

    fn certificate(&self) -> &TlsSettings {
        &self.tls
    }

    fn provider(&self) -> Gcp {
        Gcp {
            project: self.project.clone(),
            discards: self.local_ssd == LocalSsd::Discard,
            is_checked: is_known_to_the_system(&self.tls),
            surroundings: Surroundings::default(),
        }
    }

    fn check(credentials: &Credentials) -> Result<(), DeviceError> {
        if !credentials.is_nobody() {
            login::Signer::of(credentials)?;
        }
        Ok(())
    }
}

impl Provider for Gcp {
    const NAME: &'static str = "gcp";
    /// A project has 1,500 reads a minute, which it shares with everything else that asks for its machines.
    const PACE: Pace = Pace {
        period: Duration::from_millis(200),
        burst: 100,
        list_age_max: Duration::from_mins(1),
    };

    fn given(self, surroundings: &Surroundings) -> Self {
        Self {
            surroundings: surroundings.clone(),
            ..self
        }
    }

    /// `gce://PROJECT/ZONE/NAME` of the cloud controller manager. The Node has the instance's name: a kubelet may write any provider ID on the Node that
    /// it creates, and only one name of a Node.
    fn machine(&self, node: &NodeFacts) -> Result<MachineId, DeviceError> {
        let id = node.provider_id.strip_prefix("gce://").unwrap_or_default();
        let Some((project, _, name)) = facts::place(id) else {
            let why = "driver `gcp` needs gce://PROJECT/ZONE/NAME";
            return Err(unusable(node, why));
        };
        if project != self.project {
            return Err(unusable(node, "`gcp.project` is another one"));
        }
        if !is_called(&node.name, name) {
            return Err(unusable(node, "the Node is not called like this instance"));
        }
        Ok(MachineId::of(node, id.to_owned()))
    }

    async fn read(&self, io: &mut Io, id: &MachineId) -> Result<Machine, DeviceError> {
        let (zone, name) = zone_of(io, id)?;
        let path = format!("{zone}/instances/{name}?fields={FIELDS}");
        let call = Call::new(Method::GET, &path);
        let reply = self.ask(io, call).await?;
        let found: Instance = io.typed(&io.main(), reply)?;
        let checked = found.check(id);
        checked.map_err(|problem| foreign(io, id, &problem))?;
        Ok(machine(io, &zone, &found))
    }

    /// Stops it. One with Local SSDs only where their loss was agreed to: Compute Engine keeps them for some kinds of machines alone, and copies them
    /// for minutes.
    async fn off(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        if let Some(refused) = self.would_lose(machine) {
            return Err(refused);
        }
        let (path, discard) = parts(machine);
        let discard = discard.map_or_else(String::new, |it| format!("&{it}"));
        let stop = format!("{path}/stop?noGracefulShutdown=true{discard}&requestId=");
        self.switch(io, machine, "stop", &stop).await
    }

    async fn on(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        let start = format!("{}/start?requestId=", parts(machine).0);
        self.switch(io, machine, "start", &start).await
    }

    /// Local SSDs, or what IAM says of the permission to stop this very instance.
    async fn off_denied(&self, io: &mut Io, machine: &Machine) -> Option<DeviceError> {
        if let Some(refused) = self.would_lose(machine) {
            return Some(refused);
        }
        let path = format!("{}/testIamPermissions", parts(machine).0);
        let body = json!({"permissions": [STOP]}).to_string();
        let call = Call::new(Method::POST, &path).with_json(body);
        let reply = self.ask(io, call).await.ok()?;
        let has: Permitted = io.typed(&io.main(), reply).ok()?;
        let is_denied = !has.permissions.iter().any(|it| it == STOP);
        is_denied.then(|| DeviceError::PermissionDenied {
            endpoint: machine.at.to_string(),
            request: STOP.to_owned(),
            said: "testIamPermissions of the instance".to_owned(),
            right: RIGHT,
        })
    }

    async fn fleet(
        &self,
        io: &mut Io,
        ids: &[MachineId],
        pages: &mut Pages<'_>,
    ) -> Result<(), DeviceError> {
        let mut zones: BTreeMap<String, HashMap<&str, &MachineId>> = BTreeMap::new();
        for id in ids {
            let (zone, name) = zone_of(io, id)?;
            zones.entry(zone).or_default().insert(name, id);
        }
        for (zone, by_name) in zones {
            self.list(io, &zone, &by_name, pages).await?;
        }
        Ok(())
    }

    async fn follow(&self, io: &mut Io, operation: &Operation) -> Result<Follow, DeviceError> {
        let call = Call::new(Method::GET, &operation.path);
        let reply = self.ask(io, call).await?;
        let now: ZoneOperation = io.typed(&operation.at, reply)?;
        let name = operation.path.rsplit('/').next().unwrap_or_default();
        Ok(now.follow(name))
    }
}

impl Gcp {
    /// A power-off would lose what nobody has agreed to lose.
    fn would_lose(&self, machine: &Machine) -> Option<DeviceError> {
        let loses = parts(machine).1.is_some() && !self.discards;
        loses.then(|| DeviceError::Declined {
            endpoint: machine.at.to_string(),
            problem:
                "a stop would discard the content of the instance's Local SSDs, so none is sent"
                    .to_owned(),
            way_out: "set `gcp.localSSD: Discard` if it may be lost, or use another level"
                .to_owned(),
        })
    }

    /// Of these the instances that a zone lists.
    async fn list(
        &self,
        io: &mut Io,
        zone: &str,
        by_name: &HashMap<&str, &MachineId>,
        pages: &mut Pages<'_>,
    ) -> Result<(), DeviceError> {
        let list =
            format!("{zone}/instances?maxResults={PAGE}&fields=items({FIELDS}),nextPageToken");
        let mut path = list.clone();
        for _ in 0..PAGES_MAX {
            let reply = self.ask(io, Call::new(Method::GET, &path)).await?;
            let page: Page = io.listed(&io.main(), reply)?;
            let found = page.items.0.iter().filter_map(|instance| {
                let id = by_name.get(instance.name.as_str()).copied();
                // One that is not the Node's any more is read by itself, and says why.
                let id = id.filter(|id| instance.check(id).is_ok())?;
                Some((id.clone(), machine(io, zone, instance)))
            });
            pages.add(io, found);
            let Some(token) = page.next_page_token.filter(|it| !it.is_empty()) else {
                break;
            };
            if !facts::is_page_token(&token) {
                return Err(io.protocol(&io.main(), "its next page has no usable token"));
            }
            let token = token
                .replace('+', "%2B")
                .replace('/', "%2F")
                .replace('=', "%3D");
            path = format!("{list}&pageToken={token}");
        }
        Ok(())
    }

    /// The answer to a request that only reads. A token may have been revoked, so a refusal is a reason to get another one, once a minute at most.
    async fn ask(&self, io: &mut Io, call: Call) -> Result<Reply, DeviceError> {
        let (at, call) = (io.main(), call.with_body_of_at_most(PAGE_BYTES_MAX));
        loop {
            let grant = login::grant(self, io).await?;
            let call = login::authorised(io, call.clone(), &grant)?;
            match io.read(&at, &call, StatusCode::OK, &ANSWERS).await {
                Err(DeviceError::AuthFailed { .. }) if io.account.drop_refused(&grant) => {}
                answer => return answer,
            }
        }
    }

    /// Sends one command to the instance with this number. Its token was fetched by the preparation, and nothing is asked for here (F12).
    async fn switch(
        &self,
        io: &mut Io,
        machine: &Machine,
        command: &str,
        path: &str,
    ) -> Result<Sent, DeviceError> {
        let at = &machine.at;
        let grant = login::known(self, io)?;
        let grant = grant.ok_or_else(|| io.protocol(at, "its token has ended"))?;
        let request = request_id();
        let call = Call::new(Method::POST, &format!("{path}{request}"));
        let call = login::authorised(io, call, &grant)?;
        let reply = match io.switch(at, &call, StatusCode::OK, &ANSWERS).await? {
            Ok(reply) => reply,
            Err(sent) => return Ok(sent),
        };
        let own = parts(machine).0.rsplit_once("/instances/");
        let (zone, number) = own.unwrap_or_default();
        let path = io.typed(at, reply).and_then(|operation: ZoneOperation| {
            let name = operation.of(command, number, &request);
            let name = name.map_err(|problem| io.protocol(at, &problem))?;
            Ok(format!("{zone}/operations/{name}"))
        });
        let at = at.clone();
        Ok(path.map_or_else(Sent::Unclear, |path| {
            Sent::Operation(Operation { at, path })
        }))
    }
}

/// Where the zone of an instance is, and the instance's name.
fn zone_of<'a>(io: &Io, id: &'a MachineId) -> Result<(String, &'a str), DeviceError> {
    let place = facts::place(&id.id);
    let place = place.ok_or_else(|| io.protocol(&io.main(), "the instance has no zone"))?;
    let (project, zone, name) = place;
    let zone = format!("/compute/v1/projects/{project}/zones/{zone}");
    Ok((zone, name))
}

/// No UUID is told. The number is not that of the firmware; people know the instance by it.
fn machine(io: &Io, zone: &str, instance: &Instance) -> Machine {
    let number = &instance.id;
    let path = format!("{zone}/instances/{number}");
    Machine {
        said: instance.said(),
        identity: Identity {
            system_uuid: None,
            serial_number: Some(number.clone()),
        },
        at: io.main(),
        path: match instance.local_ssds() {
            0 => path,
            _ => format!("{path}?{DISCARD}"),
        },
        // Another number under the same name is another instance.
        place: Some(format!("instance {number}")),
        restarter: instance.restarter(),
        model: Some(instance.model()),
    }
}

/// The path of an instance, and what a stop of it has to say.
fn parts(machine: &Machine) -> (&str, Option<&str>) {
    let path = machine.path.as_str();
    match path.split_once('?') {
        Some((path, discard)) => (path, Some(discard)),
        None => (path, None),
    }
}

/// A UUID of version 4: Compute Engine carries out two requests with one id once.
fn request_id() -> String {
    let mut bytes = [0; 16];
    // Without randomness there is one request with it all the same.
    let _ = getrandom::fill(&mut bytes);
    let number = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0x3 << 62);
    let hex = format!("{:032x}", number | (0x4 << 76) | (0x2 << 62));
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| hex.get(part));
    parts.map(Option::unwrap_or_default).join("-")
}

#[cfg(test)]
mod tests;
