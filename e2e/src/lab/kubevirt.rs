//! Machines that are virtual ones of KubeVirt: their objects in a cluster of their own, whose node is simulated, and a controller and an aggregated
//! API of ours that do to them what virt-controller and virt-api do, as far as the power goes. KubeVirt does not run here.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{
    Api, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

use super::infra::{Controller, Infra, Manage, Switches};
use super::virt_api::{self, VirtApi};
use super::{LIMIT, Lab};
use crate::simulated::{Fleet, FleetOptions, MachineSpec};
use crate::volume::Volumes;
use crate::workload::wait_node_ready;
use fencing_testbed::{eventually::eventually, moment::Moment, power::Power};

/// The namespace of the virtual machines, which have the names of their Nodes: that of the page.
const TENANT: &str = "tenant";
/// The node that runs them.
const NODE: &str = "infra-1";
/// What keeps an instance until its pod is gone.
const FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";
/// `spec.runStrategy` of a virtual machine that is to run, and of one that was stopped.
pub(super) const ALWAYS: &str = "Always";
pub(super) const HALTED: &str = "Halted";

/// The cluster with the virtual machines. It ends when dropped.
pub struct Kubevirt {
    _controller: Controller,
    switches: Arc<Switches>,
    _api: VirtApi,
    _node: Fleet,
    _infra: Infra,
}

impl Kubevirt {
    /// What was done to the machine of this place, counted from 0: when, and whether on or off.
    pub fn switched(&self, machine: usize) -> Vec<(Moment, bool)> {
        self.switches.switched(machine)
    }
}

impl Lab {
    /// A cluster of KubeVirt, whose virtual machines they are. One that goes off or on by itself was stopped or started by its owner.
    pub async fn kubevirt(&self) -> Result<Kubevirt> {
        let of = |kind| GroupVersionKind::gvk("kubevirt.io", "v1", kind);
        let kinds = ["VirtualMachine", "VirtualMachineInstance"].map(of);
        let infra = Infra::start(TENANT, &kinds).await?;
        let node = infra_node(&infra).await?;
        let [vms, vmis] = kinds.each_ref().map(|kind| infra.objects(kind));
        for rig in &self.rigs {
            let name = rig.machine.name();
            let vm = virtual_machine(name, rig.machine.system_uuid())?;
            vms.create(&PostParams::default(), &vm).await?;
            self.provider_id(name, &format!("kubevirt://{name}"))
                .await?;
        }
        let api = virt_api::serve(&infra, TENANT, vms.clone(), vmis.clone()).await?;
        let account = infra.account("kubevirt.md", "infra-account.yaml").await?;
        let switches = Switches::of(self.plugs());
        let virt_controller = VirtController {
            vms: vms.clone(),
            vmis,
            pods: Api::namespaced(infra.plane.admin(), TENANT),
            switches: Arc::clone(&switches),
        };
        let controller = Controller::run(Arc::clone(&switches), virt_controller);
        eventually("the virtual machines run", LIMIT, async || {
            for rig in &self.rigs {
                let vm = vms.get(rig.machine.name()).await?;
                ensure!(status_of(&vm) == "Running", "{}", vm.data);
            }
            Ok(())
        })
        .await?;
        let driver = json!({"kubevirt": {"address": infra.plane.url(), "namespace": TENANT}});
        self.fleet(driver, json!({"kubeconfig": account})).await?;
        Ok(Kubevirt {
            _controller: controller,
            switches,
            _api: api,
            _node: node,
            _infra: infra,
        })
    }
}

/// The node of the cluster, whose kubelet answers.
async fn infra_node(infra: &Infra) -> Result<Fleet> {
    let volumes = Volumes::new(infra.plane.files().directory().join("volumes"))?;
    let admin = infra.plane.admin();
    let fleet = Fleet::new(admin.clone(), volumes, FleetOptions::default());
    let spec = MachineSpec::new(NODE)
        .with_credentials(&infra.plane)
        .await?;
    fleet.add(spec).set_power(true);
    wait_node_ready(admin, NODE, "True", LIMIT).await?;
    Ok(fleet)
}

fn virtual_machine(name: &str, uuid: &str) -> Result<DynamicObject> {
    let vm = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": name},
        "spec": {
            "runStrategy": ALWAYS,
            "template": {"spec": {"domain": {"firmware": {"uuid": uuid}, "devices": {}}}},
        },
    });
    Ok(serde_json::from_value(vm)?)
}

fn status_of(vm: &DynamicObject) -> &str {
    vm.data["status"]["printableStatus"]
        .as_str()
        .unwrap_or_default()
}

/// Does what virt-controller and virt-handler do with a virtual machine: a run of it is an instance with a pod.
struct VirtController {
    vms: Api<DynamicObject>,
    vmis: Api<DynamicObject>,
    pods: Api<Pod>,
    switches: Arc<Switches>,
}

impl Manage for VirtController {
    async fn manage(&self, machine: &dyn Power) -> Result<()> {
        let name = machine.name();
        let vm = self.vms.get(name).await?;
        let is_to_run = vm.data["spec"]["runStrategy"] == ALWAYS;
        match self.vmis.get_opt(name).await? {
            None if is_to_run || machine.is_on() => self.begin(&vm, machine).await,
            None => self.show(&vm, "Stopped").await,
            Some(vmi) if vmi.metadata.deletion_timestamp.is_some() => self.end(&vmi).await,
            Some(vmi) if is_to_run && machine.is_on() => {
                self.keep(&vmi).await?;
                self.show(&vm, "Running").await
            }
            Some(_) => {
                set_strategy(&self.vms, name, HALTED).await?;
                self.show(&vm, "Stopping").await?;
                self.vmis.delete(name, &DeleteParams::default()).await?;
                Ok(())
            }
        }
    }
}

impl VirtController {
    /// Begins a run.
    async fn begin(&self, vm: &DynamicObject, machine: &dyn Power) -> Result<()> {
        let name = machine.name();
        set_strategy(&self.vms, name, ALWAYS).await?;
        self.show(vm, "Starting").await?;
        let vmi = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
            "metadata": {"name": name, "finalizers": [FINALIZER]},
            "spec": vm.data["spec"]["template"]["spec"],
        });
        let vmi = serde_json::from_value(vmi)?;
        self.vmis.create(&PostParams::default(), &vmi).await?;
        self.switches.switch(name, true);
        Ok(())
    }

    /// Sees to it that a run has its pod, and says where it is.
    async fn keep(&self, vmi: &DynamicObject) -> Result<()> {
        let name = vmi.name_any();
        if self.pods.get_opt(&launcher_of(vmi)).await?.is_none() {
            self.pods
                .create(&PostParams::default(), &launcher(vmi)?)
                .await?;
        }
        if vmi.data["status"]["phase"] != "Running" {
            let status = json!({"status": {"phase": "Running", "nodeName": NODE}});
            let params = PatchParams::default();
            self.vmis
                .patch_status(&name, &params, &Patch::Merge(&status))
                .await?;
        }
        Ok(())
    }

    /// Ends a run that is being deleted: the guest, then the pod, then the instance.
    async fn end(&self, vmi: &DynamicObject) -> Result<()> {
        let name = vmi.name_any();
        self.switches.switch(&name, false);
        let params = PatchParams::default();
        if vmi.data["status"]["phase"] == "Running" {
            let status = json!({"status": {"phase": "Failed"}});
            self.vmis
                .patch_status(&name, &params, &Patch::Merge(&status))
                .await?;
        }
        match self.pods.get_opt(&launcher_of(vmi)).await? {
            Some(pod) if pod.metadata.deletion_timestamp.is_none() => {
                // The kubelet confirms its end.
                self.pods
                    .delete(&pod.name_any(), &DeleteParams::default())
                    .await?;
            }
            Some(_) => {}
            None => {
                let patch = json!({"metadata": {"finalizers": null}});
                self.vmis
                    .patch(&name, &params, &Patch::Merge(&patch))
                    .await?;
            }
        }
        Ok(())
    }

    async fn show(&self, vm: &DynamicObject, status: &str) -> Result<()> {
        if status_of(vm) == status {
            return Ok(());
        }
        let patch = json!({"status": {"printableStatus": status}});
        let params = PatchParams::default();
        self.vms
            .patch_status(&vm.name_any(), &params, &Patch::Merge(&patch))
            .await?;
        Ok(())
    }
}

/// Sets `spec.runStrategy` of the virtual machine.
pub(super) async fn set_strategy(
    vms: &Api<DynamicObject>,
    name: &str,
    strategy: &str,
) -> Result<()> {
    let patch = json!({"spec": {"runStrategy": strategy}});
    let params = PatchParams::default();
    vms.patch(name, &params, &Patch::Merge(&patch))
        .await
        .with_context(|| format!("failed to set the strategy of {name}"))
        .map(drop)
}

/// The name of the pod of this run.
fn launcher_of(vmi: &DynamicObject) -> String {
    let uid = vmi.uid().unwrap_or_default();
    let run = uid.split('-').next().unwrap_or_default().to_owned();
    format!("virt-launcher-{}-{run}", vmi.name_any())
}

/// The pod in which it runs.
fn launcher(vmi: &DynamicObject) -> Result<Pod> {
    let (name, uid) = (vmi.name_any(), vmi.uid());
    let pod: Value = json!({
        "metadata": {
            "name": launcher_of(vmi),
            "labels": {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": uid},
            "annotations": {"kubevirt.io/domain": name},
            "ownerReferences": [{
                "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": name, "uid": uid, "controller": true,
            }],
        },
        "spec": {
            "nodeName": NODE,
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "compute", "image": "virt-launcher"}],
        },
    });
    Ok(serde_json::from_value(pod)?)
}
