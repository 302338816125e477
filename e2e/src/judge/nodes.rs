//! What the operator wrote to Nodes, and to the status of NodeFences: S6 to S10, one write at a time; and that it has waited (L1).

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::replay::{Replay, State, fence_of, text, told};
use super::rules::{
    DATED, EARLY, FOREIGN, NOT_READY, QUARANTINED, SAME_NODE, TAINTS_ONLY, TESTED, VERSIONED,
    WAITED,
};
use super::run::Line;
use super::{Judgement, Rule};
use crate::audit::{OPERATOR, Request};
use crate::proxy::writes::{CLAIM, DETACHING, OUT_OF_SERVICE, QUARANTINE};

const OWN: [&str; 4] = [CLAIM, DETACHING, OUT_OF_SERVICE, QUARANTINE];

pub(super) fn check(replay: &Replay, judgement: &mut Judgement) {
    let ours = |write: &&Line<Request>| write.what.user.username == OPERATOR;
    for write in replay.run.writes.iter().filter(ours) {
        let of = &write.what.object_ref;
        match of.resource.as_str() {
            // The deletion of a Node has rules of its own.
            "nodes" if write.what.verb == "delete" => {}
            "nodes" | "pods" if of.subresource == "status" => turns_ready(write, judgement),
            "nodes" => is_a_json_patch(write, judgement),
            "nodefences" if of.subresource == "status" => is_versioned(write, judgement),
            _ => {}
        }
    }
    for history in replay.nodes.values() {
        let mut setter = None;
        for pair in history.windows(2) {
            let [before, after] = pair else { continue };
            if !before.is_marked() {
                setter = None;
            }
            if after.is_ours() {
                let change = Change {
                    before,
                    after,
                    setter,
                };
                change.check(replay, judgement);
            }
            let was = before.taint(OUT_OF_SERVICE);
            if after.is_marked() && was != after.taint(OUT_OF_SERVICE) {
                setter = Some(after);
            }
        }
    }
}

/// Nothing but a JSON Patch, and in it nothing but tests and changes to the taints, tells all that it does.
fn is_a_json_patch(write: &Line<Request>, judgement: &mut Judgement) {
    let operations = write.what.request_object.as_array();
    let changes = |operation: &&Value| operation["op"] != "test";
    let is_of_taints = |operation: &Value| {
        text(&operation["path"])
            .split('/')
            .take(3)
            .eq(["", "spec", "taints"])
    };
    let other = match operations {
        Some(operations) if write.what.verb == "patch" => operations
            .iter()
            .filter(changes)
            .find(|it| !is_of_taints(it))
            .map(|it| format!("it changes {}", it["path"])),
        _ => Some("it is no JSON Patch".to_owned()),
    };
    if let Some(other) = other {
        let node = format!("Node {}", write.what.object_ref.name);
        judgement.broken(&TAINTS_ONLY, node, write.what.received, told(write), other);
    }
}

/// What a write to a status has to test, and what it may set.
fn turns_ready(write: &Line<Request>, judgement: &mut Judgement) {
    let is_node = write.what.object_ref.resource == "nodes";
    let operations = write.what.request_object.as_array();
    let of = |op: &str| -> Vec<(&str, &Value)> {
        let all = operations.into_iter().flatten();
        let all = all.filter(|it| (it["op"] == "test") == (op == "test"));
        all.map(|it| (text(&it["path"]), &it["value"])).collect()
    };
    let (tests, sets) = (of("test"), of("set"));
    let of_ready = |(path, value): &&(&str, &Value)| path.ends_with("/type") && **value == "Ready";
    let ready = tests.iter().find(of_ready);
    let ready = ready.and_then(|(path, _)| path.strip_suffix("/type"));
    let ready = ready.unwrap_or("no condition");
    let tested = |path: &str| tests.iter().any(|(it, _)| *it == path);
    let field = |name: &str| format!("{ready}/{name}");
    let is_true = tests.contains(&(field("status").as_str(), &json!("True")));
    let mut needed = vec!["/metadata/uid".to_owned()];
    if is_node {
        needed.push("/status/nodeInfo/bootID".to_owned());
        needed.push(field("lastHeartbeatTime"));
    }
    let missing = needed.into_iter().find(|path| !tested(path));
    let (status, reason) = match is_node {
        true => ("Unknown", "PoweredOff"),
        false => ("False", "NodePoweredOff"),
    };
    let allowed = ["status", "reason", "message", "lastTransitionTime"].map(field);
    let other = sets.iter().find(|(path, value)| {
        !allowed.iter().any(|it| it == path)
            || *path == field("status") && **value != status
            || *path == field("reason") && **value != reason
    });
    let wrong = match (missing, other) {
        _ if write.what.verb != "patch" || operations.is_none() => "it is no JSON Patch".to_owned(),
        _ if !is_true => "it does not test that Ready is True".to_owned(),
        (Some(path), _) => format!("it does not test {path}"),
        (None, Some((path, value))) => format!("it sets {path} to {value}"),
        (None, None) => return,
    };
    let object = format!(
        "{} {}",
        write.what.object_ref.resource, write.what.object_ref.name
    );
    judgement.broken(&EARLY, object, write.what.received, told(write), wrong);
}

fn is_versioned(write: &Line<Request>, judgement: &mut Judgement) {
    if !write.what.request_object["metadata"]["resourceVersion"].is_string() {
        let fence = format!("NodeFence {}", write.what.object_ref.name);
        let without = "its body names no resourceVersion";
        judgement.broken(&VERSIONED, fence, write.what.received, told(write), without);
    }
}

/// A write of the operator that changed a Node.
struct Change<'a, 'b> {
    before: &'b State<'a>,
    after: &'b State<'a>,
    /// The write that set the `out-of-service` that stands before it.
    setter: Option<&'b State<'a>>,
}

impl Change<'_, '_> {
    fn check(&self, replay: &Replay, judgement: &mut Judgement) {
        let Self { before, after, .. } = *self;
        let claimed = after.claim().is_some() && after.claim() != before.claim();
        let set = !before.is_marked() && after.is_marked();
        judgement.counts.claims += usize::from(claimed);

        if (claimed || set) && after.is_ready() {
            self.broken(judgement, &NOT_READY, "it shows Ready True".to_owned());
        }
        let others = |state: &State| -> Vec<Value> {
            let taints = state.taints().iter();
            let others = taints.filter(|taint| !OWN.contains(&text(&taint["key"])));
            others.cloned().collect()
        };
        if others(before) != others(after) {
            self.broken(judgement, &TAINTS_ONLY, before.name());
        }
        if set {
            self.dated(judgement);
        }
        let begins = claimed && before.claim().is_none();
        if begins {
            self.waited(replay, judgement);
        }
        self.foreign(begins, judgement);
        self.tested(set, judgement);
        self.same_node(replay, judgement);
        self.quarantine(judgement);
    }

    /// By the date of the condition, which has whole seconds and so is never later than what the operator counts from.
    fn waited(&self, replay: &Replay, judgement: &mut Judgement) {
        let (node, claim) = (self.after, self.after.claim().unwrap_or_default());
        let waits = |fence: &Value| {
            let trigger = &fence["spec"]["trigger"];
            trigger["earlySeconds"].is_null() && trigger["remediation"].is_null()
        };
        let fence = replay.fence_before(claim, node.version, waits);
        let Some(spec) = fence.map(|fence| &fence.object()["spec"]) else {
            return;
        };
        let is_policy = |object: &&Value| {
            let metadata = &object["metadata"];
            object["kind"] == "NodeFencingPolicy"
                && metadata["name"] == spec["policyName"]
                && metadata["generation"] == spec["policyGeneration"]
        };
        let writes = replay.run.writes.iter();
        let mut objects = writes.map(|write| &write.what.response_object);
        let policy = objects.find(is_policy).unwrap_or(&Value::Null);
        let (kind, status) = (
            &spec["trigger"]["conditionType"],
            &spec["trigger"]["conditionStatus"],
        );
        let field = |conditions: &Value, name: &str| -> Option<Value> {
            let mut conditions = conditions.as_array()?.iter();
            let found = conditions.find(|it| it["type"] == *kind && it["status"] == *status)?;
            Some(found[name].clone())
        };
        let since = field(&node.object()["status"]["conditions"], "lastTransitionTime");
        let since: Option<Timestamp> = since.and_then(|it| text(&it).parse().ok());
        let seconds = field(&policy["spec"]["unhealthyConditions"], "durationSeconds");
        let seconds = seconds.and_then(|it| it.as_i64());
        let Some((since, seconds)) = since.zip(seconds) else {
            return;
        };
        judgement.counts.waits += 1;
        let due = since + SignedDuration::from_secs(seconds);
        if node.write.what.answered < due {
            let until = format!("{} waits until {due}", text(&spec["policyName"]));
            self.broken(judgement, &WAITED, until);
        }
    }

    fn dated(&self, judgement: &mut Judgement) {
        let added = |taint: Option<&'_ Value>| taint.map(|taint| taint["timeAdded"].clone());
        let claim = added(self.after.taint(CLAIM));
        let taint = added(self.after.mark());
        if claim.is_some() && claim != taint {
            self.broken(judgement, &DATED, format!("{taint:?} under {claim:?}"));
        }
    }

    fn foreign(&self, is_claimed: bool, judgement: &mut Judgement) {
        let Self { before, after, .. } = *self;
        let taint = before.taint(OUT_OF_SERVICE);
        let is_touched = taint != after.taint(OUT_OF_SERVICE) || is_claimed;
        if let Some(setter) = self.setter.filter(|setter| !setter.is_ours())
            && is_touched
        {
            self.broken(judgement, &FOREIGN, setter.name());
        }
    }

    /// Where a claim stands and the write touches it or `out-of-service`, it tests for exactly this claim.
    fn tested(&self, set: bool, judgement: &mut Judgement) {
        let Self { before, after, .. } = *self;
        let removed = before.is_marked() && !after.is_marked();
        let Some(claim) = before.claim() else { return };
        if !(set || removed || after.claim() != before.claim()) {
            return;
        }
        let operations = after.write.what.request_object.as_array();
        let operations = operations.into_iter().flatten();
        let tests = operations.filter(|operation| operation["op"] == "test");
        let mut tested: Vec<&Value> = Vec::new();
        for test in tests {
            match &test["value"] {
                Value::Array(list) => tested.extend(list),
                other => tested.push(other),
            }
        }
        tested.retain(|taint| taint["key"] == CLAIM);
        if tested.is_empty() || tested.iter().any(|taint| taint["value"] != claim) {
            self.broken(
                judgement,
                &TESTED,
                format!("{claim} stood: {}", before.name()),
            );
        }
    }

    fn same_node(&self, replay: &Replay, judgement: &mut Judgement) {
        let Self { before, after, .. } = *self;
        let uid = text(&after.object()["metadata"]["uid"]);
        let operations = after.write.what.request_object.as_array();
        let mut operations = operations.into_iter().flatten();
        let is_bound = operations.any(|it| it["op"] == "test" && it["path"] == "/metadata/uid");
        if !is_bound {
            self.broken(judgement, &SAME_NODE, "it tests no uid".to_owned());
        }
        let Some(claim) = after.claim().or(before.claim()) else {
            return;
        };
        let fence = replay.fence_before(claim, after.version, |_| true);
        let named = |fence: &State| {
            let (spec, status) = (&fence.object()["spec"], &fence.object()["status"]);
            let named = [&spec["nodeUID"], &status["nodeUID"]];
            named
                .into_iter()
                .find_map(|uid| uid.as_str().map(str::to_owned))
        };
        let other = match fence {
            None => Some(format!("there is no NodeFence {}", fence_of(claim))),
            Some(fence) => named(fence)
                .filter(|named| named != uid)
                .map(|named| format!("the NodeFence is about uid {named}: {}", fence.name())),
        };
        if let Some(other) = other {
            self.broken(judgement, &SAME_NODE, other);
        }
    }

    fn quarantine(&self, judgement: &mut Judgement) {
        let Self { before, after, .. } = *self;
        let lifted = before
            .taint(QUARANTINE)
            .filter(|_| after.taint(QUARANTINE).is_none());
        if lifted.is_some_and(|taint| taint["value"] == after.boot()) {
            let still = format!("the Node still shows boot {}", after.boot());
            self.broken(judgement, &QUARANTINED, still);
        }
    }

    fn broken(&self, judgement: &mut Judgement, rule: &'static Rule, other: String) {
        let node = format!("Node {}", self.after.write.what.object_ref.name);
        judgement.broken(rule, node, self.after.since(), self.after.name(), other);
    }
}
