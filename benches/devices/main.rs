//! `make bench-devices`: what it costs to turn off a hundred BMCs, and to ask one for its status.
//!
//! It is in this package and not in the lab, because it calls the operator's own drivers and its confirm engine, which the lab does not know;
//! `make bench-rest` of the lab runs the operator's binary. The devices are in a process of their own ([`emulators`]), so that what a process is seen to use is the driver's. Beside ours the same devices are turned off and read by
//! `fence_ipmilan` and `ipmitool`, in the same run. What is printed is a block of Markdown; progress goes to standard error.

#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark measures how long things take"
)]

mod fleet;
mod off;
mod ours;
mod status;
mod theirs;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use fencing_testbed::bench::Cores;
use fencing_testbed::bench::awake::Awake;
use fencing_testbed::bench::emulators;

/// What devices cost.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    /// How often 100 BMCs are turned off; for figures that mean something, at least 10. fence_ipmilan does it a fifth as often.
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// How often a status is read in each way; for figures that mean something, at least 20.
    #[arg(long, default_value_t = 30)]
    readings: usize,
    /// Machines of a provider.
    #[arg(long, default_value_t = 1000)]
    machines: usize,
    /// How many minutes each provider's machines are probed by lists; for figures that mean something, at least 3.
    #[arg(long, default_value_t = 3)]
    minutes: usize,
    /// Only this part; repeatable.
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
    /// What cargo calls a benchmark with.
    #[arg(long, hide = true)]
    bench: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// 100 BMCs are turned off and confirmed.
    Off,
    /// One status is read.
    Status,
    /// 1,000 machines of each provider are probed: a quarter of an hour.
    Fleet,
}

/// What this program is when it has started itself.
#[derive(Subcommand)]
enum Role {
    /// So many emulated devices, until standard input ends.
    #[command(hide = true)]
    Emulate { ipmi: usize, redfish: usize },
    /// A provider with so many machines, until standard input ends.
    #[command(hide = true)]
    Provide { name: String, machines: usize },
    /// The one process that turns off the BMCs that standard input names.
    #[command(hide = true)]
    TurnOff,
}

#[tokio::main]
async fn main() -> Result<()> {
    // Fails only if there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = Arguments::parse();
    match arguments.role {
        Some(Role::Emulate { ipmi, redfish }) => emulators::serve(ipmi, redfish).await,
        Some(Role::Provide { name, machines }) => fleet::provide(&name, machines).await,
        Some(Role::TurnOff) => off::turn_off().await,
        None => measure(&arguments).await,
    }
}

async fn measure(arguments: &Arguments) -> Result<()> {
    let Arguments {
        rounds, readings, ..
    } = *arguments;
    let is_nothing = rounds == 0 || readings == 0 || arguments.minutes == 0;
    ensure!(!is_nothing, "no rounds, no figures");
    let wants = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    let awake = Awake::every_core()?;
    let before = Cores::now();
    let mut blocks = Vec::new();
    if wants(Part::Off) {
        blocks.push(off::measure(rounds).await?);
    }
    if wants(Part::Status) {
        blocks.push(status::measure(readings).await?);
    }
    if wants(Part::Fleet) {
        blocks.push(fleet::measure(arguments.machines, arguments.minutes).await?);
    }
    awake.check()?;
    println!(
        "Emulated devices in a process of their own, release build; {} cores for all of it, kept awake;\n{}. Median (minimum to maximum).\n",
        std::thread::available_parallelism()?,
        Cores::now().since(&before)
    );
    println!("{}", blocks.join("\n"));
    Ok(())
}
