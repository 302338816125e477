//! What a CustomResourceDefinition's schema does to an object: unknown fields are pruned, defaults filled in, and what is left is checked.
//!
//! As far as the schemas of this repository go, in the API server's own words. Rules in CEL are in [`crate::cel`].

use crate::answer::{Cause, NOWHERE};
use crate::cel::Rules;
use regex::Regex;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A structural schema, and its rules.
pub struct Schema {
    schema: Value,
    rules: Rules,
}

impl Schema {
    /// The schema of the first version in this CustomResourceDefinition, as YAML.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn of_crd(yaml: &str) -> Self {
        let crd: Value = serde_saphyr::from_str(yaml).expect("a CustomResourceDefinition");
        let schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        let rules = Rules::of(&schema);
        Self { schema, rules }
    }

    /// Prunes and defaults.
    pub fn complete(&self, object: &mut Value) {
        let Some(fields) = object.as_object_mut() else {
            return;
        };
        let properties = &self.schema["properties"];
        fields.retain(|name, _| is_meta(name) || properties.get(name).is_some());
        for (name, value) in fields.iter_mut().filter(|(name, _)| !is_meta(name)) {
            prune(value, &properties[name.as_str()]);
        }
        // What is stored without a status is read with the default one.
        if let Some(preset) = properties["status"].get("default")
            && fields.get("status").is_none_or(Value::is_null)
        {
            fields.insert("status".to_owned(), preset.clone());
        }
        let spec_and_status = ["spec", "status"].map(|name| (name, &properties[name]));
        for (name, schema) in spec_and_status {
            if let Some(value) = fields.get_mut(name) {
                default(value, schema);
            }
        }
    }

    /// What is wrong with the object, or with its change.
    #[must_use]
    pub fn causes(&self, old: Option<&Value>, new: &Value) -> Vec<Cause> {
        let mut causes = Vec::new();
        for name in ["spec", "status"] {
            let schema = &self.schema["properties"][name];
            match new.get(name) {
                Some(value) => check(value, schema, name, &mut causes),
                None if is_required(&self.schema, name) => causes.push(Cause::required(name)),
                None => {}
            }
        }
        if causes.iter().any(Cause::ends_it) {
            let words = "null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            causes.push(Cause::wrong(NOWHERE, words));
        // No rule speaks of a status, and what is stored keeps them all.
        } else if old.is_none_or(|old| old["spec"] != new["spec"]) {
            causes.extend(self.rules.causes(old, new));
        }
        causes
    }
}

fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|names| names.iter().any(|one| one == name))
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema["properties"].as_object()
}

fn prune(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            if let Some(properties) = properties(schema) {
                fields.retain(|name, _| properties.contains_key(name));
                for (name, value) in fields {
                    prune(value, &properties[name]);
                }
            } else if schema["additionalProperties"].is_object() {
                for value in fields.values_mut() {
                    prune(value, &schema["additionalProperties"]);
                }
            } else if schema["x-kubernetes-preserve-unknown-fields"] != true {
                fields.clear();
            }
        }
        Value::Array(items) => {
            for item in items {
                prune(item, &schema["items"]);
            }
        }
        _ => {}
    }
}

fn default(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, schema) in properties(schema).into_iter().flatten() {
                let is_null = fields.get(name).is_some_and(Value::is_null);
                let nullable = schema["nullable"] == true;
                if is_null && !nullable {
                    fields.remove(name);
                }
                if let Some(preset) = schema.get("default")
                    && !fields.contains_key(name)
                {
                    fields.insert(name.clone(), preset.clone());
                }
                if let Some(value) = fields.get_mut(name) {
                    default(value, schema);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                default(item, &schema["items"]);
            }
        }
        _ => {}
    }
}

fn check(value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    if let Some(wrong) = wrong_type(value, schema, path) {
        causes.push(wrong);
        return;
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        causes.push(Cause::unsupported(path, value, words));
    }
    match value {
        Value::String(text) => check_text(text, schema, path, causes),
        Value::Number(number) => {
            let beyond = |what: &str, bound: &Value| {
                let why = format!("should be {what} than or equal to {bound}");
                Cause::in_body(path, value, why)
            };
            let whole = number.as_i64().and_then(|it| i32::try_from(it).ok());
            let number = number.as_f64().unwrap_or_default();
            if schema["format"] == "int32" && whole.is_none() {
                let why = format!(
                    "\"\": Checked value must be of type integer with format int32 in {path}"
                );
                causes.push(Cause::wrong(NOWHERE, why));
            }
            let (least, most) = (&schema["minimum"], &schema["maximum"]);
            if least.as_f64().is_some_and(|least| number < least) {
                causes.push(beyond("greater", least));
            }
            if most.as_f64().is_some_and(|most| number > most) {
                causes.push(beyond("less", most));
            }
        }
        Value::Array(items) => check_items(items, schema, path, causes),
        Value::Object(fields) => check_fields(fields, schema, path, causes),
        _ => {}
    }
}

fn check_text(text: &str, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    if let Some(most) = schema["maxLength"].as_u64().filter(|most| length > *most) {
        let message = format!("Too long: may not be more than {most} bytes");
        causes.push(Cause::new(path, "FieldValueTooLong", message));
    }
    let mut wrong = |why: String| causes.push(Cause::in_body(path, &json!(text), why));
    if let Some(least) = schema["minLength"].as_u64().filter(|least| length < *least) {
        wrong(format!("should be at least {least} chars long"));
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && !is_match(pattern, text)
    {
        wrong(format!("should match '{pattern}'"));
    }
    if schema["format"] == "date-time" && text.parse::<jiff::Timestamp>().is_err() {
        causes.push(Cause::of_type(path, &json!(text), "date-time", text));
    }
}

thread_local! {
    static PATTERNS: RefCell<BTreeMap<String, Regex>> = const { RefCell::new(BTreeMap::new()) };
}

/// Does the text match this pattern? Patterns are few, and compiled once.
fn is_match(pattern: &str, text: &str) -> bool {
    PATTERNS.with_borrow_mut(|known| {
        let compiled = known
            .entry(pattern.to_owned())
            .or_insert_with(|| regex_of_go(pattern).expect("a pattern of a schema"));
        compiled.is_match(text)
    })
}

/// A regular expression as Go reads it: in a class `[` is a letter like any other, unless the name of a class of letters begins there.
///
/// # Errors
/// What is wrong with it.
pub fn regex_of_go(pattern: &str) -> Result<Regex, regex::Error> {
    let mut text = String::new();
    let (mut is_in_class, mut begun) = (false, false);
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_first = std::mem::take(&mut begun);
        match letter {
            '\\' => {
                text.push(letter);
                text.extend(letters.next());
                continue;
            }
            '[' if !is_in_class => (is_in_class, begun) = (true, true),
            '[' if letters.peek() != Some(&':') => text.push('\\'),
            '[' => {
                // `[:space:]`, to its end.
                text.push(letter);
                text.extend(letters.by_ref().take_while(|letter| *letter != ']'));
                text.push(']');
                continue;
            }
            '^' if is_first => begun = true,
            ']' if is_in_class && is_first => text.push('\\'),
            ']' => is_in_class = false,
            _ => {}
        }
        text.push(letter);
    }
    Regex::new(&text)
}

fn check_items(items: &[Value], schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
    if let Some(most) = schema["maxItems"].as_u64().filter(|most| count > *most) {
        let message = format!("Too many: {count}: must have at most {most} items");
        causes.push(Cause::new(path, "FieldValueTooMany", message));
    }
    if let Some(least) = schema["minItems"].as_u64().filter(|least| count < *least) {
        let why = format!("should have at least {least} items");
        causes.push(Cause::in_body(path, &json!(count), why));
    }
    if let Some((at, twice)) = repeated(items, schema) {
        causes.push(Cause::duplicate(&format!("{path}[{at}]"), &twice));
    }
    for (index, item) in items.iter().enumerate() {
        check(item, &schema["items"], &format!("{path}[{index}]"), causes);
    }
}

fn check_fields(fields: &Map<String, Value>, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        if !fields.contains_key(name) {
            causes.push(Cause::required(&format!("{path}.{name}")));
        }
    }
    for (name, value) in fields {
        let schema = match properties(schema) {
            Some(properties) => &properties[name],
            None => &schema["additionalProperties"],
        };
        check(value, schema, &format!("{path}.{name}"), causes);
    }
}

fn wrong_type(value: &Value, schema: &Value, path: &str) -> Option<Cause> {
    if schema["x-kubernetes-int-or-string"] == true {
        let is_wrong = !value.is_i64() && !value.is_string();
        return is_wrong.then(|| Cause::of_json_type(path, value, "integer,string"));
    }
    let wanted = schema["type"].as_str()?;
    let is_right = match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => true,
    };
    let is_null = value.is_null() && schema["nullable"] == true;
    (!is_right && !is_null).then(|| Cause::of_json_type(path, value, wanted))
}

/// What a list has twice that may have it only once, and where it is the second time.
fn repeated(items: &[Value], schema: &Value) -> Option<(usize, Value)> {
    let key = |item: &Value| -> Option<Value> {
        match schema["x-kubernetes-list-type"].as_str()? {
            "set" => Some(item.clone()),
            "map" => {
                let keys = schema["x-kubernetes-list-map-keys"].as_array()?;
                let named = |key: &Value| {
                    let key = key.as_str()?;
                    Some((key.to_owned(), item.get(key)?.clone()))
                };
                Some(Value::Object(keys.iter().filter_map(named).collect()))
            }
            _ => None,
        }
    };
    let keys: Vec<Value> = items.iter().filter_map(key).collect();
    let twice = |(at, one): (usize, &Value)| keys[..at].contains(one).then(|| (at, one.clone()));
    keys.iter().enumerate().find_map(twice)
}
