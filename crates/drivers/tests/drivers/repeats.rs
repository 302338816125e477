//! Devices that repeat what they were sent: the password or the header that it stands in. Nothing of it may be shown.

use crate::agent::{Agent, COMMUNITY, ON, element, int, now};
use crate::bmc::{Act, Bmc, reply, reply_with};
use crate::device::{PASSWORD, SYSTEM, driver, service, settings_of, system, system_with};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::redfish::{Redfish, RedfishSettings};
use fencing_drivers::{Extent, FenceDriver};
use fencing_testbed::secrecy::Secret;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All that the driver says about this BMC, in each call and each form.
async fn told(bmc: &Bmc) -> String {
    let driver = driver(bmc);
    let mut told = Vec::new();
    let mut tell = |words: String, text: String| told.extend([words, text]);
    let mut session = driver.open();
    match session.observe().await {
        Ok(reading) => tell(reading.raw.clone(), format!("{reading:?}")),
        Err(error) => tell(error.to_string(), format!("{error:?}")),
    }
    match driver.open().probe(Extent::Whole).await {
        Ok(probe) => tell(String::new(), format!("{probe:?}")),
        Err(error) => tell(error.to_string(), format!("{error:?}")),
    }
    let prepared = session.prepare_off().await;
    tell(String::new(), format!("{prepared:?}"));
    let outcome = session.force_off().await;
    tell(String::new(), format!("{outcome:?}"));
    told.join("\n")
}

/// Something of the secrets was repeated, and nothing of it is shown.
#[track_caller]
fn assert_hidden(told: &str, secrets: &[&str]) {
    assert!(told.contains("***"), "nothing was repeated: {told}");
    for secret in secrets {
        let found = Secret::new("it", secret).unwrap().is_in(told.as_bytes());
        // The beginning of one that was cut off, too.
        assert!(!found && !told.contains(&secret[..8]), "{told}");
    }
}

#[tokio::test]
async fn a_bmc_that_repeats_its_credentials_has_them_hidden() {
    let token = STANDARD.encode(format!("admin:{PASSWORD}"));
    let header = format!("Authorization: Basic {token}, which is {PASSWORD}");
    let long = format!("{}{PASSWORD}", "x".repeat(50));
    let reset = r#""ResetType@Redfish.AllowableValues":["#;
    let path = format!("{SYSTEM}/{token}");
    let info = format!(r#""@Redfish.ActionInfo":"{path}""#);
    let documents = [
        system(&format!("\"{header}\"")),
        system(&format!("{{\"{PASSWORD}\":\"{token}\"}}")),
        system("\"On\"").replace("R650", PASSWORD),
        system("\"On\"").replace("R650", &long),
        // A serial number that is another then is left away.
        system("\"On\"")
            .replace("B5R0JM2", &token)
            .replace("R650", PASSWORD),
        system("\"On\"").replace("4C4C4544-0042-3510-8052-B4C04F4A4D32", PASSWORD),
        system("\"On\"").replace("#ComputerSystem.v1_20_0.ComputerSystem", PASSWORD),
        system_with("\"On\"", &format!("{reset}\"{PASSWORD}\"]")),
        system_with("\"On\"", &info),
        format!(r#"{{"{PASSWORD}":1,"{PASSWORD}":2}}"#),
    ];
    for document in documents {
        let bmc = Bmc::plain(move |request| {
            Act::Send(match request.path.as_str() {
                SYSTEM => reply("200 OK", &document),
                _ => reply("404 Not Found", "{}"),
            })
        })
        .await;
        assert_hidden(&told(&bmc).await, &[PASSWORD, &token]);
    }
    let encoding = format!("Content-Encoding: {PASSWORD}\r\n");
    let bmc = Bmc::plain(move |_| Act::Send(reply_with("200 OK", &encoding, "{}"))).await;
    assert_hidden(&told(&bmc).await, &[PASSWORD, &token]);
    // What it says of a command that it does not carry out, of one that says so at once and of one that became a Task.
    let message = format!(r#"{{"Message":"malformed: {header}","MessageId":"X.1.0.{token}"}}"#);
    let error = format!(r#"{{"error":{{"@Message.ExtendedInfo":[{message}]}}}}"#);
    let task =
        format!(r#"{{"@odata.id":"{path}","TaskState":"Exception","Messages":[{message}]}}"#);
    for (status, power, body) in [
        ("400 Bad Request", "\"On\"", &error),
        // It is off already, it says.
        ("400 Bad Request", "\"Off\"", &error),
        ("412 Precondition Failed", "\"On\"", &error),
        ("501 Not Implemented", "\"On\"", &error),
        ("202 Accepted", "\"On\"", &task),
    ] {
        let (body, path, task) = (body.clone(), path.clone(), task.clone());
        let bmc = Bmc::plain(move |request| {
            Act::Send(match request.method.as_str() {
                "POST" => reply(status, &body),
                _ if request.path == path => reply("200 OK", &task),
                _ => reply("200 OK", &system(power)),
            })
        })
        .await;
        assert_hidden(&told(&bmc).await, &[PASSWORD, &token]);
    }
}

/// Makers take the last digits of a label for the password, and make the UUID of the label: stars in it would be another machine's, and
/// tell the password to whoever knows the UUID.
#[tokio::test]
async fn a_password_that_is_a_part_of_the_uuid_does_not_hide_the_machine() {
    const UUID: &str = "4C4C4544-0042-3510-8052-B4C04F4A4D32";
    let bmc = Bmc::plain(service("\"On\"")).await;
    let identity_with = async |password: &str| {
        let data = [("username", "admin"), ("password", password)];
        let data = data.map(|(key, value)| (key.to_owned(), value.into()));
        let credentials = Credentials::from_secret("bmc", &data.into(), &BTreeMap::new());
        let settings = RedfishSettings {
            credentials: Arc::new(credentials.unwrap()),
            ..settings_of(&bmc)
        };
        let driver = Redfish::new(settings).unwrap();
        driver.open().observe().await.unwrap().identity
    };
    let identity = identity_with("4A4D32").await;
    assert!(identity.is_system(UUID), "{identity:?}");
    assert_eq!(identity.serial_number.as_deref(), Some("B5R0JM2"));
    let identity = identity_with("B5R0JM").await;
    assert!(identity.is_system(UUID), "{identity:?}");
    assert_eq!(identity.serial_number, None);
}

#[tokio::test]
async fn a_pdu_that_repeats_its_community_has_it_hidden() {
    let agent = Agent::start(|question| {
        let mut values: Vec<_> = question.names.iter().map(|_| int(ON)).collect();
        *values.last_mut().unwrap() = element(4, format!("PDU of {COMMUNITY}").as_bytes());
        values[0] = element(4, COMMUNITY.as_bytes());
        now(question.answer(&values, 0))
    })
    .await;
    let probe = agent.driver().open().probe(Extent::Whole).await.unwrap();
    assert_eq!(probe.model.as_deref(), Some("PDU of ***"));
    assert!(probe.reading.raw.contains("***"), "{probe:?}");
    assert_hidden(&format!("{probe:?}"), &[COMMUNITY]);
}
