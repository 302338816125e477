//! FenceDevices out of Metal3's BareMetalHosts.
//!
//! A BareMetalHost (metal3.io/v1alpha1; the baremetal-operator's docs/api.md and apis/metal3.io/v1alpha1/baremetalhost_types.go, read on
//! 2026-11-26) says how its BMC is reached and with which Secret. What it does not say is the name of the Node: [`node`] has the ways to
//! find it, and a host with none is printed as a comment. The Secret is in another namespace than the operator's, and is not read here: a comment has
//! the command that copies it.

mod node;

use super::super::Error;
use super::super::cluster::{Cluster, seen};
use super::super::reach::Reach;
use super::bmc_address::BmcAddress;
use super::consumers::{Consumers, Reference, list};
use super::devices::{
    Common, NODE, Proposal, Proposals, device, no_node, pinning, redfish, sent_only_to,
};
use super::document::Remark;
use crate::table::quoted;
use fencing_api::device::{Drivers, FenceDeviceSpec, IpmiDriver};
use fencing_api::names::is_dns_name;
use fencing_cluster::client::AskError;
use fencing_cluster::slim::SlimNode;
use kube::api::ListParams;
use node::node_of;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// Group.
const GROUP: &str = "metal3.io";
/// Group and version.
const API: &str = "metal3.io/v1alpha1";
/// A BareMetalHost, of which only the fields are read that lead to its BMC and to its Node.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct Host(Value);

impl Host {
    /// The text at this place; none, or another thing: empty.
    fn text(&self, place: &str) -> &str {
        let text = self.0.pointer(place).and_then(Value::as_str);
        text.unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    fn secret(&self) -> &str {
        self.text("/spec/bmc/credentialsName")
    }

    fn bmc(&self) -> Result<BmcAddress, String> {
        BmcAddress::read(self.text("/spec/bmc/address"))
    }

    fn consumer(&self) -> Option<Reference> {
        Reference::deserialize(self.0.pointer("/spec/consumerRef")?).ok()
    }

    fn checks_no_certificate(&self) -> bool {
        let flag = self.0.pointer("/spec/bmc/disableCertificateVerification");
        flag.and_then(Value::as_bool) == Some(true)
    }

    fn has_secret_of(&self, other: &Self) -> bool {
        self.namespace() == other.namespace() && self.secret() == other.secret()
    }

    /// Whose host it is, as far as that is known.
    fn told(&self) -> String {
        let vendor = ["manufacturer", "productName", "serialNumber"];
        let parts = vendor.map(|it| self.text(&format!("/status/hardware/systemVendor/{it}")));
        let parts: Vec<&str> = parts.into_iter().filter(|it| !it.is_empty()).collect();
        let machine = match parts.is_empty() {
            true => String::new(),
            false => format!(" ({})", parts.join(" ")),
        };
        format!(
            "BareMetalHost {}/{}{machine}",
            self.namespace(),
            self.name()
        )
    }
}

/// What the cluster says beside the hosts.
pub struct Surroundings {
    /// The Nodes, or why they are not known.
    pub nodes: Result<Vec<SlimNode>, String>,
    /// Who uses the hosts.
    pub consumers: Consumers,
    /// The operator's namespace.
    pub namespace: String,
}

/// Reads the hosts and what leads to their Nodes.
///
/// # Errors
/// [`Error`].
pub async fn devices(
    reach: &Reach,
    namespace: Option<&str>,
    common: &Common,
) -> Result<Proposals, Error> {
    let cluster = Cluster::of(reach).await?;
    let listed = list(&cluster, API, "BareMetalHost", namespace).await;
    let listed = match listed {
        Ok(listed) => listed,
        Err(error) => return Err(unread(&cluster, &error).await),
    };
    let hosts: Vec<Host> = listed.into_iter().map(Host).collect();
    if hosts.is_empty() {
        let place = namespace.map_or("any namespace".to_owned(), |it| format!("namespace {it}"));
        eprintln!("No BareMetalHost found in {place}");
        return Ok(Proposals::default());
    }
    let references: Vec<Reference> = hosts.iter().filter_map(Host::consumer).collect();
    let nodes = cluster
        .list(&cluster.api::<SlimNode>(), &ListParams::default())
        .await;
    let around = Surroundings {
        nodes: seen(nodes)?,
        consumers: Consumers::of(&cluster, &references).await,
        namespace: cluster.namespace.clone(),
    };
    Ok(proposals(&hosts, &around, common))
}

/// Why there are no hosts to be read.
async fn unread(cluster: &Cluster, error: &AskError) -> Error {
    let forbidden = matches!(error, AskError::Refused { code: 403, .. });
    // To a path of a group that it does not know the API server answers in plain text, as a proxy before it might.
    let is_unknown = !forbidden && lacks_group(cluster).await;
    Error::No(match error {
        _ if is_unknown => format!(
            "the cluster {} has no BareMetalHosts ({API}); select the cluster with Metal3 by --context, or use --from-redfish-scan",
            cluster.clients.server
        ),
        AskError::Refused {
            code: 403, message, ..
        } => format!(
            "{message}; name one by --bmh-namespace, or ask for: kubectl create clusterrole bmh-reader --verb=list --resource=baremetalhosts.metal3.io"
        ),
        error => format!(
            "list baremetalhosts.metal3.io: {error}; check `kubectl get bmh -A`, then try again"
        ),
    })
}

/// Does the cluster say which groups it knows, and not this one?
async fn lacks_group(cluster: &Cluster) -> bool {
    let groups = cluster.raw("/apis").await.ok();
    let groups = groups.as_ref().and_then(|it| it.get("groups")?.as_array());
    groups.is_some_and(|all| {
        !all.iter()
            .any(|it| it.get("name").is_some_and(|it| it == GROUP))
    })
}

/// A proposal for each host, by namespace and name.
pub fn proposals(hosts: &[Host], around: &Surroundings, common: &Common) -> Proposals {
    let mut hosts: Vec<&Host> = hosts.iter().collect();
    hosts.sort_by_key(|it| (it.namespace(), it.name()));
    let nodes: Vec<_> = hosts.iter().map(|it| node_of(it, around)).collect();
    let is_claimed_twice = |node: &str| {
        let known = nodes.iter().flatten();
        known.filter(|(it, _)| it == node).count() > 1
    };
    let mut proposals = Proposals::default();
    let mut copied = BTreeSet::new();
    for (host, node) in hosts.iter().zip(&nodes) {
        // In two namespaces there may be hosts, and Secrets, of one name; FenceDevices and the operator's Secrets are in one place.
        let alone = |name: &str, of: fn(&Host) -> &str| {
            let is_elsewhere =
                |it: &&&Host| of(it) == of(host) && it.namespace() != host.namespace();
            match hosts.iter().find(is_elsewhere) {
                None => name.to_owned(),
                Some(_) => format!("{}-{name}", host.namespace()),
            }
        };
        let names = Names {
            device: format!("{}-bmc", alone(host.name(), Host::name)),
            secret: alone(host.secret(), Host::secret),
        };
        let node = match node.clone() {
            Ok((node, how)) if is_claimed_twice(&node) => Err(vec![format!(
                "several BareMetalHosts lead to Node {node} by {how}"
            )]),
            node => node,
        };
        match proposal(host, node, &names, common) {
            Ok(mut proposal) => {
                // Hosts may share a Secret, which is copied once.
                if copied.insert(names.secret.clone()) {
                    let words = "Its Secret, for the operator's namespace:";
                    let command = copy(host, &names.secret, &around.namespace);
                    proposal.remarks.extend([Remark::words(words), command]);
                    let with_it = hosts.iter().filter(|it| it.has_secret_of(host));
                    let addresses = with_it.filter_map(|it| it.bmc().ok()?.reached());
                    proposal.remarks.extend(sent_only_to(
                        &around.namespace,
                        &names.secret,
                        &addresses.map(|it| it.host).collect(),
                    ));
                }
                proposals.devices.push(proposal);
            }
            Err(words) => proposals.after.push(Remark::Words(format!(
                "{}: no FenceDevice: {words}.",
                host.told()
            ))),
        }
    }
    proposals
}

/// What the objects are called.
struct Names {
    device: String,
    secret: String,
}

fn proposal(
    host: &Host,
    node: Result<(String, &'static str), Vec<String>>,
    names: &Names,
    common: &Common,
) -> Result<Proposal, String> {
    let bmc = host.bmc()?;
    if !is_dns_name(host.secret()) {
        return Err("`spec.bmc.credentialsName` is not the name of a Secret".to_owned());
    }
    let mut remarks = Vec::new();
    let mut is_complete = true;
    match &node {
        Ok((_, how)) => remarks.push(Remark::Words(format!(
            "{}; its Node by {how}.",
            host.told()
        ))),
        Err(missing) => {
            is_complete = false;
            remarks.push(no_node(&host.told(), &missing.join("; ")));
        }
    }
    if let Some(Err(error)) = bmc.reached().map(|it| common.judge(&it)) {
        is_complete = false;
        remarks.push(Remark::Words(format!("The operator refuses it: {error}.")));
    }
    let node = node.map_or_else(|_| NODE.to_owned(), |(node, _)| node);
    let ca = common.ca_config_map.as_deref();
    let driver = match bmc {
        BmcAddress::Redfish {
            address,
            system_id,
            is_plaintext,
        } => {
            remarks.extend(about_tls(host, &address, is_plaintext));
            redfish(address, system_id, ca)
        }
        BmcAddress::Ipmi {
            host,
            port,
            privilege,
        } => FenceDeviceSpec {
            drivers: Drivers {
                ipmi: Some(IpmiDriver {
                    address: host,
                    port,
                    cipher_suite: 17,
                    privilege,
                }),
                ..Drivers::default()
            },
            ..FenceDeviceSpec::default()
        },
        BmcAddress::Other { scheme, address } => {
            is_complete = false;
            remarks.push(Remark::Words(format!(
                "Metal3 uses the vendor protocol `{scheme}`, for which there is no driver. This is its Redfish service, if it has one; check that it answers:"
            )));
            remarks.push(Remark::Command(format!(
                "curl --insecure {address}/redfish/v1/"
            )));
            redfish(address, None, ca)
        }
    };
    Ok(Proposal {
        device: device(&names.device, &node, driver, &names.secret, common),
        remarks,
        is_complete,
    })
}

/// Nothing here is less than checked in full, whatever the host says: whoever wants less writes it.
fn about_tls(host: &Host, address: &str, is_plaintext: bool) -> Vec<Remark> {
    let mut remarks = Vec::new();
    if is_plaintext {
        remarks.push(Remark::words(
            "Metal3 uses plain http, which exposes the password. Here it is https: enable that on the BMC, and correct the port.",
        ));
        remarks.push(Remark::words(
            "If the BMC has no https: address: http://..., with tls: {verification: None}.",
        ));
    } else if host.checks_no_certificate() {
        remarks.push(Remark::words(
            "Metal3 does not verify its certificate (disableCertificateVerification: true). Here it is verified: name its CA in tls.caRef.",
        ));
        remarks.extend(pinning(address));
    }
    remarks
}

/// The command that copies the Secret, without showing it: not on a command line, nor in an annotation of `kubectl apply`.
fn copy(host: &Host, secret: &str, namespace: &str) -> Remark {
    let template = format!(
        r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"{secret}"}},"data":{{"username":"{{{{.data.username}}}}","password":"{{{{.data.password}}}}"}}}}"#
    );
    Remark::Command(format!(
        "kubectl -n {} get secret {} -o go-template={} | kubectl -n {namespace} create -f -",
        quoted(host.namespace()),
        quoted(host.secret()),
        quoted(&template)
    ))
}

#[cfg(test)]
mod tests;
