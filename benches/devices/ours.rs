//! The operator's IPMI driver and confirm engine, as the operator calls them.

use anyhow::{Context, Result, bail, ensure};
use fencing_api::bmcs::IpmiPrivilege;
use fencing_api::settings::Verification;
use fencing_core::identity_rule::IdentityRule;
use fencing_core::reading::Reading;
use fencing_core::verification::Require;
use fencing_drivers::address::{Address, AddressRules};
use fencing_drivers::clock::Clock;
use fencing_drivers::confirm::{ConfirmPlan, Ended, Together, confirm};
use fencing_drivers::credentials::Credentials;
use fencing_drivers::ipmi::{Ipmi, IpmiSettings};
use fencing_drivers::past::Past;
use fencing_drivers::{FenceDriver, OffOutcome};
use fencing_testbed::bench::emulators::Emulated;
use fencing_testbed::bmc::Credentials as Known;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// The driver for a BMC, with this cipher suite.
pub fn driver(bmc: &Emulated, cipher_suite: u32) -> Result<Ipmi> {
    let known = Known::default();
    let data = [("username", known.username), ("password", known.password)];
    let data: BTreeMap<String, Vec<u8>> = data
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.into_bytes()))
        .collect();
    let host = bmc.address.ip().to_string();
    let driver = Ipmi::new(IpmiSettings {
        address: Address::expand_host(&host, bmc.address.port(), "")?,
        cipher_suite,
        privilege: IpmiPrivilege::Operator,
        credentials: Arc::new(Credentials::from_secret("bmc", &data, &BTreeMap::new())?),
        rules: Arc::new(AddressRules::new(vec!["127.0.0.0/8".parse()?], Vec::new())),
        call_timeout: Duration::from_secs(10),
        command_timeout: Duration::from_secs(5),
        past: Past::default(),
        clock: Clock::SYSTEM,
    })?;
    Ok(driver)
}

/// How a policy proves that a machine is off, unless it says otherwise.
pub fn plan() -> ConfirmPlan {
    let settings = Verification::default();
    let period = Duration::from_secs(settings.read_period_seconds.into());
    ConfirmPlan {
        reads: settings.consecutive_off_reads,
        period,
        window: period * settings.consecutive_off_reads.saturating_sub(1),
        deadline: Duration::from_secs(90),
    }
}

/// Turns a machine off and reads it until that is worth a proof: whose machine it is first, the command, then another session.
pub async fn turn_off(bmc: &Emulated) -> Result<()> {
    let driver = driver(bmc, 17)?;
    let rule = IdentityRule::Is(bmc.system_uuid.clone());
    let mut session = driver.open();
    let identity = session.prepare_off().await?;
    rule.check("of the benchmark", &identity)?;
    let outcome = session.force_off().await?;
    ensure!(outcome == OffOutcome::Accepted, "{outcome:?}");
    drop(session);
    let level = Together::new(Require::All, 1, plan(), Clock::SYSTEM);
    let watch = |reading: &Reading| match rule.check("of the benchmark", &reading.identity) {
        Ok(()) => ControlFlow::Continue(()),
        Err(wrong) => ControlFlow::Break(wrong.to_string()),
    };
    let confirmation = confirm(&level, 0, &driver, driver.open(), watch).await;
    match confirmation.ended {
        Ended::Stable => Ok(()),
        other => bail!("{}: {other:?}", bmc.address),
    }
}

/// Opens a session, reads the status, closes it.
pub async fn status(driver: &Ipmi) -> Result<()> {
    let mut session = driver.open();
    session.observe().await.context("no status")?;
    Ok(())
}
