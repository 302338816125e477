use super::sight::Sight;
use super::*;
use crate::name::any;
use fencing_cluster::slim::SlimNode;
use serde_json::{Value, json};

mod brake;
mod denied;

const SINCE: &str = "2027-01-02T18:00:00Z";

fn now() -> Timestamp {
    "2027-01-02T18:00:09Z".parse().expect("a time")
}

fn policy_of(spec: &Value, status: &Value) -> NodeFencingPolicy {
    let mut all = json!({
        "nodeSelector": {},
        "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "durationSeconds": 10}],
        "fence": {"mode": "PowerOff"},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    let policy = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy",
        "metadata": {"name": "workers", "generation": 1}, "spec": all, "status": status,
    });
    serde_json::from_value(policy).expect("a policy")
}

fn ready() -> Value {
    json!({
        "effective": {"mode": "Observe", "approvalMode": "Automatic"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Active", "message": "well", "lastTransitionTime": SINCE}],
    })
}

/// A cluster in which somebody leads, and nothing else is.
pub(super) fn of_nothing() -> Sight {
    Sight {
        policies: Vec::new(),
        fences: Vec::new(),
        operator: Operator {
            leader: Some("operator-1".to_owned()),
            renew_time: None,
            silent_from: None,
            unknown: None,
        },
        nodes: Vec::new(),
        nodes_unknown: None,
        devices: None,
        ahead: jiff::SignedDuration::ZERO,
    }
}

fn sight(policy: NodeFencingPolicy, nodes: Vec<SlimNode>, unknown: Option<&str>) -> Sight {
    Sight {
        policies: vec![policy],
        nodes,
        nodes_unknown: unknown.map(str::to_owned),
        ..of_nothing()
    }
}

fn dead() -> SlimNode {
    let node = json!({
        "metadata": {"name": "node-1", "uid": "uid-1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {
            "conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": SINCE}],
            "nodeInfo": {"bootID": "boot-1"},
        },
    });
    serde_json::from_value(node).expect("a Node")
}

fn shown(sight: &Sight, name: Option<&str>) -> String {
    let name = name.map(|it| any(it).expect("a name"));
    let name = name.as_ref();
    screen(&sight.status(name, now()), name, false, now())
}

#[test]
fn a_node_that_is_down_within_the_wait_is_on_the_screen_and_no_incident_is_not_all_is_well() {
    let sight = sight(policy_of(&json!({}), &ready()), vec![dead()], None);
    for name in [None, Some("node-1"), Some("workers")] {
        let text = shown(&sight, name);
        let of = name.map_or_else(String::new, |it| format!(" of {it}"));
        let told = "Node node-1: Ready=Unknown for 9s; policy workers fences it in 1s: Ready=Unknown\nhas to last 10 s (`unhealthyConditions`), unless a device reads Off\n(`durationPolicy`)\n";
        let told = format!("No incident{of} is open, and 1 node is NotReady\n{told}");
        assert!(text.ends_with(&told), "{text}");
        let status = sight.status(name.map(Name::from).as_ref(), now());
        assert!(is_going_on(&status));
        assert_eq!(
            format!("{:?}", exit_code(&status)),
            format!("{:?}", ExitCode::SUCCESS)
        );
    }
}

#[test]
fn a_node_that_is_well_is_told_as_such_with_its_policy_and_whether_that_can_fence_it() {
    let mut well = dead();
    for condition in well.status.conditions.iter_mut().flatten() {
        condition.status = "True".to_owned();
    }
    let mut status = ready();
    let told = |status: &Value, name: &str| {
        let sight = sight(policy_of(&json!({}), status), vec![well.clone()], None);
        let text = shown(&sight, Some(name));
        let (_, told) = text.split_once(" is open\n").expect("none is");
        told.to_owned()
    };
    let line = "Node node-1: Ready; governed by policy workers";
    let flat = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let unknown = format!("{line}; see kubectl fence plan node-1 for whether it can be fenced");
    assert_eq!(flat(told(&status, "node-1")), unknown);
    assert_eq!(told(&status, "workers"), "");
    let counts = |unprotected: u32| json!({"selected": 60, "healthy": 60, "unhealthy": 0, "protected": 60 - unprotected, "unprotected": unprotected});
    status["nodes"] = counts(1);
    status["unprotectedNodes"] = json!(["node-2"]);
    assert_eq!(told(&status, "node-1"), format!("{line}\n"));
    // Of more than are named nobody knows which they are.
    status["nodes"] = counts(51);
    assert_eq!(flat(told(&status, "node-1")), unknown);
    status["unprotectedNodes"] = json!(["node-1"]);
    let bare = told(&status, "node-1").replace('\n', " ");
    assert_eq!(
        bare,
        format!("{line}; not protected: see kubectl fence plan node-1 ")
    );
    // What an open incident says of it is said there.
    let mut sight = sight(policy_of(&json!({}), &status), vec![well.clone()], None);
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-1-5c0ffee5"},
        "spec": {"nodeName": "node-1", "trigger": {"type": "Manual"}},
    });
    sight.fences = vec![serde_json::from_value(fence).expect("a NodeFence")];
    assert!(sight.status(Some(&"node-1".into()), now()).ready.is_none());
}

#[test]
fn who_may_not_list_nodes_is_told_that_none_is_known() {
    let sight = sight(
        policy_of(&json!({}), &ready()),
        Vec::new(),
        Some("nodes is forbidden"),
    );
    let text = shown(&sight, None);
    let told = "No incident is open\nOther NotReady nodes are unknown: nodes is forbidden\n";
    assert!(text.ends_with(told), "{text}");
}

/// The operator writes `effective` when it comes to it; what the policy says now it says now.
#[test]
fn the_mode_is_what_the_policy_says_now_and_a_pause_is_shown_with_who_and_until_when() {
    let window = json!({
        "name": "nights", "days": ["Sat"], "start": "17:00", "end": "23:00", "timeZone": "UTC", "mode": "ConfirmOnly",
    });
    for (spec, mode) in [
        (json!({}), FenceMode::PowerOff),
        (json!({"windows": [window]}), FenceMode::ConfirmOnly),
    ] {
        let found = policy(&policy_of(&spec, &ready()), &[], now());
        assert_eq!(found.mode, mode);
        assert_eq!(found.paused, None);
    }
    let mut pause = json!({"pauseRequests": [
        {"name": "ann", "reason": "switches", "expireTime": "2027-01-02T20:00:00Z"},
        {"name": "bob", "expireTime": SINCE},
    ]});
    let text = shown(&sight(policy_of(&pause, &ready()), Vec::new(), None), None);
    let told = "\n  workers: PAUSED by ann (switches, until 2027-01-02T20:00:00Z), ";
    assert!(text.contains(told), "{text}");
    // Whoever knows whose it is need not be asked; of two, or of a name that a line may tear, they are.
    let told = |pause: &Value| {
        let text = shown(&sight(policy_of(pause, &ready()), Vec::new(), None), None);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let resume = "kubectl fence resume workers --name";
    let text = told(&pause);
    let own = format!("to remove it: {resume} ann --reason WHY");
    assert!(text.contains(&own), "{text}");
    let any = format!("to remove a pause: {resume} WHOSE --reason WHY");
    pause["pauseRequests"][0]["name"] = json!("ann@work");
    assert!(
        told(&pause)
            .contains("to remove it: kubectl fence resume workers --name 'ann@work' --reason WHY")
    );
    pause["pauseRequests"][0]["name"] = json!("Ann B.");
    assert!(told(&pause).contains(&any));
    pause["pauseRequests"] = json!([{"name": "ann"}, {"name": "bob"}]);
    assert!(told(&pause).contains(&any));
}

/// Nothing is not what is said of a policy that nobody has looked at.
#[test]
fn what_the_operator_has_not_counted_is_not_known() {
    let sight = sight(policy_of(&json!({}), &json!(null)), Vec::new(), None);
    let status = serde_json::to_value(sight.status(None, now())).expect("JSON");
    for count in ["selected", "protected", "budgetRemaining"] {
        assert!(status["policies"][0][count].is_null(), "{status}");
    }
    let text = shown(&sight, None);
    let row = "\nworkers   PowerOff   <unknown>   <unknown>   0      0      <unknown>\n";
    assert!(text.contains(row), "{text}");
}

/// The operator writes its own numbers later than the incidents that they count.
#[test]
fn the_numbers_of_a_policy_are_those_of_the_incidents_below_it() {
    let fence = |policy: &str, stage: &str, status: &str, held: Option<&str>| -> NodeFence {
        let condition = |kind: &str, status: &str, reason: &str| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": SINCE,
            })
        };
        let held = held.map(|it| condition("Held", "True", it));
        let all: Vec<Value> = [condition("Succeeded", status, stage)]
            .into_iter()
            .chain(held)
            .collect();
        let fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-1-5c0ffee5"},
            "spec": {"nodeName": "node-1", "trigger": {"type": "NodeCondition"}, "policyName": policy},
            "status": {"conditions": all},
        });
        serde_json::from_value(fence).expect("a NodeFence")
    };
    let mut status = ready();
    status["openIncidents"] = json!(9);
    status["heldIncidents"] = json!(9);
    let fences = [
        fence("workers", "Fencing", "Unknown", None),
        fence("workers", "Checking", "Unknown", Some("MinHealthy")),
        fence("workers", "AwaitingApproval", "Unknown", None),
        fence("workers", "Recovered", "True", None),
        fence("db", "Held", "Unknown", None),
    ];
    let found = policy(&policy_of(&json!({}), &status), &fences, now());
    assert_eq!((found.open, found.held), (Some(3), Some(2)));
}

#[test]
fn what_waits_for_a_human_is_shown_with_what_to_type() {
    let of = |mode: &str, words: &str| -> NodeFence {
        let fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-1-5c0ffee5"},
            "spec": {"nodeName": "node-1", "trigger": {"type": "NodeCondition"}, "fence": {"mode": "PowerOff", "approval": {"mode": mode}}},
            "status": {"conditions": [{
                "type": "Succeeded", "status": "Unknown", "reason": "Checking", "message": words, "lastTransitionTime": SINCE,
            }]},
        });
        serde_json::from_value(fence).expect("a NodeFence")
    };
    assert!(fences::commands(&of("Automatic", "asks the devices"), false).is_empty());
    assert_eq!(
        fences::commands(&of("Manual", "waits"), false),
        [
            "kubectl fence approve node-1 --reason WHY",
            "kubectl fence deny node-1 --reason WHY",
        ]
    );
    assert_eq!(
        fences::commands(
            &of(
                "Automatic",
                "release this NodeFence (`spec.desiredState: Released`), or confirm it by `spec.manualConfirmation`"
            ),
            false
        ),
        [
            "kubectl fence confirm node-1 --reason WHY",
            "kubectl fence cancel node-1-5c0ffee5 --reason WHY",
        ]
    );
}

#[test]
fn what_a_yes_does_stands_above_what_may_be_typed() {
    let told = |mode: &str, approval: &str| {
        let fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-1-5c0ffee5"},
            "spec": {"nodeName": "node-1", "trigger": {"type": "NodeCondition"}, "fence": {"mode": mode, "approval": {"mode": approval}}},
        });
        let sight = Sight {
            fences: vec![serde_json::from_value(fence).expect("a NodeFence")],
            ..of_nothing()
        };
        shown(&sight, None)
    };
    let approve = "    kubectl fence approve node-1";
    for (mode, does) in [
        (
            "PowerOff",
            "  mode PowerOff: an approval powers the machine off\n",
        ),
        (
            "ConfirmOnly",
            "  mode ConfirmOnly: an approval powers nothing off; ",
        ),
    ] {
        let text = told(mode, "Manual");
        let above = text.split(approve).next().unwrap_or_default();
        assert!(above.len() < text.len() && above.contains(does), "{text}");
        assert!(!told(mode, "Automatic").contains("a yes"));
    }
}

/// A policy with no incident, and a node of its name, are not what somebody has asked for by kind.
#[test]
fn what_stands_before_a_name_is_the_kind_that_is_shown() {
    let mut policy = policy_of(&json!({}), &ready());
    policy.metadata.name = Some("node-1".to_owned());
    let sight = sight(policy, vec![dead()], None);
    let of = |name: &str| {
        let status = sight.status(Some(&any(name).expect("a name")), now());
        (status.policies.len(), status.unfenced.len())
    };
    // Its policy governs it, and its node is one of the policy's.
    for (name, shown) in [
        ("node-1", (1, 1)),
        ("no/node-1", (1, 1)),
        ("nfp/node-1", (1, 1)),
    ] {
        assert_eq!(of(name), shown, "{name}");
    }
    assert_eq!(of("nf/node-1"), (0, 0));
}

#[test]
fn a_node_that_policies_contest_is_told_so_while_it_is_well() {
    let mut well = dead();
    for condition in well.status.conditions.iter_mut().flatten() {
        condition.status = "True".to_owned();
    }
    let mut sight = sight(policy_of(&json!({}), &ready()), vec![well], None);
    let mut rival = sight.policies[0].clone();
    rival.metadata.name = Some("rivals".to_owned());
    sight.policies.push(rival);
    let text = shown(&sight, Some("node-1"));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "Node node-1: Ready; not protected: policies rivals, workers all select Node node-1 with `priority` 0";
    assert!(text.contains(told), "{text}");
    assert!(!text.contains("No policy governs"), "{text}");
}

/// `release` sends people to the status of a NodeFence.
#[test]
fn a_nodefence_is_governed_as_its_node_is() {
    let mut sight = sight(policy_of(&json!({}), &ready()), vec![dead()], None);
    let ended = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-1-now-abcde"},
        "spec": {"nodeName": "node-1", "trigger": {"type": "Manual"}},
        "status": {"conditions": [{
            "type": "Succeeded", "status": "True", "reason": "Recovered", "message": "", "lastTransitionTime": "2027-01-01T00:00:00Z",
        }]},
    });
    sight.fences = vec![serde_json::from_value(ended).expect("a NodeFence")];
    let status = sight.status(Some(&"node-1-now-abcde".into()), now());
    let names: Vec<&str> = status.policies.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["workers"]);
}

#[test]
fn a_device_that_reads_off_of_a_running_node_is_told_and_one_without_a_probe_in_the_wide_form() {
    use crate::control::tests::{device, row};
    let node = dead();
    let view = node.view();
    let spec = json!({"nodeName": "node-1", "ipmi": {"address": "bmc"}});
    let of = |rows: &[Value]| {
        let mut sight = sight(policy_of(&json!({}), &ready()), vec![node.clone()], None);
        sight.devices = Some(vec![device("bmc", spec.clone(), rows)]);
        let status = sight.status(None, now());
        [false, true]
            .map(|is_wide| screen(&status, None, is_wide, now()).contains("FenceDevice bmc"))
    };
    assert_eq!(of(&[row(&view, "Off")]), [true, true]);
    assert_eq!(of(&[]), [false, true]);
    assert_eq!(of(&[row(&view, "On")]), [false, false]);
    // Programs are told of both; none of them where the devices may not be read.
    let sight = of_nothing();
    assert_eq!(sight.status(None, now()).without_positive_control, None);
}
