//! Alerts, runbooks and dashboard belong together: each alert has a runbook and each runbook an alert, and every metric that one of them names is
//! one that the operator has.

use node_fencing_operator::shell::metrics::table::{Kind, METRICS, PROCESS};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const SECTIONS: [&str; 5] = ["Meaning", "Impact", "Diagnosis", "Mitigation", "Way out"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn rules() -> Vec<Value> {
    let file: Value =
        serde_saphyr::from_str(&read("charts/node-fencing-operator/files/alerts.yaml"))
            .expect("YAML");
    let groups = file["groups"].as_array().expect("groups");
    groups
        .iter()
        .flat_map(|group| group["rules"].as_array().expect("rules").clone())
        .collect()
}

fn alerts() -> BTreeSet<String> {
    rules()
        .iter()
        .filter_map(|it| Some(it["alert"].as_str()?.to_owned()))
        .collect()
}

fn runbooks() -> Vec<PathBuf> {
    let files = fs::read_dir(root().join("docs/runbooks")).expect("the folder");
    let mut files: Vec<_> = files.map(|it| it.expect("a file").path()).collect();
    files.retain(|it| it.file_stem().is_some_and(|name| name != "README"));
    files.sort();
    files
}

/// Every page for people: the book with its runbooks, and what stands at the root.
fn documents() -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![root().join("docs")], Vec::new());
    found.extend(["README.md", "SECURITY.md", "CHANGELOG.md"].map(PathBuf::from));
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(folder).expect("the folder");
        for path in entries.map(|it| it.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn each_alert_has_a_runbook_and_each_runbook_an_alert() {
    let written = runbooks();
    let names = written.iter().map(|it| {
        it.file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned()
    });
    assert_eq!(names.collect::<BTreeSet<_>>(), alerts());
    let index = read("docs/runbooks/README.md");
    for alert in alerts() {
        assert!(
            index.contains(&format!("[{alert}]({alert}.md)")),
            "README.md lacks {alert}"
        );
    }
    for file in written {
        let text = read(&file);
        let sections: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("## "))
            .collect();
        assert_eq!(sections, SECTIONS, "{}", file.display());
    }
}

#[test]
fn each_alert_says_what_is_wrong_how_bad_it_is_and_where_to_read_on() {
    for rule in rules() {
        let Some(alert) = rule["alert"].as_str() else {
            continue;
        };
        let severity = rule["labels"]["severity"].as_str().unwrap_or_default();
        assert!(
            ["critical", "warning", "info"].contains(&severity),
            "{alert}"
        );
        for annotation in ["summary", "description"] {
            let words = rule["annotations"][annotation].as_str().unwrap_or_default();
            assert!(words.ends_with('.'), "{alert}: {annotation}");
        }
        // Where in the repository; the host is for whoever has published it to say (`alerts.runbooks`).
        assert_eq!(
            rule["annotations"]["runbook"],
            format!("docs/runbooks/{alert}.md")
        );
    }
}

/// The words with which the core's decisions call a human or hold an incident: all in its planning, of its control and its escalations that begin with a capital
/// letter, but for the few that are of something else.
fn reasons_of_decisions() -> BTreeSet<String> {
    // An approval that is waited for has a runbook of its own.
    const OF_SOMETHING_ELSE: [&str; 6] = [
        "On",
        "Off",
        "Transitional",
        "Unknown",
        "NoExecute",
        "AwaitingApproval",
    ];
    let files = fs::read_dir(root().join("crates/core/src/plan")).expect("the folder");
    let files = files.map(|it| it.expect("a file").path());
    let files = files.chain(
        ["hold.rs", "control.rs", "escalation.rs"]
            .map(|it| root().join("crates/core/src").join(it)),
    );
    let sources = files.filter(|it| it.extension().is_some_and(|it| it == "rs"));
    let mut reasons = BTreeSet::new();
    for source in sources.filter(|it| !it.ends_with("tests.rs")) {
        let text = read(source);
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let is_word = |word: &&str| {
            word.starts_with(|sign: char| sign.is_ascii_uppercase())
                && word.chars().all(|sign| sign.is_ascii_alphabetic())
                && !OF_SOMETHING_ELSE.contains(word)
        };
        reasons.extend(code.split('"').filter(is_word).map(str::to_owned));
    }
    reasons
}

/// The reasons that a runbook explains, each in a row.
fn explained(runbook: &str) -> BTreeSet<String> {
    let runbook = read(format!("docs/runbooks/{runbook}.md"));
    let rows = runbook.lines().filter_map(|line| line.strip_prefix("| "));
    let reasons = rows.filter_map(|row| Some(row.split_once(" |")?.0.to_owned()));
    reasons.filter(|it| it != "reason").collect()
}

#[test]
fn each_reason_to_escalate_or_to_hold_has_its_row() {
    let (escalated, held) = (
        explained("NodeFencingEscalated"),
        explained("NodeFencingHeld"),
    );
    let reasons = reasons_of_decisions();
    let unexplained: Vec<_> = reasons
        .iter()
        .filter(|it| !escalated.contains(*it) && !held.contains(*it))
        .collect();
    assert_eq!(unexplained, [""; 0]);
    let unknown: Vec<_> = escalated.difference(&reasons).collect();
    assert_eq!(unknown, [""; 0]);
}

/// The names of the operator's series, as Prometheus has them.
fn series() -> BTreeSet<String> {
    let names = METRICS.iter().flat_map(|metric| match metric.kind {
        Kind::Histogram(_) => ["_bucket", "_sum", "_count"]
            .map(|end| format!("{}{end}", metric.name))
            .to_vec(),
        Kind::Counter | Kind::Gauge => vec![metric.name.to_owned()],
    });
    names.collect()
}

#[test]
fn every_metric_that_is_named_exists() {
    let recorded: BTreeSet<String> = rules()
        .iter()
        .filter_map(|it| Some(it["record"].as_str()?.to_owned()))
        .collect();
    let queried = series();
    // A page may speak of a histogram by its name.
    let named: BTreeSet<String> = METRICS.iter().map(|it| it.name.to_owned()).collect();
    let mut texts = vec![
        "charts/node-fencing-operator/files/alerts.yaml".into(),
        "charts/node-fencing-operator/files/dashboard.json".into(),
    ];
    texts.extend(documents());
    for file in texts {
        let text = read(&file);
        let is_page = file.extension().is_some_and(|it| it == "md");
        let exists = |word: &str| queried.contains(word) || is_page && named.contains(word);
        let is_part = |sign: char| sign.is_ascii_alphanumeric() || sign == '_' || sign == ':';
        for word in text.split(|sign| !is_part(sign)) {
            let word = word.trim_matches(':');
            let is_ours = word.starts_with("node_fencing_") && word != "node_fencing_";
            let is_record = word.contains(":node_fencing_");
            assert!(!is_ours || exists(word), "{}: {word}", file.display());
            assert!(
                !is_record || recorded.contains(word),
                "{}: {word}",
                file.display()
            );
        }
    }
}

/// What nobody looks at need not be measured.
#[test]
fn every_metric_is_shown() {
    let dashboard = read("charts/node-fencing-operator/files/dashboard.json");
    for metric in METRICS.iter().chain(PROCESS) {
        assert!(
            dashboard.contains(metric.name),
            "{} is on no panel",
            metric.name
        );
    }
}

/// Reasons by section, from a list of ours.
fn listed(path: &str) -> BTreeMap<String, Vec<Vec<String>>> {
    let mut found: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    let mut section = String::new();
    let text = read(path);
    for line in text
        .lines()
        .filter(|it| !it.is_empty() && !it.starts_with('#'))
    {
        match line.strip_prefix('[').and_then(|it| it.split_once(']')) {
            Some((name, _)) => name.clone_into(&mut section),
            None => {
                let fields = line.split(" | ").map(str::to_owned).collect();
                found.entry(section.clone()).or_default().push(fields);
            }
        }
    }
    found
}

/// The sources of the operator's Events, without their tests.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && name != "tests" {
            sources(&path, text);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let source = fs::read_to_string(&path).expect("UTF-8");
            text.push_str(source.split("#[cfg(test)]").next().unwrap_or_default());
        }
    }
}

/// Whatever goes wrong pages somebody, or a line says why not. The reasons are those that tests/data/reasons.txt has of Events, which another test holds
/// against the sources; of type Normal are those that the sources publish so.
#[test]
fn every_warning_has_an_alert_or_a_reason_why_not() {
    let mut program = String::new();
    sources(&root().join("src/shell"), &mut program);
    let is_normal = |reason: &str| program.contains(&format!("false, \"{reason}\""));
    let (reasons, table) = (
        listed("tests/data/reasons.txt"),
        listed("tests/data/warnings.txt"),
    );
    let row = |section: &str, reason: &str| {
        let mut rows = table[section].iter();
        rows.find(|row| row[0] == reason).is_some()
    };
    for section in [
        "escalation",
        "device",
        "device-event",
        "fence-event",
        "node-event",
        "any-event",
    ] {
        for reason in reasons[section].iter().map(|fields| &fields[0]) {
            assert!(
                is_normal(reason) || row(section, reason) || row(section, "*"),
                "tests/data/warnings.txt has no row for {reason} of [{section}]"
            );
        }
    }
    for (section, rows) in &table {
        for row in rows {
            let reason = &row[0];
            // The stage is the reason of its Event.
            let is_known = reason == "*"
                || reason == "Held"
                || reasons[section].iter().any(|fields| fields[0] == *reason);
            assert!(
                is_known && !is_normal(reason),
                "no Warning has the reason {reason} of [{section}]"
            );
            match row[1].as_str() {
                "-" => assert!(
                    row.get(2).is_some_and(|why| !why.is_empty()),
                    "{reason}: why not?"
                ),
                alert => assert!(
                    alerts().contains(alert),
                    "{reason}: there is no alert {alert}"
                ),
            }
        }
    }
}
