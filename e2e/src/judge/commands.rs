//! What the operator sent to fence devices (S11), as the devices have it: off under a claim, on when nothing of a fence is on the Node any more.

use jiff::Timestamp;
use serde_json::Value;

use super::devices::Entry;
use super::replay::{Replay, State, fence_of, text, told_by_device};
use super::rules::{
    COMMAND_CLAIMED, HARD_OFF, INTENT, ON_AFTER_OFF, ON_INTENT, ON_POLICY, ON_RELEASED,
};
use super::run::Line;
use super::{Judgement, ON_ITS_WAY, Rule};
use fencing_testbed::exchange::{Exchange, What};

pub(super) fn check(replay: &Replay, judgement: &mut Judgement) {
    for line in &replay.run.devices {
        let Entry::Of {
            device,
            node,
            exchange,
        } = &line.what
        else {
            continue;
        };
        let What::Command {
            is_hard_off, is_on, ..
        } = &exchange.what
        else {
            continue;
        };
        // What must have come before a later one may not be recorded.
        if exchange.asked.wall > replay.run.until {
            continue;
        }
        let command = Command {
            line,
            device,
            node,
            exchange,
        };
        if *is_on {
            command.check_on(replay, judgement);
            continue;
        }
        if !is_hard_off {
            command.broken(judgement, &HARD_OFF, "it is no hard off".to_owned());
        }
        command.check(replay, judgement);
    }
}

struct Command<'a> {
    line: &'a Line<Entry>,
    device: &'a str,
    node: &'a str,
    exchange: &'a Exchange,
}

impl Command<'_> {
    fn check(&self, replay: &Replay, judgement: &mut Judgement) {
        let at = self.exchange.asked.wall;
        let histories = replay
            .nodes
            .iter()
            .filter(|((name, _), _)| *name == self.node);
        let claims: Vec<&str> = histories
            .flat_map(|(_, history)| standing(history, at))
            .collect();
        if claims.is_empty() {
            let mut histories = replay
                .nodes
                .iter()
                .filter(|((name, _), _)| *name == self.node);
            let last = histories
                .next_back()
                .and_then(|(_, history)| history.iter().rfind(|state| state.since() < at));
            let other = last.map_or("there is no such Node".to_owned(), State::name);
            return self.broken(judgement, &COMMAND_CLAIMED, other);
        }
        let is_intended = |claim: &&str| {
            let history = replay.fences.get(fence_of(claim));
            history.is_some_and(|history| self.is_intended(history, "PowerOff", at))
        };
        if !claims.iter().any(is_intended) {
            let fence = fence_of(claims[0]);
            let history = replay.fences.get(fence);
            let last = history.and_then(|states| states.iter().rfind(|state| state.since() < at));
            let other = last.map_or(format!("there is no NodeFence {fence}"), State::name);
            self.broken(judgement, &INTENT, other);
        }
    }

    /// An on: the Node is free, and the NodeFence that has written it down asks for it.
    fn check_on(&self, replay: &Replay, judgement: &mut Judgement) {
        let at = self.exchange.asked.wall;
        let histories = replay
            .nodes
            .iter()
            .filter(|((name, _), _)| *name == self.node);
        let mut histories = histories.map(|(_, history)| history);
        if let Some(stands) = histories.find_map(|history| taken_all_the_while(history, at)) {
            self.broken(judgement, &ON_RELEASED, stands);
        }
        let of_node = |history: &&Vec<State>| {
            let mut states = history.iter();
            states.any(|state| state.object()["spec"]["nodeName"] == self.node)
        };
        let fences = replay.fences.values().filter(of_node);
        let intended = fences.filter(|history| self.is_intended(history, "PowerOn", at));
        let intended: Vec<_> = intended.collect();
        let Some(last) = intended.first().and_then(|history| history.last()) else {
            let none = format!("no NodeFence of {} has written it down", self.node);
            return self.broken(judgement, &ON_INTENT, none);
        };
        let asks = |history: &&&Vec<State>| {
            let mut states = history.iter();
            states.any(|it| text(&it.object()["spec"]["powerOn"]["policy"]) == "AfterRecovery")
        };
        if !intended.iter().any(|history| asks(&history)) {
            self.broken(judgement, &ON_POLICY, last.name());
        }
        let has_turned_off = |history: &&&Vec<State>| {
            let before = history.iter().filter(|state| state.since() < at);
            let mut offs = before.flat_map(|state| self.attempts(state, "PowerOff"));
            offs.any(|attempt| attempt["result"] != "Refused")
        };
        if !intended.iter().any(|history| has_turned_off(&history)) {
            self.broken(judgement, &ON_AFTER_OFF, last.name());
        }
    }

    /// The attempts with this device that a state of the NodeFence names.
    fn attempts(&self, state: &State, action: &str) -> Vec<Value> {
        let attempts = state.object()["status"]["attempts"].as_array();
        let of_this_device =
            |attempt: &&Value| attempt["action"] == action && attempt["device"] == self.device;
        let attempts = attempts.into_iter().flatten().filter(of_this_device);
        attempts.cloned().collect()
    }

    /// Was an attempt with this device stored by then, and may a command of it still have been on its way?
    fn is_intended(&self, history: &[State], action: &str, at: Timestamp) -> bool {
        let attempts = |state: &State| self.attempts(state, action);
        let stored = history.iter().filter(|state| state.since() < at);
        stored.flat_map(attempts).any(|attempt| {
            let is_closed = |state: &&State| {
                let of = |other: &Value| {
                    other["id"] == attempt["id"] && other["completionTime"].is_string()
                };
                attempts(state).iter().any(of)
            };
            let closed = history.iter().find(is_closed);
            closed.is_none_or(|closed| closed.write.what.answered >= at)
        })
    }

    fn broken(&self, judgement: &mut Judgement, rule: &'static Rule, other: String) {
        let (object, at) = (format!("Node {}", self.node), self.exchange.asked.wall);
        judgement.broken(rule, object, at, told_by_device(self.line), other);
    }
}

/// The claims that stood on a Node at this time or a moment before, as far as the records tell.
fn standing<'a>(history: &[State<'a>], at: Timestamp) -> Vec<&'a str> {
    let mut claims = Vec::new();
    for (index, state) in history.iter().enumerate() {
        let Some(claim) = state.claim() else { continue };
        let ended = history.get(index + 1).map(|next| next.write.what.answered);
        let may_stand = ended.is_none_or(|ended| ended + ON_ITS_WAY >= at);
        if state.since() < at && may_stand {
            claims.push(claim);
        }
    }
    claims.dedup();
    claims
}

/// What stood on the Node at this time, if a claim or `out-of-service` did, and had for longer than what was looked at before a command may be old.
fn taken_all_the_while(history: &[State], at: Timestamp) -> Option<String> {
    let is_taken = |state: &&State| state.claim().is_some() || state.is_marked();
    let stored = |at: Timestamp| history.iter().rposition(move |state| state.since() < at);
    let last = stored(at)?;
    let first = stored(at - ON_ITS_WAY - ON_ITS_WAY)?;
    let between = history.get(first..=last)?;
    let state = between.last().filter(is_taken)?;
    between
        .iter()
        .all(|state| is_taken(&state))
        .then(|| state.name())
}
