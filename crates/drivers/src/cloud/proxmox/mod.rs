//! Driver `proxmox`: virtual machines of Proxmox VE, with an API token.
//!
//! `stopped` is reported of a hibernated VM too, by a cluster that has lost its quorum of what it knew last, and while HA is about to start the VM
//! elsewhere. So an Off is read from the node that owns the VM, beside no lock, with a quorum, that node online, and HA not at work on it.

mod facts;

use super::account::Pace;
use super::errors::{Answers, Meaning, row};
use super::fleet::Pages;
use super::io::Io;
use super::kind::{CloudKind, Fields};
use super::operation::{Follow, Operation};
use super::{Machine, MachineId, Provider, Sent, unusable};
use crate::credentials::Credentials;
use crate::http::{Call, Reply};
use crate::{DeviceError, NodeFacts};
use facts::{Listed, Owner};
use fencing_api::device::{ProxmoxDriver, TlsSettings};
use fencing_core::reading::{Identity, usable_uuid};
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, StatusCode};
use serde_json::Value;
use std::time::Duration;
use zeroize::Zeroizing;

/// Everything of the API lies below it.
const API: &str = "/api2/json";
/// The keys of the Secret.
const KEYS: [&str; 2] = ["tokenID", "tokenSecret"];
/// Longest list of virtual machines in bytes: about 10,000 of them.
const LIST_BYTES_MAX: usize = 4 << 20;
/// VMs of one name whose UUID is compared.
const NAMESAKES_MAX: usize = 8;

/// What an answer other than 200 means. Proxmox answers nearly everything with 500, 595 and 596, and says in words which it is.
const ANSWERS: Answers = Answers {
    table: &[
        row(401, "", "", Meaning::Login),
        row(403, "", "", Meaning::Denied),
        row(429, "", "", Meaning::Busy),
        row(500, "", "does not exist", Meaning::Missing),
        row(500, "", "no such vm", Meaning::Missing),
        row(500, "", "no quorum", Meaning::Busy),
        row(500, "", "not running", Meaning::Already),
        row(500, "", "already running", Meaning::Already),
        row(500, "", "is locked", Meaning::Refused),
        row(503, "", "", Meaning::Busy),
        // The node that owns the VM has no connection for the one that was asked.
        row(595, "", "", Meaning::Busy),
    ],
    words,
    right: "VM.Audit and VM.PowerMgmt on the VM, and Sys.Audit on /",
};

/// A cluster.
#[derive(Debug, Clone)]
pub struct Proxmox {
    region: Option<String>,
}

impl CloudKind for ProxmoxDriver {
    type Provider = Proxmox;
    const KEYS: &'static [&'static str] = &KEYS;
    const FIELDS: Fields = Fields {
        address: "proxmox.address",
        ca: "proxmox.tls.caRef",
    };

    fn url(&self) -> &str {
        &self.address
    }

    fn certificate(&self) -> &TlsSettings {
        &self.tls
    }

    fn provider(&self) -> Proxmox {
        Proxmox {
            region: self.region.clone(),
        }
    }

    fn check(credentials: &Credentials) -> Result<(), DeviceError> {
        token(credentials).map(drop)
    }
}

/// The header that opens everything; it has no login before it and no end.
fn token(credentials: &Credentials) -> Result<HeaderValue, DeviceError> {
    let [id, secret] = KEYS.map(|key| credentials.value(key));
    let is_id = id.split_once('!').is_some_and(|(user, name)| {
        user.contains('@') && !name.is_empty() && !id.contains([' ', '='])
    });
    if !is_id {
        let problem = "it must be user@realm!name, the ID of an API token";
        return Err(credentials.refuse("tokenID", problem).into());
    }
    let header = Zeroizing::new(format!("PVEAPIToken={id}={secret}"));
    let mut value = HeaderValue::from_str(&header)
        .map_err(|_| credentials.refuse("tokenSecret", "it cannot be put into a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

impl Provider for Proxmox {
    const NAME: &'static str = "proxmox";

    /// A reading takes four requests, and the machines that answer them are the team's own.
    const PACE: Pace = Pace {
        period: Duration::from_millis(10),
        ..Pace::USUAL
    };

    /// `proxmox://REGION/VMID` of the cloud controller manager; else the VM with the Node's name whose UUID is that in `proxmox://UUID` of Cluster
    /// API, or the one that the Node reports.
    fn machine(&self, node: &NodeFacts) -> Result<MachineId, DeviceError> {
        let of = |id: String| MachineId::of(node, id);
        if node.provider_id.is_empty() {
            let uuid = usable_uuid(&node.system_uuid).map(|_| node.system_uuid.to_lowercase());
            return uuid
                .map(of)
                .ok_or_else(|| unusable(node, "it reports no system UUID that names one machine"));
        }
        let Some(rest) = node.provider_id.strip_prefix("proxmox://") else {
            return Err(unusable(node, "driver `proxmox` needs proxmox://"));
        };
        let Some((region, id)) = rest.split_once('/') else {
            return match usable_uuid(rest) {
                Some(_) => Ok(of(rest.to_lowercase())),
                None => Err(unusable(
                    node,
                    "it is neither proxmox://REGION/VMID nor proxmox://UUID",
                )),
            };
        };
        if self.region.as_deref().is_some_and(|own| own != region) {
            return Err(unusable(node, "`proxmox.region` is another one"));
        }
        match facts::vm_number(id) {
            Some(_) => Ok(of(id.to_owned())),
            None => Err(unusable(node, "its VMID is no number from 100 on")),
        }
    }

    async fn read(&self, io: &mut Io, id: &MachineId) -> Result<Machine, DeviceError> {
        let (owner, config) = find(io, id).await?;
        let at = io.main();
        let path = owner.path();
        let status = get(io, &format!("{path}/status/current")).await?;
        // After it: what it says holds only where there still is a quorum and the node is there.
        let cluster = get(io, "/cluster/status").await?;
        facts::check_owner(&status, &owner).map_err(|problem| io.protocol(&at, &problem))?;
        Ok(Machine {
            said: facts::said(&config, &status, &cluster, &owner),
            identity: facts::identity(&config),
            place: Some(owner.node.clone()),
            restarter: facts::restarter(&status),
            model: Some(owner.to_string()),
            at,
            path,
        })
    }

    /// Stops it at once. Of a VM that HA manages the cluster makes a request to HA, whose task ends before the VM does.
    async fn off(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        switch(io, machine, "stop").await
    }

    /// What the token may do with the VM; of itself a token may always ask that.
    async fn off_denied(&self, io: &mut Io, machine: &Machine) -> Option<DeviceError> {
        let vm = machine.path.rsplit('/').next().unwrap_or_default();
        let path = format!("/access/permissions?path=/vms/{vm}");
        let permissions = get(io, &path).await.ok()?;
        facts::may_only_read(&permissions).then(|| DeviceError::PermissionDenied {
            endpoint: machine.at.to_string(),
            request: facts::POWER.to_owned(),
            said: format!("its permissions on /vms/{vm}"),
            right: ANSWERS.right,
        })
    }

    /// Starts it, unless that would load the memory of before: the volumes have moved since.
    async fn on(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        let config = get(io, &format!("{}/config?current=1", machine.path)).await?;
        if facts::keeps_memory(&config) {
            return Err(DeviceError::Refused {
                endpoint: machine.at.to_string(),
                problem: "the VM is hibernated, and a start would resume its old memory; delete its saved state, then start it by hand".to_owned(),
            });
        }
        switch(io, machine, "start").await
    }

    async fn fleet(
        &self,
        io: &mut Io,
        ids: &[MachineId],
        pages: &mut Pages<'_>,
    ) -> Result<(), DeviceError> {
        let listed = list(io).await?;
        let at = io.main();
        let one = |id: &MachineId| {
            let mut found = listed.iter().filter(|it| it.may_be(id));
            // Of two of one name each is read by itself.
            let vm = found.next().filter(|_| found.next().is_none())?;
            let machine = Machine {
                said: vm.said(),
                identity: Identity::default(),
                at: at.clone(),
                path: vm.owner.path(),
                place: Some(vm.owner.node.clone()),
                restarter: vm.restarter(),
                model: Some(vm.owner.to_string()),
            };
            Some((id.clone(), machine))
        };
        pages.add(io, ids.iter().filter_map(one));
        Ok(())
    }

    async fn follow(&self, io: &mut Io, operation: &Operation) -> Result<Follow, DeviceError> {
        let task = get(io, &operation.path).await?;
        Ok(facts::task(&task))
    }
}

/// The node that owns the VM, and the VM's settings as that node has them. The list is a few seconds old, so it says only where to ask.
async fn find(io: &mut Io, id: &MachineId) -> Result<(Owner, Value), DeviceError> {
    let listed = list(io).await?;
    let at = io.main();
    let owners = listed.into_iter().filter(|it| it.may_be(id));
    let mut found = Vec::new();
    for Listed { owner, .. } in owners.take(NAMESAKES_MAX) {
        // As it is, and not as it will be after changes that are pending.
        let config = get(io, &format!("{}/config?current=1", owner.path())).await?;
        if facts::vm_number(&id.id).is_some() || facts::identity(&config).is_system(&id.id) {
            found.push((owner, config));
        }
    }
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (one, _) => Err(DeviceError::Declined {
            endpoint: at.to_string(),
            problem: match one {
                Some(_) => format!("several VMs are {} of Node {}", id.id, id.node),
                None => format!("no VM is {} of Node {}, which is no Off", id.id, id.node),
            },
            way_out: "check the Node's `spec.providerID`, that a VM found by its UUID has the name of the Node, and that the token has VM.Audit".to_owned(),
        }),
    }
}

/// All VMs that the token may see.
async fn list(io: &mut Io) -> Result<Vec<Listed>, DeviceError> {
    let call = Call::new(Method::GET, "/cluster/resources?type=vm");
    let reply = ask(io, call.with_body_of_at_most(LIST_BYTES_MAX)).await?;
    let listed = facts::list(&reply.body?);
    listed.map_err(|problem| io.protocol(&io.main(), &problem))
}

/// Sends one command to the VM.
async fn switch(io: &mut Io, machine: &Machine, word: &str) -> Result<Sent, DeviceError> {
    let path = format!("{}/status/{word}", machine.path);
    let call = authorised(io, Call::new(Method::POST, &path).with_form(""))?;
    let reply = match io
        .switch(&machine.at, &call, StatusCode::OK, &ANSWERS)
        .await?
    {
        Ok(reply) => reply,
        Err(sent) => return Ok(sent),
    };
    let document = io.document(&machine.at, reply);
    let task = document.map(|document| facts::task_path(&document, &machine.path));
    match task {
        Ok(Ok(path)) => Ok(Sent::Operation(Operation {
            at: machine.at.clone(),
            path,
        })),
        Ok(Err(problem)) => Ok(Sent::Unclear(io.protocol(&machine.at, &problem))),
        Err(error) => Ok(Sent::Unclear(error)),
    }
}

/// What a path below the API says: what stands under `data`.
async fn get(io: &mut Io, path: &str) -> Result<Value, DeviceError> {
    let reply = ask(io, Call::new(Method::GET, path)).await?;
    io.document(&io.main(), reply)
}

async fn ask(io: &mut Io, call: Call) -> Result<Reply, DeviceError> {
    let (at, call) = (io.main(), authorised(io, call)?);
    io.read(&at, &call, StatusCode::OK, &ANSWERS).await
}

fn authorised(io: &Io, call: Call) -> Result<Call, DeviceError> {
    let path = format!("{API}{}", call.path);
    let call = Call { path, ..call };
    Ok(call.with_header(AUTHORIZATION, token(&io.credentials())?))
}

/// The message stands in the body, or, of older versions, in the first line of the answer alone.
fn words(reply: &Reply) -> (String, String) {
    let body = reply.body.as_deref().unwrap_or_default();
    let body: Option<Value> = serde_json::from_slice(body).ok();
    let said = body.as_ref().and_then(|body| body.get("message")?.as_str());
    let message = said.or(reply.phrase.as_deref()).unwrap_or_default();
    (String::new(), message.trim().to_owned())
}

#[cfg(test)]
mod tests;
