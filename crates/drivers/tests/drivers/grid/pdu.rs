//! The faults of a PDU over SNMP: an agent of the test in version 2c, for two outlets that feed one machine, and net-snmp's for the
//! users of version 3.

use super::cell::{BROADCAST, Bench, Cell, ENDLESS, NO_SUCH_NAME, SHORT, machine};
use super::rows::Fault;
use crate::agent::{
    Agent, Answers, COMMUNITY, OFF, ON, Question, element, int, now, own_address, settings,
};
use crate::pdu_snmpd::Rack;
use fencing_core::identity_rule::IdentityRule;
use fencing_drivers::pdu::{Pdu, PduSettings, targets};
use fencing_testbed::bmc::Plug;
use fencing_testbed::power::Power;
use fencing_testbed::snmpd::{AUTHENTICATION_PASSWORD, PRIVACY_PASSWORD, USER};
use serde_json::json;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const HTTP: &str = "it is HTTP's";
const NO_SESSIONS: &str = "SNMP has no sessions";
const NO_MACHINE: &str = "an outlet knows of no machine: `identityCheck` is Skip";
const NO_BIT: &str = "an outlet has no such bit";

/// How the fault comes about, if it does.
pub fn provoke(fault: Fault) -> Cell {
    match fault {
        Fault::ClosedPort => Cell::of(closed_port()),
        Fault::NoRoute => at(BROADCAST),
        Fault::NoSuchName => at(NO_SUCH_NAME),
        Fault::BlackHole => agent(SHORT, |_, _| Answers::new()),
        Fault::AllDark => Cell::of(async {
            let bench = Scripted::new(SHORT, |_, _| Answers::new()).await.bench();
            bench.machine_is(false);
            bench
        }),
        Fault::Loss
        | Fault::Duplicates
        | Fault::Reordering
        | Fault::CorruptPackets
        | Fault::WrongSource
        | Fault::Replay
        | Fault::Slow => network(fault),
        Fault::WrongUser => Cell::of(version_3("nobody", AUTHENTICATION_PASSWORD)),
        Fault::WrongPassword => Cell::of(version_3(USER, "signed by nobody")),
        Fault::LockedAccount => Cell::Never("SNMP locks nobody out"),
        Fault::SessionsExhausted | Fault::OneSession => Cell::Never(NO_SESSIONS),
        Fault::NodeBusy => Cell::Never("SNMP has no word for it: silence, and it is asked again"),
        // noAccess, and wrongValue.
        Fault::Privilege => refuses(6),
        Fault::NoForceOff => refuses(10),
        Fault::OffIgnored | Fault::OffLandsLate => agent(ENDLESS, |question, machine| {
            now(question.states(&states(machine)))
        }),
        Fault::Lies => agent(ENDLESS, |question, _| now(question.states(&[OFF, OFF]))),
        Fault::StaleReadings => Cell::Elsewhere(
            "crates/drivers/tests/drivers/pdu_snmpd.rs",
            "a_remembered_state_outlives_a_hand_at_the_panel_and_no_command",
        ),
        Fault::Flapping => agent(ENDLESS, |question, _| {
            let state = if question.earlier % 3 == 2 { ON } else { OFF };
            now(question.states(&[state, state]))
        }),
        Fault::PowerFaultBit | Fault::InterlockBit | Fault::Sleeping => Cell::Never(NO_BIT),
        Fault::ZeroTags => Cell::Never(NO_SESSIONS),
        // commandPendingUnknown: then, says the MIB, the PDU has to be power-cycled.
        Fault::ControlFaultBit => agent(ENDLESS, |question, _| {
            now(question.answer(&[int(OFF), int(OFF), int(2), int(3)], 0))
        }),
        Fault::Restored => agent(ENDLESS, switches),
        Fault::TwoNodes => Cell::of(two_nodes()),
        Fault::Status503 | Fault::Status429 | Fault::Status500 => Cell::Never(HTTP),
        Fault::Redirect | Fault::LinkElsewhere | Fault::EndlessNextLink => Cell::Never(HTTP),
        Fault::BadJson => Cell::Never("SNMP has no JSON; for what is no SNMP see HTML"),
        Fault::Packed => Cell::Never("nothing is packed in SNMP"),
        Fault::Html
        | Fault::Empty
        | Fault::Truncated
        | Fault::Huge
        | Fault::Endless
        | Fault::Deep => agent(SHORT, move |question, _| garbage(fault, question)),
        Fault::DuplicateKeys => agent(ENDLESS, |question, _| {
            let mut twice = question.clone();
            twice.names[1] = twice.names[0].clone();
            now(twice.states(&[OFF, OFF]))
        }),
        Fault::CertificateChanged | Fault::CertificateExpired => Cell::Never("SNMP has none"),
        Fault::Plaintext => Cell::Elsewhere(
            "crates/drivers/src/pdu/snmp/conversation/tests.rs",
            "nothing_forged_or_less_protected_is_believed",
        ),
        Fault::WrongSystem | Fault::ZeroUuid => Cell::Never(NO_MACHINE),
        Fault::AlreadyOff | Fault::AlreadyOffSaysARunningMachine => {
            Cell::Never("an outlet that is off takes the command")
        }
        Fault::Reboot => Cell::of(reboots()),
    }
}

fn states(machine: &Plug) -> [u8; 2] {
    [if machine.is_on() { ON } else { OFF }; 2]
}

/// Outlets that switch: the machine is dark with the last of them, and has power again with it.
fn switches(question: &Question, machine: &Plug) -> Answers {
    if question.is_set && question.outlet() == 7 {
        machine.set_power(question.datagram.ends_with(&int(1)));
    }
    now(question.states(&states(machine)))
}

type Script = fn(&Question, &Plug) -> Answers;

/// An agent that does this with each question, and the driver for it.
struct Scripted {
    agent: Arc<Agent>,
    machine: Arc<Plug>,
    patience: Duration,
}

impl Scripted {
    async fn new(
        patience: Duration,
        script: impl Fn(&Question, &Plug) -> Answers + Send + Sync + 'static,
    ) -> Self {
        let machine = machine();
        let outlets = Arc::clone(&machine);
        let agent = Agent::start(move |question| script(question, &outlets)).await;
        Self {
            agent: Arc::new(agent),
            machine,
            patience,
        }
    }

    fn bench(self) -> Bench {
        let Self {
            agent,
            machine,
            patience,
        } = self;
        let asked = Arc::clone(&agent);
        let pdu = driver(agent.settings(), patience);
        unnamed(Bench::new(Arc::new(pdu), &machine, agent, move || {
            asked.hard_offs()
        }))
    }
}

fn driver(settings: PduSettings, patience: Duration) -> Pdu {
    Pdu::new(PduSettings {
        call_timeout: patience,
        command_timeout: patience,
        ..settings
    })
    .unwrap()
}

/// Whoever entered the outlets vouches for them.
fn unnamed(bench: Bench) -> Bench {
    Bench {
        rule: IdentityRule::Skip,
        ..bench
    }
}

fn agent(
    patience: Duration,
    script: impl Fn(&Question, &Plug) -> Answers + Send + Sync + 'static,
) -> Cell {
    Cell::of(async move { Scripted::new(patience, script).await.bench() })
}

async fn closed_port() -> Bench {
    // Nobody else listens at this address.
    let address = (own_address(), 161).into();
    let pdu = settings(address, json!({}), &[("community", COMMUNITY)]);
    let pdu = driver(pdu, ENDLESS);
    unnamed(Bench::new(
        Arc::new(pdu),
        &machine(),
        Arc::new(()),
        Vec::new,
    ))
}

fn at(host: &'static str) -> Cell {
    Cell::of(async move {
        let address = (own_address(), 161).into();
        let host = json!({"address": host});
        let pdu = settings(address, host, &[("community", COMMUNITY)]);
        let pdu = driver(pdu, ENDLESS);
        unnamed(Bench::new(
            Arc::new(pdu),
            &machine(),
            Arc::new(()),
            Vec::new,
        ))
    })
}

fn network(fault: Fault) -> Cell {
    let before: Mutex<Vec<u8>> = Mutex::default();
    let stranger = UdpSocket::bind((own_address(), 0)).unwrap();
    let patience = match fault {
        Fault::Slow => Duration::from_secs(6),
        Fault::WrongSource => SHORT,
        _ => ENDLESS,
    };
    agent(patience, move |question, machine| {
        let lost_on_the_way_there = matches!(question.earlier % 10, 0 | 4 | 7);
        if fault == Fault::Loss && lost_on_the_way_there {
            return Answers::new();
        }
        if fault == Fault::WrongSource {
            let forged = question.states(&[OFF, OFF]);
            stranger.send_to(&forged, question.from).unwrap();
            return Answers::new();
        }
        let (_, answer) = switches(question, machine).remove(0);
        let earlier = std::mem::replace(&mut *before.lock().unwrap(), answer.clone());
        let pause = Duration::from_millis(if question.earlier % 2 == 0 { 900 } else { 0 });
        match fault {
            Fault::Loss if matches!(question.earlier % 10, 1 | 5 | 8) => Answers::new(),
            Fault::Duplicates => [now(answer.clone()), now(answer)].concat(),
            // It arrives when the next question has been put.
            Fault::Reordering => vec![(pause, answer)],
            Fault::CorruptPackets if question.earlier % 3 == 0 => corrupt(&answer),
            Fault::Replay => [now(earlier), now(answer)].concat(),
            Fault::Slow => vec![(Duration::from_secs(1), answer)],
            _ => now(answer),
        }
    })
}

/// Cut off, longer, and with another bit: what a checksum has not caught.
fn corrupt(answer: &[u8]) -> Answers {
    let mut flipped = answer.to_vec();
    flipped[9] ^= 0x20;
    let cut = answer[..answer.len() - 1].to_vec();
    [now(cut), now([answer, &[0]].concat()), now(flipped)].concat()
}

/// Nothing of it is an answer; where states are in it, they are off.
fn garbage(fault: Fault, question: &Question) -> Answers {
    let right = question.states(&[OFF, OFF]);
    match fault {
        Fault::Html => now(b"<html></html>".to_vec()),
        Fault::Empty => now(Vec::new()),
        Fault::Truncated => now(right[..right.len() / 2].to_vec()),
        Fault::Huge => {
            let padding = element(4, &[b'x'; 60_000]);
            now(question.answer(&[int(OFF), padding, int(2), int(2)], 0))
        }
        Fault::Endless => vec![(Duration::ZERO, vec![0x30, 0]); 5000],
        _ => {
            let opened = |inner: u16| {
                let [high, low] = (inner * 4).to_be_bytes();
                [0x30, 0x82, high, low]
            };
            let nested = (0..10_000).rev().flat_map(opened).collect();
            now(question.answer(&[int(OFF), nested, int(2), int(2)], 0))
        }
    }
}

fn refuses(error: u8) -> Cell {
    agent(ENDLESS, move |question, machine| match question.is_set {
        true => now(question.answer(&[], error)),
        false => now(question.states(&states(machine))),
    })
}

/// Silent from one moment on, until it has started again.
async fn reboots() -> Bench {
    let is_silent = Arc::new(AtomicBool::new(false));
    let (broken, mended) = (Arc::clone(&is_silent), Arc::clone(&is_silent));
    let script: Script = switches;
    let scripted = Scripted::new(SHORT, move |question, machine| {
        match is_silent.load(Ordering::Relaxed) {
            true => Answers::new(),
            false => script(question, machine),
        }
    });
    let bench = scripted.await.bench();
    bench.machine_is(false);
    bench.befalls(
        move || broken.store(true, Ordering::Relaxed),
        move || mended.store(false, Ordering::Relaxed),
    )
}

async fn two_nodes() -> Bench {
    let scripted = Scripted::new(ENDLESS, switches).await;
    let outlets = targets(&scripted.agent.settings().driver).unwrap();
    Bench {
        targets: outlets,
        ..scripted.bench()
    }
}

/// net-snmp's agent, asked by this user.
async fn version_3(user: &str, password: &str) -> Bench {
    let rack = Rack::new().await;
    let pdu = rack.v3(json!({}), user, password, PRIVACY_PASSWORD);
    let machine = rack.machine();
    unnamed(Bench::new(
        Arc::new(pdu),
        &machine,
        Arc::new(rack),
        Vec::new,
    ))
}
