//! What is told of a device beside its status, and that it is told once.

use super::super::judge::{Finding, asked};
use super::super::schedule::{Pair, Wanted};
use super::super::{CLOCK_PERIOD, Known, Prober, extent, open_request};
use super::*;
use crate::shell::events::{Events, Publisher};
use crate::shell::fake::{Cluster, Seen};
use fencing_cluster::stop::Stopper;
use fencing_core::fixtures;
use fencing_core::reading::{Identity, PowerState, Reading};
use fencing_drivers::clock::Clock;
use fencing_drivers::{DeviceError, Extent, Probe};
use serde_json::json;

/// A writer over an API server that knows nothing, and who publishes its Events.
fn writer(cluster: &Cluster) -> (Writer, Publisher) {
    let context = cluster.context();
    let metrics = Arc::clone(&context.metrics);
    let (events, publisher) = Events::new(context.reads.clone(), None, Arc::clone(&metrics));
    let prober = Prober::new(
        context.caches.clone(),
        Arc::clone(&context.devices),
        context.writes.clone(),
        Clock::SYSTEM,
        events,
        metrics,
        context.found_off.clone(),
    );
    (Writer::new(Arc::new(prober)), publisher)
}

fn device(annotations: Value) -> FenceDevice {
    serde_json::from_value(json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice",
        "metadata": {"name": "bmc", "annotations": annotations},
        "spec": {"nodeName": "worker-1"},
    }))
    .expect("a FenceDevice")
}

/// Reasons and messages of the Events that were told, once nobody can tell any more.
async fn told(writer: Writer, publisher: Publisher, cluster: &Cluster) -> Vec<(Value, Value)> {
    drop(writer);
    let (_stopper, stop) = Stopper::new();
    publisher.run(stop).await;
    let events = cluster.server.seen().into_iter();
    let events = events.filter(|seen: &Seen| seen.line.contains("/events?"));
    let words = events.map(|seen| (seen.body["reason"].clone(), seen.body["note"].clone()));
    words.collect()
}

fn cluster_with_events(cluster: &Cluster) {
    let path = "POST /apis/events.k8s.io/v1/namespaces/default/events";
    cluster.put(path, 201, json!({"regarding": {}, "metadata": {}}));
}

fn pair() -> Pair {
    Pair {
        device: "bmc".to_owned(),
        node: "worker-1".to_owned(),
    }
}

/// The device's one node.
fn schedule(fenced: bool) -> Schedule {
    let mut schedule = Schedule::default();
    let wanted = Wanted {
        pair: pair(),
        epoch: 1,
        node_ready: true,
        suspected: false,
        boot_id: "boot-1".to_owned(),
        fenced,
        period: Duration::from_secs(300),
        known_well: false,
        requested: None,
        fleet: false,
    };
    schedule.want(vec![wanted], Duration::ZERO);
    schedule
}

fn finding(outcome: Result<Probe, DeviceError>) -> Finding {
    let mut node = fixtures::node();
    node.conditions[0].status = "True".to_owned();
    Finding {
        at: jiff::Timestamp::UNIX_EPOCH,
        node,
        outcome,
        identity: None,
        trimmed_keys: Vec::new(),
        renewed: false,
        control: None,
        on_node: None,
        asked: (None, None),
    }
}

/// This is what is known of the device's node now.
fn found(writer: &Writer, finding: Finding) {
    let known = Known {
        finding: Some(Box::new(finding)),
        ..Known::default()
    };
    writer.prober.known().insert(pair(), known);
}

fn answer() -> Probe {
    Probe {
        reading: Reading {
            state: PowerState::On,
            raw: "on".to_owned(),
            identity: Identity::default(),
            faults: Vec::new(),
            off_parts: Vec::new(),
            asked: Duration::ZERO,
            answered: Duration::ZERO,
            wall: jiff::Timestamp::UNIX_EPOCH,
        },
        vendor: None,
        model: None,
        firmware: None,
        power_restore_policy: None,
        restarter: None,
        certificate_expiry: None,
        off_denied: None,
        cipher_suites: Vec::new(),
        clock: None,
    }
}

/// Once an incident has begun nobody reads it any more, and people go by what it said last. A fleet is read for its other nodes all the while.
#[tokio::test]
async fn what_a_device_said_last_is_written_when_an_incident_begins() {
    for (spec, is_fenced, is_written) in [
        (json!({"nodeName": "worker-1"}), true, true),
        (json!({"nodeName": "worker-1"}), false, false),
        (json!({"nodeSelector": {}}), true, false),
    ] {
        let cluster = Cluster::new().await;
        cluster_with_events(&cluster);
        let (mut writer, _publisher) = writer(&cluster);
        let schedule = schedule(is_fenced);
        let mut device = device(json!({}));
        device.spec = serde_json::from_value(spec.clone()).expect("a spec");
        let at = |seconds| jiff::Timestamp::from_second(seconds).ok();
        let known = |last| Known {
            finding: Some(Box::new(finding(Ok(answer())))),
            last_success: last,
            last_on: last,
            ..Known::default()
        };
        writer.prober.known().insert(pair(), known(at(100)));
        device.status = Some(writer.render(&device, &schedule));
        writer.prober.known().insert(pair(), known(at(110)));
        writer.write(device, &schedule);
        assert_eq!(writer.busy.is_empty(), !is_written, "{spec} {is_fenced}");
    }
}

/// However often it is looked at, and whatever else its words say.
#[tokio::test]
async fn a_device_that_turns_ready_or_not_is_told_once() {
    let cluster = Cluster::new().await;
    cluster_with_events(&cluster);
    let (mut writer, publisher) = writer(&cluster);
    writer.prober.devices.survey(&[], &[]);
    let (schedule, mut device) = (schedule(false), device(json!({})));
    let mut look = |writer: &mut Writer| {
        let status = writer.render(&device, &schedule);
        writer.tell(&device, &status);
        let ready = conditions::find(&status.conditions, READY).map(|it| it.reason.clone());
        device.status = Some(status);
        ready.unwrap_or_default()
    };
    let silent = |seconds| DeviceError::Timeout {
        endpoint: "10.20.0.13:623".to_owned(),
        waited: Duration::from_secs(seconds),
    };
    assert_eq!(look(&mut writer), "Pending");
    let outcomes = [Ok(answer()), Ok(answer()), Err(silent(15)), Err(silent(16))];
    let reasons = outcomes.map(|outcome| {
        found(&writer, finding(outcome));
        look(&mut writer)
    });
    assert_eq!(reasons, ["Probed", "Probed", "Timeout", "Timeout"]);
    let told = told(writer, publisher, &cluster).await;
    const DEAD: &str = "10.20.0.13:623 gave no complete answer within 15s; if the device is always that slow, raise `probe.timeoutSeconds`";
    let expected = [("DeviceReady", "fencing works"), ("Timeout", DEAD)];
    let expected = expected.map(|(reason, words)| (json!(reason), json!(words)));
    assert_eq!(told, expected);
}

/// S25: what other settings read, or a FenceDevice that was deleted and made anew, teaches nothing of this one.
#[tokio::test]
async fn what_other_settings_have_found_is_not_written_as_of_these() {
    let cluster = Cluster::new().await;
    cluster_with_events(&cluster);
    let (mut writer, _publisher) = writer(&cluster);
    let of = |uid: &str, generation: i64| {
        let mut device = device(json!({}));
        device.metadata.uid = Some(uid.to_owned());
        device.metadata.generation = Some(generation);
        device
    };
    let asked = asked(&of("uid-1", 1));
    let answered = finding(Ok(answer()));
    found(&writer, Finding { asked, ..answered });
    for (device, is_taught) in [
        (of("uid-1", 1), true),
        (of("uid-1", 2), false),
        (of("uid-2", 1), false),
    ] {
        let devices = Arc::clone(&writer.prober.devices);
        devices.survey(&[&device], &[&fixtures::node()]);
        let status = writer.render(&device, &schedule(false));
        assert_eq!(
            !status.positive_controls.is_empty(),
            is_taught,
            "{status:?}"
        );
    }
}

#[tokio::test]
async fn a_newline_at_the_end_of_a_secret_s_value_is_told_once() {
    let cluster = Cluster::new().await;
    cluster_with_events(&cluster);
    let (mut writer, publisher) = writer(&cluster);
    let finding = Finding {
        trimmed_keys: vec!["password"],
        ..finding(Err(DeviceError::Unsupported { driver: "none" }))
    };
    found(&writer, finding);
    let schedule = schedule(false);
    for _ in 0..2 {
        writer.render(&device(json!({})), &schedule);
    }
    let told = told(writer, publisher, &cluster).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, "SecretTrimmed");
    assert_eq!(
        told[0].1,
        "the Secret's password ended in a newline, which was dropped; write it again without one"
    );
}

/// A request that is no time would otherwise be passed over in silence.
#[tokio::test]
async fn a_request_for_a_probe_that_is_no_time_is_told() {
    let cluster = Cluster::new().await;
    cluster_with_events(&cluster);
    let (writer, publisher) = writer(&cluster);
    for annotation in [
        "now",
        "2026-11-21T01:00:00Z",
        " 2026-11-21T02:00:00+01:00\n",
    ] {
        writer.tell_of_request(&device(json!({PROBE_REQUESTED_AT: annotation})));
    }
    writer.tell_of_request(&device(json!({})));
    let told = told(writer, publisher, &cluster).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, "ProbeRequestInvalid");
    let words = told[0].1.as_str().unwrap_or_default();
    assert!(words.contains("was `now`"), "{words}");
}

/// A restart finds the annotation where it was: what was answered is not answered again.
#[test]
fn a_request_is_open_until_a_probe_was_made_after_it() {
    let requested = "2026-11-21T01:00:00Z";
    let asked = |last: Option<&str>| {
        let mut device = device(json!({PROBE_REQUESTED_AT: requested}));
        device.status = Some(FenceDeviceStatus {
            last_probe_time: last.map(|last| last.parse().expect("a time")),
            ..FenceDeviceStatus::default()
        });
        open_request(&device)
    };
    let at = requested.parse().ok();
    assert_eq!(asked(None), at);
    assert_eq!(asked(Some("2026-11-21T00:59:59Z")), at);
    assert_eq!(asked(Some(requested)), None);
    assert_eq!(asked(Some("2026-11-21T01:00:01Z")), None);
    assert_eq!(open_request(&device(json!({}))), None);
    assert_eq!(
        open_request(&device(json!({PROBE_REQUESTED_AT: "now"}))),
        None
    );
}

/// Once, then every hour, and whenever somebody asks.
#[test]
fn a_device_s_clock_is_read_now_and_then() {
    let now = CLOCK_PERIOD * 3;
    let read_at = |at: Duration| Known {
        clock: Some((at, None)),
        ..Known::default()
    };
    let look = |device: &FenceDevice, at: Duration| {
        extent(device, Some(&read_at(at)), Some("boot-1"), now)
    };
    let read_ago = |ago: Duration| look(&device(json!({})), now - ago);
    assert_eq!(
        extent(&device(json!({})), None, Some("boot-1"), now),
        Extent::Whole
    );
    assert_eq!(read_ago(CLOCK_PERIOD), Extent::Whole);
    let recently = CLOCK_PERIOD - Duration::from_secs(1);
    assert_eq!(read_ago(recently), Extent::Needed);
    let asked_for = device(json!({PROBE_REQUESTED_AT: "2026-11-22T08:00:00Z"}));
    assert_eq!(look(&asked_for, now), Extent::Whole);
}

/// S5, HOLES D2: Node worker-1 and its device name the machine of another Node. Its pin stays what it was, and its device is not used.
#[tokio::test]
async fn a_pin_that_would_follow_to_the_machine_of_another_node_stays() {
    const BEFORE: &str = "99999999-2222-4333-8444-555555555555";
    let cluster = Cluster::new().await;
    let (mut writer, _publisher) = writer(&cluster);
    let pin = |node: &str, uid: &str, uuid: &str| json!({"systems": [{"nodeName": node, "nodeUID": uid, "uuid": uuid}]});
    let mut attacker = device(json!({}));
    attacker.status = serde_json::from_value(pin("worker-1", "uid-1", BEFORE)).ok();
    let mut other = device(json!({}));
    other.metadata.name = Some("other-bmc".to_owned());
    other.spec.node_name = Some("other".to_owned());
    other.status = serde_json::from_value(pin("other", "uid-2", fixtures::MACHINE)).ok();
    let victim = NodeView {
        name: "other".to_owned(),
        uid: "uid-2".to_owned(),
        ..fixtures::node()
    };
    let devices = Arc::clone(&writer.prober.devices);
    let mut rendered = |nodes: &[NodeView]| {
        devices.survey(&[&attacker, &other], &nodes.iter().collect::<Vec<_>>());
        let identity = Some(Identity {
            system_uuid: Some(fixtures::MACHINE.to_owned()),
            serial_number: None,
        });
        let finding = finding(Ok(answer()));
        found(
            &writer,
            Finding {
                identity,
                ..finding
            },
        );
        let status = writer.render(&attacker, &schedule(false));
        let ready = status.conditions.iter().find(|it| it.type_ == "Ready");
        (ready.expect("Ready").reason.clone(), status.systems)
    };
    let (reason, systems) = rendered(&[fixtures::node(), victim]);
    assert_eq!(reason, "DuplicateTarget");
    assert!(systems.iter().all(|it| it.uuid == BEFORE), "{systems:?}");
    // Nobody else's: it is a mainboard that was replaced.
    let (reason, _) = rendered(&[fixtures::node()]);
    assert_ne!(reason, "DuplicateTarget");
}
