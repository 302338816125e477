//! What the removal of the taint waits for.

use super::*;

/// S14, S23: of the power, the volumes and the record each was looked at just now, and none of it in vain.
#[test]
fn a_release_needs_a_reading_of_now_and_the_record() {
    let s = fixtures::asking(settings(FenceMode::ConfirmOnly), |it| {
        it.release.mode = ReleaseMode::AfterDetach;
    });
    let is_released = |asked: u64, record: Read<bool>| {
        let o = Observed {
            attachments: Read::Present(Vec::new()),
            evidence: record,
            ..observed(Vec::new())
        };
        let mut m = Memory {
            claim: Some(fixtures::own_claim(CLAIM_VALUE)),
            read_at: Duration::from_secs(99),
            under_claim: looked(vec![answer(PowerState::Off, asked)]),
            taint: UnderTaint {
                seen: true,
                detached_at: Some(Duration::from_secs(50)),
                last_check: true,
                ..UnderTaint::default()
            },
            ..Memory::default()
        };
        let decision = decide(&s, &mut m, &o, 100);
        matches!(decision.effect, Effect::Release(_))
    };
    assert!(is_released(98, Read::Present(true)));
    assert!(!is_released(98, Read::Failed("500".to_owned())));
    // Its answer has been on the way, or its process stopped, for half a minute.
    assert!(!is_released(70, Read::Present(true)));
}

/// S23. It is woken at that very moment: if it waited on then, it would be woken for nothing.
#[test]
fn an_off_that_may_land_keeps_the_taint_until_its_time_is_over() {
    let mut m = Memory {
        taint: UnderTaint {
            seen: true,
            ..UnderTaint::default()
        },
        late: LateCommands {
            own_off_until: Some(Duration::from_secs(100)),
            ..LateCommands::default()
        },
        ..Memory::default()
    };
    let (s, o) = (settings(FenceMode::PowerOff), observed(Vec::new()));
    let mut keeps = |t: Moment| {
        let round = &mut Round::of(&s, &mut m, &o, &t);
        pending_off(round, &fixtures::node(), None).is_some()
    };
    assert!(keeps(moment(99)));
    assert!(!keeps(moment(100)));
}

/// S14: it may have been the end of a power cut before the last volume was let go, or its answer was half a minute on the way.
#[test]
fn a_reading_from_before_everything_had_detached_or_from_long_ago_is_none_of_the_release() {
    let s = settings(FenceMode::ConfirmOnly);
    for (drained, asked, counts) in [
        (98, 97, false),
        (98, 98, true),
        (98, 99, true),
        (50, 74, false),
        (50, 75, true),
    ] {
        let m = Memory {
            read_at: Duration::from_secs(99),
            under_claim: looked(vec![answer(PowerState::Off, asked)]),
            taint: UnderTaint {
                seen: true,
                detached_at: Some(Duration::from_secs(drained)),
                ..UnderTaint::default()
            },
            ..Memory::default()
        };
        let off = off_now(&s, &m, s.levels.first(), &moment(100));
        assert_eq!(off.is_ok(), counts, "{drained}, {asked}: {off:?}");
    }
}
