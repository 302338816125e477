//! Our taints on a node that no open incident looks after: a quarantine that is over, a claim, with a mark or without, whose NodeFence is gone.
//!
//! What is ours and can go goes by itself. What only people can judge is told to them, once.

use super::{Detector, LIFT_PAUSE};
use crate::shell::draft::adopting_fence;
use crate::shell::merge::status_patch;
use crate::shell::{act, observe};
use fencing_api::fence::NodeFence;
use fencing_core::answer::Reply;
use fencing_core::observed::{CLAIM, DETACHING, NodeView, QUARANTINE, Read, Ready};
use fencing_core::record;
use fencing_core::release::never_went_down;
use fencing_core::stranded::{self, Stranded};
use fencing_core::taint;
use fencing_drivers::clock;
use kube::ResourceExt;

impl Detector {
    /// A node that somebody else has put out of service is theirs: no record of ours, but nobody has to guess why (S8).
    pub(super) fn tell_of_foreign_taint(&self, node: &NodeView) {
        let message = match node.marked_by() {
            Some(DETACHING) => left_behind_words(&node.name),
            _ => format!(
                "Node {} already has taint `out-of-service`, set by others, and is not fenced until they remove it",
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
        // An open NodeFence looks after its claim. When one ends, or is gone, its Node is looked at again.
        let caches = &self.context.caches;
        let is_orphaned = owner
            .as_deref()
            .is_some_and(|owner| !caches.has_open_fence(owner));
        let lives = self.look_for_the_same_boot(cached).await;
        let is_marked = [QUARANTINE, DETACHING]
            .iter()
            .any(|key| cached.taint(key).is_some());
        if !is_orphaned && (!is_marked || self.is_settled(cached)) {
            self.shows(&cached.name, lives, None);
            return;
        }
        let Read::Present(node) = observe::node(&self.context, &cached.name).await else {
            return;
        };
        let node = node.view();
        // A cluster that went back in time is not tidied up: what stands there may belong to a fence that it has forgotten.
        if self.context.revision.frozen().is_some() {
            return;
        }
        let quarantine = node.taint(QUARANTINE);
        let fenced = quarantine.and_then(|(_, it)| it.value.as_deref());
        let fences = self.context.caches.fences_of(&node.name);
        let fence = stranded::refuted(&fences, &node);
        // The quarantine alone tells as much where the record is gone.
        let is_refuted =
            never_went_down(&node, fenced) || fence.is_some() && taint::is_quarantined(&node);
        let lives = lives || is_refuted;
        if is_refuted {
            self.tell_of_contradiction(&node, fence).await;
        }
        if owner
            .is_some_and(|owner| node.claim().and_then(taint::claim_fence) == Some(owner.as_str()))
        {
            match self.tidy_claim(&node).await {
                Ok(found) => self.shows(&node.name, lives, found),
                // What was shown of its taints stays.
                Err(Unread) => self.shows_life(&node.name, lives),
            }
            return;
        }
        let is_left = self.tell_of_mark_left_behind(&node);
        self.shows(&node.name, lives, is_left.then_some(Stranded::ClaimMissing));
        if taint::lift_quarantine(&node).is_some() {
            let at = clock::since_boot() + LIFT_PAUSE;
            self.lifts.entry(node.name.clone()).or_insert(at);
        }
    }

    /// Does nothing follow from the quarantine that the Node carries, as it stands? A change of the Node is looked at again, so that it need not be
    /// read each time that one of many in a storm is looked at.
    fn is_settled(&self, cached: &NodeView) -> bool {
        let quarantine = cached.taint(QUARANTINE);
        let fenced = quarantine.and_then(|(_, it)| it.value.as_deref());
        let fences = self.context.caches.fences_of(&cached.name);
        cached.claim().is_none()
            && cached.taint(DETACHING).is_none()
            && taint::lift_quarantine(cached).is_none()
            && !never_went_down(cached, fenced)
            && stranded::refuted(&fences, cached).is_none()
    }

    /// The gauges of the node: whether its machine lives in the boot that was proven down, and what is the matter with our taints.
    fn shows(&self, node: &str, lives: bool, of_taints: Option<Stranded>) {
        self.shows_life(node, lives);
        let stranded = &self.context.stranded;
        for reason in Stranded::OF_TAINTS {
            stranded.set(node, reason, of_taints == Some(reason));
        }
    }

    fn shows_life(&self, node: &str, lives: bool) {
        self.context.stranded.set(node, Stranded::SameBoot, lives);
    }

    /// The record of this fence has ended, and the machine that it proved down reports in the boot that was fenced (S22).
    async fn tell_of_contradiction(&mut self, node: &NodeView, fence: Option<&NodeFence>) {
        let how = match node.ready() {
            Ready::True => "is Ready",
            Ready::False | Ready::Unknown | Ready::Missing => "reports",
        };
        let message = format!(
            "Node {} {how} in the boot that was fenced ({}): it never went down, or was suspended; check data and FenceDevice, then reboot it, or untaint it (kubectl taint node {} {QUARANTINE}-)",
            node.name, node.boot_id, node.name
        );
        self.contradicted(node, fence, message).await;
    }

    /// Without a quarantine, the record alone tells: of a Node that was deleted after its machine was proven down, by whomever, and has another one
    /// in its place in the very boot that was fenced, or of one that was left to others (S22).
    async fn look_for_the_same_boot(&mut self, node: &NodeView) -> bool {
        if node.boot_id.is_empty() || taint::is_quarantined(node) {
            return false;
        }
        let caches = &self.context.caches;
        if !caches.has_fence(|fence| stranded::refuted([fence], node).is_some()) {
            return false;
        }
        let fences = caches.fences_of(&node.name);
        let Some(fence) = stranded::refuted(&fences, node) else {
            return false;
        };
        let (name, boot) = (&node.name, &node.boot_id);
        let evidence = fence.status.as_ref().and_then(|it| it.evidence.as_ref());
        let is_back = evidence.is_some_and(|it| it.node_uid != node.uid);
        let what = match (is_back, node.ready()) {
            (true, _) => {
                format!("is back in boot {boot}, which was fenced when it was deleted")
            }
            (false, Ready::True) => {
                format!("is Ready in boot {boot}, which was confirmed off")
            }
            (false, _) => format!("reports in boot {boot}, which was confirmed off"),
        };
        let message = format!(
            "Node {name} {what}: its machine never went down, or was suspended; check the volumes' data, correct the FenceDevice, then reboot the node"
        );
        self.contradicted(node, Some(fence), message).await;
        true
    }

    /// Told and counted once for each boot. The record keeps that its proof was false: whoever goes on after this process counts nothing again.
    async fn contradicted(&mut self, node: &NodeView, fence: Option<&NodeFence>, message: String) {
        let is_news = self.tell_once(&node.name, "FenceContradiction", &node.boot_id, message);
        if fence.is_some_and(stranded::is_refuted) {
            return;
        }
        if is_news {
            let policy = fence.and_then(|it| it.spec.policy_name.as_deref());
            self.context
                .metrics
                .contradiction(policy.unwrap_or_default());
        }
        let Some(fence) = fence else { return };
        let name = fence.name_any();
        if let Read::Present(live) = observe::fence(&self.context, &name).await
            && live.metadata.uid == fence.metadata.uid
            && let Some(stored) = &live.status
        {
            let mut status = stored.clone();
            record::refuted(&mut status, clock::wall());
            let version = live.metadata.resource_version.as_deref();
            if let Some(changes) = status_patch(version, Some(stored), &status) {
                match act::patch_status(&self.context, &name, &changes).await {
                    Ok(_) => {
                        tracing::warn!(fence = name, "its power-off proof was false: recorded")
                    }
                    Err(reply) => {
                        tracing::warn!(
                            fence = name,
                            ?reply,
                            "its power-off proof was false: not recorded"
                        );
                    }
                }
            }
        }
    }

    /// The mark of a deletion stands without its claim: no boot makes sure that no deletion of a VolumeAttachment is on its way any more, so that
    /// it does not go by itself.
    fn tell_of_mark_left_behind(&mut self, node: &NodeView) -> bool {
        let Some((_, mark)) = node.taint(DETACHING).filter(|_| node.claim().is_none()) else {
            self.told.is_over(&node.name, "ClaimMissing");
            return false;
        };
        let boot = mark.value.as_deref().unwrap_or_default();
        let message = left_behind_words(&node.name);
        self.tell_once(&node.name, "ClaimMissing", boot, message);
        true
    }

    /// Nobody sees to the claim, or knows what was sent under it. Each way out has its own words, which name the claim.
    fn tell_of_claim(&mut self, node: &NodeView, reason: &'static str, message: String) {
        self.tell_once(&node.name, reason, &message.clone(), message);
    }

    /// A claim without an open NodeFence: without a mark it goes once the node is Ready (before that, the next
    /// incident takes it over); with it, a NodeFence is made that sees to the release, unless there was one.
    ///
    /// What people have to see to is returned.
    async fn tidy_claim(&mut self, node: &NodeView) -> Result<Option<Stranded>, Unread> {
        let Some(claim) = node.claim() else {
            return Ok(None);
        };
        let Some(owner) = taint::claim_fence(claim) else {
            return Ok(None);
        };
        let has_fence = match observe::fence(&self.context, owner).await {
            Read::Present(fence) if fence.is_ended() => true,
            Read::Absent => false,
            Read::Failed(_) if self.context.caches.is_undecodable(owner) => {
                self.tell_of_claim(node, "ClaimOrphaned", undecodable_words(node, claim, owner));
                return Ok(Some(Stranded::ClaimOrphaned));
            }
            Read::Present(_) => return Ok(None),
            Read::Failed(_) | Read::NotRead => return Err(Unread),
        };
        let is_marked = taint::mark_of_claim(node).is_some();
        if is_marked && has_fence {
            // The Node was read before the NodeFence, whose release may have come in between.
            let Read::Present(again) = observe::node(&self.context, &node.name).await else {
                return Err(Unread);
            };
            if again.view().taints == node.taints {
                // Whether the machine is down now is told by no record.
                self.tell_of_claim(node, "ClaimRestored", put_back_words(node, claim, owner));
                return Ok(Some(Stranded::ClaimRestored));
            }
        } else if is_marked {
            let reply = act::create_fence(&self.context, &adopting_fence(node, owner)).await;
            tracing::warn!(
                node = node.name,
                claim,
                ?reply,
                "taint {} of the operator has no NodeFence: adopted, to release it",
                taint::display_name(taint::mark_key_of_claim(node))
            );
        } else if node.ready() == Ready::True
            && let Some(patch) = taint::drop_claim(node, claim)
        {
            let reply = act::patch_node(&self.context, patch).await;
            tracing::warn!(
                node = node.name,
                claim,
                ?reply,
                "orphaned claim on a Ready node removed"
            );
            // What its record knew of commands, nobody does any more.
            let is_refused = matches!(reply, Reply::Refused(..) | Reply::NotSent(_));
            if !is_refused && !has_fence {
                self.tell_of_claim(node, "ClaimOrphaned", deleted_words(node, claim, owner));
            }
        }
        Ok(None)
    }

    /// Lifts the quarantine of a node that has booted anew. `false`: to be tried again.
    pub(super) async fn lift(&self, name: &str) -> bool {
        let node = match observe::node(&self.context, name).await {
            Read::Present(node) => node.view(),
            Read::Absent => return true,
            Read::Failed(_) | Read::NotRead => return false,
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
            "the node rebooted: its quarantine is lifted"
        );
        reply == Reply::Done
    }
}

/// Whether people have to see to it is not known at present: what was shown stays.
struct Unread;

fn left_behind_words(node: &str) -> String {
    format!(
        "Node {node} has taint `{DETACHING}` without the operator's claim, which stays; {}",
        taint::left_behind(node)
    )
}

fn deleted_words(node: &NodeView, claim: &str, owner: &str) -> String {
    let name = &node.name;
    format!(
        "Node {name} is Ready under claim {claim}, whose NodeFence {owner} was deleted: removing the claim, an earlier power-off may still take effect; release NodeFences (`spec.desiredState: Released`), do not delete them"
    )
}

fn undecodable_words(node: &NodeView, claim: &str, owner: &str) -> String {
    let name = &node.name;
    let (keys, when) = match taint::mark_of_claim(node) {
        Some((_, mark)) => (
            format!("{}- {CLAIM}-", mark.key),
            taint::harmless_when(&mark.key),
        ),
        None => (format!("{CLAIM}-"), "the node need not be fenced"),
    };
    format!(
        "Node {name} has claim {claim}, whose NodeFence {owner} cannot be decoded; write the NodeFence again, or, once {when}, remove the taints (kubectl taint node {name} {keys})"
    )
}

fn put_back_words(node: &NodeView, claim: &str, owner: &str) -> String {
    let key = taint::mark_key_of_claim(node);
    let name = &node.name;
    format!(
        "Node {name} has `{}` and claim {claim} again (restored after NodeFence {owner} ended); once {}, remove both (kubectl taint node {name} {key}- {CLAIM}-)",
        taint::display_name(key),
        taint::harmless_when(key)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_core::fixtures;
    use fencing_core::observed::TaintView;

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
            "Node worker-1 has `out-of-service` and claim fence-n1 again (restored after NodeFence fence ended); once the machine is off or rebooted, remove both (kubectl taint node worker-1 \
             node.kubernetes.io/out-of-service- nodefencing.io/claim-)"
        );
        let mark = fixtures::dated(fixtures::taint(DETACHING, "boot-1", "NoExecute"));
        let words = words(mark);
        let command = "kubectl taint node worker-1 nodefencing.io/detaching- nodefencing.io/claim-";
        assert!(words.contains(command), "{words}");
        assert!(words.contains("no VolumeAttachment is left"), "{words}");
    }
}
