//! Commands in the documents: those that need nothing are run, and what others name exists (programs, targets, flags, kinds, fields, patches).
//!
//! A block says after its language what it needs: `run` nothing but this checkout, `lab` what `make lab` needs, `cluster` one with the operator in it
//! (those are run by e2e/tests/e2e/book.rs, and the tutorial's by e2e/tests/e2e/prompt/tutorial.rs), `machine` a device, `tool` a program that is not
//! ours (e2e/tests/e2e/chart/release.rs types what calls Helm). In a runbook it is a cluster. A block without a language has no commands.

use crate::fields;
use crate::pages::{default_members, documents, folder, read, root};
use crate::plugin::{pause_lost_to_flux, plugin, unknown_command};
use crate::schema::{fit, of_kind};
use node_fencing_operator::args::{Error, Order};
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a block may need, and the programs that it may call then.
const NEEDS: [(&str, &str); 4] = [
    ("lab", "make cargo"),
    ("cluster", "kubectl promtool grep xargs tail"),
    ("machine", "node-fencing-operator openssl cut kubectl"),
    (
        "tool",
        "helm flux argocd skopeo cosign gh cargo make docker apt-get export fuzz/run hack/release opm kubectl pveum openstack govc aws az gcloud \
         openssl virsh",
    ),
];
/// Our kinds as kubectl has them, with the name that the schema has.
const OURS: [(&str, &str); 11] = [
    ("nf", "NodeFence"),
    ("nodefence", "NodeFence"),
    ("nodefences", "NodeFence"),
    ("nfp", "NodeFencingPolicy"),
    ("nodefencingpolicies", "NodeFencingPolicy"),
    ("fdev", "FenceDevice"),
    ("fencedevice", "FenceDevice"),
    ("fencedevices", "FenceDevice"),
    ("nfrem", "NodeFenceRemediation"),
    ("nodefenceremediations", "NodeFenceRemediation"),
    ("nfrt", "NodeFenceRemediationTemplate"),
];
struct Script {
    place: String,
    needs: String,
    text: String,
}

/// The blocks of commands of all documents.
fn scripts() -> Vec<Script> {
    let mut found = Vec::new();
    for page in documents() {
        for block in page.blocks() {
            let (language, needs) = block.info.split_once(' ').unwrap_or((&block.info, ""));
            if language != "sh" {
                continue;
            }
            let is_runbook = page.path.starts_with("docs/runbooks/");
            let needs = match is_runbook && needs.is_empty() {
                true => "cluster",
                false => needs,
            };
            found.push(Script {
                place: block.place.clone(),
                needs: needs.to_owned(),
                text: block.text.clone(),
            });
        }
    }
    found
}

/// One command a line: what is continued, by a backslash or an open quote, in one.
fn commands(script: &str) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), String::new());
    for line in script.lines() {
        let line = line.split("  #").next().unwrap_or_default().trim_end();
        open.push_str(line.strip_suffix('\\').unwrap_or(line));
        let is_quoted = open.matches('\'').count() % 2 == 1;
        if !is_quoted && !line.ends_with('\\') {
            found.push(std::mem::take(&mut open));
        }
    }
    found.retain(|line| !line.is_empty());
    found
}

#[test]
fn every_block_of_commands_says_what_it_needs_and_names_what_exists() {
    let (mut found, mut seen) = (Vec::new(), 0);
    for script in scripts() {
        let programs = NEEDS.iter().find(|(needs, _)| *needs == script.needs);
        for command in commands(&script.text) {
            seen += 1;
            let complaints = match programs {
                Some((_, programs)) => complaints(&command, programs),
                None if script.needs == "run" => Vec::new(),
                None => vec!["the block does not say what it needs".to_owned()],
            };
            let place = |words| format!("{}: {words}: {command}", script.place);
            found.extend(complaints.into_iter().map(place));
        }
    }
    for page in documents() {
        for word in page.quoted() {
            let command = word.split_whitespace().collect::<Vec<_>>().join(" ");
            let words: Vec<&str> = command.split(' ').collect();
            let complaints = match words.first() {
                // A sentence may name a command without what it takes; with something of it, it is to be typed.
                Some(&"kubectl") if words.get(1) == Some(&"fence") => match words.len() {
                    0..=3 => unknown_command(&words).into_iter().collect(),
                    _ => plugin(&words),
                },
                Some(&"kubectl") => kubectl(&command, &words),
                Some(&"make") if words.len() > 1 => target_is_missing(&words).into_iter().collect(),
                _ => continue,
            };
            let place = |words| format!("{}: {words}: {command}", page.path);
            found.extend(complaints.into_iter().map(place));
        }
    }
    assert!(seen > 100, "only {seen} commands");
    assert!(found.is_empty(), "{found:#?}");
}

/// A block that looks like commands and does not say so is looked at by nobody.
#[test]
fn no_block_without_a_language_has_commands() {
    let mut found = Vec::new();
    for page in documents() {
        for block in page.blocks() {
            let begins = |line: &str| block.info.is_empty() && is_command(line);
            let line = block.text.lines().find(|line| begins(line));
            let words = |line| format!("{}: `sh` and what it needs: {line}", block.place);
            found.extend(line.map(words));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
    for line in ["make lab", "SEED=7 cargo test", "fuzz/run datagrams 60"] {
        assert!(is_command(line), "{line}");
    }
    assert!(!is_command(
        "      0.000  node-1, node-2                      POWER CUT"
    ));
}

/// Does the line begin with a program that some block may call?
fn is_command(line: &str) -> bool {
    let program = without_variables(line).first().copied();
    let mut programs = NEEDS.iter().flat_map(|(_, programs)| programs.split(' '));
    programs.any(|known| program == Some(known))
}

/// The words of a command, without the variables that are set for it alone.
fn without_variables(command: &str) -> Vec<&str> {
    let is_name = |name: &str| {
        name.chars()
            .all(|sign| sign.is_ascii_uppercase() || sign == '_')
    };
    let is_variable = |word: &&str| word.split_once('=').is_some_and(|(name, _)| is_name(name));
    command.split_whitespace().skip_while(is_variable).collect()
}

fn complaints(command: &str, programs: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in command.split(" | ") {
        let words = without_variables(part);
        // A variable that the next command uses.
        if part.starts_with("ME=$(kubectl ") {
            continue;
        }
        let program = words.first().copied().unwrap_or_default();
        // Where a build has put ours.
        let program = program.strip_prefix("target/release/").unwrap_or(program);
        if programs.split(' ').all(|known| known != program) {
            found.push(format!("`{program}` is none of {programs}"));
        }
        let is_ours = |path: &str| ["charts/", "fuzz/"].iter().any(|it| path.starts_with(it));
        let is_there = |path: &&str| is_ours(path) && !root().join(path).exists();
        found.extend(
            words
                .iter()
                .copied()
                .filter(is_there)
                .map(|it| format!("there is no {it}")),
        );
        match program {
            "make" => found.extend(target_is_missing(&words)),
            "cargo" => found.extend(test_is_missing(&words)),
            "node-fencing-operator" => found.extend(flags_are_missing(&words)),
            "kubectl" if words.get(1) == Some(&"fence") => found.extend(plugin(&words)),
            "kubectl" => found.extend(kubectl(part, &words)),
            _ => {}
        }
    }
    found
}

fn target_is_missing(words: &[&str]) -> Option<String> {
    let target = words.get(1)?;
    let rule = format!("{target}:");
    let is_there = read("Makefile").lines().any(|it| it.starts_with(&rule));
    (!is_there).then(|| format!("the Makefile has no {target}"))
}

/// The packages and the tests that cargo is told to take.
fn test_is_missing(words: &[&str]) -> Vec<String> {
    let after = |flag: &'static str| {
        let pairs = words.windows(2);
        pairs.filter_map(move |pair| (pair[0] == flag).then_some(pair[1]))
    };
    let folders = match after("--package").next() {
        Some(package) => vec![folder(package)],
        None => default_members(),
    };
    let mut found = Vec::new();
    for folder in folders.iter().filter(|it| !it.join("Cargo.toml").exists()) {
        found.push(format!("there is no package in {}", folder.display()));
    }
    for test in after("--test") {
        let names = [format!("{test}/main.rs"), format!("{test}.rs")];
        let has_it = |folder: &PathBuf| {
            let tests = folder.join("tests");
            names.iter().any(|it| tests.join(it).exists())
        };
        if !folders.iter().any(has_it) {
            found.push(format!("no package that is meant has a test {test}"));
        }
    }
    found
}

fn flags_are_missing(words: &[&str]) -> Vec<String> {
    let command = words
        .get(1)
        .filter(|it| ["probe", "conformance", "check"].contains(it));
    let line = ["node-fencing-operator"]
        .into_iter()
        .chain(command.copied())
        .chain(["--help"]);
    let Err(Error::Shown(help)) = Order::read(line.map(OsString::from)) else {
        return vec!["it has no --help".to_owned()];
    };
    let flags = words.iter().filter(|word| word.starts_with("--"));
    let names = flags.map(|flag| flag.split('=').next().unwrap_or_default());
    let missing = names.filter(|name| !help.contains(*name));
    let told = missing.map(|name| format!("there is no flag {name}"));
    told.collect()
}

fn kubectl(command: &str, words: &[&str]) -> Vec<String> {
    let verbs = ["get", "describe", "delete", "patch", "annotate", "wait"];
    let mut found: Vec<String> = pause_lost_to_flux(words).into_iter().collect();
    let Some(at) = words.iter().position(|word| verbs.contains(word)) else {
        return found;
    };
    let kinds = words.get(at + 1).copied().unwrap_or_default();
    let mut ours = None;
    for kind in kinds.split(',') {
        let kind = kind.split('/').next().unwrap_or_default();
        let known = OURS.iter().find(|(name, _)| *name == kind);
        ours = ours.or(known.map(|(_, kind)| *kind));
        let looks_ours = ["nf", "fdev", "nodef", "fence"]
            .iter()
            .any(|it| kind.starts_with(it));
        if known.is_none() && looks_ours {
            found.push(format!("there is no kind `{kind}`"));
        }
    }
    let Some(kind) = ours else {
        return found;
    };
    for part in ["spec", "status"] {
        for rest in command.split(&format!("{{.{part}.")).skip(1) {
            let plain = |sign: char| sign.is_ascii_alphanumeric() || sign == '.';
            let path = rest.split(|sign| !plain(sign)).next().unwrap_or_default();
            let path = format!("{part}.{}", path.trim_end_matches('.'));
            if !fields::exists(&path) {
                found.push(format!("there is no field .{path}"));
            }
        }
    }
    if let Some((_, patch)) = command.split_once("-p '") {
        found.extend(patch_does_not_fit(kind, patch));
    }
    found
}

/// What a patch writes: whatever the shell puts in is a word.
fn patch_does_not_fit(kind: &str, patch: &str) -> Vec<String> {
    let (mut text, mut depth) = (String::new(), 0);
    for (at, piece) in patch.split('\'').enumerate() {
        // Outside of the quotes stands what the shell fills in.
        let piece = if at % 2 == 0 { piece } else { "x" };
        text.push_str(piece);
        depth += piece.matches(['{', '[']).count();
        depth = depth.saturating_sub(piece.matches(['}', ']']).count());
        if depth == 0 {
            break;
        }
    }
    let patch: Value = match serde_json::from_str(&text) {
        Ok(patch) => patch,
        Err(error) => return vec![format!("{error} in {text}")],
    };
    let mut found = Vec::new();
    match &patch {
        Value::Array(operations) => {
            for path in operations.iter().filter_map(|it| it["path"].as_str()) {
                let names = path
                    .split('/')
                    .filter(|it| !it.is_empty() && it.parse::<u32>().is_err());
                let path = names.collect::<Vec<_>>().join(".");
                if !fields::exists(&path) {
                    found.push(format!("there is no field {path}"));
                }
            }
        }
        patch => {
            fit(of_kind(kind).expect("a kind"), patch, kind, &mut found);
            // It is merged into what is there.
            let whole = format!("{kind}.spec: `");
            found.retain(|words| !(words.starts_with(&whole) && words.contains("is missing")));
        }
    }
    found
}

#[test]
fn commands_that_need_nothing_run() {
    let binary = Path::new(env!("CARGO_BIN_EXE_node-fencing-operator"));
    let folder = binary.parent().expect("its folder");
    let path = format!(
        "{}:{}",
        folder.display(),
        std::env::var("PATH").expect("a PATH")
    );
    let (mut ran, elsewhere) = (0, tempfile::tempdir().expect("a folder"));
    for script in scripts().iter().filter(|script| script.needs == "run") {
        let output = Command::new("sh")
            .args(["-euc", &script.text])
            .current_dir(root())
            .env("PATH", &path)
            .env("TMPDIR", elsewhere.path())
            // A build of a release takes minutes.
            .env("PLUGINS", folder)
            .env_remove("MAKEFLAGS")
            .output()
            .expect("a shell");
        assert!(
            output.status.success(),
            "{}: {}{}",
            script.place,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        ran += 1;
    }
    assert!(ran > 2, "only {ran}");
}

/// What is typed at the lab's prompt stands in blocks of text that say so. (e2e/tests/e2e/prompt/tutorial.rs types it.)
#[test]
fn the_tutorial_types_what_the_prompt_knows() {
    let prompt = read("e2e/src/prompt/command.rs");
    let mut pages = documents().into_iter();
    let tutorial = pages.find(|page| page.path == "docs/tutorial.md");
    let blocks = tutorial.expect("the tutorial").blocks();
    let typed = blocks.iter().filter(|block| block.info == "text prompt");
    let lines: Vec<&str> = typed.flat_map(|block| block.text.lines()).collect();
    assert!(lines.len() > 5, "only {lines:?}");
    for line in lines {
        let word = line.split(' ').next().unwrap_or_default();
        let known = prompt.contains(&format!("[\"{word}\""));
        assert!(known, "the prompt does not know `{line}`");
    }
}
