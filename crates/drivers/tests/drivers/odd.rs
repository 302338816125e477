//! Services that are right in all but the spelling, and words that fit who has named what.

use crate::bmc::{Act, Bmc, Request, reply};
use crate::device::{RESET, SYSTEM, driver, settings_of, system};
use fencing_core::reading::PowerState;
use fencing_drivers::redfish::{Redfish, RedfishSettings};
use fencing_drivers::{DeviceError, Extent, FenceDriver, OffOutcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A service whose system is the one of this text.
async fn of_system(system: impl Fn(&Request) -> String + Send + Sync + 'static) -> Bmc {
    Bmc::plain(move |request| {
        Act::Send(match request.path.as_str() {
            SYSTEM => reply("200 OK", &system(request)),
            RESET => reply("204 No Content", ""),
            _ => reply("404 Not Found", "{}"),
        })
    })
    .await
}

/// What the driver sends where nobody has named the system.
fn unnamed(bmc: &Bmc) -> Redfish {
    let settings = RedfishSettings {
        system_id: None,
        ..settings_of(bmc)
    };
    Redfish::new(settings).unwrap()
}

async fn power_off(driver: &Redfish) -> Result<OffOutcome, DeviceError> {
    let mut session = driver.open();
    session.prepare_off().await?;
    session.force_off().await
}

/// The address as the request itself names it.
fn origin(request: &Request) -> String {
    let mut lines = request.head.lines();
    let host = lines.find_map(|line| line.strip_prefix("host: "));
    format!("http://{}", host.unwrap().trim())
}

#[tokio::test]
async fn links_that_are_urls_of_the_same_address_are_followed_to_the_command() {
    let bmc = Bmc::plain(|request| {
        let origin = origin(request);
        let urls = |text: &str| text.replace("\"/redfish", &format!("\"{origin}/redfish"));
        let members = format!(r#"{{"Members":[{{"@odata.id":"{SYSTEM}"}}]}}"#);
        Act::Send(match request.path.as_str() {
            "/redfish/v1/Systems" => reply("200 OK", &urls(&members)),
            SYSTEM => reply("200 OK", &urls(&system("\"On\""))),
            RESET => reply("204 No Content", ""),
            _ => reply("404 Not Found", "{}"),
        })
    })
    .await;
    assert_eq!(power_off(&unnamed(&bmc)).await, Ok(OffOutcome::Accepted));
    let paths: Vec<String> = bmc.requests().into_iter().map(|it| it.path).collect();
    assert_eq!(paths, ["/redfish/v1/Systems", SYSTEM, RESET]);
}

/// The password would go there.
#[tokio::test]
async fn a_target_at_another_host_or_port_is_refused_in_a_sentence() {
    for other in ["http://127.0.0.1:1", "https://bmc.example"] {
        let bmc = of_system(move |_| {
            system("\"On\"").replace(r#""target":""#, &format!(r#""target":"{other}"#))
        })
        .await;
        let error = power_off(&driver(&bmc)).await.unwrap_err();
        let words = format!("\"{other}{RESET}\" leads to another host or port than");
        assert!(error.to_string().contains(&words), "{error}");
        assert!(bmc.commands().is_empty());
    }
}

#[tokio::test]
async fn names_that_early_firmware_spells_otherwise_are_read() {
    let spellings: [(&str, &str); 5] = [
        (r#""target":"#, r#""Target":"#),
        ("#ComputerSystem.v1_20_0.", "#ComputerSystem.1.0.0."),
        ("#ComputerSystem.v1_20_0.ComputerSystem", "#ComputerSystem"),
        (
            r##""@odata.type":"#ComputerSystem.v1_20_0.ComputerSystem","##,
            "",
        ),
        ("@Redfish.AllowableValues", "@DMTF.AllowableValues"),
    ];
    for (usual, odd) in spellings {
        let bmc = of_system(move |_| {
            let usual_system = system("\"On\"");
            assert!(usual_system.contains(usual), "{usual}");
            usual_system.replace(usual, odd)
        })
        .await;
        let driver = driver(&bmc);
        assert_eq!(power_off(&driver).await, Ok(OffOutcome::Accepted), "{odd}");
    }
}

/// What cannot be told from another resource is none, and no other word is Off.
#[tokio::test]
async fn an_odd_spelling_makes_no_off() {
    let bare = r#"{"PowerState":"Off"}"#;
    let bmc = of_system(move |_| bare.to_owned()).await;
    let error = driver(&bmc).open().observe().await.unwrap_err();
    assert_eq!(error.reason(), "ProtocolError");
    for word in ["OFF", "off", "Off "] {
        let bmc = of_system(move |_| system(&format!("\"{word}\""))).await;
        let reading = driver(&bmc).open().observe().await.unwrap();
        assert_eq!(reading.state, PowerState::Unknown, "{word}");
    }
}

/// A BMC that has just restarted knows its system a moment later.
#[tokio::test]
async fn a_system_that_is_gone_for_a_moment_is_asked_for_again_once() {
    let missing = |from: usize, count: usize| {
        let asked = Arc::new(AtomicUsize::new(0));
        Bmc::plain(move |_| {
            let number = asked.fetch_add(1, Ordering::Relaxed);
            Act::Send(match (from..from + count).contains(&number) {
                true => reply("404 Not Found", "{}"),
                false => reply("200 OK", &system("\"Off\"")),
            })
        })
    };
    let bmc = missing(1, 1).await;
    let mut session = driver(&bmc).open();
    for _ in 0..2 {
        assert!(session.observe().await.unwrap().is_off());
    }
    assert_eq!(bmc.requests().len(), 3);
    let bmc = missing(1, 9).await;
    let mut session = driver(&bmc).open();
    session.observe().await.unwrap();
    for requests in [3, 4] {
        let error = session.observe().await.unwrap_err();
        assert_eq!(error.reason(), "NotFound");
        assert_eq!(bmc.requests().len(), requests, "twice, and not more");
    }
}

#[tokio::test]
async fn what_is_not_there_is_looked_for_where_its_name_stands() {
    let bmc = Bmc::plain(|request| {
        Act::Send(match request.path.as_str() {
            "/redfish/v1/Systems" => reply(
                "200 OK",
                r#"{"Members":[{"@odata.id":"/redfish/v1/Systems/gone"}]}"#,
            ),
            _ => reply("404 Not Found", "{}"),
        })
    })
    .await;
    let nothing = Bmc::plain(|_| Act::Send(reply("404 Not Found", "{}"))).await;
    for (driver, words) in [
        (driver(&bmc), "Systems/1 (404); set `redfish.systemID`"),
        (
            unnamed(&bmc),
            "Systems/gone (404); restart its BMC if this lasts: it returned this path itself",
        ),
        (
            unnamed(&nothing),
            "Systems (404); check that Redfish is enabled",
        ),
    ] {
        let error = driver.open().observe().await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let chassis = of_system(|_| r##"{"@odata.type":"#Chassis.v1_20_0.Chassis"}"##.to_owned()).await;
    let error = driver(&chassis).open().observe().await.unwrap_err();
    let words = "set `redfish.systemID` to a ComputerSystem";
    assert!(error.to_string().contains(words), "{error}");
}

/// As a service says it that takes the login, and nothing else before the password is another one.
#[tokio::test]
async fn a_password_that_has_expired_is_named() {
    let body = r#"{"error":{"@Message.ExtendedInfo":[
        {"MessageId":"Base.1.18.InsufficientPrivilege","Message":"Not enough."},
        {"MessageId":"Base.1.18.PasswordChangeRequired","MessageArgs":["/redfish/v1/AccountService/Accounts/admin"]}]}}"#;
    for status in ["403 Forbidden", "401 Unauthorized"] {
        let bmc = Bmc::plain(move |_| Act::Send(reply(status, body))).await;
        let error = driver(&bmc).open().probe(Extent::Needed).await.unwrap_err();
        assert_eq!(error.reason(), "AuthFailed");
        let words = "the password has expired";
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.refuses_credentials(), "the Secret is read again");
    }
}
