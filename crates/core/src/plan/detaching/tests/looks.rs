//! When the power is read once more, and what is waited for in between.

use super::*;
use crate::memory::{Busy, UnderTaint};
use crate::plan::Observed;
use crate::plan::round::Round;
use crate::plan::tries::current_level;

fn anew() -> NodeView {
    NodeView {
        boot_id: "boot-2".to_owned(),
        ..marked()
    }
}

fn looks_at(m: &mut Memory, o: &Observed, now: Duration) -> bool {
    let decision = step(&of_deletion(), m, o, &moment(now));
    matches!(decision.effect, Effect::Device { .. })
}

fn unread() -> Memory {
    Memory {
        under_claim: ClaimScoped {
            answers: Vec::new(),
            ..memory().under_claim
        },
        ..memory()
    }
}

fn stuck_pod(uid: &str) -> PodView {
    PodView {
        attachable: true,
        deleting: true,
        uid: uid.to_owned(),
        ..pod("db-0")
    }
}

/// S1: no pod with a volume is left since then. One that may run takes it back, and a list that could not be read says nothing.
#[test]
fn readings_count_since_no_pod_is_left() {
    let noted = |before: Option<u64>, hindrance: Option<Hindrance>| {
        let mut m = Memory {
            taint: UnderTaint {
                pods_gone_at: before.map(seconds),
                terminating: ["uid-a".to_owned()].into(),
                ..UnderTaint::default()
            },
            ..Memory::default()
        };
        note_pods_gone(&mut m, hindrance.as_ref(), seconds(14));
        (m.taint.pods_gone_at, m.taint.terminating.len())
    };
    let runs = PodView {
        deleting: false,
        ..stuck_pod("uid-a")
    };
    for before in [None, Some(10)] {
        let known = before.map(seconds);
        let since = known.unwrap_or(seconds(14));
        let pods = |pods: Vec<PodView>| Some(Hindrance::Pods(pods));
        assert_eq!(noted(before, pods(vec![runs.clone()])), (None, 0));
        let both = vec![runs.clone(), stuck_pod("uid-b")];
        assert_eq!(noted(before, pods(both)), (None, 0));
        assert_eq!(
            noted(before, pods(vec![stuck_pod("uid-a")])),
            (Some(since), 1)
        );
        // Another one has come.
        let another = pods(vec![stuck_pod("uid-b")]);
        assert_eq!(noted(before, another), (Some(seconds(14)), 1));
        for hindrance in [Hindrance::NotRead("pods".to_owned()), Hindrance::LastList] {
            assert_eq!(noted(before, Some(hindrance)), (known, 1));
        }
        assert_eq!(noted(before, None), (Some(since), 0));
        let attached = Hindrance::Attachments(vec![attachment(false)]);
        assert_eq!(noted(before, Some(attached)), (Some(since), 0));
    }
}

/// L3, L5: the power of what has booted anew is read only where something may be taken from it.
#[test]
fn a_machine_that_is_dark_again_is_read_for_what_can_be_taken() {
    let stuck = |m: &mut Memory| m.taint.terminating = ["uid-a".to_owned()].into();
    let mut pods = observed(anew());
    pods.pods = Read::Present(vec![stuck_pod("uid-a")]);
    let mut m = unread();
    stuck(&mut m);
    assert!(looks_at(&mut m, &pods, seconds(14)));
    // One with finalizers is in nobody's hands.
    let mut held = pods.clone();
    held.pods = Read::Present(vec![PodView {
        finalizers: true,
        ..stuck_pod("uid-a")
    }]);
    let mut m = unread();
    stuck(&mut m);
    assert!(!looks_at(&mut m, &held, seconds(14)));
    // All have been deleted already.
    let mut begun = observed(anew());
    begun.attachments_cached = vec![attachment(true)];
    assert!(!looks_at(&mut unread(), &begun, seconds(14)));
    let mut busy = unread();
    busy.commands.busy = Some(Busy {
        order: 1,
        commands: false,
    });
    assert!(!looks_at(&mut busy, &observed(anew()), seconds(14)));
}

/// L5: a reading that counts is made anew after half a period, one that failed after a whole one, and one from before the pods had gone at once.
#[test]
fn what_was_read_is_read_again_at_its_time() {
    let o = observed(anew());
    let at = |m: &Memory, now: Duration| looks_at(&mut m.clone(), &o, now);
    let (half, whole) = (WATCH_PERIOD / 2, WATCH_PERIOD);
    let just_before = |due: Duration| due - Duration::from_nanos(1);
    let read = memory();
    assert!(!at(&read, just_before(read.read_at + half)));
    assert!(at(&read, read.read_at + half));
    let mut failed = memory();
    failed.under_claim.answers[0].reading = Err("no route".to_owned());
    assert!(!at(&failed, just_before(failed.read_at + whole)));
    assert!(at(&failed, failed.read_at + whole));
    // Asked for in the very moment when the last pod had gone.
    let asked = read.under_claim.answers[0]
        .reading
        .as_ref()
        .map(|it| it.asked);
    let asked = asked.expect("a reading");
    let pods_gone_at = |since: Duration| Memory {
        taint: UnderTaint {
            pods_gone_at: Some(since),
            ..memory().taint
        },
        ..memory()
    };
    assert!(!at(&pods_gone_at(asked), seconds(14)));
    assert!(at(
        &pods_gone_at(asked + Duration::from_nanos(1)),
        seconds(14)
    ));
}

/// The cache shows a VolumeAttachment that a quorum LIST does not: there is nothing to delete, and the end comes when the cache has heard of it.
#[test]
fn what_has_gone_already_is_not_deleted() {
    let mut o = observed(marked());
    o.attachments = Read::Present(vec![attachment(true)]);
    let decision = decide(&of_deletion(), &mut memory(), &o);
    assert_eq!(decision.effect, Effect::Wait);
    assert!(decision.wake.is_some_and(|at| at > seconds(14)));
}

/// L5: a list that cannot be had is asked for at a pace, and its error is told all the time.
#[test]
fn a_list_that_cannot_be_had_is_asked_for_at_a_pace() {
    let mut o = observed(marked());
    o.attachments = Read::Failed("HTTP 503".to_owned());
    let mut m = memory();
    for _ in 0..2 {
        let decision = decide(&of_deletion(), &mut m, &o);
        assert!(decision.message.contains("HTTP 503"), "{decision:?}");
        assert!(decision.wake.is_some_and(|at| at > seconds(14)));
    }
    // Not asked for yet: at once.
    o.attachments = Read::NotRead;
    let mut m = Memory {
        taint: UnderTaint {
            lists_attachments: false,
            ..memory().taint
        },
        ..memory()
    };
    let decision = decide(&of_deletion(), &mut m, &o);
    assert!(m.taint.lists_attachments);
    assert_eq!(decision.wake, Some(seconds(14)));
}

/// S14: what was read is proof for so long, and no moment longer; then it is read again, within a second.
#[test]
fn a_node_is_deleted_while_its_reading_lives() {
    let (mut m, _) = emptied();
    let asked = m.under_claim.answers[0].reading.as_ref().map(|it| it.asked);
    let end = asked.expect("a reading") + PROOF_LIFE;
    // Its device has taken its time to answer.
    m.read_at = end;
    let s = of_deletion();
    let (o, t) = (drained(), moment(seconds(14)));
    let level = current_level(&mut Round::of(&s, &mut m.clone(), &o, &t));
    let may = |now: Duration| {
        let (mut m, t) = (m.clone(), moment(now));
        may_go(&Round::of(&s, &mut m, &o, &t), &marked(), level.as_ref())
    };
    assert_eq!(may(end - Duration::from_nanos(1)), Ok(end));
    assert!(may(end).is_err());
    let (mut blind, _) = emptied();
    blind.under_claim.answers.clear();
    let round = &mut Round::of(&s, &mut blind, &o, &t);
    let decision = delete(round, &marked(), CLAIM_VALUE, level.as_ref());
    assert_eq!(decision.wake, Some(seconds(15)), "{decision:?}");
}
