//! Selectors: of fields (`spec.nodeName=worker-1,metadata.name!=x`), and of labels (`a=b,c in (d,e),!f`).

use crate::kinds::{Kind, POD};
use serde_json::Value;

/// What an object must say to be listed. Empty: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    path: Vec<String>,
    wanted: Wanted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    /// One of these is there.
    OneOf(Vec<String>),
    /// None of these is there.
    NoneOf(Vec<String>),
    /// Whatever it says.
    There,
    /// It is not there.
    Absent,
}

impl Selector {
    /// Reads both selectors of a request.
    ///
    /// # Errors
    /// What the API server has against them.
    pub fn parse(kind: &Kind, fields: &str, labels: &str) -> Result<Self, String> {
        let fields = parts(fields).map(|part| field(kind, part));
        let labels = parts(labels).map(label);
        fields.chain(labels).collect::<Result<_, _>>().map(Self)
    }

    /// Does the object say so?
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|term| {
            let path = term.path.iter();
            let found = path.fold(object, |at, part| &at[part.as_str()]).as_str();
            let is_one = |of: &[String]| of.iter().any(|it| found == Some(it.as_str()));
            match &term.wanted {
                Wanted::OneOf(values) => is_one(values),
                Wanted::NoneOf(values) => !is_one(values),
                Wanted::There => found.is_some(),
                Wanted::Absent => found.is_none(),
            }
        })
    }
}

/// What commas part, but for those in a list of values.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let parts = text.split(move |letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

/// `path=value`, `path==value` or `path!=value`; to a selector a field that is absent is empty.
fn field(kind: &Kind, text: &str) -> Result<Term, String> {
    let (path, value, is_equal) = equation(text)
        .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{text}'"))?;
    let is_known = match path {
        "metadata.name" => true,
        "metadata.namespace" => kind.namespaced,
        "spec.nodeName" | "status.phase" => *kind == POD,
        _ => false,
    };
    if !is_known {
        return Err(format!("field label not supported: {path}"));
    }
    let path = path.split('.').map(str::to_owned).collect();
    let value = vec![value.to_owned()];
    let wanted = match (is_equal, value[0].is_empty()) {
        (true, false) => Wanted::OneOf(value),
        (false, false) => Wanted::NoneOf(value),
        // The API server stores no empty text in any of these.
        (true, true) => Wanted::Absent,
        (false, true) => Wanted::There,
    };
    Ok(Term { path, wanted })
}

/// What a field's selector can say of a label, and `key`, `!key`, `key in (a,b)` and `key notin (a,b)`.
fn label(text: &str) -> Result<Term, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (key, wanted) = match (equation(text), words.as_slice()) {
        (Some((key, value, true)), _) => (key, Wanted::OneOf(vec![value.to_owned()])),
        (Some((key, value, false)), _) => (key, Wanted::NoneOf(vec![value.to_owned()])),
        (None, [key]) => match key.strip_prefix('!') {
            Some(key) => (key, Wanted::Absent),
            None => (*key, Wanted::There),
        },
        (None, [key, how, ..]) => {
            let values = text
                .split_once('(')
                .and_then(|(_, rest)| rest.strip_suffix(')'));
            let values = values.ok_or_else(|| format!("unable to parse requirement: {text}"))?;
            let values = values
                .split(',')
                .map(|value| value.trim().to_owned())
                .collect();
            match *how {
                "in" => (*key, Wanted::OneOf(values)),
                "notin" => (*key, Wanted::NoneOf(values)),
                _ => return Err(format!("unable to parse requirement: {text}")),
            }
        }
        (None, []) => return Err("unable to parse requirement".to_owned()),
    };
    let path = ["metadata", "labels", key].map(str::to_owned);
    Ok(Term {
        path: path.to_vec(),
        wanted,
    })
}

fn equation(text: &str) -> Option<(&str, &str, bool)> {
    let (name, value, is_equal) = match text.split_once("!=") {
        Some((name, value)) => (name, value, false),
        None => {
            let (name, value) = text.split_once("==").or_else(|| text.split_once('='))?;
            (name, value, true)
        }
    };
    Some((name.trim(), value.trim(), is_equal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::NODE;
    use serde_json::json;

    #[test]
    fn what_a_pod_does_not_say_is_empty() {
        let pod = json!({"metadata": {"name": "x"}, "spec": {"nodeName": "a"}});
        let matches = |text| {
            Selector::parse(&POD, text, "")
                .expect("a selector")
                .matches(&pod)
        };
        assert!(matches("spec.nodeName=a"));
        assert!(matches("spec.nodeName==a,metadata.name=x"));
        assert!(matches("spec.nodeName=a,status.phase="));
        assert!(!matches("spec.nodeName!=a"));
        assert!(!matches("spec.nodeName="));
        assert!(matches("spec.nodeName!="));
        assert!(Selector::parse(&POD, "spec.nodeName", "").is_err());
        assert!(Selector::parse(&NODE, "spec.nodeName=a", "").is_err());
    }

    #[test]
    fn labels_are_selected_by_lists_and_by_presence() {
        let node = json!({"metadata": {"labels": {"a.example.com/b": "c"}}});
        let matches = |text| {
            Selector::parse(&NODE, "", text)
                .expect("a selector")
                .matches(&node)
        };
        for text in [
            "a.example.com/b=c",
            "a.example.com/b in (d, c)",
            "a.example.com/b,!x",
            "x!=y",
            "x notin (c,d),a.example.com/b!=d",
        ] {
            assert!(matches(text), "{text}");
        }
        for text in [
            "x",
            "!a.example.com/b",
            "x in (c)",
            "a.example.com/b notin (c)",
            "x=",
        ] {
            assert!(!matches(text), "{text}");
        }
        assert!(Selector::parse(&NODE, "", "a near (b)").is_err());
    }
}
