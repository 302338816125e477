use super::dates::Dates;
use super::*;
use crate::exclusions::exclusion;
use crate::fixtures::{node, taint};
use crate::observed::{CLAIM, DETACHING, OUT_OF_SERVICE};
use serde_json::{Value, json};

const SINCE: &str = "2027-01-02T18:00:00Z";

fn at(seconds: i64) -> Timestamp {
    SINCE.parse::<Timestamp>().expect("a time") + jiff::SignedDuration::from_secs(seconds)
}

/// Silent since then.
fn down() -> NodeView {
    let mut node = node();
    node.conditions[0].transition = SINCE.to_owned();
    node.conditions[0].heartbeat = "2027-01-02T17:59:00Z".to_owned();
    node
}

fn policy(name: &str, spec: Value) -> NodeFencingPolicy {
    let mut whole = json!({
        "nodeSelector": {}, "fence": {"mode": "PowerOff"},
        "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "durationSeconds": 10}],
    });
    json_patch::merge(&mut whole, &spec);
    NodeFencingPolicy::new(name, serde_json::from_value(whole).expect("a spec"))
}

/// A NodeFence of this outage that has ended as `reason`.
fn ended(name: &str, reason: &str, spec: Value, status: Value) -> NodeFence {
    let mut fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": name},
        "spec": {
            "nodeName": "worker-1", "nodeUID": "uid-1", "bootID": "boot-1", "policyName": "prod",
            "trigger": {
                "type": "NodeCondition", "conditionType": "Ready", "conditionStatus": "Unknown", "unhealthySinceTime": SINCE,
            },
        },
        "status": {"conditions": [{
            "type": "Succeeded", "status": "False", "reason": reason, "message": "", "lastTransitionTime": SINCE,
        }]},
    });
    json_patch::merge(&mut fence["spec"], &spec);
    json_patch::merge(&mut fence["status"], &status);
    serde_json::from_value(fence).expect("a NodeFence")
}

fn released(name: &str) -> NodeFence {
    let spec = json!({"desiredState": "Released"});
    ended(name, "Aborted", spec, json!({}))
}

fn cleared() -> NodeFence {
    let evidence = json!({
        "nodeUID": "uid-1", "nodeBootID": "boot-1", "claim": "c", "readyHeartbeatTime": "2027-01-02T17:59:00Z",
        "quiescedTime": SINCE, "provenTime": SINCE,
    });
    let status = json!({"evidence": evidence});
    ended("cleared", "ConfirmedDown", json!({}), status)
}

fn open() -> NodeFence {
    let mut open = ended(
        "open",
        "Fencing",
        json!({"fence": {"mode": "PowerOff"}}),
        json!({}),
    );
    let conditions = &mut open.status.as_mut().expect("a status").conditions;
    conditions[0].status = "Unknown".to_owned();
    open
}

/// The names of all obstacles, and for when an incident is wanted.
fn found(
    node: &NodeView,
    policies: &[NodeFencingPolicy],
    fences: &[NodeFence],
    idle: &Idle<'_>,
) -> (Vec<&'static str>, Option<Timestamp>) {
    let dates = Dates::of(node, None, fences, at(60));
    let onsets = &dates.onsets;
    let facts = Facts {
        policies,
        fences,
        onsets,
        idle,
        now: at(60),
    };
    let outlook = outlook(node, &facts);
    let due = outlook.wanted.as_ref().map(|it| dates::moment(it.held));
    let names = outlook.obstacles.iter().map(Obstacle::reason).collect();
    let is_opened = outlook.incident().is_ok();
    let is_free = |names: &Vec<&str>| names.is_empty() && due.is_some();
    assert_eq!(is_opened, is_free(&names), "{names:?}");
    (names, due)
}

#[test]
fn each_obstacle_is_named_and_without_any_the_incident_is_due() {
    let prod = || vec![policy("prod", json!({}))];
    let ready_false = json!({"unhealthyConditions": [{"type": "Ready", "status": "False", "durationSeconds": 10}]});
    let mut ended_by_name = ended("", "Aborted", json!({}), json!({}));
    let [prod_policy] = prod().try_into().expect("one");
    let effective = in_force(&prod_policy, at(60));
    let condition = &prod_policy.spec.unhealthy_conditions[0];
    let name = fence_name(&down(), &prod_policy, &effective, condition);
    ended_by_name.metadata.name = Some(name);
    let denied = json!({"approval": {"decision": "Denied", "user": "ann", "reason": "repair", "time": SINCE}});
    let denied = ended("denied", "Aborted", denied, json!({}));
    let never = NodeView {
        boot_id: String::new(),
        ..down()
    };
    for (node, policies, fences, names, is_wanted) in [
        (down(), prod(), vec![], vec![], true),
        (never, prod(), vec![], vec!["NeverReported"], true),
        (down(), vec![], vec![], vec!["NoPolicy"], false),
        (
            down(),
            vec![policy("a", json!({})), policy("b", json!({}))],
            vec![],
            vec!["Conflict"],
            false,
        ),
        (
            down(),
            vec![policy("prod", ready_false)],
            vec![],
            vec!["NoCondition"],
            false,
        ),
        (down(), prod(), vec![cleared()], vec!["Cleared"], true),
        (down(), prod(), vec![denied], vec!["Denied"], false),
        (
            down(),
            prod(),
            vec![released("no")],
            vec!["Released"],
            false,
        ),
        (down(), prod(), vec![open()], vec!["OtherNodeFence"], true),
        (down(), prod(), vec![ended_by_name], vec!["Ended"], true),
        // The most fundamental one leads.
        (
            down(),
            vec![],
            vec![cleared()],
            vec!["Cleared", "NoPolicy"],
            false,
        ),
        (
            down(),
            prod(),
            vec![released("no"), cleared()],
            vec!["Cleared", "Released"],
            false,
        ),
    ] {
        let due = is_wanted.then(|| at(10));
        let found = found(&node, &policies, &fences, &|_| None);
        assert_eq!(found, (names, due), "{fences:?}");
    }
    let idle = |_: &NodeFencingPolicy| Some((HeldBy::Unsupported, "no rights".to_owned()));
    let (names, _) = found(&down(), &prod(), &[released("no")], &idle);
    assert_eq!(names, ["Unsupported", "Released"]);
}

/// S1, S8, S13: what stands on the Node, and what the policy says of it when the wait is over.
#[test]
fn a_mark_and_a_policy_that_leaves_the_node_alone_keep_an_incident_from_being_opened() {
    let cordoned = NodeView {
        unschedulable: true,
        ..down()
    };
    let tainted = |key: &str| NodeView {
        taints: vec![taint(key, "", "NoExecute")],
        ..cordoned.clone()
    };
    let policy = policy("prod", json!({}));
    for (node, reason) in [
        (down(), None),
        (cordoned.clone(), Some("Excluded")),
        (tainted(CLAIM), Some("Excluded")),
        (tainted(OUT_OF_SERVICE), Some("ForeignOutOfService")),
        (tainted(DETACHING), Some("ForeignOutOfService")),
    ] {
        let obstacle = at_opening(&node, exclusion(&policy, &node, at(60)));
        assert_eq!(obstacle.as_ref().map(Obstacle::reason), reason);
    }
}

#[test]
fn what_only_observes_opens_when_the_wait_is_over_and_what_acts_a_little_before() {
    let at = Duration::from_secs(10);
    assert_eq!(opens(FenceMode::Observe, at), at);
    for mode in [FenceMode::ConfirmOnly, FenceMode::PowerOff] {
        assert_eq!(opens(mode, at), at - AHEAD);
        assert_eq!(opens(mode, Duration::ZERO), Duration::ZERO);
    }
}

/// L1: a NodeFenceRemediation skips the condition's duration, and no other wait.
#[test]
fn what_a_remediation_asks_for_waits_for_nothing_but_uptime_and_cooldown() {
    let observed = policy("o", json!({"fence": {"mode": "Observe"}}));
    let acting = policy("prod", json!({}));
    let [of_observed, of_acting] = [&observed, &acting].map(|policy| Wanted {
        policy,
        effective: in_force(policy, at(60)),
        condition: &policy.spec.unhealthy_conditions[0],
        held: Duration::from_secs(110),
    });
    assert!(of_acting.waits(Duration::from_secs(109)));
    assert!(!of_acting.waits(Duration::from_secs(110)), "it is over");
    assert!(!of_observed.waits(Duration::from_secs(109)));
    let since = Duration::from_secs(100);
    let asked = of_acting.schedule_asked(None, None);
    assert_eq!((asked.claim_at, asked.wait_ends), (since, since));
    let fenced = LastFence {
        name: "before".to_owned(),
        since: delay::Since::at(
            at(0),
            delay::Now {
                boot: since,
                wall: at(0),
            },
        ),
    };
    let cooldown = Duration::from_secs(acting.spec.budget.cooldown_seconds.into());
    let asked = of_acting.schedule_asked(None, Some(&fenced));
    assert_eq!(
        (asked.claim_at, asked.wait_ends),
        (since + cooldown, since + cooldown)
    );
    assert!(asked.delay.is_some());
}

/// L1, S11: what ended with its remediation is the policy's to begin, but not once it was tainted.
#[test]
fn one_that_was_withdrawn_before_its_taint_is_not_the_record_of_its_outage() {
    let prod = policy("prod", json!({}));
    let (says, condition) = (in_force(&prod, at(60)), &prod.spec.unhealthy_conditions[0]);
    let name = asked_fence_name(&down(), &prod, &says, condition, "uid-r");
    assert_ne!(name, fence_name(&down(), &prod, &says, condition));
    let by = json!({"namespace": "fencing", "name": "any", "uid": "uid-r"});
    let spec = json!({"trigger": {"remediation": by}});
    let policies = [prod.clone()];
    for (status, names) in [
        (json!({}), vec![]),
        (json!({"taintAppliedTime": SINCE}), vec!["Ended"]),
    ] {
        let fences = [ended(&name, "Aborted", spec.clone(), status)];
        let (obstacles, _) = found(&down(), &policies, &fences, &|_| None);
        assert_eq!(obstacles, names);
    }
}
