//! `kubectl fence approve` and `deny`: a human's answer, once, in their own name.

use super::cluster::{Cluster, Error as ClusterError};
use super::dry_run::DryRun;
use super::trail::reason;
use super::{Done, Error, fences};
use crate::api::fence::{ApprovalDecision, NodeFence};
use kube::ResourceExt;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
      kubectl fence approve worker-3 --reason \"seen dark\"
      kubectl fence deny worker-3-5c0ffee5 --reason \"we are at work there\"

An answer is given once. It takes the verb `approve` (ClusterRole \
node-fencing-approver), and is kept with your name in the record. To stop a \
fence without that verb: kubectl fence release.";

/// Answer an incident that waits for a human
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The NodeFence, or the node of an open one
    name: String,

    /// Why, for the record
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,

    #[command(flatten)]
    dry_run: DryRun,
}

/// Yes.
///
/// # Errors
/// [`Error`].
pub async fn approve(cluster: &Cluster, args: Args) -> Done {
    answer(cluster, args, ApprovalDecision::Approved).await
}

/// No.
///
/// # Errors
/// [`Error`].
pub async fn deny(cluster: &Cluster, args: Args) -> Done {
    answer(cluster, args, ApprovalDecision::Denied).await
}

async fn answer(cluster: &Cluster, args: Args, decision: ApprovalDecision) -> Done {
    let fence = fences::open(cluster, &args.name).await?;
    let name = fence.name_any();
    if let Some(given) = &fence.spec.approval {
        return Err(Error::No(format!(
            "NodeFence {name} is {:?} already, by {} at {}: {}; an answer is given once{}",
            given.decision,
            given.user,
            given.time,
            given.reason,
            match given.decision {
                ApprovalDecision::Approved => ", to stop it all the same: kubectl fence release",
                ApprovalDecision::Denied => "",
            }
        )));
    }
    let asker = cluster.asker().await?;
    let patch = json!({
        "metadata": {"resourceVersion": fence.metadata.resource_version},
        "spec": {"approval": {
            "decision": decision,
            "user": asker.name,
            "reason": args.reason,
            "time": asker.at,
        }},
    });
    let write = args.dry_run.write("node-fencing-approver");
    let written: Result<NodeFence, ClusterError> = cluster.patch(&name, &patch, &write).await;
    written?;
    let verbed = match decision {
        ApprovalDecision::Approved => "approved",
        ApprovalDecision::Denied => "denied",
    };
    args.dry_run.told("nodefence", &name, verbed)
}
