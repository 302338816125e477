//! Commands in an open session, over a network that loses, repeats, reorders and corrupts.

use super::*;
use crate::ipmi::codec::lan::Answer;
use proptest::prelude::*;

pub const POWER_DOWN: (u8, u8) = (0x00, 0x02);
const CLOSE: (u8, u8) = (0x06, 0x3c);

pub fn logged_in() -> Bench {
    let mut bench = Bench::new();
    assert_eq!(bench.log_in(), LOGGED_IN);
    bench.sent = 0;
    bench
}

/// Loses the first `count` datagrams.
pub fn losing(count: u32) -> Fate {
    let mut seen = 0;
    Box::new(move |datagram| {
        seen += 1;
        (seen > count)
            .then(|| datagram.to_vec())
            .into_iter()
            .collect()
    })
}

#[test]
fn a_command_that_is_sent_again_keeps_its_number_and_not_that_of_its_datagram() {
    let mut bench = logged_in();
    bench.answers = losing(2);
    let expected = Ok(Ok(Done::Answered(Completion::DONE, Vec::new())));
    assert_eq!(bench.command(command::power_down()), expected);
    let [(_, first, 1), (_, second, 2), (_, third, 3)] = bench.bmc.commands[..] else {
        panic!("{:?}", bench.bmc.commands);
    };
    assert!(first == second && second == third);
}

#[test]
fn a_further_command_has_a_number_of_its_own() {
    let mut bench = logged_in();
    for _ in 0..200 {
        assert_eq!(bench.status(), on());
    }
    let numbers: Vec<u8> = bench
        .bmc
        .commands
        .iter()
        .map(|(_, number, _)| *number)
        .collect();
    assert!(numbers.windows(2).all(|two| two[0] != two[1]));
    let sequences = bench.bmc.commands.iter().map(|(_, _, sequence)| *sequence);
    assert!(sequences.eq(1..=200));
}

#[test]
fn the_patience_is_the_least_time_before_a_command_is_sent_again() {
    let mut bench = logged_in();
    bench.requests = losing(1);
    let (begun, patience) = (bench.now, Duration::from_millis(1500));
    bench
        .session
        .command(command::power_down(), patience, begun);
    bench.run(Duration::from_secs(15)).unwrap().unwrap();
    assert_eq!(bench.now - begun, patience + bench.round_trip);
}

#[test]
fn a_busy_node_is_asked_again_as_a_new_command() {
    let mut bench = logged_in();
    bench.bmc.codes.insert((0x00, 0x01), vec![0xc0; 5]);
    assert_eq!(bench.status(), on());
    let mut numbers: Vec<u8> = bench
        .bmc
        .commands
        .iter()
        .map(|(_, number, _)| *number)
        .collect();
    assert_eq!(numbers.len(), 6);
    numbers.dedup();
    assert_eq!(numbers.len(), 6);
}

#[test]
fn a_storm_of_busy_ends_with_the_caller_s_deadline_and_is_no_uncertain_command() {
    let mut bench = logged_in();
    bench.bmc.codes.insert(POWER_DOWN, vec![0xc0; 10_000]);
    let storm = Err(Standing::Busy(Completion::BUSY));
    assert_eq!(bench.command(command::power_down()), storm);
    assert!(!bench.session.may_be_delivered());
    // With pauses that grow: fifteen seconds are not ten thousand commands.
    assert!((8..40).contains(&bench.sent), "{}", bench.sent);
}

#[test]
fn a_session_that_only_fails_its_integrity_check_is_told_from_silence_and_from_bad_luck() {
    // The last byte of a datagram belongs to its authentication code.
    let spoiling = |first: usize| -> Fate {
        let mut seen = 0;
        Box::new(move |datagram| {
            let mut datagram = datagram.to_vec();
            seen += 1;
            if seen > first {
                *datagram.last_mut().unwrap() ^= 1;
            }
            vec![datagram]
        })
    };
    for (answers, expected) in [
        (spoiling(0), Standing::Forged),
        (losing(1000), Standing::SessionUnanswered),
        // One answer has passed: the suite is not to blame.
        (spoiling(1), Standing::Unanswered),
    ] {
        let mut bench = logged_in();
        bench.answers = answers;
        let found = [bench.status(), bench.status()];
        assert_eq!(found.last(), Some(&Err(expected)), "{found:?}");
    }
    // A single wrong one is too little to tell.
    let mut bench = logged_in();
    let (mut spoil, mut seen) = (spoiling(0), 0);
    bench.answers = Box::new(move |datagram| {
        seen += 1;
        if seen == 1 {
            spoil(datagram)
        } else {
            Vec::new()
        }
    });
    assert_eq!(bench.status(), Err(Standing::SessionUnanswered));
}

#[test]
fn other_completion_codes_are_the_caller_s_business() {
    for code in [0xc1, 0xc3, 0xcc, 0xd4, 0xd5, 0xff] {
        let mut bench = logged_in();
        bench.bmc.codes.insert(POWER_DOWN, vec![code]);
        let expected = Ok(Ok(Done::Answered(Completion(code), Vec::new())));
        assert_eq!(bench.command(command::power_down()), expected);
        assert_eq!(bench.sent, 1);
    }
}

#[test]
fn a_replay_is_dropped_though_it_fits() {
    let mut bench = logged_in();
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for _ in 0..70 {
        bench
            .session
            .command(command::get_chassis_status(), Duration::ZERO, bench.now);
        let Next::Send(request) = bench.session.next(bench.now) else {
            panic!("nothing to send");
        };
        // Whatever was answered before is answered again, with numbers that come around after 64 commands.
        for old in &kept {
            assert_eq!(
                bench.session.receive(old, bench.now),
                Err(Malformed("it is a replay"))
            );
        }
        let answer = bench.bmc.answer(&request).unwrap();
        assert_eq!(bench.session.receive(&answer, bench.now), Ok(()));
        kept.push(answer);
        assert_eq!(bench.session.next(bench.now), Next::Done(on().unwrap()));
    }
}

#[test]
fn an_authentic_answer_to_another_question_is_dropped() {
    let mut bench = logged_in();
    bench
        .session
        .command(command::get_chassis_status(), Duration::ZERO, bench.now);
    let Next::Send(request) = bench.session.next(bench.now) else {
        panic!("nothing to send");
    };
    let right = bench.bmc.answer(&request).unwrap();
    let number = bench.bmc.commands[0].1;
    let others = [
        (0x01, 0x02, number),
        (0x07, 0x01, number),
        (0x01, 0x01, number ^ 1),
    ];
    for (function, command, sequence) in others {
        let answer = Answer {
            function,
            command,
            sequence,
            completion: 0,
            data: &[0x00, 0, 0],
        };
        let datagram = bench.bmc.seal(&answer).unwrap();
        assert_eq!(bench.session.receive(&datagram, bench.now), Err(STRAY));
    }
    assert_eq!(bench.session.receive(&right, bench.now), Ok(()));
    assert_eq!(bench.session.next(bench.now), Next::Done(on().unwrap()));
}

#[test]
fn a_session_is_closed_and_its_close_is_repeated_three_times_at_most() {
    let mut bench = logged_in();
    bench.session.close(bench.now);
    assert_eq!(bench.run(Duration::from_secs(15)), Ok(Ok(Done::Closed)));
    assert_eq!((bench.bmc.open, bench.sent), (0, 1));
    assert!(!bench.session.is_open());

    let mut bench = logged_in();
    bench.requests = losing(1000);
    bench.session.close(bench.now);
    assert_eq!(bench.run(Duration::from_secs(15)), Ok(Ok(Done::Closed)));
    assert_eq!(bench.sent, CLOSE_SENDS_MAX);
}

#[test]
fn a_session_can_be_closed_at_any_moment() {
    // After so many datagrams of ours, the answers to the last of which is lost.
    for after in 0..6 {
        let mut bench = Bench::new();
        bench.answers = {
            let mut count = 0;
            Box::new(move |datagram| {
                count += 1;
                (count < after)
                    .then(|| datagram.to_vec())
                    .into_iter()
                    .collect()
            })
        };
        bench.session.log_in(Privilege::User, bench.now);
        let _ = bench.run(Duration::from_millis(500));
        bench.answers = whole();
        bench.session.close(bench.now);
        assert_eq!(
            bench.run(Duration::from_secs(15)),
            Ok(Ok(Done::Closed)),
            "{after}"
        );
        assert_eq!(bench.bmc.open, 0, "after {after}");
        let closes = bench
            .bmc
            .commands
            .iter()
            .filter(|one| one.0 == CLOSE)
            .count();
        assert_eq!(closes, usize::from(after >= 3), "after {after}");
    }
}

#[test]
fn without_a_session_there_is_no_command() {
    let mut bench = Bench::new();
    assert_eq!(bench.status(), Ok(Err(Failure::NoSession)));
    assert_eq!(bench.sent, 0);
}

#[derive(Debug, Clone)]
enum Mishap {
    Nothing,
    Lost,
    Twice,
    Corrupt(prop::sample::Index, u8),
    /// It arrives after the next one, if there is one.
    Late,
}

fn mishaps() -> impl Strategy<Value = Vec<Mishap>> {
    let one = prop_oneof![
        4 => Just(Mishap::Nothing),
        2 => Just(Mishap::Lost),
        1 => Just(Mishap::Twice),
        1 => (any::<prop::sample::Index>(), 0_u8..8).prop_map(|(at, bit)| Mishap::Corrupt(at, bit)),
        1 => Just(Mishap::Late),
    ];
    prop::collection::vec(one, 0..12)
}

fn suffering(mishaps: Vec<Mishap>) -> Fate {
    let mut mishaps = mishaps.into_iter();
    let mut late: Vec<Vec<u8>> = Vec::new();
    Box::new(move |datagram| {
        let mut datagram = datagram.to_vec();
        let mut arriving = Vec::new();
        match mishaps.next().unwrap_or(Mishap::Nothing) {
            Mishap::Nothing => arriving.push(datagram),
            Mishap::Lost => {}
            Mishap::Twice => arriving.extend([datagram.clone(), datagram]),
            Mishap::Corrupt(at, bit) => {
                let at = at.index(datagram.len());
                datagram[at] ^= 1 << bit;
                arriving.push(datagram);
            }
            Mishap::Late => {
                late.push(datagram);
                return Vec::new();
            }
        }
        arriving.append(&mut late);
        arriving
    })
}

proptest! {
    #[test]
    fn in_a_session_mishaps_cost_time_and_nothing_else(requests in mishaps(), answers in mishaps()) {
        let mut bench = logged_in();
        bench.requests = suffering(requests);
        bench.answers = suffering(answers);
        for _ in 0..6 {
            bench.session.command(command::get_chassis_status(), Duration::ZERO, bench.now);
            prop_assert_eq!(bench.run(Duration::from_secs(60)), on());
        }
    }

    #[test]
    fn a_login_with_mishaps_ends_well_or_says_that_it_did_not(requests in mishaps(), answers in mishaps()) {
        let mut bench = Bench::new();
        bench.requests = suffering(requests);
        bench.answers = suffering(answers);
        bench.session.log_in(Privilege::User, bench.now);
        if bench.run(Duration::from_secs(120)) == LOGGED_IN {
            // Whatever was corrupted on the way, both sides have the same keys.
            bench.requests = whole();
            bench.answers = whole();
            prop_assert_eq!(bench.status(), on());
        }
    }

    #[test]
    fn no_datagram_panics_in_any_state(
        before in 0_u32..6,
        datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 1..20),
    ) {
        let mut bench = Bench::new();
        bench.answers = losing_after(before);
        bench.session.log_in(Privilege::User, bench.now);
        let _ = bench.run(Duration::from_millis(100));
        for datagram in datagrams {
            prop_assert!(bench.session.receive(&datagram, bench.now).is_err());
            let framed = [&[6, 0, 0xff, 7, 6][..], &datagram].concat();
            let _ = bench.session.receive(&framed, bench.now);
            let _ = bench.session.next(bench.now);
        }
    }
}

/// Loses everything after the first `count` datagrams.
fn losing_after(count: u32) -> Fate {
    let mut seen = 0;
    Box::new(move |datagram| {
        seen += 1;
        (seen <= count)
            .then(|| datagram.to_vec())
            .into_iter()
            .collect()
    })
}
