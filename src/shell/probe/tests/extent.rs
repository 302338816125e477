//! How much a probe looks at.

use super::*;

fn answer() -> Probe {
    Probe {
        reading: fencing_core::reading::Reading {
            state: PowerState::On,
            raw: "running".to_owned(),
            identity: Identity::default(),
            faults: Vec::new(),
            off_parts: Vec::new(),
            asked: Duration::ZERO,
            answered: Duration::ZERO,
            wall: Timestamp::UNIX_EPOCH,
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

#[test]
fn a_list_will_do_once_the_device_has_shown_on_in_this_boot() {
    let mut device: FenceDevice = serde_json::from_value(json!({"metadata": {"name": "pve"}, "spec": {"nodeSelector": {}, "proxmox": {"address": "https://pve"}}})).expect("a FenceDevice");
    let now = Duration::from_secs(10_000);
    let control = |boot: &str, power_state| PositiveControl {
        node_name: "worker-1".to_owned(),
        node_uid: "uid-1".to_owned(),
        boot_id: boot.to_owned(),
        power_state,
        since_time: Timestamp::UNIX_EPOCH,
    };
    let known = |control: Option<PositiveControl>, outcome| Known {
        clock: Some((now, None)),
        control,
        finding: Some(Box::new(Finding {
            at: Timestamp::UNIX_EPOCH,
            node: essence(fixtures::node()),
            outcome,
            identity: None,
            trimmed_keys: Vec::new(),
            renewed: false,
            control: None,
            on_node: None,
            asked: asked(&device),
        })),
        ..Known::default()
    };
    let silent = DeviceError::Timeout {
        endpoint: "bmc".to_owned(),
        waited: now,
    };
    let shown = Some(control("boot-1", PowerState::On));
    let of = |known: &Known| extent(&device, Some(known), Some("boot-1"), now);
    assert_eq!(extent(&device, None, Some("boot-1"), now), Extent::Whole);
    assert_eq!(of(&known(None, Ok(answer()))), Extent::Needed);
    assert_eq!(of(&known(shown.clone(), Ok(answer()))), Extent::Listed);
    assert_eq!(
        of(&known(
            Some(control("boot-0", PowerState::On)),
            Ok(answer())
        )),
        Extent::Needed
    );
    assert_eq!(
        of(&known(
            Some(control("boot-1", PowerState::Off)),
            Ok(answer())
        )),
        Extent::Needed
    );
    assert_eq!(of(&known(shown.clone(), Err(silent))), Extent::Needed);
    let well = known(shown, Ok(answer()));
    // L1: of a Node that is not Ready a list may be older than the silence.
    assert_eq!(extent(&device, Some(&well), None, now), Extent::Needed);
    let an_hour = now + CLOCK_PERIOD;
    assert_eq!(
        extent(&device, Some(&well), Some("boot-1"), an_hour),
        Extent::Whole
    );
    let request = (
        PROBE_REQUESTED_AT.to_owned(),
        "2026-11-29T01:00:00Z".to_owned(),
    );
    device.metadata.annotations = Some([request].into());
    assert_eq!(
        extent(&device, Some(&well), Some("boot-1"), now),
        Extent::Whole
    );
}
