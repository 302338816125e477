//! The name of an object as it is typed: alone, or as kubectl prints it, `nodefence/worker-3-5c0ffee5`.

/// A kind, as kubectl knows it: the name that it prints first.
type Kind = &'static [&'static str];

const NODE: Kind = &["node", "nodes", "no"];
const FENCE: Kind = &["nodefence", "nodefences", "nf"];
const POLICY: Kind = &["nodefencingpolicy", "nodefencingpolicies", "nfp"];

/// The name of a Node.
///
/// # Errors
/// Another kind stands before it, or there is none.
pub fn node(text: &str) -> Result<String, String> {
    of(text, &[NODE])
}

/// What names an incident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incident {
    /// The name.
    pub name: String,
    /// Whose it is.
    pub of: Named,
}

/// Whose name it is, by what stood before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// Nothing stood there.
    Either,
    /// The Node's.
    Node,
    /// The NodeFence's.
    NodeFence,
}

impl From<&str> for Incident {
    fn from(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            of: Named::Either,
        }
    }
}

impl std::fmt::Display for Incident {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// The name of a NodeFence, or of its Node.
///
/// # Errors
/// As [`node`].
pub fn incident(text: &str) -> Result<Incident, String> {
    let name = of(text, &[NODE, FENCE])?;
    let of = match text.contains('/') {
        false => Named::Either,
        true if of(text, &[NODE]).is_ok() => Named::Node,
        true => Named::NodeFence,
    };
    Ok(Incident { name, of })
}

/// The name of a policy.
///
/// # Errors
/// As [`node`].
pub fn policy(text: &str) -> Result<String, String> {
    of(text, &[POLICY])
}

/// The name of a Node, a NodeFence or a policy.
///
/// # Errors
/// As [`node`].
pub fn any(text: &str) -> Result<String, String> {
    of(text, &[NODE, FENCE, POLICY])
}

fn of(text: &str, kinds: &[Kind]) -> Result<String, String> {
    let (kind, name) = match text.split_once('/') {
        Some((kind, name)) => (Some(kind), name),
        None => (None, text),
    };
    let kind = kind.map(|it| it.split_once('.').map_or(it, |(kind, _)| kind));
    let is_one = kind.is_none_or(|kind| kinds.iter().any(|it| it.contains(&kind)));
    if is_one && !name.is_empty() && !name.contains('/') {
        return Ok(name.to_owned());
    }
    let printed = kinds.iter().filter_map(|it| it.first());
    let printed: Vec<String> = printed.map(|it| format!("{it}/NAME")).collect();
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
            assert_eq!(any(text), Ok("w-1".to_owned()), "{text}");
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
            ("w-1", Named::Either),
            ("node/w-1", Named::Node),
            ("nodefence.nodefencing.io/w-1", Named::NodeFence),
        ] {
            let name = "w-1".to_owned();
            assert_eq!(incident(text), Ok(Incident { name, of }), "{text}");
        }
    }
}
