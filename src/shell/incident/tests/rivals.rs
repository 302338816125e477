//! What one process of the operator takes out of a record that another one has written: nothing.

use super::*;
use fencing_core::fixtures::own_claim;

/// An incident at version 7, whose next write has been refused for its version, and what the record says by then.
async fn refused(known: Value, theirs: Value) -> (Cluster, Arc<Context>, Incidents, NodeFence) {
    let cluster = cluster(unclaimed()).await;
    let (context, incidents) = (cluster.context(), Incidents::default());
    let fence = decoded(fence_object("7", of_the_node(known)));
    let incident = incidents.begin(fence.clone());
    incident.lock().await.stored.behind = true;
    cluster.put(FENCE, 200, fence_object("8", of_the_node(theirs)));
    (cluster, context, incidents, fence)
}

/// The evidence of a process that held this claim.
pub(super) fn evidence_under(claim: &str) -> Value {
    json!({
        "claim": claim, "nodeUID": "uid-1", "nodeBootID": "boot-1",
        "quiescedTime": "2026-01-01T00:00:00Z", "provenTime": "2026-01-01T00:00:00Z", "readings": [],
    })
}

/// The condition by which others free volumes.
pub(super) fn confirmed(is: &str, reason: &str) -> Value {
    json!([{
        "type": "NodeConfirmedDown", "status": is, "reason": reason, "message": "words",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }])
}

/// S11, S22: what another process has done to the Node, and that it has found a proof to be false, this one begins anew from. What tells of neither it
/// only takes the version of.
#[tokio::test]
async fn what_another_process_has_done_is_begun_anew_from() {
    let time = "2026-01-01T00:00:00Z";
    let proven = || json!({"claim": "fence-n1", "conditions": confirmed("True", "Proven")});
    for (theirs, begins, tainted) in [
        (
            json!({"claim": "fence-n1", "taintAppliedTime": time}),
            true,
            true,
        ),
        (
            json!({"claim": "fence-n1", "taintRemovedTime": time}),
            true,
            false,
        ),
        (
            json!({"claim": "fence-n1", "conditions": confirmed("False", "Refuted")}),
            true,
            false,
        ),
        (proven(), false, false),
    ] {
        let (cluster, context, incidents, fence) = refused(proven(), theirs.clone()).await;
        let (status, denied) = failure(403, "denied");
        cluster.put(NODE, status, denied);
        run(&context, &incidents, &fence).await;
        assert_eq!(incidents.get(&fence).is_none(), begins, "{theirs}");
        if begins {
            assert_eq!(sent(&cluster, PATCH_FENCE), Vec::<Value>::new());
            run(&context, &incidents, &fence).await;
        }
        let incident = incidents.get(&fence).expect("it goes on");
        let incident = incident.lock().await;
        assert_eq!(incident.record.tainted, tainted, "{theirs}");
        assert_eq!(
            incident.memory.rival_until.is_some(),
            begins,
            "the other one lives"
        );
        let told = serde_json::to_value(&incident.status.conditions).expect("conditions");
        let is_refuted = told.to_string().contains("Refuted");
        assert_eq!(is_refuted, theirs.to_string().contains("Refuted"));
        assert_eq!(sent(&cluster, PATCH_NODE), Vec::<Value>::new());
    }
}

/// S11: under one taint that both see to, the other one has released the Node: this one goes on from there, and its record says so.
#[tokio::test]
async fn a_release_by_another_process_is_not_written_over() {
    let times = json!({
        "claim": "fence-n1", "taintAppliedTime": "2026-01-01T00:00:00Z", "taintRemovedTime": "2026-01-01T00:02:00Z",
        "conditions": confirmed("False", "Refuted"),
    });
    let known = json!({"claim": "fence-n1", "conditions": confirmed("True", "Proven")});
    let (cluster, context, incidents, fence) = refused(known, times.clone()).await;
    let incident = incidents.get(&fence).expect("an incident");
    incident.lock().await.memory.taint.seen = true;
    let (status, denied) = failure(403, "denied");
    cluster.put(NODE, status, denied);
    run(&context, &incidents, &fence).await;
    let status = serde_json::to_value(&incident.lock().await.status).expect("a status");
    for field in ["taintAppliedTime", "taintRemovedTime"] {
        assert_eq!(status[field], times[field], "{field}");
    }
    let conditions = status["conditions"].as_array().expect("conditions");
    let told = conditions
        .iter()
        .filter(|it| it["type"] == "NodeConfirmedDown");
    let told: Vec<&Value> = told.map(|it| &it["reason"]).collect();
    assert_eq!(told, ["Refuted"]);
    until_refused(&cluster, &context, &incidents, &fence).await;
    let body = sent(&cluster, PATCH_FENCE).pop().expect("a write");
    assert_eq!(body["metadata"]["resourceVersion"], "8");
    for field in ["taintAppliedTime", "taintRemovedTime"] {
        assert_eq!(body["status"].get(field), None, "{body}");
    }
    assert_eq!(sent(&cluster, PATCH_NODE), Vec::<Value>::new());
}

/// S10: a human has deleted the NodeFence and made it anew. What the one has found and sent is not written into the other.
#[tokio::test]
async fn a_nodefence_that_was_made_anew_gets_nothing_of_the_former_one_s_record() {
    for is_under_the_taint in [false, true] {
        let (cluster, context, incidents, fence) = refused(json!({}), json!({})).await;
        let mut anew = fence_object("8", json!({}));
        anew["metadata"]["uid"] = json!("uid-2");
        cluster.put(FENCE, 200, anew);
        let incident = incidents.get(&fence).expect("an incident");
        {
            let mut incident = incident.lock().await;
            incident.memory.taint.seen = is_under_the_taint;
            incident.stored.behind = !is_under_the_taint;
        }
        if is_under_the_taint {
            cluster.put(NODE, 200, fake::tainted());
            incident.lock().await.memory.taint.last_check = true;
        }
        run(&context, &incidents, &fence).await;
        assert_eq!(sent(&cluster, PATCH_FENCE), Vec::<Value>::new());
        assert_eq!(sent(&cluster, PATCH_NODE), Vec::<Value>::new());
        assert!(incidents.get(&fence).is_none(), "{is_under_the_taint}");
    }
}

/// S10: the same at the first look of a process, whose cache has the former one.
#[tokio::test]
async fn a_nodefence_that_was_made_anew_is_begun_with_when_the_cache_has_it() {
    let cluster = cluster(unclaimed()).await;
    let (context, incidents) = (cluster.context(), Incidents::default());
    let mut anew = fence_object("8", json!({}));
    anew["metadata"]["uid"] = json!("uid-2");
    cluster.put(FENCE, 200, anew.clone());
    for (known, begins) in [(fence("7"), false), (decoded(anew), true)] {
        run(&context, &incidents, &known).await;
        let has_begun = !incidents.open().is_empty();
        assert_eq!(has_begun, begins, "{:?}", cluster.requests());
        assert_eq!(sent(&cluster, PATCH_FENCE).is_empty(), !begins);
    }
}

/// L3: between this process's look at the Node and at the record the other one has released it and ended.
#[tokio::test]
async fn a_record_that_another_process_has_ended_is_not_opened_again() {
    let (cluster, context, incidents, fence) = refused(json!({}), json!({})).await;
    cluster.put(NODE, 200, fake::tainted());
    let time = "2026-01-01T00:00:00Z";
    let ended = json!({"completionTime": time, "conditions": [{
        "type": "Succeeded", "status": "True", "reason": "Recovered", "message": "words", "lastTransitionTime": time,
    }]});
    cluster.put(FENCE, 200, fence_object("8", of_the_node(ended)));
    let incident = incidents.get(&fence).expect("an incident");
    {
        let mut incident = incident.lock().await;
        incident.memory.taint.seen = true;
        incident.memory.taint.last_check = true;
        incident.stored.behind = false;
    }
    run(&context, &incidents, &fence).await;
    assert_eq!(sent(&cluster, PATCH_FENCE), Vec::<Value>::new());
    assert_eq!(sent(&cluster, PATCH_NODE), Vec::<Value>::new());
    assert!(incidents.get(&fence).is_none(), "it has ended");
}

/// S22: evidence of this process has landed, and its answer was lost. What it writes next does not take away what others go by.
#[tokio::test]
async fn evidence_that_has_landed_unanswered_is_kept() {
    let theirs = json!({
        "claim": "fence-n1", "evidence": evidence_under("fence-n1"), "conditions": confirmed("True", "Proven"),
    });
    let known = json!({"claim": "fence-n1"});
    let (cluster, context, incidents, fence) = refused(known, theirs).await;
    let incident = incidents.get(&fence).expect("an incident");
    incident.lock().await.memory.claim = Some(own_claim("fence-n1"));
    let (status, denied) = failure(403, "denied");
    cluster.put(NODE, status, denied);
    until_refused(&cluster, &context, &incidents, &fence).await;
    let body = sent(&cluster, PATCH_FENCE).pop().expect("a write");
    assert_eq!(body["status"].get("evidence"), None, "{body}");
    let conditions = body["status"]["conditions"].to_string();
    assert!(conditions.contains("Proven"), "{conditions}");
    assert!(
        incident.lock().await.memory.proven.published,
        "others go by it"
    );
}
