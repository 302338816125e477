//! The name of an object as it is typed: alone, or as kubectl prints it, `nodefence/worker-3-5c0ffee5`.

/// What a name may be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A Node.
    Node,
    /// A NodeFence.
    NodeFence,
    /// A NodeFencingPolicy.
    Policy,
}

impl Kind {
    /// What kubectl calls it: the name that it prints first.
    fn names(self) -> [&'static str; 3] {
        match self {
            Self::Node => ["node", "nodes", "no"],
            Self::NodeFence => ["nodefence", "nodefences", "nf"],
            Self::Policy => ["nodefencingpolicy", "nodefencingpolicies", "nfp"],
        }
    }
}

/// A name as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub name: String,
    /// What stood before it; none: it may be of any kind that the command takes.
    pub of: Option<Kind>,
}

impl Name {
    /// Does it name the object of this kind and name?
    pub fn is(&self, kind: Kind, name: &str) -> bool {
        self.of.is_none_or(|it| it == kind) && self.name == name
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            of: None,
        }
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// The name of a Node.
///
/// # Errors
/// Another kind stands before it, or there is none.
pub fn node(text: &str) -> Result<String, String> {
    of(text, &[Kind::Node]).map(|it| it.name)
}

/// The name of a NodeFence, or of its Node.
///
/// # Errors
/// As [`node`].
pub fn incident(text: &str) -> Result<Name, String> {
    of(text, &[Kind::Node, Kind::NodeFence])
}

/// The name of a policy.
///
/// # Errors
/// As [`node`].
pub fn policy(text: &str) -> Result<String, String> {
    of(text, &[Kind::Policy]).map(|it| it.name)
}

/// The name of a Node, a NodeFence or a policy.
///
/// # Errors
/// As [`node`].
pub fn any(text: &str) -> Result<Name, String> {
    of(text, &[Kind::Node, Kind::NodeFence, Kind::Policy])
}

fn of(text: &str, kinds: &[Kind]) -> Result<Name, String> {
    let (kind, name) = match text.split_once('/') {
        Some((kind, name)) => (Some(kind), name),
        None => (None, text),
    };
    let kind = kind.map(|it| it.split_once('.').map_or(it, |(kind, _)| kind));
    let of = kind.and_then(|kind| kinds.iter().find(|it| it.names().contains(&kind)));
    if of.is_some() == kind.is_some() && !name.is_empty() && !name.contains('/') {
        let (name, of) = (name.to_owned(), of.copied());
        return Ok(Name { name, of });
    }
    let printed = kinds.iter().map(|it| it.names());
    let printed: Vec<String> = printed.map(|[it, ..]| format!("{it}/NAME")).collect();
    Err(format!(
        "must be a name, or as kubectl prints it: {}",
        printed.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubectl_prints_is_taken_as_it_stands() {
        for text in [
            "w-1",
            "node/w-1",
            "no/w-1",
            "nodefence/w-1",
            "nodefence.nodefencing.io/w-1",
            "nf/w-1",
            "nodefencingpolicy.nodefencing.io/w-1",
        ] {
            assert_eq!(any(text).map(|it| it.name), Ok("w-1".to_owned()), "{text}");
        }
        for text in ["", "pod/w-1", "node/", "node/a/b", "/w-1"] {
            assert!(any(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_kind_that_the_command_does_not_take_is_refused_with_those_that_it_takes() {
        for (parser, taken) in [
            (node as fn(&str) -> Result<String, String>, "node/NAME"),
            (
                |it| incident(it).map(|it| it.name),
                "node/NAME, nodefence/NAME",
            ),
            (policy, "nodefencingpolicy/NAME"),
        ] {
            let refused = ["no/w", "nf/w", "nfp/w"].map(|it| parser(it).err());
            for words in refused.iter().flatten() {
                assert!(words.ends_with(&format!("prints it: {taken}")), "{words}");
            }
            let count = refused.iter().flatten().count();
            assert_eq!(count, 3 - taken.split(", ").count());
        }
    }

    #[test]
    fn what_stands_before_a_name_says_whose_it_is() {
        for (text, of) in [
            ("w-1", None),
            ("node/w-1", Some(Kind::Node)),
            ("nodefence.nodefencing.io/w-1", Some(Kind::NodeFence)),
            ("nfp/w-1", Some(Kind::Policy)),
        ] {
            let name = "w-1".to_owned();
            assert_eq!(any(text), Ok(Name { name, of }), "{text}");
        }
    }
}
