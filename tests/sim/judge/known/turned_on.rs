//! An on command (S11, S23): what has to have been seen and written down before it.

use super::super::{Judge, State};
use super::CLAIM_LIFE;
use crate::libc::elapsed;
use crate::objects::text;
use serde_json::Value;
use simapi::kinds::FENCE;
use std::sync::Arc;
use std::time::Duration;

impl Judge {
    /// A process sends an on (S11): it has just seen the Node without a claim and without `out-of-service`, and has written it down in a NodeFence
    /// that asks for it, and that has turned the machine off. None of its offs is still to take effect (S23).
    pub fn turned_on(&self, operator: &str, machine: &str) {
        let now = elapsed();
        let problem = {
            let mut state = self.state();
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
    fn may_turn_on(&mut self, operator: &str, machine: &str, now: Duration) -> Option<String> {
        let known = self.knows(operator);
        let of_machine = |node: &str| node.split('.').next() == Some(machine);
        let looks = known.nodes.iter().filter(|(node, _)| of_machine(node));
        let Some((node, look)) = looks.max_by_key(|(_, look)| look.asked) else {
            return Some("its Node was never read".to_owned());
        };
        if let Some(claim) = &look.claim {
            return Some(format!("it was seen with claim {claim}"));
        }
        if look.is_out_of_service {
            return Some("it was seen out of service".to_owned());
        }
        let age = now.saturating_sub(look.asked);
        if age > CLAIM_LIFE {
            return Some(format!("its Node was asked for {age:?} before"));
        }
        let node = node.clone();
        let mut fences = self.of_kind(&FENCE);
        let is_its = |fence: &&Arc<Value>| {
            text(fence, "/spec/nodeName") == node
                && text(fence, "/spec/powerOn/policy") == "AfterRecovery"
                && has_attempt(fence, "PowerOn")
                && has_attempt(fence, "PowerOff")
        };
        let is_written = fences.any(|fence| is_its(&fence));
        (!is_written).then(|| "no NodeFence that asks for it has an intent".to_owned())
    }
}

/// Has the record an attempt of this kind?
fn has_attempt(fence: &Value, action: &str) -> bool {
    let attempts = fence["status"]["attempts"].as_array();
    let mut attempts = attempts.into_iter().flatten();
    attempts.any(|attempt| attempt["action"] == action)
}
