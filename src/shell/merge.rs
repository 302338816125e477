//! JSON merge patches (RFC 7386) of a status: only what has changed, with `null` for what is gone.
//!
//! A whole status as a merge patch would leave behind every field that is no longer there. And the `resourceVersion` that the
//! new status was derived from goes with it, so that a write based on an older state is refused (409) and derived anew.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// The patch that makes `old` into `new`; none when they are the same.
fn difference(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return Some(new.clone());
    };
    let mut patch = Map::new();
    for (key, value) in new {
        let change = match old.get(key) {
            Some(before) => difference(before, value),
            None => Some(value.clone()),
        };
        patch.extend(change.map(|change| (key.clone(), change)));
    }
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    patch.extend(gone.map(|key| (key.clone(), Value::Null)));
    Some(Value::Object(patch))
}

/// Merge patch of `/status` that takes an object of this `resourceVersion` from `old` to `new`; none when they are the same.
pub fn status_patch<S: Serialize>(
    version: Option<&str>,
    old: Option<&S>,
    new: &S,
) -> Option<Value> {
    let old = old.and_then(|old| serde_json::to_value(old).ok());
    let new = serde_json::to_value(new).ok()?;
    let change = difference(&old.unwrap_or_else(|| json!({})), &new)?;
    Some(json!({
        "metadata": {"resourceVersion": version},
        "status": change,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_changed_and_null_for_what_is_gone() {
        let old = json!({"same": 1, "changed": 1, "gone": 1, "deep": {"same": 1, "gone": 2}, "list": [1]});
        let new = json!({"same": 1, "changed": 2, "new": 3, "deep": {"same": 1}, "list": [1, 2]});
        let expected =
            json!({"changed": 2, "gone": null, "new": 3, "deep": {"gone": null}, "list": [1, 2]});
        let patch = difference(&old, &new);
        assert_eq!(patch, Some(expected.clone()));
        let mut patched = old;
        json_patch::merge(&mut patched, &expected);
        assert_eq!(patched, new);
    }

    #[test]
    fn the_same_is_no_patch() {
        let one = json!({"a": {"b": [1, {"c": null}]}});
        assert_eq!(difference(&one, &one.clone()), None);
        assert_eq!(status_patch(Some("7"), Some(&one), &one), None);
    }

    #[test]
    fn a_status_is_patched_on_the_version_that_it_was_derived_from() {
        let patch = status_patch(Some("7"), Some(&json!({"a": 1})), &json!({"b": 2}));
        let expected = json!({"metadata": {"resourceVersion": "7"}, "status": {"a": null, "b": 2}});
        assert_eq!(patch, Some(expected));
    }
}
