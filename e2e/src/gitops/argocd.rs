//! Argo CD: its application-controller and repo-server, which compare and apply, with Debian's Redis between them. Nothing else of it runs: what its
//! server and its command line would write is written to the Applications themselves.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencing_testbed::debian::Packages;
use fencing_testbed::eventually::eventually;
use fencing_testbed::ports::Port;
use fencing_testbed::process::{Process, Spec};
use http::StatusCode;
use jiff::Timestamp;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::lab::LIMIT;
use crate::{go, plain_http};

const MODULE: &str = "e2e/gitops/argocd";
const SOURCE: &str = "github.com/argoproj/argo-cd/v3";
/// Everything of Argo CD's own is in this namespace.
const NAMESPACE: &str = "argocd";
/// How long it takes to start on a busy machine.
const START: Duration = Duration::from_secs(60);
/// Has an Application compared at once, with its manifests made again. Gone once that is done.
const REFRESH: &str = "argocd.argoproj.io/refresh";

/// Argo CD at work, as the administrator. It ends when dropped, and with the control plane.
pub struct Argo {
    processes: Vec<Process>,
    redis: Port,
    repo_server: Port,
    /// Of the repo-server and of the controller, with what says that it is well.
    metrics: [Port; 2],
    applications: Api<DynamicObject>,
}

struct Parts {
    redis: Packages,
    program: PathBuf,
    /// The files of its module.
    source: PathBuf,
}

/// Built or fetched at the first time.
async fn parts() -> Result<Parts> {
    let parts = tokio::task::spawn_blocking(|| {
        anyhow::Ok(Parts {
            redis: Packages::unpack("redis", &["redis-server"])?,
            program: go::program(MODULE, "argocd")?,
            source: go::source(MODULE, SOURCE)?,
        })
    });
    parts.await?
}

impl Argo {
    /// Builds it and the registry, which takes minutes at the first time: before a test's own time begins.
    pub async fn build() -> Result<()> {
        tokio::task::spawn_blocking(super::registry::program).await??;
        parts().await.map(drop)
    }

    /// Installs its CRDs and settings, those of `argocd-cm` merged with `settings`, and starts it.
    pub async fn start(plane: &ControlPlane, settings: &Value) -> Result<Self> {
        let Parts {
            redis,
            program,
            source,
        } = parts().await?;
        install(plane, &source, settings).await?;
        let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "Application");
        let resource = ApiResource::from_gvk(&kind);
        let mut this = Self {
            processes: Vec::new(),
            redis: Port::reserve()?,
            repo_server: Port::reserve()?,
            metrics: [Port::reserve()?, Port::reserve()?],
            applications: Api::namespaced_with(plane.admin(), NAMESPACE, &resource),
        };
        this.processes.push(this.start_redis(plane, &redis)?);
        this.processes
            .push(this.start_repo_server(plane, &program)?);
        this.processes.push(this.start_controller(plane, &program)?);
        eventually("Argo CD is ready", START, async || this.ready().await).await?;
        Ok(this)
    }

    fn start_redis(&self, plane: &ControlPlane, packages: &Packages) -> Result<Process> {
        let program = packages.directory().join("usr/bin/redis-server");
        let mut spec = Spec::new("redis", program, &plane.files().log("redis"));
        for (key, value) in packages.environment() {
            spec = spec.env(key, value);
        }
        let port = self.redis.number().to_string();
        let storage = ["--save", "", "--appendonly", "no"];
        spec.args(["--bind", "127.0.0.1", "--port", &port])
            .args(storage)
            .directory(plane.files().directory())
            .spawn(plane.guard())
    }

    fn start_repo_server(&self, plane: &ControlPlane, program: &Path) -> Result<Process> {
        let directory = plane.files().directory().join(NAMESPACE);
        let (bin, scratch) = (directory.join("bin"), directory.join("scratch"));
        std::fs::create_dir_all(&bin)?;
        std::fs::create_dir_all(&scratch)?;
        // Argo CD 3.2 brings Helm 3.
        symlink(plane.toolchain().program("helm3"), bin.join("helm"))?;
        let path = format!("{}:{}", bin.display(), std::env::var("PATH")?);
        let log = plane.files().log("argocd-repo-server");
        let mut spec = Spec::new("argocd-repo-server", program, &log)
            .args(["argocd-repo-server", "--disable-tls"])
            .args(["--address=127.0.0.1", "--metrics-address=127.0.0.1"])
            .args([
                format!("--redis={}", address(&self.redis)),
                format!("--port={}", self.repo_server.number()),
                format!("--metrics-port={}", self.metrics[0].number()),
            ])
            .env("PATH", path)
            .env("TMPDIR", &scratch)
            .env("ARGOCD_GPG_ENABLED", "false")
            .env("ARGOCD_ASK_PASS_SOCK", plane.files().socket("ask-pass"))
            .env("NO_PROXY", "*");
        for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            spec = spec.env(name, scratch.join(name));
        }
        spec.spawn(plane.guard())
    }

    fn start_controller(&self, plane: &ControlPlane, program: &Path) -> Result<Process> {
        let name = "argocd-application-controller";
        let kubeconfig = plane.kubeconfig_for_admin();
        Spec::new(name, program, &plane.files().log(name))
            .args([name, "--repo-server-plaintext"])
            .args([
                format!("--namespace={NAMESPACE}"),
                format!("--redis={}", address(&self.redis)),
                format!("--repo-server={}", address(&self.repo_server)),
                format!("--metrics-port={}", self.metrics[1].number()),
            ])
            // The cluster that it runs in is that of its kubeconfig.
            .env("ARGOCD_FAKE_IN_CLUSTER", "true")
            .env("KUBECONFIG", kubeconfig)
            .env("NO_PROXY", "*")
            .spawn(plane.guard())
    }

    async fn ready(&self) -> Result<()> {
        self.processes.iter().try_for_each(Process::check)?;
        for port in &self.metrics {
            let (status, words) = plain_http::get(port.number(), "/healthz").await?;
            ensure!(status == StatusCode::OK, "{words}");
        }
        Ok(())
    }

    /// Creates an Application.
    pub async fn create(&self, application: &Value) -> Result<()> {
        let application: DynamicObject = serde_json::from_value(application.clone())?;
        let params = PostParams::default();
        let created = self.applications.create(&params, &application).await;
        created.map(drop).context("an Application")
    }

    /// Merges these changes into an Application.
    pub async fn patch(&self, name: &str, changes: &Value) -> Result<()> {
        let (params, changes) = (PatchParams::default(), Patch::Merge(changes));
        let patched = self.applications.patch(name, &params, &changes).await;
        patched.map(drop).with_context(|| name.to_owned())
    }

    /// Waits until an Application is as wanted, and gives it.
    pub async fn wait(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        eventually(&format!("{name} is {what}"), LIMIT, async || {
            self.processes.iter().try_for_each(Process::check)?;
            let application = self.applications.get(name).await?;
            let application = serde_json::to_value(application)?;
            let status = &application["status"];
            ensure!(
                wanted(&application),
                "it is {}, {}, {}, {}",
                status["sync"],
                status["health"],
                status["conditions"],
                status["operationState"]
            );
            Ok(application)
        })
        .await
    }

    /// Has an Application compared with what its chart makes of its values now, and gives it.
    pub async fn refresh(&self, name: &str) -> Result<Value> {
        let hard = json!({"metadata": {"annotations": {REFRESH: "hard"}}});
        self.patch(name, &hard).await?;
        let is_done = |it: &Value| it["metadata"]["annotations"][REFRESH].is_null();
        self.wait(name, "compared", is_done).await
    }

    /// Begins to delete an Application and what it has installed, as `argocd app delete` does.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let finalizers = json!(["resources-finalizer.argocd.argoproj.io"]);
        let cascade = json!({"metadata": {"finalizers": finalizers}});
        self.patch(name, &cascade).await?;
        let params = DeleteParams::default();
        self.applications.delete(name, &params).await?;
        Ok(())
    }

    /// Answers what `Delete=confirm` and `Prune=confirm` ask, as `argocd app confirm-deletion` does.
    pub async fn confirm(&self, name: &str) -> Result<()> {
        let now = Timestamp::now().to_string();
        let approved = json!({"argocd.argoproj.io/deletion-approved": now});
        let approved = json!({"metadata": {"annotations": approved}});
        self.patch(name, &approved).await
    }

    /// Waits until an Application is gone, and with it what it had installed.
    pub async fn gone(&self, name: &str) -> Result<()> {
        eventually(&format!("{name} is gone"), LIMIT, async || {
            let left = self.applications.get_opt(name).await?;
            ensure!(left.is_none(), "{left:?}");
            Ok(())
        })
        .await
    }

    /// Waits until its controller has logged these words.
    pub async fn logs(&self, words: &str) -> Result<()> {
        let controller = self.processes.last().context("it runs")?;
        eventually(words, LIMIT, async || {
            let log = std::fs::read_to_string(controller.log())?;
            ensure!(log.contains(words), "{}", controller.tail(5));
            Ok(())
        })
        .await
    }
}

/// What Argo CD's own manifests have of CRDs and settings, and what its server would make of them: a key, and the default project.
async fn install(plane: &ControlPlane, source: &Path, settings: &Value) -> Result<()> {
    let create = ["create", "namespace", NAMESPACE];
    plane.kubectl_text(&create).await?;
    let folder = |name: &str| {
        let path = source.join("manifests").join(name).into_os_string();
        let path = path.into_string();
        path.ok().context("the path is not UTF-8")
    };
    let (definitions, config) = (folder("crds")?, folder("base/config")?);
    let apply = ["apply", "--server-side", "-n", NAMESPACE, "-k"];
    for folder in [definitions, config] {
        plane
            .kubectl_text(&[&apply[..], &[&folder]].concat())
            .await?;
    }
    plane.wait_for_definitions().await?;
    let key = json!({"stringData": {"server.secretkey": "of the lab"}});
    for (object, changes) in [
        ("secret/argocd-secret", &key),
        ("configmap/argocd-cm", settings),
    ] {
        let changes = changes.to_string();
        let patch = [
            "patch",
            object,
            "-n",
            NAMESPACE,
            "--type=merge",
            "-p",
            &changes,
        ];
        plane.kubectl_text(&patch).await?;
    }
    let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "AppProject");
    let resource = ApiResource::from_gvk(&kind);
    let projects: Api<DynamicObject> = Api::namespaced_with(plane.admin(), NAMESPACE, &resource);
    let project = serde_json::from_value(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "default"},
        "spec": {
            "sourceRepos": ["*"],
            "destinations": [{"server": "*", "namespace": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
        },
    }))?;
    projects.create(&PostParams::default(), &project).await?;
    Ok(())
}

fn address(port: &Port) -> String {
    format!("127.0.0.1:{}", port.number())
}
