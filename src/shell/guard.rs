//! Does the API server hold the operator to its limits? It is asked for something that `deploy/admission.yaml` forbids, as a dry run.
//!
//! Nothing that the operator does relies on those policies, so it works on without them. But they are what a bug or a stolen token
//! meets, and whoever counts on them must hear that they are not there: in the log, as a metric, and as a condition of every policy.
//!
//! The request is a label on some Node: that needs no Node that is Ready, and does no harm should something on the way forget that it
//! is a dry run. Without any Node there is nothing to guard, and nothing is asked.

use super::cache::Caches;
use super::foreign_text::is_of_guard;
use fencing_api::conditions::{ADMISSION_GUARD_MISSING, ConditionStatus, find, set_condition};
use fencing_cluster::client::{AskError, ask, patch_params};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Time between two looks: one refused request a minute.
const LOOK_PERIOD: Duration = Duration::from_secs(60);
/// Until the second look, when the first has found no guard: each API server takes up a new policy some moments after it is stored.
const SECOND_LOOK: Duration = Duration::from_secs(5);
/// Until a Node is looked for again, when there is none.
const NO_NODE_PAUSE: Duration = Duration::from_secs(5);
/// For the condition, the log and `check`.
pub const MISSING: &str = "the API server accepts changes to Nodes that deploy/admission.yaml forbids the operator; apply its policies and bindings (kubectl apply -f deploy/admission.yaml, or helm upgrade)";
/// The same of a guard that stands.
pub const STANDS: &str = "the API server refuses the operator what deploy/admission.yaml forbids";

/// Whether the policies stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Guard {
    /// Not known: nothing was asked yet, or the answer said nothing about it.
    #[default]
    Unknown,
    /// They refuse what they should.
    Stands,
    /// They do not.
    Missing,
}

impl Guard {
    /// Says it in a policy's conditions: while it is missing, and from then on.
    pub fn tell(self, conditions: &mut Vec<Condition>, generation: Option<i64>, now: Timestamp) {
        let is_told = find(conditions, ADMISSION_GUARD_MISSING).is_some();
        let (status, reason, words) = match self {
            Self::Missing => (ConditionStatus::True, "Accepted", MISSING),
            Self::Stands if is_told => (ConditionStatus::False, "Refused", STANDS),
            Self::Stands | Self::Unknown => return,
        };
        let kind = ADMISSION_GUARD_MISSING;
        set_condition(conditions, kind, status, reason, words, generation, now);
    }
}

/// Looks again and again. The caches must be filled.
pub async fn run(client: Client, caches: Caches, found: watch::Sender<Guard>) {
    let mut is_suspected = false;
    loop {
        let pause = match caches.any_node() {
            Some(node) => {
                let (guard, pause) = judged(look(&client, &node).await, &mut is_suspected);
                tell(&found, guard);
                pause
            }
            None => NO_NODE_PAUSE,
        };
        sleep(pause).await;
    }
}

/// What is to be believed after a look, and when to look again. That they are missing has to be seen twice.
fn judged(seen: Guard, is_suspected: &mut bool) -> (Guard, Duration) {
    let was_suspected = *is_suspected;
    *is_suspected = seen == Guard::Missing || was_suspected && seen == Guard::Unknown;
    if seen == Guard::Missing && !was_suspected {
        return (Guard::Unknown, SECOND_LOOK);
    }
    (seen, LOOK_PERIOD)
}

/// What is not known leaves what was known.
fn tell(found: &watch::Sender<Guard>, guard: Guard) {
    let is_news = found.send_if_modified(|known| {
        let is_news = guard != Guard::Unknown && *known != guard;
        if is_news {
            *known = guard;
        }
        is_news
    });
    match guard {
        Guard::Missing if is_news => tracing::error!("{MISSING}"),
        Guard::Stands if is_news => tracing::info!("{STANDS}"),
        _ => {}
    }
}

/// One request that writes nothing.
pub async fn look(client: &Client, node: &str) -> Guard {
    let params = PatchParams {
        dry_run: true,
        ..patch_params()
    };
    let label = json!({"metadata": {"labels": {"nodefencing.io/admission-guard": "tried"}}});
    let nodes = Api::<Node>::all(client.clone());
    match ask(nodes.patch_metadata(node, &params, &Patch::Merge(label))).await {
        Ok(_) => Guard::Missing,
        Err(AskError::Refused { message, .. }) if is_of_guard(&message) => Guard::Stands,
        Err(error) => {
            tracing::warn!(node, %error, "the admission policies could not be tested, trying again");
            Guard::Unknown
        }
    }
}

#[cfg(test)]
mod tests;
