//! Driver `kubevirt`: virtual machines of KubeVirt, by the API server of the cluster that runs them.
//!
//! That a virtual machine is `Stopped`, or that its instance is not there, are words of a controller: both come about too when somebody deletes a pod
//! by force while its node is cut off and the guest runs on. So an Off needs the pods to be gone as well, and each node that is known to have run
//! them to be one whose kubelet answers, or that was itself proven to be off: an earlier run may go on where it was while a later one is elsewhere.

mod facts;

use super::errors::{ANY_STATUS, Answers, Meaning, Row, row};
use super::fleet::{Pages, Place, Places};
use super::io::Io;
use super::kind::{CloudKind, Fields};
use super::kube::{self, Named, Object, Right};
use super::operation::{Follow, Operation};
use super::words::Said;
use super::{Machine, MachineId, Provider, Sent, unusable};
use crate::credentials::Credentials;
use crate::http::Call;
use crate::{DeviceError, NodeFacts};
use facts::{InfraNode, Pod, Vm, Vmi};
use fencing_api::device::{KubevirtDriver, TlsSettings};
use fencing_core::reading::PowerState;
use http::{Method, StatusCode};
use serde_json::json;
use std::collections::{BTreeSet, HashMap};

const GROUP: &str = "kubevirt.io";
const SUBRESOURCES: &str = "subresources.kubevirt.io";
const RIGHT: &str = "get and list on virtualmachines and virtualmachineinstances, list on pods, get on nodes, and update on virtualmachines/stop and /start of subresources.kubevirt.io";
/// What the account needs.
const ANSWERS: Answers = kube::answers(RIGHT);
/// The pods in which virtual machines run.
const LAUNCHERS: &str = "&labelSelector=kubevirt.io%3Dvirt-launcher";
/// Pods of one virtual machine: one, and another one while it migrates.
const PODS_MAX: usize = 8;

/// What an answer to a command means. 409 has many meanings, told by the message alone. One that asks for a shorter grace period has no row: it
/// comes while a stop is pending and the guest may run on.
const COMMANDED: Answers = Answers {
    table: &[
        row(409, "Conflict", "vm is not running", Meaning::Already),
        row(409, "Conflict", "vm is already running", Meaning::Already),
        // It is started without anybody's request.
        row(
            409,
            "Conflict",
            "always does not support manual start",
            Meaning::Already,
        ),
        row(409, "Conflict", "does not support", Meaning::Refused),
        row(409, "Conflict", "recovery required", Meaning::Refused),
        OF_ANY[0],
        OF_ANY[1],
        OF_ANY[2],
        OF_ANY[3],
    ],
    words: kube::words,
    right: RIGHT,
};
const OF_ANY: [Row; 4] = [
    row(401, "Unauthorized", "", Meaning::Login),
    row(403, "Forbidden", "", Meaning::Denied),
    row(404, "NotFound", "", Meaning::Missing),
    row(ANY_STATUS, "TooManyRequests", "", Meaning::Busy),
];

/// A namespace of virtual machines.
#[derive(Debug, Clone)]
pub struct Kubevirt {
    namespace: String,
}

impl CloudKind for KubevirtDriver {
    type Provider = Kubevirt;
    const KEYS: &'static [&'static str] = &kube::KEYS;
    const FIELDS: Fields = Fields {
        address: "kubevirt.address",
        ca: "kubevirt.tls.caRef",
    };

    fn url(&self) -> &str {
        &self.address
    }

    fn certificate(&self) -> &TlsSettings {
        &self.tls
    }

    fn provider(&self) -> Kubevirt {
        Kubevirt {
            namespace: self.namespace.clone(),
        }
    }

    fn check(credentials: &Credentials) -> Result<(), DeviceError> {
        kube::check(credentials)
    }
}

impl Kubevirt {
    fn path(&self, resource: &str) -> String {
        format!("/apis/{GROUP}/v1/namespaces/{}/{resource}", self.namespace)
    }

    /// The id of the virtual machine of this name.
    fn id_of(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace)
    }

    /// What speaks against an Off of what is stopped: a pod that may run it, or a node that cannot say that it does not.
    async fn against_off(
        &self,
        io: &mut Io,
        name: &str,
        places: &Places,
        said: Said,
    ) -> Result<Said, DeviceError> {
        let pods = self.pods(io, name).await?;
        let pod = pods.first();
        let named = pod.map_or("", Pod::name);
        let said = said.only_if(pod.is_none(), format!("pod {named}"));
        let Some(nodes) = places.nodes() else {
            let fault = "infra node unknown, as it was not read while it ran";
            return Ok(said.only_if(false, fault));
        };
        let mut said = said;
        for place in nodes {
            let fault = self.against_node(io, place).await?;
            said = said.only_if(fault.is_none(), fault.unwrap_or_default());
        }
        Ok(said)
    }

    /// The metadata of the pods that may run it. No label names the virtual machine in all versions of KubeVirt (`vm.kubevirt.io/name` is its host
    /// name, and `vmi.kubevirt.io/id` came with 1.7), so all of the namespace are looked through, which may be thousands.
    async fn pods(&self, io: &mut Io, name: &str) -> Result<Vec<Pod>, DeviceError> {
        let runs_it = |it: &Pod| it.may_run(name);
        kube::heads(io, &self.pods_path(), LAUNCHERS, &ANSWERS, runs_it).await
    }

    /// The same with the nodes that they are on.
    async fn whole_pods(&self, io: &mut Io, name: &str) -> Result<Vec<Pod>, DeviceError> {
        let mut whole = Vec::new();
        for pod in self.pods(io, name).await? {
            let name = pod.name();
            if !kube::is_name(name) || whole.len() >= PODS_MAX {
                return Err(io.protocol(&io.main(), "it has pods of one machine without end"));
            }
            let own = format!("&fieldSelector=metadata.name%3D{name}");
            let found = kube::list::<Pod>(io, &self.pods_path(), &own, &ANSWERS).await?;
            whole.extend(found.items);
        }
        Ok(whole)
    }

    fn pods_path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }

    /// Forgets the nodes of earlier runs that say themselves that they run none of them: no pod is there, and the node answers for that. What cannot
    /// be asked stays, and this reading with it: it shows a machine that runs.
    async fn settle(
        &self,
        io: &mut Io,
        id: &MachineId,
        own: &BTreeSet<Place>,
        seen: Places,
    ) -> Places {
        let earlier = seen.beside(own);
        if earlier.is_empty() {
            return seen;
        }
        let Ok(pods) = self.whole_pods(io, name_of(id)).await else {
            return seen;
        };
        let mut settled = Vec::new();
        for place in earlier {
            let is_there = pods.iter().any(|it| it.may_be_on(&place.node));
            if is_there {
                continue;
            }
            // One that only a list has shown was there a moment ago.
            let node = self.node(io, &place.node).await.ok().flatten();
            let is_it = |it: &InfraNode| !place.is_known() || place.is(&it.place());
            if node.is_some_and(|it| it.is_accounted_for() && is_it(&it)) {
                settled.push(place);
            }
        }
        io.account.fleet.drop_places(id, seen, &settled)
    }

    /// Why this node does not answer for what ran there; none: it does. Asked after the pods: what was not there was said by a node that is one.
    async fn against_node(
        &self,
        io: &mut Io,
        place: &Place,
    ) -> Result<Option<String>, DeviceError> {
        let (name, node) = (&place.node, self.node(io, &place.node).await?);
        let Some(node) = node.filter(InfraNode::is_accounted_for) else {
            return Ok(Some(format!("infra node {name} not Ready")));
        };
        let is_it = place.is(&node.place());
        Ok((!is_it).then(|| format!("infra node {name} not known to be the one that ran it")))
    }

    /// Where this run of the machine is: which nodes those of its names are now.
    async fn places(&self, io: &mut Io, instance: &Vmi) -> BTreeSet<Place> {
        let mut all = BTreeSet::new();
        for name in instance.places() {
            let node = self.node(io, name).await.ok().flatten();
            all.insert(node.map_or_else(|| Place::named(name), |it| it.place()));
        }
        all
    }

    /// The node that has this name now.
    async fn node(&self, io: &mut Io, node: &str) -> Result<Option<InfraNode>, DeviceError> {
        let named = Named {
            group: "",
            resource: "nodes",
            name: node,
        };
        let path = format!("/api/v1/nodes/{node}");
        kube::find(io, &path, named, &ANSWERS).await
    }

    /// Sends one command to the virtual machine.
    async fn switch(
        &self,
        io: &mut Io,
        machine: &Machine,
        command: &str,
        body: &serde_json::Value,
    ) -> Result<Sent, DeviceError> {
        let path = format!("{}/{command}", machine.path);
        let call = Call::new(Method::PUT, &path).with_json(body.to_string());
        let call = kube::authorised(io, call)?;
        let taken = StatusCode::ACCEPTED;
        let reply = io.switch(&machine.at, &call, taken, &COMMANDED).await?;
        Ok(reply.map_or_else(|sent| sent, |_| Sent::Done))
    }

    fn machine_of(&self, io: &Io, vm: &Vm, instance: Option<&Vmi>, said: Said) -> Machine {
        let name = &vm.metadata.name;
        let place = instance.map(Vmi::places).filter(|it| !it.is_empty());
        let place = place.map(facts::joined);
        let namespace = &self.namespace;
        Machine {
            said,
            identity: vm.identity(instance),
            at: io.main(),
            path: format!("/apis/{SUBRESOURCES}/v1/namespaces/{namespace}/virtualmachines/{name}"),
            restarter: vm.restarter(),
            model: Some(match &place {
                Some(nodes) => format!("virtual machine {name} on {nodes}"),
                None => format!("virtual machine {name}"),
            }),
            place,
        }
    }
}

impl Provider for Kubevirt {
    const NAME: &'static str = "kubevirt";
    const HAS_ONE_PLACE: bool = false;

    /// `kubevirt://NAME`, of the cloud provider and of Cluster API. The namespace is in the settings alone.
    fn machine(&self, node: &NodeFacts) -> Result<MachineId, DeviceError> {
        let name = node.provider_id.strip_prefix("kubevirt://");
        match name.filter(|name| kube::is_name(name)) {
            Some(name) => Ok(MachineId::of(node, self.id_of(name))),
            None => Err(unusable(node, "driver `kubevirt` needs kubevirt://NAME")),
        }
    }

    async fn read(&self, io: &mut Io, id: &MachineId) -> Result<Machine, DeviceError> {
        let name = name_of(id);
        let path = format!("{}/{name}", self.path("virtualmachines"));
        let vm: Vm = kube::get(io, &path, &ANSWERS).await?;
        let named = Named {
            group: GROUP,
            resource: "virtualmachineinstances",
            name,
        };
        let path = format!("{}/{name}", self.path(named.resource));
        let instance = kube::find::<Vmi>(io, &path, named, &ANSWERS).await?;
        let mut own = BTreeSet::new();
        let mut places = match &instance {
            Some(instance) => {
                own = self.places(io, instance).await;
                note(io, id, instance, &own)
            }
            None => io.account.fleet.places_of(id),
        };
        let said = vm.said(instance.as_ref());
        let mut machine = self.machine_of(io, &vm, instance.as_ref(), said);
        let is_on = machine.said.state == PowerState::On;
        if is_on && instance.as_ref().is_some_and(Vmi::is_running) {
            places = self.settle(io, id, &own, places).await;
        }
        // A run that has ended is where it was, and so is each one before it.
        let nodes = places.nodes();
        machine.place = nodes.map(|all| facts::joined(all.iter().map(|it| it.node.as_str())));
        if machine.said.is_off() {
            let said = machine.said;
            machine.said = self.against_off(io, name, &places, said).await?;
        }
        Ok(machine)
    }

    /// Stops it at once: the guest is not asked.
    async fn off(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        let body = json!({"gracePeriod": 0});
        self.switch(io, machine, "stop", &body).await
    }

    async fn off_denied(&self, io: &mut Io, _: &Machine) -> Option<DeviceError> {
        let namespace = self.namespace.as_str();
        let right = |verb, group, resource, subresource| Right {
            verb,
            group,
            resource,
            subresource,
            namespace,
        };
        let rights = [
            right("update", SUBRESOURCES, "virtualmachines", "stop"),
            right("list", "", "pods", ""),
            Right {
                namespace: "",
                ..right("get", "", "nodes", "")
            },
        ];
        kube::denied(io, &rights, &ANSWERS).await
    }

    async fn on(&self, io: &mut Io, machine: &Machine) -> Result<Sent, DeviceError> {
        self.switch(io, machine, "start", &json!({})).await
    }

    /// Two lists: the virtual machines, and their runs, which say where each is.
    async fn fleet(
        &self,
        io: &mut Io,
        ids: &[MachineId],
        pages: &mut Pages<'_>,
    ) -> Result<(), DeviceError> {
        let vms = kube::list::<Vm>(io, &self.path("virtualmachines"), "", &ANSWERS).await?;
        let path = self.path("virtualmachineinstances");
        let instances = kube::list::<Vmi>(io, &path, "", &ANSWERS).await?;
        let by_name: HashMap<&str, &Vmi> = instances
            .items
            .iter()
            .map(|it| (it.meta().name.as_str(), it))
            .collect();
        // Another device of the account may have machines of these names in its own namespace.
        let ids: HashMap<&str, &MachineId> = ids
            .iter()
            .filter(|id| id.id == self.id_of(name_of(id)))
            .map(|id| (name_of(id), id))
            .collect();
        let mut found = Vec::new();
        for vm in &vms.items {
            let name = vm.metadata.name.as_str();
            let instance = by_name.get(name).copied().filter(|it| it.is_running());
            if let (Some(id), Some(instance)) = (ids.get(name), instance) {
                let own = instance.places().into_iter().map(Place::named).collect();
                let places = note(io, id, instance, &own);
                // One that may be elsewhere too, or on a node that is not known yet, is read by itself, which may settle that.
                if places.are_known_to_be(&own) {
                    let said = vm.said(Some(instance));
                    let machine = self.machine_of(io, vm, Some(instance), said);
                    found.push(((*id).clone(), machine));
                }
            }
        }
        pages.add(io, found);
        Ok(())
    }

    /// A command becomes no operation: what comes of it is read from the power.
    async fn follow(&self, _: &mut Io, _: &Operation) -> Result<Follow, DeviceError> {
        Ok(Follow::Done)
    }
}

/// Remembers where this run of the machine was seen.
fn note(io: &Io, id: &MachineId, instance: &Vmi, nodes: &BTreeSet<Place>) -> Places {
    let run = &instance.metadata.uid;
    io.account.fleet.note_places(id, run, nodes)
}

/// The name of the virtual machine.
fn name_of(id: &MachineId) -> &str {
    id.id.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
