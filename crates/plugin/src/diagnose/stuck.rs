//! Which pods wait for a volume that another node has, and which node that is.
//!
//! Attach/detach says `Multi-Attach error` (since 1.37 `Waiting for detach`) once for each pod and volume (upstream's
//! `pkg/controller/volume/attachdetach/reconciler`, v1.36 and v1.37), and events last for an hour. So a pod is stuck, too, that has waited for longer than a detach takes while its volume is attached elsewhere.

use super::facts::ATTACH;
use super::index::Index;
use crate::foreign_text::{Sign, multi_attached};
use fencing_cluster::slim::SlimPod;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use std::collections::BTreeSet;

/// A detach in order takes less than this.
pub const PATIENCE: SignedDuration = SignedDuration::from_secs(60);
/// What lasts longer does not end by itself: attach/detach takes a volume from a node that is not Ready after this time.
pub const OVERDUE: SignedDuration = SignedDuration::from_mins(6);

/// A pod that waits for a volume.
#[derive(Debug, Clone)]
pub struct Stuck<'a> {
    /// The pod.
    pub pod: &'a SlimPod,
    /// The PersistentVolume.
    pub volume: String,
    /// The node that has it, if that is known.
    pub holder: Option<String>,
    /// Pods that use it there.
    pub users: Vec<&'a SlimPod>,
    /// What attach/detach or the scheduler has said.
    pub event: Option<&'a str>,
    /// It has no node yet: its claim may be used by one pod only.
    pub is_unscheduled: bool,
}

impl Stuck<'_> {
    /// That, with the name of the pod.
    pub fn said(&self) -> Option<String> {
        let event = self.event?;
        Some(format!("pod {}: {event}", self.pod.full_name()))
    }
}

/// All of them, in the order of the pods.
pub fn stuck<'a>(index: &Index<'a>) -> Vec<Stuck<'a>> {
    let pods = index.facts.pods.items.iter();
    let waiting = pods.filter(|it| it.is_pending());
    let of_pod = |pod: &'a SlimPod| match &pod.spec.node_name {
        Some(node) => of_attach(index, pod, node),
        None => of_scheduler(index, pod),
    };
    waiting.flat_map(of_pod).collect()
}

fn of_attach<'a>(index: &Index<'a>, pod: &'a SlimPod, node: &str) -> Vec<Stuck<'a>> {
    let mut volumes: BTreeSet<&str> = index.volumes(pod).into_iter().collect();
    let named = index.event(pod, ATTACH, |it| multi_attached(it).is_some());
    volumes.extend(named.and_then(multi_attached));
    let of_volume = |volume: &str| {
        if index.is_attached(volume, pod) {
            return None;
        }
        let event = index.event(pod, ATTACH, |it| multi_attached(it) == Some(volume));
        let users = users_elsewhere(index, pod, volume);
        let holder = holder(index, node, volume).or_else(|| users.first()?.spec.node_name.clone());
        let has_waited = waits(pod, index.facts.now) >= PATIENCE;
        let is_held = holder.is_some() && !index.is_shared(volume) && has_waited;
        let on_holder = |it: &&SlimPod| it.spec.node_name == holder;
        (event.is_some() || is_held).then(|| Stuck {
            pod,
            volume: volume.to_owned(),
            users: users.into_iter().filter(on_holder).collect(),
            holder: holder.clone(),
            event,
            is_unscheduled: false,
        })
    };
    volumes.into_iter().filter_map(of_volume).collect()
}

/// The node beside the pod's own that has the volume.
fn holder(index: &Index<'_>, own: &str, volume: &str) -> Option<String> {
    let others = index.attachments(volume).iter();
    let attached = others
        .map(|it| it.spec.node_name.as_str())
        .find(|it| *it != own);
    let by_status = || {
        let unique = index.unique_name(volume)?;
        let mut nodes = index.facts.nodes.items.iter();
        let found = nodes.find(|it| it.name_any() != own && it.has_attached(&unique));
        found.map(ResourceExt::name_any)
    };
    attached.map(ToOwned::to_owned).or_else(by_status)
}

/// Other pods that use the volume, on other nodes.
fn users_elsewhere<'a>(index: &Index<'a>, pod: &SlimPod, volume: &str) -> Vec<&'a SlimPod> {
    let namespace = pod.namespace().unwrap_or_default();
    let claims = pod.claims().into_iter();
    let claims = claims.filter(|it| index.volume_of(&namespace, it) == Some(volume));
    let users = claims.flat_map(|it| index.users(&namespace, &it).to_vec());
    let is_elsewhere = |other: &&SlimPod| {
        let node = other.spec.node_name.as_ref();
        other.metadata.uid != pod.metadata.uid
            && node.is_some()
            && node != pod.spec.node_name.as_ref()
    };
    users.filter(is_elsewhere).collect()
}

fn of_scheduler<'a>(index: &Index<'a>, pod: &'a SlimPod) -> Vec<Stuck<'a>> {
    let Some(event) = index.refusal(pod, |it| Sign::OnePod.is_in(it)) else {
        return Vec::new();
    };
    let namespace = pod.namespace().unwrap_or_default();
    let claims = pod.claims();
    let of_claim = |claim: &String| {
        let volume = index.volume_of(&namespace, claim)?;
        let users = users_elsewhere(index, pod, volume);
        let holder = users.first()?.spec.node_name.clone();
        let modes = index
            .claim(&namespace, claim)
            .and_then(|it| it.spec.as_ref()?.access_modes.as_ref());
        let is_for_one = modes.is_none_or(|it| it.iter().any(|it| it == "ReadWriteOncePod"));
        is_for_one.then(|| Stuck {
            pod,
            volume: volume.to_owned(),
            holder,
            users,
            event: Some(event),
            is_unscheduled: true,
        })
    };
    claims.iter().filter_map(of_claim).collect()
}

/// For how long it has waited.
pub fn waits(pod: &SlimPod, now: Timestamp) -> SignedDuration {
    let since = pod.waits_since();
    since.map_or(SignedDuration::ZERO, |it| now.duration_since(it))
}
