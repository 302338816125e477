//! What the API server's first answers mean for whoever has typed the command: the operator's own words are for a pod with a service account.

use super::super::cluster::{Cluster, Error as ClusterError};
use fencing_cluster::client::AskError;
use fencing_cluster::preflight::Error;

/// Why the cluster cannot be used, with the way out.
///
/// # Errors
/// [`ClusterError::Unauthorized`], as every command tells it: that is for whoever has typed it, and nothing that may come by itself.
pub(super) fn words(cluster: &Cluster, error: Error) -> Result<String, ClusterError> {
    let Error::Ask {
        server,
        what,
        source,
    } = error
    else {
        return Ok(error.to_string());
    };
    Ok(match source {
        AskError::Refused { code: 401, .. } => return Err(ClusterError::Unauthorized(server)),
        AskError::Refused {
            code: 403, message, ..
        } => format!(
            "you may not ask {server} {what}: {message}; log in (every user may ask), or have ClusterRole system:discovery bound to you"
        ),
        AskError::Refused {
            code: 404, message, ..
        } => format!(
            "{server} does not know the path to ask {what}: {message}; check `server` of the kubeconfig (is it a Kubernetes API server?), or select another --context"
        ),
        AskError::NoConnection(why) => ClusterError::NoConnection { server, why }.to_string(),
        AskError::Unknown(words) => format!(
            "{server} returned no Kubernetes answer to {what}: {words}; check `server` of the kubeconfig, and `kubectl get --raw /version`"
        ),
        source => ClusterError::Unanswered {
            what: format!("ask {} {what}", cluster.clients.server),
            source,
        }
        .to_string(),
    })
}

/// Before the operator is there its roles are not there either: whoever lacks a right is sent to whoever installs it.
pub(super) fn early<T>(answer: Result<T, ClusterError>) -> Result<T, ClusterError> {
    answer.map_err(|error| match error {
        ClusterError::Forbidden { message, .. } => ClusterError::Refused(format!(
            "{message}; ask with the account that will install the operator (ClusterRole cluster-admin)"
        )),
        other => other,
    })
}

#[cfg(test)]
mod tests;
