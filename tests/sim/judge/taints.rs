//! What an out-of-service, its release and a forced deletion rest on.

use super::{Found, State, owner};
use crate::libc::elapsed;
use crate::objects::{
    CLAIM, DETACHING, OUT_OF_SERVICE, QUARANTINE, taint, taints, text, tolerates_out_of_service,
    volume,
};
use crate::world::World;
use serde_json::{Value, json};
use simapi::kinds::{ATTACHMENT, POD};
use simapi::store::Write;
use std::sync::Arc;
use std::time::Duration;

impl State {
    /// S2, S9, S10, S17: what an out-of-service, or the mark in its place, rests on.
    pub(super) fn takes_effect(
        &mut self,
        world: &World,
        write: &Write,
        old: &Value,
        key: &'static str,
    ) -> Found {
        let (node, new) = (write.key.1.as_str(), &*write.new);
        let claim = |of: &Value| taint(of, CLAIM).map(|it| text(it, "/value").to_owned());
        let Some(held) = claim(old) else {
            return vec![("S9", format!("{node} gets {key} without a claim"))];
        };
        let mut found = Vec::new();
        if claim(new) != Some(held.clone()) {
            found.push(("S9", format!("{node}: the claim went with the taint")));
        }
        self.tally.tainted(owner(&held), node);
        found.extend(check_evidence(
            self.record_behind(write, &held),
            node,
            old,
            &held,
        ));
        if key == DETACHING {
            found.extend(self.mark(node, new));
        }
        if let Some((name, machine)) = world.of_node(node) {
            let claim = (node, self.claims.get(node));
            found.extend(self.lacks(&write.actor, claim, &name));
            let writer = machine.alive().find(|it| !it.tolerates);
            found.extend(writer.map(|writer| {
                let words = format!("{node} gets {key} and runs {}", writer.pod);
                ("S1", words)
            }));
        }
        for pod in self.startable(node) {
            let name = text(pod, "/metadata/name");
            found.push((
                "S2",
                format!("{node} gets {key} and {name} may start there"),
            ));
        }
        found
    }

    /// What keeps a Node where it is. The operator that deletes the Node of the boot that it has fenced leaves pods without a volume to pod GC.
    pub(super) fn hindrances(&self, node: &str) -> Vec<String> {
        if self.is_to_be_deleted(node) {
            return self.left(node);
        }
        let here = |object: &&Arc<Value>| text(object, "/spec/nodeName") == node;
        let (mut tolerated, mut left) = (Vec::new(), Vec::new());
        for pod in self.of_kind(&POD).filter(here) {
            match tolerates_out_of_service(pod) {
                true => tolerated.extend(volume(pod)),
                false => left.push(text(pod, "/metadata/name").to_owned()),
            }
        }
        let attachments = self.of_kind(&ATTACHMENT).filter(here);
        let attachments = attachments.filter(|it| {
            !tolerated
                .iter()
                .any(|volume| volume == text(it, "/spec/source/persistentVolumeName"))
        });
        left.extend(attachments.map(|it| text(it, "/metadata/name").to_owned()));
        left
    }

    /// S8, S14, S23.
    pub(super) fn release(
        &mut self,
        world: &World,
        write: &Write,
        old: &Value,
        late_effect: Duration,
        key: &'static str,
    ) -> Found {
        let node = write.key.1.as_str();
        let uid = text(old, "/metadata/uid").to_owned();
        let mut found = Vec::new();
        let by = self.effects.get(&(key, uid));
        let by = by.map_or("nobody", String::as_str);
        if !by.starts_with("operator") {
            found.push(("S8", format!("{node} got {key} from {by}")));
        }
        let left = self.hindrances(node);
        if !left.is_empty() {
            found.push((
                "S14",
                format!("{node} is released with {}", left.join(", ")),
            ));
        }
        let (machine_name, machine) = world.of_node(node).unzip();
        let claim = taint(old, CLAIM)
            .map(|it| text(it, "/value"))
            .unwrap_or_default();
        let fenced = self
            .record_of(claim)
            .map(|fence| text(&fence, "/status/bootID").to_owned());
        let failed_at = machine.as_ref().map(|machine| machine.failed_at);
        let runs = machine.filter(|machine| machine.on);
        let boot = runs.zip(machine_name.as_ref());
        let boot = boot.map(|(machine, name)| machine.boot_id(name));
        if boot.is_some() && fenced == boot {
            found.push((
                "S14",
                format!("{node} is released and runs in the boot that was fenced"),
            ));
        }
        let late = self.offs.iter().find(|(name, sent, at)| {
            Some(name) == machine_name.as_ref()
                && *at > elapsed()
                && failed_at.is_none_or(|failed| failed <= *sent)
                && at.saturating_sub(*sent) <= late_effect
                && !self.cannot_know(&write.actor, name, *sent)
        });
        if let Some((_, sent, at)) = late {
            found.push((
                "S23",
                format!("{node} is released, and an off of {sent:?} lands at {at:?}"),
            ));
        }
        self.tally.released(owner(claim));
        found
    }

    /// S1, S2: a pod is deleted by force.
    pub(super) fn eviction(&self, world: &World, write: &Write) -> Found {
        let (pod, node) = (&write.key.1, text(&write.new, "/spec/nodeName"));
        let mut found = Vec::new();
        if !self.has_stored_evidence(&write.actor, node) {
            found.push((
                "S2",
                format!("{pod} is deleted by force on {node} without a proof"),
            ));
        }
        let uid = text(&write.new, "/metadata/uid");
        if let Some((name, machine)) = world.of_node(node) {
            let claim = (node, self.claim_of_deletion(&write.actor, node));
            found.extend(self.lacks(&write.actor, claim, &name));
            if machine.containers.contains_key(uid) || machine.starting.contains_key(uid) {
                found.push((
                    "S1",
                    format!("{pod} is deleted by force and runs on {node}"),
                ));
            }
        }
        found
    }
}

/// S2, S10, S17: what the evidence in this record lacks.
pub(super) fn check_evidence(
    record: Option<Arc<Value>>,
    node: &str,
    object: &Value,
    claim: &str,
) -> Found {
    let name = owner(claim);
    let Some(fence) = record else {
        return vec![("S17", format!("{node}: there is no {name}"))];
    };
    let evidence = &fence["status"]["evidence"];
    let uid = &object["metadata"]["uid"];
    let mut found = Vec::new();
    if evidence["claim"] != claim {
        found.push((
            "S17",
            format!(
                "{node}: the evidence of {name} is for {}, not {claim}",
                evidence["claim"]
            ),
        ));
    }
    if evidence["nodeUID"] != *uid {
        found.push((
            "S10",
            format!("{node}: the evidence of {name} is for another Node"),
        ));
    }
    if evidence["readings"].as_array().map_or(0, Vec::len) < 2 {
        found.push(("S2", format!("{node}: {name} has fewer than two readings")));
    }
    found
}

/// What we may change of a Node.
const OURS: [&str; 4] = [CLAIM, OUT_OF_SERVICE, DETACHING, QUARANTINE];

/// The Node without it.
pub(super) fn without_ours(node: &Value) -> Value {
    let others = taints(node)
        .iter()
        .filter(|taint| !OURS.contains(&text(taint, "/key")));
    let mut node = json!({"object": node, "taints": others.cloned().collect::<Vec<_>>()});
    node["object"]["spec"]["taints"].take();
    node["object"]["metadata"]["resourceVersion"].take();
    node
}
