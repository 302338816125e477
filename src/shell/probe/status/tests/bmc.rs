//! What a device says of itself, and when that is worth a write.

use super::*;
use crate::api::device::BmcInfo;
use crate::fence::DeviceClock;

/// The clock of a BMC runs all the time: by itself it is no news.
#[test]
fn a_clock_is_shown_and_is_no_news() {
    let probed = |device: i64, ours: i64| {
        let mut probe = answer(OURS).expect("an answer");
        probe.cipher_suites = vec![3, 17];
        probe.clock = Some(DeviceClock {
            time: wall(device),
            ours: wall(ours),
        });
        FenceDeviceStatus {
            bmc: bmc(&probe),
            ..FenceDeviceStatus::default()
        }
    };
    let status = probed(900, 1000);
    let shown = BmcInfo {
        power_restore_policy: None,
        cipher_suites: vec![3, 17],
        clock_time: Some(wall(900)),
        clock_ahead_seconds: Some(-100),
    };
    assert_eq!(status.bmc, Some(shown));
    let after = SignedDuration::from_secs(300);
    assert!(!worth_writing(
        Some(&status),
        &probed(1200, 1250),
        after,
        None
    ));
    let mut other = probed(900, 1000);
    if let Some(bmc) = &mut other.bmc {
        bmc.cipher_suites = vec![3];
    }
    assert!(worth_writing(Some(&status), &other, after, None));
    assert_eq!(
        bmc(&answer(OURS).expect("an answer")),
        None,
        "nothing is shown of nothing"
    );
}

/// Whoever asks for a probe sees when it was made.
#[test]
fn a_probe_that_answers_a_request_is_written_down_at_once() {
    let probed = |at: i64| FenceDeviceStatus {
        last_probe_time: Some(wall(at)),
        ..FenceDeviceStatus::default()
    };
    let after = SignedDuration::from_secs(300);
    let worth = |requested: i64| {
        worth_writing(
            Some(&probed(100)),
            &probed(110),
            after,
            Some(wall(requested)),
        )
    };
    assert!(worth(105) && worth(110));
    // Answered before, or of a clock that is ahead: that one waits for its time.
    assert!(!worth(99) && !worth(100) && !worth(111));
}

#[test]
fn times_alone_are_written_now_and_then() {
    let status = |probed: i64, model: &str| FenceDeviceStatus {
        last_probe_time: Some(wall(probed)),
        driver: Some(model.to_owned()),
        ..FenceDeviceStatus::default()
    };
    let old = status(0, "redfish");
    let after = SignedDuration::from_secs(300);
    assert!(worth_writing(None, &old, after, None));
    assert!(!worth_writing(
        Some(&old),
        &status(299, "redfish"),
        after,
        None
    ));
    assert!(worth_writing(
        Some(&old),
        &status(300, "redfish"),
        after,
        None
    ));
    assert!(worth_writing(Some(&old), &status(1, "ipmi"), after, None));
}
