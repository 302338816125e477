//! Passwords that are changed at a bad moment, over IPMI (F53): a wrong one is said to be that and costs three logins at most, and one that
//! is changed while the machine is being fenced is read again once.

use anyhow::{Context, Result, bail, ensure};
use e2e::lab::{LIMIT, Lab, SECRET, Setup, condition};
use e2e::machine::Ailment;
use e2e::operator::NAMESPACE;
use fencing_testbed::ipmi::{End, IpmiBmc, Which};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ObjectMeta, PostParams};
use serde_json::{Value, json};

use crate::devices::{message, probe_again, wait, write_secret};
use crate::human_word::called;
use crate::ipmi;
use crate::outage::{Outage, POD};
use crate::rack_power::impatient;

/// What the BMC's password becomes, and what it becomes then.
const NEW: &str = "n3w-Bmc";
const NEWER: &str = "n3wer-Bmc";
/// How the BMC's users are told that the password is the reason, and not the user.
const OTHER_PASSWORD: &str = "its password for this user differs";

/// How they are told that its account is spared.
const NO_MORE: &str = "3 times within 10 minutes at this host; the next attempt";

/// Logins that ended because the BMC has another password.
fn refused(bmc: &IpmiBmc) -> usize {
    let sessions = bmc.sessions();
    let refused = sessions.iter().filter(|session| {
        matches!(session.ended, Some((_, End::GivenUp(_) | End::Refused(_))))
            && session.active.is_none()
    });
    refused.count()
}

/// Why the FenceDevice's credentials are not valid.
async fn device_says(lab: &Lab, device: &str, reason: &str) -> Result<String> {
    let wanted = format!("False/{reason}");
    let device = wait(lab, "FenceDevice", device, "CredentialsValid", &wanted).await?;
    Ok(message(&device, "CredentialsValid"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_password_is_tried_three_times_and_one_changed_midway_is_read_again_once()
-> Result<()> {
    let lab = Lab::start(Setup::new("credentials", 2)).await?;
    let bmcs = ipmi::own(&lab).await?;
    let outage = Outage::of(lab, "PowerOff", impatient()).await?;
    let bmc = ipmi::of(&outage.lab, &bmcs, &outage.node)?;

    let before = is_told_apart(&outage, bmc).await?;
    is_tried_three_times(&outage, bmc, before).await?;
    is_missed(&outage, bmc).await?;
    is_read_again_once(&outage, bmc).await?;
    outage.verdict().await
}

/// A user whom the BMC does not know is not a wrong password, and the other way round. Returns how many logins had been refused before
/// the first with the wrong password.
async fn is_told_apart(outage: &Outage, bmc: &IpmiBmc) -> Result<usize> {
    let Outage { lab, node, .. } = outage;
    let device = format!("{node}-bmc");
    let user = bmc.credentials().username.clone();
    write_secret(lab, json!({"username": "nobody"})).await?;
    probe_again(lab, &device, 11).await?;
    let words = device_says(lab, &device, "UnknownUser").await?;
    ensure!(words.contains("`username`"), "{words}");

    write_secret(lab, json!({"username": user})).await?;
    let before = refused(bmc);
    bmc.faults(|faults| faults.password = Some(NEW.to_owned()));
    probe_again(lab, &device, 12).await?;
    let words = device_says(lab, &device, "AuthFailed").await?;
    ensure!(words.contains(OTHER_PASSWORD), "{words}");
    Ok(before)
}

/// The probe's login counts. The NodeFence says what is wrong, and then that no more is sent.
async fn is_tried_three_times(outage: &Outage, bmc: &IpmiBmc, before: usize) -> Result<()> {
    outage.rig()?.machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });
    let fence = called(outage, "DeviceFailed", OTHER_PASSWORD).await?;
    let told = outage.lab.wait_told(&fence, "DeviceFailed").await?;
    ensure!(
        told.contains("correct the Secret named by `credentialsRef`"),
        "the event says `{told}`"
    );
    called(outage, "DeviceFailed", NO_MORE).await?;
    let refused = refused(bmc) - before;
    ensure!(refused == 3, "{refused} logins with the wrong password");
    outage.lab.hands_off().await
}

/// The Secret is deleted, which is said; one that is made anew and says the same has no tries of its own.
async fn is_missed(outage: &Outage, bmc: &IpmiBmc) -> Result<()> {
    let before = refused(bmc);
    let secrets: Api<Secret> = Api::namespaced(outage.lab.control_plane.admin(), NAMESPACE);
    let Secret { data, .. } = secrets.get(SECRET).await?;
    secrets.delete(SECRET, &DeleteParams::default()).await?;
    let missed = format!("Secret `{SECRET}` does not exist in namespace `{NAMESPACE}`");
    called(outage, "DeviceFailed", &missed).await?;
    let metadata = ObjectMeta {
        name: Some(SECRET.to_owned()),
        ..ObjectMeta::default()
    };
    let again = Secret {
        metadata,
        data,
        ..Secret::default()
    };
    secrets.create(&PostParams::default(), &again).await?;
    called(outage, "DeviceFailed", NO_MORE).await?;
    let tries = refused(bmc) - before;
    ensure!(tries == 0, "{tries} logins with the same password again");
    Ok(())
}

/// The Secret is corrected, and nobody does anything else. Then the password is changed at the BMC and in the Secret, between the command
/// and the readings.
async fn is_read_again_once(outage: &Outage, bmc: &IpmiBmc) -> Result<()> {
    let Outage { lab, node, .. } = outage;
    let commanded = bmc.hold_answer(Which::PowerOff);
    write_secret(lab, json!({"password": NEW})).await?;
    commanded.wait_arrived(LIMIT).await?;
    let before = refused(bmc);
    let login = bmc.hold_next(Which::Open);
    commanded.release();
    login.wait_arrived(LIMIT).await?;
    bmc.faults(|faults| faults.password = Some(NEWER.to_owned()));
    write_secret(lab, json!({"password": NEWER})).await?;
    login.release();

    lab.workloads
        .wait_running_elsewhere(POD, node, LIMIT)
        .await?;
    let recovered = lab.wait_stage(node, "Recovered").await?;
    let again = refused(bmc) - before;
    ensure!(again == 1, "{again} logins with the password of before");
    once_and_for_all(&recovered)?;
    ensure!(!outage.rig()?.machine.is_on());
    ensure!(lab.times_tainted(node).await? == 1);
    lab.silent_after_proof(&recovered).await
}

/// The try went on: there was no second command, and since the first nobody was called.
fn once_and_for_all(fence: &DynamicObject) -> Result<()> {
    let attempts = fence.data["status"]["attempts"].as_array().cloned();
    let attempts = attempts.unwrap_or_default();
    let [only] = attempts.as_slice() else {
        bail!("one command was to be sent: {attempts:#?}");
    };
    ensure!(only["result"] == "Succeeded", "{only:#}");
    let escalated = condition(fence, "Escalated").context("somebody was called")?;
    let time = |of: &Value| -> Result<Timestamp> { Ok(serde_json::from_value(of.clone())?) };
    ensure!(
        escalated["status"] == "False"
            && time(&escalated["lastTransitionTime"])? <= time(&only["startTime"])?,
        "somebody was called again: {escalated:#}"
    );
    Ok(())
}
