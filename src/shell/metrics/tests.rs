//! The text that Prometheus reads: valid, complete, and without series of what is gone.

mod tasks;
mod upkeep;
mod values;

use super::*;
use fencing_api::fence_status::{AttemptAction, AttemptResult};
use fencing_drivers::tls::Expiry;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("time")
}

fn named(nodes: &[&str]) -> BTreeSet<String> {
    nodes.iter().map(|node| (*node).to_owned()).collect()
}

fn incident(node: &str, held: Option<&str>) -> IncidentRow {
    IncidentRow {
        fence: format!("{node}-x7"),
        node: node.to_owned(),
        policy: "bm".to_owned(),
        mode: "PowerOff".to_owned(),
        stage: if held.is_some() { "Held" } else { "Fencing" }.to_owned(),
        stage_started_wall: at(1_700_000_000),
        deadline_wall: held.is_none().then(|| at(1_700_000_120)),
        held_reason: held.map(str::to_owned),
        escalated_reason: held.is_none().then(|| "FenceContradiction".to_owned()),
    }
}

fn ready(is_true: bool, reason: &str) -> ReadyCondition {
    let reason = reason.to_owned();
    ReadyCondition { is_true, reason }
}

fn full() -> Snapshot {
    Snapshot {
        incidents: vec![
            incident("w1", None),
            incident("w2", Some("MaxConcurrent")),
            incident("w3", Some("MaxConcurrent")),
            incident("w4", Some("Paused")),
        ],
        stranded: vec![("w3".to_owned(), "SameBoot")],
        kept_off: vec![
            ("bm".to_owned(), "Paused"),
            ("bm".to_owned(), "Maintenance"),
        ],
        devices: vec![DeviceRow {
            device: "bmc-w1".to_owned(),
            node: "w1".to_owned(),
            driver: "redfish".to_owned(),
            reachable: Some(true),
            identity_verified: Some(false),
            last_success: Some(at(1_699_999_999)),
            off_while_running: true,
            name_resolved: Some(false),
            clock_ahead_seconds: Some(-7),
            expiries: vec![("Token", Expiry::of(None, at(1_800_000_000)))],
        }],
        devices_ready: vec![("bmc-w1".to_owned(), ready(false, "AuthFailed"))],
        policies: vec![PolicyRow {
            policy: "bm".to_owned(),
            mode: "PowerOff".to_owned(),
            ready: Some(ready(false, "Paused")),
            paused_without_end: true,
            nodes: vec![("selected", 3), ("unprotected", 2)],
            budget_remaining: Some(0),
            others: vec!["kured"],
        }],
        protected: vec![("w1".to_owned(), true), ("w2".to_owned(), false)],
        recoverable: vec![("w1".to_owned(), false)],
        standby: upkeep::not_reached(),
        guard_missing: Some(true),
        watches: vec![("Node", Duration::from_secs(3))],
        nodes: Some(named(&["w1", "w2", "w3"])),
        leads: true,
        frozen: true,
        tasks: Some(40),
        process: Process {
            cpu_seconds: Some(1.5),
            open_files: Some(20.0),
            max_files: Some(1024.0),
            virtual_bytes: Some(4096.0),
            resident_bytes: Some(2048.0),
            started: Some(at(1_700_000_000)),
        },
    }
}

fn everything_happened() -> Metrics {
    let metrics = Metrics::new().expect("metrics");
    let took = Duration::from_millis(700);
    metrics.incident_opened("bm", "w1");
    metrics.incident_ended("bm", "w1", Stage::Recovered);
    metrics.contradiction("bm");
    metrics.fence_attempt("redfish", AttemptAction::PowerOff, AttemptResult::Succeeded);
    metrics.time_to_fence("bm", took);
    metrics.time_to_recover("bm", took);
    metrics.fence_duration("redfish", took);
    metrics.probe_duration("redfish", took);
    metrics.detach_duration("csi.example.org", took);
    metrics.reconcile_duration(took);
    metrics.reconcile_error(RoundError::ReadFailed);
    metrics.event_dropped(EventLoss::QueueFull);
    let asked = Asked {
        method: http::Method::PATCH,
        uri: http::Uri::from_static("/api/v1/nodes/w1"),
        code: Some(http::StatusCode::FORBIDDEN),
    };
    metrics.api_request(&asked, took);
    metrics
}

/// Series by name with labels, and families by name: `(type, has help)`. Fails on anything that is not the text format.
struct Parsed {
    series: BTreeMap<String, f64>,
    families: BTreeMap<String, (String, bool)>,
}

fn parse(text: &str) -> Parsed {
    let mut parsed = Parsed {
        series: BTreeMap::new(),
        families: BTreeMap::new(),
    };
    let mut help = BTreeSet::new();
    let mut current = String::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, words) = rest.split_once(' ').expect("help text");
            assert!(
                !words.is_empty() && help.insert(name.to_owned()),
                "help twice: {line}"
            );
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("type");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            let family = (kind.to_owned(), help.contains(name));
            assert!(
                parsed.families.insert(name.to_owned(), family).is_none(),
                "family twice: {line}"
            );
            name.clone_into(&mut current);
        } else {
            let (series, value) = line.rsplit_once(' ').expect("value");
            let name = series.split('{').next().expect("name");
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end));
            assert!(
                name == current || base == Some(&current),
                "{line} in the family {current}"
            );
            let value = value
                .parse()
                .unwrap_or_else(|_| panic!("no number: {line}"));
            assert!(
                parsed.series.insert(series.to_owned(), value).is_none(),
                "series twice: {line}"
            );
        }
    }
    parsed
}

#[test]
fn every_metric_of_the_table_is_exported_as_the_table_says_and_no_other() {
    let text = everything_happened().render_with(&full()).expect("text");
    let parsed = parse(&text);
    let exported: BTreeSet<_> = parsed.families.keys().map(String::as_str).collect();
    let metrics = || table::METRICS.iter().chain(table::PROCESS);
    let table: BTreeSet<_> = metrics().map(|metric| metric.name).collect();
    assert_eq!(exported, table);
    for metric in metrics() {
        let (kind, has_help) = &parsed.families[metric.name];
        let expected = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        assert_eq!(kind, expected, "{}", metric.name);
        assert!(has_help, "{}", metric.name);
        let shown = parsed.series.keys().find(|series| {
            let rest = series.strip_prefix(metric.name);
            rest.is_some_and(|rest| ["", "{", "_count"].iter().any(|end| rest.starts_with(end)))
        });
        let shown = shown.unwrap_or_else(|| panic!("no series of {}", metric.name));
        for label in metric.labels {
            assert!(
                shown.contains(&format!("{label}=\"")),
                "{shown} lacks {label}"
            );
        }
    }
}

#[test]
fn the_table_follows_prometheus_conventions() {
    for metric in table::METRICS.iter().chain(table::PROCESS) {
        let name = metric.name;
        let prefixes = ["node_fencing_", "process_"];
        assert!(prefixes.iter().any(|it| name.starts_with(it)), "{name}");
        assert!(
            name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
            "{name}"
        );
        assert!(
            metric.help.ends_with('.') && metric.help.len() > 10,
            "{name}"
        );
        assert_eq!(
            name.ends_with("_total"),
            metric.kind == Kind::Counter,
            "{name}"
        );
        if let Kind::Histogram(bounds) = metric.kind {
            assert!(name.ends_with("_seconds"), "{name}");
            assert!(bounds.is_sorted() && !bounds.is_empty(), "{name}");
            assert!(!metric.labels.contains(&"node"), "{name}: too many series");
        }
    }
}

#[test]
fn a_closed_incident_leaves_no_series() {
    let metrics = Metrics::new().expect("metrics");
    assert!(metrics.render_with(&full()).expect("text").contains("w1"));
    let mut later = full();
    later.incidents.clear();
    later.kept_off.clear();
    later.devices.clear();
    later.devices_ready.clear();
    later.protected.clear();
    later.recoverable.clear();
    later.standby.clear();
    let text = metrics.render_with(&later).expect("text");
    for gone in ["incident_", "incidents_held", "device_", "node=\"w1\""] {
        assert!(!text.contains(gone), "{gone} in:\n{text}");
    }
}

#[test]
fn a_nodes_counters_begin_at_zero_and_go_with_it_even_if_its_incident_ends_later() {
    let metrics = Metrics::new().expect("metrics");
    let told = |existing: Option<&[&str]>| {
        let snapshot = Snapshot {
            nodes: existing.map(named),
            ..Snapshot::default()
        };
        parse(&metrics.render_with(&snapshot).expect("text")).series
    };
    let of = |node: &str, outcome: &str| {
        format!(r#"node_fencing_node_incidents_total{{node="{node}",outcome="{outcome}"}}"#)
    };
    metrics.incident_opened("bm", "w1");
    metrics.incident_opened("bm", "w2");
    assert_eq!(told(None).get(&of("w1", "Recovered")), Some(&0.0));
    let names_w1 = |series: BTreeMap<String, f64>| series.keys().any(|it| it.contains("w1"));
    assert!(!names_w1(told(Some(&["w2"]))));
    // A Node that is deleted under its taint is gone before its incident ends.
    metrics.incident_ended("bm", "w1", Stage::Recovered);
    metrics.incident_ended("bm", "w2", Stage::Aborted);
    assert!(!names_w1(told(Some(&["w2", "w3"]))));
    // Where nobody knows which Nodes exist, nothing is forgotten.
    let series = told(None);
    assert_eq!(series.get(&of("w2", "Aborted")), Some(&1.0));
    assert_eq!(series.get(&of("w2", "Recovered")), Some(&0.0));
    let ended = r#"node_fencing_incidents_total{outcome="Recovered",policy="bm"}"#;
    assert_eq!(series.get(ended), Some(&1.0));
}

/// A counter that first appears as 1 shows no increase, and an alert over it does not fire.
#[test]
fn what_is_known_beforehand_begins_at_zero() {
    let metrics = Metrics::new().expect("metrics");
    let zero = |series: &BTreeMap<String, f64>, name: &str| {
        let value = series.get(&format!("node_fencing_{name}")).copied();
        assert_eq!(value, Some(0.0), "{name} in {:#?}", series.keys());
    };
    let first = parse(&metrics.render().expect("text")).series;
    for reason in ["QueueFull", "Stopped", "Refused", "Unreachable"] {
        zero(
            &first,
            &format!("events_dropped_total{{reason=\"{reason}\"}}"),
        );
    }
    for reason in ["ReadFailed", "WriteFailed"] {
        zero(
            &first,
            &format!("reconcile_errors_total{{reason=\"{reason}\"}}"),
        );
    }
    let of_the_cluster = |it: &&String| {
        ["policy=", "driver=", "node="]
            .iter()
            .any(|label| it.contains(label))
    };
    assert_eq!(first.keys().find(of_the_cluster), None);
    let later = parse(&metrics.render_with(&full()).expect("text")).series;
    for outcome in ["Recovered", "ConfirmedDown", "SelfRecovered", "Aborted"] {
        let labels = format!(r#"{{outcome="{outcome}",policy="bm"}}"#);
        zero(&later, &format!("incidents_total{labels}"));
    }
    for histogram in ["time_to_fence", "time_to_recover"] {
        zero(
            &later,
            &format!(r#"{histogram}_seconds_count{{policy="bm"}}"#),
        );
    }
    for result in ["Succeeded", "Refused", "TimedOut"] {
        let labels = format!(r#"{{action="PowerOff",driver="redfish",result="{result}"}}"#);
        zero(&later, &format!("fence_attempts_total{labels}"));
    }
    zero(&later, r#"contradictions_total{policy="bm"}"#);
    zero(&later, r#"fence_duration_seconds_count{driver="redfish"}"#);
}

/// What begins at zero does not begin again with each scrape.
#[test]
fn a_scrape_leaves_what_was_counted() {
    let text = everything_happened().render_with(&full()).expect("text");
    let series = parse(&text).series;
    for counted in [
        r#"incidents_total{outcome="Recovered",policy="bm"}"#,
        r#"node_incidents_total{node="w1",outcome="Recovered"}"#,
        r#"time_to_recover_seconds_count{policy="bm"}"#,
        r#"fence_attempts_total{action="PowerOff",driver="redfish",result="Succeeded"}"#,
        r#"contradictions_total{policy="bm"}"#,
        r#"reconcile_errors_total{reason="ReadFailed"}"#,
        r#"api_requests_total{code="403",resource="nodes",verb="patch"}"#,
        r#"api_request_duration_seconds_count{verb="patch"}"#,
    ] {
        let value = series.get(&format!("node_fencing_{counted}")).copied();
        assert_eq!(value, Some(1.0), "{counted}");
    }
}

#[test]
fn names_from_users_cannot_break_the_text() {
    let mut snapshot = full();
    snapshot.policies[0].mode = "a\"b\\c\nnode_fencing_up 7".to_owned();
    let text = Metrics::new()
        .expect("metrics")
        .render_with(&snapshot)
        .expect("text");
    assert!(
        !parse(&text).series.contains_key("node_fencing_up"),
        "{text}"
    );
}

#[test]
fn promtool_agrees_where_it_is_installed() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let text = everything_happened().render_with(&full()).expect("text");
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut promtool) = promtool else {
        return eprintln!("promtool is not installed: not asked");
    };
    let mut input = promtool.stdin.take().expect("stdin");
    input.write_all(text.as_bytes()).expect("written");
    drop(input);
    let output = promtool.wait_with_output().expect("ended");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && words.is_empty(), "{words}");
}
