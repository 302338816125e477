//! Driver `bareMetalHost`: hosts of Metal3, held off by an annotation of their BareMetalHost.
//!
//! Nothing is commanded: baremetal-operator turns a host off, and keeps it off, while our annotation is there, and turns it on once that is gone. What
//! it shows of the power is a copy of a copy, so an Off counts only behind the event of a hard power-off that came after our annotation.

mod facts;

use super::errors::Answers;
use super::fleet::Pages;
use super::io::Io;
use super::kind::{CloudKind, Fields};
use super::kube::{self, COMMANDED, List, Object, Right};
use super::operation::{Follow, Operation};
use super::words::Said;
use super::{Machine, MachineId, Provider, Sent, foreign, unusable};
use crate::credentials::Credentials;
use crate::http::Call;
use crate::{DeviceError, NodeFacts};
use facts::{Event, Host, POWER_OFF, Plan};
use fencing_api::device::{BareMetalHostDriver, TlsSettings};
use fencing_core::reading::Identity;
use http::{Method, StatusCode};
use std::collections::{BTreeSet, HashMap};

const GROUP: &str = "metal3.io";
const RIGHT: &str = "get, list and patch on baremetalhosts, and list on events";
const ANSWERS: Answers = kube::answers(RIGHT);
const SENT: Answers = Answers {
    table: &COMMANDED,
    words: kube::words,
    right: RIGHT,
};
/// Namespaces whose hosts are listed for probes; those of others are read one by one.
const NAMESPACES_MAX: usize = 8;

/// The hosts of a cluster.
#[derive(Debug, Clone)]
pub struct Metal3 {
    name: Option<String>,
    namespace: Option<String>,
}

impl CloudKind for BareMetalHostDriver {
    type Provider = Metal3;
    const KEYS: &'static [&'static str] = &kube::KEYS;
    const FIELDS: Fields = Fields {
        address: "bareMetalHost.address",
        ca: "bareMetalHost.tls.caRef",
    };

    fn url(&self) -> &str {
        &self.address
    }

    fn certificate(&self) -> &TlsSettings {
        &self.tls
    }

    fn provider(&self) -> Metal3 {
        Metal3 {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
        }
    }

    fn check(credentials: &Credentials) -> Result<(), DeviceError> {
        kube::check(credentials)
    }
}

impl Metal3 {
    fn machine_of(&self, io: &Io, host: &Host, said: Said, path: String) -> Machine {
        Machine {
            said,
            identity: Identity {
                system_uuid: None,
                serial_number: Some(host.metadata.uid.clone()),
            },
            at: io.main(),
            path,
            place: None,
            restarter: host.restarter(),
            model: host.model(),
        }
    }
}

impl Provider for Metal3 {
    const NAME: &'static str = "bareMetalHost";

    /// `metal3://NAMESPACE/HOST/MACHINE` of Cluster API; or the host in the settings, beside `metal3://UID` of older versions or alone.
    ///
    /// The id is the host whichever of them there is, so that two Nodes of one host are seen to be. What the provider ID says beside that stands
    /// where others have a region, and is compared with the host when it is read.
    fn machine(&self, node: &NodeFacts) -> Result<MachineId, DeviceError> {
        let rest = node.provider_id.strip_prefix("metal3://");
        let parts: Vec<&str> = rest.map_or_else(Vec::new, |rest| rest.split('/').collect());
        let of = |namespace: &str, host: &str| {
            let id = MachineId::of(node, format!("{namespace}/{host}"));
            Ok(MachineId {
                region: rest.map(str::to_owned),
                ..id
            })
        };
        let are_names = parts.iter().all(|part| kube::is_name(part));
        match (parts.as_slice(), &self.namespace, &self.name) {
            ([_, ..], ..) if !are_names => Err(unusable(
                node,
                "it is neither metal3://NAMESPACE/HOST/MACHINE nor metal3://UID",
            )),
            ([namespace, _, _], Some(own), _) if namespace != own => {
                Err(unusable(node, "`bareMetalHost.namespace` is another one"))
            }
            ([_, host, _], _, Some(own)) if host != own => {
                Err(unusable(node, "`bareMetalHost.name` is another one"))
            }
            ([namespace, host, _], ..) => of(namespace, host),
            ([_], Some(namespace), Some(name)) => of(namespace, name),
            ([_], ..) => Err(unusable(
                node,
                "its host has to be named too: set `bareMetalHost.name` and `namespace` of a FenceDevice of its own",
            )),
            ([], Some(namespace), Some(name)) if node.provider_id.is_empty() => of(namespace, name),
            _ => Err(unusable(
                node,
                "it names no host: set `bareMetalHost.name` and `namespace` where it is empty",
            )),
        }
    }

    /// The events come first: an Off that is read after them was written after what they tell.
    async fn read(&self, io: &mut Io, id: &MachineId) -> Result<Machine, DeviceError> {
        let (namespace, name) = id.id.split_once('/').unwrap_or_default();
        let events = format!("/api/v1/namespaces/{namespace}/events");
        let selector = format!(
            "&fieldSelector=involvedObject.kind%3D{}%2CinvolvedObject.name%3D{name}%2Creason%3D{POWER_OFF}",
            Host::KIND
        );
        let events: List<Event> = kube::list(io, &events, &selector, &ANSWERS).await?;
        let path = format!("{}/{name}", path(namespace));
        let host: Host = kube::get(io, &path, &ANSWERS).await?;
        let checked = host.check(id);
        checked.map_err(|problem| foreign(io, id, &problem))?;
        if facts::version(&events.version).is_none() {
            return Err(io.protocol(&io.main(), "its events have no version that is a number"));
        }
        let plan = host.plan(&events.version);
        // What a command needs of this reading stands behind the path, where no request carries it.
        let plan = serde_json::to_string(&plan).unwrap_or_default();
        let path = format!("{path}#{plan}");
        Ok(self.machine_of(io, &host, host.said(&events.items), path))
    }

    /// Writes the annotation, by which baremetal-operator turns the host off, hard, and keeps it off.
    async fn off(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        let (path, plan) = prepared(io, machine)?;
        if let Some(problem) = plan.refused {
            return Err(refused(io, problem));
        }
        patch(io, machine, path, &plan, false).await
    }

    async fn off_denied(&self, io: &mut Io, machine: &Machine) -> Option<DeviceError> {
        let (path, plan) = prepared(io, machine).ok()?;
        if let Some(problem) = plan.refused {
            return Some(refused(io, problem));
        }
        let namespace = path.split('/').nth(5).unwrap_or_default();
        let right = Right {
            verb: "patch",
            group: GROUP,
            resource: "baremetalhosts",
            subresource: "",
            namespace,
        };
        kube::denied(io, &[right], &ANSWERS).await
    }

    /// Takes the annotation away: a host that is to be online is turned on then.
    async fn on(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        let (path, plan) = prepared(io, machine)?;
        if let Some(problem) = plan.no_on() {
            return Err(refused(io, problem.to_owned()));
        }
        patch(io, machine, path, &plan, true).await
    }

    async fn fleet(
        &self,
        io: &mut Io,
        ids: &[MachineId],
        pages: &mut Pages<'_>,
    ) -> Result<(), DeviceError> {
        let named = |id: &MachineId| {
            let mut parts = id.id.split('/').map(str::to_owned);
            Some((parts.next()?, parts.next()?))
        };
        let by_name: HashMap<(String, String), &MachineId> =
            ids.iter().filter_map(|id| Some((named(id)?, id))).collect();
        let namespaces: BTreeSet<&String> = by_name.keys().map(|(it, _)| it).collect();
        for namespace in namespaces.into_iter().take(NAMESPACES_MAX) {
            let list = path(namespace);
            let hosts: List<Host> = kube::list(io, &list, "", &ANSWERS).await?;
            let found = hosts.items.iter().filter_map(|host| {
                let key = (namespace.clone(), host.metadata.name.clone());
                let id = by_name.get(&key).copied();
                // One that is not the Node's any more is read by itself, and says why.
                let id = id.filter(|id| host.check(id).is_ok())?;
                let path = format!("{list}/{}", host.metadata.name);
                let machine = self.machine_of(io, host, host.said(&[]), path);
                Some((id.clone(), machine))
            });
            pages.add(io, found);
        }
        Ok(())
    }

    /// A command becomes no operation: what comes of it is read from the power.
    async fn follow(&self, _: &mut Io, _: &Operation) -> Result<Follow, DeviceError> {
        Ok(Follow::Done)
    }
}

/// Path of the hosts in a namespace.
fn path(namespace: &str) -> String {
    format!("/apis/{GROUP}/v1alpha1/namespaces/{namespace}/baremetalhosts")
}

/// Path of the host, and what the reading has found for a command.
fn prepared<'a>(io: &Io, machine: &'a Machine) -> Result<(&'a str, Plan), DeviceError> {
    let parts = machine.path.split_once('#');
    let plan = parts.and_then(|(path, plan)| Some((path, serde_json::from_str(plan).ok()?)));
    plan.ok_or_else(|| refused(io, "it was not read for a command".to_owned()))
}

fn refused(io: &Io, problem: String) -> DeviceError {
    DeviceError::Refused {
        endpoint: io.main().to_string(),
        problem,
    }
}

/// Changes our annotation, of this very host, and nothing else.
async fn patch(
    io: &mut Io,
    machine: &Machine,
    path: &str,
    plan: &Plan,
    on: bool,
) -> Result<Sent, DeviceError> {
    let call = Call::new(Method::PATCH, path).with_json(plan.patch(on).to_string());
    let call = Call {
        content_type: Some("application/merge-patch+json"),
        ..kube::authorised(io, call)?
    };
    let reply = match io.switch(&machine.at, &call, StatusCode::OK, &SENT).await? {
        Ok(reply) => reply,
        Err(sent) => return Ok(sent),
    };
    let host: Result<Host, DeviceError> = kube::parsed(io, reply);
    Ok(match host {
        Ok(host) if host.holds(plan) != on => Sent::Done,
        Ok(_) => Sent::Unclear(io.protocol(&machine.at, "it took the annotation and has another")),
        Err(error) => Sent::Unclear(error),
    })
}

#[cfg(test)]
mod tests;
