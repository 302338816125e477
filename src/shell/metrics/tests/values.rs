//! The gauges show what the snapshot holds, by its labels.

use super::*;

#[test]
fn values_are_those_of_the_snapshot() {
    let parsed = parse(
        &Metrics::new()
            .expect("metrics")
            .render_with(&full())
            .expect("text"),
    );
    let value = |series: &str| {
        parsed
            .series
            .get(&format!("node_fencing_{series}"))
            .copied()
    };
    // prometheus sorts labels by name.
    let info = r#"incident_info{incident="w1-x7",mode="PowerOff",node="w1",policy="bm"}"#;
    assert_eq!(value(info), Some(1.0));
    let deadline =
        r#"incident_stage_deadline_timestamp_seconds{node="w1",policy="bm",stage="Fencing"}"#;
    assert_eq!(value(deadline), Some(1_700_000_120.0));
    assert_eq!(value(&deadline.replace("w1", "w2")), None);
    let escalated =
        r#"incident_escalated{incident="w1-x7",node="w1",policy="bm",reason="FenceContradiction"}"#;
    assert_eq!(value(escalated), Some(1.0));
    assert_eq!(value(&escalated.replace("w1", "w2")), None);
    assert_eq!(
        value(r#"incidents_held{policy="bm",reason="MaxConcurrent"}"#),
        Some(2.0)
    );
    // One incident that is open, and a node that has none.
    assert_eq!(
        value(r#"incidents_held{policy="bm",reason="Paused"}"#),
        Some(2.0)
    );
    assert_eq!(
        value(r#"incidents_held{policy="bm",reason="Maintenance"}"#),
        Some(1.0)
    );
    assert_eq!(
        value(r#"device_identity_verified{device="bmc-w1",driver="redfish",node="w1"}"#),
        Some(0.0)
    );
    assert_eq!(
        value(r#"device_ready{device="bmc-w1",reason="AuthFailed"}"#),
        Some(0.0)
    );
    assert_eq!(
        value(r#"policy_ready{policy="bm",reason="Paused"}"#),
        Some(0.0)
    );
    assert_eq!(
        value(r#"policy_paused_without_end{policy="bm"}"#),
        Some(1.0)
    );
    assert_eq!(value(r#"node_protected{node="w2"}"#), Some(0.0));
    assert_eq!(value("admission_guard_missing"), Some(1.0));
    assert_eq!(value("frozen"), Some(1.0));
    assert_eq!(
        value(r#"policy_nodes{policy="bm",state="unprotected"}"#),
        Some(2.0)
    );
    #[allow(clippy::cast_precision_loss, reason = "whole seconds are enough")]
    let now = fencing_drivers::clock::wall().as_second() as f64;
    let heard = value(r#"watch_last_event_timestamp_seconds{kind="Node"}"#).expect("watch");
    assert!((now - 3.0 - heard).abs() < 2.0, "{heard}");
}
