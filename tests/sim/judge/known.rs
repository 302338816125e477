//! What a process of the operator knows at first hand: what it has read and written itself, and what BMCs have told it. Whatever it does
//! has to rest on that, whatever others know, and whatever etcd has forgotten since (S2, S3, S9, S11, S18).

mod proven;
mod turned_on;

use super::intents::{Intent, OFF, ON, intended, turned_off};
use super::{Found, Judge, State, owner};
use crate::libc::{elapsed, since_boot};
use crate::objects::{CLAIM, EFFECTS, taint, text, value_of};
use http::Method;
use serde::Deserialize;
use serde_json::Value;
use simapi::kinds::{ATTACHMENT, FENCE, LEASE, NODE, POD};
use simapi::store::{Change, Write};
use simapi::{Answer, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A command rests on a claim that was asked for so shortly before.
const CLAIM_LIFE: Duration = Duration::from_secs(1);
/// A proof rests on a reading that was asked for so shortly before.
pub(super) const PROOF_LIFE: Duration = Duration::from_secs(15);
/// What was sent in time may be on its way for so long.
pub(super) const ON_ITS_WAY: Duration = Duration::from_secs(1);
/// Who leads has renewed its Lease within this time.
const LEASE_TIME: Duration = Duration::from_secs(15);
/// What a write is called that arrives when its sender has given it up: when it was decided on nobody knows.
const LATE: &str = " (late)";

/// One process.
#[derive(Default)]
pub(super) struct Known {
    nodes: BTreeMap<String, Look>,
    /// All claims that it has been told of, whichever look was asked for first. No two Nodes have one.
    seen: BTreeSet<String>,
    /// The claim that it has written last, by Node.
    claims: BTreeMap<String, String>,
    /// The claim that it has stored evidence for last, by Node.
    evidence: BTreeMap<String, String>,
    /// Commands that it has written down and that have not ended, by NodeFence.
    intents: BTreeMap<String, BTreeSet<Intent>>,
    /// Offs that were not refused, by what it has itself written into each NodeFence.
    turned_off: BTreeMap<String, BTreeSet<Intent>>,
    /// NodeFences as it has written them last.
    records: BTreeMap<String, Arc<Value>>,
    /// What each BMC has said since it has said anything but off.
    offs: BTreeMap<String, Vec<Off>>,
    /// The newest version that a list has shown, and when.
    newest: (u64, Duration),
    /// When a list has shown that the cluster went back.
    went_back: Option<Duration>,
    /// When it has written its Lease last.
    led: Option<Duration>,
}

/// When a BMC was asked.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    at: Duration,
    /// Time in which the host sleeps passes for a machine, too.
    since_boot: Duration,
}

impl Asked {
    /// At this moment.
    pub fn now() -> Self {
        Self {
            at: elapsed(),
            since_boot: since_boot(),
        }
    }
}

/// A claim's value, and since when it stands.
pub(super) type Claim = (String, Duration);

/// A BMC has said off.
struct Off {
    asked: Asked,
    answered: Duration,
}

/// Its last quorum read of a Node.
struct Look {
    asked: Duration,
    uid: String,
    claim: Option<String>,
    /// Out of service, or marked as one whose volumes the operator takes.
    effect: Option<&'static str>,
}

/// Of a list, its version.
#[derive(Deserialize)]
struct List {
    metadata: Version,
}

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "resourceVersion")]
    resource_version: String,
}

/// The process that has sent a write; and whether it had given it up when it arrived.
pub(super) fn sender(actor: &str) -> (&str, bool) {
    match actor.strip_suffix(LATE) {
        Some(name) => (name, true),
        None => (actor, false),
    }
}

impl Judge {
    /// An answer has reached the process that asked.
    pub fn learned(&self, operator: &str, request: &Request, asked: Duration, answer: &Answer) {
        let Answer::Whole(200, body) = answer else {
            return;
        };
        let is_quorum = ["resourceVersion", "limit"]
            .iter()
            .all(|it| request.parameter(it).is_none());
        if request.method != Method::GET || !is_quorum {
            return;
        }
        let path = request.path.as_str();
        if path.starts_with("/api/v1/nodes/") {
            if let Ok(node) = serde_json::from_slice(body) {
                self.looked(operator, &node, asked);
            }
        } else if path.ends_with("/pods") || path.ends_with("/volumeattachments") {
            let list = serde_json::from_slice::<List>(body);
            let version = list.map(|list| list.metadata.resource_version.parse());
            if let Ok(Ok(version)) = version {
                self.listed(operator, version, asked);
            }
        }
    }

    /// A process has read a Node by quorum.
    pub(super) fn looked(&self, operator: &str, node: &Value, asked: Duration) {
        let look = Look {
            asked,
            uid: text(node, "/metadata/uid").to_owned(),
            claim: value_of(node, CLAIM),
            effect: EFFECTS.into_iter().find(|key| taint(node, key).is_some()),
        };
        let name = text(node, "/metadata/name").to_owned();
        let mut state = self.state();
        state.knows(operator).seen.extend(look.claim.clone());
        let nodes = &mut state.knows(operator).nodes;
        // Of two reads at a time the answer to the first may come last.
        if nodes.get(&name).is_none_or(|known| known.asked <= asked) {
            nodes.insert(name, look);
        }
    }

    /// A process has read a list by quorum.
    pub(super) fn listed(&self, operator: &str, version: u64, asked: Duration) {
        let mut state = self.state();
        let known = state.knows(operator);
        let (newest, since) = known.newest;
        if version < newest && asked > since {
            known.went_back.get_or_insert_with(elapsed);
        } else if version > newest {
            known.newest = (version, elapsed());
        }
    }

    /// A BMC has told a process the power of the machine that it is in.
    pub fn read(&self, operator: &str, machine: &str, asked: Asked, is_off: bool) {
        let mut state = self.state();
        let offs = &mut state.knows(operator).offs;
        let offs = offs.entry(machine.to_owned()).or_default();
        match is_off {
            true => offs.push(Off {
                asked,
                answered: since_boot(),
            }),
            false => offs.clear(),
        }
    }

    /// A process sends a hard off (S11).
    pub fn commanded(&self, operator: &str, machine: &str) {
        let boots = self.world.with(machine, |machine| machine.boots);
        let problem = {
            let mut state = self.state();
            let (fence, problem) = state.knows(operator).may_command(machine);
            if let Some(fence) = fence {
                state.tally.commanded(&fence, boots);
            }
            let late = state.acts_without_lease(operator);
            problem
                .map(|problem| ("S11", problem))
                .or_else(|| late.map(|problem| ("L4", problem)))
        };
        if let Some((id, problem)) = problem {
            self.broken(id, &format!("{operator} commands {machine}: {problem}"));
        }
    }
}

impl Known {
    /// For which NodeFence, and what is against it.
    fn may_command(&self, machine: &str) -> (Option<String>, Option<String>) {
        let Some((node, look)) = self.last_look(machine) else {
            return (None, Some("its Node was never read".to_owned()));
        };
        let Some(claim) = &look.claim else {
            return (None, Some("it was seen without a claim".to_owned()));
        };
        let fence = owner(claim).to_owned();
        let age = elapsed().saturating_sub(look.asked);
        let problem = if age > CLAIM_LIFE {
            Some(format!("its claim was asked for {age:?} before"))
        } else if look.effect.is_none() && self.claims.get(node) != Some(claim) {
            Some(format!("claim {claim} is of another process"))
        } else if !self.intends(&fence, OFF, machine) {
            Some(format!("it has written down no intent in {fence}"))
        } else if self.records.get(&fence).is_some_and(|it| !turns_off(it)) {
            Some(format!("{fence} does not ask for it"))
        } else {
            None
        };
        (Some(fence), problem)
    }

    /// What it has seen last of the Node of this machine, which may have been another until a moment ago.
    fn last_look(&self, machine: &str) -> Option<(&String, &Look)> {
        let of_machine = |node: &str| node.split('.').next() == Some(machine);
        let looks = self.nodes.iter().filter(|(node, _)| of_machine(node));
        looks.max_by_key(|(_, look)| look.asked)
    }

    fn wrote(&mut self, write: &Write) {
        let (name, new) = (&write.key.1, &write.new);
        if *write.kind == LEASE {
            self.led = Some(elapsed());
        } else if *write.kind == NODE {
            if let Some(claim) = put(write, CLAIM) {
                self.claims.insert(name.clone(), claim);
            }
        } else if *write.kind == FENCE && write.change != Change::Deleted {
            let old = write.old.as_deref().unwrap_or(&Value::Null);
            let was = &old["status"]["evidence"]["claim"];
            let evidence = &new["status"]["evidence"]["claim"];
            if let Some(claim) = evidence.as_str().filter(|_| evidence != was) {
                let node = text(new, "/spec/nodeName").to_owned();
                self.evidence.insert(node, claim.to_owned());
            }
            let own = self.intents.entry(name.clone()).or_default();
            for action in [OFF, ON] {
                let (before, now) = (intended(old, action), intended(new, action));
                own.retain(|intent| intent.action != action || now.contains(intent));
                own.extend(now.difference(&before).cloned());
            }
            let offs = self.turned_off.entry(name.clone()).or_default();
            offs.retain(|off| !turned_off(new, false).contains(off));
            offs.extend(turned_off(new, true));
            self.records.insert(name.clone(), Arc::clone(new));
        }
    }

    fn intends(&self, fence: &str, action: &str, machine: &str) -> bool {
        let mut own = self.intents.get(fence).into_iter().flatten();
        own.any(|intent| intent.action == action && intent.machine == machine)
    }

    /// Has it written down an off of this machine that was not refused?
    pub(super) fn has_turned_off(&self, machine: &str) -> bool {
        let mut offs = self.turned_off.values().flatten();
        offs.any(|off| off.machine == machine)
    }

    /// May it take this claim from this Node?
    fn has_seen(&self, node: &str, claim: &str) -> bool {
        self.seen.contains(claim) || self.wrote_claim(node, claim)
    }

    fn wrote_claim(&self, node: &str, claim: &str) -> bool {
        self.claims.get(node).map(String::as_str) == Some(claim)
    }
}

/// Does the NodeFence ask for power commands at all? A human's may, beside a policy's that does not, and the other way round.
fn turns_off(fence: &Value) -> bool {
    text(fence, "/spec/fence/mode") == "PowerOff"
}

/// The value of this taint, where the write puts it on the Node or changes it.
pub(super) fn put(write: &Write, key: &str) -> Option<String> {
    let value = |node: &Value| value_of(node, key);
    let new = value(&write.new)?;
    (write.old.as_deref().and_then(value).as_ref() != Some(&new)).then_some(new)
}

impl State {
    fn knows(&mut self, operator: &str) -> &mut Known {
        self.known.entry(operator.to_owned()).or_default()
    }

    /// L4: the time of its Lease is over. Nothing of S1 to S23 leans on it.
    fn acts_without_lease(&self, process: &str) -> Option<String> {
        let led = self.known.get(process).and_then(|known| known.led);
        let is_over = led.is_none_or(|led| elapsed() > led + LEASE_TIME);
        is_over.then(|| format!("it has its Lease since {led:?}"))
    }

    /// Is an off written down that nobody has written down before? One that etcd has forgotten stands in the record again with the next write
    /// of it. Takes note of it.
    fn begins_off(&mut self, write: &Write) -> bool {
        let known = self.begun.len();
        self.begun.extend(intended(&write.new, OFF));
        self.begun.len() > known
    }

    /// S9, S18, L4: by whom this write is. Takes note of it.
    pub(super) fn by_whom(&mut self, write: &Write) -> Found {
        let (process, is_late) = sender(&write.actor);
        let mut found = Vec::new();
        let is_destructive = put(write, CLAIM).is_some()
            || EFFECTS.iter().any(|key| put(write, key).is_some())
            || [&NODE, &POD].contains(&write.kind) && write.change == Change::Deleted
            || *write.kind == ATTACHMENT
            || *write.kind == FENCE && self.begins_off(write);
        let name = &write.key.1;
        let is_protocol = [&NODE, &FENCE, &POD, &ATTACHMENT].contains(&write.kind);
        if is_protocol
            && !is_late
            && let Some(problem) = self.acts_without_lease(process)
        {
            found.push(("L4", format!("{name} is written: {problem}")));
        }
        let known = self.knows(process);
        let knew = known
            .went_back
            .filter(|at| elapsed() > *at + ON_ITS_WAY && !is_late && is_destructive);
        if let Some(at) = knew {
            let what = write.kind.kind;
            found.push((
                "S18",
                format!("{what} {name}: the cluster was seen to have gone back at {at:?}"),
            ));
        }
        if *write.kind == NODE && !is_late {
            let old = write.old.as_deref().and_then(|old| taint(old, CLAIM));
            let old = old.map(|it| text(it, "/value"));
            let new = taint(&write.new, CLAIM).filter(|_| write.change != Change::Deleted);
            let stays = new.map(|it| text(it, "/value")) == old;
            if let Some(claim) = old.filter(|claim| !stays && !known.has_seen(name, claim)) {
                let words = format!("{name}: claim {claim} is taken away by who has not seen it");
                found.push(("S9", words));
            }
        }
        known.wrote(write);
        found
    }
}
