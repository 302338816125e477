//! What the metrics know of an incident: what holds it, what failed, and how long it took.

use super::*;
use crate::shell::events::Events;
use fencing_api::conditions::{ESCALATED, HELD, find};
use fencing_cluster::stop::Stopper;
use fencing_core::decision::{Decision, Effect};
use fencing_core::escalation::Escalation;
use fencing_core::hold::HeldBy;
use fencing_core::settings::Approval;
use jiff::Timestamp;

/// The value of this series; none: there is no such series.
fn value(context: &Context, series: &str) -> Option<String> {
    let text = context.metrics.render().expect("metrics");
    let series = format!("node_fencing_{series} ");
    let mut lines = text.lines();
    lines.find_map(|line| Some(line.strip_prefix(&series)?.to_owned()))
}

/// L3, S8: nobody is called by a stage that has no deadline, so what holds the incident must have a row.
#[tokio::test]
async fn a_taint_of_somebody_else_is_shown_as_what_holds_the_incident_also_while_its_node_is_unread()
 {
    let mut node = unclaimed();
    node["spec"] = json!({"taints": [fake::out_of_service()]});
    let cluster = cluster(node).await;
    cluster.put(FENCE, 200, fence_object("7", of_the_node(json!({}))));
    let (context, incidents) = (cluster.context(), Incidents::default());
    let failed = r#"reconcile_errors_total{reason="ReadFailed"}"#;
    let held = || {
        let rows = context.board.rows();
        rows.first().and_then(|row| row.held_reason.clone())
    };
    run(&context, &incidents, &fence("7")).await;
    assert_eq!(held().as_deref(), Some("ForeignOutOfService"));
    assert_eq!(value(&context, failed).as_deref(), Some("0"));
    let incident = incidents.get(&fence("7")).expect("an incident");
    let conditions = incident.lock().await.status.conditions.clone();
    let condition = find(&conditions, HELD).expect("the condition");
    assert_eq!(
        (&*condition.status, &*condition.reason),
        ("True", "ForeignOutOfService")
    );

    let (status, refused) = failure(403, "nodes is forbidden");
    cluster.put(NODE, status, refused);
    run(&context, &incidents, &fence("7")).await;
    assert_eq!(held().as_deref(), Some("ForeignOutOfService"));
    assert_eq!(value(&context, failed).as_deref(), Some("1"));

    cluster.put(NODE, 200, unclaimed());
    run(&context, &incidents, &fence("7")).await;
    assert_eq!(held(), None);
}

/// S22: the row of an incident goes with it, and one that a contradiction ends would have told nobody.
#[tokio::test]
async fn a_contradiction_is_counted_when_it_begins_and_not_again_by_who_goes_on() {
    let cluster = cluster(unclaimed()).await;
    let (context, fence) = (cluster.context(), fence("7"));
    let incident = Incidents::default().begin(fence.clone());
    let mut incident = incident.lock().await;
    // It is of no policy.
    let counted = || value(&context, r#"contradictions_total{policy=""}"#);
    let calls = Some(Escalation::FenceContradiction);
    for (escalation, expected) in [
        (Some(Escalation::DeviceFailed), None),
        (calls, Some("1")),
        (calls, Some("1")),
        (None, Some("1")),
        (calls, Some("2")),
    ] {
        let decision = Decision {
            effect: Effect::Wait,
            stage: Stage::Verifying,
            message: "reads the power".to_owned(),
            held: None,
            escalation: escalation.map(|reason| (reason, "it lives".to_owned())),
            wake: None,
            deadline: None,
        };
        let mut round = Round {
            context: &context,
            fence: &fence,
            incident: &mut incident,
        };
        let (settings, observed) = (fixtures::settings(), fixtures::drained());
        round.explain(&settings, &observed, &decision, clock::since_boot());
        assert_eq!(counted().as_deref(), expected, "{escalation:?}");
        let condition = find(&incident.status.conditions, ESCALATED).expect("the condition");
        assert_eq!(condition.status == "True", escalation.is_some());
    }
}

/// The release may be hours after the last volume was free, and nothing is free of a machine that was only proven down.
#[tokio::test]
async fn a_node_has_recovered_when_its_volumes_were_free() {
    let second = |second| Timestamp::from_second(second).expect("a second");
    let table = [
        (Stage::Recovered, Some("60"), "1"),
        (Stage::ConfirmedDown, None, "0"),
        (Stage::Aborted, None, "0"),
    ];
    for (stage, took, recovered) in table {
        let cluster = cluster(unclaimed()).await;
        let (context, fence) = (cluster.context(), fence("7"));
        let incident = Incidents::default().begin(fence.clone());
        let mut incident = incident.lock().await;
        context.metrics.incident_opened("", "worker-1");
        incident.status.detected_time = Some(second(1000));
        incident.status.detached_time = Some(second(1060));
        incident.status.completion_time = Some(second(19_000));
        let round = Round {
            context: &context,
            fence: &fence,
            incident: &mut incident,
        };
        round.count(stage);
        let sum = value(&context, r#"time_to_recover_seconds_sum{policy=""}"#);
        assert_eq!(sum.as_deref(), Some(took.unwrap_or("0")), "{stage}");
        let ended = |outcome: Stage| {
            let labels = format!(r#"{{outcome="{outcome}",policy=""}}"#);
            value(&context, &format!("incidents_total{labels}"))
        };
        assert_eq!(ended(stage).as_deref(), Some("1"), "{stage}");
        assert_eq!(ended(Stage::Recovered).as_deref(), Some(recovered));
    }
}

/// L3: whoever has read why an incident waits has to hear that it waits for something else by now, and nothing twice.
#[tokio::test]
async fn another_reason_to_hold_is_another_event() {
    let cluster = cluster(unclaimed()).await;
    let (context, fence) = (cluster.context(), fence("7"));
    let incident = Incidents::default().begin(fence.clone());
    let mut incident = incident.lock().await;
    let mut told = Vec::new();
    for held in [
        Some(HeldBy::FailureDomain),
        Some(HeldBy::FailureDomain),
        // The Node cannot be read.
        None,
        Some(HeldBy::MaxPerHour),
        None,
        Some(HeldBy::MaxPerHour),
    ] {
        let decision = Decision {
            effect: Effect::Wait,
            stage: Stage::Held,
            message: "held".to_owned(),
            held,
            escalation: None,
            wake: None,
            deadline: None,
        };
        let mut round = Round {
            context: &context,
            fence: &fence,
            incident: &mut incident,
        };
        let settings = fixtures::settings();
        let before = round.incident.told;
        round.explain(
            &settings,
            &fixtures::drained(),
            &decision,
            clock::since_boot(),
        );
        told.push(round.incident.told != before);
    }
    assert_eq!(told, [true, false, false, true, false, false]);
}

/// S15: what stops a fence before its taint stops none after it, and whoever has just deleted the policy or denied it for that has to hear so, once.
#[tokio::test]
async fn what_stops_nothing_under_the_taint_any_more_is_told_once() {
    const EVENTS: &str = "POST /apis/events.k8s.io/v1/namespaces/default/events";
    let cluster = cluster(unclaimed()).await;
    cluster.put(EVENTS, 201, json!({"regarding": {}, "metadata": {}}));
    let mut context = cluster.context();
    let reads = cluster.server.clients.reads.clone();
    let (events, publisher) = Events::new(reads, None, Arc::clone(&context.metrics));
    Arc::get_mut(&mut context)
        .expect("nobody else has it")
        .events = events;
    let fence = fence("7");
    let incident = Incidents::default().begin(fence.clone());
    let mut incident = incident.lock().await;
    let deleted = Some("NodeFencingPolicy prod was deleted".to_owned());
    let denied = Approval::Denied("bob".to_owned(), "not this node".to_owned());
    let needs_none = Approval::NotNeeded;
    let narrowed = Some("NodeFencingPolicy prod no longer selects the Node".to_owned());
    for (stage, stop, approval) in [
        // Before the taint its end says why.
        (Stage::Verifying, deleted.clone(), &denied),
        (Stage::Detaching, None, &needs_none),
        (Stage::Detaching, deleted.clone(), &needs_none),
        (Stage::Detaching, deleted.clone(), &needs_none),
        (Stage::AwaitingRelease, deleted.clone(), &denied),
        (Stage::AwaitingRelease, None, &denied),
        (Stage::AwaitingRelease, narrowed, &denied),
    ] {
        let decision = Decision {
            effect: Effect::Wait,
            stage,
            message: "waits".to_owned(),
            held: None,
            escalation: None,
            wake: None,
            deadline: None,
        };
        let settings = Settings {
            stop,
            approval: approval.clone(),
            ..fixtures::settings()
        };
        let mut round = Round {
            context: &context,
            fence: &fence,
            incident: &mut incident,
        };
        let now = clock::since_boot();
        round.explain(&settings, &fixtures::drained(), &decision, now);
    }
    // Nobody has anything more to tell.
    drop(context);
    let (_stopper, stop) = Stopper::new();
    publisher.run(stop).await;
    let told = sent(&cluster, EVENTS).into_iter();
    let told = told.filter(|body| body["reason"] == "GoesOnToRelease");
    let told: Vec<Value> = told.map(|body| body["note"].clone()).collect();
    assert_eq!(
        told,
        [
            "NodeFencingPolicy prod was deleted, which stops no fence after the taint: Node worker-1 continues to its release with its original settings",
            "denied by bob: not this node, which stops no fence after the taint: Node worker-1 continues to its release with its original settings",
            "NodeFencingPolicy prod no longer selects the Node, which stops no fence after the taint: Node worker-1 continues to its release with its original settings",
        ]
    );
}

/// L5: a schema that is older than this process drops `deviceVersion` and `powerReadings`, and a write that changes nothing would follow in each round.
#[tokio::test]
async fn what_an_older_schema_drops_is_not_written_again_and_again() {
    let mut new = open_attempt();
    new["deviceVersion"] = json!("uid/1");
    let readings = json!([reads("On", "2026-01-01T00:00:00Z")]);
    let dropped = json!({"attempts": [open_attempt()]});
    let all = json!({"attempts": [new], "powerReadings": readings});
    assert!(!is_written(&dropped, &all).await);
    assert!(is_written(&dropped, &json!({"attempts": []})).await);
}

/// Whoever stands at the machine reads it there, whether the words change with it or not; only that it says so again is no news.
#[tokio::test]
async fn that_a_device_says_another_thing_is_written_by_itself() {
    let says = |state: &str, since: &str| json!({"powerReadings": [reads(state, since)]});
    let stored = says("On", "2026-01-01T00:00:00Z");
    let later = "2026-01-01T00:10:00Z";
    assert!(!is_written(&stored, &says("On", later)).await);
    assert!(is_written(&stored, &says("Unknown", later)).await);
}

fn reads(state: &str, since: &str) -> Value {
    json!({"device": "bmc", "powerState": state, "sinceTime": since})
}

/// Is this worth a write where that was stored?
async fn is_written(stored: &Value, new: &Value) -> bool {
    let cluster = cluster(unclaimed()).await;
    let fence = |status: &Value| decoded(fence_object("7", of_the_node(status.clone())));
    let (context, stored) = (cluster.context(), fence(stored));
    let incident = Incidents::default().begin(stored.clone());
    let mut incident = incident.lock().await;
    incident.status = fence(new).status.expect("a status");
    let round = Round {
        context: &context,
        fence: &stored,
        incident: &mut incident,
    };
    round.worth_writing()
}
