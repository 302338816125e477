//! `kubectl fence diagnose` on a real control plane: each of D1 to D17 as the components themselves bring it about. Attach/detach, the scheduler
//! and external-attacher write the Events and the errors, kubelets (the lab's) write `volumesInUse`, node-lifecycle says that a node is silent. Of
//! what has to last for hours the cluster is as it is a moment after it began, and only the date that the plugin reads is later ([`later`]).
//!
//! What the lab has no part for: its external-attacher is a process beside the cluster and no pod, so D3 shows what a cluster with a managed
//! control plane shows, and no pod's log. Its array knows no orphan by itself: that of D9 is left behind by a VolumeAttachment that was made by
//! hand and then robbed of its finalizer, as people do. Nobody unregisters a CSI driver here: for D10 the test writes the CSINode as a kubelet does.

mod dead;
mod fixes;
mod lasting;
mod later;
mod many;
mod mounts;
mod refused;
mod well;

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab};
use fencing_testbed::eventually::eventually;
use serde_json::Value;

use super::session::{Session, typed};

/// Exit code where something is found.
const FOUND: i32 = 2;

/// What it says to programs, and its exit code.
async fn asked(lab: &Lab, subject: &str) -> Result<(i32, Value)> {
    asked_with(lab, subject, "").await
}

/// The same with these flags.
async fn asked_with(lab: &Lab, subject: &str, flags: &str) -> Result<(i32, Value)> {
    let line = format!("diagnose {subject} -o json {flags}");
    let (code, said, complained) = typed(lab, &line).await?;
    let answer = serde_json::from_str(&said).with_context(|| complained)?;
    Ok((code, answer))
}

/// The signatures of what was found.
fn ids(answer: &Value) -> Vec<&str> {
    let findings = answer["findings"].as_array().into_iter().flatten();
    findings.filter_map(|it| it["id"].as_str()).collect()
}

/// Types it once this, and nothing else, is found about the object: then it stands in the session, and what it advises is tried.
async fn found(lab: &Lab, session: &mut Session<'_>, subject: &str, wanted: &[&str]) -> Result<()> {
    answered(lab, session, subject, wanted).await.map(drop)
}

/// The same, with what it says to programs.
async fn answered(
    lab: &Lab,
    session: &mut Session<'_>,
    subject: &str,
    wanted: &[&str],
) -> Result<Value> {
    let of_all = format!("{subject} -n work");
    let what = format!("{wanted:?} of {subject}");
    let answer = eventually(&what, LIMIT, async || {
        let (code, answer) = asked_with(lab, &of_all, session.flags()).await?;
        ensure!(ids(&answer) == wanted, "it is {answer:#}");
        ensure!(code == FOUND, "exit code {code}");
        Ok(answer)
    });
    let answer = answer.await?;
    let (code, said) = session.exits(&format!("diagnose {of_all}")).await?;
    let titles = wanted.iter().filter(|id| said.contains(&format!("{id}: ")));
    ensure!(
        code == FOUND && titles.count() == wanted.len(),
        "{code}: {said}"
    );
    for finding in answer["findings"].as_array().into_iter().flatten() {
        fixes::tried(lab, finding).await?;
    }
    Ok(answer)
}
