//! Driver `nutanix`: virtual machines of AHV, through version 4 of the API of a Prism Central.
//!
//! A command names the version of the VM that was read before it, so that it meets no other. An Off needs that no other VM could be the same
//! machine: after an unplanned failover to another site the one that was left behind reads off.

mod facts;

use super::account::Pace;
use super::errors::{Answers, Meaning, coded, row};
use super::fleet::Pages;
use super::io::Io;
use super::kind::addressed;
use super::operation::{Follow, Operation};
use super::spelling::{encoded, spellings};
use super::words::Said;
use super::{Machine, MachineId, Provider, Sent, by_uuid, check_name, foreign};
use crate::credentials::{API_KEY, Credentials, LOGIN};
use crate::http::{Call, Reply};
use crate::{DeviceError, NodeFacts};
use facts::{All, Of, Task, Vm};
use fencing_api::device::NutanixDriver;
use http::header::{AUTHORIZATION, ETAG, IF_MATCH};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use std::time::Duration;

/// The keys of the Secret: the first one is instead of the others.
const KEYS: [&str; 3] = [API_KEY, LOGIN[0], LOGIN[1]];
/// Everything of a VM lies below it. Version 4.0 is that of pc.2024.3, and later ones serve it.
const VMS: &str = "/api/vmm/v4.0/ahv/config/vms";
const TASKS: &str = "/api/prism/v4.0/config/tasks";
/// What a list shows of a VM.
const SELECTED: &str = "extId,name,biosUuid,powerState,isAgentVm,isCrossClusterMigrationInProgress";
/// VMs of one page, which is the most there is, and pages that are asked for: what is beyond is read by itself.
const PAGE: usize = 100;
const PAGES_MAX: usize = 50;
const PAGE_BYTES_MAX: usize = 1 << 20;

/// What an answer other than a success means. Few codes are documented. `VMM-30303`: the VM has changed since it was read.
const ANSWERS: Answers = Answers {
    table: &[
        row(401, "", "", Meaning::Login),
        row(403, "", "", Meaning::Denied),
        row(404, "VMM-20005", "", Meaning::Missing),
        row(404, "", "not_found", Meaning::Missing),
        row(404, "", "could not find", Meaning::Missing),
        coded("VMM-30303", Meaning::Busy),
        row(412, "", "", Meaning::Busy),
        row(429, "", "", Meaning::Busy),
    ],
    words,
    right: "a role that may see the VM and its tasks, and turn it off (on for `powerOn`)",
};

/// A Prism Central.
#[derive(Debug, Clone, Copy)]
pub struct Nutanix;

addressed!(NutanixDriver, Nutanix => Nutanix, KEYS, "nutanix",
    fn check(credentials: &Credentials) -> Result<(), DeviceError> {
        login(credentials).map(drop)
    }
);

/// The header that opens everything: a key of a service account, or user and password.
fn login(credentials: &Credentials) -> Result<(HeaderName, HeaderValue), DeviceError> {
    match credentials.value(API_KEY).is_empty() {
        true => Ok((AUTHORIZATION, credentials.basic()?)),
        false => Ok((
            HeaderName::from_static("x-ntnx-api-key"),
            credentials.bare(API_KEY)?,
        )),
    }
}

impl Provider for Nutanix {
    const NAME: &'static str = "nutanix";
    /// Prism Central limits its clients by numbers that it does not publish.
    const PACE: Pace = Pace {
        period: Duration::from_millis(200),
        burst: 50,
        list_age_max: Duration::from_mins(1),
    };

    /// `nutanix://UUID` of the cloud controller manager; without a provider ID the system UUID, which is the id of a VM that was not recovered,
    /// and the name.
    fn machine(&self, node: &NodeFacts) -> Result<MachineId, DeviceError> {
        let needs = "driver `nutanix` needs nutanix://UUID";
        by_uuid(node, "nutanix://", |rest| rest, needs)
    }

    async fn read(&self, io: &mut Io, id: &MachineId) -> Result<Machine, DeviceError> {
        let (at, reply) = (io.main(), ask(io, &format!("{VMS}/{}", id.id)).await?);
        let tag = reply.headers.get(ETAG).and_then(|tag| tag.to_str().ok());
        let tag = tag.unwrap_or_default().to_owned();
        let Of { data: vm } = io.listed::<Of<Vm>>(&at, reply)?;
        if !vm.is(id) {
            return Err(foreign(io, id, &format!("it shows VM {}", vm.ext_id)));
        }
        check_name(io, id, &vm.name)?;
        let mut said = vm.said();
        if said.is_off() {
            let others = namesakes(io, &vm).await?;
            let is_alone = !others.iter().any(|other| other.may_stand_for(&vm));
            // A list without the machine itself, or with more behind it, says nothing of others.
            let is_listed = others.iter().any(|it| it.is(id));
            said = said
                .only_if(is_listed, "the list of its name lacks it")
                .only_if(
                    others.len() < PAGE,
                    "more VMs have its name than are listed",
                )
                .only_if(is_alone, "another VM has its name");
        }
        Ok(machine(io, &vm, said, &tag))
    }

    /// Cuts the power at once; the guest is not asked.
    async fn off(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        switch(io, machine, "power-off", "in state Off").await
    }

    async fn on(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        switch(io, machine, "power-on", "in state On").await
    }

    async fn fleet(
        &self,
        io: &mut Io,
        ids: &[MachineId],
        pages: &mut Pages<'_>,
    ) -> Result<(), DeviceError> {
        for page in 0..PAGES_MAX {
            let vms = list(io, &format!("$page={page}")).await?;
            let is_last = vms.len() < PAGE;
            let found = vms.iter().filter_map(|vm| {
                let mut own = ids.iter().filter(|id| vm.is(id));
                let id = own.find(|id| id.may_be_called(&vm.name))?;
                Some((id.clone(), machine(io, vm, vm.said(), "")))
            });
            pages.add(io, found);
            if is_last {
                break;
            }
        }
        Ok(())
    }

    async fn follow(&self, io: &mut Io, operation: &Operation) -> Result<Follow, DeviceError> {
        // As `switch` has it.
        let (path, wanted) = operation.path.split_once('\n').unwrap_or_default();
        let reply = ask(io, path).await?;
        let Of { data: task } = io.typed::<Of<Task>>(&operation.at, reply)?;
        Ok(task.follow(path, wanted))
    }
}

/// The path holds the version of the VM too, in a line of its own: a command is for that one alone.
fn machine(io: &Io, vm: &Vm, said: Said, tag: &str) -> Machine {
    Machine {
        said,
        identity: vm.identity(),
        at: io.main(),
        path: format!("{VMS}/{}\n{tag}", vm.ext_id),
        place: None,
        restarter: vm.restarter(),
        model: Some(format!("VM {}", vm.name)),
    }
}

/// VMs with the name of this one, itself among them.
async fn namesakes(io: &mut Io, vm: &Vm) -> Result<Vec<Vm>, DeviceError> {
    let filter = format!("name eq '{}'", vm.name.replace('\'', "''"));
    list(io, &format!("$filter={}", encoded(&filter))).await
}

/// VMs of a page, or of a filter.
async fn list(io: &mut Io, query: &str) -> Result<Vec<Vm>, DeviceError> {
    let path = format!("{VMS}?{query}&$limit={PAGE}&$select={SELECTED}");
    let reply = ask(io, &path).await?;
    io.listed::<All<Vm>>(&io.main(), reply).map(All::items)
}

/// Sends one command. The path of its operation has a line of its own with the words for the state that it is to bring about: a task that failed
/// tells only in which state it found the VM.
async fn switch(
    io: &mut Io,
    machine: &Machine,
    command: &str,
    wanted: &str,
) -> Result<Sent, DeviceError> {
    let (path, tag) = machine.path.split_once('\n').unwrap_or_default();
    let headers = HeaderValue::from_str(&request_id()).and_then(|request| {
        let tag = HeaderValue::from_str(tag)?;
        Ok((request, tag))
    });
    // Without both it is refused.
    let Some((request, tag)) = headers.ok().filter(|(_, tag)| !tag.is_empty()) else {
        return Err(DeviceError::Refused {
            endpoint: machine.at.to_string(),
            problem: "its answer has no ETag, which a command has to name".to_owned(),
        });
    };
    let call = Call::new(Method::POST, &format!("{path}/$actions/{command}"));
    let call = authorised(io, call)?
        .with_header(HeaderName::from_static("ntnx-request-id"), request)
        .with_header(IF_MATCH, tag);
    let taken = StatusCode::ACCEPTED;
    io.order(&machine.at, &call, taken, &ANSWERS, |io, reply| {
        let Of { data: task } = io.typed::<Of<Task>>(&machine.at, reply)?;
        let path = task.id().map(|id| format!("{TASKS}/{id}\n{wanted}"));
        path.ok_or_else(|| io.protocol(&machine.at, "the command was taken, and it names no task"))
    })
    .await
}

/// A UUID of version 4, which no other request has.
fn request_id() -> String {
    let mut bytes = [0; 16];
    // Without randomness: the same ID twice, which Prism Central takes for the same request. No supported system lacks it.
    let _ = getrandom::fill(&mut bytes);
    let [.., version, _, variant, _, _, _, _, _, _, _] = &mut bytes;
    *version = (*version & 0x0f) | 0x40;
    *variant = (*variant & 0x3f) | 0x80;
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    spellings(&digits).into_iter().next().unwrap_or(digits)
}

async fn ask(io: &mut Io, path: &str) -> Result<Reply, DeviceError> {
    let call = Call::new(Method::GET, path).with_body_of_at_most(PAGE_BYTES_MAX);
    let (at, call) = (io.main(), authorised(io, call)?);
    io.read(&at, &call, StatusCode::OK, &ANSWERS).await
}

fn authorised(io: &Io, call: Call) -> Result<Call, DeviceError> {
    let (name, value) = login(&io.credentials())?;
    Ok(call.with_header(name, value))
}

fn words(reply: &Reply) -> (String, String) {
    facts::words(reply.body.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests;
