//! `kubectl fence diagnose` on a real control plane: each of D1 to D10, and D15 and D17, as the components themselves bring it about. Attach/detach, the scheduler
//! and external-attacher write the Events and the errors, kubelets (the lab's) write `volumesInUse`, node-lifecycle says that a node is silent.
//!
//! What the lab has no part for: its external-attacher is a process beside the cluster and no pod, so D3 shows what a cluster with a managed
//! control plane shows, and no pod's log. Its array knows no orphan by itself: that of D9 is left behind by a VolumeAttachment that was made by
//! hand and then robbed of its finalizer, as people do. Nobody unregisters a CSI driver here: for D10 the test writes the CSINode as a kubelet does.

mod dead;
mod fixes;
mod many;
mod refused;
mod well;

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::lab::{LIMIT, Lab};
use serde_json::Value;

use super::session::{Session, typed};

/// Exit code where something is found.
const FOUND: i32 = 2;

/// What it says to programs, and its exit code.
async fn asked(lab: &Lab, subject: &str) -> Result<(i32, Value)> {
    let (code, said, complained) = typed(lab, &format!("diagnose {subject} -o json")).await?;
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
    let of_all = format!("{subject} -n work");
    let what = format!("{wanted:?} of {subject}");
    let answer = eventually(&what, LIMIT, async || {
        let (code, answer) = asked(lab, &of_all).await?;
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
    Ok(())
}
