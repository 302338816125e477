//! What a device says of itself, and when that is worth a write.

use super::*;
use crate::shell::probe::Known;
use fencing_api::device::BmcInfo;
use fencing_drivers::DeviceClock;

fn probed(second: i64, uuid: &str, state: PowerState) -> Finding {
    let mut probe = answer(uuid).expect("an answer");
    probe.reading.state = state;
    Finding {
        at: wall(second),
        ..found(node("w1", OURS, "Unknown"), Ok(probe))
    }
}

/// A BMC that shares its host's network port may vanish with the host: whoever trusts it wants to know that it was seen to answer then.
#[test]
fn when_the_machine_was_last_found_off_is_kept() {
    let mut device = of_w1();
    let first = found(node("w1", OURS, "True"), answer(OURS));
    device.status = Some(after(&device, &first));
    let mut known = Known::default();
    let mut then = |finding: Finding| {
        known.take(&device, finding.clone(), &judge(&device, &finding, None));
        let row = Row {
            last_on: known.last_on,
            ..row("w1", Some(&finding))
        };
        let status = render(&device, &[row], |_, _| true, wall(100));
        let seen = [status.last_off_time, status.last_on_time];
        device.status = Some(status);
        seen.map(|it| it.map(Timestamp::as_second))
    };
    let silent = || found(node("w1", OURS, "Unknown"), Err(silence()));
    assert_eq!(then(first), [None, Some(100)]);
    for (why, finding, seen) in [
        (
            "another machine",
            probed(200, OTHER, PowerState::Off),
            [None, Some(100)],
        ),
        (
            "another machine",
            probed(205, OTHER, PowerState::On),
            [None, Some(100)],
        ),
        (
            "between",
            probed(210, OURS, PowerState::Transitional),
            [None, Some(210)],
        ),
        (
            "off",
            probed(220, OURS, PowerState::Off),
            [Some(220), Some(210)],
        ),
        (
            "on",
            probed(230, OURS, PowerState::On),
            [Some(220), Some(230)],
        ),
        ("silent", silent(), [Some(220), Some(230)]),
        (
            "off again",
            probed(250, OURS, PowerState::Off),
            [Some(250), Some(230)],
        ),
    ] {
        assert_eq!(then(finding), seen, "{why}");
    }
    assert_eq!(known.last_on, Some(wall(230)));
    // The status is written now and then only: what was read since is not lost with the next silence.
    let silent = silent();
    let known = Row {
        last_on: Some(wall(260)),
        ..row("w1", Some(&silent))
    };
    let status = render(&device, &[known], |_, _| true, wall(270));
    assert_eq!(status.last_on_time, Some(wall(260)));
    // Other settings may lead to another device.
    device.metadata.generation = Some(2);
    let status = after(&device, &silent);
    assert_eq!((status.last_off_time, status.last_on_time), (None, None));
}

/// In peace time.
fn worth(
    old: Option<&FenceDeviceStatus>,
    new: &FenceDeviceStatus,
    times_after: SignedDuration,
    requested: Option<Timestamp>,
) -> bool {
    worth_writing(old, new, times_after, requested, false)
}

#[test]
fn that_a_machine_was_found_off_is_news_once() {
    let seen = |off: Option<i64>| FenceDeviceStatus {
        last_off_time: off.map(wall),
        ..FenceDeviceStatus::default()
    };
    let after = SignedDuration::from_secs(300);
    let is_worth = |old, new| worth(Some(&seen(old)), &seen(new), after, None);
    assert!(is_worth(None, Some(100)));
    assert!(!is_worth(Some(100), Some(110)));
    // Each look at a machine that runs reads it.
    let on = |at| FenceDeviceStatus {
        last_on_time: Some(wall(at)),
        ..FenceDeviceStatus::default()
    };
    assert!(!worth(Some(&on(100)), &on(110), after, None));
    // Once an incident has begun it is read no more, and whoever gives a word goes by it.
    assert!(worth_writing(Some(&on(100)), &on(110), after, None, true));
    assert!(!worth_writing(Some(&on(110)), &on(110), after, None, true));
}

/// The clock of a BMC runs all the time: by itself it is no news.
#[test]
fn what_a_bmc_says_of_itself_is_shown_and_its_clock_is_no_news() {
    let probed = |device: i64, ours: i64| {
        let mut probe = answer(OURS).expect("an answer");
        probe.power_restore_policy = Some("LastState".to_owned());
        probe.cipher_suites = vec![3, 17];
        probe.clock = Some(DeviceClock {
            time: wall(device),
            ours: wall(ours),
        });
        after(&of_w1(), &found(node("w1", OURS, "True"), Ok(probe)))
    };
    let status = probed(900, 1000);
    let shown = BmcInfo {
        power_restore_policy: Some("LastState".to_owned()),
        cipher_suites: vec![3, 17],
        clock_time: Some(wall(900)),
        clock_ahead_seconds: Some(-100),
    };
    assert_eq!(status.bmc, Some(shown));
    let is_news = |change: fn(&mut BmcInfo)| {
        let mut new = probed(1200, 1250);
        new.bmc.as_mut().map(change).expect("what it says");
        worth(Some(&status), &new, SignedDuration::from_secs(300), None)
    };
    assert!(!is_news(|_| ()));
    assert!(is_news(|bmc| bmc.cipher_suites = vec![3]));
    assert!(is_news(
        |bmc| bmc.power_restore_policy = Some("AlwaysOn".to_owned())
    ));
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
        worth(
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
    assert!(worth(None, &old, after, None));
    assert!(!worth(Some(&old), &status(299, "redfish"), after, None));
    assert!(worth(Some(&old), &status(300, "redfish"), after, None));
    assert!(worth(Some(&old), &status(1, "ipmi"), after, None));
}
