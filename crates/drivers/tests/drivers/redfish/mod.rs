//! The Redfish driver against services that are not scripted for it: the lab's BMC with what sets vendors apart, and sushy-tools.

mod sushy;
mod vendors;

use crate::device::local_rules;
use crate::ipmi::{UUID, credentials};
use fencing_core::reading::{PowerState, Reading};
use fencing_core::verification::Require;
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::confirm::{ConfirmPlan, Confirmation, Together, confirm};
use fencing_drivers::past::Past;
use fencing_drivers::redfish::{Redfish, RedfishSettings};
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{DeviceError, FenceDriver, OffOutcome};
use fencing_testbed::bmc::{Bmc, BmcCa, BmcFaults, Credentials, Plug};
use fencing_testbed::power::Power;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// Longer than anything takes on the busiest machine.
const ENDLESS: Duration = Duration::from_secs(60);
const PLAN: ConfirmPlan = ConfirmPlan {
    reads: 3,
    period: Duration::from_millis(50),
    window: Duration::from_millis(100),
    deadline: ENDLESS,
};

/// The lab's BMC and its machine, which runs.
struct Rack {
    bmc: Bmc,
    machine: Arc<Plug>,
}

impl Rack {
    fn with(change: impl FnOnce(&mut BmcFaults)) -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let address: IpAddr = [127, 86, 0, NEXT.fetch_add(1, Ordering::Relaxed)].into();
        let ca = BmcCa::new("BMCs of the vendors").unwrap();
        let machine = machine();
        let bmc = Bmc::start(address, machine.clone(), Credentials::default(), &ca).unwrap();
        bmc.faults(change);
        Self { bmc, machine }
    }

    /// One whose machine is off.
    fn dark(change: impl FnOnce(&mut BmcFaults)) -> Self {
        let rack = Self::with(change);
        rack.machine.set_power(false);
        rack
    }

    fn settings(&self, system_id: Option<&str>) -> RedfishSettings {
        let Credentials { username, password } = self.bmc.credentials();
        settings(
            &self.bmc.url(),
            system_id,
            self.bmc.ca_pem(),
            username,
            password,
        )
    }

    /// The driver for its machine, which is named.
    fn driver(&self) -> Redfish {
        Redfish::new(self.settings(Some("1"))).unwrap()
    }

    async fn power_off(&self) -> Result<OffOutcome, DeviceError> {
        power_off(&self.driver()).await
    }

    async fn confirmed(&self) -> Confirmation {
        confirmed(&self.driver(), &self.machine, PLAN).await
    }

    /// The status of each command that arrived, all of them hard.
    fn commands(&self) -> Vec<Option<u16>> {
        let commands = self.bmc.power_commands();
        assert!(commands.iter().all(|one| one.reset_type == "ForceOff"));
        commands.iter().map(|one| one.status).collect()
    }
}

fn machine() -> Arc<Plug> {
    Arc::new(Plug::new("node-1", UUID))
}

fn settings(
    url: &str,
    system_id: Option<&str>,
    ca_pem: &str,
    user: &str,
    password: &str,
) -> RedfishSettings {
    RedfishSettings {
        address: Address::parse(url).unwrap(),
        system_id: system_id.map(str::to_owned),
        verification: CertificateCheck::Full {
            ca_bundle_pem: Some(ca_pem.as_bytes().to_vec()),
        },
        credentials: credentials(user, password, &[]),
        rules: local_rules(),
        call_timeout: ENDLESS,
        command_timeout: ENDLESS,
        past: Past::default(),
        clock: Clock::SYSTEM,
    }
}

async fn power_off(driver: &Redfish) -> Result<OffOutcome, DeviceError> {
    let mut session = driver.open();
    session.prepare_off().await?;
    session.force_off().await
}

/// The whole engine, which must read nothing as off while the machine runs.
async fn confirmed(driver: &Redfish, machine: &Plug, plan: ConfirmPlan) -> Confirmation {
    let watch = |reading: &Reading| {
        assert!(
            !machine.is_on() || reading.state != PowerState::Off,
            "{reading:?}"
        );
        ControlFlow::Continue(())
    };
    confirm(&alone(plan), 0, driver, driver.open(), watch).await
}

/// A level of one device.
fn alone(plan: ConfirmPlan) -> Together {
    Together::new(Require::All, 1, plan, Clock::SYSTEM)
}

fn words(confirmation: &Confirmation) -> Vec<&str> {
    let readings = confirmation.readings.iter();
    readings.map(|reading| reading.raw.as_str()).collect()
}
