//! Why the cluster has no answer, in words with the way out.

use fencing_cluster::client::AskError;
use kube::Resource;

/// Why the cluster has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no way to it.
    #[error("{0}; select a kubeconfig and context with which `kubectl get nodes` works")]
    Config(String),
    /// The user lacks a right.
    #[error(
        "{message}; ask an administrator for: kubectl create clusterrolebinding NAME --clusterrole={role} --user=YOU"
    )]
    Forbidden {
        /// The API server's words.
        message: String,
        /// A ClusterRole of the operator's that has the right.
        role: &'static str,
    },
    /// There is no object of this name.
    #[error("{kind} `{name}` does not exist; {way_out}")]
    Absent {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// What shows those that there are.
        way_out: String,
    },
    /// Somebody has changed the object since it was read: the operator, most of the time.
    #[error("{kind} {name} has changed meanwhile, nothing was changed; check it, then try again")]
    Changed {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// An operator of another version has written what this plugin does not know.
    #[error(
        "{kind} {name} cannot be read by this plugin: {why}; install the plugin of the operator's version, see `kubectl fence version`"
    )]
    Unreadable {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// What is not known.
        why: String,
    },
    /// The operator's custom resources are not there.
    #[error(
        "cluster {0} has no API group nodefencing.io; install the operator, or select another cluster with --context"
    )]
    NotInstalled(String),
    /// It does not take whoever asks for anybody.
    #[error(
        "cluster {0} rejected your login (Unauthorized); log in again, or select another context (kubectl auth whoami)"
    )]
    Unauthorized(String),
    /// The API server, or a policy of its, says no.
    #[error("{0}")]
    Refused(String),
    /// Nothing was asked.
    #[error(
        "failed to connect to {server}: {why}; check `server` of the kubeconfig (kubectl cluster-info), or select another --context"
    )]
    NoConnection {
        /// URL of the API server.
        server: String,
        /// The cause.
        why: String,
    },
    /// There was no answer, or none that says what was done.
    #[error(
        "{what}: {source}; check `kubectl get --raw /readyz`, --context and the kubeconfig, or set a longer --request-timeout"
    )]
    Unanswered {
        /// What was asked for.
        what: String,
        /// Why there is no answer.
        source: AskError,
    },
}

impl Error {
    /// [`Error::Unreadable`] of an object of this kind and name.
    pub(super) fn unreadable<K: Resource<DynamicType = ()>>(name: &str, why: String) -> Self {
        Self::Unreadable {
            kind: K::kind(&()).into_owned(),
            name: name.to_owned(),
            why,
        }
    }
}
