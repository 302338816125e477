//! The IPMI driver against the lab's BMC, which is another reading of the same specification, judged by `ipmitool` and FreeIPMI.

mod confirm;
mod login;
mod off;
mod peers;
mod probe;
mod reads;
mod seven;

use crate::device::local_rules;
use fencing_api::bmcs::IpmiPrivilege;
use fencing_core::reading::Reading;
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::ipmi::{Ipmi, IpmiSettings};
use fencing_drivers::past::Past;
use fencing_drivers::{DeviceError, FenceDriver, OffOutcome};
use fencing_testbed::bmc::Plug;
use fencing_testbed::ipmi::{Account, Asked, End, IpmiBmc, Privilege, Settings, Suite};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

pub const UUID: &str = "4c4c4544-0042-3510-8054-b4c04f4e4e31";
/// Longer than anything takes on the busiest machine.
const ENDLESS: Duration = Duration::from_secs(60);
/// Time for what must not take any, where a deadline is waited for.
const SHORT: Duration = Duration::from_secs(3);

/// A BMC and its machine, which runs.
pub struct Bench {
    pub bmc: IpmiBmc,
    pub plug: Arc<Plug>,
}

fn bench() -> Bench {
    bench_with(Settings::default())
}

pub fn bench_with(settings: Settings) -> Bench {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let address: IpAddr = [127, 83, high, low].into();
    let plug = Arc::new(Plug::new("node-1", UUID));
    let bmc = IpmiBmc::start(address, plug.clone(), settings).unwrap();
    Bench { bmc, plug }
}

/// Its account may read, and not switch.
fn bench_of_a_reader() -> Bench {
    let account = Account {
        privilege: Privilege::User,
        ..Account::default()
    };
    bench_with(Settings {
        accounts: vec![account],
        ..Settings::default()
    })
}

pub fn credentials(user: &str, password: &str, annotations: &[(&str, &str)]) -> Arc<Credentials> {
    let texts = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        let owned = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        owned.collect()
    };
    let data = texts(&[("username", user), ("password", password)])
        .into_iter()
        .map(|(key, value)| (key, value.into_bytes()))
        .collect();
    Arc::new(Credentials::from_secret("bmc", &data, &texts(annotations)).unwrap())
}

fn address_of(address: SocketAddr) -> Address {
    Address::expand_host(&address.ip().to_string(), address.port(), "n").unwrap()
}

/// Suite 17, and patience.
pub fn settings_of(address: SocketAddr, user: &str, password: &str) -> IpmiSettings {
    IpmiSettings {
        address: address_of(address),
        cipher_suite: 17,
        privilege: IpmiPrivilege::Operator,
        credentials: credentials(user, password, &[]),
        rules: local_rules(),
        call_timeout: ENDLESS,
        command_timeout: ENDLESS,
        past: Past::default(),
        clock: Clock::SYSTEM,
    }
}

impl Bench {
    /// Settings for this BMC, which a test may change.
    pub fn settings(&self) -> IpmiSettings {
        let user = self.bmc.credentials();
        settings_of(self.bmc.address(), &user.username, &user.password)
    }

    fn driver(&self) -> Ipmi {
        Ipmi::new(self.settings()).unwrap()
    }

    /// For a BMC that is silent or busy for ever.
    fn impatient(&self) -> Ipmi {
        let settings = IpmiSettings {
            call_timeout: SHORT,
            command_timeout: SHORT,
            ..self.settings()
        };
        Ipmi::new(settings).unwrap()
    }

    async fn read(&self) -> Result<Reading, DeviceError> {
        self.driver().open().observe().await
    }

    async fn power_off(&self) -> Result<OffOutcome, DeviceError> {
        power_off(&self.driver()).await
    }

    /// Every session is closed, and by us: what is dropped closes itself a moment later.
    async fn assert_closed(&self, sessions: usize) {
        let begun = Instant::now();
        loop {
            let all = self.bmc.sessions();
            let closed = all
                .iter()
                .filter(|session| matches!(session.ended, Some((_, End::Closed))));
            if closed.count() == sessions && all.len() == sessions {
                return;
            }
            assert!(begun.elapsed() < ENDLESS, "{all:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Datagrams that were received, without those that close a session.
    fn round_trips(&self) -> usize {
        let log = self.bmc.log();
        let is_close = |asked: &Asked| {
            matches!(
                asked,
                Asked::Command {
                    net_fn: 0x06,
                    command: 0x3c,
                    ..
                }
            )
        };
        log.iter().filter(|entry| !is_close(&entry.asked)).count()
    }
}

async fn power_off(driver: &Ipmi) -> Result<OffOutcome, DeviceError> {
    let mut session = driver.open();
    session.prepare_off().await?;
    session.force_off().await
}

/// What the driver makes of it: `Off(..)` or the reason of the error, in which no secret stands.
async fn verdict(driver: &Ipmi) -> String {
    match driver.open().observe().await {
        Ok(reading) => {
            assert!(reading.asked <= reading.answered);
            format!("{:?}({})", reading.state, reading.raw)
        }
        Err(error) => {
            let shown = format!("{error} {error:?} {driver:?}");
            assert!(
                !shown.contains(&Account::default().credentials.password),
                "{shown}"
            );
            error.reason().to_owned()
        }
    }
}
