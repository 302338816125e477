//! Elections as stories: who takes the Lease, who leaves it alone, who stops.

use super::*;
use proptest::prelude::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn candidate(name: &str) -> Election {
    Election::new(name.to_owned(), Times::default())
}

fn lease(holder: &str, renewed: &str) -> Record {
    Record {
        uid: "uid-1".to_owned(),
        holder: holder.to_owned(),
        duration: seconds(15),
        acquired: "long ago".to_owned(),
        renewed: renewed.to_owned(),
        transitions: 3,
    }
}

#[test]
fn the_first_one_creates_it_and_renews_it() {
    let mut a = candidate("a");
    a.saw(None, seconds(100));
    assert_eq!(a.decide(seconds(100)), Turn::Take { transitions: 0 });
    assert!(!a.leads(seconds(100)));
    a.wrote(lease("a", "1"), seconds(100));
    assert!(a.leads(seconds(109)));
    assert_eq!(a.decide(seconds(102)), Turn::Renew);
}

/// L4: and not a moment sooner.
#[test]
fn a_lease_is_free_once_nobody_has_changed_it_for_its_duration() {
    let mut b = candidate("b");
    b.saw(Some(lease("a", "1")), seconds(100));
    b.saw(Some(lease("a", "1")), seconds(114));
    assert_eq!(b.decide(seconds(114)), Turn::Wait);
    assert_eq!(b.decide(seconds(115)), Turn::Take { transitions: 4 });
    b.saw(Some(lease("a", "2")), seconds(114));
    assert_eq!(b.decide(seconds(128)), Turn::Wait);
    assert_eq!(b.decide(seconds(129)), Turn::Take { transitions: 4 });
}

#[test]
fn who_releases_it_is_followed_at_once() {
    let mut b = candidate("b");
    b.saw(Some(lease("a", "1")), seconds(100));
    b.saw(Some(lease("", "2")), seconds(101));
    assert_eq!(b.decide(seconds(101)), Turn::Take { transitions: 4 });
}

/// F11, F13: the time since boot goes on while the process is stopped or the host sleeps.
#[test]
fn who_has_not_renewed_it_in_time_stops_by_itself() {
    let mut a = candidate("a");
    a.wrote(lease("a", "1"), seconds(100));
    assert!(a.leads(seconds(109)));
    assert!(!a.leads(seconds(110)));
    // It is still written into it: it may take it again, as a new term.
    assert_eq!(a.decide(seconds(110)), Turn::Take { transitions: 3 });
}

/// What the log and the metrics say of it.
#[test]
fn a_replica_tells_its_name_its_times_and_who_leads() {
    let times = Times {
        lease: seconds(4),
        ..Times::default()
    };
    let mut a = Election::new("a".to_owned(), times);
    assert_eq!((a.own(), a.holder()), ("a", None));
    assert_eq!(a.times(), times);
    a.saw(Some(lease("b", "1")), seconds(100));
    assert_eq!(a.holder(), Some("b"));
    a.saw(Some(lease("", "2")), seconds(101));
    assert_eq!(a.holder(), None);
}

/// It gives the Lease back only once its tasks have ended.
#[test]
fn who_steps_down_leads_no_more_though_the_lease_still_names_it() {
    let mut a = candidate("a");
    a.wrote(lease("a", "1"), seconds(100));
    a.step_down();
    assert!(!a.leads(seconds(101)));
    assert_eq!(a.holder(), Some("a"));
}

/// F10: at once, not only at its own deadline.
#[test]
fn who_finds_somebody_else_in_it_stops() {
    let mut a = candidate("a");
    a.wrote(lease("a", "1"), seconds(100));
    a.saw(Some(lease("b", "2")), seconds(101));
    assert!(!a.leads(seconds(101)));
    assert_eq!(a.decide(seconds(101)), Turn::Wait);
}

/// A container that starts again in its pod has the pod's name, and its former process is gone.
#[test]
fn who_starts_again_under_its_own_name_need_not_wait() {
    let mut a = candidate("a");
    a.saw(Some(lease("a", "1")), seconds(100));
    assert!(!a.leads(seconds(100)));
    assert_eq!(a.decide(seconds(100)), Turn::Take { transitions: 3 });
}

/// F14, F15: the times in it mean nothing, and neither does a duration of a year.
#[test]
fn a_forged_lease_is_free_in_time() {
    let mut b = candidate("b");
    let forged = Record {
        duration: seconds(365 * 86_400),
        ..lease("nobody", "2099-01-01T00:00:00Z")
    };
    b.saw(Some(forged), seconds(100));
    assert_eq!(b.decide(seconds(399)), Turn::Wait);
    assert_eq!(b.decide(seconds(400)), Turn::Take { transitions: 4 });
    // Nor one of no time at all: its holder may live.
    let hasty = Record {
        duration: Duration::ZERO,
        ..lease("a", "1")
    };
    b.saw(Some(hasty), seconds(500));
    assert_eq!(b.decide(seconds(514)), Turn::Wait);
    assert_eq!(b.decide(seconds(515)), Turn::Take { transitions: 4 });
}

/// F15: its leader goes on until its deadline, and puts a new one in its place.
#[test]
fn a_deleted_lease_is_created_again() {
    let mut a = candidate("a");
    a.wrote(lease("a", "1"), seconds(100));
    a.saw(None, seconds(102));
    assert!(a.leads(seconds(102)));
    assert_eq!(a.decide(seconds(102)), Turn::Take { transitions: 0 });
    // Created anew by somebody else: another Lease, though it says the same.
    let mut b = candidate("b");
    b.saw(Some(lease("a", "1")), seconds(100));
    let anew = Record {
        uid: "uid-2".to_owned(),
        ..lease("a", "1")
    };
    b.saw(Some(anew), seconds(110));
    assert_eq!(b.decide(seconds(124)), Turn::Wait);
}

mod properties {
    use super::*;
    use crate::fixtures::cases;

    proptest! {
        #![proptest_config(cases())]

        /// Where requests are answered at once, no two candidates lead together: who takes it from a holder has seen it unchanged for longer than
        /// that one works without a renewal. They look whenever they like, and stand still for as long as they like.
        #[test]
        fn two_never_lead_together_where_nobody_forges(
            looks in prop::collection::vec((0usize..3, 0u64..12_000, any::<bool>()), 1..60),
        ) {
            let mut candidates = ["a", "b", "c"].map(candidate);
            let mut stored: Option<Record> = None;
            let mut now = Duration::from_secs(1000);
            for (who, pause, writes) in looks {
                now += Duration::from_millis(pause);
                let one = &mut candidates[who];
                one.saw(stored.clone(), now);
                let transitions = match one.decide(now) {
                    Turn::Wait => continue,
                    Turn::Take { transitions } => transitions,
                    Turn::Renew => stored.as_ref().map_or(0, |it| it.transitions),
                };
                if writes {
                    let written = Record { transitions, ..lease(one.own(), &format!("{now:?}")) };
                    stored = Some(written.clone());
                    one.wrote(written, now);
                }
                let leaders = candidates.iter().filter(|it| it.leads(now)).count();
                prop_assert!(leaders <= 1, "{leaders} lead at {now:?}");
            }
        }
    }
}
