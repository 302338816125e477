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

/// The name of a NodeFence, or of its Node.
///
/// # Errors
/// As [`node`].
pub fn incident(text: &str) -> Result<String, String> {
    of(text, &[NODE, FENCE])
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
            (incident, "node/NAME, nodefence/NAME"),
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
}
