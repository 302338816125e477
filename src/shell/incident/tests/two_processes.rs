//! What a loop makes of a taint that another process of the operator has set, or sees to as well.

use super::rivals::evidence_under;
use super::*;
use crate::shell::observe::Reads;
use fencing_core::plan::Needs;
use fencing_core::taint::{NodeDeletion, NodePatch};

/// `lateEffectSeconds` that nobody has set.
const LATE_EFFECT: Duration = Duration::from_secs(60);

/// S23: another process has proven the machine down and set the taint while this one was paused, and a command of it may still land.
/// That stands in the record alone: it is not written over, and is known before anything is done under the taint.
#[tokio::test]
async fn the_taint_of_another_process_is_taken_over_with_its_record() {
    let an_older_one = json!({"claim": "fence-n0", "evidence": evidence_under("fence-n0")});
    for known in [json!({}), an_older_one].map(of_the_node) {
        let cluster = cluster(fake::node()).await;
        cluster.put(FENCE, 200, fence_object("7", known.clone()));
        cluster.put(PATCH_NODE, 200, fake::node());
        let (context, incidents) = (cluster.context(), Incidents::default());
        let fence = decoded(fence_object("7", known));
        // It takes the claim, and loses it to the other one at once.
        run(&context, &incidents, &fence).await;
        assert!(incidents.get(&fence).is_some(), "{:?}", cluster.requests());
        cluster.put(NODE, 200, fake::tainted());
        let theirs = json!({
            "claim": "fence-n1", "evidence": evidence_under("fence-n1"), "attempts": [open_attempt()],
        });
        cluster.put(FENCE, 200, fence_object("8", of_the_node(theirs)));
        run(&context, &incidents, &fence).await;
        assert!(incidents.get(&fence).is_none(), "it knows an older record");
        run(&context, &incidents, &fence).await;
        let incident = incidents.get(&fence).expect("it begins anew only once");
        let incident = incident.lock().await;
        assert!(incident.memory.taint.seen, "{:?}", cluster.requests());
        assert!(incident.memory.late.own_off_until.is_some());
        assert_eq!(incident.status.attempts.len(), 1);
        let evidence = incident.status.evidence.as_ref().expect("evidence");
        assert_eq!(evidence.claim, "fence-n1");
        let written = (
            sent(&cluster, PATCH_NODE).len(),
            sent(&cluster, PATCH_FENCE),
        );
        assert_eq!(written, (1, vec![]), "the claim alone");
    }
}

/// S23: two processes see to one taint. Before this one releases it, and when a write of it has met one of the other, it hears of the
/// command that the other has sent, keeps it in the record, and waits as long as it may land.
#[tokio::test]
async fn before_a_release_the_commands_of_another_process_are_waited_for() {
    let records = json!({
        "claim": "fence-n1", "evidence": evidence_under("fence-n1"), "taintAppliedTime": "2025-12-31T00:00:00Z",
    });
    for is_behind in [true, false] {
        let cluster = cluster(fake::tainted()).await;
        cluster.put(FENCE, 200, fence_object("7", records.clone()));
        let (context, incidents) = (cluster.context(), Incidents::default());
        let fence = decoded(fence_object("7", records.clone()));
        run(&context, &incidents, &fence).await;
        let incident = incidents.get(&fence).expect("an incident");
        {
            let mut incident = incident.lock().await;
            assert!(incident.memory.taint.seen, "{:?}", cluster.requests());
            assert_eq!(incident.memory.late.own_off_until, None);
            incident.memory.taint.reoffs = 1;
            incident.memory.taint.last_check = !is_behind;
            incident.stored.behind = is_behind;
        }
        let mut theirs = records.clone();
        let mut another = open_attempt();
        another["id"] = json!("n9-2");
        theirs["attempts"] = json!([open_attempt(), another]);
        cluster.put(FENCE, 200, fence_object("8", theirs));
        run(&context, &incidents, &fence).await;
        let incident = incident.lock().await;
        // It may still be sending it, for as long as a level may take.
        let until = incident.memory.late.own_off_until.expect("a window");
        let left = until.saturating_sub(clock::since_boot());
        assert!(left > LATE_EFFECT, "{is_behind}: {left:?}");
        assert_eq!(incident.status.attempts.len(), 2);
        // Both count against the two of the incident, whoever has sent them.
        assert_eq!(incident.memory.taint.reoffs, 2);
        assert!(sent(&cluster, PATCH_NODE).is_empty());
    }
}

/// S21, S22: another process has taken the incident over, and does not know yet what this one has seen.
#[tokio::test]
async fn what_counts_for_good_is_handed_on_to_the_process_that_goes_on() {
    let cluster = cluster(unclaimed()).await;
    let (context, incidents) = (cluster.context(), Incidents::default());
    until_refused(&cluster, &context, &incidents, &fence("7")).await;
    {
        let incident = incidents.get(&fence("7")).expect("an incident");
        let mut incident = incident.lock().await;
        incident.status.contradictions = vec!["it lies".to_owned()];
        incident.stored.behind = true;
    }
    let theirs = fence_object("8", json!({"claim": "fence-x1"}));
    cluster.put(FENCE, 200, theirs.clone());
    cluster.put(PATCH_FENCE, 200, theirs);
    let before = sent(&cluster, PATCH_FENCE).len();
    run(&context, &incidents, &fence("7")).await;
    let written = sent(&cluster, PATCH_FENCE).split_off(before);
    let [body] = written.as_slice() else {
        panic!("one write, not {written:?}")
    };
    assert_eq!(body["metadata"]["resourceVersion"], "8");
    assert_eq!(body["status"], json!({"contradictions": ["it lies"]}));
    assert!(incidents.get(&fence("8")).is_none(), "it begins anew");
}

/// S17: who stands by while another process goes on knows its claim, but not yet its proof; the write that tells so does not take it away.
#[tokio::test]
async fn the_evidence_of_another_process_is_not_written_over() {
    let known = of_the_node(json!({"claim": "fence-n1"}));
    let cluster = cluster(fake::node()).await;
    cluster.put(FENCE, 200, fence_object("7", known.clone()));
    let (context, incidents) = (cluster.context(), Incidents::default());
    let fence = decoded(fence_object("7", known));
    {
        let incident = incidents.begin(fence.clone());
        incident.lock().await.stored.behind = true;
    }
    let theirs = json!({"claim": "fence-n1", "evidence": evidence_under("fence-n1")});
    let theirs = fence_object("8", of_the_node(theirs));
    cluster.put(FENCE, 200, theirs.clone());
    cluster.put(PATCH_FENCE, 200, theirs);
    run(&context, &incidents, &fence).await;
    assert_eq!(sent(&cluster, PATCH_FENCE), Vec::<Value>::new());
    assert!(incidents.get(&fence).is_none(), "it begins anew");
    run(&context, &incidents, &fence).await;
    let incident = incidents.get(&fence).expect("it has begun anew");
    let evidence = incident.lock().await.status.evidence.clone();
    assert_eq!(evidence.map(|it| it.claim), Some("fence-n1".to_owned()));
}

/// S10: another process has bound the NodeFence to the Node and its boot, and this one's binding came too late. What this one writes then does not take
/// the binding away, which would let the next process bind it to another boot.
#[tokio::test]
async fn the_binding_of_another_process_is_not_written_over() {
    let cluster = cluster(unclaimed()).await;
    let (context, incidents) = (cluster.context(), Incidents::default());
    until_refused(&cluster, &context, &incidents, &fence("7")).await;
    let bound = sent(&cluster, PATCH_FENCE).swap_remove(0);
    assert_eq!(bound["status"]["bootID"], "boot-1", "its own try");
    cluster.put(FENCE, 200, fence_object("8", of_the_node(json!({}))));
    // What it writes next says why it waits, and not once more what it has bound.
    let (status, denied) = failure(403, "denied");
    cluster.put(NODE, status, denied);
    // The first write is refused for its version, and takes the record over; the second goes out on it.
    for _ in 0..2 {
        until_refused(&cluster, &context, &incidents, &fence("7")).await;
    }
    let body = sent(&cluster, PATCH_FENCE).pop().expect("a write");
    assert_eq!(body["metadata"]["resourceVersion"], "8", "{body}");
    for field in ["nodeUID", "bootID"] {
        assert_eq!(body["status"].get(field), None, "{body}");
    }
}

/// S21: a process that ends a moment later has told its successor.
#[tokio::test]
async fn what_counts_for_good_is_written_before_anything_else_is_done() {
    let cluster = cluster(fake::node()).await;
    let (context, incidents) = (cluster.context(), Incidents::default());
    cluster.put(PATCH_NODE, 200, fake::node());
    let (status, conflict) = failure(500, "later");
    cluster.put(PATCH_FENCE, status, conflict);
    {
        let incident = incidents.begin(fence("7"));
        let mut incident = incident.lock().await;
        incident.status.node_uid = Some("uid-1".to_owned());
        incident.status.boot_id = Some("boot-1".to_owned());
        incident.memory.confirmation.refused = Some("the BMC reads On".to_owned());
        incident.memory.record_read = true;
    }
    run(&context, &incidents, &fence("7")).await;
    let requests = cluster.requests();
    let first = |request: &str| requests.iter().position(|it| it.starts_with(request));
    let (record, node) = (first(PATCH_FENCE), first(PATCH_NODE));
    assert!(
        record.is_some() && node.is_some() && record < node,
        "{requests:?}"
    );
    let body = sent(&cluster, PATCH_FENCE).swap_remove(0);
    assert_eq!(body["status"]["confirmationRefused"], "the BMC reads On");
}

/// S8: what this incident has proven under a claim that it gave back says nothing of a taint that stands under its next one.
#[tokio::test]
async fn only_evidence_of_the_claim_on_the_node_is_a_proof_of_its_taint() {
    for (claim, is_proven) in [("fence-n1", true), ("fence-n0", false)] {
        let cluster = cluster(fake::tainted()).await;
        let record = json!({"claim": claim, "evidence": evidence_under(claim)});
        cluster.put(FENCE, 200, fence_object("7", record.clone()));
        let (context, incidents) = (cluster.context(), Incidents::default());
        let fence = decoded(fence_object("7", record));
        run(&context, &incidents, &fence).await;
        let incident = incidents.get(&fence).expect("an incident");
        assert_eq!(
            incident.lock().await.memory.taint.seen,
            is_proven,
            "{claim}"
        );
        assert!(sent(&cluster, PATCH_NODE).is_empty());
    }
}

pub(super) fn patch() -> NodePatch {
    NodePatch {
        node: "worker-1".to_owned(),
        operations: json!([]),
        valid_from: Duration::ZERO,
        valid_until: None,
    }
}

/// S23: while the last LIST is answered, another process may write a command down. The NodeFence is read after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn before_a_release_the_record_is_read_after_the_list() {
    const LIST: &str = "GET /apis/storage.k8s.io/v1/volumeattachments";
    let cluster = cluster(fake::tainted()).await;
    cluster.put(LIST, 200, fake::list("VolumeAttachment", "7", &[]));
    cluster.put(FENCE, 200, fence_object("7", json!({})));
    let context = cluster.context();
    let needs = Needs {
        attachments: true,
        record: true,
        ..Needs::default()
    };
    let slow = Duration::from_millis(300);
    cluster.delay(LIST, slow);
    let reads = Reads::begin(&context, "worker-1", Needs::default()).await;
    let begun = clock::since_boot();
    let complete = reads.complete(&context, "fence", needs);
    let until_asked = async {
        while !cluster.requests().iter().any(|it| it.starts_with(FENCE)) {
            sleep(Duration::from_millis(5)).await;
        }
        clock::since_boot() - begun
    };
    let asked = timeout(Duration::from_secs(20), until_asked);
    let (_, asked) = tokio::join!(complete, asked);
    let asked = asked.expect("the NodeFence is asked for");
    assert!(asked >= slow, "asked for the NodeFence after {asked:?}");
}

/// S17: a successor that does not know of the taint would fence the machine once more, while somebody repairs it.
#[tokio::test]
async fn that_the_taint_was_set_is_written_before_it_goes() {
    for is_written in [true, false] {
        let cluster = cluster(fake::tainted()).await;
        let tainted = json!({"claim": "fence-n1", "taintAppliedTime": "2026-01-01T00:00:05Z"});
        match is_written {
            true => cluster.put(PATCH_FENCE, 200, fence_object("8", tainted.clone())),
            false => cluster.put(PATCH_FENCE, 503, failure(503, "later").1),
        }
        cluster.put(PATCH_NODE, 200, unclaimed());
        let context = cluster.context();
        let incident = Incidents::default().begin(fence("7"));
        let mut incident = incident.lock().await;
        incident.status.taint_applied_time = Some("2026-01-01T00:00:05Z".parse().expect("a date"));
        let fence = fence("7");
        let mut round = Round {
            context: &context,
            fence: &fence,
            incident: &mut incident,
        };
        assert_eq!(round.release(patch()).await, Reply::Done);
        let written = sent(&cluster, PATCH_FENCE);
        let dates: Vec<_> = written
            .iter()
            .map(|body| &body["status"]["taintAppliedTime"])
            .collect();
        assert_eq!(dates, ["2026-01-01T00:00:05Z"], "{is_written}");
        let writes = cluster.requests();
        let place = |write: &str| writes.iter().position(|it| it.starts_with(write));
        assert!(place(PATCH_FENCE) < place(PATCH_NODE), "{writes:?}");
        // Once is enough, and a record that cannot be written holds up no release.
        assert_eq!(round.release(patch()).await, Reply::Done);
        let again = sent(&cluster, PATCH_FENCE).len();
        assert_eq!(again, if is_written { 1 } else { 2 });
        // What somebody else wrote meanwhile, a command of another process perhaps, is read before (S23).
        round.incident.stored.status.taint_applied_time = None;
        cluster.put(PATCH_FENCE, 409, failure(409, "behind").1);
        let before = sent(&cluster, PATCH_NODE).len();
        let reply = round.release(patch()).await;
        assert!(matches!(reply, Reply::Refused(409, _)), "{reply:?}");
        assert_eq!(sent(&cluster, PATCH_NODE).len(), before);
    }
}

/// A successor that finds a new Node of that name knows from the record alone that the old one was empty when it was deleted. That the mark is gone the
/// end says: a Node may outlive its deletion.
#[tokio::test]
async fn that_everything_has_detached_is_written_before_the_node_is_deleted() {
    const DELETE: &str = "DELETE /api/v1/nodes/worker-1";
    let deletion = || NodeDeletion {
        node: "worker-1".to_owned(),
        uid: "uid-1".to_owned(),
        resource_version: "7".to_owned(),
        valid_until: clock::since_boot() + Duration::from_secs(10),
    };
    let cluster = cluster(fake::tainted()).await;
    cluster.put(PATCH_FENCE, 409, failure(409, "behind").1);
    cluster.put(DELETE, 200, fake::tainted());
    let context = cluster.context();
    let incident = Incidents::default().begin(fence("7"));
    let mut incident = incident.lock().await;
    let applied = Some("2026-01-01T00:00:05Z".parse().expect("a date"));
    incident.status.taint_applied_time = applied;
    incident.stored.status.taint_applied_time = applied;
    let fence = fence("7");
    let mut round = Round {
        context: &context,
        fence: &fence,
        incident: &mut incident,
    };
    let reply = round.delete_node(deletion()).await;
    assert!(matches!(reply, Reply::Refused(409, _)), "{reply:?}");
    assert!(sent(&cluster, DELETE).is_empty());
    cluster.put(PATCH_FENCE, 200, fence_object("8", json!({})));
    assert_eq!(round.delete_node(deletion()).await, Reply::Done);
    let written = sent(&cluster, PATCH_FENCE);
    assert!(
        written[1]["status"]["detachedTime"].is_string(),
        "{written:?}"
    );
    assert_eq!(sent(&cluster, DELETE).len(), 1);
    assert_eq!(round.incident.status.taint_removed_time, None);
}
