//! Reading the power: what counts as off, who answers, and how often the BMC is asked for it.

use super::*;
use fencing_core::reading::PowerState;
use fencing_testbed::ipmi::{GuidForm, Nonsense, PowerBit, Reply, Which};
use fencing_testbed::power::Power;

#[tokio::test]
async fn a_status_takes_four_round_trips_and_a_further_one_takes_one() {
    for (suite, number) in [(Suite::Seventeen, 17), (Suite::Three, 3)] {
        let bench = bench_with(Settings::with_suite(suite));
        let driver = Ipmi::new(IpmiSettings {
            cipher_suite: number,
            ..bench.settings()
        });
        let mut session = driver.unwrap().open();
        let reading = session.observe().await.unwrap();
        assert_eq!(reading.state, PowerState::On);
        assert_eq!(bench.round_trips(), 4, "{:?}", bench.bmc.log());
        bench.plug.set_power(false);
        let reading = session.observe().await.unwrap();
        assert_eq!(reading.state, PowerState::Off);
        assert_eq!(reading.raw, "chassis status 0x00, power off");
        // And Get ACPI Power State beside an off, once where the BMC does not have it.
        assert_eq!(bench.round_trips(), 6);
        session.observe().await.unwrap();
        assert_eq!(bench.round_trips(), 7);
        drop(session);
        bench.assert_closed(1).await;
    }
}

#[tokio::test]
async fn the_guid_of_the_login_is_the_machine_in_every_byte_order() {
    for form in [GuidForm::Smbios, GuidForm::Rfc4122, GuidForm::Reversed] {
        let bench = bench();
        bench.bmc.faults(|faults| faults.guid_in_rakp = form);
        let identity = bench.driver().open().prepare_off().await.unwrap();
        assert!(identity.is_system(UUID), "{form:?}: {identity:?}");
        assert!(!identity.is_system("4c4c4544-0042-3510-8054-b4c04f4e4e32"));
    }
    let bench = bench();
    bench
        .bmc
        .faults(|faults| faults.guid_in_rakp = GuidForm::Zeros);
    let reading = bench.read().await.unwrap();
    assert_eq!(reading.identity.system_uuid, None);
    bench
        .bmc
        .faults(|faults| faults.guid_in_rakp = GuidForm::Ones);
    let reading = bench.read().await.unwrap();
    assert!(!reading.identity.usable());
}

#[tokio::test]
async fn off_with_a_fault_or_an_interlock_says_so() {
    let bench = bench();
    bench.plug.set_power(false);
    for (bits, expected) in [
        (0x10, vec!["power control fault"]),
        (0x08, vec!["power fault"]),
        (0x04, vec!["interlock"]),
        (
            0x1c,
            vec!["power control fault", "power fault", "interlock"],
        ),
        (0x02, vec![]),
    ] {
        bench.bmc.faults(|faults| faults.power_bits = bits);
        let reading = bench.read().await.unwrap();
        assert_eq!(reading.faults, expected);
    }
}

/// R8: what sleeps goes on where it was.
#[tokio::test]
async fn off_of_a_machine_that_sleeps_is_not_off() {
    for (state, expected) in [
        (0x01, Some("sleeping (ACPI S1)")),
        (0x03, Some("sleeping (ACPI S3)")),
        (0x04, Some("hibernating (ACPI S4)")),
        (0x09, Some("sleeping (ACPI S1 to S4)")),
        // Soft off, S4 or S5, mechanically off, and one that does not know.
        (0x05, None),
        (0x06, None),
        (0x07, None),
        (0x2a, None),
    ] {
        let bench = bench();
        bench.bmc.faults(|faults| faults.acpi_state = Some(state));
        let mut session = bench.driver().open();
        let on = session.observe().await.unwrap();
        assert_eq!((on.state, on.faults.len()), (PowerState::On, 0));
        assert_eq!(bench.round_trips(), 4, "an on is asked no further");
        bench.plug.set_power(false);
        for round_trips in [6, 8] {
            let off = session.observe().await.unwrap();
            assert_eq!(off.faults, Vec::from_iter(expected), "{state:#x}");
            assert_eq!(off.is_off(), expected.is_none(), "{state:#x}");
            assert_eq!(bench.round_trips(), round_trips);
        }
    }
}

/// R8: whatever goes wrong later takes nothing back, in the next session of the driver too, until the machine reads on.
#[tokio::test]
async fn what_slept_sleeps_though_the_bmc_does_not_repeat_it() {
    for what in [Nonsense::Code(0xd4), Nonsense::Silence] {
        let bench = bench();
        bench.plug.set_power(false);
        bench.bmc.faults(|faults| faults.acpi_state = Some(0x03));
        let driver = bench.driver();
        let mut session = driver.open();
        assert!(!session.observe().await.unwrap().is_off());
        bench.bmc.faults(|faults| {
            let reply = Reply::new(Which::ACPI_STATE, what.clone());
            faults.replies.push(reply);
        });
        for _ in 0..2 {
            assert!(!session.observe().await.unwrap().is_off(), "{what:?}");
        }
        let mut next = driver.open();
        assert!(!next.observe().await.unwrap().is_off(), "{what:?}");
        bench.plug.set_power(true);
        next.observe().await.unwrap();
        bench.plug.set_power(false);
        assert!(next.observe().await.unwrap().is_off(), "{what:?}");
    }
}

/// R8: only an off that the BMC carries out takes the machine out of its sleep, and nothing else that it answers.
#[tokio::test]
async fn what_slept_is_off_once_the_bmc_has_carried_out_our_off() {
    for (code, is_off) in [(None, true), (Some(0xd5), false), (Some(0xd6), false)] {
        let bench = bench();
        bench.plug.set_power(false);
        bench.bmc.faults(|faults| faults.acpi_state = Some(0x03));
        let driver = bench.driver();
        assert!(!driver.open().observe().await.unwrap().is_off());
        bench.bmc.faults(|faults| {
            let silent = Reply::new(Which::ACPI_STATE, Nonsense::Code(0xd4));
            let answer = code.map(|code| Reply::new(Which::PowerOff, Nonsense::Code(code)));
            faults.replies.extend([silent].into_iter().chain(answer));
        });
        let mut session = driver.open();
        session.prepare_off().await.unwrap();
        let outcome = session.force_off().await;
        assert_eq!(outcome == Ok(OffOutcome::Accepted), is_off, "{outcome:?}");
        assert_eq!(
            session.observe().await.unwrap().is_off(),
            is_off,
            "{code:?}"
        );
    }
}

/// It is optional, and whatever goes wrong with it leaves the off as it is, and is not asked again.
#[tokio::test]
async fn a_bmc_that_does_not_tell_its_acpi_state_reads_off() {
    for what in [
        Nonsense::Code(0xc1),
        Nonsense::Code(0xd4),
        Nonsense::Silence,
    ] {
        let bench = bench();
        bench.plug.set_power(false);
        bench.bmc.faults(|faults| {
            faults.acpi_state = Some(0x03);
            let reply = Reply::new(Which::ACPI_STATE, what.clone());
            faults.replies.push(reply);
        });
        let mut session = bench.driver().open();
        assert!(session.observe().await.unwrap().is_off(), "{what:?}");
        let asked = || {
            let is_asked = |entry: &fencing_testbed::ipmi::Entry| {
                matches!(
                    entry.asked,
                    Asked::Command {
                        net_fn: 0x06,
                        command: 0x07,
                        ..
                    }
                )
            };
            bench
                .bmc
                .log()
                .iter()
                .filter(|entry| is_asked(entry))
                .count()
        };
        // With the answer to the second reading, whatever was sent before it has arrived.
        assert!(session.observe().await.unwrap().is_off(), "{what:?}");
        let before = asked();
        assert!(before > 0, "{what:?}");
        assert!(session.observe().await.unwrap().is_off(), "{what:?}");
        assert_eq!(asked(), before, "{what:?}");
    }
}

#[tokio::test]
async fn a_status_that_is_refused_or_short_is_no_reading() {
    for (what, expected) in [
        (Nonsense::Code(0xc1), "ProtocolError"),
        (Nonsense::Code(0xd4), "PermissionDenied"),
        (Nonsense::Code(0xd5), "ProtocolError"),
        (Nonsense::Code(0xff), "ProtocolError"),
        (Nonsense::ShortData(0), "ProtocolError"),
        (Nonsense::ShortData(2), "ProtocolError"),
    ] {
        let bench = bench();
        bench.bmc.faults(|faults| {
            faults.power = PowerBit::Says(false);
            faults
                .replies
                .push(Reply::new(Which::CHASSIS_STATUS, what.clone()));
        });
        assert_eq!(verdict(&bench.driver()).await, expected, "{what:?}");
        bench.assert_closed(1).await;
    }
}

#[tokio::test]
async fn nonsense_in_place_of_an_answer_is_dropped_and_the_answer_asked_for_again() {
    let answers = [
        Nonsense::Silence,
        Nonsense::Raw(Vec::new()),
        Nonsense::Raw(b"<html>".to_vec()),
        Nonsense::Raw(vec![0xff; 2000]),
        Nonsense::Truncated(3),
        Nonsense::Truncated(20),
        Nonsense::Padded(1),
        Nonsense::OtherRequest,
        Nonsense::OtherCommand,
        Nonsense::BadChecksum,
        Nonsense::BadCode,
        Nonsense::BadPadding,
        Nonsense::OtherSession,
        Nonsense::OldSequence,
        Nonsense::InClear,
        Nonsense::Unsigned,
    ];
    let requests = [Which::CHASSIS_STATUS, Which::SET_PRIVILEGE, Which::PowerOff];
    let cases = answers
        .iter()
        .flat_map(|what| requests.map(|which| (which, what.clone())));
    futures::future::join_all(cases.map(|(which, what)| works_though(which, what))).await;
}

/// One such answer to such a request.
async fn works_though(which: Which, what: Nonsense) {
    let bench = bench();
    bench.bmc.faults(|faults| {
        let reply = Reply::new(which, what.clone()).times(1);
        faults.replies.push(reply.after_effect());
    });
    let mut session = bench.driver().open();
    session.prepare_off().await.unwrap();
    let outcome = session.force_off().await;
    assert_eq!(outcome, Ok(OffOutcome::Accepted), "{what:?}");
    let reading = session.observe().await.unwrap();
    assert_eq!(reading.state, PowerState::Off, "{what:?}");
    drop(session);
    bench.assert_closed(1).await;
}

#[tokio::test]
async fn a_bmc_that_only_talks_nonsense_is_never_read_as_off() {
    for what in [
        Nonsense::Raw(b"<html>".to_vec()),
        Nonsense::Truncated(20),
        Nonsense::BadCode,
        Nonsense::InClear,
    ] {
        let bench = bench();
        bench.bmc.faults(|faults| {
            faults.power = PowerBit::Says(false);
            faults.replies.push(Reply::new(Which::Any, what.clone()));
        });
        let found = verdict(&bench.impatient()).await;
        assert!(
            ["Timeout", "LoginUnanswered", "AuthFailed"].contains(&found.as_str()),
            "{what:?}: {found}"
        );
    }
}

#[tokio::test]
async fn a_busy_node_is_asked_again_within_the_deadline() {
    let bench = bench();
    bench.bmc.faults(|faults| {
        let busy = Reply::new(Which::CHASSIS_STATUS, Nonsense::Code(0xc0)).times(3);
        faults.replies.push(busy);
    });
    assert_eq!(bench.read().await.unwrap().state, PowerState::On);
    assert_eq!(bench.round_trips(), 7);

    let busy = Reply::new(Which::CHASSIS_STATUS, Nonsense::Code(0xc0));
    bench.bmc.faults(|faults| faults.replies.push(busy));
    let error = bench.impatient().open().observe().await.unwrap_err();
    assert_eq!(error.reason(), "Busy");
    assert!(error.to_string().contains("0xc0, node busy"), "{error}");
}
