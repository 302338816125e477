//! Reports of SNMPv3 that nobody has to sign, in the middle of a session, from somebody who sits between the operator and the PDU.

use crate::agent::{ENDLESS, Question, element, int, settings};
use crate::pdu_snmpd::Rack;
use fencing_drivers::pdu::Pdu;
use fencing_drivers::{DeviceError, FenceDriver, FenceSession, OffOutcome};
use fencing_testbed::snmpd::{AUTHENTICATION_PASSWORD, PRIVACY_PASSWORD, USER};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// The last number of `usmStatsUnsupportedSecLevels`, `usmStatsUnknownEngineIDs` and `usmStatsWrongDigests`.
const UNSUPPORTED_LEVEL: u8 = 1;
const UNKNOWN_ENGINE: u8 = 4;
const WRONG_DIGEST: u8 = 5;

/// Hands everything on, and answers in the agent's place once it is told with what.
struct Between {
    address: SocketAddr,
    /// The report to answer with; 0 is none.
    report: Arc<AtomicU8>,
    /// Datagrams that came when it answered.
    answered: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Between {
    async fn stand(agent: SocketAddr) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        far.connect(agent).await.unwrap();
        let address = near.local_addr().unwrap();
        let (report, answered) = (Arc::<AtomicU8>::default(), Arc::<AtomicUsize>::default());
        let task = tokio::spawn({
            let (report, answered) = (Arc::clone(&report), Arc::clone(&answered));
            async move {
                let (mut asked, mut answer) = ([0; 2048], [0; 2048]);
                let mut client = None;
                loop {
                    tokio::select! {
                        got = near.recv_from(&mut asked) => {
                            let (length, from) = got.unwrap();
                            client = Some(from);
                            far.send(&asked[..length]).await.unwrap();
                            let about = report.load(Ordering::Relaxed);
                            if about != 0 {
                                answered.fetch_add(1, Ordering::Relaxed);
                                near.send_to(&forged(&asked[..length], about), from).await.unwrap();
                            }
                        }
                        got = far.recv(&mut answer) => {
                            let length = got.unwrap();
                            if report.load(Ordering::Relaxed) == 0 {
                                near.send_to(&answer[..length], client.unwrap()).await.unwrap();
                            }
                        }
                    }
                }
            }
        });
        Self {
            address,
            report,
            answered,
            task,
        }
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A report about a message, from an engine that is another one, without a signature.
fn forged(message: &[u8], about: u8) -> Vec<u8> {
    let engine = element(4, b"\x80\0\0\0another");
    let empty = element(4, b"");
    let (_, message, _) = Question::split(message);
    let (_, _version, rest) = Question::split(message);
    let (_, header, _) = Question::split(rest);
    let (_, id, _) = Question::split(header);
    let header = [
        element(2, id),
        element(2, &[0x40, 0]),
        element(4, &[0]),
        int(3),
    ];
    let security = [
        engine.clone(),
        int(1),
        int(1),
        empty.clone(),
        empty.clone(),
        empty.clone(),
    ];
    let name = [0x2b, 6, 1, 6, 3, 15, 1, 1, about, 0];
    let count = [element(6, &name), element(0x41, &[1])].concat();
    let unit = [
        int(0),
        int(0),
        int(0),
        element(0x30, &element(0x30, &count)),
    ];
    let scoped = [engine, empty, element(0xa8, &unit.concat())];
    let parts = [
        int(3),
        element(0x30, &header.concat()),
        element(4, &element(0x30, &security.concat())),
        element(0x30, &scoped.concat()),
    ];
    element(0x30, &parts.concat())
}

/// A session that has prepared a power-off through somebody who answers with this report from then on.
async fn prepared(rack: &Rack, about: u8) -> (Between, Box<dyn FenceSession>) {
    let between = Between::stand(rack.address()).await;
    let secret = [
        ("username", USER),
        ("authPassword", AUTHENTICATION_PASSWORD),
        ("privPassword", PRIVACY_PASSWORD),
    ];
    let v3 = json!({"snmp": {"version": "V3"}});
    let mut session = Pdu::new(settings(between.address, v3, &secret))
        .unwrap()
        .open();
    session.prepare_off().await.unwrap();
    between.report.store(about, Ordering::Relaxed);
    (between, session)
}

#[tokio::test]
async fn a_report_that_nobody_signed_does_not_settle_a_command() {
    let rack = Rack::new().await;
    for (about, reason) in [
        (UNKNOWN_ENGINE, "ProtocolError"),
        (WRONG_DIGEST, "AuthFailed"),
        (UNSUPPORTED_LEVEL, "SettingsInvalid"),
    ] {
        let (between, mut session) = prepared(&rack, about).await;
        let outcome = tokio::time::timeout(ENDLESS, session.force_off()).await;
        let Ok(Ok(OffOutcome::Unknown(error))) = outcome else {
            panic!("{reason}: {outcome:?}");
        };
        assert_eq!(error.reason(), reason, "{error}");
        assert_eq!(
            between.answered.load(Ordering::Relaxed),
            2,
            "{reason}: one command for each outlet, and nothing to the other engine"
        );
    }
}

#[tokio::test]
async fn a_reading_in_a_session_is_not_taken_from_another_engine() {
    let rack = Rack::new().await;
    let (between, mut session) = prepared(&rack, UNKNOWN_ENGINE).await;
    let error = session.observe().await.unwrap_err();
    assert!(matches!(error, DeviceError::Protocol { .. }), "{error}");
    let words = error.to_string();
    assert!(words.contains("another SNMP engine answers"), "{words}");
    assert_eq!(between.answered.load(Ordering::Relaxed), 1);
}
