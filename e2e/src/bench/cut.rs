//! One power cut with the operator, measured.
//!
//! What the API server stored is timed by its audit log, to the microsecond, and not by when somebody saw it: a write is there when
//! it has been answered. The operator's own time is all that lies between deadline and taint but the proof's window: it includes the
//! wait for Kubernetes to evict the claimed node's pod, and all answers of the API server. What the receiving kubelet reports (`volumesInUse`,
//! Running elsewhere) is timed by watches.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};

use super::policy::Policy;
use super::trace::{Times, Trace};
use super::{POD, Series, power_on};
use crate::audit::{OPERATOR, Request};
use crate::csi::DRIVER;
use crate::lab::{LIMIT, Lab};
use crate::proxy::writes::{CLAIM, OUT_OF_SERVICE};
use crate::workload::node_of;

/// Who evicts the pods of a node with a `NoExecute` taint. Source: `newTaintEvictionController` in
/// `cmd/kube-controller-manager/app/core.go` (v1.36).
const TAINT_EVICTION: &str = "system:serviceaccount:kube-system:node-controller";

/// After the quarantine is lifted, the status of devices and policies follows: it counts too.
const AFTERMATH: Duration = Duration::from_secs(2);

/// Longer than a fence takes with Kubernetes' own times, the policy's wait included: a run that takes the long way is to be seen, not lost.
const PATIENCE: Duration = Duration::from_secs(300);

/// One power cut with the operator.
#[derive(Debug)]
pub(super) struct Cut {
    /// Under which policy.
    policy: Policy,
    /// The power was cut.
    pub cut: Timestamp,
    /// The node controller's write of `Ready=Unknown` was stored.
    pub unknown: Timestamp,
    /// The policy's condition has held long enough.
    pub deadline: Timestamp,
    /// The claim was stored.
    pub claimed: Timestamp,
    /// `out-of-service` was stored.
    pub tainted: Timestamp,
    /// The VolumeAttachment of the dead node was gone.
    pub detached: Timestamp,
    /// The receiving kubelet reported the volume as in use, before which it does not mount it; not before the detachment.
    pub in_use: Timestamp,
    /// What Kubernetes took to evict the pod of the claimed node, in milliseconds.
    pub evicting_ms: f64,
    /// What the API server took to answer the operator's writes between deadline and taint, one after the other, in milliseconds.
    pub answering_ms: f64,
    /// The replacement pod was seen Ready.
    pub running: Timestamp,
    /// The operator's writes while the NodeFence was open, to whatever object, without Events, the renewals of the leader's Lease and the deletions of pods.
    pub writes_while_open: usize,
    /// The operator's writes until [`AFTERMATH`] was over, without Events and renewals.
    pub writes: Writes,
    /// How often anybody deleted the replacement pod.
    pub replacement_deletions: usize,
    /// The operator's memory after it.
    pub resident_bytes: u64,
    /// What the operator did.
    pub trace: Trace,
}

impl Cut {
    /// Cuts the power of the machine on which the pod is, and finds the way back to two machines that take pods.
    pub(super) async fn measure(series: &Series<'_>) -> Result<Self> {
        let Series { lab, policy, .. } = *series;
        let pod = lab.workloads.wait_running(POD, LIMIT).await?;
        let node = node_of(&pod).to_owned();
        let receiving = Receiving::ready(series, &node).await?;
        let cut = Timestamp::now();
        lab.rig_of(&node)?.machine.go_dark();
        let moved = lab.workloads.wait_running_elsewhere(POD, &node, PATIENCE);
        let moved = async { Ok((moved.await?, Timestamp::now())) };
        let (in_use, (replacement, running)) = tokio::try_join!(receiving.reports(), moved)?;
        let fence = lab.wait_stage(&node, "Recovered").await?;
        lab.silent_after_proof(&fence).await?;
        let resident_bytes = series.operator.usage()?.resident_bytes;
        power_on(lab, &node).await?;
        tokio::time::sleep(AFTERMATH).await;
        let now = lab.workloads.wait_running(POD, LIMIT).await?;

        let requests = requests_since(lab, cut).await?;
        let of_node = OfNode::since(lab, &node, cut)?;
        let unknown = lab
            .control_plane
            .audit()
            .became_unknown(&node, cut)?
            .answered;
        let deadline = unknown + policy.wait();
        let claimed = of_node.first("claim", |write| is_tainted(write, CLAIM))?;
        let tainted = of_node.first("out-of-service", |write| is_tainted(write, OUT_OF_SERVICE))?;
        let times = Times {
            unknown,
            deadline,
            tainted: tainted.answered,
        };
        let detached = detached(lab, &node, cut)?;
        Ok(Self {
            policy,
            cut,
            unknown,
            deadline,
            claimed: claimed.answered,
            tainted: tainted.answered,
            detached,
            in_use: in_use.max(detached),
            evicting_ms: evicting_ms(lab, claimed)?,
            answering_ms: answering_ms(&requests, claimed.received, tainted.answered),
            running,
            writes_while_open: writes_while_open(&requests),
            writes: Writes::count(&requests),
            replacement_deletions: deletions_of(lab, &replacement, &now)?,
            resident_bytes,
            trace: Trace::of(lab, &node, times, &requests)?,
        })
    }

    /// From the policy's deadline to the taint, without the time that the proof takes by its definition.
    pub(super) fn overhead_ms(&self) -> f64 {
        ms(self.deadline, self.tainted) - self.policy.window().as_secs_f64() * 1000.0
    }

    /// From the power cut to the taint.
    pub(super) fn taint_seconds(&self) -> f64 {
        ms(self.cut, self.tainted) / 1000.0
    }

    /// From the power cut to the replacement.
    pub(super) fn total_seconds(&self) -> f64 {
        ms(self.cut, self.running) / 1000.0
    }
}

/// The node to which the pod moves.
struct Receiving {
    nodes: Api<Node>,
    name: String,
    /// As the node's status names it.
    volume: String,
}

impl Receiving {
    /// The node beside this one, once it no longer reports the volume: it may have had it before.
    async fn ready(series: &Series<'_>, node: &str) -> Result<Self> {
        let names = series.lab.rigs.iter().map(|rig| rig.machine.name());
        let mut others = names.filter(|name| *name != node);
        let name = others.next().context("there is one machine only")?;
        let this = Self {
            nodes: Api::all(series.lab.control_plane.admin()),
            name: name.to_owned(),
            volume: format!("kubernetes.io/csi/{DRIVER}^{}", series.volume),
        };
        this.wait(false).await?;
        Ok(this)
    }

    /// Waits until it reports the volume as in use.
    async fn reports(&self) -> Result<Timestamp> {
        self.wait(true).await?;
        Ok(Timestamp::now())
    }

    async fn wait(&self, wanted: bool) -> Result<()> {
        let is_as_wanted = |node: Option<&Node>| {
            let status = node.and_then(|node| node.status.as_ref());
            let volumes = status.and_then(|status| status.volumes_in_use.as_ref());
            volumes.is_some_and(|volumes| volumes.contains(&self.volume)) == wanted
        };
        let seen = await_condition(self.nodes.clone(), &self.name, is_as_wanted);
        let seen = tokio::time::timeout(PATIENCE, seen).await;
        let what = if wanted { "in use" } else { "no longer in use" };
        seen.with_context(|| format!("{} does not report its volume as {what}", self.name))??;
        Ok(())
    }
}

/// When the VolumeAttachment of this node was gone: its last finalizer was removed.
fn detached(lab: &Lab, node: &str, since: Timestamp) -> Result<Timestamp> {
    let writes = lab.control_plane.audit().writes_to("volumeattachments")?;
    let gone = writes.iter().find(|write| {
        let attachment = &write.response_object;
        let metadata = &attachment["metadata"];
        let is_last = metadata["deletionTimestamp"].is_string() && metadata["finalizers"].is_null();
        let is_of_it = attachment["spec"]["nodeName"] == node && write.received >= since;
        is_last && is_of_it && write.succeeded()
    });
    let gone = gone.context("the audit log shows no VolumeAttachment that went")?;
    Ok(gone.answered)
}

/// Writes by what they were: `patch nodes/status`, and with the code those that were refused.
#[derive(Debug, Default)]
pub(super) struct Writes(BTreeMap<(String, String), usize>);

impl Writes {
    fn count(requests: &[Request]) -> Self {
        let mut counts = BTreeMap::new();
        for write in requests.iter().filter(|request| request.is_write()) {
            let of = &write.object_ref;
            if matches!(of.resource.as_str(), "events" | "leases") {
                continue;
            }
            let mut what = format!("{} {}", write.verb, of.resource);
            if !of.subresource.is_empty() {
                what.push_str(&format!("/{}", of.subresource));
            }
            if !write.succeeded() {
                what.push_str(&format!(" (refused: {})", write.response_status.code));
            }
            *counts.entry((of.resource.clone(), what)).or_default() += 1;
        }
        Self(counts)
    }

    /// Those to objects of these kinds, such as `nodes`.
    pub(super) fn to(&self, resources: &[&str]) -> usize {
        let these = |(resource, _): &&(String, String)| resources.contains(&resource.as_str());
        let keys = self.0.keys().filter(these);
        keys.filter_map(|key| self.0.get(key)).sum()
    }

    /// All of them.
    pub(super) fn all(&self) -> usize {
        self.0.values().sum()
    }

    /// How many of this sort, see [`sorts`].
    pub(super) fn of(&self, sort: &(String, String)) -> usize {
        self.0.get(sort).copied().unwrap_or_default()
    }
}

/// Every sort of write that some cut saw: the kind of object, and what was done.
pub(super) fn sorts(cuts: &[Cut]) -> BTreeSet<(String, String)> {
    let all = cuts.iter().flat_map(|cut| cut.writes.0.keys().cloned());
    all.collect()
}

/// All requests of the operator since then but its watches.
async fn requests_since(lab: &Lab, since: Timestamp) -> Result<Vec<Request>> {
    let audit = lab.control_plane.audit();
    audit.settled().await?;
    let mut requests = audit.requests_of(OPERATOR)?;
    requests.retain(|request| request.verb != "watch" && request.received >= since);
    Ok(requests)
}

/// Successful writes to one Node.
struct OfNode(Vec<Request>);

impl OfNode {
    fn since(lab: &Lab, node: &str, since: Timestamp) -> Result<Self> {
        let mut writes = lab.control_plane.audit().writes_to("nodes")?;
        writes.retain(|write| {
            write.object_ref.name == node && write.received >= since && write.succeeded()
        });
        Ok(Self(writes))
    }

    fn first(&self, what: &str, is_it: impl Fn(&Request) -> bool) -> Result<&Request> {
        let found = self.0.iter().find(|write| is_it(write));
        found.with_context(|| format!("the audit log shows no write of {what}"))
    }
}

pub(super) fn is_tainted(write: &Request, key: &str) -> bool {
    let taints = write.response_object["spec"]["taints"].as_array();
    let mut taints = taints.into_iter().flatten();
    taints.any(|taint| taint["key"] == key)
}

/// From the first to the last write of a NodeFence, those two included.
fn writes_while_open(requests: &[Request]) -> usize {
    let mut writes: Vec<_> = requests.iter().collect();
    writes.retain(|request| {
        request.is_write()
            && !matches!(
                request.object_ref.resource.as_str(),
                "events" | "leases" | "pods"
            )
    });
    writes.sort_by_key(|write| write.received);
    let is_record = |write: &&Request| write.object_ref.resource == "nodefences";
    let first = writes.iter().position(is_record);
    let last = writes.iter().rposition(is_record);
    first.zip(last).map_or(0, |(first, last)| last + 1 - first)
}

/// From the claim's answer to that of the first deletion of the pod by the controller that acts on `NoExecute` taints.
fn evicting_ms(lab: &Lab, claim: &Request) -> Result<f64> {
    let deletions = lab.control_plane.audit().writes_to("pods")?;
    let evicted = deletions.iter().find(|write| {
        let is_deletion = write.verb == "delete" && write.succeeded();
        let is_later = write.object_ref.name == POD && write.received >= claim.received;
        is_deletion && is_later && write.user.username == TAINT_EVICTION
    });
    let evicted = evicted.context("the audit log shows no eviction of the pod")?;
    Ok(ms(claim.answered, evicted.answered))
}

/// What the API server took for the writes that lie between: the claim, the evidence, the deletion of the pod, the taint. Each of them
/// waits for the one before.
fn answering_ms(requests: &[Request], claimed: Timestamp, tainted: Timestamp) -> f64 {
    let is_step = |request: &&Request| {
        let resource = request.object_ref.resource.as_str();
        request.is_write() && matches!(resource, "nodes" | "nodefences" | "pods")
    };
    let lies_between =
        |request: &&Request| request.received >= claimed && request.answered <= tainted;
    let steps = requests.iter().filter(is_step).filter(lies_between);
    steps.map(|step| ms(step.received, step.answered)).sum()
}

/// How often anybody deleted the replacement, by the audit log. A pod that was deleted comes back under another uid, so
/// that `now` must still be the same if it was not.
fn deletions_of(lab: &Lab, replacement: &Pod, now: &Pod) -> Result<usize> {
    let uid = replacement.uid().context("a pod has a uid")?;
    let mut deletions = lab.control_plane.audit().writes_to("pods")?;
    deletions.retain(|write| {
        let answer = &write.response_object;
        let uids = [&answer["metadata"]["uid"], &answer["details"]["uid"]];
        write.verb == "delete" && write.succeeded() && uids.iter().any(|it| **it == uid.as_str())
    });
    ensure!(
        !deletions.is_empty() || now.uid().as_ref() == Some(&uid),
        "the replacement pod has vanished, and the audit log shows no deletion of it"
    );
    Ok(deletions.len())
}

/// Milliseconds from one time to another.
pub(super) fn ms(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64() * 1000.0
}
