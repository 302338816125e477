use super::*;
use crate::status::tests::of_nothing;
use fencing_cluster::fake::{Fake, Seen, failure};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

fn fence(succeeded: &str, reason: &str, deadline: jiff::Timestamp) -> Value {
    json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": "worker-1-5c0ffee5", "resourceVersion": "7"},
        "spec": {
            "nodeName": "worker-1", "trigger": {"type": "NodeCondition"}, "fence": {"mode": "PowerOff"},
            "recovery": {}, "release": {}, "powerOn": {},
        },
        "status": {"stageDeadlineTime": deadline.to_string(), "conditions": [{
            "type": "Succeeded", "status": succeeded, "reason": reason, "message": "words",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    })
}

/// Its watches bring nothing for as long as they last, and then the end of the incident.
async fn server(has_ended: Arc<AtomicBool>, deadline: jiff::Timestamp) -> Fake {
    Fake::start(move |request: &Seen| {
        let is_watch = request.line.contains("watch=true");
        let is_fences = request.line.contains("/nodefences?");
        if is_watch {
            std::thread::sleep(Duration::from_millis(300));
        }
        match (is_watch, is_fences) {
            (true, true) if has_ended.load(Ordering::Relaxed) => {
                let fence = fence("True", "Recovered", deadline);
                (200, json!({"type": "MODIFIED", "object": fence}))
            }
            (true, _) => {
                let metadata = json!({"resourceVersion": "7"});
                let object = json!({"apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": metadata});
                (200, json!({"type": "BOOKMARK", "object": object}))
            }
            (false, true) => {
                let items = [fence("Unknown", "Fencing", deadline)];
                (200, json!({"metadata": {"resourceVersion": "7"}, "items": items}))
            }
            (false, false) if request.line.contains("/nodefencingpolicies?") => {
                (200, json!({"metadata": {"resourceVersion": "7"}, "items": []}))
            }
            _ => failure(404, "not found"),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_time_that_is_left_is_drawn_each_second_and_nothing_is_listed_again() {
    let deadline = fencing_drivers::clock::wall() + jiff::SignedDuration::from_secs(90);
    let has_ended = Arc::new(AtomicBool::new(false));
    let server = server(Arc::clone(&has_ended), deadline).await;
    let (changed, mut tasks) = (Arc::new(Notify::new()), JoinSet::new());
    let client = &server.clients.writes;
    let watches = Watches {
        policies: watch(client, forget_fields, &changed, &mut tasks),
        fences: watch(client, forget_fields, &changed, &mut tasks),
        nodes: None,
    };
    let open = serde_json::from_value(fence("Unknown", "Fencing", deadline));
    let shown = RefCell::new(Shown {
        sight: Sight {
            fences: vec![open.expect("a NodeFence")],
            ..of_nothing()
        },
        unanswered: None,
    });
    let args = Args {
        name: None,
        watch: true,
        output: Form::Table,
    };
    let mut screens = Vec::new();
    let place = Place {
        shape: Shape::Screen,
        print: |text: &str| {
            screens.push(text.to_owned());
            // It ends once enough was seen.
            let left = |it: &String| it.split("escalates in ").nth(1).map(str::to_owned);
            let distinct: std::collections::BTreeSet<_> = screens.iter().filter_map(left).collect();
            has_ended.store(distinct.len() >= 3, Ordering::Relaxed);
            Ok(())
        },
    };
    let drawn = draw(place, &args, &shown, &watches, &changed);
    let done = timeout(Duration::from_secs(30), drawn).await;
    let done = done.expect("it ends").expect("an exit code");
    assert_eq!(format!("{done:?}"), format!("{:?}", ExitCode::SUCCESS));
    let last = screens.last().expect("a screen");
    let ended = "Node worker-1 (nodefence/worker-1-5c0ffee5): Recovered\n";
    assert!(last.contains(ended), "{last}");
    let seen = server.seen();
    let lists = seen
        .iter()
        .filter(|it| it.line.contains("/nodefences?") && !it.line.contains("watch=true"));
    assert_eq!(lists.count(), 1, "{seen:#?}");
    let fences = &shown.borrow().sight.fences;
    assert_eq!(
        fences.first().map(|it| it.name_any()).as_deref(),
        Some("worker-1-5c0ffee5")
    );
}

/// Serves a Node that is down and later, once that is set, well, and the policy that governs it.
async fn with_node(down: Value, well: Value, policy: Value, is_back: Arc<AtomicBool>) -> Fake {
    Fake::start(move |request: &Seen| {
        let is_watch = request.line.contains("watch=true");
        let of = |kind: &str| request.line.contains(&format!("/{kind}?"));
        let list = |items: Value| {
            (
                200,
                json!({"metadata": {"resourceVersion": "7"}, "items": items}),
            )
        };
        if is_watch {
            std::thread::sleep(Duration::from_millis(300));
        }
        match is_watch {
            true if of("nodes") && is_back.load(Ordering::Relaxed) => {
                (200, json!({"type": "MODIFIED", "object": well}))
            }
            true => (
                200,
                json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}),
            ),
            false if of("nodes") => list(json!([down])),
            false if of("nodefencingpolicies") => list(json!([policy])),
            false if of("nodefences") => list(json!([])),
            false => failure(404, "not found"),
        }
    })
    .await
}

/// Nothing is open yet, and it ends by itself once the node is Ready.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_that_waits_for_its_policy_is_followed_until_it_is_ready() {
    let since = fencing_drivers::clock::wall().to_string();
    let node = move |ready: &str| {
        json!({
            "metadata": {"name": "node-1", "uid": "uid-1", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {
                "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}],
                "nodeInfo": {"bootID": "boot-1"},
            },
        })
    };
    let [down, well] = ["Unknown", "True"].map(node);
    let policy = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy", "metadata": {"name": "workers"},
        "spec": {
            "nodeSelector": {},
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "durationSeconds": 3600}],
            "fence": {"mode": "PowerOff"},
        },
    });
    let is_back = Arc::new(AtomicBool::new(false));
    let server = with_node(down.clone(), well, policy.clone(), Arc::clone(&is_back)).await;
    let (changed, mut tasks) = (Arc::new(Notify::new()), JoinSet::new());
    let client = &server.clients.writes;
    let watches = Watches {
        policies: watch(client, forget_fields, &changed, &mut tasks),
        fences: watch(client, forget_fields, &changed, &mut tasks),
        nodes: Some(watch(client, SlimNode::trim, &changed, &mut tasks)),
    };
    let shown = RefCell::new(Shown {
        sight: Sight {
            policies: vec![serde_json::from_value(policy).expect("a policy")],
            nodes: vec![serde_json::from_value(down).expect("a Node")],
            ..of_nothing()
        },
        unanswered: None,
    });
    let args = Args {
        name: Some("node-1".into()),
        watch: true,
        output: Form::Table,
    };
    let mut lines = String::new();
    let place = Place {
        shape: Shape::Steps,
        print: |text: &str| {
            lines += text;
            is_back.store(true, Ordering::Relaxed);
            Ok(())
        },
    };
    let drawn = draw(place, &args, &shown, &watches, &changed);
    let done = timeout(Duration::from_secs(30), drawn).await;
    let done = done.expect("it ends").expect("an exit code");
    assert_eq!(format!("{done:?}"), format!("{:?}", ExitCode::SUCCESS));
    let told = "node-1 <none> Waiting: policy workers fences it at ";
    let (time, step) = lines.split_once(' ').expect("a time");
    assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
    assert!(step.starts_with(told), "{lines}");
    // The last line tells why nothing follows.
    let last = lines.lines().last().expect("a line");
    assert!(
        last.contains("node-1 <none> Over: no incident is due"),
        "{lines}"
    );
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": "bmc reads On",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

fn open(node: &str, stage: &str, escalated: Option<Value>) -> NodeFence {
    let succeeded = condition("Succeeded", "Unknown", stage);
    let all: Vec<Value> = [succeeded].into_iter().chain(escalated).collect();
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": format!("{node}-5c0ffee5")},
        "spec": {"nodeName": node, "trigger": {"type": "NodeCondition"}, "fence": {"mode": "PowerOff"}},
        "status": {"conditions": all},
    });
    serde_json::from_value(fence).expect("a NodeFence")
}

/// A file tells when each step was, and none twice.
#[test]
fn a_pipe_is_told_what_has_changed_and_when() {
    let mut told = Steps::new();
    let mut at = |time: &str, fences: Vec<NodeFence>| {
        let now = time.parse().expect("a time");
        let sight = Sight {
            fences: fences::newest_first(fences),
            ..of_nothing()
        };
        news(&mut told, &sight.status(None, now), now)
    };
    let one = |stage: &str| open("w1", stage, None);
    let two = || {
        let escalated = condition("Escalated", "True", "DeviceFailed");
        open("w2", "Verifying", Some(escalated))
    };
    // What a warning says is said once.
    let calls = "w2 w2-5c0ffee5 Verifying\n    ACTION REQUIRED DeviceFailed: bmc reads On\n";
    assert_eq!(
        at("2027-01-02T18:00:00.75Z", vec![two()]),
        format!("2027-01-02T18:00:00Z {calls}")
    );
    assert_eq!(
        at("2027-01-02T18:00:01Z", vec![one("Checking"), two()]),
        "2027-01-02T18:00:01Z w1 w1-5c0ffee5 Checking: bmc reads On\n"
    );
    assert_eq!(at("2027-01-02T18:00:02Z", vec![one("Checking"), two()]), "");
    assert_eq!(
        at("2027-01-02T18:00:03Z", vec![one("Fencing"), two()]),
        "2027-01-02T18:00:03Z w1 w1-5c0ffee5 Fencing: bmc reads On\n"
    );
}

#[test]
fn who_leads_is_not_claimed_of_an_api_server_that_does_not_answer() {
    let mut shown = Shown {
        sight: of_nothing(),
        unanswered: None,
    };
    let now = fencing_drivers::clock::wall();
    let leads = shown.status(None, now).operator;
    assert_eq!(
        (leads.leader.as_deref(), leads.unknown),
        (Some("operator-1"), None)
    );
    shown.unanswered = Some("connection refused".to_owned());
    let operator = shown.status(None, now).operator;
    let words = "the leader is not known, it was operator-1";
    assert_eq!(
        (operator.leader, operator.unknown.as_deref()),
        (None, Some(words))
    );
}
