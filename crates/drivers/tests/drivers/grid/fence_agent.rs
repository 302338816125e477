//! The faults of a fence agent: the driver runs one of ours, which is a program of its own. What befalls it on the network is its own affair; what
//! the driver sees of it is an exit code and a line.

use super::cell::{Bench, Cell, ENDLESS, NO_SUCH_NAME, SHORT, machine};
use super::rows::Fault;
use crate::fence_agent::{driver, driver_at, settings};
use fencing_core::identity_rule::IdentityRule;
use fencing_drivers::fence_agent::{FenceAgent, FenceAgentSettings};
use fencing_testbed::fence_agent::FakeAgent;
use std::sync::Arc;
use std::time::Duration;

const NETWORK: &str = "the network is the agent's affair: it fails, or it does not";
const ONE_REASON: &str =
    "an agent only says that it failed: a fault of the agent, as an HTML page is";
const TWO_WORDS: &str = "an agent has two words: one that takes anything else for off is not run";
const HTTP: &str = "the driver speaks no HTTP";
const NO_MACHINE: &str = "an agent knows of no machine: `identityCheck` is Skip";

/// How the fault comes about, if it does.
pub fn provoke(fault: Fault) -> Cell {
    match fault {
        Fault::NoSuchName => Cell::of(async {
            bench("honest", |agent| {
                driver_at(agent, NO_SUCH_NAME, ENDLESS, ENDLESS)
            })
        }),
        Fault::BlackHole => behaves("hangs", SHORT),
        Fault::AllDark => Cell::of(async {
            let bench = bench("hangs", |agent| driver(agent, SHORT, SHORT));
            bench.machine_is(false);
            bench
        }),
        Fault::ClosedPort | Fault::NoRoute => Cell::Never(ONE_REASON),
        Fault::Loss
        | Fault::Duplicates
        | Fault::Reordering
        | Fault::CorruptPackets
        | Fault::WrongSource
        | Fault::Replay
        | Fault::CertificateChanged
        | Fault::CertificateExpired
        | Fault::Plaintext
        | Fault::ZeroTags => Cell::Never(NETWORK),
        Fault::Slow => behaves("slow", Duration::from_secs(6)),
        Fault::WrongUser | Fault::WrongPassword => Cell::Elsewhere(
            "crates/drivers/tests/drivers/fence_agent.rs",
            "an_agent_of_clusterlabs_reads_and_switches_an_emulated_bmc",
        ),
        Fault::LockedAccount
        | Fault::SessionsExhausted
        | Fault::NodeBusy
        | Fault::Privilege
        | Fault::NoForceOff => Cell::Never(ONE_REASON),
        Fault::OneSession => behaves("alone", ENDLESS),
        Fault::OffIgnored => behaves("ignores", ENDLESS),
        Fault::OffLandsLate => {
            Cell::of(async { bench("hangs at off", |agent| driver(agent, ENDLESS, SHORT * 3)) })
        }
        Fault::Lies | Fault::StaleReadings => behaves("lies", ENDLESS),
        Fault::Flapping => behaves("flaps", ENDLESS),
        Fault::PowerFaultBit | Fault::ControlFaultBit | Fault::InterlockBit | Fault::Sleeping => {
            Cell::Never(TWO_WORDS)
        }
        Fault::Restored => behaves("honest", ENDLESS),
        Fault::Status503
        | Fault::Status429
        | Fault::Status500
        | Fault::BadJson
        | Fault::Deep
        | Fault::Packed
        | Fault::Redirect
        | Fault::LinkElsewhere
        | Fault::EndlessNextLink => Cell::Never(HTTP),
        Fault::Html => behaves("html", ENDLESS),
        Fault::Empty => behaves("empty", ENDLESS),
        Fault::Truncated => behaves("half", ENDLESS),
        Fault::Huge => behaves("huge", ENDLESS),
        Fault::Endless => behaves("endless", ENDLESS),
        Fault::DuplicateKeys => behaves("twice", ENDLESS),
        Fault::WrongSystem | Fault::ZeroUuid => Cell::Never(NO_MACHINE),
        Fault::TwoNodes => behaves("honest", ENDLESS),
        Fault::AlreadyOff => behaves("honest", ENDLESS),
        Fault::AlreadyOffSaysARunningMachine => behaves("says already", ENDLESS),
        Fault::Reboot => Cell::of(reboots()),
    }
}

fn behaves(manner: &'static str, patience: Duration) -> Cell {
    Cell::of(async move { bench(manner, |agent| driver(agent, patience, patience)) })
}

fn bench(manner: &str, driver: impl FnOnce(&FakeAgent) -> FenceAgent) -> Bench {
    bench_of(manner, driver).0
}

fn bench_of(
    manner: &str,
    driver: impl FnOnce(&FakeAgent) -> FenceAgent,
) -> (Bench, Arc<FakeAgent>) {
    let machine = machine();
    let agent = Arc::new(FakeAgent::new(machine.clone(), manner).unwrap());
    let (driver, switches) = (driver(&agent), Arc::clone(&agent));
    let commands = move || {
        switches
            .switched()
            .iter()
            .map(|(_, is_on)| !is_on)
            .collect()
    };
    let bench = Bench::new(Arc::new(driver), &machine, Arc::clone(&agent), commands);
    // Whoever entered the address vouches for it.
    let bench = Bench {
        rule: IdentityRule::Skip,
        ..bench
    };
    (bench, agent)
}

/// It fails from one moment on, until the device has started again.
async fn reboots() -> Bench {
    let (bench, agent) = bench_of("honest", |agent| {
        let settings = FenceAgentSettings {
            call_timeout: ENDLESS,
            ..settings(agent)
        };
        FenceAgent::new(settings).unwrap()
    });
    bench.machine_is(false);
    let (broken, mended) = (Arc::clone(&agent), agent);
    bench.befalls(
        move || broken.behave("fails").unwrap(),
        move || mended.behave("honest").unwrap(),
    )
}
