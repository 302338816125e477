//! When the power is looked at under the taint, and by which level.

use super::*;
use crate::escalation::Escalation;
use crate::memory::{LevelTries, UnderTaint};
use crate::plan::watch::has_power;

/// A machine that reads Off since `asked`, in a look that ended at `looked` seconds.
fn off(asked: u64, looked: u64) -> Memory {
    Memory {
        claim: Some(held(CLAIM_VALUE)),
        read_at: Duration::from_secs(looked),
        under_claim: ClaimScoped {
            evidence: true,
            answers: vec![answer(PowerState::Off, asked)],
            ..ClaimScoped::default()
        },
        taint: UnderTaint {
            seen: true,
            ..UnderTaint::default()
        },
        ..Memory::default()
    }
}

fn looks(s: &Settings, mut m: Memory, o: &Observed, seconds: u64) -> bool {
    let decision = decide(s, &mut m, o, seconds);
    let look = |order: &DeviceOrder| matches!(order, DeviceOrder::ReadPower);
    matches!(&decision.effect, Effect::Device { order, .. } if look(order))
}

#[test]
fn the_power_is_looked_at_every_ten_seconds_while_something_is_attached() {
    let (s, o) = (settings(FenceMode::PowerOff), observed(stuck()));
    assert!(!looks(&s, off(100, 100), &o, 109));
    assert!(looks(&s, off(100, 100), &o, 110));
}

#[test]
fn once_all_has_detached_it_is_looked_at_at_once_and_then_not_again_too_soon() {
    let (s, o) = (settings(FenceMode::PowerOff), observed(Vec::new()));
    let drained = |asked: u64, looked: u64, drained: u64| Memory {
        taint: UnderTaint {
            detached_at: Some(Duration::from_secs(drained)),
            ..off(asked, looked).taint
        },
        ..off(asked, looked)
    };
    // Asked before the last volume was let go: it does not count. At that moment or after it, it does.
    assert!(looks(&s, drained(99, 99, 100), &o, 100));
    assert!(!looks(&s, drained(100, 100, 100), &o, 100));
    // A look that began 9 s ago and ended 2 s ago is a look of now; so it is when it ended 5 s ago, and then no more.
    assert!(!looks(&s, drained(100, 107, 90), &o, 109));
    assert!(!looks(&s, drained(100, 104, 90), &o, 109));
    assert!(looks(&s, drained(100, 103, 90), &o, 109));
}

/// S14: the look before the release is later than the last time that something was attached.
#[test]
fn what_is_attached_again_waits_anew() {
    let s = settings(FenceMode::PowerOff);
    let mut m = off(100, 100);
    let mut drained_at = |attachments, seconds| {
        decide(&s, &mut m, &observed(attachments), seconds);
        m.taint.detached_at.map(|at| at.as_secs())
    };
    assert_eq!(drained_at(Vec::new(), 101), Some(101));
    assert_eq!(drained_at(Vec::new(), 102), Some(101));
    assert_eq!(drained_at(stuck(), 103), None);
    assert_eq!(drained_at(Vec::new(), 104), Some(104));
}

/// S14: as long as a look counts for the release.
#[test]
fn a_look_that_ended_five_seconds_ago_counts_for_the_release_and_no_older_one() {
    let s = settings(FenceMode::ConfirmOnly);
    for (now, counts) in [(104, true), (105, true), (106, false)] {
        let mut m = off(100, 100);
        m.taint.detached_at = Some(Duration::from_secs(98));
        let off = off_now(&s, &m, s.levels.first(), &moment(now));
        assert_eq!(off.is_ok(), counts, "at {now}: {off:?}");
    }
}

/// A device that does not answer leaves the next look to the next level.
#[test]
fn the_levels_take_turns_while_none_answers() {
    let mut s = settings(FenceMode::PowerOff);
    s.levels.push(Level {
        name: "second".to_owned(),
        ..s.levels[0].clone()
    });
    let after = |level: usize, is_silent: bool| {
        let mut m = Memory {
            tries: LevelTries {
                level,
                ..off(80, 80).tries
            },
            ..off(80, 80)
        };
        if is_silent {
            m.under_claim.answers[0].reading = Err("no answer".to_owned());
        }
        decide(&s, &mut m, &observed(stuck()), 100);
        m.tries.level
    };
    assert_eq!((after(0, true), after(1, true)), (1, 0));
    assert_eq!((after(0, false), after(1, false)), (0, 1));
}

/// A human's word has brought it here, and the machine came back: a device that can cut the power is asked, not the human.
#[test]
fn the_first_level_with_a_device_that_can_cut_the_power_takes_over_from_a_word() {
    let mut s = settings(FenceMode::PowerOff);
    let of = |name: &str, devices: Vec<Device>| Level {
        name: name.to_owned(),
        devices,
        ..s.levels[0].clone()
    };
    let device = s.levels[0].devices[0].clone();
    let hand = Device {
        name: "hand".to_owned(),
        manual: true,
        ..device.clone()
    };
    s.levels = vec![
        of("hand", vec![hand]),
        of("empty", Vec::new()),
        of("bmc", vec![device]),
    ];
    let mut m = Memory {
        claim: Some(held(CLAIM_VALUE)),
        under_claim: ClaimScoped {
            evidence: true,
            ..ClaimScoped::default()
        },
        tries: LevelTries {
            level: 0,
            ..LevelTries::default()
        },
        taint: UnderTaint {
            seen: true,
            ..UnderTaint::default()
        },
        ..Memory::default()
    };
    let mut back = observed(stuck());
    if let Read::Present(node) = &mut back.node {
        node.conditions[0].status = "True".to_owned();
    }
    decide(&s, &mut m, &back, 100);
    assert_eq!(m.tries.level, 2);
}

/// F36: it booted anew under the taint, so that it went down is certain, and nothing of what it was fenced for runs there.
#[test]
fn a_machine_that_has_booted_anew_has_not_come_back() {
    let called = |boot: &str| {
        let mut o = observed(stuck());
        if let Read::Present(node) = &mut o.node {
            boot.clone_into(&mut node.boot_id);
        }
        let mut m = Memory {
            under_claim: ClaimScoped {
                answers: vec![answer(PowerState::On, 99)],
                ..off(99, 99).under_claim
            },
            ..off(99, 99)
        };
        let decision = decide(&settings(FenceMode::ConfirmOnly), &mut m, &o, 100);
        decision.escalation.map(|(reason, _)| reason)
    };
    assert_eq!(called("boot"), Some(Escalation::FenceRegressed));
    assert_eq!(called("boot-2"), None);
}

/// Outlets are asked in their turn, and heard when they have proven the machine down. Of one that was turned off otherwise they say nothing,
/// and the turn goes on to whoever would know.
#[test]
fn outlets_that_did_not_turn_the_machine_off_do_not_say_that_it_came_back() {
    let mut s = settings(FenceMode::PowerOff);
    s.levels.push(Level {
        name: "pdu".to_owned(),
        ..fixtures::level()
    });
    s.levels[1].devices[0].name = "outlet".to_owned();
    s.levels[1].devices[0].outlets = true;
    s.levels[1].devices[0].identity = IdentityRule::Skip;
    for (proven, heard) in [(Some("outlet"), true), (Some("bmc"), false), (None, false)] {
        let mut said = answer(PowerState::On, 90);
        said.device.name = "outlet".to_owned();
        let m = Memory {
            claim: Some(held(CLAIM_VALUE)),
            read_at: Duration::from_secs(90),
            under_claim: ClaimScoped {
                evidence: true,
                proven_by: proven.iter().map(|it| (*it).to_owned()).collect(),
                answers: vec![said],
                ..ClaimScoped::default()
            },
            taint: UnderTaint {
                seen: true,
                ..UnderTaint::default()
            },
            tries: LevelTries {
                level: 1,
                ..LevelTries::default()
            },
            ..Memory::default()
        };
        let mut attached = m.clone();
        let decision = decide(&s, &mut attached, &observed(stuck()), 100);
        let is_told = decision
            .escalation
            .is_some_and(|(it, _)| it == Escalation::FenceRegressed);
        assert_eq!(is_told, heard, "{proven:?}");
        let is_sent = matches!(decision.effect, Effect::RecordIntent(_));
        assert_eq!(is_sent, heard, "{proven:?}: {:?}", decision.effect);
        // The level whose turn it is now.
        assert_eq!(attached.tries.level, usize::from(heard), "{proven:?}");
        // The release waits for one that knows, and says for which.
        let mut drained = m;
        drained.taint.detached_at = Some(Duration::from_secs(85));
        let message = off_now(&s, &drained, s.levels.get(1), &moment(91)).unwrap_err();
        assert!(
            message.starts_with("FenceDevice outlet reads On"),
            "{message}"
        );
        let asks_another = message.contains("outlets that did not turn the machine off");
        assert_eq!(asks_another, !heard, "{message}");
        let names_it = message.contains("have FenceDevice bmc answer, which confirmed it off");
        assert_eq!(names_it, proven == Some("bmc"), "{message}");
        let asks_these = message.contains("turn off these outlets too");
        assert_eq!(asks_these, proven.is_none(), "{message}");
    }
}

#[test]
fn after_a_restart_the_record_tells_which_devices_have_proven_the_machine_down() {
    let mut after_crash = settings(FenceMode::PowerOff);
    let devices = vec!["outlet".to_owned()];
    after_crash.record.proven_by = [("pdu".to_owned(), devices)].into();
    let mut m = Memory::default();
    decide(&after_crash, &mut m, &observed(stuck()), 100);
    assert_eq!(m.under_claim.proven_by, ["outlet"]);
}

/// S14, S15: what was read from a FenceDevice before it was corrected tells nothing of what it reads now: neither that the machine is off, nor
/// that it has come back.
#[test]
fn a_look_at_another_version_of_the_device_does_not_count() {
    let s = settings(FenceMode::PowerOff);
    for (state, version, is_off, came_back) in [
        (PowerState::Off, "uid-bmc/1", true, false),
        (PowerState::Off, "uid-bmc/0", false, false),
        (PowerState::On, "uid-bmc/1", false, true),
        (PowerState::On, "uid-bmc/0", false, false),
    ] {
        let mut m = off(100, 100);
        m.under_claim.answers = vec![answer(state, 100)];
        m.under_claim.answers[0].device.version = version.to_owned();
        assert_eq!(
            has_power(&s, &m).is_some(),
            came_back,
            "{state:?} {version}"
        );
        m.taint.detached_at = Some(Duration::from_secs(98));
        let off = off_now(&s, &m, s.levels.first(), &moment(101));
        assert_eq!(off.is_ok(), is_off, "{state:?} {version}: {off:?}");
    }
}

/// S4: a device that cannot tell, or tells of a fault, speaks neither for the machine's power nor for a release.
#[test]
fn a_release_needs_a_device_that_reads_exactly_off() {
    let s = settings(FenceMode::ConfirmOnly);
    let fault = || vec!["power supply failed".to_owned()];
    for (state, faults, is_off) in [
        (PowerState::Off, Vec::new(), true),
        (PowerState::Off, fault(), false),
        (PowerState::Unknown, Vec::new(), false),
        (PowerState::Transitional, Vec::new(), false),
        (PowerState::On, Vec::new(), false),
    ] {
        let mut said = answer(state, 99);
        if let Ok(reading) = &mut said.reading {
            reading.faults = faults.clone();
        }
        let m = Memory {
            read_at: Duration::from_secs(99),
            under_claim: looked(vec![said]),
            taint: UnderTaint {
                seen: true,
                detached_at: Some(Duration::from_secs(98)),
                ..UnderTaint::default()
            },
            ..Memory::default()
        };
        let off = off_now(&s, &m, s.levels.first(), &moment(100));
        assert_eq!(off.is_ok(), is_off, "{state:?} {faults:?}: {off:?}");
    }
}

/// L5: a list that cannot be had, before the release or when the Node is gone, is asked for at once, then quickly, then every two seconds.
#[test]
fn the_last_list_is_asked_for_at_a_pace_until_it_comes() {
    let s = crate::fixtures::asking(settings(FenceMode::ConfirmOnly), |it| {
        it.release.mode = ReleaseMode::AfterDetach
    });
    let here = observed(Vec::new());
    let gone = Observed {
        node: Read::Absent,
        ..here.clone()
    };
    for o in [here, gone] {
        let mut m = Memory {
            claim: Some(fixtures::own_claim(CLAIM_VALUE)),
            read_at: Duration::from_secs(99),
            under_claim: looked(vec![answer(PowerState::Off, 98)]),
            taint: UnderTaint {
                seen: true,
                detached_at: Some(Duration::from_secs(50)),
                ..UnderTaint::default()
            },
            ..Memory::default()
        };
        let mut pause = |attachments: Read<Vec<AttachmentView>>| {
            let o = Observed {
                attachments,
                ..o.clone()
            };
            let decision = decide(&s, &mut m, &o, 100);
            let wake = decision.wake.expect("a time");
            wake - Duration::from_secs(100)
        };
        let unread = || Read::Failed("HTTP 503".to_owned());
        assert_eq!(pause(Read::NotRead), Duration::ZERO);
        assert!(pause(unread()) > Duration::ZERO);
        for _ in 0..40 {
            pause(unread());
        }
        assert_eq!(pause(unread()), Duration::from_secs(2));
    }
}

/// L5: a machine that has booted anew is not asked what it does: attach/detach takes the volumes from it by itself.
#[test]
fn the_power_of_what_has_booted_anew_is_not_looked_at() {
    let s = settings(FenceMode::ConfirmOnly);
    let attached = AttachmentView {
        deleting: false,
        ..stuck().remove(0)
    };
    let mut o = observed(vec![attached]);
    assert!(looks(&s, off(10, 10), &o, 100));
    if let Read::Present(node) = &mut o.node {
        "boot-2".clone_into(&mut node.boot_id);
    }
    assert!(!looks(&s, off(10, 10), &o, 100));
}
