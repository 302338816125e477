//! The Helm charts without Helm: each one's schema, its README and its copies are what their sources say, byte for byte.
//!
//! `cargo test --test contract chart` fails when one is stale, and `UPDATE=1 cargo test --test contract chart` writes it anew. What Helm makes of
//! the charts is tested in `e2e/tests/e2e/chart/`.

mod kubernetes;
mod values;

use fencing_api::crd;
use serde_json::{Value, json};
use simapi::schema::Schema;
use std::fs;
use std::path::{Path, PathBuf};

/// The operator's.
const OPERATOR: &str = "node-fencing-operator";
/// It, and the one for policies and devices.
const CHARTS: [&str; 2] = [OPERATOR, "node-fencing-policies"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn chart() -> PathBuf {
    folder(OPERATOR)
}

fn folder(chart: &str) -> PathBuf {
    root().join("charts").join(chart)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn values(chart: &str) -> Vec<values::Entry> {
    values::entries(&read(&folder(chart).join("values.yaml")))
}

/// Its Chart.yaml.
fn itself(chart: &str) -> Value {
    serde_saphyr::from_str(&read(&folder(chart).join("Chart.yaml"))).expect("YAML")
}

/// Compares a file of each chart with what it should be.
fn check_each(name: &str, expected: impl Fn(&str) -> String) {
    let files = CHARTS.map(|chart| (format!("charts/{chart}/{name}"), expected(chart)));
    crate::stale::check("contract chart", files);
}

#[test]
fn the_schema_is_made_of_the_values() {
    check_each("values.schema.json", |chart| {
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": chart,
            "type": "object",
            "additionalProperties": false,
            "properties": values::schema(&values(chart)),
        });
        let text = serde_json::to_string_pretty(&schema).expect("JSON");
        format!("{text}\n")
    });
}

#[test]
fn the_readme_is_made_of_the_values() {
    check_each("README.md", |chart| {
        let text = read(&folder(chart).join("README.md.in"));
        let table = values::table(&values(chart));
        text.replace("{{values}}\n", &table)
    });
}

/// The chart is packed without what lies around it.
#[test]
fn its_copies_are_those_of_crds_and_deploy() {
    let copies = [
        ("files/crds/fencedevices.yaml", "crds/fencedevices.yaml"),
        ("files/crds/nodefences.yaml", "crds/nodefences.yaml"),
        (
            "files/crds/nodefenceremediations.yaml",
            "crds/nodefenceremediations.yaml",
        ),
        (
            "files/crds/nodefenceremediationtemplates.yaml",
            "crds/nodefenceremediationtemplates.yaml",
        ),
        (
            "files/crds/nodefencingpolicies.yaml",
            "crds/nodefencingpolicies.yaml",
        ),
        ("files/admission.yaml", "deploy/admission.yaml"),
        ("files/people.yaml", "deploy/people.yaml"),
        ("files/aggregated.yaml", "deploy/aggregated.yaml"),
        ("files/delete-node.yaml", "deploy/delete-node/rbac.yaml"),
        ("files/network-fence.yaml", "deploy/network-fence/rbac.yaml"),
        (
            "files/early-detection.yaml",
            "deploy/early-detection/rbac.yaml",
        ),
        ("files/callers.yaml", "deploy/callers/rbac.yaml"),
        (
            "files/callers-aggregated.yaml",
            "deploy/callers/aggregated.yaml",
        ),
        ("files/headroom.yaml", "deploy/headroom/rbac.yaml"),
    ];
    let files = copies.map(|(copy, source)| {
        (
            format!("charts/{OPERATOR}/{copy}"),
            read(&root().join(source)),
        )
    });
    crate::stale::check("contract chart", files);
    let copied = fs::read_dir(chart().join("files/crds")).expect("the folder");
    assert_eq!(copied.count(), 5);
}

#[test]
fn its_version_is_the_operator_s() {
    for chart in CHARTS {
        let itself = itself(chart);
        assert_eq!(itself["version"], env!("CARGO_PKG_VERSION"), "{chart}");
        assert_eq!(itself["appVersion"], env!("CARGO_PKG_VERSION"), "{chart}");
    }
}

/// The comment says what a value is for, so that nobody has to read a template.
#[test]
fn every_value_is_described() {
    let mut left: Vec<_> = CHARTS.into_iter().flat_map(values).collect();
    let mut undescribed = Vec::new();
    while let Some(entry) = left.pop() {
        let is_plain = [
            "enabled",
            "labels",
            "annotations",
            "interval",
            "relabelings",
        ];
        if entry.text.is_empty() && entry.children.is_empty() && !is_plain.contains(&entry.name()) {
            undescribed.push(entry.path.join("."));
        }
        left.extend(entry.children);
    }
    assert_eq!(undescribed, [""; 0]);
}

/// A user that the pod names would be refused where each namespace has a range of its own (`restricted-v2` of OpenShift): so it is the image's.
#[test]
fn its_pods_leave_the_user_to_the_image() {
    let values = read(&chart().join("values.yaml"));
    let deployment = read(&root().join("deploy/deployment.yaml"));
    for text in [values, deployment] {
        assert!(text.contains("runAsNonRoot: true"));
        for word in ["runAsUser", "runAsGroup", "fsGroup"] {
            assert!(!text.contains(word), "{word} is fixed");
        }
    }
    // By its number: a kubelet cannot tell whether a name is root's.
    let dockerfile = read(&root().join("Dockerfile"));
    let images = dockerfile.matches("\nENTRYPOINT ").count();
    assert_eq!(dockerfile.matches("\nUSER 65532:65532\n").count(), images);
}

/// The operator takes the silence of a kubelet for one more sign that its machine is down (S22): it has to be the kubelet that is silent, of
/// whichever node, and not the way there that is closed.
#[test]
fn its_network_policy_always_leads_to_the_kubelets() {
    let template = read(&chart().join("templates/networkpolicy.yaml"));
    let (before, after) = template
        .split_once(
            "\n  - ports:\n    {{- range .egress.kubeletPorts }}\n    - {port: {{ . }}, protocol: TCP}\n    {{- end }}\n",
        )
        .expect("a rule with these ports alone");
    assert!(before.contains("\n  egress:\n"));
    assert!(
        after.starts_with("  - ports:\n"),
        "it leads to everywhere: {after}"
    );
    let begun = |word: &str| before.matches(&format!("{{{{- {word} ")).count();
    let is_under = begun("with") + begun("if") + begun("range") - begun("end");
    assert_eq!(is_under, 2, "`networkPolicy` and `enabled`, and no other");
}

/// An installation from a registry has no file of the repository: notes and alerts name it by a URL where a release has written one.
#[test]
fn what_the_chart_names_of_the_repository_has_a_url_in_a_release() {
    for chart in CHARTS {
        let notes = read(&folder(chart).join("templates/NOTES.txt"));
        for place in ["docs/", "/files/alerts.yaml"] {
            for (at, _) in notes.match_indices(place) {
                let before = notes.get(..at).expect("text");
                let begun = before.rsplit("{{").next().expect("an action");
                assert!(begun.contains("nfo.page"), "{chart}: {place} at {at}");
            }
        }
        assert_eq!(itself(chart)["annotations"]["nodefencing.io/files"], "");
    }
}

/// A render is the same each time and without a cluster, where `lookup` finds nothing: Argo CD renders so.
#[test]
fn no_template_asks_the_cluster() {
    let mut templates = 0;
    let folders = CHARTS.map(|chart| folder(chart).join("templates"));
    let entries = folders
        .iter()
        .flat_map(|it| fs::read_dir(it).expect("the folder"));
    for entry in entries {
        let path = entry.expect("an entry").path();
        assert!(path.is_file(), "{}: is looked into", path.display());
        let text = read(&path);
        // Within an action, as a word: a comment or a note may say it.
        let actions = text.split("{{").skip(1);
        for action in actions.filter_map(|it| it.split("}}").next()) {
            let is_comment = action.trim_start_matches('-').trim().starts_with("/*");
            let mut words = action.split(|sign: char| !sign.is_alphanumeric());
            assert!(
                is_comment || !words.any(|word| word == "lookup"),
                "{}: {action}",
                path.display()
            );
        }
        templates += 1;
    }
    assert!(templates >= 17, "only {templates}");
}

/// What comes with Kubernetes' own roles is to read, and where the chart's value asks for it to write policies and devices: the verbs that the
/// admission policies ask for are bound by name.
#[test]
fn no_aggregated_role_has_a_human_s_word() {
    let mut aggregated = Vec::new();
    let mut left = vec![root().join("deploy"), chart().join("files")];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder");
            left.extend(entries.map(|entry| entry.expect("an entry").path()));
            continue;
        }
        let text = read(&path);
        for document in text.split("\n---\n").filter(|it| is_aggregated(it)) {
            let role: Value = serde_saphyr::from_str(document).expect("YAML");
            let name = role["metadata"]["name"].as_str().expect("a name");
            for rule in role["rules"].as_array().expect("its rules") {
                assert_eq!(rule["apiGroups"], json!(["nodefencing.io"]), "{name}");
                for verb in rule["verbs"].as_array().expect("its verbs") {
                    let is_plain = [
                        "get", "list", "watch", "create", "update", "patch", "delete",
                    ];
                    let verb = verb.as_str().expect("a verb");
                    assert!(is_plain.contains(&verb), "{name} has {verb}");
                    let is_record = rule["resources"].to_string().contains("nodefences");
                    assert!(
                        !is_record || is_plain[..3].contains(&verb),
                        "{name}: {verb}"
                    );
                }
            }
            aggregated.push(name.to_owned());
        }
    }
    aggregated.sort();
    aggregated.dedup();
    assert_eq!(aggregated, ["node-fencing-viewer"]);
    // No template makes another one, but for the editor.
    for entry in fs::read_dir(chart().join("templates")).expect("the folder") {
        let path = entry.expect("an entry").path();
        let mut text = read(&path);
        if path.ends_with("people.yaml") {
            let (before, asked) = text
                .split_once(".Values.rbac.aggregateEdit }}")
                .expect("if");
            let (editor, after) = asked.split_once("{{- end }}").expect("its end");
            assert!(editor.contains("name: node-fencing-editor\\n"), "{editor}");
            text = format!("{before}{after}");
        }
        assert!(!is_aggregated(&text), "{}", path.display());
    }
}

fn is_aggregated(text: &str) -> bool {
    text.contains("rbac.authorization.k8s.io/aggregate-to-")
}

/// What Artifact Hub shows beside the name; images and changes are written by `hack/release`.
#[test]
fn its_page_on_artifact_hub_leads_somewhere() {
    for chart in CHARTS {
        let itself = itself(chart);
        let home = itself["home"].as_str().expect("a home");
        assert_eq!(itself["sources"], json!([home]));
        assert!(itself["maintainers"][0]["name"].is_string());
        assert_eq!(itself["annotations"]["artifacthub.io/prerelease"], "true");
        let links = itself["annotations"]["artifacthub.io/links"].as_str();
        let icon = itself["icon"].as_str().expect("an icon");
        let urls = [icon, links.expect("links")].join("\n");
        let files = urls.lines().filter_map(|line| line.split("/main/").nth(1));
        let mut named = 0;
        for file in files {
            assert!(root().join(file).is_file(), "there is no {file}");
            named += 1;
        }
        assert_eq!(named, 3, "{chart}");
    }
}

/// What Artifact Hub shows to whoever looks for a first policy.
#[test]
fn its_examples_are_what_the_crds_take() {
    let chart = itself(OPERATOR);
    let examples = chart["annotations"]["artifacthub.io/crdsExamples"].as_str();
    let examples: Vec<Value> =
        serde_saphyr::from_str(examples.expect("the annotation")).expect("YAML");
    assert!(!examples.is_empty());
    for example in examples {
        let (_, definition) = crd::all()
            .into_iter()
            .find(|(_, definition)| definition["spec"]["names"]["kind"] == example["kind"])
            .unwrap_or_else(|| panic!("of which kind? {example}"));
        let schema = Schema::of_crd(&definition.to_string());
        // A field that is not known is pruned.
        let mut stored = example.clone();
        schema.complete(&mut stored);
        let causes = schema.causes(None, &stored);
        let causes: Vec<_> = causes.iter().map(|it| &it.message).collect();
        assert_eq!(causes, [""; 0], "{example}");
        let mut asked = stored.clone();
        json_patch::merge(&mut asked, &example);
        assert_eq!(stored, asked, "the API server does not know all of it");
    }
}
