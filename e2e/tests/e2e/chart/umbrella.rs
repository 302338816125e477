//! The chart as a dependency of another one, with a condition: it renders what it renders by itself, or nothing; and it has no alias.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::operator::NAMESPACE;
use serde_json::{Value, json};
use tokio::process::Command;

use super::values::yaml;
use super::{
    HELMS, KUBE_VERSION, RELEASE, by_name, chart, ci_values, documents, path, render, run, text,
};

/// A chart with ours as its only part, and the arguments by which Helm renders it.
struct Umbrella {
    folder: tempfile::TempDir,
}

impl Umbrella {
    async fn of(alias: Option<&str>) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let ours = chart()?;
        let part = yaml(&Path::new(&ours).join("Chart.yaml"))?;
        let mut dependency = json!({
            "name": RELEASE, "version": part["version"], "condition": format!("{RELEASE}.enabled"),
        });
        if let Some(alias) = alias {
            dependency["alias"] = json!(alias);
        }
        let itself = json!({
            "apiVersion": "v2", "name": "platform", "version": "1.0.0", "dependencies": [dependency],
        });
        std::fs::write(folder.path().join("Chart.yaml"), itself.to_string())?;
        let parts = folder.path().join("charts");
        std::fs::create_dir(&parts)?;
        let mut copy = Command::new("cp");
        let status = copy.arg("-r").arg(ours).arg(parts).status().await?;
        ensure!(status.success(), "cp: {status}");
        Ok(Self { folder })
    }

    fn arguments(&self, values: &Value) -> Result<Vec<String>> {
        let file = self.folder.path().join("given.json");
        std::fs::write(&file, values.to_string())?;
        let folder = path(self.folder.path().to_owned())?;
        let file = path(file)?;
        let arguments = ["template", RELEASE, &folder, KUBE_VERSION, "-f", &file];
        let arguments = [&arguments[..], &["--namespace", NAMESPACE]].concat();
        Ok(arguments.into_iter().map(str::to_owned).collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn as_a_dependency_it_renders_what_it_renders_by_itself() -> Result<()> {
    let umbrella = Umbrella::of(None).await?;
    for file in ci_values()? {
        let alone = by_name(render(NAMESPACE, &["-f", &file]).await?);
        let mut values = yaml(Path::new(&file))?;
        for enabled in [true, false] {
            values["enabled"] = json!(enabled);
            let arguments = umbrella.arguments(&json!({RELEASE: values}))?;
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            for helm in HELMS {
                let printed = text(helm, &arguments).await?;
                let is_right = match enabled {
                    true => by_name(documents(&printed)?) == alone,
                    false => printed.trim().is_empty(),
                };
                ensure!(is_right, "{file}: {helm}, enabled {enabled}: {printed}");
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alias_is_refused_in_a_sentence() -> Result<()> {
    let umbrella = Umbrella::of(Some("fencing")).await?;
    let arguments = umbrella.arguments(&json!({}))?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for helm in HELMS {
        let output = run(helm, &arguments).await?;
        let said = String::from_utf8(output.stderr)?;
        ensure!(!output.status.success(), "{helm} takes the alias");
        let (_, sentence) = said
            .split_once("dependencies: ")
            .context("another reason")?;
        ensure!(
            sentence.starts_with(
                "fencing is an alias of node-fencing-operator, which a cluster has once"
            ),
            "{helm}: {said}"
        );
    }
    Ok(())
}
