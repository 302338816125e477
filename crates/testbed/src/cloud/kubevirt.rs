//! A namespace of KubeVirt with one virtual machine, and others beside it that run, as the API server of its cluster answers.

use serde_json::{Value, json};

use super::kube::{self, REVIEWS};
use super::{Beside, Page, Taken, View, Wants, uuid_of};
use crate::{bmc::Answer, https::Call};

/// The namespace of the virtual machines.
pub const NAMESPACE: &str = "tenant";
/// The node that runs all of them.
pub const NODE: &str = "infra-1";

const VMS: &str = "/apis/kubevirt.io/v1/namespaces/tenant/virtualmachines";
const VMIS: &str = "/apis/kubevirt.io/v1/namespaces/tenant/virtualmachineinstances";
const COMMANDS: &str = "/apis/subresources.kubevirt.io/v1/namespaces/tenant/virtualmachines/";
const PODS: &str = "/api/v1/namespaces/tenant/pods";

/// The cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kubevirt {
    /// Virtual machines that run beside the machine's, from 1 on.
    pub others: usize,
}

/// The name of another virtual machine, by its number.
pub fn name_of(number: usize) -> String {
    format!("other-{number}")
}

/// The name behind this path.
fn named<'a>(path: &'a str, list: &str) -> Option<&'a str> {
    path.strip_prefix(list)?.strip_prefix('/')
}

impl Page for Kubevirt {
    const STATE: [&'static str; 2] = [
        "\"printableStatus\":\"Running\"",
        "\"printableStatus\":\"Stopped\"",
    ];

    fn wants(&self, call: &Call) -> Option<Wants> {
        let path = call.head.uri.path();
        let command = path
            .strip_prefix(COMMANDS)
            .and_then(|it| it.split_once('/'));
        let is_known = [VMS, PODS, REVIEWS].contains(&path)
            || path.starts_with(VMIS)
            || path == format!("/api/v1/nodes/{NODE}");
        match (call.head.method.as_str(), command) {
            ("PUT", Some((_, "stop"))) => Some(Wants::Switch(false)),
            ("PUT", Some((_, "start"))) => Some(Wants::Switch(true)),
            ("GET", None) if named(path, VMS).is_some() => Some(Wants::State),
            ("GET" | "POST", None) if is_known => Some(Wants::Other),
            _ => None,
        }
    }

    fn lets_in(&self, _: Wants, call: &Call) -> bool {
        kube::has_token(call)
    }

    fn answer(&self, wants: Wants, view: &View<'_>) -> Answer {
        let path = view.head.uri.path();
        match (wants, view.taken) {
            (Wants::Switch(_), Taken::Done) => Answer::text(202, ""),
            (Wants::Switch(false), Taken::Already) => self.error(409, "VM is not running"),
            (Wants::Switch(true), Taken::Already) => self.error(409, "VM is already running"),
            (Wants::Switch(_), _) => self.error(409, "VM recovery required"),
            (Wants::State, _) => match self.number(named(path, VMS).unwrap_or_default(), view) {
                Some(number) => kube::json(&vm(number, view)),
                None => kube::absent("kubevirt.io", "virtualmachines", "other"),
            },
            (Wants::Login | Wants::Other, _) => self.other(path, view),
        }
    }

    fn error(&self, status: u16, words: &str) -> Answer {
        kube::error(status, words)
    }
}

impl Kubevirt {
    /// Which of them has this name: 0 is the machine's.
    fn number(self, name: &str, view: &View<'_>) -> Option<usize> {
        let mut all = 0..=self.others;
        all.find(|number| name == vm_name(*number, view))
    }

    fn other(self, path: &str, view: &View<'_>) -> Answer {
        let all = 0..=self.others;
        // What is left of the machine's own run, once it is stopped.
        let left = view.beside == Beside::CutOff;
        let has_run = move |number: &usize| *number > 0 || view.is_on || left;
        match path {
            REVIEWS => kube::allowed(),
            VMS => kube::list("VirtualMachineList", all.map(|it| vm(it, view)), view),
            VMIS => {
                let runs = all.filter(has_run).map(|it| vmi(it, view));
                kube::list("VirtualMachineInstanceList", runs, view)
            }
            PODS => {
                let is_there = move |number: &usize| {
                    *number > 0 || view.is_on || view.beside == Beside::AtWork
                };
                let query = view.head.uri.query().unwrap_or_default();
                let named = query.split_once("fieldSelector=metadata.name%3D");
                let named = named.map(|(_, name)| name.to_owned());
                let is_it = move |it: &Value| {
                    let name = it["metadata"]["name"].as_str();
                    named.as_deref().is_none_or(|named| name == Some(named))
                };
                let pods = all.filter(is_there).map(|it| pod(it, view));
                kube::list("PodList", pods.filter(is_it), view)
            }
            _ => match named(path, VMIS) {
                Some(name) => match self.number(name, view).filter(has_run) {
                    Some(number) => kube::json(&vmi(number, view)),
                    None => kube::absent("kubevirt.io", "virtualmachineinstances", name),
                },
                None => kube::json(&node(view.beside != Beside::OldReport)),
            },
        }
    }
}

fn vm_name(number: usize, view: &View<'_>) -> String {
    match number {
        0 => view.name.to_owned(),
        number => name_of(number),
    }
}

fn uuid(number: usize, view: &View<'_>) -> String {
    match number {
        0 => view.uuid.to_owned(),
        number => uuid_of(number),
    }
}

fn vm(number: usize, view: &View<'_>) -> Value {
    let is_on = view.is_on || number > 0;
    let (status, strategy) = match is_on {
        true => ("Running", "Always"),
        false => ("Stopped", "Halted"),
    };
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": {
            "name": vm_name(number, view), "namespace": NAMESPACE, "uid": format!("vm-{number}"), "resourceVersion": "90",
            "labels": {"capk.cluster.x-k8s.io/kubevirt-machine-name": vm_name(number, view)},
        },
        "spec": {
            "runStrategy": strategy,
            "template": {"spec": {
                "domain": {
                    "firmware": {"uuid": uuid(number, view)}, "cpu": {"cores": 4}, "memory": {"guest": "8Gi"},
                    "devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}]},
                },
                "volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": "root"}}],
            }},
        },
        "status": {"created": is_on, "ready": is_on, "printableStatus": status, "observedGeneration": 1},
    })
}

fn vmi(number: usize, view: &View<'_>) -> Value {
    let phase = match view.is_on || number > 0 {
        true => "Running",
        false => "Failed",
    };
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {
            "name": vm_name(number, view), "namespace": NAMESPACE, "uid": format!("run-{number}"), "resourceVersion": "91",
            "labels": {"kubevirt.io/nodeName": NODE},
        },
        "spec": {"domain": {"firmware": {"uuid": uuid(number, view)}}},
        "status": {"phase": phase, "nodeName": NODE, "interfaces": [{"ipAddress": "10.0.0.17", "name": "default"}]},
    })
}

fn pod(number: usize, view: &View<'_>) -> Value {
    let name = vm_name(number, view);
    json!({
        "metadata": {
            "name": format!("virt-launcher-{name}-x7k2p"), "namespace": NAMESPACE, "uid": format!("pod-{number}"),
            "labels": {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": format!("run-{number}")},
            "annotations": {"kubevirt.io/domain": name},
            "ownerReferences": [{
                "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": name, "uid": format!("run-{number}"),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"nodeName": NODE}, "status": {"phase": "Running"},
    })
}

fn node(is_ready: bool) -> Value {
    let (status, reason) = match is_ready {
        true => ("True", "KubeletReady"),
        false => ("Unknown", "NodeStatusUnknown"),
    };
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "uid": "node-1"}, "spec": {"podCIDR": "10.1.0.0/24"},
        "status": {"conditions": [{"type": "Ready", "status": status, "reason": reason}]},
    })
}
