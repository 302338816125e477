//! The bundle for OLM, as `hack/release olm` makes it, judged by operator-framework's own validators. No OLM has installed it here.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fencing_testbed::fetch::run;
use fencing_testbed::paths::workspace;

/// What they may warn of: records and remediations are created by programs, so there is none to copy.
const WITHOUT_EXAMPLE: &str = "provided API should have an example annotation";

/// What they find in the bundle: an error if that is one.
fn validate(bundle: &Path) -> Result<String> {
    run(Command::new(e2e::go::program("e2e/olm", "olm-validate")?).arg(bundle))
}

#[test]
fn the_validators_of_operator_framework_take_the_bundle() -> Result<()> {
    let out = tempfile::tempdir()?;
    run(Command::new(workspace().join("hack/release"))
        .args(["--dry-run", "olm"])
        .env("OUT", out.path())
        .env_remove("RELEASE_TAG"))?;
    let bundle = out.path().join("olm");
    // A dry run pushes no image, so it names none.
    let version = bundle.join("manifests/node-fencing-operator.clusterserviceversion.yaml");
    let image = format!(
        "registry.example.com/node-fencing-operator@sha256:{:064}",
        0
    );
    let text = fs::read_to_string(&version)?.replace("IMAGE_REPOSITORY@sha256:DIGEST", &image);
    fs::write(version, text)?;
    let found = validate(&bundle)?;
    let mut warnings = found.lines();
    let unknown = warnings.find(|line| !line.contains(WITHOUT_EXAMPLE));
    ensure!(unknown.is_none(), "{found}");

    // They look: without a definition that it owns it is none.
    let definition = "manifests/fencedevices.nodefencing.io.customresourcedefinition.yaml";
    fs::remove_file(bundle.join(definition))?;
    let refused = validate(&bundle).err().context("it is taken without one")?;
    let refused = format!("{refused:#}");
    ensure!(refused.contains("not found in bundle"), "{refused}");
    Ok(())
}
