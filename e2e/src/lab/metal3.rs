//! Machines that are hosts of Metal3: their BareMetalHosts in a cluster of their own, and a controller of ours that does to them what
//! baremetal-operator does, as far as the power goes. Neither baremetal-operator nor Ironic runs here; [`super::ironic`] has Ironic.

use std::sync::Arc;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::Lab;
use super::infra::{Controller, Infra, Manage, Switches};
use fencing_testbed::{moment::Moment, power::Power};

/// The namespace of the hosts, which have the names of their Nodes: that of the page.
pub(super) const HOSTS: &str = "metal3";
/// What holds a host off.
const HELD: &str = "reboot.metal3.io/node-fencing-operator";

/// The cluster with the hosts. It ends when dropped.
pub struct Metal3 {
    _controller: Controller,
    hosts: Api<DynamicObject>,
    switches: Arc<Switches>,
    _infra: Infra,
}

impl Metal3 {
    /// Takes the operator's annotation away, as a human does: the host is turned on.
    pub async fn release(&self, node: &str) -> Result<()> {
        release(&self.hosts, node).await
    }

    /// What was done to the machine of this place, counted from 0: when, and whether on or off.
    pub fn switched(&self, machine: usize) -> Vec<(Moment, bool)> {
        self.switches.switched(machine)
    }
}

impl Lab {
    /// A cluster of Metal3, whose hosts they are.
    pub async fn metal3(&self) -> Result<Metal3> {
        let (infra, hosts) = self.hosts().await?;
        let switches = Switches::of(self.plugs());
        let baremetal_operator = BaremetalOperator {
            hosts: hosts.clone(),
            events: Api::namespaced(infra.plane.admin(), HOSTS),
            switches: Arc::clone(&switches),
        };
        let controller = Controller::run(Arc::clone(&switches), baremetal_operator);
        Ok(Metal3 {
            _controller: controller,
            hosts,
            switches,
            _infra: infra,
        })
    }

    /// The cluster, a host in it for each machine, and the FenceDevice for all of them.
    pub(super) async fn hosts(&self) -> Result<(Infra, Api<DynamicObject>)> {
        let kind = GroupVersionKind::gvk("metal3.io", "v1alpha1", "BareMetalHost");
        let infra = Infra::start(HOSTS, std::slice::from_ref(&kind)).await?;
        let hosts = infra.objects(&kind);
        for rig in &self.rigs {
            let node = rig.machine.name();
            make_host(&hosts, node).await?;
            let id = format!("metal3://{HOSTS}/{node}/{}", machine_of(node));
            self.provider_id(node, &id).await?;
        }
        let account = infra
            .account("bare-metal-host.md", "hosts-account.yaml")
            .await?;
        let driver = json!({
            "identityCheck": "BestEffort",
            "bareMetalHost": {"address": infra.plane.url()},
        });
        self.fleet(driver, json!({"kubeconfig": account})).await?;
        Ok((infra, hosts))
    }
}

/// Takes the operator's annotation from the host of this node away.
pub(super) async fn release(hosts: &Api<DynamicObject>, node: &str) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {HELD: null}}});
    let params = PatchParams::default();
    hosts.patch(node, &params, &Patch::Merge(&patch)).await?;
    Ok(())
}

/// The Metal3Machine that has the host.
fn machine_of(node: &str) -> String {
    format!("{node}-machine")
}

/// A host that runs.
async fn make_host(hosts: &Api<DynamicObject>, node: &str) -> Result<()> {
    let host: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": node},
        "spec": {
            "online": true,
            "bmc": {"address": "redfish://192.0.2.7/redfish/v1/Systems/1", "credentialsName": "bmc"},
            "consumerRef": {
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3Machine", "name": machine_of(node),
                "namespace": HOSTS,
            },
        },
    }))?;
    hosts
        .create(&PostParams::default(), &host)
        .await
        .with_context(|| format!("failed to create BareMetalHost {node}"))?;
    let status = json!({"status": {
        "poweredOn": true, "operationalStatus": "OK", "errorMessage": "", "errorCount": 0,
        "provisioning": {"state": "provisioned", "ID": ""},
    }});
    let params = PatchParams::default();
    hosts
        .patch_status(node, &params, &Patch::Merge(&status))
        .await?;
    Ok(())
}

/// Does what baremetal-operator does with a host, in its order: what was read of the machine is written first, and only then something is done.
struct BaremetalOperator {
    hosts: Api<DynamicObject>,
    events: Api<Event>,
    switches: Arc<Switches>,
}

impl Manage for BaremetalOperator {
    async fn manage(&self, machine: &dyn Power) -> Result<()> {
        let node = machine.name();
        let mut host = self.hosts.get(node).await?;
        let is_on = machine.is_on();
        if host.data["status"]["poweredOn"] != json!(is_on) {
            host.data["status"]["poweredOn"] = json!(is_on);
            // Fails where the host has changed since it was read.
            self.hosts
                .replace_status(node, &PostParams::default(), &host)
                .await?;
            return Ok(());
        }
        let wanted = is_wanted(&host);
        if wanted != is_on {
            // Ironic has taken the command by then, and carries it out.
            let (reason, message) = switched(wanted);
            let event = event(&host, reason, message)?;
            self.events.create(&PostParams::default(), &event).await?;
            self.switches.switch(node, wanted);
        }
        Ok(())
    }
}

/// Is the host to be on?
pub(super) fn is_wanted(host: &DynamicObject) -> bool {
    let annotations = host.metadata.annotations.iter().flatten();
    let mut names = annotations.map(|(name, _)| name.as_str());
    let is_held = names.any(|it| it == "reboot.metal3.io" || it.starts_with("reboot.metal3.io/"));
    host.data["spec"]["online"] == json!(true) && !is_held
}

/// Reason and message of the event that Ironic has taken a command: a hard one, which our annotation asks for.
pub(super) fn switched(on: bool) -> (&'static str, &'static str) {
    match on {
        true => ("PowerOn", "Host powered on"),
        false => ("PowerOff", "Host powered off"),
    }
}

/// An event of baremetal-operator about the host.
pub(super) fn event(host: &DynamicObject, reason: &str, message: &str) -> Result<Event> {
    let event: Value = json!({
        "metadata": {"generateName": format!("{}-", reason.to_lowercase()), "namespace": HOSTS},
        "involvedObject": {
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "namespace": HOSTS, "name": host.metadata.name,
            "uid": host.metadata.uid,
        },
        "reason": reason, "message": message, "type": "Normal", "count": 1,
        "source": {"component": "metal3-baremetal-controller"},
        "reportingComponent": "metal3.io/baremetal-controller", "reportingInstance": "",
    });
    Ok(serde_json::from_value(event)?)
}
