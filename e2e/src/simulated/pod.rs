//! The life of one pod on one boot of a simulated node.
//!
//! The order is the kubelet's. Admission looks at the node's taints once, when the pod is first seen. Volumes are
//! announced in `volumesInUse` before they are mounted, and are mounted once they are attached. From the mount on the start
//! is in flight: a deletion that arrives now does not stop it, the container comes up and writes for its grace period.
//! The end is the same backwards: stop, unmount, leave `volumesInUse`, and only then delete the pod for good.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::{Api, ResourceExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::kubelet::{Kubelet, PATCH};
use super::objects::{self, Phase};
use super::{IGNORES_SIGTERM, view::Sight};
use crate::volume::writer::{Container, Identity};
use crate::workload::is_ready;

/// What the kubelet knows of a pod.
#[derive(Debug, Clone)]
pub(super) struct Order {
    /// The pod as last seen.
    pub pod: Arc<Pod>,
    /// It is no longer in the API server: somebody deleted it by force.
    pub gone: bool,
}

impl Order {
    fn must_end(&self) -> bool {
        self.gone || self.pod.metadata.deletion_timestamp.is_some()
    }

    /// How long the containers may take to end.
    fn grace(&self) -> Duration {
        let given = self.pod.metadata.deletion_grace_period_seconds;
        let usual = self
            .pod
            .spec
            .as_ref()
            .and_then(|spec| spec.termination_grace_period_seconds);
        Duration::from_secs(given.or(usual).unwrap_or(30).try_into().unwrap_or_default())
    }
}

/// A CSI volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PodVolume {
    /// Name of the PersistentVolume.
    name: String,
    /// The CSI handle.
    handle: String,
    /// Its name in `volumesInUse`, unless its driver does without attaching.
    unique_name: Option<String>,
}

impl Kubelet {
    /// Takes a pod from being seen to being deleted. Whatever happens at the API server, the containers' end is here.
    pub(super) async fn live(self: Arc<Self>, mut orders: watch::Receiver<Order>) {
        let first = orders.borrow().clone();
        let pods: Api<Pod> = Api::namespaced(
            self.client.clone(),
            &first.pod.namespace().unwrap_or_default(),
        );
        let node = self.cache.borrow().node.clone();
        let taint = node
            .as_deref()
            .and_then(|node| objects::untolerated(node, &first.pod).cloned());
        let mut end = Phase::Killed; // by power loss, unless it runs in this boot
        if first.must_end() || has_ended(&first.pod) {
            tracing::debug!(
                pod = first.pod.name_any(),
                "not started: it was ending when first seen"
            );
        } else if let Some(taint) = taint {
            tracing::debug!(pod = first.pod.name_any(), taint = taint.key, "refused");
            self.post(&pods, &first.pod, objects::refused_pod_status(&first.pod))
                .await;
        } else if let Some(volumes) =
            unless_ended(&mut orders, self.prepare(&pods, &first.pod)).await
        {
            end = self.run_containers(&pods, &mut orders, &volumes).await;
        } else {
            self.release(&first.pod).await;
        }
        self.ending(&mut orders).await;
        self.delete(&pods, &orders, end).await;
    }

    /// Finds the volumes of the pod and waits until each is announced and attached, and can be mounted.
    async fn prepare(&self, pods: &Api<Pod>, pod: &Pod) -> Vec<PodVolume> {
        let volumes = self.resolve(pods, pod).await;
        let names: BTreeSet<String> = volumes
            .iter()
            .filter_map(|volume| volume.unique_name.clone())
            .collect();
        let uid = pod.uid().unwrap_or_default();
        self.in_use
            .send_modify(|in_use| drop(in_use.insert(uid, names.clone())));
        let (mut reported, mut cache) = (self.reported.subscribe(), self.cache.subscribe());
        loop {
            let may_mount = {
                let (reported, sight) = (reported.borrow_and_update(), cache.borrow_and_update());
                names
                    .iter()
                    .all(|name| reported.contains(name) || was_in_use(&sight, name))
                    && volumes.iter().all(|volume| is_attached(&sight, volume))
            };
            self.uplink.awake().await;
            if may_mount {
                let mounted = self.after_start(self.options.power_on_to_mounts);
                self.uplink.sleep_until(mounted).await;
                return volumes;
            }
            tokio::select! {
                _ = reported.changed() => {}
                _ = cache.changed() => {}
            }
        }
    }

    /// Mounts, starts, waits for the end, stops, unmounts. Nothing but power loss aborts it half way.
    async fn run_containers(
        &self,
        pods: &Api<Pod>,
        orders: &mut watch::Receiver<Order>,
        volumes: &[PodVolume],
    ) -> Phase {
        let pod = orders.borrow().pod.clone();
        let booted = self.after_start(self.options.power_on_to_containers);
        self.uplink
            .sleep_until(booted.max(Instant::now() + self.options.container_start))
            .await;
        let Some(container) = self.start(&pod, volumes) else {
            return std::future::pending().await; // the power is cut; this task ends any moment
        };
        let uid = pod.uid().unwrap_or_default();
        self.running
            .send_modify(|running| drop(running.insert(uid.clone(), Arc::clone(&pod))));
        let status = objects::pod_status(&pod, &self.spec, &self.boot_id, Phase::Running);
        tokio::select! {
            never = self.keep_posted(pods, &pod, orders.clone(), status) => match never {},
            () = ended(orders.clone()) => self.uplink.awake().await,
        }
        let end = self.stop(container, orders).await;
        self.running
            .send_modify(|running| drop(running.remove(&uid)));
        self.uplink.unmountable().await;
        self.release(&pod).await;
        end
    }

    fn start(&self, pod: &Pod, volumes: &[PodVolume]) -> Option<Container> {
        let mounts = volumes
            .iter()
            .map(|volume| self.volumes.mount(&volume.handle));
        let files = mounts
            .collect::<anyhow::Result<Vec<_>>>()
            .expect("a volume of the lab can be mounted");
        let (node, boot) = (self.spec.name.clone(), self.boot_id.clone());
        self.volumes.writers().start(
            Identity {
                node,
                boot,
                pod: pod.uid().unwrap_or_default(),
            },
            files,
        )
    }

    /// SIGTERM, and SIGKILL when the grace period is over; a shorter one may arrive meanwhile.
    async fn stop(&self, container: Container, orders: &mut watch::Receiver<Order>) -> Phase {
        let since = Instant::now();
        let annotated = |order: &Order| order.pod.annotations().contains_key(IGNORES_SIGTERM);
        let exits = (!annotated(&orders.borrow())).then_some(self.options.container_stop);
        let end = loop {
            let grace = orders.borrow_and_update().grace();
            let (takes, end) = match exits {
                Some(exits) if exits <= grace => (exits, Phase::Exited),
                _ => (grace, Phase::Killed),
            };
            tokio::select! {
                () = self.uplink.sleep_until(since + takes) => break end,
                Ok(()) = orders.changed() => {}
            }
        };
        drop(container);
        end
    }

    /// The pod's volumes are unmounted: they leave `volumesInUse`, unless another pod has them. Waits a moment for that to
    /// be known to the API server, so that the pod is deleted after it.
    async fn release(&self, pod: &Pod) {
        let uid = pod.uid().unwrap_or_default();
        let mut left = BTreeSet::new();
        self.in_use
            .send_modify(|in_use| left = in_use.remove(&uid).unwrap_or_default());
        left.retain(|name| {
            !self
                .in_use
                .borrow()
                .values()
                .any(|names| names.contains(name))
        });
        let mut reported = self.reported.subscribe();
        let is_known = reported.wait_for(|reported| reported.is_disjoint(&left));
        let _ = tokio::time::timeout(Duration::from_secs(1), is_known).await;
    }

    /// Waits until the pod must end.
    async fn ending(&self, orders: &mut watch::Receiver<Order>) {
        ended(orders.clone()).await;
        self.uplink.awake().await;
    }

    /// Deletes the pod for good, unless it is gone: grace 0, and only the pod with this UID.
    async fn delete(&self, pods: &Api<Pod>, orders: &watch::Receiver<Order>, end: Phase) {
        let Order { pod, gone } = orders.borrow().clone();
        if gone {
            return;
        }
        if !has_ended(&pod) {
            let status = objects::pod_status(&pod, &self.spec, &self.boot_id, end);
            self.post(pods, &pod, status).await;
        }
        let (name, preconditions) = (
            pod.name_any(),
            Preconditions {
                uid: pod.uid(),
                resource_version: None,
            },
        );
        let delete = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(preconditions),
            ..Default::default()
        };
        let deleted = self
            .uplink
            .insist("delete the pod", || pods.delete(&name, &delete))
            .await;
        self.note("delete the pod", deleted);
    }

    /// Posts the status of a pod that runs, and again when another has marked it as not ready: Kubernetes does so with the pods of a node
    /// that it has given up, and does not take it back.
    async fn keep_posted(
        &self,
        pods: &Api<Pod>,
        pod: &Pod,
        mut orders: watch::Receiver<Order>,
        status: serde_json::Value,
    ) -> Infallible {
        loop {
            self.post(pods, pod, status.clone()).await;
            self.uplink.sleep_until(Instant::now() + RECONCILE).await;
            let is_marked = |order: &Order| !is_ready(&order.pod);
            if orders.wait_for(is_marked).await.is_err() {
                std::future::pending::<()>().await; // the kubelet itself is ending
            }
        }
    }

    async fn post(&self, pods: &Api<Pod>, pod: &Pod, status: serde_json::Value) {
        let (name, patch) = (pod.name_any(), Patch::Strategic(status));
        let posted = self
            .uplink
            .insist("post the pod's status", || {
                pods.patch_status(&name, &PATCH, &patch)
            })
            .await;
        self.note("post the pod's status", posted);
    }

    /// The CSI volumes behind the pod's claims. Waits until all claims are bound.
    async fn resolve(&self, pods: &Api<Pod>, pod: &Pod) -> Vec<PodVolume> {
        let namespace = pod.namespace().unwrap_or_default();
        let claims: Api<PersistentVolumeClaim> =
            Api::namespaced(pods.clone().into_client(), &namespace);
        let mut found = Vec::new();
        let volumes = pod
            .spec
            .iter()
            .flat_map(|spec| spec.volumes.iter().flatten());
        for claim in volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref()) {
            loop {
                match self.bound(&claims, &claim.claim_name).await {
                    Some(volume) => break found.extend(self.of_csi(pods, volume).await),
                    None => {
                        self.uplink
                            .sleep_until(Instant::now() + RESOLVE_RETRY)
                            .await
                    }
                }
            }
        }
        found.sort();
        found
    }

    /// The volume that is bound to the claim.
    async fn bound(
        &self,
        claims: &Api<PersistentVolumeClaim>,
        claim: &str,
    ) -> Option<PersistentVolume> {
        let client = claims.clone().into_client();
        let claim = self
            .uplink
            .insist("read a claim", || claims.get(claim))
            .await
            .ok()?;
        let name = claim.spec?.volume_name?;
        let volumes: Api<PersistentVolume> = Api::all(client);
        let volume = self.uplink.insist("read a volume", || volumes.get(&name));
        volume.await.ok()
    }

    /// The volume, as its driver has it; of a local one, or one of a file server, nothing is attached, and nobody writes to it here.
    async fn of_csi(&self, pods: &Api<Pod>, volume: PersistentVolume) -> Option<PodVolume> {
        let name = volume.name_any();
        let csi = volume.spec?.csi?;
        let drivers: Api<CSIDriver> = Api::all(pods.clone().into_client());
        let driver = self
            .uplink
            .insist("read the CSI driver", || drivers.get(&csi.driver))
            .await;
        let attach_required = driver
            .ok()
            .and_then(|driver| driver.spec.attach_required)
            .unwrap_or(true);
        let unique_name =
            attach_required.then(|| objects::unique_volume_name(&csi.driver, &csi.volume_handle));
        Some(PodVolume {
            name,
            handle: csi.volume_handle,
            unique_name,
        })
    }
}

/// How soon a status that was posted may be posted again.
const RECONCILE: Duration = Duration::from_secs(1);
/// How long to wait before a claim that was not bound is looked at again.
const RESOLVE_RETRY: Duration = Duration::from_millis(100);

/// What `work` yields, or `None` if the pod must end before that.
async fn unless_ended<T>(
    orders: &mut watch::Receiver<Order>,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        value = work => Some(value),
        () = ended(orders.clone()) => None,
    }
}

async fn ended(mut orders: watch::Receiver<Order>) {
    if orders.wait_for(Order::must_end).await.is_err() {
        std::future::pending::<()>().await; // the kubelet itself is ending
    }
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// Did the API server already list the volume in the Node's `volumesInUse`? It does after a reboot.
fn was_in_use(sight: &Sight, unique_name: &String) -> bool {
    let status = sight.node.as_ref().and_then(|node| node.status.as_ref());
    status
        .and_then(|status| status.volumes_in_use.as_ref())
        .is_some_and(|names| names.contains(unique_name))
}

/// Is the volume attached, by the Node's status and by its VolumeAttachment?
fn is_attached(sight: &Sight, volume: &PodVolume) -> bool {
    let Some(unique_name) = &volume.unique_name else {
        return true;
    };
    let status = sight.node.as_ref().and_then(|node| node.status.as_ref());
    let mut attached = status
        .into_iter()
        .flat_map(|status| status.volumes_attached.iter().flatten());
    attached.any(|attached| attached.name == *unique_name)
        && sight.attached.values().any(|name| *name == volume.name)
}
