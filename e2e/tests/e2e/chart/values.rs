//! From values to what Helm makes of them, by the tables of `tests/data/chart`: what it refuses, what it renders, and what it tells after an
//! installation.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::operator::NAMESPACE;
use fencing_testbed::paths::workspace;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::process::Command;

use super::{HELMS, KUBE_VERSION, RELEASE, chart, monitoring, path, render, render_by, run};

/// The rows of a table of `tests/data/chart`.
fn table<Row: DeserializeOwned>(name: &str, least: usize) -> Result<Vec<Row>> {
    let text = std::fs::read_to_string(workspace().join("tests/data/chart").join(name))?;
    let chart: Value = yaml(&Path::new(&chart()?).join("Chart.yaml"))?;
    let version = chart["appVersion"].as_str().context("no version")?;
    let rows: Vec<Row> = serde_saphyr::from_str(&text.replace("APP_VERSION", version))?;
    ensure!(rows.len() >= least, "{name}: only {} rows", rows.len());
    Ok(rows)
}

/// What a file has.
pub fn yaml(path: &Path) -> Result<Value> {
    Ok(serde_saphyr::from_str(&std::fs::read_to_string(path)?)?)
}

/// A file with these values, as long as the directory is there.
fn file(directory: &tempfile::TempDir, number: usize, values: &Value) -> Result<String> {
    let file = directory.path().join(format!("{number}.json"));
    std::fs::write(&file, values.to_string())?;
    path(file)
}

/// A row of `bad-values.yaml`.
#[derive(Deserialize)]
struct Bad {
    values: Value,
    says: String,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_value_is_refused_with_the_words_of_the_table() -> Result<()> {
    let rows: Vec<Bad> = table("bad-values.yaml", 50)?;
    let alerts = yaml(&Path::new(&chart()?).join("files/alerts.yaml"))?;
    let alerts = names_of_alerts(&alerts);
    ensure!(alerts.len() >= 20, "{alerts:?}");
    let alerts = alerts.join(", ");
    let directory = tempfile::tempdir()?;
    let chart = chart()?;
    let mut wrong = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let file = file(&directory, number, &row.values)?;
        let template = ["template", RELEASE, &chart, KUBE_VERSION, "-f", &file];
        let [by_helm_4, by_helm_3] = HELMS.map(|helm| run(helm, &template));
        let (by_helm_4, by_helm_3) = tokio::try_join!(by_helm_4, by_helm_3)?;
        let expected = row.says.replace("ALERTS", &alerts);
        for (helm, output) in HELMS.into_iter().zip([by_helm_4, by_helm_3]) {
            let said = String::from_utf8(output.stderr)?;
            if output.status.success() || words(&said) != Some(&expected) {
                wrong.push(format!("{}: {helm}: {said}", row.values));
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn names_of_alerts(rules: &Value) -> Vec<String> {
    let groups = rules["groups"].as_array().into_iter().flatten();
    let rules = groups.flat_map(|group| group["rules"].as_array().into_iter().flatten());
    let names = rules.filter_map(|rule| rule["alert"].as_str());
    names.map(str::to_owned).collect()
}

/// What Helm says against values, without its own words around it.
fn words(said: &str) -> Option<&str> {
    const SCHEMA: &str = "Error: values don't meet the specifications of the schema(s) in the following chart(s):\n\
                          node-fencing-operator:\n- ";
    if let Some(words) = said.strip_prefix(SCHEMA) {
        return words.strip_suffix("\n\n");
    }
    let template = "Error: execution error at (node-fencing-operator/templates/";
    let (_, words) = said.strip_prefix(template)?.split_once("): ")?;
    words.strip_suffix("\n\nUse --debug flag to render out invalid YAML\n")
}

/// Below 1.30 there is no ValidatingAdmissionPolicy of v1, and the operator would not start. So no note has to say that it is missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_admission_policies_is_refused() -> Result<()> {
    let chart = chart()?;
    for helm in HELMS {
        for (version, shown) in [("1.28.15", "v1.28.15"), ("1.29.14", "v1.29.14")] {
            let flag = format!("--kube-version={version}");
            let output = run(helm, &["template", RELEASE, &chart, &flag]).await?;
            let said = String::from_utf8(output.stderr)?;
            let expected = format!(
                "Error: chart requires kubeVersion: >=1.30.0-0 which is incompatible with Kubernetes {shown}\n\n\
                 Use --debug flag to render out invalid YAML\n"
            );
            ensure!(said == expected, "{helm}: {said}");
        }
    }
    Ok(())
}

/// A row of `renders.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Render {
    values: Value,
    #[serde(default)]
    flags: Vec<String>,
    namespace: Option<String>,
    only: Option<String>,
    #[serde(default)]
    has: BTreeMap<String, BTreeMap<String, Value>>,
    #[serde(default)]
    lacks: Vec<String>,
}

impl Render {
    async fn objects(&self, values: &str) -> Result<BTreeMap<String, Value>> {
        let mut arguments = vec!["-f", values];
        arguments.extend(self.flags.iter().map(String::as_str));
        let namespace = self.namespace.as_deref().unwrap_or(NAMESPACE);
        let objects = match self.only.as_deref() {
            Some(helm) => render_by(helm, namespace, &arguments).await?,
            None => render(namespace, &arguments).await?,
        };
        let mut named = BTreeMap::new();
        for object in objects {
            let groups = object["spec"]["groups"].as_array().into_iter().flatten();
            for rule in groups.flat_map(|group| group["rules"].as_array().into_iter().flatten()) {
                for kind in ["alert", "record"] {
                    if let Some(name) = rule[kind].as_str() {
                        named.insert(format!("{kind} {name}"), rule.clone());
                    }
                }
            }
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let name = text(&object["metadata"]["name"]);
            named.insert(format!("{} {name}", text(&object["kind"])), object);
        }
        Ok(named)
    }

    /// Where the objects are not what the row says.
    fn wrong(&self, objects: &BTreeMap<String, Value>) -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, fields) in &self.has {
            let Some(object) = objects.get(name) else {
                wrong.push(format!("there is no {name}"));
                continue;
            };
            for (path, expected) in fields {
                let found = object.pointer(path).unwrap_or(&Value::Null);
                if found != expected {
                    wrong.push(format!("{name}: {path} is {found} and not {expected}"));
                }
            }
        }
        let there = self.lacks.iter().filter(|name| objects.contains_key(*name));
        wrong.extend(there.map(|name| format!("there is a {name}")));
        wrong
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_rendered_as_the_table_says() -> Result<()> {
    let rows: Vec<Render> = table("renders.yaml", 50)?;
    let directory = tempfile::tempdir()?;
    let mut wrong = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let file = file(&directory, number, &row.values)?;
        let objects = row.objects(&file).await;
        let objects = objects.with_context(|| row.values.to_string())?;
        let found = row.wrong(&objects).into_iter();
        let namespace = row.namespace.as_deref().unwrap_or(NAMESPACE);
        wrong
            .extend(found.map(|it| format!("{} {:?} in {namespace}: {it}", row.values, row.flags)));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// What a template replaces in a file stands there: a file of another version, that a template does not understand, is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_what_its_template_replaces_is_refused() -> Result<()> {
    let account = "system:serviceaccount:node-fencing-system:node-fencing-operator";
    let subject =
        "- kind: ServiceAccount\n  name: node-fencing-operator\n  namespace: node-fencing-system";
    let elsewhere = subject.replace("-system", "");
    for (file, from, to, flag) in [
        (
            "delete-node",
            subject,
            elsewhere.as_str(),
            "rbac.deleteNode",
        ),
        (
            "network-fence",
            subject,
            elsewhere.as_str(),
            "rbac.networkFence",
        ),
        (
            "early-detection",
            subject,
            elsewhere.as_str(),
            "rbac.earlyDetection",
        ),
        ("callers", subject, elsewhere.as_str(), "rbac.callers"),
        ("headroom", subject, elsewhere.as_str(), "headroom.enabled"),
        ("admission", account, "somebody", "admissionPolicy.enabled"),
        (
            "admission",
            "validationActions: [Warn, Audit]",
            "validationActions: [Audit]",
            "admissionPolicy.guardRail",
        ),
    ] {
        let folder = tempfile::tempdir()?;
        let copied = folder.path().join(RELEASE);
        let mut copy = Command::new("cp");
        let status = copy.arg("-r").arg(chart()?).arg(&copied).status().await?;
        ensure!(status.success(), "cp: {status}");
        let spoiled = copied.join(format!("files/{file}.yaml"));
        let text = std::fs::read_to_string(&spoiled)?;
        ensure!(text.contains(from), "{file}.yaml has no {from}");
        std::fs::write(&spoiled, text.replace(from, to))?;
        let (copied, flag) = (path(copied)?, format!("--set={flag}=true"));
        let expected = format!(
            "files/{file}.yaml of this chart has no {from:?}, which the chart's template replaces: take the whole chart of one version"
        );
        for helm in HELMS {
            let output = run(helm, &["template", RELEASE, &copied, KUBE_VERSION, &flag]).await?;
            let said = String::from_utf8(output.stderr)?;
            ensure!(words(&said) == Some(&expected), "{helm}: {said}");
        }
    }
    Ok(())
}

/// A row of `notes.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Notes {
    values: Value,
    /// On a cluster with the CRDs, ours and those of the Prometheus Operator.
    #[serde(default)]
    known: bool,
    #[serde(default)]
    says: Vec<String>,
    #[serde(default)]
    lacks: Vec<String>,
}

impl Notes {
    fn wrong(&self, notes: &str) -> Vec<String> {
        let paragraphs: Vec<&str> = notes.trim().split("\n\n").collect();
        let missing = self.says.iter();
        let missing = missing.filter(|it| !paragraphs.contains(&it.as_str()));
        let missing = missing.map(|it| format!("does not say: {it}"));
        let too_much = self.lacks.iter().filter(|it| notes.contains(*it));
        let too_much = too_much.map(|it| format!("says: {it}"));
        missing.chain(too_much).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_notes_say_what_is_missing() -> Result<()> {
    let (later, now): (Vec<Notes>, Vec<Notes>) = table("notes.yaml", 12)?
        .into_iter()
        .partition(|row: &Notes| row.known);
    let plane = ControlPlane::start(Options::named("chart-notes")).await?;
    let mut wrong = read_notes(&plane, &now, &[]).await?;
    monitoring(&plane).await?;
    let ours = path(workspace().join("crds"))?;
    let create = ["apply", "--server-side", "-k", &ours];
    plane.kubectl_text(&create).await?;
    plane.wait_for_definitions().await?;
    // Those that are there are not the release's.
    wrong.extend(read_notes(&plane, &later, &["--set=crds.install=false"]).await?);
    ensure!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}

/// Where the notes are not what the rows say.
async fn read_notes(plane: &ControlPlane, rows: &[Notes], flags: &[&str]) -> Result<Vec<String>> {
    let directory = tempfile::tempdir()?;
    let chart = chart()?;
    let mut wrong = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let file = file(&directory, number, &row.values)?;
        let install = ["install", RELEASE, &chart, "--namespace", NAMESPACE];
        let arguments = [&install[..], &["--dry-run=server", "-f", &file], flags].concat();
        for helm in HELMS {
            let output = plane.run(helm, &arguments).await?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{}: {helm}: {said}", row.values);
            let printed = String::from_utf8(output.stdout)?;
            let (_, notes) = printed.rsplit_once("\nNOTES:\n").context("no notes")?;
            let found = row.wrong(notes).into_iter();
            wrong.extend(found.map(|it| format!("{}: {helm} {it}\n{notes}", row.values)));
        }
    }
    Ok(wrong)
}
