//! What a CustomResourceDefinition's schema does to an object: unknown fields are pruned, defaults filled in, and what is left is checked.
//!
//! As far as the schemas of this repository go; `pattern` is not looked at. Rules in CEL are in [`crate::rules`].

use serde_json::{Map, Value};

/// A structural schema.
#[derive(Debug, Clone)]
pub struct Schema(Value);

impl Schema {
    /// The schema of the first version in this CustomResourceDefinition, as YAML.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn of_crd(yaml: &str) -> Self {
        let crd: Value = serde_saphyr::from_str(yaml).expect("a CustomResourceDefinition");
        Self(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone())
    }

    /// Prunes and defaults.
    pub fn complete(&self, object: &mut Value) {
        let Some(fields) = object.as_object_mut() else {
            return;
        };
        let properties = &self.0["properties"];
        fields.retain(|name, _| is_meta(name) || properties.get(name).is_some());
        for (name, value) in fields.iter_mut().filter(|(name, _)| !is_meta(name)) {
            prune(value, &properties[name.as_str()]);
        }
        let spec_and_status = ["spec", "status"].map(|name| (name, &properties[name]));
        for (name, schema) in spec_and_status {
            if let Some(value) = fields.get_mut(name) {
                default(value, schema);
            }
        }
    }

    /// What is wrong with the object, with the path of the field.
    #[must_use]
    pub fn problems(&self, object: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        for name in ["spec", "status"] {
            let schema = &self.0["properties"][name];
            match object.get(name) {
                Some(value) => check(value, schema, name, &mut problems),
                None if is_required(&self.0, name) => {
                    problems.push(format!("{name}: Required value"));
                }
                None => {}
            }
        }
        problems
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

fn check(value: &Value, schema: &Value, path: &str, problems: &mut Vec<String>) {
    if let Some(wrong) = wrong_type(value, schema) {
        problems.push(format!("{path}: Invalid value: {wrong}"));
        return;
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        problems.push(format!("{path}: Unsupported value: {value}"));
    }
    let mut outside = |problem: &str| problems.push(format!("{path}: {problem}"));
    let within = |size: Option<u64>, least: &str, most: &str| {
        let least = schema[least].as_u64().zip(size);
        let most = schema[most].as_u64().zip(size);
        least.is_none_or(|(least, size)| least <= size)
            && most.is_none_or(|(most, size)| size <= most)
    };
    let count = |value: usize| u64::try_from(value).ok();
    match value {
        Value::String(text) => {
            if !within(count(text.chars().count()), "minLength", "maxLength") {
                outside("Invalid value: it is too short or too long");
            }
            if schema["format"] == "date-time" && text.parse::<jiff::Timestamp>().is_err() {
                outside("Invalid value: it must be a date-time");
            }
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or_default();
            let least = schema["minimum"].as_f64();
            let most = schema["maximum"].as_f64();
            if least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most) {
                outside("Invalid value: it is too small or too large");
            }
        }
        Value::Array(items) => {
            if !within(count(items.len()), "minItems", "maxItems") {
                outside("Invalid value: it has too few or too many items");
            }
            if let Some(twice) = repeated(items, schema) {
                outside(&format!("Duplicate value: {twice}"));
            }
            for (index, item) in items.iter().enumerate() {
                check(
                    item,
                    &schema["items"],
                    &format!("{path}[{index}]"),
                    problems,
                );
            }
        }
        Value::Object(fields) => check_fields(fields, schema, path, problems),
        _ => {}
    }
}

fn check_fields(
    fields: &Map<String, Value>,
    schema: &Value,
    path: &str,
    problems: &mut Vec<String>,
) {
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        if !fields.contains_key(name) {
            problems.push(format!("{path}.{name}: Required value"));
        }
    }
    for (name, value) in fields {
        let schema = match properties(schema) {
            Some(properties) => &properties[name],
            None => &schema["additionalProperties"],
        };
        check(value, schema, &format!("{path}.{name}"), problems);
    }
}

fn wrong_type(value: &Value, schema: &Value) -> Option<String> {
    if schema["x-kubernetes-int-or-string"] == true {
        return (!value.is_i64() && !value.is_string()).then(|| value.to_string());
    }
    let right = match schema["type"].as_str()? {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => true,
    };
    let right = right || (value.is_null() && schema["nullable"] == true);
    (!right).then(|| format!("{value}: must be of type {}", schema["type"]))
}

/// What a list has twice that may have it only once.
fn repeated(items: &[Value], schema: &Value) -> Option<Value> {
    let key = |item: &Value| -> Option<Value> {
        match schema["x-kubernetes-list-type"].as_str()? {
            "set" => Some(item.clone()),
            "map" => {
                let keys = schema["x-kubernetes-list-map-keys"].as_array()?;
                let values = keys
                    .iter()
                    .filter_map(|key| item.get(key.as_str()?).cloned());
                Some(values.collect())
            }
            _ => None,
        }
    };
    let keys: Vec<Value> = items.iter().filter_map(key).collect();
    let twice = |(at, one): (usize, &Value)| keys[..at].contains(one).then(|| one.clone());
    keys.iter().enumerate().find_map(twice)
}
