//! The workflow for releases: it calls only what is here, what it calls runs dry, and no registry has a name in it.

use crate::pages::{read, root};
use serde_json::Value;
use std::process::Command;

const WORKFLOW: &str = ".github/workflows/release.yml";
/// Where images may go is for whoever releases to say.
const REGISTRIES: [&str; 6] = [
    "ghcr.io",
    "docker.io",
    "quay.io",
    "gcr.io",
    "registry.k8s.io",
    "public.ecr",
];

#[test]
fn the_workflow_calls_steps_that_exist() {
    let workflow: Value = serde_saphyr::from_str(&read(WORKFLOW)).expect("YAML");
    let script = read("hack/release");
    let mut called = 0;
    for job in workflow["jobs"].as_object().expect("jobs").values() {
        let steps = job["steps"].as_array().expect("steps");
        for run in steps.iter().filter_map(|step| step["run"].as_str()) {
            if let Some(step) = run.strip_prefix("hack/release $DRY_RUN ") {
                assert!(
                    script.contains(&format!("\n{step}() {{")),
                    "hack/release has no step {step}"
                );
                called += 1;
            } else if run.starts_with(['.', '/']) {
                assert!(root().join(run).exists(), "there is no {run}");
            }
        }
    }
    assert!(called > 5, "only {called} steps");
}

#[test]
fn no_registry_has_a_name() {
    for file in [WORKFLOW, "hack/release", "Makefile"] {
        let text = read(file);
        for registry in REGISTRIES {
            assert!(!text.contains(registry), "{file} names {registry}");
        }
    }
}

#[test]
fn a_release_runs_dry() {
    let out = tempfile::tempdir().expect("a folder");
    let output = Command::new(root().join("hack/release"))
        .args(["--dry-run", "all"])
        .env("OUT", out.path())
        .env("PLATFORMS", "linux/amd64,linux/arm64")
        .env_remove("RELEASE_TAG")
        .output()
        .expect("bash");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for step in [
        "would: skopeo copy",
        "would: cosign sign --yes IMAGE_REPOSITORY@",
        "would: cosign attest --yes --type slsaprovenance1",
        // One for each platform, and the list of them.
        concat!(
            "docker://IMAGE_REPOSITORY:",
            env!("CARGO_PKG_VERSION"),
            "-arm64"
        ),
        "would: buildah manifest push --all",
    ] {
        assert!(said.contains(step), "{step}: {said}");
    }
    let provenance = std::fs::read_to_string(out.path().join("provenance.json")).expect("a file");
    let provenance: Value = serde_json::from_str(&provenance).expect("JSON");
    let commit = &provenance["buildDefinition"]["resolvedDependencies"][0]["digest"]["gitCommit"];
    assert_eq!(commit.as_str().map(str::len), Some(40), "{provenance}");
    let notes = std::fs::read_to_string(out.path().join("notes.md")).expect("the notes");
    assert!(notes.contains("### "), "{notes}");
}
