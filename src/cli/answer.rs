//! `kubectl fence approve` and `deny`: a human's answer, once, in their own name.

use super::cluster::{Cluster, Error as ClusterError, Write};
use super::{Done, Error, fleet, output};
use crate::api::fence::{ApprovalDecision, NodeFence};
use kube::ResourceExt;
use serde_json::json;
use std::process::ExitCode;

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
    #[arg(long, value_name = "TEXT")]
    reason: String,

    #[command(flatten)]
    dry_run: DryRun,
}

/// Of every command that changes something.
#[derive(Debug, Clone, clap::Args)]
pub struct DryRun {
    /// Only have the API server look at it: `server`
    #[arg(long, value_name = "WHERE", value_parser = ["none", "server"], default_value = "none")]
    dry_run: String,
}

impl DryRun {
    /// Is nothing kept?
    pub fn is_on(&self) -> bool {
        self.dry_run == "server"
    }

    /// Only looked at, by whoever has this role.
    pub fn server(&self, role: &'static str) -> Write {
        Write {
            dry_run: true,
            role,
        }
    }

    /// How it is written, by whoever has this role.
    pub fn write(&self, role: &'static str) -> Write {
        Write {
            dry_run: self.is_on(),
            role,
        }
    }

    /// `TYPE/name verbed`, as kubectl tells it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn told(&self, kind: &str, name: &str, verbed: &str) -> Done {
        let aside = match self.dry_run.as_str() {
            "server" => " (server dry run)",
            _ => "",
        };
        output::print(&format!("{kind}.nodefencing.io/{name} {verbed}{aside}\n"))?;
        Ok(ExitCode::SUCCESS)
    }
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
    let fence = fleet::open(cluster, &args.name).await?;
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
