//! A mark stands that this incident cannot be shown to have set.
//!
//! It is not removed and not relabelled (S8), and nothing is done beside it: a claim of ours goes, and whoever can tell whose the mark is has to
//! take it away.

use super::abort::give_back;
use super::completion::{ended, may_have_tainted};
use super::outcome::released;
use super::power_on;
use super::round::{Moment, Round};
use super::superseded::held_by_other_fence;
use super::unclaimed::bind_first;
use crate::decision::{Decision, close, held, wait};
use crate::escalation::Escalation;
use crate::hold::HeldBy;
use crate::memory::Memory;
use crate::observed::{CLAIM, DETACHING, NodeView, TaintView};
use crate::stage::Stage;
use crate::taint;
use std::time::Duration;

/// Pause between two looks at a mark that somebody else has to take away.
const FOREIGN_PAUSE: Duration = Duration::from_secs(10);

/// A mark without our claim. If we set it, our claim was taken away since, or the taint replaced; either way it is not ours to remove, and nobody
/// knows any more which it was.
pub(super) fn step(r: &mut Round<'_>, node: &NodeView) -> Decision {
    if power_on::is_begun(r) {
        return power_on::step(r, node).unwrap_or_else(|| close(Stage::Recovered, released(r)));
    }
    let again = r.moment.now + FOREIGN_PAUSE;
    // What was refused before it was seen was refused for its sake, and is nowhere.
    r.memory.writes.forget_denial();
    let late = r.moment.now + r.settings.late_effect();
    // One that was being given back is gone too. With evidence stored the taint may be ours all the same, if somebody else took the claim.
    let is_given_back = r.memory.under_claim.dropping && !r.memory.under_claim.evidence;
    if (r.memory.claim.as_ref()).is_some_and(|claim| !claim.seen || is_given_back) {
        r.memory.forget_claim(late);
    }
    // Ours is gone, and of another key or effect it never was ours.
    let ours = r.settings.mark_on(node);
    let is_like_ours = |it: &TaintView| Some(it.key.as_str()) == ours && it.effect == "NoExecute";
    if (r.memory.taint.releasing || ours.is_none())
        && !node.taints.iter().any(is_like_ours)
        && let Some(end) = ended(r, node)
    {
        return end;
    }
    // Another NodeFence of ours sees to it: nobody is to remove it by hand.
    if r.observed.claim_of_other_fence && taint::mark_of_claim(node).is_some() {
        let end = ended(r, node).or_else(|| bind_first(r, node));
        return end.unwrap_or_else(|| held_by_other_fence(r.memory, node).until(again));
    }
    if let Some(key) = ours.filter(|_| may_have_tainted(r.settings, r.memory, node)) {
        let short = taint::display_name(key);
        if r.settings.released {
            let message = format!(
                "released by `spec.desiredState: Released`; `{short}` stays on Node {} without the operator's claim; once {}, remove it (kubectl taint node {} {key}-)",
                node.name,
                taint::harmless_when(key),
                node.name
            );
            return close(Stage::Aborted, message);
        }
        let message = format!(
            "taint `{short}` is on Node {} without the operator's claim, which others removed, and stays; once {}, remove it (kubectl taint node {} {key}-)",
            node.name,
            taint::harmless_when(key),
            node.name
        );
        return wait(Stage::AwaitingRelease, message.clone())
            .escalated(Escalation::ClaimRemoved, message)
            .until(again);
    }
    if let Some(decision) = ended(r, node).or_else(|| bind_first(r, node)) {
        return decision;
    }
    held(HeldBy::ForeignOutOfService, foreign_mark(node)).until(again)
}

fn foreign_mark(node: &NodeView) -> String {
    let name = &node.name;
    let until = "remove it, or cancel this NodeFence (`spec.desiredState: Released`)";
    match node.marked_by() {
        Some(DETACHING) => format!(
            "Node {name} has taint `{DETACHING}` of another fence, whose NodeFence is gone; {}, or cancel this NodeFence (`spec.desiredState: Released`)",
            taint::left_behind(name)
        ),
        _ => format!("Node {name} already has taint `out-of-service`, set by others; {until}"),
    }
}

/// A mark beside our claim that was not set under it: it is somebody else's, so the claim goes (S8). The incident is held. If ours never stood, it
/// begins anew once theirs is gone.
pub(super) fn yield_to_foreign_taint(m: &mut Memory, node: &NodeView, claim: &str) -> Decision {
    // What was refused before their taint was seen was refused for its sake; what is refused from here on is not.
    if !m.under_claim.dropping {
        m.writes.forget_denial();
    }
    let message = match node.marked_by() {
        Some(DETACHING) => format!(
            "taint `{DETACHING}` on Node {} was not set under this claim, claim removed; remove that taint to resume",
            node.name
        ),
        _ => format!(
            "taint `out-of-service` on Node {} was set by others (not nodeshutdown:NoExecute with the claim's `timeAdded`), claim removed; remove that taint to resume",
            node.name
        ),
    };
    give_back(m, node, claim, Stage::Held, message).held(HeldBy::ForeignOutOfService)
}

/// Our claim, the taint that goes with it, and a record that has proven nothing under it: made anew by somebody, or another controller has set the
/// taint in the second of the claim. Nobody knows what was sent, nor which boot it was about: neither is it seen through nor given up.
pub(super) fn unproven(node: &NodeView, claim: &str, t: &Moment) -> Decision {
    let key = taint::mark_key_of_claim(node);
    let message = format!(
        "taint `{}` is on Node {} under claim {claim}, without evidence in this NodeFence; once {}, remove both (kubectl taint node {} {key}- {CLAIM}-)",
        taint::display_name(key),
        node.name,
        taint::harmless_when(key),
        node.name
    );
    let again = t.now + FOREIGN_PAUSE;
    held(HeldBy::OutOfServiceUnproven, message.clone())
        .escalated(Escalation::Held(HeldBy::OutOfServiceUnproven), message)
        .until(again)
}

#[cfg(test)]
mod tests;
