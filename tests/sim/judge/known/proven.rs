//! What a process has of a proof: the claim, the readings, the evidence.

use super::super::{Found, State};
use super::{Claim, ON_ITS_WAY, PROOF_LIFE, sender};
use crate::libc::elapsed;
use std::time::Duration;

impl State {
    /// The claim under which a pod of this Node is deleted. Nothing in the deletion tests for it: one that has gone since may have stood when it
    /// was sent.
    pub(in super::super) fn claim_of_deletion(&self, actor: &str, node: &str) -> Option<&Claim> {
        let (process, _) = sender(actor);
        let known = self.known.get(process);
        let is_own = |(claim, _): &&Claim| known.is_some_and(|it| it.wrote_claim(node, claim));
        let stands = self.claims.get(node);
        let former = self.former.get(node);
        let former = former.filter(|(_, until)| elapsed() <= *until + ON_ITS_WAY);
        let former = former.map(|(claim, _)| claim).filter(is_own);
        stands.filter(is_own).or(former).or(stands)
    }

    /// S2, S3: what the proof lacks that this process has of the machine of this Node, at this moment.
    pub(in super::super) fn lacks(
        &self,
        actor: &str,
        (node, claim): (&str, Option<&Claim>),
        machine: &str,
    ) -> Found {
        let (process, is_late) = sender(actor);
        let Some(known) = self.known.get(process) else {
            return vec![("S3", format!("{node}: {process} knows nothing"))];
        };
        let mut found = Vec::new();
        let stands = claim.map(|(claim, _)| claim.as_str()).unwrap_or_default();
        if is_late {
            // What was known when it was sent has changed since.
            return found;
        }
        if !known.wrote_claim(node, stands) {
            let words = format!("{node}: claim `{stands}` was not written by {process}");
            found.push(("S3", words));
        }
        let quiet = self.quiet.get(node).copied();
        let is_quiet = self.startable(node).next().is_none();
        let since = quiet.unwrap_or(Some(Duration::ZERO)).filter(|_| is_quiet);
        let since = since.zip(claim.map(|(_, since)| *since));
        let Some((quiet, claimed)) = since else {
            found.push(("S2", format!("{node} is not claimed and quiet")));
            return found;
        };
        let since = quiet.max(claimed);
        let offs = known.offs.get(machine).map(Vec::as_slice);
        let mut offs = offs.unwrap_or_default().iter();
        let first = offs.find(|off| off.asked.at >= since);
        let last = offs.next_back();
        let Some((first, last)) = first.zip(last) else {
            let words = format!("{node}: fewer than two readings of off since {since:?}");
            found.push(("S2", words));
            return found;
        };
        let span = last.asked.since_boot.saturating_sub(first.answered);
        let age = elapsed().saturating_sub(last.asked.at);
        if span < self.window {
            let (said, asked) = (first.answered, last.asked.since_boot);
            let words =
                format!("{node}: off was said at {said:?}, and asked for again at {asked:?} only");
            found.push(("S2", words));
        }
        if age > PROOF_LIFE + ON_ITS_WAY {
            found.push(("S2", format!("{node}: its last reading is {age:?} old")));
        }
        found
    }

    /// S2, S17: has this process stored evidence for its claim of the Node?
    pub(in super::super) fn has_stored_evidence(&self, actor: &str, node: &str) -> bool {
        let (process, is_late) = sender(actor);
        self.known.get(process).is_some_and(|known| {
            let (stored, claim) = (known.evidence.get(node), known.claims.get(node));
            stored.is_some() && (is_late || stored == claim)
        })
    }

    /// What this process was told last by the BMC of a machine, if that was off: when it asked.
    pub(in super::super) fn asked_last(&self, actor: &str, machine: &str) -> Option<Duration> {
        let known = self.known.get(sender(actor).0)?;
        known.offs.get(machine)?.last().map(|off| off.asked.at)
    }

    /// Claims that stand on this Node, or stood there a moment ago, and that this process has seen there or written.
    pub(in super::super) fn seen_claims(&self, actor: &str, node: &str) -> Vec<&str> {
        let known = self.known.get(sender(actor).0);
        let stands = self.claims.get(node).map(|(claim, _)| claim.as_str());
        let former = self.former.get(node);
        let former = former.filter(|(_, until)| elapsed() <= *until + ON_ITS_WAY);
        let former = former.map(|((claim, _), _)| claim.as_str());
        let mut all: Vec<&str> = stands.into_iter().chain(former).collect();
        all.retain(|claim| known.is_some_and(|known| known.has_seen(node, claim)));
        all
    }
}
