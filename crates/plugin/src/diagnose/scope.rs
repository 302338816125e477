//! What a user asks about: the cluster, a namespace, or one pod, claim or node; and which findings concern that.

use super::finding::{Finding, Object};
use super::index::Index;
use fencing_cluster::slim::SlimPod;
use std::collections::BTreeSet;

/// A kind that can be asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A pod.
    Pod,
    /// A PersistentVolumeClaim.
    Claim,
    /// A Node.
    Node,
}

impl Kind {
    /// As kubectl abbreviates it.
    pub fn of(word: &str) -> Option<Self> {
        match word.to_lowercase().as_str() {
            "pod" | "pods" | "po" => Some(Self::Pod),
            "pvc" | "persistentvolumeclaim" | "persistentvolumeclaims" => Some(Self::Claim),
            "node" | "nodes" | "no" => Some(Self::Node),
            _ => None,
        }
    }

    /// As the API has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Claim => "PersistentVolumeClaim",
            Self::Node => "Node",
        }
    }
}

/// The words of the command line as kubectl takes them: `TYPE/NAME` or `TYPE NAME`.
///
/// # Errors
/// The rule, in words.
pub fn subject(words: &[String]) -> Result<Option<(Kind, String)>, String> {
    let pair = match words {
        [] => return Ok(None),
        [one] => one.split_once('/'),
        [kind, name] => Some((kind.as_str(), name.as_str())),
        _ => None,
    };
    let said = words.join(" ");
    let rule = || {
        format!("`{said}` must be one object: pod/NAME, pvc/NAME or node/NAME, or as in `pod NAME`")
    };
    let (kind, name) = pair.ok_or_else(rule)?;
    let kind = Kind::of(kind).ok_or_else(rule)?;
    match name.is_empty() || name.contains('/') {
        true => Err(rule()),
        false => Ok(Some((kind, name.to_owned()))),
    }
}

/// What is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// A namespace.
    Namespace(String),
    /// An object; of a node the namespace counts for nothing.
    One(Kind, String, String),
}

impl Scope {
    /// The one namespace that it is about.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::All | Self::One(Kind::Node, ..) => None,
            Self::Namespace(namespace) | Self::One(_, namespace, _) => Some(namespace),
        }
    }

    /// In words.
    pub fn told(&self) -> String {
        match self {
            Self::All => "in the cluster".to_owned(),
            Self::Namespace(namespace) => format!("in namespace {namespace}"),
            Self::One(Kind::Node, _, name) => format!("about node {name}"),
            Self::One(kind, namespace, name) => {
                format!("about {} {namespace}/{name}", kind.name())
            }
        }
    }

    /// Is the object there? Not where that is not known.
    pub fn is_there(&self, index: &Index<'_>) -> bool {
        match self {
            Self::All | Self::Namespace(_) => true,
            // A Node that was deleted with volumes attached is what D7 is about.
            Self::One(Kind::Node, _, name) => {
                index.node(name).is_some() || !index.attachments_on(name).is_empty()
            }
            Self::One(Kind::Claim, namespace, name) => index.claim(namespace, name).is_some(),
            Self::One(Kind::Pod, namespace, name) => index.pod(namespace, name).is_some(),
        }
    }

    /// The findings that concern it.
    pub fn of_it(&self, index: &Index<'_>, findings: Vec<Finding>) -> Vec<Finding> {
        let own = self.objects(index);
        let concerns = |it: &Finding| it.objects.iter().any(|it| self.has(index, &own, it));
        findings.into_iter().filter(concerns).collect()
    }

    /// The pods of these that it is about.
    pub fn pods_of_it<'a>(&self, index: &Index<'_>, pods: Vec<&'a SlimPod>) -> Vec<&'a SlimPod> {
        let own = self.objects(index);
        let concerns = |it: &&SlimPod| self.has(index, &own, &Object::pod(it));
        pods.into_iter().filter(concerns).collect()
    }

    /// Of one object: itself, and what hangs on it.
    fn objects(&self, index: &Index<'_>) -> BTreeSet<Object> {
        match self {
            Self::All | Self::Namespace(_) => BTreeSet::new(),
            Self::One(Kind::Node, _, name) => BTreeSet::from([Object::node(name)]),
            Self::One(Kind::Claim, namespace, name) => of_claim(index, namespace, name),
            Self::One(Kind::Pod, namespace, name) => of_pod(index, namespace, name),
        }
    }

    fn has(&self, index: &Index<'_>, own: &BTreeSet<Object>, object: &Object) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(namespace) => is_of(index, object, namespace),
            Self::One(..) => own.contains(object),
        }
    }
}

/// Is it of the namespace: in it, or a volume that is bound to a claim of it?
fn is_of(index: &Index<'_>, object: &Object, namespace: &str) -> bool {
    let is_in = object.namespace.as_deref() == Some(namespace);
    let is_bound = || {
        let claim = (object.kind == "pv")
            .then(|| index.claim_of(&object.name))
            .flatten();
        claim.is_some_and(|(of, _)| of == namespace)
    };
    is_in || is_bound()
}

fn of_claim(index: &Index<'_>, namespace: &str, name: &str) -> BTreeSet<Object> {
    let mut objects = bound(index, namespace, name);
    let users = index.users(namespace, name).iter();
    objects.extend(users.map(|it| Object::pod(it)));
    objects
}

fn of_pod(index: &Index<'_>, namespace: &str, name: &str) -> BTreeSet<Object> {
    let pod = index.pod(namespace, name);
    let claims = pod.into_iter().flat_map(SlimPod::claims);
    let mut objects: BTreeSet<Object> =
        claims.flat_map(|it| bound(index, namespace, &it)).collect();
    objects.extend(pod.map(Object::pod));
    objects
}

/// A claim, and its volume.
fn bound(index: &Index<'_>, namespace: &str, claim: &str) -> BTreeSet<Object> {
    let volume = index.volume_of(namespace, claim);
    let claim = Object::of("pvc", namespace, claim);
    std::iter::once(claim)
        .chain(volume.map(Object::volume))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_subject_is_named_as_kubectl_names_it() {
        let pod = Some((Kind::Pod, "db-0".to_owned()));
        assert_eq!(subject(&words(&["pod/db-0"])), Ok(pod.clone()));
        assert_eq!(subject(&words(&["po", "db-0"])), Ok(pod));
        let claim = Some((Kind::Claim, "data".to_owned()));
        assert_eq!(subject(&words(&["pvc/data"])), Ok(claim));
        assert_eq!(subject(&[]), Ok(None));
    }

    #[test]
    fn what_it_cannot_be_is_refused_with_the_rule() {
        for said in [
            &["db-0"][..],
            &["svc/web"],
            &["pod/"],
            &["pod/a/b"],
            &["pod/db-0", "pod/x"],
        ] {
            let refused = subject(&words(said)).expect_err("no subject");
            let rule = "must be one object: pod/NAME, pvc/NAME or node/NAME, or as in `pod NAME`";
            assert!(refused.contains(rule), "{refused}");
        }
    }
}
