//! Refusals, and what they say: some are none a moment later, and none is a power state.

use crate::bmc::{Act, Bmc, reply, reply_with};
use crate::device::{RESET, driver, system};
use fencing_drivers::{DeviceError, FenceDriver, OffOutcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Each request is answered by the first of these that is left, then as usual.
async fn refusing(refusals: &'static [&'static str], after: usize) -> Bmc {
    let asked = Arc::new(AtomicUsize::new(0));
    Bmc::plain(move |_| {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        let refusal = number.checked_sub(after).and_then(|it| refusals.get(it));
        Act::Send(match refusal {
            Some(status) => reply_with(
                status,
                "WWW-Authenticate: Basic realm=\"bmc\"\r\n",
                r#"{"error":{"code":"Base.1.12.AccessDenied"}}"#,
            ),
            None => reply("200 OK", &system("\"Off\"")),
        })
    })
    .await
}

/// As BMCs do in the minutes after they have restarted.
#[tokio::test]
async fn one_refusal_of_a_login_that_was_taken_a_moment_ago_is_asked_again_once() {
    for refusal in [&["401 Unauthorized"], &["403 Forbidden"]] {
        let bmc = refusing(refusal, 1).await;
        let driver = driver(&bmc);
        assert!(driver.open().observe().await.unwrap().is_off());
        // In another session too.
        assert!(driver.open().observe().await.unwrap().is_off());
        assert_eq!(bmc.requests().len(), 3);
    }
    let bmc = refusing(&["401 Unauthorized"; 3], 1).await;
    let driver = driver(&bmc);
    driver.open().observe().await.unwrap();
    let error = driver.open().observe().await.unwrap_err();
    assert_eq!(error.reason(), "AuthFailed");
    assert_eq!(bmc.requests().len(), 3, "twice, and not more");
    let error = driver.open().observe().await.unwrap_err();
    assert!(
        error.to_string().contains("(401: Base.1.12.AccessDenied)"),
        "{error}"
    );
    assert_eq!(bmc.requests().len(), 4, "nothing was taken since");
}

#[tokio::test]
async fn a_service_that_offers_no_http_basic_is_told_from_a_wrong_password() {
    let of = async |headers: &'static str| {
        let bmc =
            Bmc::plain(move |_| Act::Send(reply_with("401 Unauthorized", headers, "{}"))).await;
        driver(&bmc).open().observe().await.unwrap_err()
    };
    for headers in ["", "WWW-Authenticate: X-Auth-Token\r\n"] {
        let error = of(headers).await;
        assert!(
            matches!(error, DeviceError::BasicNotOffered { .. }),
            "{error}"
        );
        assert!(!error.to_string().contains("correct the Secret"), "{error}");
        assert!(error.refuses_credentials(), "it counts against a lockout");
    }
    for headers in [
        "WWW-Authenticate: Basic realm=\"bmc\"\r\n",
        "WWW-Authenticate: X-Auth-Token, basic realm=\"bmc\"\r\n",
    ] {
        let error = of(headers).await;
        assert!(matches!(error, DeviceError::AuthFailed { .. }), "{error}");
    }
}

/// The words are those of the device, also of a read.
#[tokio::test]
async fn a_busy_device_s_own_words_are_shown() {
    let body = r#"{"error":{"@Message.ExtendedInfo":[{"MessageId":"IDRAC.2.8.SYS518","Message":"Data sources are unavailable."}]}}"#;
    let bmc = Bmc::plain(move |_| Act::Send(reply("503 Service Unavailable", body))).await;
    let error = driver(&bmc).open().observe().await.unwrap_err();
    let words = "503: Data sources are unavailable. (IDRAC.2.8.SYS518)";
    assert!(error.to_string().contains(words), "{error}");
}

/// Whatever it means, the machine was on a moment ago.
#[tokio::test]
async fn a_refusal_while_the_machine_reads_on_is_not_already_off() {
    let body = r#"{"error":{"@Message.ExtendedInfo":{"MessageId":"Base.1.0.InternalError","Message":"not while another job runs"}}}"#;
    for status in ["400 Bad Request", "409 Conflict"] {
        let bmc = Bmc::plain(move |request| {
            Act::Send(match request.path.as_str() {
                RESET => reply(status, body),
                _ => reply("200 OK", &system("\"On\"")),
            })
        })
        .await;
        let driver = driver(&bmc);
        let mut session = driver.open();
        session.prepare_off().await.unwrap();
        let outcome = session.force_off().await;
        let Ok(OffOutcome::Unknown(error)) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(
            error.to_string().contains("not while another job runs"),
            "{error}"
        );
    }
}

/// Cisco IMC 3.0: its power is read, and the power-off is refused in words that name the firmware.
#[tokio::test]
async fn a_system_of_a_maker_s_own_type_is_read_and_not_commanded_by_another_action() {
    let body = r##"{"@odata.type":"#Cisco_ComputerSystem","PowerState":"On","UUID":"5236D4DC-0000-4000-8000-000000000E0A",
        "Links":{"ManagedBy":["/redfish/v1/Managers/CIMC"]},
        "Actions":{"#System.Reset":{"Target":"/redfish/v1/Systems/1/Actions/System.Reset","ResetType@Redfish.AllowableValues":["ForceOff"]}}}"##;
    let bmc = Bmc::plain(move |_| Act::Send(reply("200 OK", body))).await;
    let driver = driver(&bmc);
    assert_eq!(driver.open().observe().await.unwrap().raw, "On");
    let error = driver.open().prepare_off().await.unwrap_err().to_string();
    assert!(
        error.contains("#System.Reset: its firmware (Cisco IMC 3.0"),
        "{error}"
    );
    assert!(!error.contains("address"), "{error}");
    assert!(bmc.commands().is_empty());
}

/// As Intel RSD and others of its time.
#[tokio::test]
async fn reset_types_under_the_older_annotation_are_read() {
    let older = system("\"On\"").replace("@Redfish.AllowableValues", "@DMTF.AllowableValues");
    let bmc = Bmc::plain(move |request| {
        Act::Send(match request.path.as_str() {
            RESET => reply("204 No Content", ""),
            _ => reply("200 OK", &older),
        })
    })
    .await;
    let driver = driver(&bmc);
    let mut session = driver.open();
    session.prepare_off().await.unwrap();
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
}
