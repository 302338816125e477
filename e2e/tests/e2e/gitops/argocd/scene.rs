//! Argo CD at work on the Applications of its page, with the lab's chart repository in place of the one that the page names.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::ControlPlane;
use e2e::gitops::{Argo, Repository};
use e2e::operator::NAMESPACE;
use fencing_testbed::paths::workspace;
use serde_json::{Value, json};

const PAGE: &str = "docs/how-to/gitops-argo-cd.md";
/// The charts, and the Applications of them.
pub const OPERATOR: &str = "node-fencing-operator";
pub const POLICIES: &str = "node-fencing-policies";
/// Under which the charts are served at first.
const VERSION: &str = "1.0.0";

/// Argo CD with the settings of the page, and a repository with both charts.
pub struct Scene<'a> {
    pub plane: &'a ControlPlane,
    pub argo: Argo,
    pub repository: Repository,
}

pub fn chart(name: &str) -> PathBuf {
    workspace().join("charts").join(name)
}

/// An object of the page.
fn object(kind: &str, name: &str) -> Result<Value> {
    let page = fs::read_to_string(workspace().join(PAGE))?;
    for block in page.split("```yaml\n").skip(1) {
        let (block, _) = block.split_once("```").context("a block has no end")?;
        for object in serde_saphyr::from_multiple::<Value>(block)? {
            if object["kind"] == kind && object["metadata"]["name"] == name {
                return Ok(object);
            }
        }
    }
    anyhow::bail!("{PAGE} has no {kind} {name}")
}

/// Has Argo CD compared what stands in the Application now, and found no difference, after a sync that went well?
fn is_synced(application: &Value) -> bool {
    let (source, status) = (&application["spec"]["source"], &application["status"]);
    status["sync"]["status"] == "Synced"
        && status["sync"]["comparedTo"]["source"] == *source
        && status["operationState"]["phase"] == "Succeeded"
}

impl<'a> Scene<'a> {
    pub async fn set(plane: &'a ControlPlane) -> Result<Self> {
        let repository = Repository::start(plane)?;
        for name in [OPERATOR, POLICIES] {
            repository.add(plane, &chart(name), VERSION).await?;
        }
        let settings = object("ConfigMap", "argocd-cm")?;
        let argo = Argo::start(plane, &json!({"data": settings["data"]})).await?;
        Ok(Self {
            plane,
            argo,
            repository,
        })
    }

    /// The page's Application, with these values over its own.
    pub fn application(&self, name: &str, values: &Value) -> Result<Value> {
        let mut application = object("Application", name)?;
        let source = &mut application["spec"]["source"];
        source["repoURL"] = json!(self.repository.url());
        source["targetRevision"] = json!(VERSION);
        for (key, value) in values.as_object().into_iter().flatten() {
            source["helm"]["valuesObject"][key] = value.clone();
        }
        Ok(application)
    }

    pub async fn synced(&self, name: &str) -> Result<Value> {
        self.argo.wait(name, "Synced", is_synced).await
    }

    pub async fn has_health(&self, name: &str, health: &str) -> Result<()> {
        let has_it = |it: &Value| is_synced(it) && it["status"]["health"]["status"] == health;
        self.argo.wait(name, health, has_it).await.map(drop)
    }

    /// Compared twice more with what the chart makes: there is no difference, and nothing is applied.
    pub async fn stays_synced(&self, name: &str) -> Result<()> {
        let before = self.synced(name).await?;
        for _ in 0..2 {
            let after = self.argo.refresh(name).await?;
            let [before, after] = [&before, &after].map(|it| &it["status"]);
            ensure!(after["sync"]["status"] == "Synced", "{after}");
            let [before, after] = [before, after].map(|it| &it["operationState"]["startedAt"]);
            ensure!(
                before == after,
                "{name} was applied at {after}, after {before}"
            );
        }
        Ok(())
    }

    pub async fn has_values(&self, name: &str, values: &Value) -> Result<()> {
        let helm = json!({"helm": {"valuesObject": values}});
        let changes = json!({"spec": {"source": helm}});
        self.argo.patch(name, &changes).await
    }

    /// What kubectl shows of an object by this path.
    pub async fn shown(&self, object: &str, path: &str) -> Result<String> {
        let path = format!("-o=jsonpath={{{path}}}");
        let get = ["get", object, "-n", NAMESPACE, &path];
        self.plane.kubectl_text(&get).await
    }
}
