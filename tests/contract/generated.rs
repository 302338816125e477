//! Generated files are what their source says, byte for byte.
//!
//! `cargo test --test contract generated` fails when one is stale, and `UPDATE=1 cargo test --test contract generated` writes it anew.

use std::fs;
use std::path::Path;

use fencing_api::crd;
use serde_json::Value;

const HEADER: &str = "# Generated from crates/api/src by `UPDATE=1 cargo test --test contract generated`; do not edit.\n";

#[test]
fn custom_resource_definitions() {
    let files = crd::all().into_iter().map(|(name, definition)| {
        let yaml = serde_saphyr::to_string(&definition).expect("a definition is plain data");
        (format!("crds/{name}"), format!("{HEADER}{yaml}"))
    });
    crate::stale::check("contract generated", files);
}

/// Kubernetes 1.30 refuses a definition whose rules name a field by a word that CEL reserves: `self.__namespace__` is understood by all
/// (`celReservedSymbols`, `k8s.io/apiserver/pkg/cel/escaping.go`, v1.30 to v1.37).
#[test]
fn no_rule_names_a_field_by_a_reserved_word() {
    const RESERVED: &str = "as break const continue else false for function if import in let loop namespace null package return true var void while";
    let mut rules = Vec::new();
    for (_, definition) in crd::all() {
        add_rules(&definition, &mut rules);
    }
    assert!(rules.len() > 100, "{} rules", rules.len());
    let field = |rest: &str| {
        let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        rest[..end.unwrap_or(rest.len())].to_owned()
    };
    let is_reserved = |rest: &str| RESERVED.split(' ').any(|word| word == field(rest));
    rules.retain(|rule: &String| rule.split('.').skip(1).any(is_reserved));
    assert!(rules.is_empty(), "{rules:#?}");
}

/// The CEL rules of a schema, and of all that is below.
fn add_rules(schema: &Value, rules: &mut Vec<String>) {
    let own = schema["x-kubernetes-validations"].as_array();
    let own = own.into_iter().flatten();
    rules.extend(own.filter_map(|it| it["rule"].as_str().map(str::to_owned)));
    match schema {
        Value::Array(items) => items.iter().for_each(|it| add_rules(it, rules)),
        Value::Object(fields) => fields.values().for_each(|it| add_rules(it, rules)),
        _ => {}
    }
}

/// What `kubectl apply -k deploy` applies, in one file: for whoever has no kustomize, or reviews what is installed.
#[test]
fn deploy_in_one_file() {
    let file = format!(
        "# Generated from deploy/*.yaml and crds/ by `UPDATE=1 cargo test --test contract generated`; do not edit.\n{}",
        all_of_deploy()
    );
    crate::stale::check(
        "contract generated",
        [("deploy/install.yaml".to_owned(), file)],
    );
}

/// The documents of what `kubectl apply -k deploy` applies, in its order.
pub fn all_of_deploy() -> String {
    let files = resources("deploy")
        .into_iter()
        .flat_map(|name| match name.strip_prefix("../") {
            Some(folder) => resources(folder)
                .into_iter()
                .map(|name| format!("{folder}/{name}"))
                .collect(),
            None => vec![format!("deploy/{name}")],
        });
    let text = |name: String| read(&name).replace(HEADER, "");
    let all: Vec<String> = files.map(text).collect();
    all.join("---\n")
}

/// The manual pages, `man kubectl-fence-status`.
#[test]
fn manual_pages_of_the_plugin() {
    let command = fencing_plugin::command();
    let page = |command: &clap::Command, name: String| {
        // `help` has no page of its own.
        let mut command = command.clone();
        if command.find_subcommand("help").is_some() {
            command = command.mut_subcommand("help", |it| it.hide(true));
        }
        let man = clap_mangen::Man::new(command).title(name.to_uppercase());
        let mut text = Vec::new();
        man.render(&mut text).expect("it goes into memory");
        let text = String::from_utf8(text).expect("it is text");
        (format!("man/{name}.1"), text)
    };
    let mut pages = vec![page(&command, "kubectl-fence".to_owned())];
    let is_own = |it: &&clap::Command| it.get_name() != "help" && !it.is_hide_set();
    for inner in command.get_subcommands().filter(is_own) {
        let name = format!("kubectl-fence-{}", inner.get_name());
        pages.push(page(inner, name.clone()));
        let own = inner.get_subcommands().filter(is_own);
        pages.extend(own.map(|it| page(it, format!("{name}-{}", it.get_name()))));
    }
    crate::stale::check("contract generated", pages);
}

/// What the kustomization of a folder consists of: resources, and nothing that changes them.
fn resources(folder: &str) -> Vec<String> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "every kustomization has them")]
    struct Kustomization {
        #[serde(rename = "apiVersion")]
        api_version: String,
        kind: String,
        resources: Vec<String>,
    }
    let text = read(&format!("{folder}/kustomization.yaml"));
    let kustomization: Kustomization = serde_saphyr::from_str(&text).expect("a kustomization");
    kustomization.resources
}

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// One version everywhere, and one name of the account that RBAC and the admission policies are about.
#[test]
fn manifests_agree_with_the_crate() {
    let read = |name: &str| read(&format!("deploy/{name}"));
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
    assert!(admission.contains(node_fencing_operator::shell::foreign_text::REFUSAL));
    let compared = ["username == '", "username != '"].map(|it| admission.matches(it).count());
    assert_eq!(
        admission.matches(account).count(),
        compared.iter().sum::<usize>()
    );
}
