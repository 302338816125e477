//! The one command: hard, said once, and what its answers mean.

use super::*;
use fencing_core::reading::PowerState;
use fencing_testbed::ipmi::{Nonsense, Reply, Which};
use fencing_testbed::power::Power;

/// The control bytes of the power commands that arrived.
fn commands(bench: &Bench) -> Vec<u8> {
    let all = bench.bmc.power_commands();
    all.into_iter().map(|command| command.control).collect()
}

#[tokio::test]
async fn an_off_is_accepted_after_five_round_trips_in_both_suites() {
    for (suite, number) in [(Suite::Seventeen, 17), (Suite::Three, 3)] {
        let bench = bench_with(Settings::with_suite(suite));
        let driver = Ipmi::new(IpmiSettings {
            cipher_suite: number,
            ..bench.settings()
        });
        let mut session = driver.unwrap().open();
        let identity = session.prepare_off().await.unwrap();
        assert!(identity.is_system(UUID));
        assert!(bench.plug.is_on());
        assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
        assert_eq!(bench.round_trips(), 5, "{:?}", bench.bmc.log());
        assert!(!bench.plug.is_on());
        assert_eq!(
            commands(&bench),
            [0],
            "power down, nothing softer and no cycle"
        );
        assert_eq!(session.observe().await.unwrap().state, PowerState::Off);
        assert_eq!(bench.round_trips(), 7);
        drop(session);
        bench.assert_closed(1).await;
    }
}

#[tokio::test]
async fn nothing_is_switched_that_was_not_prepared() {
    let bench = bench();
    let mut session = bench.driver().open();
    assert_eq!(session.force_off().await.unwrap_err().reason(), "Refused");
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    assert_eq!(session.force_off().await.unwrap_err().reason(), "Refused");
    assert_eq!(commands(&bench), [0]);
}

#[tokio::test]
async fn already_off_is_a_claim_with_the_code_that_made_it() {
    let bench = bench();
    bench.plug.set_power(false);
    bench
        .bmc
        .faults(|faults| faults.already_off_code = Some(0xd5));
    let said = "0xd5, command not supported in present state".to_owned();
    assert_eq!(bench.power_off().await, Ok(OffOutcome::AlreadyOff { said }));
}

/// "Not in this state" is said of much else, and the power tells which.
#[tokio::test]
async fn already_off_of_a_machine_that_reads_on_is_unknown() {
    let bench = bench();
    let reply = Reply::new(Which::PowerOff, Nonsense::Code(0xd5));
    bench.bmc.faults(|faults| faults.replies.push(reply));
    let outcome = bench.power_off().await;
    let Ok(OffOutcome::Unknown(error)) = outcome else {
        panic!("{outcome:?}");
    };
    let words = error.to_string();
    assert!(
        words.contains("0xd5") && words.contains("reads On"),
        "{words}"
    );
    assert_eq!(commands(&bench), [0]);
}

#[tokio::test]
async fn a_definite_refusal_is_an_error_with_the_name_of_its_code() {
    for (code, reason, words) in [
        (0xc1, "Refused", "0xc1, invalid command"),
        (0xcc, "Refused", "0xcc, invalid data field in request"),
        (
            0xd4,
            "PermissionDenied",
            "0xd4, insufficient privilege level",
        ),
        (
            0xd6,
            "Refused",
            "0xd6, sub-function disabled or unavailable",
        ),
    ] {
        let bench = bench();
        let reply = Reply::new(Which::PowerOff, Nonsense::Code(code));
        bench.bmc.faults(|faults| faults.replies.push(reply));
        let error = bench.power_off().await.unwrap_err();
        assert_eq!(error.reason(), reason, "{code:#x}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(commands(&bench), [0]);
        bench.assert_closed(1).await;
    }
}

#[tokio::test]
async fn a_code_that_leaves_it_open_is_unknown() {
    for code in [0xc3, 0xce, 0xcf, 0xff] {
        let bench = bench();
        let reply = Reply::new(Which::PowerOff, Nonsense::Code(code));
        bench.bmc.faults(|faults| faults.replies.push(reply));
        let outcome = bench.power_off().await;
        assert!(
            matches!(outcome, Ok(OffOutcome::Unknown(_))),
            "{code:#x}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn a_command_without_an_answer_is_unknown_whatever_became_of_it() {
    let bench = bench();
    let silent = Reply::new(Which::PowerOff, Nonsense::Silence);
    bench.bmc.faults(|faults| faults.replies.push(silent));
    let outcome = power_off(&bench.impatient()).await;
    assert!(
        matches!(&outcome, Ok(OffOutcome::Unknown(error)) if error.reason() == "Timeout" && error.to_string().contains("fixed limit")),
        "{outcome:?}"
    );
    // The port closes while the command is under way.
    let bench = super::bench();
    let hold = bench.bmc.hold_next(Which::PowerOff);
    let mut session = bench.driver().open();
    session.prepare_off().await.unwrap();
    let (outcome, ()) = tokio::join!(session.force_off(), async {
        let arrived = |entry: &fencing_testbed::ipmi::Entry| entry.power_command() == Some(0);
        bench.bmc.wait_for(ENDLESS, arrived).await.unwrap();
        bench
            .bmc
            .set_line(fencing_testbed::https::Line::Refused)
            .unwrap();
    });
    assert!(
        matches!(&outcome, Ok(OffOutcome::Unknown(error)) if error.reason() == "Unreachable"),
        "{outcome:?}"
    );
    drop(hold);
}

/// The first copy of the command may have been taken, however definite the answer to the second is.
#[tokio::test]
async fn a_definite_answer_to_the_second_copy_leaves_the_first_open() {
    for codes in [vec![0xd5], vec![0xc1], vec![0xc0, 0xd4]] {
        let bench = bench();
        let lost = Reply::new(Which::PowerOff, Nonsense::Silence).times(1);
        let coded = |code: &u8| Reply::new(Which::PowerOff, Nonsense::Code(*code)).times(1);
        bench.bmc.faults(|faults| {
            faults.replies.push(lost);
            faults.replies.extend(codes.iter().map(coded));
        });
        let outcome = bench.power_off().await;
        let Ok(OffOutcome::Unknown(error)) = outcome else {
            panic!("{codes:02x?}: {outcome:?}");
        };
        let last = format!("{:#04x}", codes.last().unwrap());
        assert!(error.to_string().contains(&last), "{error}");
        assert_eq!(commands(&bench).len(), codes.len() + 1);
    }
}

/// S23: the copy without an answer may have turned the machine off just now.
#[tokio::test]
async fn already_off_in_answer_to_the_second_copy_is_unknown_of_a_machine_that_reads_off() {
    let bench = bench();
    bench.plug.set_power(false);
    let lost = Reply::new(Which::PowerOff, Nonsense::Silence).times(1);
    let already = Reply::new(Which::PowerOff, Nonsense::Code(0xd5)).times(1);
    bench
        .bmc
        .faults(|faults| faults.replies.extend([lost, already]));
    let outcome = bench.power_off().await;
    assert!(matches!(outcome, Ok(OffOutcome::Unknown(_))), "{outcome:?}");
    assert_eq!(commands(&bench).len(), 2);
}

#[tokio::test]
async fn a_node_that_is_busy_to_the_end_has_not_taken_the_command() {
    let bench = bench();
    let busy = Reply::new(Which::PowerOff, Nonsense::Code(0xc0));
    bench.bmc.faults(|faults| faults.replies.push(busy));
    // The login has all the time in the world, and only the command ends by its deadline. Where a copy of it is under way at that
    // moment, nobody can say what became of it, and it is tried again: that is a matter of the load.
    let settings = IpmiSettings {
        command_timeout: SHORT,
        ..bench.settings()
    };
    let driver = Ipmi::new(settings).unwrap();
    let begun = Instant::now();
    let error = loop {
        match power_off(&driver).await {
            Err(error) => break error,
            Ok(OffOutcome::Unknown(_)) => {
                assert!(begun.elapsed() < ENDLESS, "a copy is always under way");
            }
            outcome => panic!("{outcome:?}"),
        }
    };
    assert_eq!(error.reason(), "Busy");
    assert!(bench.plug.is_on());

    let bench = super::bench();
    let busy = Reply::new(Which::PowerOff, Nonsense::Code(0xc0)).times(3);
    bench.bmc.faults(|faults| faults.replies.push(busy));
    assert_eq!(bench.power_off().await, Ok(OffOutcome::Accepted));
}

#[tokio::test]
async fn a_command_whose_deadline_is_over_is_not_sent_late() {
    let bench = bench();
    let settings = IpmiSettings {
        command_timeout: Duration::from_millis(300),
        ..bench.settings()
    };
    let silent = Reply::new(Which::PowerOff, Nonsense::Silence);
    bench.bmc.faults(|faults| faults.replies.push(silent));
    let begun = Instant::now();
    let outcome = power_off(&Ipmi::new(settings).unwrap()).await;
    assert!(matches!(outcome, Ok(OffOutcome::Unknown(_))), "{outcome:?}");
    assert!(begun.elapsed() < ENDLESS);
    let sent = commands(&bench).len();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(commands(&bench).len(), sent);
}
