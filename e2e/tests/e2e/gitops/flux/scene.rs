//! Flux at work on the objects of its page, with the lab's registry and chart repository in place of those that the page names.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::ControlPlane;
use e2e::gitops::{Flux, Registry, Repository};
use e2e::lab::LIMIT;
use fencing_testbed::eventually::eventually;
use fencing_testbed::paths::workspace;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::verdict::{Body, must};

const PAGE: &str = "docs/how-to/gitops-flux.md";
/// The charts, and the releases of the page.
pub const OPERATOR: &str = "node-fencing-operator";
pub const POLICIES: &str = "node-fencing-policies";
/// Objects of Flux, where the page has them.
pub const RELEASES: &str =
    "/apis/helm.toolkit.fluxcd.io/v2/namespaces/node-fencing-system/helmreleases";
pub const CHARTS: &str =
    "/apis/source.toolkit.fluxcd.io/v1/namespaces/node-fencing-system/helmrepositories";
pub const GIT: &str = "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/ocirepositories";
pub const KUSTOMIZATIONS: &str =
    "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations";
const EVENTS: &str = "/api/v1/namespaces/node-fencing-system/events";

/// A cluster with Flux.
pub struct Scene<'a> {
    plane: &'a ControlPlane,
    repository: Repository,
    registry: Registry,
    _flux: Flux,
}

impl<'a> Scene<'a> {
    /// With nothing to install yet.
    pub async fn start(plane: &'a ControlPlane) -> Result<Self> {
        Ok(Self {
            plane,
            repository: Repository::start(plane)?,
            registry: Registry::start(plane).await?,
            _flux: Flux::start(plane).await?,
        })
    }

    /// Serves a chart under this version: over HTTP, and from the registry.
    pub async fn publish(&self, chart: &Path, version: &str) -> Result<()> {
        let archive = self.repository.add(self.plane, chart, version).await?;
        self.registry.push(self.plane, &archive).await
    }

    /// The same with both charts of the workspace.
    pub async fn publish_both(&self, version: &str) -> Result<()> {
        for chart in [OPERATOR, POLICIES] {
            let chart = workspace().join("charts").join(chart);
            self.publish(&chart, version).await?;
        }
        Ok(())
    }

    /// Applies the objects of the page's first block that has these words, each changed.
    pub async fn apply(&self, words: &str, change: impl Fn(&mut Value)) -> Result<()> {
        let page = std::fs::read_to_string(workspace().join(PAGE))?;
        let blocks = page.split("```yaml\n").skip(1);
        let mut blocks = blocks.filter_map(|rest| rest.split("```").next());
        let block = blocks.find(|block| block.contains(words));
        let block = block.with_context(|| format!("{PAGE} has no block with {words}"))?;
        let block = block
            .replace("oci://REGISTRY/charts", &self.registry.url())
            .replace("https://charts.example.com", &self.repository.url());
        let objects: Vec<Value> = serde_saphyr::from_multiple(&block)?;
        for mut object in objects {
            if object["kind"] == "OCIRepository" {
                object["spec"]["insecure"] = json!(true);
            }
            change(&mut object);
            self.apply_object(&object).await?;
        }
        Ok(())
    }

    /// Has Flux take the files of this chart for those of a Git repository.
    pub async fn apply_git(&self, chart: &str) -> Result<()> {
        let layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
        let source = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository",
            "metadata": {"name": chart, "namespace": "flux-system"},
            "spec": {
                "interval": "1h", "url": format!("{}/{chart}", self.registry.url()), "insecure": true, "ref": {"semver": "0.x"},
                "layerSelector": {"mediaType": layer, "operation": "extract"},
            },
        });
        self.apply_object(&source).await
    }

    async fn apply_object(&self, object: &Value) -> Result<()> {
        let file = self.plane.files().directory().join("of-flux.json");
        std::fs::write(&file, object.to_string())?;
        let file = file.to_str().context("the path is not UTF-8")?;
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", file];
        self.plane.kubectl_text(&apply).await.map(drop)
    }

    /// Waits until an object of Flux is as wanted, and gives it.
    pub async fn wait(
        &self,
        kind: &str,
        name: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let path = format!("{kind}/{name}");
        let what = format!("{path} is as wanted");
        eventually(&what, 2 * LIMIT, async || {
            let object = must(&self.plane.admin(), Method::GET, &path, None).await?;
            ensure!(wanted(&object), "it is {}", object["status"]);
            Ok(object)
        })
        .await
    }

    /// Has Flux reconcile an object now, as `flux reconcile` does, waits until it has, and gives it.
    pub async fn reconcile(&self, kind: &str, name: &str) -> Result<Value> {
        let now = Timestamp::now().to_string();
        let asked = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": now}}});
        let path = format!("{kind}/{name}");
        let asked = Some((Body::Merge, &asked));
        must(&self.plane.admin(), Method::PATCH, &path, asked).await?;
        let has = |object: &Value| object["status"]["lastHandledReconcileAt"] == now.as_str();
        self.wait(kind, name, |object| has(object) && is_ready(object))
            .await
    }

    /// The Events about drift, each by the release and the reason.
    pub async fn drifts(&self) -> Result<Vec<String>> {
        let events = must(&self.plane.admin(), Method::GET, EVENTS, None).await?;
        let events = events["items"].as_array().context("no items")?;
        let named = |event: &Value| {
            let reason = event["reason"].as_str()?;
            let release = event["involvedObject"]["name"].as_str()?;
            let is_it = reason.starts_with("Drift");
            is_it.then(|| format!("{release} {reason}"))
        };
        let mut drifts: Vec<_> = events.iter().filter_map(named).collect();
        drifts.sort();
        Ok(drifts)
    }
}

/// Is the object of Flux Ready in its present generation?
pub fn is_ready(object: &Value) -> bool {
    let status = &object["status"];
    let conditions = status["conditions"].as_array();
    let is_it = |it: &Value| it["type"] == "Ready" && it["status"] == "True";
    status["observedGeneration"] == object["metadata"]["generation"]
        && conditions.is_some_and(|all| all.iter().any(is_it))
}
