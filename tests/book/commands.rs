//! A page for each command of `kubectl fence`, made of what `--help` prints, and the table of them.

use crate::pages::root;
use crate::reference::{check, table};
use clap::Command;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The commands, without the one that explains them all.
fn commands() -> Vec<Command> {
    let command = fencing_plugin::command();
    let all = command
        .get_subcommands()
        .filter(|it| it.get_name() != "help" && !it.is_hide_set());
    all.cloned().collect()
}

fn help(command: &Command) -> String {
    let text = command
        .clone()
        .term_width(80)
        .render_long_help()
        .to_string();
    let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    lines.join("\n")
}

fn about(command: &Command) -> String {
    command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[test]
fn each_command_of_the_plugin_has_its_page() {
    for command in commands() {
        let name = command.get_name().to_owned();
        let inner = command
            .get_subcommands()
            .filter(|it| it.get_name() != "help");
        let inner: String = inner
            .map(|it| format!("\n## {}\n\n```text\n{}\n```\n", it.get_name(), help(it)))
            .collect();
        let body = format!(
            "{}.\n\n```text\n{}\n```\n{inner}",
            about(&command),
            help(&command)
        );
        check(
            &format!("kubectl-fence/{name}"),
            &format!("kubectl fence {name}"),
            &body,
        );
    }
}

#[test]
fn the_plugin_has_a_table_of_its_commands() {
    let rows = commands().into_iter().map(|it| {
        let name = it.get_name();
        vec![format!("[{name}](kubectl-fence/{name}.md)"), about(&it)]
    });
    let body = format!(
        "What each prints at `--help`. Installed it is by [the page of its own](../how-to/plugin.md); manual pages are in `man/`.\n\n{}",
        table(&["`kubectl fence`", "does"], rows)
    );
    check("kubectl-fence", "kubectl fence", &body);
}

/// People copy from a terminal of 80 columns; a word longer than that (a flag's default) may stand out.
#[test]
fn help_fits_a_terminal() {
    for command in commands() {
        let help = help(&command);
        let wide: Vec<&str> = help.lines().filter(|it| it.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{}: {wide:#?}", command.get_name());
    }
}

/// What programs read: a schema for each kind, and one line for each field that there ever was, for each that is always there, and for each value.
#[test]
fn what_programs_read_only_grows() {
    let is_update = std::env::var_os("UPDATE").is_some();
    let shapes: BTreeMap<_, _> = fencing_plugin::schema::all().into_iter().collect();
    let page = root().join("docs/reference/kubectl-fence/cli.v1.json");
    let schemas = serde_json::to_string_pretty(&shapes).expect("JSON") + "\n";
    let known = root().join("tests/data/cli-v1.txt");
    let mut fields = BTreeSet::new();
    for (kind, schema) in &shapes {
        note(schema, schema, kind, &mut fields);
    }
    assert!(fields.len() > 100, "only {}", fields.len());
    let ever = fs::read_to_string(&known).unwrap_or_default();
    let gone: Vec<&str> = ever.lines().filter(|it| !fields.contains(*it)).collect();
    assert!(
        gone.is_empty(),
        "within cli.nodefencing.io/v1 no field or value goes, no field changes its type, and none that is required becomes optional; make it v2: {gone:#?}"
    );
    if is_update {
        fs::write(&page, &schemas).expect("a file");
        let all: Vec<&str> = fields.iter().map(String::as_str).collect();
        fs::write(&known, all.join("\n") + "\n").expect("a file");
    }
    let is_new: Vec<&String> = fields
        .iter()
        .filter(|it| !ever.lines().any(|known| known == *it))
        .collect();
    assert!(
        is_update || is_new.is_empty(),
        "new fields or values, UPDATE=1 writes them down: {is_new:#?}"
    );
    let written = fs::read_to_string(&page).unwrap_or_default();
    assert!(
        is_update || written == schemas,
        "{} is stale: UPDATE=1",
        page.display()
    );
}

/// One line for each place: where it is, and of which types; one more if it is required, and one for each value that an enum has there.
fn note(schema: &Value, root: &Value, at: &str, fields: &mut BTreeSet<String>) {
    let mut kinds = BTreeSet::new();
    kinds_of(schema, root, &mut kinds);
    assert!(!kinds.is_empty(), "{at} has no type");
    let (null, others): (Vec<_>, Vec<_>) = kinds.into_iter().partition(|it| it == "null");
    fields.insert(format!("{at}: {}", [others, null].concat().join(" or ")));
    note_within(schema, root, at, fields);
}

fn note_within(schema: &Value, root: &Value, at: &str, fields: &mut BTreeSet<String>) {
    let schema = resolved(schema, root);
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().expect("a name");
        fields.insert(format!("{at}.{name} is required"));
    }
    let values = schema["enum"].as_array().into_iter().flatten();
    for value in values.chain(schema.get("const")) {
        fields.insert(format!("{at} may be {value}"));
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        note(field, root, &format!("{at}.{name}"), fields);
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            note(&schema[inner], root, &format!("{at}[]"), fields);
        }
    }
    for choice in choices(schema) {
        note_within(choice, root, at, fields);
    }
}

fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|it| it.strip_prefix('#')) {
        Some(path) => root.pointer(path).expect("a definition"),
        None => schema,
    }
}

fn choices(schema: &Value) -> impl Iterator<Item = &Value> {
    let kinds = ["anyOf", "oneOf", "allOf"].into_iter();
    kinds.flat_map(|it| schema[it].as_array().into_iter().flatten())
}

/// All types that a value may have there, of a choice each one's.
fn kinds_of(schema: &Value, root: &Value, kinds: &mut BTreeSet<String>) {
    let schema = resolved(schema, root);
    let own = match &schema["type"] {
        Value::Array(own) => own.iter().collect(),
        Value::Null => Vec::new(),
        own => vec![own],
    };
    kinds.extend(own.into_iter().filter_map(Value::as_str).map(str::to_owned));
    for choice in choices(schema) {
        kinds_of(choice, root, kinds);
    }
}
