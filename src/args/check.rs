//! The flags of `node-fencing-operator check`.

use super::{Error, NAMESPACE, namespace, seconds};
use clap::Args;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// What `--wait` may be, in seconds.
const WAIT_SECONDS_RANGE: RangeInclusive<u64> = 0..=3600;

const EXAMPLES: &str = "\
Examples:
  Is the operator's cluster as it needs it, and does a replica lead? (`helm test` runs this in a pod with the operator's account.)
      node-fencing-operator check --wait 60

  May the operator go? (`helm uninstall` asks this first.)
      node-fencing-operator check --uninstall

Exit codes: 0 all is well; 1 something is not, its line begins with FAIL and ends with the way out (SKIP is what this account cannot tell, and no failure); 2 a flag or the kubeconfig cannot be used.";

/// Look once at the cluster: version, CRDs, rights, admission policies, Lease
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CheckArgs {
    /// Namespace of the operator
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", default_value = NAMESPACE)]
    namespace: String,

    /// Look again until all is well, or so many seconds are over
    #[arg(
        long,
        value_name = "SECONDS",
        allow_negative_numbers = true,
        default_value = "0"
    )]
    wait: String,

    /// Say instead whether the operator may be removed: no fence is in progress, and no Node has a taint of its own
    #[arg(long)]
    uninstall: bool,

    /// Kubeconfig file [default: KUBECONFIG, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// One look at the cluster: checked, and complete.
#[derive(Debug, Clone)]
pub struct Checking {
    /// The operator's namespace.
    pub namespace: String,
    /// How long it may take until all is well.
    pub wait: Duration,
    /// Whether it may be removed, in place of whether it is well.
    pub uninstall: bool,
    /// Kubeconfig file; none: `KUBECONFIG`, or else the pod's service account.
    pub kubeconfig: Option<PathBuf>,
}

impl CheckArgs {
    pub(super) fn validated(self) -> Result<Checking, Error> {
        Ok(Checking {
            wait: seconds("--wait", &self.wait, &WAIT_SECONDS_RANGE)?,
            namespace: namespace("--namespace (POD_NAMESPACE)", self.namespace)?,
            uninstall: self.uninstall,
            kubeconfig: self.kubeconfig,
        })
    }
}
