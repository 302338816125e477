//! What must hold before the operator can do its work: the API server's version, our custom resources, our rights.
//!
//! The first two end the process with the way out, because only a human can change them. Missing rights do not: an operator
//! that may do half of its work and says so is worth more than one that is down.

mod callers;
mod early_detection;
mod headroom;
mod network_fence;

pub use callers::CALLERS_RIGHTS;
pub use early_detection::EARLY_DETECTION_RIGHTS;
pub use headroom::HEADROOM_RIGHTS;
pub use network_fence::{NETWORK_FENCE_RIGHTS, ON_NETWORK_FENCES};

use super::client::{AskError, Clients};
use fencing_api::names;
use fencing_api::{GROUP, VERSION};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::api::PostParams;
use kube::{Api, Client};
use std::fmt;

/// Oldest Kubernetes: `(major, minor)`. The out-of-service taint is stable from 1.28 on, but the guard around what a stolen token
/// of the operator could do to Nodes, and the check who gives a human's word (S21), are ValidatingAdmissionPolicies
/// (`deploy/admission.yaml`), which 1.30 is the first to serve as `v1`. Below it, whoever may edit a NodeFence could say in anybody's
/// name that a machine is down.
const KUBERNETES_MIN: (u32, u32) = (1, 30);
/// Oldest minor version that has been run.
const KUBERNETES_TRIED: u32 = 34;
/// What [`missing_rights`] asks the API server.
pub const RIGHTS_ASKED: &str = "about the operator's rights";
/// Questions about our rights that are asked at the same time.
const REVIEWS_AT_ONCE: usize = 8;

/// What stands in the way, for good.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not answer as it should; worth another try.
    #[error(
        "failed to ask the API server {server} {what}: {source}; check `server` and the user of the kubeconfig, or the pod's service account"
    )]
    Ask {
        /// Its URL.
        server: String,
        /// What was asked.
        what: &'static str,
        /// Why there is no answer.
        source: AskError,
    },
    /// Too old.
    #[error(
        "the API server is Kubernetes {found}, and node-fencing-operator requires {}.{} or newer (ValidatingAdmissionPolicy v1, see deploy/admission.yaml); upgrade the cluster",
        KUBERNETES_MIN.0, KUBERNETES_MIN.1
    )]
    TooOld {
        /// Its version.
        found: String,
    },
    /// Our custom resources are not there, or another version of them.
    #[error(
        "the API server does not serve {} as {GROUP}/{VERSION}; apply the CustomResourceDefinitions of this version (kubectl apply -k crds, or helm upgrade)",
        .missing.join(", ")
    )]
    NotInstalled {
        /// Plural names of what is missing.
        missing: Vec<&'static str>,
    },
}

impl Error {
    /// May another try succeed without a human?
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Ask { .. })
    }
}

/// The API server did not answer this.
pub fn unanswered(clients: &Clients, what: &'static str, source: AskError) -> Error {
    Error::Ask {
        server: clients.server.clone(),
        what,
        source,
    }
}

/// The API server is new enough and serves our custom resources. Gives its version.
///
/// # Errors
/// [`Error`].
pub async fn cluster(clients: &Clients) -> Result<String, Error> {
    let version = version(clients).await?;
    let group_version = format!("{GROUP}/{VERSION}");
    let listed = clients.reads.list_api_group_resources(&group_version).await;
    let served = match listed {
        Ok(list) => list.resources.into_iter().map(|one| one.name).collect(),
        Err(kube::Error::Api(status)) if status.code == 404 => vec![],
        Err(source) => {
            let what = "for its custom resources";
            return Err(unanswered(clients, what, source.into()));
        }
    };
    installed(&served)?;
    Ok(version)
}

/// The API server is new enough. Gives its version.
///
/// # Errors
/// [`Error::Ask`], [`Error::TooOld`].
pub async fn version(clients: &Clients) -> Result<String, Error> {
    let version = clients.reads.apiserver_version().await;
    let version = version.map_err(|it| unanswered(clients, "for its version", it.into()))?;
    new_enough(&version)?;
    Ok(version.git_version)
}

fn new_enough(version: &Info) -> Result<(), Error> {
    // Providers write the minor version as `30+`.
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    };
    match (number(&version.major), number(&version.minor)) {
        (Some(major), Some(minor)) if (major, minor) >= KUBERNETES_MIN => Ok(()),
        _ => Err(Error::TooOld {
            found: version.git_version.clone(),
        }),
    }
}

/// Has this version (`v1.31.2`) not been run with this operator?
#[must_use]
pub fn is_untried(version: &str) -> bool {
    let minor = version
        .strip_prefix("v1.")
        .and_then(|it| it.split('.').next());
    let minor = minor.and_then(|it| it.parse::<u32>().ok());
    minor.is_some_and(|minor| minor < KUBERNETES_TRIED)
}

fn installed(served: &[String]) -> Result<(), Error> {
    const NEEDED: [&str; 6] = [
        "nodefencingpolicies",
        "nodefencingpolicies/status",
        "fencedevices",
        "fencedevices/status",
        "nodefences",
        "nodefences/status",
    ];
    let missing: Vec<_> = NEEDED
        .into_iter()
        .filter(|name| !served.iter().any(|one| one == name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::NotInstalled { missing })
}

/// Where a right is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In the whole cluster.
    Cluster,
    /// In the operator's own namespace.
    Own,
    /// In this namespace.
    Namespace(&'static str),
}

/// Verbs on a resource that the operator needs.
#[derive(Debug, Clone, Copy)]
pub struct Right {
    /// API group, empty for the core.
    pub group: &'static str,
    /// Resource, with its subresource: `nodefences/status`.
    pub resource: &'static str,
    /// Verbs.
    pub verbs: &'static [&'static str],
    /// Where.
    pub scope: Scope,
    /// On this object only.
    pub name: Option<&'static str>,
}

/// All that the operator needs and `deploy/rbac.yaml` grants; a test compares the two.
pub const RIGHTS: &[Right] = &[
    right(
        "",
        "nodes",
        &["get", "list", "watch", "patch"],
        Scope::Cluster,
    ),
    right("", "pods", &["get", "list", "delete"], Scope::Cluster),
    right("", "persistentvolumeclaims", &["get"], Scope::Cluster),
    right(
        "storage.k8s.io",
        "volumeattachments",
        &["list", "watch"],
        Scope::Cluster,
    ),
    right(
        GROUP,
        "nodefencingpolicies",
        &["list", "watch"],
        Scope::Cluster,
    ),
    right(GROUP, "fencedevices", &["list", "watch"], Scope::Cluster),
    right(
        GROUP,
        "nodefences",
        &["get", "list", "watch", "create", "delete"],
        Scope::Cluster,
    ),
    right(
        GROUP,
        "nodefencingpolicies/status",
        &["patch"],
        Scope::Cluster,
    ),
    right(GROUP, "fencedevices/status", &["patch"], Scope::Cluster),
    right(GROUP, "nodefences/status", &["patch"], Scope::Cluster),
    right(
        "coordination.k8s.io",
        "leases",
        &["get"],
        Scope::Namespace("kube-node-lease"),
    ),
    Right {
        name: Some(names::LEASE),
        ..right(
            "coordination.k8s.io",
            "leases",
            &["get", "create", "update"],
            Scope::Own,
        )
    },
    right(
        "events.k8s.io",
        "events",
        &["create", "patch"],
        Scope::Namespace("default"),
    ),
    right("", "secrets", &["get"], Scope::Own),
    right("", "configmaps", &["get"], Scope::Own),
];

/// What `recovery.strategy: DeleteNode` takes besides, and `deploy/delete-node` grants.
pub const DELETION_RIGHTS: &[Right] = &[
    right("", "nodes", &["delete"], Scope::Cluster),
    right(
        "storage.k8s.io",
        "volumeattachments",
        &["delete"],
        Scope::Cluster,
    ),
];

const fn right(
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
    scope: Scope,
) -> Right {
    Right {
        group,
        resource,
        verbs,
        scope,
        name: None,
    }
}

/// One verb that is missing: `patch nodes`, `get leases.coordination.k8s.io in namespace kube-node-lease`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    verb: &'static str,
    resource: String,
    namespace: Option<String>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

/// Which of our rights are missing, in the order of [`RIGHTS`]. To ask needs no right.
///
/// # Errors
/// [`Error::Ask`].
pub async fn missing_rights(clients: &Clients, own_namespace: &str) -> Result<Vec<Missing>, Error> {
    missing_of(&clients.reads, own_namespace, RIGHTS)
        .await
        .map_err(|error| unanswered(clients, RIGHTS_ASKED, error))
}

/// Which of these rights are missing, in their order.
///
/// # Errors
/// [`AskError`].
pub async fn missing_of(
    client: &Client,
    own_namespace: &str,
    rights: &[Right],
) -> Result<Vec<Missing>, AskError> {
    let mut questions = vec![];
    // Whether Secrets may be read cannot be asked where the role names them one by one. One that may not is told of by its device.
    for right in rights.iter().filter(|it| it.resource != "secrets") {
        for verb in right.verbs {
            questions.push(missing(client, own_namespace, right, verb));
        }
    }
    let answers: Vec<_> = stream::iter(questions)
        .buffered(REVIEWS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(answers.into_iter().flatten().collect())
}

async fn missing(
    client: &Client,
    own_namespace: &str,
    right: &Right,
    verb: &'static str,
) -> Result<Option<Missing>, kube::Error> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = review(right, verb, own_namespace);
    let answer = reviews.create(&PostParams::default(), &review).await?;
    let allowed = answer.status.is_some_and(|status| status.allowed);
    Ok((!allowed).then(|| described(right, verb, own_namespace)))
}

fn described(right: &Right, verb: &'static str, own_namespace: &str) -> Missing {
    let resource = match right.group {
        "" => right.resource.to_owned(),
        group => {
            let (resource, rest) = right
                .resource
                .split_once('/')
                .unwrap_or((right.resource, ""));
            let slash = if rest.is_empty() { "" } else { "/" };
            format!("{resource}.{group}{slash}{rest}")
        }
    };
    Missing {
        verb,
        resource,
        namespace: namespace(right.scope, own_namespace),
    }
}

fn namespace(scope: Scope, own_namespace: &str) -> Option<String> {
    match scope {
        Scope::Cluster => None,
        Scope::Own => Some(own_namespace.to_owned()),
        Scope::Namespace(name) => Some(name.to_owned()),
    }
}

fn review(right: &Right, verb: &str, own_namespace: &str) -> SelfSubjectAccessReview {
    let (resource, subresource) = match right.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (right.resource, None),
    };
    SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(right.group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource,
                verb: Some(verb.to_owned()),
                namespace: namespace(right.scope, own_namespace),
                name: right.name.map(str::to_owned),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests;
