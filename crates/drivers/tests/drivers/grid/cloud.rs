//! The faults of clouds and hypervisors: each of our own, over TLS, with a CA that is checked.

mod aws;
mod azure;
mod columns;
mod gcp;
mod http_outlet;
mod infra_cluster;
mod libvirt;
mod nutanix;
mod peer;
mod xapi;

pub use aws::aws;
pub use azure::azure;
pub use columns::{hetzner_cloud, openstack, proxmox, vsphere, webhook};
pub use gcp::gcp;
pub use http_outlet::http_outlet;
pub use infra_cluster::{bare_metal_host, kubevirt};
pub use libvirt::libvirt;
pub use nutanix::nutanix;
pub use xapi::xapi;

use super::cell::{BROADCAST, Bench, Cell, ENDLESS, NO_SUCH_NAME, SHORT, machine};
use super::rows::Fault;
use crate::device::local_rules;
use fencing_core::identity_rule::IdentityRule;
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{DriverKind, NodeFacts, Parts};
use fencing_testbed::bmc::{BmcCa, Certificate, Effect, Nonsense};
use fencing_testbed::cloud::hetzner;
use fencing_testbed::cloud::{Access, Beside, CloudFaults, Shown, Taken, Which};
use fencing_testbed::https::Line;
use fencing_testbed::power::Power;
use peer::Peer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

const TCP: &str = "TCP and TLS see to it";

/// What differs between the providers.
pub struct Column<P, const N: usize = 2> {
    page: fn() -> P,
    /// Its settings for this URL.
    kind: fn(Value) -> Box<dyn DriverKind>,
    /// Name of its field with the URL.
    url: &'static str,
    /// Keys and values of its Secret.
    secret: &'static [(&'static str, &'static str)],
    /// Provider ID of the Node whose machine has this UUID.
    provider_id: fn(&str) -> String,
    /// It tells the system UUID of a machine.
    tells_uuid: bool,
    /// It refuses a command to a machine that is so already.
    tells_already: bool,
    /// How these come about, or why they do not.
    odd: fn(Fault) -> Odd,
}

/// How a fault comes about that not every provider has.
enum Odd {
    Beside(Beside),
    Never(&'static str),
    Elsewhere(&'static str, &'static str),
}

fn settings<K: DriverKind + serde::de::DeserializeOwned + 'static>(
    value: Value,
) -> Box<dyn DriverKind> {
    Box::new(serde_json::from_value::<K>(value).expect("settings"))
}

impl<P: Peer> Column<P> {
    /// How the fault comes about, if it does.
    fn provoke(&'static self, fault: Fault) -> Cell {
        let with = |change: fn(&mut CloudFaults)| {
            self.device(Made {
                change: Box::new(change),
                ..Made::default()
            })
        };
        match fault {
            Fault::ClosedPort => self.device(Made::on(Line::Refused)),
            Fault::BlackHole => self.device(Made::on(Line::Dark)),
            Fault::AllDark => self.device(Made {
                is_off: true,
                ..Made::on(Line::Dark)
            }),
            Fault::NoRoute => self.device(Made::at(BROADCAST)),
            Fault::NoSuchName => self.device(Made::at(NO_SUCH_NAME)),
            Fault::Loss
            | Fault::Duplicates
            | Fault::Reordering
            | Fault::CorruptPackets
            | Fault::WrongSource
            | Fault::Replay
            | Fault::ZeroTags => Cell::Never(TCP),
            Fault::Slow => self.device(Made {
                change: Box::new(|faults| faults.latency = Duration::from_millis(500)),
                call_timeout: Duration::from_secs(6),
                ..Made::default()
            }),
            Fault::OneSession | Fault::SessionsExhausted => Cell::Never("a token opens no session"),
            Fault::NodeBusy => Cell::Never("it says so by a status"),
            Fault::Restored | Fault::TwoNodes => self.device(Made::default()),
            Fault::Reboot => self.device(Made {
                reboots: true,
                is_off: true,
                ..Made::default()
            }),
            Fault::WrongUser if self.secret.len() == 1 => Cell::Never("a token has no user"),
            Fault::WrongUser => self.spoilt(0),
            Fault::WrongPassword => self.spoilt(self.secret.len() - 1),
            Fault::AlreadyOff | Fault::AlreadyOffSaysARunningMachine if !self.tells_already => {
                Cell::Never("a power-off of what is off ends well")
            }
            Fault::LockedAccount => with(|faults| faults.access = Access::Refused),
            Fault::Privilege => with(|faults| faults.access = Access::ReadOnly),
            Fault::OffIgnored | Fault::OffLandsLate => {
                with(|faults| faults.effect = Effect::Ignored)
            }
            Fault::Lies | Fault::StaleReadings => with(|faults| {
                faults.effect = Effect::Ignored;
                faults.shown = Shown::Says(false);
            }),
            Fault::Flapping => with(|faults| faults.shown = Shown::Cycle(vec![false, false, true])),
            Fault::AlreadyOff => self.device(Made::default()),
            Fault::AlreadyOffSaysARunningMachine => with(|faults| faults.taken = Taken::Already),
            Fault::NoForceOff => with(|faults| faults.taken = Taken::Refused),
            Fault::CertificateChanged | Fault::CertificateExpired | Fault::Plaintext => {
                self.tls(fault)
            }
            Fault::PowerFaultBit
            | Fault::ControlFaultBit
            | Fault::InterlockBit
            | Fault::Sleeping
            | Fault::WrongSystem
            | Fault::ZeroUuid
            | Fault::LinkElsewhere
            | Fault::EndlessNextLink => self.odd(fault),
            _ => self.answers(fault),
        }
    }

    /// With another value of this key of its Secret.
    fn spoilt(&'static self, key: usize) -> Cell {
        self.device(Made {
            spoils: Some(key),
            ..Made::default()
        })
    }

    fn tls(&'static self, fault: Fault) -> Cell {
        let shown = match fault {
            Fault::CertificateChanged => Certificate::Swapped,
            Fault::CertificateExpired => Certificate::Expired,
            _ => Certificate::Plaintext,
        };
        self.device(Made {
            // One of the same CA for the same host is told apart by its fingerprint alone.
            is_pinned: shown == Certificate::Swapped,
            change: Box::new(move |faults| faults.certificate = shown),
            ..Made::default()
        })
    }

    fn odd(&'static self, fault: Fault) -> Cell {
        let beside = match (self.odd)(fault) {
            Odd::Never(why) => return Cell::Never(why),
            Odd::Elsewhere(file, test) => return Cell::Elsewhere(file, test),
            Odd::Beside(beside) => beside,
        };
        let uuid = match fault {
            Fault::WrongSystem => Some("99999999-2222-4333-8444-555555555555"),
            Fault::ZeroUuid => Some("00000000-0000-0000-0000-000000000000"),
            _ => None,
        };
        self.device(Made {
            is_off: beside != Beside::Nothing,
            change: Box::new(move |faults| {
                faults.beside = beside;
                faults.uuid = uuid.map(str::to_owned);
            }),
            ..Made::default()
        })
    }

    /// Answers that cannot be used. Wherever a state is in them, it is off, and the machine runs.
    fn answers(&'static self, fault: Fault) -> Cell {
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
            Fault::Redirect => Nonsense::Redirect(307, "https://127.0.0.1:9/".to_owned()),
            _ => {
                let change = |faults: &mut CloudFaults| faults.shown = Shown::Twice(false);
                return self.device(Made {
                    change: Box::new(change),
                    ..Made::default()
                });
            }
        };
        self.device(Made {
            change: Box::new(|faults| {
                faults.shown = Shown::Says(false);
                faults.replies.push((Which::State, what));
            }),
            ..Made::default()
        })
    }

    /// A provider like this.
    fn device(&'static self, made: Made) -> Cell {
        Cell::of(async move {
            let machine = machine();
            let ca = BmcCa::new("Clouds of the grid").unwrap();
            let page = (self.page)();
            let own = page.credentials(&ca);
            let cloud = page.start(address(), machine.clone(), &ca);
            let elsewhere = made.address.map(|host| format!("https://{host}"));
            let url = elsewhere.unwrap_or_else(|| cloud.url());
            let verification = match made.is_pinned {
                true => CertificateCheck::Pinned(cloud.fingerprint().parse().unwrap()),
                false => CertificateCheck::Full {
                    ca_bundle_pem: Some(ca.pem().into_bytes()),
                },
            };
            let driver = (self.kind)(json!({self.url: url}))
                .make(Parts {
                    node: NodeFacts {
                        provider_id: (self.provider_id)(machine.system_uuid()),
                        system_uuid: machine.system_uuid().to_owned(),
                        addresses: vec![hetzner::ADDRESS.to_owned()],
                        ..NodeFacts::named("node-1")
                    },
                    address: Address::parse(&url).unwrap(),
                    secret: ("cloud".to_owned(), "1".to_owned()),
                    credentials: own.unwrap_or_else(|| self.credentials(made.spoils, &url)),
                    verification,
                    rules: local_rules(),
                    call_timeout: made.call_timeout,
                    command_timeout: made.call_timeout,
                    past: Default::default(),
                    keyring: Arc::default(),
                    accounts: Arc::default(),
                    clock: Clock::SYSTEM,
                })
                .unwrap();
            if driver.name() == "kubevirt" {
                // Where it ran last KubeVirt says only while it does.
                let _ = driver.open().observe().await;
            }
            machine.set_power(!made.is_off);
            cloud.faults(made.change);
            cloud.set_line(made.line);
            let asked = Arc::clone(&cloud);
            let commands = move || {
                let offs = asked.commands().into_iter().filter(|on| !on);
                offs.map(|_| true).collect()
            };
            let device = Arc::new(Arc::clone(&cloud));
            let mut bench = Bench::new(driver, &machine, device, commands);
            if !self.tells_uuid {
                bench.rule = IdentityRule::IsOrSilent(machine.system_uuid().to_owned());
            }
            if !made.reboots {
                return bench;
            }
            let line = move |line| {
                let cloud = Arc::clone(&cloud);
                move || cloud.set_line(line)
            };
            bench.befalls(line(Line::Refused), line(Line::Up))
        })
    }

    fn credentials(&self, spoils: Option<usize>, url: &str) -> Arc<Credentials> {
        let value = |(index, (key, value)): (usize, &(&'static str, &'static str))| {
            let value = match spoils == Some(index) {
                true if value.contains("$URL") => value.replace("token: ", "token: un"),
                // Of a document it is whose key it is.
                true if value.starts_with('{') => value.replace("fence@", "other@"),
                true => value.replace('e', "f"),
                false => (*value).to_owned(),
            };
            let value = value.replace("$URL", url);
            ((*key).to_owned(), value.into_bytes())
        };
        let data: BTreeMap<String, Vec<u8>> = self.secret.iter().enumerate().map(value).collect();
        let keys: Vec<&'static str> = self.secret.iter().map(|(key, _)| *key).collect();
        let credentials = Credentials::with_keys("cloud", &keys, &data, &BTreeMap::new());
        Arc::new(credentials.unwrap())
    }
}

/// What is made.
struct Made {
    change: Box<dyn FnOnce(&mut CloudFaults) + Send>,
    line: Line,
    address: Option<&'static str>,
    call_timeout: Duration,
    /// Which value of the Secret is wrong.
    spoils: Option<usize>,
    is_pinned: bool,
    is_off: bool,
    reboots: bool,
}

impl Default for Made {
    fn default() -> Self {
        Self {
            change: Box::new(|_| {}),
            line: Line::Up,
            address: None,
            call_timeout: ENDLESS,
            spoils: None,
            is_pinned: false,
            is_off: false,
            reboots: false,
        }
    }
}

impl Made {
    /// The line is like this, and a call that waits does not wait for long.
    fn on(line: Line) -> Self {
        let call_timeout = if line == Line::Dark { SHORT } else { ENDLESS };
        Self {
            line,
            call_timeout,
            ..Self::default()
        }
    }

    fn at(address: &'static str) -> Self {
        Self {
            address: Some(address),
            ..Self::default()
        }
    }
}

fn address() -> IpAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    [127, 85, 0, NEXT.fetch_add(1, Ordering::Relaxed)].into()
}
