//! No password leaves the Secrets: the operator says everything it can say (log level trace), about devices that are well, one that refuses its
//! password, and a fence, and all of it is searched.

use anyhow::{Result, ensure};
use e2e::bmc::Credentials;
use e2e::ipmi::Suite;
use e2e::lab::{Lab, Setup};
use e2e::operator::Options;
use e2e::secrecy::{Secret, check, check_logs};
use serde_json::json;
use std::time::Duration;

use crate::devices::{probe_again, wait, write_secret};

/// Not that of any BMC.
const WRONG: &str = "wr0ng-Canary";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_password_is_told_whatever_happens_and_however_much_is_logged() -> Result<()> {
    let lab = Lab::start(Setup::new("secrecy", 2)).await?;
    let _ipmi = lab.ipmi(1, Suite::Seventeen).await?;
    let mut options = Options::default();
    options.arguments.push("--log-filter=trace".to_owned());
    let operator = lab.operator_with(options).await?;
    lab.wait_protected().await?;
    lab.policy("PowerOff", json!({})).await?;
    let (first, second) = (lab.rig(1).machine.name(), lab.rig(2).machine.name());
    lab.rig(1).machine.set_power(false);
    lab.wait_stage(first, "Recovered").await?;
    write_secret(&lab, json!({"password": WRONG})).await?;
    for node in [first, second] {
        let device = format!("{node}-bmc");
        probe_again(&lab, &device, 11).await?;
        wait(
            &lab,
            "FenceDevice",
            &device,
            "CredentialsValid",
            "False/AuthFailed",
        )
        .await?;
    }

    let secrets = [
        Secret::new("the password of the BMCs", &Credentials::default().password)?,
        Secret::new("the wrong password", WRONG)?,
    ];
    let (_, metrics) = operator.get("/metrics").await?;
    check("the metrics", metrics.as_bytes(), &secrets)?;
    let kinds = "nodefences,fencedevices,nodefencingpolicies,events,leases,nodes";
    let listed = ["get", kinds, "-A", "-o", "yaml"];
    let objects = lab.control_plane.kubectl_text(&listed).await?;
    ensure!(
        objects.contains("AuthFailed"),
        "the objects do not say what happened"
    );
    check("the objects", objects.as_bytes(), &secrets)?;
    operator.stop(Duration::from_secs(5)).await?;
    let log = std::fs::read_to_string(operator.log())?;
    ensure!(
        log.contains("TRACE") && log.contains("off command"),
        "it did not say much"
    );
    let read = check_logs(lab.control_plane.files().directory(), &secrets)?;
    eprintln!(
        "{} KiB of logs were searched, {} KiB of them the operator's",
        read / 1024,
        log.len() / 1024
    );
    lab.verdict().await
}
