//! Nodes that have died with volumes: nobody fences them (D1), somebody does (D2), their pods tolerate what evicts all others (D8), or a human has
//! set out-of-service (D12).

mod marked;

use super::super::finding::{Finding, Id, Object, Step, named, step, steps};
use super::super::index::{Index, Owner};
use super::super::stuck::Stuck;
use super::steps::power;
use super::unfenced;
use crate::fences::{self, Warning, WarningKind};
use fencing_api::fence::NodeFence;
use fencing_api::policy::RecoveryStrategy;
use fencing_cluster::slim::{SlimAttachment, SlimPod, WideNode};
use fencing_core::observed::Ready;
use fencing_drivers::manual;
use kube::ResourceExt;
use std::collections::BTreeSet;

/// D1, D2 and D12: one finding for each silent node that pods wait for, or that has volumes attached for which they will. What other signatures (D3, D8)
/// explain is left to them.
pub(super) fn dead(index: &Index<'_>, stuck: &[Stuck<'_>], explained: &[Finding]) -> Vec<Finding> {
    let explained: BTreeSet<&Object> = explained.iter().flat_map(|it| &it.objects).collect();
    let nodes = index.facts.nodes.items.iter();
    // Out of service counts on a Ready node, too.
    let nodes = nodes.filter(|it| it.is_down() || marked::is_by_human(index, it));
    let of_node = |node: &WideNode| {
        let name = node.name_any();
        let is_told = |volume: &str| explained.contains(&Object::volume(volume));
        let waiting = stuck.iter();
        let waiting: Vec<&Stuck<'_>> = waiting
            .filter(|it| it.holder.as_ref() == Some(&name) && !is_told(&it.volume))
            .collect();
        let mut terminating = terminating(index, &name);
        terminating.retain(|it| !explained.contains(&Object::pod(it)));
        let mut attached = match explained.contains(&Object::node(&name)) {
            true => Vec::new(),
            false => attached(index, node),
        };
        attached.retain(|it| !it.volume().is_some_and(is_told));
        if waiting.is_empty() && terminating.is_empty() && attached.is_empty() {
            return None;
        }
        let scene = Scene {
            node,
            waiting,
            terminating,
            attached,
        };
        match index.fence(&name) {
            Some(fence) => Some(scene.fenced(index, fence)),
            // What is not known of NodeFences is no reason to call it a human's.
            None if node.is_marked() => {
                marked::is_by_human(index, node).then(|| scene.by_human(index))
            }
            None => Some(scene.unfenced(index)),
        }
    };
    nodes.filter_map(of_node).collect()
}

/// Pods with claims that are to leave the node and cannot: its kubelet is to say that they have stopped.
fn terminating<'a>(index: &Index<'a>, node: &str) -> Vec<&'a SlimPod> {
    let pods = index.pods(node).iter().copied();
    let leaving = pods.filter(|it| it.is_deleting() && !it.claims().is_empty());
    leaving.collect()
}

/// Volumes of one node that are attached to this one, which has reported once. Whoever will want them waits, though nobody does yet.
fn attached<'a>(index: &Index<'a>, node: &WideNode) -> Vec<&'a SlimAttachment> {
    if node.view().ready() == Ready::Missing {
        return Vec::new();
    }
    let holds = |it: &&SlimAttachment| {
        let is_shared = it.volume().is_some_and(|it| index.is_shared(it));
        (it.status.attached || it.is_deleting()) && !is_shared
    };
    let all = index.attachments_on(&node.name_any()).iter().copied();
    all.filter(holds).collect()
}

/// A silent node, who waits for it, and what it has.
struct Scene<'a> {
    node: &'a WideNode,
    waiting: Vec<&'a Stuck<'a>>,
    terminating: Vec<&'a SlimPod>,
    attached: Vec<&'a SlimAttachment>,
}

impl Scene<'_> {
    fn objects(&self) -> Vec<Object> {
        let waiting = self.waiting.iter();
        let pods = waiting.clone().map(|it| it.pod);
        let pods = pods.chain(self.terminating.iter().copied());
        let attached = self.attached.iter().filter_map(|it| it.volume());
        let volumes = waiting.map(|it| it.volume.as_str()).chain(attached);
        let node = Object::node(&self.node.name_any());
        let all = std::iter::once(node).chain(pods.map(Object::pod));
        let mut seen = BTreeSet::new();
        all.chain(volumes.map(Object::volume))
            .filter(|it| seen.insert(it.clone()))
            .collect()
    }

    /// A kubelet that speaks is not silent, and the pods of either may well run: that a machine is down nobody knows before the proof.
    fn fate(&self) -> &'static str {
        match self.node.view().ready() {
            Ready::Unknown => "is silent",
            _ => "is not Ready",
        }
    }

    /// Attached volumes that nobody is seen to wait for.
    fn unwanted(&self) -> Vec<String> {
        let wanted: BTreeSet<&str> = self.waiting.iter().map(|it| it.volume.as_str()).collect();
        let names = self.attached.iter();
        let names = names.map(|it| it.volume().map_or_else(|| it.name_any(), str::to_owned));
        names.filter(|it| !wanted.contains(it.as_str())).collect()
    }

    fn seen(&self, index: &Index<'_>) -> Vec<String> {
        let mut seen = vec![index.told(self.node)];
        seen.extend(self.waiting.iter().take(3).map(|it| told(index, it)));
        if !self.terminating.is_empty() {
            let pods: Vec<String> = self.terminating.iter().map(|it| it.full_name()).collect();
            seen.push(format!(
                "there Terminating (no kubelet reports that they have stopped): {}",
                named(&pods)
            ));
        }
        let unwanted = self.unwanted();
        if !unwanted.is_empty() {
            seen.push(format!(
                "attached there, and no pod elsewhere waits for it yet: {}",
                named(&unwanted)
            ));
        }
        seen
    }

    fn unfenced(&self, index: &Index<'_>) -> Finding {
        let node = self.node.name_any();
        let why = unfenced::why(index, self.node);
        let mut seen = self.seen(index);
        let stands = match why.is_to_come {
            true => "is not fenced yet",
            false => "is not fenced",
        };
        seen.push(why.words);
        let mut fix = steps(&format!(
            "# whether the machine is reached at all, and by whom
            kubectl describe node {node}"
        ));
        fix.extend(why.steps);
        Finding {
            id: Id::D1,
            title: format!("node {node} {}, and {stands}", self.fate()),
            objects: self.objects(),
            cause: format!(
                "Kubernetes takes no volume from a node that may still write. Until the machine is confirmed off, pods that need the volumes of {node} wait"
            ),
            seen,
            fix,
        }
    }

    fn fenced(&self, index: &Index<'_>, fence: &NodeFence) -> Finding {
        let (node, name) = (self.node.name_any(), fence.name_any());
        let now = index.facts.now;
        let mut seen = self.seen(index);
        seen.push(format!(
            "NodeFence {name} is {} for {}, deadline {}: {}",
            fences::stage(fence),
            fences::lasts(fence, now),
            fences::deadline(fence, now),
            fences::message(fence)
        ));
        if !index.is_about(fence, self.node) {
            seen.push(format!(
                "NodeFence {name} is of another Node of this name, or of an earlier boot, so its proof does not apply"
            ));
        }
        seen.extend(warned(fences::told(&fences::warnings(fence))));
        let denied = fences::denied_beside(fence, &index.facts.fences.items);
        seen.extend(denied.map(|it| format!("they may be at the machine: {}", it.words)));
        let frees = match fence.spec.procedure.recovery.strategy {
            RecoveryStrategy::None => {
                "it ends with the proof and frees no volume (`recovery.strategy` is None); the consumer of that proof frees them"
            }
            _ => "its volumes are detached when it has passed Detaching",
        };
        Finding {
            id: Id::D2,
            title: format!(
                "node {node} {}, and is being fenced: {}",
                self.fate(),
                fences::stage(fence)
            ),
            objects: self.objects(),
            cause: format!("NodeFence {name} is open; {frees}"),
            seen,
            fix: follow(fence, &node, &index.facts.fences.items),
        }
    }
}

/// What a person has to know before they go by an incident, in the words of `kubectl fence status`.
fn warned<'a>(warnings: impl Iterator<Item = &'a Warning>) -> Vec<String> {
    warnings
        .map(|it| format!("{}: {}", it.kind.title(), it.words))
        .collect()
}

/// The way out of an incident that is open: to wait, and to answer it.
fn follow(fence: &NodeFence, node: &str, all: &[NodeFence]) -> Vec<Step> {
    let mut fix = Vec::new();
    let brake = fences::brake(fence);
    if fences::is_awaited(fence) && brake.is_none() {
        fix.extend(steps(&format!(
            "# it waits for an approval or denial
            kubectl fence approve {node} --reason \"WHY\"
            # or it is not to be fenced
            kubectl fence deny {node} --reason \"WHY\""
        )));
    }
    fix.extend(steps(&format!(
        "# follow it
        kubectl fence status {node} --watch
        # its record
        kubectl get nodefence {} -o yaml",
        fence.name_any()
    )));
    if fences::escalated(fence).is_some() && !fences::is_awaited(fence) {
        let denied = fences::denied_beside(fence, all);
        let commands = fences::commands(fence, denied.is_some()).into_iter();
        let why = "action required; once you have followed the message above";
        fix.extend(commands.map(|it| step(why, it)));
    }
    if let Some(brake) = brake {
        fix.extend(steps(&format!(
            "# only if this machine is known to be down: an approval lifts the hold ({brake})
            kubectl fence approve {node} --reason \"WHY\""
        )));
    }
    fix
}

/// Who waits for what.
fn told(index: &Index<'_>, stuck: &Stuck<'_>) -> String {
    let pod = stuck.pod.full_name();
    let volume = &stuck.volume;
    match stuck.event {
        Some(event) => format!("pod {pod}: {event}"),
        None => {
            let mut attachments = index.attachments(volume).iter();
            let is_there = attachments.any(|it| Some(&it.spec.node_name) == stuck.holder.as_ref());
            let has = match is_there {
                true => "which is attached there",
                false => "which a pod there uses, or which attach/detach believes attached there",
            };
            format!("pod {pod} waits for volume {volume}, {has} (without a remaining event)")
        }
    }
}

/// A proof that stands: by its readings, or by a human's word alone.
pub(super) fn proven(fence: &NodeFence) -> String {
    let name = fence.name_any();
    let evidence = fence.status.as_ref().and_then(|it| it.evidence.as_ref());
    let readings = evidence.map_or(&[][..], |it| &it.readings);
    match !readings.is_empty() && readings.iter().all(|it| manual::is_word(&it.raw)) {
        true => {
            format!("NodeFence {name} has its machine confirmed off by hand, read by no device")
        }
        false => format!("NodeFence {name} confirmed its machine off"),
    }
}

/// What stands against a proof, though it stands: whoever takes volumes by hand knows it first.
pub(super) fn contradicted(fence: &NodeFence) -> Vec<String> {
    let all = fences::warnings(fence);
    warned(all.iter().filter(|it| it.kind != WarningKind::Escalated))
}

/// D8: pods with claims that stay on a silent node, though it is out of service. One that is to go is gone within 20 s, whatever it tolerates: pod GC
/// asks for its deletion and the taint alone (`gcTerminating`, upstream's `pkg/controller/podgc/gc_controller.go`, v1.36).
pub(super) fn unevictable(index: &Index<'_>) -> Vec<Finding> {
    let nodes = index.facts.nodes.items.iter();
    let nodes = nodes.filter(|it| it.is_down() && it.is_marked());
    let of_node = |node: &WideNode| {
        let name = node.name_any();
        let pods = index.pods(&name).iter().copied();
        let stays = |it: &&SlimPod| {
            !it.is_deleting() && !it.claims().is_empty() && it.tolerates_out_of_service()
        };
        let pods: Vec<&SlimPod> = pods.filter(stays).collect();
        (!pods.is_empty()).then(|| unevicted(index, node, &pods))
    };
    nodes.filter_map(of_node).collect()
}

fn unevicted(index: &Index<'_>, node: &WideNode, pods: &[&SlimPod]) -> Finding {
    let name = node.name_any();
    let names: Vec<String> = pods.iter().map(|it| it.full_name()).collect();
    let mut objects = vec![Object::node(&name)];
    objects.extend(pods.iter().map(|it| Object::pod(it)));
    let made = pods
        .iter()
        .map(|it| (it.namespace().unwrap_or_default(), index.owner(it)));
    let owners: BTreeSet<(String, Owner)> = made.filter(|(_, it)| !it.is_pod()).collect();
    let owners = owners.iter().flat_map(|(namespace, owner)| {
        steps(&format!(
            "# remove the toleration that has no key, or the key node.kubernetes.io/out-of-service, or limit it by tolerationSeconds
            kubectl -n {namespace} edit {owner}"
        ))
    });
    let mut fix: Vec<Step> = owners.collect();
    fix.extend(steps(&format!(
        "# by what proof the machine was confirmed off (the taint alone is none)
        kubectl fence history {name}"
    )));
    let proof = index.proof(node);
    let contradicted = proof.map(contradicted).unwrap_or_default();
    if proof.is_none() || !contradicted.is_empty() {
        fix.extend(power(index, &name));
    }
    // A kubelet that speaks has booted, or never was down: what it runs may write.
    let is_silent = node.view().ready() == Ready::Unknown;
    let deleted = pods.iter().take(3).filter(|_| is_silent);
    fix.extend(deleted.flat_map(|pod| {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        steps(&format!(
            "# only while the machine is off: this pod keeps its tolerations; pod GC deletes it under the taint
            kubectl -n {namespace} delete pod {name} --wait=false"
        ))
    }));
    let proven = proof.map_or_else(
        || "no valid proof confirms its machine off".to_owned(),
        proven,
    );
    let mut seen = vec![index.told(node), proven];
    seen.extend(contradicted);
    seen.push(format!(
        "on it, not evicted, and with claims: {}",
        named(&names)
    ));
    Finding {
        id: Id::D8,
        title: format!("pods on node {name} tolerate out-of-service, so no fence evicts them"),
        objects,
        cause: "pod GC force-deletes the pods of a dead node under out-of-service, except those that tolerate it for ever; their volumes stay attached".to_owned(),
        seen,
        fix,
    }
}
