//! Our taints on a node that no open incident looks after: a quarantine that is over, a claim, with a mark or without, whose NodeFence is gone.
//!
//! What is ours and can go goes by itself. What only people can judge is told to them, once.

use super::{Detector, LIFT_PAUSE};
use crate::api::fence::NodeFence;
use crate::api::settings::RecoveryStrategy;
use crate::clock;
use crate::core::incident::Reply;
use crate::core::observed::{CLAIM, DETACHING, NodeView, QUARANTINE, Ready, Seen};
use crate::core::release::never_went_down;
use crate::core::taint;
use crate::shell::draft::adopting_fence;
use crate::shell::{act, observe};

impl Detector {
    /// A node that somebody else has put out of service is theirs: no record of ours, but nobody has to guess why (S8).
    pub(super) fn tell_of_foreign_taint(&self, node: &NodeView) {
        let message = match node.marked_by() {
            Some(DETACHING) => left_behind_words(&node.name),
            _ => format!(
                "Node {} already carries `out-of-service`, set by somebody else: it is left alone until they remove it",
                node.name
            ),
        };
        tracing::warn!(node = node.name, "{message}");
        self.tell(&node.name, "ForeignOutOfService", message);
    }

    /// Looks at what the cached Node carries of ours, and reads it anew where that is nobody's concern.
    pub(super) async fn tidy(&mut self, cached: &NodeView) {
        let owner = cached
            .claim()
            .and_then(taint::claim_fence)
            .map(str::to_owned);
        // An open NodeFence looks after its claim. When one ends, every node is looked at again.
        let caches = &self.context.caches;
        let is_orphaned = owner
            .as_deref()
            .is_some_and(|owner| !caches.has_open_fence(owner));
        self.look_for_the_same_boot(cached);
        let is_marked = [QUARANTINE, DETACHING]
            .iter()
            .any(|key| cached.taint(key).is_some());
        if !is_marked && !is_orphaned {
            return;
        }
        let Seen::Present(node) = observe::node(&self.context, &cached.name).await else {
            return;
        };
        let node = node.view();
        // A cluster that went back in time is not tidied up: what stands there may belong to a fence that it has forgotten.
        if self.context.revision.frozen().is_some() {
            return;
        }
        if never_went_down(
            &node,
            node.taint(QUARANTINE)
                .and_then(|(_, it)| it.value.as_deref()),
        ) {
            self.tell_of_contradiction(&node);
        }
        if owner
            .is_some_and(|owner| node.claim().and_then(taint::claim_fence) == Some(owner.as_str()))
        {
            self.tidy_claim(&node).await;
            return;
        }
        self.tell_of_mark_left_behind(&node);
        if taint::lift_quarantine(&node).is_some() {
            let at = clock::since_boot() + LIFT_PAUSE;
            self.lifts.entry(node.name.clone()).or_insert(at);
        }
    }

    /// The record of this fence has ended, and the machine that it proved down is Ready with the boot that was fenced (S22).
    fn tell_of_contradiction(&mut self, node: &NodeView) {
        let message = format!(
            "Node {} is Ready with the boot ID it was fenced with ({}): it never went down, its device lies or is wired to another machine; its quarantine stays: check the volumes' data, correct the FenceDevice, then reboot the node, or remove the taint (kubectl taint node {} {QUARANTINE}-)",
            node.name, node.boot_id, node.name
        );
        self.tell_once(&node.name, "FenceContradiction", &node.boot_id, message);
    }

    /// A Node that was deleted after its machine was proven down has another one in its place, in the very boot that was fenced (S22).
    fn look_for_the_same_boot(&mut self, node: &NodeView) {
        let caches = &self.context.caches;
        if node.boot_id.is_empty() || !caches.has_fence(|fence| has_deleted_in_boot(fence, node)) {
            return;
        }
        let message = format!(
            "Node {} is back with the boot ID that was fenced ({}) when it was deleted: its machine never went down, its device lies or is wired to another machine; check the volumes' data, correct the FenceDevice, then reboot the node",
            node.name, node.boot_id
        );
        self.tell_once(&node.name, "FenceContradiction", &node.boot_id, message);
    }

    /// The mark of a deletion stands without its claim: no boot makes sure that no deletion of a VolumeAttachment is on its way any more, so that
    /// it does not go by itself.
    fn tell_of_mark_left_behind(&mut self, node: &NodeView) {
        let Some((_, mark)) = node.taint(DETACHING).filter(|_| node.claim().is_none()) else {
            self.told.is_over(&node.name, "ClaimMissing");
            return;
        };
        let boot = mark.value.as_deref().unwrap_or_default();
        let message = left_behind_words(&node.name);
        self.tell_once(&node.name, "ClaimMissing", boot, message);
    }

    /// Nobody sees to the claim, or knows what was sent under it. Each way out has its own words, which name the claim.
    fn tell_of_claim(&mut self, node: &NodeView, reason: &'static str, message: String) {
        self.tell_once(&node.name, reason, &message.clone(), message);
    }

    /// A claim without an open NodeFence: without a mark it goes once the node is Ready (before that, the next
    /// incident takes it over); with it, a NodeFence is made that sees to the release, unless there was one.
    async fn tidy_claim(&mut self, node: &NodeView) {
        let Some(claim) = node.claim() else { return };
        let Some(owner) = taint::claim_fence(claim) else {
            return;
        };
        let has_fence = match observe::fence(&self.context, owner).await {
            Seen::Present(fence) if fence.is_ended() => true,
            Seen::Absent => false,
            Seen::Failed(_) if self.context.caches.is_undecodable(owner) => {
                self.tell_of_claim(node, "ClaimOrphaned", undecodable_words(node, claim, owner));
                return;
            }
            Seen::Present(_) | Seen::Failed(_) | Seen::NotRead => return,
        };
        let is_marked = taint::mark_of_claim(node).is_some();
        if is_marked && has_fence {
            // The Node was read before the NodeFence, whose release may have come in between.
            if let Seen::Present(again) = observe::node(&self.context, &node.name).await
                && again.view().taints == node.taints
            {
                // Whether the machine is down now is told by no record.
                self.tell_of_claim(node, "ClaimRestored", put_back_words(node, claim, owner));
            }
        } else if is_marked {
            let reply = act::create_fence(&self.context, &adopting_fence(node, owner)).await;
            tracing::warn!(
                node = node.name,
                claim,
                ?reply,
                "{} of ours without its NodeFence: adopted, to release it",
                taint::in_words(taint::mark_key_of_claim(node))
            );
        } else if node.ready() == Ready::True
            && let Some(patch) = taint::drop_claim(node, claim)
        {
            let reply = act::patch_node(&self.context, patch).await;
            tracing::warn!(
                node = node.name,
                claim,
                ?reply,
                "orphaned claim on a Ready node dropped"
            );
            // What its record knew of commands, nobody does any more.
            let is_refused = matches!(reply, Reply::Refused(..) | Reply::NotSent(_));
            if !is_refused && !has_fence {
                self.tell_of_claim(node, "ClaimOrphaned", deleted_words(node, claim, owner));
            }
        }
    }

    /// Lifts the quarantine of a node that has booted anew. `false`: to be tried again.
    pub(super) async fn lift(&self, name: &str) -> bool {
        let node = match observe::node(&self.context, name).await {
            Seen::Present(node) => node.view(),
            Seen::Absent => return true,
            Seen::Failed(_) | Seen::NotRead => return false,
        };
        let Some(patch) = taint::lift_quarantine(&node) else {
            return true;
        };
        if self.context.revision.frozen().is_some() {
            return false;
        }
        let reply = act::patch_node(&self.context, patch).await;
        tracing::info!(
            node = name,
            boot = node.boot_id,
            ?reply,
            "the node has booted anew: its quarantine is lifted"
        );
        reply == Reply::Done
    }
}

/// Has this incident proven the machine down in the boot that the Node reports, when it had another Node?
fn has_deleted_in_boot(fence: &NodeFence, node: &NodeView) -> bool {
    let status = fence.status.as_ref();
    let is_marked = status.is_some_and(|it| it.taint_applied_time.is_some());
    let evidence = status.and_then(|status| status.evidence.as_ref());
    // What most records are not comes first: each is asked for each node.
    fence.spec.node_name == node.name
        && fence.spec.recovery.strategy == RecoveryStrategy::DeleteNode
        && is_marked
        && fence.is_ended()
        && evidence.is_some_and(|it| it.node_uid != node.uid && it.node_boot_id == node.boot_id)
}

fn left_behind_words(node: &str) -> String {
    format!(
        "Node {node} carries `{DETACHING}` without the operator's claim, and is left alone: {}",
        taint::left_behind(node)
    )
}

fn deleted_words(node: &NodeView, claim: &str, owner: &str) -> String {
    let name = &node.name;
    format!(
        "Node {name} is Ready under claim {claim}, and NodeFence {owner} was deleted: the claim is being taken away; if the NodeFence had sent an off command, it may still land: should the machine go down unasked, it was that; next time release a NodeFence (`spec.desiredState: Released`), do not delete it"
    )
}

fn undecodable_words(node: &NodeView, claim: &str, owner: &str) -> String {
    let name = &node.name;
    let (keys, when) = match taint::mark_of_claim(node) {
        Some((_, mark)) => (
            format!("{}- {CLAIM}-", mark.key),
            taint::harmless_when(&mark.key),
        ),
        None => (format!("{CLAIM}-"), "nobody wants the node fenced"),
    };
    format!(
        "Node {name} carries claim {claim}, and NodeFence {owner} cannot be decoded: nobody sees to it, and no pod is let onto the node; write the NodeFence again, under the CustomResourceDefinitions of this version, or, once {when}, remove by hand what it has left (kubectl taint node {name} {keys})"
    )
}

fn put_back_words(node: &NodeView, claim: &str, owner: &str) -> String {
    let key = taint::mark_key_of_claim(node);
    let name = &node.name;
    format!(
        "Node {name} carries `{}` with claim {claim} again, and NodeFence {owner} has ended: somebody has put back an old list of taints; they are left alone: once {}, remove both (kubectl taint node {name} {key}- {CLAIM}-)",
        taint::in_words(key),
        taint::harmless_when(key)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::fixtures;
    use crate::core::observed::TaintView;

    /// S22: the boot that was fenced is back under a Node that the operator has not fenced.
    #[test]
    fn a_node_in_the_boot_of_one_that_was_deleted_is_known() {
        let fence = |strategy: &str, ended: bool| {
            let status = if ended { "True" } else { "Unknown" };
            let fence = serde_json::json!({
                "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "fence"},
                "spec": {"nodeName": "worker-1", "trigger": {"type": "Manual"}, "recovery": {"strategy": strategy}},
                "status": {
                    "taintAppliedTime": "2026-01-01T00:00:00Z",
                    "conditions": [{"type": "Succeeded", "status": status, "reason": "Recovered", "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                    "evidence": {"claim": "fence-n1", "nodeUID": "uid-1", "nodeBootID": "boot-1",
                        "quiescedTime": "2026-01-01T00:00:00Z", "provenTime": "2026-01-01T00:00:00Z", "readings": []},
                },
            });
            serde_json::from_value::<NodeFence>(fence).expect("a NodeFence")
        };
        let node = |uid: &str, boot: &str| NodeView {
            uid: uid.to_owned(),
            boot_id: boot.to_owned(),
            ..fixtures::node()
        };
        let deleted = fence("DeleteNode", true);
        assert!(has_deleted_in_boot(&deleted, &node("uid-2", "boot-1")));
        assert!(!has_deleted_in_boot(&deleted, &node("uid-2", "boot-2")));
        assert!(!has_deleted_in_boot(&deleted, &node("uid-1", "boot-1")));
        let open = fence("DeleteNode", false);
        assert!(!has_deleted_in_boot(&open, &node("uid-2", "boot-1")));
        let tainted = fence("OutOfServiceTaint", true);
        assert!(!has_deleted_in_boot(&tainted, &node("uid-2", "boot-1")));
    }

    #[test]
    fn who_is_told_of_taints_that_were_put_back_is_told_how_to_remove_them() {
        let words = |taint: TaintView| {
            let claim = fixtures::taint(CLAIM, "fence-n1", "NoExecute");
            let node = NodeView {
                taints: vec![fixtures::dated(claim), taint],
                ..fixtures::node()
            };
            put_back_words(&node, "fence-n1", "fence")
        };
        assert_eq!(
            words(fixtures::out_of_service()),
            "Node worker-1 carries `out-of-service` with claim fence-n1 again, and NodeFence fence has ended: somebody has put back an old list \
             of taints; they are left alone: once the machine is known to be off or freshly booted, remove both (kubectl taint node worker-1 \
             node.kubernetes.io/out-of-service- nodefencing.io/claim-)"
        );
        let mark = fixtures::dated(fixtures::taint(DETACHING, "boot-1", "NoExecute"));
        let words = words(mark);
        let command = "kubectl taint node worker-1 nodefencing.io/detaching- nodefencing.io/claim-";
        assert!(words.contains(command), "{words}");
        assert!(
            words.contains("no VolumeAttachment of the node is left"),
            "{words}"
        );
    }
}
