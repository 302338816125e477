//! A second cluster below the one that is fenced, for drivers whose machines are objects there: an API server of its own with the custom resources,
//! the account that the driver's page in the book makes, and the machines that a controller of ours switches.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::control_plane::{ControlPlane, Options};
use fencing_testbed::{moment::Moment, paths::workspace, power::Power};

/// The account that both pages make.
const ACCOUNT: &str = "node-fencing";
/// Pause between two looks of a controller.
const PERIOD: Duration = Duration::from_millis(250);

/// The cluster, with one namespace.
pub(super) struct Infra {
    /// Its control plane.
    pub(super) plane: ControlPlane,
    namespace: &'static str,
}

impl Infra {
    /// Starts it with these kinds, which keep whatever is written and have a status of their own.
    pub(super) async fn start(namespace: &'static str, kinds: &[GroupVersionKind]) -> Result<Self> {
        let plane = ControlPlane::start(Options::named(namespace)).await?;
        let definitions: Api<CustomResourceDefinition> = Api::all(plane.admin());
        for kind in kinds {
            let definition = serde_json::from_value(definition(kind))?;
            definitions
                .create(&PostParams::default(), &definition)
                .await?;
        }
        plane.wait_for_definitions().await?;
        plane
            .kubectl_text(&["create", "namespace", namespace])
            .await?;
        plane.wait_for_service_account(namespace, "default").await?;
        Ok(Self { plane, namespace })
    }

    /// Its objects of this kind.
    pub(super) fn objects(&self, kind: &GroupVersionKind) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(kind);
        Api::namespaced_with(self.plane.admin(), self.namespace, &resource)
    }

    /// Makes the account as the page does, by this file of it, and returns its kubeconfig.
    pub(super) async fn account(&self, page: &str, file: &str) -> Result<String> {
        let text = std::fs::read_to_string(workspace().join("docs/how-to").join(page))?;
        let rest = text.split_once(&format!("`{file}`"));
        let rest = rest.and_then(|(_, rest)| rest.split_once("```yaml\n"));
        let shown = rest.and_then(|(_, rest)| rest.split_once("\n```"));
        let (shown, _) = shown.with_context(|| format!("{page} does not show {file}"))?;
        let path = self.plane.files().directory().join(file);
        std::fs::write(&path, shown)?;
        let path = path.to_str().context("a path that is no text")?;
        self.plane.kubectl_text(&["apply", "-f", path]).await?;
        let account = self
            .plane
            .kubeconfig_for_service_account(self.namespace, ACCOUNT, None);
        Ok(std::fs::read_to_string(account.await?)?)
    }
}

fn definition(kind: &GroupVersionKind) -> Value {
    let ApiResource {
        group,
        version,
        kind,
        plural,
        ..
    } = ApiResource::from_gvk(kind);
    json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

/// When something was switched, and whether on or off.
type Switched = Mutex<Vec<(Moment, bool)>>;

/// Machines that a controller switches, and what it did to them.
pub(super) struct Switches(Vec<(Arc<dyn Power>, Switched)>);

impl Switches {
    /// None was switched yet.
    pub(super) fn of(machines: Vec<Arc<dyn Power>>) -> Arc<Self> {
        let machines = machines.into_iter().map(|it| (it, Mutex::default()));
        Arc::new(Self(machines.collect()))
    }

    /// The machines in their order.
    pub(super) fn machines(&self) -> impl Iterator<Item = &Arc<dyn Power>> {
        self.0.iter().map(|(machine, _)| machine)
    }

    /// Switches the machine of this name, unless it is so.
    pub(super) fn switch(&self, name: &str, on: bool) {
        let mut all = self.0.iter();
        let found = all.find(|(machine, _)| machine.name() == name);
        if let Some((machine, switched)) = found.filter(|(it, _)| it.is_on() != on) {
            let mut switched = switched.lock().unwrap_or_else(PoisonError::into_inner);
            switched.push((Moment::now(), on));
            machine.set_power(on);
        }
    }

    /// What was done to the machine of this place, counted from 0: when, and whether on or off.
    pub(super) fn switched(&self, machine: usize) -> Vec<(Moment, bool)> {
        let switched = self.0.get(machine).map(|(_, switched)| switched);
        let switched = switched.map(|it| it.lock().unwrap_or_else(PoisonError::into_inner).clone());
        switched.unwrap_or_default()
    }
}

/// What a controller does.
pub(super) trait Manage: Send + Sync + 'static {
    /// One look at the object of this machine, and one thing done about it.
    fn manage(&self, machine: &dyn Power) -> impl Future<Output = Result<()>> + Send;
}

/// A controller that looks at each machine again and again. It ends when dropped.
pub(super) struct Controller(JoinHandle<()>);

impl Controller {
    /// What fails is tried again with the next look, as controllers do.
    pub(super) fn run(switches: Arc<Switches>, manager: impl Manage) -> Self {
        Self(tokio::spawn(async move {
            loop {
                for machine in switches.machines() {
                    if let Err(error) = manager.manage(machine.as_ref()).await {
                        tracing::debug!(machine = machine.name(), %error, "tried again");
                    }
                }
                sleep(PERIOD).await;
            }
        }))
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.0.abort();
    }
}
