//! The chart of policies and devices: what it makes of its values, and that its release comes after the operator's, also by the book's own lines.

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::operator::NAMESPACE;
use fencing_testbed::paths::workspace;
use serde_json::json;

use super::typed::Desk;
use super::{HELMS, KUBE_VERSION, path, run};

const CHART: &str = "node-fencing-policies";
const INSTALL: &str = "docs/how-to/install.md";
/// What the values of the page and of the chart's ci have in common.
const OBJECTS: [&str; 5] = ["get", "nfp/workers", "fdev/worker-3-bmc", "-o", "name"];

fn chart() -> Result<String> {
    path(workspace().join("charts").join(CHART))
}

/// Policy and device of the page come with the release, and go with it.
pub async fn by_the_book(plane: &ControlPlane, helm: &str, desk: &Desk<'_>) -> Result<()> {
    desk.writes(INSTALL, "policies.yaml")?;
    let line = desk.types(INSTALL, "helm install node-fencing-policies", ("", ""));
    let notes = line.await?;
    ensure!(notes.contains("rbac.secretNames={bmc-worker-3}"), "{notes}");
    plane.kubectl_text(&OBJECTS).await?;
    remove(plane, helm, NAMESPACE).await
}

async fn remove(plane: &ControlPlane, helm: &str, namespace: &str) -> Result<()> {
    let uninstall = ["uninstall", CHART, "--namespace", namespace];
    let output = plane.run(helm, &uninstall).await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{helm}: {said}");
    let left = plane.kubectl_text(&OBJECTS).await;
    ensure!(left.is_err(), "{helm} has left {left:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn its_objects_are_installed_once_the_operator_s_chart_has_brought_their_kinds() -> Result<()>
{
    let plane = ControlPlane::start(Options::named("chart-policies")).await?;
    let (chart, values) = (
        chart()?,
        path(
            workspace()
                .join("charts")
                .join(CHART)
                .join("ci/full-values.yaml"),
        )?,
    );
    let install = [
        "install",
        CHART,
        &chart,
        "-f",
        &values,
        "--namespace",
        "default",
    ];
    for helm in HELMS {
        let output = plane.run(helm, &install).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        let says_why = said.contains("no matches for kind");
        ensure!(!output.status.success() && says_why, "{helm}: {said}");
    }
    let ours = path(workspace().join("crds"))?;
    let apply = ["apply", "--server-side", "-k", &ours];
    plane.kubectl_text(&apply).await?;
    plane.wait_for_definitions().await?;
    for helm in HELMS {
        let output = plane.run(helm, &install).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{helm}: {said}");
        plane.kubectl_text(&OBJECTS).await?;
        for (object, label, value) in [
            ("fdev/worker-3-bmc", "tier", "bmc"),
            ("nfp/workers", "team", "storage"),
        ] {
            let shown = format!("-o=jsonpath={{.metadata.labels.{label}}}");
            let found = plane.kubectl_text(&["get", object, &shown]).await?;
            ensure!(found == value, "{helm}: {object} has {label} {found}");
        }
        plane.kubectl_text(&["get", "configmap/further"]).await?;
        remove(&plane, helm, "default").await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn its_bad_values_are_refused_in_words() -> Result<()> {
    let (chart, folder) = (chart()?, tempfile::tempdir()?);
    let file = path(folder.path().join("values.json"))?;
    let twice = json!([{"name": "a", "spec": {}}, {"name": "a", "spec": {}}]);
    for (values, words) in [
        (
            json!({"policy": []}),
            "at '': additional properties 'policy' not allowed",
        ),
        (
            json!({"policies": [{"name": "a"}]}),
            "at '/policies/0': missing property 'spec'",
        ),
        (
            json!({"devices": twice}),
            "devices: the name a is there twice: give each its own",
        ),
        (
            json!({"extraObjects": [{"metadata": {"name": "a"}}]}),
            "at '/extraObjects/0': missing properties 'apiVersion', 'kind'",
        ),
    ] {
        std::fs::write(&file, values.to_string())?;
        for helm in HELMS {
            let template = ["template", CHART, &chart, KUBE_VERSION, "-f", &file];
            let output = run(helm, &template).await?;
            let said = String::from_utf8(output.stderr).context("not UTF-8")?;
            let is_refused = !output.status.success() && said.contains(words);
            ensure!(is_refused, "{helm}: {values}: {said}");
        }
    }
    Ok(())
}
