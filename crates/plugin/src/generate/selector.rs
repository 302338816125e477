//! Label selectors as kubectl's `-l` has them: `tier=bmc,zone in (a,b),!virtual`.

use fencing_api::selector::{LabelSelector, LabelSelectorRequirement, SelectorOperator};

const RULE: &str = "must be requirements such as key=value, key!=value, key in (a,b), key notin (a,b), key or !key, separated by commas";

/// Reads a selector; an empty text selects everything.
///
/// # Errors
/// The rule, in words.
pub fn selector(text: &str) -> Result<LabelSelector, String> {
    let mut selector = LabelSelector::default();
    for part in parts(text)? {
        let (key, operator, values) = requirement(part).ok_or(RULE)?;
        if !is_key(key) || !values.iter().all(|it| is_value(it)) {
            return Err(format!("`{part}`: {RULE}"));
        }
        let values: Vec<String> = values.into_iter().map(str::to_owned).collect();
        match (operator, values.as_slice()) {
            (None, [value]) => {
                selector.match_labels.insert(key.to_owned(), value.clone());
            }
            (operator, _) => selector.match_expressions.push(LabelSelectorRequirement {
                key: key.to_owned(),
                operator: operator.unwrap_or(SelectorOperator::In),
                values,
            }),
        }
    }
    Ok(selector)
}

/// What stands between the commas that are not in parentheses.
fn parts(text: &str) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let mut depth = 0_usize;
    let mut start = 0;
    for (at, sign) in text.char_indices() {
        match sign {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or(RULE)?,
            ',' if depth == 0 => {
                parts.push(text.get(start..at).unwrap_or_default().trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text.get(start..).unwrap_or_default().trim();
    if !(parts.is_empty() && last.is_empty()) {
        parts.push(last);
    }
    match depth {
        0 => Ok(parts),
        _ => Err(RULE.to_owned()),
    }
}

/// Key, operator (none: equality) and values.
fn requirement(part: &str) -> Option<(&str, Option<SelectorOperator>, Vec<&str>)> {
    use SelectorOperator as O;
    if let Some((key, rest)) = part.split_once(char::is_whitespace)
        && let Some((word, list)) = rest.trim().split_once('(')
    {
        let operator = match word.trim() {
            "in" => O::In,
            "notin" => O::NotIn,
            _ => return None,
        };
        let values = list.strip_suffix(')')?.split(',').map(str::trim);
        return Some((key, Some(operator), values.collect()));
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Some((key.trim(), Some(O::NotIn), vec![value.trim()]));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Some((key.trim(), None, vec![value.trim()]));
    }
    match part.strip_prefix('!') {
        Some(key) => Some((key.trim(), Some(O::DoesNotExist), Vec::new())),
        None => Some((part, Some(O::Exists), Vec::new())),
    }
}

/// One label, `key=value`.
///
/// # Errors
/// The rule, in words.
pub fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').unwrap_or_default();
    match is_key(key) && is_value(value) {
        true => Ok((key.to_owned(), value.to_owned())),
        false => Err("must be a label, key=value, such as tier=bmc".to_owned()),
    }
}

/// A label's key, with or without the prefix of whoever has made it up.
fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => {
            fencing_api::names::is_dns_name(prefix) && !name.is_empty() && is_value(name)
        }
        None => !key.is_empty() && is_value(key),
    }
}

fn is_value(value: &str) -> bool {
    let is_end = |sign: Option<char>| sign.is_none_or(|it| it.is_ascii_alphanumeric());
    let is_inside = |sign: char| sign.is_ascii_alphanumeric() || "-_.".contains(sign);
    value.len() <= 63
        && value.chars().all(is_inside)
        && is_end(value.chars().next())
        && is_end(value.chars().last())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_selector_is_written_as_kubectl_has_it() {
        let text = "tier=bmc, zone in (a, b),rack notin (r7),!virtual,node.io/gpu,env != test";
        let read = selector(text).expect("a selector");
        assert_eq!(
            serde_json::to_value(read).expect("JSON"),
            json!({
                "matchLabels": {"tier": "bmc"},
                "matchExpressions": [
                    {"key": "zone", "operator": "In", "values": ["a", "b"]},
                    {"key": "rack", "operator": "NotIn", "values": ["r7"]},
                    {"key": "virtual", "operator": "DoesNotExist"},
                    {"key": "node.io/gpu", "operator": "Exists"},
                    {"key": "env", "operator": "NotIn", "values": ["test"]},
                ],
            })
        );
        assert_eq!(selector(" "), Ok(LabelSelector::default()));
    }

    #[test]
    fn what_is_no_selector_is_refused_with_the_rule() {
        for text in [
            "a b", "=x", "a in b", "a in (b", "a)", ",", "a=b c", "a=ä", "/x", "a,,b",
        ] {
            let error = selector(text).expect_err(text);
            assert!(error.contains("must be requirements"), "{text}: {error}");
        }
        assert!(label("tier").is_err() && label("tier=bmc").is_ok());
    }
}
