//! An Off that something else in the same service speaks against.

use crate::bmc::{Act, Bmc, Request, reply};
use crate::device::{RESET, SYSTEM, driver, settings_of, system};
use fencing_drivers::redfish::{Redfish, RedfishSettings};
use fencing_drivers::{FenceDriver, OffOutcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const CHASSIS: &str = "/redfish/v1/Chassis/1";
const MANAGER: &str = "/redfish/v1/Managers/bmc";

/// A system with links to both, and these members.
fn linked(power: &str, more: &str) -> String {
    let links = format!(
        r#""Links":{{"Chassis":[{{"@odata.id":"{CHASSIS}"}}],"ManagedBy":[{{"@odata.id":"{MANAGER}"}}]}},{more}"#
    );
    system(power).replacen("\"SerialNumber\"", &format!("{links}\"SerialNumber\""), 1)
}

fn chassis(kind: &str, power: &str) -> String {
    format!(
        r##"{{"@odata.type":"#Chassis.v1_20_0.Chassis","ChassisType":"{kind}","PowerState":"{power}"}}"##
    )
}

fn manager(reset: &str, now: &str) -> String {
    format!(r#"{{"LastResetTime":"2026-11-28T{reset}Z","DateTime":"2026-11-28T{now}Z"}}"#)
}

/// A service of a system that reads this, beside a chassis and a Manager.
async fn serving(system: String, chassis: String, manager: String) -> Bmc {
    Bmc::plain(move |request| {
        Act::Send(match request.path.as_str() {
            SYSTEM => reply("200 OK", &system),
            CHASSIS => reply("200 OK", &chassis),
            MANAGER => reply("200 OK", &manager),
            RESET => reply("204 No Content", ""),
            _ => reply("404 Not Found", "{}"),
        })
    })
    .await
}

/// The faults of the second reading of a session, as a proof has two: each is an Off without them.
async fn faults(bmc: &Bmc) -> Vec<String> {
    let mut session = driver(bmc).open();
    session.observe().await.unwrap();
    let reading = session.observe().await.unwrap();
    assert_eq!(reading.raw, "Off");
    assert_eq!(reading.is_off(), reading.faults.is_empty());
    reading.faults
}

const LONG_AGO: (&str, &str) = ("01:00:00", "09:00:00");

/// The host's state is Off there until the host has answered, and the chassis has power.
#[tokio::test]
async fn openbmc_after_a_bmc_reset_chassis_on_system_off_is_no_off() {
    let off = || linked("\"Off\"", "");
    let old = || manager(LONG_AGO.0, LONG_AGO.1);
    let bmc = serving(off(), chassis("RackMount", "On"), old()).await;
    assert_eq!(faults(&bmc).await, ["a chassis that reads On"]);
    // What has power while the machine has none, and what reads Off as it does.
    for (kind, power) in [("Enclosure", "On"), ("RackMount", "Off")] {
        let bmc = serving(off(), chassis(kind, power), old()).await;
        assert!(faults(&bmc).await.is_empty(), "{kind} {power}");
    }
    // Absent fields change nothing.
    let bmc = serving(off(), "{}".to_owned(), "[]".to_owned()).await;
    assert!(faults(&bmc).await.is_empty());
}

#[tokio::test]
async fn an_off_of_a_system_that_says_it_runs_is_no_off_and_asks_no_chassis() {
    let running = r#""BootProgress":{"LastState":"OSRunning"},"#;
    let starting = linked("\"Off\"", "").replace("\"Disabled\"", "\"Starting\"");
    for (system, fault) in [
        (linked("\"Off\"", running), "BootProgress OSRunning"),
        (starting, "Status.State Starting"),
    ] {
        let old = manager(LONG_AGO.0, LONG_AGO.1);
        let bmc = serving(system, chassis("RackMount", "On"), old).await;
        assert_eq!(faults(&bmc).await, [fault]);
        assert!(bmc.requests().iter().all(|it| it.path != CHASSIS));
    }
}

#[tokio::test]
async fn a_bmc_that_has_just_restarted_proves_no_off_until_it_has_taken_our_own() {
    let just = manager("09:00:00", "09:04:00");
    let bmc = serving(linked("\"Off\"", ""), chassis("RackMount", "Off"), just).await;
    let restarted = ["a BMC that restarted in the last 5 minutes"];
    assert_eq!(faults(&bmc).await, restarted);

    let driver = driver(&bmc);
    let mut session = driver.open();
    session.observe().await.unwrap();
    session.prepare_off().await.unwrap();
    assert_eq!(session.seen().unwrap().faults, restarted);
    assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
    assert!(driver.open().observe().await.unwrap().is_off());
}

/// What was asked beside each of these readings of a session.
async fn asked_beside(bmc: &Bmc, settings: RedfishSettings, readings: usize) -> Vec<String> {
    let mut session = Redfish::new(settings).unwrap().open();
    for _ in 0..readings {
        session.observe().await.unwrap();
    }
    let mut beside = Vec::new();
    for request in bmc.requests() {
        match request.path.as_str() {
            SYSTEM => beside.push(String::new()),
            CHASSIS => *beside.last_mut().unwrap() += "C",
            MANAGER => *beside.last_mut().unwrap() += "M",
            other => panic!("{other}"),
        }
    }
    beside
}

/// One question with each Off, and none beside an On: for the chassis and, until it has answered, for the Manager, in turn. A single look hears the
/// chassis.
#[tokio::test]
async fn one_thing_is_asked_beside_an_off_and_nothing_beside_an_on() {
    let old = || manager(LONG_AGO.0, LONG_AGO.1);
    for (power, manager, expected) in [
        ("\"Off\"", old(), ["C", "M", "C", "C"]),
        ("\"Off\"", "no JSON".to_owned(), ["C", "M", "C", "M"]),
        ("\"On\"", old(), ["", "", "", ""]),
    ] {
        let bmc = serving(linked(power, ""), chassis("RackMount", "Off"), manager).await;
        let asked = asked_beside(&bmc, settings_of(&bmc), 4).await;
        assert_eq!(asked, expected, "{power}");
    }
}

/// It costs time of two readings in a session, and no reading, and keeps nothing else from being asked.
#[tokio::test]
async fn whatever_never_answers_beside_an_off_is_asked_twice() {
    for (hangs, expected) in [
        (&[CHASSIS][..], ["C", "M", "C", "", ""]),
        (&[MANAGER], ["C", "M", "C", "M", "C"]),
        (&[CHASSIS, MANAGER], ["C", "M", "C", "M", ""]),
    ] {
        let bmc = Bmc::plain(move |request: &Request| {
            Act::Send(match request.path.as_str() {
                path if hangs.contains(&path) => return Act::Hang,
                SYSTEM => reply("200 OK", &linked("\"Off\"", "")),
                CHASSIS => reply("200 OK", &chassis("RackMount", "Off")),
                MANAGER => reply("200 OK", &manager(LONG_AGO.0, LONG_AGO.1)),
                _ => reply("404 Not Found", "{}"),
            })
        })
        .await;
        let settings = RedfishSettings {
            call_timeout: Duration::from_secs(2),
            ..settings_of(&bmc)
        };
        assert_eq!(asked_beside(&bmc, settings, 5).await, expected, "{hangs:?}");
    }
}

/// An Off of a BMC that answers less and less is no better for that: what spoke against it stands, in the next session of the driver too, until
/// the chassis reads otherwise or the machine reads On.
#[tokio::test]
async fn a_chassis_that_reads_on_and_then_fails_goes_on_speaking_against_an_off() {
    for is_slow in [false, true] {
        let said = Arc::new(AtomicUsize::new(0));
        let asked = Arc::clone(&said);
        let bmc = Bmc::plain(move |request| match request.path.as_str() {
            SYSTEM => {
                let power = if said.load(Ordering::Relaxed) < 9 {
                    "\"Off\""
                } else {
                    "\"On\""
                };
                Act::Send(reply("200 OK", &linked(power, "")))
            }
            CHASSIS if said.fetch_add(1, Ordering::Relaxed) == 0 => {
                Act::Send(reply("200 OK", &chassis("RackMount", "On")))
            }
            CHASSIS if is_slow => Act::Hang,
            CHASSIS => Act::Send(reply("503 Service Unavailable", "{}")),
            _ => Act::Send(reply("404 Not Found", "{}")),
        })
        .await;
        let driver = Redfish::new(RedfishSettings {
            call_timeout: Duration::from_secs(2),
            ..settings_of(&bmc)
        });
        let driver = driver.unwrap();
        let mut first = driver.open();
        first.observe().await.unwrap();
        for mut session in [first, driver.open()] {
            for _ in 0..3 {
                let reading = session.observe().await.unwrap();
                assert_eq!(reading.faults, ["a chassis that reads On"], "{is_slow}");
            }
        }
        asked.store(9, Ordering::Relaxed);
        driver.open().observe().await.unwrap();
        asked.store(1, Ordering::Relaxed);
        assert!(driver.open().observe().await.unwrap().is_off());
    }
}

/// One that comes up leaves fields away: that says nothing.
#[tokio::test]
async fn what_spoke_against_an_off_stands_until_the_device_says_otherwise() {
    let readings = [
        (r#""BootProgress":{"LastState":"OSRunning"},"#, "{}"),
        ("", "{}"),
        ("", r#"{"ChassisType":"RackMount","PowerState":null}"#),
        ("", r#"{"ChassisType":"RackMount","PowerState":"Off"}"#),
    ];
    let read = Arc::new(AtomicUsize::new(0));
    let number = Arc::clone(&read);
    let bmc = Bmc::plain(move |request| {
        let (more, chassis) = readings[number.load(Ordering::Relaxed)];
        let status = r#""Status":{"State":"Disabled","Health":"Critical"},"#;
        Act::Send(match request.path.as_str() {
            SYSTEM => reply("200 OK", &linked("\"Off\"", more).replacen(status, "", 1)),
            CHASSIS => reply("200 OK", chassis),
            _ => reply("404 Not Found", "{}"),
        })
    })
    .await;
    let driver = driver(&bmc);
    for (number, is_off) in [false, false, false, true].into_iter().enumerate() {
        read.store(number, Ordering::Relaxed);
        let reading = driver.open().observe().await.unwrap();
        assert_eq!(reading.is_off(), is_off, "{number}: {:?}", reading.faults);
    }
}

/// A BMC that has just come up may refuse that question at first, or be slow to answer it.
#[tokio::test]
async fn a_manager_that_fails_or_is_late_is_asked_again() {
    for is_slow in [false, true] {
        let asked = AtomicUsize::new(0);
        let bmc = Bmc::plain(move |request| {
            Act::Send(match request.path.as_str() {
                SYSTEM => reply("200 OK", &linked("\"Off\"", "")),
                CHASSIS => reply("200 OK", &chassis("RackMount", "Off")),
                MANAGER if asked.fetch_add(1, Ordering::Relaxed) > 0 => {
                    reply("200 OK", &manager("09:00:00", "09:04:00"))
                }
                MANAGER if is_slow => return Act::Hang,
                MANAGER => reply("503 Service Unavailable", "{}"),
                _ => reply("404 Not Found", "{}"),
            })
        })
        .await;
        let settings = RedfishSettings {
            call_timeout: Duration::from_secs(2),
            ..settings_of(&bmc)
        };
        let driver = Redfish::new(settings).unwrap();
        let mut session = driver.open();
        for _ in 0..3 {
            assert!(session.observe().await.unwrap().is_off(), "{is_slow}");
        }
        let restarted = ["a BMC that restarted in the last 5 minutes"];
        assert_eq!(session.observe().await.unwrap().faults, restarted);
        // It is known to the next session, too.
        assert_eq!(driver.open().observe().await.unwrap().faults, restarted);
    }
}
