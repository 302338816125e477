//! CSI-Addons beside a lab's BMCs: its real controller and sidecars, before a storage that is ours alone (`e2e/csi-addons`).
//!
//! The controller finds a sidecar by the address of its pod, so each has a Pod that is never scheduled, with the address of this host. All of them
//! read their token where a pod has it, in a mount namespace of their own: that needs root.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{LIMIT, Lab};
use crate::csi::DRIVER;
use crate::csi_addons::build;
use fencing_testbed::eventually::eventually;
use fencing_testbed::paths::workspace;
use fencing_testbed::ports::Port;
use fencing_testbed::process::{Process, Spec};

/// Where its pods are.
const NAMESPACE: &str = "default";
/// The NetworkFenceClass.
pub const CLASS: &str = "lab";
/// The FenceDevice for all nodes, labelled `tier: storage`.
pub const DEVICE: &str = "storage";
/// What the sidecar beside the CSI driver's controller is called: it stands on no node.
const CONTROLLER: &str = "controller";
/// Names the pods' owner, and what they may do.
const NAME: &str = "csi-addons";

/// CSI-Addons at work. It ends when dropped.
pub struct CsiAddons {
    /// Logs, tokens, and what the storage knows.
    directory: PathBuf,
    /// Sockets of the CSI driver, one for each sidecar.
    sockets: PathBuf,
    processes: Vec<Process>,
    sidecars: BTreeMap<String, Process>,
    _ports: Vec<Port>,
}

/// What the storage knows.
#[derive(Debug, Clone, Deserialize)]
pub struct Storage {
    /// Which clients are shut out.
    pub fenced: Vec<String>,
    /// What was asked, in order.
    pub calls: Vec<Call>,
}

/// A call that took effect.
#[derive(Debug, Clone, Deserialize)]
pub struct Call {
    /// When, by this machine's clock.
    pub at: Timestamp,
    /// `fence` or `unfence`.
    pub verb: String,
    /// Ranges of addresses.
    pub clients: Vec<String>,
}

impl Lab {
    /// CSI-Addons and a storage for all nodes, a FenceDevice for it beside those of the BMCs, and the rights that the operator needs. The lab's
    /// control plane must be its own: it keeps what the controller has installed.
    pub async fn csi_addons(&self) -> Result<CsiAddons> {
        ensure!(!self.shares_control_plane, "`Setup::alone` is missing");
        let programs = tokio::task::spawn_blocking(build).await??;
        for file in [
            programs.join("crds"),
            workspace().join("deploy/network-fence/rbac.yaml"),
        ] {
            // Not `--server-side`: a rule stands twice in the schema of a NetworkFence, which that refuses.
            let apply = ["apply", "-f", &file.to_string_lossy()];
            self.control_plane.kubectl_text(&apply).await?;
        }
        self.control_plane.wait_for_definitions().await?;
        let mut nodes = BTreeMap::new();
        for rig in &self.rigs {
            let name = rig.machine.name();
            nodes.insert(name.to_owned(), self.address_of(name).await?.to_string());
        }
        let addons = CsiAddons::start(self, &programs, &nodes).await?;
        addons.wait_connected(self, nodes.len() + 1).await?;
        self.network_fence_class().await?;
        addons.wait_clients(self, &nodes).await?;
        self.storage_device().await?;
        Ok(addons)
    }

    /// The cluster-wide objects of a kind of CSI-Addons; those of a namespaced kind in all namespaces.
    pub fn csi_addons_objects(&self, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("csiaddons.openshift.io", "v1alpha1", kind);
        Api::all_with(self.control_plane.admin(), &ApiResource::from_gvk(&kind))
    }

    async fn network_fence_class(&self) -> Result<()> {
        let params = PatchParams::apply("lab").force();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": DEVICE}, "stringData": {"user": "lab"},
        });
        let secrets: Api<Secret> = Api::namespaced(self.control_plane.admin(), NAMESPACE);
        secrets
            .patch(DEVICE, &params, &Patch::Apply(&secret))
            .await?;
        let class = json!({
            "apiVersion": "csiaddons.openshift.io/v1alpha1", "kind": "NetworkFenceClass", "metadata": {"name": CLASS},
            "spec": {"provisioner": DRIVER, "parameters": {
                "csiaddons.openshift.io/networkfence-secret-name": DEVICE,
                "csiaddons.openshift.io/networkfence-secret-namespace": NAMESPACE,
            }},
        });
        let classes = self.csi_addons_objects("NetworkFenceClass");
        classes.patch(CLASS, &params, &Patch::Apply(&class)).await?;
        Ok(())
    }

    async fn storage_device(&self) -> Result<()> {
        let device = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice",
            "metadata": {"name": DEVICE, "labels": {"tier": DEVICE}},
            "spec": {
                "nodeSelector": {}, "identityCheck": "Skip", "probe": {"periodSeconds": 30},
                "networkFence": {"provisioner": DRIVER, "networkFenceClassName": CLASS},
            },
        });
        let params = PatchParams::apply("lab").force();
        let devices = self.api("FenceDevice");
        devices
            .patch(DEVICE, &params, &Patch::Apply(&device))
            .await?;
        Ok(())
    }
}

impl CsiAddons {
    async fn start(lab: &Lab, programs: &Path, nodes: &BTreeMap<String, String>) -> Result<Self> {
        let files = lab.control_plane.files();
        let mut this = Self {
            directory: files.directory().join(NAME),
            sockets: files.socket(NAME),
            processes: Vec::new(),
            sidecars: BTreeMap::new(),
            _ports: Vec::new(),
        };
        fs::create_dir(&this.directory)?;
        fs::create_dir(&this.sockets)?;
        fs::write(this.directory.join("ca.crt"), lab.control_plane.ca_pem())?;
        fs::write(this.directory.join("token"), token(lab).await?)?;
        this.spawn_driver(lab, programs, nodes)?;
        this.spawn_manager(lab, programs)?;
        let owner = owner(lab).await?;
        for name in nodes.keys().map(String::as_str).chain([CONTROLLER]) {
            this.spawn_sidecar(lab, programs, name, &owner).await?;
        }
        Ok(this)
    }

    fn spawn_driver(
        &mut self,
        lab: &Lab,
        programs: &Path,
        nodes: &BTreeMap<String, String>,
    ) -> Result<()> {
        let program = "csi-addons-driver";
        let log = lab.control_plane.files().log(program);
        let nodes = nodes.iter();
        let spec = Spec::new(program, programs.join(program), &log)
            .args([
                format!("--driver-name={DRIVER}"),
                format!("--sockets={}", self.sockets.display()),
            ])
            .args(nodes.map(|(name, address)| format!("{name}={address}")))
            .directory(&self.directory);
        self.processes.push(spec.spawn(lab.control_plane.guard())?);
        Ok(())
    }

    fn spawn_manager(&mut self, lab: &Lab, programs: &Path) -> Result<()> {
        let spec = self.in_pod(lab, "csi-addons-manager", &programs.join("manager"))?;
        let spec = spec.args([
            format!("--namespace={NAMESPACE}"),
            "--health-probe-bind-address=0".to_owned(),
            "--metrics-bind-address=0".to_owned(),
        ]);
        self.processes.push(spec.spawn(lab.control_plane.guard())?);
        Ok(())
    }

    async fn spawn_sidecar(
        &mut self,
        lab: &Lab,
        programs: &Path,
        name: &str,
        owner: &Value,
    ) -> Result<()> {
        let pod_name = format!("{NAME}-{name}");
        let pod = pod(lab, &pod_name, owner).await?;
        let port = Port::reserve()?;
        let spec = self.in_pod(lab, &pod_name, &programs.join("sidecar"))?;
        let spec = spec.args([
            format!(
                "--csi-addons-address=unix://{}/{name}.sock",
                self.sockets.display()
            ),
            format!("--node-id={name}"),
            format!("--pod={pod_name}"),
            format!("--namespace={NAMESPACE}"),
            format!("--pod-uid={}", pod.metadata.uid.unwrap_or_default()),
            format!("--controller-port={}", port.number()),
            format!("--leader-election-namespace={NAMESPACE}"),
        ]);
        let process = spec.spawn(lab.control_plane.guard())?;
        self.sidecars.insert(name.to_owned(), process);
        self._ports.push(port);
        Ok(())
    }

    /// A program that finds the API server and its token as it does in a pod.
    fn in_pod(&self, lab: &Lab, name: &str, program: &Path) -> Result<Spec> {
        let account = "/run/secrets/kubernetes.io/serviceaccount";
        let files = format!(
            "mount -t tmpfs tmpfs /run && mkdir -p {account} && cp token ca.crt {account}/ && exec \"$@\""
        );
        let server = lab.control_plane.url();
        let server = server.rsplit('/').next().unwrap_or_default();
        let (host, port) = server.rsplit_once(':').context("a URL with a port")?;
        let log = lab.control_plane.files().log(name);
        let spec = Spec::new(name, "unshare", &log)
            .args(["--mount", "sh", "-c", &files, "sh"])
            .args([program])
            .env("KUBERNETES_SERVICE_HOST", host)
            .env("KUBERNETES_SERVICE_PORT", port)
            .env("NO_PROXY", "*")
            .directory(&self.directory);
        Ok(spec)
    }

    fn check(&self) -> Result<()> {
        let mut all = self.processes.iter().chain(self.sidecars.values());
        all.try_for_each(Process::check)
    }

    /// The controller is connected to so many sidecars: it asks for the clients of a class only where it knows what a sidecar can do.
    async fn wait_connected(&self, lab: &Lab, sidecars: usize) -> Result<()> {
        let what = "every sidecar is connected";
        eventually(what, LIMIT, async || {
            self.check()?;
            let nodes = lab.csi_addons_objects("CSIAddonsNode");
            let nodes = nodes.list(&Default::default()).await?.items;
            let is_connected = |it: &&DynamicObject| it.data["status"]["state"] == "Connected";
            let known = nodes.iter().filter(is_connected).count();
            ensure!(known == sidecars, "{known} of {sidecars}: {nodes:?}");
            Ok(())
        })
        .await
    }

    /// The CSIAddonsNode of each node names its address, and the controller's sidecar leads.
    async fn wait_clients(&self, lab: &Lab, nodes: &BTreeMap<String, String>) -> Result<()> {
        eventually("every node's client is named", LIMIT, async || {
            self.check()?;
            let sidecars = lab.csi_addons_objects("CSIAddonsNode");
            let sidecars = sidecars.list(&Default::default()).await?.items;
            for (name, address) in nodes {
                let mut own = sidecars.iter();
                let own = own.find(|it| it.data["spec"]["driver"]["nodeID"] == json!(name));
                let status = own.map(|it| it.data["status"].to_string());
                let status = status.unwrap_or_default();
                let client = format!("\"{address}/32\"");
                ensure!(status.contains(&client), "{name}: {status}");
            }
            Ok(())
        })
        .await
    }

    /// The node's sidecar ends, as it does with the node.
    pub fn lose_sidecar(&self, node: &str) -> Result<()> {
        self.sidecars.get(node).context("a node of the lab")?.kill()
    }

    /// What the storage knows now.
    pub fn storage(&self) -> Result<Storage> {
        let text = fs::read(self.directory.join("storage.json"))?;
        Ok(serde_json::from_slice(&text)?)
    }
}

/// The owner of the pods: a sidecar asks for that, and so does the garbage collector. It selects no node, so that it makes no pods.
async fn owner(lab: &Lab) -> Result<Value> {
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": NAME},
        "spec": {"selector": {"matchLabels": {"app": NAME}}, "template": {
            "metadata": {"labels": {"app": NAME}},
            "spec": {"nodeSelector": {"lab": "none"}, "containers": [{"name": "none", "image": "none"}]},
        }},
    });
    let sets: Api<DaemonSet> = Api::namespaced(lab.control_plane.admin(), NAMESPACE);
    let params = PatchParams::apply("lab").force();
    let set = sets.patch(NAME, &params, &Patch::Apply(&set)).await?;
    Ok(json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": NAME, "uid": set.metadata.uid}))
}

/// A pod that is never scheduled, with the address of this host.
async fn pod(lab: &Lab, name: &str, owner: &Value) -> Result<Pod> {
    let pods: Api<Pod> = Api::namespaced(lab.control_plane.admin(), NAMESPACE);
    let pod = serde_json::from_value(json!({
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"schedulerName": "none", "containers": [{"name": "none", "image": "none"}]},
    }))?;
    let pod = pods.create(&PostParams::default(), &pod).await?;
    let status = json!({"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
        .await?;
    Ok(pod)
}

/// The token of an account that may do everything: the lab does not show what CSI-Addons itself may do.
async fn token(lab: &Lab) -> Result<String> {
    let account = format!("--serviceaccount={NAMESPACE}:default");
    let bind = [
        "create",
        "clusterrolebinding",
        NAME,
        "--clusterrole=cluster-admin",
        &account,
    ];
    lab.control_plane.kubectl_text(&bind).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(lab.control_plane.admin(), NAMESPACE);
    let request = TokenRequest {
        spec: TokenRequestSpec::default(),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request("default", &PostParams::default(), &request)
        .await?;
    Ok(answer.status.context("a token")?.token)
}
