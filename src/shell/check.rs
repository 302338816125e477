//! Is all well, and may the operator go? One look at the cluster through the operator's own eyes, for `helm test`, for the hook
//! that comes before `helm uninstall`, and for whoever has just installed it.
//!
//! Each thing that is looked at gives a line, `ok`, `FAIL`, or `SKIP` where the account that asks cannot tell; a FAIL and a SKIP end with
//! the way out. Nothing is written: the one patch is a dry run.

use super::guard::{self, Guard};
use crate::args::check::Checking;
use fencing_api::fence::NodeFence;
use fencing_api::names;
use fencing_api::settings::FenceMode;
use fencing_cluster::client::{self, AskError, Clients, REQUEST_TIMEOUT, ask};
use fencing_cluster::{preflight, schema};
use fencing_core::election::Times;
use fencing_core::observed::{CLAIM, DETACHING, QUARANTINE};
use fencing_drivers::clock::since_boot;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, PostParams};
use std::fmt;
use std::time::Duration;
use tokio::time::sleep;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_secs(2);

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Nobody has to do anything.
    Well,
    /// It cannot be told from here.
    Skipped,
    /// Somebody has to do something.
    Failed,
}

/// What one look at one thing has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How it is.
    pub mark: Mark,
    /// What was looked at and how it is; of what is not well also the way out.
    pub words: String,
}

impl Finding {
    /// The only thing that makes the check fail. What cannot be told from here is no failure of the cluster.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.mark == Mark::Failed
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.mark {
            Mark::Well => "ok  ",
            Mark::Skipped => "SKIP",
            Mark::Failed => "FAIL",
        };
        write!(f, "{mark} {}", self.words)
    }
}

fn well(words: String) -> Finding {
    let mark = Mark::Well;
    Finding { mark, words }
}

fn skipped(words: String) -> Finding {
    let mark = Mark::Skipped;
    Finding { mark, words }
}

fn fail(words: String) -> Finding {
    let mark = Mark::Failed;
    Finding { mark, words }
}

/// Looks, again and again if it may take its time, and tells what it saw last.
///
/// # Errors
/// [`client::Error`]: there is no way to an API server.
pub async fn run(checking: &Checking) -> Result<Vec<Finding>, client::Error> {
    let clients = Clients::new(checking.kubeconfig.as_deref()).await?;
    let end = since_boot() + checking.wait;
    loop {
        let findings = match checking.uninstall {
            true => vec![may_go(&clients).await],
            false => is_well(&clients, &checking.namespace).await,
        };
        if !findings.iter().any(Finding::has_failed) || since_boot() >= end {
            return Ok(findings);
        }
        sleep(PAUSE).await;
    }
}

/// What the operator looks at when it starts, and whether one works.
async fn is_well(clients: &Clients, namespace: &str) -> Vec<Finding> {
    let cluster = match preflight::cluster(clients).await {
        Ok(version) => well(format!(
            "the API server {} is Kubernetes {version} and serves the custom resources",
            clients.server
        )),
        // Nothing else can be asked.
        Err(error) => return vec![fail(error.to_string())],
    };
    let cluster = match schema::unknown_fields(clients, REQUEST_TIMEOUT).await {
        Ok(unknown) if !unknown.is_empty() => fail(schema::words(&unknown)),
        // Where nobody says what the schemas are, that they are there has to do.
        Ok(_) | Err(_) => cluster,
    };
    vec![
        cluster,
        rights(clients, namespace).await,
        admission(clients, namespace).await,
        leader(clients, namespace).await,
    ]
}

async fn rights(clients: &Clients, namespace: &str) -> Finding {
    match preflight::missing_rights(clients, namespace).await {
        Ok(missing) if missing.is_empty() => well(
            "this account has every right that was checked (reading Secrets, which a role may name one by one, is shown by each FenceDevice's conditions)"
                .to_owned(),
        ),
        Ok(missing) => {
            let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
            fail(format!(
                "this account may not {}: apply deploy/rbac.yaml, or set rbac.create in the chart",
                missing.join(", ")
            ))
        }
        Err(error) => fail(error.to_string()),
    }
}

async fn admission(clients: &Clients, namespace: &str) -> Finding {
    let nodes: Api<Node> = Api::all(clients.reads.clone());
    let one = ListParams::default().limit(1);
    let node = match ask(nodes.list_metadata(&one)).await {
        Ok(nodes) => nodes.items.into_iter().find_map(|it| it.metadata.name),
        Err(error) => return unanswered(clients, "for a Node", error),
    };
    let Some(node) = node else {
        return well("the cluster has no Node to test the admission policies with".to_owned());
    };
    let words = match guard::look(&clients.writes, &node).await {
        Guard::Stands => return well(guard::STANDS.to_owned()),
        Guard::Missing => guard::MISSING.to_owned(),
        Guard::Unknown => format!(
            "the admission policies could not be tested (a dry run on Node {node} was neither accepted nor refused by them); try again, then see the API server's log"
        ),
    };
    match other_account(clients, namespace).await {
        Some(other) => skipped(format!(
            "the admission policies apply to accounts of namespace {namespace} only, not to {other}; run kubectl -n {namespace} exec deployment/node-fencing-operator -- /node-fencing-operator check (--namespace names another one)"
        )),
        None => fail(words),
    }
}

/// Who asks, if it is surely not the operator: its account is one of its own namespace. Of whom nothing is known, the worst is believed.
async fn other_account(clients: &Clients, namespace: &str) -> Option<String> {
    let reviews: Api<SelfSubjectReview> = Api::all(clients.reads.clone());
    let asked = SelfSubjectReview::default();
    let review = ask(reviews.create(&PostParams::default(), &asked))
        .await
        .ok()?;
    let name = review.status?.user_info?.username?;
    let own = format!("system:serviceaccount:{namespace}:");
    (!name.is_empty() && !name.starts_with(&own)).then_some(name)
}

/// A Lease that is renewed while we look: no clock of another machine is needed for that.
async fn leader(clients: &Clients, namespace: &str) -> Finding {
    let leases: Api<Lease> = Api::namespaced(clients.reads.clone(), namespace);
    let way_out = format!("see `kubectl -n {namespace} get pods` and the operator's log");
    let mut first = None;
    let begin = since_boot();
    loop {
        let lease = match ask(leases.get_opt(names::LEASE)).await {
            Ok(lease) => lease,
            Err(error) => return unanswered(clients, "for the Lease", error),
        };
        let spec = lease.and_then(|it| it.spec).unwrap_or_default();
        let holder = spec.holder_identity.filter(|it| !it.is_empty());
        let (Some(holder), Some(renewed)) = (holder, spec.renew_time) else {
            return fail(format!(
                "no replica has the Lease {namespace}/{}, so nothing is fenced; {way_out}",
                names::LEASE
            ));
        };
        if *first.get_or_insert_with(|| renewed.clone()) != renewed {
            return well(format!(
                "{holder} holds and renews the Lease {namespace}/{}",
                names::LEASE
            ));
        }
        let limit = spec
            .lease_duration_seconds
            .and_then(|it| u64::try_from(it).ok());
        let limit = limit.map_or(Times::default().lease, Duration::from_secs);
        if since_boot().saturating_sub(begin) >= limit {
            return fail(format!(
                "the Lease {namespace}/{} of {holder} was not renewed for {} s, so nothing is fenced; {way_out}",
                names::LEASE,
                limit.as_secs()
            ));
        }
        sleep(PAUSE / 2).await;
    }
}

/// Its taints are taken away by the operator alone.
async fn may_go(clients: &Clients) -> Finding {
    const WAY_OUT: &str = "release open NodeFences or wait for them, reboot quarantined machines (docs/how-to/uninstall.md), or run helm uninstall --no-hooks";
    let nodes: Api<Node> = Api::all(clients.reads.clone());
    let fences: Api<NodeFence> = Api::all(clients.reads.clone());
    let all = ListParams::default();
    let nodes = match ask(nodes.list(&all)).await {
        Ok(nodes) => nodes.items,
        Err(error) => return unanswered(clients, "for the Nodes", error),
    };
    let fences = match ask(fences.list(&all)).await {
        Ok(fences) => fences.items,
        Err(error) => return unanswered(clients, "for the NodeFences", error),
    };
    let tainted = nodes.iter().filter_map(|node| {
        let taints = node.spec.as_ref()?.taints.as_ref()?;
        // An `out-of-service` without our claim is somebody else's, and we would leave it there (S8). The mark of a deletion is nobody else's.
        let keys = [CLAIM, DETACHING, QUARANTINE];
        let ours = taints.iter().find(|it| keys.contains(&it.key.as_str()))?;
        let name = node.metadata.name.as_deref().unwrap_or_default();
        Some(format!("Node {name} has taint {}", ours.key))
    });
    let open = fences.iter().filter(|fence| {
        let observes = fence.spec.procedure.fence.mode == FenceMode::Observe;
        !fence.is_ended() && !observes
    });
    let open = open.map(|fence| {
        let name = fence.metadata.name.as_deref().unwrap_or_default();
        format!("NodeFence {name} of Node {} is open", fence.spec.node_name)
    });
    let left: Vec<_> = tainted.chain(open).collect();
    match left.is_empty() {
        true => well("no open NodeFence, and no Node with a taint of the operator".to_owned()),
        false => fail(format!(
            "{}: only the operator removes its taints; {WAY_OUT}",
            left.join(", ")
        )),
    }
}

fn unanswered(clients: &Clients, what: &'static str, source: AskError) -> Finding {
    fail(preflight::unanswered(clients, what, source).to_string())
}

#[cfg(test)]
mod tests;
