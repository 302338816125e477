//! No password leaves the Secrets: the operator says everything it can say (log level trace), about devices that are well, some that refuse
//! their password, and a fence, and all of it is searched. Each kind of driver has a Secret here: Redfish, IPMI, SNMPv3 and SNMPv2c.

use anyhow::{Result, ensure};
use e2e::lab::{Lab, Setup};
use e2e::operator::{NAMESPACE, Options};
use fencing_testbed::bmc::Credentials;
use fencing_testbed::ipmi::Suite;
use fencing_testbed::secrecy::{self, check, check_tree};
use fencing_testbed::snmpd::{AUTHENTICATION_PASSWORD, COMMUNITY, PRIVACY_PASSWORD, Pdu};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::devices::{probe_again, wait, write_secret};

/// Not that of any BMC.
const WRONG: &str = "wr0ng-Canary";
/// The device whose Secret has a community.
const BY_COMMUNITY: &str = "node-2-by-community";

/// A PDU with an outlet for each machine: the first one's as a user of SNMPv3, the second one's by a community.
async fn outlets(lab: &Lab) -> Result<Pdu> {
    let pdu = lab
        .pdu(BTreeMap::from([(1, lab.feed(1)), (2, lab.feed(2))]))
        .await?;
    lab.outlets("node-1-outlet", 1, &pdu, &[1]).await?;
    let secrets: Api<Secret> = Api::namespaced(lab.control_plane.admin(), NAMESPACE);
    let secret = json!({"metadata": {"name": "community"}, "stringData": {"community": COMMUNITY}});
    secrets
        .create(&PostParams::default(), &serde_json::from_value(secret)?)
        .await?;
    let device = json!({
        "nodeName": lab.rig(2).machine.name(),
        "identityCheck": "Skip",
        "pdu": {
            "address": pdu.address().ip(), "port": pdu.address().port(),
            "model": "APCRackPDU2", "outlets": [2], "snmp": {"version": "V2c"},
        },
        "credentialsRef": {"name": "community"},
    });
    lab.apply("FenceDevice", BY_COMMUNITY, device).await?;
    Ok(pdu)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_password_is_told_whatever_happens_and_however_much_is_logged() -> Result<()> {
    let lab = Lab::start(Setup::new("secrecy", 2)).await?;
    let _ipmi = lab.ipmi(1, Suite::Seventeen).await?;
    let _pdu = outlets(&lab).await?;
    let mut options = Options::default();
    options.arguments.push("--log-filter=trace".to_owned());
    let operator = lab.operator_with(options).await?;
    lab.wait_protected().await?;
    lab.policy("PowerOff", json!({})).await?;
    let (first, second) = (lab.rig(1).machine.name(), lab.rig(2).machine.name());
    lab.rig(1).machine.set_power(false);
    let fence = lab.wait_stage(first, "Recovered").await?;
    let evidence = fence.data["status"]["evidence"].to_string();
    ensure!(
        evidence.contains("node-1-outlet"),
        "the outlet has no part in it: {evidence}"
    );
    wait(
        &lab,
        "FenceDevice",
        BY_COMMUNITY,
        "CredentialsValid",
        "True/Accepted",
    )
    .await?;
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
        (
            "the password of the BMCs",
            Credentials::default().password.as_str(),
        ),
        ("the wrong password", WRONG),
        ("the key that signs", AUTHENTICATION_PASSWORD),
        ("the key that encrypts", PRIVACY_PASSWORD),
        ("the community", COMMUNITY),
    ]
    .map(|(name, value)| secrecy::Secret::new(name, value))
    .into_iter()
    .collect::<Result<Vec<_>>>()?;
    for path in ["/metrics", "/readyz", "/livez"] {
        let (_, answer) = operator.get(path).await?;
        check(path, answer.as_bytes(), &secrets)?;
    }
    let shown = operator.shown_by_the_kernel()?;
    ensure!(!shown.is_empty(), "the kernel shows nothing");
    check("the command line and the environment", &shown, &secrets)?;
    let objects = all_but_secrets(&lab).await?;
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
    // It writes down what has happened.
    lab.verdict().await?;
    let searched = check_tree(lab.control_plane.files().directory(), &secrets)?;
    eprintln!(
        "{} files of {} KiB were searched, {} KiB of them the operator's log; and {} KiB of objects",
        searched.files,
        searched.bytes / 1024,
        log.len() / 1024,
        objects.len() / 1024
    );
    Ok(())
}

/// Every object of every kind that can be listed, as YAML.
async fn all_but_secrets(lab: &Lab) -> Result<String> {
    let plane = &lab.control_plane;
    let kinds = ["api-resources", "--verbs=list", "-o", "name"];
    let kinds = plane.kubectl_text(&kinds).await?;
    let kinds: Vec<_> = kinds.lines().filter(|kind| *kind != "secrets").collect();
    for expected in [
        "nodes",
        "events",
        "nodefences.nodefencing.io",
        "leases.coordination.k8s.io",
    ] {
        ensure!(
            kinds.contains(&expected),
            "{expected} is not among {kinds:?}"
        );
    }
    let listed = ["get", &kinds.join(","), "-A", "-o", "yaml"];
    plane.kubectl_text(&listed).await
}
