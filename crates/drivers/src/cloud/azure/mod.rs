//! Driver `azure`: virtual machines of Azure and instances of its scale sets, over Azure Resource Manager.
//!
//! Azure tells the machine's system UUID (`vmId`), which is pinned like any other: names and numbers are used again. A hibernated machine reads
//! deallocated, so none that may hibernate is ever off. It is powered off and never deallocated, which would give its place away.

mod answers;
mod facts;
mod login;
mod places;

use super::account::Pace;
use super::fleet::Pages;
use super::io::Io;
use super::kind::{CloudKind, Fields, is_checked};
use super::operation::{Follow, Operation};
use super::surroundings::Surroundings;
use super::{Machine, MachineId, Provider, Sent, unusable};
use crate::credentials::Credentials;
use crate::http::{Call, Reply};
use crate::{DeviceError, NodeFacts};
use answers::ANSWERS;
use facts::{Page, Permissions, Vm};
use fencing_api::device::{AzureDriver, TlsSettings};
use fencing_core::reading::Identity;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Method, StatusCode};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// The keys of the Secret: of an app registration, with a secret of it.
const KEYS: [&str; 3] = ["tenantID", "clientID", "clientSecret"];
/// A version of the API that all of Azure's clouds have.
const VERSION: &str = "2024-07-01";
/// The same of what tells the rights of an account.
const RIGHTS_VERSION: &str = "2022-04-01";
/// Lists that are asked for at once, pages of each, and the longest page in bytes: an instance with its view takes some 10,000.
const LISTS_MAX: usize = 50;
const PAGES_MAX: usize = 40;
const PAGE_BYTES_MAX: usize = 4 << 20;
/// Header that names the operation of a command.
const OPERATION: &str = "azure-asyncoperation";

/// A cloud of Azure.
#[derive(Debug, Clone)]
pub struct Azure {
    /// Nodes of another subscription or resource group are refused.
    subscription: Option<String>,
    group: Option<String>,
    /// Where Entra ID is, if the settings say.
    login: Option<String>,
    /// The certificate of whoever is asked is checked in full.
    is_checked: bool,
    surroundings: Surroundings,
}

impl CloudKind for AzureDriver {
    type Provider = Azure;
    const KEYS: &'static [&'static str] = &KEYS;
    const NEEDS_SECRET: bool = false;
    const FIELDS: Fields = Fields {
        address: "azure.address",
        ca: "azure.tls.caRef",
    };

    fn url(&self) -> &str {
        &self.address
    }

    fn certificate(&self) -> &TlsSettings {
        &self.tls
    }

    fn provider(&self) -> Azure {
        Azure {
            subscription: self.subscription_id.clone(),
            group: self.resource_group.clone(),
            login: self.login_address.clone(),
            is_checked: is_checked(self),
            surroundings: Surroundings::default(),
        }
    }

    fn check(credentials: &Credentials) -> Result<(), DeviceError> {
        if !credentials.is_nobody() && !places::is_name(credentials.value(KEYS[0])) {
            let problem = "it is no tenant: take its ID or one of its domains";
            return Err(credentials.refuse(KEYS[0], problem).into());
        }
        Ok(())
    }
}

impl Provider for Azure {
    const NAME: &'static str = "azure";
    /// Azure Resource Manager lets an account read 250 times at once and 25 times a second in a subscription, for all that use the account.
    const PACE: Pace = Pace {
        period: Duration::from_millis(100),
        burst: 100,
        list_age_max: Duration::from_mins(1),
    };

    fn given(self, surroundings: &Surroundings) -> Self {
        Self {
            surroundings: surroundings.clone(),
            ..self
        }
    }

    fn machine(&self, node: &NodeFacts) -> Result<MachineId, DeviceError> {
        let Some(found) = places::resource(&node.provider_id) else {
            let why = "driver `azure` needs azure:///subscriptions/... of a virtual machine";
            return Err(unusable(node, why));
        };
        let is_another = |wanted: Option<&str>, found: &str| {
            wanted.is_some_and(|it| !it.eq_ignore_ascii_case(found))
        };
        if is_another(self.subscription.as_deref(), &found.subscription) {
            return Err(unusable(node, "`azure.subscriptionID` is another one"));
        }
        if is_another(self.group.as_deref(), &found.group) {
            return Err(unusable(node, "`azure.resourceGroup` is another one"));
        }
        Ok(MachineId::of(node, found.id))
    }

    async fn read(&self, io: &mut Io, id: &MachineId) -> Result<Machine, DeviceError> {
        let path = format!("/{}?$expand=instanceView&api-version={VERSION}", id.id);
        let at = io.main();
        let reply = self.ask(io, Call::new(Method::GET, &path)).await?;
        let vm: Vm = io.typed(&at, reply)?;
        let checked = vm.check(&id.id);
        checked.map_err(|problem| io.protocol(&at, &problem))?;
        Ok(machine(io, &vm))
    }

    /// Cuts the power at once; the guest is not asked.
    async fn off(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        switch(self, io, machine, "powerOff?skipShutdown=true&").await
    }

    /// Azure tells the rights of the account, where that may ask for them; of locks and denials by others it tells nothing there.
    async fn off_denied(&self, io: &mut Io, machine: &Machine) -> Option<DeviceError> {
        let (at, path) = (&machine.at, &machine.path);
        let rights = format!(
            "{path}/providers/Microsoft.Authorization/permissions?api-version={RIGHTS_VERSION}"
        );
        let reply = self.ask(io, Call::new(Method::GET, &rights)).await.ok()?;
        let found: Permissions = io.typed(at, reply).ok()?;
        let action = places::power_off_of(path);
        (!found.allow(action)).then(|| DeviceError::PermissionDenied {
            endpoint: at.to_string(),
            request: "a power-off".to_owned(),
            said: format!("that the account has no {action}"),
            right: ANSWERS.right,
        })
    }

    async fn on(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        switch(self, io, machine, "start?").await
    }

    async fn fleet(
        &self,
        io: &mut Io,
        ids: &[MachineId],
        pages: &mut Pages<'_>,
    ) -> Result<(), DeviceError> {
        let by_id: HashMap<&str, &MachineId> = ids.iter().map(|id| (id.id.as_str(), id)).collect();
        let lists: BTreeSet<_> = ids
            .iter()
            .filter_map(|id| places::list_of(&id.id))
            .collect();
        for (path, query) in lists.into_iter().take(LISTS_MAX) {
            match self.list(io, &path, query, &by_id, pages).await {
                // The machines of a list that the account may not see are read one by one.
                Ok(()) | Err(DeviceError::PermissionDenied { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn follow(&self, io: &mut Io, operation: &Operation) -> Result<Follow, DeviceError> {
        let reply = self
            .ask(io, Call::new(Method::GET, &operation.path))
            .await?;
        let found: facts::Operation = io.typed(&operation.at, reply)?;
        Ok(found.follow(&operation.path))
    }
}

impl Azure {
    /// Of these machines the ones that this list shows.
    async fn list(
        &self,
        io: &mut Io,
        list: &str,
        query: &str,
        by_id: &HashMap<&str, &MachineId>,
        pages: &mut Pages<'_>,
    ) -> Result<(), DeviceError> {
        let at = io.main();
        let mut path = format!("{list}?{query}&api-version={VERSION}");
        for _ in 0..PAGES_MAX {
            let call = Call::new(Method::GET, &path).with_body_of_at_most(PAGE_BYTES_MAX);
            let reply = self.ask(io, call).await?;
            let page: Page = io.listed(&at, reply)?;
            let found = page.value.0.iter().filter_map(|vm| {
                let id = *by_id.get(vm.key().as_str())?;
                Some((id.clone(), machine(io, vm)))
            });
            pages.add(io, found);
            let Some(next) = page.next_link.filter(|next| !next.is_empty()) else {
                break;
            };
            let next = places::path_of(&next, &at, list);
            path = next.map_err(|problem| io.protocol(&at, &problem))?;
        }
        Ok(())
    }

    /// The answer to a request that only reads. A token may have been revoked, so a refusal is a reason to ask for another, once a minute at most.
    async fn ask(&self, io: &mut Io, call: Call) -> Result<Reply, DeviceError> {
        let at = io.main();
        loop {
            let grant = login::grant(self, io).await?;
            let authorised = login::authorised(io, call.clone(), &grant)?;
            match io.read(&at, &authorised, StatusCode::OK, &ANSWERS).await {
                Err(DeviceError::AuthFailed { .. }) if io.account.drop_refused(&grant) => {}
                answer => return answer,
            }
        }
    }
}

fn machine(io: &Io, vm: &Vm) -> Machine {
    Machine {
        said: vm.said(),
        identity: Identity {
            system_uuid: vm.uuid(),
            serial_number: None,
        },
        at: io.main(),
        path: format!("/{}", vm.key()),
        place: None,
        restarter: vm.restarter(),
        model: vm.model(),
    }
}

/// Sends one command; its token was fetched by the preparation, and nothing is asked for here (F12).
async fn switch(
    azure: &Azure,
    io: &mut Io,
    machine: &Machine,
    command: &str,
) -> Result<Sent, DeviceError> {
    let (at, path) = (&machine.at, &machine.path);
    let grant = login::known(azure, io)?;
    let grant = grant.ok_or_else(|| io.protocol(at, "its token has ended"))?;
    let call = Call::new(
        Method::POST,
        &format!("{path}/{command}api-version={VERSION}"),
    );
    // Without a length Azure answers 411 to a request that has no body.
    let call = call.with_header(CONTENT_LENGTH, HeaderValue::from_static("0"));
    let call = login::authorised(io, call, &grant)?;
    let taken = [StatusCode::OK, StatusCode::ACCEPTED];
    let reply = match io.switch_to_any(at, &call, &taken, &ANSWERS).await? {
        Ok(reply) if reply.status == StatusCode::OK => return Ok(Sent::Done),
        Ok(reply) => reply,
        Err(sent) => return Ok(sent),
    };
    let link = reply.headers.get(OPERATION);
    let link = link.and_then(|it| it.to_str().ok());
    let below = places::operations_of(path);
    let operation = match link.zip(below) {
        Some((link, below)) => places::path_of(link, at, &below),
        None => Err("it names no operation".to_owned()),
    };
    Ok(match operation {
        Ok(path) => Sent::Operation(Operation {
            at: at.clone(),
            path,
        }),
        Err(problem) => {
            Sent::Unclear(io.protocol(at, &format!("it took the command, but {problem}")))
        }
    })
}

#[cfg(test)]
mod tests;
