//! The login: what is asked, what is believed, and what each refusal becomes.

use super::bmc::GUID;
use super::*;
use crate::ipmi::codec::rakp::{Algorithms, Status};

const OPEN_SESSION: u8 = 0x10;
const RAKP1: u8 = 0x12;
const RAKP3: u8 = 0x14;

#[test]
fn a_login_takes_three_round_trips_in_both_suites() {
    for suite in [Suite::Sha256, Suite::Sha1] {
        let mut bench = Bench::of(suite);
        assert_eq!(bench.log_in(), LOGGED_IN);
        assert_eq!(bench.sent, 3, "{suite:?}");
        let peer = Some((GUID, Privilege::Operator));
        assert_eq!(bench.session.peer(), peer);
        assert!(bench.dropped.is_empty());
        assert_eq!(bench.status(), on());
        assert_eq!(bench.sent, 4, "{suite:?}");
        assert_eq!(bench.status(), on());
        assert_eq!(bench.sent, 5, "{suite:?}");
    }
}

#[test]
fn a_wrong_password_is_known_by_the_code_of_the_bmc_and_never_proven_to_it() {
    let mut bench = Bench::new();
    bench.bmc.password = b"another".to_vec();
    assert_eq!(bench.log_in(), Ok(Err(Failure::WrongPassword)));
    // RAKP message 1 twice; of RAKP message 3 only the refusal that frees the slot.
    assert_eq!(bench.bmc.received, [OPEN_SESSION, RAKP1, RAKP1, RAKP3]);
    assert_eq!(bench.bmc.refused_by_us, [0x0f]);
    assert!(!bench.session.is_open());
}

#[test]
fn a_wrong_code_and_then_silence_or_a_refusal_is_a_wrong_password_too() {
    let mut bench = Bench::new();
    bench.bmc.password = b"another".to_vec();
    bench.bmc.refusals.insert(RAKP1, vec![0, 0x02]);
    assert_eq!(bench.log_in(), Ok(Err(Failure::WrongPassword)));

    let mut bench = Bench::new();
    bench.bmc.password = b"another".to_vec();
    let mut answers = 0;
    bench.answers = Box::new(move |datagram| {
        answers += 1;
        (answers <= 2)
            .then(|| datagram.to_vec())
            .into_iter()
            .collect()
    });
    assert_eq!(bench.log_in(), Ok(Err(Failure::WrongPassword)));
    assert_eq!(bench.bmc.refused_by_us, [0x0f]);
}

#[test]
fn one_corrupt_datagram_in_a_login_is_no_failure() {
    for at in 0..3 {
        // The lowest bit of the last byte of each answer: an algorithm's reserved byte, and the codes.
        let mut bench = Bench::new();
        let mut answers = 0;
        bench.answers = Box::new(move |datagram| {
            let mut datagram = datagram.to_vec();
            if answers == at {
                // The status of the first answer, the code of the others.
                let place = if at == 0 { 17 } else { datagram.len() - 1 };
                datagram[place] ^= 1;
            }
            answers += 1;
            vec![datagram]
        });
        assert_eq!(bench.log_in(), LOGGED_IN, "answer {at}");
        assert_eq!(bench.status(), on(), "answer {at}");
    }
}

/// Some BMCs send the tag 0 whatever they were asked: the session's number and the code say whose answer it is.
#[test]
fn a_tag_of_zero_is_no_reason_to_drop_an_answer() {
    for answers in [&[0x11_u8][..], &[0x13], &[0x15], &[0x11, 0x13, 0x15]] {
        let mut bench = Bench::new();
        bench.answers = Box::new(move |datagram| {
            let mut datagram = datagram.to_vec();
            if answers.contains(&datagram[5]) {
                datagram[16] = 0;
            }
            vec![datagram]
        });
        assert_eq!(bench.log_in(), LOGGED_IN, "{answers:x?}");
        assert_eq!((bench.sent, bench.bmc.open), (3, 1), "{answers:x?}");
        assert_eq!(bench.status(), on());
    }
}

/// A code that is right proves itself, whatever the tag; a wrong code or a refusal under a foreign tag proves nothing.
#[test]
fn what_proves_nothing_by_itself_needs_its_tag() {
    let foreign = |datagram: &[u8]| {
        let mut foreign = datagram.to_vec();
        foreign[16] ^= 0x40;
        foreign
    };
    for payload in [OPEN_SESSION, RAKP1, RAKP3] {
        let mut bench = Bench::new();
        bench.bmc.refusals.insert(payload, vec![0x0d]);
        bench.answers = Box::new(move |datagram| vec![foreign(datagram)]);
        assert!(bench.log_in().is_err(), "{payload:#x}: it is waited for");
    }
    let mut bench = Bench::new();
    bench.bmc.password = b"another".to_vec();
    bench.answers = Box::new(move |datagram| vec![foreign(datagram)]);
    assert_eq!(bench.log_in(), Err(Standing::LoginUnanswered));
}

/// A BMC that has just restarted knows its users a moment later.
#[test]
fn a_refusal_is_asked_again_a_moment_later_and_believed_then() {
    for status in [0x0d, 0x09, 0x12] {
        let mut bench = Bench::new();
        bench.bmc.refusals.insert(RAKP1, vec![status]);
        let begun = bench.now;
        assert!(matches!(bench.log_in(), Ok(Err(Failure::Refused(..)))));
        let took = bench.now - begun;
        assert!(took >= Duration::from_millis(500), "{took:?}");
    }
}

#[test]
fn each_status_ends_the_login_as_what_it_is() {
    for (payload, stage) in [
        (OPEN_SESSION, Stage::OpenSession),
        (RAKP1, Stage::Rakp2),
        (RAKP3, Stage::Rakp4),
    ] {
        for status in (0x01..=0x12).chain([0x7f, 0xff]) {
            let mut bench = Bench::new();
            bench.bmc.refusals.insert(payload, vec![status]);
            let expected = Failure::Refused(stage, Status(status));
            assert_eq!(bench.log_in(), Ok(Err(expected)), "{status:#x}");
            let asked = bench.bmc.received.iter();
            let asked = asked.filter(|one| **one == OPEN_SESSION).count();
            let expected = match status {
                // The table is full.
                0x01 | 0x0b => 3,
                // The BMC has forgotten the session.
                0x02 | 0x08 => 4,
                // What a single datagram says is not believed.
                _ => 2,
            };
            assert_eq!(asked, expected, "{status:#x} at {stage:?}");
        }
    }
}

#[test]
fn a_refusal_that_comes_once_is_asked_again() {
    for payload in [OPEN_SESSION, RAKP1, RAKP3] {
        for status in [0x01, 0x02, 0x0a, 0x0d, 0x0f, 0x11] {
            let mut bench = Bench::new();
            bench.bmc.refusals.insert(payload, vec![status, 0]);
            assert_eq!(bench.log_in(), LOGGED_IN, "{status:#x} to {payload:#x}");
            assert_eq!(bench.status(), on());
        }
    }
}

#[test]
fn a_full_table_is_asked_again_with_growing_pauses() {
    let mut bench = Bench::new();
    bench.bmc.refusals.insert(OPEN_SESSION, vec![0x01]);
    let begun = bench.now;
    let expected = Failure::Refused(Stage::OpenSession, Status::NO_RESOURCES);
    assert_eq!(bench.log_in(), Ok(Err(expected)));
    let took = bench.now - begun;
    assert!(took >= Duration::from_millis(750), "{took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn other_algorithms_than_asked_for_are_never_used() {
    let Algorithms {
        authentication,
        integrity,
        confidentiality,
    } = Suite::Sha256.algorithms();
    let weaker = [
        // Suite 0, none of the three; without encryption; without integrity; suite 3.
        (0, 0, 0),
        (authentication, integrity, 0),
        (authentication, 0, confidentiality),
        (1, 1, 1),
    ];
    for (authentication, integrity, confidentiality) in weaker {
        let algorithms = Algorithms {
            authentication,
            integrity,
            confidentiality,
        };
        let mut bench = Bench::new();
        bench.bmc.chooses = Some(algorithms);
        assert_eq!(bench.log_in(), Ok(Err(Failure::OtherSuite(algorithms))));
        assert_eq!(bench.bmc.received, [OPEN_SESSION; 2]);
    }
}

#[test]
fn a_key_of_the_bmc_s_own_is_told_from_a_wrong_password() {
    let mut bench = Bench::new();
    bench.bmc.bmc_key = Some(b"kg".to_vec());
    assert_eq!(bench.log_in(), Ok(Err(Failure::BmcKey)));
    assert!(!bench.session.is_open());
}

#[test]
fn silence_stands_for_what_was_heard_before_it() {
    let mut bench = Bench::new();
    bench.bmc.silent_to = Some(OPEN_SESSION);
    assert_eq!(bench.log_in(), Err(Standing::Silent));
    assert!(bench.sent > 5, "{}", bench.sent);

    let mut bench = Bench::new();
    bench.bmc.silent_to = Some(RAKP1);
    assert_eq!(bench.log_in(), Err(Standing::LoginUnanswered));
    let opened = bench.bmc.received.iter();
    let opened = opened.filter(|one| **one == OPEN_SESSION).count();
    // It may have forgotten the session; and it keeps each that is never used.
    assert_eq!(opened, 2);

    let session = session();
    assert_eq!(session.standing(), Standing::Unsent);
}

#[test]
fn a_bmc_that_answers_rakp_1_twice_is_followed_to_its_last_random_number() {
    let mut bench = Bench::new();
    // RAKP message 1 arrives twice; the first answer comes before the second one.
    bench.requests = Box::new(|datagram| {
        let copies = if datagram[5] == RAKP1 { 2 } else { 1 };
        vec![datagram.to_vec(); copies]
    });
    assert_eq!(bench.log_in(), LOGGED_IN);
    assert_eq!(bench.status(), on());
}

#[test]
fn answers_to_something_else_are_dropped() {
    // Every answer comes with a foreign tag, a foreign session, and twice.
    for place in [16, 20] {
        let mut bench = Bench::new();
        bench.answers = Box::new(move |datagram| {
            let mut foreign = datagram.to_vec();
            foreign[place] ^= 0x40;
            vec![foreign, datagram.to_vec(), datagram.to_vec()]
        });
        assert_eq!(bench.log_in(), LOGGED_IN, "byte {place}");
        assert_eq!(bench.sent, 3);
        assert_eq!(bench.dropped.len(), 6, "{:?}", bench.dropped);
    }
}

#[test]
fn a_login_survives_the_loss_of_any_datagram() {
    for lost in 0..6 {
        let mut bench = Bench::new();
        let mut count = 0;
        let drop_one = move |datagram: &[u8]| {
            count += 1;
            (count != lost / 2 + 1)
                .then(|| datagram.to_vec())
                .into_iter()
                .collect()
        };
        if lost % 2 == 0 {
            bench.requests = Box::new(drop_one);
        } else {
            bench.answers = Box::new(drop_one);
        }
        assert_eq!(bench.log_in(), LOGGED_IN, "{lost}");
        assert_eq!(bench.status(), on(), "{lost}");
        assert_eq!(bench.bmc.open, 1, "{lost}");
    }
}

#[test]
fn without_random_numbers_nothing_is_sent() {
    let account = account(Suite::Sha256, PASSWORD);
    let mut session = Session::new(account, Box::new(|| None));
    session.log_in(Privilege::User, Duration::ZERO);
    let failed = Next::Done(Err(Failure::Unsendable(NO_RANDOMNESS)));
    assert_eq!(session.next(Duration::ZERO), failed);
    assert_eq!(session.next(Duration::ZERO), Next::Idle);
}

#[test]
fn nothing_secret_is_shown() {
    let mut bench = Bench::new();
    assert_eq!(bench.log_in(), LOGGED_IN);
    let shown = format!("{:?}", bench.session);
    for secret in ["horse", "99", "111, 114"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
