//! Matchers for the guarded writes of the operator, and for the reads between them.
//!
//! Together they are the points of its protocol at which a test can stop it. They look at what a patch does to the
//! taints of a Node, not at how it is written.

use std::collections::BTreeSet;

use http::Method;
use serde_json::Value;

use super::matcher::{Matcher, Seen};

/// Key of the claim taint.
pub const CLAIM: &str = "nodefencing.io/claim";
/// Key of the quarantine taint.
pub const QUARANTINE: &str = "nodefencing.io/quarantine";
/// Key of the taint under which the operator detaches volumes itself.
pub const DETACHING: &str = "nodefencing.io/detaching";
/// Key of the out-of-service taint.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

const FENCES: [&str; 4] = ["apis", "nodefencing.io", "v1alpha1", "nodefences"];

/// The creation of a NodeFence.
pub fn create_fence() -> Matcher {
    Matcher::new("create NodeFence")
        .method(Method::POST)
        .when(|seen| seen.segments() == FENCES)
}

/// The claim of a Node, taken over or new.
pub fn claim() -> Matcher {
    taints("claim", |change| {
        change.adds(CLAIM) && !change.adds(OUT_OF_SERVICE)
    })
}

/// The listing of the pods of a node, by which it is quiesced and by which it is released.
pub fn list_pods() -> Matcher {
    Matcher::new("list pods")
        .method(Method::GET)
        .path("/api/v1/pods")
        .when(|seen| !is_watch(seen))
}

/// A watch of all objects of a kind, such as `nodes`.
pub fn watch(plural: &'static str) -> Matcher {
    Matcher::new("watch")
        .method(Method::GET)
        .when(move |seen| is_watch(seen) && seen.segments().last() == Some(&plural))
}

/// A list of all objects of a kind, with which a watch begins.
pub fn list(plural: &'static str) -> Matcher {
    Matcher::new("list")
        .method(Method::GET)
        .when(move |seen| !is_watch(seen) && seen.segments().last() == Some(&plural))
}

/// A quorum read of a Node: neither from the watch cache nor a watch.
pub fn read_node() -> Matcher {
    Matcher::new("read Node").method(Method::GET).when(|seen| {
        matches!(seen.segments().as_slice(), ["api", "v1", "nodes", _])
            && !seen.query.contains("resourceVersion=")
    })
}

/// A quorum read of the Lease of a kubelet.
pub fn read_node_lease() -> Matcher {
    Matcher::new("read node Lease")
        .method(Method::GET)
        .when(|seen| {
            seen.path
                .starts_with("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/")
                && !is_watch(seen)
        })
}

/// Any write to the status of a NodeFence.
pub fn fence_status() -> Matcher {
    Matcher::new("NodeFence status").when(is_fence_status)
}

/// The write of the intent to turn a machine off: an attempt `PowerOff` without a result, and without a word of what became of it so far.
pub fn intent() -> Matcher {
    let open = |attempt: &Value| {
        let is_told = !attempt["result"].is_null() || !attempt["message"].is_null();
        attempt["action"] == "PowerOff" && !is_told
    };
    Matcher::new("intent")
        .when(is_fence_status)
        .when(move |seen| any_object(&seen.body, &|object| open(object)))
}

/// The write of the evidence, before the taint is set.
pub fn evidence() -> Matcher {
    let is_tainted = |value: &Value| !value["taintAppliedTime"].is_null();
    Matcher::new("evidence")
        .when(is_fence_status)
        .when(move |seen| {
            let has = |value: &Value| {
                !value["evidence"].is_null() || is_operation_on(value, "/status/evidence")
            };
            any_object(&seen.body, &has) && !any_object(&seen.body, &is_tainted)
        })
}

/// The forced deletion of a pod.
pub fn delete_pod() -> Matcher {
    Matcher::new("delete pod")
        .method(Method::DELETE)
        .when(|seen| {
            matches!(
                seen.segments().as_slice(),
                ["api", "v1", "namespaces", _, "pods", _]
            )
        })
}

/// The out-of-service taint.
pub fn taint() -> Matcher {
    taints("taint", |change| change.adds(OUT_OF_SERVICE))
}

/// The removal of the out-of-service taint.
pub fn release() -> Matcher {
    taints("release", |change| change.removes(OUT_OF_SERVICE))
}

/// The last write to the status of a NodeFence, which ends it.
pub fn close() -> Matcher {
    let is_end = |value: &Value| {
        value["type"] == "Succeeded" && matches!(value["status"].as_str(), Some("True" | "False"))
    };
    Matcher::new("close")
        .when(is_fence_status)
        .when(move |seen| any_object(&seen.body, &is_end))
}

/// The removal of the claim alone, when a fence is given up before the taint.
pub fn drop_claim() -> Matcher {
    taints("drop claim", |change| {
        change.removes(CLAIM) && !change.removes(OUT_OF_SERVICE)
    })
}

/// The removal of the quarantine.
pub fn lift_quarantine() -> Matcher {
    taints("lift quarantine", |change| change.removes(QUARANTINE))
}

/// A renewal or take-over of the leader's Lease (any Lease but a kubelet's).
pub fn leader_lease() -> Matcher {
    Matcher::new("leader Lease").when(|seen| {
        let segments = seen.segments();
        let is_lease = matches!(
            segments.as_slice(),
            [
                "apis",
                "coordination.k8s.io",
                "v1",
                "namespaces",
                _,
                "leases",
                ..
            ]
        );
        is_lease && segments[4] != "kube-node-lease" && seen.method != Method::GET
    })
}

/// Any write but events and the leader's Lease.
pub fn any_write() -> Matcher {
    Matcher::new("any write").when(|seen| {
        let is_read = matches!(seen.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let resource = |name: &str| seen.segments().contains(&name);
        // A review and a dry run write nothing.
        let is_question = seen.path.contains("reviews") || seen.query.contains("dryRun=");
        !is_read && !resource("events") && !resource("leases") && !is_question
    })
}

fn is_watch(seen: &Seen) -> bool {
    seen.has_parameter("watch=true") || seen.has_parameter("watch=1")
}

fn is_fence_status(seen: &Seen) -> bool {
    let is_write = matches!(seen.method, Method::PATCH | Method::PUT);
    is_write
        && matches!(seen.segments().as_slice(), [a, b, c, d, _, "status"] if [*a, *b, *c, *d] == FENCES)
}

fn is_operation_on(value: &Value, path: &str) -> bool {
    value["op"] != "test"
        && value["path"]
            .as_str()
            .is_some_and(|other| other.starts_with(path))
}

/// Is there an object, however deep, for which this holds?
fn any_object(value: &Value, holds: &dyn Fn(&Value) -> bool) -> bool {
    match value {
        Value::Object(fields) => {
            holds(value) || fields.values().any(|value| any_object(value, holds))
        }
        Value::Array(values) => values.iter().any(|value| any_object(value, holds)),
        _ => false,
    }
}

fn taints(name: &str, condition: impl Fn(&TaintChange) -> bool + Send + Sync + 'static) -> Matcher {
    Matcher::new(name).method(Method::PATCH).when(move |seen| {
        let is_node = matches!(seen.segments().as_slice(), ["api", "v1", "nodes", _]);
        is_node && condition(&TaintChange::of(&seen.body))
    })
}

/// What a JSON Patch does to the taints of a Node, as far as it tells by itself: it knows of the list before it what
/// its own tests say.
#[derive(Debug, Default, PartialEq, Eq)]
struct TaintChange {
    added: BTreeSet<String>,
    removed: BTreeSet<String>,
}

impl TaintChange {
    fn of(patch: &Value) -> Self {
        let mut change = Self::default();
        // Keys by index; `None` where the patch does not say.
        let mut list: Vec<Option<String>> = Vec::new();
        for operation in patch.as_array().into_iter().flatten() {
            let path = operation["path"].as_str().unwrap_or_default();
            if let Some(rest) = path.strip_prefix("/spec/taints") {
                change.apply(&mut list, operation, rest.trim_start_matches('/'));
            }
        }
        // Replaced by itself is neither added nor removed, and is so often meant: a new value of the same key is added.
        change.removed = change.removed.difference(&change.added).cloned().collect();
        change
    }

    fn apply(&mut self, list: &mut Vec<Option<String>>, operation: &Value, place: &str) {
        let value = &operation["value"];
        let index: Option<usize> = place.split('/').next().and_then(|index| index.parse().ok());
        if let Some(index) = index
            && list.len() <= index
        {
            list.resize(index + 1, None);
        }
        match (operation["op"].as_str().unwrap_or_default(), index) {
            ("test", Some(index)) => list[index] = key_of(value).or(list[index].take()),
            ("test", None) => *list = keys_of(value),
            ("add", Some(index)) => {
                list.insert(index, key_of(value));
                self.added.extend(key_of(value));
            }
            ("add", None) if place == "-" => {
                list.push(key_of(value));
                self.added.extend(key_of(value));
            }
            ("replace", Some(index)) => {
                self.removed.extend(list[index].take());
                list[index] = key_of(value);
                self.added.extend(key_of(value));
            }
            ("remove", Some(index)) => self.removed.extend(list.remove(index)),
            ("add" | "replace" | "remove", None) => {
                let old: BTreeSet<_> = list.drain(..).flatten().collect();
                *list = keys_of(value);
                let new: BTreeSet<_> = list.iter().flatten().cloned().collect();
                self.added.extend(new.difference(&old).cloned());
                self.removed.extend(old.difference(&new).cloned());
            }
            _ => {}
        }
    }

    fn adds(&self, key: &str) -> bool {
        self.added.contains(key)
    }

    fn removes(&self, key: &str) -> bool {
        self.removed.contains(key)
    }
}

fn key_of(taint: &Value) -> Option<String> {
    taint["key"].as_str().map(str::to_owned)
}

fn keys_of(taints: &Value) -> Vec<Option<String>> {
    taints
        .as_array()
        .map(|taints| taints.iter().map(key_of).collect())
        .unwrap_or_default()
}
