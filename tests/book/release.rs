//! The workflow for releases: it calls only what is here, what it calls runs dry, and no registry has a name in it.

use crate::pages::{read, root};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

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

fn workflow() -> Value {
    serde_saphyr::from_str(&read(WORKFLOW)).expect("YAML")
}

/// For which processors a release is, as the workflow says.
fn platforms() -> String {
    let platforms = workflow()["jobs"]["release"]["env"]["PLATFORMS"].clone();
    let platforms = platforms.as_str().expect("PLATFORMS");
    platforms.to_owned()
}

#[test]
fn the_workflow_calls_steps_that_exist_and_none_is_left_out() {
    let workflow = workflow();
    let script = read("hack/release");
    let mut called = Vec::new();
    for job in workflow["jobs"].as_object().expect("jobs").values() {
        let steps = job["steps"].as_array().expect("steps");
        for run in steps.iter().filter_map(|step| step["run"].as_str()) {
            if let Some(step) = run.strip_prefix("hack/release $DRY_RUN ") {
                assert!(
                    script.contains(&format!("\n{step}() {{")),
                    "hack/release has no step {step}"
                );
                called.push(step.to_owned());
            } else if run.starts_with(['.', '/']) {
                assert!(root().join(run).exists(), "there is no {run}");
            }
        }
    }
    // What is signed has been pushed before, and what is tried dry is what a release does.
    let all = script
        .lines()
        .find_map(|line| line.trim().strip_prefix("all) "));
    let mut all: Vec<&str> = all
        .expect("all")
        .trim_end_matches(" ;;")
        .split("; ")
        .collect();
    assert!(all.len() > 6, "only {all:?}");
    let pushed = ["image", "agents", "chart", "manifests", "olm", "sbom"]
        .map(|step| called.iter().position(|it| it == step));
    let signed = called.iter().position(|it| it == "sign");
    assert!(
        pushed.iter().all(|it| it.is_some() && *it < signed),
        "{called:?}"
    );
    all.sort_unstable();
    called.sort_unstable();
    assert_eq!(called, all, "the workflow, and all of hack/release");
}

/// QEMU stands in for the processor that the runner has not. (Nobody has run it: docs/image.md says so.)
#[test]
fn a_release_is_for_both_processors_and_has_what_that_takes() {
    assert_eq!(platforms(), "linux/amd64,linux/arm64");
    let workflow = workflow();
    let release = &workflow["jobs"]["release"];
    assert_eq!(release["env"]["CONTAINER_TOOL"], "buildah");
    let steps = release["steps"].as_array().expect("steps");
    let at = |words: &str| {
        let found = steps
            .iter()
            .position(|step| step["run"].as_str().is_some_and(|it| it.contains(words)));
        found.unwrap_or_else(|| panic!("no step has {words}"))
    };
    for program in [
        "qemu-user-static",
        "buildah",
        "skopeo",
        "binfmt_misc/qemu-aarch64",
    ] {
        assert!(
            at(program) < at("hack/release $DRY_RUN image"),
            "{program} comes too late"
        );
    }
}

/// A tag of an action may be moved by whoever takes its repository over; a commit stays what it is.
#[test]
fn every_action_is_named_by_its_commit() {
    let mut seen = 0;
    for entry in fs::read_dir(root().join(".github/workflows")).expect("the workflows") {
        let text = fs::read_to_string(entry.expect("an entry").path()).expect("text");
        for (_, action) in text.lines().filter_map(|it| it.split_once("uses: ")) {
            let (_, rest) = action.split_once('@').expect("a version");
            let (commit, version) = rest.split_once(" # v").expect("a commit # vVERSION");
            let is_hex = commit.bytes().all(|it| it.is_ascii_hexdigit());
            assert!(
                commit.len() == 40 && is_hex && !version.is_empty(),
                "{action}"
            );
            seen += 1;
        }
    }
    assert!(seen > 5, "only {seen} actions");
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

/// Runs steps of a release dry, with a helm that packages the chart after `spoil` was done to it. (That of the lab: e2e/tests/e2e/chart/archive.rs)
fn dry(steps: &str, spoil: &str, out: &Path) -> Output {
    let helm = out.join("helm");
    // helm package CHART --version V --app-version V --destination FOLDER
    let script = format!(
        r#"#!/bin/sh
set -eu
[ "$1" = package ] || exit 0
chart="${{2##*/}}"
mkdir -p "$8/copied"
tar -c -C "${{2%/*}}" "$chart" | tar -x -C "$8/copied"
(cd "$8/copied/$chart" && {spoil})
tar -cz -f "$8/$chart-$4.tgz" -C "$8/copied" "$chart"
"#
    );
    fs::write(&helm, script).expect("a file");
    fs::set_permissions(&helm, fs::Permissions::from_mode(0o755)).expect("its mode");
    Command::new(root().join("hack/release"))
        .args(["--dry-run", steps])
        .env("OUT", out)
        .env("HELM", helm)
        .env("PLATFORMS", platforms())
        // A build of a release takes minutes; `make release-dry` makes one.
        .env(
            "PLUGINS",
            Path::new(env!("CARGO_BIN_EXE_kubectl-fence"))
                .parent()
                .expect("a folder"),
        )
        .env_remove("RELEASE_TAG")
        .output()
        .expect("bash")
}

#[test]
fn a_release_runs_dry() {
    let out = tempfile::tempdir().expect("a folder");
    let output = dry("all", "true", out.path());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let version = env!("CARGO_PKG_VERSION");
    // Of either image one for each platform, and the list of them.
    for (target, tag) in [
        ("operator", version.to_owned()),
        ("agents", format!("{version}-agents")),
    ] {
        let to = format!("docker://IMAGE_REPOSITORY:{tag}");
        let list = format!("IMAGE_REPOSITORY:{tag}");
        for step in [
            format!("would: env PLATFORM=linux/amd64 image/build {target}\n"),
            format!("would: env PLATFORM=linux/arm64 image/build {target}\n"),
            format!("oci-archive:target/image/{target}.tar {to}-amd64\n"),
            format!("oci-archive:target/image/{target}.tar {to}-arm64\n"),
            format!("would: buildah manifest create {list} {to}-amd64 {to}-arm64\n"),
            format!(" {list} {to}\n"),
        ] {
            assert!(said.contains(&step), "{step}: {said}");
        }
    }
    for (step, times) in [
        ("would: skopeo copy", 4),
        ("would: buildah manifest push --all", 2),
        ("would: buildah push --digestfile ", 1),
        ("would: cosign sign --yes --recursive IMAGE_REPOSITORY@", 2),
        ("would: cosign attest --yes --type slsaprovenance1", 2),
        (" files in ", 2),
        ("/helm push ", 2),
        ("would: cosign verify --certificate-identity", 4),
        ("would: cosign verify-attestation --type ", 2),
        ("would: cosign verify-blob --bundle ", 2),
        ("would: git push origin BOOK:refs/heads/gh-pages", 1),
        (" bytes in ", 1),
        ("release: 5 definitions in ", 1),
        ("release: 1 platform(s) in ", 1),
    ] {
        assert_eq!(said.matches(step).count(), times, "{step}: {said}");
    }
    let provenance = fs::read_to_string(out.path().join("provenance.json")).expect("a file");
    let provenance: Value = serde_json::from_str(&provenance).expect("JSON");
    let commit = &provenance["buildDefinition"]["resolvedDependencies"][0]["digest"]["gitCommit"];
    assert_eq!(commit.as_str().map(str::len), Some(40), "{provenance}");
    let installed = fs::read_to_string(out.path().join("install.yaml")).expect("the manifest");
    let image = format!("        image: IMAGE_REPOSITORY:{version}@sha256:DIGEST\n");
    assert!(installed.contains(&image), "it names no image by digest");
    // Artifact Hub drops links that lead out of the chart.
    let chart = out.path().join("chart-source/node-fencing-operator");
    let readme = fs::read_to_string(chart.join("README.md")).expect("a file");
    let itself = fs::read_to_string(chart.join("Chart.yaml")).expect("a file");
    let itself: Value = serde_saphyr::from_str(&itself).expect("YAML");
    let shown = |name: &str| -> Vec<Value> {
        let text = itself["annotations"][format!("artifacthub.io/{name}")].as_str();
        serde_saphyr::from_str(text.expect("an annotation")).expect("YAML")
    };
    assert_eq!(
        shown("images")[0]["image"],
        format!("IMAGE_REPOSITORY:{version}")
    );
    let changes = shown("changes");
    assert!(changes.len() > 10 && changes.iter().all(|it| it["kind"].is_string()));
    let page = format!("](https://example.com/blob/v{version}/docs/how-to/first-node.md)");
    assert!(readme.contains(&page) && !readme.contains("](../"));
    let notes = fs::read_to_string(out.path().join("notes.md")).expect("the notes");
    assert!(notes.contains("### "), "{notes}");
}

/// In its Deployment, among the images to mirror, and where OperatorHub shows it.
#[test]
fn the_bundle_for_olm_names_the_image_by_its_digest() {
    let out = tempfile::tempdir().expect("a folder");
    let output = dry("olm", "true", out.path());
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let file = "olm/manifests/node-fencing-operator.clusterserviceversion.yaml";
    let text = fs::read_to_string(out.path().join(file)).expect("the file");
    let named = text.matches("mage: IMAGE_REPOSITORY@sha256:DIGEST\n");
    assert_eq!(named.count(), 3, "{text}");
    assert!(out.path().join("olm-prerequisites.yaml").exists());
}

/// An archive of an image, in the layout of OCI, with a layer that has dpkg's record of a package.
const IMAGE: &str = r#"
mkdir -p root/etc root/var/lib/dpkg/status.d blobs/sha256
printf 'NAME="Debian GNU/Linux"\nVERSION_ID="13"\n' > root/etc/os-release
printf 'Package: libc6\nStatus: install ok installed\nVersion: 2.41-12+deb13u5\nDescription: libraries\n' > root/var/lib/dpkg/status.d/libc6
tar -c -C root . | gzip > blobs/sha256/layer
echo '{}' > blobs/sha256/config
tar -cf image.tar blobs
"#;

#[test]
fn the_bill_of_materials_has_crates_and_what_the_image_has_of_debian() {
    let out = tempfile::tempdir().expect("a folder");
    let made = Command::new("sh")
        .args(["-euc", IMAGE])
        .current_dir(out.path())
        .status();
    assert!(made.expect("sh").success());
    let output = Command::new(root().join("hack/release"))
        .args(["--dry-run", "sbom"])
        .env("OUT", out.path())
        .env("IMAGE_ARCHIVE", out.path().join("image.tar"))
        .output()
        .expect("bash");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    // Where there is no jq a dry run says so.
    let Ok(bill) = fs::read_to_string(out.path().join("node-fencing-operator.cdx.json")) else {
        assert!(said.contains("no jq here"), "{said}");
        return;
    };
    let debian = "pkg:deb/debian/libc6@2.41-12%2Bdeb13u5?distro=debian-13";
    for purl in [debian, "pkg:cargo/kube@"] {
        assert!(bill.contains(purl), "{purl}: {bill}");
    }
}

/// What is wrong in the chart's archive is found before it is pushed: by the words for it.
#[test]
fn an_archive_of_the_chart_that_is_not_the_chart_is_refused() {
    let version = env!("CARGO_PKG_VERSION");
    let other = |field: &str| format!("sed -i 's/^{field}: .*/{field}: 9.9.9/' Chart.yaml");
    for (spoil, words) in [
        (other("version"), format!("no line 'version: {version}'")),
        (
            other("appVersion"),
            format!("no line 'appVersion: {version}'"),
        ),
        (
            "rm values.schema.json".to_owned(),
            "no values.schema.json: it would take any values".to_owned(),
        ),
        (
            "rm files/crds/nodefences.yaml".to_owned(),
            "not crds/nodefences.yaml as it is here".to_owned(),
        ),
        (
            "echo '#' >> files/crds/fencedevices.yaml".to_owned(),
            "not crds/fencedevices.yaml as it is here".to_owned(),
        ),
        (
            "rm templates/rbac.yaml".to_owned(),
            "only there): < templates/rbac.yaml".to_owned(),
        ),
        ("touch .env".to_owned(), "only there): > .env".to_owned()),
        (
            "echo '#' >> values.yaml".to_owned(),
            "another values.yaml than charts/node-fencing-operator".to_owned(),
        ),
    ] {
        let out = tempfile::tempdir().expect("a folder");
        let output = dry("chart", &spoil, out.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{spoil}: nothing was said");
        assert!(said.contains(&words), "{spoil}: {words}: {said}");
        let pushed = String::from_utf8_lossy(&output.stdout).contains("push");
        assert!(!pushed, "{spoil}: it would be pushed");
    }
}
