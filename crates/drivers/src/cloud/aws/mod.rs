//! Driver `aws`: instances of EC2, over its Query API, in requests that we sign ourselves.
//!
//! A hibernated instance reads `stopped`, and EC2 tells no UUID of a machine. So an Off needs a reason for the stop that keeps no memory, and an
//! instance is the Node's by the ID in its provider ID and by a private address. `Force` alone asks the guest first; `SkipOsShutdown` does not.

mod answers;
mod facts;
mod login;
mod region;
mod sign;

use super::account::Pace;
use super::fleet::Pages;
use super::io::Io;
use super::kind::{CloudKind, Fields, is_checked};
use super::operation::{Follow, Operation};
use super::surroundings::Surroundings;
use super::{Machine, MachineId, Provider, Sent, foreign, unusable};
use crate::address::{Address, AddressError};
use crate::credentials::Credentials;
use crate::error::printable;
use crate::http::{Call, Reply};
use crate::{DeviceError, NodeFacts};
use answers::ANSWERS;
use facts::Instance;
use fencing_api::device::{AwsDriver, TlsSettings};
use fencing_core::reading::Identity;
use http::header::DATE;
use http::{Method, StatusCode};
use login::Signer;
use sign::Scope;
use std::collections::HashMap;
use std::time::Duration;

/// The keys of the Secret; the last one is for temporary keys.
const KEYS: [&str; 3] = ["accessKeyID", "secretAccessKey", "sessionToken"];
/// The version of the API, of which there has been no other since 2016.
const VERSION: &str = "2016-11-15";
/// Instances that are asked for by one list, pages of it, and the longest page in bytes: an instance takes about 3,200.
const LISTED_MAX: usize = 100;
const PAGES_MAX: usize = 10;
const PAGE_BYTES_MAX: usize = 2 << 20;

/// A region.
#[derive(Debug, Clone)]
pub struct Aws {
    region: String,
    /// The certificate of whoever is asked is checked in full.
    is_checked: bool,
    surroundings: Surroundings,
}

impl CloudKind for AwsDriver {
    type Provider = Aws;
    const KEYS: &'static [&'static str] = &KEYS;
    const NEEDS_SECRET: bool = false;
    const FIELDS: Fields = Fields {
        address: "aws.endpoint",
        ca: "aws.tls.caRef",
    };

    fn url(&self) -> &str {
        self.endpoint.as_deref().unwrap_or_default()
    }

    /// The region is a setting and never taken from a provider ID, which a kubelet may write: it chooses where the requests go.
    fn address(&self) -> Result<Address, AddressError> {
        match &self.endpoint {
            Some(url) => Address::parse(url),
            None => Address::parse(&region::url("ec2", &self.region)),
        }
    }

    fn certificate(&self) -> &TlsSettings {
        &self.tls
    }

    fn provider(&self) -> Aws {
        Aws {
            region: self.region.clone(),
            is_checked: is_checked(self),
            surroundings: Surroundings::default(),
        }
    }

    fn check(credentials: &Credentials) -> Result<(), DeviceError> {
        let [id, _, session] = KEYS.map(|key| credentials.value(key));
        if id.starts_with("ASIA") && session.is_empty() {
            let problem = "it is a temporary key, which needs `sessionToken` beside it and ends soon: use a key of a user, or a role";
            return Err(credentials.refuse(KEYS[0], problem).into());
        }
        Ok(())
    }
}

impl Provider for Aws {
    const NAME: &'static str = "aws";
    /// EC2 lets an account ask for 100 descriptions at once and 20 a second, which it shares with everything else in its region.
    const PACE: Pace = Pace {
        period: Duration::from_millis(100),
        burst: 50,
        list_age_max: Duration::from_mins(1),
    };

    fn given(self, surroundings: &Surroundings) -> Self {
        Self {
            surroundings: surroundings.clone(),
            ..self
        }
    }

    /// `aws:///ZONE/i-ID` of the cloud controller manager, the same without a zone, or the ID alone. A pod of Fargate has no power that is told.
    fn machine(&self, node: &NodeFacts) -> Result<MachineId, DeviceError> {
        let rest = match node.provider_id.split_once("://") {
            Some(("aws", rest)) => rest.strip_prefix('/'),
            Some(_) => None,
            None => Some(node.provider_id.as_str()),
        };
        let (zone, id) = rest.map_or(("", ""), |rest| rest.split_once('/').unwrap_or(("", rest)));
        if !facts::is_id(id) {
            return Err(unusable(node, "driver `aws` needs aws:///ZONE/i-ID"));
        }
        if !zone.is_empty() && region::of_zone(zone) != self.region {
            return Err(unusable(node, "`aws.region` is another one"));
        }
        Ok(MachineId::of(node, id.to_owned()))
    }

    async fn read(&self, io: &mut Io, id: &MachineId) -> Result<Machine, DeviceError> {
        let one = [
            ("IncludeManagedResources", "true"),
            ("InstanceId.1", id.id.as_str()),
        ];
        let answer = self.ask(io, "DescribeInstances", &one).await?;
        let found = understood(io, &io.main(), facts::instance(&answer, &id.id))?;
        found
            .check(id)
            .map_err(|problem| foreign(io, id, &problem))?;
        Ok(machine(io, found))
    }

    /// Stops it at once. One that goes off for another reason than an order is left alone: it may hibernate, and a stop would take away the reason
    /// that shows it.
    async fn off(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        let said = machine.said.raw.as_str();
        if said.starts_with("stopping") && said != facts::STOPPING_BY_ORDER {
            return Err(DeviceError::Refused {
                endpoint: machine.at.to_string(),
                problem: format!(
                    "instance {} is {said}, which may be hibernating and keep its memory",
                    machine.path
                ),
            });
        }
        let stop = [
            ("Force", "true"),
            ("InstanceId.1", &machine.path),
            ("SkipOsShutdown", "true"),
        ];
        self.switch(io, machine, ("StopInstances", "stopped"), &stop)
            .await
    }

    async fn on(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        let start = [("InstanceId.1", machine.path.as_str())];
        self.switch(io, machine, ("StartInstances", "running"), &start)
            .await
    }

    /// A stop that is only tried, at AWS itself: EC2 says whether the account may, and stops nothing.
    async fn off_denied(&self, io: &mut Io, machine: &Machine) -> Option<DeviceError> {
        // A service that only looks like EC2 may not know `DryRun`, and carry the stop out.
        if !region::is_aws(&io.main().host) {
            return None;
        }
        let tried = [
            ("DryRun", "true"),
            ("Force", "true"),
            ("InstanceId.1", &machine.path),
            ("SkipOsShutdown", "true"),
        ];
        let signer = login::signer(self, io).await.ok()?;
        let call = self.call(io, &signer, "StopInstances", &tried).ok()?;
        let (at, would) = (io.main(), StatusCode::PRECONDITION_FAILED);
        let denied = io.read(&at, &call, would, &ANSWERS).await.err()?;
        let is_final = matches!(
            denied,
            DeviceError::PermissionDenied { .. } | DeviceError::Declined { .. }
        );
        is_final.then_some(denied)
    }

    async fn fleet(
        &self,
        io: &mut Io,
        ids: &[MachineId],
        pages: &mut Pages<'_>,
    ) -> Result<(), DeviceError> {
        for ids in ids.chunks(LISTED_MAX) {
            self.list(io, ids, pages).await?;
        }
        Ok(())
    }

    /// A command has no operation: its answer names the state that the instance is in now.
    async fn follow(&self, _: &mut Io, _: &Operation) -> Result<Follow, DeviceError> {
        Ok(Follow::Failed("EC2 knows no operations".to_owned()))
    }
}

impl Aws {
    /// Of these the instances that EC2 shows. By a filter, because one unknown ID fails a request that names it otherwise.
    async fn list(
        &self,
        io: &mut Io,
        ids: &[MachineId],
        pages: &mut Pages<'_>,
    ) -> Result<(), DeviceError> {
        let by_id: HashMap<&str, &MachineId> = ids.iter().map(|id| (id.id.as_str(), id)).collect();
        let names: Vec<String> = (1..=ids.len())
            .map(|it| format!("Filter.1.Value.{it}"))
            .collect();
        let mut next = None;
        for _ in 0..PAGES_MAX {
            let mut fields = vec![("Filter.1.Name", "instance-id")];
            fields.extend(
                names
                    .iter()
                    .zip(ids)
                    .map(|(name, id)| (name.as_str(), id.id.as_str())),
            );
            fields.extend([("IncludeManagedResources", "true"), ("MaxResults", "1000")]);
            fields.extend(next.as_deref().map(|it| ("NextToken", it)));
            let answer = self.ask(io, "DescribeInstances", &fields).await?;
            let (instances, token) = understood(io, &io.main(), facts::instances(&answer))?;
            let found = instances.into_iter().filter_map(|instance| {
                let id = by_id.get(instance.id.as_str()).copied();
                // One that is not the Node's any more is read by itself, and says why.
                let id = id.filter(|id| instance.check(id).is_ok())?;
                Some((id.clone(), machine(io, instance)))
            });
            pages.add(io, found);
            next = token;
            if next.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// The answer to a request that only reads. Temporary keys may have been revoked, so a refusal is a reason to ask for others, once a minute at most.
    async fn ask(
        &self,
        io: &mut Io,
        action: &str,
        fields: &[(&str, &str)],
    ) -> Result<String, DeviceError> {
        let at = io.main();
        loop {
            let signer = login::signer(self, io).await?;
            let call = self.call(io, &signer, action, fields)?;
            match (
                io.read(&at, &call, StatusCode::OK, &ANSWERS).await,
                signer.grant,
            ) {
                (Ok(reply), _) => return body(io, &at, reply),
                (Err(DeviceError::AuthFailed { .. }), Some(grant))
                    if io.account.drop_refused(&grant) => {}
                (Err(error), _) => return Err(error),
            }
        }
    }

    /// Sends one command; its keys were fetched by the preparation, and nothing is asked for here (F12).
    async fn switch(
        &self,
        io: &mut Io,
        machine: &Machine,
        (action, wanted): (&str, &str),
        fields: &[(&str, &str)],
    ) -> Result<Sent, DeviceError> {
        let at = &machine.at;
        let signer = login::known(io);
        let signer = signer.ok_or_else(|| io.protocol(at, "its temporary keys have ended"))?;
        let call = self.call(io, &signer, action, fields)?;
        let reply = match io.switch(at, &call, StatusCode::OK, &ANSWERS).await? {
            Ok(reply) => reply,
            Err(sent) => return Ok(sent),
        };
        let answer = body(io, at, reply);
        let change = answer
            .and_then(|answer| understood(io, at, facts::change(&answer, action, &machine.path)));
        Ok(match change {
            Ok([before, now]) if before == now && now == wanted => {
                Sent::Already(format!("{} is {now}", machine.path))
            }
            Ok(_) => Sent::Done,
            Err(error) => Sent::Unclear(error),
        })
    }

    /// A signed request.
    fn call(
        &self,
        io: &Io,
        signer: &Signer,
        action: &str,
        fields: &[(&str, &str)],
    ) -> Result<Call, DeviceError> {
        let all = [&[("Action", action)], fields, &[("Version", VERSION)]].concat();
        let form = sign::form(&all);
        let scope = Scope {
            region: &self.region,
            service: "ec2",
            time: io.wall(),
        };
        let host = io.main().authority();
        let headers = sign::headers(&signer.keys, scope, &host, &form);
        let headers = headers.ok_or_else(|| {
            let problem = "it cannot be put into a header";
            io.credentials().refuse(KEYS[0], problem)
        })?;
        let call = Call::new(Method::POST, "/").with_form(form);
        let call = call.with_body_of_at_most(PAGE_BYTES_MAX);
        Ok(headers
            .into_iter()
            .fold(call, |call, (name, value)| call.with_header(name, value)))
    }
}

/// EC2 tells no UUID; that of a provider ID is the one in `path`.
fn machine(io: &Io, instance: Instance) -> Machine {
    Machine {
        said: instance.said,
        identity: Identity::default(),
        at: io.main(),
        path: instance.id,
        place: None,
        restarter: instance.restarter,
        model: instance.model,
    }
}

fn body(io: &Io, at: &Address, reply: Reply) -> Result<String, DeviceError> {
    let text = String::from_utf8(reply.body?.to_vec());
    text.map_err(|_| io.protocol(at, "its answer is no text"))
}

fn understood<T>(io: &Io, at: &Address, answer: Result<T, String>) -> Result<T, DeviceError> {
    answer.map_err(|problem| io.protocol(at, &problem))
}

/// Code and message of an error. Beside one that wrong clocks bring about stands what the service's clock shows.
fn words(reply: &Reply) -> (String, String) {
    let body = reply.body.as_deref().unwrap_or_default();
    let text = std::str::from_utf8(body).unwrap_or_default();
    let (code, message) = facts::error(text).unwrap_or_default();
    let date = reply.headers.get(DATE).and_then(|it| it.to_str().ok());
    match (code.as_str(), date) {
        ("RequestExpired" | "SignatureDoesNotMatch" | "AuthFailure", Some(date)) => {
            let date = printable(date, 40);
            (code, format!("{message} (its clock shows {date})"))
        }
        _ => (code, message),
    }
}

#[cfg(test)]
mod tests;
