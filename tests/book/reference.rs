//! The reference, made of the code: `UPDATE=1 cargo test --test book` writes it.

use crate::pages::{read, root};
use crate::reasons::{Section, sections};
use crate::schema::of_kind;
use fencing_api::crd;
use fencing_api::drivers::{KINDS, Reads};
use fencing_core::support;
use fencing_drivers::DeviceError;
use node_fencing_operator::args::{Error, Order};
use node_fencing_operator::shell::metrics::table::{Kind, METRICS, PROCESS};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;

const MADE: &str = "<!-- Made of the code by `UPDATE=1 cargo test --test book`; do not edit. -->";

/// Columns of a line outside of tables (`tests/contract/tidy.rs`).
const COLUMNS_MAX: usize = 150;

/// Compares a page with what it should be, or writes it when `UPDATE` is set.
pub fn check(name: &str, title: &str, body: &str) {
    let path = format!("docs/reference/{name}.md");
    let expected = format!("# {title}\n\n{MADE}\n\n{}\n", body.trim_end());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(root().join(&path), expected).expect("the file must be writable");
        return;
    }
    assert!(
        fs::read_to_string(root().join(&path)).unwrap_or_default() == expected,
        "{path} is stale: run `UPDATE=1 cargo test --test book` and commit the result"
    );
}

pub fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        let row: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        writeln!(text, "| {} |", row.join(" | ")).expect("a string");
    }
    text
}

/// In one line, with a full stop at its end.
fn sentence(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.is_empty() || line.ends_with(['.', ':', '`']) {
        true => line,
        false => format!("{line}."),
    }
}

#[test]
fn kinds() {
    for (_, definition) in crd::all() {
        let names = &definition["spec"]["names"];
        let kind = names["kind"].as_str().expect("a kind");
        let schema = of_kind(kind).expect("its schema");
        let mut body = format!(
            "`{}/v1alpha1`, {}; `kubectl get {}`. {}\n",
            definition["spec"]["group"].as_str().expect("a group"),
            match definition["spec"]["scope"].as_str() {
                Some("Cluster") => "cluster-scoped",
                _ => "namespaced",
            },
            names["shortNames"][0].as_str().expect("a short name"),
            sentence(
                schema["properties"]["spec"]["description"]
                    .as_str()
                    .unwrap_or_default()
            ),
        );
        body.push_str(&not_yet(kind));
        let columns = &definition["spec"]["versions"][0]["additionalPrinterColumns"];
        let columns = columns.as_array().into_iter().flatten().map(|column| {
            let wide = if column["priority"] == 1 {
                "with `-o wide`"
            } else {
                ""
            };
            let path = column["jsonPath"].as_str().unwrap_or_default();
            vec![
                column["name"].as_str().unwrap_or_default().to_owned(),
                format!("`{path}`"),
                wide.to_owned(),
            ]
        });
        write!(
            body,
            "\n## Columns\n\n{}",
            table(&["column", "from", ""], columns)
        )
        .expect("a string");
        for part in ["spec", "status"] {
            let (mut rows, mut rules) = (Vec::new(), Vec::new());
            fields("", &schema["properties"][part], &mut rows, &mut rules);
            if rows.is_empty() {
                continue;
            }
            let head = ["field", "type", "default", "what it is"];
            write!(body, "\n## `{part}`\n\n{}", table(&head, rows)).expect("a string");
            if !rules.is_empty() {
                let rules = table(
                    &["where", "the API server refuses what breaks this rule"],
                    rules,
                );
                write!(body, "\n{rules}").expect("a string");
            }
        }
        check(&kind.to_lowercase(), kind, &body);
    }
}

/// The API is larger than what this version acts upon: what the operator itself says of that.
fn not_yet(kind: &str) -> String {
    let words = match kind {
        "NodeFencingPolicy" => {
            let spec = json!({"nodeSelector": {}, "recovery": {"strategy": "DeleteNode"}});
            let rights = Some(
                "RBAC does not grant the operator: delete nodes, delete volumeattachments.storage.k8s.io",
            );
            support::unsupported(&serde_json::from_value(spec).expect("a policy"), rights)
        }
        "FenceDevice" => {
            let mut later = KINDS.iter().rev();
            let later = later.find(|kind| kind.reads == Reads::Nothing);
            later.map(|kind| DeviceError::Unsupported { driver: kind.name }.to_string())
        }
        _ => None,
    };
    let asks = match kind {
        "FenceDevice" => "asks for more than this version can do",
        _ => "requires rights that the operator lacks",
    };
    words.map_or_else(String::new, |words| {
        let words = format!("Of one that {asks} it reports: \"{words}\".");
        format!("\n{}\n", wrapped(&words))
    })
}

/// In lines that can be read in an editor.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        if line.len() + word.len() >= COLUMNS_MAX {
            lines.push(std::mem::take(&mut line));
        }
        let gap = if line.is_empty() { "" } else { " " };
        line = format!("{line}{gap}{word}");
    }
    lines.push(line);
    lines.join("\n")
}

/// A row for each field at and below this schema, and a line for each rule.
fn fields(path: &str, schema: &Value, rows: &mut Vec<Vec<String>>, rules: &mut Vec<Vec<String>>) {
    let place = match path {
        "" => "The whole".to_owned(),
        path => format!("`{path}`"),
    };
    let own = schema["x-kubernetes-validations"].as_array();
    for rule in own.into_iter().flatten() {
        if let Some(message) = rule["message"].as_str() {
            rules.push(vec![place.clone(), message.to_owned()]);
        }
    }
    let is_required = |name: &str| {
        let required = schema["required"].as_array();
        required.is_some_and(|it| it.iter().any(|one| one == name))
    };
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let below = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        let default = match &field["default"] {
            Value::Null if is_required(name) => "required".to_owned(),
            Value::Null => String::new(),
            Value::Object(_) => "see its fields".to_owned(),
            value => format!("`{value}`"),
        };
        let description = field["description"].as_str().unwrap_or_default();
        rows.push(vec![
            format!("`{below}`"),
            type_of(field),
            default,
            sentence(description),
        ]);
        // Every list of conditions is the same, and Kubernetes' own.
        if name == "conditions" {
            continue;
        }
        fields(&below, field, rows, rules);
        if field["items"].is_object() {
            fields(&format!("{below}[]"), &field["items"], rows, rules);
        }
    }
}

fn type_of(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        let words = words.iter().filter_map(Value::as_str);
        return words
            .map(|word| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(", ");
    }
    match schema["type"].as_str() {
        Some("integer") => match (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
            (Some(from), Some(to)) => format!("{from} to {to}"),
            _ => "integer".to_owned(),
        },
        Some("array") => format!("list of {}", type_of(&schema["items"])),
        Some("string") if schema["format"] == "date-time" => "time".to_owned(),
        Some("object") if schema["additionalProperties"].is_object() => "map".to_owned(),
        Some(kind) => kind.to_owned(),
        None => "integer or string".to_owned(),
    }
}

#[test]
fn metrics() {
    let rows = METRICS.iter().chain(PROCESS).map(|metric| {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        let labels: Vec<String> = metric.labels.iter().map(|it| format!("`{it}`")).collect();
        vec![
            format!("`{}`", metric.name),
            kind.to_owned(),
            labels.join(", "),
            metric.help.to_owned(),
        ]
    });
    let body = format!(
        "Each replica serves them under `/metrics`, by HTTPS with `metrics.tls.secretName` of the chart; of incidents only the leader knows.\n\
         A series with a label `node` exists only while the incident, the device or the Node does. [The alerts](alerts.md) are made of them.\n\n{}",
        table(&["metric", "type", "labels", "what it says"], rows)
    );
    check("metrics", "Metrics", &body);
}

#[test]
fn alerts() {
    let file: Value =
        serde_saphyr::from_str(&read("charts/node-fencing-operator/files/alerts.yaml"))
            .expect("YAML");
    let groups = file["groups"].as_array().expect("groups");
    let rules = || {
        groups
            .iter()
            .flat_map(|group| group["rules"].as_array().expect("rules"))
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let alerts = rules()
        .filter(|rule| rule["alert"].is_string())
        .map(|rule| {
            let name = text(&rule["alert"]);
            let link = format!("[{name}](../runbooks/{name}.md)");
            let summary = text(&rule["annotations"]["summary"]);
            vec![
                link,
                text(&rule["labels"]["severity"]),
                text(&rule["for"]),
                format!("`{summary}`"),
            ]
        });
    let records = rules().filter(|rule| rule["record"].is_string());
    let records = records.map(|rule| vec![format!("`{}`", text(&rule["record"]))]);
    let body = format!(
        "They are a plain rules file, [alerts.yaml](../../charts/node-fencing-operator/files/alerts.yaml); the chart makes a PrometheusRule of it\n\
         (`metrics.prometheusRule.enabled`), in which `alerts.overrides` changes any of them by name.\n\n{}\nRecorded beside them:\n\n{}",
        table(&["alert", "severity", "for", "summary"], alerts),
        table(&["record"], records)
    );
    check("alerts", "Alerts", &body);
}

#[test]
fn flags() {
    let mut body = String::from(
        "What `--help` prints. In the cluster the Deployment sets what is needed; the chart's values lead to the same flags, and `extraArgs` to any other.\n",
    );
    for command in ["", "probe", "conformance", "check"] {
        let words = ["node-fencing-operator", command, "--help"];
        let line = words.into_iter().filter(|it| !it.is_empty());
        let help = match Order::read(line.map(OsString::from)) {
            Err(Error::Shown(help)) => help,
            other => panic!("{command}: {other:?}"),
        };
        let name = ["node-fencing-operator", command].join(" ");
        let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        write!(
            body,
            "\n## `{}`\n\n```text\n{}\n```\n",
            name.trim_end(),
            help.join("\n")
        )
        .expect("a string");
    }
    check("flags", "Flags", &body);
}

/// Each chart's own page has the table, made of the values.
#[test]
fn values() {
    let tables = ["node-fencing-operator", "node-fencing-policies"].map(|chart| {
        let file = format!("charts/{chart}/README.md");
        let page = read(&file);
        let (_, table) = page.split_once("## Values\n").expect("the table");
        format!("## {chart}\n\nOf [this chart](../../{file}).\n{table}")
    });
    check("values", "Values of the charts", &tables.join("\n"));
}

#[test]
fn conditions() {
    let documented = |file: &str, begin: &str| {
        let text = read(file);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let mut found = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            if let Some(rest) = line.strip_prefix(begin) {
                let above = lines.get(..at).unwrap_or_default().iter().rev();
                let mut words: Vec<&str> = above.map_while(|it| it.strip_prefix("/// ")).collect();
                words.reverse();
                found.push((rest.to_owned(), words.join(" ")));
            }
        }
        found
    };
    let constants = documented("crates/api/src/conditions.rs", "pub const ").into_iter();
    let conditions = constants.filter_map(|(code, words)| {
        let name = code.split('"').nth(1)?.to_owned();
        let (object, meaning) = words.split_once(": ")?;
        Some(vec![
            format!("`{name}`"),
            object.to_owned(),
            meaning.to_owned(),
        ])
    });
    let mut body = format!(
        "An Event says what has just changed, a condition how it is now. Both have a reason, one word for machines, and words for people.\n\n\
         ## Conditions\n\n{}\n## Stages of a NodeFence\n\n\
         The reason of its condition `Succeeded`, and of an Event when it is entered.\n\n{}",
        table(&["condition", "of", "what it says"], conditions),
        table(&["stage", "what it means"], stages())
    );
    for Section { id, title, words } in sections() {
        let title = title.replacen(". ", "\n\n", 1);
        let rows = words
            .into_iter()
            .map(|(word, meaning)| vec![format!("`{word}`"), format!("{meaning}.")]);
        match id.as_str() {
            "no-reason" => {}
            "escalation" => {
                let rows: Vec<String> = rows.map(|row| row[0].clone()).collect();
                write!(
                    body,
                    "\n## {title}\n\nReasons of a NodeFence's condition `Escalated`, and of Warning Events. \
                     [The runbook](../runbooks/NodeFencingEscalated.md)\nhas what each means and the way out.\n\n{}\n",
                    rows.iter().map(|it| format!("- {it}")).collect::<Vec<_>>().join("\n")
                )
                .expect("a string");
            }
            _ => write!(
                body,
                "\n## {title}\n\n{}",
                table(&["reason", "what it means"], rows)
            )
            .expect("a string"),
        }
    }
    check("conditions", "Conditions and Events", &body);
}

/// The stages and what they mean, as the type has them.
fn stages() -> Vec<Vec<String>> {
    let text = read("crates/core/src/stage.rs");
    let (_, rest) = text.split_once("pub enum Stage {").expect("the type");
    let (inside, _) = rest.split_once("\n}").expect("its end");
    let mut words = String::new();
    let mut rows = Vec::new();
    for line in inside.lines().map(str::trim) {
        match (line.strip_prefix("/// "), line.strip_suffix(',')) {
            (Some(more), _) => words = format!("{words} {more}"),
            (None, Some(stage)) => {
                rows.push(vec![format!("`{stage}`"), words.trim().to_owned()]);
                words.clear();
            }
            (None, None) => {}
        }
    }
    rows
}
