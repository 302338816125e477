//! The driver under test, configured for a BMC of the test, and the usual answers of a Redfish service.

use crate::bmc::{Act, Bmc, Request, reply};
use fencing_core::reading::PowerState;
use fencing_drivers::address::{Address, AddressRules};
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::past::Past;
use fencing_drivers::redfish::{Redfish, RedfishSettings};
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{DeviceError, FenceDriver};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Longer than anything takes on the busiest machine.
const ENDLESS: Duration = Duration::from_secs(60);
/// The password, which must show up nowhere.
pub const PASSWORD: &str = "correct horse battery staple";
/// Where the system of the usual answers is.
pub const SYSTEM: &str = "/redfish/v1/Systems/1";
/// Where it takes commands.
pub const RESET: &str = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";

/// The benches' BMCs are on loopback, which is refused otherwise.
pub fn local_rules() -> Arc<AddressRules> {
    let loopback = "127.0.0.0/8".parse().unwrap();
    Arc::new(AddressRules::new(vec![loopback], Vec::new()))
}

/// Settings for a device at this address, which a test may change.
pub fn settings(address: &str) -> RedfishSettings {
    settings_with(address, &BTreeMap::new())
}

/// The same, with annotations of the Secret.
pub fn settings_with(address: &str, annotations: &BTreeMap<String, String>) -> RedfishSettings {
    let data = [("username", "admin"), ("password", PASSWORD)]
        .map(|(key, value)| (key.to_owned(), value.into()));
    RedfishSettings {
        address: Address::parse(address).unwrap(),
        system_id: None,
        verification: CertificateCheck::None,
        credentials: Arc::new(
            Credentials::from_secret("bmc", &BTreeMap::from(data), annotations).unwrap(),
        ),
        rules: local_rules(),
        call_timeout: ENDLESS,
        command_timeout: Duration::from_secs(2),
        past: Past::default(),
        clock: Clock::SYSTEM,
    }
}

/// Settings for a BMC of the test, its one system named.
pub fn settings_of(bmc: &Bmc) -> RedfishSettings {
    let scheme = if bmc.tls { "https" } else { "http" };
    let settings = settings(&format!("{scheme}://{}", bmc.address));
    RedfishSettings {
        system_id: Some("1".to_owned()),
        ..settings
    }
}

/// The driver for a BMC of the test.
pub fn driver(bmc: &Bmc) -> Redfish {
    Redfish::new(settings_of(bmc)).unwrap()
}

/// A system's document with this JSON as its power state.
pub fn system(power_state: &str) -> String {
    system_with(
        power_state,
        r#""ResetType@Redfish.AllowableValues":["On","ForceOff","GracefulShutdown"]"#,
    )
}

/// The same, with these members of its reset action.
pub fn system_with(power_state: &str, action: &str) -> String {
    format!(
        r##"{{"@odata.type":"#ComputerSystem.v1_20_0.ComputerSystem","@odata.id":"{SYSTEM}","Id":"1","PowerState":{power_state},
        "UUID":"4C4C4544-0042-3510-8052-B4C04F4A4D32","SerialNumber":"B5R0JM2","Manufacturer":"Example","Model":"R650",
        "BiosVersion":"1.2.3","PowerRestorePolicy":"AlwaysOff","Status":{{"State":"Disabled","Health":"Critical"}},
        "Actions":{{"#ComputerSystem.Reset":{{"target":"{RESET}",{action}}}}}}}"##
    )
}

/// A whole service: one system in this state, which takes every command.
pub fn service(power_state: &'static str) -> impl Fn(&Request) -> Act + Send + Sync {
    move |request| {
        Act::Send(match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/redfish/v1/Systems") => reply(
                "200 OK",
                &format!(r#"{{"Members":[{{"@odata.id":"{SYSTEM}"}}]}}"#),
            ),
            ("GET", SYSTEM) => reply("200 OK", &system(power_state)),
            ("POST", RESET) => reply("204 No Content", ""),
            _ => reply("404 Not Found", "{}"),
        })
    }
}

/// Reads once, in a new session.
pub async fn observe(driver: &Redfish) -> Result<(PowerState, String), DeviceError> {
    let reading = driver.open().observe().await?;
    assert!(reading.asked <= reading.answered);
    Ok((reading.state, reading.raw))
}

/// What a device that answers every request like this is read as: `Unknown(Paused)`, `Off(Off)`, or the reason of the error.
pub async fn verdict(script: impl Fn(&Request) -> Act + Send + Sync + 'static) -> String {
    let bmc = Bmc::plain(script).await;
    verdict_of(settings_of(&bmc)).await
}

/// The same for one that never comes to an end by itself: a call has a second.
pub async fn hasty_verdict(script: impl Fn(&Request) -> Act + Send + Sync + 'static) -> String {
    let bmc = Bmc::plain(script).await;
    let settings = RedfishSettings {
        call_timeout: Duration::from_secs(1),
        ..settings_of(&bmc)
    };
    verdict_of(settings).await
}

/// The same for a device that is there already.
pub async fn verdict_of(settings: RedfishSettings) -> String {
    match observe(&Redfish::new(settings).unwrap()).await {
        Ok((state, raw)) => format!("{state:?}({raw})"),
        Err(error) => {
            assert!(!format!("{error} {error:?}").contains(PASSWORD), "{error}");
            error.reason().to_owned()
        }
    }
}
