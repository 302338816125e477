//! What the operator took from a machine by itself (`recovery.strategy: DeleteNode`): its VolumeAttachments, and its Node at last.

use jiff::Timestamp;
use serde_json::Value;

use super::proofs::is_fresh;
use super::replay::{Replay, State, fence_of, text, told, told_by_device};
use super::rules::{DELETED_EMPTY, DELETED_OFF, DELETED_PROVEN, MARKED};
use super::run::Line;
use super::{Judgement, Rule};
use crate::audit::{OPERATOR, Request};
use crate::proxy::writes::{CLAIM, DETACHING};
use fencing_testbed::exchange::What;

pub(super) fn check(replay: &Replay, judgement: &mut Judgement) {
    let ours = |write: &&Line<Request>| {
        let what = &write.what;
        what.user.username == OPERATOR && what.verb == "delete" && what.succeeded()
    };
    for write in replay.run.writes.iter().filter(ours) {
        let deletion = Deletion { replay, write };
        match write.what.object_ref.resource.as_str() {
            "nodes" => {
                judgement.counts.nodes_deleted += 1;
                deletion.of_node(judgement);
            }
            "volumeattachments" => {
                judgement.counts.attachments_deleted += 1;
                deletion.of_attachment(judgement);
            }
            _ => {}
        }
    }
}

/// A deletion that was granted.
struct Deletion<'a, 'b> {
    replay: &'b Replay<'a>,
    write: &'b Line<Request>,
}

impl<'a> Deletion<'a, '_> {
    fn sent(&self) -> Timestamp {
        self.write.what.received
    }

    fn precondition(&self, field: &str) -> &str {
        text(&self.write.what.request_object["preconditions"][field])
    }

    fn of_node(&self, judgement: &mut Judgement) {
        let name = self.write.what.object_ref.name.as_str();
        let history = self.replay.nodes.get(&(name, self.precondition("uid")));
        let Some(node) = history.and_then(|history| history.last()) else {
            let words = format!(
                "no Node {name} of uid {:?} is known",
                self.precondition("uid")
            );
            return self.broken(judgement, &MARKED, words);
        };
        if self.precondition("resourceVersion") != node.version.to_string() {
            self.broken(
                judgement,
                &MARKED,
                format!("it names another version: {}", node.name()),
            );
        }
        let mark = node.taint(DETACHING);
        if mark.is_some_and(|mark| mark["value"] != node.boot()) {
            let words = format!("it has booted since: {}", node.name());
            self.broken(judgement, &MARKED, words);
        }
        self.rests_on(node, judgement);
        for attachment in self.replay.attachments.iter().filter(|it| it.node == name) {
            let is_gone = attachment
                .gone
                .is_some_and(|gone| gone.what.received < self.sent());
            if attachment.created.what.answered < self.sent() && !is_gone {
                self.broken(judgement, &DELETED_EMPTY, told(attachment.created));
            }
        }
    }

    fn of_attachment(&self, judgement: &mut Judgement) {
        let uid = self.precondition("uid");
        let mut all = self.replay.attachments.iter();
        let is_it =
            |made: &Request| !uid.is_empty() && made.response_object["metadata"]["uid"] == uid;
        let Some(attachment) = all.find(|it| is_it(&it.created.what)) else {
            return self.broken(
                judgement,
                &MARKED,
                format!("no VolumeAttachment has uid {uid:?}"),
            );
        };
        let states = self
            .replay
            .nodes
            .iter()
            .filter(|((name, _), _)| *name == attachment.node);
        let states = states.flat_map(|(_, history)| history);
        let before = states.filter(|state| state.since() < self.sent());
        let Some(node) = before.max_by_key(|state| state.version) else {
            return self.broken(judgement, &MARKED, format!("no Node {}", attachment.node));
        };
        self.rests_on(node, judgement);
        let pods = self.replay.pods.iter();
        for pod in pods.filter(|pod| pod.was_on(attachment.node, self.sent())) {
            let is_gone = pod
                .gone()
                .is_some_and(|gone| gone.what.received < self.sent());
            if pod.has_claims() && !is_gone && !pod.is_mirror() && !pod.is_kept() {
                self.broken(judgement, &DELETED_EMPTY, pod.told());
            }
        }
    }

    /// The Node as it stood, and what was proven under the claim on it.
    fn rests_on(&self, node: &State<'a>, judgement: &mut Judgement) {
        let mark = node.taint(DETACHING);
        let date = |taint: Option<&Value>| taint.map(|taint| taint["timeAdded"].clone());
        let is_marked = mark.is_some() && date(mark) == date(node.taint(CLAIM));
        let Some(claim) = node.claim().filter(|_| is_marked) else {
            return self.broken(judgement, &MARKED, node.name());
        };
        if node.is_ready() {
            self.broken(
                judgement,
                &MARKED,
                format!("Ready is True: {}", node.name()),
            );
        }
        let is_of_claim = |fence: &Value| fence["status"]["evidence"]["claim"] == claim;
        let evidence = self
            .replay
            .fences
            .get(fence_of(claim))
            .into_iter()
            .flatten()
            .rfind(|state| state.since() < self.sent() && is_of_claim(state.object()));
        let Some(evidence) = evidence else {
            let none = format!("NodeFence {} has no evidence of {claim}", fence_of(claim));
            return self.broken(judgement, &DELETED_PROVEN, none);
        };
        let readings = evidence.object()["status"]["evidence"]["readings"].as_array();
        let readings: Vec<&Value> = readings.into_iter().flatten().collect();
        let off = readings
            .iter()
            .filter(|it| it["powerState"] == "Off")
            .count();
        if off < 2 {
            self.broken(judgement, &DELETED_PROVEN, evidence.name());
        }
        let mut devices: Vec<&str> = readings.iter().map(|it| text(&it["device"])).collect();
        devices.sort_unstable();
        devices.dedup();
        devices.retain(|device| self.replay.has_log(device));
        self.off(&devices, judgement);
    }

    fn off(&self, devices: &[&str], judgement: &mut Judgement) {
        let mut is_off = devices.is_empty();
        for device in devices {
            let told = self.replay.log_of(device).filter(|(_, exchange)| {
                matches!(exchange.what, What::Reading { .. }) && exchange.asked.wall < self.sent()
            });
            let Some((line, last)) = told.last() else {
                continue;
            };
            match &last.what {
                What::Reading { told } if told == "Off" => {
                    is_off |= is_fresh(self.replay, last.asked.wall, self.sent()) != Some(false);
                }
                _ => return self.broken(judgement, &DELETED_OFF, told_by_device(line)),
            }
        }
        if !is_off {
            let nobody = "no device was asked shortly before".to_owned();
            self.broken(judgement, &DELETED_OFF, nobody);
        }
    }

    fn broken(&self, judgement: &mut Judgement, rule: &'static Rule, other: String) {
        let of = &self.write.what.object_ref;
        let object = format!("{} {}", of.resource, of.name);
        judgement.broken(rule, object, self.sent(), told(self.write), other);
    }
}
