//! What answers mean: every unusable one is an error or Unknown, never Off.

use crate::bmc::{Act, Bmc, Request, reply, reply_with};
use crate::device::{SYSTEM, driver, observe, service, settings_of, system, verdict, verdict_of};
use fencing_drivers::redfish::{Redfish, RedfishSettings};
use fencing_drivers::{Advice, DeviceError, Extent, FenceDriver};
use std::time::Duration;

/// A device that answers everything with these bytes.
pub fn always(bytes: Vec<u8>) -> impl Fn(&Request) -> Act + Send + Sync {
    move |_| Act::Send(bytes.clone())
}

/// What a device that answers everything with this body is read as.
pub async fn verdict_on_body(body: &str) -> String {
    verdict(always(reply("200 OK", body))).await
}

#[tokio::test]
async fn only_the_exact_word_is_off() {
    for (power_state, expected) in [
        (r#""Off""#, "Off(Off)"),
        (r#""On""#, "On(On)"),
        (r#""PoweringOff""#, "Transitional(PoweringOff)"),
        (r#""PoweringOn""#, "Transitional(PoweringOn)"),
        (r#""Paused""#, "Unknown(Paused)"),
        (r#""off""#, "Unknown(off)"),
        (r#""OFF""#, "Unknown(OFF)"),
        (r#"" Off""#, "Unknown( Off)"),
        (r#""Off\u0000""#, "Unknown(Off )"),
        ("null", "Unknown(null)"),
        ("false", "Unknown(false)"),
        (r#"["Off"]"#, r#"Unknown(["Off"])"#),
        (r#"{"Off":"Off"}"#, r#"Unknown({"Off":"Off"})"#),
    ] {
        assert_eq!(
            verdict_on_body(&system(power_state)).await,
            expected,
            "{power_state}"
        );
    }
    let absent = system("null").replace("\"PowerState\":null,", "");
    assert_eq!(verdict_on_body(&absent).await, "Unknown(no PowerState)");
    let misspelt = system("\"Off\"").replace("PowerState", "powerState");
    assert_eq!(verdict_on_body(&misspelt).await, "Unknown(no PowerState)");
}

#[tokio::test]
async fn another_resource_s_power_state_is_not_the_system_s() {
    let chassis = system("\"Off\"").replace(
        "#ComputerSystem.v1_20_0.ComputerSystem",
        "#Chassis.v1_20_0.Chassis",
    );
    assert_eq!(verdict_on_body(&chassis).await, "ProtocolError");
    assert_eq!(
        verdict_on_body(r#"{"PowerState":"Off"}"#).await,
        "ProtocolError"
    );
}

#[tokio::test]
async fn an_error_status_is_never_off_whatever_its_body_says() {
    for (status, expected) in [
        ("201 Created", "ProtocolError"),
        ("204 No Content", "ProtocolError"),
        ("206 Partial Content", "ProtocolError"),
        ("400 Bad Request", "ProtocolError"),
        ("401 Unauthorized", "AuthFailed"),
        ("403 Forbidden", "PermissionDenied"),
        ("404 Not Found", "NotFound"),
        ("406 Not Acceptable", "ProtocolError"),
        ("412 Precondition Failed", "ProtocolError"),
        ("429 Too Many Requests", "Busy"),
        ("500 Internal Server Error", "Busy"),
        ("503 Service Unavailable", "Busy"),
        ("599 Whatever", "Busy"),
    ] {
        assert_eq!(
            verdict(always(reply(status, &system("\"Off\"")))).await,
            expected,
            "{status}"
        );
    }
}

#[tokio::test]
async fn a_refused_password_is_sent_once_and_needs_a_human() {
    let bmc = Bmc::plain(always(reply("401 Unauthorized", "{}"))).await;
    let error = observe(&driver(&bmc)).await.expect_err("401");
    assert_eq!(error.advice(), Advice::Human);
    assert_eq!(
        bmc.requests().len(),
        1,
        "a second try could lock the account"
    );
}

#[tokio::test]
async fn a_busy_device_is_believed_up_to_ten_minutes() {
    for (header, expected) in [
        ("7", Some(7)),
        ("99999999999", Some(600)),
        ("Wed, 21 Oct 2099 07:28:00 GMT", None),
        ("-1", None),
    ] {
        let answer = reply_with(
            "503 Service Unavailable",
            &format!("Retry-After: {header}\r\n"),
            "{}",
        );
        let bmc = Bmc::plain(always(answer)).await;
        let error = observe(&driver(&bmc)).await.expect_err("503");
        assert_eq!(
            error.retry_after(),
            expected.map(Duration::from_secs),
            "{header}"
        );
        assert_eq!(error.advice(), Advice::Wait);
    }
}

#[tokio::test]
async fn a_redirect_is_never_followed() {
    let elsewhere = Bmc::plain(service("\"Off\"")).await;
    let location = format!("Location: http://{}{SYSTEM}\r\n", elsewhere.address);
    for status in [
        "301 Moved",
        "302 Found",
        "303 See Other",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        assert_eq!(
            verdict(always(reply_with(status, &location, &system("\"Off\"")))).await,
            "ProtocolError",
            "{status}"
        );
    }
    assert!(
        elsewhere.requests().is_empty(),
        "the password went elsewhere"
    );
}

/// What a service with this collection of systems is read as, and which paths were asked for.
async fn verdict_on_collection(collection: String) -> (String, Vec<String>) {
    let bmc = Bmc::plain(move |request| match request.path.as_str() {
        "/redfish/v1/Systems" => Act::Send(reply("200 OK", &collection)),
        _ => Act::Send(reply("200 OK", &system("\"Off\""))),
    })
    .await;
    let verdict = verdict_of(RedfishSettings {
        system_id: None,
        ..settings_of(&bmc)
    })
    .await;
    (
        verdict,
        bmc.requests()
            .into_iter()
            .map(|request| request.path)
            .collect(),
    )
}

#[tokio::test]
async fn a_link_out_of_the_service_is_refused() {
    let elsewhere = Bmc::plain(service("\"Off\"")).await;
    for link in [
        format!("http://{}{SYSTEM}", elsewhere.address),
        format!("//{}{SYSTEM}", elsewhere.address),
        format!("@{}{SYSTEM}", elsewhere.address),
        "/redfish/v1/../../Off".to_owned(),
        "/redfish/v1/%2e%2E/Off".to_owned(),
        "/redfish/v1/Systems/1?x=y".to_owned(),
        "/redfish/v1/Systems/1#/Off".to_owned(),
        "/redfish/v1/Systems/1\\u000d\\u000aX: y".to_owned(),
        format!("/redfish/v1/{}", "x".repeat(600)),
        "/Off".to_owned(),
        String::new(),
    ] {
        let collection = format!(r#"{{"Members":[{{"@odata.id":"{link}"}}]}}"#);
        let (verdict, asked) = verdict_on_collection(collection).await;
        assert_eq!(
            (verdict.as_str(), asked.len()),
            ("ProtocolError", 1),
            "{link}"
        );
    }
    assert!(
        elsewhere.requests().is_empty(),
        "the password went elsewhere"
    );
}

#[tokio::test]
async fn a_system_is_named_unless_there_is_exactly_one() {
    let member = |id: &str| format!(r#"{{"@odata.id":"/redfish/v1/Systems/{id}"}}"#);
    let one = format!(r#"{{"Members":[{}]}}"#, member("Self"));
    let (verdict, asked) = verdict_on_collection(one).await;
    assert_eq!(verdict, "Off(Off)");
    assert_eq!(asked, ["/redfish/v1/Systems", "/redfish/v1/Systems/Self"]);
    let several = format!(r#"{{"Members":[{},{}]}}"#, member("Node1"), member("Node2"));
    assert_eq!(
        verdict_on_collection(several.clone()).await.0,
        "AmbiguousSystem"
    );
    assert_eq!(
        verdict_on_collection(r#"{"Members":[]}"#.to_owned())
            .await
            .0,
        "AmbiguousSystem"
    );
    let paged = format!(
        r#"{{"Members":[{}],"Members@odata.nextLink":"/redfish/v1/Systems?p=2"}}"#,
        member("Node1")
    );
    assert_eq!(verdict_on_collection(paged).await.0, "ProtocolError");

    let bmc = Bmc::plain(always(reply("200 OK", &several))).await;
    let unnamed = RedfishSettings {
        system_id: None,
        ..settings_of(&bmc)
    };
    let error = observe(&Redfish::new(unnamed).unwrap())
        .await
        .expect_err("two systems");
    assert!(
        error
            .to_string()
            .contains("2 systems (Node1, Node2); set `redfish.systemID`"),
        "{error}"
    );
}

#[tokio::test]
async fn a_system_id_is_an_id_or_a_path_of_the_service() {
    let bmc = Bmc::plain(service("\"Off\"")).await;
    for (id, expected) in [
        ("1", true),
        (SYSTEM, true),
        ("", false),
        ("1/../2", false),
        ("..", false),
        ("1?x", false),
        ("/Off", false),
    ] {
        let driver = Redfish::new(RedfishSettings {
            system_id: Some(id.to_owned()),
            ..settings_of(&bmc)
        });
        match driver {
            Ok(driver) => assert!(expected && observe(&driver).await.is_ok(), "{id}"),
            Err(error) => assert!(
                !expected
                    && matches!(
                        error,
                        DeviceError::Settings {
                            field: "redfish.systemID",
                            ..
                        }
                    ),
                "{id}: {error}"
            ),
        }
    }
}

#[tokio::test]
async fn every_request_carries_what_bmcs_demand_and_nothing_that_they_refuse() {
    let bmc = Bmc::plain(service("\"On\"")).await;
    let mut session = driver(&bmc).open();
    session.prepare_off().await.unwrap();
    session.force_off().await.unwrap();
    for request in bmc.requests() {
        assert!(
            request.head.contains("\r\nodata-version: 4.0\r\n"),
            "{}",
            request.head
        );
        assert!(
            request.head.contains("\r\naccept: application/json\r\n"),
            "{}",
            request.head
        );
        assert!(
            request.head.contains("\r\nauthorization: basic "),
            "{}",
            request.head
        );
        assert!(
            request
                .head
                .contains(&format!("\r\nhost: {}\r\n", bmc.address)),
            "{}",
            request.head
        );
        assert!(!request.head.contains("if-match"), "{}", request.head);
    }
}

#[tokio::test]
async fn a_probe_tells_who_the_machine_is_and_that_it_can_be_cut_off() {
    let bmc = Bmc::plain(service("\"On\"")).await;
    let probe = driver(&bmc).open().probe(Extent::Whole).await.unwrap();
    assert_eq!(probe.vendor.as_deref(), Some("Example"));
    assert_eq!(probe.model.as_deref(), Some("R650"));
    assert_eq!(probe.firmware.as_deref(), Some("1.2.3"));
    assert_eq!(probe.power_restore_policy.as_deref(), Some("AlwaysOff"));
    assert_eq!(probe.off_denied, None);
    assert!(
        probe
            .reading
            .identity
            .is_system("44454c4c-4200-1035-8052-b4c04f4a4d32")
    );
    assert_eq!(
        probe.reading.identity.serial_number.as_deref(),
        Some("B5R0JM2")
    );
    assert!(bmc.commands().is_empty());
}

/// The clock stands with the Manager, which not every service has and not every user may read: a probe does not fail for it, nor is a
/// password sent elsewhere for it.
#[tokio::test]
async fn the_manager_s_clock_is_shown_and_no_fault_of_it_fails_a_probe() {
    const MANAGER: &str = "/redfish/v1/Managers/1";
    let elsewhere = Bmc::plain(always(reply("200 OK", "{}"))).await;
    let far = format!("http://{}{MANAGER}", elsewhere.address);
    let shown = async |link: &str, answer: Vec<u8>| {
        let managed = format!(r#""Links":{{"ManagedBy":[{{"@odata.id":"{link}"}}]}},"Actions""#);
        let document = system("\"On\"").replace(r#""Actions""#, &managed);
        let script = move |request: &Request| match request.path.as_str() {
            SYSTEM => Act::Send(reply("200 OK", &document)),
            MANAGER if answer.is_empty() => Act::Hang,
            MANAGER => Act::Send(answer.clone()),
            _ => Act::Send(reply("404 Not Found", "{}")),
        };
        let bmc = Bmc::plain(script).await;
        let probe = driver(&bmc)
            .open()
            .probe(Extent::Whole)
            .await
            .expect("a probe");
        probe.clock.map(|clock| clock.time.to_string())
    };
    let says = |time: &str| reply("200 OK", &format!(r#"{{"DateTime":{time}}}"#));
    let table = [
        (
            MANAGER,
            says(r#""2026-11-21T02:00:00+01:00""#),
            Some("2026-11-21T01:00:00Z"),
        ),
        (
            MANAGER,
            says(r#""2026-11-21T01:00:00.5Z""#),
            Some("2026-11-21T01:00:00.5Z"),
        ),
        (MANAGER, says(r#""yesterday""#), None),
        (MANAGER, says("null"), None),
        (MANAGER, reply("403 Forbidden", "{}"), None),
        (MANAGER, reply("200 OK", "<html>"), None),
        (MANAGER, Vec::new(), None),
        (far.as_str(), says(r#""2026-11-21T01:00:00Z""#), None),
    ];
    for (link, answer, expected) in table {
        let words = String::from_utf8_lossy(&answer).into_owned();
        assert_eq!(
            shown(link, answer).await.as_deref(),
            expected,
            "{link} {words}"
        );
    }
    assert!(elsewhere.requests().is_empty());
}
