//! What a release makes of the plugin's manifest, judged by krew's own program.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::toolchain::{Programs, Toolchain};
use fencing_testbed::paths::workspace;

/// What a release builds it for.
const ARCHIVES: [&str; 5] = [
    "darwin_amd64",
    "darwin_arm64",
    "linux_amd64",
    "linux_arm64",
    "windows_amd64",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn krew_takes_the_manifest_that_a_release_fills_in() -> Result<()> {
    let toolchain = tokio::task::spawn_blocking(|| Toolchain::build(Programs::All)).await??;
    let out = tempfile::tempdir()?;
    let version = env!("CARGO_PKG_VERSION");
    for platform in ARCHIVES {
        let archive = format!("kubectl-fence_{version}_{platform}.tar.gz");
        std::fs::write(out.path().join(&archive), platform)?;
        let sum = Command::new("sha256sum")
            .arg(&archive)
            .current_dir(out.path())
            .output()?;
        std::fs::write(out.path().join(format!("{archive}.sha256")), sum.stdout)?;
    }
    let made = Command::new(workspace().join("hack/release"))
        .args(["--dry-run", "krew"])
        .env("OUT", out.path())
        .output()?;
    ensure!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let manifest = out.path().join("fence.yaml");
    let judged = |manifest: &std::path::Path| {
        Command::new(toolchain.program("validate-krew-manifest"))
            .arg("-skip-install")
            .arg("-manifest")
            .arg(manifest)
            .output()
            .context("krew's program")
    };
    let output = judged(&manifest)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{said}");
    let text = std::fs::read_to_string(&manifest)?;
    ensure!(text.matches("sha256: ").count() == ARCHIVES.len(), "{text}");
    ensure!(
        text.matches("bin: kubectl-fence.exe").count() == 1,
        "{text}"
    );
    for left in [
        "VERSION", "HOMEPAGE", ": OS", "ARCH", "URI", "SHA256", "BIN",
    ] {
        ensure!(!text.contains(left), "{left} is still in it:\n{text}");
    }
    // It does judge.
    std::fs::write(&manifest, text.replace("sha256: ", "sha255: "))?;
    ensure!(!judged(&manifest)?.status.success(), "it takes anything");
    Ok(())
}
