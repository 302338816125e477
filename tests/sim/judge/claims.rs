//! The claims of Nodes, and whose they are: a Node may have several NodeFences, a human's beside the policy's, which is bound to what it meets
//! first, and is deleted perhaps while it is at work.

use super::known::{ON_ITS_WAY, put, sender};
use super::{Found, State, owner};
use crate::libc::elapsed;
use crate::objects::{CLAIM, taint, text};
use serde_json::Value;
use simapi::kinds::FENCE;
use simapi::store::{Change, Write};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

impl State {
    /// The claim of a Node has come, changed or gone.
    pub(super) fn note_claim(&mut self, name: &str, node: Option<&Value>) {
        let claim = node.and_then(|node| taint(node, CLAIM));
        let claim = claim.map(|it| text(it, "/value"));
        let known = self.claims.get(name).map(|(claim, _)| claim.as_str());
        let former = match claim {
            Some(claim) if known != Some(claim) => {
                let since = (claim.to_owned(), elapsed());
                let all = self.claimed.entry(name.to_owned()).or_default();
                all.push(since.clone());
                self.claims.insert(name.to_owned(), since)
            }
            Some(_) => None,
            None => self.claims.remove(name),
        };
        if let Some(former) = former {
            self.former.insert(name.to_owned(), (former, elapsed()));
        }
    }

    /// A human deletes a NodeFence, whatever it is doing.
    pub(super) fn note_deleted(&mut self, write: &Write) {
        if *write.kind == FENCE && write.change == Change::Deleted && &*write.actor == "human" {
            let name = write.key.1.clone();
            self.deleted.insert(name, Arc::clone(&write.new));
        }
    }

    /// The record that a claim rests on: one that a human has deleted since is what it was if its evidence is for this very claim, for nobody
    /// else can have written that.
    pub(super) fn record_of(&self, claim: &str) -> Option<Arc<Value>> {
        let is_of_claim = |it: &Arc<Value>| it["status"]["evidence"]["claim"] == claim;
        let (name, stands) = (owner(claim), self.fence(owner(claim)));
        let deleted = self.deleted.get(name).filter(|it| is_of_claim(it));
        match stands {
            Some(fence) if is_of_claim(&fence) || deleted.is_none() => Some(fence),
            _ => deleted.cloned(),
        }
    }

    /// The records that have evidence, by the claim that it is for.
    fn proven(&self) -> BTreeMap<String, Arc<Value>> {
        let records = self.of_kind(&FENCE).filter_map(|fence| {
            let claim = fence["status"]["evidence"]["claim"].as_str()?;
            Some((claim.to_owned(), Arc::clone(fence)))
        });
        records.collect()
    }

    /// etcd is about to forget what the records say.
    pub(super) fn note_forgotten(&mut self) {
        let records = self.proven();
        self.forgotten.extend(records);
    }

    /// What stands there still is not forgotten.
    pub(super) fn keep_forgotten(&mut self) {
        let stands = self.proven();
        self.forgotten
            .retain(|claim, _| !stands.contains_key(claim));
    }

    /// The record that a write rests on. What was sent before etcd was put back, and comes late, rests on what etcd has forgotten since: on evidence for
    /// this very claim, that was stored then. When it left is not asked: nobody else has this claim.
    pub(super) fn record_behind(&self, write: &Write, claim: &str) -> Option<Arc<Value>> {
        let (_, is_late) = sender(&write.actor);
        let forgotten = self.forgotten.get(claim).filter(|_| is_late);
        forgotten.cloned().or_else(|| self.record_of(claim))
    }

    /// Does a NodeFence that a human has made put its claim on a Node?
    pub(super) fn is_claim_by_hand(&self, write: &Write) -> bool {
        let fence = put(write, CLAIM).and_then(|claim| self.fence(owner(&claim)));
        fence.is_some_and(|fence| is_human_s(&fence))
    }

    /// S10: a NodeFence claims the Node that it is about; and a human's, which is about a name, no Node before it is bound to it.
    pub(super) fn claims_unbound(&self, write: &Write) -> Found {
        let Some(claim) = put(write, CLAIM) else {
            return Vec::new();
        };
        let name = owner(&claim);
        // A record that is gone, or that etcd has forgotten, was there when this was decided.
        let Some(fence) = self.fence(name).filter(|_| !self.rests_on_the_past()) else {
            return Vec::new();
        };
        let uid = text(&write.new, "/metadata/uid");
        let is_about = |fence: &Value| {
            let of = |field: &str| {
                let written = [&fence["spec"][field], &fence["status"][field]];
                written.into_iter().find_map(Value::as_str)
            };
            let is_bound = of("nodeUID").is_some() && of("bootID").is_some();
            text(fence, "/spec/nodeName") == write.key.1
                && of("nodeUID").is_none_or(|of| of == uid)
                && (is_bound || !is_human_s(fence))
        };
        let former = self.deleted.get(name);
        if is_about(&fence) || former.is_some_and(|it| is_about(it)) {
            return Vec::new();
        }
        let words = format!(
            "{} is claimed by {name}, which is not bound to it",
            write.key.1
        );
        vec![("S10", words)]
    }

    /// S11: who has claimed this Node since this NodeFence put it out of service, but for a claim of this moment. A record that is gone
    /// tells nobody of it.
    pub(super) fn taken_since(&self, fence: &str, node: &str, in_flight: Duration) -> Option<&str> {
        let courses = &self.tally.courses;
        let tainted = courses.get(fence).and_then(|course| course.tainted)?;
        let until = elapsed().checked_sub(in_flight + ON_ITS_WAY)?;
        let claims = self.claimed.get(node).into_iter().flatten();
        let others = claims.filter(|(_, at)| *at > tainted && *at < until);
        let mut others = others.map(|(claim, _)| owner(claim));
        others.find(|other| *other != fence && self.fence(other).is_some())
    }
}

fn is_human_s(fence: &Value) -> bool {
    fence["spec"]["trigger"]["type"] == "Manual"
}

#[cfg(test)]
mod tests;
