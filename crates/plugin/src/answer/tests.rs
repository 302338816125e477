use super::*;
use serde_json::Value;

fn fence(spec: Value, status: Value) -> NodeFence {
    let mut all = json!({
        "nodeName": "worker-1", "trigger": {"type": "NodeCondition"}, "fence": {"mode": "ConfirmOnly"},
    });
    all.as_object_mut()
        .expect("a map")
        .extend(spec.as_object().expect("a map").clone());
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": "worker-1-5c0ffee5"}, "spec": all, "status": status,
    });
    serde_json::from_value(fence).expect("a NodeFence")
}

fn in_stage(stage: &str, held: Option<&str>) -> Value {
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": "words of the operator",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let held = held.map(|it| condition("Held", "True", it));
    let succeeded = condition("Succeeded", "Unknown", stage);
    let conditions: Vec<Value> = [succeeded].into_iter().chain(held).collect();
    json!({"conditions": conditions})
}

#[test]
fn an_approval_is_taken_where_a_policy_asks_or_a_budget_holds() {
    let asks = json!({"fence": {"mode": "PowerOff", "approval": {"mode": "Manual"}}});
    for (spec, status) in [
        (asks.clone(), in_stage("AwaitingApproval", None)),
        // The operator has not begun, and will ask.
        (asks, json!({})),
        (json!({}), in_stage("Held", Some("MinHealthy"))),
        (json!({}), in_stage("Held", Some("MaxPerHour"))),
        (json!({}), in_stage("Held", Some("OfTomorrow"))),
    ] {
        let fence = fence(spec, status);
        assert_eq!(approved_in_vain(&fence), None, "{fence:?}");
    }
}

#[test]
fn an_approval_that_would_be_spent_is_refused_with_what_is_waited_for_and_the_way_out() {
    let observes = json!({"fence": {"mode": "Observe", "approval": {"mode": "Manual"}}});
    for (spec, status, way_out) in [
        (
            json!({}),
            in_stage("Checking", None),
            "kubectl fence status worker-1 --watch",
        ),
        (json!({}), json!({}), "has not started it yet"),
        (
            observes,
            in_stage("Observing", None),
            "kubectl fence now worker-1 --mode ConfirmOnly",
        ),
        (
            json!({}),
            in_stage("Held", Some("Paused")),
            "kubectl fence cancel worker-1-5c0ffee5 --reason WHY, then kubectl fence now worker-1 --mode ConfirmOnly --reason WHY",
        ),
        (
            json!({}),
            in_stage("Held", Some("Quorum")),
            "words of the operator; no approval lifts that",
        ),
    ] {
        let words = approved_in_vain(&fence(spec, status)).expect("it waits for none");
        assert!(words.contains(way_out), "{words}");
        assert!(words.starts_with("NodeFence worker-1-5c0ffee5 waits for no approval"));
    }
}

#[test]
fn a_denial_is_taken_while_it_stops_something_and_says_what_it_does_not_stop() {
    let at = "2026-01-01T00:00:00Z";
    let mut status = in_stage("Quiescing", None);
    let answers = |spec: Value, status: &Value| {
        let fence = fence(spec, status.clone());
        (denied_in_vain(&fence), not_stopped(&fence))
    };
    assert_eq!(answers(json!({}), &status), (None, None));
    // Before the taint it keeps the node in service, even with an off on its way.
    let mut sent = in_stage("Fencing", None);
    sent["attempts"] = json!([{
        "device": "bmc", "action": "PowerOff", "startTime": at, "id": "1",
    }]);
    let (refused, told) = answers(json!({}), &sent);
    assert_eq!(refused, None);
    assert!(told.expect("it may land").contains("may still take effect"));
    status["taintAppliedTime"] = json!(at);
    let refused = answers(json!({}), &status).0.expect("too late");
    assert!(
        refused.contains("kubectl fence release worker-1-5c0ffee5"),
        "{refused}"
    );
    // What is still to come is that its machine is turned on, which a denial stops.
    let turns_on = json!({"powerOn": {"policy": "AfterRecovery"}});
    let (refused, told) = answers(turns_on, &status);
    assert_eq!(refused, None);
    assert!(told.expect("marked").contains("is out of service"));
    status["taintRemovedTime"] = json!(at);
    assert_eq!(answers(json!({}), &status), (None, None));
}

/// Whoever has denied another fence of the node may be at its machine.
#[test]
fn a_yes_that_turns_a_machine_off_asks_whoever_has_denied_another_fence() {
    let of = |mode: &str| fence(json!({"fence": {"mode": mode}}), json!({}));
    let denied = "NodeFence worker-1-earlier of Node worker-1, in this boot, was denied by ann";
    let words = past_denial(&of("PowerOff"), denied).expect_err("it is asked for");
    assert!(
        words.starts_with(denied) && words.contains("--override-denial"),
        "{words}"
    );
    let words = past_denial(&of("ConfirmOnly"), denied).expect("it goes on");
    assert!(
        words.starts_with(denied) && words.contains("powers nothing off"),
        "{words}"
    );
}

/// It would be refused, or change nothing.
#[test]
fn who_answers_again_is_sent_to_no_release_that_does_nothing() {
    let yes = json!({"decision": "Approved", "user": "ann", "reason": "dark", "time": "2026-01-01T00:00:00Z"});
    let out = json!({"taintAppliedTime": "2026-01-01T00:00:00Z"});
    let (cancel, release) = (
        "kubectl fence cancel worker-1-5c0ffee5",
        "kubectl fence release worker-1-5c0ffee5",
    );
    for (state, status, is_told) in [
        ("Fenced", json!({}), true),
        ("Released", json!({}), false),
        ("Fenced", out.clone(), false),
    ] {
        let again = fence(json!({"approval": yes, "desiredState": state}), status);
        let words = answered(&again).expect("once");
        assert_eq!(words.contains(cancel), is_told, "{words}");
    }
    let in_vain = |state: &str| {
        let of = fence(json!({"desiredState": state}), out.clone());
        denied_in_vain(&of).expect("too late")
    };
    assert!(in_vain("Fenced").contains(release));
    assert!(!in_vain("Released").contains(release));
}

#[test]
fn what_somebody_has_let_go_of_takes_no_approval() {
    let asks = json!({"desiredState": "Released", "fence": {"mode": "PowerOff", "approval": {"mode": "Manual"}}});
    let words = approved_in_vain(&fence(asks, in_stage("AwaitingApproval", None)));
    assert!(words.expect("released").contains("kubectl fence now"));
}

/// The taint is recorded a moment after it is set, or later where that write fails: by then both commands say that it may stand.
#[test]
fn between_the_evidence_and_the_record_of_the_taint_either_command_is_taken() {
    let at = "2026-01-01T00:00:00Z";
    let evidence = json!({
        "claim": "worker-1-5c0ffee5-1", "nodeUID": "uid-1", "nodeBootID": "boot-1", "leaseRenewTime": at, "quiescedTime": at, "provenTime": at,
        "level": "bmc", "readings": [],
    });
    let proven = |strategy: &str| {
        let spec = json!({"recovery": {"strategy": strategy}});
        fence(spec, json!({"evidence": evidence}))
    };
    let open = proven("OutOfServiceTaint");
    assert_eq!(cancelled_in_vain(&open, false), None);
    assert_eq!(released_in_vain(&open), None);
    let note = not_let_go(&open).expect("a note");
    assert!(note.contains("may be out of service already"), "{note}");
    // No taint is set by this one.
    let proves = proven("None");
    assert!(released_in_vain(&proves).is_some());
    assert_eq!(not_let_go(&proves), None);
    // Once it is recorded, what was done is named by what it was.
    let released = json!({"desiredState": "Released"});
    let again = cancelled_in_vain(&fence(released, json!({"taintAppliedTime": at})), false);
    assert!(again.expect("refused").contains("is already released"));
}

/// One field has two commands: which of them may write it follows from the taint.
#[test]
fn cancel_ends_an_incident_before_the_taint_and_release_removes_the_taint() {
    let at = "2026-01-01T00:00:00Z";
    let tainted = json!({"taintAppliedTime": at});
    let untainted = json!({"taintAppliedTime": at, "taintRemovedTime": at});
    let cancel = |fence: &NodeFence| cancelled_in_vain(fence, false);
    for (status, is_tainted) in [
        (json!({}), false),
        (tainted.clone(), true),
        (untainted, false),
    ] {
        let of = |state: &str| fence(json!({"desiredState": state}), status.clone());
        let open = of("Fenced");
        assert_eq!(cancel(&open).is_some(), is_tainted, "{status}");
        assert_eq!(released_in_vain(&open).is_some(), !is_tainted, "{status}");
        // Whoever is refused is handed the other.
        let (refused, other) = match is_tainted {
            true => (cancel(&open), "kubectl fence release worker-1-5c0ffee5"),
            false => (
                released_in_vain(&open),
                "kubectl fence cancel worker-1-5c0ffee5",
            ),
        };
        assert!(refused.expect("refused").contains(other), "{status}");
        for again in [cancel(&of("Released")), released_in_vain(&of("Released"))] {
            assert!(again.expect("once").contains("already"), "{status}");
        }
    }
    // An off that was sent may turn the machine off after the incident has ended.
    let sent =
        json!({"attempts": [{"device": "bmc", "action": "PowerOff", "startTime": at, "id": "1"}]});
    let sent = fence(json!({}), sent);
    assert!(
        cancel(&sent)
            .expect("it may land")
            .contains("--ignore-pending-off")
    );
    assert_eq!(cancelled_in_vain(&sent, true), None);
}

#[test]
fn who_lets_go_after_the_taint_is_told_that_the_node_stays_out_of_service() {
    let of = |trigger: &str, status: Value| {
        let fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "w-1-5c0ffee5"},
            "spec": {"nodeName": "w-1", "trigger": {"type": trigger}}, "status": status,
        });
        not_let_go(&serde_json::from_value(fence).expect("a NodeFence"))
    };
    let at = "2027-01-02T18:00:00Z";
    assert_eq!(of("Manual", json!({})), None);
    for (trigger, until) in [
        ("Manual", "its machine reads Off or has rebooted;"),
        (
            "External",
            "its machine has rebooted or is confirmed off by hand;",
        ),
    ] {
        let words = of(trigger, json!({"taintAppliedTime": at})).expect("the taint stands");
        assert!(words.starts_with("Node w-1 stays out of service"));
        assert!(words.contains(until), "{words}");
    }
    let over = json!({"taintAppliedTime": at, "taintRemovedTime": at});
    assert_eq!(of("Manual", over), None);
}
