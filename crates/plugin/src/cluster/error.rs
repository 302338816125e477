//! Why the cluster has no answer, in words with the way out.

use fencing_cluster::client::AskError;
use kube::Resource;

/// Why the cluster has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no way to it.
    #[error("{0}; name a file and a context with which `kubectl get nodes` works")]
    Config(String),
    /// The user lacks a right.
    #[error(
        "{message}; whoever runs the cluster can give you the right: kubectl create clusterrolebinding NAME --clusterrole={role} --user=YOU"
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
    #[error(
        "{kind} {name} has changed meanwhile, and nothing was done: look at it, and give it once more"
    )]
    Changed {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// An operator of another version has written what this plugin does not know.
    #[error(
        "{kind} {name} cannot be read by this plugin: {why}; the operator is of another version, which `kubectl fence version` shows: take the plugin of that version"
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
        "the cluster {0} does not know `nodefencing.io`: the operator is not installed there, or --context names another cluster than you mean"
    )]
    NotInstalled(String),
    /// It does not take whoever asks for anybody.
    #[error(
        "the cluster {0} does not know you (Unauthorized): log in again, or name another context with --context; `kubectl auth whoami` says who you are"
    )]
    Unauthorized(String),
    /// The API server, or a policy of its, says no.
    #[error("{0}")]
    Refused(String),
    /// There was no answer, or none that says what was done.
    #[error(
        "{what}: {source}; see whether `kubectl get --raw /readyz` answers (if not: `server` of the kubeconfig, or --context), then try again, with a longer --request-timeout if it is slow"
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
