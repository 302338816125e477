//! Events as the API server receives them, and that nobody ever waits for it.

use super::*;
use crate::shell::fake::{self, Fake, Seen};
use fencing_cluster::stop::Stopper;
use serde_json::Value;

fn reference(kind: &str, name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("nodefencing.io/v1alpha1".to_owned()),
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        uid: Some("u-1".to_owned()),
        ..ObjectReference::default()
    }
}

fn note(message: &str) -> Note {
    Note {
        regarding: reference("NodeFence", "worker-1-x7"),
        related: Some(reference("Node", "worker-1")),
        warning: true,
        reason: "FenceStuck".to_owned(),
        action: "Verifying".to_owned(),
        message: message.to_owned(),
    }
}

struct Running {
    fake: Fake,
    events: Events,
    metrics: Arc<Metrics>,
    stopper: Stopper,
    publisher: tokio::task::JoinHandle<()>,
}

async fn running(
    answer: impl Fn(&Seen) -> (u16, Value) + Clone + Send + Sync + 'static,
) -> Running {
    let fake = Fake::start(answer).await;
    let metrics = Arc::new(Metrics::new().expect("metrics"));
    let client = fake.clients.reads.clone();
    let (events, publisher) = Events::new(client, Some("operator-0"), Arc::clone(&metrics));
    let (stopper, stop) = Stopper::new();
    Running {
        fake,
        events,
        metrics,
        stopper,
        publisher: tokio::spawn(publisher.run(stop)),
    }
}

fn echo(seen: &Seen) -> (u16, Value) {
    (
        200,
        if seen.body["note"].is_null() {
            json!({"regarding": {}})
        } else {
            seen.body.clone()
        },
    )
}

#[tokio::test]
async fn an_event_says_who_did_what_to_which_object() {
    let it = running(echo).await;
    it.events.publish(note("no reading of off in 120 s"));
    let seen = it.fake.wait_for(1).await;
    assert_eq!(
        seen[0].line,
        "POST /apis/events.k8s.io/v1/namespaces/default/events?"
    );
    let event = &seen[0].body;
    let name = event["metadata"]["name"].as_str().expect("name");
    assert!(
        name.starts_with("worker-1-x7.") && name.len() > 20,
        "{name}"
    );
    assert_eq!(event["metadata"]["namespace"], "default");
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["reason"], "FenceStuck");
    assert_eq!(event["action"], "Verifying");
    assert_eq!(event["note"], "no reading of off in 120 s");
    assert_eq!(event["regarding"]["kind"], "NodeFence");
    assert_eq!(event["related"]["name"], "worker-1");
    assert_eq!(event["reportingController"], "node-fencing-operator");
    assert_eq!(event["reportingInstance"], "operator-0");
    assert!(
        event["eventTime"]
            .as_str()
            .is_some_and(|at| at.ends_with('Z'))
    );
}

#[tokio::test]
async fn the_same_words_are_counted_and_other_words_are_another_event() {
    let it = running(echo).await;
    for message in ["A", "A", "B", "A"] {
        it.events.publish(note(message));
    }
    let seen = it.fake.wait_for(4).await;
    let verbs: Vec<_> = seen
        .iter()
        .map(|one| one.line.split(' ').next().expect("verb"))
        .collect();
    assert_eq!(verbs, ["POST", "PATCH", "POST", "PATCH"]);
    let name = seen[0].body["metadata"]["name"].as_str().expect("name");
    assert!(seen[3].line.contains(name), "{}", seen[3].line);
    assert_eq!(seen[1].body["series"]["count"], 2);
    assert_eq!(seen[3].body["series"]["count"], 3);
}

#[test]
fn a_message_fits_the_limits_of_the_api() {
    let mut long = note(&"\u{e4}".repeat(2000));
    long.reason = "R".repeat(500);
    long.regarding.name = Some(format!("{}.{}", "a".repeat(199), "b".repeat(50)));
    let event = event(Timestamp::UNIX_EPOCH, &long, "operator-0");
    let message = event.note.expect("note");
    assert!(
        message.len() <= 1024 && message.ends_with("\u{e4}\u{2026}"),
        "{}",
        message.len()
    );
    assert!(event.reason.expect("reason").len() <= 128);
    let name = event.metadata.name.expect("name");
    assert_eq!(name, format!("{}.0", "a".repeat(199)));
}

#[tokio::test]
async fn a_namespaced_object_has_its_events_beside_it() {
    let mut beside = note("m");
    beside.regarding.namespace = Some("fencing".to_owned());
    let event = event(Timestamp::UNIX_EPOCH, &beside, "operator-0");
    assert_eq!(event.metadata.namespace.as_deref(), Some("fencing"));
}

#[tokio::test]
async fn a_refused_event_is_dropped_and_counted_and_the_next_one_is_told() {
    let it = running(|seen: &Seen| match seen.body["note"].as_str() {
        Some("bad") => fake::failure(403, "events is forbidden"),
        Some("twice") => fake::failure(409, "already exists"),
        _ => echo(seen),
    })
    .await;
    for message in ["bad", "twice", "good"] {
        it.events.publish(note(message));
    }
    it.fake.wait_for(3).await;
    let text = it.metrics.render().expect("text");
    assert!(
        text.contains("node_fencing_events_dropped_total{reason=\"Refused\"} 1"),
        "{text}"
    );
}

#[tokio::test]
async fn nobody_waits_for_a_server_that_is_away() {
    // Nothing empties this queue.
    let metrics = Arc::new(Metrics::new().expect("metrics"));
    let client = Fake::start(echo).await.clients.reads;
    let (events, _publisher) = Events::new(client, None, Arc::clone(&metrics));
    let begun = std::time::Instant::now();
    for number in 0..QUEUE_MAX + 3 {
        events.publish(note(&number.to_string()));
    }
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    let text = metrics.render().expect("text");
    assert!(
        text.contains("node_fencing_events_dropped_total{reason=\"QueueFull\"} 3"),
        "{text}"
    );
}

/// Nobody hands in anything more: what is in the queue is told, and then the publisher ends by itself.
#[tokio::test]
async fn what_waits_when_nobody_is_left_is_still_told() {
    let it = running(echo).await;
    for number in 0..5 {
        it.events.publish(note(&number.to_string()));
    }
    drop(it.events);
    it.publisher.await.expect("publisher");
    assert_eq!(it.fake.seen().len(), 5);
}

/// The signal to end leaves it [`EFFECTS_END`] to tell what waits, and no longer, whatever the server does.
#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn what_waits_at_the_end_is_still_told_and_a_server_that_hangs_does_not_hold_the_end() {
    // The server blocks its threads; the publisher needs one that is free.
    let hangs = Duration::from_secs(8);
    let it = running(move |seen| {
        std::thread::sleep(hangs);
        echo(seen)
    })
    .await;
    let begun = std::time::Instant::now();
    it.stopper.stop();
    it.events.publish(note("slow"));
    it.publisher.await.expect("publisher");
    let took = begun.elapsed();
    assert!(took >= EFFECTS_END, "it did not wait at all: {took:?}");
    assert!(took < hangs, "it waited for the server: {took:?}");
}
