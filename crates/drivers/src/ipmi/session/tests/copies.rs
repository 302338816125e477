//! A command that was sent more than once: what is known of each copy.

use super::commands::{POWER_DOWN, logged_in, losing};
use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_busy_answer_to_one_of_two_copies_leaves_the_other_open() {
    let mut bench = logged_in();
    bench.bmc.codes.insert(POWER_DOWN, vec![0xc0; 10_000]);
    bench.requests = losing(1);
    assert!(bench.command(command::power_down()).is_err());
    assert!(bench.session.may_be_delivered());
}

#[test]
fn the_answer_to_one_copy_does_not_speak_for_another() {
    // The codes of the copies, how many answers are lost, and whether that leaves one open.
    for (codes, lost, is_open) in [
        (vec![0xd5], 0, false),
        (vec![0x00, 0xd5], 1, true),
        (vec![0x00, 0xc1], 1, true),
        (vec![0x00, 0xc0, 0xd4], 1, true),
        (vec![0xc0, 0xc0, 0xd4], 0, false),
    ] {
        let mut bench = logged_in();
        let last = Completion(*codes.last().unwrap());
        bench.bmc.codes.insert(POWER_DOWN, codes.clone());
        bench.answers = losing(lost);
        let answered = Ok(Ok(Done::Answered(last, Vec::new())));
        assert_eq!(bench.command(command::power_down()), answered);
        assert_eq!(bench.session.may_be_delivered(), is_open, "{codes:02x?}");
        // The next command begins anew.
        assert_eq!(bench.status(), on());
        assert!(!bench.session.may_be_delivered());
    }
}

#[test]
fn a_command_that_cannot_be_sent_again_may_be_delivered_and_one_that_never_was_is_not() {
    for copies in 0..2 {
        let has_numbers = Arc::new(AtomicBool::new(true));
        let numbers = Arc::clone(&has_numbers);
        let random = move || numbers.load(Ordering::Relaxed).then_some([7; 16]);
        let mut bench = Bench::new();
        bench.session = Session::new(account(Suite::Sha256, PASSWORD), Box::new(random));
        assert_eq!(bench.log_in(), LOGGED_IN);
        let mut left = copies;
        has_numbers.store(left > 0, Ordering::Relaxed);
        bench.requests = Box::new(move |_| {
            left -= 1;
            has_numbers.store(left > 0, Ordering::Relaxed);
            Vec::new()
        });
        let unsendable = Ok(Err(Failure::Unsendable(NO_RANDOMNESS)));
        assert_eq!(bench.command(command::power_down()), unsendable);
        assert_eq!(bench.session.may_be_delivered(), copies > 0);
    }
}

#[test]
fn a_command_without_an_answer_may_be_delivered() {
    let mut bench = logged_in();
    assert_eq!(bench.status(), on());
    bench.answers = losing(1000);
    assert_eq!(
        bench.command(command::power_down()),
        Err(Standing::Unanswered)
    );
    assert!(bench.session.may_be_delivered());
    assert!(bench.bmc.commands.len() > 3);
}
