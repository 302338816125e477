//! How the commands of one and of two processes are recorded.

use super::*;

/// S23: however many commands are refused after it, one that may still land is not forgotten.
#[test]
fn an_open_attempt_outlives_the_closed_ones() {
    let mut status = NodeFenceStatus::default();
    for number in 0..=2 * ATTEMPTS_KEPT {
        let mut attempt = attempt();
        attempt.id = format!("n1-{number}");
        intent(&mut status, &attempt, Timestamp::UNIX_EPOCH);
        let result = match number {
            0 => OffResult::Unknown("connection reset".to_owned()),
            _ => OffResult::NotSent("refused".to_owned()),
        };
        attempt.results.insert("bmc".to_owned(), result);
        outcome(&mut status, &attempt, Timestamp::UNIX_EPOCH);
    }
    let ids: Vec<_> = status
        .attempts
        .iter()
        .flat_map(|attempt| attempt.id.as_deref())
        .collect();
    assert_eq!(ids.len(), ATTEMPTS_KEPT);
    assert_eq!((ids[0], ids[1]), ("n1-0", "n1-52"));
    assert!(read(&status, Timestamp::UNIX_EPOCH).unresolved);
}

/// S23: what another process has sent is in the record for good; what became of the own command this process knows better.
#[test]
fn the_commands_of_two_processes_stand_side_by_side() {
    let (mut ours, mut theirs) = (NodeFenceStatus::default(), NodeFenceStatus::default());
    let (mut own, mut other) = (attempt(), attempt());
    other.id = "n2-1".to_owned();
    let at = Timestamp::UNIX_EPOCH;
    for status in [&mut ours, &mut theirs] {
        intent(status, &own, at);
    }
    intent(&mut theirs, &other, at);
    own.results.insert("bmc".to_owned(), OffResult::AlreadyOff);
    outcome(&mut ours, &own, at);
    adopt(&mut ours, theirs.clone(), Some(&own));
    let result = |attempt: &AttemptRecord| (attempt.id.clone(), attempt.result);
    let shared: Vec<_> = ours.attempts.iter().map(result).collect();
    let id = |attempt: &Attempt| Some(attempt.id.clone());
    let succeeded = Some(AttemptResult::Succeeded);
    assert_eq!(shared, [(id(&own), succeeded), (id(&other), None)]);
    assert_eq!(ours.attempt_count, Some(2));
    // The other process writes what became of its own.
    other
        .results
        .insert("bmc".to_owned(), OffResult::AlreadyOff);
    outcome(&mut theirs, &other, at);
    adopt(&mut ours, theirs, Some(&own));
    assert!(!read(&ours, at).unresolved);
}

/// The list has a limit in the CRD: what has ended and was left out is not brought back.
#[test]
fn what_two_processes_have_sent_is_no_longer_than_the_list_may_be() {
    let (mut ours, mut theirs) = (NodeFenceStatus::default(), NodeFenceStatus::default());
    let at = Timestamp::UNIX_EPOCH;
    for number in 0..ATTEMPTS_KEPT + 3 {
        let mut attempt = attempt();
        attempt.id = format!("n1-{number}");
        let refused = OffResult::NotSent("refused".to_owned());
        intent(&mut theirs, &attempt, at);
        // The last three were sent by the other process.
        if number < ATTEMPTS_KEPT {
            intent(&mut ours, &attempt, at);
        }
        attempt.results.insert("bmc".to_owned(), refused);
        outcome(&mut ours, &attempt, at);
        outcome(&mut theirs, &attempt, at);
    }
    theirs.confirmation_refused = Some("the BMC reads On".to_owned());
    adopt(&mut ours, theirs.clone(), None);
    assert_eq!(ours.attempts, theirs.attempts);
    assert_eq!(ours.confirmation_refused, theirs.confirmation_refused);
}

/// A list that has room: what is open is kept, what has ended and was left out stays out.
#[test]
fn only_what_may_still_land_is_put_back_into_the_record() {
    let (mut ours, at) = (NodeFenceStatus::default(), Timestamp::UNIX_EPOCH);
    let (mut ended, mut open) = (attempt(), attempt());
    ended.id = "n1-1".to_owned();
    open.id = "n1-2".to_owned();
    intent(&mut ours, &ended, at);
    intent(&mut ours, &open, at);
    ended
        .results
        .insert("bmc".to_owned(), OffResult::AlreadyOff);
    outcome(&mut ours, &ended, at);
    adopt(&mut ours, NodeFenceStatus::default(), None);
    let kept: Vec<_> = ours.attempts.iter().map(|it| it.id.clone()).collect();
    assert_eq!(kept, [Some("n1-2".to_owned())]);
}
