//! The bundle for the Operator Lifecycle Manager (OLM): what `deploy/` installs, as far as OLM does, and the rest in a file for an administrator.
//! The definitions are in `crds/` alone: `hack/release olm` puts them into the bundle.
//!
//! `cargo test --test contract olm` fails when a file is stale, and `UPDATE=1 cargo test --test contract olm` writes it again. That the bundle is
//! valid is for operator-framework's own validator to say, in `e2e/tests/e2e/olm.rs`.

use super::generated::all_of_deploy;
use super::tidy::root;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

/// Of the operator and of all that is its own: Deployment, account, roles.
const NAME: &str = "node-fencing-operator";
/// The admission policies know the operator by it.
const NAMESPACE: &str = "node-fencing-system";
const FOLDER: &str = "deploy/olm";
const HEADER: &str = "# Generated from deploy/*.yaml and Chart.yaml by `UPDATE=1 cargo test --test contract olm`; do not edit.\n";
/// What stands in the metadata and in the labels of the image, each behind `operators.operatorframework.io.bundle.`. An API in alpha is a candidate
/// (OLM's names for channels).
const METADATA: [(&str, &str); 6] = [
    ("mediatype.v1", "registry+v1"),
    ("manifests.v1", "manifests/"),
    ("metadata.v1", "metadata/"),
    ("package.v1", NAME),
    ("channels.v1", "candidate"),
    ("channel.default.v1", "candidate"),
];
/// What OperatorHub shows, in Markdown.
const DESCRIPTION: &str = "\
When a node fails, Kubernetes leaves its volumes attached, because it cannot know whether the machine still writes. This operator confirms by BMC,
PDU, hypervisor or cloud that the machine is off, sets the taint `node.kubernetes.io/out-of-service`, waits for the volumes to detach, and removes it.

## Before you install

OLM does not install admission policies. Apply `olm-prerequisites.yaml` of the same release first: the namespace, the policies that limit the
operator, its rights in two other namespaces, and its priority at the API server. Then install into the namespace `node-fencing-system` and no
other: the policies know the operator by it. The page \"Install with OLM\" of the documentation has all steps.

## After that

No node is changed before a NodeFencingPolicy in another mode than `Observe` exists.
";

/// What becomes of an object.
enum Part {
    /// OLM creates it by the ClusterServiceVersion.
    Strategy,
    /// OLM creates it from a file of the bundle.
    Manifest,
    /// The same, from `crds/`.
    Definition,
    /// OLM does not create it, or not there.
    Prerequisite,
}

/// An object of `deploy/`.
struct Document {
    text: String,
    object: Value,
}

impl Document {
    fn kind(&self) -> &str {
        self.object["kind"].as_str().expect("a kind")
    }

    fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().expect("a name")
    }

    /// By the kinds that OLM takes (`pkg/lib/bundle/supported_resources.go` of operator-registry at 4f9d6f22; with another one its InstallPlan
    /// fails), and since it puts what has a namespace into its own (`pkg/controller/operators/catalog/operator.go` of operator-lifecycle-manager at
    /// 992bb097).
    fn part(&self) -> Part {
        let namespace = self.object["metadata"]["namespace"].as_str();
        if namespace.is_some_and(|it| it != NAMESPACE) {
            return Part::Prerequisite;
        }
        match self.kind() {
            "Deployment" | "ServiceAccount" | "ClusterRole" | "ClusterRoleBinding" | "Role"
            | "RoleBinding"
                if self.name() == NAME =>
            {
                Part::Strategy
            }
            "ClusterRole" | "PodDisruptionBudget" | "Service" => Part::Manifest,
            "CustomResourceDefinition" => Part::Definition,
            "FlowSchema"
            | "Namespace"
            | "ValidatingAdmissionPolicy"
            | "ValidatingAdmissionPolicyBinding" => Part::Prerequisite,
            other => panic!("{other} {}: does OLM create it?", self.name()),
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn documents() -> Vec<Document> {
    let all = all_of_deploy();
    let document = |text: &str| Document {
        text: format!("{}\n", text.trim_end()),
        object: serde_saphyr::from_str(text).expect("YAML"),
    };
    all.split("\n---\n").map(document).collect()
}

/// The operator's own object of this kind: a ClusterServiceVersion has room for one.
fn only<'a>(own: &'a [Document], kind: &str) -> &'a Value {
    let found: Vec<&Document> = own.iter().filter(|it| it.kind() == kind).collect();
    assert_eq!(found.len(), 1, "of kind {kind}");
    &found[0].object
}

/// Chart.yaml says for Artifact Hub what OperatorHub asks for too.
fn cluster_service_version(own: &[Document]) -> Value {
    let chart: Value = serde_saphyr::from_str(&read("charts/node-fencing-operator/Chart.yaml"))
        .expect("Chart.yaml");
    let annotation = |name: &str| {
        let text = chart["annotations"][format!("artifacthub.io/{name}")].as_str();
        text.expect("an annotation").to_owned()
    };
    let shown = |name: &str| -> Value { serde_saphyr::from_str(&annotation(name)).expect("YAML") };
    let examples = serde_json::to_string_pretty(&shown("crdsExamples")).expect("JSON");
    let kubernetes = chart["kubeVersion"].as_str().expect("a range");
    let kubernetes = kubernetes.trim_start_matches(">=").trim_end_matches("-0");
    let provider = &chart["maintainers"][0]["name"];
    let deployment = only(own, "Deployment");
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    let mode = |kind: &str| json!({"type": kind, "supported": kind == "AllNamespaces"});
    let modes = [
        "OwnNamespace",
        "SingleNamespace",
        "MultiNamespace",
        "AllNamespaces",
    ];
    let rights =
        |kind: &str| json!([{"serviceAccountName": NAME, "rules": only(own, kind)["rules"]}]);
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("{NAME}.v{}", env!("CARGO_PKG_VERSION")),
            "annotations": {
                "alm-examples": examples,
                "capabilities": annotation("operatorCapabilities"),
                "categories": "Storage",
                "containerImage": image,
                "description": chart["description"],
                "operatorframework.io/suggested-namespace": NAMESPACE,
                "repository": chart["home"],
                "support": provider,
            },
            "labels": {
                "operatorframework.io/arch.amd64": "supported",
                "operatorframework.io/arch.arm64": "supported",
                "operatorframework.io/os.linux": "supported",
            },
        },
        "spec": {
            "displayName": "Node Fencing Operator",
            "description": DESCRIPTION,
            "version": env!("CARGO_PKG_VERSION"),
            "maturity": "alpha",
            "minKubeVersion": kubernetes,
            "keywords": chart["keywords"],
            "links": shown("links"),
            "provider": {"name": provider, "url": chart["home"]},
            "icon": [{"base64data": STANDARD.encode(read("docs/images/logo.svg")), "mediatype": "image/svg+xml"}],
            "installModes": modes.map(mode),
            "customresourcedefinitions": {"owned": shown("crds")},
            "install": {
                "strategy": "deployment",
                "spec": {
                    "deployments": [{"name": NAME, "label": deployment["metadata"]["labels"], "spec": deployment["spec"]}],
                    "clusterPermissions": rights("ClusterRole"),
                    "permissions": rights("Role"),
                },
            },
            "relatedImages": [{"name": "operator", "image": image}],
        },
    })
}

/// `metadata/annotations.yaml`, and what builds the image of the bundle.
fn metadata() -> [(String, String); 2] {
    let lines = |begin: &str, sign: &str| -> String {
        let line = |(key, value)| {
            format!("{begin}operators.operatorframework.io.bundle.{key}{sign}{value}\n")
        };
        METADATA.into_iter().map(line).collect()
    };
    [
        (
            format!("{FOLDER}/metadata/annotations.yaml"),
            format!("{HEADER}annotations:\n{}", lines("  ", ": ")),
        ),
        (
            format!("{FOLDER}/bundle.Dockerfile"),
            format!(
                "{HEADER}FROM scratch\n{}COPY manifests /manifests/\nCOPY metadata /metadata/\n",
                lines("LABEL ", "=")
            ),
        ),
    ]
}

#[test]
fn the_bundle_is_what_deploy_installs() {
    let (mut own, mut prerequisites) = (Vec::new(), Vec::new());
    let mut manifests = BTreeMap::new();
    for document in documents() {
        let kind = document.kind().to_lowercase();
        let file = format!("{FOLDER}/manifests/{}.{kind}.yaml", document.name());
        match document.part() {
            Part::Strategy => own.push(document),
            Part::Manifest => {
                let text = format!("{HEADER}{}", document.text);
                assert!(manifests.insert(file, text).is_none(), "twice the same");
            }
            Part::Definition => {}
            Part::Prerequisite => prerequisites.push(document.text),
        }
    }
    let version = cluster_service_version(&own);
    let yaml = serde_saphyr::to_string(&version).expect("plain data");
    let again: Value = serde_saphyr::from_str(&yaml).expect("YAML");
    assert_eq!(again, version, "YAML says something else");
    manifests.insert(
        format!("{FOLDER}/manifests/{NAME}.clusterserviceversion.yaml"),
        format!("{HEADER}{yaml}"),
    );
    let count = manifests.len();
    let prerequisites = (
        format!("{FOLDER}/prerequisites.yaml"),
        format!(
            "{HEADER}# What OLM does not create: an administrator applies it before OLM installs the operator (docs/how-to/olm.md).\n{}",
            prerequisites.join("---\n")
        ),
    );
    let files = manifests.into_iter().chain(metadata());
    crate::stale::check("contract olm", files.chain([prerequisites]));
    let there = fs::read_dir(root().join(FOLDER).join("manifests")).expect("the folder");
    assert_eq!(there.count(), count, "{FOLDER}/manifests has another file");
}
