//! What one vendor's BMC does and another's does not, each as reports of users tell it.

use super::{ENDLESS, PLAN, Rack, alone, power_off, words};
use fencing_core::reading::{PowerState, Reading};
use fencing_drivers::confirm::{ConfirmPlan, Ended, confirm};
use fencing_drivers::redfish::{Redfish, RedfishSettings};
use fencing_drivers::{DeviceError, Extent, FenceDriver, OffOutcome};
use fencing_testbed::bmc::{Accepted, Advertise, Auth, Certificate, Effect, Reading as Says};
use fencing_testbed::https::Line;
use fencing_testbed::power::Power;
use std::ops::ControlFlow;
use std::time::Duration;

/// What a BMC says of a power-off when its machine is off: a claim, in its own words, that only readings can bear out.
async fn off_already(status: u16, said: &str) {
    let rack = Rack::dark(|faults| faults.already_off_status = Some(status));
    let said = said.to_owned();
    assert_eq!(
        rack.power_off().await,
        Ok(OffOutcome::AlreadyOff { said }),
        "{status}"
    );
    assert_eq!(rack.commands(), [Some(status)]);
    let confirmation = rack.confirmed().await;
    assert_eq!(confirmation.ended, Ended::Stable);
    assert_eq!(words(&confirmation), ["Off", "Off", "Off"]);
}

#[tokio::test]
async fn an_idrac_s_409_for_a_machine_that_is_off_is_a_claim_in_its_own_words() {
    let said = "409: Unable to complete the operation because the server is already in that state. (IDRAC.2.8.PSU501)";
    off_already(409, said).await;
}

#[tokio::test]
async fn an_ilo_s_400_for_a_machine_that_is_off_is_a_claim_in_its_own_words() {
    let said = "400: The operation was not successful due to the current power state. (iLO.2.24.InvalidOperationForSystemState)";
    off_already(400, said).await;
}

/// Every kind of request that the driver sends: it finds the system, asks what resets it takes and for the time, commands, and
/// follows a Task.
async fn everything_is_asked(rack: &Rack) {
    rack.bmc.faults(|faults| {
        faults.advertise = Advertise::ActionInfo;
        faults.accepted = Accepted::Task(Duration::ZERO);
    });
    let unnamed = Redfish::new(rack.settings(None)).unwrap();
    unnamed.open().probe(Extent::Whole).await.unwrap();
    assert_eq!(power_off(&unnamed).await, Ok(OffOutcome::Accepted));
    assert_eq!(rack.confirmed().await.ended, Ended::Stable);
    assert!(!rack.machine.is_on());
    let log = rack.bmc.log();
    for part in ["Systems", "1", "ResetActionInfo", "ComputerSystem.Reset"] {
        let end = format!("/{part}");
        assert!(log.iter().any(|entry| entry.path.ends_with(&end)), "{part}");
    }
    for part in ["/Managers/", "/TaskService/Tasks/"] {
        assert!(log.iter().any(|entry| entry.path.contains(part)), "{part}");
    }
    for entry in log {
        assert_eq!(entry.auth, Auth::Right, "{entry:?}");
        assert!(
            matches!(entry.status, Some(200 | 202)),
            "refused: {entry:?}"
        );
    }
}

#[tokio::test]
async fn a_bmc_that_answers_406_without_odata_headers_gets_them_in_every_request() {
    everything_is_asked(&Rack::with(|faults| faults.strict_headers = true)).await;
}

#[tokio::test]
async fn an_idrac_that_answers_412_to_an_if_match_never_sees_one() {
    let rack = Rack::with(|faults| faults.refuses_if_match = true);
    everything_is_asked(&rack).await;
    let mut log = rack.bmc.log().into_iter();
    assert!(log.all(|entry| entry.headers.if_match.is_none()));
}

/// As HPE's do. A read is sent once more; a command is not, for nobody knows what became of the first one: it has a connection of its own.
#[tokio::test]
async fn a_bmc_that_resets_each_reused_connection_is_read_on_new_ones_and_commanded_once() {
    let rack = Rack::with(|faults| faults.reset_reused_connection = true);
    let driver = rack.driver();
    let mut session = driver.open();
    for _ in 0..3 {
        assert_eq!(session.observe().await.unwrap().state, PowerState::On);
    }
    let seen: Vec<(u64, bool)> = rack
        .bmc
        .log()
        .iter()
        .map(|entry| (entry.connection, entry.status.is_some()))
        .collect();
    let expected = [(1, true), (1, false), (2, true), (2, false), (3, true)];
    assert_eq!(seen, expected);
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    assert_eq!(rack.commands(), [Some(204)]);
    assert!(!rack.machine.is_on());
}

#[tokio::test]
async fn an_empty_body_right_after_a_transition_is_no_reading_and_not_the_end() {
    let rack = Rack::with(|faults| faults.empty_reads_after_reset = 2);
    assert_eq!(rack.power_off().await, Ok(OffOutcome::Accepted));
    let confirmation = rack.confirmed().await;
    assert_eq!(confirmation.ended, Ended::Stable);
    let expected = ["ProtocolError", "ProtocolError", "Off", "Off", "Off"];
    assert_eq!(words(&confirmation), expected);
}

#[tokio::test]
async fn an_off_that_lands_late_is_read_as_on_until_it_does() {
    let rack = Rack::with(|faults| faults.effect = Effect::Ignored);
    let driver = rack.driver();
    let mut session = driver.open();
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    assert_eq!(session.observe().await.unwrap().state, PowerState::On);
    // It lands; that it may happen while somebody reads is for sushy-tools to show.
    rack.machine.set_power(false);
    assert_eq!(rack.confirmed().await.ended, Ended::Stable);
    assert_eq!(rack.commands(), [Some(204)]);
}

#[tokio::test]
async fn a_machine_that_its_restore_policy_starts_again_is_never_read_off_for_a_whole_window() {
    let rack = Rack::with(|faults| {
        faults.power_restore_policy = Some("AlwaysOn".to_owned());
        faults.restores_after = Some(Duration::from_secs(1));
    });
    let driver = rack.driver();
    let probe = driver.open().probe(Extent::Needed).await.unwrap();
    assert_eq!(probe.power_restore_policy.as_deref(), Some("AlwaysOn"));
    assert_eq!(rack.power_off().await, Ok(OffOutcome::Accepted));
    let plan = ConfirmPlan {
        window: Duration::from_secs(10),
        ..PLAN
    };
    let until_it_runs = |reading: &Reading| match reading.state {
        PowerState::On => ControlFlow::Break("it runs".to_owned()),
        _ => ControlFlow::Continue(()),
    };
    let confirmation = confirm(&alone(plan), 0, &driver, driver.open(), until_it_runs).await;
    assert_eq!(confirmation.ended, Ended::Stopped("it runs".to_owned()));
}

#[tokio::test]
async fn a_command_that_becomes_a_task_is_followed_to_its_end() {
    let rack = Rack::with(|faults| faults.accepted = Accepted::Task(Duration::from_secs(1)));
    assert_eq!(rack.power_off().await, Ok(OffOutcome::Accepted));
    assert!(!rack.machine.is_on(), "the Task has not ended");
    assert_eq!(rack.commands(), [Some(202)]);
}

/// It may have cut the power before it failed.
#[tokio::test]
async fn a_task_that_fails_leaves_the_outcome_unknown_and_says_why() {
    let fails = Accepted::FailingTask(Duration::from_secs(1));
    let rack = Rack::with(|faults| faults.accepted = fails);
    let outcome = rack.power_off().await.unwrap();
    let OffOutcome::Unknown(error) = outcome else {
        panic!("{outcome:?}");
    };
    let why = "its Task ended as Exception: The request failed due to an internal service error.";
    assert!(error.to_string().contains(why), "{error}");
    assert_eq!(rack.commands(), [Some(202)]);
}

#[tokio::test]
async fn a_task_that_never_ends_is_not_waited_for_longer_than_the_command() {
    let rack = Rack::with(|faults| faults.accepted = Accepted::Task(ENDLESS * 60));
    let hasty = RedfishSettings {
        command_timeout: Duration::from_secs(2),
        ..rack.settings(Some("1"))
    };
    let driver = Redfish::new(hasty).unwrap();
    let outcome = tokio::time::timeout(ENDLESS, power_off(&driver)).await;
    assert_eq!(outcome, Ok(Ok(OffOutcome::Accepted)));
    assert!(rack.machine.is_on());
}

#[tokio::test]
async fn an_answer_with_a_message_is_as_good_as_one_without_a_body() {
    let rack = Rack::with(|faults| faults.accepted = Accepted::Message);
    assert_eq!(rack.power_off().await, Ok(OffOutcome::Accepted));
    assert_eq!(rack.commands(), [Some(200)]);
    assert_eq!(rack.confirmed().await.ended, Ended::Stable);
}

#[tokio::test]
async fn reset_types_are_found_in_an_action_info_and_guessed_nowhere() {
    let rack = Rack::with(|faults| faults.advertise = Advertise::ActionInfo);
    assert_eq!(rack.power_off().await, Ok(OffOutcome::Accepted));
    assert!(!rack.machine.is_on());
    let soft = ["On", "GracefulShutdown", "PushPowerButton"].map(str::to_owned);
    for (advertise, offered) in [
        (Advertise::ActionInfo, Some(soft.to_vec())),
        (Advertise::Nothing, None),
        (Advertise::NoAction, None),
    ] {
        let rack = Rack::with(|faults| {
            faults.advertise = advertise;
            faults.reset_types = offered;
        });
        let refused = rack.power_off().await.map_err(|error| error.reason());
        assert_eq!(refused, Err("Refused"), "{advertise:?}");
        let probe = rack.driver().open().probe(Extent::Needed).await.unwrap();
        assert!(probe.off_denied.is_some(), "{advertise:?}");
        assert!(rack.commands().is_empty() && rack.machine.is_on());
    }
}

#[tokio::test]
async fn of_several_systems_none_is_switched_but_the_one_that_is_named() {
    let rack = Rack::with(|faults| (faults.decoys_before, faults.decoys_after) = (1, 2));
    let unnamed = Redfish::new(rack.settings(None)).unwrap();
    let error = power_off(&unnamed).await.unwrap_err();
    assert_eq!(error.reason(), "AmbiguousSystem");
    let words = "4 systems (2, 1, 3, 4); set `redfish.systemID`";
    assert!(error.to_string().contains(words), "{error}");
    assert!(rack.commands().is_empty());

    assert_eq!(rack.power_off().await, Ok(OffOutcome::Accepted));
    assert!(!rack.machine.is_on());
    let [command] = rack.bmc.power_commands().try_into().unwrap();
    assert!(
        command.path.starts_with(&rack.bmc.system_path()),
        "{command:?}"
    );
    for (decoy, state) in [
        ("1", PowerState::Off),
        ("2", PowerState::On),
        ("4", PowerState::On),
    ] {
        let driver = Redfish::new(rack.settings(Some(decoy))).unwrap();
        assert_eq!(driver.open().observe().await.unwrap().state, state);
    }
    rack.bmc.faults(|faults| faults.no_systems = true);
    let error = unnamed.open().observe().await.unwrap_err();
    assert!(error.to_string().contains("no system"), "{error}");
}

/// The emulator's chassis is off while the machine in it runs.
#[tokio::test]
async fn a_chassis_that_is_off_and_a_state_that_is_missing_are_not_a_machine_that_is_off() {
    let rack = Rack::with(|_| {});
    let settings = rack.settings(Some("/redfish/v1/Chassis/1"));
    let chassis = Redfish::new(settings).unwrap();
    let error = chassis.open().observe().await.unwrap_err();
    assert_eq!(error.reason(), "ProtocolError");
    rack.bmc.faults(|faults| faults.power_state = Says::Absent);
    let reading = rack.driver().open().observe().await.unwrap();
    assert_eq!(
        (reading.state, reading.raw.as_str()),
        (PowerState::Unknown, "no PowerState")
    );
}

#[tokio::test]
async fn a_command_target_out_of_the_service_is_refused() {
    let elsewhere = Rack::with(|_| {});
    let target = format!(
        "{}{}/Actions/ComputerSystem.Reset",
        elsewhere.bmc.url(),
        elsewhere.bmc.system_path()
    );
    let rack = Rack::with(|faults| faults.action_target = Some(target));
    let refused: Result<_, DeviceError> = rack.power_off().await;
    assert_eq!(refused.map_err(|error| error.reason()), Err("Refused"));
    assert!(elsewhere.bmc.log().is_empty() && rack.commands().is_empty());
}

/// A BMC that has restarted makes its certificate anew, and has the right one a moment later; or it knows no systems yet.
#[tokio::test]
async fn what_needs_a_human_a_moment_after_an_answer_is_asked_again_once() {
    type Change = fn(&mut fencing_testbed::bmc::BmcFaults, bool);
    let certificate: Change = |faults, is_wrong| {
        faults.certificate = match is_wrong {
            true => Certificate::Untrusted,
            false => Certificate::Own,
        };
    };
    let systems: Change = |faults, is_wrong| faults.no_systems = is_wrong;
    for (change, reason) in [(certificate, "TlsIdentity"), (systems, "AmbiguousSystem")] {
        for lasts in [false, true] {
            let rack = Rack::dark(|_| {});
            // In the end of its connections the driver begins a new session, which meets what is wrong.
            let cut = |is_wrong: bool| {
                rack.bmc.faults(|faults| change(faults, is_wrong));
                rack.bmc.set_line(Line::Refused).unwrap();
                rack.bmc.set_line(Line::Up).unwrap();
            };
            let mut is_first = true;
            let watch = |reading: &Reading| {
                if std::mem::take(&mut is_first) {
                    cut(true);
                } else if reading.raw == reason && !lasts {
                    rack.bmc.faults(|faults| change(faults, false));
                }
                ControlFlow::Continue(())
            };
            let driver = Redfish::new(rack.settings(None)).unwrap();
            let confirmation = confirm(&alone(PLAN), 0, &driver, driver.open(), watch).await;
            let refused = words(&confirmation)
                .iter()
                .filter(|raw| **raw == reason)
                .count();
            let is_failed =
                matches!(&confirmation.ended, Ended::Failed(error) if error.reason() == reason);
            assert_eq!(
                (refused, is_failed),
                (1 + usize::from(lasts), lasts),
                "{confirmation:?}"
            );
            assert!(
                lasts || confirmation.ended == Ended::Stable,
                "{confirmation:?}"
            );
        }
    }
}
