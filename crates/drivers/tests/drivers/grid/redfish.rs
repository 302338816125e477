//! The faults of a BMC that speaks Redfish: the lab's own, over TLS, with a CA that is checked.

use super::cell::{BROADCAST, Bench, Cell, ENDLESS, NO_SUCH_NAME, SHORT, machine};
use super::rows::Fault;
use crate::device::local_rules;
use crate::ipmi::credentials;
use fencing_drivers::FenceDriver;
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::redfish::{Redfish, RedfishSettings};
use fencing_drivers::tls::CertificateCheck;
use fencing_testbed::bmc::{
    Bmc, BmcCa, BmcFaults, Certificate, Credentials, Effect, Line, Nonsense, Plug, Reading, Reply,
    Which,
};
use fencing_testbed::power::Power;
use serde_json::json;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

const TCP: &str = "TCP and TLS see to it";
const ONE_STATE: &str = "a system has a power state and no such bit beside it";

/// How the fault comes about, if it does.
pub fn provoke(fault: Fault) -> Cell {
    match fault {
        Fault::ClosedPort => device(|made| made.line(Line::Refused)),
        Fault::BlackHole => device(|made| made.line(Line::Dark).hasty()),
        Fault::AllDark => device(|made| made.line(Line::Dark).hasty().off()),
        Fault::NoRoute => device(|made| made.at(BROADCAST)),
        Fault::NoSuchName => device(|made| made.at(NO_SUCH_NAME)),
        Fault::Loss
        | Fault::Duplicates
        | Fault::Reordering
        | Fault::CorruptPackets
        | Fault::WrongSource
        | Fault::Replay
        | Fault::ZeroTags => Cell::Never(TCP),
        Fault::Slow => device(|made| {
            let slow = |faults: &mut BmcFaults| faults.latency = Duration::from_secs(1);
            made.within(Duration::from_secs(6)).with(slow)
        }),
        Fault::OneSession => Cell::Never("Basic authentication opens no session"),
        Fault::NodeBusy => Cell::Never("it says so by a 503"),
        Fault::PowerFaultBit | Fault::ControlFaultBit | Fault::InterlockBit | Fault::Sleeping => {
            Cell::Never(ONE_STATE)
        }
        Fault::Restored | Fault::TwoNodes => device(|made| made),
        Fault::Reboot => device(|made| Made {
            reboots: true,
            ..made.off()
        }),
        Fault::StaleReadings => device(|made| Made {
            remembers_off: true,
            ..made.with(|faults| faults.effect = Effect::Ignored)
        }),
        Fault::WrongUser
        | Fault::WrongPassword
        | Fault::LockedAccount
        | Fault::SessionsExhausted
        | Fault::Privilege => login(fault),
        Fault::OffIgnored
        | Fault::OffLandsLate
        | Fault::Lies
        | Fault::Flapping
        | Fault::AlreadyOff
        | Fault::AlreadyOffSaysARunningMachine
        | Fault::NoForceOff => power(fault),
        Fault::CertificateChanged | Fault::CertificateExpired | Fault::Plaintext => tls(fault),
        Fault::WrongSystem => uuid("99999999-2222-4333-8444-555555555555"),
        Fault::ZeroUuid => uuid("00000000-0000-0000-0000-000000000000"),
        Fault::Status503
        | Fault::Status429
        | Fault::Status500
        | Fault::BadJson
        | Fault::Html
        | Fault::Empty
        | Fault::Truncated
        | Fault::Huge
        | Fault::Endless
        | Fault::Deep
        | Fault::Packed
        | Fault::DuplicateKeys
        | Fault::Redirect
        | Fault::LinkElsewhere
        | Fault::EndlessNextLink => answers(fault),
    }
}

fn login(fault: Fault) -> Cell {
    match fault {
        Fault::WrongUser => device(|made| made.user("nobody", "s3cret-Bmc")),
        Fault::WrongPassword => device(|made| made.user("fence", "wrong")),
        Fault::LockedAccount => {
            device(|made| made.with(|faults| faults.lock_account_after = Some(0)))
        }
        // As an iDRAC says it (RAC0218), though no session was asked for.
        Fault::SessionsExhausted => replies(Which::Any, Nonsense::Status(503, None)),
        _ => device(|made| made.with(|faults| faults.read_only_account = true)),
    }
}

fn power(fault: Fault) -> Cell {
    device(move |made| {
        made.with(move |faults| match fault {
            Fault::OffIgnored | Fault::OffLandsLate => faults.effect = Effect::Ignored,
            Fault::Lies => {
                faults.effect = Effect::Ignored;
                faults.power_state = Reading::Says(json!("Off"));
            }
            Fault::Flapping => {
                let states = ["Off", "Off", "On"].map(|state| json!(state));
                faults.power_state = Reading::Cycle(states.to_vec());
            }
            Fault::AlreadyOff => faults.already_off_status = Some(409),
            Fault::NoForceOff => {
                let soft = ["On", "GracefulShutdown", "ForceRestart"].map(str::to_owned);
                faults.reset_types = Some(soft.to_vec());
            }
            _ => faults
                .replies
                .push(Reply::new(Which::ForceOff, Nonsense::Status(400, None))),
        })
    })
}

fn tls(fault: Fault) -> Cell {
    let shown = match fault {
        Fault::CertificateChanged => Certificate::Swapped,
        Fault::CertificateExpired => Certificate::Expired,
        _ => Certificate::Plaintext,
    };
    device(move |made| Made {
        // One of the same CA for the same host is told apart by its fingerprint alone.
        is_pinned: shown == Certificate::Swapped,
        ..made.with(move |faults| faults.certificate = shown)
    })
}

fn uuid(uuid: &'static str) -> Cell {
    device(move |made| made.with(move |faults| faults.uuid = Some(json!(uuid))))
}

/// Answers that cannot be used. Wherever a state is in them, it is off, and the machine runs.
fn answers(fault: Fault) -> Cell {
    let elsewhere = "https://127.0.0.1:9/redfish/v1/Systems/1".to_owned();
    let what = match fault {
        Fault::Status503 => Nonsense::Status(503, Some(30)),
        Fault::Status429 => Nonsense::Status(429, Some(30)),
        Fault::Status500 => Nonsense::Status(500, None),
        Fault::BadJson => Nonsense::BadJson,
        Fault::Html => Nonsense::Html,
        Fault::Empty => Nonsense::Empty,
        Fault::Truncated => Nonsense::Truncated,
        Fault::Huge => Nonsense::Padded(100_000_000),
        Fault::Endless => Nonsense::EndlessChunks,
        Fault::Deep => Nonsense::Deep(10_000),
        Fault::Packed => Nonsense::Gzip,
        Fault::Redirect => Nonsense::Redirect(307, elsewhere),
        Fault::DuplicateKeys => {
            return device(|made| {
                made.with(|faults| faults.power_state = Reading::Twice(json!("Off")))
            });
        }
        Fault::LinkElsewhere => {
            return device(|made| {
                made.unnamed()
                    .with(|faults| faults.member_link = Some(elsewhere))
            });
        }
        _ => {
            return device(|made| {
                made.unnamed()
                    .with(|faults| faults.endless_next_link = true)
            });
        }
    };
    replies(Which::SystemRead, what)
}

fn replies(to: Which, what: Nonsense) -> Cell {
    device(move |made| {
        made.with(move |faults| {
            faults.power_state = Reading::Says(json!("Off"));
            faults.replies.push(Reply::new(to, what));
        })
    })
}

/// What is made.
struct Made {
    change: Box<dyn FnOnce(&mut BmcFaults) + Send>,
    line: Line,
    address: Option<&'static str>,
    user: (&'static str, &'static str),
    call_timeout: Duration,
    is_named: bool,
    is_pinned: bool,
    is_off: bool,
    remembers_off: bool,
    reboots: bool,
}

impl Made {
    fn with(self, change: impl FnOnce(&mut BmcFaults) + Send + 'static) -> Self {
        Self {
            change: Box::new(change),
            ..self
        }
    }

    fn line(self, line: Line) -> Self {
        Self { line, ..self }
    }

    fn at(self, address: &'static str) -> Self {
        Self {
            address: Some(address),
            ..self
        }
    }

    fn user(self, name: &'static str, password: &'static str) -> Self {
        Self {
            user: (name, password),
            ..self
        }
    }

    fn within(self, call_timeout: Duration) -> Self {
        Self {
            call_timeout,
            ..self
        }
    }

    fn hasty(self) -> Self {
        self.within(SHORT)
    }

    fn unnamed(self) -> Self {
        Self {
            is_named: false,
            ..self
        }
    }

    fn off(self) -> Self {
        Self {
            is_off: true,
            ..self
        }
    }

    fn driver(&self, bmc: &Bmc) -> Redfish {
        let (user, password) = self.user;
        let pem = bmc.ca_pem().as_bytes().to_vec();
        let verification = match self.is_pinned {
            true => CertificateCheck::Pinned(bmc.fingerprint().parse().unwrap()),
            false => CertificateCheck::Full {
                ca_bundle_pem: Some(pem),
            },
        };
        let elsewhere = self.address.map(|host| format!("https://{host}"));
        let url = elsewhere.unwrap_or_else(|| bmc.url());
        Redfish::new(RedfishSettings {
            address: Address::parse(&url).unwrap(),
            system_id: self.is_named.then(|| "1".to_owned()),
            verification,
            credentials: credentials(user, password, &[]),
            rules: local_rules(),
            call_timeout: self.call_timeout,
            command_timeout: self.call_timeout,
            past: Default::default(),
            clock: Clock::SYSTEM,
        })
        .unwrap()
    }
}

/// A BMC like this.
fn device(make: impl FnOnce(Made) -> Made + Send + 'static) -> Cell {
    Cell::of(async move {
        let made = make(Made {
            change: Box::new(|_| {}),
            line: Line::Up,
            address: None,
            user: ("fence", "s3cret-Bmc"),
            call_timeout: ENDLESS,
            is_named: true,
            is_pinned: false,
            is_off: false,
            remembers_off: false,
            reboots: false,
        });
        let machine = machine();
        let bmc = Arc::new(start(&machine));
        let driver = made.driver(&bmc);
        machine.set_power(!made.is_off);
        if made.remembers_off {
            machine.set_power(false);
            bmc.faults(|faults| faults.power_state_cached_for = Duration::from_secs(3600));
            driver.open().observe().await.unwrap();
            machine.set_power(true);
        }
        bmc.faults(made.change);
        bmc.set_line(made.line).unwrap();
        let asked = Arc::clone(&bmc);
        let commands = move || {
            let commands = asked.power_commands();
            commands
                .iter()
                .map(|one| one.reset_type == "ForceOff")
                .collect()
        };
        let bench = Bench::new(Arc::new(driver), &machine, Arc::clone(&bmc), commands);
        if !made.reboots {
            return bench;
        }
        let line = move |line| {
            let bmc = Arc::clone(&bmc);
            move || bmc.set_line(line).unwrap()
        };
        bench.befalls(line(Line::Refused), line(Line::Up))
    })
}

/// Starts the BMC of a machine, at an address of its own.
fn start(machine: &Arc<Plug>) -> Bmc {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let address: IpAddr = [127, 82, 0, NEXT.fetch_add(1, Ordering::Relaxed)].into();
    let ca = BmcCa::new("BMCs of the grid").unwrap();
    Bmc::start(address, machine.clone(), Credentials::default(), &ca).unwrap()
}
