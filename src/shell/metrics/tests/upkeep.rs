//! What fails one day although all devices answer now.

use super::*;
use crate::shell::standby::StandbyRow;

/// What a replica that stands by has found of the device.
pub(super) fn not_reached() -> Vec<StandbyRow> {
    vec![StandbyRow {
        device: "bmc-w1".to_owned(),
        node: "w1".to_owned(),
        driver: "redfish".to_owned(),
        reachable: false,
    }]
}

#[test]
fn what_is_to_be_renewed_is_shown_by_device_and_ends_with_it() {
    let metrics = Metrics::new().expect("metrics");
    let text = metrics.render_with(&full()).expect("text");
    let series = parse(&text).series;
    let value = |name: &str| series.get(&format!("node_fencing_device_{name}")).copied();
    let device = r#"device="bmc-w1",driver="redfish",node="w1"}"#;
    assert_eq!(value(&format!("name_resolved{{{device}")), Some(0.0));
    assert_eq!(value(&format!("standby_reachable{{{device}")), Some(0.0));
    assert_eq!(value(&format!("clock_ahead_seconds{{{device}")), Some(-7.0));
    let recoverable = r#"node_fencing_node_recoverable{node="w1"}"#;
    assert_eq!(series.get(recoverable), Some(&0.0));
    let expiry = format!(r#"credential_expiry_timestamp_seconds{{credential="Token",{device}"#);
    assert_eq!(value(&expiry), Some(1_800_000_000.0));
    let notice = format!(r#"credential_notice_seconds{{credential="Token",{device}"#);
    assert_eq!(value(&notice), Some(1_209_600.0));
    let mut later = full();
    let [row] = later.devices.as_mut_slice() else {
        panic!("one device");
    };
    (row.name_resolved, row.clock_ahead_seconds) = (None, None);
    row.expiries.clear();
    let text = metrics.render_with(&later).expect("text");
    for gone in [
        "name_resolved{",
        "clock_ahead_seconds{",
        "expiry_timestamp_seconds{",
        "notice_seconds{",
    ] {
        assert!(!text.contains(gone), "{gone} in:\n{text}");
    }
}
