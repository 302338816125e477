//! Which Node is which system: what a BMC and a kubelet both say of the machine. A system of which that cannot be said is printed as a comment, and
//! nothing is guessed.

use super::super::bmc_address::system_id;
use super::super::devices::{
    Common, NODE, Proposal, Proposals, device, no_node, pinning, redfish, sent_only_to,
};
use super::super::document::Remark;
use crate::table::quoted;
use fencing_cluster::slim::SlimNode;
use fencing_cluster::text::listed;
use fencing_core::reading::{orderless, same_system, usable_uuid};
use fencing_drivers::address::Address;
use fencing_drivers::redfish::parse::{NO_RESET, System};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Nodes that are named in one remark.
const NAMED_MAX: usize = 20;

/// A system behind a BMC.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Of the BMC.
    pub address: Address,
    /// Path of the system.
    pub path: String,
    /// What the BMC says of it.
    pub system: System,
    /// The BMC has others.
    pub has_siblings: bool,
}

impl Machine {
    /// All systems of a BMC.
    pub fn all(address: &Address, systems: Vec<(String, System)>) -> Vec<Self> {
        let has_siblings = systems.len() > 1;
        let machines = systems.into_iter().map(|(path, system)| Self {
            address: address.clone(),
            path,
            system,
            has_siblings,
        });
        machines.collect()
    }

    /// Nobody can reset it.
    fn has_no_reset(&self) -> bool {
        let why_not = self.system.reset.as_ref().err();
        why_not.is_some_and(|words| words == NO_RESET)
    }

    /// A part of a machine, such as a baseboard of accelerators: nobody can reset it, but another system of the same BMC. Where none can be,
    /// the account of the scan may be why.
    fn is_part(&self, systems: &[Self]) -> bool {
        let others = systems.iter().filter(|it| it.address == self.address);
        self.has_no_reset() && others.into_iter().any(|it| !it.has_no_reset())
    }

    fn uuid(&self) -> Option<&str> {
        let uuid = self.system.identity.system_uuid.as_deref();
        uuid.filter(|it| usable_uuid(it).is_some())
    }

    fn told(&self) -> String {
        let maker = [&self.system.vendor, &self.system.model];
        let maker: Vec<&str> = maker.into_iter().flatten().map(String::as_str).collect();
        let maker = match maker.is_empty() {
            true => String::new(),
            false => format!(" ({})", maker.join(" ")),
        };
        format!("{}{}{maker}", self.address, self.path)
    }
}

/// What the objects are written with.
pub struct Writing {
    /// The operator's namespace.
    pub namespace: String,
    /// Account of the scan.
    pub username: String,
    /// Name of the Secret.
    pub credentials: String,
    /// Name of the ConfigMap with the CA; none: the system's CAs count.
    pub ca_config_map: Option<String>,
    /// What is in it.
    pub ca_file: Option<PathBuf>,
    /// No certificate was checked.
    pub is_insecure: bool,
    /// What all devices get.
    pub common: Common,
}

impl Writing {
    /// A proposal for each system, and what is left on either side.
    pub fn proposals(
        &self,
        systems: &[Machine],
        nodes: &[SlimNode],
        silent: &[String],
    ) -> Proposals {
        let (parts, machines): (Vec<_>, Vec<_>) =
            systems.iter().cloned().partition(|it| it.is_part(systems));
        let machines = machines.as_slice();
        let mut after: Vec<Remark> = silent
            .iter()
            .map(|it| Remark::Words(format!("No system was read: {it}.")))
            .collect();
        after.extend(parts.iter().map(|it| {
            Remark::Words(format!(
                "{}: it cannot be turned off ({NO_RESET}), so it is no machine of a Node.",
                it.told()
            ))
        }));
        let without = nodes
            .iter()
            .filter(|node| !machines.iter().any(|it| is_of(it, node)));
        let without: Vec<String> = without.map(name).collect();
        if !without.is_empty() {
            after.push(Remark::Words(format!(
                "No BMC of this scan names the system UUID of: {}.",
                listed(&without, "", NAMED_MAX)
            )));
        }
        let devices = machines.iter().map(|it| self.proposal(it, machines, nodes));
        Proposals {
            before: self.before(machines),
            devices: devices.collect(),
            after,
        }
    }

    /// What has to be there before the devices are.
    fn before(&self, machines: &[Machine]) -> Vec<Remark> {
        let namespace = &self.namespace;
        let mut remarks = vec![
            Remark::words("The account of the devices; type its password, then Ctrl-D twice:"),
            Remark::Command(format!(
                "kubectl -n {namespace} create secret generic {} --from-literal=username={} --from-file=password=/dev/stdin",
                self.credentials,
                quoted(&self.username)
            )),
        ];
        let hosts: BTreeSet<String> = machines.iter().map(|it| it.address.host.clone()).collect();
        remarks.extend(sent_only_to(namespace, &self.credentials, &hosts));
        if let (Some(name), Some(file)) = (&self.ca_config_map, &self.ca_file) {
            remarks.push(Remark::words("The CA of their certificates:"));
            remarks.push(Remark::Command(format!(
                "kubectl -n {namespace} create configmap {name} --from-file=ca.crt={}",
                quoted(&file.display().to_string())
            )));
        }
        remarks
    }

    fn proposal(&self, machine: &Machine, machines: &[Machine], nodes: &[SlimNode]) -> Proposal {
        let found = node_of(machine, machines, nodes);
        let told = machine.told();
        let mut remarks = vec![match &found {
            Ok((node, uuid)) => Remark::Words(format!(
                "{told}: it and Node {node} both report the system UUID {uuid}."
            )),
            Err(missing) => no_node(&told, missing),
        }];
        let address = format!("https://{}", machine.address.authority());
        if self.is_insecure {
            remarks.push(Remark::words(
                "No certificate was checked in this scan (--insecure); the operator checks it in full.",
            ));
            remarks.extend(pinning(&address));
        }
        // Needed only where there are several.
        let id = match machine.has_siblings {
            true => system_id(&machine.address, &machine.path).ok().flatten(),
            false => None,
        };
        let driver = redfish(address, id, self.ca_config_map.as_deref());
        let is_complete = found.is_ok();
        let node = found.map_or_else(|_| NODE.to_owned(), |(node, _)| node);
        let name = format!("{node}-bmc");
        Proposal {
            device: device(&name, &node, driver, &self.credentials, &self.common),
            remarks,
            is_complete,
        }
    }
}

fn name(node: &SlimNode) -> String {
    node.metadata.name.clone().unwrap_or_default()
}

fn is_of(machine: &Machine, node: &SlimNode) -> bool {
    let uuid = machine.uuid();
    uuid.is_some_and(|it| same_system(it, &node.status.node_info.system_uuid))
}

/// The Node, and the UUID that both name, or why there is none.
fn node_of(
    machine: &Machine,
    machines: &[Machine],
    nodes: &[SlimNode],
) -> Result<(String, String), String> {
    let Some(uuid) = machine.uuid() else {
        let named = machine.system.identity.system_uuid.as_deref();
        return Err(match named {
            None => "the BMC reports no system UUID".to_owned(),
            Some(named) => {
                format!("its system UUID `{named}` identifies no machine; set it in the firmware")
            }
        });
    };
    let key = |it: &Machine| it.uuid().and_then(usable_uuid).map(orderless);
    if machines.iter().filter(|it| key(it) == key(machine)).count() > 1 {
        return Err(format!(
            "several systems of this scan report the system UUID {uuid}; leave out duplicate addresses"
        ));
    }
    let found: Vec<String> = nodes
        .iter()
        .filter(|it| is_of(machine, it))
        .map(name)
        .collect();
    match found.as_slice() {
        [node] => Ok((node.clone(), uuid.to_owned())),
        [] => Err(format!("no Node reports the system UUID {uuid}")),
        several => Err(format!(
            "several Nodes report the system UUID {uuid}: {}",
            listed(several, "", NAMED_MAX)
        )),
    }
}

#[cfg(test)]
mod tests;
