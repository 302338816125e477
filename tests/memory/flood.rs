//! Floods inside of sessions that are open and authenticated: a relay before a BMC and a PDU that are well multiplies what they say, and puts
//! large datagrams of the same session between.

use crate::agent;
use crate::device::local_rules;
use crate::{ASKED, judge, measured};
use fencing_api::bmcs::IpmiPrivilege;
use fencing_core::reading::Reading;
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::ipmi::{Ipmi, IpmiSettings};
use fencing_drivers::past::Past;
use fencing_drivers::pdu::{Pdu, PduSettings};
use fencing_drivers::{DeviceError, FenceDriver};
use fencing_testbed::bmc::Plug;
use fencing_testbed::ipmi::{IpmiBmc, Settings};
use fencing_testbed::process::Guard;
use fencing_testbed::snmpd::{
    AUTHENTICATION_PASSWORD, Feed, PRIVACY_PASSWORD, Pdu as Emulator, USER,
};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::spawn;
use std::time::Duration;

const UUID: &str = "4c4c4544-0042-3510-8054-b4c04f4e4e31";
/// Time for one call: the flood is as long as that.
const CALL: Duration = Duration::from_secs(10);
/// So often each answer comes, and so many large datagrams after it.
const COPIES: usize = 200;
/// As much of an answer as says which session it is of.
const HEAD: usize = 24;

/// Asks a BMC of the lab once, as the process that is measured.
pub async fn ask_ipmi(at: SocketAddr) -> String {
    let account = fencing_testbed::bmc::Credentials::default();
    let data = [
        ("username", account.username),
        ("password", account.password),
    ]
    .map(|(key, value)| (key.to_owned(), value.into_bytes()));
    let credentials = Credentials::from_secret("bmc", &BTreeMap::from(data), &BTreeMap::new());
    let settings = IpmiSettings {
        address: Address::expand_host(&at.ip().to_string(), at.port(), "n").expect("an address"),
        cipher_suite: 17,
        privilege: IpmiPrivilege::Operator,
        credentials: Arc::new(credentials.expect("credentials")),
        rules: local_rules(),
        call_timeout: CALL,
        command_timeout: CALL,
        past: Past::default(),
        clock: Clock::SYSTEM,
    };
    verdict(
        Ipmi::new(settings)
            .expect("a driver")
            .open()
            .observe()
            .await,
    )
}

/// Asks a PDU of the lab once, by version 3.
pub async fn ask_pdu(at: SocketAddr) -> String {
    let secret = [
        ("username", USER),
        ("authPassword", AUTHENTICATION_PASSWORD),
        ("privPassword", PRIVACY_PASSWORD),
    ];
    let settings = PduSettings {
        call_timeout: CALL,
        ..agent::settings(at, json!({"snmp": {"version": "V3"}}), &secret)
    };
    verdict(Pdu::new(settings).expect("a driver").open().observe().await)
}

fn verdict(outcome: Result<Reading, DeviceError>) -> String {
    match outcome {
        Ok(reading) => format!("{:?}", reading.state),
        Err(error) => error.reason().to_owned(),
    }
}

/// Stands before `device`, until the test ends. What it says to the last client that asks comes many times, and worse.
fn relay(device: SocketAddr) -> SocketAddr {
    let front = UdpSocket::bind((agent::own_address(), 0)).expect("a port");
    let at = front.local_addr().expect("an address");
    spawn(move || {
        let mut clients = BTreeSet::new();
        let mut ways: BTreeMap<SocketAddr, UdpSocket> = BTreeMap::new();
        let mut buffer = [0; 4096];
        loop {
            let Ok((length, from)) = front.recv_from(&mut buffer) else {
                continue;
            };
            clients.insert(from);
            let floods = clients.len() >= ASKED;
            let way = ways.entry(from).or_insert_with(|| {
                let back = UdpSocket::bind((agent::own_address(), 0)).expect("a port");
                back.connect(device).expect("a way");
                let (back, front) = (
                    back.try_clone().expect("a socket"),
                    front.try_clone().expect("a socket"),
                );
                let sender = back.try_clone().expect("a socket");
                spawn(move || answer(&back, &front, from, floods));
                sender
            });
            let _ = way.send(&buffer[..length]);
        }
    });
    at
}

/// Passes on what the device answers to this client.
fn answer(back: &UdpSocket, front: &UdpSocket, client: SocketAddr, floods: bool) {
    let mut buffer = [0; 4096];
    while let Ok(length) = back.recv(&mut buffer) {
        let datagram = &buffer[..length];
        let _ = front.send_to(datagram, client);
        if !floods {
            continue;
        }
        let mut large = datagram[..length.min(HEAD)].to_vec();
        large.resize(60_000, 0xa5);
        for _ in 0..COPIES {
            let _ = front.send_to(datagram, client);
            let _ = front.send_to(&large, client);
        }
    }
}

fn flooded(kind: &str, device: SocketAddr) {
    let (growth, verdict) = measured(kind, relay(device));
    assert_eq!(verdict, "On", "{kind}: the flood keeps the answer away");
    judge(vec![(kind.to_owned(), growth, verdict)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_in_a_session_of_ipmi_costs_no_more_than_a_mebibyte() {
    let address: IpAddr = [127, 87, 1, 1].into();
    let plug = Arc::new(Plug::new("node-1", UUID));
    let bmc = IpmiBmc::start(address, plug, Settings::default()).expect("a BMC");
    let at = bmc.address();
    tokio::task::spawn_blocking(move || flooded("ipmi-session", at))
        .await
        .expect("a verdict");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_in_a_session_of_snmp_3_costs_no_more_than_a_mebibyte() {
    let feed = Feed::new(Arc::new(Plug::new("node-1", UUID)));
    let (guard, logs) = (
        Guard::start().expect("a guard"),
        tempfile::tempdir().expect("a directory"),
    );
    let outlets = BTreeMap::from([(3, Arc::clone(&feed)), (7, feed)]);
    let address = "127.0.0.1".parse().expect("an address");
    let pdu = Emulator::start(address, outlets, &guard, logs.path()).await;
    let pdu = pdu.expect("a PDU");
    let at = pdu.address();
    tokio::task::spawn_blocking(move || flooded("pdu-session", at))
        .await
        .expect("a verdict");
}
