//! What a human does to the NodeFence itself while a process sees to it, and what other NodeFences have left.

use super::*;
use fencing_api::remediation::RemediationReference;

const FENCES: &str = "GET /apis/nodefencing.io/v1alpha1/nodefences";

/// The NodeFence after so many edits of its spec, with this record.
fn edited(generation: i64, desired: &str, status: Value) -> Value {
    let mut fence = fence_object("7", status);
    fence["metadata"]["generation"] = json!(generation);
    fence["spec"]["desiredState"] = json!(desired);
    fence
}

/// Has the end of the incident been written, or tried to?
fn ends(cluster: &Cluster) -> bool {
    let writes = sent(cluster, PATCH_FENCE);
    writes
        .iter()
        .any(|body| body["status"]["completionTime"].is_string())
}

/// S21: the edit is what the write was refused for, and the cache has not heard of it.
#[tokio::test]
async fn a_no_that_a_refused_write_finds_counts_before_the_cache_has_it() {
    let cluster = cluster(unclaimed()).await;
    let (context, incidents) = (cluster.context(), Incidents::default());
    let known = edited(1, "Fenced", json!({}));
    cluster.put(FENCE, 200, known.clone());
    let cached = decoded(known);
    until_refused(&cluster, &context, &incidents, &cached).await;
    assert!(!ends(&cluster));
    cluster.put(FENCE, 200, edited(2, "Released", json!({})));
    until_refused(&cluster, &context, &incidents, &cached).await;
    // That write was refused; what comes after it is the end.
    until_refused(&cluster, &context, &incidents, &cached).await;
    assert!(ends(&cluster), "{:?}", sent(&cluster, PATCH_FENCE));
    // The cache has a newer one yet: that counts.
    let again = decoded(edited(3, "Fenced", json!({})));
    run(&context, &incidents, &again).await;
    let incident = incidents.get(&again).expect("an incident");
    assert!(incident.lock().await.newer.is_none());
}

#[tokio::test]
async fn a_no_that_the_first_look_finds_counts_before_the_cache_has_it() {
    let cluster = cluster(unclaimed()).await;
    cluster.put(FENCE, 200, edited(2, "Released", json!({})));
    let cached = decoded(edited(1, "Fenced", json!({})));
    run(&cluster.context(), &Incidents::default(), &cached).await;
    assert!(ends(&cluster), "{:?}", sent(&cluster, PATCH_FENCE));
}

/// S15: what a remediation was opened for ends with it, and one of the same name is another one. After an off command it is seen through.
#[tokio::test]
async fn an_incident_whose_remediation_is_gone_ends_before_its_taint() {
    let commanded = json!({"attempts": [{"device": "bmc", "action": "PowerOff", "result": "Succeeded", "startTime": "2026-01-01T00:00:00Z"}]});
    for (asks, record, is_over) in [
        ("uid-r", json!({}), false),
        ("uid-2", json!({}), true),
        ("uid-2", commanded, false),
    ] {
        let cluster = cluster(unclaimed()).await;
        let (context, incidents) = (cluster.context(), Incidents::default());
        let mut object = fence_object("7", record);
        let of = |uid: &str| RemediationReference {
            namespace: "fencing".to_owned(),
            name: "worker-1".to_owned(),
            uid: uid.to_owned(),
        };
        object["spec"]["trigger"]["remediation"] = json!(of("uid-r"));
        cluster.put(FENCE, 200, object.clone());
        let asking = (asks.to_owned(), (of(asks), Some("worker-1".to_owned())));
        context.callers.note([asking].into());
        until_refused(&cluster, &context, &incidents, &decoded(object)).await;
        assert_eq!(ends(&cluster), is_over, "{asks}");
    }
}

/// What another process left is read by quorum before it is built on, and right before the release: what somebody wants by then stands there too.
#[tokio::test]
async fn an_edit_that_is_read_under_the_taint_counts_at_once() {
    let evidence = |claim: &str| {
        json!({
            "claim": claim, "nodeUID": "uid-1", "nodeBootID": "boot-1",
            "quiescedTime": "2026-01-01T00:00:00Z", "provenTime": "2026-01-01T00:00:00Z", "readings": [],
        })
    };
    for is_last_check in [true, false] {
        let (first, status) = match is_last_check {
            true => (
                fake::tainted(),
                json!({"claim": "fence-n1", "evidence": evidence("fence-n1")}),
            ),
            false => (fake::node(), json!({"evidence": evidence("fence-n1")})),
        };
        let cluster = cluster(first).await;
        let known = edited(1, "Fenced", of_the_node(status.clone()));
        cluster.put(FENCE, 200, known.clone());
        cluster.put(PATCH_NODE, 200, fake::node());
        let (context, incidents) = (cluster.context(), Incidents::default());
        let cached = decoded(known);
        run(&context, &incidents, &cached).await;
        let incident = incidents.get(&cached).expect("an incident");
        {
            let mut incident = incident.lock().await;
            incident.memory.taint.last_check = is_last_check;
            assert!(incident.newer.is_none());
        }
        cluster.put(NODE, 200, fake::tainted());
        let released = edited(2, "Released", of_the_node(status));
        cluster.put(FENCE, 200, released);
        run(&context, &incidents, &cached).await;
        let incident = incidents.get(&cached).expect("an incident");
        let incident = incident.lock().await;
        assert!(incident.newer.is_some(), "{is_last_check}");
    }
}

/// L3: somebody's finalizer holds it. Nobody else can open another of its name meanwhile, and what is on the Node would stay there.
#[tokio::test]
async fn a_nodefence_that_is_being_deleted_is_seen_to_until_it_is_gone() {
    let cluster = cluster(unclaimed()).await;
    let mut going = fence_object("7", json!({}));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    going["metadata"]["finalizers"] = json!(["example.org/backup"]);
    cluster.put(FENCE, 200, going.clone());
    let (context, incidents) = (cluster.context(), Incidents::default());
    let going = decoded(going);
    run(&context, &incidents, &going).await;
    assert!(incidents.get(&going).is_some());
    assert!(!sent(&cluster, PATCH_FENCE).is_empty());
    // Its own deletion ends it, like any other.
    let (status, gone) = failure(404, "not found");
    cluster.put(FENCE, status, gone);
    let until_ended = async {
        while incidents.get(&going).is_some() {
            run(&context, &incidents, &going).await;
            sleep(Duration::from_millis(5)).await;
        }
    };
    let in_time = timeout(Duration::from_secs(60), until_ended).await;
    assert!(in_time.is_ok(), "{:?}", cluster.requests());
}

/// S23: a record that does not name the claim was made anew, and what was sent under that claim stands in none; neither does what another NodeFence
/// has sent, whose end has closed it.
#[tokio::test]
async fn what_the_own_record_does_not_name_may_land() {
    let named = json!({"claim": "fence-n1"});
    let sent_by_another = {
        let mut other = fence_object("7", of_the_node(json!({"attempts": [open_attempt()]})));
        other["metadata"]["name"] = json!("other");
        other["metadata"]["uid"] = json!("uid-other");
        other
    };
    let table = [
        (named.clone(), vec![], false),
        (named, vec![sent_by_another], true),
        (json!({}), vec![], true),
        (json!({"claim": "fence-n0"}), vec![], true),
    ];
    for (status, others, may_land) in table {
        let cluster = cluster(fake::node()).await;
        cluster.put(PATCH_NODE, 200, fake::node());
        let record = fence_object("7", of_the_node(status.clone()));
        cluster.put(FENCE, 200, record.clone());
        cluster.put(FENCES, 200, fake::list("NodeFence", "7", &others));
        let (context, _watches) = cluster.watching();
        let fences = context.caches.fences.clone();
        fences.wait_until_ready().await.expect("the NodeFences");
        let (incidents, fence) = (Incidents::default(), decoded(record));
        run(&context, &incidents, &fence).await;
        let incident = incidents.get(&fence).expect("an incident");
        let incident = incident.lock().await;
        assert!(!sent(&cluster, PATCH_NODE).is_empty());
        let until = incident.memory.late.may_land_until();
        assert_eq!(until.is_some(), may_land, "{status}");
    }
}

/// S23: its own claims a process knows, whether their answer came or not. One of another NodeFence has its record, unless that was deleted or
/// cannot be decoded: then nobody knows what was sent under it.
#[tokio::test]
async fn a_claim_that_no_record_can_name_is_orphaned() {
    let cluster = cluster(fake::node()).await;
    let named = |name: &str| {
        let mut fence = fence_object("7", json!({}));
        fence["metadata"] = json!({"name": name, "uid": name, "resourceVersion": "7"});
        fence
    };
    let mut undecoded = named("undecoded");
    undecoded["spec"]["nodeName"] = json!(1);
    let others = [named("fence"), named("other"), undecoded];
    cluster.put(FENCES, 200, fake::list("NodeFence", "7", &others));
    let (context, _watches) = cluster.watching();
    let fences = context.caches.fences.clone();
    fences.wait_until_ready().await.expect("the NodeFences");
    let fence = fence("7");
    let incident = Incidents::default().begin(fence.clone());
    let mut incident = incident.lock().await;
    let round = Round {
        context: &context,
        fence: &fence,
        incident: &mut incident,
    };
    let settings = fixtures::settings();
    let is_orphaned = |round: &Round<'_>, claim: &str| {
        let node = fixtures::claimed(claim);
        round.elsewhere(&settings, Some(&node)).orphaned
    };
    assert!(!round.elsewhere(&settings, None).orphaned);
    assert!(!is_orphaned(&round, "other-n1"));
    assert!(is_orphaned(&round, "undecoded-n1"));
    assert!(is_orphaned(&round, "deleted-n1"));
    assert!(is_orphaned(&round, "fence-n1"));
    round.incident.memory.claim = Some(fixtures::own_claim("fence-n1"));
    round.incident.note_sent();
    assert!(!is_orphaned(&round, "fence-n1"));
    assert!(is_orphaned(&round, "fence-n2"));
    round.incident.memory.claim = Some(fixtures::own_claim("fence-n2"));
    assert!(!is_orphaned(&round, "fence-n2"));
    // The first one lands when the second one has been sent.
    round.incident.note_sent();
    assert!(!is_orphaned(&round, "fence-n1"));
    for _ in 0..SENT_KEPT {
        round.incident.note_sent();
    }
    assert_eq!(round.incident.sent_claims.len(), SENT_KEPT);
}
