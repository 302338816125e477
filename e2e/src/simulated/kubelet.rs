//! One boot of a simulated node: what its kubelet does from power-on until the power is cut.
//!
//! Three loops side by side, as in a real kubelet: the Lease, the node's status, and the pods (whose lives are in
//! [`super::pod`]). Nothing here waits for Ready, and the pods do not wait for the status: that is what real nodes do,
//! and what makes fencing hard.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::objects::{self, Report};
use super::pod::Order;
use super::uplink::Uplink;
use super::view::Sight;
use super::{FleetOptions, MachineSpec, static_pods};
use crate::machine::{Ailment, Boot};
use crate::volume::Volumes;

/// A kubelet, from power-on to power-off.
pub(super) struct Kubelet {
    pub(super) spec: Arc<MachineSpec>,
    pub(super) options: Arc<FleetOptions>,
    pub(super) client: Client,
    pub(super) uplink: Uplink,
    pub(super) volumes: Arc<Volumes>,
    pub(super) boot_id: String,
    boot: Boot,
    powered_at: Instant,
    /// What the API server shows; looked at only while it is reachable.
    sight: watch::Receiver<Sight>,
    /// The kubelet's own cache of that.
    pub(super) cache: watch::Sender<Sight>,
    /// Unique names of the volumes that the kubelet's pods need or have mounted, by the pod's UID.
    pub(super) in_use: watch::Sender<BTreeMap<String, BTreeSet<String>>>,
    /// The `volumesInUse` that the API server accepted last.
    pub(super) reported: watch::Sender<BTreeSet<String>>,
    /// The pods whose containers run, by UID.
    pub(super) running: watch::Sender<BTreeMap<String, Arc<Pod>>>,
}

impl Kubelet {
    pub(super) fn new(
        spec: Arc<MachineSpec>,
        options: Arc<FleetOptions>,
        boot: Boot,
        boot_id: String,
        volumes: Arc<Volumes>,
        sight: watch::Receiver<Sight>,
        ailment: watch::Receiver<Ailment>,
    ) -> Arc<Self> {
        let client = spec
            .client
            .clone()
            .expect("the fleet gives every machine a client");
        Arc::new(Self {
            spec,
            options,
            client,
            uplink: Uplink::new(ailment),
            volumes,
            boot_id,
            boot,
            powered_at: Instant::now(),
            sight,
            cache: watch::Sender::default(),
            in_use: watch::Sender::default(),
            reported: watch::Sender::default(),
            running: watch::Sender::default(),
        })
    }

    /// Runs until it is aborted, which is the power cut.
    pub(super) async fn run(self: Arc<Self>) {
        tokio::time::sleep(self.boot.delay).await;
        tokio::join!(
            self.look(),
            self.renew_lease(),
            self.report_status(),
            self.work(),
            static_pods::mirror(&self)
        );
    }

    /// `after` counted from the start of the kubelet.
    pub(super) fn after_start(&self, after: std::time::Duration) -> Instant {
        self.powered_at + self.boot.delay + after
    }

    /// Keeps the cache as new as what the API server shows, while that can be reached.
    async fn look(&self) {
        let mut sight = self.sight.clone();
        self.uplink
            .sleep_until(self.after_start(self.options.power_on_to_lease))
            .await;
        loop {
            self.uplink.reachable().await;
            let seen = sight.borrow_and_update().clone();
            self.cache.send_replace(seen);
            if sight.changed().await.is_err() {
                return;
            }
        }
    }

    async fn renew_lease(&self) {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
        let mut next = self.after_start(self.options.power_on_to_lease);
        loop {
            self.uplink.sleep_until(next).await;
            next = Instant::now() + self.options.lease_period;
            let node_uid = self
                .cache
                .borrow()
                .node
                .as_ref()
                .and_then(|node| node.uid());
            let lease = || objects::lease(&self.spec, &self.options, node_uid.as_deref());
            let patched = self.uplink.insist("renew the Lease", || {
                let patch = Patch::Merge(lease());
                let leases = &leases;
                async move {
                    leases
                        .patch(&self.spec.name, &PatchParams::default(), &patch)
                        .await
                }
            });
            if patched.await.is_err_and(|refusal| refusal.is_not_found()) {
                let lease = lease();
                let create = || leases.create(&POST, &lease);
                self.note(
                    "create the Lease",
                    self.uplink.insist("create the Lease", create).await,
                );
            }
        }
    }

    async fn report_status(&self) {
        self.uplink
            .sleep_until(self.after_start(self.options.power_on_to_status))
            .await;
        self.register().await;
        if self.boot.status_refused {
            return;
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        let (mut in_use, mut running, mut cache) = (
            self.in_use.subscribe(),
            self.running.subscribe(),
            self.cache.subscribe(),
        );
        let mut posted: Option<Posted> = None;
        loop {
            self.uplink.awake().await;
            let report = self.assess();
            let (seen, due) = (
                cache.borrow_and_update().node.clone(),
                posted.as_ref().map(|posted| posted.at),
            );
            if posted
                .as_ref()
                .is_none_or(|posted| posted.is_stale(&report, seen.as_deref(), &self.options))
            {
                in_use.mark_unchanged();
                let patch = Patch::Strategic(objects::node_status(
                    &self.spec,
                    &self.options,
                    &self.boot_id,
                    &report,
                ));
                let patched = self
                    .uplink
                    .insist("post the status", || {
                        nodes.patch_status(&self.spec.name, &PATCH, &patch)
                    })
                    .await;
                if let Some(node) = self.note("post the status", patched) {
                    self.reported.send_replace(report.volumes_in_use.clone());
                    posted = Some(Posted {
                        at: Instant::now(),
                        report,
                        version: version(&node),
                    });
                } else {
                    posted = Some(Posted {
                        at: Instant::now(),
                        report,
                        version: u64::MAX,
                    });
                }
                continue;
            }
            let due = due.map_or_else(Instant::now, |at| at + self.options.status_period);
            let late_ready = self.after_start(self.options.power_on_to_late_ready);
            let (look, at_once) = match self.options.status_look {
                Some(period) => (due.min(Instant::now() + period), false),
                None => (due, true),
            };
            tokio::select! {
                _ = in_use.changed(), if at_once => {}
                _ = running.changed(), if at_once => {}
                _ = cache.changed(), if at_once => {}
                () = tokio::time::sleep_until(look) => {}
                () = tokio::time::sleep_until(late_ready), if self.boot.pods_before_ready && late_ready > Instant::now() => {}
            }
        }
    }

    /// What the node would say about itself now.
    fn assess(&self) -> Report {
        let network_is_late = self.boot.pods_before_ready
            && Instant::now() < self.after_start(self.options.power_on_to_late_ready);
        let daemon_set = self.boot.ready_needs_daemonset.as_deref();
        let daemon_runs = daemon_set
            .is_none_or(|name| self.running.borrow().values().any(|pod| is_of(pod, name)));
        let no_network =
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady";
        let ready = if network_is_late || !daemon_runs {
            Err(no_network.to_owned())
        } else {
            Ok(())
        };
        Report {
            ready,
            volumes_in_use: self.in_use.borrow().values().flatten().cloned().collect(),
        }
    }

    /// Creates Node and CSINode, or brings those of an earlier boot up to date. Done once: a Node that is deleted while
    /// the kubelet runs is not created again, as with real ones.
    async fn register(&self) {
        let status = objects::node_status(&self.spec, &self.options, &self.boot_id, &self.assess());
        let (nodes, node): (Api<Node>, _) = (
            Api::all(self.client.clone()),
            objects::node(&self.spec, &status),
        );
        let created = self
            .uplink
            .insist("create the Node", || nodes.create(&POST, &node))
            .await;
        let stored = match created {
            Err(refusal) if refusal.is_already_exists() => {
                let labels =
                    Patch::Merge(json!({"metadata": {"labels": objects::node_labels(&self.spec)}}));
                self.uplink
                    .insist("label the Node", || {
                        nodes.patch(&self.spec.name, &PATCH, &labels)
                    })
                    .await
            }
            created => created,
        };
        let Some(node_uid) = self
            .note("register the Node", stored)
            .and_then(|node| node.uid())
        else {
            return;
        };
        let csi_nodes: Api<CSINode> = Api::all(self.client.clone());
        let csi_node = objects::csi_node(&self.spec, &self.options, &node_uid);
        let created = self
            .uplink
            .insist("create the CSINode", || csi_nodes.create(&POST, &csi_node))
            .await;
        if created.is_err_and(|refusal| refusal.is_already_exists()) {
            let patch = Patch::Merge(&csi_node);
            let patch = || csi_nodes.patch(&self.spec.name, &PATCH, &patch);
            self.note(
                "update the CSINode",
                self.uplink.insist("update the CSINode", patch).await,
            );
        }
    }

    /// Gives every pod that is bound to the node a worker, and tells the workers what the API server says.
    async fn work(self: &Arc<Self>) {
        self.uplink
            .sleep_until(self.after_start(self.options.power_on_to_status))
            .await;
        let mut cache = self.cache.subscribe();
        let mut workers = JoinSet::new();
        let mut orders: HashMap<String, watch::Sender<Order>> = HashMap::new();
        loop {
            self.uplink.awake().await;
            let bound = cache.borrow_and_update().pods.clone();
            for (uid, pod) in &bound {
                let order = Order {
                    pod: Arc::clone(pod),
                    gone: false,
                };
                if static_pods::is_mirror(pod) {
                    continue;
                } else if let Some(sender) = orders.get(uid) {
                    sender.send_replace(order);
                } else {
                    let (sender, receiver) = watch::channel(order);
                    workers.spawn(Arc::clone(self).live(receiver));
                    orders.insert(uid.clone(), sender);
                }
            }
            orders.retain(|uid, sender| {
                let gone = !bound.contains_key(uid);
                sender.send_if_modified(|order| gone && !std::mem::replace(&mut order.gone, true));
                !gone
            });
            while workers.try_join_next().is_some() {}
            if cache.changed().await.is_err() {
                return;
            }
        }
    }

    /// The value, or a line in the log: a kubelet goes on whatever the API server refuses.
    pub(super) fn note<T>(&self, what: &str, answer: Result<T, Box<Status>>) -> Option<T> {
        answer
            .inspect_err(
                |refusal| tracing::debug!(node = self.spec.name, %refusal, "cannot {what}"),
            )
            .ok()
    }
}

pub(super) const PATCH: PatchParams = PatchParams {
    dry_run: false,
    force: false,
    field_manager: None,
    field_validation: None,
};
pub(super) const POST: PostParams = PostParams {
    dry_run: false,
    field_manager: None,
};

/// The status that the API server accepted last.
struct Posted {
    at: Instant,
    report: Report,
    /// Resource version of the Node with that status.
    version: u64,
}

impl Posted {
    /// Must the status be posted again: it has changed, it is old, or someone else has set Ready since?
    fn is_stale(&self, report: &Report, seen: Option<&Node>, options: &FleetOptions) -> bool {
        let overruled = seen.is_some_and(|node| {
            version(node) > self.version && objects::is_ready(node) != report.ready.is_ok()
        });
        self.report != *report || self.at.elapsed() >= options.status_period || overruled
    }
}

/// The resource version as a number; etcd's revisions are.
fn version(node: &Node) -> u64 {
    node.resource_version()
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

/// Is `pod` one of the DaemonSet `namespace/name`?
fn is_of(pod: &Pod, daemon_set: &str) -> bool {
    let namespace = pod.namespace().unwrap_or_default();
    let mut owners = pod
        .owner_references()
        .iter()
        .filter(|owner| owner.kind == "DaemonSet");
    owners.any(|owner| format!("{namespace}/{}", owner.name) == daemon_set)
}
