//! Driver `vsphere`: virtual machines of a vCenter, over its Web Services API (SOAP).
//!
//! A vCenter goes on showing `poweredOff` of a VM whose host it has lost, and a suspended VM keeps its memory. So an Off needs a VM and a host that
//! are connected, in one answer, and no failover of vSphere HA. REST knows no state of the host, and fails above 1,000 VMs.

mod facts;
mod soap;

use super::account::Grant;
use super::errors::{Answers, Meaning, row};
use super::fleet::Pages;
use super::io::Io;
use super::kind::addressed;
use super::operation::{Follow, Operation};
use super::spelling::spellings;
use super::{Machine, MachineId, Provider, Sent, by_uuid, check_name, not_one};
use crate::credentials::LOGIN as KEYS;
use crate::http::{Call, Reply};
use crate::{DeviceError, NodeFacts};
use facts::Vm;
use fencing_api::device::VsphereDriver;
use http::header::COOKIE;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use soap::Content;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

const PATH: &str = "/sdk";
/// A session ends after half an hour without a request; it is renewed before that.
const SESSION_TIME: Duration = Duration::from_mins(20);
const COOKIE_NAME: &str = "vmware_soap_session";
/// VMs of one page of a list, and pages that are asked for: what is beyond is read by itself.
const PAGE: usize = 100;
const PAGES_MAX: usize = 50;
const PAGE_BYTES_MAX: usize = 4 << 20;

/// What an account has to have, to read a VM and to turn it off.
const PRIVILEGES: [&str; 2] = ["System.Read", "VirtualMachine.Interact.PowerOff"];

/// What a fault means. Every fault has the status 500.
const ANSWERS: Answers = Answers {
    table: &[
        row(500, "InvalidLogin", "", Meaning::Login),
        row(500, "NotAuthenticated", "", Meaning::Denied),
        row(500, "NoPermission", "", Meaning::Denied),
        row(500, "ManagedObjectNotFound", "", Meaning::Missing),
        row(500, "InvalidPowerState", "", Meaning::Already),
        row(500, "InvalidState", "", Meaning::Refused),
        row(500, "TaskInProgress", "", Meaning::Busy),
        row(500, "HostNotConnected", "", Meaning::Busy),
        row(429, "", "", Meaning::Busy),
        row(503, "", "", Meaning::Busy),
    ],
    words,
    right: "System.Read on the VM and its host, and VirtualMachine.Interact.PowerOff (PowerOn for `powerOn`) on the VM",
};

/// A vCenter.
#[derive(Debug, Clone, Copy)]
pub struct Vsphere;

addressed!(VsphereDriver, Vsphere => Vsphere, KEYS, "vsphere");

impl Provider for Vsphere {
    const NAME: &'static str = "vsphere";

    /// `vsphere://UUID` of the cloud controller manager; without a provider ID the system UUID, which is the same one, and the name.
    fn machine(&self, node: &NodeFacts) -> Result<MachineId, DeviceError> {
        let needs = "driver `vsphere` needs vsphere://UUID";
        by_uuid(node, "vsphere://", |rest| rest, needs)
    }

    async fn read(&self, io: &mut Io, id: &MachineId) -> Result<Machine, DeviceError> {
        let mut found = Vec::new();
        for uuid in spellings(&id.id) {
            let answer = ask(io, |content| soap::find(content, &uuid)).await?;
            found.extend(understood(io, facts::references(&answer))?);
        }
        found.sort();
        found.dedup();
        let (Some(vm), true) = (found.first(), found.len() == 1) else {
            return Err(not_one(&io.main(), id, found.len()));
        };
        let answer = ask(io, |content| soap::read(content, vm)).await?;
        let vm = understood(io, facts::vm(&answer, vm))?;
        check_name(io, id, &vm.name)?;
        Ok(machine(io, vm))
    }

    async fn off(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        switch(io, machine, false).await
    }

    /// What the session may do with the VM. An account whose rights begin below the root folder may not even ask.
    async fn off_denied(&self, io: &mut Io, machine: &Machine) -> Option<DeviceError> {
        let grant = session(io).await.ok()?;
        let content = kept(&grant);
        let question = soap::privileges(&content, &machine.path, &PRIVILEGES)?;
        let call = with_session(call(&content.version, question), &grant).ok()?;
        let reply = io.read(&io.main(), &call, StatusCode::OK, &ANSWERS).await;
        let has = facts::privileges(&body(io, reply.ok()?).ok()?).ok()?;
        let granted = PRIVILEGES.map(|asked| has.get(asked).copied());
        // What it has just read it may read: otherwise the answer is not about this session.
        (granted == [Some(true), Some(false)]).then(|| DeviceError::PermissionDenied {
            endpoint: machine.at.to_string(),
            request: PRIVILEGES[1].to_owned(),
            said: "HasPrivilegeOnEntities of the VM".to_owned(),
            right: ANSWERS.right,
        })
    }

    async fn on(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        switch(io, machine, true).await
    }

    async fn fleet(
        &self,
        io: &mut Io,
        ids: &[MachineId],
        pages: &mut Pages<'_>,
    ) -> Result<(), DeviceError> {
        let answer = ask(io, soap::view).await?;
        let view = understood(io, facts::references(&answer))?.pop();
        let view = understood(io, view.ok_or_else(|| "it gives no view".to_owned()))?;
        let mut found = Vec::new();
        let mut answer = ask(io, |content| soap::page(content, &view, PAGE)).await;
        for _ in 0..PAGES_MAX {
            let (vms, next) = understood(io, facts::vms(&answer?))?;
            for vm in vms {
                let is_it =
                    |id: &&MachineId| vm.identity.is_system(&id.id) && id.may_be_called(&vm.name);
                if let Some(id) = ids.iter().find(is_it) {
                    found.push((id.clone(), machine(io, vm)));
                }
            }
            let Some(token) = next else {
                break;
            };
            answer = ask(io, |content| soap::next_page(content, &token)).await;
        }
        // Two VMs of one UUID are each read by itself.
        let twice = |id: &MachineId, all: &[(MachineId, Machine)]| {
            all.iter().filter(|(other, _)| other == id).count() > 1
        };
        let all = found.clone();
        found.retain(|(id, _)| !twice(id, &all));
        ask(io, |_| soap::destroy(&view)).await?;
        pages.add(io, found);
        Ok(())
    }

    async fn follow(&self, io: &mut Io, operation: &Operation) -> Result<Follow, DeviceError> {
        let task = &operation.path;
        let answer = ask(io, |content| soap::task(content, task)).await?;
        understood(io, facts::follow(&answer, task))
    }
}

fn machine(io: &Io, vm: Vm) -> Machine {
    Machine {
        said: vm.said,
        identity: vm.identity,
        at: io.main(),
        path: vm.reference,
        place: vm.host,
        restarter: vm.restarter,
        model: vm.model,
    }
}

/// Sends one command; its session was opened by the preparation, and nothing is asked for here (F12).
async fn switch(io: &mut Io, machine: &Machine, on: bool) -> Result<Sent, DeviceError> {
    let grant = io.account.grant();
    let grant = grant.ok_or_else(|| io.protocol(&machine.at, "its session has ended"))?;
    let content = kept(&grant);
    let call = call(&content.version, soap::switch(&machine.path, on));
    let call = with_session(call, &grant)?;
    let at = machine.at.clone();
    let reply = match io.switch(&at, &call, StatusCode::OK, &ANSWERS).await? {
        Ok(reply) => reply,
        Err(sent) => return Ok(sent),
    };
    let answer = body(io, reply);
    let task = answer.and_then(|answer| understood(io, facts::references(&answer)));
    Ok(match task.map(<[String; 1]>::try_from) {
        Ok(Ok([path])) => Sent::Operation(Operation { at, path }),
        Ok(Err(_)) => {
            Sent::Unclear(io.protocol(&at, "the command was taken, and it names no task"))
        }
        Err(error) => Sent::Unclear(error),
    })
}

/// The answer to a request within a session. One that was opened a while ago may have been ended, so it is opened again, once a minute at most.
async fn ask(io: &mut Io, request: impl Fn(&Content) -> String) -> Result<String, DeviceError> {
    loop {
        let grant = session(io).await?;
        let content = kept(&grant);
        let call = with_session(call(&content.version, request(&content)), &grant)?;
        match io.read(&io.main(), &call, StatusCode::OK, &ANSWERS).await {
            Ok(reply) => return body(io, reply),
            Err(DeviceError::PermissionDenied { .. }) if io.account.drop_refused(&grant) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The session that the account has, or another.
async fn session(io: &mut Io) -> Result<Grant, DeviceError> {
    let account = Arc::clone(&io.account);
    let _turn = account.login().await;
    if let Some(grant) = account.grant() {
        return Ok(grant);
    }
    let (at, credentials) = (io.main(), io.credentials());
    let hello = call("6.7", soap::content());
    let reply = io.read(&at, &hello, StatusCode::OK, &ANSWERS).await?;
    let answer = body(io, reply)?;
    let content = understood(io, facts::content_of(&answer))?;
    let [user, password] = KEYS.map(|key| credentials.value(key));
    let login = call(&content.version, soap::login(&content, user, password));
    let since = io.now();
    let reply = io.read(&at, &login, StatusCode::OK, &ANSWERS).await?;
    let cookies = reply.headers.get_all(http::header::SET_COOKIE).iter();
    let own = cookies.filter_map(|it| it.to_str().ok()?.split(';').next()?.split_once('='));
    let mut own = own.filter(|(name, _)| name.trim() == COOKIE_NAME);
    let token = own.next().map(|(_, value)| value.to_owned());
    let token = Zeroizing::new(token.unwrap_or_default());
    // Only for a question in peace time: no login fails for it.
    let session = body(io, reply).map_or_else(|_| String::new(), |it| facts::session_key(&it));
    if token.is_empty() {
        return Err(io.protocol(&at, "its login opens no session"));
    }
    let endpoints = [
        content.version,
        content.session_manager,
        content.search_index,
        content.property_collector,
        content.view_manager,
        content.root_folder,
        content.authorization_manager,
        session,
    ];
    let grant = Grant {
        token,
        since,
        until: since + SESSION_TIME,
        endpoints: endpoints.map(|it| (String::new(), it)).to_vec(),
    };
    account.keep(grant.clone());
    Ok(grant)
}

/// What the login has found, as the account keeps it.
fn kept(grant: &Grant) -> Content {
    let of = |place: usize| {
        grant
            .endpoints
            .get(place)
            .map_or_else(String::new, |(_, it)| it.clone())
    };
    Content {
        version: of(0),
        session_manager: of(1),
        search_index: of(2),
        property_collector: of(3),
        view_manager: of(4),
        root_folder: of(5),
        authorization_manager: of(6),
        session: of(7),
    }
}

fn call(version: &str, envelope: String) -> Call {
    let action = HeaderValue::from_str(&format!("urn:vim25/{version}"));
    let action = action.unwrap_or_else(|_| HeaderValue::from_static("urn:vim25/6.7"));
    Call::new(Method::POST, PATH)
        .with_xml(envelope)
        .with_header(HeaderName::from_static("soapaction"), action)
        .with_body_of_at_most(PAGE_BYTES_MAX)
}

fn with_session(call: Call, grant: &Grant) -> Result<Call, DeviceError> {
    let cookie = Zeroizing::new(format!("{COOKIE_NAME}={}", *grant.token));
    let mut cookie = HeaderValue::from_str(&cookie).map_err(|_| DeviceError::Settings {
        field: "vsphere.address",
        problem: "its session cannot be put into a header".to_owned(),
    })?;
    cookie.set_sensitive(true);
    Ok(call.with_header(COOKIE, cookie))
}

fn body(io: &Io, reply: Reply) -> Result<String, DeviceError> {
    let bytes = reply.body?;
    let text = String::from_utf8(bytes.to_vec());
    text.map_err(|_| io.protocol(&io.main(), "its answer is no text"))
}

fn understood<T>(io: &Io, answer: Result<T, String>) -> Result<T, DeviceError> {
    answer.map_err(|problem| io.protocol(&io.main(), &problem))
}

fn words(reply: &Reply) -> (String, String) {
    let body = reply.body.as_deref().unwrap_or_default();
    let text = std::str::from_utf8(body).unwrap_or_default();
    facts::fault(text).unwrap_or_default()
}

#[cfg(test)]
mod tests;
