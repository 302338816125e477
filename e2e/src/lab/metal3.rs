//! Machines that are hosts of Metal3: their BareMetalHosts on an API server of their own (the lab's no device may be asked at), the account of docs/how-to/bare-metal-host.md, and a controller
//! that does to them what baremetal-operator does, as far as the power goes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Event, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::objects::device_of;
use super::{LIMIT, Lab};
use crate::control_plane::{ControlPlane, Options};
use crate::machine::Machine;
use crate::operator::NAMESPACE;

/// The namespace of the hosts, which have the names of their Nodes.
const HOSTS: &str = "metal3";
/// The account, and the Secret with its kubeconfig.
const ACCOUNT: &str = "node-fencing";
/// What holds a host off.
pub const HELD: &str = "reboot.metal3.io/node-fencing-operator";
/// Pause between two looks of the controller.
const PERIOD: Duration = Duration::from_millis(200);

/// The controller. It ends when dropped.
pub struct Metal3 {
    hosts: Api<DynamicObject>,
    task: JoinHandle<()>,
    _plane: ControlPlane,
}

impl Drop for Metal3 {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Metal3 {
    /// Is the host of this Node held off by the operator?
    pub async fn is_held(&self, node: &str) -> Result<bool> {
        let host = self.hosts.get(node).await?;
        let annotations = host.metadata.annotations.unwrap_or_default();
        Ok(annotations.contains_key(HELD))
    }

    /// Takes the annotation away, as a human does.
    pub async fn release(&self, node: &str) -> Result<()> {
        let patch = json!({"metadata": {"annotations": {HELD: null}}});
        let params = PatchParams::default();
        self.hosts
            .patch(node, &params, &Patch::Merge(&patch))
            .await?;
        Ok(())
    }
}

impl Lab {
    /// Makes the machines hosts of Metal3, with a FenceDevice each that knows nothing but its BareMetalHost.
    pub async fn metal3(&self) -> Result<Metal3> {
        let plane = ControlPlane::start(Options::named("metal3-hosts")).await?;
        let client = plane.admin();
        define_hosts(&plane).await?;
        let resource = GroupVersionKind::gvk("metal3.io", "v1alpha1", "BareMetalHost");
        let resource = ApiResource::from_gvk(&resource);
        let hosts: Api<DynamicObject> = Api::namespaced_with(client.clone(), HOSTS, &resource);
        for rig in &self.rigs {
            host(&hosts, rig.machine.name()).await?;
        }
        self.account_of_hosts(&plane).await?;
        for rig in &self.rigs {
            let node = rig.machine.name();
            let device = json!({
                "nodeName": node,
                "identityCheck": "BestEffort",
                "credentialsRef": {"name": ACCOUNT},
                "probe": {"periodSeconds": 30},
                "bareMetalHost": {"address": plane.url(), "name": node, "namespace": HOSTS},
            });
            self.apply("FenceDevice", &device_of(node), device).await?;
            self.devices.has_no_log(node);
        }
        let machines: Vec<Arc<dyn Machine>> =
            self.rigs.iter().map(|rig| rig.machine.clone()).collect();
        let (managed, events) = (hosts.clone(), Api::namespaced(client, HOSTS));
        let task = tokio::spawn(async move {
            loop {
                for machine in &machines {
                    // What fails is tried again with the next look, as a controller does.
                    let _ = manage(&managed, &events, machine.as_ref()).await;
                }
                sleep(PERIOD).await;
            }
        });
        Ok(Metal3 {
            hosts,
            task,
            _plane: plane,
        })
    }

    /// The account as the page has it, and its kubeconfig in the operator's namespace.
    async fn account_of_hosts(&self, plane: &ControlPlane) -> Result<()> {
        let account = format!("{HOSTS}:{ACCOUNT}");
        for arguments in [
            vec!["create", "serviceaccount", ACCOUNT],
            vec![
                "create",
                "role",
                ACCOUNT,
                "--verb=get,list,patch",
                "--resource=baremetalhosts.metal3.io",
            ],
            vec![
                "create",
                "role",
                "node-fencing-events",
                "--verb=list",
                "--resource=events",
            ],
            vec![
                "create",
                "rolebinding",
                ACCOUNT,
                "--role=node-fencing",
                &format!("--serviceaccount={account}"),
            ],
            vec![
                "create",
                "rolebinding",
                "node-fencing-events",
                "--role=node-fencing-events",
                &format!("--serviceaccount={account}"),
            ],
        ] {
            let arguments = [vec!["-n", HOSTS], arguments].concat();
            plane.kubectl_text(&arguments).await?;
        }
        let path = plane
            .kubeconfig_for_service_account(HOSTS, ACCOUNT, None)
            .await?;
        let kubeconfig = std::fs::read_to_string(path)?;
        let secret = json!({
            "metadata": {"name": ACCOUNT, "annotations": {"nodefencing.io/allowed-hosts": "127.0.0.0/8"}},
            "stringData": {"kubeconfig": kubeconfig},
        });
        let secrets: Api<Secret> = Api::namespaced(self.control_plane.admin(), NAMESPACE);
        secrets
            .create(&PostParams::default(), &serde_json::from_value(secret)?)
            .await?;
        Ok(())
    }
}

async fn define_hosts(plane: &ControlPlane) -> Result<()> {
    let definition = json!({
        "metadata": {"name": "baremetalhosts.metal3.io"},
        "spec": {
            "group": "metal3.io", "scope": "Namespaced",
            "names": {"kind": "BareMetalHost", "plural": "baremetalhosts", "singular": "baremetalhost", "shortNames": ["bmh"]},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let definitions: Api<CustomResourceDefinition> = Api::all(plane.admin());
    let definition = serde_json::from_value(definition)?;
    definitions
        .create(&PostParams::default(), &definition)
        .await?;
    let create = ["create", "namespace", HOSTS];
    plane.kubectl_text(&create).await?;
    Ok(())
}

/// A host that runs. The definition may not be served yet.
async fn host(hosts: &Api<DynamicObject>, node: &str) -> Result<()> {
    let host: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": node},
        "spec": {"online": true, "bmc": {"address": "redfish://192.0.2.7/redfish/v1/Systems/1", "credentialsName": "bmc"}},
    }))?;
    let created = tokio::time::timeout(LIMIT, async {
        while hosts.create(&PostParams::default(), &host).await.is_err() {
            sleep(PERIOD).await;
        }
    });
    created.await.context("BareMetalHosts are not served")?;
    let status = json!({"status": {
        "poweredOn": true, "operationalStatus": "OK", "errorMessage": "", "errorCount": 0,
        "provisioning": {"state": "externally provisioned", "ID": ""},
    }});
    let params = PatchParams::default();
    hosts
        .patch_status(node, &params, &Patch::Merge(&status))
        .await?;
    Ok(())
}

/// One look, in the order of baremetal-operator: what was read is written first, and only then something is done. The write fails where the host has
/// changed since it was read.
async fn manage(
    hosts: &Api<DynamicObject>,
    events: &Api<Event>,
    machine: &dyn Machine,
) -> Result<()> {
    let node = machine.name();
    let mut host = hosts.get(node).await?;
    let is_on = machine.is_on();
    if host.data["status"]["poweredOn"] != json!(is_on) {
        host.data["status"]["poweredOn"] = json!(is_on);
        hosts
            .replace_status(node, &PostParams::default(), &host)
            .await?;
        return Ok(());
    }
    let annotations = host.metadata.annotations.clone().unwrap_or_default();
    let mut names = annotations.keys();
    let is_held =
        names.any(|name| name == "reboot.metal3.io" || name.starts_with("reboot.metal3.io/"));
    let wanted = host.data["spec"]["online"] == json!(true) && !is_held;
    if wanted != is_on {
        events
            .create(&PostParams::default(), &event(&host, wanted)?)
            .await?;
        machine.set_power(wanted);
    }
    Ok(())
}

fn event(host: &DynamicObject, on: bool) -> Result<Event> {
    let (reason, message) = match on {
        true => ("PowerOn", "Host powered on"),
        false => ("PowerOff", "Host powered off"),
    };
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
