//! A whole plan from the objects to the text, and that it fits the terminal.

use super::super::facts::Facts;
use super::super::place::Machine;
use super::super::quantity::{Amounts, parse};
use super::super::volumes::Storage;
use super::super::{Plan, plan};
use super::*;
use crate::control::tests::row;
use crate::output::{Content as _, Form, serialized};
use crate::table::WIDTH;
use fencing_api::fence::{DesiredState, NodeFence};
use fencing_api::policy::NodeFencingPolicy;
use fencing_api::settings::ApprovalMode;
use fencing_core::fixtures::{out_of_service, ready_node as node};
use fencing_core::observed::NodeView;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

fn pod(name: &str, owner: &str) -> Pod {
    let owner =
        json!({"apiVersion": "v1", "kind": owner, "name": "of-it", "uid": "u", "controller": true});
    let pod = json!({
        "metadata": {"name": name, "namespace": "shop", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "c"}], "volumes": [{"name": "cache", "emptyDir": {}}]},
    });
    serde_json::from_value(pod).expect("a pod")
}

fn facts(policy: Value, pods: Vec<Pod>) -> Facts {
    let mut spec =
        json!({"nodeSelector": {}, "fence": {"mode": "PowerOff", "levels": [{"name": "bmc"}]}});
    json_patch::merge(&mut spec, &policy);
    let device = json!({
        "apiVersion": "nodefencing.io/v1alpha1",
        "kind": "FenceDevice",
        "metadata": {"name": "w1-bmc", "generation": 1},
        "spec": {"nodeName": "w1", "ipmi": {"address": "bmc"}},
        "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True", "reason": "Probed", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}], "positiveControls": [row(&node("w1"), "On")]},
    });
    let nodes: Vec<NodeView> = ["w1", "w2", "w3"].map(node).into();
    let machine = |view: &NodeView| Machine {
        view: view.clone(),
        free: Amounts::from([("pods".to_owned(), parse("10").expect("an amount"))]),
    };
    Facts {
        node: nodes[0].clone(),
        created: Some(Timestamp::UNIX_EPOCH),
        machines: Some(nodes.iter().map(machine).collect()),
        nodes,
        pods,
        policies: vec![NodeFencingPolicy::new(
            "databases",
            serde_json::from_value(spec).expect("a spec"),
        )],
        devices: vec![serde_json::from_value(device).expect("a device")],
        fences: Vec::new(),
        storage: Storage::default(),
        budgets: Vec::new(),
        rolling: Default::default(),
        managers: None,
        version: Some("v1.36.3".to_owned()),
        replicas: None,
        lease_seconds: None,
        cap: None,
        unknown: vec!["the operator's replicas: pods is forbidden".to_owned()],
    }
}

fn of(facts: &Facts) -> (Plan, String) {
    let plan = plan(
        facts,
        None,
        Timestamp::from_second(1_800_000_000).expect("a time"),
    );
    let text = told(&plan);
    for line in text.lines() {
        assert!(line.chars().count() <= WIDTH, "{line}");
    }
    (plan, text)
}

#[test]
fn a_plan_that_goes_through_says_when() {
    let facts = facts(
        json!({}),
        vec![pod("web-1", "ReplicaSet"), pod("agent-1", "DaemonSet")],
    );
    let (plan, text) = of(&facts);
    assert!(plan.recovers);
    for words in [
        "it would be fenced",
        "PolicyWait",
        "110s",
        "policy: fence.verification",
        "our benchmark",
        "recovers: shop/web-1",
        "of the node: shop/agent-1",
        "Not known",
    ] {
        assert!(text.contains(words), "{words} in\n{text}");
    }
    assert!(!text.contains("HELD"), "{text}");
}

/// There is no last one of none.
#[test]
fn where_no_pod_recovers_nothing_is_said_of_the_last_that_does() {
    let (mut plan, text) = of(&facts(json!({}), vec![pod("web-1", "ReplicaSet")]));
    let last = "the last pod about";
    assert!(flat(&text).contains(last), "{text}");
    for pod in &mut plan.pods {
        pod.outcome = Outcome::Stays;
    }
    let text = flat(&told(&plan));
    assert!(!text.contains(last), "{text}");
    let none = "it would be fenced, and 1 of its 1 pods would not recover by themselves Verdict";
    assert!(text.contains(none), "{text}");
}

const PLAN: &str = "\
If Node w1 lost power now, it would be fenced, and everything on it would run
again, 1 pod without data that was on the node alone, the last pod about 116s
after the power loss

Verdict
  policy databases: mode PowerOff, approval Automatic
  level bmc: ready: w1-bmc (ipmi, Ready, has never read Off, so it may not
  answer while its machine is off)
  budget admits it: 2 of 3 nodes would be Ready, `budget.minHealthy` requires 2
  note: a BMC without power of its own cannot answer in a power loss; add a
  level with the outlets (driver pdu) or driver manual behind it

AT     STEP           TAKES   KNOWN FROM
50s    ReadyUnknown   50s     Kubernetes' default
110s   PolicyWait     60s     policy: unhealthyConditions
110s   Claim          <0.1s   our benchmark
110s   Quiesce        <0.1s   our benchmark
111s   TurnOff        1s      a guess
114s   Verify         3s      policy: fence.verification
114s   Taint          0.1s    our benchmark
114s   Evict          0s      our benchmark
114s   Schedule       0s      our benchmark
116s   Start          1.8s    our benchmark
The last step ends between 106s and 126s, where bounded; -o json shows the
source of each number

Pods (1 recovers, 1 of the node)
  recovers: shop/web-1 (ReplicaSet/of-it), after 112s
      another one is created elsewhere (Node w3 has room)
      - emptyDir cache starts empty: its data is lost
  of the node: shop/agent-1

Not known
  the operator's replicas: pods is forbidden
";

#[test]
fn a_plan_reads_like_this_to_the_last_blank() {
    let pods = vec![pod("web-1", "ReplicaSet"), pod("agent-1", "DaemonSet")];
    let (_, text) = of(&facts(json!({}), pods));
    assert_eq!(text, PLAN);
}

/// Pods run again, and what they had in an emptyDir does not.
#[test]
fn a_plan_says_first_what_is_lost() {
    let pods = vec![pod("web-1", "ReplicaSet"), pod("agent-1", "DaemonSet")];
    let (_, text) = of(&facts(json!({}), pods));
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "everything on it would run again, 1 pod without data that was on the node alone";
    assert!(flat.contains(told), "{text}");
}

/// Of a machine that runs, a mark that is taken away may cost a volume.
#[test]
fn a_mark_is_to_be_removed_when_that_is_harmless_and_no_sooner() {
    let mut facts = facts(json!({}), Vec::new());
    facts.node.taints = vec![out_of_service()];
    facts.nodes[0] = facts.node.clone();
    let (_, text) = of(&facts);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "once the machine is off or rebooted, remove it";
    assert!(flat.contains(told), "{text}");
}

#[test]
fn a_plan_that_is_held_says_why_and_what_comes_after() {
    let facts = facts(
        json!({"fence": {"approval": {"mode": "Manual"}}}),
        vec![pod("web-1", "ReplicaSet")],
    );
    let (plan, text) = of(&facts);
    assert!(!plan.recovers);
    for words in [
        "NOT be fenced",
        "HELD",
        "AwaitingApproval",
        "once it is open: kubectl fence approve w1 --reason WHY",
        "the hold is lifted",
    ] {
        assert!(
            text.split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .contains(words),
            "{words} in\n{text}"
        );
    }
}

#[test]
fn a_pod_that_is_lost_makes_the_plan_one_of_not_all() {
    let mut bare = pod("bare", "ReplicaSet");
    bare.metadata.owner_references = None;
    let facts = facts(json!({}), vec![bare, pod("web-1", "ReplicaSet")]);
    let (plan, text) = of(&facts);
    assert!(!plan.recovers && plan.verdict.obstacles.is_empty());
    assert!(text.contains("GONE: shop/bare"), "{text}");
    assert_eq!(plan.names(), ["pod/bare"]);
}

/// What programs read: fields may be added, and none goes.
#[test]
fn the_json_keeps_its_fields() {
    let facts = facts(json!({}), vec![pod("web-1", "ReplicaSet")]);
    let (plan, _) = of(&facts);
    let text = serialized(Form::Json, &plan).expect("json");
    let json: Value = serde_json::from_str(&text).expect("json");
    assert_eq!(json["apiVersion"], "cli.nodefencing.io/v1");
    assert_eq!(json["kind"], "Plan");
    for field in [
        "/node",
        "/recovers",
        "/verdict/policy",
        "/verdict/levels/0/devices/0/readiness",
        "/timeline/steps/0/because",
        "/timeline/recoveredSeconds",
        "/recoveredSeconds",
        "/pods/0/outcome",
        "/pods/0/volumes/0/fate",
        "/pods/0/afterSeconds",
        "/unknown/0",
    ] {
        assert!(json.pointer(field).is_some(), "{field} in {text}");
    }
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A NodeFence of w1.
fn fence(mode: &str, extra: Value) -> NodeFence {
    let mut fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": "w1-5c0ffee5", "creationTimestamp": "2027-01-15T07:59:00Z"},
        "spec": {
            "nodeName": "w1", "policyName": "databases", "fence": {"mode": mode},
            "trigger": {"type": "NodeCondition", "conditionType": "Ready", "conditionStatus": "Unknown", "unhealthySinceTime": "2027-01-15T07:58:00Z"},
        },
    });
    json_patch::merge(&mut fence, &extra);
    serde_json::from_value(fence).expect("a NodeFence")
}

/// Its kubelet is silent since the NodeFence's outage began.
fn down(facts: &mut Facts) {
    facts.node.conditions[0].status = "Unknown".to_owned();
    facts.node.conditions[0].transition = "2027-01-15T07:58:00Z".to_owned();
    facts.nodes[0] = facts.node.clone();
}

#[test]
fn an_open_incident_of_the_node_goes_on_and_holds_nothing() {
    let mut facts = facts(json!({}), Vec::new());
    let checking = json!({"type": "Succeeded", "status": "Unknown", "reason": "Checking", "message": "", "lastTransitionTime": "2027-01-15T07:59:00Z"});
    let checking = json!({"status": {"conditions": [checking]}});
    facts.fences = vec![fence("PowerOff", checking.clone())];
    let (plan, text) = of(&facts);
    let told = flat(&text);
    let leads = "NodeFence w1-5c0ffee5 of this node is open (Checking): it goes on; kubectl fence status w1 --watch \
                 At its next power loss, once Node w1 has been Ready again, it would be fenced, and";
    assert!(told.starts_with(leads), "{text}");
    assert!(plan.recovers && !told.contains("HELD"), "{text}");
    facts.fences = vec![fence("Observe", checking.clone())];
    let (plan, text) = of(&facts);
    assert!(flat(&text).contains("it only observes"), "{text}");
    assert!(!plan.recovers);
    // What waits for its turn alone goes on by itself, and what waits for somebody does not.
    let with = |kind: &str, reason: &str| {
        let mut more = checking.clone();
        let conditions = more["status"]["conditions"].as_array_mut().expect("a list");
        conditions.push(json!({"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": "2027-01-15T07:59:00Z"}));
        fence("PowerOff", more)
    };
    let mut asked = fence("PowerOff", checking.clone());
    asked.spec.procedure.fence.approval.mode = ApprovalMode::Manual;
    let asked_and = |hold: &str| {
        let mut asked = with("Held", hold);
        asked.spec.procedure.fence.approval.mode = ApprovalMode::Manual;
        asked
    };
    let mut released = fence("PowerOff", checking.clone());
    released.spec.desired_state = DesiredState::Released;
    for hold in [
        "FailureDomain",
        "MaxConcurrent",
        "MaxPerHour",
        "OtherProcess",
    ] {
        facts.fences = vec![with("Held", hold)];
        let (plan, text) = of(&facts);
        let words = "it is held, and resumes by itself";
        assert!(flat(&text).contains(words), "no `{words}` in {text}");
        assert!(plan.recovers, "{hold}");
    }
    for (stuck, words) in [
        (with("Escalated", "StillOn"), "it requires action"),
        (with("Held", "Paused"), "it is held"),
        (with("Held", "MinHealthy"), "it waits for an approval"),
        (asked_and("OtherProcess"), "it waits for an approval"),
        (asked, "it waits for an approval"),
        (released, "it was released by a user"),
    ] {
        facts.fences = vec![stuck];
        let (plan, text) = of(&facts);
        assert!(flat(&text).contains(words), "no `{words}` in {text}");
        assert!(!plan.recovers, "{words}");
    }
}

/// As `kubectl fence status` says it.
#[test]
fn of_a_node_that_is_down_already_its_outage_is_told_first() {
    let mut facts = facts(json!({}), Vec::new());
    down(&mut facts);
    let (plan, text) = of(&facts);
    let told = flat(&text);
    assert!(told.starts_with("Node w1: Ready=Unknown for 2m"), "{text}");
    assert!(told.contains("At its next power loss, once"), "{text}");
    assert_eq!(plan.present.map(|it| it.reason).as_deref(), Some("Late"));
    assert!(!plan.recovers);
    let aborted = json!({"type": "Succeeded", "status": "False", "reason": "Aborted", "message": "denied", "lastTransitionTime": "2027-01-15T07:59:30Z"});
    let approval = json!({"decision": "Denied", "user": "ann", "reason": "I work there", "time": "2027-01-15T07:59:20Z"});
    let spec =
        json!({"approval": approval, "nodeUID": facts.node.uid, "bootID": facts.node.boot_id});
    let denied = json!({"spec": spec, "status": {"conditions": [aborted]}});
    facts.fences = vec![fence("PowerOff", denied)];
    let (plan, text) = of(&facts);
    let told = flat(&text);
    let leads = "not fenced: NodeFence w1-5c0ffee5 was denied by ann: I work there;";
    assert!(told.contains(leads), "{text}");
    assert_eq!(plan.present.map(|it| it.reason).as_deref(), Some("Denied"));
    assert!(!plan.recovers);
}
