//! `kubectl fence generate`: FenceDevices and policies to be read, changed and applied, out of what is known already.
//!
//! It prints YAML that the API server accepts and changes nothing. What is not known is not guessed: it is printed as comments that say what is
//! missing.

mod bmc_address;
mod consumers;
mod devices;
mod document;
mod hosts;
mod policy;
mod providers;
mod scan;
mod selector;

use super::Done;
use super::reach::Reach;
use clap::Subcommand;

/// Print FenceDevices or a policy to review and apply
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Devices(Box<devices::Args>),
    Policy(Box<policy::Args>),
}

/// Runs the command.
///
/// # Errors
/// [`Error`].
pub async fn run(reach: &Reach, args: Args) -> Done {
    match args.what {
        What::Devices(args) => devices::run(reach, *args).await,
        What::Policy(args) => policy::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory as _, Parser};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn exactly_one_source_is_named_with_what_belongs_to_it() {
        Line::command().debug_assert();
        let is_usable = |line: &str| {
            let words = ["generate", "devices"].into_iter();
            Line::try_parse_from(words.chain(line.split_whitespace())).is_ok()
        };
        for line in [
            "--from-bmh",
            "--from-bmh -A --label tier=bmc",
            "--from-bmh --bmh-namespace metal3 --ca-config-map bmc-ca",
            "--from-provider-ids --label tier=vm --ca-config-map vcenter-ca",
            "--from-redfish-scan 10.0.0.1 10.0.0.2 --ca ca.pem",
            "--from-redfish-scan -f bmcs.txt --username fence --password-stdin --yes",
        ] {
            assert!(is_usable(line), "{line}");
        }
        for line in [
            "",
            "--from-bmh --from-redfish-scan 10.0.0.1",
            "--from-bmh --from-provider-ids",
            "--from-provider-ids -A",
            "--from-bmh -A --bmh-namespace metal3",
            "--from-bmh --insecure",
            "--from-bmh -f bmcs.txt",
            "--from-bmh --credentials bmc",
            "--from-redfish-scan 10.0.0.1 --bmh-namespace metal3",
            "--from-redfish-scan 10.0.0.1 --yes",
            "--from-redfish-scan 10.0.0.1 --insecure --ca ca.pem",
            "--from-redfish-scan 10.0.0.1 --password calvin",
        ] {
            assert!(!is_usable(line), "{line}");
        }
    }
}
