//! What people say and do in an incident, and what they are told when it is too early or too late: an outage that is denied, one that is asked for
//! by hand, confirmed in vain and let go of, and one that is let go of while an off command is on its way.

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup, stage};
use e2e::machine::Ailment;
use fencing_testbed::bmc::Which;
use fencing_testbed::eventually::eventually;
use serde_json::json;

use super::counted;
use super::session::Session;
use crate::human_word::called;
use crate::outage::{Outage, name};

/// Types `now`, and takes out of the session the name that the API server has made.
async fn now(session: &mut Session<'_>, line: &str) -> Result<String> {
    let said = session.types(line).await?;
    let made = said.strip_prefix("nodefence.nodefencing.io/");
    let made = made.and_then(|it| it.split(' ').next());
    let made = made.with_context(|| session.told().to_owned())?;
    session.about(made);
    Ok(made.to_owned())
}

/// Waits until this NodeFence has ended without a fence.
async fn aborted(lab: &Lab, fence: &str) -> Result<()> {
    eventually(&format!("NodeFence {fence} ends"), LIMIT, async || {
        let fence = lab.api("NodeFence").get(fence).await?;
        ensure!(stage(&fence) == "Aborted", "it is {}", stage(&fence));
        Ok(())
    })
    .await
}

/// What stands in these annotations of an object.
async fn notes<const N: usize>(
    lab: &Lab,
    kind: &str,
    object: &str,
    keys: [&str; N],
) -> Result<[Option<String>; N]> {
    let object = lab.api(kind).get(object).await?;
    let notes = object.metadata.annotations.unwrap_or_default();
    Ok(keys.map(|key| notes.get(&format!("nodefencing.io/{key}")).cloned()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_people_do_is_done_in_time_and_refused_otherwise() -> Result<()> {
    let lab = Lab::start(Setup::new("plugin-acts", 2)).await?;
    let policy = json!({"fence": {"approval": {"mode": "Manual"}}});
    let outage = Outage::of(lab, "PowerOff", policy).await?;
    let (lab, rig) = (&outage.lab, outage.rig()?);
    let mut session = Session::new(lab, &outage.node, "People act, in time and too late");
    rig.machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });
    let denied = lab.wait_stage(&outage.node, "AwaitingApproval").await?;
    session.about(name(&denied)?);
    counted(lab, 1).await?;
    for line in [
        "status {node}",
        "deny {node} --reason \"we are at work there\" --dry-run=server",
        "deny {node} --reason \"we are at work there\"",
    ] {
        session.types(line).await?;
    }
    aborted(lab, name(&denied)?).await?;
    session.types("explain {node}").await?;
    counted(lab, 0).await?;
    // It is down, nobody fences it, and nobody is left to answer.
    let (code, _) = session.exits("status {node} -w").await?;
    ensure!(code == 0, "{}", session.told());
    session
        .types("approve {node} --reason \"seen dark\"")
        .await?;

    // Nobody's word counts against a device that reads On.
    session
        .types("test {node} --reason \"does it answer?\"")
        .await?;
    let device = format!("{}-bmc", outage.node);
    let asked = notes(
        lab,
        "FenceDevice",
        &device,
        ["probe-requested-by", "probe-reason"],
    )
    .await?;
    ensure!(asked == ["admin", "does it answer?"].map(|it| Some(it.to_owned())));
    let line = "now {node} --mode ConfirmOnly --reason \"smoke\"";
    now(&mut session, &format!("{line} --dry-run=server")).await?;
    let fence = now(&mut session, line).await?;
    called(&outage, "StillOn", &format!("{device} reads On")).await?;
    for line in [
        "confirm {node} --reason \"both cords are out\" --confirm-node {node}",
        "cancel {node} --reason \"the wrong rack\" --dry-run=server",
        "cancel {node} --reason \"the wrong rack\"",
    ] {
        session.types(line).await?;
    }
    aborted(lab, &fence).await?;
    let released = notes(lab, "NodeFence", &fence, ["released-by", "release-reason"]).await?;
    ensure!(released == ["admin", "the wrong rack"].map(|it| Some(it.to_owned())));

    let command = rig.bmc.hold_next(Which::ForceOff);
    let line = "now {node} --reason \"it smokes after all\"";
    session.types(line).await?;
    let fence = now(&mut session, &format!("{line} --override-denial")).await?;
    command.wait_arrived(LIMIT).await?;
    let line = "cancel {node} --reason \"back from the dead\"";
    session.types(line).await?;
    session
        .types(&format!("{line} --ignore-pending-off"))
        .await?;
    command.release();
    aborted(lab, &fence).await?;
    counted(lab, 0).await?;
    session.types("history").await?;
    session.hold("acts")?;
    rig.machine.ail(Ailment::default());
    outage.restore().await?;
    outage.verdict().await
}
