//! What the operator deletes: pods by force, records of incidents that have ended, and where `recovery.strategy` is DeleteNode the
//! VolumeAttachments of a machine that is down, under its claim and mark, and the Node last (docs/protocol.md, "Without the taint"). Nothing else.

use super::known::{ON_ITS_WAY, PROOF_LIFE, sender};
use super::taints::check_evidence;
use super::{Found, Judge, State};
use crate::libc::elapsed;
use crate::objects::{
    CLAIM, DETACHING, OUT_OF_SERVICE, is_ended, is_leaving, ready, taint, text, value_of, volume,
};
use crate::world::{Container, World};
use serde_json::Value;
use simapi::Request;
use simapi::kinds::{ATTACHMENT, FENCE, NODE, POD, place};
use simapi::store::{Change, Write};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What these deletions rest on, by Node.
#[derive(Default)]
pub(super) struct Marks {
    /// Nodes that carry the mark.
    standing: BTreeSet<String>,
    /// When it went last, and whether the operator took it, or the Node with it.
    lost: BTreeMap<String, (Duration, bool)>,
    /// Since when the Node is Ready.
    ready: BTreeMap<String, Duration>,
    /// Since when no pod with a volume is left; none: one is.
    vacant: BTreeMap<String, Option<Duration>>,
    /// Since when no VolumeAttachment is left either.
    empty: BTreeMap<String, Option<Duration>>,
}

impl Judge {
    /// A process asks for a deletion: of what it has seen, and of nothing that has taken its name.
    pub fn deletes(&self, operator: &str, request: &Request) {
        let place = place(&request.path);
        let named = place.as_ref().filter(|place| place.name.is_some());
        let needed: &[(&'static str, &str)] = match named.map(|place| place.kind) {
            Some(kind) if *kind == ATTACHMENT => &[("S10", "uid")],
            Some(kind) if *kind == POD || *kind == NODE || *kind == FENCE => {
                &[("S10", "uid"), ("S9", "resourceVersion")]
            }
            _ => {
                let words = format!("{} is to be deleted ({operator})", request.path);
                return self.broken("S7", &words);
            }
        };
        let options: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        for (id, field) in needed {
            if !options["preconditions"][field].is_string() {
                let path = &request.path;
                let words = format!("{path} is to be deleted whatever its {field} ({operator})");
                self.broken(id, &words);
            }
        }
    }

    /// Counts what the operator has deleted by itself.
    pub(super) fn count_deletion(&self, write: &Write) {
        if *write.kind == ATTACHMENT {
            self.world.judged("S9 attachment deleted");
        } else if *write.kind == NODE && write.change == Change::Deleted {
            self.world.judged("S9 node deleted");
        }
    }
}

impl State {
    /// The mark has come or gone, the Node has become Ready or no longer is.
    pub(super) fn note_marks(&mut self, name: &str, node: Option<&Value>, actor: &str) {
        let has = node.is_some_and(|node| taint(node, DETACHING).is_some());
        let marks = &mut self.marks;
        if has {
            marks.standing.insert(name.to_owned());
        } else if marks.standing.remove(name) {
            let is_ours = actor.starts_with("operator");
            marks.lost.insert(name.to_owned(), (elapsed(), is_ours));
        }
        match node.is_some_and(|node| ready(node) == "True") {
            true => drop(marks.ready.entry(name.to_owned()).or_insert_with(elapsed)),
            false => drop(marks.ready.remove(name)),
        }
        self.note_left(name);
    }

    /// What is left on a node may have become less, or more.
    pub(super) fn note_left(&mut self, node: &str) {
        let is_vacant = self.users(node).next().is_none();
        let is_empty = is_vacant && self.attached(node).next().is_none();
        let marks = &mut self.marks;
        for (since, holds) in [(&mut marks.vacant, is_vacant), (&mut marks.empty, is_empty)] {
            let since = since.entry(node.to_owned()).or_default();
            match holds {
                true => drop(since.get_or_insert_with(elapsed)),
                false => *since = None,
            }
        }
    }

    /// Pods of a node that use a volume, whatever they tolerate.
    fn users(&self, node: &str) -> impl Iterator<Item = &Arc<Value>> {
        let pods = self.of_kind(&POD);
        pods.filter(move |pod| text(pod, "/spec/nodeName") == node && volume(pod).is_some())
    }

    fn attached(&self, node: &str) -> impl Iterator<Item = &Arc<Value>> {
        let all = self.of_kind(&ATTACHMENT);
        all.filter(move |it| text(it, "/spec/nodeName") == node)
    }

    /// What keeps the operator from deleting this Node.
    pub(super) fn left(&self, node: &str) -> Vec<String> {
        let all = self.users(node).chain(self.attached(node));
        all.map(|it| text(it, "/metadata/name").to_owned())
            .collect()
    }

    /// Does the Node carry the mark of the boot that it shows?
    pub(super) fn is_to_be_deleted(&self, node: &str) -> bool {
        self.get(&NODE, node).is_some_and(|node| {
            value_of(&node, DETACHING).is_some_and(|boot| boot == boot_of(&node))
        })
    }

    /// S9: the mark is of the boot that the Node shows, and of the claim that it stands under; nobody stays with its volume.
    pub(super) fn mark(&self, name: &str, node: &Value) -> Found {
        let mut found = Vec::new();
        if value_of(node, DETACHING).as_deref() != Some(boot_of(node)) {
            found.push(("S9", format!("{name}: the mark is of another boot")));
        }
        let date = |key| taint(node, key).map(|taint| taint["timeAdded"].clone());
        if date(DETACHING) != date(CLAIM) {
            found.push(("S9", format!("{name}: the mark is not of the claim's date")));
        }
        for pod in self.users(name).filter(|pod| !is_leaving(pod)) {
            let pod = text(pod, "/metadata/name");
            found.push(("S2", format!("{name} is marked and {pod} may start there")));
        }
        found
    }

    /// The operator deletes something.
    pub(super) fn deletion(
        &mut self,
        world: &World,
        write: &Write,
        old: &Value,
        late_effect: Duration,
    ) -> Found {
        let (kind, name) = (write.kind, &write.key.1);
        if *kind == POD {
            self.eviction(world, write)
        } else if *kind == NODE {
            self.node_deleted(world, write, old, late_effect)
        } else if *kind == ATTACHMENT {
            self.detachment(world, write, old)
        } else if *kind == FENCE {
            let words = format!("record {name} is deleted and had not ended");
            let is_open = !is_ended(old);
            is_open.then_some(("S17", words)).into_iter().collect()
        } else {
            vec![("S7", format!("{} {name} is deleted", kind.kind))]
        }
    }

    /// S1, S2, S9, S17: a VolumeAttachment is deleted. Nothing in the request tests for the mark: one that has gone since may have stood when it
    /// was sent.
    fn detachment(&self, world: &World, write: &Write, old: &Value) -> Found {
        let (name, node) = (&write.key.1, text(old, "/spec/nodeName"));
        if write.change != Change::Deleted && !is_leaving(&write.new) {
            return vec![("S7", format!("VolumeAttachment {name} is changed"))];
        }
        let (_, is_late) = sender(&write.actor);
        let stood =
            |(at, is_ours): &(Duration, bool)| elapsed() <= *at + ON_ITS_WAY || is_late && !is_ours;
        let stands = self.marks.standing.contains(node);
        if !stands && !self.marks.lost.get(node).is_some_and(stood) {
            return vec![("S9", format!("{name} is deleted without the mark"))];
        }
        let mut found = Self::written_by(world, node, old);
        // What was known when a late one was sent has changed since.
        if is_late {
            return found;
        }
        let ready = self.marks.ready.get(node);
        if ready.is_some_and(|since| elapsed() > *since + ON_ITS_WAY) {
            found.push(("S9", format!("{name} is deleted and {node} is Ready")));
        }
        let claims = self.seen_claims(&write.actor, node);
        if claims.is_empty() {
            let words = format!("{name} is deleted under no claim that its sender has seen");
            found.push(("S9", words));
        }
        // What was sent when etcd was put back finds the same VolumeAttachment, and has lost all that it was decided by but what its sender was told.
        if self.rests_on_the_past() {
            found.extend(self.is_dark(world, write, node, &BTreeMap::new()));
            return found;
        }
        if let Some(object) = self.get(&NODE, node) {
            let evidence = claims.iter();
            let mut evidence =
                evidence.map(|claim| check_evidence(self.record_of(claim), node, &object, claim));
            if let Some(first) = evidence.next()
                && !first.is_empty()
                && !evidence.any(|it| it.is_empty())
            {
                found.extend(first);
            }
        }
        for pod in self.users(node) {
            let pod = text(pod, "/metadata/name");
            found.push(("S1", format!("{name} is deleted and {pod} is left there")));
        }
        found.extend(self.is_dark(world, write, node, &self.marks.vacant));
        found
    }

    /// S1: a container that may write to this volume there.
    fn written_by(world: &World, node: &str, attachment: &Value) -> Found {
        let of = text(attachment, "/spec/source/persistentVolumeName");
        let words = |pod| format!("{of} is taken from {node} while {pod} writes to it there");
        let found = writer(world, node, Some(of)).map(|pod| ("S1", words(pod)));
        found.into_iter().collect()
    }

    /// S2: this process was told last, and just now, that the machine of this Node is off; and asked since this holds.
    fn is_dark(
        &self,
        world: &World,
        write: &Write,
        node: &str,
        holds: &BTreeMap<String, Option<Duration>>,
    ) -> Found {
        let Some((machine, _)) = world.of_node(node) else {
            return Vec::new();
        };
        let what = format!("{} {}", write.kind.kind, write.key.1);
        let since = holds.get(node).copied().unwrap_or(Some(Duration::ZERO));
        let problem = match (self.asked_last(&write.actor, &machine), since) {
            (None, _) => format!("{machine} was not read off last"),
            (Some(_), None) => format!("there is still {}", self.left(node).join(", ")),
            (Some(asked), Some(since)) if asked < since => {
                format!("{machine} was asked at {asked:?}, and not since {since:?}")
            }
            (Some(asked), _) if elapsed() > asked + PROOF_LIFE + ON_ITS_WAY => {
                format!("{machine} was asked at {asked:?} only")
            }
            _ => return Vec::new(),
        };
        vec![("S2", format!("{what} is deleted: {problem}"))]
    }

    /// S1, S2, S8, S9, S10, S14, S17, S23: the Node is deleted. Its version was tested: what is on it now was on it when that was decided.
    fn node_deleted(
        &mut self,
        world: &World,
        write: &Write,
        old: &Value,
        late_effect: Duration,
    ) -> Found {
        let name = &write.key.1;
        let claim = value_of(old, CLAIM).filter(|_| taint(old, DETACHING).is_some());
        let Some(claim) = claim else {
            return vec![("S9", format!("{name} is deleted without claim and mark"))];
        };
        let mut found = self.mark(name, old);
        if ready(old) == "True" {
            found.push(("S9", format!("{name} is deleted and is Ready")));
        }
        if taint(old, OUT_OF_SERVICE).is_some() {
            found.push(("S8", format!("{name} is deleted and is out of service")));
        }
        found.extend(check_evidence(self.record_of(&claim), name, old, &claim));
        let words = |pod| format!("{name} is deleted and runs {pod}");
        found.extend(writer(world, name, None).map(|pod| ("S1", words(pod))));
        let (_, is_late) = sender(&write.actor);
        if !is_late {
            found.extend(self.is_dark(world, write, name, &self.marks.empty));
        }
        found.extend(self.release(world, write, old, late_effect, DETACHING));
        found
    }
}

/// The pod of a container that may write there: to this volume, or to any.
fn writer(world: &World, node: &str, of: Option<&str>) -> Option<String> {
    let (_, machine) = world.of_node(node)?;
    let writes = |it: &&Container| match (&it.volume, of) {
        (Some(volume), Some(of)) => volume == of,
        (volume, _) => volume.is_some(),
    };
    let mut all = machine.alive();
    let writer = all.find(|it| writes(it) && !it.is_forgotten);
    writer.map(|it| it.pod.clone())
}

fn boot_of(node: &Value) -> &str {
    text(node, "/status/nodeInfo/bootID")
}

#[cfg(test)]
mod tests;
