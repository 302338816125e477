//! The faults of a BMC that speaks IPMI: the lab's own, on cipher suite 17.

use super::cell::{BROADCAST, Bench, Cell, ENDLESS, NO_SUCH_NAME, SHORT};
use super::rows::Fault;
use crate::ipmi::{bench_with, credentials};
use fencing_drivers::FenceDriver;
use fencing_drivers::address::Address;
use fencing_drivers::ipmi::{Ipmi, IpmiSettings};
use fencing_testbed::https::Line;
use fencing_testbed::ipmi::{
    Account, Effect, GuidForm, IpmiFaults, Nonsense, Path, PowerBit, Privilege, Reply, Settings,
    Source, Suite, Which,
};
use fencing_testbed::power::Power;
use std::sync::Arc;
use std::time::Duration;

const HTTP: &str = "it is HTTP's";
const BINARY: &str = "fields of fixed size: nothing nests, is packed or has a name";
const NO_CERTIFICATE: &str = "each side proves that it knows the password";

/// How the fault comes about, if it does.
pub fn provoke(fault: Fault) -> Cell {
    match fault {
        Fault::ClosedPort => device(|made| made.line(Line::Refused)),
        Fault::BlackHole => device(|made| made.line(Line::BlackHole).hasty()),
        Fault::AllDark => device(|made| made.line(Line::Dark).hasty().off()),
        Fault::NoRoute => device(|made| made.at(BROADCAST)),
        Fault::NoSuchName => device(|made| made.at(NO_SUCH_NAME)),
        Fault::Loss
        | Fault::Duplicates
        | Fault::Reordering
        | Fault::CorruptPackets
        | Fault::WrongSource
        | Fault::Replay
        | Fault::Slow => network(fault),
        Fault::WrongUser
        | Fault::WrongPassword
        | Fault::LockedAccount
        | Fault::SessionsExhausted
        | Fault::OneSession
        | Fault::Privilege
        | Fault::Plaintext => login(fault),
        Fault::NodeBusy => {
            let busy = Reply::new(Which::CHASSIS_STATUS, Nonsense::Code(0xc0)).times(3);
            device(|made| made.with(|faults| faults.replies.push(busy)))
        }
        Fault::OffIgnored | Fault::OffLandsLate | Fault::Lies | Fault::Flapping => power(fault),
        Fault::StaleReadings => device(|made| Made {
            remembers_off: true,
            ..made.with(|faults| faults.effect = Effect::Ignored)
        }),
        Fault::PowerFaultBit => bit(0x08),
        Fault::ControlFaultBit => bit(0x10),
        Fault::InterlockBit => bit(0x04),
        Fault::Sleeping => device(|made| made.off().with(|faults| faults.acpi_state = Some(0x03))),
        Fault::ZeroTags => device(|made| made.with(|faults| faults.zero_tags = true)),
        Fault::Restored | Fault::TwoNodes => device(|made| made),
        Fault::Status503 | Fault::Status429 | Fault::Status500 => Cell::Never(HTTP),
        Fault::Redirect | Fault::LinkElsewhere | Fault::EndlessNextLink => Cell::Never(HTTP),
        Fault::BadJson | Fault::Deep | Fault::Packed | Fault::DuplicateKeys => Cell::Never(BINARY),
        Fault::Endless => Cell::Never("a datagram has an end"),
        Fault::Html => nonsense(Nonsense::Raw(b"<html></html>".to_vec())),
        Fault::Empty => nonsense(Nonsense::Raw(Vec::new())),
        Fault::Truncated => nonsense(Nonsense::Truncated(20)),
        Fault::Huge => nonsense(Nonsense::Padded(2000)),
        Fault::CertificateChanged | Fault::CertificateExpired => Cell::Never(NO_CERTIFICATE),
        Fault::WrongSystem => {
            let other = "99999999-2222-4333-8444-555555555555".to_owned();
            device(|made| made.with(|faults| faults.uuid = Some(other)))
        }
        Fault::ZeroUuid => device(|made| made.with(|faults| faults.guid_in_rakp = GuidForm::Zeros)),
        Fault::AlreadyOff => {
            device(|made| made.with(|faults| faults.already_off_code = Some(0xd5)))
        }
        Fault::AlreadyOffSaysARunningMachine => refuses_off(0xd5),
        // Sub-function disabled or unavailable.
        Fault::NoForceOff => refuses_off(0xd6),
        Fault::Reboot => device(|made| Made {
            reboots: true,
            ..made.off()
        }),
    }
}

fn network(fault: Fault) -> Cell {
    let patience = match fault {
        Fault::Slow => Duration::from_secs(6),
        Fault::WrongSource => SHORT,
        _ => ENDLESS,
    };
    let path = match fault {
        Fault::Loss => Path {
            lost: 0.3,
            ..Path::default()
        },
        Fault::Duplicates => Path {
            duplicated: 0.5,
            ..Path::default()
        },
        Fault::Reordering => Path {
            late: 0.3,
            late_by: Duration::from_millis(400),
            ..Path::default()
        },
        Fault::CorruptPackets => Path {
            corrupted: 0.15,
            ..Path::default()
        },
        Fault::Slow => Path {
            delay: Duration::from_millis(500),
            ..Path::default()
        },
        _ => Path::default(),
    };
    device(move |made| {
        made.within(patience).with(move |faults| {
            let network = &mut faults.network;
            // With the loss, 14 datagrams of about 55 get lost.
            network.seed = 8;
            network.requests = path.clone();
            network.answers = path;
            match fault {
                Fault::WrongSource => {
                    network.source = Source::OtherAddress;
                    faults.power = PowerBit::Says(false);
                }
                Fault::Replay => network.replayed = 0.5,
                _ => {}
            }
        })
    })
}

fn login(fault: Fault) -> Cell {
    match fault {
        Fault::WrongUser => device(|made| made.user("nobody", "s3cret-Bmc")),
        Fault::WrongPassword => device(|made| made.user("fence", "wrong")),
        Fault::LockedAccount => {
            device(|made| made.with(|faults| faults.lock_account_after = Some(0)))
        }
        Fault::SessionsExhausted => {
            device(|made| made.with(|faults| faults.session_table_full = true))
        }
        Fault::OneSession => device(|made| Made {
            settings: Settings {
                sessions_max: 1,
                ..Settings::default()
            },
            ..made
        }),
        Fault::Plaintext => {
            device(|made| made.with(|faults| faults.answers_suite = Some(Suite::Zero)))
        }
        _ => device(|made| Made {
            settings: Settings {
                accounts: vec![Account {
                    privilege: Privilege::User,
                    ..Account::default()
                }],
                ..Settings::default()
            },
            ..made
        }),
    }
}

fn power(fault: Fault) -> Cell {
    device(move |made| {
        made.with(move |faults| match fault {
            Fault::Lies => {
                faults.effect = Effect::Ignored;
                faults.power = PowerBit::Says(false);
            }
            Fault::Flapping => faults.power = PowerBit::Cycle(vec![false, false, true]),
            _ => faults.effect = Effect::Ignored,
        })
    })
}

/// Off, with this bit beside it.
fn bit(bit: u8) -> Cell {
    device(move |made| made.off().with(move |faults| faults.power_bits = bit))
}

fn refuses_off(code: u8) -> Cell {
    let reply = Reply::new(Which::PowerOff, Nonsense::Code(code));
    device(|made| made.with(|faults| faults.replies.push(reply)))
}

/// This in place of every answer; in the right ones the power is off.
fn nonsense(what: Nonsense) -> Cell {
    device(|made| {
        made.hasty().with(|faults| {
            faults.power = PowerBit::Says(false);
            faults.replies.push(Reply::new(Which::Any, what));
        })
    })
}

/// What is made.
struct Made {
    settings: Settings,
    change: Box<dyn FnOnce(&mut IpmiFaults) + Send>,
    line: Line,
    address: Option<&'static str>,
    user: (&'static str, &'static str),
    call_timeout: Duration,
    is_off: bool,
    remembers_off: bool,
    reboots: bool,
}

impl Made {
    fn with(self, change: impl FnOnce(&mut IpmiFaults) + Send + 'static) -> Self {
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

    fn off(self) -> Self {
        Self {
            is_off: true,
            ..self
        }
    }
}

/// A BMC like this.
fn device(make: impl FnOnce(Made) -> Made + Send + 'static) -> Cell {
    Cell::of(async move {
        let made = make(Made {
            settings: Settings::default(),
            change: Box::new(|_| {}),
            line: Line::Up,
            address: None,
            user: ("fence", "s3cret-Bmc"),
            call_timeout: ENDLESS,
            is_off: false,
            remembers_off: false,
            reboots: false,
        });
        let bench = bench_with(made.settings);
        let (own, machine) = (bench.settings(), Arc::clone(&bench.plug));
        let host = |host| Address::expand_host(host, 623, "n").unwrap();
        let (user, password) = made.user;
        let driver = Ipmi::new(IpmiSettings {
            address: made.address.map_or(own.address.clone(), host),
            credentials: credentials(user, password, &[]),
            call_timeout: made.call_timeout,
            command_timeout: made.call_timeout,
            ..own
        })
        .unwrap();
        let bmc = Arc::new(bench.bmc);
        machine.set_power(!made.is_off);
        if made.remembers_off {
            machine.set_power(false);
            bmc.faults(|faults| faults.power_cached_for = Duration::from_secs(3600));
            driver.open().observe().await.unwrap();
            machine.set_power(true);
        }
        bmc.faults(made.change);
        bmc.set_line(made.line).unwrap();
        let asked = Arc::clone(&bmc);
        let commands = move || {
            let commands = asked.power_commands();
            commands.iter().map(|one| one.control == 0).collect()
        };
        let bench = Bench::new(Arc::new(driver), &machine, Arc::clone(&bmc), commands);
        if !made.reboots {
            return bench;
        }
        let mended = Arc::clone(&bmc);
        let breaks = move || {
            bmc.set_line(Line::Refused).unwrap();
            bmc.forget_sessions();
        };
        bench.befalls(breaks, move || mended.set_line(Line::Up).unwrap())
    })
}
