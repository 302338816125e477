//! Fences that other controllers ask for by a NodeFenceRemediation (`--callers`): Medik8s' NodeHealthCheck, and Cluster API's MachineHealthCheck.
//!
//! All remediations are listed by quorum every other second. For the node of one that asks the detector does not wait for the policy's duration. Once
//! it is deleted or timed out, the NodeFence that was opened for it ends if its taint does not stand yet. Each has the state of its NodeFence in
//! its status. A caller is trusted with no more than that: what may be fenced, by which proof and how much at once is up to the policy.

use super::cache::Change;
use super::context::Context;
use super::merge::status_patch;
use super::own_cluster::{absent, items, lacks_right, send};
use super::wakes::Reason;
use fencing_api::fence::NodeFence;
use fencing_api::fence_status::NodeFenceStatus;
use fencing_api::remediation::{MACHINE_GROUP, NodeFenceRemediation, RemediationReference};
use fencing_cluster::client::{AskError, ask, patch_params};
use fencing_core::remediation::{Facts, Target, asks, status, target};
use fencing_core::settings::Settings;
use fencing_drivers::clock;
use futures::{StreamExt, stream};
use http::Method;
use kube::api::Patch;
use kube::{Api, ResourceExt};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Pause between two looks.
const PERIOD: Duration = Duration::from_secs(2);
/// The same after one that failed.
const RETRY: Duration = Duration::from_secs(10);
/// A list that goes on is refused: nothing is skipped then.
const REMEDIATIONS: &str = "/apis/nodefencing.io/v1alpha1/nodefenceremediations?limit=1000";
/// Requests about single remediations that wait for their answers at the same time.
const PARALLEL: usize = 8;

/// Who asks for a fence. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Callers(Arc<Mutex<Option<Asking>>>);

/// By UID, with the node if it is known.
type Asking = BTreeMap<String, (RemediationReference, Option<String>)>;

impl Callers {
    /// Who asks for a fence of this node, and is not served?
    pub fn asking_for(
        &self,
        node: &str,
        is_served: impl Fn(&RemediationReference) -> bool,
    ) -> Option<RemediationReference> {
        let asking = self.lock();
        let mut all = asking.iter().flat_map(BTreeMap::values);
        let found = all.find(|(by, of)| of.as_deref() == Some(node) && !is_served(by));
        found.map(|(remediation, _)| remediation.clone())
    }

    /// The settings of an incident with this record that ends, before its taint, once the remediation that it was opened for asks no longer, unless an
    /// off command has gone out by then. Before the first list nothing is known of any.
    pub fn heeded(
        &self,
        settings: Settings,
        fence: &NodeFence,
        record: &NodeFenceStatus,
    ) -> Settings {
        let opened_for = fence.spec.trigger.remediation.as_ref();
        let opened_for = opened_for.filter(|_| !record.is_commanded());
        let withdrawn = opened_for.filter(|it| self.is_withdrawn(it));
        let stop = withdrawn.map(|it| {
            let RemediationReference {
                namespace, name, ..
            } = it;
            format!("NodeFenceRemediation {namespace}/{name} was deleted, or has timed out")
        });
        Settings {
            stop: settings.stop.or(stop),
            ..settings
        }
    }

    fn is_withdrawn(&self, remediation: &RemediationReference) -> bool {
        let asking = self.lock();
        asking
            .as_ref()
            .is_some_and(|asking| !asking.contains_key(&remediation.uid))
    }

    /// These ask, and no others do. Gives those that asked before.
    pub(super) fn note(&self, asking: Asking) -> Option<Asking> {
        self.lock().replace(asking)
    }

    /// It is not known who asks: nothing is skipped, and nothing withdrawn.
    fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Asking>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks again and again, if callers are served at all. Only the replica that acts may run this.
pub async fn run(is_on: bool, context: Arc<Context>, changes: mpsc::UnboundedSender<Change>) {
    if !is_on {
        return std::future::pending().await;
    }
    let mut machines = BTreeMap::new();
    loop {
        let pause = match look(&context, &changes, &mut machines).await {
            Ok(()) => PERIOD,
            Err(error) if lacks_right(&error) => {
                tracing::warn!(%error, "may not read NodeFenceRemediations; set `rbac.callers` in the chart, or add deploy/callers");
                RETRY
            }
            Err(error) => {
                tracing::warn!(%error, "cannot list NodeFenceRemediations, trying again");
                RETRY
            }
        };
        sleep(pause).await;
    }
}

/// One look at all of them. `machines`: the Nodes of the Machines that are known, by the UID of the remediation.
async fn look(
    context: &Context,
    changes: &mpsc::UnboundedSender<Change>,
    machines: &mut BTreeMap<String, String>,
) -> Result<(), AskError> {
    // What a cluster that went back in time lacks was not withdrawn (S18).
    if context.revision.frozen().is_some() {
        return Ok(());
    }
    let remediations = listed(context).await;
    // What was listed before may be gone by now.
    let remediations = remediations.inspect_err(|_| context.callers.forget())?;
    let uids: BTreeSet<String> = remediations.iter().filter_map(ResourceExt::uid).collect();
    machines.retain(|uid, _| uids.contains(uid));
    // Futures, and no closure that makes them: with one of a reference inside, the compiler does not see that this may run on another thread.
    let asked = remediations.iter();
    let asked: Vec<_> = asked.map(|it| node_of(context, it, machines)).collect();
    let nodes: Vec<_> = stream::iter(asked).buffered(PARALLEL).collect().await;
    let mut asking = Asking::new();
    for (remediation, node) in remediations.iter().zip(&nodes) {
        let uid = remediation.uid().unwrap_or_default();
        if let (Target::Machine { .. }, Ok(Some(node))) = (target(remediation), node) {
            machines.insert(uid, node.clone());
        }
        if let (true, Some(uid)) = (asks(remediation), remediation.uid()) {
            let reference = RemediationReference {
                namespace: remediation.namespace().unwrap_or_default(),
                name: remediation.name_any(),
                uid: uid.clone(),
            };
            asking.insert(uid, (reference, node.clone().ok().flatten()));
        }
    }
    note(context, changes, &asking);
    let pairs = remediations.iter().zip(nodes);
    let told: Vec<_> = pairs.map(|(it, node)| tell(context, it, node)).collect();
    let told = stream::iter(told).buffer_unordered(PARALLEL);
    told.collect::<()>().await;
    Ok(())
}

/// Writes the status of a remediation whose Node could be found out.
async fn tell(
    context: &Context,
    remediation: &NodeFenceRemediation,
    node: Result<Option<String>, String>,
) {
    match node {
        Ok(node) => write_status(context, remediation, node.as_deref()).await,
        Err(reason) => {
            let name = remediation.name_any();
            tracing::warn!(name, reason, "cannot read the Machine of a remediation");
        }
    }
}

/// All of them.
async fn listed(context: &Context) -> Result<Vec<NodeFenceRemediation>, AskError> {
    let list = items(send(&context.reads, Method::GET, REMEDIATIONS, None).await?);
    let list = list.ok_or_else(|| AskError::Unknown("the list is not complete".to_owned()))?;
    let decoded = list
        .into_iter()
        .map(serde_json::from_value::<NodeFenceRemediation>);
    let remediations: Result<Vec<_>, _> = decoded.collect();
    remediations.map_err(|error| AskError::Unknown(error.to_string()))
}

/// Takes note of who asks, and wakes the detector and the incidents that it changes.
fn note(context: &Context, changes: &mpsc::UnboundedSender<Change>, asking: &Asking) {
    let before = context.callers.note(asking.clone());
    if before.as_ref() == Some(asking) {
        return;
    }
    for (_, node) in asking.values() {
        let node = node.iter().cloned().map(Change::Node);
        // The receiver is gone only while the operator ends.
        node.for_each(|change| drop(changes.send(change)));
    }
    let is_withdrawn = |fence: &NodeFence| {
        let opened_for = fence.spec.trigger.remediation.as_ref();
        opened_for.is_some_and(|it| !asking.contains_key(&it.uid))
    };
    for fence in context.caches.open_fences(is_withdrawn) {
        context.wakes.wake(fence, Reason::Other);
    }
}

/// The name of its Node; none: its Machine has none, or one of another cluster.
///
/// # Errors
/// The Machine cannot be read, in words.
async fn node_of(
    context: &Context,
    remediation: &NodeFenceRemediation,
    machines: &BTreeMap<String, String>,
) -> Result<Option<String>, String> {
    let (version, name) = match target(remediation) {
        // NodeHealthCheck names none where a MachineHealthCheck of OpenShift asks for a Machine without a Node.
        Target::Node(name) => return Ok((!name.is_empty()).then_some(name)),
        Target::Machine { version, name } => (version, name),
    };
    let uid = remediation.uid().unwrap_or_default();
    if let Some(node) = machines.get(&uid) {
        return Ok(Some(node.clone()));
    }
    let namespace = remediation.namespace().unwrap_or_default();
    let path = format!("/apis/{MACHINE_GROUP}/{version}/namespaces/{namespace}/machines/{name}");
    let machine = absent(send(&context.reads, Method::GET, &path, None).await);
    let machine = machine.map_err(|error| error.to_string())?;
    let text = |path: &str| {
        let found = machine.as_ref().and_then(|it| it.pointer(path));
        found.and_then(Value::as_str)
    };
    let node = text("/status/nodeRef/name");
    let provider_id = text("/spec/providerID").unwrap_or_default();
    // On a management cluster a Node of its own may have the name of another cluster's.
    let is_another = |node: &str| {
        let known = context.caches.node(node);
        let known = known.as_deref().map(|it| it.view.provider_id.as_str());
        known.is_some_and(|known| {
            !known.is_empty() && !provider_id.is_empty() && known != provider_id
        })
    };
    Ok(node.filter(|node| !is_another(node)).map(str::to_owned))
}

/// Writes what has changed in the status of a remediation. The next look tries again.
async fn write_status(context: &Context, remediation: &NodeFenceRemediation, node: Option<&str>) {
    if remediation.metadata.deletion_timestamp.is_some() {
        return;
    }
    let known = node.and_then(|node| context.caches.node(node));
    let fences = node.map(|node| context.caches.fences_of(node));
    let facts = Facts {
        node_name: node,
        node: known.as_deref().map(|it| &it.view),
        policies: &context.caches.policies(),
        fences: &fences.unwrap_or_default(),
        now: clock::wall(),
    };
    let status = status(remediation, &facts);
    let version = remediation.metadata.resource_version.as_deref();
    let Some(patch) = status_patch(version, remediation.status.as_ref(), &status) else {
        return;
    };
    let namespace = remediation.namespace().unwrap_or_default();
    let api = Api::<NodeFenceRemediation>::namespaced(context.writes.clone(), &namespace);
    let name = remediation.name_any();
    let patch = Patch::Merge(patch);
    let written = ask(api.patch_status(&name, &patch_params(), &patch)).await;
    if let Err(error) = written {
        tracing::warn!(name, namespace, %error, "cannot write the status of a NodeFenceRemediation");
    }
}

#[cfg(test)]
mod tests;
