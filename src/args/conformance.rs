//! The flags of `node-fencing-operator conformance`.

use super::Error;
use super::probe::{DeviceArgs, Probing, off_time};
use clap::Args;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  Does the service keep the contract? The FenceDevice and its Secret are in one file; nothing is switched:
      node-fencing-operator conformance fence.yaml --node worker-3 --node-uuid 4c4c4544-0042-3510-8052-b4c04f4a4d32

  Also turn the machine of a test node off and on again, hard (it ends its workload):
      node-fencing-operator conformance fence.yaml --node test-1 --node-uuid 4c4c4544-0042-3510-8052-b4c04f4a4d33 --power-cycle --yes

Exit codes: 0 every rule that was tried is kept; 1 one is not, or settings, address or Secret cannot be used; 2 a file cannot be read or a \
flag cannot be used, nothing was sent.";

/// Try each rule of the webhook contract against the service of a FenceDevice of a file, without a cluster
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ConformanceArgs {
    #[command(flatten)]
    device: DeviceArgs,

    /// Also turn the machine off, hard, and on again, and send an off for another machine before; needs --yes and --node-uuid
    #[arg(long, requires = "node_uuid")]
    power_cycle: bool,

    /// Yes, turn it off
    #[arg(long)]
    yes: bool,

    /// How long the machine may take with --power-cycle to go off, and to come on, in seconds [default: 90]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    timeout: Option<String>,
}

/// A trial of a service: checked, and complete.
#[derive(Debug, Clone)]
pub struct Conforming {
    /// Which device, for which node.
    pub device: Probing,
    /// Turn the machine off and on again.
    pub power_cycle: bool,
    /// How long it may take to go off, and to come on.
    pub time_max: Duration,
}

impl ConformanceArgs {
    pub(super) fn validated(self) -> Result<Conforming, Error> {
        if self.power_cycle != self.yes {
            let words = match self.power_cycle {
                true => {
                    "--power-cycle would turn the machine off, hard, and end its workload; add --yes if that is meant, or leave --power-cycle out"
                }
                false => "--yes only confirms --power-cycle; add --power-cycle, or leave --yes out",
            };
            return Err(Error::Unclear(words.to_owned()));
        }
        Ok(Conforming {
            power_cycle: self.power_cycle,
            time_max: off_time(self.timeout.as_deref())?,
            device: self.device.validated()?,
        })
    }
}
