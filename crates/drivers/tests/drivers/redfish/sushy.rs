//! The driver against sushy-tools, which none of us wrote: its answers and its delays are its own.

use super::{ENDLESS, PLAN, confirmed, machine, power_off, settings};
use fencing_core::reading::PowerState;
use fencing_drivers::confirm::{ConfirmPlan, Ended};
use fencing_drivers::redfish::{Redfish, RedfishSettings};
use fencing_drivers::{DeviceError, FenceDriver, OffOutcome};
use fencing_testbed::bmc::{BmcCa, Credentials, Plug};
use fencing_testbed::power::Power;
use fencing_testbed::process::Guard;
use fencing_testbed::sushy::{Libvirt, Sushy};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

struct Rack {
    sushy: Sushy,
    machine: Arc<Plug>,
    _guard: Arc<Guard>,
    _logs: tempfile::TempDir,
}

impl Rack {
    async fn at(address: [u8; 4], libvirt: Option<&Libvirt>) -> Self {
        let (address, machine): (IpAddr, _) = (address.into(), machine());
        let ca = BmcCa::new("BMCs of OpenStack").unwrap();
        let (guard, logs) = (Guard::start().unwrap(), tempfile::tempdir().unwrap());
        let power = machine.clone();
        let credentials = Credentials::default();
        let logs_of = logs.path();
        let sushy = Sushy::start(address, power, credentials, &ca, &guard, logs_of, libvirt);
        Self {
            sushy: sushy.await.unwrap(),
            machine,
            _guard: guard,
            _logs: logs,
        }
    }

    fn settings(&self, system: &str, password: &str) -> RedfishSettings {
        let user = &self.sushy.credentials().username;
        settings(
            &self.sushy.url(),
            Some(system),
            self.sushy.ca_pem(),
            user,
            password,
        )
    }

    fn driver(&self, system: &str, password: &str) -> Redfish {
        Redfish::new(self.settings(system, password)).unwrap()
    }

    /// What becomes of a reading, and of a power-off, at this path.
    async fn refusal(&self, system: &str, password: &str) -> DeviceError {
        let driver = self.driver(system, password);
        let error = driver.open().observe().await.unwrap_err();
        let off = power_off(&driver).await.unwrap_err();
        assert_eq!(error.reason(), off.reason());
        error
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sushy_tools_is_refused_where_it_redirects_and_understood_where_it_refuses() {
    let rack = Rack::at([127, 86, 1, 1], None).await;
    let (own, password) = (
        rack.sushy.system_path(),
        &rack.sushy.credentials().password.clone(),
    );
    // A name stands for the system, by a redirect to its UUID.
    let alias = rack.refusal("node-1", password).await;
    assert_eq!(alias.reason(), "ProtocolError");
    assert!(alias.to_string().contains("redirect (307)"), "{alias}");
    let wrong = rack.refusal(&own, "wrong").await;
    assert_eq!(wrong.reason(), "AuthFailed");
    let unknown = rack.refusal("no-such-system", password).await;
    assert_eq!(unknown.reason(), "NotFound");
    // What its driver does not have.
    let lacking = rack.refusal(&format!("{own}/BIOS"), password).await;
    assert_eq!(lacking.reason(), "Busy");
    assert!(lacking.to_string().contains("501"), "{lacking}");
    assert!(rack.sushy.switched().is_empty() && rack.machine.is_on());
    let unnamed = RedfishSettings {
        system_id: None,
        ..rack.settings(&own, password)
    };
    let reading = Redfish::new(unnamed).unwrap().open().observe().await;
    assert_eq!(reading.unwrap().state, PowerState::On);
}

/// 204, and the machine runs for 1 to 11 seconds more.
#[tokio::test(flavor = "multi_thread")]
async fn sushy_tools_off_is_accepted_at_once_and_confirmed_when_it_lands() {
    let rack = Rack::at([127, 86, 1, 2], None).await;
    let password = rack.sushy.credentials().password.clone();
    let driver = rack.driver(&rack.sushy.system_path(), &password);
    assert_eq!(power_off(&driver).await, Ok(OffOutcome::Accepted));
    let plan = ConfirmPlan {
        period: Duration::from_millis(200),
        window: Duration::from_millis(500),
        deadline: ENDLESS,
        ..PLAN
    };
    let confirmation = confirmed(&driver, &rack.machine, plan).await;
    assert_eq!(confirmation.ended, Ended::Stable);
    assert!(!rack.machine.is_on());
    // Off already: it says nothing of that.
    assert_eq!(power_off(&driver).await, Ok(OffOutcome::Accepted));
    rack.machine.set_power(true);
    let reading = driver.open().observe().await.unwrap();
    assert_eq!(reading.state, PowerState::On, "a hand at the machine");
    let switched = rack.sushy.switched().into_iter().map(|(_, on)| on);
    assert_eq!(switched.collect::<Vec<_>>(), [false]);
}

/// R8: over libvirt, a domain that its hypervisor has saved reads Off, takes an off that does nothing, and is restored by an on. So that an off was
/// accepted does not say that it turned anything off.
#[tokio::test(flavor = "multi_thread")]
async fn sushy_tools_takes_an_off_of_a_saved_domain_and_restores_it_at_an_on() {
    let test = "sushy_tools_takes_an_off_of_a_saved_domain_and_restores_it_at_an_on";
    let Some(libvirt) = Libvirt::to_test(test).await.unwrap() else {
        return;
    };
    let rack = Rack::at([127, 86, 1, 3], Some(&libvirt)).await;
    let password = rack.sushy.credentials().password.clone();
    let driver = rack.driver(&rack.sushy.system_path(), &password);
    let read = async || driver.open().observe().await.unwrap();
    assert_eq!(read().await.state, PowerState::On);
    rack.machine.set_power(false);
    let saved = read().await;
    assert!(
        saved.is_off(),
        "it does not say that it is saved: {saved:?}"
    );
    assert_eq!(power_off(&driver).await, Ok(OffOutcome::Accepted));
    assert!(rack.sushy.switched().is_empty(), "it has not turned it off");
    rack.sushy.turn_on().await.unwrap();
    assert!(rack.machine.is_on());
    assert_eq!(read().await.state, PowerState::On);
    // What runs is turned off by the same command.
    assert_eq!(power_off(&driver).await, Ok(OffOutcome::Accepted));
    let switched = rack.sushy.switched().into_iter().map(|(_, on)| on);
    assert_eq!(switched.collect::<Vec<_>>(), [true, false]);
    assert!(!rack.machine.is_on());
}
