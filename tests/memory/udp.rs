//! IPMI and SNMP: datagrams as large as they can be, one after the other.

use crate::agent;
use crate::device::{PASSWORD, local_rules};
use crate::{judge, measured};
use fencing_api::bmcs::IpmiPrivilege;
use fencing_core::reading::Reading;
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::ipmi::{Ipmi, IpmiSettings};
use fencing_drivers::past::Past;
use fencing_drivers::pdu::{Pdu, PduSettings};
use fencing_drivers::{DeviceError, FenceDriver};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::spawn;
use std::time::Duration;

/// Time for one call: nothing here is an answer.
const CALL: Duration = Duration::from_millis(700);
/// Datagrams for each question.
const DATAGRAMS: usize = 400;

fn verdict(outcome: Result<Reading, DeviceError>) -> String {
    match outcome {
        Ok(reading) => format!("{:?}", reading.state),
        Err(error) => error.reason().to_owned(),
    }
}

/// An account with this password.
pub fn ipmi_settings(at: SocketAddr, password: &str) -> IpmiSettings {
    let data = [("username", "admin"), ("password", password)]
        .map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
    let credentials = Credentials::from_secret("bmc", &BTreeMap::from(data), &BTreeMap::new());
    IpmiSettings {
        address: Address::expand_host(&at.ip().to_string(), at.port(), "n").expect("an address"),
        cipher_suite: 17,
        privilege: IpmiPrivilege::Operator,
        credentials: Arc::new(credentials.expect("credentials")),
        rules: local_rules(),
        call_timeout: CALL,
        command_timeout: CALL,
        past: Past::default(),
        clock: Clock::SYSTEM,
    }
}

pub async fn ask_ipmi(at: SocketAddr) -> String {
    let driver = Ipmi::new(ipmi_settings(at, "correct horse")).expect("a driver");
    verdict(driver.open().observe().await)
}

pub async fn ask_pdu(at: SocketAddr) -> String {
    let settings = PduSettings {
        call_timeout: CALL,
        ..agent::settings(at, serde_json::json!({}), &[("community", PASSWORD)])
    };
    verdict(Pdu::new(settings).expect("a driver").open().observe().await)
}

/// Answers each datagram with many of these, until the test ends.
fn flood(datagram: Vec<u8>) -> SocketAddr {
    let socket = UdpSocket::bind((agent::own_address(), 0)).expect("a port");
    let at = socket.local_addr().expect("an address");
    spawn(move || {
        let mut buffer = [0; 2048];
        loop {
            let Ok((_, from)) = socket.recv_from(&mut buffer) else {
                continue;
            };
            for _ in 0..DATAGRAMS {
                let _ = socket.send_to(&datagram, from);
            }
        }
    });
    at
}

fn no_datagram_costs_more(driver: &str, beginnings: &[(&str, &[u8])]) {
    let mut rows = Vec::new();
    for (what, beginning) in beginnings {
        let mut datagram = beginning.repeat(60_000 / beginning.len());
        datagram.truncate(60_000);
        let (growth, verdict) = measured(driver, flood(datagram));
        rows.push((format!("{driver}, {what}"), growth, verdict));
    }
    judge(rows);
}

#[test]
fn no_datagram_of_an_ipmi_bmc_costs_more_than_a_mebibyte() {
    no_datagram_costs_more(
        "ipmi",
        &[
            ("noise", &[0xa5]),
            (
                "headers of RMCP+",
                &[6, 0, 0xff, 7, 6, 0xc0, 1, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff],
            ),
            (
                "a session that opens",
                &[6, 0, 0xff, 7, 6, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0xea],
            ),
            (
                "an answer outside of a session",
                &[6, 0, 0xff, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff],
            ),
        ],
    );
}

#[test]
fn no_datagram_of_a_pdu_costs_more_than_a_mebibyte() {
    no_datagram_costs_more(
        "pdu",
        &[
            ("noise", &[0xa5]),
            ("elements in elements", &[0x30, 0x82, 0xea, 0x5c]),
            ("elements of nothing", &[5, 0]),
            ("an endless list", &[0x30, 0x80]),
        ],
    );
}
