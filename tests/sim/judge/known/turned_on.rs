//! An on command (S11, S23): what has to have been seen and written down before it.

use super::super::intents::{Intent, ON};
use super::super::{Judge, State};
use super::{CLAIM_LIFE, Known, Look};
use crate::libc::elapsed;
use crate::objects::text;
use serde_json::Value;
use std::time::Duration;

impl Judge {
    /// A process sends an on (S11): it has just seen the Node without a claim and without `out-of-service`, and has itself written it down in a
    /// NodeFence of this very Node that asks for it, and that has turned the machine off. Nobody else has claimed the Node since (S11), and none of
    /// its offs is still to take effect (S23).
    pub fn turned_on(&self, operator: &str, machine: &str) {
        let now = elapsed();
        let problem = {
            let state = self.state();
            let is_to_come = state.offs.iter().any(|(name, sent, at)| {
                name == machine && *at > now && at.saturating_sub(*sent) <= self.late_effect
            });
            let problem = state.may_turn_on(operator, machine, now);
            let late = state.acts_without_lease(operator);
            let lands = is_to_come.then(|| "an off of it is still to land".to_owned());
            problem
                .map(|problem| ("S11", problem))
                .or(lands.map(|problem| ("S23", problem)))
                .or(late.map(|problem| ("L4", problem)))
        };
        self.world.judged("S11 power-on");
        if let Some((id, problem)) = problem {
            self.broken(id, &format!("{operator} turns {machine} on: {problem}"));
        }
    }
}

impl State {
    fn may_turn_on(&self, operator: &str, machine: &str, now: Duration) -> Option<String> {
        let known = self.known.get(operator);
        let seen = known.and_then(|known| Some((known, known.last_look(machine)?)));
        let Some((known, (node, look))) = seen else {
            return Some("its Node was never read".to_owned());
        };
        if let Some(claim) = &look.claim {
            return Some(format!("it was seen with claim {claim}"));
        }
        if let Some(key) = look.effect {
            return Some(format!("it was seen with {key}"));
        }
        let age = now.saturating_sub(look.asked);
        if age > CLAIM_LIFE {
            return Some(format!("its Node was asked for {age:?} before"));
        }
        let is_it = |intent: &Intent| intent.action == ON && intent.machine == machine;
        let written = known.intents.iter();
        let written = written.filter(|(_, intents)| intents.iter().any(is_it));
        let written: Vec<&str> = written.map(|(fence, _)| fence.as_str()).collect();
        let taken = |fence: &str| {
            let by = self.taken_since(fence, node, CLAIM_LIFE)?;
            Some(format!("{by} has claimed {node} since {fence} has"))
        };
        let against = written.iter().map(|fence| {
            let against = known.against_on(fence, (node, look), machine);
            against.or_else(|| taken(fence))
        });
        let mut found = Vec::new();
        for problem in against {
            // One that has nothing against it is enough.
            found.push(problem?);
        }
        let none = "it has written down no intent that is open".to_owned();
        Some(found.into_iter().next().unwrap_or(none))
    }
}

impl Known {
    /// What is against turning the machine of this Node on for a NodeFence, as this process has written it itself.
    fn against_on(
        &self,
        fence: &str,
        (node, look): (&str, &Look),
        machine: &str,
    ) -> Option<String> {
        let record = self.records.get(fence).map_or(&Value::Null, |it| &**it);
        let mut offs = self.turned_off.get(fence).into_iter().flatten();
        // A human's is bound by its record.
        let uid = match &record["spec"]["nodeUID"] {
            Value::Null => &record["status"]["nodeUID"],
            uid => uid,
        };
        let is_of_node =
            text(record, "/spec/nodeName") == node && (uid.is_null() || *uid == look.uid.as_str());
        if !is_of_node {
            Some(format!("{fence} is of another Node"))
        } else if text(record, "/spec/powerOn/policy") != "AfterRecovery" {
            Some(format!("{fence} does not ask for it"))
        } else if !offs.any(|off| off.machine == machine) {
            Some(format!("{fence} has not turned it off"))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests;
