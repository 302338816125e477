//! What the programs are linked from: as `deny.toml` allows it, from crates.io alone, and with the licences that have to go with it.
//!
//! cargo-deny does the same and more, but takes longer to build than everything here: it runs each night.

use super::tidy::root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The only place that crates come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// What the licence files of a crate are named, in capitals.
const LICENCES: [&str; 6] = [
    "LICENSE",
    "LICENCE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
    "UNLICENSE",
];

/// A crate that is linked into the operator or the plugin, or into a macro for them.
struct Crate {
    name: String,
    version: String,
    licence: String,
    source: Option<String>,
    folder: String,
    /// Requirements that anything fulfils, of other crates than those of the workspace.
    wildcards: Vec<String>,
}

/// The operator, which links the plugin, and everything below it, by name and version.
fn linked() -> Vec<Crate> {
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--format-version=1"])
        .args(["--filter-platform", &host])
        .current_dir(root())
        .output()
        .expect("cargo");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let by_id = |list: &Value| -> BTreeMap<String, Value> {
        let list = list.as_array().expect("a list").iter();
        list.map(|it| (text(&it["id"]), it.clone())).collect()
    };
    let (nodes, packages) = (by_id(&all["resolve"]["nodes"]), by_id(&all["packages"]));
    let own = |it: &&Value| it["name"] == env!("CARGO_PKG_NAME");
    let own = packages.values().find(own).expect("the operator");
    let mut seen = BTreeSet::new();
    let mut left = vec![text(&own["id"])];
    while let Some(id) = left.pop() {
        let is_linked = |it: &&Value| {
            let kinds = it["dep_kinds"].as_array().expect("kinds");
            kinds.iter().any(|kind| kind["kind"].is_null())
        };
        let below = nodes[&id]["deps"].as_array().expect("dependencies");
        if seen.insert(id) {
            left.extend(below.iter().filter(is_linked).map(|it| text(&it["pkg"])));
        }
    }
    let mut found: Vec<Crate> = seen.iter().map(|id| package(&packages[id])).collect();
    found.sort_by_key(|it| (it.name.clone(), it.version.clone()));
    assert!(found.len() > 100, "only {} crates", found.len());
    found
}

fn package(it: &Value) -> Crate {
    let manifest = text(&it["manifest_path"]);
    let wanted = it["dependencies"].as_array().expect("a list").iter();
    let wildcards = wanted.filter(|it| it["req"] == "*" && it["path"].is_null());
    Crate {
        name: text(&it["name"]),
        version: text(&it["version"]),
        licence: text(&it["license"]),
        source: it["source"].as_str().map(str::to_owned),
        folder: manifest.trim_end_matches("Cargo.toml").to_owned(),
        wildcards: wildcards.map(|it| text(&it["name"])).collect(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// What a licence expression asks for: one of each. Where it nests, that is more than it says, never less.
fn asked(expression: &str) -> Vec<Vec<String>> {
    let plain = expression.replace(['(', ')'], "").replace('/', " OR ");
    let choices = |it: &str| it.split(" OR ").map(|it| it.trim().to_owned()).collect();
    plain.split(" AND ").map(choices).collect()
}

/// The strings in a list of `deny.toml`: all, or those of `crate`.
fn listed(deny: &str, list: &str, key: &str) -> Vec<String> {
    let (_, rest) = deny.split_once(&format!("\n{list} = [")).expect("the list");
    let (items, _) = rest.split_once(']').expect("its end");
    let after = |it: &str| it.split('"').next().map(str::to_owned);
    let mark = format!("{key}\"");
    let items = items.split(mark.as_str()).skip(1);
    match key.is_empty() {
        true => items.step_by(2).filter_map(after).collect(),
        false => items.filter_map(after).collect(),
    }
}

#[test]
fn what_is_linked_is_what_deny_toml_allows() {
    let deny = fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let allowed = listed(&deny, "allow", "");
    let (denied, twice) = (
        listed(&deny, "deny", "crate = "),
        listed(&deny, "skip", "crate = "),
    );
    assert!(allowed.len() > 4 && denied.len() > 2 && !twice.is_empty());
    let all = linked();
    let mut bad = Vec::new();
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for it in &all {
        let Crate { name, licence, .. } = it;
        *versions.entry(name).or_default() += 1;
        let is_allowed = |choices: &Vec<String>| choices.iter().any(|it| allowed.contains(it));
        if licence.is_empty() || !asked(licence).iter().all(is_allowed) {
            bad.push(format!("{name} has licence `{licence}`"));
        }
        if it.source.as_deref().is_some_and(|it| it != REGISTRY) {
            bad.push(format!("{name} is not from crates.io"));
        }
        if denied.contains(name) {
            bad.push(format!("{name} is denied"));
        }
        if it.source.is_none() && !it.wildcards.is_empty() {
            bad.push(format!("{name} takes any version of {:?}", it.wildcards));
        }
    }
    for (name, count) in versions {
        let is_skipped = twice.iter().any(|it| it == name);
        if (count > 1) != is_skipped {
            bad.push(format!("{name} is there {count} times: see `skip`"));
        }
    }
    assert!(bad.is_empty(), "deny.toml: {bad:#?}");
}

/// Attribution for whoever receives a binary. Of a crate that offers Apache-2.0 that is chosen: its text is in LICENSE, once.
#[test]
fn licences_of_others_go_with_the_programs() {
    let (mut apache, mut texts) = (Vec::new(), BTreeMap::<String, Vec<String>>::new());
    for it in linked().into_iter().filter(|it| it.source.is_some()) {
        let title = format!("{} {}", it.name, it.version);
        let is_apache = asked(&it.licence)
            .iter()
            .all(|choices| choices.iter().any(|it| it == "Apache-2.0"));
        let files = licence_files(&it.folder, is_apache);
        assert!(
            is_apache || !files.is_empty(),
            "{title} has no licence file"
        );
        for file in files {
            texts
                .entry(file)
                .or_default()
                .push(format!("{title} ({})", it.licence));
        }
        if is_apache {
            apache.push(title);
        }
    }
    let mut parts: Vec<String> = texts
        .into_iter()
        .map(|(text, crates)| format!("{}\n\n{text}\n", crates.join("\n")))
        .collect();
    parts.sort();
    let rule = format!("{}\n", "-".repeat(78));
    let file = format!(
        "Software of others in node-fencing-operator and kubectl-fence.\n\
         Generated from `cargo metadata` by `UPDATE=1 cargo test --test contract dependencies`; do not edit.\n\n\
         Under the Apache License 2.0, whose text is in LICENSE (and bindings to macOS and Windows in kubectl-fence for these: \
         core-foundation, security-framework, windows-sys, windows-link, anstyle-wincon, once_cell_polyfill):\n\n{}\n\n{rule}{}",
        apache.join("\n"),
        parts.join(&rule)
    );
    crate::stale::check(
        "contract dependencies",
        [("THIRD-PARTY-LICENSES".to_owned(), file)],
    );
}

/// The texts of a crate's licences but Apache's, or its notice alone.
fn licence_files(folder: &str, notice_only: bool) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(Path::new(folder)).expect("the crate's sources") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_uppercase();
        let is_wanted = match notice_only {
            true => name.starts_with("NOTICE"),
            false => LICENCES.iter().any(|it| name.starts_with(it)) && !name.contains("APACHE"),
        };
        if is_wanted && path.is_file() {
            let text = fs::read(&path).expect("its text");
            let text = String::from_utf8_lossy(&text).replace('\r', "");
            let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
            found.push(lines.join("\n").trim_matches('\n').to_owned());
        }
    }
    found.sort();
    found
}

#[test]
fn a_licence_expression_asks_for_one_of_each() {
    let one = |it: &str| vec![it.to_owned()];
    let either = vec!["MIT".to_owned(), "Apache-2.0".to_owned()];
    assert_eq!(
        asked("(MIT OR Apache-2.0) AND ISC"),
        [either.clone(), one("ISC")]
    );
    assert_eq!(asked("MIT/Apache-2.0"), [either]);
    let deny = "\nallow = [\"A\", \"B C\"]\n\ndeny = [\n { crate = \"x\", reason = \"y\" },\n]";
    assert_eq!(listed(deny, "allow", ""), ["A", "B C"]);
    assert_eq!(listed(deny, "deny", "crate = "), ["x"]);
}
