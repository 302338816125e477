//! From the commented `values.yaml` to its schema and its table.
//!
//! A comment above a key is its description; a line `# @schema {...}` in it narrows what the value may be. Everything else is told by the value:
//! its type, its default, and that a mapping has no other keys than those that are written down, unless it is empty or its `@schema` says
//! what others may be. `{"kubernetes": TYPE}` in a schema stands for that type of Kubernetes, see [`super::kubernetes`].

use super::kubernetes::expand;
use serde_json::{Map, Value, json};

/// A key of the values.
#[derive(Debug)]
pub struct Entry {
    /// The keys that lead to it, and its own.
    pub path: Vec<String>,
    /// Description, one line.
    pub text: String,
    /// What it may be, beyond what its value says.
    narrowed: Map<String, Value>,
    /// Its default.
    value: Value,
    /// The keys below it, where it is a mapping with keys of its own.
    pub children: Vec<Entry>,
}

impl Entry {
    /// Its own key.
    pub fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    fn is_open(&self) -> bool {
        self.children.is_empty()
    }
}

/// The keys of the first level, each with what is below it.
pub fn entries(text: &str) -> Vec<Entry> {
    let values: Value = serde_saphyr::from_str(text).expect("values.yaml");
    below(&values, text, &[])
}

fn below(values: &Value, text: &str, path: &[String]) -> Vec<Entry> {
    let Some(map) = values.as_object() else {
        return Vec::new();
    };
    let keys = map.iter().map(|(key, value)| {
        let path: Vec<String> = path.iter().chain([key]).cloned().collect();
        let (text_of, narrowed) = comment(text, &path);
        let is_free = narrowed.contains_key("additionalProperties");
        Entry {
            children: if is_free {
                Vec::new()
            } else {
                below(value, text, &path)
            },
            value: value.clone(),
            text: text_of,
            narrowed,
            path,
        }
    });
    let mut keys: Vec<Entry> = keys.collect();
    keys.sort_by_key(|entry| line_of(text, &entry.path));
    keys
}

/// The number of the line with this key.
fn line_of(text: &str, path: &[String]) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let mut from = 0;
    for (depth, key) in path.iter().enumerate() {
        let begin = format!("{}{key}:", "  ".repeat(depth));
        let found = lines.iter().skip(from).position(|line| {
            line.starts_with(&begin)
                && line
                    .as_bytes()
                    .get(begin.len())
                    .is_none_or(|it| *it == b' ')
        });
        from += found.unwrap_or_else(|| panic!("no line for {}", path.join(".")));
    }
    from
}

/// The comment right above a key: what it says, and its `@schema`.
fn comment(text: &str, path: &[String]) -> (String, Map<String, Value>) {
    let lines: Vec<&str> = text.lines().collect();
    let above = lines.get(..line_of(text, path)).unwrap_or_default();
    let indent = "  ".repeat(path.len() - 1);
    let begin = format!("{indent}# ");
    let mut comment: Vec<&str> = above
        .iter()
        .rev()
        .map_while(|line| line.strip_prefix(&begin))
        .collect();
    comment.reverse();
    let (mut words, mut narrowed) = (Vec::new(), Map::new());
    for line in comment {
        match line.strip_prefix("@schema ") {
            Some(schema) => {
                let schema = serde_json::from_str(schema)
                    .unwrap_or_else(|error| panic!("@schema of {}: {error}", path.join(".")));
                narrowed.extend(expand(schema).as_object().cloned().unwrap_or_default());
            }
            None => words.push(line),
        }
    }
    (words.join(" "), narrowed)
}

/// `properties` of these keys.
pub fn schema(entries: &[Entry]) -> Value {
    let properties = entries
        .iter()
        .map(|entry| (entry.name().to_owned(), schema_of(entry)));
    Value::Object(properties.collect())
}

fn schema_of(entry: &Entry) -> Value {
    let kind = match &entry.value {
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Null => panic!("{} has no default", entry.path.join(".")),
    };
    let mut schema = Map::from_iter([("type".to_owned(), json!(kind))]);
    if !entry.text.is_empty() {
        schema.insert("description".to_owned(), json!(entry.text));
    }
    if entry.is_open() {
        schema.insert("default".to_owned(), entry.value.clone());
    } else {
        schema.insert("additionalProperties".to_owned(), json!(false));
        schema.insert("properties".to_owned(), self::schema(&entry.children));
    }
    schema.extend(entry.narrowed.clone());
    Value::Object(schema)
}

/// A row for each key that has a default of its own.
pub fn table(entries: &[Entry]) -> String {
    let mut rows = String::from("| value | default | what it is |\n|---|---|---|\n");
    for entry in entries {
        add_rows(entry, &mut rows);
    }
    rows
}

fn add_rows(entry: &Entry, rows: &mut String) {
    if !entry.is_open() {
        for child in &entry.children {
            add_rows(child, rows);
        }
        return;
    }
    let default = match &entry.value {
        Value::Array(items) if !items.is_empty() && items.iter().any(|it| !it.is_number()) => {
            "see values.yaml".to_owned()
        }
        Value::Object(keys) if !keys.is_empty() => "see values.yaml".to_owned(),
        value => format!("`{value}`"),
    };
    let text = entry.text.replace('|', "\\|");
    rows.push_str(&format!(
        "| `{}` | {default} | {text} |\n",
        entry.path.join(".")
    ));
}
