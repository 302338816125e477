//! Field selectors, as far as they are used: `spec.nodeName=worker-1,metadata.name=x`, with `=`, `==` and `!=`.

use serde_json::Value;

/// What an object must say to be listed. Empty: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    path: Vec<String>,
    value: String,
    equal: bool,
}

impl Selector {
    /// Reads one.
    ///
    /// # Errors
    /// The term that cannot be read.
    pub fn parse(text: &str) -> Result<Self, String> {
        let term = |term: &str| {
            let (path, value, equal) = match term.split_once("!=") {
                Some((path, value)) => (path, value, false),
                None => match term.split_once("==").or_else(|| term.split_once('=')) {
                    Some((path, value)) => (path, value, true),
                    None => return Err(term.to_owned()),
                },
            };
            Ok(Term {
                path: path.split('.').map(str::to_owned).collect(),
                value: value.to_owned(),
                equal,
            })
        };
        let terms = text.split(',').filter(|it| !it.is_empty()).map(term);
        terms.collect::<Result<_, _>>().map(Self)
    }

    /// Does the object say so?
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|term| {
            let found = term.path.iter().fold(object, |at, part| &at[part.as_str()]);
            (found.as_str().unwrap_or_default() == term.value) == term.equal
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_said_is_empty() {
        let pod = json!({"spec": {"nodeName": "a"}});
        let matches = |text| Selector::parse(text).expect("a selector").matches(&pod);
        assert!(matches("spec.nodeName=a"));
        assert!(matches("spec.nodeName==a,metadata.name="));
        assert!(!matches("spec.nodeName!=a"));
        assert!(!matches("spec.nodeName="));
        assert!(Selector::parse("spec.nodeName").is_err());
    }
}
