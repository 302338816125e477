//! A word lifts nothing that holds the incident.

use super::*;

/// Nobody reads it while the incident is held.
#[test]
fn who_confirms_what_is_held_is_told_that_it_is_read_again_after_that() {
    let (scene, _) = scene("On", "2027-01-02T17:59:00Z");
    let spec = json!({"trigger": {"type": "Manual"}, "fence": {"mode": "ConfirmOnly"}});
    let mut held = fence(&spec, &json!([reading("node-1-bmc", "On")]));
    let condition = json!({
        "type": "Held", "status": "True", "reason": "MinHealthy", "message": "", "lastTransitionTime": "2027-01-02T18:00:40Z",
    });
    let status = held.status.as_mut().expect("a status");
    status
        .conditions
        .push(serde_json::from_value(condition).expect("a condition"));
    let refused = against(&scene, &held).expect_err("it reads On");
    assert!(
        refused.contains("read again once the incident is no longer held (MinHealthy; an approval lifts it: kubectl fence approve node-1 --reason WHY)"),
        "{refused}"
    );
}

/// In a rack that is dark a brake holds most of the nodes, and the word may die before it counts.
#[test]
fn whoever_confirms_what_is_held_is_told_that_a_word_lifts_nothing() {
    let (scene, mut fence) = scene("Off", "2027-01-02T17:59:00Z");
    fence.spec.procedure.fence.mode = FenceMode::PowerOff;
    let now = "2027-01-02T18:01:00Z".parse().expect("a time");
    let mut told = |reason: &str| {
        let condition = json!({
            "type": "Held", "status": "True", "reason": reason, "message": "", "lastTransitionTime": "2027-01-02T18:00:40Z",
        });
        let status = json!({"conditions": [condition]});
        fence.status = serde_json::from_value(status).expect("a status");
        let text = shown(&scene, &fence, "https://192.0.2.9", now);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let held = "HELD (MinHealthy): a confirmation is valid for 15 minutes and does not lift the hold; an approval does, and the machine is powered off then: kubectl fence approve node-1 --reason WHY If this";
    let held = held.replace(" If this", " 0 pods are");
    let storm = told("MinHealthy");
    assert!(storm.contains(&held), "{storm}");
    let paused = told("Paused");
    assert!(
        paused.contains(
            "HELD (Paused): a confirmation is valid for 15 minutes and does not lift the hold 0 pods are"
        ),
        "{paused}"
    );
}

/// A word that is given before the approval may be dead when that comes.
#[test]
fn whoever_confirms_before_an_approval_is_told_that_one_is_needed() {
    let (scene, mut fence) = scene("Off", "2027-01-02T17:59:00Z");
    fence.spec.procedure.fence.approval.mode = fencing_api::settings::ApprovalMode::Manual;
    let now = "2027-01-02T18:01:00Z".parse().expect("a time");
    let text = shown(&scene, &fence, "https://192.0.2.9", now);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "HELD (AwaitingApproval): a confirmation is valid for 15 minutes and does not lift the hold; an approval does: kubectl fence approve node-1 --reason WHY";
    assert!(text.contains(told), "{text}");
}
