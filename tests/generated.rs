//! Generated files are what their source says, byte for byte.
//!
//! `cargo test --test generated` fails when one is stale, and `UPDATE=1 cargo test --test generated` writes it anew.

mod stale;

use std::fs;
use std::path::Path;

use node_fencing_operator::api::crd;

const HEADER: &str =
    "# Generated from src/api by `UPDATE=1 cargo test --test generated`; do not edit.\n";

#[test]
fn custom_resource_definitions() {
    let files = crd::all().into_iter().map(|(name, definition)| {
        let yaml = serde_saphyr::to_string(&definition).expect("a definition is plain data");
        (format!("crds/{name}"), format!("{HEADER}{yaml}"))
    });
    stale::check("generated", files);
}

/// One version everywhere, and one name of the account that RBAC and the admission policies are about.
#[test]
fn manifests_agree_with_the_crate() {
    let read = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("deploy")
            .join(name);
        fs::read_to_string(path).expect("a manifest")
    };
    let image = concat!(
        "image: node-fencing-operator:",
        env!("CARGO_PKG_VERSION"),
        "\n"
    );
    assert!(
        read("deployment.yaml").contains(image),
        "deployment.yaml must have {image}"
    );
    let account = "'system:serviceaccount:node-fencing-system:node-fencing-operator'";
    let admission = read("admission.yaml");
    assert!(admission.contains(node_fencing_operator::shell::guard::REFUSAL));
    let compared = ["username == '", "username != '"].map(|it| admission.matches(it).count());
    assert_eq!(
        admission.matches(account).count(),
        compared.iter().sum::<usize>()
    );
}
