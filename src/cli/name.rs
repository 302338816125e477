//! The name of an object as it is typed: alone, or as kubectl prints it, `nodefence/worker-3-5c0ffee5`.

/// Kinds whose names are typed, as kubectl knows them.
const KINDS: [&str; 9] = [
    "node",
    "nodes",
    "no",
    "nodefence",
    "nodefences",
    "nf",
    "nodefencingpolicy",
    "nodefencingpolicies",
    "nfp",
];

/// The name in it.
///
/// # Errors
/// Another kind stands before it, or there is none.
pub fn name(text: &str) -> Result<String, String> {
    let (kind, name) = text.split_once('/').unwrap_or(("node", text));
    let kind = kind.split_once('.').map_or(kind, |(kind, _)| kind);
    match KINDS.contains(&kind) && !name.is_empty() && !name.contains('/') {
        true => Ok(name.to_owned()),
        false => {
            Err("must be a name, or as kubectl prints it: node/NAME, nodefence/NAME".to_owned())
        }
    }
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
            assert_eq!(name(text), Ok("w-1".to_owned()), "{text}");
        }
        for text in ["", "pod/w-1", "node/", "node/a/b", "/w-1"] {
            assert!(name(text).is_err(), "{text}");
        }
    }
}
