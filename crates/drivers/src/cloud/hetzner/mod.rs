//! Driver `hetznerCloud`: servers of Hetzner Cloud, with the token of a project.
//!
//! Hetzner tells no UUID of a server, so that no machine is pinned: a server is the Node's by the id in its provider ID, by its name and by an
//! address, each time it is read. An Off counts once a power-off has succeeded and nothing was begun since.

mod facts;

use super::account::Pace;
use super::errors::{ANY_STATUS, Answers, Meaning, row, words_of_error};
use super::fleet::Pages;
use super::io::Io;
use super::kind::addressed;
use super::operation::{Follow, Operation};
use super::words::Said;
use super::{Machine, MachineId, Provider, Sent, foreign, unusable};
use crate::credentials::Credentials;
use crate::http::{Call, Reply};
use crate::json::Few;
use crate::{DeviceError, NodeFacts};
use facts::{Action, Of, Server};
use fencing_api::device::HetznerCloudDriver;
use fencing_core::reading::Identity;
use http::header::AUTHORIZATION;
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::time::Duration;

/// The key of the Secret. The token has no login before it and no end.
const KEYS: [&str; 1] = ["token"];
/// Everything of a server lies below it.
const SERVERS: &str = "/v1/servers";
/// Servers of one page, which is the most there is, and pages that are asked for: what is beyond is read by itself.
const PAGE: usize = 50;
const PAGES_MAX: usize = 40;
/// Longest page in bytes: a server takes some 8,000, most of them prices.
const PAGE_BYTES_MAX: usize = 2 << 20;
/// Newest actions of a server that are looked at.
const ACTIONS_MAX: usize = 25;
/// Where the project has fewer requests left, those are for fences, and lists wait.
const REQUESTS_KEPT: u32 = 600;

/// What an answer other than a success means. One status has many codes, and Hetzner's own clients go by the code. `conflict` is in no row: it
/// asks for a repetition, and does not say what became of the request.
const ANSWERS: Answers = Answers {
    table: &[
        row(ANY_STATUS, "unauthorized", "", Meaning::Login),
        row(ANY_STATUS, "forbidden", "", Meaning::Denied),
        row(ANY_STATUS, "token_readonly", "", Meaning::Denied),
        row(ANY_STATUS, "not_found", "", Meaning::Missing),
        // Another action is at work on the server.
        row(ANY_STATUS, "locked", "", Meaning::Busy),
        row(ANY_STATUS, "resource_locked", "", Meaning::Refused),
        row(ANY_STATUS, "maintenance", "", Meaning::Busy),
        row(ANY_STATUS, "rate_limit_exceeded", "", Meaning::Busy),
        row(429, "", "", Meaning::Busy),
    ],
    words: words_of_error,
    right: "a token of its project with read and write",
};

/// A project.
#[derive(Debug, Clone, Copy)]
pub struct HetznerCloud;

addressed!(HetznerCloudDriver, HetznerCloud => HetznerCloud, KEYS, "hetznerCloud",
    fn check(credentials: &Credentials) -> Result<(), DeviceError> {
        credentials.bearer(KEYS[0])?;
        Ok(())
    }
);

impl Provider for HetznerCloud {
    const NAME: &'static str = "hetznerCloud";
    /// A project has 3,600 requests, and one more each second, which it shares with everything else that has a token of it.
    const PACE: Pace = Pace {
        period: Duration::from_secs(2),
        burst: 1200,
        list_age_max: Duration::from_mins(1),
    };

    /// `hcloud://ID` of the cloud controller manager. A dedicated server (`hrobot://N`, once `hcloud://bm-N`) has no power that is told.
    fn machine(&self, node: &NodeFacts) -> Result<MachineId, DeviceError> {
        let id = node.provider_id.strip_prefix("hcloud://");
        match id.filter(|id| facts::number(id).is_some()) {
            Some(id) => Ok(MachineId::of(node, id.to_owned())),
            None => Err(unusable(node, "driver `hetznerCloud` needs hcloud://ID")),
        }
    }

    async fn read(&self, io: &mut Io, id: &MachineId) -> Result<Machine, DeviceError> {
        let path = format!("{SERVERS}/{}", id.id);
        let server: Server = get(io, &path).await?;
        let checked = server.check(id);
        checked.map_err(|problem| foreign(io, id, &problem))?;
        let mut said = server.said();
        if said.is_off() {
            let newest = format!("{path}/actions?sort=id:desc&per_page={ACTIONS_MAX}");
            let actions: Vec<Action> = get(io, &newest).await?;
            if let Some(fault) = facts::against_off(&actions) {
                said = said.only_if(false, fault);
            }
        }
        Ok(machine(io, id, &server, said))
    }

    /// Cuts the power at once; the guest is not asked.
    async fn off(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        switch(io, machine, "poweroff").await
    }

    async fn on(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        switch(io, machine, "poweron").await
    }

    async fn fleet(
        &self,
        io: &mut Io,
        ids: &[MachineId],
        pages: &mut Pages<'_>,
    ) -> Result<(), DeviceError> {
        let by_id: HashMap<&str, &MachineId> = ids.iter().map(|id| (id.id.as_str(), id)).collect();
        for page in 1..=PAGES_MAX {
            let list = format!("{SERVERS}?sort=id:asc&per_page={PAGE}&page={page}");
            let reply = ask(io, &list).await?;
            io.spares(&reply, REQUESTS_KEPT)?;
            let Of { it: servers }: Of<Few<Server, PAGE>> = io.listed(&io.main(), reply)?;
            let Few(servers) = servers;
            let is_last = servers.len() < PAGE;
            let found = servers.iter().filter_map(|server| {
                let id = by_id.get(server.id.to_string().as_str()).copied();
                // One that is not the Node's any more is read by itself, and says why.
                let id = id.filter(|id| server.check(id).is_ok())?;
                Some((id.clone(), machine(io, id, server, server.said())))
            });
            pages.add(io, found);
            if is_last {
                break;
            }
        }
        Ok(())
    }

    async fn follow(&self, io: &mut Io, operation: &Operation) -> Result<Follow, DeviceError> {
        let action: Action = get(io, &operation.path).await?;
        Ok(action.follow(&operation.path))
    }
}

/// No UUID is told. The id is the serial number that the firmware shows to the guest: cloud-init knows Hetzner by it.
fn machine(io: &Io, id: &MachineId, server: &Server, said: Said) -> Machine {
    Machine {
        said,
        identity: Identity {
            system_uuid: None,
            serial_number: Some(id.id.clone()),
        },
        at: io.main(),
        path: format!("{SERVERS}/{}", id.id),
        place: None,
        restarter: None,
        model: Some(server.model()),
    }
}

/// Sends one command to the server.
async fn switch(io: &mut Io, machine: &Machine, command: &str) -> Result<Sent, DeviceError> {
    let path = format!("{}/actions/{command}", machine.path);
    let call = Call::new(Method::POST, &path);
    let call = call.with_header(AUTHORIZATION, io.credentials().bearer(KEYS[0])?);
    let id = machine.path.rsplit('/').next().unwrap_or_default();
    let taken = StatusCode::CREATED;
    io.order(&machine.at, &call, taken, &ANSWERS, |io, reply| {
        let path = about::<Action>(io, reply)?.path(id);
        path.map_err(|problem| io.protocol(&machine.at, &problem))
    })
    .await
}

async fn get<T: DeserializeOwned>(io: &mut Io, path: &str) -> Result<T, DeviceError> {
    let reply = ask(io, path).await?;
    about(io, reply)
}

fn about<T: DeserializeOwned>(io: &Io, reply: Reply) -> Result<T, DeviceError> {
    io.typed(&io.main(), reply).map(|Of { it }| it)
}

async fn ask(io: &mut Io, path: &str) -> Result<Reply, DeviceError> {
    let (at, token) = (io.main(), io.credentials().bearer(KEYS[0])?);
    let call = Call::new(Method::GET, path).with_header(AUTHORIZATION, token);
    let call = call.with_body_of_at_most(PAGE_BYTES_MAX);
    io.read(&at, &call, StatusCode::OK, &ANSWERS).await
}

#[cfg(test)]
mod tests;
