//! CSI-Addons beside a lab's control plane: its real controller and sidecars, built from the Go module proxy, before a storage that is ours alone
//! (`e2e/csi-addons`).
//!
//! The controller finds a sidecar by the address of its pod, so each has a Pod that nobody runs, with the address of this host. A sidecar reads its
//! token where a pod has it, in a mount namespace of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fencing_testbed::eventually::eventually;
use fencing_testbed::fetch;
use fencing_testbed::paths::workspace;
use fencing_testbed::ports::Port;
use fencing_testbed::process::{Process, Spec};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::csi::DRIVER;
use crate::lab::{LIMIT, Lab};

/// Where CSI-Addons and its pods are.
const NAMESPACE: &str = "default";
/// The NetworkFenceClass.
pub const CLASS: &str = "lab";
/// The module that has it.
const MODULE: &str = "github.com/csi-addons/kubernetes-csi-addons";

/// CSI-Addons at work. It ends with the control plane's use.
pub struct CsiAddons {
    directory: PathBuf,
    _processes: Vec<Process>,
    _ports: Vec<Port>,
}

/// What the storage knows.
#[derive(Debug, Clone, Deserialize)]
pub struct Storage {
    /// Who is shut out.
    pub fenced: Vec<String>,
    /// What was asked, in order: `fence ADDRESS/32`, `unfence ADDRESS/32`.
    pub calls: Vec<String>,
}

/// The programs `csi-addons-driver`, `manager` and `sidecar`, and CSI-Addons' CRDs in `crds`: built at the first time. Blocks.
pub fn build() -> Result<PathBuf> {
    let module = workspace().join("e2e/csi-addons");
    let parts = ["go.mod", "go.sum", "main.go"].map(|name| fs::read(module.join(name)));
    let [modules, sums, program] = parts;
    let (modules, sums, program) = (modules?, sums?, program?);
    let name = "csi-addons";
    fetch::once(name, &[&modules, &sums, &program], "crds", |directory| {
        let packages = [
            ("csi-addons-driver", ".".to_owned()),
            ("manager", format!("{MODULE}/cmd/manager")),
            ("sidecar", format!("{MODULE}/sidecar")),
        ];
        for (program, package) in packages {
            let mut build = Command::new("go");
            build
                .args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false"])
                .args(["-ldflags", "-s -w", "-o"])
                .arg(directory.join(program))
                .arg(package)
                .env("CGO_ENABLED", "0")
                .current_dir(&module);
            fetch::run(&mut build)?;
        }
        let mut list = Command::new("go");
        list.args(["list", "-m", "-f", "{{.Dir}}", MODULE])
            .current_dir(&module);
        let source = fetch::run(&mut list)?;
        let crds = Path::new(source.trim()).join("config/crd/bases");
        fs::create_dir(directory.join("crds"))?;
        for file in fs::read_dir(&crds).with_context(|| crds.display().to_string())? {
            let file = file?;
            fs::copy(file.path(), directory.join("crds").join(file.file_name()))?;
        }
        Ok(())
    })
}

impl CsiAddons {
    /// Starts it for all nodes of the lab, and waits until each is named with its address.
    pub async fn start(lab: &Lab) -> Result<Self> {
        let programs = tokio::task::spawn_blocking(build).await??;
        let crds = programs.join("crds");
        lab.control_plane
            .kubectl_text(&["apply", "-f", &crds.to_string_lossy()])
            .await?;
        lab.control_plane.wait_for_definitions().await?;
        // Beside the lab's files, by a short path: that of a socket has 108 bytes at most.
        let directory = lab.control_plane.files().directory().join("ca");
        fs::create_dir_all(&directory)?;
        let mut this = Self {
            directory,
            _processes: Vec::new(),
            _ports: Vec::new(),
        };
        let mut nodes = BTreeMap::new();
        for rig in &lab.rigs {
            let name = rig.machine.name();
            let node = lab.node(name).await?;
            let addresses = node.status.and_then(|it| it.addresses).unwrap_or_default();
            let own = addresses.into_iter().find(|it| it.type_ == "InternalIP");
            nodes.insert(
                name.to_owned(),
                own.context("a Node has an address")?.address,
            );
        }
        this.start_driver(lab, &programs, &nodes)?;
        this.start_manager(lab, &programs)?;
        let owner = owner(lab).await?;
        for name in nodes.keys().map(String::as_str).chain(["controller"]) {
            this.start_sidecar(lab, &programs, name, &owner).await?;
        }
        this.class(lab).await?;
        this.wait_named(lab, &nodes).await?;
        Ok(this)
    }

    fn start_driver(
        &mut self,
        lab: &Lab,
        programs: &Path,
        nodes: &BTreeMap<String, String>,
    ) -> Result<()> {
        let log = lab.control_plane.files().log("csi-addons-driver");
        let spec = Spec::new(
            "csi-addons-driver",
            programs.join("csi-addons-driver"),
            &log,
        )
        .args([
            format!("--driver-name={DRIVER}"),
            "--directory=.".to_owned(),
        ])
        .args(
            nodes
                .iter()
                .map(|(name, address)| format!("{name}={address}")),
        )
        .directory(&self.directory);
        self._processes.push(spec.spawn(lab.control_plane.guard())?);
        Ok(())
    }

    fn start_manager(&mut self, lab: &Lab, programs: &Path) -> Result<()> {
        let kubeconfig = lab.control_plane.kubeconfig_for_admin();
        let log = lab.control_plane.files().log("csi-addons-manager");
        let spec = Spec::new("csi-addons-manager", programs.join("manager"), &log)
            .args([
                format!("--kubeconfig={}", kubeconfig.display()),
                format!("--namespace={NAMESPACE}"),
                "--health-probe-bind-address=0".to_owned(),
                "--metrics-bind-address=0".to_owned(),
                // The lab's sidecars have no certificate of a cluster.
                "--enable-auth=false".to_owned(),
            ])
            .env("NO_PROXY", "*")
            .directory(&self.directory);
        self._processes.push(spec.spawn(lab.control_plane.guard())?);
        Ok(())
    }

    async fn start_sidecar(
        &mut self,
        lab: &Lab,
        programs: &Path,
        name: &str,
        owner: &Value,
    ) -> Result<()> {
        let pod_name = format!("csi-addons-{name}");
        let pod = pod(lab, &pod_name, owner).await?;
        let token = token(lab).await?;
        let port = Port::reserve()?;
        fs::write(self.directory.join("token"), token)?;
        fs::write(self.directory.join("ca.crt"), lab.control_plane.ca_pem())?;
        let server = lab.control_plane.url();
        let server = server.rsplit('/').next().unwrap_or_default();
        let (host, number) = server.rsplit_once(':').context("a URL with a port")?;
        let files = "mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io/serviceaccount && \
                     cp token ca.crt /run/secrets/kubernetes.io/serviceaccount/ && exec \"$@\"";
        let log = lab.control_plane.files().log(&pod_name);
        let spec = Spec::new(&pod_name, "unshare", &log)
            .args(["--mount", "sh", "-c", files, "sh"])
            .args([programs.join("sidecar")])
            .args([
                format!(
                    "--csi-addons-address=unix://{}/{name}.sock",
                    self.directory.display()
                ),
                format!("--node-id={name}"),
                format!("--pod={pod_name}"),
                format!("--namespace={NAMESPACE}"),
                format!("--pod-uid={}", pod.metadata.uid.unwrap_or_default()),
                format!("--controller-port={}", port.number()),
                format!("--leader-election-namespace={NAMESPACE}"),
                "--enable-auth=false".to_owned(),
            ])
            .env("KUBERNETES_SERVICE_HOST", host)
            .env("KUBERNETES_SERVICE_PORT", number)
            .env("NO_PROXY", "*")
            .directory(&self.directory);
        self._processes.push(spec.spawn(lab.control_plane.guard())?);
        self._ports.push(port);
        Ok(())
    }

    async fn class(&self, lab: &Lab) -> Result<()> {
        let secret = json!({"metadata": {"name": "storage"}, "stringData": {"user": "lab"}});
        let secrets: Api<k8s_openapi::api::core::v1::Secret> =
            Api::namespaced(lab.control_plane.admin(), NAMESPACE);
        let params = PatchParams::apply("lab").force();
        let mut secret = secret;
        (secret["apiVersion"], secret["kind"]) = (json!("v1"), json!("Secret"));
        secrets
            .patch("storage", &params, &Patch::Apply(&secret))
            .await?;
        let class = json!({
            "apiVersion": "csiaddons.openshift.io/v1alpha1", "kind": "NetworkFenceClass", "metadata": {"name": CLASS},
            "spec": {"provisioner": DRIVER, "parameters": {
                "csiaddons.openshift.io/networkfence-secret-name": "storage",
                "csiaddons.openshift.io/networkfence-secret-namespace": NAMESPACE,
            }},
        });
        // Each sidecar has to be known first: the controller looks at a class once.
        let api = objects(lab, "NetworkFenceClass", "networkfenceclasses");
        eventually("every sidecar is known", LIMIT, async || {
            let nodes = objects(lab, "CSIAddonsNode", "csiaddonsnodes")
                .list(&Default::default())
                .await?;
            let is_connected = |it: &&DynamicObject| it.data["status"]["state"] == "Connected";
            let known = nodes.items.iter().filter(is_connected).count();
            ensure!(known == lab.rigs.len() + 1, "{known} sidecars");
            Ok(())
        })
        .await?;
        api.patch(CLASS, &params, &Patch::Apply(&class)).await?;
        Ok(())
    }

    async fn wait_named(&self, lab: &Lab, nodes: &BTreeMap<String, String>) -> Result<()> {
        eventually("every node is named with its address", LIMIT, async || {
            let sidecars = objects(lab, "CSIAddonsNode", "csiaddonsnodes")
                .list(&Default::default())
                .await?;
            for (name, address) in nodes {
                let mut own = sidecars
                    .items
                    .iter()
                    .filter(|it| it.data["spec"]["driver"]["nodeID"] == json!(name));
                let text = own
                    .next()
                    .map(|it| it.data["status"].to_string())
                    .unwrap_or_default();
                ensure!(
                    text.contains(&format!("\"{address}/32\"")),
                    "{name}: {text}"
                );
            }
            Ok(())
        })
        .await
    }

    /// What the storage knows now.
    pub fn storage(&self) -> Result<Storage> {
        let text = fs::read(self.directory.join("storage.json"))?;
        Ok(serde_json::from_slice(&text)?)
    }
}

/// The objects of a kind of CSI-Addons.
pub fn objects(lab: &Lab, kind: &str, plural: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("csiaddons.openshift.io", "v1alpha1", kind),
        plural,
    );
    Api::all_with(lab.control_plane.admin(), &resource)
}

/// Whose the pods are: a sidecar asks for that, and the garbage collector, too. It selects no node, so that nobody makes pods of it.
async fn owner(lab: &Lab) -> Result<Value> {
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "csi-addons"},
        "spec": {"selector": {"matchLabels": {"app": "csi-addons"}}, "template": {
            "metadata": {"labels": {"app": "csi-addons"}},
            "spec": {"nodeSelector": {"lab": "none"}, "containers": [{"name": "none", "image": "none"}]},
        }},
    });
    let sets: Api<DaemonSet> = Api::namespaced(lab.control_plane.admin(), NAMESPACE);
    let set = sets
        .patch(
            "csi-addons",
            &PatchParams::apply("lab").force(),
            &Patch::Apply(&set),
        )
        .await?;
    Ok(
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "csi-addons", "uid": set.metadata.uid}),
    )
}

/// A pod that nobody runs, with the address of this host.
async fn pod(lab: &Lab, name: &str, owner: &Value) -> Result<Pod> {
    let pods: Api<Pod> = Api::namespaced(lab.control_plane.admin(), NAMESPACE);
    let pod = serde_json::from_value(json!({
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "none", "image": "none"}]},
    }))?;
    let pod = pods.create(&PostParams::default(), &pod).await?;
    let status = json!({"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
        .await?;
    Ok(pod)
}

/// The token of an account that may do everything: what a sidecar may do is not what the lab shows.
async fn token(lab: &Lab) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(lab.control_plane.admin(), NAMESPACE);
    let binding = [
        "create",
        "clusterrolebinding",
        "csi-addons",
        "--clusterrole=cluster-admin",
        "--serviceaccount=default:default",
    ];
    let made = lab.control_plane.kubectl(&binding).await?;
    let is_there = String::from_utf8_lossy(&made.stderr).contains("already exists");
    ensure!(made.status.success() || is_there, "{made:?}");
    let request = TokenRequest {
        spec: TokenRequestSpec::default(),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request("default", &PostParams::default(), &request)
        .await?;
    Ok(answer.status.context("a token")?.token)
}
