//! Who talks to the API server, and how: clients, kubeconfigs, kubectl and helm.

use std::{
    collections::{HashMap, hash_map::Entry},
    path::{Path, PathBuf},
    process::Output,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{Node, ServiceAccount},
    storage::v1::CSIDriver,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Config, ResourceExt,
    api::{
        ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
    },
    config::{KubeConfigOptions, Kubeconfig},
    discovery::pinned_kind,
    runtime::{conditions::is_crd_established, wait::await_condition},
};
use serde_json::json;
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

use super::ControlPlane;
use crate::{csi, operator};
use fencing_testbed::{
    paths::workspace,
    pki::{self, Credentials, User},
};

/// Service account tokens of the lab live as long as anybody runs a lab.
const TOKEN_SECONDS: i64 = 7 * 24 * 3600;

impl ControlPlane {
    /// The API server's URL.
    pub fn url(&self) -> String {
        self.files.url()
    }

    /// The certificate of the authority that signed the API server's certificate and all clients'.
    pub fn ca_pem(&self) -> String {
        self.authority.pem()
    }

    /// A client with all rights, for what the lab itself does.
    pub fn admin(&self) -> Client {
        self.admin.clone()
    }

    /// The kubeconfig of the administrator.
    pub fn kubeconfig_for_admin(&self) -> PathBuf {
        self.files.kubeconfig("admin")
    }

    /// A client's configuration for a user who authenticates by certificate.
    pub async fn client_config(&self, user: &User) -> Result<Config> {
        let identity = self.authority.client(user)?;
        let text = pki::kubeconfig(
            &self.url(),
            &self.ca_pem(),
            &Credentials::Certificate(&identity),
        );
        config(&text).await
    }

    /// Writes the kubeconfig of a kubelet and returns its path. `server` is the URL at which that node reaches the API
    /// server, if not [`ControlPlane::url`].
    pub fn node_kubeconfig(&self, node: &str, server: Option<&str>) -> Result<PathBuf> {
        let identity = self.authority.client(&User::node(node))?;
        self.write_kubeconfig(
            &format!("node-{node}"),
            server,
            &Credentials::Certificate(&identity),
        )
    }

    /// Writes a kubeconfig that authenticates as a service account, with a token of the TokenRequest API, and returns its
    /// path. `server` is the URL of a proxy in front of the API server, if there is one; its certificate must be of this
    /// lab's authority, see [`ControlPlane::serving_identity`].
    pub async fn kubeconfig_for_service_account(
        &self,
        namespace: &str,
        name: &str,
        server: Option<&str>,
    ) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin(), namespace);
        let spec = TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest {
            spec,
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await;
        let answer =
            answer.with_context(|| format!("failed to get a token of {namespace}/{name}"))?;
        let token = answer
            .status
            .context("the API server answered without a token")?
            .token;
        // Of those that go another way, each has a file of its own.
        let way = server.and_then(|url| url.rsplit_once(':'));
        let way = way.map(|(_, port)| format!("-{port}")).unwrap_or_default();
        self.write_kubeconfig(
            &format!("serviceaccount-{namespace}-{name}{way}"),
            server,
            &Credentials::Token(&token),
        )
    }

    fn write_kubeconfig(
        &self,
        name: &str,
        server: Option<&str>,
        credentials: &Credentials<'_>,
    ) -> Result<PathBuf> {
        let server = server.map_or_else(|| self.url(), str::to_owned);
        let path = self.files.kubeconfig(name);
        pki::write_private(
            &path,
            &pki::kubeconfig(&server, &self.ca_pem(), credentials),
        )?;
        Ok(path)
    }

    /// A serving certificate of this lab's authority for 127.0.0.1, for a proxy in front of the API server.
    pub fn serving_identity(&self) -> Result<pki::Identity> {
        self.serving_identity_at(std::net::Ipv4Addr::LOCALHOST.into())
    }

    /// The same for another address.
    pub fn serving_identity_at(&self, address: std::net::IpAddr) -> Result<pki::Identity> {
        self.authority.serving(&[address], &[])
    }

    /// Runs kubectl as the administrator.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<Output> {
        self.run("kubectl", arguments).await
    }

    /// Runs helm as the administrator.
    pub async fn helm(&self, arguments: &[&str]) -> Result<Output> {
        self.run("helm", arguments).await
    }

    /// Runs kubectl as the administrator and returns what it prints; fails if it fails.
    pub async fn kubectl_text(&self, arguments: &[&str]) -> Result<String> {
        let output = self.kubectl(arguments).await?;
        ensure!(
            output.status.success(),
            "kubectl {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Applies `deploy/` but for the Deployment, its budget, and what is aggregated to Kubernetes' own roles: namespace, service account, RBAC,
    /// CRDs, admission policies. The lab runs the operator beside the cluster as that service account, see [`crate::operator`]; a second one in a
    /// pod, even if it never starts, would only be one more thing on a node that a test breaks. Without kubectl: the demo builds none.
    pub async fn apply_deploy(&self) -> Result<()> {
        let all = std::fs::read_to_string(workspace().join("deploy/install.yaml"))?;
        // The disruption budget is for pods that are not there, and the controller-manager writes Events about that. The aggregated roles
        // change Kubernetes' own `view` and `edit`, and with them a control plane that the next test is to find as new.
        let is_left_out = |document: &&str| {
            let kind = ["kind: Deployment", "kind: PodDisruptionBudget"];
            document.lines().any(|line| kind.contains(&line)) || document.contains("/aggregate-to-")
        };
        let mut kinds: HashMap<GroupVersionKind, ApiResource> = HashMap::new();
        for document in all.split("\n---\n").filter(|it| !is_left_out(it)) {
            let object: DynamicObject = serde_saphyr::from_str(document)?;
            let types = object.types.as_ref().context("an object without a kind")?;
            let kind = GroupVersionKind::try_from(types)?;
            let resource = match kinds.entry(kind) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let (resource, _) = pinned_kind(&self.admin, new.key()).await?;
                    new.insert(resource)
                }
            };
            let api: Api<DynamicObject> = match &object.metadata.namespace {
                Some(namespace) => Api::namespaced_with(self.admin(), namespace, resource),
                None => Api::all_with(self.admin(), resource),
            };
            let name = object.name_any();
            // In kubectl's name: what a test applies by kubectl afterwards takes the place of this.
            api.patch(
                &name,
                &PatchParams::apply("kubectl"),
                &Patch::Apply(&object),
            )
            .await
            .with_context(|| format!("{} {name}", resource.kind))?;
        }
        self.wait_for_definitions().await?;
        self.wait_for_admission_policies().await
    }

    /// Waits until the API server serves every CustomResourceDefinition that it has.
    pub async fn wait_for_definitions(&self) -> Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.admin());
        for definition in definitions.list(&ListParams::default()).await? {
            let name = definition.name_any();
            let served = await_condition(definitions.clone(), &name, is_crd_established());
            tokio::time::timeout(Duration::from_secs(30), served)
                .await
                .with_context(|| format!("{name} is not served"))??;
        }
        Ok(())
    }

    /// The API server takes up new admission policies within a second or so, and until then lets everything pass. So this
    /// tries, without effect, what the policies refuse: that the operator's account creates a Node.
    async fn wait_for_admission_policies(&self) -> Result<()> {
        let mut config = self.client_config(&User::admin()).await?;
        let account = format!(
            "system:serviceaccount:{}:{}",
            operator::NAMESPACE,
            operator::SERVICE_ACCOUNT
        );
        config.auth_info.impersonate = Some(account);
        // Otherwise RBAC refuses it first, which says nothing about the policies.
        config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
        let nodes: Api<Node> = Api::all(Client::try_from(config)?);
        let node = serde_json::from_value(json!({"metadata": {"name": "admission-probe"}}))?;
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            match nodes.create(&dry_run, &node).await {
                Err(kube::Error::Api(status)) if status.code == 403 => return Ok(()),
                Err(error) => return Err(error.into()),
                Ok(_) => ensure!(
                    Instant::now() < end,
                    "the admission policies do not come into force"
                ),
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Runs a program of the toolchain as the administrator.
    pub async fn run(&self, program: &str, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new(self.toolchain.program(program));
        command.args(arguments);
        self.run_command(command).await
    }

    /// Runs any command as the administrator.
    pub async fn run_command(&self, mut command: Command) -> Result<Output> {
        self.equip(&mut command);
        let output = tokio::time::timeout(Duration::from_secs(120), command.output()).await;
        output
            .with_context(|| format!("{:?} takes too long", command.as_std()))?
            .context("failed to run it")
    }

    /// Makes the administrator's of a command that somebody else waits for.
    pub fn equip(&self, command: &mut Command) {
        let home = self.files.directory().join("home");
        command
            .env("KUBECONFIG", self.kubeconfig_for_admin())
            .env("NO_PROXY", "*");
        // Caches and helm's configuration are this lab's: discovery of another cluster must not answer.
        command
            .env("HOME", &home)
            .env("XDG_CACHE_HOME", home.join("cache"))
            .kill_on_drop(true);
        command
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_DATA_HOME", home.join("data"));
    }

    pub(super) async fn create_csi_driver(&self) -> Result<()> {
        let driver = serde_json::from_value(json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": csi::DRIVER},
            "spec": {"attachRequired": true, "podInfoOnMount": false, "fsGroupPolicy": "None"},
        }))?;
        let drivers: Api<CSIDriver> = Api::all(self.admin());
        drivers.create(&PostParams::default(), &driver).await?;
        Ok(())
    }

    /// Waits until the controller-manager has made a service account, without which no pod can be created there.
    pub async fn wait_for_service_account(&self, namespace: &str, name: &str) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin(), namespace);
        let end = Instant::now() + Duration::from_secs(30);
        while accounts.get_opt(name).await?.is_none() {
            self.check()?;
            if Instant::now() > end {
                bail!("the service account {namespace}/{name} does not appear");
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// A client from a kubeconfig file.
pub async fn client(path: &Path) -> Result<Client> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("failed to read {}", path.display()))?;
    Ok(Client::try_from(config(&text).await?)?)
}

async fn config(text: &str) -> Result<Config> {
    let kubeconfig: Kubeconfig = serde_json::from_str(text)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    // A proxy of the developer's is not for the lab's traffic.
    config.proxy_url = None;
    Ok(config)
}
