//! The one command: sent once, hard, only where it is offered; and what its answers mean.

use crate::bmc::{Act, Bmc, reply, reply_with};
use crate::device::{RESET, SYSTEM, driver, service, settings_of, system, system_with};
use fencing_drivers::clock::Clock;
use fencing_drivers::redfish::{Redfish, RedfishSettings};
use fencing_drivers::{DeviceError, Extent, FenceDriver, OffOutcome};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A running system that answers the command like this.
async fn answering(act: impl Fn() -> Act + Send + Sync + 'static) -> Bmc {
    Bmc::plain(move |request| match request.method.as_str() {
        "POST" => act(),
        _ => Act::Send(reply("200 OK", &system("\"On\""))),
    })
    .await
}

/// Makes what the device does with the command.
type Answer = fn() -> Act;

async fn power_off(bmc: &Bmc) -> Result<OffOutcome, DeviceError> {
    let mut session = driver(bmc).open();
    session.prepare_off().await?;
    session.force_off().await
}

#[tokio::test]
async fn an_accepted_command_is_sent_exactly_once_and_hard() {
    for status in ["200 OK", "201 Created", "202 Accepted", "204 No Content"] {
        let bmc = answering(move || Act::Send(reply(status, ""))).await;
        assert_eq!(power_off(&bmc).await, Ok(OffOutcome::Accepted), "{status}");
        assert_eq!(bmc.commands(), [r#"{"ResetType":"ForceOff"}"#]);
    }
}

#[tokio::test]
async fn an_accepted_command_stays_accepted_when_its_body_is_garbage() {
    let bmc = answering(|| {
        Act::Send(reply_with(
            "200 OK",
            "Content-Encoding: gzip\r\n",
            "garbage",
        ))
    })
    .await;
    assert_eq!(power_off(&bmc).await, Ok(OffOutcome::Accepted));
}

/// A success that no specification gives to a reset, a result that stands elsewhere, and what no client knows: the device may have
/// done what it was told.
#[tokio::test]
async fn an_answer_that_is_no_refusal_is_never_a_command_that_was_not_carried_out() {
    let strange = (200..=299).chain([303, 600, 799]);
    for status in strange.filter(|status| ![200, 201, 202, 204].contains(status)) {
        let bmc = answering(move || Act::Send(reply(&format!("{status} Odd"), "{}"))).await;
        match power_off(&bmc).await {
            Ok(OffOutcome::Unknown(error)) => {
                let words = error.to_string();
                assert!(words.contains(&status.to_string()), "{words}");
            }
            other => panic!("{status}: {other:?}"),
        }
        assert_eq!(bmc.commands().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_created_task_is_followed_like_one_that_was_accepted() {
    const TASK: &str = "/redfish/v1/TaskService/Tasks/7";
    for status in ["201 Created", "202 Accepted"] {
        let bmc = Bmc::plain(move |request| {
            Act::Send(match (request.method.as_str(), request.path.as_str()) {
                ("POST", _) => reply_with(status, &format!("Location: {TASK}\r\n"), ""),
                ("GET", TASK) => reply("200 OK", r#"{"TaskState":"Exception"}"#),
                _ => reply("200 OK", &system("\"On\"")),
            })
        })
        .await;
        let outcome = power_off(&bmc).await;
        assert!(
            matches!(&outcome, Ok(OffOutcome::Unknown(error)) if error.to_string().contains("Exception")),
            "{status}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn a_definite_refusal_is_an_error() {
    for (status, expected) in [
        ("307 Temporary Redirect", "Refused"),
        ("401 Unauthorized", "AuthFailed"),
        ("403 Forbidden", "PermissionDenied"),
        ("404 Not Found", "NotFound"),
        ("405 Method Not Allowed", "Refused"),
        ("412 Precondition Failed", "Refused"),
        ("429 Too Many Requests", "Busy"),
        ("501 Not Implemented", "Refused"),
    ] {
        let bmc = answering(move || Act::Send(reply(status, "{}"))).await;
        assert_eq!(
            power_off(&bmc).await.map_err(|error| error.reason()),
            Err(expected),
            "{status}"
        );
        assert_eq!(bmc.commands().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_command_without_a_definite_answer_is_unknown_and_never_sent_again() {
    let answers: [(Answer, &str); 6] = [
        (
            || Act::Send(reply("500 Internal Server Error", "{}")),
            "Busy",
        ),
        (|| Act::Send(reply("503 Service Unavailable", "{}")), "Busy"),
        (|| Act::Reset, "Unreachable"),
        (|| Act::SendThenClose(Vec::new()), "Unreachable"),
        (
            || Act::SendThenClose(b"SSH-2.0-dropbear\r\n".to_vec()),
            "ProtocolError",
        ),
        (|| Act::Hang, "Timeout"),
    ];
    for (answer, expected) in answers {
        let bmc = answering(answer).await;
        match power_off(&bmc).await {
            Ok(OffOutcome::Unknown(error)) => assert_eq!(error.reason(), expected),
            other => panic!("{expected}: {other:?}"),
        }
        assert_eq!(bmc.commands().len(), 1, "{expected}");
    }
}

#[tokio::test]
async fn a_command_that_could_not_be_sent_is_an_error() {
    let bmc = Bmc::plain(|_| {
        Act::SendThenClose(reply_with(
            "200 OK",
            "Connection: close\r\n",
            &system("\"On\""),
        ))
    })
    .await;
    let mut session = driver(&bmc).open();
    session.prepare_off().await.unwrap();
    bmc.stop().await;
    assert_eq!(
        session.force_off().await.map_err(|error| error.reason()),
        Err("Unreachable")
    );
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_does_not_lose_the_command() {
    let bmc = Bmc::plain(service("\"On\"")).await;
    let mut session = driver(&bmc).open();
    session.prepare_off().await.unwrap();
    bmc.hang_up().await;
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    assert_eq!(bmc.commands().len(), 1);
}

/// Between two looks at this clock two seconds pass, so that whatever is measured takes too long. Each test has its own.
fn hurrying() -> Duration {
    thread_local!(static SECONDS: Cell<u64> = const { Cell::new(1) });
    Duration::from_secs(SECONDS.replace(SECONDS.get() + 2))
}

/// The driver for a BMC, by that clock.
fn hurried(bmc: &Bmc) -> Redfish {
    let clock = Clock {
        since_boot: hurrying,
        ..Clock::SYSTEM
    };
    let settings = settings_of(bmc);
    Redfish::new(RedfishSettings { clock, ..settings }).unwrap()
}

#[tokio::test]
async fn a_command_whose_new_connection_took_long_is_not_sent() {
    let bmc = Bmc::plain(service("\"On\"")).await;
    let mut session = hurried(&bmc).open();
    session.prepare_off().await.unwrap();
    bmc.hang_up().await;
    let error = session.force_off().await.unwrap_err();
    assert_eq!(error.reason(), "Unreachable");
    for words in ["took 2.0 s", "since the claim was read", "not sent"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(bmc.commands().is_empty());
}

#[tokio::test]
async fn a_bmc_that_closes_after_each_answer_has_a_connection_for_the_command_when_it_is_prepared()
{
    let bmc = Bmc::plain(|request| match request.method.as_str() {
        "POST" => Act::Send(reply("204 No Content", "")),
        _ => Act::SendThenClose(reply_with(
            "200 OK",
            "Connection: close\r\n",
            &system("\"On\""),
        )),
    })
    .await;
    let mut session = hurried(&bmc).open();
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    let connections: Vec<_> = bmc.requests().iter().map(|one| one.connection).collect();
    assert_eq!(connections, [0, 1]);
}

/// As HPE's do. Sent where a GET was answered, no command would ever arrive: nobody may send it again.
#[tokio::test]
async fn a_command_has_a_connection_of_its_own() {
    let served = Mutex::new(BTreeSet::new());
    let usual = service("\"On\"");
    let bmc = Bmc::plain(
        move |request| match served.lock().unwrap().insert(request.connection) {
            true => usual(request),
            false => Act::Reset,
        },
    )
    .await;
    assert_eq!(power_off(&bmc).await, Ok(OffOutcome::Accepted));
    let requests = bmc.requests();
    let of = |method| requests.iter().filter(move |one| one.method == method);
    let commands: Vec<_> = of("POST").map(|one| one.connection).collect();
    assert_eq!(commands.len(), 1);
    assert!(of("GET").all(|one| !commands.contains(&one.connection)));
}

/// It says nothing of that in its answer, and needs longer for a new connection than a command may wait.
#[tokio::test]
async fn a_bmc_that_closes_a_moment_after_its_answer_has_a_connection_for_the_command() {
    let bmc = Bmc::plain(service("\"On\"")).await;
    let mut session = hurried(&bmc).open();
    session.prepare_off().await.unwrap();
    // The one that was read on, while the claim is read.
    bmc.hang_up_first(1).await;
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    assert_eq!(bmc.commands().len(), 1);
}

/// What a device whose reset action has these members says to a power-off, and the commands that it got.
async fn power_off_with(action: &'static str, info: &'static str) -> (String, usize) {
    let bmc = Bmc::plain(move |request| {
        Act::Send(match (request.method.as_str(), request.path.as_str()) {
            ("GET", SYSTEM) => reply("200 OK", &system_with("\"On\"", action)),
            ("GET", "/redfish/v1/Systems/1/ResetActionInfo") => reply("200 OK", info),
            ("POST", RESET) => reply("204 No Content", ""),
            _ => reply("404 Not Found", "{}"),
        })
    })
    .await;
    let probe = driver(&bmc).open().probe(Extent::Whole).await;
    let denied = probe.map(|probe| probe.off_denied.is_some());
    let outcome = power_off(&bmc).await;
    assert_eq!(
        outcome.is_err(),
        denied.unwrap_or(true),
        "the probe foretells the power-off"
    );
    (
        outcome.map_or_else(
            |error| error.reason().to_owned(),
            |outcome| format!("{outcome:?}"),
        ),
        bmc.commands().len(),
    )
}

#[tokio::test]
async fn force_off_is_sent_only_where_it_is_offered() {
    const INFO: &str = r#""@Redfish.ActionInfo":"/redfish/v1/Systems/1/ResetActionInfo""#;
    let offered = r#"{"Parameters":[{"Name":"Other","AllowableValues":["x"]},{"Name":"ResetType","AllowableValues":["On","ForceOff"]}]}"#;
    let missing =
        r#"{"Parameters":[{"Name":"ResetType","AllowableValues":["On","GracefulShutdown"]}]}"#;
    assert_eq!(
        power_off_with(INFO, offered).await,
        ("Accepted".to_owned(), 1)
    );
    for (action, info) in [
        (INFO, missing),
        (INFO, "{}"),
        (
            r#""ResetType@Redfish.AllowableValues":["On","GracefulShutdown","ForceRestart"]"#,
            "",
        ),
        (r#""ResetType@Redfish.AllowableValues":["forceoff"]"#, ""),
        (r#""ResetType@Redfish.AllowableValues":[]"#, ""),
        (r#""ResetType@Redfish.AllowableValues":"ForceOff""#, ""),
        (r#""title":"nothing about reset types""#, ""),
        (
            r#""@Redfish.ActionInfo":"http://192.0.2.1/redfish/v1/ResetActionInfo""#,
            "",
        ),
    ] {
        assert_eq!(
            power_off_with(action, info).await,
            ("Refused".to_owned(), 0),
            "{action} {info}"
        );
    }
}

#[tokio::test]
async fn nothing_is_sent_that_was_not_prepared_and_no_preparation_serves_twice() {
    let bmc = Bmc::plain(service("\"On\"")).await;
    let mut session = driver(&bmc).open();
    assert_eq!(
        session.force_off().await.map_err(|error| error.reason()),
        Err("Refused")
    );
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    assert_eq!(
        session.force_off().await.map_err(|error| error.reason()),
        Err("Refused")
    );
    assert_eq!(bmc.commands().len(), 1);
}

/// What was prepared before may be another system by now, or one that no longer takes the command.
#[tokio::test]
async fn a_preparation_that_fails_leaves_nothing_prepared() {
    let reads = AtomicU32::new(0);
    let bmc = Bmc::plain(move |request| match request.method.as_str() {
        "POST" => Act::Send(reply("204 No Content", "")),
        _ if reads.fetch_add(1, Ordering::Relaxed) == 0 => {
            Act::Send(reply("200 OK", &system("\"On\"")))
        }
        _ => Act::Send(reply("404 Not Found", "")),
    })
    .await;
    let mut session = driver(&bmc).open();
    session.prepare_off().await.unwrap();
    session.prepare_off().await.unwrap_err();
    assert_eq!(
        session.force_off().await.map_err(|error| error.reason()),
        Err("Refused")
    );
    assert!(bmc.commands().is_empty());
}

#[tokio::test]
async fn the_command_has_a_shorter_deadline_of_its_own() {
    let bmc = answering(|| {
        Act::After(
            Duration::from_millis(400),
            Box::new(Act::Send(reply("204 No Content", ""))),
        )
    })
    .await;
    let hasty = RedfishSettings {
        command_timeout: Duration::from_millis(200),
        ..settings_of(&bmc)
    };
    let mut session = Redfish::new(hasty).unwrap().open();
    session.prepare_off().await.unwrap();
    let Ok(OffOutcome::Unknown(late)) = session.force_off().await else {
        panic!("it was in time");
    };
    assert_eq!(late.reason(), "Timeout");
    // Which no setting makes longer.
    let words = late.to_string();
    assert!(
        words.contains("within 200ms (fixed limit)") && !words.contains("probe.timeoutSeconds"),
        "{words}"
    );
    assert_eq!(power_off(&bmc).await, Ok(OffOutcome::Accepted));
}
