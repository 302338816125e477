//! Has the operator the rights that few need? Asked only while a policy, or an open NodeFence, wants them: to delete Nodes and VolumeAttachments
//! (`recovery.strategy: DeleteNode`), and to report Nodes early (`earlyDetection`).
//!
//! They are not granted unless somebody grants them, and without them nothing is begun: a node that was claimed and turned off, and that
//! may not be deleted then, would help no pod. What is known is kept when the API server does not answer.

use super::cache::{Caches, Change};
use fencing_cluster::preflight::{self, DELETION_RIGHTS, EARLY_DETECTION_RIGHTS, Right};
use fencing_core::early::wants_reports;
use fencing_core::support::deletes_nodes;
use fencing_drivers::clock::since_boot;
use kube::Client;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Pause between two looks whether anybody wants it.
const PERIOD: Duration = Duration::from_secs(1);
/// Rights that are granted are asked for again after so long.
const ASK_AGAIN: Duration = Duration::from_secs(60);
/// The same while some are missing, or could not be asked for: the policy is not Ready, and whoever grants them is watching it.
const RETRY: Duration = Duration::from_secs(5);
/// How long the API server may take to answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// Rights that go together, and who wants them.
#[derive(Debug)]
struct Of {
    what: &'static str,
    rights: &'static [Right],
    is_wanted: fn(&Caches) -> bool,
}

static DELETION: Of = Of {
    what: "to delete Nodes and VolumeAttachments",
    rights: DELETION_RIGHTS,
    is_wanted: wants_deletion,
};

static EARLY_DETECTION: Of = Of {
    what: "to report Nodes early",
    rights: EARLY_DETECTION_RIGHTS,
    is_wanted: wants_early_detection,
};

/// What is known of some rights. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct OptionalRights {
    of: &'static Of,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Known {
    /// Nobody has wanted to know.
    #[default]
    Nothing,
    /// All are granted.
    Granted,
    /// In words.
    Lacks(String),
}

impl OptionalRights {
    /// To delete Nodes and VolumeAttachments.
    #[must_use]
    pub fn of_deletion() -> Self {
        Self::of(&DELETION)
    }

    /// To report Nodes early.
    #[must_use]
    pub fn of_early_detection() -> Self {
        Self::of(&EARLY_DETECTION)
    }

    fn of(of: &'static Of) -> Self {
        let known = Arc::default();
        Self { of, known }
    }

    /// What is missing, in words; none: all are granted.
    pub fn lacks(&self) -> Option<String> {
        match &*self.known.lock().unwrap_or_else(PoisonError::into_inner) {
            Known::Nothing => Some("its rights are being checked".to_owned()),
            Known::Granted => None,
            Known::Lacks(words) => Some(words.clone()),
        }
    }

    /// Asks, if anybody wants it. Says whether it is another answer than before, and when to ask again.
    pub async fn look(&self, client: &Client, caches: &Caches) -> (bool, Duration) {
        if !(self.of.is_wanted)(caches) {
            return (false, Duration::ZERO);
        }
        let asked = preflight::missing_of(client, "", self.of.rights);
        let known = match timeout(ANSWER_TIME_MAX, asked).await {
            Ok(Ok(missing)) if missing.is_empty() => Known::Granted,
            Ok(Ok(missing)) => {
                let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
                let missing = missing.join(", ");
                Known::Lacks(format!("RBAC does not grant the operator: {missing}"))
            }
            failed => {
                tracing::warn!(
                    ?failed,
                    rights = self.of.what,
                    "the API server does not answer whether the operator has these rights, asking again"
                );
                return (false, RETRY);
            }
        };
        let mut before = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = *before != known;
        if is_news {
            tracing::info!(?known, rights = self.of.what, "rights that a policy needs");
        }
        let pause = match known {
            Known::Granted => ASK_AGAIN,
            Known::Nothing | Known::Lacks(_) => RETRY,
        };
        *before = known;
        (is_news, pause)
    }

    /// Looks again and again; whoever has waited for the answer is told of everything anew.
    pub async fn run(self, client: Client, caches: Caches, changes: mpsc::UnboundedSender<Change>) {
        let mut due = since_boot();
        loop {
            if since_boot() >= due {
                let (is_news, pause) = self.look(&client, &caches).await;
                due = since_boot() + pause;
                if is_news {
                    caches.tell_all(&changes);
                }
            }
            sleep(PERIOD).await;
        }
    }
}

fn wants_deletion(caches: &Caches) -> bool {
    let policies = caches.policies();
    policies
        .iter()
        .any(|it| deletes_nodes(&it.spec.procedure.recovery))
        || caches.has_fence(|it| !it.is_ended() && deletes_nodes(&it.spec.procedure.recovery))
}

/// Does a policy report nodes early?
pub fn wants_early_detection(caches: &Caches) -> bool {
    caches.policies().iter().any(wants_reports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::fake::{self, Cluster};
    use serde_json::{Value, json};

    const REVIEWS: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

    fn policy(strategy: &str) -> Value {
        json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy",
            "metadata": {"name": "all", "uid": "uid-policy"},
            "spec": {"nodeSelector": {}, "recovery": {"strategy": strategy}},
        })
    }

    /// What is known after a look at a cluster with this policy, how many rights were asked for, and when they are asked for again. None: the
    /// API server fails.
    async fn looked(strategy: &str, allowed: Option<bool>) -> (Option<String>, usize, Duration) {
        let cluster = Cluster::new().await;
        let policies = "/apis/nodefencing.io/v1alpha1/nodefencingpolicies";
        let list = fake::list("NodeFencingPolicy", "7", &[policy(strategy)]);
        cluster.put(&format!("GET {policies}"), 200, list);
        let (status, body) = match allowed {
            Some(allowed) => (
                201,
                json!({
                    "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {},
                    "spec": {}, "status": {"allowed": allowed},
                }),
            ),
            None => fake::failure(500, "etcd is away"),
        };
        cluster.put(REVIEWS, status, body);
        let (context, _watches) = cluster.watching();
        let caches = &context.caches;
        caches.policies.wait_until_ready().await.expect("policies");
        let deletion = OptionalRights::of_deletion();
        let (_, pause) = deletion.look(&context.writes, caches).await;
        let seen = cluster.server.seen();
        let asked = seen.iter().filter(|it| it.line.starts_with(REVIEWS));
        (deletion.lacks(), asked.count(), pause)
    }

    #[tokio::test]
    async fn the_rights_are_asked_for_where_somebody_wants_them_and_lack_until_they_are_known() {
        let (lacks, asked, _) = looked("OutOfServiceTaint", Some(true)).await;
        assert!(lacks.is_some());
        assert_eq!(asked, 0);
        let granted = looked("DeleteNode", Some(true)).await;
        assert_eq!(granted, (None, 2, Duration::from_secs(60)));
        let (lacks, _, pause) = looked("DeleteNode", Some(false)).await;
        assert_eq!(
            pause,
            Duration::from_secs(5),
            "somebody may be granting them"
        );
        assert_eq!(
            lacks.as_deref(),
            Some(
                "RBAC does not grant the operator: delete nodes, delete volumeattachments.storage.k8s.io"
            )
        );
        let (lacks, _, _) = looked("DeleteNode", None).await;
        assert!(lacks.is_some(), "nobody has said yes");
    }
}
