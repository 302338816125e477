//! Driver `xapi`: virtual machines of XCP-ng and XenServer, through the JSON-RPC of XAPI.
//!
//! `Halted` stands in a database, where `VM.power_state_reset` and a host that is declared dead write it while the VM may run. So an Off needs that
//! the last thing that happened to the power is a shutdown that a host has carried out. The API lives on the pool's master: a member that is asked
//! names it, and what opens the pool goes there only if the Secret allows that address.

mod facts;

use super::account::{Account, Grant};
use super::errors::{Answers, Meaning, coded, row};
use super::fleet::Pages;
use super::io::Io;
use super::jsonrpc::{self, JsonRpc};
use super::kind::addressed;
use super::operation::{Follow, Operation};
use super::spelling::spellings;
use super::words::Said;
use super::{Machine, MachineId, Provider, Sent, by_uuid, check_name, not_one};
use crate::address::Address;
use crate::credentials::LOGIN as KEYS;
use crate::{DeviceError, NodeFacts};
use facts::{Messages, Task, Vm};
use fencing_api::device::XapiDriver;
use fencing_core::reading::same_system;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// Names our sessions to XAPI, which keeps 500 of one originator and drops the oldest: so we drop nobody else's.
const ORIGINATOR: &str = "node-fencing-operator";
/// A session ends after a day without a call. It is renewed before, so that a role that was taken away goes with it.
const SESSION_TIME: Duration = Duration::from_hours(6);
const HOST_IS_SLAVE: &str = "HOST_IS_SLAVE";
const SESSION_INVALID: &str = "SESSION_INVALID";
/// A session with these has ended: another member is the master now.
const ENDED: [&str; 2] = [SESSION_INVALID, HOST_IS_SLAVE];
const LOGIN: &str = "session.login_with_password";
/// VMs of one list: each has about 8,000 bytes.
const PAGE: usize = 100;
const RPC: JsonRpc = JsonRpc {
    path: "/jsonrpc",
    answers: &ANSWERS,
    bytes_max: 4 << 20,
};

/// What a failed call means. XAPI answers it with the status 200.
const ANSWERS: Answers = Answers {
    table: &[
        coded("SESSION_AUTHENTICATION_FAILED", Meaning::Login),
        coded("RBAC_PERMISSION_DENIED", Meaning::Denied),
        coded("HANDLE_INVALID", Meaning::Missing),
        coded(SESSION_INVALID, Meaning::Busy),
        coded(HOST_IS_SLAVE, Meaning::Busy),
        coded("HOST_STILL_BOOTING", Meaning::Busy),
        row(429, "", "", Meaning::Busy),
    ],
    words: jsonrpc::words,
    right: "the role VM Operator, or root where the pool has no directory service",
};

/// A pool.
#[derive(Debug, Clone, Copy)]
pub struct Xapi;

addressed!(XapiDriver, Xapi => Xapi, KEYS, "xapi");

impl Provider for Xapi {
    const NAME: &'static str = "xapi";

    /// `xenorchestra://POOL/UUID` of the cloud controller manager; without a provider ID the system UUID, which is that of the VM, and its name.
    fn machine(&self, node: &NodeFacts) -> Result<MachineId, DeviceError> {
        let needs = "driver `xapi` needs xenorchestra://POOL/UUID";
        by_uuid(node, "xenorchestra://", facts::behind_pool, needs)
    }

    async fn read(&self, io: &mut Io, id: &MachineId) -> Result<Machine, DeviceError> {
        let (at, mut found) = records(io, &spellings(&id.id)).await?;
        let number = found.len();
        let Some((reference, vm)) = found.pop_first().filter(|_| number == 1) else {
            return Err(not_one(&at, id, number));
        };
        check_name(io, id, &vm.name_label)?;
        let mut said = vm.said();
        if said.is_off() {
            let (_, since) = ask::<String>(io, "VM_metrics.get_start_time", &[&vm.metrics]).await?;
            let about = ["VM", &vm.uuid, &since];
            let (_, messages) = ask::<Messages>(io, "message.get", &about).await?;
            let fault = facts::against_off(&messages);
            said = said.only_if(fault.is_none(), fault.unwrap_or_default());
        }
        Ok(machine(&at, &reference, &vm, said))
    }

    /// Destroys the domain at once; the guest is not asked.
    async fn off(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        switch(io, machine, "Async.VM.hard_shutdown", &[], "halted").await
    }

    async fn on(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        // Neither paused, nor by force.
        switch(io, machine, "Async.VM.start", &[false, false], "running").await
    }

    async fn fleet(
        &self,
        io: &mut Io,
        ids: &[MachineId],
        pages: &mut Pages<'_>,
    ) -> Result<(), DeviceError> {
        for ids in ids.chunks(PAGE) {
            let uuids: Vec<String> = ids.iter().map(|id| id.id.clone()).collect();
            let (at, records) = records(io, &uuids).await?;
            let found = records.iter().filter_map(|(reference, vm)| {
                let mut own = ids.iter().filter(|id| same_system(&id.id, &vm.uuid));
                let id = own.find(|id| id.may_be_called(&vm.name_label))?;
                Some((id.clone(), machine(&at, reference, vm, vm.said())))
            });
            pages.add(io, found);
        }
        Ok(())
    }

    async fn follow(&self, io: &mut Io, operation: &Operation) -> Result<Follow, DeviceError> {
        // As `switch` has it.
        let (wanted, task) = operation.path.split_once(' ').unwrap_or_default();
        let task = ask::<Task>(io, "task.get_record", &[task]).await;
        task.map(|(_, task)| task.follow(wanted))
    }
}

fn machine(at: &Address, reference: &str, vm: &Vm, said: Said) -> Machine {
    Machine {
        said,
        identity: vm.identity(),
        at: at.clone(),
        path: reference.to_owned(),
        place: None,
        restarter: vm.restarter(),
        model: Some(format!("VM {}", vm.name_label)),
    }
}

/// The VMs with these UUIDs, by their references, and the master that has them.
async fn records(
    io: &mut Io,
    uuids: &[String],
) -> Result<(Address, BTreeMap<String, Vm>), DeviceError> {
    let terms = uuids.iter().map(|it| format!("field \"uuid\"=\"{it}\""));
    let filter = terms.collect::<Vec<_>>().join(" or ");
    ask(io, "VM.get_all_records_where", &[&filter]).await
}

/// Sends one command; its session was opened by the preparation, and nothing is asked for here (F12). The path of its operation is the state
/// that it is to bring about, and its task: a task that failed tells only in which state it found the VM.
async fn switch(
    io: &mut Io,
    machine: &Machine,
    method: &str,
    flags: &[bool],
    wanted: &str,
) -> Result<Sent, DeviceError> {
    let grant = io.account.grant();
    let grant = grant.ok_or_else(|| io.protocol(&machine.at, "its session has ended"))?;
    let mut params = vec![json!(*grant.token), json!(machine.path)];
    params.extend(flags.iter().map(|flag| json!(flag)));
    Ok(match RPC.order(io, &machine.at, method, &params).await? {
        Sent::Operation(Operation { at, path: task }) => {
            let path = format!("{wanted} {task}");
            Sent::Operation(Operation { at, path })
        }
        sent => sent,
    })
}

/// Drops a session whose master was asked and has not answered, also where the caller has given up: only the address in the settings tells
/// who is the master now, and is not asked while there is a session. One with that very address is kept.
struct Unanswered {
    account: Arc<Account>,
    grant: Option<Grant>,
}

impl Unanswered {
    fn at(io: &Io, at: &Address, grant: &Grant) -> Self {
        let is_named = at.host != io.main().host;
        Self {
            account: Arc::clone(&io.account),
            grant: is_named.then(|| grant.clone()),
        }
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(grant) = &self.grant {
            self.account.drop_ended(grant);
        }
    }
}

/// What a call within a session returns, and who answered. A session that has ended is opened again, once.
async fn ask<T: DeserializeOwned>(
    io: &mut Io,
    method: &str,
    args: &[&str],
) -> Result<(Address, T), DeviceError> {
    let mut may_renew = true;
    loop {
        let (at, grant) = session(io).await?;
        let mut params = vec![json!(*grant.token)];
        params.extend(args.iter().map(|arg| json!(arg)));
        let mut unanswered = Unanswered::at(io, &at, &grant);
        let answer = RPC.ask::<T>(io, &at, method, &params).await?;
        // What has no code is from whoever has that address now.
        if answer.as_ref().err().is_none_or(|it| !it.code.is_empty()) {
            unanswered.grant = None;
        }
        match answer {
            Ok(result) => return Ok((at, result)),
            Err(failed) if may_renew && ENDED.contains(&failed.code.as_str()) => {
                may_renew = false;
                io.account.drop_ended(&grant);
            }
            Err(failed) => return Err(failed.of_read(ANSWERS.table)),
        }
    }
}

/// The session that the account has, or another, and the master that it is one with.
async fn session(io: &mut Io) -> Result<(Address, Grant), DeviceError> {
    let account = Arc::clone(&io.account);
    let _turn = account.login().await;
    let mut at = io.main();
    if let Some(grant) = account.grant() {
        let master = grant.endpoints.first();
        at.host = master.map_or(at.host, |(_, host)| host.clone());
        return Ok((at, grant));
    }
    let credentials = io.credentials();
    let [user, password] = KEYS.map(|key| credentials.value(key));
    let params = [user, password, "1.0", ORIGINATOR].map(|it| json!(it));
    let since = io.now();
    let mut opened = RPC.ask::<String>(io, &at, LOGIN, &params).await?;
    if let Err(failed) = &opened
        && failed.code == HOST_IS_SLAVE
    {
        at = facts::master(&at, &failed.message)?;
        opened = RPC.ask(io, &at, LOGIN, &params).await?;
    }
    let token = opened.map_err(|failed| failed.of_read(ANSWERS.table))?;
    let grant = Grant {
        token: Zeroizing::new(token),
        since,
        until: since + SESSION_TIME,
        endpoints: vec![(String::new(), at.host.clone())],
    };
    account.keep(grant.clone());
    Ok((at, grant))
}

#[cfg(test)]
mod tests;
