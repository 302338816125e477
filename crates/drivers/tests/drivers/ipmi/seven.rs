//! Seven ways in which a BMC or the network says no, side by side: whoever reads one of them must not take it for another.

use super::*;
use fencing_drivers::Advice::{self, Human, Retry, Wait};
use fencing_testbed::https::Line;
use fencing_testbed::ipmi::{Nonsense, Reply, Which};
use std::collections::BTreeSet;

const SECRET: &str = "the Secret named by `credentialsRef`";

struct Row {
    name: &'static str,
    error: DeviceError,
    reason: &'static str,
    advice: Advice,
    /// What to do about it.
    way_out: &'static [&'static str],
}

async fn read(driver: &Ipmi) -> DeviceError {
    driver.open().observe().await.unwrap_err()
}

async fn refused(user: &str, password: &str) -> DeviceError {
    let bench = bench();
    let settings = IpmiSettings {
        credentials: credentials(user, password, &[]),
        ..bench.settings()
    };
    read(&Ipmi::new(settings).unwrap()).await
}

async fn session_table_full() -> DeviceError {
    let bench = bench();
    bench.bmc.faults(|faults| faults.session_table_full = true);
    read(&bench.driver()).await
}

async fn may_only_read() -> DeviceError {
    let bench = bench_of_a_reader();
    bench.power_off().await.unwrap_err()
}

async fn busy() -> DeviceError {
    let bench = bench();
    let busy = Reply::new(Which::CHASSIS_STATUS, Nonsense::Code(0xc0));
    bench.bmc.faults(|faults| faults.replies.push(busy));
    read(&bench.impatient()).await
}

/// At its own time for a closed port, which is at once, and at the call's for a black hole.
async fn nobody(line: Line) -> DeviceError {
    let bench = bench();
    bench.bmc.set_line(line).unwrap();
    match line {
        Line::BlackHole => read(&bench.impatient()).await,
        _ => read(&bench.driver()).await,
    }
}

async fn provoked() -> [DeviceError; 7] {
    tokio::join!(
        refused("fence", "wrong"),
        refused("nobody", "s3cret-Bmc"),
        session_table_full(),
        may_only_read(),
        busy(),
        nobody(Line::Refused),
        nobody(Line::BlackHole),
    )
    .into()
}

type Expected = (&'static str, &'static str, Advice, &'static [&'static str]);

/// Name, reason, advice, and what to do about it.
const TABLE: [Expected; 7] = [
    (
        "password",
        "AuthFailed",
        Human,
        &["its password for this user differs", SECRET],
    ),
    (
        "user",
        "UnknownUser",
        Human,
        &["correct `username` in", SECRET, "IPMI over LAN"],
    ),
    (
        "sessions",
        "SessionsExhausted",
        Wait,
        &["trying again later", "end stale sessions"],
    ),
    (
        "privilege",
        "PermissionDenied",
        Human,
        &["the Operator role"],
    ),
    (
        "busy",
        "Busy",
        Wait,
        &["0xc0, node busy", "trying again later"],
    ),
    (
        "closed port",
        "Unreachable",
        Retry,
        &["refused", "check the address"],
    ),
    (
        "black hole",
        "Timeout",
        Retry,
        &[
            "check the address",
            "firewall",
            "UDP",
            "623",
            "IPMI over LAN",
            "`probe.timeoutSeconds`",
        ],
    ),
];

async fn table() -> Vec<Row> {
    let rows = provoked().await.into_iter().zip(TABLE);
    rows.map(|(error, (name, reason, advice, way_out))| Row {
        name,
        error,
        reason,
        advice,
        way_out,
    })
    .collect()
}

#[tokio::test]
async fn seven_refusals_are_seven_errors_each_with_its_way_out() {
    let rows = table().await;
    for row in &rows {
        let (name, said) = (row.name, row.error.to_string());
        assert_eq!(
            (row.error.reason(), row.error.advice()),
            (row.reason, row.advice),
            "{name}: {said}"
        );
        for words in row.way_out {
            assert!(
                said.contains(words),
                "{name} does not say `{words}`: {said}"
            );
        }
        assert!(
            said.contains("127.83."),
            "{name} does not name the endpoint: {said}"
        );
        assert!(!said.contains("s3cret-Bmc"), "{said}");
    }
    let reasons: BTreeSet<_> = rows.iter().map(|row| row.error.reason()).collect();
    assert_eq!(reasons.len(), rows.len());
    // Only the first two are refusals of credentials, and count as tries.
    let tries = rows.iter().filter(|row| row.error.refuses_credentials());
    assert_eq!(
        tries.map(|row| row.name).collect::<Vec<_>>(),
        ["password", "user"]
    );
}
