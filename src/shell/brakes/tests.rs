use super::*;
use crate::shell::fake::{self, Cluster};
use fencing_core::budget::{deleted_nodes, selected};
use fencing_core::observed::NodeView;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::JoinSet;

/// A NodeFence of policy `prod`, each of a node of its own.
fn fence(name: &str, status: Value) -> Value {
    json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "nodeName": format!("node-of-{name}"), "policyName": "prod",
            "trigger": {"type": "NodeCondition"},
            "fence": {"mode": "PowerOff"}, "recovery": {}, "release": {}, "powerOn": {},
        },
        "status": status,
    })
}

fn ago(hours: i64) -> jiff::Timestamp {
    clock::wall() - jiff::SignedDuration::from_hours(hours)
}

/// The record of a fence that began so many hours ago and is over.
fn ended(hours: i64) -> Value {
    let succeeded = json!({
        "type": "Succeeded", "status": "True", "reason": "Recovered", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    json!({"conditions": [succeeded], "approvedTime": ago(hours).to_string()})
}

/// The brakes of a process that has just begun and whose cache has these NodeFences.
struct Lab {
    context: Arc<Context>,
    _watches: JoinSet<()>,
}

impl Lab {
    async fn new(fences: &[Value]) -> Self {
        let cluster = Cluster::new().await;
        let list = fake::list("NodeFence", "7", fences);
        cluster.put("GET /apis/nodefencing.io/v1alpha1/nodefences", 200, list);
        let (context, watches) = cluster.watching();
        let fences = &context.caches.fences;
        fences.wait_until_ready().await.expect("the NodeFences");
        Self {
            context,
            _watches: watches,
        }
    }

    /// Why the incident of this name is held, if it is.
    fn asked(
        &self,
        name: &str,
        ask: impl FnOnce(&Brakes, &Context, &Applicant<'_>) -> Result<(), Hold>,
    ) -> Option<&'static str> {
        let budget = json!({"maxConcurrent": 1, "maxPerHour": 3, "minHealthy": 0});
        let spec = json!({"nodeSelector": {}, "budget": budget, "fence": {"mode": "PowerOff"}});
        let spec = serde_json::from_value(spec).expect("a spec");
        let policy = NodeFencingPolicy::new("prod", spec);
        let fence = serde_json::from_value(fence(name, json!({}))).expect("a NodeFence");
        let applicant = Applicant {
            fence: &fence,
            policy: Some(&policy),
            approved: false,
        };
        let judged = ask(&self.context.brakes, &self.context, &applicant);
        judged.err().map(|hold| hold.reason.as_str())
    }
}

/// S13: both have looked before either acts.
#[tokio::test]
async fn two_incidents_cannot_both_take_the_last_place() {
    let lab = Lab::new(&[fence("a", json!({})), fence("b", json!({}))]).await;
    assert_eq!(
        [lab.asked("a", Brakes::look), lab.asked("b", Brakes::look)],
        [None; 2]
    );
    assert_eq!(lab.asked("a", Brakes::admit), None);
    assert_eq!(lab.asked("b", Brakes::admit), Some("MaxConcurrent"));
    // Its own place holds nobody.
    assert_eq!(lab.asked("a", Brakes::admit), None);
    lab.context.brakes.end("a");
    assert_eq!(lab.asked("b", Brakes::admit), None);
}

/// S13: whatever the policy, or one of its windows, says by now: what turns a machine off asks whether too many are down.
#[tokio::test]
async fn the_brakes_judge_an_incident_by_the_mode_that_it_froze() {
    let lab = Lab::new(&[]).await;
    for (live, frozen, held) in [
        ("Observe", "PowerOff", Some("MinHealthy")),
        ("PowerOff", "PowerOff", Some("MinHealthy")),
        ("PowerOff", "ConfirmOnly", None),
    ] {
        let budget = json!({"minHealthy": 1});
        let spec = json!({"nodeSelector": {}, "budget": budget, "fence": {"mode": live}});
        let spec = serde_json::from_value(spec).expect("a spec");
        let policy = NodeFencingPolicy::new("prod", spec);
        let mut fence = fence("a", json!({}));
        fence["spec"]["fence"]["mode"] = json!(frozen);
        let fence = serde_json::from_value(fence).expect("a NodeFence");
        let applicant = Applicant {
            fence: &fence,
            policy: Some(&policy),
            approved: false,
        };
        let judged = lab.context.brakes.look(&lab.context, &applicant);
        assert_eq!(
            judged.err().map(|it| it.reason.as_str()),
            held,
            "{live} {frozen}"
        );
    }
}

/// S13: a share of the nodes is counted where it is asked for, whatever was spared elsewhere.
#[tokio::test]
async fn a_share_of_nodes_that_are_down_holds_what_turns_machines_off() {
    let cluster = Cluster::new().await;
    let nodes = fake::list("Node", "7", &[fake::node()]);
    cluster.put("GET /api/v1/nodes", 200, nodes);
    let (context, _watches) = cluster.watching();
    let nodes = &context.caches.nodes;
    nodes.wait_until_ready().await.expect("the Nodes");
    let spec = json!({"nodeSelector": {}, "fence": {"mode": "PowerOff"}});
    let policy = NodeFencingPolicy::new("prod", serde_json::from_value(spec).expect("a spec"));
    for (mode, approved, held) in [
        ("PowerOff", false, Some("MinHealthy")),
        ("PowerOff", true, None),
        ("ConfirmOnly", false, None),
    ] {
        let mut fence = fence("a", json!({}));
        fence["spec"]["fence"]["mode"] = json!(mode);
        let fence = serde_json::from_value(fence).expect("a NodeFence");
        let applicant = Applicant {
            fence: &fence,
            policy: Some(&policy),
            approved,
        };
        let judged = context.brakes.look(&context, &applicant);
        let reason = judged.err().map(|it| it.reason.as_str());
        assert_eq!(reason, held, "{mode} {approved}");
    }
}

/// S13: a machine whose Node was deleted is down like any other, until it is back.
#[test]
fn nodes_that_were_deleted_are_counted_until_they_are_back() {
    let marked = json!({"taintAppliedTime": ago(0).to_string()});
    let record = |name: &str, strategy: &str, status: &Value| -> NodeFence {
        let mut fence = fence(name, status.clone());
        fence["spec"]["recovery"] = json!({"strategy": strategy});
        fence["spec"]["nodeName"] = json!(name);
        fence["spec"]["policyName"] = json!("prod");
        serde_json::from_value(fence).expect("a NodeFence")
    };
    let fences = [
        record("gone", "DeleteNode", &marked),
        record("back", "DeleteNode", &marked),
        record("tainted", "OutOfServiceTaint", &marked),
        record("released", "DeleteNode", &json!({})),
    ];
    let back = NodeView {
        name: "back".to_owned(),
        ..fencing_core::fixtures::node()
    };
    let nodes = [back];
    let counted = deleted_nodes(&fences, "prod", &nodes);
    assert_eq!(counted, BTreeSet::from(["gone".to_owned()]));
    let spec = json!({"nodeSelector": {}});
    let policy = NodeFencingPolicy::new("prod", serde_json::from_value(spec).expect("a spec"));
    assert_eq!(selected(&policy, &nodes, &fences), ["back", "gone"]);
    assert!(deleted_nodes(&fences, "another", &nodes[..0]).is_empty());
}

/// S13: what a process before this one has begun goes on, and counts.
#[tokio::test]
async fn what_was_admitted_before_a_restart_counts() {
    let claimed = json!({"claim": "a-n1"});
    let tainted = json!({"taintAppliedTime": ago(0).to_string()});
    let table = [
        (vec![json!({})], None),
        (vec![claimed], Some("MaxConcurrent")),
        (vec![tainted], Some("MaxConcurrent")),
        (vec![ended(0), ended(0)], None),
        (vec![ended(0), ended(0), ended(0)], Some("MaxPerHour")),
        (vec![ended(0), ended(0), ended(2)], None),
        // Written when the date was ahead.
        (vec![ended(0), ended(0), ended(-2)], Some("MaxPerHour")),
    ];
    for (before, held) in table {
        let numbered = before.iter().enumerate();
        let fences: Vec<Value> = numbered
            .map(|(number, status)| fence(&format!("a{number}"), status.clone()))
            .collect();
        let lab = Lab::new(&fences).await;
        assert_eq!(lab.asked("b", Brakes::look), held, "{before:?}");
    }
}

/// S13: two others have begun in this hour, and three may.
#[tokio::test]
async fn a_fence_that_claims_again_is_not_held_back_by_its_own_beginning() {
    let others = [fence("a", ended(0)), fence("b", ended(0))];
    let lab = Lab::new(&others).await;
    assert_eq!(lab.asked("c", Brakes::admit), None);
    lab.context.brakes.give_back("c");
    assert_eq!(lab.asked("c", Brakes::look), None);
    assert_eq!(lab.asked("d", Brakes::look), Some("MaxPerHour"));
    // After a restart.
    let [a, b] = others;
    let began = json!({"approvedTime": ago(0).to_string()});
    let lab = Lab::new(&[a, b, fence("c", began)]).await;
    assert_eq!(lab.asked("c", Brakes::look), None);
    assert_eq!(lab.asked("d", Brakes::look), Some("MaxPerHour"));
}

/// S13, L5: its claim is refused, or never lands. It keeps its place while it tries again at once, and not for ever.
#[tokio::test]
async fn who_is_not_on_its_node_makes_room_after_a_while() {
    let claimed = json!({"claim": "a-n1"});
    let lab = Lab::new(&[fence("a", claimed), fence("b", json!({}))]).await;
    assert_eq!(lab.asked("a", Brakes::admit), None);
    let (brakes, now) = (&lab.context.brakes, clock::since_boot());
    for (later, held) in [
        (Duration::ZERO, Some("MaxConcurrent")),
        (UNCLAIMED_MAX / 2, Some("MaxConcurrent")),
        (UNCLAIMED_MAX, None),
    ] {
        brakes.note_unclaimed("a", now + later);
        assert_eq!(lab.asked("b", Brakes::look), held, "{later:?}");
        assert_eq!(lab.asked("a", Brakes::look), None, "{later:?}");
    }
    // The next claim takes the place only while it is on its way.
    assert_eq!(lab.asked("a", Brakes::admit), None);
    assert_eq!(lab.asked("b", Brakes::look), Some("MaxConcurrent"));
    brakes.note_unclaimed("a", now);
    assert_eq!(lab.asked("b", Brakes::admit), None);
    assert_eq!(lab.asked("a", Brakes::admit), Some("MaxConcurrent"));
}

/// Its turn came late, or it is of a process before this one, which never wrote that the claim is gone.
#[tokio::test]
async fn what_waited_long_for_its_turn_keeps_its_place_as_long_as_any_other() {
    let claimed = json!({"claim": "a-n1"});
    let lab = Lab::new(&[fence("a", claimed), fence("b", json!({}))]).await;
    let (brakes, now) = (&lab.context.brakes, clock::since_boot());
    brakes.note_unclaimed("a", now);
    assert_eq!(lab.asked("b", Brakes::look), Some("MaxConcurrent"));
    brakes.note_unclaimed("a", now + UNCLAIMED_MAX);
    assert_eq!(lab.asked("b", Brakes::look), None);
    assert_eq!(lab.asked("a", Brakes::admit), None);
    brakes.note_unclaimed("a", clock::since_boot());
    assert_eq!(lab.asked("b", Brakes::look), Some("MaxConcurrent"));
}

#[tokio::test]
async fn a_claim_that_is_seen_keeps_its_place_and_begins_the_next_wait_anew() {
    let lab = Lab::new(&[fence("a", json!({})), fence("b", json!({}))]).await;
    let (brakes, now) = (&lab.context.brakes, clock::since_boot());
    assert_eq!(lab.asked("a", Brakes::admit), None);
    brakes.note_unclaimed("a", now);
    assert_eq!(lab.asked("a", recorded), None);
    brakes.note_unclaimed("a", now + 2 * UNCLAIMED_MAX);
    assert_eq!(lab.asked("b", Brakes::look), Some("MaxConcurrent"));
}

fn recorded(brakes: &Brakes, context: &Context, it: &Applicant<'_>) -> Result<(), Hold> {
    brakes.readmit(context, it, true)
}

fn unrecorded(brakes: &Brakes, context: &Context, it: &Applicant<'_>) -> Result<(), Hold> {
    brakes.readmit(context, it, false)
}

/// S13: nobody knew that it would land, and another one has its place by now. What a process before this one has claimed is under way.
#[tokio::test]
async fn a_claim_that_lands_late_gets_a_place_only_if_there_is_one() {
    let fences = [fence("a", json!({})), fence("b", json!({}))];
    let lab = Lab::new(&fences).await;
    let brakes = &lab.context.brakes;
    assert_eq!(lab.asked("a", Brakes::admit), None);
    brakes.give_back("a");
    assert_eq!(lab.asked("b", Brakes::admit), None);
    assert_eq!(lab.asked("a", recorded), Some("MaxConcurrent"));
    brakes.end("b");
    assert_eq!(lab.asked("a", recorded), None);
    assert_eq!(lab.asked("b", Brakes::admit), Some("MaxConcurrent"));
    // Nor does a process that has just begun know when it landed, unless the record has it.
    let lab = Lab::new(&fences).await;
    assert_eq!(lab.asked("b", Brakes::admit), None);
    assert_eq!(lab.asked("a", unrecorded), Some("MaxConcurrent"));
    assert_eq!(lab.asked("a", recorded), None);
}

/// The node is recovered: while its machine is turned on again others are fenced.
#[tokio::test]
async fn what_was_released_takes_no_place() {
    let applied = json!({"taintAppliedTime": "2026-01-01T00:00:00Z"});
    let mut released = applied.clone();
    released["taintRemovedTime"] = json!("2026-01-01T00:01:00Z");
    for (status, held) in [(applied, Some("MaxConcurrent")), (released, None)] {
        let lab = Lab::new(&[fence("a", status), fence("b", json!({}))]).await;
        assert_eq!(lab.asked("b", Brakes::look), held);
    }
    // By this process, and seen by it.
    let lab = Lab::new(&[fence("a", json!({})), fence("b", json!({}))]).await;
    assert_eq!(lab.asked("a", Brakes::admit), None);
    lab.context.brakes.give_back("a");
    assert_eq!(lab.asked("b", Brakes::admit), None);
}

/// L5, HOLES C2: one tenant's pod that tolerates our claim keeps its own node from being fenced, and no other.
#[tokio::test]
async fn a_quiesce_past_its_deadline_keeps_no_other_node_waiting() {
    let lab = Lab::new(&[fence("a", json!({})), fence("b", json!({}))]).await;
    let brakes = &lab.context.brakes;
    let readmit = |brakes: &Brakes, context: &Context, applicant: &Applicant<'_>| {
        brakes.readmit(context, applicant, true)
    };
    assert_eq!(lab.asked("a", Brakes::admit), None);
    assert_eq!(lab.asked("a", readmit), None);
    assert_eq!(lab.asked("b", Brakes::look), Some("MaxConcurrent"));
    brakes.note_stuck("a", true);
    // Its claim stays, and takes no place.
    assert_eq!(lab.asked("a", readmit), None);
    assert_eq!(lab.asked("b", Brakes::admit), None);
    assert!(!brakes.is_late("a", true));
    // The pod is gone: it needs a place, and there is none until the other one has ended.
    brakes.note_stuck("a", false);
    assert_eq!(lab.asked("a", readmit), Some("MaxConcurrent"));
    brakes.end("b");
    assert_eq!(lab.asked("a", readmit), None);
    assert_eq!(lab.asked("b", Brakes::look), Some("MaxConcurrent"));
    // An incident that never was stuck loses nothing.
    brakes.note_stuck("a", false);
    assert_eq!(lab.asked("b", Brakes::look), Some("MaxConcurrent"));
}
