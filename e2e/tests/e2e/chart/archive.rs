//! The chart's archive, as `hack/release` packages it: by either Helm it installs what the chart installs, and takes no other values.

use std::env;
use std::path::Path;

use anyhow::{Result, ensure};
use e2e::operator::NAMESPACE;
use e2e::toolchain::{Programs, Toolchain};
use fencing_testbed::paths::workspace;
use tokio::process::Command;

use super::{HELMS, KUBE_VERSION, RELEASE, by_name, documents, path, render, run, text};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A dry run with this helm, or the one that it finds: what was said, and the archive.
async fn package(out: &Path, helm: Option<&Path>) -> Result<(String, String)> {
    let mut command = Command::new(workspace().join("hack/release"));
    command.args(["--dry-run", "chart"]).env("OUT", out);
    command.env_remove("HELM").env_remove("RELEASE_TAG");
    if let Some(helm) = helm {
        command.env("HELM", helm);
    }
    let output = command.output().await?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (_, name) = said.split_once(" files in ").unwrap_or_default();
    let name = name.split(',').next().unwrap_or_default().to_owned();
    Ok((name, said))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_release_hands_out_installs_what_the_chart_installs() -> Result<()> {
    let toolchain = tokio::task::spawn_blocking(|| Toolchain::build(Programs::All)).await??;
    let chart = by_name(render(NAMESPACE, &[]).await?);
    for helm in HELMS {
        let out = tempfile::tempdir()?;
        let (archive, _) = package(out.path(), Some(&toolchain.program(helm))).await?;
        let template = [
            "template",
            RELEASE,
            &archive,
            KUBE_VERSION,
            "--namespace",
            NAMESPACE,
        ];
        let rendered = by_name(documents(&text(helm, &template).await?)?);
        ensure!(rendered == chart, "{helm}: the archive renders another");

        // Its alerts lead to the pages of the version.
        let rules = "metrics.renderMode=alwaysRender,metrics.prometheusRule.enabled=true";
        let rules = text(helm, &[&template[..], &["--set", rules]].concat()).await?;
        let page = format!("https://example.com/blob/v{VERSION}/docs/runbooks/NodeFencingHeld.md");
        ensure!(rules.contains(&page), "{helm}: no alert leads to {page}");

        let wrong = [&template[..], &["--set", "replicaz=3"]].concat();
        let refused = run(helm, &wrong).await?;
        let words = String::from_utf8_lossy(&refused.stderr);
        let is_refused = !refused.status.success() && words.contains("replicaz");
        ensure!(is_refused, "{helm} takes any values: {words}");
    }
    Ok(())
}

/// Whoever tries a release has built the lab, and may have no helm.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_release_takes_the_lab_s_helm_where_there_is_no_other() -> Result<()> {
    let folders = env::var_os("PATH").unwrap_or_default();
    if env::split_paths(&folders).any(|folder| folder.join("helm").is_file()) {
        eprintln!("not tried: there is a helm on the PATH, which is the one that it takes");
        return Ok(());
    }
    tokio::task::spawn_blocking(|| Toolchain::build(Programs::All)).await??;
    let out = tempfile::tempdir()?;
    let (archive, said) = package(out.path(), None).await?;
    ensure!(Path::new(&archive).is_file(), "no archive: {said}");
    let pushed = format!("/helm push {}", path(archive.into())?);
    ensure!(said.contains(&pushed), "{said}");
    Ok(())
}
